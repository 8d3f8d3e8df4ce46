//! The structures and constants that the headers share with the library: the same on both sides, to the byte.

use std::fmt::Write as _;
use std::mem::{align_of, offset_of, size_of};
use std::process::Command;

use gpufs_device::file::{Stat, Statx, StatxTimestamp, TimeSpec};
use gpufs_device_c::print::RawArgument;
use gpufs_host::transfer::TransferCount;

use crate::options::Options;
use crate::sandbox::{GivenSandbox, Reach, Tree};
use crate::statistics::{FailureKind, Statistics};
use crate::transfer::{GivenPart, GivenTransferOptions};
use crate::version::VERSION;

const TYPES: &str = include_str!("../../include/gpufs/types.h");
const HOST: &str = include_str!("../../include/gpufs/host.h");
const TRANSFER: &str = include_str!("../../include/gpufs/transfer.h");
const STAT: &str = include_str!("../../include/gpufs/stat.h");
const GPUFS: &str = include_str!("../../include/gpufs/gpufs.h");

/// A structure of C and its Rust counterpart.
struct Layout {
    /// The header that declares it.
    header: &'static str,
    /// Its name in C.
    name: &'static str,
    size: usize,
    align: usize,
    /// Each field of C, and its offset in Rust.
    fields: Vec<(&'static str, usize)>,
}

fn layouts() -> [Layout; 14] {
    /// The fields, by the name that both languages have for them, or by C's name and Rust's path.
    macro_rules! fields {
        ($rust:ty: $($name:ident $(= $($path:ident).+)?)*) => {
            vec![$((stringify!($name), fields!(@ $rust, $name $(= $($path).+)?)),)*]
        };
        (@ $rust:ty, $name:ident) => { offset_of!($rust, $name) };
        (@ $rust:ty, $name:ident = $($path:ident).+) => { offset_of!($rust, $($path).+) };
    }
    fn of<T>(header: &'static str, name: &'static str, fields: Vec<(&'static str, usize)>) -> Layout {
        Layout { header, name, size: size_of::<T>(), align: align_of::<T>(), fields }
    }
    [
        of::<Options>(HOST, "gpufs_options", Options::FIELDS.to_vec()),
        of::<Tree>(HOST, "gpufs_tree", fields!(Tree: path access reserved)),
        of::<Reach>(HOST, "gpufs_reach", fields!(Reach: address what reserved)),
        of::<GivenSandbox>(
            HOST,
            "gpufs_sandbox",
            fields!(GivenSandbox: size trees tree_count services service_count standard_streams
                as_far_as_possible sockets socket_count socket_pairs reserved),
        ),
        of::<Statistics>(
            HOST,
            "gpufs_statistics",
            fields!(Statistics: size rings mode operations = total.operations publications = total.publications
                completions = total.completions empty_looks = total.empty_looks stale = total.stale
                slot_waits = total.slot_waits bytes_read = total.bytes_read bytes_written = total.bytes_written
                wake_ups = total.wake_ups failed_calls cache_hits cache_misses cache_evictions
                cache_write_backs cache_waits),
        ),
        of::<FailureKind>(HOST, "gpufs_failure", fields!(FailureKind: call error reserved count)),
        of::<TimeSpec>(STAT, "gpufs_timespec", fields!(TimeSpec: tv_sec tv_nsec)),
        of::<Stat>(
            STAT,
            "struct gpufs_stat",
            fields!(Stat: st_dev st_ino st_nlink st_mode st_uid st_gid pad st_rdev
                st_size st_blksize st_blocks st_atim st_mtim st_ctim reserved),
        ),
        of::<StatxTimestamp>(STAT, "gpufs_statx_timestamp", fields!(StatxTimestamp: tv_sec tv_nsec reserved)),
        of::<Statx>(
            STAT,
            "struct gpufs_statx",
            fields!(Statx: stx_mask stx_blksize stx_attributes stx_nlink stx_uid stx_gid stx_mode spare0
                stx_ino stx_size stx_blocks stx_attributes_mask stx_atime stx_btime stx_ctime stx_mtime
                stx_rdev_major stx_rdev_minor stx_dev_major stx_dev_minor stx_mnt_id stx_dio_mem_align
                stx_dio_offset_align spare),
        ),
        of::<GivenPart>(
            TRANSFER,
            "gpufs_part",
            fields!(GivenPart: descriptor memory_kind memory bytes offset row_bytes row_offsets),
        ),
        of::<GivenTransferOptions>(
            TRANSFER,
            "gpufs_transfer_options",
            fields!(GivenTransferOptions: size stream on_stream reserved),
        ),
        of::<TransferCount>(
            TRANSFER,
            "gpufs_transfer_count",
            fields!(TransferCount: reads writes bytes_read bytes_written),
        ),
        of::<RawArgument>(TYPES, "gpufs_argument", fields!(RawArgument: kind length bits)),
    ]
}

/// The headers assert size and offsets to the C compiler. The numbers that they assert are Rust's, and no field is left out.
#[test]
fn the_headers_assert_the_layouts_of_rust() {
    for Layout { header, name, size, fields, .. } in layouts() {
        let line = format!("GPUFS_SIZE_({name}, {size});");
        assert!(header.contains(&line), "the header has no {line}");
        for (field, offset) in &fields {
            let line = format!("GPUFS_OFFSET_({name}, {field}, {offset});");
            assert!(header.contains(&line), "the header has no {line}");
        }
        let asserted = header.matches(&format!("GPUFS_OFFSET_({name}, ")).count();
        assert_eq!(asserted, fields.len(), "{name}");
        let (_, body) = header
            .split_once(&format!("struct {} {{\n", name.trim_start_matches("struct ")))
            .expect("the structure");
        let (body, _) = body.split_once("\n}").expect("its end");
        // Lines of comments begin with an asterisk.
        let lines = body.lines().map(str::trim_start).filter(|line| !line.starts_with('*'));
        let declared = lines.filter(|line| line.split("/*").next().is_some_and(|code| code.contains(';')));
        assert_eq!(declared.count(), fields.len(), "fields of {name} in the header");
    }
}

/// The C compiler agrees, and alignments and constants are the same.
#[test]
fn the_c_compiler_has_the_same_layouts() {
    let mut source = "#include <gpufs/transfer.h>\n#include <gpufs/stat.h>\n".to_owned();
    let mut check = |condition: String| {
        let _ = writeln!(source, "_Static_assert({condition}, \"{condition}\");");
    };
    for Layout { name, size, align, fields, .. } in layouts() {
        check(format!("sizeof({name}) == {size}"));
        check(format!("_Alignof({name}) == {align}"));
        for (field, offset) in fields {
            check(format!("offsetof({name}, {field}) == {offset}"));
        }
    }
    check(format!("GPUFS_PATH_BYTES == {}", gpufs_device_c::PATH_BYTES));
    check(format!("GPUFS_FOPEN_MODE_BYTES == {}", gpufs_device_c::MODE_BYTES));
    check(format!("GPUFS_VERSION == {VERSION}"));
    use gpufs_device::format::Kind;
    for (name, kind) in [
        ("SIGNED", Kind::Signed),
        ("UNSIGNED", Kind::Unsigned),
        ("DOUBLE", Kind::Double),
        ("POINTER", Kind::Pointer),
        ("C_STRING", Kind::CString),
        ("BYTES", Kind::Bytes),
        ("CHAR", Kind::Char),
        ("ERROR", Kind::Error),
        ("WIDE", Kind::Wide),
        ("PLACE", Kind::Place),
        ("WIDE_PLACE", Kind::WidePlace),
    ] {
        check(format!("GPUFS_ARGUMENT_{name} == {}", kind as u32));
    }
    let file = std::env::temp_dir().join(format!("gpufs-layout-{}.c", std::process::id()));
    std::fs::write(&file, source).unwrap();
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../include");
    let compiled = Command::new("cc").args(["-std=c11", "-fsyntax-only", "-I", include]).arg(&file).status();
    let _ = std::fs::remove_file(&file);
    match compiled {
        Ok(status) => assert!(status.success()),
        Err(error) => println!("SKIP the_c_compiler_has_the_same_layouts: cc: {error}"),
    }
}

/// The version of the headers is Cargo's, which is the library's.
#[test]
fn the_headers_have_the_version_of_cargo() {
    for (part, number) in [
        ("MAJOR", env!("CARGO_PKG_VERSION_MAJOR")),
        ("MINOR", env!("CARGO_PKG_VERSION_MINOR")),
        ("PATCH", env!("CARGO_PKG_VERSION_PATCH")),
    ] {
        let line = format!("#define GPUFS_VERSION_{part} {number}\n");
        assert!(GPUFS.contains(&line), "gpufs.h has no {line}");
    }
    assert_eq!(crate::gpufs_version(), VERSION);
}

//! `gpufs_core::abi` against the system's own headers: a C program prints what the compiler makes of
//! `linux/io_uring.h` and `linux/stat.h`, and every mirrored member and constant must agree.
//!
//! A name that the header is too old to have is printed as SKIP. Without a C compiler the whole comparison is.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::PathBuf;
use std::process::Command;

use gpufs_core::Errno;
use gpufs_core::abi::{
    AT_FDCWD, Cqe, CqringOffsets, EPOLL_CTL_DEL, FLAGS, FilesUpdate, IORING_OFF_SQ_RING, IORING_OFF_SQES,
    OPCODES, OpenHow, Params, Probe, ProbeOp, RESOLVE_CACHED, Sqe, SqringOffsets, Stat, Statx,
    StatxTimestamp, TimeSpec,
};

const HEADERS: &str = "\
#include <stddef.h>
#include <stdio.h>
#include <errno.h>
#include <sys/stat.h>
#include <linux/types.h>
#include <linux/fcntl.h>
#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <sys/epoll.h>
#include <linux/stat.h>
";

/// One number that Rust and C must agree on.
struct Claim {
    name: String,
    rust: i128,
    /// C expressions for it, newest header first; the first that compiles counts.
    c: Vec<String>,
    /// Whether a header may be too old to have it.
    optional: bool,
}

impl Claim {
    fn new(name: String, rust: usize, c: Vec<String>) -> Self {
        Self { name, rust: rust as i128, optional: c.len() > 1, c }
    }
    fn constant(name: &str, rust: i128) -> Self {
        Self { name: name.into(), rust, c: vec![name.into()], optional: true }
    }
}

fn size_and_align<T, F>(_member: fn(&T) -> &F) -> (usize, usize) {
    (size_of::<F>(), align_of::<F>())
}

/// The size of a whole structure, and its alignment: C's, times `stricter`.
fn whole<T>(claims: &mut Vec<Claim>, rust: &str, c: &str, stricter: usize) {
    claims.push(Claim::new(format!("{rust} size"), size_of::<T>(), vec![format!("sizeof({c})")]));
    claims.push(Claim::new(
        format!("{rust} align"),
        align_of::<T>(),
        vec![format!("{stricter} * _Alignof({c})")],
    ));
}

/// Each member as `rust = "c name"`, or `rust = "newer" | "older"` where headers disagree on the name.
macro_rules! members {
    ($claims:ident, $type:ident, $c:literal: $($field:ident = $($name:literal)|+),* $(,)?) => {$(
        let (size, align) = size_and_align(|whole: &$type| &whole.$field);
        let name = |what: &str| format!("{}.{} {what}", stringify!($type), stringify!($field));
        $claims.push(Claim::new(name("offset"), offset_of!($type, $field), vec![
            $(format!("offsetof({}, {})", $c, $name)),+
        ]));
        $claims.push(Claim::new(name("size"), size, vec![$(format!("sizeof((({} *)0)->{})", $c, $name)),+]));
        $claims.push(Claim::new(name("align"), align, vec![
            $(format!("_Alignof(__typeof__((({} *)0)->{}))", $c, $name)),+
        ]));
    )*};
}

fn entry_claims() -> Vec<Claim> {
    let mut claims = Vec::new();
    // Entries are stored 16 bytes at a time, so Rust aligns them to 16; their arrays begin a page.
    whole::<Sqe>(&mut claims, "Sqe", "struct io_uring_sqe", 2);
    members!(claims, Sqe, "struct io_uring_sqe":
        opcode = "opcode", flags = "flags", ioprio = "ioprio", fd = "fd", off = "off", addr = "addr", len = "len",
        op_flags = "rw_flags", user_data = "user_data", buf_index = "buf_index", personality = "personality",
        file_index = "file_index", addr3 = "addr3", pad = "__pad2");
    // The members of C's unions that other operations mean lie where the one mirrored member lies.
    for (name, rust, c) in [
        ("off as the second address", offset_of!(Sqe, off), "addr2"),
        ("op_flags as open_flags", offset_of!(Sqe, op_flags), "open_flags"),
        ("op_flags as statx_flags", offset_of!(Sqe, op_flags), "statx_flags"),
        ("op_flags as fsync_flags", offset_of!(Sqe, op_flags), "fsync_flags"),
        ("op_flags as unlink_flags", offset_of!(Sqe, op_flags), "unlink_flags"),
        ("op_flags as rename_flags", offset_of!(Sqe, op_flags), "rename_flags"),
    ] {
        let c = vec![format!("offsetof(struct io_uring_sqe, {c})")];
        claims.push(Claim::new(format!("Sqe.{name}"), rust, c));
    }
    whole::<Cqe>(&mut claims, "Cqe", "struct io_uring_cqe", 2);
    members!(claims, Cqe, "struct io_uring_cqe": user_data = "user_data", res = "res", flags = "flags");
    claims
}

fn setup_claims() -> Vec<Claim> {
    let mut claims = Vec::new();
    whole::<Params>(&mut claims, "Params", "struct io_uring_params", 1);
    members!(claims, Params, "struct io_uring_params":
        sq_entries = "sq_entries", cq_entries = "cq_entries", flags = "flags", sq_thread_cpu = "sq_thread_cpu",
        sq_thread_idle = "sq_thread_idle", features = "features", wq_fd = "wq_fd", resv = "resv", sq_off = "sq_off",
        cq_off = "cq_off");
    whole::<SqringOffsets>(&mut claims, "SqringOffsets", "struct io_sqring_offsets", 1);
    members!(claims, SqringOffsets, "struct io_sqring_offsets":
        head = "head", tail = "tail", ring_mask = "ring_mask", ring_entries = "ring_entries", flags = "flags",
        dropped = "dropped", array = "array", resv1 = "resv1", user_addr = "user_addr" | "resv2");
    whole::<CqringOffsets>(&mut claims, "CqringOffsets", "struct io_cqring_offsets", 1);
    members!(claims, CqringOffsets, "struct io_cqring_offsets":
        head = "head", tail = "tail", ring_mask = "ring_mask", ring_entries = "ring_entries", overflow = "overflow",
        cqes = "cqes", flags = "flags", resv1 = "resv1", user_addr = "user_addr" | "resv2");
    whole::<FilesUpdate>(&mut claims, "FilesUpdate", "struct io_uring_rsrc_update", 1);
    members!(claims, FilesUpdate, "struct io_uring_rsrc_update": offset = "offset", resv = "resv", data = "data");
    whole::<OpenHow>(&mut claims, "OpenHow", "struct open_how", 1);
    members!(claims, OpenHow, "struct open_how": flags = "flags", mode = "mode", resolve = "resolve");
    whole::<ProbeOp>(&mut claims, "ProbeOp", "struct io_uring_probe_op", 1);
    members!(claims, ProbeOp, "struct io_uring_probe_op": op = "op", resv = "resv", flags = "flags", resv2 = "resv2");
    members!(claims, Probe, "struct io_uring_probe":
        last_op = "last_op", ops_len = "ops_len", resv = "resv", resv2 = "resv2");
    // The header's array is of open length, so only its beginning can be compared.
    let ops = vec!["offsetof(struct io_uring_probe, ops)".into()];
    claims.push(Claim::new("Probe.ops offset".into(), offset_of!(Probe, ops), ops));
    claims
}

fn stat_claims() -> Vec<Claim> {
    let mut claims = Vec::new();
    whole::<StatxTimestamp>(&mut claims, "StatxTimestamp", "struct statx_timestamp", 1);
    members!(claims, StatxTimestamp, "struct statx_timestamp":
        tv_sec = "tv_sec", tv_nsec = "tv_nsec", reserved = "__reserved");
    whole::<Statx>(&mut claims, "Statx", "struct statx", 1);
    members!(claims, Statx, "struct statx":
        stx_mask = "stx_mask", stx_blksize = "stx_blksize", stx_attributes = "stx_attributes",
        stx_nlink = "stx_nlink", stx_uid = "stx_uid", stx_gid = "stx_gid", stx_mode = "stx_mode",
        spare0 = "__spare0", stx_ino = "stx_ino", stx_size = "stx_size", stx_blocks = "stx_blocks",
        stx_attributes_mask = "stx_attributes_mask", stx_atime = "stx_atime", stx_btime = "stx_btime",
        stx_ctime = "stx_ctime", stx_mtime = "stx_mtime", stx_rdev_major = "stx_rdev_major",
        stx_rdev_minor = "stx_rdev_minor", stx_dev_major = "stx_dev_major", stx_dev_minor = "stx_dev_minor",
        stx_mnt_id = "stx_mnt_id" | "__spare2", stx_dio_mem_align = "stx_dio_mem_align" | "__spare2[1]",
        stx_dio_offset_align = "stx_dio_offset_align" | "__spare2[1]");
    // What follows the last mirrored member is one array here and named members there.
    let end = "(offsetof(struct statx, stx_dev_minor) + sizeof(__u32) + 2 * sizeof(__u64))";
    let (size, _) = size_and_align(|whole: &Statx| &whole.spare);
    claims.push(Claim::new("Statx.spare offset".into(), offset_of!(Statx, spare), vec![end.into()]));
    claims.push(Claim::new("Statx.spare size".into(), size, vec![format!("sizeof(struct statx) - {end}")]));
    if cfg!(target_arch = "x86_64") {
        whole::<TimeSpec>(&mut claims, "TimeSpec", "struct timespec", 1);
        whole::<Stat>(&mut claims, "Stat", "struct stat", 1);
        members!(claims, Stat, "struct stat":
            st_dev = "st_dev", st_ino = "st_ino", st_nlink = "st_nlink", st_mode = "st_mode", st_uid = "st_uid",
            st_gid = "st_gid", st_rdev = "st_rdev", st_size = "st_size", st_blksize = "st_blksize",
            st_blocks = "st_blocks", st_atim = "st_atim", st_mtim = "st_mtim", st_ctim = "st_ctim");
    } else {
        println!("SKIP Stat: struct stat of x86-64 is what every device has");
    }
    claims
}

fn constant_claims() -> Vec<Claim> {
    let places = [("IORING_OFF_SQ_RING", IORING_OFF_SQ_RING), ("IORING_OFF_SQES", IORING_OFF_SQES)];
    let mut claims = vec![
        Claim::constant("AT_FDCWD", AT_FDCWD.into()),
        Claim::constant("RESOLVE_CACHED", RESOLVE_CACHED.into()),
        Claim::constant("EPOLL_CTL_DEL", EPOLL_CTL_DEL.into()),
    ];
    for &(name, value) in OPCODES.iter().chain(FLAGS).chain(&places) {
        claims.push(Claim::constant(name, value.into()));
    }
    for number in 1..=4095 {
        if let Some(name) = Errno::from_number(number).name() {
            claims.push(Claim::constant(name, number.into()));
        }
    }
    claims
}

/// The system's C compiler and a folder for its files.
struct Compiler {
    command: String,
    folder: PathBuf,
}

impl Compiler {
    fn find() -> Result<Self, String> {
        let command = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        match Command::new(&command).arg("--version").output() {
            Ok(output) if output.status.success() => Ok(Self { command, folder }),
            Ok(output) => Err(format!("`{command} --version` ended with {}", output.status)),
            Err(error) => Err(format!("no C compiler `{command}`: {error}")),
        }
    }
    /// Compiles a program with this body; its path, or what the compiler said.
    fn compile(&self, name: &str, body: &str) -> Result<PathBuf, String> {
        // Other runs of this test may use the folder at the same time.
        let name = format!("{name}_{}", std::process::id());
        let (file, program) = (self.folder.join(format!("{name}.c")), self.folder.join(name));
        let source = format!("{HEADERS}int main(void) {{\n{body}    return 0;\n}}\n");
        std::fs::write(&file, &source).expect("the target folder is writable");
        let output = Command::new(&self.command)
            .args(["-std=gnu11", "-w", "-o"])
            .args([&program, &file])
            .output()
            .expect("the compiler ran a moment ago");
        if output.status.success() {
            Ok(program)
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
    /// Whether the header has what `expression` names. Members and enumerators cannot be asked for with `#ifdef`, so a
    /// compilation asks.
    fn has(&self, expression: &str) -> bool {
        self.compile("abi_probe", &format!("    long long value = ({expression});\n")).is_ok()
    }
    /// The value of each claim's C expression, by the claim's index; none where the header does not have it.
    fn evaluate(&self, claims: &[Claim]) -> HashMap<usize, i128> {
        let mut body = String::new();
        for (index, claim) in claims.iter().enumerate() {
            let expression =
                if claim.optional { claim.c.iter().find(|c| self.has(c)) } else { claim.c.first() };
            if let Some(expression) = expression {
                writeln!(body, "    printf(\"{index} %lld\\n\", (long long)({expression}));").unwrap();
            }
        }
        let program = self.compile("abi_values", &body).unwrap_or_else(|said| panic!("{said}\n{body}"));
        let output = Command::new(program).output().expect("the program was just compiled");
        let printed = String::from_utf8(output.stdout).expect("the program prints digits");
        let pairs = printed.lines().map(|line| line.split_once(' ').expect("two numbers a line"));
        pairs.map(|(index, value)| (index.parse().unwrap(), value.parse().unwrap())).collect()
    }
}

#[test]
fn mirrors_agree_with_the_systems_headers() {
    let compiler = match Compiler::find() {
        Ok(compiler) => compiler,
        Err(reason) => return println!("SKIP mirrors_agree_with_the_systems_headers: {reason}"),
    };
    compiler
        .compile("abi_headers", "")
        .unwrap_or_else(|said| panic!("the kernel's headers (package linux-libc-dev) are needed:\n{said}"));

    let claims: Vec<Claim> =
        [entry_claims(), setup_claims(), stat_claims(), constant_claims()].into_iter().flatten().collect();
    let values = compiler.evaluate(&claims);
    let mut wrong = String::new();
    for (index, claim) in claims.iter().enumerate() {
        match values.get(&index) {
            None => println!("SKIP {}: not in this header", claim.name),
            Some(&value) if value == claim.rust => {}
            Some(value) => {
                let line = format!("{}: {} here, {value} in the header\n", claim.name, claim.rust);
                wrong.push_str(&line);
            }
        }
    }
    println!("{} of {} compared", values.len(), claims.len());
    assert!(wrong.is_empty(), "{wrong}");
    assert!(values.len() > 200, "a header that has io_uring at all has most of the names");
}

/// Each number's name and text are the C library's.
#[test]
fn errors_are_the_c_librarys() {
    let mut named = 0;
    for number in 1..=4095 {
        let errno = Errno::from_number(number);
        // The text, and the number behind it.
        let text = std::io::Error::from_raw_os_error(number).to_string();
        let text = text.strip_suffix(&format!(" (os error {number})")).expect("as std prints it");
        if let Some(name) = errno.name() {
            named += 1;
            assert_eq!((errno.text(), errno.message().to_str()), (text, Ok(text)), "{name}");
        } else {
            assert_eq!((format!("Unknown error {number}").as_str(), errno.text()), (text, "Unknown error"));
        }
    }
    assert_eq!(named, 131);
}

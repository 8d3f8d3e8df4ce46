//! Structures that cross to C. Each begins with its size as the caller's header has it, so that it can grow: what a caller does not know
//! keeps its default.

use std::time::Duration;

use gpufs_host::cpu::CpuOptions;
use gpufs_host::ring::{Mode, RingMemory};
use gpufs_host::{Builder, Session};

use crate::error::Failure;

/// `gpufs_options`: 0 stands for the default everywhere. The header says what each is.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Options {
    /// Bytes of the caller's structure.
    pub size: usize,
    /// Rings.
    pub rings: u32,
    /// Submission entries of a ring.
    pub ring_entries: u32,
    /// `GPUFS_MODE_…`.
    pub mode: u32,
    /// `GPUFS_RING_MEMORY_…`.
    pub ring_memory: u32,
    /// Bytes of pinned memory for data in all.
    pub buffer_bytes: u64,
    /// Bytes of one stream buffer.
    pub stream_buffer_bytes: u32,
    /// Buffers that a writing stream asks for.
    pub blocks_per_stream: u32,
    /// Open files.
    pub files: u32,
    /// Open streams.
    pub streams: u32,
    /// Registered buffers.
    pub registered_buffers: u32,
    /// Milliseconds after which an idle SQPOLL thread sleeps.
    pub idle_ms: u32,
    /// Milliseconds without progress after which a wait on the device gives up.
    pub deadline_ms: u64,
    /// CPU lanes: lanes of a warp.
    pub warp_width: u32,
    /// CPU lanes: OS threads.
    pub threads: u32,
    /// Bytes of a lane's stack, or of a GPU thread's.
    pub stack_bytes: u64,
    /// 1: failed calls, and modes that are refused, are not told of on the standard error.
    pub quiet: u32,
    /// 0.
    pub reserved: u32,
}

/// `gpufs_statistics`: sums over all rings.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Statistics {
    /// Bytes of the caller's structure.
    pub size: usize,
    /// Rings.
    pub rings: u32,
    /// `GPUFS_MODE_…`: who serves them.
    pub mode: u32,
    /// Operations submitted.
    pub operations: u64,
    /// Stores of a submission queue's tail.
    pub publications: u64,
    /// Completions drained.
    pub completions: u64,
    /// Looks at a completion queue that found it empty.
    pub empty_looks: u64,
    /// Completions that no operation waited for.
    pub stale: u64,
    /// Times that a warp found no free slot.
    pub slot_waits: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Times that a sleeping SQPOLL thread was woken.
    pub wake_ups: u64,
    /// Calls that failed; `UINT64_MAX` where it is not known.
    pub failed_calls: u64,
}

/// `gpufs_failure`: how often a call failed with an error.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FailureKind {
    /// The call's name; a constant.
    pub call: *const std::ffi::c_char,
    /// The error number; 0 for one that Linux does not have.
    pub error: i32,
    /// 0.
    pub reserved: u32,
    /// How often.
    pub count: u64,
}

/// `GPUFS_MODE_…`, `GPUFS_MODE_BEST` being 0.
pub(crate) fn number_of(mode: Mode) -> u32 {
    match mode {
        Mode::Sqpoll => 1,
        Mode::Enter => 2,
        Mode::Threads => 3,
    }
}

/// Copies a structure that C gave, as far as both know it.
///
/// # Errors
/// `EINVAL` for a size that no header had, and for what this library does not know and is not 0.
///
/// # Safety
/// `given` is null or begins with a `size_t` that says how many bytes of it are there.
unsafe fn copied(given: *const Options) -> Result<Options, Failure> {
    let mut options = Options::default();
    if given.is_null() {
        return Ok(options);
    }
    // SAFETY:
    // - by this function's contract
    let size = unsafe { (*given).size };
    let known = size_of::<Options>();
    if !(size_of::<usize>()..=1 << 16).contains(&size) {
        return Err(Failure::new(libc::EINVAL, "gpufs_options: size is not sizeof(gpufs_options)"));
    }
    // SAFETY:
    // - `size` bytes are there, by this function's contract
    let bytes = unsafe { core::slice::from_raw_parts(given.cast::<u8>(), size) };
    if bytes.get(known..).unwrap_or_default().iter().any(|byte| *byte != 0) {
        return Err(Failure::new(
            libc::EINVAL,
            "gpufs_options: it has choices that this library is too old for",
        ));
    }
    // SAFETY:
    // - both are as long as the shorter one; any bytes are numbers
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut options).cast::<u8>(), size.min(known));
    }
    Ok(options)
}

/// The builder and the CPU lanes' options that C asks for.
///
/// # Errors
/// `EINVAL` for numbers that mean nothing.
///
/// # Safety
/// As [`copied`].
pub(crate) unsafe fn builder(given: *const Options) -> Result<(Builder, CpuOptions), Failure> {
    // SAFETY:
    // - this function's contract
    let options = unsafe { copied(given)? };
    let mut builder = Session::builder();
    let set = |value: u32| (value != 0).then_some(value);
    if let Some(rings) = set(options.rings) {
        builder = builder.rings(rings);
    }
    if let Some(entries) = set(options.ring_entries) {
        builder = builder.ring_entries(entries);
    }
    builder = match options.mode {
        0 => builder,
        1 => builder.mode(Mode::Sqpoll),
        2 => builder.mode(Mode::Enter),
        3 => builder.mode(Mode::Threads),
        other => return Err(Failure::new(libc::EINVAL, format!("gpufs_options: there is no mode {other}"))),
    };
    builder = match options.ring_memory {
        0 => builder,
        1 => builder.ring_memory(RingMemory::Kernel),
        2 => builder.ring_memory(RingMemory::Caller),
        3 => builder.ring_memory(RingMemory::Runtime),
        other => {
            return Err(Failure::new(
                libc::EINVAL,
                format!("gpufs_options: there is no ring_memory {other}"),
            ));
        }
    };
    if options.buffer_bytes != 0 {
        builder = builder.buffers(usize::try_from(options.buffer_bytes).unwrap_or(usize::MAX));
    }
    if let Some(bytes) = set(options.stream_buffer_bytes) {
        builder = builder.stream_buffer(bytes);
    }
    if let Some(blocks) = set(options.blocks_per_stream) {
        builder = builder.blocks_per_stream(blocks);
    }
    if let Some(files) = set(options.files) {
        builder = builder.files(files);
    }
    if let Some(streams) = set(options.streams) {
        builder = builder.streams(streams);
    }
    if let Some(buffers) = set(options.registered_buffers) {
        builder = builder.registered_buffers(buffers);
    }
    if let Some(idle) = set(options.idle_ms) {
        builder = builder.idle(Duration::from_millis(idle.into()));
    }
    if options.deadline_ms != 0 {
        builder = builder.deadline(Duration::from_millis(options.deadline_ms));
    }
    builder = match (options.quiet, options.reserved) {
        (0, 0) => builder,
        (1, 0) => builder.report_failures(false).report_fallback(false),
        (0 | 1, _) => return Err(Failure::new(libc::EINVAL, "gpufs_options: reserved is not 0")),
        (other, _) => {
            return Err(Failure::new(libc::EINVAL, format!("gpufs_options: quiet is {other}, not 0 or 1")));
        }
    };
    let stack = usize::try_from(options.stack_bytes).unwrap_or(usize::MAX);
    let mut cpu = CpuOptions::default();
    if let Some(width) = set(options.warp_width) {
        cpu.width = width;
    }
    if let Some(threads) = set(options.threads) {
        cpu.threads = threads as usize;
    }
    if stack != 0 {
        cpu.stack_bytes = stack;
        builder = builder.gpu_stack(stack);
    }
    Ok((builder, cpu))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::mem::offset_of;
    use std::process::Command;

    use gpufs_device_c::print::RawArgument;

    use super::{FailureKind, Options, Statistics};

    /// The header's structures are these, to the byte: the C compiler says so.
    #[test]
    fn the_header_has_the_same_layouts() {
        let mut source = "#include <gpufs/host.h>\n".to_owned();
        macro_rules! same {
            ($rust:ty, $c:literal: $($field:ident)*) => {
                let _ = writeln!(source, "_Static_assert(sizeof({0}) == {1}, \"size of {0}\");", $c, size_of::<$rust>());
                let _ = writeln!(source, "_Static_assert(_Alignof({0}) == {1}, \"alignment of {0}\");", $c, align_of::<$rust>());
                $(let _ = writeln!(
                    source,
                    "_Static_assert(offsetof({0}, {1}) == {2}, \"{0}.{1}\");",
                    $c,
                    stringify!($field),
                    offset_of!($rust, $field)
                );)*
            };
        }
        same!(Options, "gpufs_options": size rings ring_entries mode ring_memory buffer_bytes stream_buffer_bytes
            blocks_per_stream files streams registered_buffers idle_ms deadline_ms warp_width threads stack_bytes quiet reserved);
        same!(Statistics, "gpufs_statistics": size rings mode operations publications completions empty_looks stale
            slot_waits bytes_read bytes_written wake_ups failed_calls);
        same!(FailureKind, "gpufs_failure": call error reserved count);
        let _ = writeln!(
            source,
            "_Static_assert(GPUFS_PATH_BYTES == {}, \"paths\");",
            gpufs_device_c::PATH_BYTES
        );
        let _ = writeln!(
            source,
            "_Static_assert(GPUFS_FOPEN_MODE_BYTES == {}, \"modes\");",
            gpufs_device_c::MODE_BYTES
        );
        same!(RawArgument, "gpufs_argument": kind length bits);
        use gpufs_device::format::Kind;
        for (name, kind) in [
            ("SIGNED", Kind::Signed),
            ("UNSIGNED", Kind::Unsigned),
            ("DOUBLE", Kind::Double),
            ("POINTER", Kind::Pointer),
            ("C_STRING", Kind::CString),
            ("BYTES", Kind::Bytes),
            ("CHAR", Kind::Char),
        ] {
            let _ = writeln!(source, "_Static_assert(GPUFS_ARGUMENT_{name} == {}, \"{name}\");", kind as u32);
        }
        let file = std::env::temp_dir().join(format!("gpufs-layout-{}.c", std::process::id()));
        std::fs::write(&file, source).unwrap();
        let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../include");
        let compiled =
            Command::new("cc").args(["-std=c11", "-fsyntax-only", "-I", include]).arg(&file).status();
        let _ = std::fs::remove_file(&file);
        match compiled {
            Ok(status) => assert!(status.success()),
            Err(error) => println!("SKIP the_header_has_the_same_layouts: cc: {error}"),
        }
    }
}

//! `gpufs_options`: one table of its fields, and where each goes.
//!
//! The structure begins with its size as the caller's header has it, so that it can grow. A field that the caller does not know keeps its
//! default.

use std::ffi::{CStr, OsStr, c_char};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use gpufs_host::cpu::CpuOptions;
use gpufs_host::ring::{Mode, RingMemory};
use gpufs_host::{Builder, Schedule, Session};

use crate::error::{Failure, duplicate};
use crate::sandbox::{self, GivenSandbox};

/// What the options choose.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// The session.
    pub(crate) builder: Builder,
    /// Its lanes, if it runs on the CPU.
    pub(crate) cpu: CpuOptions,
}

impl Chosen {
    fn build(self, change: impl FnOnce(Builder) -> Builder) -> Result<Self, Failure> {
        Ok(Self { builder: change(self.builder), cpu: self.cpu })
    }
    fn lanes(mut self, change: impl FnOnce(&mut CpuOptions)) -> Result<Self, Failure> {
        change(&mut self.cpu);
        Ok(self)
    }
}

/// Declares [`Options`] from its table: a line for each field, with what a value other than 0 does.
macro_rules! options {
    ($($(#[$doc:meta])* $field:ident: $number:ty => $apply:expr;)*) => {
        /// `gpufs_options`: 0 stands for the default everywhere. The header has the contract of each field.
        #[derive(Clone, Copy, Debug, Default)]
        #[repr(C)]
        pub struct Options {
            /// Bytes of the caller's structure.
            pub size: usize,
            $($(#[$doc])* pub $field: $number,)*
        }

        impl Options {
            /// Applies each field that is not 0, in the order of the table.
            ///
            /// # Errors
            /// `EINVAL` for a number without a meaning.
            fn apply(&self, mut chosen: Chosen) -> Result<Chosen, Failure> {
                $(if self.$field != 0 {
                    let apply: fn(Chosen, $number) -> Result<Chosen, Failure> = $apply;
                    chosen = apply(chosen, self.$field)?;
                })*
                Ok(chosen)
            }

            /// Each field's name and offset.
            #[cfg(test)]
            pub(crate) const FIELDS: &[(&str, usize)] = &[
                ("size", std::mem::offset_of!(Options, size)),
                $((stringify!($field), std::mem::offset_of!(Options, $field)),)*
            ];
        }
    };
}

options! {
    /// Rings.
    rings: u32 => |chosen, rings| chosen.build(|builder| builder.rings(rings));
    /// Submission entries of a ring.
    ring_entries: u32 => |chosen, entries| chosen.build(|builder| builder.ring_entries(entries));
    /// `GPUFS_MODE_…`.
    mode: u32 => |chosen, number| {
        let mode = named("mode", number, [Mode::Sqpoll, Mode::Enter, Mode::Threads], number_of)?;
        chosen.build(|builder| builder.mode(mode))
    };
    /// `GPUFS_RING_MEMORY_…`.
    ring_memory: u32 => |chosen, number| {
        let all = [RingMemory::Kernel, RingMemory::Caller, RingMemory::Runtime];
        let memory = named("ring_memory", number, all, number_of_memory)?;
        chosen.build(|builder| builder.ring_memory(memory))
    };
    /// Bytes of pinned memory for data in all.
    buffer_bytes: u64 => |chosen, bytes| chosen.build(|builder| builder.buffers(in_memory(bytes)));
    /// Bytes of one stream buffer.
    stream_buffer_bytes: u32 => |chosen, bytes| chosen.build(|builder| builder.stream_buffer(bytes));
    /// Buffers that a writing stream asks for.
    blocks_per_stream: u32 => |chosen, blocks| chosen.build(|builder| builder.blocks_per_stream(blocks));
    /// Open files.
    files: u32 => |chosen, files| chosen.build(|builder| builder.files(files));
    /// Open streams.
    streams: u32 => |chosen, streams| chosen.build(|builder| builder.streams(streams));
    /// Registered buffers.
    registered_buffers: u32 => |chosen, buffers| chosen.build(|builder| builder.registered_buffers(buffers));
    /// Milliseconds without work after which an SQPOLL thread sleeps.
    idle_ms: u32 => |chosen, idle| chosen.build(|builder| builder.idle(Duration::from_millis(idle.into())));
    /// Milliseconds without progress after which a wait on the device gives up.
    deadline_ms: u64 => |chosen, limit| chosen.build(|builder| builder.deadline(Duration::from_millis(limit)));
    /// CPU lanes: lanes of a warp.
    warp_width: u32 => |chosen, width| chosen.lanes(|cpu| cpu.width = width);
    /// CPU lanes: OS threads.
    threads: u32 => |chosen, threads| chosen.lanes(|cpu| cpu.threads = threads as usize);
    /// Bytes of the stack of a lane or of a GPU thread.
    stack_bytes: u64 => |chosen, bytes| {
        let bytes = in_memory(bytes);
        chosen.lanes(|cpu| cpu.stack_bytes = bytes)?.build(|builder| builder.gpu_stack(bytes))
    };
    /// `GPUFS_QUIET_…`: no lines on the standard error about failed calls, refused modes, or both.
    quiet: u32 => |chosen, quiet| match quiet {
        1 => chosen.build(|builder| builder.report_failures(false).report_fallback(false)),
        2 => chosen.build(|builder| builder.report_failures(false)),
        3 => chosen.build(|builder| builder.report_fallback(false)),
        other => Err(refused(format!("quiet is {other}; use one of GPUFS_QUIET_…"))),
    };
    /// 0.
    reserved: u32 => |_, _| Err(refused("reserved is not 0"));
    /// The address of a [`GivenSandbox`].
    sandbox: usize => |chosen, address| {
        let given: *const GivenSandbox = core::ptr::with_exposed_provenance(address);
        if !given.is_aligned() {
            return Err(refused("sandbox: not the address of a gpufs_sandbox"));
        }
        // SAFETY:
        // - not null, and aligned, as checked; otherwise by the contract of `chosen`
        let sandbox = unsafe { sandbox::named(given)? };
        chosen.build(|builder| builder.sandbox(sandbox))
    };
    /// Milliseconds that a lane waits for another party.
    wait_limit_ms: u64 => |chosen, limit| {
        chosen.build(|builder| builder.wait_limit(Duration::from_millis(limit)))
    };
    /// Bytes of device memory in which a warp puts its records together.
    assembly_bytes: u64 => |chosen, bytes| chosen.build(|builder| builder.assembly(in_memory(some(bytes))));
    /// Bytes of device memory for lines that are read ahead.
    read_ahead_bytes: u64 => |chosen, bytes| {
        chosen.build(|builder| builder.read_ahead(in_memory(some(bytes))))
    };
    /// CPU lanes: the seed of the order in which lanes run.
    seed: u64 => |chosen, seed| chosen.lanes(|cpu| cpu.schedule = Schedule::Seeded(seed));
    /// `GPUFS_SURVIVES_…`.
    survives: u32 => |chosen, survives| match survives {
        1 | 2 => chosen.build(|builder| builder.survives(survives == 1)),
        other => Err(refused(format!("there is no survives {other}; use one of GPUFS_SURVIVES_…"))),
    };
    /// The most registers of a thread of a kernel that the driver compiles.
    gpu_registers: u32 => |chosen, registers| chosen.build(|builder| builder.gpu_registers(registers));
    /// CPU lanes: warps that an OS thread has started and not ended.
    resident_warps: u32 => |chosen, warps| chosen.lanes(|cpu| cpu.resident_warps = warps as usize);
    /// A descriptor that stands in for the standard output; duplicated.
    standard_output: u32 => |chosen, descriptor| {
        let descriptor = i32::try_from(descriptor).map_err(|_| refused("standard_output is no descriptor"))?;
        // SAFETY:
        // - not −1: it was a number without a sign
        // - the borrow ends with the next call, fcntl(2), which fails if the descriptor is not open
        let ours = duplicate(unsafe { BorrowedFd::borrow_raw(descriptor) })?;
        chosen.build(|builder| builder.standard_output(ours))
    };
    /// Bytes of device memory for pages of mapped files.
    cache_bytes: u64 => |chosen, bytes| chosen.build(|builder| builder.cache(in_memory(bytes)));
    /// Bytes of such a page.
    cache_page_bytes: u32 => |chosen, bytes| chosen.build(|builder| builder.cache_page(bytes));
    /// 0.
    reserved_again: u32 => |_, _| Err(refused("reserved_again is not 0"));
    /// The address of a path.
    trace: usize => |chosen, address| {
        let path: *const c_char = core::ptr::with_exposed_provenance(address);
        // SAFETY:
        // - not null, as it is not 0; a string with its NUL by the contract of `chosen`, which stays meanwhile
        let path = unsafe { CStr::from_ptr(path) };
        chosen.build(|builder| builder.trace(OsStr::from_bytes(path.to_bytes())))
    };
    /// Bytes of pinned memory for what kernels trace.
    trace_memory_bytes: u64 => |chosen, bytes| {
        chosen.build(|builder| builder.trace_memory(in_memory(some(bytes))))
    };
}

fn refused(text: impl std::fmt::Display) -> Failure {
    Failure::new(libc::EINVAL, format!("gpufs_options: {text}"))
}

/// A number of bytes; one that no memory has is refused by the builder, with its own text.
fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// `GPUFS_NO_BYTES` as a number of bytes.
fn some(bytes: u64) -> u64 {
    if bytes == u64::MAX { 0 } else { bytes }
}

/// The choice that a field's number names.
///
/// # Errors
/// `EINVAL` for a number that names none.
fn named<T: Copy>(field: &str, number: u32, all: [T; 3], number_of: fn(T) -> u32) -> Result<T, Failure> {
    all.into_iter().find(|choice| number_of(*choice) == number).ok_or_else(|| {
        refused(format!("there is no {field} {number}; use one of GPUFS_{}_…", field.to_uppercase()))
    })
}

/// `GPUFS_MODE_…`, `GPUFS_MODE_BEST` being 0.
pub(crate) fn number_of(mode: Mode) -> u32 {
    match mode {
        Mode::Sqpoll => 1,
        Mode::Enter => 2,
        Mode::Threads => 3,
    }
}

/// `GPUFS_RING_MEMORY_…`, `GPUFS_RING_MEMORY_DEFAULT` being 0.
fn number_of_memory(memory: RingMemory) -> u32 {
    match memory {
        RingMemory::Kernel => 1,
        RingMemory::Caller => 2,
        RingMemory::Runtime => 3,
    }
}

/// Copies the caller's structure: the fields that both the caller's header and this library have.
///
/// # Errors
/// `EINVAL` for a size that no header has, and for a byte other than 0 beyond this library's fields.
///
/// # Safety
/// `given` is null, or is aligned and begins with a `size_t`, the number of its bytes that may be read.
unsafe fn copied(given: *const Options) -> Result<Options, Failure> {
    let mut options = Options::default();
    if given.is_null() {
        return Ok(options);
    }
    // SAFETY:
    // - not null, as checked above
    // - aligned, and its first field may be read, by this function's contract
    let size = unsafe { (*given).size };
    let known = size_of::<Options>();
    if !(size_of::<usize>()..=1 << 16).contains(&size) {
        return Err(refused(format!("size is {size}, not sizeof(gpufs_options)")));
    }
    // SAFETY:
    // - `size` bytes may be read, by this function's contract
    // - bytes have no alignment, and every bit pattern is one
    // - no longer than 64 KiB, as checked above
    let bytes = unsafe { core::slice::from_raw_parts(given.cast::<u8>(), size) };
    if bytes.get(known..).unwrap_or_default().iter().any(|byte| *byte != 0) {
        return Err(refused(
            "a field is set that this libgpufs does not have; gpufs_version() says which version it is",
        ));
    }
    // SAFETY:
    // - both structures have the shorter one's bytes
    // - `options` is this function's own, so that they do not overlap
    // - every bit pattern is a value of `Options`, which has numbers only
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut options).cast::<u8>(), size.min(known));
    }
    Ok(options)
}

/// What C chooses.
///
/// # Errors
/// `EINVAL` for a structure or a number without a meaning.
///
/// # Safety
/// As [`copied`]; `sandbox` is 0, or the address of a `gpufs_sandbox` as the header says; `trace` is 0, or the address of a string with its NUL.
pub(crate) unsafe fn chosen(given: *const Options) -> Result<Chosen, Failure> {
    // SAFETY:
    // - this function's contract
    let options = unsafe { copied(given)? };
    options.apply(Chosen { builder: Session::builder(), cpu: CpuOptions::default() })
}

#[cfg(test)]
mod tests {
    /// The names that follow `before` in a text, as far as they are names.
    fn after<'a>(text: &'a str, before: &str) -> Vec<&'a str> {
        let is_name = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
        text.match_indices(before)
            .map(|(at, _)| text[at + before.len()..].split(|byte| !is_name(byte)).next().unwrap_or_default())
            .collect()
    }

    /// What a program in Rust can choose, a program in C can choose: each method of the builder that changes it, but for services, which
    /// `gpufs_host_add_service` adds; each field of the options of CPU lanes.
    #[test]
    fn each_choice_of_the_builder_is_an_option() {
        let table = include_str!("options.rs").split("mod tests").next().unwrap();
        let builder = include_str!("../../gpufs-host/src/session/builder.rs");
        let trace = include_str!("../../gpufs-host/src/session/trace.rs");
        let choices: Vec<_> = builder
            .lines()
            .chain(trace.lines())
            .filter(|line| line.contains("(mut self"))
            .flat_map(|line| after(line, "pub fn "))
            .collect();
        assert!(choices.len() > 20, "{choices:?}");
        for choice in choices {
            assert!(table.contains(&format!(".{choice}(")), "Builder::{choice} is no option in C");
        }
        let lanes = include_str!("../../gpufs-host/src/cpu/mod.rs");
        let lanes = lanes.split("pub struct CpuOptions {").nth(1).unwrap().split("\n}").next().unwrap();
        let choices = after(lanes, "pub ");
        assert_eq!(choices.len(), 5, "{choices:?}");
        for choice in choices {
            assert!(table.contains(&format!("cpu.{choice} = ")), "CpuOptions::{choice} is no option in C");
        }
    }
}

//! Kernels of the whole-stack tests that run on every device. What they share with the host lies in a registered buffer.
#![cfg_attr(any(target_arch = "nvptx64", target_arch = "amdgpu"), no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]
#![cfg_attr(target_arch = "amdgpu", feature(abi_gpu_kernel))]
#![expect(unsafe_code, reason = "memory shared with the host, at an address that is an argument")]

mod attempts;
mod calls;
mod channels;
#[path = "../../../examples/csv/kernel.rs"]
mod csv;
mod hostile;
mod meetings;
mod pending;
mod records;
mod traces;
mod views;

use gpufs_core::word::SharedWord;
use gpufs_device::warp::global_thread;
use gpufs_device::{fprintf, kernel};

pub use attempts::{Attempt, What, attempt};
pub use calls::{
    Chunk, DONE, END, ERROR, Format, HASH_START, Handle, KEEP, Op, PIECES_MAX, SCAN_BYTES, SCANS, STOP,
    Script, UNTOUCHED, Verb, hash, piece, print_formats, resolve, script,
};
pub use channels::answer_numbers;
pub use csv::totals;
pub use hostile::{Answer, BATCH_MAX, Harm, HostileCall, hostile_call, hostile_entries};
pub use meetings::{Piece, RECORD, pattern, share_out, transfer};
pub use pending::{BLOCK, await_two, copy_by_chains, start_and_cancel, start_and_wait};
pub use records::{Call, Job, Letters, Report, drawn, print_records, rounds_of};
pub use traces::{Round, TraceJob, trace_rounds};
pub use views::{OWN, elements_after, view_programs, view_scan};

kernel! {
    /// Every thread prints up to `rounds` lines to `file`, and stores how many of its calls have returned at `progress`, one 32-bit
    /// word for each thread. Thread `victim`, when `after` of its calls have returned, writes to `address`.
    pub fn print_until_fault(
        fs: Fs,
        file: gpufs_device::File,
        progress: u64,
        rounds: u32,
        victim: u64,
        after: u32,
        address: u64,
    ) {
        let _ = fs;
        let thread = global_thread();
        // SAFETY:
        // - the host registered a word for each thread there, and reads it as a shared word
        let progress = unsafe { &*((progress + thread * 4) as *const SharedWord) };
        for round in 0..rounds {
            if fprintf!(file, c"thread %lu iter %u value %f\n", thread, round, thread as f64 * 0.5).is_err() {
                return;
            }
            // ORDERING: release, system, partner the host: what the call did comes before.
            progress.publish(round + 1);
            if thread == victim && round + 1 == after {
                // SAFETY:
                // - none: it is to fault, unless the host gave an address that is valid
                unsafe { (address as *mut u32).write_volatile(1) };
            }
        }
    }
}

kernel! {
    /// Every thread prints `rounds` lines to `file`.
    pub fn print(fs: Fs, file: gpufs_device::File, rounds: u32) {
        let _ = fs;
        let thread = global_thread();
        for round in 0..rounds {
            let _ = fprintf!(file, c"thread %lu iter %u value %f\n", thread, round, thread as f64 * 0.5);
        }
    }
}

//! What a GPU does without gpufs: its own `printf`, plain loads and stores over the bus, and a thread of the host that answers.

use core::ffi::c_void;

use gpufs_core::word::SharedWord;
use gpufs_device::kernel;
use gpufs_device::warp::{Machine, Warp, clock, global_thread, grid_threads, nap};

use crate::{Times, copy_wide, sampled, timed, warp_index};

/// Where in the shared memory of [`ping_pong()`] the host answers, in bytes.
pub const ANSWER_AT: u64 = 2048;

kernel! {
    /// One lane sends numbers, each after the host's answer to the last. Gives up if no answer comes for a second.
    pub fn ping_pong(fs: Fs, shared: u64, rounds: u32, times: u64) {
        let _ = fs;
        // SAFETY:
        // - the host made both words, and outlives the kernel
        let (call, answer) =
            unsafe { (&*(shared as *const SharedWord), &*((shared + ANSWER_AT) as *const SharedWord)) };
        let mut alive = true;
        sampled(Times(times), rounds, |round| round + 1, |number| {
            // ORDERING: release, system, partner the host's acquire.
            call.publish(number);
            let mut polls = 0_u32;
            let mut since = 0;
            // Ends: with the answer, or after a second without.
            // ORDERING: acquire, system, partner the host's release.
            while alive && answer.observe() != number {
                polls += 1;
                if polls.is_multiple_of(1 << 16) {
                    let now = clock();
                    if since != 0 && now - since > 1_000_000_000 {
                        alive = false;
                        Times(times).put(0, Times::SHORT);
                    }
                    since = if since == 0 { now } else { since };
                }
                if cfg!(not(target_arch = "nvptx64")) {
                    nap(0);
                }
            }
        });
    }
}

/// The arguments of the line below, as `vprintf` finds them.
#[repr(C)]
struct Line {
    thread: u64,
    round: u32,
    value: f64,
}

#[cfg(target_arch = "nvptx64")]
unsafe extern "C" {
    /// The driver's own; it keeps the format's address and a copy of the arguments until the kernel has ended.
    fn vprintf(format: *const u8, arguments: *const c_void) -> i32;
}

/// Not on a CPU.
///
/// # Safety
/// None needed.
#[cfg(not(target_arch = "nvptx64"))]
unsafe fn vprintf(_: *const u8, _: *const c_void) -> i32 {
    -1
}

kernel! {
    /// Every thread prints the lines of `print_lines` with CUDA's `printf`.
    pub fn print_cuda(fs: Fs, rounds: u32) {
        let _ = fs;
        let thread = global_thread();
        for round in 0..rounds {
            let line = Line { thread, round, value: thread as f64 * 0.5 };
            let arguments: *const Line = &raw const line;
            // SAFETY:
            // - the format is a constant, and the arguments are what it names, laid out as C's variable arguments
            let _ = unsafe { vprintf(c"thread %lu iter %u value %f\n".as_ptr().cast(), arguments.cast()) };
            // The fields are read behind the compiler's back.
            let Line { thread: _, round: _, value: _ } = line;
        }
    }
}

kernel! {
    /// Every warp stores its `piece` of device memory to its place in the host's, in words of 16 bytes.
    pub fn store_raw(fs: Fs, device: u64, pinned: u64, piece: u64, rounds: u32, times: u64) {
        let _ = fs;
        let at = u64::from(warp_index()) * piece;
        timed(Times(times), rounds, |_| {
            copy_wide(pinned + at, device + at, piece);
            compiler_barrier();
        });
    }
}

kernel! {
    /// Every warp loads its `piece` of the host's memory into its place in device memory, in words of 16 bytes.
    pub fn load_raw(fs: Fs, device: u64, pinned: u64, piece: u64, rounds: u32, times: u64) {
        let _ = fs;
        let index = warp_index();
        let warps = u32::try_from(grid_threads() / u64::from(Machine::width())).unwrap_or(1);
        timed(Times(times), rounds, |round| {
            // Another warp's piece each time, so that no cache has it.
            let from = u64::from(index.wrapping_add(round.wrapping_mul(5)) % warps) * piece;
            copy_wide(device + u64::from(index) * piece, pinned + from, piece);
            compiler_barrier();
        });
    }
}

/// Each round's loads and stores are made.
fn compiler_barrier() {
    // SAFETY:
    // - no instruction
    #[cfg(any(target_arch = "nvptx64", target_arch = "x86_64", target_arch = "aarch64"))]
    unsafe {
        core::arch::asm!("", options(nostack));
    }
}

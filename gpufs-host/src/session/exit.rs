//! The end of the process: sessions that are still open then are flushed, as C's streams are (`exit(3)`).
//!
//! The handler is registered with `atexit(3)` once the first session is open, and once more after the first on a GPU: handlers run in
//! the reverse order, so it runs before those that the GPU's runtime had registered until then. It waits for kernels for [`WAIT_MAX`] in all,
//! and then writes what calls had accepted. A session that it has flushed can still be used, by a destructor that runs later, and closed.
//!
//! Where a process ends without handlers, nothing is written: `_exit(2)`, `quick_exit(3)`, `abort(3)`, a signal, another program in its place
//! (`execve(2)`). In a forked child the handler does nothing: its sessions are the parent's.
#![expect(unsafe_code, reason = "registers the handler")]

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gpufs_core::word::DeviceWord;

use super::live::{self, Limits, Live};
use crate::cpu;
use crate::process::Process;

/// How long the handler waits for kernels, of all sessions together.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Registers the handler, once. After a session was opened.
pub(super) fn register(on_gpu: bool) {
    /// 1 once it is registered: for CPU lanes, and after a GPU's runtime.
    static REGISTERED: [DeviceWord; 2] = [const { DeviceWord::new(0) }; 2];
    // ORDERING: acquire and release, no partner: one of several threads registers it.
    if REGISTERED[usize::from(on_gpu)].compare_exchange(0, 1).is_ok() {
        // SAFETY:
        // - the handler may be called at any time after; the library that has it stays loaded (`gpufs-c/build.rs`)
        // A refusal (no memory) leaves the program as it would be without.
        let _ = unsafe { libc::atexit(at_exit) };
    }
}

/// What runs at the end.
extern "C" fn at_exit() {
    // There is no session, or none of this process.
    let Some(process) = Process::if_any() else { return };
    let on_lane = cpu::is_lane();
    // A kernel whose lane is here does not end. A call of another thread does, or begins to wait for kernels.
    let for_kernels = if on_lane { Duration::ZERO } else { WAIT_MAX };
    let flush = move || flush_all(process, for_kernels);
    if on_lane {
        // A lane's stack is small.
        let helper = thread::Builder::new().name("gpufs exit".to_owned()).spawn(flush);
        if let Ok(helper) = helper {
            // It has a limit.
            let _ = helper.join();
        }
    } else {
        flush();
    }
}

fn flush_all(process: &'static Process, for_kernels: Duration) {
    /// When the waiting ends, once it has begun.
    static LIMITS: Mutex<Option<Limits>> = Mutex::new(None);
    let limits = *LIMITS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| {
        let now = Instant::now();
        Limits { kernels: now + for_kernels, calls: now + WAIT_MAX }
    });
    let sessions: Vec<Arc<Live>> = live::list(process).iter().map(Arc::clone).collect();
    for session in sessions {
        if let Err(lost) = session.flush_at_exit(limits) {
            eprintln!("gpufs: at the end of the process: {lost}");
        }
    }
}

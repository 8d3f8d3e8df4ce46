//! Lanes whose threads are stopped for ever at a random instruction, as a device that dies under its session.
#![expect(unsafe_code, reason = "signals")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use gpufs_core::word::DeviceWord;
use gpufs_host::session::{Fault, SyncError};

/// Threads that run lanes, as the system numbers them; 0 for none.
static LANE_THREADS: [DeviceWord; 16] = [const { DeviceWord::new(0) }; 16];
/// How many of them have stopped for ever.
static STOPPED: DeviceWord = DeviceWord::new(0);
/// One test at a time stops threads.
static STOPPING: Mutex<()> = Mutex::new(());

/// Held by a test that stops threads.
pub fn alone() -> MutexGuard<'static, ()> {
    STOPPING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a lane that is to be stopped says on which thread it runs.
pub fn register_lane() {
    // SAFETY:
    // - no memory is involved
    let thread = unsafe { libc::gettid() }.cast_unsigned();
    let _ =
        LANE_THREADS.iter().any(|place| place.compare_exchange(0, thread).is_ok() || place.peek() == thread);
}

extern "C" fn stop(_: i32) {
    STOPPED.fetch_add(1);
    loop {
        // SAFETY:
        // - waits for a signal, which no one sends
        unsafe { libc::pause() };
    }
}

/// Stops the lanes' threads for ever, wherever they are.
///
/// # Panics
/// No lane has registered, or a thread has ended.
pub fn stop_lanes() {
    // SAFETY:
    // - the handler touches an atomic and never returns
    unsafe { libc::signal(libc::SIGUSR2, stop as *const () as libc::sighandler_t) };
    let threads: Vec<u32> = LANE_THREADS.iter().map(DeviceWord::peek).filter(|thread| *thread != 0).collect();
    assert!(!threads.is_empty());
    for thread in &threads {
        // SAFETY:
        // - no memory is involved
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), *thread, libc::SIGUSR2) };
        assert_eq!(sent, 0, "the lanes run until they are stopped");
    }
    // Ends: the signal reaches every thread.
    while STOPPED.observe() as usize != threads.len() {
        thread::yield_now();
    }
    LANE_THREADS.iter().for_each(|place| place.set(0));
    STOPPED.set(0);
}

/// The fault that an error is.
///
/// # Panics
/// It is another error.
#[must_use]
pub fn fault(error: SyncError) -> Fault {
    match error {
        SyncError::Fault(fault) => *fault,
        other => panic!("{other:?}"),
    }
}

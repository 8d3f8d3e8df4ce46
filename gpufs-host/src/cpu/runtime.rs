//! The table that device code calls through, and the thread-local that says which lane runs.
#![expect(unsafe_code, reason = "the thread-local points at the running lane's warp")]

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use gpufs_core::lanes::{LaneRuntime, ONE_LANE};
use gpufs_core::word::DeviceWord;

use super::warp::Warp;

/// The lane that runs on an OS thread.
#[derive(Clone, Copy, Debug)]
struct Running {
    warp: NonNull<Warp>,
    lane: u32,
}

thread_local! {
    static RUNNING: Cell<Option<Running>> = const { Cell::new(None) };
}

/// Calls `resume`, which switches to `lane` of `warp` and returns when the lane suspends or ends.
#[inline]
pub(super) fn while_running<R>(warp: &Warp, lane: u32, resume: impl FnOnce() -> R) -> R {
    // `resume` does not unwind (it catches), so the thread-local never outlives the call.
    RUNNING.set(Some(Running { warp: NonNull::from(warp), lane }));
    let errno = errno();
    // SAFETY:
    // - the OS thread's own `errno`: valid and aligned while the thread runs, which it does not leave in between
    unsafe { errno.write(warp.errno(lane).get()) };
    let result = resume();
    // SAFETY:
    // - as above
    warp.errno(lane).set(unsafe { errno.read() });
    RUNNING.set(None);
    result
}

/// The place of the OS thread's `errno`, which each lane has for itself while it runs.
#[inline]
fn errno() -> *mut i32 {
    // SAFETY:
    // - it has no preconditions
    unsafe { libc::__errno_location() }
}

/// Does `inside` for the calling lane, or `outside` on a thread that runs none.
#[inline]
fn on_lane<R>(inside: impl FnOnce(&Warp, u32) -> R, outside: impl FnOnce() -> R) -> R {
    // A copy: no borrow of the thread-local is held while the lane is suspended.
    match RUNNING.get() {
        // SAFETY:
        // - `while_running` is above this on the OS thread and borrows the warp until the lane suspends; whoever resumes the lane
        //   calls `while_running` again with the same warp, which lives until its lanes have ended
        // - the warp is only ever borrowed shared
        Some(Running { warp, lane }) => inside(unsafe { warp.as_ref() }, lane),
        None => outside(),
    }
}

/// Whether the calling code is a lane's.
pub(crate) fn is_lane() -> bool {
    RUNNING.get().is_some()
}

/// The longest sleep of a thread without lanes in a nap.
const NAP_MAX: Duration = Duration::from_micros(50);

/// A nap on a thread that runs no lane, but calls the device's functions itself. The ring service may be parked.
fn nap_outside(nanoseconds: u32) {
    if nanoseconds < 1_000 {
        thread::yield_now();
    } else {
        crate::ring::rouse();
        thread::sleep(Duration::from_nanos(nanoseconds.into()).min(NAP_MAX));
    }
}

static CLOCK_START: LazyLock<Instant> = LazyLock::new(Instant::now);

thread_local! {
    /// What tells a thread that runs no lane from other threads and from launches.
    static THREAD: Cell<u32> = Cell::new(launch_number());
}

/// Launches and threads so far.
static NUMBERS: DeviceWord = DeviceWord::new(0);

/// Lanes that are in a call on a session whose launch they do not belong to. That session's ring service may be parked.
static ABROAD: DeviceWord = DeviceWord::new(0);

/// Whether some lane is in such a call.
pub(super) fn are_abroad() -> bool {
    // ORDERING: relaxed: the lane's own count is seen by its thread.
    ABROAD.peek() != 0
}

/// A number that no launch has that runs, nor a thread that calls the device's functions itself: 24 bits are told apart.
pub(super) fn launch_number() -> u32 {
    // ORDERING: relaxed: the number orders nothing.
    NUMBERS.fetch_add_relaxed(1)
}

/// The runtime of CPU lanes. A thread that runs no lane is a warp of one.
pub(super) static RUNTIME: LaneRuntime = LaneRuntime {
    width: || on_lane(|warp, _| warp.width, || 1),
    lane: || on_lane(|_, lane| lane, || 0),
    position: || on_lane(Warp::position, || (ONE_LANE.position)()),
    launch: || on_lane(|warp, _| u64::from(warp.launch()), || u64::from(THREAD.get())),
    calling: |call| on_lane(|warp, lane| warp.calling(lane, call), || 1),
    meeting: || on_lane(Warp::meeting, || 0),
    collective: |mask, meeting, what, value, argument| {
        on_lane(
            |warp, lane| warp.collective(lane, (mask, meeting), what, value, argument),
            // SAFETY:
            // - a thread is a warp of one: nobody else takes part
            || unsafe { (ONE_LANE.collective)(mask, meeting, what, value, argument) },
        )
    },
    nap: |nanoseconds| {
        if are_abroad() {
            crate::ring::rouse();
        }
        on_lane(|warp, lane| warp.nap(lane, nanoseconds), || nap_outside(nanoseconds));
    },
    on_lane: || RUNNING.get().is_some(),
    session: || on_lane(|warp, _| warp.session(), || 0),
    passes: |begins| {
        if is_lane() {
            // ORDERING: relaxed: a hint for the lane itself, and for others a poll too many.
            ABROAD.count(if begins { 1 } else { u32::MAX });
        }
    },
    clock: || u64::try_from(CLOCK_START.elapsed().as_nanos()).unwrap_or(u64::MAX),
};

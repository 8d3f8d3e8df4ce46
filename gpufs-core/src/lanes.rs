//! The seam between device code that runs on a CPU and the runtime that gives it lanes.
//!
//! `gpufs-device` calls through [`runtime`]; `gpufs-host` installs its fibers with [`install`]. Where nothing is installed, or the
//! calling thread runs no lane, code runs as a warp of one lane, so a kernel's I/O logic can be called from an ordinary thread.
//! Nothing here exists on a GPU.

use core::sync::atomic::{AtomicPtr, Ordering};

pub use crate::Position;

/// What the lanes named in a mask do together. All of them must come with the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Collective {
    /// Bit `i` of the result says whether lane `i` brought a non-zero value.
    Ballot,
    /// The result is the value that the lane named in `argument` brought; each lane names its own.
    Shuffle,
    /// The result is the value that the lane named in `argument` brought; all name the same.
    Broadcast,
    /// The result is the wrapping sum of the values that lower lanes of the mask brought.
    Scan,
    /// No value: what each did before is visible to all after.
    Sync,
}

/// A CPU-lane runtime. Each function is called on a lane and concerns that lane.
#[derive(Clone, Copy, Debug)]
pub struct LaneRuntime {
    /// Lanes in a warp: 1 to 64.
    pub width: fn() -> u32,
    /// The calling lane's index in its warp, below `width`.
    pub lane: fn() -> u32,
    /// Where the calling lane stands in its launch.
    pub position: fn() -> Position,
    /// What tells the caller's launch from all others that run; of a thread that runs no lane, the thread. Of 24 bits.
    pub launch: fn() -> u64,
    /// The lanes of the warp that make this call together, as a mask that holds the caller. `call` says which it is, as
    /// [`Call::identity`](crate::Call::identity) or [`CallSite::identity`](crate::call::CallSite::identity): lanes that brought different
    /// ones are never put together.
    pub calling: fn(call: usize) -> u64,
    /// The number of the group that `calling` last put the calling lane into: its *meeting*. No other group of the warp has it, and it is not 0.
    pub meeting: fn() -> u64,
    /// One [`Collective`] of the lanes in `lanes`: (`lanes`, their meeting, what, value, argument). Returns when all of them have called. Lanes that
    /// name different meetings never take part in one: so what a program's own lanes do together is not taken for a step of a call in which
    /// others of them still are.
    ///
    /// # Safety
    /// The meeting is the caller's, or 0 where no call of the device's library takes part: that follows addresses that lanes tell each other.
    pub collective: unsafe fn(u64, u64, Collective, u64, u32) -> u64,
    /// Lets other lanes and warps run, for about this many nanoseconds or less. Every waiting loop calls it.
    pub nap: fn(u32),
    /// Nanoseconds of a monotonic clock.
    pub clock: fn() -> u64,
    /// Whether the caller is a kernel's lane, rather than a thread of the host's.
    pub on_lane: fn() -> bool,
    /// The session whose launch the calling lane belongs to, as in [`Gate::session`](crate::gate::Gate::session); 0 of a launch of no session's,
    /// and of a thread that runs no lane.
    pub session: fn() -> u64,
    /// The caller begins (`true`) or ends a call on a session whose launch it does not belong to.
    pub passes: fn(begins: bool),
}

static INSTALLED: AtomicPtr<LaneRuntime> = AtomicPtr::new(core::ptr::null_mut());

/// Makes `runtime` the process's CPU-lane runtime. Installing the same one again changes nothing.
///
/// # Safety
/// Each function does what its field says: device code relies on it.
#[expect(unsafe_code, reason = "device code relies on the functions")]
pub unsafe fn install(runtime: &'static LaneRuntime) {
    // ORDERING: release, partner `runtime`: a thread that sees the pointer sees the table's contents.
    INSTALLED.store(core::ptr::from_ref(runtime).cast_mut(), Ordering::Release);
}

/// The process's CPU-lane runtime, or the one-lane runtime.
#[inline]
pub fn runtime() -> &'static LaneRuntime {
    // ORDERING: acquire, partner `install`.
    let installed = INSTALLED.load(Ordering::Acquire);
    // SAFETY:
    // - the pointer is null or came from a `&'static LaneRuntime` in `install`
    #[expect(unsafe_code, reason = "a static reference kept in an atomic")]
    unsafe { installed.as_ref() }.unwrap_or(&ONE_LANE)
}

/// The runtime of a thread that runs no lanes: a warp of one.
pub static ONE_LANE: LaneRuntime = LaneRuntime {
    width: || 1,
    lane: || 0,
    position: || Position { thread: 0, block: 0, block_threads: 1, grid_blocks: 1 },
    launch: || 0,
    calling: |_| 1,
    meeting: || 0,
    collective: |_, _, what, value, _| match what {
        Collective::Ballot => u64::from(value != 0),
        Collective::Shuffle | Collective::Broadcast => value,
        Collective::Scan | Collective::Sync => 0,
    },
    nap: |_| core::hint::spin_loop(),
    clock: || 0,
    on_lane: || false,
    session: || 0,
    passes: |_| (),
};

//! Clocks and sleep.

use gpufs_core::abi::{Sqe, TimeSpec};
use gpufs_core::failures::counted;
use gpufs_core::{Call, Errno};

use crate::Fs;
use crate::io::serve_staged;
use crate::warp::{Lanes, Machine, Warp};

/// The time of day.
pub const CLOCK_REALTIME: u32 = 0;
/// Time that never goes back, from a beginning of its own.
pub const CLOCK_MONOTONIC: u32 = 1;
/// The processor time of the process.
pub const CLOCK_PROCESS_CPUTIME_ID: u32 = 2;
/// [`CLOCK_MONOTONIC`] with the time that the system was suspended.
pub const CLOCK_BOOTTIME: u32 = 7;

/// The processor time of the calling thread: a thread of the host's, which is nobody's here.
const CLOCK_THREAD_CPUTIME_ID: u32 = 3;
const NANOSECONDS: u64 = 1_000_000_000;
/// The longest nap of a sleep, in nanoseconds.
const NAP_NS_MAX: u64 = 1_000_000;

impl Fs {
    /// The time of one of the host's clocks, as [clock_gettime(2)](https://man7.org/linux/man-pages/man2/clock_gettime.2.html). The host reads it
    /// between the call and its return: it is as exact as the call is short, some ten microseconds, and comparable with what the host itself
    /// reads. What a kernel does is better timed with [`warp::clock`](crate::warp::clock), which is the device's.
    ///
    /// # Errors
    /// `EINVAL` for a clock that there is not, and for the thread's (`CLOCK_THREAD_CPUTIME_ID`).
    pub fn clock_gettime(self, clock: u32) -> Result<TimeSpec, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::ClockGettime);
        counted(self.session(), Call::ClockGettime, self.time_of(lanes, clock))
    }

    /// The time of day in whole seconds since 1970, as [time(2)](https://man7.org/linux/man-pages/man2/time.2.html): [`Fs::clock_gettime`] of
    /// [`CLOCK_REALTIME`].
    ///
    /// # Errors
    /// None that the system has for it.
    pub fn time(self) -> Result<i64, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Time);
        let time = self.time_of(lanes, CLOCK_REALTIME);
        counted(self.session(), Call::Time, time.map(|time| time.tv_sec))
    }

    /// Convergent; called by `lanes`.
    pub(crate) fn time_of(self, lanes: Lanes, clock: u32) -> Result<TimeSpec, Errno> {
        let mut time = TimeSpec::default();
        let known = clock != CLOCK_THREAD_CPUTIME_ID;
        let bytes = known.then_some(size_of::<TimeSpec>() as u64);
        let entry = |area: crate::io::StagingArea| Sqe::clock_gettime(clock, area.address);
        let read = serve_staged(self.session(), lanes, bytes, entry, |area, _| time = area.read(0));
        if known { read.map(|_| time) } else { Err(Errno::INVAL) }
    }

    /// Waits for at least `duration`, as [nanosleep(2)](https://man7.org/linux/man-pages/man2/nanosleep.2.html), by the device's clock, in naps of
    /// up to a millisecond. Each lane sleeps by itself, and needs nothing of the host. The session's deadline does not end it: it waits for
    /// nobody.
    ///
    /// # Errors
    /// `EINVAL` for a negative time, and for nanoseconds that are not from 0 to 999,999,999.
    pub fn nanosleep(self, duration: TimeSpec) -> Result<(), Errno> {
        let started = Machine::clock();
        let inside = self.enter()?;
        let _lanes = Lanes::calling(&inside, Call::Nanosleep);
        let (seconds, nanoseconds) = match (u64::try_from(duration.tv_sec), u64::try_from(duration.tv_nsec)) {
            (Ok(seconds), Ok(nanoseconds)) if nanoseconds < NANOSECONDS => (seconds, nanoseconds),
            _ => return counted(self.session(), Call::Nanosleep, Err(Errno::INVAL)),
        };
        let whole = seconds.saturating_mul(NANOSECONDS).saturating_add(nanoseconds);
        // Ends: the clock goes on.
        loop {
            let left = whole.saturating_sub(Machine::clock().saturating_sub(started));
            if left == 0 {
                return Ok(());
            }
            Machine::nap(left.min(NAP_NS_MAX) as u32);
        }
    }
}

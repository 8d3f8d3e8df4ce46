//! How an OS thread waits when all its lanes wait: it leaves the core to what they wait for. That is often the kernel's own thread, which
//! may have no other core.

use std::thread;
use std::time::Duration;

/// How often the thread yields before it sleeps.
const YIELDS_MAX: u32 = 64;
/// How much longer each sleep is than the one before.
const NAP_NS_STEP: u64 = 500;
/// The longest sleep.
const NAP_NS_MAX: u64 = 50_000;
pub(super) const NAP_MAX: Duration = Duration::from_nanos(NAP_NS_MAX);
/// Naps at least this long are slept through from the first one on. The system makes a shorter sleep longer than that.
const SLEEP_NS_MIN: u32 = 5_000;
/// The longest nap that is slept through as it was asked for.
const ASKED_NS_MAX: u64 = 10_000_000;

/// What the thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// It goes on: a lane called something.
    Go,
    /// It lets others have the core.
    Yield,
    /// It sleeps.
    Sleep(Duration),
}

impl Pause {
    /// Does it.
    pub(super) fn take(self) {
        match self {
            Self::Go => {}
            Self::Yield => thread::yield_now(),
            Self::Sleep(time) => thread::sleep(time),
        }
    }
}

/// How long nothing but waiting has happened.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pauses: u32,
}

impl Backoff {
    /// Something happened.
    pub(super) fn reset(&mut self) {
        self.pauses = 0;
    }

    /// No lane can run. `nap_ns`: the shortest nap that a lane asked for. `called`: a lane has called something since, and goes on unless it asked
    /// for a nap that is worth it.
    pub(super) fn pause(&mut self, nap_ns: u32, called: bool) -> Pause {
        let asked = if nap_ns < SLEEP_NS_MIN || nap_ns == u32::MAX { 0 } else { u64::from(nap_ns) };
        let mut nap = asked.min(ASKED_NS_MAX);
        if !called {
            self.pauses = self.pauses.saturating_add(1);
            let ramp = u64::from(self.pauses.saturating_sub(YIELDS_MAX)) * NAP_NS_STEP;
            nap = nap.max(ramp.min(NAP_NS_MAX));
        }
        match nap {
            0 if called => Pause::Go,
            0 => Pause::Yield,
            nanoseconds => Pause::Sleep(Duration::from_nanos(nanoseconds)),
        }
    }
}

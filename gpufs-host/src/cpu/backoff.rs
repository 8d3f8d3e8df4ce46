//! What an OS thread does when all its lanes wait: leave the core to whoever they wait for, which is often the kernel's own
//! thread and may have no other core.

use std::thread;
use std::time::Duration;

/// How often the thread yields before it sleeps.
const YIELDS: u32 = 64;
/// How much longer each sleep is than the one before.
const STEP_NS: u64 = 500;
/// The longest sleep.
const LONGEST_NS: u64 = 50_000;
/// Naps at least this long are slept through from the first one on; a shorter sleep takes the system longer than that.
const SLEPT_FROM_NS: u32 = 5_000;

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

    /// Nothing happened. `nap_ns`: the shortest nap that a lane asked for.
    pub(super) fn pause(&mut self, nap_ns: u32) {
        self.pauses = self.pauses.saturating_add(1);
        let ramp = u64::from(self.pauses.saturating_sub(YIELDS)) * STEP_NS;
        let asked = if nap_ns < SLEPT_FROM_NS { 0 } else { u64::from(nap_ns) };
        match ramp.max(asked).min(LONGEST_NS) {
            0 => thread::yield_now(),
            nanoseconds => thread::sleep(Duration::from_nanos(nanoseconds)),
        }
    }
}

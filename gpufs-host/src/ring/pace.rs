//! How long the ring service waits between two polls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::poll::Poll;
use super::{Inner, Mode};

/// A nap is at most this fraction of the silence before it, so waiting for a poll adds at most this fraction to the latency of a device.
const SILENCE_DIVISOR: u32 = 16;
/// How long the service polls without naps after something happened, in modes where each operation needs a poll.
const EAGER_FOR: Duration = Duration::from_micros(50);
const NAP_MIN: Duration = Duration::from_micros(20);
const NAP_MAX: Duration = Duration::from_millis(10);
/// The same where all that may be due is to wake a kernel thread.
const NAP_MAX_SQPOLL: Duration = Duration::from_millis(4);

/// The shortest and the longest while a thread that runs lanes enters the ring.
const NAP_MIN_BY_LANES: Duration = Duration::from_millis(1);
const NAP_MAX_BY_LANES: Duration = Duration::from_millis(20);

/// The longest nap while only kernel threads have something to do, for the first entry of the service ring.
const SERVICES_NAP_MAX: Duration = Duration::from_millis(10);

/// The state of the naps.
///
/// A nap costs a few microseconds of processor time whatever its length, and delays an operation that starts within it. So
/// naps grow with the silence: from [`NAP_MIN`], by [`SILENCE_DIVISOR`], to `longest`. An SQPOLL thread sleeps only after
/// a silence of `idle_ms` and otherwise serves its ring by itself. For such rings a fraction of `idle_ms` is short enough at once; and as
/// long as all such threads find entries, half of the time for which they stay awake without.
pub(super) struct Pace {
    /// Whether operations wait for a poll, rather than only a sleeping kernel thread.
    eager: bool,
    longest: Duration,
    /// For how long every kernel thread stays awake after it has taken entries.
    awake: Duration,
    /// When something last happened.
    last: Instant,
    /// A thread that runs lanes entered the ring when it last waited.
    by_lanes: bool,
}

impl Pace {
    pub(super) fn new(rings: &[Arc<Inner>]) -> Self {
        let sqpoll = |ring: &&Arc<Inner>| ring.mode == Mode::Sqpoll;
        let idle = rings.iter().filter(sqpoll).map(|ring| ring.idle()).min();
        let longest = idle.map_or(NAP_MAX, |idle| (idle / SILENCE_DIVISOR).clamp(NAP_MIN, NAP_MAX_SQPOLL));
        let mut awake = idle.unwrap_or_default();
        if rings.iter().any(|ring| ring.for_services) {
            awake = awake.min(2 * SERVICES_NAP_MAX);
        }
        Self {
            eager: !rings.iter().all(|ring| sqpoll(&ring)),
            longest,
            awake,
            last: Instant::now(),
            by_lanes: false,
        }
    }
    /// Something happened just now.
    pub(super) fn start_over(&mut self) {
        self.last = Instant::now();
    }
    /// Waits after a poll. The previous poll began at `before`. `by_lanes`: a thread that runs lanes enters the ring, and little is left to do.
    pub(super) fn rest(&mut self, poll: Poll, before: Instant, by_lanes: bool) {
        if poll.active || self.by_lanes && !by_lanes {
            self.start_over();
        }
        self.by_lanes = by_lanes;
        let silence = self.last.elapsed();
        if by_lanes {
            return std::thread::park_timeout(
                (silence / SILENCE_DIVISOR).clamp(NAP_MIN_BY_LANES, NAP_MAX_BY_LANES),
            );
        }
        if self.eager && silence < EAGER_FOR {
            return std::thread::yield_now();
        }
        let nap = (silence / SILENCE_DIVISOR).clamp(NAP_MIN, self.longest);
        let awake = if poll.served { self.awake.saturating_sub(before.elapsed()) } else { Duration::ZERO };
        // The service's `busy` and `drop` end the nap, so neither waits for it.
        std::thread::park_timeout(nap.max(awake / 2));
    }
}

//! One frame: the word that says what is in it and who uses it, and its transitions.
//!
//! ```text
//! EMPTY ──fill (set's lock)──► FILLING ──filled──► READY ──evict (set's lock; no pin, no guard, not DIRTY, not WRITING)──► FILLING
//!   ▲                            │                 │  ▲
//!   └──────────failed────────────┘                 │  └─ WRITING, DIRTY again if it failed ─┐
//!                                                  └── begin_write: DIRTY → WRITING ────────┘
//! ```
//!
//! Every change of the word is one read-modify-write, so that others may add and take pins meanwhile, in each state.

use crate::word::{DeviceWord, DeviceWord64};

use super::Key;

/// The word:
///
/// ```text
/// 52 51   50           49        48      47 … 24   23 … 0
/// phase   REFERENCED   WRITING   DIRTY   guards    pins
/// ```
const PIN: u64 = 1;
const GUARD: u64 = 1 << 24;
const DIRTY: u64 = 1 << 48;
const WRITING: u64 = 1 << 49;
const REFERENCED: u64 = 1 << 50;
const PHASE: u64 = 1 << 51;
/// Pins or guards.
const COUNT: u64 = GUARD - 1;
/// No guard joins so many of a frame: those of slices that a lane forgets stay until its kernel has ended, and must not reach the bits above. What is
/// left is more than lanes that add one at a time.
const GUARDS_MAX: u64 = COUNT / 2;

/// What is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No page.
    Empty,
    /// The lane that began it brings its page.
    Filling,
    /// Its page.
    Ready,
}

/// A frame's word that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(u64);

impl Seen {
    /// What is in the frame.
    #[must_use]
    pub const fn phase(self) -> Phase {
        match (self.0 / PHASE) & 3 {
            0 => Phase::Empty,
            1 => Phase::Filling,
            _ => Phase::Ready,
        }
    }
    /// Lanes that use the frame, and do not wait for a page meanwhile.
    #[must_use]
    pub const fn pins(self) -> u64 {
        self.0 & COUNT
    }
    /// Lanes that keep the frame, whatever they wait for.
    #[must_use]
    pub const fn guards(self) -> u64 {
        (self.0 / GUARD) & COUNT
    }
    /// Whether it holds what the file does not.
    #[must_use]
    pub const fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }
    /// Whether a lane writes it to the file.
    #[must_use]
    pub const fn is_writing(self) -> bool {
        self.0 & WRITING != 0
    }
    /// Whether it was used since the clock's hand passed.
    const fn is_referenced(self) -> bool {
        self.0 & REFERENCED != 0
    }
    /// Whether its page may go.
    const fn is_idle(self) -> bool {
        matches!(self.phase(), Phase::Ready) && self.pins() == 0 && self.guards() == 0 && !self.is_writing()
    }
}

/// The result of [`Frame::pin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a pin that is dropped keeps the page for ever"]
pub enum Pinned {
    /// The page is the key's, and stays until [`Frame::unpin`].
    Yes,
    /// A lane brings the page, or has just given up.
    InTransit,
    /// It is another page's by now.
    Other,
}

/// The result of [`Frame::begin_write`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a write that was begun must end"]
pub enum Write {
    /// The caller writes the page, and then calls [`Frame::end_write`].
    Begun,
    /// There is nothing to write.
    Clean,
    /// Another lane writes it.
    Elsewhere,
}

/// The result of [`Frame::join_guards`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Joined {
    /// It was added.
    Yes,
    /// There is none: the caller's would be the first.
    First,
    /// There are as many as there may be.
    Full,
}

/// The result of [`Frame::consider`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    /// The frame is the caller's, FILLING.
    Taken {
        /// A page had to go.
        evicted: bool,
    },
    /// It could go, if it were written.
    Dirty,
    /// It is in use, or was lately.
    No,
}

/// A frame. `key` and `valid` are written by the lane that made it FILLING, before it is READY.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Frame {
    state: DeviceWord64,
    /// The page's [`Key`], 0 for none. Set under the set's lock alone ([R-CACHE-1]).
    key: DeviceWord64,
    /// Bytes that the file had for the page: the page's size, or less at the file's end.
    valid: DeviceWord,
}

impl Frame {
    /// The word. Acquires what was done before it.
    #[must_use]
    pub fn seen(&self) -> Seen {
        // ORDERING: acquire, device, partner every change of the word.
        Seen(self.state.observe())
    }
    /// The page's key, if there is one: a hint, but for a lane that has pinned it or has the set's lock.
    #[must_use]
    pub fn key(&self) -> u64 {
        // ORDERING: relaxed: a hint, or acquired with the pin or the lock.
        self.key.peek()
    }
    /// Bytes that the file had for the page. A lane that has pinned it.
    #[must_use]
    pub fn valid(&self) -> u32 {
        // ORDERING: relaxed: acquired with the pin.
        self.valid.peek()
    }
    /// Pins the frame for `lanes` lanes if it holds the page of `key`. One lane. Waits for nothing.
    pub fn pin(&self, key: Key, lanes: u32) -> Pinned {
        // ORDERING: acquire and release, device, partner `filled`: key and bytes are seen if it is READY. The evictor sees the pin, or this
        // sees its FILLING.
        let before = Seen(self.state.fetch_add(PIN * u64::from(lanes)));
        if before.phase() != Phase::Ready {
            self.unpin(lanes);
            return Pinned::InTransit;
        }
        if self.key() != key.word() {
            self.unpin(lanes);
            return Pinned::Other;
        }
        if !before.is_referenced() {
            self.state.set_bits(REFERENCED);
        }
        Pinned::Yes
    }
    /// Ends the pins of `lanes` lanes. One lane.
    pub fn unpin(&self, lanes: u32) {
        // ORDERING: acquire and release, device, partner `consider`: what the lanes read and stored comes before the page goes.
        self.state.fetch_sub(PIN * u64::from(lanes));
    }
    /// Adds a guard if there is one already, and not too many. A lane that has a pin ([R-CACHE-5]).
    pub(super) fn join_guards(&self) -> Joined {
        // ORDERING: relaxed: confirmed by the exchange.
        let mut seen = Seen(self.state.peek());
        // Ends: a round that fails is another lane's success.
        while seen.guards() > 0 {
            if seen.guards() >= GUARDS_MAX {
                return Joined::Full;
            }
            // ORDERING: acquire and release, device: as the others' changes.
            match self.state.compare_exchange(seen.0, seen.0 + GUARD) {
                Ok(_) => return Joined::Yes,
                Err(other) => seen = Seen(other),
            }
        }
        Joined::First
    }
    /// Adds a guard. A lane that has a pin and the set's lock, and has seen there that the set has room ([R-CACHE-5]).
    pub(super) fn add_guard(&self) {
        // ORDERING: acquire and release, device: as the others' changes.
        self.state.fetch_add(GUARD);
    }
    /// Ends a guard.
    pub fn unguard(&self) {
        // ORDERING: acquire and release, device, partner `consider`, as `unpin`.
        self.state.fetch_sub(GUARD);
    }
    /// Notes that the page was stored to. A lane that has pinned or guards it, after its stores.
    pub fn stored(&self) {
        // ORDERING: release, device, partner `begin_write`: a write that takes the mark sees the stores.
        self.state.set_bits(DIRTY);
    }
    /// Begins to write the page to its file, if it has to be. A lane that has pinned it, which ends what it has begun before it waits for a page.
    pub fn begin_write(&self) -> Write {
        let mut seen = self.seen();
        // Ends: a round that fails is another lane's success.
        loop {
            if seen.is_writing() {
                return Write::Elsewhere;
            }
            if !seen.is_dirty() {
                return Write::Clean;
            }
            // ORDERING: acquire and release, device, partner `stored`.
            match self.state.compare_exchange(seen.0, seen.0 - DIRTY + WRITING) {
                Ok(_) => return Write::Begun,
                Err(other) => seen = Seen(other),
            }
        }
    }
    /// Ends what [`Frame::begin_write`] began. A page that was not `written` is DIRTY again.
    pub fn end_write(&self, written: bool) {
        if !written {
            self.state.set_bits(DIRTY);
        }
        // ORDERING: acquire and release, device, partner the next `begin_write`: pages reach the file in order.
        self.state.fetch_sub(WRITING);
    }
    /// FILLING → READY, with `lanes` pins. The lane that began it, when `valid` bytes of the page are in the frame.
    pub fn filled(&self, valid: u32, lanes: u32) {
        // ORDERING: relaxed: the addition publishes it.
        self.valid.set(valid);
        // ORDERING: acquire and release, device, partner `pin`: others add stray pins meanwhile, so it is an addition.
        self.state.fetch_add(PHASE + PIN * u64::from(lanes));
    }
    /// FILLING → EMPTY. The lane that began it, where the page could not be had.
    pub fn failed(&self) {
        // ORDERING: relaxed: the subtraction publishes it.
        self.key.set(0);
        // ORDERING: acquire and release, device: as `filled`.
        self.state.fetch_sub(PHASE);
    }
    /// Takes the frame for another page, if its own may go: EMPTY or READY → FILLING. A frame that was used lately is spared once. One
    /// lane, which has the set's lock ([R-CACHE-2]).
    pub(super) fn consider(&self, key: Key, spares: bool) -> Victim {
        let seen = self.seen();
        let evicted = match seen.phase() {
            Phase::Empty => {
                // Nobody else takes an empty frame out of that state, and stray pins come and go.
                // ORDERING: acquire and release, device.
                self.state.fetch_add(PHASE);
                false
            }
            Phase::Ready if seen.is_idle() => {
                if spares && seen.is_referenced() {
                    // A hint: any order will do.
                    self.state.claim_bits(REFERENCED);
                    return Victim::No;
                }
                if seen.is_dirty() {
                    return Victim::Dirty;
                }
                // ORDERING: acquire and release, device, partner `unpin` and `pin`: exactly what was seen, without a pin or a mark.
                if self.state.compare_exchange(seen.0, (seen.0 - PHASE) & !REFERENCED).is_err() {
                    return Victim::No;
                }
                true
            }
            _ => return Victim::No,
        };
        // ORDERING: relaxed: under the set's lock, and `filled` publishes it to lanes that pin the page.
        self.key.set(key.word());
        Victim::Taken { evicted }
    }
    /// Pins a frame that was seen dirty, for a lane that wants its place: whether it can be pinned. The lane has the set's lock.
    #[must_use]
    pub(super) fn pin_victim(&self) -> bool {
        // ORDERING: acquire and release, device: under the set's lock nobody else makes a READY frame another's.
        let before = Seen(self.state.fetch_add(PIN));
        if before.phase() != Phase::Ready {
            self.unpin(1);
            return false;
        }
        true
    }

    /// Ends what lanes that are gone had begun: pins, guards, writes, fills. No kernel runs.
    pub fn let_go(&self) {
        let seen = self.seen();
        if seen.phase() == Phase::Ready {
            let dirty = if seen.is_dirty() || seen.is_writing() { DIRTY } else { 0 };
            // ORDERING: relaxed: no kernel runs.
            self.state.set(2 * PHASE + dirty);
        } else {
            self.forget();
        }
    }
    /// Makes the frame EMPTY, whatever it holds. No kernel runs.
    pub fn forget(&self) {
        // ORDERING: relaxed: no kernel runs.
        self.key.set(0);
        self.state.set(0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{DIRTY, Frame, GUARD, GUARDS_MAX, Joined, PHASE, PIN};

    /// Guards that lanes have forgotten come to an end before they reach the bits above them.
    #[test]
    fn guards_are_bounded() {
        let frame = Frame::default();
        frame.state.set(2 * PHASE + PIN);
        assert_eq!(frame.join_guards(), Joined::First);
        frame.add_guard();
        assert_eq!((frame.join_guards(), frame.seen().guards()), (Joined::Yes, 2));
        frame.state.set(2 * PHASE + PIN + (GUARDS_MAX - 1) * GUARD);
        assert_eq!(frame.join_guards(), Joined::Yes);
        for _ in 0..3 {
            assert_eq!((frame.join_guards(), frame.seen().guards()), (Joined::Full, GUARDS_MAX));
        }
        assert_eq!(frame.state.peek() & DIRTY, 0);
        frame.unguard();
        assert_eq!(frame.join_guards(), Joined::Yes);
    }
}

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

use crate::word::{DeviceWord64, device_fence};

use super::Key;

/// The word:
///
/// ```text
/// 53         52 51   50           49        48      47 … 24   23 … 0
/// KEEPABLE   phase   REFERENCED   WRITING   DIRTY   guards    pins
/// ```
const PIN: u64 = 1;
const GUARD: u64 = 1 << 24;
const DIRTY: u64 = 1 << 48;
const WRITING: u64 = 1 << 49;
const REFERENCED: u64 = 1 << 50;
const PHASE: u64 = 1 << 51;
const KEEPABLE: u64 = 1 << 53;
/// Pins or guards.
const COUNT: u64 = GUARD - 1;
/// No guard joins so many of a frame: those of slices that a lane forgets stay until its kernel has ended, and must not reach the bits above. What is
/// left is more than lanes that add one at a time.
const GUARDS_MAX: u64 = COUNT / 2;

/// The valid bytes of an edition.
const fn valid_of(edition: u64) -> u32 {
    (edition & VALID) as u32
}

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
    /// Whether it may have guards: then it is READY.
    #[must_use]
    pub const fn is_keepable(self) -> bool {
        self.0 & KEEPABLE != 0
    }
    /// Whether it was used since the clock's hand passed.
    const fn is_referenced(self) -> bool {
        self.0 & REFERENCED != 0
    }
    /// Whether another page may have the frame, perhaps once its own is written.
    pub(super) const fn may_be_taken(self) -> bool {
        matches!(self.phase(), Phase::Empty) || self.is_idle()
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
    /// The frame is not KEEPABLE.
    No,
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

/// The edition's word. Written by the lane that makes the frame FILLING or READY.
///
/// ```text
/// 63 … 24                 23 … 0
/// pages that came here    bytes that the file had for this one: the page's size, or less at the file's end; 0 while it changes
/// ```
const VALID: u64 = (1 << 24) - 1;

/// A frame: all that a look at it needs is in one sector of 32 bytes. `key` and `edition` are written by the lane that made it FILLING.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub struct Frame {
    state: DeviceWord64,
    /// The page's [`Key`], 0 for none. Set under the set's lock alone ([R-CACHE-1]).
    key: DeviceWord64,
    /// Which page it is of those that came here. Ends before the page does ([R-CACHE-8]).
    edition: DeviceWord64,
}

impl Frame {
    /// The word. Acquires what was done before it.
    #[must_use]
    pub fn seen(&self) -> Seen {
        // ORDERING: acquire, device, partner every change of the word.
        Seen(self.state.observe())
    }
    /// [`Frame::seen`], and acquires nothing: for the holder of the set's lock, or a hint.
    pub(super) fn glimpse(&self) -> Seen {
        // ORDERING: relaxed: the mark KEEPABLE changes under the lock, which acquires it; all else is a hint.
        Seen(self.state.peek())
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
        valid_of(self.edition.peek())
    }
    /// What `read` makes of the page of `key`, of which it is told the valid bytes, without a pin; `None` where the frame has another page, or may
    /// have had another while it was read. One lane. Waits for nothing, and changes nothing ([R-CACHE-8]).
    ///
    /// `read` loads by acquiring loads alone, and does nothing else: what it returns may be of two pages, and is then thrown away.
    #[inline]
    pub fn glance<R>(&self, key: Key, read: impl FnOnce(u32) -> R) -> Option<R> {
        // ORDERING: acquire, device, partner `filled`: the key and the bytes are those of this edition, or later.
        let edition = self.edition.observe();
        // ORDERING: acquire, device, partner the fence in `end_edition`: if the key is a later page's, the edition has ended for the look below.
        if valid_of(edition) == 0 || self.key.observe() != key.word() {
            return None;
        }
        let result = read(valid_of(edition));
        // ORDERING: relaxed: behind acquires, of which one saw what came after the end, if any did.
        (self.edition.peek() == edition).then_some(result)
    }
    /// The valid bytes of the page, if it is there, in a frame of its own: then it stays, and the caller has acquired it ([R-CACHE-9]).
    #[inline]
    #[must_use]
    pub fn settled(&self) -> Option<u32> {
        // ORDERING: acquire, device, partner `filled`: the bytes come before.
        Some(valid_of(self.edition.observe())).filter(|valid| *valid > 0)
    }
    /// [`Frame::settled`], for a lane that stores there: a flush that comes after finds the page READY.
    #[inline]
    #[must_use]
    pub fn settled_ready(&self) -> Option<u32> {
        (self.seen().phase() == Phase::Ready).then(|| self.valid())
    }
    /// Ends the edition of a page that goes. The lane that made the frame FILLING, before it touches the key or the bytes ([R-CACHE-8]).
    fn end_edition(&self) {
        // ORDERING: relaxed: the fence orders it before the stores of the next page. Only this lane writes the word.
        self.edition.set(self.edition.peek() & !VALID);
        // ORDERING: device, partner the acquiring loads of `glance`.
        device_fence();
    }
    /// Pins the frame for `lanes` lanes if it holds the page of `key`. One lane. Waits for nothing.
    pub fn pin(&self, key: Key, lanes: u32) -> Pinned {
        // ORDERING: acquire, device, partner `filled`: key and bytes are seen if it is READY. The evictor sees the pin, or this sees its
        // FILLING, since both change one word.
        let before = Seen(self.state.fetch_add_acquire(PIN * u64::from(lanes)));
        if before.phase() != Phase::Ready {
            self.unpin(lanes);
            return Pinned::InTransit;
        }
        if self.key() != key.word() {
            self.unpin(lanes);
            return Pinned::Other;
        }
        if !before.is_referenced() {
            // ORDERING: release, which is more than a hint needs.
            self.state.set_bits(REFERENCED);
        }
        Pinned::Yes
    }
    /// Notes that the page is in use, for the clock.
    pub(super) fn refer(&self) {
        // ORDERING: relaxed: a hint.
        if !Seen(self.state.peek()).is_referenced() {
            self.state.set_bits(REFERENCED);
        }
    }
    /// Ends the pins of `lanes` lanes. One lane.
    pub fn unpin(&self, lanes: u32) {
        // ORDERING: release, device, partner `consider`: what the lanes read and stored comes before the page goes.
        self.state.take_off(PIN * u64::from(lanes));
    }
    /// Adds guards of so many lanes if the frame is KEEPABLE, and not too many. One lane, which has a pin, or looks at the key afterwards
    /// ([R-CACHE-5]). Waits for nothing.
    pub(super) fn join_guards(&self, lanes: u32) -> Joined {
        // ORDERING: acquire, device, partner `filled`, as `pin`. The evictor sees the guard, or this sees that the mark is gone.
        let before = Seen(self.state.fetch_add_acquire(GUARD * u64::from(lanes)));
        let joined = if !before.is_keepable() {
            Joined::No
        } else if before.guards() + u64::from(lanes) > GUARDS_MAX {
            Joined::Full
        } else {
            if !before.is_referenced() {
                self.state.set_bits(REFERENCED);
            }
            return Joined::Yes;
        };
        self.unguard(lanes);
        joined
    }
    /// Makes the frame KEEPABLE. One lane, which has the set's lock, has seen there that the frame is READY, and that the set has room for the mark
    /// ([R-CACHE-5]).
    pub(super) fn make_keepable(&self) {
        // ORDERING: relaxed: an addition goes on with the release sequence of `filled`, so that `join_guards`, which finds the mark, acquires the
        // page. The lock's release orders it before the next holder's look.
        self.state.count(KEEPABLE);
    }
    /// Takes the mark KEEPABLE from the frame, if it has no guard; whether it could. One lane, which has the set's lock.
    pub(super) fn end_keepable(&self) -> bool {
        // ORDERING: relaxed: confirmed by the exchange.
        let mut seen = Seen(self.state.peek());
        // Ends: a round that fails is another lane's success.
        while seen.guards() == 0 {
            // ORDERING: acquire and release, device: as the others' changes.
            match self.state.compare_exchange(seen.0, seen.0 & !KEEPABLE) {
                Ok(_) => return true,
                Err(other) => seen = Seen(other),
            }
        }
        false
    }
    /// Ends guards of so many lanes. One lane.
    pub fn unguard(&self, lanes: u32) {
        // ORDERING: release, device, partner `consider`, as `unpin`.
        self.state.take_off(GUARD * u64::from(lanes));
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
            // ORDERING: release, device, partner `begin_write`: the bytes that were not written come before.
            self.state.set_bits(DIRTY);
        }
        // ORDERING: acquire and release, device, partner the next `begin_write`: pages reach the file in order.
        self.state.fetch_sub(WRITING);
    }
    /// FILLING → READY, with `lanes` pins. The lane that began it, when `valid` bytes of the page are in the frame.
    pub fn filled(&self, valid: u32, lanes: u32) {
        let edition = (self.edition.peek() | VALID) + 1;
        // ORDERING: release, device, partner `glance`. Only this lane writes the word.
        self.edition.publish(edition | u64::from(valid));
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
                // ORDERING: acquire and release, device, partner `unpin` and `pin`: exactly what was seen, without a pin, a guard or a mark.
                if self.state.compare_exchange(seen.0, (seen.0 - PHASE) & !(REFERENCED | KEEPABLE)).is_err() {
                    return Victim::No;
                }
                self.end_edition();
                true
            }
            _ => return Victim::No,
        };
        // ORDERING: relaxed: under the set's lock, and `filled` publishes it to lanes that pin the page.
        self.key.set(key.word());
        Victim::Taken { evicted }
    }
    /// Takes the frame for the one page that it is for: EMPTY → FILLING; whether it was EMPTY. One lane ([R-CACHE-9]).
    pub(super) fn take_own(&self, key: Key) -> bool {
        let mut seen = self.seen();
        // Ends: a round that fails is another lane's success, or a stray pin's.
        while seen.phase() == Phase::Empty {
            // ORDERING: acquire and release, device, partner `failed`: one takes it.
            match self.state.compare_exchange(seen.0, seen.0 + PHASE) {
                Ok(_) => {
                    // ORDERING: relaxed: `filled` publishes it to lanes that pin the page.
                    self.key.set(key.word());
                    return true;
                }
                Err(other) => seen = Seen(other),
            }
        }
        false
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
        self.edition.set(self.edition.peek() & !VALID);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{DIRTY, Frame, GUARD, GUARDS_MAX, Joined, KEEPABLE, PHASE, PIN};

    /// Guards that lanes have forgotten come to an end before they reach the bits above them.
    #[test]
    fn guards_are_bounded() {
        let frame = Frame::default();
        frame.state.set(2 * PHASE + PIN);
        assert_eq!((frame.join_guards(1), frame.seen().guards()), (Joined::No, 0));
        frame.make_keepable();
        assert_eq!((frame.join_guards(2), frame.seen().guards()), (Joined::Yes, 2));
        frame.state.set(KEEPABLE + 2 * PHASE + PIN + (GUARDS_MAX - 1) * GUARD);
        assert_eq!(frame.join_guards(1), Joined::Yes);
        for _ in 0..3 {
            assert_eq!((frame.join_guards(1), frame.seen().guards()), (Joined::Full, GUARDS_MAX));
        }
        assert_eq!(frame.state.peek() & DIRTY, 0);
        assert_eq!(frame.join_guards(1), Joined::Full);
        frame.unguard(1);
        assert_eq!(frame.join_guards(1), Joined::Yes);
    }
}

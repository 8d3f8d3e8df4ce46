//! How lanes reserve what only grows, without waiting for each other: bytes of a stream that is written, lines that are read ahead.
//!
//! A *cursor* is a position that only grows. What may be reserved is *granted*, up to a position; `available` is the part of it that nobody
//! has taken. A lane takes an amount from `available`, and then adds it to the cursor, which tells it the positions that it has reserved:
//!
//! ```text
//! available + taken, not yet added to the cursor = granted_to − position
//! ```
//!
//! Both steps are additions, which succeed whoever else comes. An exchange on the cursor would fail for all but one of the lanes that try
//! at the same time: then one stream of an H200 gets 400,000 reservations a second.
//!
//! With CLOSED in the cursor, nobody reserves: a lane whose addition finds CLOSED gives the amount back. The lock's holder sets it, waits
//! until the reservation is *quiet*, and may then change what a reservation is of: no lane has taken an amount under the old rules and
//! will still add it to the cursor.
//!
//! This file knows neither streams nor lines. When a caller may reserve (its generation, the size of a record) is the caller's question,
//! asked again while the amount is in its hands.

use crate::word::DeviceWord64;

/// In a cursor: no reservations; lanes that come go to the lock. The position beside it means nothing, since lanes that saw the cursor open
/// may still add to it: `closed_at` has the position.
pub const CLOSED: u64 = 1 << 63;

/// The words of a reservation, where their owner's layout puts them. A cursor whose position has `BITS` bits:
///
/// ```text
/// 63       62 … BITS    BITS − 1 … 0
/// closed   present      position
/// ```
///
/// `present` counts callers that are on what they reserved, where `COUNTED`; else it is 0.
#[derive(Clone, Copy, Debug)]
pub struct ReservationWords<'a, const BITS: u32, const COUNTED: bool> {
    /// CLOSED, callers present, position. Written by reservers and by the lock's holder.
    pub cursor: &'a DeviceWord64,
    /// Amount granted that nobody has taken: signed, since a lane that takes too much gives it back. Written by reservers and granters.
    pub available: &'a DeviceWord64,
    /// The position up to which was granted. Written by granters, or under the lock.
    pub granted_to: &'a DeviceWord64,
    /// The cursor's position while it is closed. Under the lock.
    pub closed_at: &'a DeviceWord64,
}

/// The result of an attempt to reserve: of bytes by [`Stream::try_reserve`](super::Stream::try_reserve), of lines by
/// [`Lines::try_take_lines`](super::readahead::Lines::try_take_lines).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reservation {
    /// What begins here is the caller's: bytes to fill and commit, or lines to copy and then leave.
    At(u64),
    /// No fast path now: take the lock.
    Closed,
    /// Not enough is available: blocks are still being written or read. Make progress on them, and try again.
    Busy,
}

impl<const BITS: u32, const COUNTED: bool> ReservationWords<'_, BITS, COUNTED> {
    /// The position's bits.
    pub const POSITION: u64 = (1 << BITS) - 1;
    /// One caller present.
    const PRESENT: u64 = if COUNTED { 1 << BITS } else { 0 };
    const ALL_PRESENT: u64 = if COUNTED { CLOSED - (1 << BITS) } else { 0 };

    /// Whether so much seems to be available. A hint.
    #[inline]
    #[must_use]
    pub fn has_available(self, amount: u64) -> bool {
        // ORDERING: relaxed: a hint; `take` looks again.
        self.available.peek().cast_signed() >= amount.cast_signed()
    }

    /// Reserves `amount` (at least 1), if `admits` says so once the amount is in the caller's hands; `short` answers where less is available.
    /// One lane. Waits for nothing. Where callers are counted, one that gets a reservation is present, and must leave.
    ///
    /// The caller has seen the cursor open and the amount available: hints that keep vain additions from the words. (Two questions, and no
    /// result between them: so all of it is one branch each on a device.)
    #[inline]
    pub fn take(
        self,
        amount: u64,
        admits: impl FnOnce() -> bool,
        short: impl FnOnce() -> Reservation,
    ) -> Reservation {
        // ORDERING: acquire and release, device, partner `grant`: what happened to what is reserved comes before its reservation. And
        // partner `quiet_at`, which waits until what is taken is in the cursor or given back: until then nothing changes that `admits` looks at.
        if self.available.fetch_sub(amount).cast_signed() < amount.cast_signed() {
            self.give_back(amount);
            return short();
        }
        if !admits() {
            self.give_back(amount);
            return Reservation::Closed;
        }
        // ORDERING: acquire and release, device, partner `close`: the lock's holder sees this reservation, or this sees CLOSED. And partner
        // the other reservers' additions: what was granted to a lane may be reserved by another, which then knows from it what it acquired.
        let at = self.cursor.fetch_add(amount + Self::PRESENT);
        if at & CLOSED != 0 {
            if COUNTED {
                self.depart();
            }
            self.give_back(amount);
            return Reservation::Closed;
        }
        Reservation::At(at & Self::POSITION)
    }

    #[inline]
    fn depart(self) {
        // ORDERING: acquire and release, device, partner `quiet_at`: everything that the caller did comes before.
        self.cursor.fetch_sub(Self::PRESENT);
    }

    #[inline]
    fn give_back(self, amount: u64) {
        // ORDERING: acquire and release, device, partner `has_none_in_hand`: the caller's looks come before.
        self.available.fetch_add(amount);
    }

    /// Grants `amount` from position `from` on, where granters compete; whether the caller is the one that grants it. It has acquired what
    /// happened to it.
    #[inline]
    pub fn try_grant(self, from: u64, amount: u64) -> bool {
        // ORDERING: acquire and release, device, partner this exchange of the granter before: a lane that takes from one grant may be given a
        // position of an earlier one, and acquires what happened to that through here. `granted_to` grows before `available`, see `quiet_at`.
        if self.granted_to.compare_exchange(from, from + amount).is_err() {
            return false;
        }
        // ORDERING: acquire and release, device, partner `take`.
        self.available.fetch_add(amount);
        true
    }

    /// Grants `amount` from position `from` on, which is `granted_to`. Of granters there is one at a time, each acquires the one before, and
    /// all are present.
    #[inline]
    pub fn grant(self, from: u64, amount: u64) {
        // ORDERING: relaxed: `granted_to` grows before `available`, see `quiet_at`.
        self.granted_to.set(from + amount);
        // ORDERING: acquire and release, device, partner `take`.
        self.available.fetch_add(amount);
    }

    /// Closes the cursor to lanes that come. The lock's holder.
    pub fn close(self) {
        // ORDERING: release, device, partner `take` and `enter`: a part of the cursor's modification order, which decides between them. It
        // continues their release sequences, so that `quiet_at` acquires from all of them.
        let at = self.cursor.fetch_set_bits(CLOSED);
        if at & CLOSED == 0 {
            // ORDERING: relaxed: under the lock.
            self.closed_at.set(at & Self::POSITION);
        }
    }

    /// The position at which the reservation is quiet: nobody is present, and nobody has an amount in hand that it took and has not added to the
    /// cursor. The lock's holder, with the cursor closed. All reservations and their callers' leaving come before.
    ///
    /// Once it is quiet, only lanes that looked at the cursor before it was closed may still take an amount, and give it back.
    #[must_use]
    pub fn quiet_at(self) -> Option<u64> {
        // ORDERING: acquire, device, partner the additions of `take`, `enter` and `leave`, whose release sequences `close` continues: an
        // amount that was reserved is missing from what is found available below.
        if self.cursor.observe() & Self::ALL_PRESENT != 0 {
            return None;
        }
        // ORDERING: acquire, device, partner `try_grant` and `grant`: a grant that is seen here is seen in `granted_to`, too. (The other way
        // round there is less available than there should be, and it is not quiet.) And partner `give_back`.
        let available = self.available.observe();
        // ORDERING: relaxed: acquired above; `closed_at` is under the lock.
        let (granted_to, closed_at) = (self.granted_to.peek(), self.closed_at.peek());
        (available == granted_to.wrapping_sub(closed_at)).then_some(closed_at)
    }

    /// Whether nobody has an amount in hand. The lock's holder, with the cursor closed, and its position known.
    #[must_use]
    pub fn has_none_in_hand(self) -> bool {
        // ORDERING: as in `quiet_at`.
        self.available.observe() == self.granted_to.peek().wrapping_sub(self.closed_at.peek())
    }

    /// The cursor's position. The lock's holder, with the cursor closed, or while no kernel runs.
    #[must_use]
    pub fn position(self) -> u64 {
        // ORDERING: relaxed: the cursor is closed and the lock held, or no kernel runs.
        let at = self.cursor.peek();
        if at & CLOSED == 0 { at & Self::POSITION } else { self.closed_at.peek() }
    }

    /// Reserves `amount` at `position`, where the cursor is closed. The lock's holder, when quiet.
    pub fn take_closed(self, position: u64, amount: u64) {
        // ORDERING: relaxed: `open` publishes it, or handing the lock on.
        self.closed_at.set(position + amount);
        // ORDERING: acquire and release, device; the cursor is closed, so no reservation follows from it.
        self.available.fetch_sub(amount);
    }

    /// Makes the closed cursor stand at `position`, with everything granted up to `granted_to`. The lock's holder, when quiet. An addition, so
    /// that what lanes have in hand that are about to give it back stays counted.
    pub fn restart(self, position: u64, granted_to: u64) {
        // ORDERING: relaxed: under the lock; `open` publishes them, or handing the lock on.
        let before = self.granted_to.peek().wrapping_sub(self.closed_at.peek());
        self.granted_to.set(granted_to);
        self.closed_at.set(position);
        // ORDERING: acquire and release, device, partner `take`: what the lock's holder did comes before reservations of this.
        self.available.fetch_add((granted_to - position).wrapping_sub(before));
    }

    /// Opens the cursor where it stands. The lock's holder, when [`ReservationWords::has_none_in_hand`] since its last change.
    pub fn open(self) {
        let position = self.closed_at.peek();
        if !COUNTED {
            // ORDERING: release, device, partner `take`.
            self.cursor.publish(position);
            return;
        }
        // Callers that came while it was closed may be counted as present for a moment. Ends: a round that fails is a caller's addition, and
        // callers look before they come.
        loop {
            // ORDERING: relaxed: confirmed by the exchange.
            let at = self.cursor.peek();
            // ORDERING: acquire and release, device, partner `take` and `enter`.
            if self.cursor.compare_exchange(at, at & Self::ALL_PRESENT | position).is_ok() {
                return;
            }
        }
    }
}

impl<const BITS: u32> ReservationWords<'_, BITS, true> {
    /// Counts the caller, one lane for its warp, as present, without a reservation; whether the cursor is open. Waits for nothing.
    #[inline]
    #[must_use = "a caller that is present must leave"]
    pub fn enter(self) -> bool {
        // ORDERING: acquire and release, device, partner `close`: the lock's holder sees this caller present, or this sees CLOSED.
        if self.cursor.fetch_add(Self::PRESENT) & CLOSED != 0 {
            self.depart();
            return false;
        }
        true
    }

    /// The caller is present no more. One lane, after a barrier with those that used what it reserved.
    #[inline]
    pub fn leave(self) {
        self.depart();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{CLOSED, Reservation, ReservationWords};
    use crate::word::DeviceWord64;

    /// Opening keeps the count of callers that came while the cursor was closed and have not left yet.
    #[test]
    fn a_caller_that_comes_while_it_is_closed_leaves_when_it_is_open() {
        let words = [0; 4].map(DeviceWord64::new);
        let [cursor, available, granted_to, closed_at] = &words;
        let words = ReservationWords::<8, true> { cursor, available, granted_to, closed_at };
        words.close();
        words.restart(3, 10);
        // The first step of `enter`.
        let _ = cursor.fetch_add(1 << 8);
        words.open();
        assert_eq!(cursor.peek(), 1 << 8 | 3);
        words.leave();
        assert_eq!(cursor.peek(), 3);
        assert_eq!(words.take(7, || true, || Reservation::Busy), Reservation::At(3));
        assert_eq!((cursor.peek(), available.peek()), (1 << 8 | 10, 0));
        words.close();
        assert_eq!(cursor.peek(), CLOSED | 1 << 8 | 10);
        assert_eq!(words.quiet_at(), None, "it is on what it took");
        words.leave();
        assert_eq!(words.quiet_at(), Some(10));
    }
}

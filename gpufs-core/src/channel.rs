//! A channel: a bounded queue of records of one size between threads of the host and lanes of a running kernel, in memory that both see.
//!
//! The rules and proofs are in [`protocol::channels`](crate::protocol::channels). Each side has one *end*: all senders share one, all receivers the
//! other. An end's cursor lies in its own side's memory, so that additions stay there ([R-1]); of what both see, each word is only loaded and stored.
//!
//! ```text
//!  cursor of the senders ──► claims place p ──► cell p mod capacity: turn = p      free
//!                                                │ the record is written
//!                                                ▼
//!                                              turn = p + 1                        full
//!                                                │ the record is read
//!  cursor of the receivers ─► claims place p ─►  ▼
//!                                              turn = p + capacity                 free, for place p + capacity
//! ```

use crate::abi::Errno;
use crate::word::{DeviceWord, SharedWord, wake_fence};

/// Which end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// That of all senders.
    Sender,
    /// That of all receivers.
    Receiver,
}

/// The words of a channel that both sides see, beside its turns. In memory that the kernel may read and write, too.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct ChannelWords {
    /// 1: a lane sleeps, or is about to. Set by lanes, cleared by the host's threads.
    pub lanes_asleep: SharedWord,
    /// 1: a thread of the host sleeps, or is about to. Set by these threads, cleared by lanes.
    pub host_asleep: SharedWord,
    /// 1: no record will be sent any more. Set by the host, once, for lanes; its threads have a word of their own.
    pub closed: SharedWord,
    /// Nothing.
    pub unused: SharedWord,
    /// What a lane's ring of a bell writes: 1. Constant.
    pub one: [SharedWord; 2],
    /// What a lane that silences a bell reads into. Nobody reads it.
    pub silenced: [SharedWord; 2],
}

/// Whose an end is.
#[derive(Clone, Copy, Debug)]
pub enum Side<'a> {
    /// Lanes'.
    Lanes,
    /// Threads' of the host, with a word that says that no record will be sent any more. It lies where no kernel writes: a thread that waits must see
    /// that its channel is closed, whatever a kernel does to what both share.
    Host(&'a SharedWord),
}

/// What a look at a place's cell found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum CellState {
    /// It is this end's turn.
    Ready,
    /// It is the other end's turn still.
    NotYet,
    /// Another of this end has had it: the cursor has moved.
    Past,
}

/// Places that were claimed: their first, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the places are the caller's, who passes each of them on"]
pub struct Places {
    /// The first place.
    pub first: u32,
    /// How many follow each other, at least one.
    pub count: u32,
}

/// One end of a channel, for those who share it.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// A power of two of them, at least two, at most 2¹⁶.
    turns: &'a [SharedWord],
    /// The next place that one of this end claims.
    cursor: &'a DeviceWord,
    role: Role,
    /// Set by this side, where one sleeps.
    mine: &'a SharedWord,
    /// Set by the other side.
    theirs: &'a SharedWord,
    closed: &'a SharedWord,
}

/// The most cells of a channel.
pub const CELLS_MAX: u32 = 1 << 16;

impl<'a> End<'a> {
    /// The end of lanes, or of the host's threads.
    ///
    /// # Panics
    /// If the turns are not a power of two of them, at least two, and at most [`CELLS_MAX`].
    #[must_use]
    pub fn new(
        words: &'a ChannelWords,
        turns: &'a [SharedWord],
        cursor: &'a DeviceWord,
        role: Role,
        side: Side<'a>,
    ) -> Self {
        assert!(
            turns.len().is_power_of_two() && (2..=CELLS_MAX as usize).contains(&turns.len()),
            "cells of a channel"
        );
        let (mine, theirs, closed) = match side {
            Side::Lanes => (&words.lanes_asleep, &words.host_asleep, &words.closed),
            Side::Host(closed) => (&words.host_asleep, &words.lanes_asleep, closed),
        };
        Self { turns, cursor, role, mine, theirs, closed }
    }

    /// Makes new cells free for the first round.
    pub fn prepare(turns: &[SharedWord]) {
        for (turn, place) in turns.iter().zip(0..) {
            // ORDERING: relaxed: before anybody has the channel.
            turn.set(place);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most CELLS_MAX")]
    const fn capacity(&self) -> u32 {
        self.turns.len() as u32
    }
    /// The cell of a place: an index.
    #[must_use]
    #[inline]
    pub const fn cell(&self, place: u32) -> usize {
        (place & (self.capacity() - 1)) as usize
    }
    /// The turn at which a place is this end's.
    const fn turn_of(&self, place: u32) -> u32 {
        match self.role {
            Role::Sender => place,
            Role::Receiver => place.wrapping_add(1),
        }
    }

    /// The next place, which may be stale: [`End::look`] says so.
    #[must_use]
    #[inline]
    pub fn next(&self) -> u32 {
        // ORDERING: relaxed: a place is claimed by an exchange, and a stale one is found by its turn.
        self.cursor.peek()
    }

    /// Whose turn it is at a place.
    #[inline]
    pub fn look(&self, place: u32) -> CellState {
        // ORDERING: acquire, partner `pass_on` of the other end: the record was written, or read.
        let turn = self.turns[self.cell(place)].observe();
        match turn.wrapping_sub(self.turn_of(place)).cast_signed() {
            0 => CellState::Ready,
            1.. => CellState::Past,
            _ => CellState::NotYet,
        }
    }

    /// Claims `count` places from `first` on, each of which was [`CellState::Ready`]; false where another was faster. [R-CHANNEL-2].
    #[inline]
    #[must_use]
    pub fn claim_from(&self, first: u32, count: u32) -> bool {
        // ORDERING: acquire and release; partner: the same of others of this end. Of several, one gets the places.
        self.cursor.compare_exchange(first, first.wrapping_add(count)).is_ok()
    }

    /// Claims up to `wanted` places, for one alone; `None` where the next one is the other end's still.
    pub fn claim(&self, wanted: u32) -> Option<Places> {
        let mut first = self.next();
        // Ends: each round that fails, another of this end has claimed.
        loop {
            let count = (0..wanted.min(self.capacity()))
                .take_while(|rank| self.look(first.wrapping_add(*rank)) == CellState::Ready)
                .count();
            #[expect(clippy::cast_possible_truncation, reason = "at most the capacity")]
            let count = count as u32;
            if count > 0 && self.claim_from(first, count) {
                return Some(Places { first, count });
            }
            let now = self.next();
            if count == 0 && (now == first || self.look(first) == CellState::NotYet) {
                return None;
            }
            first = now;
        }
    }

    /// Whether the next place is this end's.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let mut place = self.next();
        // Ends: a cursor that was stale has moved, or the turn means nothing.
        loop {
            match self.look(place) {
                CellState::Ready => return true,
                CellState::NotYet => return false,
                CellState::Past => {}
            }
            let now = self.next();
            if now == place {
                return false;
            }
            place = now;
        }
    }

    /// Passes a place on to the other end: its record was written, or read. [R-CHANNEL-3].
    #[inline]
    pub fn pass_on(&self, place: u32) {
        let turn = match self.role {
            Role::Sender => place.wrapping_add(1),
            Role::Receiver => place.wrapping_add(self.capacity()),
        };
        // ORDERING: release, partner `look` of the other end: the record comes before.
        self.turns[self.cell(place)].publish(turn);
    }

    /// Whether one of the other side must be woken, after places were passed on: the caller rings their bell. [R-CHANNEL-5].
    #[inline]
    #[must_use]
    pub fn must_wake(&self) -> bool {
        wake_fence();
        // ORDERING: relaxed: the fence orders it after the turn's store. Partner: `announce`.
        if self.theirs.peek() == 0 {
            return false;
        }
        // ORDERING: relaxed: whoever rings does so after this; a sleeper that sets it again looks again behind a fence.
        self.theirs.set(0);
        true
    }

    /// Says that one of this side is about to sleep, who then looks again. [R-CHANNEL-4].
    #[inline]
    pub fn announce(&self) {
        // ORDERING: relaxed: the fence orders it before the look that follows. Partner: `must_wake`.
        self.mine.set(1);
        wake_fence();
    }

    /// Whether no record will be sent any more.
    #[must_use]
    #[inline]
    pub fn is_closed(&self) -> bool {
        // ORDERING: acquire, partner `close`: every record that was sent comes before.
        self.closed.observe() != 0
    }

    /// Says that no record will be sent any more, to lanes, too, by these words of the channel; both bells are rung next. By the host, once nobody
    /// sends. [R-CHANNEL-7].
    pub fn close(&self, words: &ChannelWords) {
        // ORDERING: release, partner `is_closed`; the fence as in `must_wake`: who did not see it sleeps only after it can hear the bell.
        self.closed.publish(1);
        // ORDERING: as above, for lanes.
        words.closed.publish(1);
        wake_fence();
    }
}

/// How one sleeps at an end: the bell of its side. It rings until it is silenced.
pub trait Bell {
    /// Waits until it rings. It may return before.
    ///
    /// # Errors
    /// Why the wait ended otherwise: `ETIMEDOUT`, `ECANCELED` …
    fn wait(&mut self) -> Result<(), Errno>;
    /// Stops it, if it rings.
    fn silence(&mut self);
    /// Rings it, for others of this side.
    fn ring(&mut self);
}

/// Sleeps until `attempt` gives something, or the channel is closed: `None` then. `sleepers` counts those of this side that are in here.
/// [R-CHANNEL-4], [R-CHANNEL-6].
///
/// # Errors
/// The bell's.
pub fn sleep_until<R>(
    end: &End<'_>,
    sleepers: &DeviceWord,
    bell: &mut impl Bell,
    mut attempt: impl FnMut() -> Option<R>,
) -> Result<Option<R>, Errno> {
    // ORDERING: acquire and release, partner: the subtraction below. A later comer has the records that its owner saw.
    sleepers.fetch_add(1);
    let mut silenced = false;
    // Ends: with the attempt, the channel or the wait.
    let outcome = loop {
        end.announce();
        let closed = end.is_closed();
        if let Some(result) = attempt() {
            break Ok(Some(result));
        }
        if closed {
            break Ok(None);
        }
        if let Err(errno) = bell.wait() {
            break Err(errno);
        }
        bell.silence();
        silenced = true;
    };
    // ORDERING: as above.
    if sleepers.fetch_sub(1) > 1 && silenced {
        bell.ring();
    }
    outcome
}

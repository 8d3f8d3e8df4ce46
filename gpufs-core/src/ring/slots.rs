//! The operation table: slots are claimed, armed, looked at, and released. And how many waits without an end there may be.
#![expect(unsafe_code, reason = "steps whose caller answers for the slot's holder")]

use super::Queue;
#[cfg(doc)]
use crate::alloc::FreeSet;
use crate::alloc::{Claim, FreePlace};
use crate::word::{DeviceWord, release_fence};

/// A slot of a ring's operation table: below [`Queue::capacity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Slot(pub u32);

/// Slots of a ring, claimed together and held by one warp: at least one. They are released once, since a claim cannot be copied.
#[derive(Debug, PartialEq, Eq)]
#[repr(transparent)]
#[must_use = "a slot whose claim is dropped is never free again"]
pub struct SlotClaim(Claim);

impl SlotClaim {
    /// How many slots, 1 to 64.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.0.count()
    }
    /// The number of the slot of this rank, counting from the lowest; `rank` is below [`SlotClaim::count`].
    #[must_use]
    pub const fn item(&self, rank: u32) -> u32 {
        self.0.item(rank)
    }
    /// The claim as numbers, for the other lanes of a warp or for a word that holds the slot meanwhile.
    pub const fn into_claim(self) -> Claim {
        self.0
    }
    /// The claim that these numbers stand for.
    ///
    /// # Safety
    /// - The slots were claimed of the queue that the claim is used with, and have not been released.
    /// - They are released once, whatever other claims of the same slots the lanes of a warp have made.
    pub const unsafe fn from_claim(claim: Claim) -> Self {
        Self(claim)
    }
    /// The claim of the slot of an operation, for the lane that has reaped it.
    ///
    /// # Safety
    /// As for [`SlotClaim::from_claim`].
    pub const unsafe fn of(operation: Operation) -> Self {
        Self(Claim::single(operation.slot.0))
    }
}

/// One live operation: its slot and the slot's generation. As a number it is the SQE's `user_data`.
///
/// ```text
/// 63           62 … 32        31 … 0
/// journaled    generation     slot
/// ```
///
/// A token is the number without [`Operation::JOURNALED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The slot.
    pub slot: Slot,
    /// Its generation: 1 to 2³¹ − 1.
    pub generation: u32,
}

impl Operation {
    /// Set in the `user_data` of an operation whose result must outlive the device: the write of a journaled block, the opening of a file.
    pub const JOURNALED: u64 = 1 << 63;

    /// The number that stands for it.
    #[must_use]
    pub const fn token(self) -> u64 {
        ((self.generation as u64) << 32) | self.slot.0 as u64
    }
    /// The operation that a token stands for.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the token")]
    pub const fn from_token(token: u64) -> Self {
        Self { slot: Slot(token as u32), generation: (token >> 32) as u32 }
    }
}

/// What is known of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Not complete: the buffer is the kernel's.
    InFlight,
    /// Complete, with the CQE's `res`.
    Done(i32),
    /// The slot has gone on to another operation.
    Stale,
}

/// Operations that are counted and not admitted yet, by [`Queue::reach_for_waits`].
#[derive(Debug)]
#[must_use = "what is counted and goes no further keeps others out"]
pub struct Reach {
    most: u32,
    /// The count before.
    before: u32,
    /// 0 where there was no room.
    wanted: u32,
}

/// What an asynchronous operation holds of its queue, by [`Queue::holding`].
#[derive(Debug)]
#[must_use = "the slot is never free again"]
pub struct Holding<'a> {
    slot: FreePlace,
    begun: &'a DeviceWord,
}

impl Holding<'_> {
    /// [`Queue::release`] and [`Queue::end_wait`], with the `memory` that goes back too, if there is some: one fence for all. [R-ASYNC-3].
    #[inline]
    pub fn give_back(self, memory: Option<FreePlace>) {
        // ORDERING: release, device, partner the claims of the memory and of the slot: what was read there, and copied, comes before.
        release_fence();
        if let Some(memory) = memory {
            memory.release_fenced();
        }
        self.slot.release_fenced();
        // ORDERING: relaxed, as in `end_waits`.
        self.begun.count(1_u32.wrapping_neg());
    }
}

/// Generations of a slot.
pub(super) const GENERATIONS: u32 = (1 << 31) - 1;
/// In a slot's word: the operation is done.
pub(super) const DONE: u64 = 1 << 32;

/// A slot's word while the operation of this generation is in flight.
pub(super) const fn in_flight_word(generation: u32) -> u64 {
    (generation as u64) << 33
}

impl Queue {
    /// Claims up to `wanted` slots (1 to 64) for a batch; `None` if none is free. One lane. [R-2].
    pub fn claim(&self, wanted: u32, hint: u32) -> Option<SlotClaim> {
        let free = &self.parts.free;
        let claim = if wanted == 1 { free.claim_one(hint) } else { free.claim(wanted, hint) };
        match claim {
            Some(claim) => Some(SlotClaim(claim)),
            None => {
                // ORDERING: relaxed: a counter.
                self.counters().slot_waits.count(1);
                None
            }
        }
    }

    /// Puts a claimed slot in flight under a new generation. The lane whose operation it is.
    ///
    /// # Safety
    /// - The slot is claimed, and the caller's: no other lane arms it, and no operation is in flight in it.
    /// - If an SQE with the operation's token is committed, the claim is released only after [`Queue::outcome`] has said that it is done.
    #[must_use]
    pub unsafe fn arm(&self, slot: Slot) -> Operation {
        let word = self.slot(slot);
        // ORDERING: relaxed: the slot is the caller's (acquired by the claim, or kept since its last outcome).
        let before = word.peek() >> 33;
        let generation = before as u32 % GENERATIONS + 1;
        // ORDERING: relaxed: the poller sees it through commit → tail → kernel → CQ tail.
        word.set(in_flight_word(generation));
        Operation { slot, generation }
    }

    /// What is known of an operation. Any lane.
    #[inline]
    pub fn outcome(&self, operation: Operation) -> Outcome {
        let slot = self.slot(operation.slot);
        // ORDERING: relaxed: that it goes on says nothing of other memory. An acquire at each look of those who wait would empty the cache that
        // lanes of their multiprocessor copy through: measured alone, one brings a page over the bus in 13 µs, and in 32 beside such looks.
        if slot.peek() == in_flight_word(operation.generation) {
            return Outcome::InFlight;
        }
        // ORDERING: acquire, device, partner `deliver`: the buffer's content comes before the result.
        let word = slot.observe();
        if word >> 33 != u64::from(operation.generation) {
            Outcome::Stale
        } else if word & DONE == 0 {
            Outcome::InFlight
        } else {
            #[expect(clippy::cast_possible_truncation, reason = "the low half is the result")]
            Outcome::Done((word as u32).cast_signed())
        }
    }

    /// Sets how many waits without an end may be in flight. While no kernel runs.
    pub fn limit_waits(&self, most: u32) {
        // ORDERING: relaxed: the next launch publishes it.
        self.words().waits.0.most.set(most);
    }

    /// Begins a wait without an end, if fewer are in flight than there may be; whether it did. One lane, before it claims the slot for the
    /// wait. It calls [`Queue::end_wait`] when it has released the slot. [R-8].
    #[must_use]
    pub fn begin_wait(&self) -> bool {
        self.begin_waits(1) == 1
    }

    /// [`Queue::begin_wait`] of up to `wanted` operations: how many, fewer only where no more may be in flight. One lane, for its warp.
    #[must_use]
    pub fn begin_waits(&self, wanted: u32) -> u32 {
        let reach = self.reach_for_waits(wanted);
        self.admit_waits(reach)
    }

    /// The first half of [`Queue::begin_waits`]: the lane may look at something else before [`Queue::admit_waits`], while the count is on its way.
    #[inline]
    pub fn reach_for_waits(&self, wanted: u32) -> Reach {
        let waits = &self.words().waits.0;
        // ORDERING: relaxed, both: the first is constant; the other is a count, and publishes nothing. A lane that is counted where another has
        // ended may not see that one's slot free yet. It was given back before, so a wait for it ends, as for any slot.
        let (most, seen) = (waits.most.peek(), waits.begun.peek());
        // Who tries again and again would be counted for so long, all together, that nobody is admitted [P-ASYNC-PROGRESS].
        if seen >= most {
            return Reach { most, before: seen, wanted: 0 };
        }
        // ORDERING: relaxed, as above.
        Reach { most, before: waits.begun.fetch_add_relaxed(wanted), wanted }
    }

    /// The second half: how many of those that were reached for are begun. What is beyond the limit goes back. The same lane.
    #[inline]
    #[must_use]
    pub fn admit_waits(&self, reach: Reach) -> u32 {
        let Reach { most, before, wanted } = reach;
        let admitted = most.saturating_sub(before).min(wanted);
        if admitted < wanted {
            self.end_waits(wanted - admitted);
        }
        admitted
    }

    /// [`Queue::begin_waits`] of up to `wanted` chains of so many `links`, each whole or not at all: how many. One lane, for its warp. [R-CHAIN-1].
    #[must_use]
    pub fn begin_chains(&self, wanted: u32, links: u32) -> u32 {
        let admitted = self.begin_waits(wanted * links);
        let rest = admitted % links;
        if rest > 0 {
            self.end_waits(rest);
        }
        admitted / links
    }

    /// Lets another begin.
    pub fn end_wait(&self) {
        self.end_waits(1);
    }

    /// Lets `ended` others begin. One lane, when the slots of those that ended are released.
    pub fn end_waits(&self, ended: u32) {
        let begun = &self.words().waits.0.begun;
        // ORDERING: relaxed: those of the caller are among them.
        debug_assert!(begun.peek() >= ended);
        // ORDERING: relaxed, as in `begin_waits`: no fence for each operation that ends.
        begun.count(ended.wrapping_neg());
    }

    /// Notes of an asynchronous operation that it may never end. Its lane, between arming and commit.
    pub fn note_endless(&self, operation: Operation) {
        self.parts.endless.release(Claim::single(operation.slot.0));
    }

    /// Takes the note back. The lane that takes the result, before it releases the slot.
    pub fn clear_endless(&self, operation: Operation) {
        let noted = self.parts.endless.claim_item(operation.slot.0);
        debug_assert!(noted, "noted when it was started");
    }

    /// The operation that was in flight last in a slot, while it is so, and whether it was noted that it may never end. Exact while no kernel
    /// runs.
    #[must_use]
    pub fn in_flight(&self, slot: Slot) -> Option<(Operation, bool)> {
        // ORDERING: acquire, device, partner `deliver`.
        let word = self.slot(slot).observe();
        let generation = (word >> 33) as u32;
        let live = generation != 0 && word & DONE == 0 && !self.parts.free.is_free(slot.0);
        live.then(|| (Operation { slot, generation }, self.parts.endless.is_free(slot.0)))
    }

    /// The result that was delivered to a slot and not taken, if there is one. Exact while no kernel runs.
    #[must_use]
    pub fn untaken(&self, slot: Slot) -> Option<i32> {
        // ORDERING: acquire, device, partner `deliver`.
        let word = self.slot(slot).observe();
        #[expect(clippy::cast_possible_truncation, reason = "the low half is the result")]
        (word & DONE != 0 && !self.parts.free.is_free(slot.0)).then_some((word as u32).cast_signed())
    }

    /// Operations that were begun and have not ended. Exact while no kernel runs.
    #[must_use]
    pub fn waits(&self) -> u32 {
        // ORDERING: relaxed: a statistic.
        self.words().waits.0.begun.peek()
    }

    /// How often the host has ended all asynchronous operations: what a lane has of one is of no use in a later round. [R-ASYNC-6].
    #[inline]
    #[must_use]
    pub fn round(&self) -> u32 {
        // ORDERING: relaxed: constant while kernels run.
        self.words().waits.0.rounds.peek()
    }

    /// Begins a new round, with the `waits` operations that are still in flight. The host, while no kernel runs and no call is inside, when it has
    /// released the slots of all others. [R-ASYNC-6].
    pub fn begin_round(&self, waits: u32) {
        for slot in 0..self.capacity() {
            if self.parts.free.is_free(slot) {
                let _ = self.parts.endless.claim_item(slot);
            }
        }
        let words = &self.words().waits.0;
        // ORDERING: relaxed, both: the next launch publishes them.
        words.begun.set(waits);
        words.rounds.set(words.rounds.peek().wrapping_add(1));
    }

    /// Gives slots back. One lane, after every operation in them is done and its outcome was read.
    pub fn release(&self, claim: SlotClaim) {
        self.parts.free.release(claim.0);
    }

    /// What goes back when the result of an asynchronous operation was taken, its slot and its count: looked up before the time comes.
    pub fn holding(&self, claim: SlotClaim) -> Holding<'_> {
        Holding { slot: self.parts.free.place(claim.0), begun: &self.words().waits.0.begun }
    }

    /// Makes every slot free, in a queue whose words are zero: what a new queue begins with.
    ///
    /// # Safety
    /// The caller made the queue, and no other thread uses it yet.
    pub unsafe fn release_all(&self) {
        self.parts.free.release_all(self.parts.capacity);
    }

    /// Releases every slot that is taken and not `is_used`: its holder is gone.
    ///
    /// # Safety
    /// No kernel runs, nothing is in flight in those slots, and no lane that held one comes back.
    pub unsafe fn reclaim(&self, is_used: impl Fn(u32) -> bool) {
        for slot in (0..self.capacity()).filter(|slot| !self.parts.free.is_free(*slot) && !is_used(*slot)) {
            self.parts.free.release(Claim::single(slot));
        }
    }

    /// Free slots. As stale as [`FreeSet::free`].
    #[must_use]
    pub fn free_slots(&self) -> u32 {
        self.parts.free.free()
    }
}

//! Why the rules are enough: what is never lost, overwritten or delivered twice.
//!
//! **P-OVERWRITE** *No unread SQE is overwritten.* Suppose that ticket *t* is written while the SQE of *t − entries* is unread. The kernel
//! reads in order, so none of the *entries + 1* tickets *t − entries … t* has completed. By each of them holds a slot of its own.
//! That is more slots than there are. (So the hot path never reads the SQ head.)
//!
//! The same in terms of "happens before": two of those tickets had one slot. The producer that drew the later one had acquired the
//! completion of the earlier one, and with it the kernel's read of every SQE up to it; and drawing a ticket acquires what every earlier
//! drawer knew. That edge is needed: the slot of ticket *t* itself may have been claimed before any of this.
//!
//! **P-CQ** *The CQ never overflows.* One SQE gives one CQE (no multishot). Each CQE in the ring or still to be posted has an allocated slot,
//! or was copied but not yet returned to the kernel. When a completion is delivered, fewer than *head step* entries are in the second state,
//! because [R-6d] stores the head first. By release and acquire along slot → free bit → claim → tail, the kernel that reads a later SQE also
//! sees that head. So at most *capacity + head step − 1 ≤ CQ entries* lie between the head that the kernel sees and its tail.
//!
//! **P-FAILED** *A failed ring is never mistaken for a live one, nor a live one for a failed one.* `drained` is at or past the CQ head, so by
//! [P-CQ] a tail that the ring service stored is at most *CQ entries* past `drained`. The host's tail is 2³¹ past a CQ head. `drained` has
//! passed that head by at most *CQ entries*, and by as many again with completions that were posted since. So the host's tail is at least
//! 2³¹ − 2 · *CQ entries* past `drained`, which is more than *CQ entries* (at most 2¹⁶). No entry is read on its account. The service loads
//! no CQ tail, so nothing is lost by the store.
//!
//! **P-MARK** *A `ready` mark is never lost or read twice.* The next batch that starts at the same index can be drawn only after a ticket
//! one lap earlier has completed. The publisher cleared that ticket's mark before the tail store that let it complete ([R-4]). So the
//! clearing happens before the next mark.
//!
//! **P-ONCE** *Each completion is delivered exactly once.* One poller copies each CQE: `drained` moves under the `poller` lock. Delivery
//! is one successful exchange ([R-7]). A second CQE with the same generation, or one with an old generation, finds another word and is
//! rejected as stale.
//!
//! **P-PUBLISH** *Nothing ready stays unpublished.* A committer marks its batch, then adds to the publications ([R-5c]).
//!
//! 1. If it finds zero, it publishes the batch itself.
//! 2. Otherwise its add precedes the publisher's subtract, which then leaves a remainder. A publisher scans again and sees the mark through
//!    the same word: the same publisher, or the lane that adopts the remainder. While a remainder is orphaned there are publications, so no
//!    producer becomes a second publisher, and the exchange lets one lane adopt it.
//! 3. Every lane that waits drains, and so adopts. What some lane waits for is therefore published.
//! 4. A batch that the publisher itself marked ([R-5b]) comes after an earlier ticket that is not yet published. If that ticket's batch is
//!    committed, its committer has added to the publications or will: before the publisher subtracts, and then the publisher scans again, or
//!    after, and then the committer scans itself, past both.
//!
//! A publisher that has drawn and not yet committed waits for nothing. What others commit meanwhile is delayed no longer than by any earlier
//! ticket that is drawn and not yet filled. A scan passes at most *capacity* tickets, since nothing that it passes can complete before the
//! tail is stored. A publisher leaves after a few rounds ([R-5e]), so it does a bounded amount of work, however fast others commit.
//!
//! **P-WAKE** *No wake-up is lost.* While kernels run, the ring service on the host polls `NEED_WAKEUP` and the tail repeatedly, so a stale
//! look is followed by a fresh one. The kernel's thread sets the flag, fences, and looks at the tail once more before it sleeps. Only
//! parking the service is an edge: there the host fences between announcing work and looking
//! ([`wake_fence`](crate::word::wake_fence)).

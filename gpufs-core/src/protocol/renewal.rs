//! A ring that is renewed below its queue: another ring of the kernel takes the addresses of the old one, so that it has the rights that the
//! program has now (`gpufs-host/src/ring/renew.rs`). Tables and devices name those addresses, and notice nothing.
//!
//! # Rules
//!
//! **R-RENEW-1** *Nobody is there.* A ring is exchanged while no kernel runs, no call of others is inside ([`gate`](crate::gate), shut with
//! `exclude`), every slot of its queue is free, and nothing serves it: the ring service has ended. Where a slot is not free, nothing is exchanged.
//!
//! **R-RENEW-2** *The successor is proved before it is put in place.* It lies as the old ring does, with as many entries; it knows the session's
//! buffers and files; and operations have completed through it, of which every completion was consumed. So its SQ tail, CQ tail and CQ head are
//! one number. Until then a refusal leaves the old ring as it was; from then on a failure ends the session.
//!
//! **R-RENEW-3** *The queue begins where the successor stands.* Tickets, what is published, and what is drained are that number
//! ([`Queue::begin_at`](crate::Queue::begin_at)); no publication is owed, so none is orphaned. Marks stay, as they are all zero; generations
//! stay, and go on counting.
//!
//! **R-RENEW-4** *Calls come back by the gate.* What the queue's words and the ring hold is written before `admit`, and read after `enter`.
//! Kernels come later, by a launch.
//!
//! # Proofs
//!
//! **P-RENEW** *The queue over the new ring is as a new one.*
//!
//! 1. No entry of the old ring is lost: each slot is free ([R-RENEW-1]), so each operation's completion was delivered, and it had been submitted.
//! 2. No mark is set. A batch whose mark the publisher has not cleared is not published ([R-4]), so its slots are not free.
//! 3. No publication is owed that matters: what was left orphaned is of batches that are published, by the same argument. The addition that
//!    begins the next finds zero, and publishes ([P-PUBLISH]).
//! 4. No completion is taken for another's: those of the old ring have come, and the old ring's memory is gone. Those of the successor's proof were
//!    consumed. Generations go on, so a completion that is neither is stale ([P-ONCE]).
//! 5. The SQ tail never moves backwards for the kernel that reads it: each kernel's ring sees one sequence, its own ([P-OVERWRITE]).
//! 6. Plain stores suffice for the words: every earlier user has left by the gate or was joined, every later one enters by it or is launched
//!    ([R-RENEW-4]). Loom's model is `gpufs-core/tests/loom_renew.rs`.

//! The ring protocol of gpufs and everything that its device and host halves agree on.
//!
//! Nothing here knows an operating system, an allocator or a GPU. The functions are the *steps of one lane*; `gpufs-device` puts
//! them together for a warp, and `gpufs-host` calls them as a warp of one when it flushes what a kernel left behind.
//!
//! # The rules
//!
//! Code cites them by number. "Happens before" is that of the C++ memory model; the kernel is one more agent, which loads the
//! SQ tail with acquire, stores the CQ tail with release, and writes no entry before it has loaded a CQ head that frees it (the
//! kernel relies on that control dependency; the tests' kernels acquire).
//!
//! **Who may touch what**
//!
//! 1. *Only plain loads and stores touch memory shared with the kernel.* Read-modify-write happens in device memory.
//! 2. *A slot is a credit.* An operation holds one slot of its ring from before its ticket is drawn until after its completion
//!    has been delivered. A ring has [`Queue::capacity`] slots, at most min(SQ entries, CQ entries).
//! 3. *A ticket is a place in the SQ.* Tickets are drawn in order by one counter, a batch of *n* at once; ticket *t* fills SQE
//!    *t* mod entries, and only its holder does.
//! 4. *Ready, then published.* The holder of a batch writes its SQEs, then stores the batch's length at `ready[first ticket]`. The
//!    publisher takes ready batches in ticket order, clears each mark, and stores the tail once behind the last of them.
//! 5. *One publisher.* Who draws tickets adds one to the publications with the same addition, and is the publisher if it finds zero:
//!    there was none. It commits its own batch by storing the tail behind it, unmarked, if it is next in line, else by marking it. Every
//!    other committer marks its batch and adds one more; if that finds zero, it is the publisher now. A publisher scans, and leaves by
//!    subtracting what it has served; if anything remains it goes on, and after a few rounds leaves the rest in `orphaned`. Whoever drains
//!    adopts it: takes it by exchange, and is the publisher.
//! 6. *One poller.* `poller` is taken by try-lock. Its holder reads the CQ tail, copies entries out, stores the CQ head if a multiple of
//!    the *head step* is passed, and only then delivers the copies to their slots; it waits for nothing meanwhile. It gives the lock back
//!    when it has delivered its own copies: those that other lanes of its warp still deliver lie before `drained`, and their slots are in use.
//! 7. *A completion is delivered by one exchange* of the slot's word from "generation g in flight" to "generation g done".
//! 8. *What may never end holds a slot that was set aside for it.* Operations on stream buffers (write-behind of stream blocks, reads ahead of
//!    lines, fills of streams that read) are never more than the session's stream buffers, one each. Besides these, only a poll of a file
//!    may be in flight without an end, and a ring has at most as many as [`Queue::begin_wait`] admits. Every ring has more slots than both
//!    together, two more at least. Any other operation on a file that may have to wait for another party (a pipe, a FIFO, a socket, a
//!    terminal: [`session::OpenFile::may_wait`]) is told not to wait, or is cancelled after a while; an open of a FIFO is told not to wait.
//! 9. *A ring that has failed says so by its CQ tail.* Where whoever serves a ring has stopped for good, the host stores
//!    [`Queue::failed_tail`] there, 2³¹ past the CQ head that it sees, and again if a completion of what was in flight overwrites it. A poller
//!    that finds the tail more than *CQ entries* past `drained` takes nothing and gives the lock back; whoever waits then gives up.
//! 10. *A stream becomes another at rest.* Its blocks' buffers, its file, and where and in which size its blocks lie change only under its lock,
//!     while each block is FILLING and nobody is about to free one (`stream::rest`): all is written, or was taken back.
//! 11. *Each entry for a stream has a stream buffer of its own*, so that it can be opened and written whatever the others hold.
//!     The buffers beyond, the *spare* ones, are claimed by streams that write much ([`stream::Stream::grow`]) and by lines that are read ahead,
//!     and come back when the stream is closed, or the lines are. Who finds none goes on with what it has: nobody waits for a spare buffer.
//!
//! # Why it works
//!
//! *No unread SQE is overwritten.* Suppose ticket *t* is written while the SQE of *t − entries* is unread. The kernel reads in
//! order, so none of the *entries + 1* tickets *t − entries … t* has completed, and by rule 2 each holds a slot of its own: more
//! slots than there are. ∎ (The hot path therefore never reads the SQ head.) The same in terms of "happens before": two of those
//! tickets had one slot, so whoever drew the later one had acquired the earlier one's completion, and with it the kernel's read of
//! every SQE up to it; and drawing a ticket acquires what every earlier drawer knew. That edge is needed: the slot of ticket *t*
//! itself may have been claimed before any of this.
//!
//! *The CQ never overflows.* One SQE gives one CQE (no multishot). A CQE that lies in the ring, or is still to be posted, belongs
//! to a slot that is not yet free, or has been copied and not given back: of these there are fewer than the head step when slots are told,
//! since by rule 6 the CQ head is stored before, where a multiple of it is passed. By release and acquire along slot → free bit → claim →
//! tail, the kernel that reads a later SQE also sees that head. So at most *capacity + head step − 1 ≤ CQ entries* lie between the head
//! that the kernel sees and its tail. ∎
//!
//! *A failed ring is never mistaken for a live one, nor a live one for a failed one.* `drained` is at or past the CQ head, so by the proof above
//! a tail that the service stored is at most *CQ entries* past `drained`. The host's tail is 2³¹ past a CQ head, which `drained` has passed
//! by at most *CQ entries*, and by as many again with completions that were posted since: at least 2³¹ − 2 · *CQ entries* past `drained`, which
//! is more than *CQ entries* (at most 2¹⁶). No entry is read on its account. The service loads no CQ tail, so nothing is lost by the store. ∎
//!
//! *A `ready` mark is never lost or read twice.* The next batch that starts at the same index can only be drawn after a ticket
//! one lap earlier completed; its mark was cleared before the tail store that let it complete (rule 4). So clearing happens before
//! marking anew. ∎
//!
//! *Each completion is delivered exactly once.* Each CQE is copied by one poller: `drained` moves under the `poller` lock. Delivery
//! is one successful exchange (rule 7); a second CQE with the same generation, or one with an old generation, finds another
//! word and is rejected as stale. ∎
//!
//! *Nothing ready stays unpublished.* A committer marks ready, then adds to the publications. If it finds zero it publishes itself.
//! Otherwise its add precedes the publisher's subtract, which then leaves a remainder, and a publisher scans again, seeing the mark
//! through the same word: the same one, or whoever adopts the remainder. While a remainder is orphaned there are publications,
//! so nobody becomes a second publisher, and the exchange lets one lane adopt it. Everyone who waits drains, and so adopts: what
//! somebody waits for is published. A batch that its committer marked as the publisher stands behind an earlier ticket. If that one is
//! committed, its committer has added or will: before the publisher subtracts, which then scans, or after, and then scans itself, past
//! both. ∎ A publisher that has drawn and not yet committed waits for nothing, so what others commit meanwhile is held up no longer than
//! by any ticket before theirs that is drawn and not yet filled. A scan passes at most *capacity* tickets, since nothing it passes can
//! complete before the tail is stored; and a publisher leaves after a few rounds, so no lane is held captive by the others' haste.
//!
//! *No wake-up is lost.* The host's attendant looks at `NEED_WAKEUP` and the tail again and again while kernels run, so a stale
//! look is followed by a fresh one; the kernel's thread sets the flag, fences, and looks at the tail once more before it sleeps. Only
//! parking the attendant is an edge, and there the host fences between announcing work and looking (`wake_fence`).
//!
//! *There is no schedule in which everybody waits.* A lane waits (a) for its operation, (b) for a slot, (c) for a staging buffer,
//! (d) for a stream block, (e) for a stream's or file's lock. Every waiting loop drains. The publisher, the poller and a warp between
//! reserving and committing stream space wait for nothing, so they finish. An operation that was committed is published (above), the
//! kernel completes it, and any waiter of its ring delivers it: (a) ends. Slots are held by operations somebody waits for, which end
//! by (a), and by what may never end, which leaves some free by rule 8: (b) ends; who needs two slots at once holds neither while it
//! waits. Staging buffers are held only across (b) and (a) of operations that end by themselves: (c) ends. What is not ready (a pipe that is
//! empty or full, a FIFO that nobody reads) is waited for with no staging buffer, slot or lock but those that rule 8 sets aside: by a poll
//! that was admitted, else by naps and polls that are cancelled at once. So it keeps nothing from who would make it ready. A stream block is busy while it is filled (no wait), while its write waits for a slot (b) or completes (a), or until
//! its predecessor in a serial stream is written (the same, by induction); of those that wait for it one at a time reaps it, which
//! waits for nothing, and then lets the others: (d) ends, or reports the write's error. A stream that grows is held under its lock, with
//! its blocks written (the same waits), and then takes what is spare, which waits for nothing (rule 11). Who has taken room of a stream
//! adds it to the cursor or gives it back, and waits for nothing meanwhile, so that the lock's holder need not wait long for either; nor
//! for who starts or frees a block, when it takes back what could not be written (rule 10). A block of lines that are read ahead
//! ([`stream::readahead`]) is the same: who waits for lines starts its read, reaps, indexes and publishes it, each a step that waits for
//! nothing, and the lock's holder waits for those steps and for reads in flight (a). The locks are
//! first come first served and held across (a) to (d) only, taken in the order stream, file: (e) ends. ∎ (What is left: a stream that
//! waits for its file, such as a read of a pipe that nobody writes, holds its lock, its own buffers, and for each operation on these a slot,
//! as on a CPU `FILE` is locked meanwhile. A lane that opens a FIFO for writing holds its entry of the file table; and lanes that make one
//! call together return together. An operation that the kernel can neither try nor cancel, such as one on a file system that is gone, holds
//! its slot, its staging buffers, and in the mode of host threads its thread.)
//!
//! # What comes round
//!
//! Every number that grows, with the time until it has gone through all its values at the highest rates measured (`docs/performance.md`: 50 GB/s,
//! 400 million lines/s, and, well above what a ring does, 10 million operations/s through one; 50,000 openings and closings/s), and what happens
//! then. "Never" is more than 500 years.
//!
//! | number | where | bits | after | what happens then | test |
//! |---|---|---|---|---|---|
//! | tickets, SQ and CQ indices | [`QueueWords`], the ring | 32 | 7 minutes | they run free: differences are taken modulo 2³², and at most *entries* are in use | `tests/model`, `threads.rs::two_entries` |
//! | publications, publications left behind | `tickets`, `orphaned` | 32 | – | twice the producers present at most: what is served is subtracted | `loom.rs::publish_three` |
//! | a slot's generation | the slot's word | 31 | 3 hours of operations of 5 µs, one after the other in one slot | 1 follows. A token that somebody kept so long would name the new operation: nobody keeps one beyond its completion but a lane that is held up between a look and its exchange for all that time | `tests/model` |
//! | ... in a kept result | [`journal`] | 31 | the same | a result is compared only with the token in the place's record in force, which names the slot's last operation | `journal.rs::a_kept_result_outlives_its_queue` |
//! | an operation's counters ([`Counters`]), bytes and lines counted | [`Counters`] | 64 | never | – | – |
//! | waits without an end | `waits` | 32 | – | lanes that are present: each counts itself once, and is taken off again | `waits.rs` |
//! | tickets of a [`session::TicketLock`] | streams, files | 32 | 7 minutes | they run free: fewer than 2³² lanes wait, of whom each draws one | `session.rs::a_ticket_lock_comes_round` |
//! | a stream's position | its cursor, `closed_at`, `granted_to` | 48 | 94 minutes | behind [`stream::Stream::SPENT`], 2⁴⁷, the fast path is closed, and the next writer under the lock flushes and begins anew with a position in the first block | `wrapping.rs::a_stream_that_was_written_for_long_begins_anew` |
//! | a stream's room | `available` | 64, signed | never | granted less taken: at most what its blocks hold | `loom_stream.rs` |
//! | a place's `block_number`, `serial_next` | the block, the stream | 48 less log₂ B | as positions | begins anew with them | as positions |
//! | journal entries drawn in an epoch | a block's `committed` | 32 | – | cleared with each switch; a commit of an epoch has a byte at least, of which a block has 2²⁰ | `survival.rs` |
//! | journal epochs | a [`journal::Place`] | 64 | never | – | – |
//! | ... in an entry | [`journal`] | 64 less 2 log₂ of a buffer: 24 for 1 MiB | 4 minutes if all switches were one place's, at 70,000/s (3 for each 1 MiB of 25 GB/s) | a round ends: all entries are cleared in an epoch in which none counts | `journal.rs::entries_and_tickets_are_of_their_epoch_alone`, `loom_journal.rs` |
//! | ... beside a ticket | a place's `ticket` | 32 | 17 hours | the same | `journal.rs::a_ticket_that_comes_round_is_not_taken_for_the_next` |
//! | lines | the cursor of [`stream::readahead`]; `base` of a place | 43; 40 | 6 hours; 46 minutes | behind [`stream::readahead::Lines::SPENT`], 2³⁹, 23 minutes, lines count as closed, and are opened from 0 on again under the lock | `wrapping.rs::lines_that_are_read_ahead_are_numbered_anew_in_time` |
//! | lines of a block | a place's `lines` | 24 | – | a block has 2²⁰ bytes at most | `fgets.rs` |
//! | callers of lines, `progressing`, `freeing` | [`stream::readahead`], streams | 20; 32 | – | lanes that are present: a GPU holds some 300,000 | `loom_lines.rs` |
//! | a stream's openings | `generation`; a `File` of Rust | 31 | 12 hours, if all were one entry's | the number runs on. A `File` kept so long after it was closed would name another stream. `fopen` takes one of the free entries at random: with 250 free ones that is 4 months | `wrapping.rs::handles_of_c_come_again_late` |
//! | ... in a handle of C | the handle | 22 | 84 seconds, if all were one entry's | the same: with 250 free entries 6 hours | the same |
//!
#![cfg_attr(not(test), no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch))]
#![deny(unsafe_code)]

pub mod abi;
pub mod alloc;
pub mod call;
pub mod failures;
pub mod files;
pub mod journal;
pub mod kernel;
#[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
pub mod lanes;
pub mod lock;
mod position;
pub mod regions;
pub mod resources;
mod ring;
pub mod seek;
pub mod session;
pub mod shared;
pub mod stall;
pub mod stream;
pub mod word;

pub use abi::Errno;
pub use alloc::{Claim, FreeSet};
pub use call::Call;
pub use position::Position;
pub use ring::{
    Batch, CacheAligned, Counters, Delivery, Drain, Operation, Outcome, Poll, Queue, QueueParts,
    QueueProgress, QueueWords, Slot, Ticket,
};

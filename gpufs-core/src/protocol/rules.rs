//! Who may touch what.
//!
//! "Happens before" is that of the C++ memory model. The kernel is one more agent: it loads the SQ tail with acquire, stores the CQ tail
//! with release, and writes no entry before it has loaded a CQ head that frees it. (The kernel relies on that control dependency; the
//! tests' kernels acquire.)
//!
//! **R-1** *Only plain loads and stores touch memory shared with the kernel.* Read-modify-write happens in device memory.
//!
//! **R-2** *A slot is a credit.* An operation holds one slot of its ring from before its ticket is drawn until after its completion has
//! been delivered. A ring has [`Queue::capacity`](crate::Queue::capacity) slots, at most min(SQ entries, CQ entries).
//!
//! **R-3** *A ticket is a place in the SQ.* One counter draws tickets in order, *n* at once for a batch of *n*. Ticket *t* fills SQE
//! *t* mod entries, and only its holder does.
//!
//! **R-4** *Ready, then published.* The holder of a batch writes its SQEs, then stores the batch's length at `ready[first ticket]`. The
//! publisher takes ready batches in ticket order, clears each mark, and then stores the tail once, past the last of them.
//!
//! **R-5** *One publisher.* The number of publications, the lower half of `tickets`, decides who it is.
//!
//! - **R-5a** *Draw* (a producer; `tickets`). Drawing tickets also increments the publication count, in the same atomic add. If the count
//!   was zero, there was no publisher, and this producer becomes it.
//! - **R-5b** *Commit by the publisher* (`sq_tail`, `ready`). If its batch is next in line, it stores the tail past the batch, which needs
//!   no mark. Otherwise it marks the batch.
//! - **R-5c** *Commit by another producer* (`ready`, `tickets`). It marks its batch, then increments the publication count. If the count
//!   was zero, it becomes the publisher.
//! - **R-5d** *Scan and leave* (the publisher; `ready`, `published`, `sq_tail`, `tickets`). It passes every ready batch ([R-4]), then
//!   subtracts the publications that it has served. If some remain, it scans again; otherwise it is the publisher no more.
//! - **R-5e** *Leave a remainder* (the publisher; `orphaned`). After a few rounds it stores the number that remains in `orphaned`, and goes.
//! - **R-5f** *Adopt* (any lane that drains; `orphaned`). It exchanges the remainder for zero, and becomes the publisher.
//!
//! **R-6** *One poller.* The holder of the `poller` lock waits for nothing.
//!
//! - **R-6a** *Lock* (`poller`). A lane tries the lock. It does not wait for it.
//! - **R-6b** *Look* (the poller; CQ tail, `drained`). It acquires the tail. The completions from `drained` up to there are its drain.
//! - **R-6c** *Copy* (each lane of its warp; CQEs, `results`). Each lane copies its share, and stores the results that must outlive the
//!   device.
//! - **R-6d** *Advance* (the poller; CQ head, `drained`). After all copies, it stores the CQ head if the drain passes a multiple of the
//!   *head step*, and then `drained`.
//! - **R-6e** *Deliver* (each lane; slots). Only then does each lane deliver its copies ([R-7]).
//! - **R-6f** *Unlock* (the poller; `poller`). The poller releases the lock once its own completions are delivered. Other lanes may still be
//!   delivering theirs; this is safe, because those entries are below `drained` and their slots are still allocated.
//!
//! **R-7** *A completion is delivered by one exchange* of the slot's word, from "generation g in flight" to "generation g done". The lane
//! whose exchange succeeds need not look at the slot for that operation's result: its copy has it
//! ([`Completion::result_of`](crate::Completion::result_of)), and the tail was acquired before the copy.
//!
//! **R-8** *An operation that may never end holds a slot that was set aside for it.* Operations on stream buffers (writes of stream blocks,
//! reads ahead of lines, fills of streams that read and the polls before them) are never more than the session's stream buffers, one
//! each. Besides these, only polls of files and asynchronous operations ([R-ASYNC-1]) may be in flight without an end, and a ring has at most as
//! many of those together as [`Queue::begin_waits`](crate::Queue::begin_waits) admits. Every ring has more slots than all of these, by
//! two at least. Any other operation on a file that may wait for another party (a pipe, a FIFO, a socket, a terminal:
//! [`OpenFile::may_wait`](crate::files::OpenFile::may_wait)) is told not to wait, or is cancelled after a while. So are a
//! send, a receive and an `accept`. An open of a FIFO is told not to wait.
//!
//! **R-9** *A ring that has failed says so by its CQ tail.* Where the ring service has stopped for good, the host stores
//! [`Queue::failed_tail`](crate::Queue::failed_tail) there, 2³¹ past the CQ head that it sees, and again if a completion that was in flight
//! overwrites it. A poller that finds the tail more than *CQ entries* past `drained` takes nothing and releases the lock. Every lane that
//! waits for the ring then gives up.
//!
//! **R-10** *A stream changes its blocks at rest.* The buffers of its blocks, its file, and where and in which size its blocks lie change
//! only under its lock, while each block is FILLING and no lane is about to free one (`stream::rest`): all is written, or was taken back.
//!
//! **R-11** *Each entry for a stream has a stream buffer of its own*, so that it can be opened and written whatever the others hold. The
//! buffers beyond, the *spare* ones, are claimed by streams that write much ([`Stream::grow`](crate::stream::Stream::grow)) and by lines
//! that are read ahead. They come back when the stream is closed, or its lines are. A lane that finds none goes on with what it has: no
//! lane waits for a spare buffer.
//!
//! **R-12** *A stream that a caller keeps is locked* (`holder`, `holds`; [`stream`](crate::stream), `hold.rs`). Only the lock's holder writes
//! these words, and `holder` with its own identity or 0. A caller that finds its own identity there has the lock. Identities of callers that
//! may keep streams at the same time differ. With the last hold, or with the stream's end, the lock goes to the next ticket.

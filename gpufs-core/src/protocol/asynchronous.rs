//! Operations that a lane starts, and looks at later or never. Several that are carried out in order are [`chains`](super::chains).
//!
//! The lane that has started one has its *handle*, which says where it is.
//!
//! **R-ASYNC-1** *A start waits for no asynchronous operation.* Before it claims slots, a start counts its operations among those that may
//! never end ([`Queue::begin_waits`](crate::Queue::begin_waits), [R-8]) and gets the staging memory that they need. For each lane it gets both
//! or neither. Where either is used up the lane's start fails with `EAGAIN` and holds nothing. It counts nothing where it sees that as many are
//! counted as may be, and takes back at once what it has counted beyond that. It may count one for each of its lanes before it has looked at what
//! they ask for, and takes back those of lanes that are refused. What was counted then waits for a slot, as any call does.
//!
//! **R-ASYNC-2** *A start ends when the tail has passed its entries.* Until then it adopts what publishers left
//! ([`Queue::pass_to`](crate::Queue::pass_to), [R-5f]). Nobody else may wait for them. A batch that was the next in line when it was drawn, by the
//! publisher ([`Batch::is_next`](crate::Batch::is_next)), has passed the tail itself when it is committed ([R-5b]): its start does not look.
//!
//! **R-ASYNC-3** *The operation holds its slot, its count and its memory* until its own completion has been delivered and its result was
//! taken. The handle is not copied, and taking the result consumes it, so one lane releases them, once: first memory and slot, then the
//! count. Memory that was read into goes to that lane, which releases it when it has copied. The result stays in the slot's word until it is
//! taken: whoever drains has delivered it. A handle that is lost leaves all three to [R-ASYNC-6]. No caller reaches the memory while the
//! kernel has it. The count orders nothing: another lane may see it taken back before it sees the slot free.
//!
//! **R-ASYNC-4** *A cancel is an operation of its own* (`IORING_OP_ASYNC_CANCEL`), which ends by itself, and which its lane waits for. It goes
//! through the ring of its target and names the target's `user_data`, slot and generation, so it can meet no other operation. Its completion says
//! nothing of the target's: that one comes before or after, with `ECANCELED`, `EINTR`, or the result of an operation that was faster. Only that
//! one ends [R-ASYNC-3]'s hold. A cancel that finds its target on its way between two states may do nothing; it can be repeated, since a later one
//! meets the same operation or none. Only lanes that hold a handle name its operation: no cancel meets the write of a stream's block.
//!
//! **R-ASYNC-5** *Asynchronous operations have staging memory of their own*
//! ([`async_buffers`](crate::resources::ResourcesParts::async_buffers)), for which no lane waits. So lanes that wait for a staging buffer or for a
//! run of neighbours ([L-PROGRESS c]) never wait for it to come back from an operation that may never end.
//!
//! **R-ASYNC-6** *The host ends what kernels have left.* When no kernel runs and no call is inside, it drains until every asynchronous operation
//! is complete. It cancels what is not complete at once on a file that may wait for another party, and after a limit whatever is left. It then counts
//! results that are errors, releases slots and memory, and begins a new *round* ([`Queue::begin_round`](crate::Queue::begin_round)). A handle of
//! an earlier round is refused. An operation that the kernel can neither end nor cancel keeps its slot, its count and, with all others of
//! the session, its staging memory.
//!
//! **R-ASYNC-7** *A deadline is a wait that ends with a cancel.* The lane that waits looks at the clock, submits [R-ASYNC-4]'s cancel when the
//! time is over, a few times if need be, and waits for the target's completion, which by then comes soon. No `LINK_TIMEOUT` is used: it would
//! take a second slot for each operation, all the time that it is in flight. For a lane that does not wait, nothing is late.
//!
//! **R-ASYNC-8** *A wait for another party may have a limit*, the session's. A lane that polls for it ([R-8]) cancels its poll then, as in
//! [R-ASYNC-7], and gives its slot back; one that rests between two tries holds nothing. Both return `ETIMEDOUT`, and with the call's end its
//! locks are free. Operations that end by themselves have no limit: to cancel one would undo what its caller asked for.
//!
//! # Why this is enough
//!
//! **P-ASYNC-PUBLISH** *What was started is published.* A start waits for publication and adopts meanwhile, as one that drains does. So
//! [P-PUBLISH] holds for its batch by the same steps: if it is not the publisher, its commit precedes the publisher's subtract, which leaves a
//! remainder, which the publisher serves or leaves as orphaned. An orphaned remainder is adopted by this lane at the latest. Then the batch is
//! passed as soon as all earlier tickets are committed, whose producers wait for nothing.
//!
//! **P-ASYNC-PROGRESS** *Lanes that hold unfinished operations keep nobody waiting.* They hold slots within the count of, which leaves two at
//! least for operations that end, so [L-PROGRESS b] holds for calls, cancels and starts that have been counted, whatever the lane
//! holds already. A slot that is still seen to be held beside those of the count was released before its count went back: it is seen to be free
//! without anybody's help, and a lane that waits for it looks again. They hold no staging buffer for which anybody waits ([R-ASYNC-5]), and no
//! lock. A start that is refused returns. So a lane that goes on starting gets `EAGAIN` until it takes a result. Lanes that hold nothing and go on
//! starting do not keep each other out (of chains see [P-CHAIN-PROGRESS]): starts count only below the limit, so what is counted beyond it for a
//! moment goes back, and the one whose count takes it from below the limit to above is admitted. Without the look before, many lanes that try
//! without a pause could keep the count above it for ever, though nothing is in flight. A lane whose arguments are wrong is counted for a moment as
//! one that finds no memory is, and returns.
//!
//! **P-ASYNC-ONCE** *One SQE still gives one CQE.* No multishot, no zero-copy notification, no skipped completion. So [P-CQ], [P-ONCE] and what the
//! journal says of results hold as they stand. A handle of a former operation of the slot, or of a former round, is told so by generation
//! and round ([`Queue::outcome`](crate::Queue::outcome), [`Queue::round`](crate::Queue::round)).
//!
//! **P-ASYNC-MEMORY** *Safe code cannot reach memory that the kernel writes.* The bytes of an operation lie in staging memory, which only the
//! library addresses. They are copied in before the commit, and out after the completion was acquired. A handle that is dropped or forgotten
//! lends nothing, so it gives nothing back early: slot, count and memory stay the operation's ([R-ASYNC-3], [R-ASYNC-6]).

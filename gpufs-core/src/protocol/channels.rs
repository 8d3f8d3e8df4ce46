//! Channels between threads of the host and lanes of a running kernel ([`channel`](crate::channel)): who may touch what, who sleeps, who wakes.
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | record | what one sends: a fixed number of bytes |
//! | end | all senders of a channel, or all its receivers; one end is of lanes, the other of the host's threads |
//! | place | the number of a record in the order of sending; place *p* has cell *p* mod capacity |
//! | turn | a cell's word: whose it is now |
//! | bell | what one side sleeps on: an `eventfd(2)`, which is readable while it rings |
//!
//! # Rules
//!
//! **R-CHANNEL-1** *What both sides see is loaded and stored, never exchanged* ([R-1]). Each end's cursor, and its count of sleepers, lie in its own
//! side's memory.
//!
//! **R-CHANNEL-2** *A place is claimed by one exchange of the end's cursor*, made only after every claimed place's cell was seen to be at this
//! end's turn: *p* for the sender, *p* + 1 for the receiver. The lanes of a warp that call together claim with one exchange.
//!
//! **R-CHANNEL-3** *Who claimed a place passes it on, and waits for nothing before.* The sender writes the record, then stores the turn *p* + 1; the
//! receiver reads it, then stores *p* + capacity.
//!
//! **R-CHANNEL-4** *Announce, look again, sleep.* One who found nothing stores 1 in its side's word, fences, and looks again. Only then it waits for
//! its side's bell. When that has rung it silences the bell, and begins again.
//!
//! **R-CHANNEL-5** *Pass on, look, ring.* A side that has passed on places fences, and looks at the other's word. Where it is 1, it stores 0 and then
//! rings that side's bell.
//!
//! **R-CHANNEL-6** *A side that has silenced a bell and goes rings it again*, if others of its side sleep: whether it found something, gave up at its
//! deadline, or found the channel closed. The count of sleepers is added to before the first announcement, and subtracted from last.
//!
//! **R-CHANNEL-7** *The host closes a channel* when none of its threads is between the claim of a place and passing it on; a channel that lanes send
//! to when no kernel runs, too, or to end what waits. It stores `closed`, once for lanes and once in memory of its own, where its threads
//! look, so that no kernel keeps them; fences; and rings both bells. A receiver looks for a record after it has
//! seen `closed`, so it takes everything that was sent before. A sender that sees it sends no more: `EPIPE`.
//!
//! **R-CHANNEL-8** *A channel's memory is its session's.* Threads of the host are inside of a gate ([`gate`](crate::gate)) while they use it.
//! Before the session waits for its kernels for the last time it closes its channels; then it shuts these gates and waits until nobody is inside. A
//! lane's handle has the number of its channel, and the end that lanes share has it as long as the session is open: afterwards it is `EBADF`.
//!
//! # Proofs
//!
//! **P-CHANNEL-CELL** *No two touch a record at a time.* A place is claimed once, since the cursor only grows (2³² places come round, when a claim
//! that was suspended for so long could succeed late). At place *p* the sender writes while the turn is *p*, which the receiver of *p* − capacity
//! stored after it had read; the receiver reads while it is *p* + 1, which the sender stored after it had written. Each acquired the turn.
//!
//! **P-CHANNEL-WAKE** *No wake-up is lost.* Suppose that *X* waits for its bell, which is silent and which nobody is about to ring, while the cell
//! at its end's cursor is at its end's turn. Let *K* be who passed that cell on, which fenced after it and then loaded *X*'s side's word.
//!
//! 1. If *K*'s fence precedes *X*'s last one, *X* then saw the cell at its turn, or a cursor that was before it, whose cell was at its turn, too
//!    (a cell that was not is passed on later, by another *K*).
//! 2. Otherwise *K* loads *X*'s 1, and rings; or the 0 of another, *K'*, that comes after *X*'s 1 in the word's order, and *K'* rings after that.
//!    Either way the bell is rung after *X* announced itself.
//! 3. If nobody silenced it since, *X*'s wait is over. Let *Z* be the last that did. *Z* announces itself again, fences and looks. If it sleeps, 1
//!    and 2 hold of *Z*, and the bell is rung again, after *Z* had silenced it: so *Z* was not the last, or the bell rings.
//! 4. If *Z* goes, it subtracts itself from the sleepers. If *X*'s addition comes before that, *Z* rings. If it comes after, *X* has acquired all
//!    that *Z* saw when it looked, and the bell that *Z* silenced was rung before *X* announced itself, against 2.
//!
//! **P-CHANNEL-REST** *Nobody polls while nothing happens.* A thread of the host that sleeps is in `poll(2)`. A lane that sleeps has one operation
//! in flight, a poll of its bell, which counts among those that may never end ([R-8]): where no more of these are admitted it rests between tries,
//! as for any file. Of a warp's lanes that wait together one has the poll.

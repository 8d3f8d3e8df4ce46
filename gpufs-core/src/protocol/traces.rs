//! Pieces: where the writers of traces keep their events until there are many ([`pieces`](crate::pieces)).
//!
//! # Rules
//!
//! **R-TRACE-1** *One owner.* A piece is of the lane that claimed it, until that lane gives it back, or the host takes it while no kernel runs. The
//! owner alone moves the piece's place. Lanes that make a call together with the owner read the place and meet it at a barrier before it moves that;
//! then each stores where it follows that its event goes, and they meet again before the call ends. A lane that is not with its owner learns no more
//! than that, and writes into the stream.
//!
//! While its owner has lent a piece to a recorder, its words say that it is nobody's, so that all other calls write into the stream. The recorder is
//! the owner's, and knows the end in registers; what it stores lies behind the end that the words have. It is taken back with the end as it is then,
//! or found by the host as any other, which knows the end by the zeros ([R-TRACE-2]). On CPU lanes a recorder may outlive its kernel: the words have
//! a mark of its owner there, which the recorder looks at before each store, within a call, during which the host takes no pieces.
//!
//! **R-TRACE-2** *Zeros behind the events.* Every word of a page that no event has, and that is not a head in use, is 0: in a new session, and again
//! before a place moves back and before a page is freed. No word of a whole packet is 0. A recorder stores the other words of a packet before the
//! first: until then it is no packet, and the recorder's next event lies there.
//!
//! **R-TRACE-3** *Nobody waits for a piece.* Where none is free a writer has none, and writes into the stream. A call that empties its piece waits
//! as any call does that writes ([L-PROGRESS d]).
//!
//! **R-TRACE-4** *Into the stream, then zeros.* What a piece holds is written into its stream; then it is made zeros; then the place moves back.
//! Where the stream takes only a part, the place's start moves behind that, and the head tells so. The host does the same when no kernel runs, for
//! pieces that have an owner still, before it flushes the streams.
//!
//! # Proofs
//!
//! **P-TRACE-ONCE** *Without a fault an event is in the stream once.* The owner's calls come one after the other. An event lies in [start, end) from
//! the call that stored it until a write takes it; then start moves behind it, or all is zeros and the place is empty ([R-TRACE-4]). The host takes
//! what is left from start on, and no lane has the piece any more: its owner has ended, or finds by the piece's words that it is its no more. A
//! recorder's piece has one writer as well, as no call finds an owner in its words; a second recorder is of no piece.
//!
//! **P-TRACE-FAULT** *After a fault an event of a call that returned is in the file, at most twice.* The call's stores come before whatever the
//! caller then releases to the host. What the host finds at the piece, from the start that the head tells: packets up to the first that has a word
//! of 0. A packet before it is of an earlier call, or of another lane of the same call, which met at the barrier ([R-TRACE-1]): so no packet of a
//! call that returned lies behind one that is not whole. The event is in the piece until its stream has it, whose journal has it then. In between
//! both may have it: events of one piece, of a writer that was in the middle of a call.
//!
//! **P-TRACE-HEAD** *A head that is found tells its piece.* The second word is stored before the first is released; the first is 0 before the page
//! is free. Pages behind the first of a piece are not looked at, as the head tells how many there are; those of pieces that were given back are
//! zeros ([R-TRACE-2]). Loom's model is `gpufs-core/tests/loom_pieces.rs`.

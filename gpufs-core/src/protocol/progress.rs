//! Why every wait ends.
//!
//! **L-PROGRESS** *There is no schedule in which every lane waits.* A lane waits (a) for its operation, (b) for a slot, (c) for a staging
//! buffer, (d) for a stream block, (e) for the lock of a stream or a file. Every waiting loop drains. Three actors wait for nothing, so they
//! finish: the publisher, the poller, and a warp between reserving and committing stream space ([D-13]).
//!
//! - **L-PROGRESS a** *An operation completes.* An operation that was committed is published ([P-PUBLISH]), the kernel completes it, and any
//!   lane that waits on its ring delivers it. One that nobody waits for is published by who started it ([P-ASYNC-PUBLISH]), and delivered when a
//!   lane waits or asks, or when the host ends it ([R-ASYNC-6]).
//! - **L-PROGRESS b** *A slot comes.* Slots are held by operations that some lane waits for, which end by (a), and by operations that may
//!   never end, which leave some free ([R-8], [P-ASYNC-PROGRESS]). A lane that needs two slots at once holds neither while it waits; a poll with a
//!   time limit holds its own, which was set aside for it ([R-8]), while it waits for one to be cancelled with.
//! - **L-PROGRESS c** *A staging buffer comes.* Staging buffers are held only across (b) and (a) of operations that end by themselves. A lane
//!   that waits for a file that is not ready (an empty or full pipe, a FIFO that no process reads) holds no staging buffer, slot or lock but
//!   those that sets aside: it waits by a poll that was admitted, or else by naps and polls that are cancelled at once. So it keeps
//!   nothing from the lane that would make the file ready.
//! - **L-PROGRESS d** *A stream block comes, or its write's error does.* A block is busy while it is filled (no wait), while its write waits
//!   for a slot (b) or completes (a), or until its predecessor in a stream with an order is written or started (the same, by induction). Of the
//!   lanes that wait for it, one at a time reaps it, which waits for nothing, and then lets the others. A stream that grows is held under its lock,
//!   with its blocks written (the same waits), and then takes what is spare, which waits for nothing ([R-11]). A lane that has taken room of a stream
//!   adds it to the cursor or gives it back, and waits for nothing meanwhile. So the lock holder does not wait long for such a lane, nor for
//!   one that starts or frees a block when the holder takes back what could not be written ([R-10]). A block of lines that are read ahead
//!   ([`readahead`](crate::stream::readahead)) is the same: a lane that waits for lines starts the block's read, reaps, indexes and publishes
//!   it, each a step that waits for nothing; the lock holder waits for those steps and for reads in flight (a).
//! - **L-PROGRESS e** *A lock comes.* Locks are first come, first served. They are held across (a) to (d) only, and taken in the order stream,
//!   file. A lock that a caller keeps ([R-12]) comes when the caller lets go: that is the program's promise, as on a CPU. The library's part is
//!   that the caller can: it returns from each call while others wait, and those do not keep it from running. Lanes that make progress of
//!   their own keep streams each for itself. Where the lanes of a warp run in lockstep, a lane that waited for another of its warp would wait for
//!   ever: there the warp keeps the stream, and none of its lanes waits for it.
//!
//! What is left, on purpose:
//!
//! - A stream that waits for its file, such as a read of a pipe that no process writes, holds its lock, its own buffers, and a slot for each
//!   operation on these, as on a CPU a `FILE` is locked meanwhile.
//! - A caller that keeps a stream and does not let go (it waits for something else, or it has ended) keeps the others waiting until their
//!   deadline. When its kernels have ended, the host lets go for it.
//! - A lane that opens a FIFO for writing holds its entry of the file table. Lanes that make one call together return together.
//! - An operation that the kernel can neither try nor cancel, such as one on a file system that is gone, holds its slot, its staging buffers,
//!   and in the mode of host threads its thread.

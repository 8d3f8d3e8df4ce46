//! Operations that the kernel carries out one after the other: *chains*. A lane starts a chain as a whole, and has a handle of each *link*
//! ([`asynchronous`](super::asynchronous)).
//!
//! **R-CHAIN-1** *All or nothing.* A chain is counted with all its links at once, and gets the staging memory of all of them, or is refused with
//! `EAGAIN` and holds nothing ([R-ASYNC-1]). It draws no ticket before it holds a slot for each link. While it waits for the next slot it keeps
//! those it has.
//!
//! **R-CHAIN-2** *The links of a chain are consecutive tickets of one batch*, in their order. Each but the last has
//! [`IOSQE_IO_LINK`](crate::abi::IOSQE_IO_LINK) or [`IOSQE_IO_HARDLINK`](crate::abi::IOSQE_IO_HARDLINK), and the last has neither. A batch may
//! have several chains. No other entry has these flags.
//!
//! **R-CHAIN-3** *Each link has a completion of its own.* A link begins when the one before it has ended. With `IO_LINK`, an error or a short
//! transfer ends the chain: every later link completes with `ECANCELED` and touches no memory and no file. With `IO_HARDLINK` the next begins
//! whatever became of the one before.
//!
//! **R-CHAIN-4** *Links end by themselves.* They are of files that wait for no other party, so the host waits for them ([R-ASYNC-6]). A cancel names
//! one link ([R-ASYNC-4]). It meets the link that runs; of one that has not begun there may be nothing to meet.
//!
//! **R-CHAIN-5** *Memory that two links share is the later one's.* A write of what the link before it reads has the staging memory; the read has
//! none to release. Between the two is `IO_LINK`, so a read that brings fewer bytes than the write takes ends the chain.
//!
//! # Why this is enough
//!
//! **P-CHAIN-WHOLE** *The kernel sees a chain as a whole, and nothing else in it.* The tail moves by whole batches: the publisher's own, or by the
//! lengths that marks say ([R-4], [R-5b]). So no tail that the kernel loads lies between two tickets of a batch, whoever publishes it, and
//! in how many rounds. The kernel takes all entries up to the tail that it has loaded, in order, before it ends a chain. (A ring has a polling thread
//! of its own, or is told of all entries that are published; the kernel would cut a chain where it takes only some.) By [R-CHAIN-2] the entry
//! behind a chain's last one begins again, and the entry before its first is the end of a chain, or of none.
//!
//! **P-CHAIN-PROGRESS** *Chains that wait for slots keep nobody waiting, nor each other.* Let several hold some of their slots. All these are
//! within the count of, as those of links in flight are. Stream buffers have theirs. So two slots at least are held by nobody or by
//! operations that end by themselves ([P-ASYNC-PROGRESS]), and each time one of those is free some chain, or some call, gets it. A chain that has
//! one more slot keeps it. There are finitely many that wait, each for finitely many slots, and all are within the count together: so each gets
//! its last one, or others that came later get slots and end.
//!
//! Not proved: that of chains which are refused and tried again without a pause one is admitted. One that finds room for some of its links takes
//! back what it has counted in two steps, between which another may find room for some. Each is refused with `EAGAIN` and holds nothing.
//!
//! **P-CHAIN-MEMORY** *Shared memory is released once, after both.* The write's handle has it, and releases it after the write's completion was
//! seen ([R-ASYNC-3]). The kernel completes a link, be it with `ECANCELED`, only when the one before has ended and touches its memory no more.

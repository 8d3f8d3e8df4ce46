//! Operations that io_uring does not have, or never does at once: paths, directories, locks, processes, functions of the program. The *service
//! ring* has them.
//!
//! **R-SERVE-1** *The service ring is one more ring.* It has the words, slots, tickets and completions of every ring, and the same rules.
//! Host threads serve it, as they serve the rings of the mode `threads`. Its entries have operation codes from
//! [`SERVICE_OPCODES`](crate::abi::SERVICE_OPCODES) up, which no kernel has, or are of paths or pipes ([R-SERVE-6]). A session whose rings are
//! served by host threads has no ring beside them: each of its rings can do these operations.
//!
//! **R-SERVE-2** *A lane asks the ring that can do it.* [`Resources::ring_for_services`](crate::session::Resources::ring_for_services) is that
//! ring. The lane claims a slot, draws a ticket, commits and waits as on its own ring, and drains the ring that it waits for ([L-PROGRESS]).
//! While it waits for a slot of the service ring, or for a completion of it, it holds no slot of another ring.
//!
//! **R-SERVE-3** *No entry of the service ring may wait for another party.* An operation that would (a lock that another holds, a process that
//! still runs) is tried, and completes with `EAGAIN`. Its lane gives up slot, ticket and staging memory, rests, and tries again, as it does to
//! open a FIFO ([R-8]). So the lane that would end the wait finds slots, staging memory and a thread, however many wait. A function of the
//! program is the exception: while it runs it holds its slot, its staging memory and a worker thread, and the pool adds a thread for what
//! comes after it.
//!
//! **R-SERVE-4** *The service ring carries nothing that outlives its call.* No block of a stream, no poll, no open that the journal has notes
//! of is in flight on it. So asks for no slots beside those of calls, and nothing on it is recovered after a fault.
//!
//! **R-SERVE-5** *Nothing is started before it is needed.* The ring's threads start when the ring service finds its first entry. Until then the
//! ring service looks at its tail, and that is all. They are few; where brief operations wait for them, there come more, one at a time, up to the
//! number of cores less two.
//!
//! **R-SERVE-6** *Operations on paths are services.* `statx`, `unlinkat`, `renameat`, `mkdirat`, `symlinkat` and `linkat` have operation codes of
//! io_uring, but Linux never does them at once: it hands each to a worker thread, which it wakes for it. So they go to the service ring, whose
//! workers make the system call and take several at a time. `openat` and `close` stay on the rings of I/O: Linux does them at once where it can,
//! and the journal has notes of them ([R-SERVE-4]). So does the `statx` that belongs to an open. `opendir` is [R-SERVE-9]'s. Linux does
//! `splice` and `tee` in no other way, so these are services, too; they say that they do not wait for a pipe ([R-SERVE-3]), and no end of one is
//! a file that could have them wait all the same: a socket, a terminal.
//!
//! Before an open that could wait for another party, as that of a FIFO, it is asked what the path names. An open of what the kernel has cached
//! waits for nobody: it says so (`openat2`, `RESOLVE_CACHED`), and is done by the thread that polls the ring, or not at all, which is an answer
//! like another. What it opened is asked whether it can be polled, which is done at once, too. What cannot is a file with a position, or a device
//! that has none; which, the first call asks that needs to know ([`UNASKED`](crate::files::OpenFile::UNASKED)). Of what can, a `statx` says
//! what it is.
//!
//! **R-SERVE-7** *In a sandbox, what names memory or paths by itself is a service.* The rings of I/O then refuse every operation whose
//! addresses the kernel does not hold against registered memory: `openat` and each `statx`, with `close`, go to the ring for services as
//! well, and a transfer of several pieces goes through staging memory. What sends to a
//! socket or receives from one by a socket's own call, and `accept`, are services there, too: no ring looks at the addresses of sockets. The
//! journal has no notes of such an open ([R-SERVE-4] holds as it stands): what a kernel opened is closed with the sandbox's own table of descriptors.
//!
//! **R-SERVE-8** *What sets a socket up is a service.* io_uring has parts of it since Linux 5.19 to 6.11, and it is done once for a connection at
//! most. What moves bytes, `accept`, and waiting stay on the rings of I/O ([R-8]). A `connect` is begun by a service, which does not wait; its lane
//! waits by a poll and asks again for the result. A `poll` of several descriptors looks by a service; to wait, it has the host make one descriptor
//! that is ready when one of them is, and polls that on its ring of I/O: one slot, however many there are. The host closes what a session leaves of
//! these.
//!
//! **R-SERVE-9** *A directory is read ahead, by a service.* `opendir` is one operation: it opens, and gives the first entries; the next come as many
//! at a time as the directory's *listing* holds, with whether they are the last. The listing is memory of a pool of its own
//! ([`listings`](crate::resources::ResourcesParts::listings)), for which no lane waits: where none is free, a call reads into staging memory, and
//! keeps nothing. So however many directories are open, no call's memory is theirs, and [L-PROGRESS c] holds as it stands. The listing belongs to
//! the directory ([`Listing`](crate::listing::Listing)), and its lock guards it:
//!
//! a. It is claimed, filled, read and given back by lanes that have the lock. While an operation fills it, it is not the directory's, so a lane
//!    that is gone leaves nothing to others that the host still writes; the host frees such memory when nothing is in flight.
//! b. Whoever closes a directory first takes its entry out of use, by one exchange of its flags, then takes the lock, and under it the listing.
//!    A lane that has the lock and finds the entry out of use puts nothing in. So nothing stays in an entry that is free, and nobody reads a
//!    listing that another directory has. The wait ends, since the lock's holder waits for the host alone ([L-PROGRESS e]).
//!
//! c. The close is a service, too. So the rings of I/O have nothing to do while directories are read, and their kernel threads sleep, whose cores are
//!    the service's then. As with every close, the journal has no note of the descriptor any more when the entry is published ([R-SERVE-4]).
//!
//! The entries of a listing come after the position that it names: a seek makes it worthless without a word to it. The open is not in the journal
//! until its lane has the descriptor ([R-SERVE-4]); a result that nobody takes is closed where the worker finds that out.
//!
//! # No state of its own
//!
//! An entry of the service ring goes through the states of every slot: claimed, armed, in flight, done, released. The words, their writers,
//! and their orderings are those of a ring that worker threads serve, of which the loom models of queues and `loom_service` are. So the
//! proofs ([`proofs`](super::proofs)) hold for it as they stand, and there is no model of its own. What [R-SERVE-3] adds is a rest between two
//! calls, in which a lane holds nothing: [L-PROGRESS a] to [L-PROGRESS c] speak of lanes that hold something.

//! The protocol, as a chapter: rules, proofs, and what comes round. Documentation alone; the code cites it.
//!
//! | part | what it says |
//! |---|---|
//! | [`rules`] | who may touch what, and when: `[R-1]` to `[R-11]` |
//! | [`proofs`] | why that is safe: `[P-OVERWRITE]`, `[P-CQ]`, `[P-FAILED]`, `[P-MARK]`, `[P-ONCE]`, `[P-PUBLISH]`, `[P-WAKE]` |
//! | [`progress`] | why every wait ends: `[L-PROGRESS a]` to `[L-PROGRESS e]` |
//! | [`sharing`] | the rules of streams that several threads open by the same path: `[R-SHARE-1]` to `[R-SHARE-6]` |
//! | [`asynchronous`] | operations that nobody waits for yet: `[R-ASYNC-1]` to `[R-ASYNC-8]`, and their proofs |
//! | [`chains`] | operations that the kernel carries out in order: `[R-CHAIN-1]` to `[R-CHAIN-5]`, and their proofs |
//! | [`channels`] | channels between host and kernel: `[R-CHANNEL-1]` to `[R-CHANNEL-8]`, and their proofs |
//! | [`services`] | the ring for what io_uring does not have: `[R-SERVE-1]` to `[R-SERVE-9]` |
//! | [`caching`] | pages of files in device memory: `[R-CACHE-1]` to `[R-CACHE-8]`, and their proofs |
//! | [`renewal`] | a ring that is renewed below its queue: `[R-RENEW-1]` to `[R-RENEW-4]`, and the proof |
//! | [`traces`] | events that wait for many: `[R-TRACE-1]` to `[R-TRACE-4]`, and their proofs |
//! | [`wrapping`] | every number that grows, when it comes round, and what happens then |
//!
//! A name in bold is defined where it stands, once. A name in brackets is a citation. `cargo xtask tidy` compares the two. Decisions,
//! such as `[D-13]`, are defined in `ARCHITECTURE.md`.
//!
//! # A round trip
//!
//! ```text
//!              device memory                        shared with the kernel
//!
//!  claim ───► free set ──► slot
//!  arm   ───► slot: generation g, in flight
//!  reserve ─► tickets ───► ticket t
//!  fill  ─────────────────────────────────────────► SQE t mod entries
//!  commit ──► ready[t] = n                                 │
//!               │ publisher, in ticket order               │
//!               └──────────────────────────────────► SQ tail ──► kernel
//!                                                                  │ CQE: user_data = (g, slot), res
//!  poll  ◄──────── poller's lock ◄──────────────────── CQ tail ◄───┘
//!  entry ◄─────────────────────────────────────────── CQE (copied)
//!  advance ─► drained ────────────────────────────────► CQ head, once in head_step entries
//!  deliver ─► slot: generation g, done, res
//!  outcome ◄─ slot
//!  release ─► free set
//! ```
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | slot | an entry of a ring's operation table; its holder may have one operation in flight |
//! | generation | the number of an operation in its slot; a completion of an earlier one is *stale* |
//! | token | slot and generation as one number: the `user_data` of the SQE and of its CQE |
//! | ticket | a place in the order of submission; ticket *t* has SQE *t* mod entries |
//! | batch | consecutive tickets that one producer draws, fills and commits together |
//! | mark | the length of a committed batch, in `ready` at the index of its first ticket |
//! | publication | one draw or commit that no publisher has served yet; `tickets` counts them |
//! | publisher | the one producer that stores the SQ tail, while there are publications |
//! | orphaned | publications that a publisher left for the next lane that drains |
//! | poller | the one lane, or the leader of a warp, that holds the `poller` lock |
//! | drain | the completions that a poller took at one time, from `drained` on |
//! | head step | the poller stores the CQ head when it passes a multiple of this |
//! | stream buffer | memory of a pool in which one block of a stream lies; beyond each stream's own they are *spare* |
//! | ring service | whatever serves the ring on the host's side: the kernel's thread, or the host's |
//! | handle | what a lane has of an asynchronous operation that it started: ring, token and round |
//! | round | the time between two ends of kernels at which the host has ended all asynchronous operations |
//! | chain, link | operations of one batch of which each begins when the one before has ended; one of them |
//! | frame | room for one page of a file in device memory; a page has its place in one *set* of them |
//! | pin, guard | what keeps a page in its frame: while a lane uses it, and while a lane keeps it |
//! | service ring | the ring for operations that io_uring does not have; host threads serve it |
//! | service | an operation of the service ring, or a function of the program that it calls |

pub mod asynchronous;
pub mod caching;
pub mod chains;
pub mod channels;
pub mod progress;
pub mod proofs;
pub mod renewal;
pub mod rules;
pub mod services;
pub mod sharing;
pub mod traces;
pub mod wrapping;

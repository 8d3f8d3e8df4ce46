//! Where the words and entries of a ring lie.

use gpufs_core::abi::{Cqe, Params, Sqe};
use gpufs_core::word::{EntryCell, SharedWord};

/// Where the words and entries of a ring lie, for the code that submits to it and drains it.
///
/// The pointers are valid while the [`Ring`](super::Ring) lives. Words are read and written with `SharedWord`'s verbs:
///
/// | part | written by | read by |
/// |---|---|---|
/// | `sqes`, `sq_tail` | the producer | the service |
/// | `cq_head` | the consumer (the device) | the service |
/// | `sq_head`, `sq_flags`, `cqes`, `cq_tail`, `cq_overflow` | the service | anyone |
#[derive(Clone, Copy, Debug)]
pub struct RingParts {
    /// How many SQEs were consumed, modulo 2³². Says nothing of their completion.
    pub sq_head: *const SharedWord,
    /// How many SQEs were published, modulo 2³².
    pub sq_tail: *const SharedWord,
    /// `IORING_SQ_*`.
    pub sq_flags: *const SharedWord,
    /// How many CQEs were consumed, modulo 2³².
    pub cq_head: *const SharedWord,
    /// How many CQEs were posted, modulo 2³².
    pub cq_tail: *const SharedWord,
    /// How many CQEs the kernel lost, because the CQ was full and it had no memory to hold them; 0 while the producer keeps to its
    /// credits.
    pub cq_overflow: *const SharedWord,
    /// `sq_entries` SQEs; number `n` is at `n & (sq_entries - 1)`.
    pub sqes: *const EntryCell<Sqe>,
    /// `cq_entries` CQEs; number `n` is at `n & (cq_entries - 1)`.
    pub cqes: *const EntryCell<Cqe>,
    /// A power of two.
    pub sq_entries: u32,
    /// A power of two, at least `sq_entries`.
    pub cq_entries: u32,
    /// Where the words and the CQEs begin.
    pub(super) rings: *mut u8,
}

// SAFETY:
// - only unsafe code can use the pointers, and says why it may, on whatever thread it runs
unsafe impl Send for RingParts {}
// SAFETY:
// - as for `Send`
unsafe impl Sync for RingParts {}

impl RingParts {
    /// The parts of rings that begin at `rings` and SQEs that begin at `sqes`, as `params` lays them out.
    pub(super) fn at(rings: *mut u8, sqes: *mut u8, params: &Params) -> Self {
        let word = |offset: u32| rings.wrapping_add(offset as usize).cast::<SharedWord>().cast_const();
        Self {
            sq_head: word(params.sq_off.head),
            sq_tail: word(params.sq_off.tail),
            sq_flags: word(params.sq_off.flags),
            cq_head: word(params.cq_off.head),
            cq_tail: word(params.cq_off.tail),
            cq_overflow: word(params.cq_off.overflow),
            sqes: sqes.cast::<EntryCell<Sqe>>().cast_const(),
            cqes: rings.wrapping_add(params.cq_off.cqes as usize).cast::<EntryCell<Cqe>>().cast_const(),
            sq_entries: params.sq_entries,
            cq_entries: params.cq_entries,
            rings,
        }
    }
    /// The cell of SQE number `number`, modulo 2³².
    pub(super) fn sqe(&self, number: u32) -> *const EntryCell<Sqe> {
        self.sqes.wrapping_add((number & (self.sq_entries - 1)) as usize)
    }
    /// The cell of CQE number `number`, modulo 2³².
    pub(super) fn cqe(&self, number: u32) -> *const EntryCell<Cqe> {
        self.cqes.wrapping_add((number & (self.cq_entries - 1)) as usize)
    }
}

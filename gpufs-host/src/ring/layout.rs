//! Where the words and entries lie of a ring that worker threads serve, whose memory is the host's alone.

use gpufs_core::abi::{Cqe, CqringOffsets, Params, Sqe, SqringOffsets};

use super::{RingConfig, RingParts, sys};

/// The ring in one block: each word on a cache line of its own, then the CQEs, then the SQEs.
pub(super) struct Layout {
    params: Params,
    sqes: usize,
    /// The whole block.
    pub(super) bytes: usize,
}

impl Layout {
    pub(super) fn of(config: &RingConfig) -> Self {
        const LINE: u32 = 64;
        const CQES: u32 = 4096;
        let params = Params {
            sq_entries: config.entries,
            cq_entries: config.cq_entries,
            sq_off: SqringOffsets { head: 0, tail: LINE, flags: 2 * LINE, ..SqringOffsets::default() },
            cq_off: CqringOffsets {
                head: 3 * LINE,
                tail: 4 * LINE,
                overflow: 5 * LINE,
                cqes: CQES,
                ..CqringOffsets::default()
            },
            ..Params::default()
        };
        let cqes_end = CQES as usize + config.cq_entries as usize * size_of::<Cqe>();
        let sqes = cqes_end.next_multiple_of(sys::page_bytes());
        Self { params, sqes, bytes: sqes + config.entries as usize * size_of::<Sqe>() }
    }
    pub(super) fn parts(&self, base: *mut u8) -> RingParts {
        RingParts::at(base, base.wrapping_add(self.sqes), &self.params)
    }
}

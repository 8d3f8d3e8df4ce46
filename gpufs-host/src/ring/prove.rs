//! Whether a ring works: a few operations that do nothing go all the way through it before anything depends on it.

use std::thread;
use std::time::{Duration, Instant};

use gpufs_core::Errno;
use gpufs_core::abi::{IORING_ENTER_SQ_WAKEUP, Sqe};

use super::error::ENTER;
use super::{Mode, Ring, RingError, sys};

/// How long the operations may take. An SQPOLL thread that has to share its core needs milliseconds.
const PROOF_MAX: Duration = Duration::from_secs(3);
/// Between two polls.
const NAP: Duration = Duration::from_micros(50);
/// How many operations: later ones then begin where a warp's batch fills whole cache lines of completions, as on a new ring. After a
/// single one, a GPU would read a part of a line more for each batch.
const OPERATIONS: u32 = 64;
const USER_DATA: u64 = 0x6770_7566_7300_0001;

impl Ring {
    /// Completes a few `NOP`s through a new ring, which nothing uses yet. The calling thread submits them, polls as the ring service does,
    /// and consumes their completions. Afterwards all of the ring's indices are 64, or the number of its entries if that is less.
    ///
    /// # Errors
    /// The system's refusal, or that an operation did not complete.
    pub(crate) fn prove(&self) -> Result<(), RingError> {
        let inner = &*self.inner;
        let refused =
            |errno: Errno| inner.explain(ENTER, std::io::Error::from_raw_os_error(errno.number()), 0);
        if let (Mode::Sqpoll, Some(ring)) = (inner.mode, self.descriptor()) {
            // The thread is awake now. Where the process may not wake it, its first sleep would end the ring.
            sys::enter(ring, 0, 0, IORING_ENTER_SQ_WAKEUP).map_err(refused)?;
        }
        let parts = &inner.host;
        let count = OPERATIONS.min(parts.sq_entries);
        for index in 0..count {
            let sqe = Sqe::nop().with_user_data(USER_DATA + u64::from(index));
            // SAFETY:
            // - a cell of the ring, which lives as long as `self`
            let cell = unsafe { &*parts.sqe(index) };
            // SAFETY:
            // - the tail is 0, so the service reads no entry, and nothing else submits yet
            unsafe { cell.write(sqe) };
        }
        // ORDERING: release; partner: the service's observe of the tail. The entries are whole.
        inner.sq_tail().publish(count);
        let started = Instant::now();
        let mut head = 0;
        // ORDERING: acquire; partner: the service's publish of the CQ tail. The CQE comes before.
        while inner.word(parts.cq_tail).observe() != count {
            inner.poll(&mut head);
            if let Some(errno) = inner.refusal() {
                return Err(refused(errno));
            }
            if started.elapsed() > PROOF_MAX {
                return Err(RingError::NoCompletion { mode: inner.mode, waited: PROOF_MAX });
            }
            thread::sleep(NAP);
        }
        for index in 0..count {
            // SAFETY:
            // - a cell of the ring, which lives as long as `self`
            let cell = unsafe { &*parts.cqe(index) };
            // SAFETY:
            // - posted: the tail was observed past it
            let cqe = unsafe { cell.read() };
            // They may complete in any order.
            if !(USER_DATA..USER_DATA + u64::from(count)).contains(&cqe.user_data) || cqe.res != 0 {
                let error = std::io::Error::other(format!(
                    "a NOP came back with {} for {:#x}",
                    cqe.res, cqe.user_data
                ));
                return Err(RingError::System { step: "trying the ring", error });
            }
        }
        // ORDERING: release; partner: the service's observe of the CQ head. The copies come before.
        inner.word(parts.cq_head).publish(count);
        inner.reset_counts();
        Ok(())
    }
}

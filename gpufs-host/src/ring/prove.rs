//! Whether a ring works: an operation that does nothing goes all the way through it, before anybody depends on it.

use std::thread;
use std::time::{Duration, Instant};

use gpufs_core::Errno;
use gpufs_core::abi::{IORING_ENTER_SQ_WAKEUP, Sqe};

use super::error::ENTER;
use super::{Mode, Ring, RingError, sys};

/// How long the operation may take. An SQPOLL thread that has to share its core gets there in milliseconds.
const LIMIT: Duration = Duration::from_secs(3);
/// Between two looks.
const NAP: Duration = Duration::from_micros(50);
/// How many operations: those that follow then begin where a warp's batch fills whole cache lines of completions, as on a new ring. With one, a GPU
/// reads a part of a line more for each batch.
const OPERATIONS: u32 = 64;
const USER_DATA: u64 = 0x6770_7566_7300_0001;

impl Ring {
    /// Has a few `NOP`s completed through a new ring, which nobody uses yet: the calling thread submits them, does for them what the attendant does
    /// for others, and consumes their completions. All of the ring's indices are 64 afterwards, or the number of its entries if that is less.
    ///
    /// # Errors
    /// What refused it, or that it did not come back.
    pub fn prove(&self) -> Result<(), RingError> {
        let inner = &*self.inner;
        let refused =
            |errno: Errno| inner.explain(ENTER, std::io::Error::from_raw_os_error(errno.number()), 0);
        if let (Mode::Sqpoll, Some(ring)) = (inner.mode, self.descriptor()) {
            // The thread is up now. Where nobody may wake it, the first pause is the end.
            sys::enter(ring, 0, 0, IORING_ENTER_SQ_WAKEUP).map_err(refused)?;
        }
        let parts = &inner.host;
        let count = OPERATIONS.min(parts.sq_entries);
        for index in 0..count {
            let sqe = Sqe::nop().with_user_data(USER_DATA + u64::from(index));
            // SAFETY:
            // - the entry lies in the ring
            // - the tail is 0, so the service reads no entry, and nobody else submits yet
            unsafe { (*parts.sqes.add(index as usize)).write(sqe) };
        }
        // ORDERING: release; partner: the service's observe of the tail. The entries are whole.
        inner.sq_tail().publish(count);
        let started = Instant::now();
        let mut head = 0;
        // ORDERING: acquire; partner: the service's publish of the CQ tail. The CQE comes before.
        while inner.word(parts.cq_tail).observe() != count {
            inner.serve(&mut head);
            if let Some(errno) = inner.refusal() {
                return Err(refused(errno));
            }
            if started.elapsed() > LIMIT {
                return Err(RingError::NoCompletion { mode: inner.mode, waited: LIMIT });
            }
            thread::sleep(NAP);
        }
        for index in 0..count {
            // SAFETY:
            // - the entry lies in the ring, and was posted: the tail was observed past it
            let cqe = unsafe { (*parts.cqes.add(index as usize)).read() };
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
        inner.forget_counts();
        Ok(())
    }
}

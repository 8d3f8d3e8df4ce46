//! `setvbuf(3)`.

use gpufs_core::failures::counted;
use gpufs_core::stream::Buffering;
use gpufs_core::{Call, Errno};

use super::File;
use super::lock::with_lock;
use crate::warp::Lanes;

/// log₂ of the smallest buffer.
const LEAST_SHIFT: u32 = 4;

impl File {
    /// Sets when the stream flushes, and the size of its buffers in bytes (0 keeps it), as `setvbuf(3)`. The memory is the
    /// session's; the size is rounded down to a power of two, to 16 at least and the session's buffer size at most, and ignored
    /// where nothing is buffered. At any time: what was read ahead or pushed back stays to be read.
    ///
    /// # Errors
    /// What flushing met; `EBADF`.
    pub fn setvbuf(self, buffering: Buffering, bytes: usize) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Setvbuf);
        // One lane at a time: each sets what it asks for, in lane order.
        let set = lanes.grouped(u64::from(lanes.lane()), |alone| {
            with_lock(self, alone, |held| {
                held.leave_writing()?;
                let stream = held.stream;
                let most = held.session.stream_buffers.buffer_bytes.trailing_zeros();
                let shift = match (buffering, bytes) {
                    // Long records go out in large pieces.
                    (Buffering::None, _) => most,
                    (_, 0) => stream.block_shift.peek(),
                    _ => bytes.ilog2().clamp(LEAST_SHIFT, most),
                };
                held.update(|stream| {
                    stream.buffering.set(buffering as u32);
                    stream.block_shift.set(shift);
                });
                Ok(())
            })
        });
        counted(self.session, Call::Setvbuf, set)
    }
}

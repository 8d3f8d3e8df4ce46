//! Writing under the lock: any buffering, any length. What the stream needs before and after is here, too: direction, kept errors, growth.

use gpufs_core::Errno;
use gpufs_core::session::{OpenFile, WaitReason};
use gpufs_core::stream::{Buffering, Direction, Progress};

use super::fill::fill;
use super::{LaneRecord, Record, STEP_BACK_FIRST, WriteTarget};
use crate::io::{Backoff, drain};
use crate::stdio::File;
use crate::stdio::lock::LockedStream;

/// Under the lock: any buffering, any length. `accepted` counts the group's bytes that the stream took; at
/// first those that the fast path took.
pub(super) fn write_held<R: Record>(
    held: &LockedStream,
    part: &LaneRecord<'_, R>,
    accepted: &mut u64,
) -> Result<(), Errno> {
    prepare(held, part.total)?;
    let LockedStream { session, stream, lanes, ring } = *held;
    let mut done = *accepted;
    let mut start = (stream.reserved(), done);
    let mut behind = false;
    let mut backoff = Backoff::new(session);
    // Ends: each round takes bytes in, or waits for a block, which comes or fails ([L-PROGRESS d]).
    while done < part.total {
        let position = stream.reserved();
        lanes.sync();
        let taken = if lanes.is_leader() { stream.reserve_locked(part.total - done) } else { 0 };
        let taken = lanes.from_leader(taken);
        let may_grow = || stream.failed().is_none() && stream.may_grow(session);
        if taken == 0 && lanes.any(lanes.is_leader() && may_grow()) {
            match held.grow() {
                Ok(()) => start = (stream.reserved(), done),
                Err(errno) => {
                    *accepted = done;
                    if behind {
                        held.catch_up();
                    }
                    return held.refuse(errno, start, accepted);
                }
            }
        } else if taken == 0 {
            let waited = match lanes.on_leader_inline(|| stream.reap_all(session, ring)) {
                Progress::Failed(errno) => Err(errno),
                Progress::Wait(ring) => Ok(ring),
                Progress::NoSlot | Progress::Done => Ok(ring),
            };
            let waited = waited.and_then(|ring| {
                let drained = drain(session, lanes, ring);
                backoff.wait(drained, WaitReason::StreamBlock, ring, position)
            });
            if let Err(errno) = waited {
                *accepted = done;
                if behind {
                    held.catch_up();
                }
                return held.refuse(errno, start, accepted);
            }
            continue;
        }
        let file = File { session, index: stream.index_in(session), generation: stream.generation.peek() };
        behind |=
            fill(WriteTarget { file, stream, ring }, lanes, part, (done, done + taken), position).is_some();
        done += taken;
    }
    if behind {
        held.catch_up();
    }
    *accepted = done;
    let flush = match stream.buffering() {
        Buffering::Full => false,
        Buffering::Line => lanes.any(part.record.has_newline()),
        Buffering::None => true,
    };
    if !flush {
        return Ok(());
    }
    match held.flush() {
        Ok(()) => Ok(()),
        Err(errno) => held.refuse(errno, start, accepted),
    }
}

/// Makes the stream ready to take bytes, of which this call brings `total`: access, direction, kept errors.
///
/// # Errors
/// [`STEP_BACK_FIRST`], or what an earlier write met.
fn prepare(held: &LockedStream, total: u64) -> Result<(), Errno> {
    if held.file_flags() & OpenFile::WRITABLE == 0 {
        return held.fail(Errno::BADF);
    }
    if held.stream.direction() != Direction::Writing {
        if held.is_ahead_of_others() {
            return Err(STEP_BACK_FIRST);
        }
        // A socket's bytes come once: what was read ahead would be lost.
        if held.file_flags() & OpenFile::SOCKET != 0 && held.ahead() > 0 {
            return held.fail(Errno::SPIPE);
        }
        held.forget_read();
        let LockedStream { session, stream, lanes, .. } = *held;
        // The callers that wait are taken to write as much each: together, they would fill the block.
        let queued = u64::from(stream.lock.queued()).max(1);
        let is_much = queued.saturating_mul(total) >= stream.block_bytes();
        if lanes.any(lanes.is_leader() && is_much && stream.may_grow(session)) {
            held.update(|stream| stream.grow(session));
        }
        held.begin_writing();
    } else if held.stream.failed().is_some()
        && let Err(errno) = held.flush()
    {
        return held.fail(errno);
    } else if held.stream.is_spent() {
        if let Err(errno) = held.pause_writing() {
            return held.fail(errno);
        }
        held.begin_writing();
    }
    Ok(())
}

impl LockedStream {
    /// Puts into the journal what its entries had no room for.
    pub(super) fn catch_up(&self) {
        self.update(|stream| stream.catch_up(self.session));
    }
    /// From idle to writing at the position.
    pub(in crate::stdio) fn begin_writing(&self) {
        let offset = self.stream.position.peek();
        self.update(|stream| stream.begin_writing(self.session, offset));
    }
    /// Takes more blocks, if there are some to spare, once everything accepted is written. Convergent; on an error the stream is as
    /// a flush leaves it.
    fn grow(&self) -> Result<(), Errno> {
        self.advance(|stream| stream.flush_step(self.session, self.ring))?;
        self.update(|stream| {
            let offset = stream.base.peek().wrapping_add(stream.reserved());
            stream.grow(self.session);
            stream.begin_writing(self.session, offset);
        });
        Ok(())
    }
    /// Notes that a call's bytes, accepted from a position on but for the first `before`, could not all be written.
    fn refuse(&self, errno: Errno, (start, before): (u64, u64), accepted: &mut u64) -> Result<(), Errno> {
        if self.stream.buffering() == Buffering::None {
            // What is in flight ends first; what failed is not tried again.
            if self.gave_up(errno) || self.take_back().is_err() {
                // It has not ended: its bytes stay accepted.
                return self.fail(errno);
            }
            // Without a buffer, what was not written was not accepted.
            let reached = self.stream.first_unwritten();
            *accepted = (before + reached.saturating_sub(start)).min(*accepted);
            self.restart_writing(reached);
        }
        self.fail(errno)
    }
    /// Begins to write again at a position of the present stretch; what lies after it is dropped. After [`LockedStream::take_back`].
    fn restart_writing(&self, reached: u64) {
        let offset = self.stream.base.peek().wrapping_add(reached);
        self.update(|stream| {
            stream.forget_error();
            stream.begin_writing(self.session, offset);
        });
    }
}

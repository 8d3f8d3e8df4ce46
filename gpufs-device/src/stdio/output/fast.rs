//! Writing without the lock: a piece of the group's bytes is reserved by one atomic step, or waits for blocks to become free.

use gpufs_core::Errno;
use gpufs_core::session::WaitReason;
use gpufs_core::stream::{Progress, Reservation, Stream};

use super::fill::{Unrecorded, fill};
use super::{LaneRecord, Record, WriteTarget};
use crate::io::{Backoff, Drained, drain_each};
use crate::stdio::File;
use crate::stdio::lock::with_lock_unless;
use crate::warp::{Lanes, Machine, Warp};

/// Where the next piece of a group's bytes ends that begins at `from`: after as many whole records as the fast path takes at once, but at
/// least one. Convergent.
pub(super) fn piece_end<R: Record>(
    target: WriteTarget,
    lanes: Lanes,
    part: &LaneRecord<'_, R>,
    from: u64,
) -> u64 {
    let stream = target.stream;
    // The leader's word counts: others may see another layout.
    let most = stream.block_bytes() * u64::from(stream.block_count.peek() / 2).max(1);
    let most = lanes.from_leader(most);
    if part.total - from <= most {
        return part.total;
    }
    let end = part.before + part.record.bytes();
    let later = lanes.ballot(end > from);
    let fitting = lanes.ballot(end > from && end - from <= most);
    lanes.broadcast(end, if fitting.is_empty() { later.first() } else { fitting.last() })
}

/// How often a piece finds the stream busy before it goes to the lock, where the first come are the first served.
const BUSY_TRIES: u32 = 1_000;
/// How often it looks for room between two tries.
const POLLS_FOR_ROOM: u32 = 16;

/// The group's bytes [`from`, `to`) without the lock; whether it could. Convergent.
pub(super) fn write_fast<R: Record>(
    target: WriteTarget,
    lanes: Lanes,
    part: &LaneRecord<'_, R>,
    from: u64,
    to: u64,
) -> bool {
    let WriteTarget { file, stream, ring } = target;
    let mut backoff = Backoff::of_many(file.session);
    let mut tries = 0;
    // Ends: a busy block's write completes, and this loop reaps and drains ([L-PROGRESS d]); and a count.
    loop {
        match lanes.on_leader(|| stream.try_reserve(file.generation, to - from)) {
            Reservation::Closed => return false,
            Reservation::Busy => {
                if tries == BUSY_TRIES {
                    return false;
                }
                tries += 1;
                // Ends: a count. To try costs more looks at the stream, at which all the others look, too.
                for _ in 0..POLLS_FOR_ROOM {
                    match progress(target, lanes) {
                        // The lock's way reports the error, or lets the stream grow.
                        Err(_) => return false,
                        Ok(drained) => {
                            if backoff.wait(drained, WaitReason::StreamBlock, ring, to - from).is_err() {
                                return false;
                            }
                        }
                    }
                    if lanes.any(lanes.is_leader() && stream.has_available(to - from)) {
                        break;
                    }
                }
            }
            Reservation::At(position) => {
                // From here to the last commit inside `fill` nothing is waited for ([D-13]).
                if let Some(behind) = fill(target, lanes, part, (from, to), position) {
                    catch_up(file, lanes, behind);
                }
                return true;
            }
        }
    }
}

/// Makes progress on the blocks of a stream that is busy, each lane on some of them, unless another warp does. The error of a write, or
/// `EAGAIN` where the stream can grow. Convergent. Waits for nothing.
///
/// Not inlined: what a call that finds room does should have the registers to itself.
#[inline(never)]
fn progress(target: WriteTarget, lanes: Lanes) -> Result<Drained, Errno> {
    let WriteTarget { file: File { session, .. }, stream, ring } = target;
    if !lanes.any(lanes.is_leader() && stream.enter_progress(Machine::PROGRESS_WARPS_MAX)) {
        return Ok(Drained::Elsewhere);
    }
    // More blocks serve all that wait. The lock's way takes them.
    if lanes.any(lanes.is_leader() && stream.may_grow(session)) {
        if lanes.is_leader() {
            stream.leave_progress();
        }
        return Err(Errno::AGAIN);
    }
    let mut progress = Progress::Done;
    // Ends: over the places.
    for place in (lanes.rank()..stream.block_count.peek()).step_by(lanes.count() as usize) {
        match stream.progress(session, ring, place) {
            Progress::Done => {}
            other => progress = other,
        }
    }
    lanes.sync();
    if lanes.is_leader() {
        stream.leave_progress();
    }
    let waiting = match progress {
        Progress::Wait(ring) => Some(ring),
        Progress::NoSlot => Some(ring),
        Progress::Done | Progress::Failed(_) => None,
    };
    let failed = lanes.ballot(matches!(progress, Progress::Failed(_)));
    if !failed.is_empty() {
        let first = lanes.broadcast(progress, failed.first());
        return if let Progress::Failed(errno) = first { Err(errno) } else { Ok(Drained::Nothing) };
    }
    Ok(drain_each(session, lanes, waiting))
}

/// Puts into the journal what [`fill`] found no entry for. Convergent. Not between reserving and committing: it waits for the
/// stream's lock. Of many that come, the first does it for all.
#[cold]
fn catch_up(file: File, lanes: Lanes, behind: Unrecorded) {
    let is_behind =
        |stream: &Stream| behind.into_iter().flatten().any(|(number, epoch)| stream.is_behind(number, epoch));
    if !lanes.any(lanes.is_leader() && is_behind(file.stream())) {
        return;
    }
    // With the lock held and all committed, earlier blocks are full, and so in the journal. Where the stream is closed, it was flushed.
    let _ = with_lock_unless(
        file,
        lanes,
        |stream| !is_behind(stream),
        |held| {
            held.catch_up();
            Ok(())
        },
    );
}

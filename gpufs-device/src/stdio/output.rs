//! The write path (stages 2 and 3): lanes' records become one reservation, go into the stream's blocks, and full blocks go out.
#![allow(unsafe_code, reason = "writes into the stream's blocks")]

use gpufs_core::alloc::BufferPool;
use gpufs_core::session::{OpenFile, WaitReason};
use gpufs_core::stream::{
    BLOCKS_MAX, BlockRef, Buffering, Direction, Progress, Reservation, Stream, StreamGeometry,
};
use gpufs_core::{Call, Claim, Errno};
use static_assertions::const_assert;

use super::lock::{LockedStream, with_lock, with_lock_unless};
use super::{File, Transfer};
use crate::io::{Backoff, Drained, copy_alone, copy_together, drain, drain_each, slot_hint};
use crate::warp::{Broadcast, Lanes, Machine, Warp};

/// What one lane writes in one call.
pub(super) trait Record {
    /// Its length in bytes.
    fn bytes(&self) -> u64;
    /// Puts its bytes from `skip` on into the whole of `into`.
    fn emit(&self, skip: u64, into: &mut [u8]);
    /// Whether it may hold a newline.
    fn has_newline(&self) -> bool;
    /// Where it lies as a whole, if it does.
    fn address(&self) -> Option<u64>;
}

impl Record for &[u8] {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }
    fn emit(&self, skip: u64, into: &mut [u8]) {
        #[allow(clippy::cast_possible_truncation, reason = "below the slice's length")]
        let start = skip as usize;
        copy_alone(into, &self[start..start + into.len()]);
    }
    fn has_newline(&self) -> bool {
        memchr::memchr(b'\n', self).is_some()
    }
    fn address(&self) -> Option<u64> {
        Some(self.as_ptr() as u64)
    }
}

/// Where a lane's record lies among those of its group.
struct LaneRecord<'a, R> {
    record: &'a R,
    /// Bytes of lower lanes.
    before: u64,
    /// Bytes of the whole group.
    total: u64,
}

/// How often a record may go back to the fast path that it found closed. A record too long for it comes here, too.
const FAST_TRIES: u32 = 3;

/// The position of the stream's file is ahead of the reader, and others share it: the stream has to be left where its reader stands before it is
/// written. Never an error of a call: `ERESTARTSYS` (512), which the kernel keeps to itself, too.
const STEP_BACK_FIRST: Errno = Errno::from_number(512);

/// Writes every lane's record to its file. Convergent; called by `lanes`.
pub(super) fn write(file: File, lanes: Lanes, record: &impl Record) -> Transfer {
    lanes.grouped(file.key(), |group| {
        let before = group.scan(record.bytes());
        let total = group.broadcast(before + record.bytes(), group.mask().last());
        if total == 0 {
            return Transfer { bytes: 0, error: None };
        }
        let part = LaneRecord { record, before, total };
        let target = WriteTarget::of(file);
        let mut accepted = 0;
        let mut tries = 0;
        // Ends: each round takes in a lane's record at least, or is a try, the last of which does not look whether the fast path is open.
        let outcome = loop {
            if accepted == total {
                return Transfer { bytes: to_usize(record.bytes()), error: None };
            }
            let to = piece_end(target, group, &part, accepted);
            if write_fast(target, group, &part, accepted, to) {
                accepted = to;
                continue;
            }
            tries += 1;
            match write_slowly(file, group, &part, &mut accepted, tries >= FAST_TRIES) {
                None => {}
                // Not in `write_slowly`: on a GPU, each level of calls takes registers from all of them.
                Some(Err(STEP_BACK_FIRST)) => match leave_reading(file, group) {
                    Ok(()) => {}
                    failed => break failed,
                },
                Some(outcome) => break outcome,
            }
        };
        // The group wrote a prefix of all its bytes: a lane's share is what of it is its own.
        let mine = accepted.saturating_sub(before).min(record.bytes());
        // Where everything was taken, the error is the flush's, and concerns every lane of the call.
        let error = if mine < record.bytes() || accepted == total { outcome.err() } else { None };
        Transfer { bytes: to_usize(mine), error }
    })
}

/// The group's bytes from `accepted` on, under the lock, unless the fast path is open when it is got and `at_last` is not set: then `None`.
/// Convergent. Not inlined: what a call that finds room does should have the registers to itself.
#[inline(never)]
fn write_slowly<R: Record>(
    file: File,
    lanes: Lanes,
    part: &LaneRecord<'_, R>,
    accepted: &mut u64,
    at_last: bool,
) -> Option<Result<(), Errno>> {
    let needless = |stream: &Stream| {
        !at_last && stream.is_open() && (stream.has_available(1) || !stream.may_grow(file.session))
    };
    with_lock_unless(file, lanes, needless, |held| write_held(held, part, accepted))
}

/// The stream that a call writes to, and what of it never changes: found once, it stays in registers.
#[derive(Clone, Copy)]
struct WriteTarget {
    file: File,
    stream: &'static Stream,
    ring: u32,
}

impl WriteTarget {
    fn of(file: File) -> Self {
        let stream = file.stream();
        Self { file, stream, ring: stream.ring(file.session) }
    }
}

/// Where the next piece of a group's bytes ends that begins at `from`: behind as many whole records as the fast path takes at once, but at
/// least one. Convergent.
fn piece_end<R: Record>(target: WriteTarget, lanes: Lanes, part: &LaneRecord<'_, R>, from: u64) -> u64 {
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
fn write_fast<R: Record>(
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

/// Looks after the blocks of a stream that is busy, each lane after some of them, unless another warp does; what came of it, or the error
/// of a write, or `EAGAIN` where the stream can grow. Convergent. Waits for nothing. Not inlined: what a call that finds room does should have the registers to itself.
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

/// Commits that found no journal entry left, by block and epoch; the leader's value counts. A block that a commit has to itself
/// is full with it, and then in the journal: only the first and the last can be here.
type Behind = [Option<(u64, u64)>; 2];

/// Sees to it that the journal has what [`fill`] found no entry for. Convergent. Not between reserving and committing: it waits for the
/// stream's lock. Of many that come, the first does it for all.
#[cold]
fn catch_up(file: File, lanes: Lanes, behind: Behind) {
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

/// Copies the group's bytes [`from`, `to`) to the reserved positions from `position` on, counts them in, and starts each block that
/// this made full; whether the journal had no entry left. Convergent.
fn fill<R: Record>(
    target: WriteTarget,
    lanes: Lanes,
    part: &LaneRecord<'_, R>,
    (from, to): (u64, u64),
    position: u64,
) -> Option<Behind> {
    let WriteTarget { file: File { session, .. }, stream, .. } = target;
    let geometry = stream.geometry(session);
    let end = position + (to - from);
    let (first, last) = (geometry.block_of(position), geometry.block_of(end - 1));
    // What of a block is the group's: the first byte in the block, and how many.
    let share_of = |number| {
        let block_start = geometry.start_of(number).max(position);
        let block_end = geometry.start_of(number + 1).min(end);
        #[allow(clippy::cast_possible_truncation, reason = "within one block")]
        let share = ((block_start - geometry.start_of(number)) as u32, (block_end - block_start) as u32);
        share
    };
    let mut block_ref = stream.block_ref(&geometry, first);
    let mut entry = if lanes.is_leader() { stream.draw_entry(&geometry, first, share_of(first)) } else { 0 };
    place_bytes(target, lanes, part, (from, to), &Destination { geometry, position, first: block_ref });
    lanes.sync();
    let mut behind = Behind::default();
    let filled = lanes.on_leader(|| {
        let mut full = 0_u64;
        for number in first..=last {
            let share = share_of(number);
            if number != first {
                block_ref = stream.block_ref(&geometry, number);
                entry = stream.draw_entry(&geometry, number, share);
            }
            let committed = stream.commit(session, &geometry, block_ref, share, entry);
            if committed.full {
                full |= 1 << (number - first);
            }
            if let Some(epoch) = committed.unrecorded {
                behind[usize::from(number != first)] = Some((number, epoch));
            }
        }
        Filled { full, is_behind: behind != Behind::default() }
    });
    if filled.full != 0 {
        start_blocks(target, lanes, first, filled.full);
    }
    filled.is_behind.then_some(behind)
}

/// What the leader of [`fill`] tells after the commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Filled {
    /// Which blocks are full, of at most [`BLOCKS_MAX`]: bit `i` stands for the `i`th of the reservation.
    full: u64,
    /// The journal had no entry left for a commit.
    is_behind: bool,
}

impl Filled {
    /// Above the bits of `full`.
    const BEHIND: u64 = 1 << 63;
}

const_assert!(BLOCKS_MAX <= 63);

impl Broadcast for Filled {
    #[inline]
    fn to_word(self) -> u64 {
        self.full | if self.is_behind { Self::BEHIND } else { 0 }
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        Self { full: word & !Self::BEHIND, is_behind: word & Self::BEHIND != 0 }
    }
}

/// Where reserved bytes go.
struct Destination {
    geometry: StreamGeometry,
    /// The first byte's position.
    position: u64,
    /// The place of its block.
    first: BlockRef,
}

impl Destination {
    /// Where the byte of a reserved position goes, and how many bytes follow in the same block (at least 1).
    fn address(&self, stream: &Stream, position: u64) -> (u64, u64) {
        let number = self.geometry.block_of(position);
        let block_ref = if number == self.first.block_number {
            self.first
        } else {
            stream.block_ref(&self.geometry, number)
        };
        self.geometry.address(block_ref, position)
    }
}

/// Bytes of a record from which on the warp copies one lane's record after the other's, if it lies in memory that all lanes reach.
const TOGETHER_BYTES: u64 = 256;

/// Copies the group's bytes [`from`, `to`) to the reserved positions from `position` on. Convergent; others see them after the next
/// barrier. Waits for nothing.
///
/// Over a bus an access costs as much for one byte as for sixteen, and the next lane's bytes lie beside this one's. So where lanes copy
/// together, they put their records side by side in device memory first, and then store that in wide words.
fn place_bytes<R: Record>(
    target: WriteTarget,
    lanes: Lanes,
    part: &LaneRecord<'_, R>,
    (from, to): (u64, u64),
    destination: &Destination,
) {
    let WriteTarget { file: File { session, .. }, stream, ring } = target;
    let position = destination.position;
    let address = |at: u64| destination.address(stream, position + (at - from));
    // This lane's share of the range.
    let start = part.before.max(from);
    let end = (part.before + part.record.bytes()).min(to);
    let buffers = session.coalescing_buffers;
    if buffers.base != 0 && to - from >= u64::from(lanes.count()) {
        let long = (to - from) / u64::from(lanes.count()) >= TOGETHER_BYTES;
        let reached = part.record.address().filter(|address| !Machine::is_private(*address));
        if long && lanes.all(reached.is_some()) {
            let source = reached.unwrap_or(0).wrapping_sub(part.before);
            // Ends: over the lanes.
            for lane in lanes.mask().iter() {
                let (source, mut at, end) =
                    (lanes.broadcast(source, lane), lanes.broadcast(start, lane), lanes.broadcast(end, lane));
                while at < end {
                    let (target, room) = address(at);
                    let count = room.min(end - at);
                    // SAFETY:
                    // - the range is reserved for this group until it is committed, and the record is what lane `lane` gave; it waits
                    //   at the next broadcast or barrier
                    unsafe { copy_together(lanes, target, source.wrapping_add(at), count) };
                    at += count;
                }
            }
            return;
        }
        // Placed as in the stream, so that the words of both are aligned alike.
        let misalignment = position % 16;
        if let Some((claim, assembled)) = claim_coalescing(&buffers, lanes, ring, misalignment + (to - from))
        {
            if start < end {
                // SAFETY:
                // - the claim is this group's, and the range this lane's
                let into = unsafe {
                    core::slice::from_raw_parts_mut(
                        (assembled + misalignment + (start - from)) as *mut u8,
                        to_usize(end - start),
                    )
                };
                part.record.emit(start - part.before, into);
            }
            lanes.sync();
            let mut at = from;
            while at < to {
                let (target, room) = address(at);
                let count = room.min(to - at);
                // SAFETY:
                // - the range is reserved for this group until it is committed; the assembled bytes were put there before the barrier
                unsafe { copy_together(lanes, target, assembled + misalignment + (at - from), count) };
                at += count;
            }
            lanes.sync();
            if lanes.is_leader() {
                buffers.free.release(claim);
            }
            return;
        }
    }
    let mut at = start;
    while at < end {
        let (target, room) = address(at);
        let count = room.min(end - at);
        // SAFETY:
        // - the range is reserved for this lane alone until it is committed
        // - the block's buffer is valid for its whole length
        let into = unsafe { core::slice::from_raw_parts_mut(target as *mut u8, to_usize(count)) };
        part.record.emit(at - part.before, into);
        at += count;
    }
}

/// Claims device memory for `bytes` that a group assembles; `None` if there is none now. Convergent; valid in all. Waits for nothing.
fn claim_coalescing(pool: &BufferPool, lanes: Lanes, ring: u32, bytes: u64) -> Option<(Claim, u64)> {
    if bytes > pool.most_bytes() {
        return None;
    }
    let run = lanes.on_leader(|| {
        pool.claim_whole(bytes, slot_hint(ring))
            .map(|claim| Run { first: claim.item(0), count: claim.count() })
    });
    run.map(|Run { first, count }| (Claim::run(first, count), pool.address(first)))
}

/// Neighbouring buffers that the leader claimed: few of them, and at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u32,
    count: u32,
}

/// The two numbers. Together they never have all bits set: a claim has at most [`BufferPool::BUFFERS_MAX`] items.
impl Broadcast for Option<Run> {
    #[inline]
    fn to_word(self) -> u64 {
        self.map_or(u64::MAX, |Run { first, count }| first.to_word() << 32 | count.to_word())
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        (word != u64::MAX).then(|| Run { first: u32::from_word(word >> 32), count: u32::from_word(word) })
    }
}

/// Starts the full blocks `first + i` for each bit `i`. Convergent.
fn start_blocks(target: WriteTarget, lanes: Lanes, first: u64, full: u64) {
    let WriteTarget { file: File { session, .. }, stream, ring } = target;
    let mut rest = full;
    let mut backoff = Backoff::new(session);
    // Ends: each round starts a block or waits for a slot, which comes ([L-PROGRESS b]).
    while rest != 0 {
        let number = first + u64::from(rest.trailing_zeros());
        if lanes.on_leader(|| stream.start(session, ring, number)) == Progress::NoSlot {
            // Slots may all be held by write-behind of this very stream.
            if lanes.is_leader() {
                let _ = stream.reap_all(session, ring);
            }
            let drained = drain(session, lanes, ring);
            if let Err(errno) = backoff.wait(drained, WaitReason::Slot, ring, number) {
                // The block stays full. Whoever comes next meets the error under the lock, and starts it.
                stream.fail(errno);
                return;
            }
        } else {
            rest &= rest - 1;
        }
    }
}

/// Under the lock: any buffering, any length. `accepted` counts the group's bytes that the stream took.
fn write_held<R: Record>(
    held: &LockedStream,
    part: &LaneRecord<'_, R>,
    accepted: &mut u64,
) -> Result<(), Errno> {
    prepare(held, part.total)?;
    let LockedStream { session, stream, lanes, ring } = *held;
    // What the fast path took went before.
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
        let target = WriteTarget { file, stream, ring };
        behind |= fill(target, lanes, part, (done, done + taken), position).is_some();
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

/// Leaves a stream where its reader stands. Convergent.
#[cold]
#[inline(never)]
fn leave_reading(file: File, lanes: Lanes) -> Result<(), Errno> {
    with_lock(file, lanes, |held| held.leave_reading().or_else(|errno| held.fail(errno)))
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
        held.forget_read();
        let LockedStream { session, stream, lanes, .. } = *held;
        // Those who wait seem to write as much each, so much that the block will be full.
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
        if let Err(errno) = held.leave_writing() {
            return held.fail(errno);
        }
        held.begin_writing();
    }
    Ok(())
}

impl LockedStream {
    /// Puts into the journal what its entries had no room for.
    fn catch_up(&self) {
        self.update(|stream| stream.catch_up(self.session));
    }
    /// From idle to writing at the position.
    pub(super) fn begin_writing(&self) {
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
    /// Begins anew at a position of the present stretch of writing; what lies behind it is dropped. After [`LockedStream::take_back`].
    fn restart_writing(&self, reached: u64) {
        let offset = self.stream.base.peek().wrapping_add(reached);
        self.update(|stream| {
            stream.forget_error();
            stream.begin_writing(self.session, offset);
        });
    }
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl File {
    /// Writes bytes, as `fwrite(3)` with a size of 1: all of them, or an error.
    ///
    /// # Errors
    /// `EBADF` (closed, or not open for writing), or what a write met: `ENOSPC`, `EPIPE`, `EFBIG`, `EIO` … See the table at
    /// [`crate::stdio`] for errors of earlier calls.
    pub fn fwrite(self, bytes: &[u8]) -> Result<usize, Errno> {
        self.fwrite_counted(bytes).result()
    }

    /// As [`File::fwrite`], with the count also when there is an error.
    pub fn fwrite_counted(self, bytes: &[u8]) -> Transfer {
        let written = write(self, Lanes::calling(self.session, Call::Fwrite), &bytes);
        if let Some(errno) = written.error {
            self.session.note_failure(Call::Fwrite, errno);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::message::assert_comes_back;
    use proptest::prelude::*;

    #[test]
    fn no_run_comes_back() {
        assert_comes_back(None::<Run>);
    }

    proptest! {
        #[test]
        fn what_was_filled_comes_back(full in 0_u64..1 << BLOCKS_MAX, is_behind: bool) {
            assert_comes_back(Filled { full, is_behind });
        }
        #[test]
        fn every_run_comes_back(first: u32, count in 1..=BufferPool::BUFFERS_MAX) {
            assert_comes_back(Some(Run { first, count }));
        }
    }
}

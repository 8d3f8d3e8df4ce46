//! Files whose transfers may have to wait for another party, for ever perhaps: pipes, FIFOs, sockets, terminals ([R-8]).
//!
//! A transfer is tried without waiting. Where the file is not ready, the lane gives its staging buffer and its slot back, and waits with a
//! poll, which needs no buffer. A ring admits so many such polls that others always find slots; a lane that is not admitted naps, holds
//! nothing, and polls for an instant now and then. Files that the kernel cannot try without waiting (terminals, FIFOs, what knows no
//! `RWF_NOWAIT`) are asked once they are ready, and the operation is cancelled should it wait all the same.
//!
//! All functions here are called by one lane alone, whose [`Lanes`] they get.
#![allow(unsafe_code, reason = "hands buffers to the kernel")]

use gpufs_core::abi::{CURRENT_POSITION, POLLIN, POLLOUT, RWF_NOWAIT, Sqe};
use gpufs_core::alloc::BufferPool;
use gpufs_core::session::{FileIndex, OpenFile, Resources, SessionTables, Target, WaitReason};
use gpufs_core::{Errno, Operation, Outcome, Queue, Slot, SlotClaim};

use super::staging::{claim_alone, count};
use super::until::poll_until;
use super::vector::copy_vectors;
use super::{
    Backoff, Drained, Flow, abandon, abandoned, copy_raw, drain, ring_of_warp, slot_hint, transact_on,
};
use crate::warp::{Lanes, Machine, Warp};

/// How long an operation on a file that was ready may take before it is cancelled; each time, the next may take twice as long.
const HOLD_NS: (u64, u64) = (5_000_000, 1_000_000_000);
/// The same for a call that is not to wait: an operation that could go on has by then, unless the kernel's worker thread got no core for so long.
/// Then the call says `EAGAIN`, too, and the next one asks again.
const INSTANT_NS: u64 = 10_000_000;
/// Rests between two looks at what is not ready.
const REST_NS: (u64, u64) = (20_000, 20_000_000);
/// The most naps of one rest, should the clock stand still.
const NAPS_OF_A_REST: u32 = 100_000;
/// What is written at a time where the kernel cannot be told not to wait: a pipe that is ready takes it (`PIPE_BUF`).
const WRITTEN_AT_A_TIME: u64 = 4096;

/// A wait for an event that no completion announces: rests that grow. It holds nothing.
pub(crate) struct Rests<'a> {
    session: &'a SessionTables,
    ring: u32,
    backoff: Backoff<'a>,
    rest_ns: u64,
    /// When the session's limit is reached, once a rest has begun.
    end_ns: Option<u64>,
}

impl<'a> Rests<'a> {
    pub(crate) const fn new(session: &'a SessionTables, ring: u32) -> Self {
        Self { session, ring, backoff: Backoff::new(session), rest_ns: REST_NS.0, end_ns: None }
    }
    /// Rests once, longer than the last time. Convergent; called by `lanes`; the result is the same in all.
    ///
    /// # Errors
    /// `ETIMEDOUT` past the session's limit, and as [`Backoff::wait`]; what others complete meanwhile is no progress of this wait.
    ///
    /// # Panics
    /// As [`Backoff::wait`].
    pub(crate) fn rest(&mut self, lanes: Lanes, object: u64) -> Result<(), Errno> {
        let started = Machine::clock();
        if self.end_ns.is_none() {
            self.end_ns = end_of_wait(self.session);
        }
        let late = self.end_ns.is_some_and(|end| started >= end);
        if lanes.any(lanes.is_leader() && late) {
            return Err(Errno::TIMEDOUT);
        }
        // Ends: the time is up, or a count.
        for _ in 0..NAPS_OF_A_REST {
            let drained = match drain(self.session, lanes, self.ring) {
                Drained::Failed => Drained::Failed,
                _ => Drained::Nothing,
            };
            self.backoff.wait(drained, WaitReason::Completion, self.ring, object)?;
            let over = Machine::clock().saturating_sub(started) >= self.rest_ns;
            if lanes.any(lanes.is_leader() && over) {
                break;
            }
        }
        self.rest_ns = (self.rest_ns + self.rest_ns / 2).min(REST_NS.1);
        Ok(())
    }
}

/// When a wait for another party that begins now ends with `ETIMEDOUT`, by the device's clock; `None` where the session has no limit. [R-ASYNC-8].
pub(crate) fn end_of_wait(session: &SessionTables) -> Option<u64> {
    let limit = session.wait_limit_ns;
    (limit != 0).then(|| Machine::clock().saturating_add(limit))
}

/// Puts one entry into the ring, through a slot that the lane has claimed for it, and releases once the outcome is known.
pub(super) fn submit(queue: &Queue, claim: &SlotClaim, entry: Sqe) -> Operation {
    // SAFETY:
    // - claimed for this operation alone; the caller releases it where the outcome is known
    let operation = unsafe { queue.arm(Slot(claim.item(0))) };
    // SAFETY:
    // - the slots were claimed for this batch, which is filled and committed below, with nothing between that could fail
    let batch = unsafe { queue.reserve(1) };
    // SAFETY:
    // - the ticket was just drawn, for this lane alone, which holds a slot for it
    // - the caller keeps what the entry refers to until it has seen the completion
    unsafe { queue.fill(batch.first(), entry.with_user_data(operation.token())) };
    // SAFETY:
    // - one ticket, drawn and filled above
    unsafe { queue.commit(batch) };
    operation
}

/// Does `entry`, but for no longer than `hold_ns`: then it is cancelled, as a rule with `ECANCELED`. 0 cancels it right after its submission,
/// which for a poll is a look without waiting.
///
/// What the entry refers to must stay valid until the return.
fn operate_briefly(session: &SessionTables, ring: u32, lane: Lanes, entry: Sqe, hold_ns: u64) -> i32 {
    let queue = &{ session.queues()[ring as usize] };
    let hint = slot_hint(ring);
    let mut backoff = Backoff::new(session);
    // Ends: two slots come ([L-PROGRESS b]); one alone is not held meanwhile.
    let (claim, spare) = loop {
        if let Some(claim) = queue.claim(1, hint) {
            if let Some(spare) = queue.claim(1, hint) {
                break (claim, spare);
            }
            queue.release(claim);
        }
        let drained = drain(session, lane, ring);
        if let Err(errno) = backoff.wait(drained, WaitReason::Slot, ring, 0) {
            return -errno.number();
        }
    };
    let operation = submit(queue, &claim, entry);
    let started = Machine::clock();
    let mut cancel: Option<Operation> = None;
    let mut result = None;
    // Ends: the operation ends by itself or is cancelled, a cancellation ends by itself, and this loop drains.
    let result = loop {
        if result.is_none()
            && cancel.is_none()
            && (hold_ns == 0 || Machine::clock().saturating_sub(started) >= hold_ns)
        {
            cancel = Some(submit(queue, &spare, Sqe::async_cancel(operation.token())));
        }
        let drained = drain(session, lane, ring);
        if result.is_none()
            && let Outcome::Done(value) = queue.outcome(operation)
        {
            result = Some(value);
        }
        let answered = cancel.is_none_or(|cancel| matches!(queue.outcome(cancel), Outcome::Done(_)));
        if let (Some(result), true) = (result, answered) {
            break result;
        }
        if let Err(errno) =
            backoff.wait_for_completion(drained, WaitReason::Completion, ring, operation.token())
        {
            // A thread of the host's gives up. What is still in flight keeps its slot.
            if cancel.is_none() {
                queue.release(spare);
            }
            return match abandon::cancel(ring, queue, operation, operation.token()) {
                Some(result) => {
                    queue.release(claim);
                    result
                }
                None => -errno.number(),
            };
        }
    };
    queue.release(claim);
    queue.release(spare);
    result
}

/// An operation that ends when a file is ready for one of `events`, or has failed or been hung up.
pub(crate) fn poll_entry(target: Target, events: u32) -> Sqe {
    let entry = Sqe::poll_add(target.fd, events);
    if target.fixed { entry.with_fixed_file() } else { entry }
}

/// Waits until a file is ready for one of `events`, or has failed or been hung up.
pub(super) fn await_ready(
    session: &SessionTables,
    lane: Lanes,
    target: Target,
    events: u32,
) -> Result<(), Errno> {
    let ring = ring_of_warp(session);
    let queue = &session.queues()[ring as usize];
    let end_ns = end_of_wait(session);
    let mut rests = Rests::new(session, ring);
    // Ends: with the wait for the other party, which this holds up in nothing.
    loop {
        if queue.begin_wait() {
            let entry = poll_entry(target, events);
            let result = match end_ns {
                None => transact_on(session, ring, lane, Some(entry)),
                Some(end_ns) => operate_until(session, ring, lane, entry, end_ns),
            };
            queue.end_wait();
            return Errno::check(result).map(|_| ());
        }
        rests.rest(lane, u64::from(target.fd.cast_unsigned()))?;
        if is_ready(session, lane, target, events)? {
            return Ok(());
        }
    }
}

/// An operation whose slot was set aside ([R-8]), cancelled when the clock says `end_ns`: `ETIMEDOUT` then. One lane alone.
#[cold]
#[inline(never)]
pub(crate) fn operate_until(
    session: &SessionTables,
    ring: u32,
    alone: Lanes,
    entry: Sqe,
    end_ns: u64,
) -> i32 {
    let result = poll_until(session, ring, alone, entry, end_ns);
    let cancelled = matches!(Errno::check(result), Err(Errno::CANCELED | Errno::INTR));
    if cancelled && Machine::clock() >= end_ns { -Errno::TIMEDOUT.number() } else { result }
}

/// Whether a file is ready for one of `events`, or has failed or been hung up.
pub(super) fn is_ready(
    session: &SessionTables,
    lane: Lanes,
    target: Target,
    events: u32,
) -> Result<bool, Errno> {
    match Errno::check(operate_briefly(session, ring_of_warp(session), lane, poll_entry(target, events), 0)) {
        Ok(_) => Ok(true),
        Err(Errno::CANCELED) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// What a transfer on a file that may wait is of.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) descriptor: FileIndex,
    pub(crate) writing: bool,
    /// The caller's memory: its address, or that of the vectors that name it, and its length in bytes.
    pub(crate) memory: u64,
    pub(crate) bytes: u64,
    /// How many vectors; 0 where the memory is in one piece.
    pub(crate) vectors: u32,
    /// `RWF_*`.
    pub(crate) rw_flags: u32,
}

/// How a piece of a transfer is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// With `RWF_NOWAIT`.
    Try,
    /// Without, of a file that was ready.
    Brief,
}

/// `read(2)` or `write(2)` of one lane on a file of [`OpenFile::may_wait`]: a read of what there is, a write of everything. Takes no lock:
/// such a file has no position.
#[inline(never)]
pub(crate) fn transfer_waiting(session: &SessionTables, lane: Lanes, waiting: Waiting) -> Result<u64, Errno> {
    let Waiting { descriptor, writing, bytes, .. } = waiting;
    let (file, flags) = session.file_and_flags(descriptor)?;
    let (access, events) = if writing { (OpenFile::WRITABLE, POLLOUT) } else { (OpenFile::READABLE, POLLIN) };
    if flags & access == 0 {
        return Err(Errno::BADF);
    }
    let target = file.target_of(flags, descriptor);
    let waits = flags & OpenFile::NONBLOCK == 0 && waiting.rw_flags & RWF_NOWAIT == 0;
    let mut way = if flags & (OpenFile::FIFO | OpenFile::TERMINAL) == 0 { Way::Try } else { Way::Brief };
    let mut hold_ns = if waits { HOLD_NS.0 } else { INSTANT_NS };
    let (mut ready, mut done) = (false, 0);
    // Ends: each round moves bytes, or waits for the other party, or takes the other way, once, or is the last.
    let outcome = loop {
        if way == Way::Brief && waits && !ready {
            if let Err(errno) = await_ready(session, lane, target, events) {
                break Err(errno);
            }
            ready = true;
        }
        // Closed while this lane waited: the number may be another file's by now.
        match session.file_and_flags(descriptor) {
            Ok((file, now)) if now == flags && file.target_of(now, descriptor) == target => {}
            _ => break Err(Errno::BADF),
        }
        let (asked, result) = piece(session, lane, target, waiting, done, (way, hold_ns));
        match result {
            Ok(count) => {
                done += count;
                // A terminal's line, a datagram, what a FIFO holds: a read takes one.
                let ends = !writing && (count < asked || way == Way::Brief);
                if done == bytes || count == 0 || ends {
                    break Ok(done);
                }
                ready = false;
            }
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP) if way == Way::Try => way = Way::Brief,
            Err(Errno::AGAIN | Errno::CANCELED) => {
                if !waits || (done > 0 && !writing) {
                    break Err(Errno::AGAIN);
                }
                if way == Way::Try && !ready {
                    if let Err(errno) = await_ready(session, lane, target, events) {
                        break Err(errno);
                    }
                    ready = true;
                } else if way == Way::Try {
                    // Ready, and yet it would wait: a file whose content the kernel has to fetch first.
                    way = Way::Brief;
                } else {
                    hold_ns = (hold_ns * 2).min(HOLD_NS.1);
                    ready = false;
                }
            }
            Err(errno) => break Err(errno),
        }
    };
    let counters = session.queues()[ring_of_warp(session) as usize].counters();
    count(counters, writing, done);
    // An error after some bytes shows in the next call, as POSIX has it.
    if done > 0 { Ok(done) } else { outcome }
}

/// One operation of a transfer that has come as far as `done`: how many bytes were asked for, and how many moved.
fn piece(
    session: &SessionTables,
    lane: Lanes,
    target: Target,
    Waiting { writing, memory, bytes, vectors, rw_flags, .. }: Waiting,
    done: u64,
    (way, hold_ns): (Way, u64),
) -> (u64, Result<u64, Errno>) {
    let ring = ring_of_warp(session);
    let (memory, left) = (if vectors == 0 { memory + done } else { memory }, bytes - done);
    let most = if writing && way == Way::Brief { WRITTEN_AT_A_TIME } else { u64::from(u32::MAX / 2) };
    let left = left.min(most);
    let operate = |index: Option<u32>, address: u64, bytes: u64| {
        #[allow(clippy::cast_possible_truncation, reason = "at most half of 2³²")]
        let entry = Resources::transfer(index, writing, target, (address, bytes as u32), CURRENT_POSITION);
        // Whether it waits is for the way to say: a FIFO or a terminal takes no such flag.
        let entry = entry.with_transfer_flags(rw_flags & !RWF_NOWAIT);
        let result = match way {
            Way::Try => {
                transact_on(session, ring, lane, Some(entry.with_transfer_flags(rw_flags | RWF_NOWAIT)))
            }
            Way::Brief => operate_briefly(session, ring, lane, entry, hold_ns),
        };
        Errno::check(result).map(u64::from)
    };
    if vectors == 0
        && let Some(region) = session.region_of(memory, left)
    {
        return (left, operate(Some(region), memory, left));
    }
    let pool = session.staging;
    let index = (pool.buffer_index != BufferPool::UNREGISTERED).then_some(pool.buffer_index);
    let buffers = match claim_alone(session, ring, pool, lane, left) {
        Ok(buffers) => buffers,
        Err(errno) => return (left, Err(errno)),
    };
    let before = abandoned(session, ring);
    let asked = left.min(u64::from(buffers.bytes));
    if writing {
        // SAFETY:
        // - the staging memory is this lane's, and the other end what its caller gave, who waits for the result
        unsafe { copy_piece(lane, session, (memory, vectors, done), buffers.address, asked, true) };
    }
    let result = operate(index, buffers.address, asked);
    if let (Ok(count), false) = (result, writing) {
        // SAFETY:
        // - as above; the kernel has moved no more than was asked for
        unsafe { copy_piece(lane, session, (memory, vectors, done), buffers.address, count, false) };
    }
    if abandoned(session, ring) == before {
        pool.free.release(buffers.claim);
    }
    (asked, result)
}

/// Copies `bytes` bytes between staging memory and the caller's, which is in one piece or, from its byte `done` on, in `vectors` pieces.
///
/// # Safety
/// As [`copy_raw`].
unsafe fn copy_piece(
    lane: Lanes,
    session: &SessionTables,
    (memory, vectors, done): (u64, u32, u64),
    staging: u64,
    bytes: u64,
    writing: bool,
) {
    let (target, source) = if writing { (staging, memory) } else { (memory, staging) };
    if vectors == 0 {
        // SAFETY:
        // - this function's contract
        unsafe { copy_raw(Flow::of(writing), target, source, bytes) };
    } else {
        // SAFETY:
        // - this function's contract
        unsafe { copy_vectors(session, lane, (memory, vectors), done, (staging, bytes), writing) };
    }
}

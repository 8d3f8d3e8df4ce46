//! Bounce buffers: any pointer may be a source or destination, since lanes copy ([D-15]). Registered memory is used in place.
#![allow(unsafe_code, reason = "copies between the caller's memory and staging memory")]

use gpufs_core::abi::{CURRENT_POSITION, Sqe};
use gpufs_core::alloc::{BufferPool, Staged};
use gpufs_core::session::{Resources, SessionTables, Target, WaitReason};
use gpufs_core::{Counters, Errno};
use static_assertions::const_assert;

use super::area::claim_patiently;
use super::runs::runs;
use super::{
    Backoff, Flow, abandoned, copy_raw, copy_together, drain, ring_of_warp, slot_hint, staged, transact_here,
    transact_on,
};
use crate::warp::{Broadcast, LaneMask, Lanes, Machine, Warp};

/// One lane's transfer.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    /// The file.
    pub(crate) target: Target,
    /// The caller's memory.
    pub(crate) memory: u64,
    /// How many bytes.
    pub(crate) bytes: u64,
    /// Where in the file; [`gpufs_core::abi::CURRENT_POSITION`] for the file's own rules.
    pub(crate) offset: u64,
}

impl Request {
    /// Where it goes on after so many bytes.
    #[inline]
    const fn offset_after(self, done: u64) -> u64 {
        match self.offset {
            CURRENT_POSITION => CURRENT_POSITION,
            offset => offset + done,
        }
    }
}

/// How far one lane's transfer has come.
pub(super) struct TransferState {
    /// Bytes moved so far.
    pub(super) done: u64,
    /// Bytes asked for.
    pub(super) bytes: u64,
    /// More is to be asked for.
    pub(super) open: bool,
    /// What the caller will see.
    pub(super) outcome: Result<u64, Errno>,
}

impl TransferState {
    /// Before anything was moved of so many bytes; `None` for a lane without a request.
    pub(super) fn of(bytes: Option<u64>) -> Self {
        let open = bytes.is_some();
        Self { done: 0, bytes: bytes.unwrap_or(0).min(TRANSFER_BYTES_MAX), open, outcome: Ok(0) }
    }
    /// Takes in the result of an operation of `asked` bytes; how many it moved. A short one ends the transfer, as the system call
    /// would; an interrupted one is asked again; an error after some bytes shows in the next call, as POSIX has it.
    pub(super) fn settle(&mut self, asked: u64, result: i32) -> u64 {
        match Errno::check(result) {
            Ok(count) => {
                let count = u64::from(count);
                self.done += count;
                self.outcome = Ok(self.done);
                self.open = count == asked && self.done < self.bytes;
                count
            }
            Err(Errno::INTR) => 0,
            Err(errno) => {
                if self.done == 0 {
                    self.outcome = Err(errno);
                }
                self.open = false;
                0
            }
        }
    }
}

/// A system call moves at most this many bytes (`read(2)`).
const TRANSFER_BYTES_MAX: u64 = 0x7fff_f000;

/// `pread`/`pwrite` of every lane that has a request: the count, or the errno if nothing was transferred. Stops at a short
/// transfer, as the system call does. Convergent; called by `lanes`.
#[inline(never)]
pub(crate) fn transfer(
    session: &SessionTables,
    lanes: Lanes,
    writing: bool,
    request: Option<Request>,
) -> Result<u64, Errno> {
    let requests = lanes.ballot(request.is_some());
    if requests.count() <= 1 {
        transfer_of_one(session, lanes, writing, request, requests)
    } else {
        transfer_of_many(session, lanes, writing, request)
    }
}

/// [`transfer`] where more than one lane has a request. Convergent; called by `lanes`.
///
/// Not inlined, as [`transfer_of_one`]: what one saves, a call of the other does not pay for.
#[inline(never)]
fn transfer_of_many(
    session: &SessionTables,
    lanes: Lanes,
    writing: bool,
    request: Option<Request>,
) -> Result<u64, Errno> {
    let ring = ring_of_warp(session);
    let bytes = request.map_or(0, |request| request.bytes.min(TRANSFER_BYTES_MAX));
    let mut state = TransferState::of(request.map(|request| request.bytes));
    let region = request.and_then(|request| session.region_of(request.memory, bytes));
    // Registered memory is used in place, and where there are no bytes no memory is needed.
    let in_place = region.is_some() || bytes == 0;
    let entry = request.filter(|_| in_place).map(|request| {
        #[allow(clippy::cast_possible_truncation, reason = "at most TRANSFER_BYTES_MAX")]
        let memory = (request.memory, bytes as u32);
        Resources::transfer(region, writing, request.target, memory, request.offset)
    });
    // Ends: each round moves bytes of some lane, or closes it, unless a signal interrupted it.
    while lanes.any(state.open) {
        if lanes.any(state.open && !in_place) {
            pass(session, lanes, writing, request, entry, &mut state);
        } else {
            let result = transact_on(session, ring, lanes, entry.filter(|_| state.open));
            if state.open {
                state.settle(bytes, result);
            }
        }
    }
    let whole = lanes.scan(state.done) + state.done;
    if lanes.lane() == lanes.mask().last() {
        count(session.queues()[ring as usize].counters(), writing, whole);
    }
    state.outcome
}

/// Counts bytes that were moved.
pub(super) fn count(counters: &Counters, writing: bool, bytes: u64) {
    // ORDERING: relaxed: a counter.
    if writing { &counters.bytes_written } else { &counters.bytes_read }.count(bytes);
}

/// [`transfer`] where at most one lane has a request, that of `requests`: it does by itself what takes one lane, and all copy. Convergent;
/// called by `lanes`.
///
/// Its operation is in line, in one place, since it is long and takes nearly all registers: those are saved once then. It moves the caller's
/// memory, or a staging buffer.
#[inline(never)]
fn transfer_of_one(
    session: &SessionTables,
    lanes: Lanes,
    writing: bool,
    request: Option<Request>,
    requests: LaneMask,
) -> Result<u64, Errno> {
    if requests.is_empty() {
        return Ok(0);
    }
    // What never changes is copied: after each acquire it would be loaded again.
    let (lane, pool, together) = (requests.first(), session.staging, session.copies_together());
    let ring = ring_of_warp(session);
    let counters = session.queues()[ring as usize].counters();
    let mut state = TransferState::of(request.map(|request| request.bytes));
    let region = request.and_then(|request| session.region_of(request.memory, state.bytes));
    let staging = (pool.buffer_index != BufferPool::UNREGISTERED).then_some(pool.buffer_index);
    // Ends: each round moves bytes, or is the last, unless a signal interrupted it.
    loop {
        let (mut staged, mut order) = (None, CopyOrder { buffer: 0, bytes: 0, more: false });
        let memory = request.map_or(0, |request| request.memory + state.done);
        let (left, before) = (state.bytes - state.done, abandoned(session, ring));
        let mut place = request.map(|_| (region, memory, left));
        if request.is_some() && region.is_none() && left != 0 {
            match claim_alone(session, ring, pool, lanes.subset(requests), left) {
                Ok(buffers) => {
                    order.buffer = buffers.claim.item(0);
                    order.bytes = left.min(u64::from(buffers.bytes));
                    place = Some((staging, buffers.address, order.bytes));
                    staged = Some(buffers);
                }
                Err(errno) => {
                    place = None;
                    state.settle(0, -errno.number());
                }
            }
        }
        if writing {
            order = lanes.broadcast(order, lane);
            if order.bytes > 0 {
                let address = pool.address(order.buffer);
                copy_of_one(together, lanes, lane, (memory, address, order.bytes), true);
            }
        }
        if let (Some(request), Some((index, address, bytes))) = (request, place) {
            let offset = request.offset_after(state.done);
            #[allow(clippy::cast_possible_truncation, reason = "at most TRANSFER_BYTES_MAX")]
            let entry = Resources::transfer(index, writing, request.target, (address, bytes as u32), offset);
            let moved =
                state.settle(bytes, transact_here(session, ring, lanes.subset(requests), Some(entry)));
            if staged.is_some() && !writing {
                order.bytes = moved;
            }
        }
        if writing {
            order.more = lanes.ballot(state.open) != LaneMask::NONE;
        } else {
            order.more = state.open;
            order = lanes.broadcast(order, lane);
            if order.bytes > 0 {
                let address = pool.address(order.buffer);
                copy_of_one(together, lanes, lane, (memory, address, order.bytes), false);
            }
        }
        if let Some(buffers) = staged
            && abandoned(session, ring) == before
        {
            pool.free.release(buffers.claim);
        }
        if !order.more {
            break;
        }
    }
    if request.is_some() {
        count(counters, writing, state.done);
    }
    state.outcome
}

/// What the one lane of [`transfer_of_one`] tells the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CopyOrder {
    /// The staging buffer.
    buffer: u32,
    /// Bytes in it that are to be copied: at most [`TRANSFER_BYTES_MAX`].
    bytes: u64,
    /// There will be another round.
    more: bool,
}

impl CopyOrder {
    /// Above the bytes.
    const MORE: u64 = 1 << 31;
}

const_assert!(TRANSFER_BYTES_MAX < CopyOrder::MORE);

/// The buffer, above the bytes and [`CopyOrder::MORE`].
impl Broadcast for CopyOrder {
    #[inline]
    fn to_word(self) -> u64 {
        debug_assert!(self.bytes <= TRANSFER_BYTES_MAX);
        self.buffer.to_word() << 32 | if self.more { Self::MORE } else { 0 } | self.bytes
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        let low = word & u64::from(u32::MAX);
        Self { buffer: u32::from_word(word >> 32), bytes: low & !Self::MORE, more: low & Self::MORE != 0 }
    }
}

/// Staging memory for `bytes` of one lane, or for some of them; called by that lane, which is `lane` and uses `ring`. Waits for it.
pub(super) fn claim_alone(
    session: &SessionTables,
    ring: u32,
    pool: BufferPool,
    lane: Lanes,
    bytes: u64,
) -> Result<Staged, Errno> {
    let (mut backoff, mut looks) = (Backoff::new(session), 0);
    // Ends: a buffer comes ([L-PROGRESS c]).
    loop {
        if let Some(staged) = claim_patiently(&pool, bytes, slot_hint(ring).wrapping_mul(7), &mut looks) {
            return Ok(staged);
        }
        let drained = drain(session, lane, ring);
        backoff.wait(drained, WaitReason::Staging, ring, bytes)?;
    }
}

/// Copies between the `memory` of one lane and staging memory, which all lanes do if they reach it. Convergent; called by `lanes`; `staging`
/// and `bytes` are the same in all; `together` is [`SessionTables::copies_together`].
fn copy_of_one(
    together: bool,
    lanes: Lanes,
    lane: u32,
    (memory, staging, bytes): (u64, u64, u64),
    writing: bool,
) {
    let alone = !together || bytes < TOGETHER_BYTES || Machine::is_private(memory);
    // 0 where the lane copies by itself.
    let shared = lanes.broadcast(if alone { 0 } else { memory }, lane);
    let ends = |own| if writing { (staging, own) } else { (own, staging) };
    if shared != 0 {
        let (target, source) = ends(shared);
        // SAFETY:
        // - one end is the lane's staging memory, the other what its caller gave, who waits for the result; every lane reaches both
        unsafe { copy_together(lanes, Flow::of(writing), target, source, bytes) };
    } else if lanes.lane() == lane {
        let (target, source) = ends(memory);
        // SAFETY:
        // - as above, for that lane
        unsafe { copy_raw(Flow::of(writing), target, source, bytes) };
    }
    // What all have copied is the kernel's, or the caller's, and the buffer the next one's.
    lanes.sync();
}

/// One round of [`transfer`] through staging memory: every open lane, or the run that it is in, gets as far as its staging memory
/// holds. A lane with an `entry` of its own needs none: its operation goes out with the others'. Convergent; called by `lanes`.
fn pass(
    session: &SessionTables,
    lanes: Lanes,
    writing: bool,
    request: Option<Request>,
    entry: Option<Sqe>,
    state: &mut TransferState,
) {
    let (done, left) = (state.done, state.bytes - state.done);
    let next = request
        .filter(|_| state.open && entry.is_none())
        .map(|request| (request.target, request.offset_after(done), left));
    let run = runs(lanes, next);
    let leads = next.is_some() && run.first == lanes.lane();
    let memory = request.map_or(0, |request| request.memory + done);
    let index = session.staging.buffer_index;
    let index = (index != BufferPool::UNREGISTERED).then_some(index);
    let waited = staged(session, lanes, leads.then_some(run.whole), |area| {
        // What of the area is this lane's.
        let (address, room) = (
            lanes.shuffle(area.map_or(0, |area| area.address), run.first),
            lanes.shuffle(area.map_or(0, |area| u64::from(area.bytes)), run.first),
        );
        let mine = if next.is_some() { room.saturating_sub(run.before).min(left) } else { 0 };
        if writing {
            // SAFETY:
            // - one end is the lane's part of staging memory, the other what the caller of pwrite gave, who waits for the result
            unsafe { copy_lanes(session, lanes, Flow::Out, (address + run.before, memory, mine)) };
            lanes.sync();
        }
        let asked = run.whole.min(room);
        let sqe = next.filter(|_| leads && room != 0).map(|(target, offset, _)| {
            #[allow(clippy::cast_possible_truncation, reason = "at most a staging area")]
            Resources::transfer(index, writing, target, (address, asked as u32), offset)
        });
        let own = entry.filter(|_| state.open);
        let result = transact_on(session, ring_of_warp(session), lanes, own.or(sqe));
        let mut moved = if own.is_some() { state.settle(state.bytes, result) } else { 0 };
        let result = lanes.shuffle(result, run.first);
        // Where the run ended before a lane's bytes, or failed in its first lane's name, the lane asks for itself in the next round.
        let reached = u64::try_from(result).is_ok_and(|count| count > run.before);
        if (leads && room != 0) || (mine > 0 && reached) {
            let limit = |bytes: u64| i32::try_from(bytes).unwrap_or(i32::MAX);
            moved = state.settle(mine, result.min(limit(run.before + mine)) - limit(run.before));
        }
        if !writing {
            let mine = if own.is_some() { 0 } else { moved };
            // SAFETY:
            // - one end is the lane's part of staging memory, the other what the caller of pread gave, who waits for the result
            unsafe { copy_lanes(session, lanes, Flow::In, (memory, address + run.before, mine)) };
            // The lane that has the buffers gives them back next: others may still have a share to copy out of them.
            lanes.sync();
        }
    });
    if let Err(errno) = waited {
        state.settle(0, -errno.number());
    }
}

/// Bytes from which on a warp copies one lane's part after the other's; below, each lane copies its own.
const TOGETHER_BYTES: u64 = 512;

/// Copies for each lane its `bytes`, to `target` from `source`. Convergent; called by `lanes`; others see the copies after the next
/// barrier.
///
/// # Safety
/// As [`copy_raw`], for each lane, until the next barrier of all.
pub(crate) unsafe fn copy_lanes(
    session: &SessionTables,
    lanes: Lanes,
    flow: Flow,
    (target, source, bytes): (u64, u64, u64),
) {
    if Machine::COPIES_WORDS && lanes.count() == 1 {
        if bytes > 0 {
            // SAFETY:
            // - this function's contract: of one lane all that it reaches is valid in every lane
            unsafe { copy_together(lanes, flow, target, source, bytes) };
        }
        return;
    }
    let together = session.copies_together()
        && bytes >= TOGETHER_BYTES
        && !Machine::is_private(target)
        && !Machine::is_private(source);
    if bytes > 0 && !together {
        // SAFETY:
        // - this function's contract
        unsafe { copy_raw(flow, target, source, bytes) };
    }
    if !session.copies_together() {
        return;
    }
    for lane in lanes.ballot(together).iter() {
        let (target, source, bytes) =
            (lanes.broadcast(target, lane), lanes.broadcast(source, lane), lanes.broadcast(bytes, lane));
        // SAFETY:
        // - this function's contract, and every lane reaches both ends; the lane that owns them waits in the broadcasts, this one's or
        //   the next
        unsafe { copy_together(lanes, flow, target, source, bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::message::assert_comes_back;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_order_comes_back(buffer: u32, bytes in 0..=TRANSFER_BYTES_MAX, more: bool) {
            assert_comes_back(CopyOrder { buffer, bytes, more });
        }
    }
}

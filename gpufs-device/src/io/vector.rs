//! Transfers of memory in several pieces (`readv(2)`, `writev(2)`): one operation of each lane, so that the bytes of a call are one write.
//!
//! The pieces are copied together in staging memory. Where all of them are registered, the system takes them in place: then the vectors alone
//! are staged, as the system cannot read them where the caller has them. (Vectored operations on registered buffers, `IORING_OP_READV_FIXED`,
//! are not used: they need all pieces in one buffer, and spare only the look-up of pages that do not move.)
#![expect(unsafe_code, reason = "reads the caller's vectors, and copies what they name")]

use gpufs_core::Errno;
use gpufs_core::abi::{CURRENT_POSITION, Sqe};
use gpufs_core::alloc::BufferPool;
use gpufs_core::session::{Resources, SessionTables, Target};

use super::area::StagingArea;
use super::staging::{TransferState, count};
use super::{Flow, copy_lanes, ring_of_warp, staged, transact_on};
use crate::warp::Lanes;

/// Bytes of a vector: an address and a length.
const VECTOR_BYTES: u64 = 16;

/// One lane's transfer.
#[derive(Clone, Copy)]
pub(crate) struct VectorRequest {
    /// The file.
    pub(crate) target: Target,
    /// The address of the first vector.
    pub(crate) vectors: u64,
    /// How many vectors: their memory is the caller's.
    pub(crate) count: u32,
    /// Bytes that they name, or fewer.
    pub(crate) bytes: u64,
    /// Where in the file; [`CURRENT_POSITION`] for the file's own rules.
    pub(crate) offset: u64,
    /// `RWF_*`.
    pub(crate) rw_flags: u32,
}

/// The address and the length of a vector.
///
/// # Safety
/// `vectors` is the address of more than `index` vectors, which do not change during the call.
unsafe fn vector(vectors: u64, index: u32) -> (u64, u64) {
    let place = (vectors as *const [u64; 2]).wrapping_add(index as usize);
    // SAFETY:
    // - one of the vectors, by this function's contract
    let [address, bytes] = unsafe { place.read() };
    (address, bytes)
}

/// Whether all the memory is registered, and the vectors fit into one staging buffer.
fn is_in_place(session: &SessionTables, request: VectorRequest) -> bool {
    let fits = u64::from(request.count) * VECTOR_BYTES <= u64::from(session.staging.buffer_bytes);
    // Ends: at `count`.
    // A sandbox takes no addresses that the ring does not check.
    fits && request.bytes > 0
        && !session.is_confined()
        && (0..request.count).all(|index| {
            // SAFETY:
            // - below the count of the caller's vectors, which are its until the call returns
            let (address, bytes) = unsafe { vector(request.vectors, index) };
            bytes == 0 || session.region_of(address, bytes).is_some()
        })
}

/// Copies the vectors into staging memory; the entry that names them there.
fn entry_in_place(area: StagingArea, writing: bool, request: VectorRequest) -> Sqe {
    // Ends: at `count`.
    for index in 0..request.count {
        // SAFETY:
        // - below the count of the caller's vectors, which are its until the call returns
        let (address, bytes) = unsafe { vector(request.vectors, index) };
        let at = index * VECTOR_BYTES as u32;
        area.put(at, &address.to_ne_bytes());
        area.put(at + 8, &bytes.to_ne_bytes());
    }
    let make = if writing { Sqe::writev } else { Sqe::readv };
    let entry = make(request.target.fd, area.address, request.count, request.offset);
    if request.target.fixed { entry.with_fixed_file() } else { entry }
}

/// `preadv2`/`pwritev2` of every lane that has a request: the count, or the errno if nothing was transferred. Stops at a short
/// transfer, as the system call does. Convergent; called by `lanes`.
#[inline(never)]
pub(crate) fn transfer_vectors(
    session: &SessionTables,
    lanes: Lanes,
    writing: bool,
    request: Option<VectorRequest>,
) -> Result<u64, Errno> {
    let mut state = TransferState::of(request.map(|request| request.bytes));
    let in_place = request.is_some_and(|request| is_in_place(session, request));
    let index = session.staging.buffer_index;
    let index = (index != BufferPool::UNREGISTERED).then_some(index);
    // Ends: each round moves bytes of some lane, or closes it, unless a signal interrupted it.
    while lanes.any(state.open) {
        let left = state.bytes - state.done;
        let wanted = if in_place { 0 } else { left };
        let waited = staged(session, lanes, state.open.then_some(wanted), |area| {
            let turn = area.zip(request);
            let (staging, room) = area.map_or((0, 0), |area| (area.address, u64::from(area.bytes)));
            let asked = if in_place { left } else { left.min(room) };
            let pieces = turn.map_or((0, 0), |(_, request)| (request.vectors, request.count));
            let copies = |bytes: u64| if turn.is_some() && !in_place { bytes } else { 0 };
            if writing {
                // SAFETY:
                // - one end is the lane's staging memory, the other what its caller gave, who waits for the result
                unsafe {
                    copy_vectors(session, lanes, pieces, state.done, (staging, copies(asked)), true);
                }
                lanes.sync();
            }
            let sqe = turn.map(|(area, request)| {
                let entry = if in_place {
                    entry_in_place(area, writing, request)
                } else {
                    let offset = match request.offset {
                        CURRENT_POSITION => CURRENT_POSITION,
                        offset => offset + state.done,
                    };
                    #[expect(clippy::cast_possible_truncation, reason = "at most a staging area")]
                    let memory = (staging, asked as u32);
                    Resources::transfer(index, writing, request.target, memory, offset)
                };
                entry.with_transfer_flags(request.rw_flags)
            });
            let result = transact_on(session, ring_of_warp(session), lanes, sqe);
            let before = state.done;
            let moved = if turn.is_some() { state.settle(asked, result) } else { 0 };
            if !writing {
                // SAFETY:
                // - one end is the lane's staging memory, the other what its caller gave, who waits for the result
                unsafe { copy_vectors(session, lanes, pieces, before, (staging, copies(moved)), false) };
                // The lane that has the buffer gives it back next: others may still copy out of it.
                lanes.sync();
            }
        });
        if let Err(errno) = waited {
            state.settle(0, -errno.number());
        }
    }
    let whole = lanes.scan(state.done) + state.done;
    if lanes.lane() == lanes.mask().last() {
        count(session.queues()[ring_of_warp(session) as usize].counters(), writing, whole);
    }
    state.outcome
}

/// Copies each lane's `bytes` between its staging memory and what its vectors name, from their byte `done` on. Convergent; called by
/// `lanes`; others see the copies after the next barrier.
///
/// # Safety
/// As [`copy_lanes`], for each piece; the vectors are the calling lane's and do not change.
pub(super) unsafe fn copy_vectors(
    session: &SessionTables,
    lanes: Lanes,
    (vectors, count): (u64, u32),
    done: u64,
    (mut staging, mut bytes): (u64, u64),
    writing: bool,
) {
    let (mut index, mut skip) = (0, done);
    // Ends: each round takes a vector of every lane that has bytes left, and one without vectors has none left.
    while lanes.any(bytes > 0) {
        let (mut memory, mut piece) = (0, 0);
        // Ends: at `count`.
        while bytes > 0 && piece == 0 {
            if index == count {
                // The vectors have become shorter since they were counted.
                bytes = 0;
                break;
            }
            // SAFETY:
            // - below the count of the lane's vectors
            let (address, length) = unsafe { vector(vectors, index) };
            let passed = skip.min(length);
            (memory, piece) = (address + passed, (length - passed).min(bytes));
            skip -= passed;
            index += 1;
        }
        let (target, source) = if writing { (staging, memory) } else { (memory, staging) };
        // SAFETY:
        // - this function's contract, for this piece
        unsafe { copy_lanes(session, lanes, Flow::of(writing), (target, source, piece)) };
        staging += piece;
        bytes -= piece;
    }
}

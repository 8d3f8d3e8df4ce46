//! Bounce buffers: any pointer may be a source or destination, since lanes copy (decision 15). Registered memory is used in place.
#![allow(unsafe_code, reason = "copies between the caller's memory and staging memory")]

use gpufs_core::Errno;
use gpufs_core::abi::CURRENT_POSITION;
use gpufs_core::pool::{Pool, Staged};
use gpufs_core::session::{Session, Stage, Target};

use super::{Patience, drain, ring_of_warp, slot_hint, transact};
use crate::warp::Lanes;

/// What a lane's staging memory is for, given to the body of [`staged`].
#[derive(Clone, Copy)]
pub(crate) struct StagingArea {
    /// First byte.
    pub(crate) address: u64,
    /// Length in bytes.
    pub(crate) bytes: u32,
}

impl StagingArea {
    /// Copies `bytes` in at `at`.
    ///
    /// # Panics
    /// If they do not fit.
    pub(crate) fn put(self, at: u32, bytes: &[u8]) {
        assert!(at as usize + bytes.len() <= self.bytes as usize);
        // SAFETY:
        // - the staging memory is this lane's, valid for `self.bytes`, and the range was checked
        // - the caller's slice cannot lie in it: staging memory is never handed out
        unsafe {
            core::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                (self.address as *mut u8).add(at as usize),
                bytes.len(),
            );
        }
    }
    /// Copies out what lies at `at`.
    pub(crate) fn get(self, at: u32, bytes: &mut [u8]) {
        assert!(at as usize + bytes.len() <= self.bytes as usize);
        // SAFETY:
        // - the staging memory is this lane's, valid for `self.bytes`, and the range was checked
        // - the caller's slice cannot lie in it: staging memory is never handed out
        unsafe {
            core::ptr::copy_nonoverlapping(
                (self.address as *const u8).add(at as usize),
                bytes.as_mut_ptr(),
                bytes.len(),
            );
        }
    }
    /// Reads a plain structure that the kernel wrote at `at`, a multiple of 16.
    pub(crate) fn read<T: Copy>(self, at: u32) -> T {
        assert!(
            at.is_multiple_of(16)
                && at as usize + size_of::<T>() <= self.bytes as usize
                && align_of::<T>() <= 16
        );
        // SAFETY:
        // - in bounds and aligned as checked; the pool's buffers are page aligned
        // - the types read here are plain numbers, for which any bytes are valid
        unsafe { (self.address as *const u8).add(at as usize).cast::<T>().read() }
    }
}

/// Gives each lane that wants it staging memory of at least one buffer and about `bytes`, as many lanes at a time as there are
/// buffers, and calls `body` with it; then takes it back. Convergent; called by `lanes`; `body` is called convergently, several
/// times in lanes that have to wait, with `None` in lanes whose turn it is not.
///
/// Lanes whose `bytes` is `None` never get a turn.
pub(crate) fn staged(
    session: &Session,
    lanes: Lanes,
    bytes: Option<u64>,
    mut body: impl FnMut(Option<StagingArea>),
) {
    let ring = ring_of_warp(session);
    let mut wanted = bytes;
    let mut patience = Patience::new(session);
    // Ends: each round in which a lane gets a buffer serves it, and a buffer comes (last proof of the core, (c)).
    while lanes.any(wanted.is_some()) {
        let got: Option<Staged> = wanted.and_then(|bytes| {
            session.staging.claim_bytes(bytes, slot_hint(ring).wrapping_mul(7).wrapping_add(lanes.rank()))
        });
        if !lanes.any(got.is_some()) {
            let drained = drain(session, lanes, ring);
            patience.wait(drained, Stage::Staging, ring, bytes.unwrap_or(0));
            continue;
        }
        if got.is_some() {
            wanted = None;
        }
        body(got.map(|staged| StagingArea { address: staged.address, bytes: staged.bytes }));
        if let Some(staged) = got {
            session.staging.free.release(staged.claim);
        }
    }
}

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

/// How far one lane's transfer has come.
struct Running {
    /// Bytes moved so far.
    done: u64,
    /// Bytes asked for.
    bytes: u64,
    /// More is to be asked for.
    open: bool,
    /// What the caller will see.
    outcome: Result<u64, Errno>,
}

impl Running {
    /// Takes in the result of an operation of `asked` bytes; how many it moved. A short one ends the transfer, as the system call
    /// would; an interrupted one is asked again; an error after some bytes shows in the next call, as POSIX has it.
    fn settle(&mut self, asked: u64, result: i32) -> u64 {
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
const MOST_BYTES: u64 = 0x7fff_f000;

/// `pread`/`pwrite` of every lane that has a request: the count, or the errno if nothing was transferred. Stops at a short
/// transfer, as the system call does. Convergent; called by `lanes`.
pub(crate) fn transfer(
    session: &Session,
    lanes: Lanes,
    writing: bool,
    request: Option<Request>,
) -> Result<u64, Errno> {
    let bytes = request.map_or(0, |request| request.bytes.min(MOST_BYTES));
    let mut running = Running { done: 0, bytes, open: request.is_some(), outcome: Ok(0) };
    let region = request.and_then(|request| session.region_of(request.memory, bytes));
    let staging_index = session.staging.buffer_index;
    let staging_index = (staging_index != Pool::UNREGISTERED).then_some(staging_index);
    let entry = |request: Request, index: Option<u32>, address: u64, count: u64, done: u64| {
        let offset =
            if request.offset == CURRENT_POSITION { CURRENT_POSITION } else { request.offset + done };
        #[allow(clippy::cast_possible_truncation, reason = "at most MOST_BYTES")]
        Session::transfer(index, writing, request.target, (address, count as u32), offset)
    };
    // Registered memory is used in place: one operation a lane. Ends: only an interruption asks again.
    loop {
        let in_place = running.open && region.is_some();
        if !lanes.any(in_place) {
            break;
        }
        let sqe =
            request.filter(|_| in_place).map(|request| entry(request, region, request.memory, bytes, 0));
        let result = transact(session, lanes, sqe);
        if in_place {
            count_bytes(session, writing, running.settle(bytes, result));
        }
    }
    // Ends: each round moves bytes of some lane, or closes it.
    while lanes.any(running.open) {
        let done = running.done;
        let left = running.open.then_some(bytes - done);
        staged(session, lanes, left, |area| {
            let turn = area.zip(request);
            let mut asked = 0;
            let sqe = turn.map(|(area, request)| {
                asked = (bytes - done).min(u64::from(area.bytes));
                if writing {
                    // SAFETY:
                    // - the caller of pwrite gave a slice that is valid for its bytes; this is a part of it
                    let source = unsafe {
                        core::slice::from_raw_parts((request.memory + done) as *const u8, to_usize(asked))
                    };
                    area.put(0, source);
                }
                entry(request, staging_index, area.address, asked, done)
            });
            let result = transact(session, lanes, sqe);
            if let Some((area, request)) = turn {
                let count = running.settle(asked, result);
                count_bytes(session, writing, count);
                if !writing {
                    // SAFETY:
                    // - the caller of pread gave a slice that is valid for its bytes; this is a part of it, as the kernel
                    //   returns no more than was asked
                    let target = unsafe {
                        core::slice::from_raw_parts_mut((request.memory + done) as *mut u8, to_usize(count))
                    };
                    area.get(0, target);
                }
            }
        });
    }
    running.outcome
}

/// Adds to the ring's statistics.
fn count_bytes(session: &Session, writing: bool, count: u64) {
    let counters = session.queues()[ring_of_warp(session) as usize].counters();
    // ORDERING: relaxed: a counter.
    if writing { &counters.bytes_written } else { &counters.bytes_read }.draw(count);
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

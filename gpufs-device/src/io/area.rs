//! Staging memory of a warp's lanes: each that asks gets some, uses it, and gives it back.
#![expect(unsafe_code, reason = "reads and writes staging memory")]

use gpufs_core::Errno;
use gpufs_core::alloc::{BufferPool, Staged};
use gpufs_core::session::{SessionTables, WaitReason};

use super::copy::{Flow, copy_alone, copy_raw};
use super::{Backoff, DeviceRange, abandoned, drain, ring_of_warp, slot_hint};
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
    /// The `bytes` bytes from `at` on.
    ///
    /// # Panics
    /// If they do not lie in it.
    fn part(self, at: u32, bytes: usize) -> DeviceRange {
        assert!(at as usize + bytes <= self.bytes as usize, "beyond a lane's staging memory");
        DeviceRange::new(self.address, u64::from(self.bytes)).part(u64::from(at), bytes as u64)
    }
    /// Copies `bytes` in at `at`.
    ///
    /// # Panics
    /// If they do not fit.
    pub(crate) fn put(self, at: u32, bytes: &[u8]) {
        // SAFETY:
        // - a part of the lane's staging memory, which is valid for reads and writes; any bytes are initialized
        // - the lane's alone: staging memory is never handed out, so the caller's slice cannot lie in it
        let into = unsafe { self.part(at, bytes.len()).slice_mut() };
        copy_alone(into, bytes);
    }
    /// Copies the bytes at `at` out, as many as `into` holds.
    ///
    /// # Panics
    /// If they do not lie in it.
    pub(crate) fn take(self, at: u32, into: &mut [u8]) {
        let from = self.part(at, into.len()).address;
        // SAFETY:
        // - one end is a part of the lane's staging memory, which nobody writes now; the other is the caller's, and borrowed
        unsafe { copy_raw(Flow::In, into.as_mut_ptr() as u64, from, into.len() as u64) };
    }
    /// Reads a plain structure that the kernel wrote at `at`, which is aligned for it.
    pub(crate) fn read<T: Copy>(self, at: u32) -> T {
        // SAFETY:
        // - a part of the lane's staging memory, which nobody writes now
        // - the types read here are plain numbers, for which any bytes are valid
        unsafe { self.part(at, size_of::<T>()).read() }
    }
}

/// Gives each lane that wants it staging memory of at least one buffer and about `bytes`, as many lanes at a time as there are
/// buffers, and calls `body` with it; then takes it back. Convergent; called by `lanes`; `body` is called convergently, several
/// times in lanes that have to wait, with `None` in lanes whose turn it is not. It may operate on the warp's ring and on that of services.
///
/// Lanes whose `bytes` is `None` never get a turn. Memory of an operation that was given up and is still in flight is not taken back.
///
/// # Errors
/// Of a thread of the host's, that it gave up waiting for memory; `body` was not called.
pub(crate) fn staged(
    session: &SessionTables,
    lanes: Lanes,
    bytes: Option<u64>,
    body: impl FnMut(Option<StagingArea>),
) -> Result<(), Errno> {
    let mut looks = 0;
    staged_by(session, lanes, bytes, |pool, bytes, hint| claim_patiently(pool, bytes, hint, &mut looks), body)
}

/// How often one that wants memory looks for all that a claim may hold of its bytes, before it takes what is free. Where many wait for much, each
/// would get a part as soon as some goes back, and nobody all of it any more: their operations would be as many as parts.
const PATIENT_LOOKS: u32 = 64;

/// Memory for `bytes`, or for some of them where that is all that is free after many `looks`. One lane. Waits for nothing.
pub(super) fn claim_patiently(pool: &BufferPool, bytes: u64, hint: u32, looks: &mut u32) -> Option<Staged> {
    if *looks < PATIENT_LOOKS {
        *looks += 1;
        return claim_all(pool, bytes, hint);
    }
    pool.claim_bytes(bytes, hint)
}

/// Memory for all of `bytes`, at most [`BufferPool::most_bytes`]. One lane. Waits for nothing.
fn claim_all(pool: &BufferPool, bytes: u64, hint: u32) -> Option<Staged> {
    let claim = pool.claim_whole(bytes, hint)?;
    let (address, bytes) = (pool.address(claim.item(0)), claim.count() * pool.buffer_bytes);
    Some(Staged { claim, address, bytes })
}

/// As [`staged`], but a lane's turn comes when it gets memory for all of its `bytes`, at most [`BufferPool::most_bytes`]. Convergent; called by
/// `lanes`.
///
/// # Errors
/// As [`staged`].
pub(crate) fn staged_whole(
    session: &SessionTables,
    lanes: Lanes,
    bytes: Option<u64>,
    body: impl FnMut(Option<StagingArea>),
) -> Result<(), Errno> {
    staged_by(session, lanes, bytes, claim_all, body)
}

/// [`staged`], by memory that `claim` gets a lane for its bytes.
#[inline(always)]
#[expect(clippy::inline_always, reason = "one loop for two ways to claim")]
fn staged_by(
    session: &SessionTables,
    lanes: Lanes,
    bytes: Option<u64>,
    mut claim: impl FnMut(&BufferPool, u64, u32) -> Option<Staged>,
    mut body: impl FnMut(Option<StagingArea>),
) -> Result<(), Errno> {
    let (ring, pool) = (ring_of_warp(session), session.staging);
    let mut wanted = bytes;
    let mut backoff = Backoff::new(session);
    // Ends: each round in which a lane gets its memory serves it, and memory comes ([L-PROGRESS c]). A lane that waits holds none: if no other
    // holds any either, a run of neighbours is free.
    while lanes.any(wanted.is_some()) {
        let got: Option<Staged> = wanted.and_then(|bytes| {
            claim(&pool, bytes, slot_hint(ring).wrapping_mul(7).wrapping_add(lanes.rank()))
        });
        if !lanes.any(got.is_some()) {
            let drained = drain(session, lanes, ring);
            backoff.wait(drained, WaitReason::Staging, ring, bytes.unwrap_or(0))?;
            continue;
        }
        if got.is_some() {
            wanted = None;
        }
        let before = abandoned(session, ring);
        body(got.map(|staged| StagingArea { address: staged.address, bytes: staged.bytes }));
        if let Some(staged) = got
            && abandoned(session, ring) == before
        {
            pool.free.release(staged.claim);
        }
    }
    Ok(())
}

//! Entries of a kernel's own making, put into a ring as a kernel that means harm would: past the library, with any code, flag and argument.
#![expect(unsafe_code, reason = "what a hostile kernel does")]

use std::time::{Duration, Instant};

use gpufs_core::abi::Sqe;
use gpufs_core::session::SessionTables;
use gpufs_core::{Operation, Outcome, Queue, Slot, SlotClaim};
use gpufs_device::warp;

/// How long what comes behind the entries may take. Nothing on these rings takes nearly as long, but where an entry holds it up.
const FENCE_MAX: Duration = Duration::from_millis(400);
/// Between two looks.
const NAP_NS: u32 = 20_000;

/// Puts a batch into a ring, if there is room: its slots and its operations.
fn put(queue: &Queue, entries: &[Sqe]) -> Option<(SlotClaim, Vec<Operation>)> {
    let count = u32::try_from(entries.len()).expect("a few entries");
    let claim = queue.claim(count, 0).filter(|claim| claim.count() == count)?;
    // SAFETY:
    // - filled and committed below
    let batch = unsafe { queue.reserve(count) };
    let mut operations = Vec::new();
    for (rank, entry) in (0..).zip(entries) {
        // SAFETY:
        // - claimed above, and released when it is done, or never
        let operation = unsafe { queue.arm(Slot(claim.item(rank))) };
        // SAFETY:
        // - drawn above, after as many slots were claimed; nobody else fills it
        // - that the entry refers to memory of others is the point: the process does nothing but this
        unsafe { queue.fill(batch.first().plus(rank), entry.with_user_data(operation.token())) };
        operations.push(operation);
    }
    // SAFETY:
    // - each ticket was filled above
    unsafe { queue.commit(batch) };
    Some((claim, operations))
}

/// The results of `entries` as one batch on ring `ring` of all; `None` for those without a completion in good time: those keep
/// their slots. `patience`: how long the entries may take when what came behind them is done. One lane.
///
/// # Panics
/// If the ring has no room.
#[must_use]
pub(super) fn submit(
    tables: &SessionTables,
    ring: u32,
    entries: &[Sqe],
    patience: Duration,
) -> Vec<Option<i32>> {
    let queue = &tables.all_queues()[ring as usize];
    let (claim, operations) = put(queue, entries).expect("room in the ring");
    let (fence_claim, fence) = put(queue, &[Sqe::nop()]).expect("room in the ring");
    let outcome = |operation: &Operation| match queue.outcome(*operation) {
        Outcome::Done(result) => Some(result),
        _ => None,
    };
    let started = Instant::now();
    let mut fenced = None;
    // Ends: at the limits.
    loop {
        queue.drain_alone(64);
        let results: Vec<_> = operations.iter().map(outcome).collect();
        if fenced.is_none() && outcome(&fence[0]).is_some() {
            fenced = Some(Instant::now());
        }
        let late = fenced
            .map_or(started.elapsed() > FENCE_MAX + patience, |since: Instant| since.elapsed() > patience);
        let whole = results.iter().all(Option::is_some);
        if whole && fenced.is_some() {
            queue.release(claim);
            queue.release(fence_claim);
            return results;
        }
        if late {
            return results;
        }
        warp::nap(NAP_NS);
    }
}

/// Memory of the session that no other call uses while one lane attacks: the end of the staging pool, which every ring has registered.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// Its first byte.
    pub base: u64,
    /// Bytes.
    pub bytes: usize,
    /// The index of the registered buffer that holds it.
    pub index: u16,
}

impl Area {
    /// The area of a session.
    #[must_use]
    pub fn of(tables: &SessionTables, buffers: u32) -> Self {
        const BUFFERS: u32 = 16;
        let pool = &tables.staging;
        Self {
            base: pool.address(buffers - BUFFERS),
            bytes: (BUFFERS * pool.buffer_bytes) as usize,
            index: pool.buffer_index as u16,
        }
    }
    /// Copies bytes to `offset`, and gives their address.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn put(self, offset: usize, bytes: &[u8]) -> u64 {
        assert!(offset + bytes.len() <= self.bytes);
        let to = self.base + offset as u64;
        // SAFETY:
        // - within the pool, which is memory of the session's, and nothing uses this part
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
        to
    }
    /// What lies there.
    #[must_use]
    pub fn all(self) -> Vec<u8> {
        let mut all = vec![0; self.bytes];
        // SAFETY:
        // - within the pool; what the kernel writes meanwhile are bytes
        unsafe { std::ptr::copy_nonoverlapping(self.base as *const u8, all.as_mut_ptr(), all.len()) };
        all
    }
    /// Makes it zeros.
    pub fn clear(self) {
        self.put(0, &vec![0; self.bytes]);
    }
}

//! Operations of the service ring ([R-SERVE-2], [R-SERVE-6]), which is a ring like the others: the lanes of a warp submit one batch and wait for
//! it.

use gpufs_core::Errno;
use gpufs_core::abi::{SERVICE_OPCODES, Sqe, is_of_paths, is_of_pipes};
use gpufs_core::session::SessionTables;

use super::{StagingArea, ring_of_warp, staged, transact, transact_noting};
use crate::warp::Lanes;

/// As [`transact`](super::transact), of services and of operations on paths and pipes: each lane's `res`, 0 for a lane without an entry. Convergent;
/// called by `lanes`.
///
/// What an entry refers to must stay valid until the return. No entry waits for another party ([R-SERVE-3]).
#[inline(never)]
pub(crate) fn serve(session: &SessionTables, lanes: Lanes, entry: Option<Sqe>) -> i32 {
    debug_assert!(
        session.is_confined()
            || entry.is_none_or(|entry| {
                entry.opcode >= SERVICE_OPCODES || is_of_paths(entry.opcode) || is_of_pipes(entry.opcode)
            })
    );
    let ring = session.ring_for_services(ring_of_warp(session));
    let queue = &{ session.all_queues()[ring as usize] };
    transact_noting(session, (ring, queue), lanes, entry, |_| 0, |_| {})
}

/// `transact`, or [`serve`] in a sandbox ([R-SERVE-7]). Convergent; called by `lanes`.
pub(crate) fn transact_or_serve(session: &SessionTables, lanes: Lanes, entry: Option<Sqe>) -> i32 {
    if session.is_confined() { serve(session, lanes, entry) } else { transact(session, lanes, entry) }
}

/// [`serve`] for each lane that wants `bytes` of staging memory: `entry` puts in what the entry needs and makes it, `answer` gets its result and
/// the memory. The result of a lane that wants none is 0. Convergent; called by `lanes`.
///
/// # Errors
/// The operation's. Of a thread of the host's, that it gave up waiting for memory.
pub(crate) fn serve_staged(
    session: &SessionTables,
    lanes: Lanes,
    bytes: Option<u64>,
    entry: impl Fn(StagingArea) -> Sqe,
    mut answer: impl FnMut(StagingArea, u32),
) -> Result<u32, Errno> {
    let mut outcome = Ok(0);
    staged(session, lanes, bytes, |area| {
        let result = serve(session, lanes, area.map(&entry));
        if let Some(area) = area {
            outcome = Errno::check(result);
            if let Ok(count) = outcome {
                answer(area, count);
            }
        }
    })?;
    outcome
}

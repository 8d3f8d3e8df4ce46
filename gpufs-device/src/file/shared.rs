//! `lseek(2)` of a file whose position others share (`gpufs_core::seek`): the host makes it.

use gpufs_core::Errno;
use gpufs_core::abi::{CURRENT_POSITION, Sqe};
use gpufs_core::seek::SeekRequest;
use gpufs_core::session::{OpenFile, SessionTables, WaitReason};

use super::Whence;
use crate::io::{Backoff, drain, ring_of_warp, staged, transact_one};
use crate::warp::{Lanes, Machine, Warp};

/// Where the answer lies in the staging memory, after the request.
const ANSWER_AT: u32 = 64;

/// Moves the position of a [`OpenFile::SHARED`] file, for all lanes once: the new one. Convergent; called by `lanes`, which hold the
/// file's lock; valid in all.
///
/// # Errors
/// As `lseek(2)`: `EINVAL` before the start, and beyond what the file's system allows.
pub(crate) fn seek_shared(
    session: &SessionTables,
    lanes: Lanes,
    file: &OpenFile,
    offset: i64,
    whence: Whence,
) -> Result<u64, Errno> {
    let request = SeekRequest { offset, whence: whence as u32 }.to_bytes();
    let seeker = file.seeker.peek().cast_signed();
    let mut outcome = Ok(());
    let mut answer = 0_i64;
    let waited = staged(session, lanes, lanes.is_leader().then_some(256), |stage| {
        if let Some(stage) = stage {
            stage.put(0, &request);
        }
        let at = lanes.from_leader(stage.map_or(0, |stage| stage.address));
        let (asked, answered) = (request.len() as u32, SeekRequest::ANSWER_BYTES as u32);
        outcome = whole(session, lanes, asked, || Sqe::write(seeker, at, asked, CURRENT_POSITION));
        if outcome.is_ok() {
            let into = at + u64::from(ANSWER_AT);
            outcome = whole(session, lanes, answered, || Sqe::read(seeker, into, answered, CURRENT_POSITION));
        }
        if let Some(stage) = stage {
            answer = stage.read(ANSWER_AT);
        }
    });
    waited.and(outcome)?;
    let answer = lanes.from_leader(answer.cast_unsigned()).cast_signed();
    #[allow(clippy::cast_possible_truncation, reason = "an errno")]
    u64::try_from(answer).map_err(|_| Errno::from_number(-answer as i32))
}

/// A transfer of one message, asked again where a signal interrupted it. Convergent.
fn whole(session: &SessionTables, lanes: Lanes, bytes: u32, entry: impl Fn() -> Sqe) -> Result<(), Errno> {
    // Ends: the kernel interrupts a transfer once for each signal.
    loop {
        match transact_one(session, lanes, entry()) {
            Ok(count) if count == bytes => return Ok(()),
            // The host has closed its end: the session is closing.
            Ok(_) => return Err(Errno::IO),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// [`seek_shared`] by lanes that do not hold the file's lock, which may hold a stream's. Convergent; called by `lanes`; valid in all.
///
/// # Errors
/// As [`seek_shared`].
pub(crate) fn seek_shared_file(
    session: &SessionTables,
    lanes: Lanes,
    file: &OpenFile,
    offset: i64,
    whence: Whence,
) -> Result<u64, Errno> {
    let ring = ring_of_warp(session);
    let ticket = if lanes.is_leader() && !Machine::is_host() { file.lock.draw() } else { 0 };
    // A thread of the host's may give up.
    let is_mine = || if Machine::is_host() { file.lock.try_take() } else { file.lock.is_served(ticket) };
    let mut backoff = Backoff::new(session);
    // Ends: the lock is first come first served, and its holder waits only for the kernel ([L-PROGRESS e]): files with shared
    // positions are regular files and devices.
    while !lanes.any(lanes.is_leader() && is_mine()) {
        let drained = drain(session, lanes, ring);
        backoff.wait(drained, WaitReason::FileLock, ring, u64::from(ticket))?;
    }
    let outcome = seek_shared(session, lanes, file, offset, whence);
    lanes.sync();
    if lanes.is_leader() {
        file.lock.release();
    }
    outcome
}

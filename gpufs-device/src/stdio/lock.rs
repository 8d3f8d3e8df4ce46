//! The stream's lock: everything but the fast path of `fwrite` runs under it, alone on the stream.

use gpufs_core::session::{FileIndex, OpenFile, SessionTables, Target, WaitReason};
use gpufs_core::stream::{Buffering, Direction, Progress, Stream};
use gpufs_core::{Errno, Queue};

use super::File;
use crate::io::{Backoff, drain, ring_of_warp};
use crate::warp::{Lanes, Machine, Warp};

/// A stream held by a group of lanes that called together. Its methods are convergent, called by exactly that group.
pub(super) struct LockedStream {
    pub(super) session: &'static SessionTables,
    pub(super) stream: &'static Stream,
    pub(super) lanes: Lanes,
    pub(super) ring: u32,
}

/// Runs `body` with the stream held by `lanes`, which all name the same `file`. Convergent; called by `lanes`.
///
/// # Errors
/// `EBADF` if the stream is closed; else what `body` says.
pub(super) fn with_lock<T>(
    file: File,
    lanes: Lanes,
    body: impl FnOnce(&LockedStream) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let kept = wait_for_lock(file, lanes)?;
    hold(file, lanes, kept, body)
}

/// Like [`with_lock`], but first asks `needless` in the leader: if it returns true, releases the lock and returns `None`. Without this,
/// callers that once found the fast path closed would queue for the lock and close it for each other indefinitely.
pub(super) fn with_lock_unless<T>(
    file: File,
    lanes: Lanes,
    needless: impl FnOnce(&Stream) -> bool,
    body: impl FnOnce(&LockedStream) -> Result<T, Errno>,
) -> Option<Result<T, Errno>> {
    let kept = match wait_for_lock(file, lanes) {
        Ok(kept) => kept,
        Err(errno) => return Some(Err(errno)),
    };
    let stream = file.stream();
    if lanes.any(lanes.is_leader() && !kept && needless(stream)) {
        if lanes.is_leader() {
            stream.lock.release();
        }
        return None;
    }
    Some(hold(file, lanes, kept, body))
}

/// Waits for the lock of an open stream; whether the lanes kept it already. Convergent.
fn wait_for_lock(file: File, lanes: Lanes) -> Result<bool, Errno> {
    if is_kept(file, lanes) {
        return if file.is_open() { Ok(true) } else { Err(Errno::BADF) };
    }
    let is_drawer = lanes.is_leader() && !Machine::is_host();
    wait_for_ticket(file, lanes, if is_drawer { file.stream().lock.draw() } else { 0 })?;
    Ok(false)
}

/// Whether the lanes keep the stream. The leader's answer: either all of them do or none ([`File::key`]). Convergent.
pub(super) fn is_kept(file: File, lanes: Lanes) -> bool {
    lanes.any(lanes.is_leader() && file.is_kept())
}

/// Runs `body` with the stream held by `lanes`, whose leader has drawn `ticket`. Convergent.
///
/// # Errors
/// As [`with_lock`].
pub(super) fn with_ticket<T>(
    file: File,
    lanes: Lanes,
    ticket: u32,
    body: impl FnOnce(&LockedStream) -> Result<T, Errno>,
) -> Result<T, Errno> {
    wait_for_ticket(file, lanes, ticket)?;
    hold(file, lanes, false, body)
}

/// Runs `body` with the stream held by `lanes` if its lock is free, or theirs; `None` if it is not. Convergent.
pub(super) fn try_with_lock<T>(
    file: File,
    lanes: Lanes,
    body: impl FnOnce(&LockedStream) -> Result<T, Errno>,
) -> Result<Option<T>, Errno> {
    let kept = is_kept(file, lanes);
    if kept && !file.is_open() {
        return Err(Errno::BADF);
    }
    if !kept {
        if !lanes.any(lanes.is_leader() && file.stream().lock.try_take()) {
            return Ok(None);
        }
        check_open(file, lanes)?;
    }
    hold(file, lanes, kept, body).map(Some)
}

/// Waits for the turn of the leader's `ticket`. Convergent.
fn wait_for_ticket(file: File, lanes: Lanes, ticket: u32) -> Result<(), Errno> {
    let (session, stream) = (file.session, file.stream());
    let ring = ring_of_warp(session);
    // A thread of the host's may give up.
    let is_mine = || if Machine::is_host() { stream.lock.try_take() } else { stream.lock.is_served(ticket) };
    let mut backoff = Backoff::new(session);
    // Ends: first come first served, and a holder waits only for the kernel ([L-PROGRESS e]).
    while !lanes.any(lanes.is_leader() && is_mine()) {
        let drained = drain(session, lanes, ring);
        backoff.wait(drained, WaitReason::StreamLock, ring, u64::from(file.index))?;
    }
    check_open(file, lanes)
}

/// Releases the lock of a stream that is closed. Convergent; the lock's holder.
fn check_open(file: File, lanes: Lanes) -> Result<(), Errno> {
    let stream = file.stream();
    // ORDERING: the barrier in `any` puts the leader's acquire before the other lanes' reads.
    if stream.generation.peek() == file.generation {
        return Ok(());
    }
    lanes.sync();
    if lanes.is_leader() {
        stream.lock.release();
    }
    Err(Errno::BADF)
}

/// Runs `body` alone on the stream, whose lock the lanes have, and hands the lock on, unless the stream is kept then. Convergent.
fn hold<T>(
    file: File,
    lanes: Lanes,
    kept: bool,
    body: impl FnOnce(&LockedStream) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let (session, stream) = (file.session, file.stream());
    let held = LockedStream { session, stream, lanes, ring: stream.ring(session) };
    if lanes.is_leader() && !kept {
        stream.close_cursor();
        stream.lines.close();
    }
    let mut backoff = Backoff::new(session);
    let mut ring = held.ring;
    // Ends: a warp between reserving and committing, or between taking lines and counting them, waits for nothing, and reads complete. Where the
    // stream was kept, both stayed closed.
    while !kept && !lanes.any(lanes.is_leader() && is_settled(session, stream, &mut ring)) {
        let ring = lanes.from_leader(ring);
        let drained = drain(session, lanes, ring);
        if let Err(errno) = backoff.wait(drained, WaitReason::StreamFill, ring, stream.reserved()) {
            stream.lock.release();
            return Err(errno);
        }
    }
    let outcome = body(&held);
    lanes.sync();
    if lanes.is_leader() {
        let open = stream.generation.peek() == file.generation;
        if stream.is_kept() {
            if open {
                // The body, or an earlier call, keeps it: the lock stays with who that is.
                return outcome;
            }
            // The body closed it, and the holds end with it.
            let _ = stream.let_go();
        }
        if open && stream.direction() == Direction::Writing && stream.buffering() == Buffering::Full {
            stream.open_cursor();
        }
        stream.lock.release();
    }
    outcome
}

/// Whether no lane is active in the stream without the lock; if not, `ring` is one on which something may be in flight. The leader of the lock's
/// holder.
fn is_settled(session: &SessionTables, stream: &Stream, ring: &mut u32) -> bool {
    if !stream.is_quiet() {
        return false;
    }
    match stream.lines.settle_reads(session, stream) {
        Progress::Wait(its) => {
            *ring = its;
            false
        }
        Progress::Done | Progress::NoSlot | Progress::Failed(_) => true,
    }
}

impl LockedStream {
    /// The open file below the stream.
    pub(super) fn file(&self) -> &'static OpenFile {
        &self.session.files()[self.stream.file.peek() as usize]
    }
    /// The file's flags.
    pub(super) fn file_flags(&self) -> u32 {
        self.file().flags.peek() & !self.stream.refused()
    }
    /// How an SQE names the file.
    pub(super) fn target(&self) -> Target {
        self.file().target(FileIndex(self.stream.file.peek()))
    }
    /// The process's descriptor.
    pub(super) fn descriptor(&self) -> i32 {
        self.file().descriptor.peek().cast_signed()
    }
    /// Changes the stream's fields: `change` runs in the leader, between barriers.
    pub(super) fn update(&self, change: impl FnOnce(&Stream)) {
        self.lanes.sync();
        if self.lanes.is_leader() {
            change(self.stream);
        }
        self.lanes.sync();
    }
    /// Sets stream flags.
    pub(super) fn raise(&self, flags: u32) {
        self.update(|stream| stream.flags.set(stream.flags.peek() | flags));
    }
    /// Clears stream flags.
    pub(super) fn lower(&self, flags: u32) {
        self.update(|stream| stream.flags.set(stream.flags.peek() & !flags));
    }
    /// Notes an error: `ferror` will say so.
    pub(super) fn fail<T>(&self, errno: Errno) -> Result<T, Errno> {
        self.raise(Stream::FLAG_ERROR);
        Err(errno)
    }
    /// Whether `errno` says that a thread of the host's gave up waiting for what is still in flight: then the system has the stream's buffers.
    pub(super) fn gave_up(&self, errno: Errno) -> bool {
        Machine::is_host()
            && (errno == Errno::TIMEDOUT || self.session.queues().iter().any(Queue::has_failed))
            && self.stream.is_in_flight()
    }
    /// Calls `step` in the leader until it says `Done` or `Failed`, draining in between.
    pub(super) fn advance(&self, mut step: impl FnMut(&Stream) -> Progress) -> Result<(), Errno> {
        let mut backoff = Backoff::new(self.session);
        // Ends: what is in flight completes, and this loop drains ([L-PROGRESS a], [L-PROGRESS b], [L-PROGRESS d]).
        loop {
            match self.lanes.on_leader_inline(|| step(self.stream)) {
                Progress::Done => return Ok(()),
                Progress::Failed(errno) => return Err(errno),
                Progress::Wait(ring) => {
                    let drained = drain(self.session, self.lanes, ring);
                    backoff.wait(drained, WaitReason::StreamBlock, ring, self.stream.reserved())?;
                }
                Progress::NoSlot => {
                    let drained = drain(self.session, self.lanes, self.ring);
                    backoff.wait(drained, WaitReason::Slot, self.ring, self.stream.reserved())?;
                }
            }
        }
    }
}

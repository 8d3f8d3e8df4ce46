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
    wait_for_lock(file, lanes)?;
    hold(file, lanes, body)
}

/// Like [`with_lock`], but first asks `needless` in the leader: if it returns true, releases the lock and returns `None`. Without this,
/// callers that once found the fast path closed would queue for the lock and close it for each other indefinitely.
pub(super) fn with_lock_unless<T>(
    file: File,
    lanes: Lanes,
    needless: impl FnOnce(&Stream) -> bool,
    body: impl FnOnce(&LockedStream) -> Result<T, Errno>,
) -> Option<Result<T, Errno>> {
    if let Err(errno) = wait_for_lock(file, lanes) {
        return Some(Err(errno));
    }
    let stream = file.stream();
    if lanes.any(lanes.is_leader() && needless(stream)) {
        if lanes.is_leader() {
            stream.lock.release();
        }
        return None;
    }
    Some(hold(file, lanes, body))
}

/// Waits for the lock of an open stream. Convergent.
fn wait_for_lock(file: File, lanes: Lanes) -> Result<(), Errno> {
    let (session, stream) = (file.session, file.stream());
    let ring = ring_of_warp(session);
    let ticket = if lanes.is_leader() && !Machine::is_host() { stream.lock.draw() } else { 0 };
    // A thread of the host's may give up.
    let is_mine = || if Machine::is_host() { stream.lock.try_take() } else { stream.lock.is_served(ticket) };
    let mut backoff = Backoff::new(session);
    // Ends: first come first served, and a holder waits only for the kernel ([L-PROGRESS e]).
    while !lanes.any(lanes.is_leader() && is_mine()) {
        let drained = drain(session, lanes, ring);
        backoff.wait(drained, WaitReason::StreamLock, ring, u64::from(file.index))?;
    }
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

/// Runs `body` alone on the stream, whose lock the lanes have, and hands the lock on. Convergent.
fn hold<T>(
    file: File,
    lanes: Lanes,
    body: impl FnOnce(&LockedStream) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let (session, stream) = (file.session, file.stream());
    let held = LockedStream { session, stream, lanes, ring: stream.ring(session) };
    if lanes.is_leader() {
        stream.close_cursor();
        stream.lines.close();
    }
    let mut backoff = Backoff::new(session);
    let mut ring = held.ring;
    // Ends: a warp between reserving and committing, or between taking lines and counting them, waits for nothing, and reads complete.
    while !lanes.any(lanes.is_leader() && is_settled(session, stream, &mut ring)) {
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
        self.file().flags.peek()
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

//! What a lane has of an operation that it started, and of one that is complete.

use core::mem;
use core::time::Duration;

use gpufs_core::alloc::Staged;
use gpufs_core::failures::counted;
use gpufs_core::session::SessionTables;
use gpufs_core::{Call, Errno};

use super::memory::Memory;
use crate::Fs;
use crate::io::{
    Flow, Held, Look, Started, await_started, cancel_started, copy_lanes, copy_raw, drain_each, rouse_host,
};
use crate::warp::{Lanes, Machine, Warp};

/// An operation that was started. See the [module](crate::aio).
///
/// Dropped when it is complete, it gives back what it held. Dropped before, it goes on, and the session's next synchronization gives that back.
#[derive(Debug)]
#[must_use = "the operation's result, and its slot and memory until that is taken"]
pub struct Pending {
    fs: Fs,
    /// `None` when its result has been taken.
    pub(super) started: Option<Started>,
    pub(super) memory: Memory,
}

/// What [`Pending::cancel`] came to (`aio_cancel(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// It ends, as a rule with `ECANCELED`: its result says so.
    Canceled,
    /// It is too far along, and ends by itself; or the kernel had it between two states, and another cancel ends it.
    NotCanceled,
    /// It was complete.
    AllDone,
}

/// An operation that is complete, with what it read.
#[derive(Debug)]
#[must_use = "what was read"]
pub struct Finished {
    fs: Fs,
    count: usize,
    /// The ring, and its round in which the memory is this one's.
    round: (u32, u32),
    memory: Memory,
}

/// How long a lane waits.
#[derive(Clone, Copy, Debug)]
enum Until {
    Complete,
    /// By the clock, in nanoseconds.
    Time(u64),
}

impl Until {
    /// A time from now on.
    fn after(limit: Duration) -> Self {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Self::Time(Machine::clock().saturating_add(limit))
    }
    const fn time(self) -> Option<u64> {
        match self {
            Self::Complete => None,
            Self::Time(time) => Some(time),
        }
    }
}

impl Pending {
    pub(super) const fn new(fs: Fs, started: Started, memory: Option<Staged>) -> Self {
        Self { fs, started: Some(started), memory: Memory::new(memory) }
    }

    /// One whose result was taken.
    pub(super) const fn ended(fs: Fs) -> Self {
        Self { fs, started: None, memory: Memory::NONE }
    }

    /// Whether it is complete (`aio_error(3)`): then [`Pending::wait`] does not wait. Drains the ring once. True of one that is of no use any more,
    /// too.
    pub fn is_done(&self) -> bool {
        let Ok(inside) = self.fs.enter() else { return true };
        let lanes = Lanes::calling(&inside, Call::AioError);
        let session = self.fs.session();
        let _ = drain_each(session, lanes, self.started.as_ref().map(|started| started.ring));
        let is_complete = self.is_complete();
        if !is_complete {
            rouse_host();
        }
        is_complete
    }

    /// Whether it was seen to be complete, as [`Pending::is_done`], without a look at the ring: for a lane that has several, and asked about one.
    #[inline]
    #[must_use]
    pub fn is_known_done(&self) -> bool {
        let Ok(_inside) = self.fs.enter() else { return true };
        self.is_complete()
    }

    /// Whether it does not go on.
    #[inline]
    fn is_complete(&self) -> bool {
        self.look() != Look::InFlight
    }
    /// What is known of it.
    #[inline]
    pub(super) fn look(&self) -> Look {
        self.started.as_ref().map_or(Look::Ended, Started::look)
    }
    /// Where it was started.
    pub(super) const fn fs(&self) -> Fs {
        self.fs
    }

    /// Waits until it is complete: its count of bytes, and what it read (`aio_return(3)`).
    ///
    /// # Errors
    /// The operation's: that of the system call. `ECANCELED` or `EINTR` for one that was cancelled. `EINVAL` for one of an earlier launch,
    /// `EBADF` for one of a closed session.
    pub fn wait(self) -> Result<Finished, Errno> {
        self.finish(Until::Complete, None)
    }

    /// As [`Pending::wait`], and copies what was read to `into`: how many bytes. What does not fit is lost.
    ///
    /// # Errors
    /// As [`Pending::wait`].
    pub fn wait_into(self, into: &mut [u8]) -> Result<usize, Errno> {
        self.finish(Until::Complete, Some(into)).map(|finished| finished.count)
    }

    /// As [`Pending::wait`], for at most so long: then the operation is cancelled, and waited for. It ends soon unless the kernel can neither try nor
    /// cancel it, as on a file system that is gone.
    ///
    /// # Errors
    /// As [`Pending::wait`]; `ETIMEDOUT` where the time was over first. An operation that was faster than its cancelling has its own result.
    pub fn wait_for(self, limit: Duration) -> Result<Finished, Errno> {
        self.finish(Until::after(limit), None)
    }

    /// [`Pending::wait_for`], and copies what was read to `into`, as [`Pending::wait_into`].
    ///
    /// # Errors
    /// As [`Pending::wait_for`].
    pub fn wait_into_for(self, into: &mut [u8], limit: Duration) -> Result<usize, Errno> {
        self.finish(Until::after(limit), Some(into)).map(|finished| finished.count)
    }

    /// Asks the kernel to end it, and waits for the answer, not for the end: [`Pending::wait`] has that, and the memory stays the operation's until
    /// then.
    ///
    /// # Errors
    /// `EINVAL` for one of an earlier launch, `EBADF` for one of a closed session.
    pub fn cancel(&self) -> Result<Cancel, Errno> {
        let inside = self.fs.enter()?;
        let lanes = Lanes::calling(&inside, Call::AioCancel);
        let session = self.fs.session();
        let answer = cancel_started(session, lanes, self.started.as_ref());
        let result = match (answer, self.started.as_ref().map(Started::look)) {
            (_, None | Some(Look::Ended)) => Err(Errno::INVAL),
            (Ok(_), _) => Ok(Cancel::Canceled),
            (Err(Errno::NOENT), Some(Look::Done(_))) => Ok(Cancel::AllDone),
            (Err(Errno::NOENT | Errno::ALREADY), _) => Ok(Cancel::NotCanceled),
            (Err(errno), _) => Err(errno),
        };
        counted(session, Call::AioCancel, result)
    }

    /// The same, out of its place, where one stays of which there is nothing to be had.
    pub(super) const fn take_over(&mut self) -> Self {
        let memory = mem::replace(&mut self.memory, Memory::NONE);
        Self { fs: self.fs, started: self.started.take(), memory }
    }

    /// Waits, cancels what is late, takes the result, and copies what was read.
    fn finish(mut self, until: Until, into: Option<&mut [u8]>) -> Result<Finished, Errno> {
        let fs = self.fs;
        let inside = fs.enter()?;
        let lanes = Lanes::calling(&inside, Call::AioReturn);
        // What may wait for another lane of the warp, perhaps, does so alone.
        let endless = self.started.as_ref().is_some_and(Started::is_endless);
        let waits = (endless || until.time().is_some()) && !self.is_complete();
        let apart = lanes.ballot(waits);
        let finished = if apart.contains(lanes.lane()) {
            let lanes = lanes.subset(apart);
            lanes.grouped(u64::from(lanes.lane()), |alone| self.finish_with(alone, until, into))
        } else {
            self.finish_with(lanes.subset(lanes.mask().without(apart)), until, into)
        };
        counted(fs.session(), Call::AioReturn, finished)
    }

    /// [`Pending::finish`] of lanes that wait for each other. Convergent; called by `lanes`.
    fn finish_with(
        &mut self,
        lanes: Lanes,
        until: Until,
        into: Option<&mut [u8]>,
    ) -> Result<Finished, Errno> {
        let session = self.fs.session();
        let started = self.started.as_ref();
        // Looked up now: behind the completion it would be a trip to memory of its own.
        let held = self.held(session);
        let mut look = await_started(session, lanes, started, until.time())?;
        let late = look == Look::InFlight;
        if lanes.any(late) {
            let ended = end_late(session, lanes, started.filter(|_| late))?;
            look = if late { ended } else { look };
        }
        let (memory, count) = match (look, self.memory.get()) {
            (Look::Done(result), Some(memory)) => (memory.address, u64::try_from(result).unwrap_or(0)),
            _ => (0, 0),
        };
        let is_copied = into.is_some();
        let (to, room) = into.map_or((0, 0), |into| (into.as_mut_ptr() as u64, into.len() as u64));
        // SAFETY:
        // - one end is the lane's staging memory, of which the kernel has written so many bytes, the other the caller's, and borrowed
        unsafe { copy_lanes(session, lanes, Flow::In, (to, memory, count.min(room))) };
        // The lane that has the buffers gives them back next: others may still have a share to copy out of them.
        lanes.sync();
        self.end(held, look, is_copied);
        self.result(look, late)
    }

    /// Takes the result of an operation that was seen to be complete. Any lane, for itself.
    pub(super) fn taken(&mut self, session: &SessionTables, look: Look) -> Result<Finished, Errno> {
        let held = self.held(session);
        self.end(held, look, false);
        self.result(look, false)
    }

    /// What the operation holds, its memory among it.
    #[inline]
    fn held<'a>(&self, session: &'a SessionTables) -> Option<Held<'a>> {
        // SAFETY:
        // - `end` alone releases it, of an operation that is complete, and of its own round; behind it the handle is given up
        self.started.as_ref().map(|started| unsafe { started.held(session, self.memory.get()) })
    }

    /// Gives back what an operation held that is complete: its memory, too, where it has failed or what was read `is_copied`.
    #[inline]
    fn end(&mut self, held: Option<Held<'_>>, look: Look, is_copied: bool) {
        if let (Look::Done(result), Some(mut held)) = (look, held) {
            if is_copied || result < 0 {
                self.memory = Memory::NONE;
            } else {
                held.keep_memory();
            }
            held.release();
        }
    }

    /// The result, behind [`Pending::end`].
    fn result(&mut self, look: Look, late: bool) -> Result<Finished, Errno> {
        let Some(started) = self.started.take() else { return Err(Errno::INVAL) };
        let Look::Done(result) = look else {
            // The host has given slot and memory back.
            self.memory = Memory::NONE;
            return Err(Errno::INVAL);
        };
        match Errno::check(result) {
            Ok(count) => Ok(Finished {
                fs: self.fs,
                count: usize::try_from(count).unwrap_or(usize::MAX),
                round: (started.ring, started.round),
                memory: mem::replace(&mut self.memory, Memory::NONE),
            }),
            Err(Errno::CANCELED | Errno::INTR) if late => Err(Errno::TIMEDOUT),
            Err(errno) => Err(errno),
        }
    }
}

/// How long a cancel has to end its operation before the next one, which has longer. After the last the lane waits for the end.
const CANCELS_NS: [Option<u64>; 4] = [Some(1_000_000), Some(10_000_000), Some(100_000_000), None];

/// Cancels the operation of each lane that has one, and waits for it. A cancel may come while the kernel has the operation between two states, and
/// find nothing, or nothing that it can end: so it is repeated ([R-ASYNC-7]). What is known of it then. Convergent; called by `lanes`.
///
/// # Errors
/// As [`await_started`].
#[cold]
#[inline(never)]
fn end_late(session: &SessionTables, lanes: Lanes, late: Option<&Started>) -> Result<Look, Errno> {
    let (mut left, mut ended) = (late, Look::Ended);
    for wait_ns in CANCELS_NS {
        // The kernel may answer that it is complete, or cannot be ended: it then ends by itself.
        let _ = cancel_started(session, lanes, left);
        let until = wait_ns.map(|wait_ns| Machine::clock().saturating_add(wait_ns));
        let look = await_started(session, lanes, left, until)?;
        if left.is_some() {
            ended = look;
        }
        left = left.filter(|_| look == Look::InFlight);
        if !lanes.any(left.is_some()) {
            break;
        }
    }
    Ok(ended)
}

/// Releases staging memory.
fn release(session: &SessionTables, memory: Option<Staged>) {
    if let Some(memory) = memory {
        session.async_buffers.free.release(memory.claim);
    }
}

impl Drop for Pending {
    /// Waits for nothing, and is called by one lane alone, which may be unwound.
    fn drop(&mut self) {
        let Some(started) = self.started.take() else { return };
        let Ok(_inside) = self.fs.enter() else { return };
        let session = self.fs.session();
        if let Look::Done(result) = started.look() {
            let memory = self.memory.take();
            started.take(session, memory);
            if let Err(errno) = Errno::check(result) {
                session.note_failure(Call::AioReturn, errno);
            }
        }
    }
}

impl Finished {
    /// How many bytes were read or written; 0 where the operation moves none.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Copies what was read to `into`, as much as fits: how many bytes. One lane alone; lanes that copy much call [`Pending::wait_into`].
    ///
    /// # Errors
    /// `EINVAL` after the launch in which it was read, `EBADF` of a closed session.
    pub fn copy_to(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let _inside = self.fs.enter()?;
        let session = self.fs.session();
        if !self.is_current(session) {
            return Err(Errno::INVAL);
        }
        let bytes = self.memory.get().map_or(0, |_| self.count.min(into.len()));
        let from = self.memory.get().map_or(0, |memory| memory.address);
        // SAFETY:
        // - one end is staging memory that is this one's, of which the kernel has written so many bytes; the other is the caller's, and borrowed
        unsafe { copy_raw(Flow::In, into.as_mut_ptr() as u64, from, bytes as u64) };
        Ok(bytes)
    }

    /// Lends what was read to `look` where it lies, in memory of the session, and copies nothing. On a GPU that is the host's memory: a lane that
    /// looks at much of it more than once copies it ([`Pending::wait_into`]).
    ///
    /// ```
    /// # use gpufs_device::{Errno, aio::Finished};
    /// fn lines(read: &Finished) -> Result<usize, Errno> {
    ///     read.with(|bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Finished::copy_to`].
    pub fn with<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Result<R, Errno> {
        // Nobody closes or synchronizes the session before `look` returns.
        let _inside = self.fs.enter()?;
        if !self.is_current(self.fs.session()) {
            return Err(Errno::INVAL);
        }
        let Some(memory) = self.memory.get() else { return Ok(look(&[])) };
        let count = self.count.min(memory.bytes as usize);
        // SAFETY:
        // - staging memory that is this one's until it is dropped, which has so many bytes, all of them written by the kernel or before
        // - the operation is complete, so that nobody writes it; a write of the same chain, whose memory it is too, reads
        Ok(look(unsafe { core::slice::from_raw_parts(memory.address as *const u8, count) }))
    }

    /// Whether the memory is still this one's.
    fn is_current(&self, session: &SessionTables) -> bool {
        let (ring, round) = self.round;
        session.all_queues()[ring as usize].round() == round
    }
}

impl Drop for Finished {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else { return };
        let Ok(_inside) = self.fs.enter() else { return };
        if self.is_current(self.fs.session()) {
            release(self.fs.session(), Some(memory));
        }
    }
}

/// Waits until one of several is complete, for at most so long where there is a limit (`aio_suspend(3)`): its index. Nothing is taken or cancelled.
///
/// # Errors
/// `ETIMEDOUT`; `EINVAL` where there is none.
pub fn wait_any<'a>(
    pending: impl IntoIterator<Item = &'a Pending, IntoIter: Clone>,
    limit: Option<Duration>,
) -> Result<usize, Errno> {
    let pending = pending.into_iter();
    let Some(first) = pending.clone().next() else { return Err(Errno::INVAL) };
    let fs = first.fs;
    let until = limit.map_or(Until::Complete, Until::after);
    let inside = fs.enter()?;
    let lanes = Lanes::calling(&inside, Call::AioSuspend);
    // Each lane alone: what another waits for may be this one's next call.
    lanes.grouped(u64::from(lanes.lane()), |alone| {
        let session = fs.session();
        if pending.clone().any(|one| !core::ptr::eq(one.fs.session(), session)) {
            return Err(Errno::INVAL);
        }
        // Ends: as a wait for each of them does, or with the limit.
        loop {
            for (index, one) in pending.clone().enumerate() {
                if one.is_complete() {
                    return Ok(index);
                }
            }
            for one in pending.clone() {
                // A look at its ring, and a nap.
                let soon = Machine::clock().saturating_add(LOOK_NS);
                let soon = until.time().map_or(soon, |until| soon.min(until));
                if await_started(session, alone, one.started.as_ref(), Some(soon))? != Look::InFlight {
                    break;
                }
            }
            rouse_host();
            if until.time().is_some_and(|until| Machine::clock() >= until) {
                return Err(Errno::TIMEDOUT);
            }
        }
    })
}

/// How long [`wait_any`] looks at one operation before it looks at the next.
const LOOK_NS: u64 = 1_000;

/// Waits until all of several are complete; nothing is taken.
///
/// # Errors
/// `EBADF` of a closed session.
pub fn wait_all<'a>(pending: impl IntoIterator<Item = &'a Pending>) -> Result<(), Errno> {
    for one in pending {
        wait_any([one], None)?;
    }
    Ok(())
}

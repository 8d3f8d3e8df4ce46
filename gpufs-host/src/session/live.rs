//! A session as its process knows it: what may use it now, and what the exit handler still writes.
//!
//! A [`Session`](super::Session) is a handle. The session itself lies on the heap, in a list of the process, so that the exit handler finds
//! it even if the program has forgotten the handle. One user at a time has it; the *phase* names the user:
//!
//! ```text
//!            enter                  Lanes                the exit handler, as a lane
//!   Idle ────────────► Call ◄────────────────► Lanes ◄──────────────────────────────► LanesExit
//!    ▲ │                 │
//!    │ │ exit handler    │ drop
//!    │ └──────► Exit     └───────► Gone
//!    └────────────┘
//! ```
//!
//! *Lanes* is a call that only waits for kernels, or makes device calls. Streams then change by the device's own rules, and the exit handler
//! may use them as any lane may.
#![expect(unsafe_code, reason = "a cell that the phase guards")]

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpufs_core::lanes;
use gpufs_core::session::SessionTables;

use super::{Body, SyncError, flush, seeker};
use crate::process::{Forked, Owner, Process};
use crate::ring::Services;

/// What uses a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing.
    Idle,
    /// A call of the handle's.
    Call,
    /// A call that only waits for kernels, or makes device calls.
    Lanes,
    /// As `Lanes`, and the exit handler works on its streams.
    LanesExit,
    /// The exit handler.
    Exit,
    /// It was dropped.
    Gone,
}

/// The phase, and waiting for it.
#[derive(Debug)]
pub(super) struct Gate {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Debug)]
struct Now {
    phase: Phase,
    /// The exit handler waits for the session: it is next, also before a thread that makes one short call after another.
    exiting: bool,
}

/// How long the exit handler waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// For kernels.
    pub(super) kernels: Instant,
    /// For a call of another thread, which has the session for itself. Not before `kernels`.
    pub(super) calls: Instant,
}

thread_local! {
    /// Calls of sessions that this thread is in. The exit handler does not wait for a session whose call waits for this very thread.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

impl Gate {
    fn new() -> Self {
        Self { now: Mutex::new(Now { phase: Phase::Idle, exiting: false }), changed: Condvar::new() }
    }
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Waits for the phase `from`, and changes it to `next`.
    fn advance(&self, from: Phase, next: Phase) {
        let mut now = self.now();
        // Ends: the exit handler, which alone is waited for, has a limit.
        while now.phase != from || (from == Phase::Idle && now.exiting) {
            now = self.changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        now.phase = next;
        self.changed.notify_all();
    }
    /// For the code that has the session: until the result is dropped, it only waits for kernels or makes device calls.
    pub(super) fn lanes(&self) -> Lanes<'_> {
        // The exit handler gives the session to nothing else, and one that is being opened, or could not be, nobody else has.
        if matches!(self.now().phase, Phase::Exit | Phase::Idle) {
            return Lanes(None);
        }
        self.advance(Phase::Call, Phase::Lanes);
        Lanes(Some(self))
    }
}

/// See [`Gate::lanes`].
#[must_use = "the phase lasts as long as this"]
pub(super) struct Lanes<'a>(Option<&'a Gate>);

impl Drop for Lanes<'_> {
    fn drop(&mut self) {
        if let Some(gate) = self.0 {
            gate.advance(Phase::Lanes, Phase::Call);
        }
    }
}

/// A session on the heap.
pub(super) struct Live {
    owner: Owner,
    gate: Arc<Gate>,
    /// The tables, as lanes on the CPU see them. `None` on a GPU, whose lanes have others.
    lanes: Option<&'static SessionTables>,
    /// The session's number, and its functions: which calls are inside.
    number: u64,
    services: Arc<Services>,
    /// Only the user that the phase names touches it. `None` once it was dropped.
    body: UnsafeCell<Option<Body>>,
}

// SAFETY:
// - one user at a time touches the body, as the phase says, on any thread; it may be sent there (`Send` of `Body`)
unsafe impl Sync for Live {}
// SAFETY:
// - as for `Sync`
unsafe impl Send for Live {}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("gate", &self.gate).finish_non_exhaustive()
    }
}

/// A call that has the session.
pub(super) struct Entered<'a> {
    live: &'a Live,
    /// The phase after the call.
    then: Phase,
}

impl std::ops::Deref for Entered<'_> {
    type Target = Body;
    fn deref(&self) -> &Body {
        // SAFETY:
        // - the phase is this call's
        unsafe { &*self.live.body.get() }.as_ref().expect("a session that was not dropped")
    }
}
impl std::ops::DerefMut for Entered<'_> {
    fn deref_mut(&mut self) -> &mut Body {
        // SAFETY:
        // - the phase is this call's, and `self` is borrowed mutably
        unsafe { &mut *self.live.body.get() }.as_mut().expect("a session that was not dropped")
    }
}
impl Drop for Entered<'_> {
    fn drop(&mut self) {
        INSIDE.set(INSIDE.get() - 1);
        self.live.gate.now().phase = self.then;
        self.live.gate.changed.notify_all();
    }
}

impl Live {
    /// Opens a session, and puts it into its process's list, where the exit handler finds it.
    ///
    /// # Errors
    /// Those of `body`, which opens it.
    pub(super) fn new<E>(
        owner: Owner,
        body: impl FnOnce(&Arc<Gate>) -> Result<Body, E>,
    ) -> Result<Arc<Self>, E> {
        let gate = Arc::new(Gate::new());
        let body = body(&gate)?;
        let (lanes, number, services) = (body.lanes(), body.number, body.services());
        let live = Arc::new(Self { owner, gate, lanes, number, services, body: UnsafeCell::new(Some(body)) });
        list(owner.process()).push(Arc::clone(&live));
        Ok(live)
    }

    /// The process that opened it.
    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// Begins a call of the handle's.
    ///
    /// # Errors
    /// This is a forked child.
    pub(super) fn enter(&self) -> Result<Entered<'_>, Forked> {
        self.owner.check()?;
        self.gate.advance(Phase::Idle, Phase::Call);
        INSIDE.set(INSIDE.get() + 1);
        Ok(Entered { live: self, then: Phase::Idle })
    }

    /// Reads something of the session; in a forked child, of the copy.
    pub(super) fn tell<T>(&self, what: impl FnOnce(&Body) -> T) -> T {
        match self.enter() {
            Ok(body) => what(&body),
            Err(Forked) => {
                // SAFETY:
                // - in a child only the handle's owner, the caller, reaches the copy; nothing changes it
                what(unsafe { &*self.body.get() }.as_ref().expect("a session that was not dropped"))
            }
        }
    }

    /// [`Live::enter`], for a call that waits for the session's kernels: `what` it does.
    ///
    /// # Errors
    /// As [`Live::enter`].
    ///
    /// # Panics
    /// If one of them makes it, or a function of the program that one of them has called: the call would wait for itself, for ever.
    pub(super) fn enter_alone(&self, what: &str) -> Result<Entered<'_>, Forked> {
        if let Some(caller) = self.caller() {
            panic!(
                "{caller} {what} its own session, and would wait for itself for ever: leave that to the thread that started the kernel"
            );
        }
        self.enter()
    }
    /// Who of those that a session waits for is the caller. Sessions of one builder share its functions: one that runs nothing waits for none.
    fn caller(&self) -> Option<&'static str> {
        if (lanes::runtime().session)() == self.number {
            Some("a lane")
        } else if self.services.functions.are_calling_here() && !self.tell(Body::is_finished) {
            Some("a function that a kernel has called")
        } else {
            None
        }
    }

    /// Drops the session, and takes it off the list. Where the caller is what that would wait for, it stays open: the exit handler flushes it.
    ///
    /// # Panics
    /// As [`Live::enter_alone`]; while the caller unwinds it says so instead.
    pub(super) fn close(&self) {
        if std::thread::panicking()
            && let Some(caller) = self.caller()
        {
            return eprintln!(
                "gpufs: {caller} that panicked dropped its own session, which stays open until the process ends"
            );
        }
        let Ok(mut entered) = self.enter_alone("closes") else { return };
        entered.then = Phase::Gone;
        // SAFETY:
        // - the phase is this call's
        let body = unsafe { &mut *self.body.get() }.take();
        drop(body);
        drop(entered);
        list(self.owner.process()).retain(|live| !std::ptr::eq(&raw const **live, self));
    }

    /// Writes what the session's streams hold, as far as possible within `limits`. For the exit handler.
    ///
    /// # Errors
    /// What was lost, as a text for the user.
    pub(super) fn flush_at_exit(&self, limits: Limits) -> Result<(), String> {
        // A call that waits for this very thread would never end.
        let began = Instant::now();
        let limits = if INSIDE.get() > 0 { Limits { kernels: began, calls: began } } else { limits };
        let mut now = self.gate.now();
        now.exiting = true;
        // Ends: at `limits.calls`.
        loop {
            let time = Instant::now();
            match (now.phase, self.lanes) {
                (Phase::Gone, _) => return self.leave(now, Ok(())),
                (Phase::Idle, _) => {
                    now.phase = Phase::Exit;
                    drop(now);
                    let mut entered = Entered { live: self, then: Phase::Idle };
                    INSIDE.set(INSIDE.get() + 1);
                    let outcome = entered.flush_at_exit(limits.kernels);
                    drop(entered);
                    return self.leave(self.gate.now(), outcome);
                }
                (Phase::Lanes, Some(view)) if time >= limits.kernels => {
                    now.phase = Phase::LanesExit;
                    drop(now);
                    let outcome = flush::flush_as_lane(view);
                    self.gate.advance(Phase::LanesExit, Phase::Lanes);
                    return self.leave(self.gate.now(), outcome);
                }
                _ if time >= limits.calls => {
                    let lost =
                        "another thread was using the session: what its streams had buffered may be lost";
                    return self.leave(now, Err(lost.to_owned()));
                }
                _ => {}
            }
            let next = if time < limits.kernels { limits.kernels } else { limits.calls };
            let wait = next.saturating_duration_since(time).max(Duration::from_millis(1));
            now = self.gate.changed.wait_timeout(now, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
    /// The exit handler waits no more.
    fn leave(&self, mut now: MutexGuard<'_, Now>, outcome: Result<(), String>) -> Result<(), String> {
        now.exiting = false;
        self.gate.changed.notify_all();
        outcome
    }
}

/// The sessions of a process that are open.
#[derive(Debug, Default)]
struct Sessions(Mutex<Vec<Arc<Live>>>);

/// Locks the list of a process's open sessions.
pub(super) fn list(process: &'static Process) -> MutexGuard<'static, Vec<Arc<Live>>> {
    process.part::<Sessions>().0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Body {
    /// [`Live::flush_at_exit`], with the session.
    fn flush_at_exit(&mut self, until: Instant) -> Result<(), String> {
        if self.state.is_dead() {
            return Ok(());
        }
        // A kernel that stays is told to end.
        self.close_channels();
        // A call of a thread that ends with the process may be inside for ever.
        if self.wait_until(until)
            && let Some(alone) = self.alone_by(Some(until))
        {
            let finished = self.finish(Ok(()), Some(alone));
            if !self.state.is_dead() {
                seeker::leave_standard_streams(self.tables.host);
                self.report_failures();
            }
            return match finished {
                Ok(()) | Err(SyncError::Dead) => Ok(()),
                Err(SyncError::Tables(error)) => Err(self.recover_at_exit(error.into())),
                Err(SyncError::Gpu(error)) => Err(self.recover_at_exit(error.into())),
                Err(error) => Err(error.to_string()),
            };
        }
        match self.lanes() {
            Some(view) => flush::flush_as_lane(view),
            None => Err("kernels still ran: what their streams had buffered is lost; synchronize before the program ends".to_owned()),
        }
    }
}

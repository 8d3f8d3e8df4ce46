//! Waiting: every loop that waits naps here, and gives up where the session has a deadline.

use gpufs_core::session::{Session, Stage};

use crate::warp::{Machine, Warp};

/// Shortest and longest nap in nanoseconds.
const NAP_NS: (u32, u32) = (50, 1_000);

/// One wait's patience: naps that grow, and the session's deadline.
pub(crate) struct Patience<'a> {
    session: &'a Session,
    nap_ns: u32,
    started_ns: Option<u64>,
}

impl<'a> Patience<'a> {
    /// Patience for a wait that begins now.
    pub(crate) const fn new(session: &'a Session) -> Self {
        Self { session, nap_ns: NAP_NS.0, started_ns: None }
    }

    /// Naps once, shorter after `progress`. Any lane; not convergent.
    ///
    /// # Panics
    /// If the session has a deadline and it has passed: the stage, the ring and the object waited for are noted in the session
    /// for the host, and named in the message.
    pub(crate) fn wait(&mut self, progress: bool, stage: Stage, ring: u32, object: u64) {
        self.nap_ns = if progress { NAP_NS.0 } else { (self.nap_ns * 2).min(NAP_NS.1) };
        if self.session.deadline_ns != 0 {
            let now = Machine::clock();
            let started = *self.started_ns.get_or_insert(now);
            if progress {
                self.started_ns = Some(now);
            } else if now.saturating_sub(started) > self.session.deadline_ns {
                self.give_up(stage, ring, object);
            }
        }
        Machine::nap(self.nap_ns);
    }

    #[cold]
    fn give_up(&self, stage: Stage, ring: u32, object: u64) -> ! {
        let stall = self.session.stall();
        if stall.stage.replace(0, 1 + stage as u32).is_ok() {
            stall.ring.set(ring);
            stall.object.set(object);
        }
        let (sq_tail, cq_tail) = self.session.queues()[ring as usize].tails();
        panic!(
            "gpufs: a wait passed its deadline: stage {stage:?}, ring {ring}, object {object:#x}, SQ tail {sq_tail}, CQ tail {cq_tail}"
        );
    }
}

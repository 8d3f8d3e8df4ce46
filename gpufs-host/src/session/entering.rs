//! Lanes on the CPU whose own thread enters the ring.

use std::io;

use super::{Backend, Body, Session};
use crate::cpu::KeptThread;

impl Session {
    /// Lets the thread that runs lanes on the CPU enter the ring itself when all of them wait: for kernels that stay and answer. Otherwise another
    /// thread does, and each operation is handed over to it and back, which may cost more than the operation. Whether it is so from now on: the
    /// session has one ring, in the mode `enter`, and no sandbox, on Linux 5.11 or later. Where it is not, nothing changes.
    ///
    /// It concerns launches by [`Session::launch`] and [`Session::start`] whose warps one OS thread runs (a grid of one warp, or
    /// [`CpuOptions::threads`](crate::CpuOptions::threads) 1), while nothing else runs. Reads and writes of files then happen in that thread
    /// while its lanes wait, not beside what they compute; and what lanes start and do not wait for may begin up to 20 milliseconds later.
    ///
    /// The thread lives as long as the session, or until [`Session::adopt_credentials`] replaces it. Kernels' operations have its rights, which are
    /// those of the calling thread now: call this where the session is opened.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut session = gpufs_host::Session::builder().rings(1).cpu()?;
    /// session.enter_from_lanes()?;
    /// // … start the kernel that stays …
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy) while kernels run; the system's refusal of a thread.
    pub fn enter_from_lanes(&mut self) -> io::Result<bool> {
        let mut body = self.live.enter().map_err(io::Error::other)?;
        body.enter_from_lanes()
    }
}

impl Body {
    /// `Session::enter_from_lanes`.
    pub(super) fn enter_from_lanes(&mut self) -> io::Result<bool> {
        self.state.check_idle()?;
        if self.kept_thread.is_none() && matches!(self.backend, Backend::Cpu(_)) && !self.state.is_dead() {
            let submitter = self.service().submitter();
            self.kept_thread = submitter.map(KeptThread::start).transpose()?;
        }
        Ok(self.kept_thread.is_some())
    }

    /// Ends the thread that enters the ring for lanes, if there is one and it runs none; whether there was one. Nothing is in flight, or is given up.
    pub(super) fn end_kept_thread(&mut self) -> bool {
        self.kept_thread.take().is_some()
    }
}

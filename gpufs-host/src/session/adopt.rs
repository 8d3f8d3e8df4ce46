//! Rights that the program has given up since it opened a session, and kernels give up with it (`Session::adopt_credentials`).
//!
//! 1. No kernel runs, no call is inside, and nothing is in flight.
//! 2. A sandbox's family takes the rights. Rings that the kernel's own threads poll get successors, which know the session's buffers and files.
//!    Where something is refused up to here, the rings are as they were; a sandbox's family may have given up rights already, and has no more of
//!    them than the program.
//! 3. The ring service ends, and with it nothing serves the rings. Successors take the places of rings, and workers are ended and started again.
//! 4. Another ring service starts.
#![expect(unsafe_code, reason = "rings take the places of others")]

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use gpufs_core::session::OpenFile;

use super::Body;
use super::trace::SessionTrace;
use crate::ring::{Known, Ring, RingError, RingService};

impl Body {
    /// `Session::adopt_credentials`.
    pub(super) fn adopt_credentials(&mut self) -> io::Result<()> {
        self.state.check_idle()?;
        if self.state.is_dead() {
            return Err(io::Error::other("the session is dead: it can only be dropped"));
        }
        let _alone = self.alone();
        let settled = {
            let _busy = self.busy();
            self.settle()
        };
        if !settled {
            let text =
                "operations of kernels are in flight, which never ended; close the session and open another";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        let failed = |error: RingError| io::Error::other(error);
        if let Some(confined) = &self.confined {
            confined.take_rights().map_err(io::Error::other)?;
        }
        let successors = self.successors().map_err(failed)?;
        let enters = self.end_kept_thread();
        self.service = None;
        let renewed = {
            let trace = self.trace.take();
            let renewing = trace.as_ref().map(SessionTrace::renewing);
            let renewed = self.renew(successors);
            drop(renewing);
            self.trace = trace;
            renewed
        };
        // Whether they could be renewed or not: entries that are there must be taken.
        let service = RingService::start(&self.rings.iter().collect::<Vec<_>>());
        self.service = Some(service.map_err(failed)?);
        if enters {
            self.enter_from_lanes()?;
        }
        renewed.map_err(failed)
    }

    /// Rings that are to take the places of the session's, in their order.
    fn successors(&self) -> Result<Vec<Option<Ring>>, RingError> {
        let mut buffers = Vec::new();
        if self.fixed_buffers {
            buffers.extend(self.memory.pools());
            buffers.extend(self.buffers.iter().map(|buffer| (buffer.address, buffer.bytes)));
        }
        let files = self.known_files();
        let known = Known { buffers: &buffers, files: &files };
        // SAFETY:
        // - the session's own memory, freed only after the rings are closed (`close.rs`)
        self.rings.iter().map(|ring| unsafe { ring.successor(&known) }).collect()
    }

    /// The files that the rings have registered, by their indices.
    fn known_files(&self) -> Vec<RawFd> {
        if !self.fixed_files {
            return Vec::new();
        }
        let entries = self.tables.host.files();
        let mut files = vec![-1; entries.len()];
        let is_fixed = |index: usize| {
            let flags = entries[index].flags.peek();
            flags & (OpenFile::OPEN | OpenFile::FIXED) == OpenFile::OPEN | OpenFile::FIXED
        };
        for (index, file) in files.iter_mut().enumerate().take(3).filter(|(index, _)| is_fixed(*index)) {
            *file = RawFd::try_from(index).unwrap_or(-1);
        }
        for (index, file, _) in &self.host_files {
            if is_fixed(*index as usize) {
                files[*index as usize] = file.as_raw_fd();
            }
        }
        files
    }

    /// Puts successors into the places of rings, whose queues begin again, and gives the others other threads.
    fn renew(&mut self, successors: Vec<Option<Ring>>) -> Result<(), RingError> {
        for ((ring, queue), successor) in
            self.rings.iter_mut().zip(self.tables.host.all_queues()).zip(successors)
        {
            let Some(successor) = successor else {
                ring.renew_threads()?;
                continue;
            };
            // SAFETY:
            // - nothing is in flight, the service has ended, and no call is inside (`adopt_credentials`)
            unsafe { ring.renew(successor) }?;
            // SAFETY:
            // - as above; the ring below is another one
            unsafe { queue.begin_at(ring.tails().0) };
        }
        Ok(())
    }
}

//! Renewing what serves a ring, with the rights that the calling thread has now: they are those of the moment at which a ring is set up, or a
//! thread is started.
//!
//! A ring that the kernel's own thread polls has the rights of who set it up, for good. So another is set up, in memory of its own; when it works
//! and knows the session's buffers and files, its memory is moved to the addresses of the old one's, which every device and table names. All that
//! is asked of the system comes before the moving. Rings that host threads enter or serve stay, and get other threads.
//!
//! The rules are [R-RENEW-1] to [R-RENEW-4], with the proof [P-RENEW] (`gpufs_core::protocol::renewal`).

use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;

use super::credentials::{Credentials, filters};
use super::memory::CpuMemory;
use super::{Confined, Mode, Ring, RingConfig, RingError, RingMemory, RingParts, sys};

/// What a ring is to know: buffers and files, as [`Ring::register_buffers`] and [`Ring::register_numbers`] want them.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    /// Registered buffers; none where there are none.
    pub(crate) buffers: &'a [(NonNull<u8>, usize)],
    /// Registered files; none where there are none.
    pub(crate) files: &'a [RawFd],
}

fn system(step: &'static str) -> impl Fn(std::io::Error) -> RingError {
    move |error| RingError::System { step, error }
}

impl Ring {
    /// A ring like this one with the rights of the calling thread, for [`Ring::renew`]; none where threads of the host decide. The family of a
    /// sandbox has taken those rights ([`Confined::take_rights`]).
    ///
    /// # Errors
    /// What the system refuses.
    ///
    /// # Safety
    /// As [`Ring::register_buffers`].
    pub(crate) unsafe fn successor(&self, known: &Known<'_>) -> Result<Option<Self>, RingError> {
        let inner = &self.inner;
        if inner.mode != Mode::Sqpoll {
            return Ok(None);
        }
        if inner.config.memory == RingMemory::Runtime && inner.config.source.runtime().is_some() {
            return Err(RingError::Config(
                "a ring in memory of the GPU's runtime cannot be renewed; close the session and open another",
            ));
        }
        let config =
            RingConfig { memory: RingMemory::Caller, source: Arc::new(CpuMemory), ..inner.config.clone() };
        let ring = Self::open(&config)?;
        ring.prove()?;
        if !self.lies_as(&ring) {
            return Err(RingError::Config(
                "this Linux lays another ring out in another way; open another session",
            ));
        }
        if !known.files.is_empty() {
            ring.register_numbers(known.files)?;
        }
        if !known.buffers.is_empty() {
            // SAFETY:
            // - this function's contract
            unsafe { ring.register_buffers(known.buffers) }?;
        }
        Ok(Some(ring))
    }

    /// Whether the parts of another ring lie as those of this one.
    fn lies_as(&self, other: &Self) -> bool {
        let offsets = |parts: &RingParts| {
            let words = [
                parts.sq_head,
                parts.sq_tail,
                parts.sq_flags,
                parts.cq_head,
                parts.cq_tail,
                parts.cq_overflow,
            ];
            (words.map(|word| word.addr() - parts.rings.addr()), parts.cqes.addr() - parts.rings.addr())
        };
        let (own, theirs) = (&self.inner.host, &other.inner.host);
        let counts = |parts: &RingParts| (parts.sq_entries, parts.cq_entries);
        offsets(own) == offsets(theirs) && counts(own) == counts(theirs)
    }

    /// Puts a successor in the place of this ring [R-RENEW-3]: at its addresses, with as many operations behind it as [`Ring::tails`] then says. The
    /// queue over the ring begins there ([`gpufs_core::Queue::begin_at`]).
    ///
    /// # Errors
    /// The system's or the device's refusal: the ring can only be dropped.
    ///
    /// # Safety
    /// Nothing is in flight, nothing serves the ring, and nobody uses its words and entries meanwhile.
    pub(crate) unsafe fn renew(&mut self, successor: Self) -> Result<(), RingError> {
        let failed = system("moving a renewed ring");
        let busy = || RingError::Config("a ring that is served cannot be renewed");
        let inner = Arc::get_mut(&mut self.inner).ok_or_else(busy)?;
        let mut new = successor.inner;
        let new = Arc::get_mut(&mut new).ok_or_else(busy)?;
        let (rings, sqes) = (new.host.rings, new.host.sqes.cast_mut().cast::<u8>());
        // Its memory is one stretch, of which the parts are moved; what the old ring has no room for holds nothing.
        let whole = new.regions.pop().ok_or_else(busy)?;
        let rest = if inner.regions.len() == 2 {
            inner.regions[0].bytes()..sqes.addr() - rings.addr()
        } else {
            whole.bytes()..whole.bytes()
        };
        for (region, from) in inner.regions.iter_mut().zip([rings, sqes]) {
            let from = NonNull::new(from).ok_or_else(busy)?;
            // SAFETY:
            // - ordinary memory of the successor: the same entries take the same bytes
            // - nobody uses the old ring's, by this function's contract
            unsafe { region.replace(from) }.map_err(&failed)?;
        }
        // SAFETY:
        // - moved above, but for the rest
        unsafe { whole.moved(rest) };
        std::mem::swap(&mut inner.descriptor, &mut new.descriptor);
        std::mem::swap(&mut inner.family_descriptor, &mut new.family_descriptor);
        inner.failure = super::failure::Noted::default();
        Ok(())
    }
}

impl Confined {
    /// Gives the family the rights that the calling thread has, and starts functions of the program from there.
    ///
    /// # Errors
    /// A sentence: what the family cannot take.
    pub(crate) fn take_rights(&self) -> Result<(), String> {
        let failed = |error: std::io::Error| {
            format!("the sandbox's threads cannot take this thread's credentials: {error}")
        };
        let own = Credentials::of_this_thread().map_err(failed)?;
        let wanted = filters(sys::thread_number());
        self.run(move || own.take()).map_err(failed)?;
        // Asked from here: the family reads no file of the system's.
        let have = filters(self.family.first_thread());
        if have < wanted {
            return Err(format!(
                "this thread has {wanted} seccomp filters, and the sandbox's threads {have}: install them in all threads \
                 (SECCOMP_FILTER_FLAG_TSYNC), or open another session"
            ));
        }
        self.renew_outside().map_err(|error| format!("a thread for services: {error}"))
    }
}

impl super::workers::WorkerPool {
    /// Ends the threads of a ring with nothing in flight, and starts others where there were some: from the calling thread, or the sandbox's family.
    pub(super) fn renew(self: &Arc<Self>) -> Result<(), RingError> {
        let was_started = self.is_started();
        if !self.pause() {
            return Err(RingError::Config(
                "a thread that serves a ring waits in a system call, and cannot be ended",
            ));
        }
        if was_started {
            self.start().map_err(system("starting the threads of a renewed ring"))
        } else {
            Ok(())
        }
    }
}

impl Ring {
    /// Whether host threads serve it, which this renews: with the rights of the calling thread. Nothing is in flight.
    ///
    /// # Errors
    /// What the system refuses: the ring can only be dropped.
    pub(crate) fn renew_threads(&self) -> Result<(), RingError> {
        self.inner.pool.as_ref().map_or(Ok(()), |pool| pool.renew())
    }
}

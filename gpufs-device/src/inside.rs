//! A call's stay in its session: on the host, a closed session is an error and not unmapped memory.
//!
//! Each call of the library begins with an [`Inside`], and ends with it. A GPU's launches are all the session's own, which waits for them
//! before it closes: there it is nothing. On the host neither is it for lanes of the session's own launches. All other calls, of threads and of
//! lanes of other sessions, pass the session's gate ([`gpufs_core::gate`]).

#[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
use gpufs_core::Errno;
use gpufs_core::session::SessionTables;

/// A call on a session's tables, which stay as long as this.
#[derive(Debug)]
#[must_use = "the tables stay as long as this"]
pub(crate) struct Inside {
    session: &'static SessionTables,
    #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
    gate: Option<&'static gpufs_core::gate::Gate>,
}

impl Inside {
    /// The tables.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "nothing, on a GPU")]
    pub(crate) const fn session(&self) -> &'static SessionTables {
        self.session
    }
}

#[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
impl Inside {
    /// Begins a call.
    ///
    /// # Errors
    /// None on a GPU.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "nothing, on a GPU")]
    #[expect(clippy::unnecessary_wraps, reason = "an error on the host")]
    pub(crate) const fn enter(session: &'static SessionTables, _: u64) -> Result<Self, Errno> {
        Ok(Self { session })
    }
}

#[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
mod host {
    use gpufs_core::Errno;
    use gpufs_core::gate::{Entry, Gate};
    use gpufs_core::lanes::runtime;
    use gpufs_core::session::SessionTables;

    use super::Inside;

    /// Between two looks at a gate, in nanoseconds.
    const NAP_NS: u32 = 10_000;

    impl Inside {
        /// Begins a call on the tables of `id`, or of the session that has them where it is 0: then what the call names says whose it is.
        ///
        /// # Errors
        /// `EBADF` where the session is closed; `EBUSY` where its tables are a GPU's now.
        #[inline]
        pub(crate) fn enter(session: &'static SessionTables, id: u64) -> Result<Self, Errno> {
            let Some(gate) = session.gate() else { return Ok(Self { session, gate: None }) };
            let own = (runtime().session)();
            if own != 0 && own == if id == 0 { gate.session() } else { id } {
                return Ok(Self { session, gate: None });
            }
            pass(session, gate, id)?;
            (runtime().passes)(true);
            Ok(Self { session, gate: Some(gate) })
        }
    }

    /// Passes a gate.
    #[inline(never)]
    fn pass(session: &SessionTables, gate: &Gate, id: u64) -> Result<(), Errno> {
        // Ends: the host, which works alone, does not wait for this call.
        loop {
            match gate.enter(id) {
                Entry::Inside => return Ok(()),
                // In a forked child nobody works alone, whatever the copy of its parent's gate says.
                Entry::Excluded if !session.is_closed() => (runtime().nap)(NAP_NS),
                Entry::Closed | Entry::Excluded => return Err(Errno::BADF),
                Entry::Elsewhere => return Err(Errno::BUSY),
            }
        }
    }

    impl Drop for Inside {
        #[inline]
        fn drop(&mut self) {
            if let Some(gate) = self.gate {
                (runtime().passes)(false);
                gate.leave();
            }
        }
    }
}

//! The session as a kernel holds it.

use gpufs_core::abi::Sqe;
use gpufs_core::session::SessionTables;
use gpufs_core::{Call, Errno};

use crate::io::transact;
use crate::warp::Lanes;

/// A session, as a kernel's argument. Its calls are in [`mod@crate::file`] and [`crate::stdio`].
#[derive(Clone, Copy, Debug)]
pub struct Fs {
    session: &'static SessionTables,
}

impl Fs {
    /// The session behind a reference that the host gave to the launch.
    #[must_use]
    pub const fn new(session: &'static SessionTables) -> Self {
        Self { session }
    }
    /// The tables.
    #[must_use]
    pub const fn session(self) -> &'static SessionTables {
        self.session
    }

    /// A round trip through the caller's ring and nothing else: one operation of every calling lane that does nothing
    /// (`io_uring_prep_nop(3)`), all as one batch. What any call costs at least, for measuring.
    ///
    /// # Errors
    /// None that the kernel has for it.
    pub fn nop(self) -> Result<(), Errno> {
        Errno::check(transact(self.session, Lanes::calling(self.session(), Call::Nop), Some(Sqe::nop())))
            .map(drop)
    }
}

impl From<&'static SessionTables> for Fs {
    fn from(session: &'static SessionTables) -> Self {
        Self::new(session)
    }
}

impl From<Fs> for &'static SessionTables {
    fn from(fs: Fs) -> Self {
        fs.session
    }
}

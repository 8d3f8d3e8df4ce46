//! The session as a kernel holds it.

use gpufs_core::session::Session;

/// A session, as a kernel's argument. Its calls are in [`mod@crate::file`] and [`crate::stdio`].
#[derive(Clone, Copy, Debug)]
pub struct Fs {
    session: &'static Session,
}

impl Fs {
    /// The session behind a reference that the host gave to the launch.
    #[must_use]
    pub const fn new(session: &'static Session) -> Self {
        Self { session }
    }
    /// The tables.
    #[must_use]
    pub const fn session(self) -> &'static Session {
        self.session
    }
}

impl From<&'static Session> for Fs {
    fn from(session: &'static Session) -> Self {
        Self::new(session)
    }
}

impl From<Fs> for &'static Session {
    fn from(fs: Fs) -> Self {
        fs.session
    }
}

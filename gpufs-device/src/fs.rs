//! The session as a kernel holds it.
#![expect(unsafe_code, reason = "where the tables come from, and who gets them")]

use gpufs_core::abi::Sqe;
use gpufs_core::failures::counted;
use gpufs_core::kernel::OfSession;
use gpufs_core::session::SessionTables;
use gpufs_core::{Call, Errno};

use crate::inside::Inside;
use crate::io::transact;
use crate::warp::Lanes;

/// The number of no session.
#[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
const CLOSED: u64 = u64::MAX;

/// A session, as a kernel's argument. Its calls are in [`mod@crate::file`] and [`crate::stdio`].
///
/// It may be copied, kept, and used in any thread. On the host, a call through the `Fs` of a session that was closed is `EBADF`, also when a
/// later session has its memory; closing a session waits for the calls that are inside. On a GPU a kernel's `Fs` is good until the kernel ends,
/// for which its session waits.
///
/// ```compile_fail,E0133
/// fn of(tables: &'static gpufs_core::session::SessionTables) -> gpufs_device::Fs {
///     gpufs_device::Fs::new(tables)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fs {
    session: &'static SessionTables,
    /// Which of the sessions that have the tables one after the other.
    #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
    id: u64,
}

impl Fs {
    /// The session that has these tables now.
    ///
    /// # Safety
    /// - The tables were made for a session, and are never unmapped; on a GPU, not before the kernel ends.
    /// - Where they have no gate ([`SessionTables::gate`]), all calls through this come while the session is open, and while the host does not
    ///   work on its tables itself.
    #[must_use]
    #[inline]
    pub unsafe fn new(session: &'static SessionTables) -> Self {
        Self {
            session,
            #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
            id: session.gate().map_or(0, gpufs_core::gate::Gate::session),
        }
    }
    /// The session that has the tables of another handle of this library's now.
    #[inline]
    pub(crate) fn of(session: &'static SessionTables) -> Self {
        // SAFETY:
        // - those of an `Fs`, from which every handle comes
        unsafe { Self::new(session) }
    }
    /// The session of no tables that are open: each call is `EBADF`.
    #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
    pub(crate) const fn closed_session(session: &'static SessionTables) -> Self {
        Self { session, id: CLOSED }
    }
    /// Whether a later session has the tables.
    #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
    pub(crate) fn is_past(self) -> bool {
        self.session.gate().is_some_and(|gate| gate.session() != self.id)
    }
    /// The tables.
    #[inline]
    pub(crate) const fn session(self) -> &'static SessionTables {
        self.session
    }
    /// The tables, for code that works on them without the calls of this library.
    ///
    /// # Safety
    /// They are used while the session is open, by the rules that stand at each of them.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub const unsafe fn tables(self) -> &'static SessionTables {
        self.session
    }
    /// A number that tells the session from all others on its device, past ones too.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn identity(self) -> u64 {
        let address = core::ptr::from_ref(self.session).addr() as u64;
        #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
        return address.rotate_left(16) ^ self.id;
        #[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
        address
    }
    /// The result of a call that was refused before it was made: a failure is counted.
    ///
    /// # Errors
    /// The result's.
    #[doc(hidden)]
    #[inline]
    pub fn counted<T>(self, call: Call, result: Result<T, Errno>) -> Result<T, Errno> {
        counted(self.session, call, result)
    }
    /// Begins a call.
    ///
    /// # Errors
    /// On the host: `EBADF` where the session is closed, `EBUSY` where its tables are a GPU's now.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "nothing, on a GPU")]
    pub(crate) fn enter(self) -> Result<Inside, Errno> {
        #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
        return Inside::enter(self.session, self.id);
        #[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
        Inside::enter(self.session, 0)
    }

    /// A round trip through the caller's ring and nothing else: one operation of every calling lane that does nothing
    /// (`io_uring_prep_nop(3)`), all as one batch. What any call costs at least, for measuring.
    ///
    /// # Errors
    /// None that the kernel has for it.
    pub fn nop(self) -> Result<(), Errno> {
        let inside = self.enter()?;
        Errno::check(transact(self.session, Lanes::calling(&inside, Call::Nop), Some(Sqe::nop()))).map(drop)
    }
}

// SAFETY:
// - the session that the kernel runs in, or that the host named: only `Fs::new` makes one
unsafe impl OfSession for Fs {
    #[inline]
    fn address(self) -> u64 {
        core::ptr::from_ref(self.session).addr() as u64
    }
    #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
    fn is_here(self) -> bool {
        // A lane of another session's, or a thread, has the value only while this session cannot read it.
        self.id == (gpufs_core::lanes::runtime().session)()
    }
    #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
    fn number(self) -> u64 {
        self.id
    }
}

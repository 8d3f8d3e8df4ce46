//! A kernel that is written once and runs on every device, and what may travel to it. `gpufs_device::kernel!` declares one.
#![expect(unsafe_code, reason = "promises about layouts, and memory that the host placed")]

use core::ffi::CStr;
use core::marker::PhantomData;

use crate::abi::Errno;
use crate::session::{FileIndex, SessionTables, StreamIndex};
use crate::word::{DeviceWord, DeviceWord64};

/// One kernel: how the host starts it, on CPU lanes by calling it, on a GPU by its name in the device program. `gpufs_device::kernel!` implements
/// it.
///
/// ```compile_fail,E0200
/// use gpufs_core::{kernel::Kernel, session::SessionTables};
///
/// struct Wrong;
/// impl Kernel for Wrong {
///     const NAME: &'static std::ffi::CStr = c"gpufs_kernel_other";
///     type Arguments = ();
///     fn run(_: &'static SessionTables, (): ()) {}
/// }
/// ```
///
/// # Safety
/// - A device program that has an entry point of this name has one that takes the address of a session's tables and then these arguments, and does
///   what [`Kernel::run`] does.
/// - The body keeps no reference to the tables for longer than it runs, and follows the rules that stand at each of them.
pub unsafe trait Kernel {
    /// The entry point's name in a device program.
    const NAME: &'static CStr;
    /// What a launch hands to every thread, by value: plain data and handles, laid out as C would.
    type Arguments: Copy + Send + Sync + 'static;
    /// The kernel's body, for one thread.
    fn run(session: &'static SessionTables, arguments: Self::Arguments);
}

/// Data that means the same on the host and on every device: `gpufs_device::portable!` declares structures of such data.
///
/// # Safety
/// - Host and device lay it out alike, though different compilers compile them: numbers, or `repr(C)`.
/// - It holds no address of memory that one of them cannot reach, but for handles that are used on the device alone.
/// - Its bytes may be copied, and the copy used in its place: nothing is done when it is dropped.
/// - Any bytes are a value: what comes from a kernel may be what a kernel that means harm has left there.
pub unsafe trait Portable: Send + Sync + 'static {}

macro_rules! portable {
    ($($type:ty),*) => { $(
        // SAFETY:
        // - numbers, or `repr(C)` and `repr(transparent)` structures of numbers
        unsafe impl Portable for $type {}
    )* };
}
portable!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64);
portable!(DeviceWord, DeviceWord64, FileIndex, StreamIndex, Errno);

// SAFETY:
// - one after the other, in both layouts
unsafe impl<T: Portable, const N: usize> Portable for [T; N] {}

/// A value that the host placed in the device's memory (`Session::place`), for all threads of its kernels. A kernel's argument.
#[derive(Debug)]
#[repr(C)]
pub struct Shared<T: 'static> {
    /// The session's tables, as the device sees them.
    session: u64,
    /// The value, likewise.
    value: u64,
    /// The session's number: sessions have tables one after the other, and on the host the memory of values, too.
    number: u64,
    of: PhantomData<&'static T>,
}

impl<T: 'static> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: 'static> Copy for Shared<T> {}

/// What stands for a session in a kernel, or on the host: `gpufs_device::Fs`.
///
/// # Safety
/// - The address is that of the session's tables, for the device that the caller runs on.
/// - On the host, [`OfSession::is_here`] says whether the caller is a lane of a launch of the session, which runs and was not waited for, and
///   [`OfSession::number`] which of the process's sessions it is.
pub unsafe trait OfSession: Copy {
    /// The address of the tables.
    fn address(self) -> u64;
    /// Whether the caller is a lane of one of the session's launches.
    #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
    fn is_here(self) -> bool;
    /// The session's number; 0 for tables that no other session gets.
    #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
    fn number(self) -> u64;
}

impl<T: Portable> Shared<T> {
    /// A handle to the value at `value`, both addresses as the device sees them, of the session of this number.
    ///
    /// # Safety
    /// On the device whose session lies at `session` there is a `T` at `value`, forever, or as long as kernels of that session run. Until the
    /// session is closed nobody writes there meanwhile, but through the `T`.
    #[must_use]
    pub const unsafe fn new(session: u64, value: u64, number: u64) -> Self {
        Self { session, value, number, of: PhantomData }
    }
    /// Whether an earlier session of these tables placed it, which is closed. On a GPU no kernel has a handle for longer than its session.
    #[must_use]
    #[inline]
    pub fn is_past(self, fs: impl OfSession) -> bool {
        #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
        return fs.address() == self.session && ![0, self.number].contains(&fs.number());
        #[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
        {
            let _ = fs;
            false
        }
    }
    /// What `look` makes of the value. Any lane of a kernel of the session that placed it. The reference ends with `look`, so that no lane keeps it
    /// for longer than its kernel runs, and the host may read and write the value when the kernel has ended.
    ///
    /// ```compile_fail,E0521
    /// use gpufs_core::kernel::{OfSession, Shared};
    ///
    /// fn keep(value: Shared<u32>, fs: impl OfSession) -> &'static u32 {
    ///     let mut kept = &0;
    ///     value.with(fs, |value| kept = value);
    ///     kept
    /// }
    /// ```
    ///
    /// # Panics
    /// If it was placed for another session; on the host, for an earlier one, too. On the host also where the caller is no lane of that session's
    /// launches: a thread has `Session::fetch`.
    #[inline]
    pub fn with<R>(self, fs: impl OfSession, look: impl FnOnce(&T) -> R) -> R {
        assert!(fs.address() == self.session, "a value that another session placed");
        #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
        assert!(
            fs.is_here(),
            "a placed value is for the lanes of its session's kernels; a thread calls Session::fetch"
        );
        assert!(!self.is_past(fs), "a value that another session placed, which is closed");
        // SAFETY:
        // - this is code of that session, whose launch is not over before it returns, so the value is there (`new`)
        look(unsafe { &*(self.value as *const T) })
    }
}

// SAFETY:
// - two addresses for the device alone and a number, in a `repr(C)` structure
unsafe impl<T: Portable> Portable for Shared<T> {}

//! One value that one lane leaves for all others, in the same kernel or in a later one: an error that stopped it, a stream that it opened.
#![allow(unsafe_code, reason = "a value behind a flag, and a promise about its layout")]

use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;

use gpufs_core::kernel::Portable;
use gpufs_core::word::DeviceWord;

const EMPTY: u32 = 0;
const TAKEN: u32 = 1;
const FULL: u32 = 2;

/// A place for one value, filled once. In device memory: a field of what the host places there.
///
/// ```
/// use gpufs_device::kernel::{Handoff, Shared};
/// use gpufs_device::{Errno, File, kernel, portable};
///
/// portable! {
///     /// What the threads share.
///     pub struct Job {
///         /// The first error that a thread met.
///         pub failed: Handoff<Errno>,
///     }
/// }
///
/// kernel! {
///     /// Every thread writes a record.
///     pub fn write(fs: Fs, out: File, job: Shared<Job>) {
///         if let Err(errno) = out.fwrite(b"record\n") {
///             job.with(fs, |job| job.failed.put(errno));
///         }
///     }
/// }
/// # fn main() {}
/// ```
///
/// A stream is left as its [`FileHandle`](super::FileHandle): a [`File`](crate::File) holds an address of the device's, which the host gets
/// with what it fetches, and cannot follow.
///
/// ```compile_fail,E0277
/// fn placed(session: &mut impl FnMut(gpufs_device::kernel::Handoff<gpufs_device::File>)) {
///     fn portable<T: gpufs_device::kernel::Portable>(_: &T) {}
///     portable(&gpufs_device::kernel::Handoff::<gpufs_device::File>::default());
/// }
/// ```
#[repr(C)]
pub struct Handoff<T> {
    /// EMPTY → TAKEN → FULL.
    state: DeviceWord,
    /// Written by the lane that took the place; a value, and constant, from FULL on.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY:
// - the value is written by one lane only, between TAKEN and FULL, and only copied out after FULL
unsafe impl<T: Copy + Send> Sync for Handoff<T> {}

// SAFETY:
// - a word and a portable value, one after the other, as C lays them out
// - a copy made while no kernel runs holds the value if this one does
unsafe impl<T: Portable + Copy> Portable for Handoff<T> {}

impl<T> fmt::Debug for Handoff<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handoff").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<T> Default for Handoff<T> {
    fn default() -> Self {
        Self { state: DeviceWord::new(EMPTY), value: UnsafeCell::new(MaybeUninit::zeroed()) }
    }
}

impl<T: Copy> Handoff<T> {
    /// Leaves a value, if none was left before.
    pub fn put(&self, value: T) {
        // ORDERING: acquire and release, device: of several lanes, one goes on.
        if self.state.compare_exchange(EMPTY, TAKEN).is_ok() {
            // SAFETY:
            // - this lane alone took the place, and nobody reads before FULL
            unsafe { (*self.value.get()).write(value) };
            // ORDERING: release, device, partner `get`.
            self.state.publish(FULL);
        }
    }
    /// Whether a value is there.
    #[must_use]
    pub fn is_full(&self) -> bool {
        // ORDERING: acquire, device, partner `put`.
        self.state.observe() == FULL
    }
    /// The value, once it is there.
    #[must_use]
    pub fn get(&self) -> Option<T> {
        self.is_full().then(|| {
            // SAFETY:
            // - written before FULL, and constant from then on
            unsafe { (*self.value.get()).assume_init() }
        })
    }
}

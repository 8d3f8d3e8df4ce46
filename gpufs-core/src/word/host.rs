//! The words on a CPU, where one coherent memory serves device, kernel and host, and on AMD GPUs: `core` atomics and plain cells.
//!
//! On AMDGCN an atomic of `core` has system scope, with the waits and cache actions of LLVM's memory model for it (looked at for
//! gfx90a and gfx942 by `cargo xtask device-code`). Device words would do with less: what they cost beyond that is a write-back of
//! the second-level cache, and that `claim_bits`, `fetch_set_bits` and `set_bits` become loops of compare-and-swap, as PCIe has no atomic
//! *and* and *or*.
#![allow(clippy::disallowed_types, reason = "this file is the one that wraps them")]
#![allow(unsafe_code, reason = "the entry cells")]

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

macro_rules! shared_word {
    ($(#[$doc:meta])* $name:ident, $atomic:ident, $int:ident) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name($atomic);

        impl $name {
            /// A word holding `value`.
            #[must_use]
            pub const fn new(value: $int) -> Self {
                Self($atomic::new(value))
            }
            /// Relaxed load: the value may be stale.
            #[inline]
            pub fn peek(&self) -> $int {
                self.0.load(Ordering::Relaxed)
            }
            /// Acquire load: what the publisher wrote before is visible after.
            #[inline]
            pub fn observe(&self) -> $int {
                self.0.load(Ordering::Acquire)
            }
            /// Relaxed store.
            #[inline]
            pub fn set(&self, value: $int) {
                self.0.store(value, Ordering::Relaxed);
            }
            /// Release store: a thread that observes the value sees what was written before.
            #[inline]
            pub fn publish(&self, value: $int) {
                self.0.store(value, Ordering::Release);
            }
        }
    };
}

shared_word! {
    /// A 32-bit word in memory shared with the kernel or the host. Plain loads and stores only.
    SharedWord, AtomicU32, u32
}
shared_word! {
    /// A 64-bit word in memory shared with the host. Plain loads and stores only.
    SharedWord64, AtomicU64, u64
}

macro_rules! device_word {
    ($(#[$doc:meta])* $name:ident, $atomic:ident, $int:ident) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name($atomic);

        impl $name {
            /// A word holding `value`.
            #[must_use]
            pub const fn new(value: $int) -> Self {
                Self($atomic::new(value))
            }
            /// Relaxed load: the value may be stale.
            #[inline]
            pub fn peek(&self) -> $int {
                self.0.load(Ordering::Relaxed)
            }
            /// [`Self::peek`] of a word that threads of the caller's block alone store.
            #[inline]
            pub fn peek_own(&self) -> $int {
                self.peek()
            }
            /// [`Self::set`] of a word that threads of the caller's block alone use.
            #[inline]
            pub fn set_own(&self, value: $int) {
                self.set(value);
            }
            /// Acquire load.
            #[inline]
            pub fn observe(&self) -> $int {
                self.0.load(Ordering::Acquire)
            }
            /// Relaxed store.
            #[inline]
            pub fn set(&self, value: $int) {
                self.0.store(value, Ordering::Relaxed);
            }
            /// Release store.
            #[inline]
            pub fn publish(&self, value: $int) {
                self.0.store(value, Ordering::Release);
            }
            /// Adds `value` without ordering anything (counters).
            #[inline]
            pub fn count(&self, value: $int) {
                self.0.fetch_add(value, Ordering::Relaxed);
            }
            /// Adds `value` without ordering anything; the value before.
            #[inline]
            pub fn fetch_add_relaxed(&self, value: $int) -> $int {
                self.0.fetch_add(value, Ordering::Relaxed)
            }
            /// Adds `value`, acquire; the value before.
            #[inline]
            pub fn fetch_add_acquire(&self, value: $int) -> $int {
                self.0.fetch_add(value, Ordering::Acquire)
            }
            /// Adds `value`, acquire and release; the value before.
            #[inline]
            pub fn fetch_add(&self, value: $int) -> $int {
                self.0.fetch_add(value, Ordering::AcqRel)
            }
            /// Subtracts `value`, acquire and release; the value before.
            #[inline]
            pub fn fetch_sub(&self, value: $int) -> $int {
                // Not the `fetch_sub` of `core`, which AMDGCN makes a loop of.
                self.0.fetch_add(value.wrapping_neg(), Ordering::AcqRel)
            }
            /// Subtracts `value`, release, and wants no answer.
            #[inline]
            pub fn take_off(&self, value: $int) {
                // Not the `fetch_sub` of `core`, as above.
                self.0.fetch_add(value.wrapping_neg(), Ordering::Release);
            }
            /// Clears `bits`, acquire; the word before. The bits that were set in it are now the caller's.
            #[inline]
            pub fn claim_bits(&self, bits: $int) -> $int {
                self.0.fetch_and(!bits, Ordering::Acquire)
            }
            /// Sets `bits`, release; the word before.
            #[inline]
            pub fn fetch_set_bits(&self, bits: $int) -> $int {
                self.0.fetch_or(bits, Ordering::Release)
            }
            /// Sets `bits`, release.
            #[inline]
            pub fn set_bits(&self, bits: $int) {
                self.0.fetch_or(bits, Ordering::Release);
            }
            /// Sets `bits`. Behind [`release_fence`], a release.
            #[inline]
            pub fn set_bits_fenced(&self, bits: $int) {
                self.set_bits(bits);
            }
            /// Stores `value`. Behind [`release_fence`], a release.
            #[inline]
            pub fn publish_fenced(&self, value: $int) {
                self.publish(value);
            }
            /// Puts `new` where `current` is, acquire; whether it was.
            #[inline]
            pub fn try_acquire(&self, current: $int, new: $int) -> bool {
                self.0.compare_exchange(current, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
            }
            /// Puts `new` where `current` is; the value before. Behind [`release_fence`], a release.
            #[inline]
            pub fn compare_exchange_fenced(&self, current: $int, new: $int) -> $int {
                self.compare_exchange(current, new).unwrap_or_else(|before| before)
            }
            /// Puts `new` where `current` is, acquire and release.
            ///
            /// # Errors
            /// The word's value, acquired, if it is not `current`.
            #[inline]
            pub fn compare_exchange(&self, current: $int, new: $int) -> Result<$int, $int> {
                self.0.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
            }
        }
    };
}

device_word! {
    /// A 32-bit word in device memory.
    DeviceWord, AtomicU32, u32
}
device_word! {
    /// A 64-bit word in device memory.
    DeviceWord64, AtomicU64, u64
}

/// One ring entry (SQE or CQE): plain memory, handed over by the word that publishes it. Its type is a multiple of 16 bytes, and so
/// aligned.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct EntryCell<T>(UnsafeCell<T>);

// SAFETY:
// - the cell has no operation of its own that is safe to call from two threads: `read` and `write` are unsafe and their contract
//   forbids concurrent conflicting access.
unsafe impl<T: Send> Sync for EntryCell<T> {}

/// What is stored at once. `MaybeUninit`, as an entry may have padding.
type Quad = [MaybeUninit<u64>; 2];

impl<T: Copy> EntryCell<T> {
    const QUADS: usize = {
        assert!(size_of::<T>().is_multiple_of(size_of::<Quad>()) && align_of::<T>() >= size_of::<Quad>());
        size_of::<T>() / size_of::<Quad>()
    };

    /// A cell holding `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }
    /// Reads the entry.
    ///
    /// # Safety
    /// No one writes the entry at the same time: the caller has observed the word that published it, and has not yet published
    /// the word that gives it back.
    #[inline]
    pub unsafe fn read(&self) -> T {
        // SAFETY:
        // - the pointer is valid and aligned, coming from the cell
        // - no concurrent writer, by this function's contract
        unsafe { self.0.get().read() }
    }
    /// Writes the entry, in wide words: as a structure, AMDGCN would store it field by field, and each store may cross PCIe alone.
    ///
    /// # Safety
    /// No one reads or writes the entry at the same time: it is the caller's alone until published.
    #[inline]
    pub unsafe fn write(&self, value: T) {
        let to = self.0.get().cast::<Quad>();
        let from = core::ptr::from_ref(&value).cast::<Quad>();
        for index in 0..Self::QUADS {
            // SAFETY:
            // - 16 bytes within `value`, aligned as `QUADS` asserts; any bytes are valid for a `MaybeUninit`
            let quad = unsafe { from.add(index).read() };
            // SAFETY:
            // - 16 bytes within the cell, aligned as `QUADS` asserts
            // - no concurrent reader or writer, by this function's contract
            unsafe { to.add(index).write(quad) };
        }
    }
}

/// [`wake_fence`] among device words alone.
#[inline]
pub fn device_fence() {
    fence(Ordering::SeqCst);
}

/// Makes the exchanges and the fenced stores that follow releases. They are by themselves here.
#[inline]
pub fn release_fence() {}

/// Orders the stores before it against the loads after it: publish, fence, then look whether the other side sleeps. The one
/// place where a sequentially consistent fence is needed; release and acquire alone let the load pass the store.
#[inline]
pub fn wake_fence() {
    fence(Ordering::SeqCst);
}

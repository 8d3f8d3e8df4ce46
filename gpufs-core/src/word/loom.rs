//! The words under loom, which explores the interleavings and weak-memory results of the tests in `tests/loom*.rs`.
#![allow(clippy::disallowed_types, reason = "this file is the one that wraps them")]
#![allow(unsafe_code, reason = "the entry cells")]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

macro_rules! shared_word {
    ($(#[$doc:meta])* $name:ident, $atomic:ident, $int:ident) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $name($atomic);

        impl $name {
            /// A word holding `value`.
            #[must_use]
            pub fn new(value: $int) -> Self {
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
        pub struct $name($atomic);

        impl $name {
            /// A word holding `value`.
            #[must_use]
            pub fn new(value: $int) -> Self {
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
                self.0.fetch_sub(value, Ordering::AcqRel)
            }
            /// Subtracts `value`, release, and wants no answer.
            #[inline]
            pub fn take_off(&self, value: $int) {
                self.0.fetch_sub(value, Ordering::Release);
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
            /// Sets `bits`, relaxed. Behind [`release_fence`], a release.
            #[inline]
            pub fn set_bits_fenced(&self, bits: $int) {
                self.0.fetch_or(bits, Ordering::Relaxed);
            }
            /// Relaxed store. Behind [`release_fence`], a release.
            #[inline]
            pub fn publish_fenced(&self, value: $int) {
                self.set(value);
            }
            /// Puts `new` where `current` is, acquire; whether it was.
            #[inline]
            pub fn try_acquire(&self, current: $int, new: $int) -> bool {
                self.0.compare_exchange(current, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
            }
            /// Puts `new` where `current` is, relaxed; the value before. Behind [`release_fence`], a release.
            #[inline]
            pub fn compare_exchange_fenced(&self, current: $int, new: $int) -> $int {
                let found = self.0.compare_exchange(current, new, Ordering::Relaxed, Ordering::Relaxed);
                found.unwrap_or_else(|before| before)
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

/// One ring entry (SQE or CQE): plain memory, handed over by the word that publishes it.
#[derive(Debug, Default)]
pub struct EntryCell<T>(UnsafeCell<T>);

// SAFETY:
// - the cell has no operation of its own that is safe to call from two threads: `read` and `write` are unsafe and their contract
//   forbids concurrent conflicting access.
unsafe impl<T: Send> Sync for EntryCell<T> {}

impl<T: Copy> EntryCell<T> {
    /// A cell holding `value`.
    #[must_use]
    pub fn new(value: T) -> Self {
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
        unsafe { self.0.with(|entry| entry.read()) }
    }
    /// Writes the entry.
    ///
    /// # Safety
    /// No one reads or writes the entry at the same time: it is the caller's alone until published.
    #[inline]
    pub unsafe fn write(&self, value: T) {
        // SAFETY:
        // - the pointer is valid and aligned, coming from the cell
        // - no concurrent reader or writer, by this function's contract
        unsafe { self.0.with_mut(|entry| entry.write(value)) };
    }
}

/// [`wake_fence`] among device words alone.
#[inline]
pub fn device_fence() {
    fence(Ordering::SeqCst);
}

/// Makes the relaxed changes of device words that follow releases: as on NVPTX, whose words these are made like where back ends differ.
#[inline]
pub fn release_fence() {
    fence(Ordering::AcqRel);
}

/// Orders the stores before it against the loads after it: publish, fence, then look whether the other side sleeps. The one
/// place where a sequentially consistent fence is needed; release and acquire alone let the load pass the store.
#[inline]
pub fn wake_fence() {
    fence(Ordering::SeqCst);
}

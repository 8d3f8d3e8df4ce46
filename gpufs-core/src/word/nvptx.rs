//! The words on NVIDIA GPUs: one PTX instruction each (PTX ISA, "Memory Consistency Model"; sm_70 or newer).
//!
//! `core` atomics do not serve here: the compiler drops the order of a read-modify-write, and Rust cannot say a scope. Each
//! statement below says both:
//!
//! | in the instruction | means |
//! |---|---|
//! | `.relaxed .acquire .release .acq_rel` | the order, for the calling thread; shared words and device words add up, since causality order goes through both scopes |
//! | `.sys` | every thread of the machine, CPUs included: shared words |
//! | `.gpu` | every thread of this GPU: device words. The host touches them only while no kernel runs; kernel boundaries order that |
//! | `.global` | a word lies in global memory: the session's, or a static. One that is put on a lane's stack or into a block's shared memory would be missed; nothing of gpufs does. Without it ptxas writes every atomic twice, one for shared memory, with a branch around both |
//!
//! What the statements tell the compiler:
//!
//! | option | |
//! |---|---|
//! | not `pure` | each is carried out as often as the program says, in order among themselves: a polling load is not hoisted |
//! | not `nomem` | the compiler moves no access to memory that others can reach across it: the order holds for plain accesses too, and a relaxed access is still a barrier to the compiler, which costs little |
//! | `readonly` | relaxed loads only: nothing is written, so values already loaded stay in registers. An acquire must not say it |
//! | `nostack` | PTX has no stack for a statement to touch |
//!
//! An `asm!` statement is not convergent. None needs to be: each concerns the calling lane alone.
#![allow(unsafe_code, reason = "inline assembly")]

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

macro_rules! shared_word {
    ($(#[$doc:meta])* $name:ident, $int:ident, $reg:ident, $bits:literal) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(UnsafeCell<$int>);

        // SAFETY:
        // - every access is one atomic instruction of the PTX memory model
        unsafe impl Sync for $name {}

        impl $name {
            /// A word holding `value`, which must lie in global memory when it is used.
            #[must_use]
            pub const fn new(value: $int) -> Self {
                Self(UnsafeCell::new(value))
            }
            /// Relaxed load: the value may be stale.
            #[inline]
            pub fn peek(&self) -> $int {
                let value;
                // SAFETY:
                // - loads the word behind a valid reference, atomically
                unsafe {
                    asm!(
                        concat!("ld.relaxed.sys.global.u", $bits, " {}, [{}];"),
                        out($reg) value, in(reg64) self.0.get(), options(nostack, readonly)
                    );
                }
                value
            }
            /// Acquire load: what the publisher wrote before is visible after.
            #[inline]
            pub fn observe(&self) -> $int {
                let value;
                // SAFETY:
                // - loads the word behind a valid reference, atomically
                unsafe {
                    asm!(
                        concat!("ld.acquire.sys.global.u", $bits, " {}, [{}];"),
                        out($reg) value, in(reg64) self.0.get(), options(nostack)
                    );
                }
                value
            }
            /// Relaxed store.
            #[inline]
            pub fn set(&self, value: $int) {
                // SAFETY:
                // - stores to the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("st.relaxed.sys.global.u", $bits, " [{}], {};"),
                        in(reg64) self.0.get(), in($reg) value, options(nostack)
                    );
                }
            }
            /// Release store: a thread that observes the value sees what was written before.
            #[inline]
            pub fn publish(&self, value: $int) {
                // SAFETY:
                // - stores to the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("st.release.sys.global.u", $bits, " [{}], {};"),
                        in(reg64) self.0.get(), in($reg) value, options(nostack)
                    );
                }
            }
        }
    };
}

shared_word! {
    /// A 32-bit word in memory shared with the kernel or the host. Plain loads and stores only.
    SharedWord, u32, reg32, "32"
}
shared_word! {
    /// A 64-bit word in memory shared with the host. Plain loads and stores only.
    SharedWord64, u64, reg64, "64"
}

macro_rules! device_word {
    ($(#[$doc:meta])* $name:ident, $int:ident, $reg:ident, $bits:literal) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(UnsafeCell<$int>);

        // SAFETY:
        // - every access is one atomic instruction of the PTX memory model
        unsafe impl Sync for $name {}

        impl $name {
            /// A word holding `value`, which must lie in global memory when it is used.
            #[must_use]
            pub const fn new(value: $int) -> Self {
                Self(UnsafeCell::new(value))
            }
            /// Relaxed load: the value may be stale.
            #[inline]
            pub fn peek(&self) -> $int {
                let value;
                // SAFETY:
                // - loads the word behind a valid reference, atomically
                unsafe {
                    asm!(
                        concat!("ld.relaxed.gpu.global.u", $bits, " {}, [{}];"),
                        out($reg) value, in(reg64) self.0.get(), options(nostack, readonly)
                    );
                }
                value
            }
            /// [`Self::peek`] of a word that threads of the caller's block alone store: its multiprocessor's cache may have it.
            #[inline]
            pub fn peek_own(&self) -> $int {
                let value;
                // SAFETY:
                // - loads the word behind a valid reference, atomically
                unsafe {
                    asm!(
                        concat!("ld.relaxed.cta.global.u", $bits, " {}, [{}];"),
                        out($reg) value, in(reg64) self.0.get(), options(nostack, readonly)
                    );
                }
                value
            }
            /// [`Self::set`] of a word that threads of the caller's block alone use.
            #[inline]
            pub fn set_own(&self, value: $int) {
                // SAFETY:
                // - stores to the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("st.relaxed.cta.global.u", $bits, " [{}], {};"),
                        in(reg64) self.0.get(), in($reg) value, options(nostack)
                    );
                }
            }
            /// Acquire load.
            #[inline]
            pub fn observe(&self) -> $int {
                let value;
                // SAFETY:
                // - loads the word behind a valid reference, atomically
                unsafe {
                    asm!(
                        concat!("ld.acquire.gpu.global.u", $bits, " {}, [{}];"),
                        out($reg) value, in(reg64) self.0.get(), options(nostack)
                    );
                }
                value
            }
            /// Relaxed store.
            #[inline]
            pub fn set(&self, value: $int) {
                // SAFETY:
                // - stores to the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("st.relaxed.gpu.global.u", $bits, " [{}], {};"),
                        in(reg64) self.0.get(), in($reg) value, options(nostack)
                    );
                }
            }
            /// Release store.
            #[inline]
            pub fn publish(&self, value: $int) {
                // SAFETY:
                // - stores to the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("st.release.gpu.global.u", $bits, " [{}], {};"),
                        in(reg64) self.0.get(), in($reg) value, options(nostack)
                    );
                }
            }
            /// Adds `value` without ordering anything (counters). An atomic operation that wants no answer is another instruction (PTX ISA,
            /// "red"), which ptxas does not choose by itself, and whose answer no fence waits for.
            #[inline]
            pub fn count(&self, value: $int) {
                // SAFETY:
                // - changes the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("red.relaxed.gpu.global.add.u", $bits, " [{}], {};"),
                        in(reg64) self.0.get(), in($reg) value, options(nostack)
                    );
                }
            }
            /// Adds `value` without ordering anything; the value before.
            #[inline]
            pub fn fetch_add_relaxed(&self, value: $int) -> $int {
                let before;
                // SAFETY:
                // - changes the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("atom.relaxed.gpu.global.add.u", $bits, " {}, [{}], {};"),
                        out($reg) before, in(reg64) self.0.get(), in($reg) value, options(nostack)
                    );
                }
                before
            }
            /// Adds `value`, acquire; the value before.
            #[inline]
            pub fn fetch_add_acquire(&self, value: $int) -> $int {
                let before;
                // SAFETY:
                // - changes the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("atom.acquire.gpu.global.add.u", $bits, " {}, [{}], {};"),
                        out($reg) before, in(reg64) self.0.get(), in($reg) value, options(nostack)
                    );
                }
                before
            }
            /// Adds `value`, acquire and release; the value before.
            #[inline]
            pub fn fetch_add(&self, value: $int) -> $int {
                let before;
                // SAFETY:
                // - changes the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("atom.acq_rel.gpu.global.add.u", $bits, " {}, [{}], {};"),
                        out($reg) before, in(reg64) self.0.get(), in($reg) value, options(nostack)
                    );
                }
                before
            }
            /// Subtracts `value`, acquire and release; the value before.
            #[inline]
            pub fn fetch_sub(&self, value: $int) -> $int {
                self.fetch_add(value.wrapping_neg())
            }
            /// Subtracts `value`, release, as [`Self::count`] adds.
            #[inline]
            pub fn take_off(&self, value: $int) {
                // SAFETY:
                // - changes the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("red.release.gpu.global.add.u", $bits, " [{}], {};"),
                        in(reg64) self.0.get(), in($reg) value.wrapping_neg(), options(nostack)
                    );
                }
            }
            /// Clears `bits`, acquire; the word before. The bits that were set in it are now the caller's.
            #[inline]
            pub fn claim_bits(&self, bits: $int) -> $int {
                let before;
                // SAFETY:
                // - changes the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("atom.acquire.gpu.global.and.b", $bits, " {}, [{}], {};"),
                        out($reg) before, in(reg64) self.0.get(), in($reg) !bits, options(nostack)
                    );
                }
                before
            }
            /// Sets `bits`, release; the word before.
            #[inline]
            pub fn fetch_set_bits(&self, bits: $int) -> $int {
                let before;
                // SAFETY:
                // - changes the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("atom.release.gpu.global.or.b", $bits, " {}, [{}], {};"),
                        out($reg) before, in(reg64) self.0.get(), in($reg) bits, options(nostack)
                    );
                }
                before
            }
            /// Sets `bits`, release, as [`Self::count`] adds.
            #[inline]
            pub fn set_bits(&self, bits: $int) {
                // SAFETY:
                // - changes the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("red.release.gpu.global.or.b", $bits, " [{}], {};"),
                        in(reg64) self.0.get(), in($reg) bits, options(nostack)
                    );
                }
            }
            /// Sets `bits`, relaxed. Behind [`release_fence`], a release.
            #[inline]
            pub fn set_bits_fenced(&self, bits: $int) {
                // SAFETY:
                // - changes the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("red.relaxed.gpu.global.or.b", $bits, " [{}], {};"),
                        in(reg64) self.0.get(), in($reg) bits, options(nostack)
                    );
                }
            }
            /// Relaxed store. Behind [`release_fence`], a release.
            #[inline]
            pub fn publish_fenced(&self, value: $int) {
                self.set(value);
            }
            /// Puts `new` where `current` is, acquire; whether it was.
            #[inline]
            pub fn try_acquire(&self, current: $int, new: $int) -> bool {
                let before: $int;
                // SAFETY:
                // - changes the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("atom.acquire.gpu.global.cas.b", $bits, " {}, [{}], {}, {};"),
                        out($reg) before, in(reg64) self.0.get(), in($reg) current, in($reg) new, options(nostack)
                    );
                }
                before == current
            }
            /// Puts `new` where `current` is, relaxed; the value before. Behind [`release_fence`], a release.
            #[inline]
            pub fn compare_exchange_fenced(&self, current: $int, new: $int) -> $int {
                let before;
                // SAFETY:
                // - changes the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("atom.relaxed.gpu.global.cas.b", $bits, " {}, [{}], {}, {};"),
                        out($reg) before, in(reg64) self.0.get(), in($reg) current, in($reg) new, options(nostack)
                    );
                }
                before
            }
            /// Puts `new` where `current` is, acquire and release.
            ///
            /// # Errors
            /// The word's value, acquired, if it is not `current`.
            #[inline]
            pub fn compare_exchange(&self, current: $int, new: $int) -> Result<$int, $int> {
                let before;
                // SAFETY:
                // - changes the word behind a valid reference, atomically; the cell allows it
                unsafe {
                    asm!(
                        concat!("atom.acq_rel.gpu.global.cas.b", $bits, " {}, [{}], {}, {};"),
                        out($reg) before, in(reg64) self.0.get(), in($reg) current, in($reg) new, options(nostack)
                    );
                }
                if before == current { Ok(before) } else { Err(before) }
            }
        }
    };
}

device_word! {
    /// A 32-bit word in device memory.
    DeviceWord, u32, reg32, "32"
}
device_word! {
    /// A 64-bit word in device memory.
    DeviceWord64, u64, reg64, "64"
}

/// One ring entry (SQE or CQE): plain memory, handed over by the word that publishes it. Its type is a multiple of 16 bytes, and
/// so aligned: an entry crosses PCIe in accesses of 16 bytes.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct EntryCell<T>(UnsafeCell<T>);

// SAFETY:
// - the cell has no operation of its own that is safe to call from two threads: `read` and `write` are unsafe and their contract
//   forbids concurrent conflicting access.
unsafe impl<T: Send> Sync for EntryCell<T> {}

/// What one access moves. `MaybeUninit`, as an entry may have padding.
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
    /// The kernel writes the same place again each lap, so these are strong loads: neither the compiler nor the first-level
    /// cache may answer with the last lap's bytes.
    ///
    /// # Safety
    /// No one writes the entry at the same time: the caller has observed the word that published it, and has not yet published
    /// the word that gives it back.
    #[inline]
    pub unsafe fn read(&self) -> T {
        let from = self.0.get().cast::<Quad>();
        let mut value = MaybeUninit::<T>::uninit();
        for index in 0..Self::QUADS {
            let (low, high): (MaybeUninit<u64>, MaybeUninit<u64>);
            // SAFETY:
            // - 16 bytes within the cell, aligned to 16 as `QUADS` asserts
            // - no concurrent writer, by this function's contract
            unsafe {
                asm!(
                    "ld.relaxed.sys.global.v2.u64 {{{}, {}}}, [{}];",
                    out(reg64) low, out(reg64) high, in(reg64) from.add(index), options(nostack)
                );
            }
            // SAFETY:
            // - within `value`, aligned as it is
            unsafe { value.as_mut_ptr().cast::<Quad>().add(index).write([low, high]) };
        }
        // SAFETY:
        // - every byte was copied from a valid `T`
        unsafe { value.assume_init() }
    }
    /// Writes the entry.
    ///
    /// # Safety
    /// No one reads or writes the entry at the same time: it is the caller's alone until published.
    #[inline]
    pub unsafe fn write(&self, value: T) {
        let to = self.0.get().cast::<Quad>();
        let from = core::ptr::from_ref(&value).cast::<Quad>();
        for index in 0..Self::QUADS {
            // SAFETY:
            // - within `value`, aligned as it is; any bytes are valid for a `MaybeUninit`
            let [low, high] = unsafe { from.add(index).read() };
            // SAFETY:
            // - 16 bytes within the cell, aligned to 16 as `QUADS` asserts
            // - no concurrent reader or writer, by this function's contract
            unsafe {
                asm!(
                    "st.global.v2.u64 [{}], {{{}, {}}};",
                    in(reg64) to.add(index), in(reg64) low, in(reg64) high, options(nostack)
                );
            }
        }
    }
}

/// [`wake_fence`] among device words alone, for which nothing on its way over the bus is waited for.
#[inline]
pub fn device_fence() {
    // SAFETY:
    // - a fence touches no memory
    unsafe { asm!("fence.sc.gpu;", options(nostack)) };
}

/// Makes the relaxed changes of device words that follow releases, all of them for the price of one.
#[inline]
pub fn release_fence() {
    // SAFETY:
    // - a fence touches no memory
    unsafe { asm!("fence.acq_rel.gpu;", options(nostack)) };
}

/// Orders the stores before it against the loads after it: publish, fence, then look whether the other side sleeps. The one
/// place where a sequentially consistent fence is needed; release and acquire alone let the load pass the store.
#[inline]
pub fn wake_fence() {
    // SAFETY:
    // - a fence touches no memory
    unsafe { asm!("fence.sc.sys;", options(nostack)) };
}

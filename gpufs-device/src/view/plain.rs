//! What elements of a view may be.
#![expect(unsafe_code, reason = "promises about layouts, and words of frames")]

use core::convert::identity;

use gpufs_core::word::{DeviceWord, DeviceWord64};

/// Plain data: numbers, and arrays of them.
///
/// # Safety
/// Any bytes are a valid value, and there is no padding.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($type:ty),*) => { $(
        // SAFETY:
        // - a number, of which any bytes are one
        unsafe impl Plain for $type {}
    )* };
}
plain!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

// SAFETY:
// - one after the other, without padding
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// The largest value that a lane glances at: a longer one is pinned.
pub(super) const GLANCED_MAX: usize = 16;

/// The value at an address, as its words are at some times, each acquired: of pages that others may overwrite meanwhile ([R-CACHE-8]).
///
/// # Safety
/// A frame's bytes lie there; the size is a power of two, at most [`GLANCED_MAX`], and the address a multiple of it.
#[inline]
pub(super) unsafe fn observe<T: Plain>(address: u64) -> T {
    /// Bytes of a value, in whole words.
    #[repr(C, align(16))]
    struct Words([u64; GLANCED_MAX / 8]);
    const { assert!(align_of::<T>() <= align_of::<Words>()) };
    let mut words = Words([0; GLANCED_MAX / 8]);
    if size_of::<T>() < size_of::<u64>() {
        // Within one word of 4 bytes, of which its first come first.
        // SAFETY:
        // - this function's contract: a frame is whole words, aligned
        let word = unsafe { &*((address & !3) as *const DeviceWord) };
        // ORDERING: acquire, device, partner the fence of `Frame::end_edition` and `filled`.
        words.0[0] = u64::from(word.observe() >> (8 * (address & 3)));
    } else {
        for (at, word) in (0..).zip(words.0.iter_mut().take(size_of::<T>() / size_of::<u64>())) {
            // SAFETY:
            // - as above
            let from = unsafe { &*((address + 8 * at) as *const DeviceWord64) };
            // ORDERING: as above.
            *word = from.observe();
        }
    }
    // SAFETY:
    // - a value of that size is no larger than the words, and any bytes are one
    unsafe { core::mem::transmute_copy(&words) }
}

/// Numbers that lanes store to a mapped file: each store is whole, and so is each load beside it.
pub trait Word: Plain + sealed::Sealed {
    /// The number at an address.
    ///
    /// # Safety
    /// A `Self` lies there, aligned, which others touch as this trait does alone.
    #[doc(hidden)]
    unsafe fn load(address: u64) -> Self;
    /// Stores a number there.
    ///
    /// # Safety
    /// As for `load`.
    #[doc(hidden)]
    unsafe fn store(address: u64, value: Self);
}

/// Numbers that lanes add to in a mapped file.
pub trait Sum: Word {
    /// Adds to the number there, wrapping around; what it was.
    ///
    /// # Safety
    /// As for [`Word::load`].
    #[doc(hidden)]
    unsafe fn add(address: u64, value: Self) -> Self;
}

mod sealed {
    /// What this module alone implements.
    pub trait Sealed {}
}

macro_rules! words {
    ($($type:ty, $word:ty, $to:expr, $from:expr;)*) => { $(
        impl sealed::Sealed for $type {}

        impl Word for $type {
            #[inline]
            unsafe fn load(address: u64) -> Self {
                // SAFETY:
                // - this function's contract: a word there, aligned
                let word = unsafe { &*(address as *const $word) };
                // ORDERING: relaxed: lanes that need an order among elements have other means.
                $from(word.peek())
            }
            #[inline]
            unsafe fn store(address: u64, value: Self) {
                // SAFETY:
                // - as above
                let word = unsafe { &*(address as *const $word) };
                // ORDERING: relaxed: the mark behind it is a release ([R-CACHE-6]).
                word.set($to(value));
            }
        }
    )* };
}
words! {
    u32, DeviceWord, identity, identity;
    i32, DeviceWord, i32::cast_unsigned, u32::cast_signed;
    f32, DeviceWord, f32::to_bits, f32::from_bits;
    u64, DeviceWord64, identity, identity;
    i64, DeviceWord64, i64::cast_unsigned, u64::cast_signed;
    f64, DeviceWord64, f64::to_bits, f64::from_bits;
}

macro_rules! sums {
    ($($type:ty, $word:ty, $to:expr, $from:expr;)*) => { $(
        impl Sum for $type {
            #[inline]
            unsafe fn add(address: u64, value: Self) -> Self {
                // SAFETY:
                // - this function's contract: a word there, aligned
                let word = unsafe { &*(address as *const $word) };
                // ORDERING: relaxed: a sum.
                $from(word.fetch_add_relaxed($to(value)))
            }
        }
    )* };
}
sums! {
    u32, DeviceWord, identity, identity;
    i32, DeviceWord, i32::cast_unsigned, u32::cast_signed;
    u64, DeviceWord64, identity, identity;
    i64, DeviceWord64, i64::cast_unsigned, u64::cast_signed;
}

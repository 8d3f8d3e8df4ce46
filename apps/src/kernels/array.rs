//! Arrays in the device's memory, which a kernel gets by address: numbers that nobody writes, and words that all lanes share.
#![expect(unsafe_code, reason = "elements at addresses")]

use gpufs_core::word::{DeviceWord, DeviceWord64};
use gpufs_device::view::Plain;
use gpufs_device::{Errno, portable};

portable! {
    /// Bytes that kernels read and nobody writes meanwhile: an array of whatever lies there.
    #[derive(Clone, Copy, Debug)]
    pub struct Array {
        /// As the device sees it: a multiple of 16.
        address: u64,
        /// How many.
        bytes: u64,
    }
}

impl Array {
    /// The `bytes` bytes at `address`, an address on the device.
    ///
    /// # Safety
    /// As long as kernels use it, the memory is valid, and nobody writes to it. The address is a multiple of 16.
    #[must_use]
    pub const unsafe fn new(address: u64, bytes: u64) -> Self {
        Self { address, bytes }
    }
    /// The part from byte `from` on, a multiple of 16.
    ///
    /// # Errors
    /// `EINVAL`: it does not begin in the array, or at another place.
    pub fn part(&self, from: u64) -> Result<Self, Errno> {
        if from > self.bytes || !from.is_multiple_of(16) {
            return Err(Errno::INVAL);
        }
        Ok(Self { address: self.address + from, bytes: self.bytes - from })
    }
    /// Element `index` of the array as one of `T`.
    ///
    /// # Errors
    /// `EINVAL` beyond the array, as of a view.
    #[inline]
    pub fn get<T: Plain>(&self, index: u64) -> Result<T, Errno> {
        const { assert!(align_of::<T>() <= 16) };
        if index >= self.bytes / size_of::<T>() as u64 {
            return Err(Errno::INVAL);
        }
        let place = (self.address + index * size_of::<T>() as u64) as *const T;
        // SAFETY:
        // - within the array, which is valid and which nobody writes (`Array::new`); aligned as its start is; any bytes are a value
        Ok(unsafe { place.read() })
    }
}

portable! {
    /// Bytes that lanes write and read in turns.
    #[derive(Clone, Copy, Debug)]
    pub struct Cells {
        /// As the device sees it: a multiple of 16.
        address: u64,
        /// How many.
        bytes: u64,
    }
}

impl Cells {
    /// The `bytes` bytes at `address`, an address on the device.
    ///
    /// # Safety
    /// As long as kernels use it, the memory is valid, and nobody else touches it. The address is a multiple of 16.
    #[must_use]
    pub const unsafe fn new(address: u64, bytes: u64) -> Self {
        Self { address, bytes }
    }
    /// The place of element `index`, as one of `T`.
    ///
    /// # Panics
    /// Beyond the last.
    #[inline]
    fn place<T: Plain>(&self, index: u64) -> *mut T {
        const { assert!(align_of::<T>() <= 16) };
        assert!(index < self.bytes / size_of::<T>() as u64, "beyond an array of cells");
        (self.address + index * size_of::<T>() as u64) as *mut T
    }
    /// Element `index` of the array as one of `T`.
    ///
    /// # Safety
    /// What was stored there happened before, and nobody stores there meanwhile.
    ///
    /// # Panics
    /// Beyond the last.
    #[inline]
    #[must_use]
    pub unsafe fn read<T: Plain>(&self, index: u64) -> T {
        // SAFETY:
        // - within the array, which is valid (`Cells::new`), aligned, and not written meanwhile; any bytes are a value
        unsafe { self.place::<T>(index).read() }
    }
    /// Stores element `index`.
    ///
    /// # Safety
    /// Nobody else reads it or stores there meanwhile.
    ///
    /// # Panics
    /// Beyond the last.
    #[inline]
    pub unsafe fn write<T: Plain>(&self, index: u64, value: T) {
        // SAFETY:
        // - within the array, which is valid (`Cells::new`), aligned, and the caller's alone
        unsafe { self.place::<T>(index).write(value) };
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $word:ty) => {
        portable! {
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name {
                /// As the device sees it.
                address: u64,
                /// How many.
                count: u64,
            }
        }

        impl $name {
            /// The `count` words at `address`, an address on the device.
            ///
            /// # Safety
            /// As long as kernels use it, the memory is valid, and everybody touches it by words alone. It is aligned for them.
            #[must_use]
            pub const unsafe fn new(address: u64, count: u64) -> Self {
                Self { address, count }
            }
            /// The word at `index`.
            ///
            /// # Panics
            /// Beyond the last.
            #[inline]
            #[must_use]
            pub fn at(&self, index: u64) -> &$word {
                assert!(index < self.count, "beyond an array of words");
                let place = (self.address + index * size_of::<$word>() as u64) as *const $word;
                // SAFETY:
                // - within the array, which is valid, aligned, and touched as words (`new`)
                unsafe { &*place }
            }
        }
    };
}
words!(
    /// Words of 4 bytes that lanes share.
    Words, DeviceWord
);
words!(
    /// Words of 8 bytes that lanes share.
    Words64, DeviceWord64
);

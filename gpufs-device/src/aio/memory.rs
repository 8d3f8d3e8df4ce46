//! The staging memory of an operation, in few bytes.
//!
//! LLVM moves a value of more than 64 bytes between a thread's places in memory byte by byte on NVPTX, as the PTX of LLVM 22 shows. A [`Pending`] of
//! 72 bytes was moved so at each step on its way; with fewer than 65 a wait begins 0.3 µs earlier.

use gpufs_core::Claim;
use gpufs_core::alloc::Staged;
use static_assertions::const_assert;

use super::{Finished, Pending};
use crate::Fs;

/// The most bytes of a value that is moved in words. The host's [`Fs`] has more than an address, and LLVM moves as it likes there.
const MOVED_IN_WORDS: usize = 64 + size_of::<Fs>() - size_of::<&()>();
const_assert!(size_of::<Option<Result<Pending, gpufs_core::Errno>>>() <= MOVED_IN_WORDS);
const_assert!(size_of::<Option<Result<Finished, gpufs_core::Errno>>>() <= MOVED_IN_WORDS);

/// An `Option<Staged>` of 24 bytes in the place of 40.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    address: u64,
    /// 0 for none: a claim has a bit at least.
    bits: u64,
    word: u32,
    bytes: u32,
}

impl Memory {
    /// None.
    pub(super) const NONE: Self = Self { address: 0, bits: 0, word: 0, bytes: 0 };

    pub(super) const fn new(staged: Option<Staged>) -> Self {
        match staged {
            Some(Staged { claim: Claim { word, bits }, address, bytes }) => {
                Self { address, bits, word, bytes }
            }
            None => Self::NONE,
        }
    }
    /// What it stands for.
    #[inline]
    pub(super) const fn get(self) -> Option<Staged> {
        let Self { address, bits, word, bytes } = self;
        if bits == 0 { None } else { Some(Staged { claim: Claim { word, bits }, address, bytes }) }
    }
    /// The same, and leaves none.
    #[inline]
    pub(super) const fn take(&mut self) -> Option<Staged> {
        core::mem::replace(self, Self::NONE).get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_was_put_in() {
        assert!(Memory::new(None).get().is_none());
        let staged = Staged { claim: Claim { word: 7, bits: 1 << 63 }, address: 0x1000, bytes: 4096 };
        let mut memory = Memory::new(Some(staged));
        let got = memory.take().expect("there is some");
        assert_eq!((got.claim.word, got.claim.bits, got.address, got.bytes), (7, 1 << 63, 0x1000, 4096));
        assert!(memory.get().is_none());
    }
}

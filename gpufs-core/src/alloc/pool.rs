//! Fixed-size buffers in pinned host memory, registered with every ring as one fixed buffer.

use super::free_set::{Claim, FreeSet};

/// What a [`BufferPool`] is made of. Whoever has one can do nothing with it but to read it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct BufferPoolParts {
    /// Address of buffer 0.
    pub base: u64,
    /// Bytes of a buffer: a power of two.
    pub buffer_bytes: u32,
    /// Index under which each ring has registered the whole stretch, or [`BufferPool::UNREGISTERED`].
    pub buffer_index: u32,
    /// Which buffers are free.
    pub free: FreeSet,
}

/// Buffers of one size in one stretch of memory that the device and the kernel reach at the same address.
///
/// ```compile_fail,E0594
/// fn aimed(pool: &mut gpufs_core::alloc::BufferPool) {
///     pool.base = 0x1000;
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct BufferPool {
    parts: BufferPoolParts,
}

impl core::ops::Deref for BufferPool {
    type Target = BufferPoolParts;

    #[inline]
    fn deref(&self) -> &BufferPoolParts {
        &self.parts
    }
}

impl BufferPool {
    /// The pool of these parts.
    ///
    /// # Safety
    /// `base` is 0 where the pool's memory is not reached, or the address of a buffer for each item of `free`, valid on every device that uses
    /// the pool, and for the system, as long as the pool is used; nothing else uses a buffer that is free.
    #[must_use]
    #[expect(unsafe_code, reason = "memory behind an address")]
    pub const unsafe fn new(parts: BufferPoolParts) -> Self {
        Self { parts }
    }
}

impl BufferPool {
    /// `buffer_index` of memory that no ring has registered.
    pub const UNREGISTERED: u32 = u32::MAX;
    /// Buffers that [`BufferPool::claim_bytes`] takes at most.
    pub const BUFFERS_MAX: u32 = 16;

    /// The address of a buffer.
    #[must_use]
    pub const fn address(&self, buffer: u32) -> u64 {
        self.parts.base + buffer as u64 * self.parts.buffer_bytes as u64
    }
    /// The most bytes that one claim holds.
    #[must_use]
    pub const fn most_bytes(&self) -> u64 {
        self.parts.buffer_bytes as u64 * Self::BUFFERS_MAX as u64
    }
    /// Claims neighbouring buffers for `bytes`, or for [`BufferPool::most_bytes`] if that is less; fewer where there is no such run;
    /// `None` if no buffer was found free. One lane. Waits for nothing.
    pub fn claim_bytes(&self, bytes: u64, hint: u32) -> Option<Staged> {
        #[expect(clippy::cast_possible_truncation, reason = "at most BUFFERS_MAX")]
        let mut buffers =
            bytes.div_ceil(u64::from(self.parts.buffer_bytes)).clamp(1, u64::from(Self::BUFFERS_MAX)) as u32;
        buffers = buffers.next_power_of_two();
        // Ends: `buffers` halves.
        while buffers > 0 {
            // One needs no look at what is free first.
            let claim =
                if buffers == 1 { self.free.claim_one(hint) } else { self.free.claim_run(buffers, hint) };
            if let Some(claim) = claim {
                return Some(Staged {
                    claim,
                    address: self.address(claim.item(0)),
                    bytes: buffers * self.parts.buffer_bytes,
                });
            }
            buffers /= 2;
        }
        None
    }
    /// Claims neighbouring buffers for all of `bytes`, at most [`BufferPool::most_bytes`]; `None` if no such run was found free. One lane. Waits
    /// for nothing.
    pub fn claim_whole(&self, bytes: u64, hint: u32) -> Option<Claim> {
        if bytes <= u64::from(self.parts.buffer_bytes) {
            return self.free.claim_one(hint);
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most BUFFERS_MAX")]
        let buffers =
            bytes.div_ceil(u64::from(self.parts.buffer_bytes)).min(u64::from(Self::BUFFERS_MAX)) as u32;
        self.free.claim_run(buffers.next_power_of_two(), hint)
    }
}

/// Neighbouring buffers of a [`BufferPool`], claimed by one lane.
#[derive(Clone, Copy, Debug)]
#[must_use = "a claim that is dropped is never free again"]
pub struct Staged {
    /// What to release.
    pub claim: Claim,
    /// Address of the first byte.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u32,
}

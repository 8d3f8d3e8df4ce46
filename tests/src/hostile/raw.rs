//! Memory of a session for what a kernel that means harm is to do.
#![expect(unsafe_code, reason = "what a hostile kernel does")]

use gpufs_core::session::SessionTables;

/// Memory of the session that no other call uses while one lane attacks: the end of the staging memory, which every ring has registered, and at
/// which that of asynchronous operations lies.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// Its first byte.
    pub base: u64,
    /// Bytes.
    pub bytes: usize,
    /// The index of the registered buffer that holds it.
    pub index: u16,
}

impl Area {
    /// The area of a session.
    #[must_use]
    pub fn of(tables: &SessionTables) -> Self {
        const BUFFERS: u32 = 16;
        let pool = &tables.async_buffers;
        Self {
            // All are free while nothing was started.
            base: pool.address(pool.free.free() - BUFFERS),
            bytes: (BUFFERS * pool.buffer_bytes) as usize,
            index: pool.buffer_index as u16,
        }
    }
    /// Copies bytes to `offset`, and gives their address.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn put(self, offset: usize, bytes: &[u8]) -> u64 {
        assert!(offset + bytes.len() <= self.bytes);
        let to = self.base + offset as u64;
        // SAFETY:
        // - within the pool, which is memory of the session's, and nothing uses this part
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
        to
    }
    /// What lies there.
    #[must_use]
    pub fn all(self) -> Vec<u8> {
        let mut all = vec![0; self.bytes];
        // SAFETY:
        // - within the pool; what the kernel writes meanwhile are bytes
        unsafe { std::ptr::copy_nonoverlapping(self.base as *const u8, all.as_mut_ptr(), all.len()) };
        all
    }
    /// Writes a value of numbers at `offset`.
    pub(super) fn write<T: Copy>(self, offset: usize, value: T) {
        assert!(offset + size_of::<T>() <= self.bytes);
        // SAFETY:
        // - within the pool, as for `put`
        unsafe { ((self.base + offset as u64) as *mut T).write_unaligned(value) };
    }
    /// The value that was written at `offset`, as a kernel that has ended left it.
    pub(super) fn read<T: Copy>(self, offset: usize) -> T {
        assert!(offset + size_of::<T>() <= self.bytes);
        // SAFETY:
        // - within the pool; a value of this type was written there, and a kernel changes numbers of it alone
        unsafe { ((self.base + offset as u64) as *const T).read_unaligned() }
    }
    /// Makes it zeros.
    pub fn clear(self) {
        self.put(0, &vec![0; self.bytes]);
    }
}

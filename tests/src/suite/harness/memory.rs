//! The arena: a registered buffer from which the data of calls is taken; and chunks of device memory, one for each lane that needs one.
#![expect(unsafe_code, reason = "writes and reads registered buffers by their addresses")]

use gpufs_core::word::DeviceWord64;
use gpufs_device::kernel::Shared;
use gpufs_host::Grid;
use gpufs_host::session::Placed;
use gpufs_test_kernels::{Chunk, resolve};

use super::Harness;
use super::calls::{CHUNK_BYTES, rounded};

impl Harness {
    /// Makes sure that so many bytes of the arena are free.
    ///
    /// # Panics
    /// If kernels run and there is less.
    pub fn reserve(&mut self, bytes: usize) {
        if !self.busy {
            self.used = 0;
        }
        if self.arena.len() - self.used >= bytes {
            return;
        }
        assert!(!self.busy, "kernels are running, and {bytes} bytes are not free beside what they use");
        self.arena =
            self.session.register_buffer(bytes.next_power_of_two()).expect("a buffer for the kernels' data");
        self.used = 0;
    }
    /// Takes so many bytes of the arena, which were reserved before. Their address.
    ///
    /// # Panics
    /// If it was not.
    pub fn take(&mut self, bytes: usize) -> u64 {
        let at = self.used;
        self.used += rounded(bytes);
        assert!(self.used <= self.arena.len(), "more than was reserved");
        self.arena.as_ptr() as u64 + at as u64
    }
    /// A copy of `bytes` in the arena.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        let address = self.take(bytes.len());
        // SAFETY:
        // - just taken
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        address
    }
    /// What the arena holds at `address`.
    #[must_use]
    pub fn get(&self, address: u64, bytes: usize) -> Vec<u8> {
        if bytes == 0 {
            return Vec::new();
        }
        // SAFETY:
        // - the arena's, as all that callers ask for was taken from it
        unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }.to_vec()
    }
    /// Writes a plain value where it was taken.
    pub fn write<T: Copy>(&mut self, address: u64, value: T) {
        // SAFETY:
        // - as for `get`; addresses are multiples of 16
        unsafe { (address as *mut T).write(value) };
    }
    /// Reads it.
    #[must_use]
    pub fn read<T: Copy>(&self, address: u64) -> T {
        // SAFETY:
        // - as for `write`
        unsafe { (address as *const T).read() }
    }

    /// Makes sure that so many lanes have chunks of device memory. While no kernel runs.
    ///
    /// # Panics
    /// If the device refuses.
    pub fn prepare_chunks(&mut self, lanes: usize) {
        let missing = lanes.saturating_sub(self.chunks.len());
        if missing == 0 {
            return;
        }
        if !self.is_gpu {
            for _ in 0..missing {
                let chunk = vec![0; CHUNK_BYTES / 8];
                self.chunks.push(chunk.as_ptr() as u64);
                self.host_chunks.push(chunk);
            }
            return;
        }
        assert!(!self.busy, "device memory is placed before kernels run");
        let placed: Vec<Placed<Chunk>> = (0..missing)
            .map(|_| {
                self.session.place(std::array::from_fn(|_| DeviceWord64::new(0))).expect("device memory")
            })
            .collect();
        self.reserve(missing * 16 + missing * 8 + 4096);
        let handles = self.take(missing * size_of::<Shared<Chunk>>());
        for (index, placed) in placed.iter().enumerate() {
            self.write(handles + (index * size_of::<Shared<Chunk>>()) as u64, placed.handle());
        }
        let addresses = self.take(missing * 8);
        let count = missing as u64;
        let grid = Grid { blocks: u32::try_from(missing.div_ceil(64)).expect("a few"), threads: 64 };
        let arguments = resolve::Arguments { chunks: handles, count, addresses };
        self.session.start::<resolve::Entry>(grid, arguments).expect("a launch");
        self.synchronize().expect("the addresses");
        for index in 0..count {
            let address = self.read(addresses + index * 8);
            self.chunks.push(address);
        }
    }
    /// A table of the first so many lanes' chunks, in the arena.
    pub fn chunk_table(&mut self, lanes: usize) -> u64 {
        let table: Vec<u8> = self.chunks[..lanes].iter().flat_map(|address| address.to_ne_bytes()).collect();
        self.put(&table)
    }
}

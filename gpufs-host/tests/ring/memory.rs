//! Ring memory that the device sees at another address than the host.

use std::collections::HashMap;
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use gpufs_core::abi::Sqe;
use gpufs_host::ring::{CpuMemory, MemorySource, Mode, RingMemory, RingService};

use super::client::{Client, kinds, open};

/// Shares memory by mapping it a second time, and keeps account of it.
#[derive(Debug, Default)]
struct Aliased {
    /// Address to bytes, of what is allocated and of what is shared.
    allocated: Mutex<HashMap<usize, usize>>,
    aliases: Mutex<HashMap<usize, (NonNull<u8>, usize)>>,
}

// SAFETY:
// - a pointer to a mapping that belongs to no thread
unsafe impl Send for Aliased {}
// SAFETY:
// - as for `Send`; the tables are locked
unsafe impl Sync for Aliased {}

// SAFETY:
// - memory is `CpuMemory`'s
// - an alias is a second mapping of the same shared pages
unsafe impl MemorySource for Aliased {
    fn allocate(&self, bytes: usize, align: usize) -> io::Result<NonNull<u8>> {
        let memory = CpuMemory.allocate(bytes, align)?;
        self.allocated.lock().unwrap().insert(memory.addr().get(), bytes);
        Ok(memory)
    }
    unsafe fn free(&self, memory: NonNull<u8>, bytes: usize) {
        assert_eq!(self.allocated.lock().unwrap().remove(&memory.addr().get()), Some(bytes));
        assert!(!self.aliases.lock().unwrap().contains_key(&memory.addr().get()), "freed while shared");
        // SAFETY:
        // - from `allocate`, as this function's caller promises and the table shows
        unsafe { CpuMemory.free(memory, bytes) };
    }
    unsafe fn share(&self, memory: NonNull<u8>, bytes: usize) -> io::Result<NonNull<u8>> {
        // SAFETY:
        // - an old size of 0 maps shared pages a second time and leaves the first mapping (`mremap(2)`)
        let alias = unsafe { libc::mremap(memory.as_ptr().cast(), 0, bytes, libc::MREMAP_MAYMOVE) };
        if alias == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let alias = NonNull::new(alias.cast::<u8>()).expect("a mapping is not at 0");
        self.aliases.lock().unwrap().insert(memory.addr().get(), (alias, bytes));
        Ok(alias)
    }
    unsafe fn unshare(&self, memory: NonNull<u8>, bytes: usize) {
        let (alias, mapped) =
            self.aliases.lock().unwrap().remove(&memory.addr().get()).expect("shared before");
        assert_eq!(mapped, bytes);
        // SAFETY:
        // - mapped by `share`, and the device is done with it
        assert_eq!(unsafe { libc::munmap(alias.as_ptr().cast(), bytes) }, 0);
    }
}

#[test]
fn a_device_reaches_the_ring_at_its_own_address() {
    for (name, mut config) in kinds() {
        if config.mode != Mode::Threads && config.memory == RingMemory::Kernel {
            // The kernel's own mappings cannot be mapped a second time from user space.
            continue;
        }
        let aliased = Arc::new(Aliased::default());
        config.source = aliased.clone();
        let Some(ring) = open(name, &config) else { continue };
        assert_ne!(ring.parts().sq_tail, ring.device_parts().sq_tail);
        let service = RingService::start(&[&ring]).unwrap();
        let guard = service.busy();
        let mut client = Client::of(ring.device_parts());
        for _ in 0..200 {
            assert_eq!(client.run(Sqe::nop()), 0);
        }
        drop(guard);
        drop(service);
        drop(ring);
        assert!(aliased.allocated.lock().unwrap().is_empty(), "{name}: the memory was given back");
        assert!(aliased.aliases.lock().unwrap().is_empty());
    }
}

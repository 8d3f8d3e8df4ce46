//! What a closed session leaves to the next one that is opened with the same choices: addresses, and the image of its tables.
//!
//! Code that has kept a handle of a closed session may read its tables at any time (`tables/mod.rs`). So an image is never unmapped, and its
//! head, which is read as plain data, never changes. The head holds the addresses of rings and pools. A later session can have the
//! image only if its addresses are the same: they stay reserved, without memory, and are given out again. The session then compares the
//! head that it would write with the one that is there. So a program that opens and closes sessions for ever has as many images as
//! sessions were open at once. The streams' generations continue, so that a handle of an earlier session names no stream of a later one.
#![expect(unsafe_code, reason = "reserves and maps addresses")]

use std::io;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::image::Image;
use super::mapping::map;
use crate::process::Owner;
use crate::ring::MemorySource;

/// A session's addresses, in the order in which they were asked for, and images.
#[derive(Debug, Default)]
pub(super) struct Estate {
    lots: Mutex<Vec<Lot>>,
    images: Mutex<Vec<Image>>,
}

/// A stretch of addresses: reserved, or with memory while it is taken.
#[derive(Debug)]
struct Lot {
    address: usize,
    bytes: usize,
    taken: bool,
}

const NO_MEMORY: i32 = libc::MAP_PRIVATE | libc::MAP_NORESERVE;

impl Estate {
    fn lots(&self) -> MutexGuard<'_, Vec<Lot>> {
        self.lots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The images that no session uses. The estate's session, one at a time.
    pub(super) fn images(&self) -> MutexGuard<'_, Vec<Image>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing of it is in use.
    fn is_free(&self) -> bool {
        self.lots().iter().all(|lot| !lot.taken)
    }
}

// SAFETY:
// - a lot is given to one caller at a time, and mapped again, zeroed, each time; addresses are reserved meanwhile, so nothing else gets them
// - sharing changes nothing: the lanes are threads of this process
unsafe impl MemorySource for Estate {
    fn allocate(&self, bytes: usize, align: usize) -> io::Result<NonNull<u8>> {
        if align > 4096 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let place = self.place(bytes)?.ok_or(io::ErrorKind::OutOfMemory)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY:
        // - reserved above
        let mapped = unsafe { map(Some(place.as_ptr().expose_provenance()), bytes, protection, flags) };
        if mapped.is_err() {
            // SAFETY:
            // - as above; nothing has it
            unsafe { self.give_back_place(place, bytes) };
        }
        mapped
    }
    unsafe fn free(&self, memory: NonNull<u8>, bytes: usize) {
        // SAFETY:
        // - this function's contract
        unsafe { self.give_back_place(memory, bytes) };
    }
    unsafe fn share(&self, memory: NonNull<u8>, _bytes: usize) -> io::Result<NonNull<u8>> {
        Ok(memory)
    }
    unsafe fn unshare(&self, _memory: NonNull<u8>, _bytes: usize) {}

    fn place(&self, bytes: usize) -> io::Result<Option<NonNull<u8>>> {
        let mut lots = self.lots();
        if let Some(lot) = lots.iter_mut().find(|lot| !lot.taken && lot.bytes == bytes) {
            lot.taken = true;
            return Ok(NonNull::new(ptr::with_exposed_provenance_mut(lot.address)));
        }
        // SAFETY:
        // - at no particular place
        let reserved = unsafe { map(None, bytes, libc::PROT_NONE, NO_MEMORY) }?;
        lots.push(Lot { address: reserved.as_ptr().expose_provenance(), bytes, taken: true });
        Ok(Some(reserved))
    }

    unsafe fn give_back_place(&self, place: NonNull<u8>, bytes: usize) {
        let address = place.as_ptr().expose_provenance();
        // SAFETY:
        // - the caller's, and no longer used, by this function's contract
        let reserved = unsafe { map(Some(address), bytes, libc::PROT_NONE, NO_MEMORY) }.is_ok();
        let mut lots = self.lots();
        let Some(index) = lots.iter().position(|lot| lot.address == address && lot.bytes == bytes) else {
            return;
        };
        if reserved {
            lots[index].taken = false;
        } else {
            lots.remove(index);
            // SAFETY:
            // - as above, and no caller will be given it again
            unsafe { libc::munmap(place.as_ptr().cast(), bytes) };
        }
    }
}

/// The estates of closed sessions, by the choices that the sessions were opened with.
#[derive(Debug, Default)]
struct Estates(Mutex<Vec<(String, Arc<Estate>)>>);

impl Estates {
    fn of(owner: Owner) -> MutexGuard<'static, Vec<(String, Arc<Estate>)>> {
        owner.process().part::<Self>().0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's estate, while it has it.
#[derive(Debug)]
pub(super) struct Lease {
    estate: Arc<Estate>,
    owner: Owner,
    choices: String,
}

impl Lease {
    /// An estate for a session with these choices: one that such a session has left, or a new one.
    pub(super) fn new(owner: Owner, choices: String) -> Self {
        let mut left = Estates::of(owner);
        let place = left.iter().rposition(|(theirs, _)| *theirs == choices);
        let estate = place.map_or_else(Arc::default, |place| left.remove(place).1);
        drop(left);
        Self { estate, owner, choices }
    }
    pub(super) const fn owner(&self) -> Owner {
        self.owner
    }
    pub(super) const fn estate(&self) -> &Arc<Estate> {
        &self.estate
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Memory that something in flight may still use stays where it is, and the estate with it.
        if self.owner.is_here() && self.estate.is_free() {
            let mut left = Estates::of(self.owner);
            left.push((std::mem::take(&mut self.choices), Arc::clone(&self.estate)));
        }
    }
}

//! Values that the host places in the device's memory, for kernels to share, and reads back.
#![expect(unsafe_code, reason = "copies values as bytes")]

use std::any::TypeId;
use std::collections::HashMap;
use std::io;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpufs_core::kernel::{Portable, Shared};

use super::{Body, Owner};

/// A value in the device's memory. Kernels get its [`Placed::handle`]; the host reads it with [`Session::fetch`](super::Session::fetch).
#[derive(Debug)]
pub struct Placed<T: 'static> {
    handle: Shared<T>,
    /// The number of the session that placed it.
    session: u64,
    place: Place,
    of: PhantomData<T>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// On CPU lanes: its address. The memory is never freed, because kernel code may keep the handle; later sessions place values of the
    /// same type there.
    Host(usize),
    /// An entry of the session's `placed`, which are freed with it.
    Device(usize),
}

impl<T: Portable> Placed<T> {
    /// What to hand to kernels.
    #[must_use]
    pub fn handle(&self) -> Shared<T> {
        self.handle
    }
    /// Where it lies, if that is memory of the host's, which is never freed.
    pub(super) const fn on_host(&self) -> Option<usize> {
        match self.place {
            Place::Host(address) => Some(address),
            Place::Device(_) => None,
        }
    }
}

/// Addresses of values that closed sessions had placed for CPU lanes, by type.
#[derive(Debug, Default)]
struct Rooms(Mutex<HashMap<TypeId, Vec<usize>>>);

impl Rooms {
    fn of(owner: Owner) -> MutexGuard<'static, HashMap<TypeId, Vec<usize>>> {
        owner.process().part::<Self>().0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Body {
    /// Places a value in the host's memory: in room for its type that a closed session has left, or else in new memory. Its address.
    fn place_on_host<T: Portable>(&mut self, value: T) -> usize {
        let mut left = Rooms::of(self.lease.owner());
        let address = match left.get_mut(&TypeId::of::<T>()).and_then(Vec::pop) {
            Some(address) => {
                // SAFETY:
                // - a `T` lies there, whose session is closed; nothing is done when it is dropped (`Portable`)
                unsafe { copy_words(&raw const value, std::ptr::with_exposed_provenance_mut(address)) };
                address
            }
            None => Box::into_raw(Box::new(value)).expose_provenance(),
        };
        drop(left);
        self.values.push((TypeId::of::<T>(), address));
        address
    }

    /// Leaves the room of the values that this session has placed on the host to later sessions.
    pub(super) fn give_back_values(&mut self) {
        let mut left = Rooms::of(self.lease.owner());
        for (kind, address) in self.values.drain(..).rev() {
            left.entry(kind).or_default().push(address);
        }
    }

    /// `Session::place`.
    pub(super) fn place<T: Portable>(&mut self, value: T) -> io::Result<Placed<T>> {
        let session = self.tables.device_address;
        let bytes = size_of::<T>().max(1);
        let (address, place) = match self.backend.device_memory(bytes)? {
            None => {
                let address = self.place_on_host(value);
                (address as u64, Place::Host(address))
            }
            Some(memory) => {
                let image = std::mem::ManuallyDrop::new(value);
                // SAFETY:
                // - the value is alive; the driver copies padding without reading it as a value
                let image = unsafe {
                    std::slice::from_raw_parts(std::ptr::from_ref(&image).cast::<u8>(), size_of::<T>())
                };
                memory.write(image)?;
                let address = memory.address();
                self.placed.push(memory);
                (address, Place::Device(self.placed.len() - 1))
            }
        };
        // SAFETY:
        // - placed just now; on CPU lanes there stays a value of this type, and later sessions write there that have other numbers; on a GPU it is
        //   freed with the session, which waits for its kernels
        let handle = unsafe { Shared::new(session, address, self.number) };
        Ok(Placed { handle, session: self.number, place, of: PhantomData })
    }

    /// `Session::fetch`.
    pub(super) fn fetch<T: Portable>(&mut self, placed: &Placed<T>) -> io::Result<T> {
        self.state.check_idle()?;
        is_ours(placed.session, self.number)?;
        let _alone = self.alone();
        let mut value = std::mem::MaybeUninit::<T>::uninit();
        match placed.place {
            Place::Host(address) => {
                // SAFETY:
                // - placed there by this session, a `T`, whose bytes may be copied (`Portable`); `value` has room for one
                unsafe { copy_words(std::ptr::with_exposed_provenance::<T>(address), value.as_mut_ptr()) };
            }
            Place::Device(index) => {
                value = std::mem::MaybeUninit::zeroed();
                // SAFETY:
                // - as many bytes as the value has, zeroed above, and nothing else refers to them
                let image = unsafe {
                    std::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>())
                };
                self.placed.get(index).expect("as many as were placed").read(image)?;
            }
        }
        // SAFETY:
        // - written above: a copy of a `T`
        Ok(unsafe { value.assume_init() })
    }
}

/// Whether what a session with the number `theirs` made is this session's, `ours`.
///
/// # Errors
/// It is not.
pub(super) fn is_ours(theirs: u64, ours: u64) -> io::Result<()> {
    if theirs == ours {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "another session made this value or buffer: ask the session that did, while it is open",
    ))
}

/// Copies a value word by word, from its start. A kernel may have kept the value's address, and change its words, unsafely: each is
/// read or written whole, and what a [`Handoff`](gpufs_device::kernel::Handoff) says of its value is read before the value.
///
/// # Safety
/// Both pointers are aligned, `from` is valid for reads of a `T`, and `to` for writes.
unsafe fn copy_words<T: Portable>(from: *const T, to: *mut T) {
    /// The smallest word that kernels change.
    type Word = std::mem::MaybeUninit<u32>;
    if align_of::<T>() < align_of::<Word>() {
        // It holds no word.
        // SAFETY:
        // - this function's contract
        unsafe { to.copy_from_nonoverlapping(from, 1) };
        return;
    }
    let (from, to) = (from.cast::<Word>(), to.cast::<Word>());
    for index in 0..size_of::<T>() / size_of::<Word>() {
        // Within the value, whose size is a multiple of its alignment.
        let (from, to) = (from.wrapping_add(index), to.wrapping_add(index));
        // SAFETY:
        // - valid and aligned, by this function's contract; padding may be anything
        let word = unsafe { from.read_volatile() };
        // SAFETY:
        // - as above
        unsafe { to.write_volatile(word) };
    }
}

//! Values that the host places in the device's memory, for kernels to share, and reads back.
#![allow(unsafe_code, reason = "copies values as bytes")]

use std::io;
use std::marker::PhantomData;

use gpufs_core::kernel::{Portable, Shared};

use super::Body;

/// A value in the device's memory. Kernels get its [`Placed::handle`]; the host reads it with [`Session::fetch`].
#[derive(Debug)]
pub struct Placed<T: 'static> {
    handle: Shared<T>,
    place: Place,
    of: PhantomData<T>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// On CPU lanes: its address. It is never freed: a kernel's code may keep the handle, as it may keep a stream's.
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
}

impl Body {
    /// `Session::place`.
    pub(super) fn place<T: Portable>(&mut self, value: T) -> io::Result<Placed<T>> {
        let session = self.tables.device_address;
        let bytes = size_of::<T>().max(1);
        let (address, place) = match self.backend.device_memory(bytes)? {
            None => {
                let address = Box::into_raw(Box::new(value)).expose_provenance();
                (address as u64, Place::Host(address))
            }
            Some(memory) => {
                let image = std::mem::ManuallyDrop::new(value);
                // SAFETY:
                // - the value is alive; where it has padding, the driver copies that unseen
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
        // - placed just now; on CPU lanes never freed, on a GPU freed with the session, which waits for its kernels
        let handle = unsafe { Shared::new(session, address) };
        Ok(Placed { handle, place, of: PhantomData })
    }

    /// `Session::fetch`.
    pub(super) fn fetch<T: Portable>(&mut self, placed: &Placed<T>) -> io::Result<T> {
        self.check_idle()?;
        let mut value = std::mem::MaybeUninit::<T>::uninit();
        match placed.place {
            // SAFETY:
            // - placed there and never freed; no kernel runs, so nobody writes it, and its bytes may be copied (`Portable`)
            Place::Host(address) => unsafe {
                value.write(std::ptr::with_exposed_provenance::<T>(address).read());
            },
            Place::Device(index) => {
                // SAFETY:
                // - as many bytes as the value has, all of which the copy writes
                let image = unsafe {
                    std::ptr::write_bytes(value.as_mut_ptr(), 0, 1);
                    std::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>())
                };
                self.placed.get(index).expect("a value of this session").read(image)?;
            }
        }
        // SAFETY:
        // - written above: a copy of a `T`
        Ok(unsafe { value.assume_init() })
    }
}

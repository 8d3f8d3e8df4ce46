//! Views for reading and writing.
#![expect(unsafe_code, reason = "loads and stores words of frames")]

use core::marker::PhantomData;

use gpufs_core::Errno;
use gpufs_core::session::FileIndex;

use super::check_caller;
use super::mapping::{MappingMut, check};
use super::plain::{Sum, Word};
use super::window::{There, Window};
use crate::Fs;

/// Numbers of a mapped file, for reading and writing, in one lane. Ends with the call that lends it.
#[expect(missing_debug_implementations, reason = "a lane's own, and of no use outside")]
pub struct ViewMut<'v, T> {
    there: There,
    window: &'v Window<'v>,
    of: PhantomData<T>,
}

impl Fs {
    /// What `look` makes of `count` numbers of a file that is mapped for writing, from `offset` (bytes from the start) on. Any lane. The view ends
    /// with `look`.
    ///
    /// # Errors
    /// As [`Fs::view`].
    pub fn view_mut<T: Word, R>(
        self,
        mapping: MappingMut,
        offset: u64,
        count: u64,
        look: impl for<'v> FnOnce(&ViewMut<'v, T>) -> R,
    ) -> Result<R, Errno> {
        check_caller(self)?;
        let mapping = check(self.session(), mapping.entry(), true)?;
        let window = Window::new(self, mapping, offset, count, size_of::<T>() as u64)?;
        Ok(look(&ViewMut { there: window.there(), window: &window, of: PhantomData }))
    }
}

impl<T: Word> ViewMut<'_, T> {
    const SIZE: u64 = size_of::<T>() as u64;

    /// How many numbers.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.window.bytes() / Self::SIZE
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The number at `index`, as some lane stored it last, in relaxed order. Any lane.
    ///
    /// # Errors
    /// As [`View::get`](super::View::get); what writing another page met, where that had to go first.
    #[inline]
    pub fn get(&self, index: u64) -> Result<T, Errno> {
        let load = |address| {
            // SAFETY:
            // - within the frame, and as far as its file had bytes; it stays during the call
            // - a multiple of the size, and so aligned; a mapping for writing is touched by words alone
            unsafe { T::load(address) }
        };
        match self.there.address_of(index, Self::SIZE) {
            Some(address) => Ok(load(address)),
            None => self.window.load(index, load),
        }
    }
    /// Stores `value` at `index`, whole. Any lane. It is in the file after [`ViewMut::flush`] (see [`crate::view`]).
    ///
    /// # Errors
    /// As [`ViewMut::get`].
    #[inline]
    pub fn set(&self, index: u64, value: T) -> Result<(), Errno> {
        self.window.store(index, Self::SIZE, |address| {
            // SAFETY:
            // - as in `get`
            unsafe { T::store(address, value) }
        })
    }
    /// Writes every dirty page of the mapping to its file, whichever lane stored to it: returns when every store that came before is there for other
    /// readers. Any lane; lanes that call together share the work.
    ///
    /// # Errors
    /// What a write of the lane's share met: `ENOSPC`, `EFBIG`, `EIO` … The page stays dirty.
    pub fn flush(&self) -> Result<(), Errno> {
        self.window.flush()
    }
    /// [`ViewMut::flush`], and then `fdatasync(2)`: as `msync(2)` with `MS_SYNC`.
    ///
    /// # Errors
    /// As [`ViewMut::flush`] and [`Fs::fdatasync`].
    pub fn sync(&self) -> Result<(), Errno> {
        let flushed = self.flush();
        let mapping = &self.window.fs().session().cache.mappings()[self.window.mapping() as usize];
        // ORDERING: relaxed: constant while kernels run.
        let synced = self.window.fs().fdatasync(FileIndex(mapping.file.peek()));
        flushed.and(synced)
    }
}

impl<T: Sum> ViewMut<'_, T> {
    /// Adds `value` at `index`, wrapping around, as one step among those of all lanes; what it was. Any lane.
    ///
    /// # Errors
    /// As [`ViewMut::get`].
    #[inline]
    pub fn add(&self, index: u64, value: T) -> Result<T, Errno> {
        self.window.store(index, Self::SIZE, |address| {
            // SAFETY:
            // - as in `get`
            unsafe { T::add(address, value) }
        })
    }
}

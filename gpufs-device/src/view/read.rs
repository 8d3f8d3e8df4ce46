//! Views for reading.
#![expect(unsafe_code, reason = "reads frames")]

use core::marker::PhantomData;
use core::ops::Deref;

use gpufs_core::Errno;
use gpufs_core::cache::FrameIndex;
use gpufs_core::session::FileIndex;

use super::check_caller;
use super::mapping::{Mapping, check};
use super::plain::Plain;
use super::window::Window;
use crate::Fs;
use crate::file::POSIX_FADV_WILLNEED;

/// Elements of a mapped file, for reading, in one lane. Ends with the call that lends it.
#[expect(missing_debug_implementations, reason = "a lane's own, and of no use outside")]
pub struct View<'v, T> {
    window: Window<'v>,
    of: PhantomData<T>,
}

impl Fs {
    /// What `look` makes of `count` elements of a mapped file, from `offset` (bytes from the start) on. Any lane. The view ends with `look`:
    ///
    /// ```compile_fail
    /// use gpufs_device::view::{Mapping, Pin};
    /// use gpufs_device::Fs;
    ///
    /// fn keep(fs: Fs, numbers: Mapping) -> Pin<'static, u64> {
    ///     fs.view::<u64, _>(numbers, 0, 512, |view| view.pin(0, 512).unwrap()).unwrap()
    /// }
    /// ```
    ///
    /// # Errors
    /// `EBADF` where the file is not mapped (any more); `EINVAL` where `offset` is no multiple of an element's size, that size is no power of two or
    /// larger than a page, or the range ends beyond what a file may have; `EOPNOTSUPP` where the caller is no lane of the session's kernels.
    pub fn view<T: Plain, R>(
        self,
        mapping: Mapping,
        offset: u64,
        count: u64,
        look: impl for<'v> FnOnce(&View<'v, T>) -> R,
    ) -> Result<R, Errno> {
        const { assert!(align_of::<T>() <= 16 && size_of::<T>() > 0, "frames begin at multiples of 16") };
        check_caller(self)?;
        let mapping = check(self.session(), mapping.entry(), false)?;
        let window = Window::new(self, mapping, offset, count, size_of::<T>() as u64)?;
        Ok(look(&View { window, of: PhantomData }))
    }
}

impl<T: Plain> View<'_, T> {
    /// How many elements.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.window.bytes() / size_of::<T>() as u64
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// How many elements from `index` on, within the view, lie in the page of that one: so many can be pinned from there. 0 beyond the view.
    #[must_use]
    pub fn rest_of_page(&self, index: u64) -> u64 {
        self.window.rest_of_page(index, size_of::<T>() as u64)
    }
    /// The element at `index`. Any lane; brings its page where it has to.
    ///
    /// # Errors
    /// `EINVAL` beyond the view; `ENXIO` where the file has no such bytes; what reading the page met: `EIO`, `EBADF` …
    #[inline]
    pub fn get(&self, index: u64) -> Result<T, Errno> {
        self.window.load(index, |address| {
            // SAFETY:
            // - within the frame, and as far as its file had bytes; it stays during the call
            // - a multiple of the size, and so aligned
            // - of a mapping for reading, which nobody stores to; any bytes are a value
            unsafe { (address as *const T).read() }
        })
    }
    /// The elements from `first` on as a slice, for loads at the speed of memory: its page stays as long as the pin. They lie in one page.
    /// Any lane; lanes that pin the same page keep one.
    ///
    /// A slice ends with its pin:
    ///
    /// ```compile_fail,E0505
    /// use gpufs_device::view::View;
    ///
    /// fn outlive(view: &View<'_, u64>) -> u64 {
    ///     let pin = view.pin(0, 512).unwrap();
    ///     let slice = &pin[..];
    ///     drop(pin);
    ///     slice[0]
    /// }
    /// ```
    /// ```compile_fail,E0594
    /// use gpufs_device::view::View;
    ///
    /// fn store(view: &View<'_, u64>) {
    ///     let mut pin = view.pin(0, 512).unwrap();
    ///     pin[0] = 1;
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`View::get`]; `EINVAL` also where they lie in two pages; `EBUSY` where too many pages are kept (see [`crate::view`]).
    pub fn pin(&self, first: u64, count: usize) -> Result<Pin<'_, T>, Errno> {
        let size = size_of::<T>() as u64;
        let bytes = (count as u64).checked_mul(size).ok_or(Errno::INVAL)?;
        let (frame, address) = self.window.guard(first.checked_mul(size), bytes)?;
        Ok(Pin { window: &self.window, frame, address, count, of: PhantomData })
    }
    /// Has the system read `count` elements from `first` on ahead, and does not wait for it: a later miss finds them in the page cache
    /// (`posix_fadvise(2)`, `POSIX_FADV_WILLNEED`). They do not come to device memory before they are touched.
    ///
    /// # Errors
    /// `EINVAL` beyond the view; as [`Fs::posix_fadvise`].
    pub fn prefetch(&self, first: u64, count: u64) -> Result<(), Errno> {
        if first.checked_add(count).is_none_or(|end| end > self.len()) {
            return Err(Errno::INVAL);
        }
        let size = size_of::<T>() as u64;
        let mapping = &self.window.fs().session().cache.mappings()[self.window.mapping() as usize];
        // ORDERING: relaxed: constant while kernels run.
        let file = FileIndex(mapping.file.peek());
        let (offset, bytes) = (self.window.offset() + first * size, count * size);
        self.window.fs().posix_fadvise(file, offset, bytes, POSIX_FADV_WILLNEED)
    }
}

/// Elements of a page that stays as long as this.
#[must_use = "the page stays as long as this"]
#[expect(missing_debug_implementations, reason = "a lane's own, and of no use outside")]
pub struct Pin<'p, T> {
    window: &'p Window<'p>,
    frame: FrameIndex,
    address: u64,
    count: usize,
    of: PhantomData<&'p T>,
}

impl<T: Plain> Deref for Pin<'_, T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY:
        // - `count` elements within the frame, as far as its file had bytes, aligned; any bytes are values
        // - guarded as long as this, and of a mapping for reading, which nobody stores to
        unsafe { core::slice::from_raw_parts(self.address as *const T, self.count) }
    }
}

impl<T> Pin<'_, T> {
    /// Where the elements lie. The page stays until [`Fs::unpin`] is given that, or the kernel has ended.
    #[doc(hidden)]
    #[must_use = "the page stays"]
    pub fn into_address(self) -> u64 {
        core::mem::ManuallyDrop::new(self).address
    }
}

impl Fs {
    /// Ends a pin whose address [`Pin::into_address`] gave.
    ///
    /// # Errors
    /// `EINVAL` for an address of no page that is kept.
    ///
    /// # Safety
    /// The pin is the caller's to end, once.
    #[doc(hidden)]
    pub unsafe fn unpin(self, address: u64) -> Result<(), Errno> {
        check_caller(self)?;
        let frame = self.session().cache.frame_at(address).ok_or(Errno::INVAL)?;
        let frame = self.session().cache.frame(frame);
        if frame.seen().guards() == 0 {
            return Err(Errno::INVAL);
        }
        frame.unguard(1);
        Ok(())
    }
}

impl<T> Drop for Pin<'_, T> {
    fn drop(&mut self) {
        self.window.unguard(self.frame);
    }
}

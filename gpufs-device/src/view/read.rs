//! Views for reading.
#![expect(unsafe_code, reason = "reads frames")]

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Deref;

use gpufs_core::Errno;
use gpufs_core::cache::{FrameIndex, Key};
use gpufs_core::session::FileIndex;

use super::check_caller;
use super::mapping::{Mapping, check};
use super::plain::Plain;
use super::window::{STAYS, There, Window};
use crate::Fs;
use crate::file::POSIX_FADV_WILLNEED;

/// Elements of a mapped file, for reading, in one lane. Ends with the call that lends it.
#[expect(missing_debug_implementations, reason = "a lane's own, and of no use outside")]
pub struct View<'v, T> {
    there: There,
    window: &'v Window<'v>,
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
        Ok(look(&View { there: window.there(), window: &window, of: PhantomData }))
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
    /// How many elements from `index` on, within the view, can be pinned from there: those that lie in the page of that one, or, of a file that was
    /// there as a whole when the view began, all that follow. 0 beyond the view.
    #[inline]
    #[must_use]
    pub fn rest_of_page(&self, index: u64) -> u64 {
        match self.there.rest(index) {
            0 => self.window.rest_of_page(index, size_of::<T>() as u64),
            rest => rest,
        }
    }
    /// The element at `index`. Any lane; brings its page where it has to.
    ///
    /// # Errors
    /// `EINVAL` beyond the view; `ENXIO` where the file has no such bytes; what reading the page met: `EIO`, `EBADF` …
    #[inline]
    pub fn get(&self, index: u64) -> Result<T, Errno> {
        let read = |address| {
            // SAFETY:
            // - within the frame, and as far as its file had bytes; it stays during the call
            // - a multiple of the size, and so aligned
            // - of a mapping for reading, which nobody stores to; any bytes are a value
            // - or `value`, below, whose address is exposed, and where a value or zeros were left
            unsafe { (address as *const T).read() }
        };
        let mut value = MaybeUninit::uninit();
        let there = self.there.address_of(index, size_of::<T>() as u64);
        if size_of::<T>() == size_of::<Errno>() {
            let (address, failed) = match there {
                Some(address) => (address, None),
                None => {
                    let failed = self.window.load_apart(index, read, &mut value);
                    (value.as_ptr().expose_provenance() as u64, failed)
                }
            };
            // One load for all ways, also of the zeros that are there where it failed. Else an error and a value of its size would be one for
            // compilers from there on, which a loop copies before its next load, and waits for.
            let found = read(address);
            return failed.map_or(Ok(found), Err);
        }
        // For others that would be done in memory.
        let address = match there {
            Some(address) => address,
            None => match self.window.load_apart(index, read, &mut value) {
                None => value.as_ptr().expose_provenance() as u64,
                Some(errno) => return Err(errno),
            },
        };
        Ok(read(address))
    }
    /// The elements from `first` on as a slice, for loads at the speed of memory: its page stays as long as the pin. They lie in one page, as far as
    /// [`View::rest_of_page`] says. Any lane; lanes that pin the same page keep one.
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
    /// As [`View::get`]; `EINVAL` also where they lie in two pages, unless the file was there as a whole; `EBUSY` where too many pages are kept
    /// (see [`crate::view`]).
    #[inline]
    pub fn pin(&self, first: u64, count: usize) -> Result<Pin<'_, T>, Errno> {
        let size = size_of::<T>() as u64;
        let end = first.checked_add(count as u64).ok_or(Errno::INVAL)?;
        let (frame, address) = match self.there.address_before(first, end, size) {
            Some(address) => (STAYS, address),
            None => self.window.guard(first, count as u64, size)?,
        };
        Ok(Pin { window: self.window, frame, address, count, of: PhantomData })
    }
    /// All elements as a slice, where the file was there as a whole when the view began: for loads as of any other memory.
    ///
    /// ```
    /// use gpufs_device::Errno;
    /// use gpufs_device::view::View;
    ///
    /// fn largest(view: &View<'_, u64>) -> Result<u64, Errno> {
    ///     if let Some(numbers) = view.whole() {
    ///         return Ok(numbers.iter().copied().max().unwrap_or(0));
    ///     }
    ///     (0..view.len()).try_fold(0, |largest, at| Ok(view.get(at)?.max(largest)))
    /// }
    /// ```
    #[must_use]
    pub fn whole(&self) -> Option<&[T]> {
        if self.is_empty() {
            return Some(&[]);
        }
        let address = self.there.address_before(0, self.len(), size_of::<T>() as u64)?;
        // SAFETY:
        // - as many elements one behind the other, in frames that stay as long as the kernel runs, aligned; any bytes are values
        // - of a mapping for reading, which nobody stores to
        Some(unsafe { core::slice::from_raw_parts(address as *const T, self.len() as usize) })
    }
    /// How many elements, from the first on, are in device memory and stay there while the kernel runs, and where the first is.
    #[doc(hidden)]
    #[must_use]
    pub fn there(&self) -> (u64, u64) {
        self.there.all()
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
        // - `count` elements within the frame, or those of a file that is there as a whole, as far as it had bytes, aligned; any bytes are values
        // - guarded as long as this, or staying by itself, and of a mapping for reading, which nobody stores to
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
        let cache = &self.session().cache;
        let frame = cache.frame(cache.frame_at(address).ok_or(Errno::INVAL)?);
        if Key::from_word(frame.key()).is_some_and(|key| cache.has_own(key)) && frame.settled().is_some() {
            return Ok(());
        }
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

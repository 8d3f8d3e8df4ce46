//! What every view is: a range of a mapped file, and the page that the lane used last.
//!
//! An access takes the first way that leads to its page:
//!
//! | way | when | what it costs |
//! |---|---|---|
//! | the frames of the file, one behind the other ([R-CACHE-9]) | all of the file was there when the view began | a compare and a load |
//! | the page that the view remembers | it was used before, or is the next one, or has a frame of its own | a compare and a load |
//! | the page's own frame ([R-CACHE-9]) | it is there | two loads |
//! | a glance ([R-CACHE-8]) | a load of a page that is there | four loads, nothing is stored |
//! | a visit | what is not there, or changes; stores | a pin, and whatever brings the page |
//!
//! The first is made in the caller's code, of two numbers that a view has beside its window ([`There`]). All others are made in functions of
//! their own, so that their registers are not the caller's: what a loop has would be put into memory around them.

use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use gpufs_core::Errno;
use gpufs_core::cache::{Cache, FrameIndex, Key, Layout};
use gpufs_core::session::SessionTables;

use super::flush;
#[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
use super::pages;
use super::plain::{GLANCED_MAX, Plain, observe};
use super::reach::{GUARDED, Kept, OF_OWN, OWN, Place, guard, never_glances, reach};
use crate::Fs;
use crate::warp::{CallSite, Lanes};

/// In the place of the frame of a guard, where the page stays without one.
pub(super) const STAYS: FrameIndex = FrameIndex(u32::MAX);
/// Glances of a view between two at which the page is noted to be in use and hits are counted: a power of two.
const GLANCES_COUNTED: u32 = 16;

/// Elements of a range, from its first on, that are in device memory and stay there ([R-CACHE-9]), and where the first is.
#[derive(Clone, Copy)]
pub(super) struct There {
    count: u64,
    address: u64,
}

impl There {
    const NOTHING: Self = Self { count: 0, address: 0 };

    /// Where an element of `size` bytes is, if it is one of them.
    #[inline]
    pub(super) const fn address_of(self, index: u64, size: u64) -> Option<u64> {
        if index < self.count { Some(self.address + index * size) } else { None }
    }
    /// Where those from `first` on are, if all before `end` are of them.
    #[inline]
    pub(super) const fn address_before(self, first: u64, end: u64, size: u64) -> Option<u64> {
        if end <= self.count && self.count > 0 { Some(self.address + first * size) } else { None }
    }
    /// How many there are, and where the first is.
    pub(super) const fn all(self) -> (u64, u64) {
        (self.count, self.address)
    }
    /// How many of them there are from `index` on.
    #[inline]
    pub(super) const fn rest(self, index: u64) -> u64 {
        self.count.saturating_sub(index)
    }
}

/// A range of a mapped file, in one lane.
pub(super) struct Window<'v> {
    fs: Fs,
    /// The session's: what never changes is copied, since behind an acquire it would be loaded again.
    cache: Cache,
    mapping: u32,
    /// The range, in bytes.
    offset: u64,
    bytes: u64,
    page_mask: u64,
    page_shift: u32,
    /// Where the pages of the mapping have their place.
    layout: Layout,
    there: There,
    kept: Cell<Kept>,
    /// One lane's, and not for longer than the call that lends it.
    of: PhantomData<(*const (), &'v ())>,
}

/// Where those meet that end guards.
#[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
static ENDS: CallSite = CallSite::new();
/// Where those meet that flush.
static FLUSH: CallSite = CallSite::new();

impl Window<'_> {
    /// A range of so many bytes of a mapping, of elements of `size` bytes, a power of two.
    ///
    /// # Errors
    /// `EINVAL` where the range does not begin at a multiple of `size`, or ends beyond what a file may have.
    pub(super) fn new(fs: Fs, mapping: u32, offset: u64, count: u64, size: u64) -> Result<Self, Errno> {
        let cache = fs.session().cache;
        let page = cache.page_bytes;
        let bytes = count.checked_mul(size).ok_or(Errno::INVAL)?;
        let end = offset.checked_add(bytes).filter(|end| *end <= i64::MAX.cast_unsigned());
        if end.is_none() || !size.is_power_of_two() || size > u64::from(page) || !offset.is_multiple_of(size)
        {
            return Err(Errno::INVAL);
        }
        let (page_mask, page_shift) = (u64::from(page) - 1, page.trailing_zeros());
        let there = cache.whole(mapping).map_or(There::NOTHING, |whole| There {
            count: whole.bytes.saturating_sub(offset).min(bytes) / size,
            address: cache.address(whole.first) + offset,
        });
        let layout = cache.mappings()[mapping as usize].layout();
        let kept = Cell::new(Kept::NONE);
        let of = PhantomData;
        Ok(Self { fs, cache, mapping, offset, bytes, page_mask, page_shift, layout, there, kept, of })
    }
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
    /// What of it is there and stays. Constant.
    pub(super) const fn there(&self) -> There {
        self.there
    }
    pub(super) const fn mapping(&self) -> u32 {
        self.mapping
    }
    pub(super) const fn fs(&self) -> Fs {
        self.fs
    }
    /// Where the range begins in the file, in bytes.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }
    fn session(&self) -> &'static SessionTables {
        self.fs.session()
    }
    /// How many elements of `size` bytes from `index` on, within the range, lie in the page of that one.
    pub(super) fn rest_of_page(&self, index: u64, size: u64) -> u64 {
        let Some(at) = index.checked_mul(size).filter(|at| *at < self.bytes) else { return 0 };
        let page = self.page_mask + 1 - ((self.offset + at) & self.page_mask);
        (self.bytes - at).min(page) / size
    }
    /// The `size` bytes at `at` of the range.
    ///
    /// # Errors
    /// `EINVAL` beyond the range.
    #[inline]
    fn place(&self, at: Option<u64>, size: u64) -> Result<Place, Errno> {
        let at = at.filter(|at| *at <= self.bytes && size <= self.bytes - *at).ok_or(Errno::INVAL)?;
        let position = self.offset + at;
        let key = Key::new(self.mapping, position >> self.page_shift).ok_or(Errno::INVAL)?;
        Ok(Place { key, within: position & self.page_mask, size })
    }

    /// Element `index` of the range, which `read` loads where its page stays. Convergent with other lanes' calls where it is not the page that the
    /// lane used last, and cannot be glanced at.
    ///
    /// # Errors
    /// `EINVAL` beyond the range; as [`super::pages::visit`]; `ENXIO` where the file had no such bytes.
    #[inline]
    #[expect(unsafe_code, reason = "a value that a function leaves behind a pointer")]
    pub(super) fn load<T: Plain>(&self, index: u64, read: impl FnOnce(u64) -> T) -> Result<T, Errno> {
        let mut value = MaybeUninit::uninit();
        match self.load_apart(index, read, &mut value) {
            // SAFETY:
            // - written where there is no error
            None => Ok(unsafe { value.assume_init() }),
            Some(errno) => Err(errno),
        }
    }
    /// [`Window::load`]: leaves the element in `value`, or zeros there and returns an error. What is returned as one, value and error, would come by
    /// memory, and callers would load the error from there beside each value.
    #[inline(never)]
    pub(super) fn load_apart<T: Plain>(
        &self,
        index: u64,
        read: impl FnOnce(u64) -> T,
        value: &mut MaybeUninit<T>,
    ) -> Option<Errno> {
        match self.look(index, read) {
            Ok(found) => {
                value.write(found);
                None
            }
            Err(errno) => {
                *value = MaybeUninit::zeroed();
                Some(errno)
            }
        }
    }
    /// [`Window::load`], in the function that is called for it.
    #[inline]
    fn look<T: Plain>(&self, index: u64, read: impl FnOnce(u64) -> T) -> Result<T, Errno> {
        let size = size_of::<T>() as u64;
        let place = self.place(index.checked_mul(size), size)?;
        let kept = self.kept.get();
        if kept.stays() && place.key.word() == kept.key {
            return if place.fits(kept.valid) {
                Ok(read(kept.address + place.within))
            } else {
                Err(Errno::NXIO)
            };
        }
        if self.layout.owns(place.key) {
            return self.reach_own::<_, false>(place, kept, read);
        }
        if size_of::<T>() > GLANCED_MAX {
            return self.reach::<_, false, false>(place, kept, read, never_glances);
        }
        if !kept.stays() && place.key.word() != kept.key {
            let home = self.layout.home(place.key);
            let address = self.cache.address(home) + place.within;
            let found = self.cache.frame(home).glance(place.key, |valid| {
                if place.fits(valid) { Ok(glanced(address)) } else { Err(Errno::NXIO) }
            });
            if let Some(result) = found {
                self.kept.set(Kept {
                    glances: self.count_glance(place.key, home, kept.glances),
                    ..Kept::seen(place.key)
                });
                return result;
            }
        }
        self.reach::<_, false, true>(place, kept, read, glanced)
    }
    /// Calls [`reach`], and remembers what that says.
    #[inline]
    fn reach<R, const STORES: bool, const GLANCES: bool>(
        &self,
        Place { key, within, size }: Place,
        kept: Kept,
        body: impl FnOnce(u64) -> R,
        glance: impl FnOnce(u64) -> R,
    ) -> Result<R, Errno> {
        let guarded = kept.guarded | if self.layout.owns(key) { OF_OWN } else { 0 };
        let (key, frame, glances) = (key.word(), kept.frame.0, kept.glances);
        let place = (key, within, size);
        let (kept, result) =
            reach::<_, STORES, GLANCES>(self.fs, place, (kept.key, frame), (guarded, glances), body, glance);
        self.kept.set(kept);
        result
    }
    /// Counts a glance beside those that are not counted yet: how many are not.
    #[inline]
    fn count_glance(&self, key: Key, frame: FrameIndex, glances: u32) -> u32 {
        let glances = glances + 1;
        if glances < GLANCES_COUNTED {
            return glances;
        }
        self.cache.refer(frame);
        self.cache.count_hits(key, glances.into());
        0
    }

    /// Calls `body` with the address of element `index`, of `size` bytes, while its page stays, once, and notes that it has stored there.
    /// Convergent as [`Window::load`].
    ///
    /// # Errors
    /// As [`Window::load`].
    #[inline]
    pub(super) fn store<R>(&self, index: u64, size: u64, body: impl FnOnce(u64) -> R) -> Result<R, Errno> {
        if let Some(address) = self.there.address_of(index, size) {
            let result = body(address);
            self.cache.frame(self.frame_there(index * size)).stored();
            return Ok(result);
        }
        let place = self.place(index.checked_mul(size), size)?;
        let kept = self.kept.get();
        let is_kept = kept.stays() && place.key.word() == kept.key;
        // One that stays by itself may have been loaded from a moment before it was READY.
        if is_kept && (kept.guarded == GUARDED || self.cache.frame(kept.frame).settled_ready().is_some()) {
            if !place.fits(kept.valid) {
                return Err(Errno::NXIO);
            }
            let result = body(kept.address + place.within);
            self.cache.frame(kept.frame).stored();
            return Ok(result);
        }
        if self.layout.owns(place.key) {
            return self.reach_own::<_, true>(place, kept, body);
        }
        self.reach::<_, true, false>(place, kept, body, never_glances)
    }
    /// An access to a page with a frame of its own that the view does not remember.
    #[inline]
    fn reach_own<R, const STORES: bool>(
        &self,
        place: Place,
        kept: Kept,
        body: impl FnOnce(u64) -> R,
    ) -> Result<R, Errno> {
        let index = self.layout.home(place.key);
        let frame = self.cache.frame(index);
        let Some(valid) = (if STORES { frame.settled_ready() } else { frame.settled() }) else {
            return self.reach::<_, STORES, false>(place, kept, body, never_glances);
        };
        let address = self.cache.address(index);
        // What the view has of another page is not forgotten: a guard, and glances that are not counted yet.
        if kept.guarded != GUARDED && kept.glances == 0 {
            let key = place.key.word();
            self.kept.set(Kept { key, address, frame: index, valid, guarded: OWN, glances: 0 });
        }
        if !place.fits(valid) {
            return Err(Errno::NXIO);
        }
        let result = body(address + place.within);
        if STORES {
            frame.stored();
        }
        Ok(result)
    }

    /// The frame of a byte of the range, of those that are there and stay.
    #[inline]
    fn frame_there(&self, at: u64) -> FrameIndex {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "less than there are pages with frames of their own"
        )]
        let page = ((self.offset + at) >> self.page_shift) as u32;
        FrameIndex(self.layout.first + page)
    }

    /// Guards the page of `count` elements of `size` bytes from `first` on: the frame, which the caller lets go of, and the address of the elements.
    /// Convergent with other lanes' calls.
    ///
    /// # Errors
    /// As [`Window::load`]; `EINVAL` also where they do not lie in one page; `EBUSY` where too many pages are kept.
    ///
    /// Not inlined: what a caller's loop has would be put into memory for it.
    #[inline(never)]
    pub(super) fn guard(&self, first: u64, count: u64, size: u64) -> Result<(FrameIndex, u64), Errno> {
        let size_of_all = count.checked_mul(size).ok_or(Errno::INVAL)?;
        let place = self.place(first.checked_mul(size), size_of_all)?;
        let size = size_of_all;
        if place.within + size > self.page_mask + 1 {
            return Err(Errno::INVAL);
        }
        if self.layout.owns(place.key) {
            let index = self.layout.home(place.key);
            if let Some(valid) = self.cache.frame(index).settled() {
                let address = self.cache.address(index) + place.within;
                return if place.fits(valid) { Ok((STAYS, address)) } else { Err(Errno::NXIO) };
            }
        }
        let (frame, address) = guard(self.fs, place)?;
        Ok((frame, address + place.within))
    }

    /// Ends a guard that [`Window::guard`] gave. On a GPU convergent with other lanes' calls: one of them does it for all.
    #[inline]
    pub(super) fn unguard(&self, frame: FrameIndex) {
        if frame != STAYS {
            self.end_guard(frame);
        }
    }
    /// [`Window::unguard`] of a page that may go.
    #[inline(never)]
    fn end_guard(&self, frame: FrameIndex) {
        // On a CPU a lane that panics ends its guards, and may meet nobody.
        #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
        self.cache.frame(frame).unguard(1);
        #[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
        pages::end(&self.cache, Lanes::calling_at(&ENDS), Some(frame));
    }

    /// Writes what is dirty of the mapping. Convergent with other lanes' calls.
    ///
    /// # Errors
    /// As [`flush::flush`].
    pub(super) fn flush(&self) -> Result<(), Errno> {
        let session = self.session();
        Lanes::calling_at(&FLUSH)
            .grouped(u64::from(self.mapping), |group| flush::flush(session, group, self.mapping))
    }
}

impl Drop for Window<'_> {
    #[inline]
    fn drop(&mut self) {
        let kept = self.kept.get();
        if let (1.., Some(key)) = (kept.glances, Key::from_word(kept.key)) {
            self.cache.count_hits(key, kept.glances.into());
        }
        if let Some(frame) = kept.guard() {
            self.unguard(frame);
        }
    }
}

/// The value at an address within a frame, by a glance.
#[inline]
#[expect(unsafe_code, reason = "reads frames")]
fn glanced<T: Plain>(address: u64) -> T {
    // SAFETY:
    // - called by `load` alone: within a frame, at a multiple of the size, a power of two, of at most `GLANCED_MAX`
    unsafe { observe(address) }
}

//! What every view is: a range of a mapped file, and the page that the lane used last.

use core::cell::Cell;
use core::marker::PhantomData;

use gpufs_core::Errno;
use gpufs_core::cache::{FrameIndex, Key};
use gpufs_core::session::SessionTables;

use super::pages::{self, Visit, Visited};
use crate::Fs;
use crate::warp::{CallSite, Lanes};

/// The page that a lane used last, and whether it is guarded for the view.
#[derive(Clone, Copy)]
struct Kept {
    /// The page's key; 0 before the first.
    key: u64,
    /// Where its bytes are, where it is guarded.
    address: u64,
    frame: FrameIndex,
    valid: u32,
    guarded: bool,
}

/// A range of a mapped file, in one lane.
pub(super) struct Window<'v> {
    fs: Fs,
    mapping: u32,
    /// The range, in bytes.
    offset: u64,
    bytes: u64,
    page_mask: u64,
    page_shift: u32,
    kept: Cell<Kept>,
    /// One lane's, and not for longer than the call that lends it.
    of: PhantomData<(*const (), &'v ())>,
}

/// Where the lanes meet that look for pages.
static PAGES: CallSite = CallSite::new();
/// Where those meet that flush.
static FLUSH: CallSite = CallSite::new();

impl Window<'_> {
    /// A range of so many bytes of a mapping, of elements of `size` bytes, a power of two.
    ///
    /// # Errors
    /// `EINVAL` where the range does not begin at a multiple of `size`, or ends beyond what a file may have.
    pub(super) fn new(fs: Fs, mapping: u32, offset: u64, count: u64, size: u64) -> Result<Self, Errno> {
        let session = fs.session();
        let page = session.cache.page_bytes;
        let bytes = count.checked_mul(size).ok_or(Errno::INVAL)?;
        let end = offset.checked_add(bytes).filter(|end| *end <= i64::MAX.cast_unsigned());
        if end.is_none() || !size.is_power_of_two() || size > u64::from(page) || !offset.is_multiple_of(size)
        {
            return Err(Errno::INVAL);
        }
        let kept = Kept { key: 0, address: 0, frame: FrameIndex(0), valid: 0, guarded: false };
        let (page_mask, page_shift) = (u64::from(page) - 1, page.trailing_zeros());
        Ok(Self { fs, mapping, offset, bytes, page_mask, page_shift, kept: Cell::new(kept), of: PhantomData })
    }
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
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

    /// Calls `body` with the address of the `size` bytes at `at` of the range, while their page stays, once. Notes a store where it `stores`.
    /// Convergent with other lanes' calls where the page is not the one that the lane used last.
    ///
    /// # Errors
    /// `EINVAL` beyond the range; as [`pages::visit`]; `ENXIO` where the file had no such bytes.
    #[inline]
    pub(super) fn touch<R>(
        &self,
        at: Option<u64>,
        size: u64,
        stores: bool,
        body: impl FnOnce(u64) -> R,
    ) -> Result<R, Errno> {
        let at = at.filter(|at| *at <= self.bytes && size <= self.bytes - *at).ok_or(Errno::INVAL)?;
        let position = self.offset + at;
        let within = position & self.page_mask;
        let kept = self.kept.get();
        if kept.guarded
            && Key::new(self.mapping, position >> self.page_shift).map(Key::word) == Some(kept.key)
        {
            if within + size > u64::from(kept.valid) {
                return Err(Errno::NXIO);
            }
            let result = body(kept.address + within);
            if stores {
                self.session().cache.frame(kept.frame).stored();
            }
            return Ok(result);
        }
        self.reach(position, size, stores, body)
    }

    /// [`Window::touch`] of a page that is not guarded for the view.
    #[inline(never)]
    fn reach<R>(
        &self,
        position: u64,
        size: u64,
        stores: bool,
        body: impl FnOnce(u64) -> R,
    ) -> Result<R, Errno> {
        let session = self.session();
        let (cache, within) = (&session.cache, position & self.page_mask);
        let key = Key::new(self.mapping, position >> self.page_shift).ok_or(Errno::INVAL)?;
        let kept = self.let_go();
        // Whoever scans uses a page again and again: the second time in a row it is kept.
        let again = kept.key == key.word();
        let (mut body, mut result, mut valid) = (Some(body), Err(Errno::NXIO), 0);
        let lanes = Lanes::calling_at(&PAGES);
        let visited = pages::visit(session, lanes, key, |index| {
            let frame = cache.frame(index);
            valid = frame.valid();
            if within + size <= u64::from(valid)
                && let Some(body) = body.take()
            {
                result = Ok(body(cache.address(index) + within));
                if stores {
                    frame.stored();
                }
            }
            if again { Visit::Keeps { must: false } } else { Visit::Ends }
        })?;
        let mut kept = Kept { key: key.word(), address: 0, frame: FrameIndex(0), valid, guarded: false };
        if let Visited::Guards(frame) = visited {
            kept = Kept { address: cache.address(frame), frame, guarded: true, ..kept };
        }
        self.kept.set(kept);
        result
    }

    /// Guards the page of the `size` bytes at `at` of the range: the frame, which the caller lets go of, and the address of the bytes.
    /// Convergent with other lanes' calls.
    ///
    /// # Errors
    /// As [`Window::touch`]; `EINVAL` also where they do not lie in one page; `EBUSY` where too many pages are kept.
    pub(super) fn guard(&self, at: Option<u64>, size: u64) -> Result<(FrameIndex, u64), Errno> {
        let at = at.filter(|at| *at <= self.bytes && size <= self.bytes - *at).ok_or(Errno::INVAL)?;
        let (session, position) = (self.session(), self.offset + at);
        let within = position & self.page_mask;
        if within + size > self.page_mask + 1 {
            return Err(Errno::INVAL);
        }
        let key = Key::new(self.mapping, position >> self.page_shift).ok_or(Errno::INVAL)?;
        let mut valid = 0;
        let lanes = Lanes::calling_at(&PAGES);
        let visited = pages::visit(session, lanes, key, |frame| {
            valid = session.cache.frame(frame).valid();
            if within + size <= u64::from(valid) { Visit::Keeps { must: true } } else { Visit::Ends }
        })?;
        match visited {
            Visited::Guards(frame) => Ok((frame, session.cache.address(frame) + within)),
            Visited::Left => Err(Errno::NXIO),
        }
    }

    /// Ends a guard that [`Window::guard`] gave.
    pub(super) fn unguard(&self, frame: FrameIndex) {
        self.session().cache.frame(frame).unguard();
    }

    /// Writes what is dirty of the mapping. Convergent with other lanes' calls.
    ///
    /// # Errors
    /// As [`pages::flush`].
    pub(super) fn flush(&self) -> Result<(), Errno> {
        let session = self.session();
        Lanes::calling_at(&FLUSH)
            .grouped(u64::from(self.mapping), |group| pages::flush(session, group, self.mapping))
    }

    /// Ends the view's guard, if it has one; the page that was used last.
    fn let_go(&self) -> Kept {
        let kept = self.kept.get();
        if kept.guarded {
            self.session().cache.frame(kept.frame).unguard();
            self.kept.set(Kept { guarded: false, ..kept });
        }
        kept
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        let _ = self.let_go();
    }
}

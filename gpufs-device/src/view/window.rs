//! What every view is: a range of a mapped file, and the page that the lane used last.
//!
//! An access takes the first way that leads to its page:
//!
//! | way | when | what it costs |
//! |---|---|---|
//! | the page that the view remembers | it was used before, or is the next one | a compare and a load |
//! | a glance ([R-CACHE-8]) | a load of a page that is there | four loads, nothing is stored |
//! | a visit | what is not there, or changes; stores | a pin, and whatever brings the page |
//!
//! The first and, in the frame where a page is looked for first, the second are made in the caller's code, of values: a view that is lent to a
//! function that is inlined stays in registers.

use core::cell::Cell;
use core::marker::PhantomData;

use gpufs_core::Errno;
use gpufs_core::cache::{Cache, FrameIndex, Key};
use gpufs_core::session::SessionTables;

use super::flush;
use super::pages::{self, Visit, Visited};
use super::plain::{GLANCED_MAX, Plain, observe};
use crate::Fs;
use crate::warp::{CallSite, Lanes};

/// Glances of a view between two at which the page is noted to be in use and hits are counted: a power of two.
const GLANCES_COUNTED: u32 = 16;

/// The page that a lane used last, and whether it is guarded for the view. Without padding, which would be copied through memory.
#[derive(Clone, Copy)]
struct Kept {
    /// The page's key; 0 before the first.
    key: u64,
    /// Where its bytes are, where it is guarded.
    address: u64,
    frame: FrameIndex,
    valid: u32,
    /// 1 where it is guarded, else 0.
    guarded: u32,
    /// Glances that are not counted yet.
    glances: u32,
}

impl Kept {
    const NONE: Self = Self { key: 0, address: 0, frame: FrameIndex(0), valid: 0, guarded: 0, glances: 0 };

    /// A page that is used, and not guarded.
    const fn seen(key: Key) -> Self {
        Self { key: key.word(), ..Self::NONE }
    }
    fn guarded(cache: &Cache, key: Key, frame: FrameIndex) -> Self {
        let (address, valid) = (cache.address(frame), cache.frame(frame).valid());
        Self { key: key.word(), address, frame, valid, guarded: 1, glances: 0 }
    }
    const fn is_guarded(&self) -> bool {
        self.guarded != 0
    }
    const fn guard(&self) -> Option<FrameIndex> {
        if self.is_guarded() { Some(self.frame) } else { None }
    }
}

/// Bytes of a page.
#[derive(Clone, Copy)]
struct Place {
    key: Key,
    /// Where they begin in the page, and how many there are.
    within: u64,
    size: u64,
}

impl Place {
    /// Whether a page of so many bytes has them.
    const fn fits(&self, valid: u32) -> bool {
        self.within + self.size <= valid as u64
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
    kept: Cell<Kept>,
    /// One lane's, and not for longer than the call that lends it.
    of: PhantomData<(*const (), &'v ())>,
}

/// Where the lanes meet that look for pages.
static PAGES: CallSite = CallSite::new();
/// Where those meet that pin: what they do together is something else.
static PINS: CallSite = CallSite::new();
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
        let kept = Cell::new(Kept::NONE);
        Ok(Self { fs, cache, mapping, offset, bytes, page_mask, page_shift, kept, of: PhantomData })
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
    /// `EINVAL` beyond the range; as [`pages::visit`]; `ENXIO` where the file had no such bytes.
    #[inline]
    pub(super) fn load<T: Plain>(&self, index: u64, read: impl FnOnce(u64) -> T) -> Result<T, Errno> {
        let size = size_of::<T>() as u64;
        let place = self.place(index.checked_mul(size), size)?;
        let kept = self.kept.get();
        if kept.is_guarded() && place.key.word() == kept.key {
            return if place.fits(kept.valid) {
                Ok(read(kept.address + place.within))
            } else {
                Err(Errno::NXIO)
            };
        }
        if size_of::<T>() > GLANCED_MAX {
            return self.reach::<_, false, false>(place, kept, read, never_glances);
        }
        if !kept.is_guarded() && place.key.word() != kept.key {
            let home = self.cache.home(place.key);
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
        let (key, frame, guarded, glances) = (key.word(), kept.frame.0, kept.guarded, kept.glances);
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
        let place = self.place(index.checked_mul(size), size)?;
        let kept = self.kept.get();
        if kept.is_guarded() && place.key.word() == kept.key {
            if !place.fits(kept.valid) {
                return Err(Errno::NXIO);
            }
            let result = body(kept.address + place.within);
            self.cache.frame(kept.frame).stored();
            return Ok(result);
        }
        self.reach::<_, true, false>(place, kept, body, never_glances)
    }

    /// Guards the page of the `size` bytes at `at` of the range: the frame, which the caller lets go of, and the address of the bytes.
    /// Convergent with other lanes' calls.
    ///
    /// # Errors
    /// As [`Window::load`]; `EINVAL` also where they do not lie in one page; `EBUSY` where too many pages are kept.
    pub(super) fn guard(&self, at: Option<u64>, size: u64) -> Result<(FrameIndex, u64), Errno> {
        let place = self.place(at, size)?;
        if place.within + size > self.page_mask + 1 {
            return Err(Errno::INVAL);
        }
        let (frame, address) = guard(self.fs, place)?;
        Ok((frame, address + place.within))
    }

    /// Ends a guard that [`Window::guard`] gave. On a GPU convergent with other lanes' calls: one of them does it for all.
    pub(super) fn unguard(&self, frame: FrameIndex) {
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

/// In the place of [`glanced`] where there are no glances.
fn never_glances<R>(_: u64) -> R {
    unreachable!("`reach` was told so")
}

/// What `body` makes of the address of a place in the frame that holds its page. A lane that keeps the page.
#[inline]
fn touch<R, const STORES: bool>(
    session: &SessionTables,
    place: Place,
    index: FrameIndex,
    body: impl FnOnce(u64) -> R,
) -> Result<R, Errno> {
    let frame = session.cache.frame(index);
    if !place.fits(frame.valid()) {
        return Err(Errno::NXIO);
    }
    let made = body(session.cache.address(index) + place.within);
    if STORES {
        frame.stored();
    }
    Ok(made)
}

/// An access to a page that is not guarded for the view: calls `body` with its address while it stays, or `glance` without, once. What the view
/// remembers afterwards, and what was returned. Convergent.
///
/// Not inlined, and given numbers, those of a [`Place`] and of a [`Kept`]: structures would be put into memory before each access.
#[inline(never)]
fn reach<R, const STORES: bool, const GLANCES: bool>(
    fs: Fs,
    (word, within, size): (u64, u64, u64),
    (kept_key, kept_frame): (u64, u32),
    (guarded, glances): (u32, u32),
    body: impl FnOnce(u64) -> R,
    glance: impl FnOnce(u64) -> R,
) -> (Kept, Result<R, Errno>) {
    let session = fs.session();
    let cache = &session.cache;
    let kept = Kept { key: kept_key, frame: FrameIndex(kept_frame), guarded, glances, ..Kept::NONE };
    let Some(key) = Key::from_word(word) else { return (kept, Err(Errno::INVAL)) };
    let place = Place { key, within, size };
    let lanes = Lanes::calling_at(&PAGES);
    if let (1.., Some(last)) = (kept.glances, Key::from_word(kept.key)) {
        cache.count_hits(last, kept.glances.into());
    }
    // Whoever scans uses a page again and again, and then the next: it is kept.
    let scans = kept.key == key.word() || (kept.is_guarded() && kept.key + 1 == key.word());
    pages::end(cache, lanes, kept.guard());
    let (found, is_shared) = pages::keep(session, lanes, scans.then_some(key));
    let mut kept = found.map_or(Kept::seen(key), |frame| Kept::guarded(cache, key, frame));
    if is_shared && let Some(frame) = found {
        return (kept, touch::<_, STORES>(session, place, frame, body));
    }
    let glanced = if GLANCES && found.is_none() {
        cache.glance(key, |index, valid| {
            if place.fits(valid) { Ok(glance(cache.address(index) + place.within)) } else { Err(Errno::NXIO) }
        })
    } else {
        None
    };
    if glanced.is_some() {
        kept.glances = 1;
    }
    let is_done = found.is_some() || glanced.is_some();
    if lanes.all(is_done) {
        let result = match (found, glanced) {
            (Some(frame), _) => touch::<_, STORES>(session, place, frame, body),
            (None, glanced) => glanced.unwrap_or(Err(Errno::NXIO)),
        };
        return (kept, result);
    }
    bring::<_, STORES>(session, lanes, (place, scans), kept, (found, glanced), body)
}

/// [`reach`], where the pages of some lanes are not there: the others have `found` or `glanced` at theirs. Convergent; called by `lanes`.
#[inline(never)]
fn bring<R, const STORES: bool>(
    session: &SessionTables,
    lanes: Lanes,
    (place, scans): (Place, bool),
    mut kept: Kept,
    (found, glanced): (Option<FrameIndex>, Option<Result<R, Errno>>),
    body: impl FnOnce(u64) -> R,
) -> (Kept, Result<R, Errno>) {
    let (mut body, mut result) = (Some(body), glanced);
    let mut touch =
        |index| body.take().map_or(Err(Errno::NXIO), |body| touch::<_, STORES>(session, place, index, body));
    if let Some(frame) = found {
        result = Some(touch(frame));
    }
    let wanted = result.is_none().then_some(place.key);
    let visited = pages::visit(session, lanes, wanted, |index| {
        result = Some(touch(index));
        if scans { Visit::Keeps { must: false } } else { Visit::Ends }
    });
    match visited {
        Ok(Visited::Guards(frame)) => kept = Kept::guarded(&session.cache, place.key, frame),
        Ok(Visited::Left) => {}
        Err(errno) => {
            // Of a lane that is done it is not.
            if wanted.is_some() {
                result = Some(Err(errno));
            }
        }
    }
    (kept, result.unwrap_or(Err(Errno::NXIO)))
}

/// Guards the page of a place that lies in one: the frame, and where its bytes are. Convergent.
///
/// What finds the page is a small function, and what brings it another: the code of both together would put the words of the first into memory.
#[inline(never)]
fn guard(fs: Fs, place: Place) -> Result<(FrameIndex, u64), Errno> {
    let session = fs.session();
    let lanes = Lanes::calling_at(&PINS);
    let (found, is_shared) = pages::keep(session, lanes, Some(place.key));
    let is_there = if is_shared { found.is_some() } else { lanes.all(found.is_some()) };
    let found = if is_there { found } else { Some(bring_guarded(session, lanes, place, found)?) };
    let frame = found.ok_or(Errno::NXIO)?;
    if !place.fits(session.cache.frame(frame).valid()) {
        session.cache.frame(frame).unguard(1);
        return Err(Errno::NXIO);
    }
    Ok((frame, session.cache.address(frame)))
}

/// [`guard`], where the pages of some lanes could not be kept at once: those have no frame yet. Convergent; called by `lanes`.
#[inline(never)]
fn bring_guarded(
    session: &SessionTables,
    lanes: Lanes,
    place: Place,
    found: Option<FrameIndex>,
) -> Result<FrameIndex, Errno> {
    let wanted = found.is_none().then_some(place.key);
    let visited = pages::visit(session, lanes, wanted, |frame| {
        let fits = place.fits(session.cache.frame(frame).valid());
        if fits { Visit::Keeps { must: true } } else { Visit::Ends }
    });
    match found {
        Some(frame) => Ok(frame),
        None => match visited? {
            Visited::Guards(frame) => Ok(frame),
            Visited::Left => Err(Errno::NXIO),
        },
    }
}

//! An access to a page that a view does not remember, and the page that it remembers then.

use gpufs_core::Errno;
use gpufs_core::cache::{Cache, FrameIndex, Key};
use gpufs_core::session::SessionTables;

use super::pages::{self, Visit, Visited};
use crate::Fs;
use crate::warp::{CallSite, Lanes};

/// The page that a lane used last, and whether it stays: for a guard of the view's, or as it has a frame of its own. Without padding, which would
/// be copied through memory.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    /// The page's key; 0 before the first.
    pub(super) key: u64,
    /// Where its bytes are, where it stays.
    pub(super) address: u64,
    pub(super) frame: FrameIndex,
    pub(super) valid: u32,
    /// Why it stays: 0 where it may go.
    pub(super) guarded: u32,
    /// Glances that are not counted yet.
    pub(super) glances: u32,
}

/// It is guarded for the view.
pub(super) const GUARDED: u32 = 1;
/// It has a frame of its own.
pub(super) const OWN: u32 = 2;
/// Beside them, for [`reach`]: the page that is wanted has a frame of its own.
pub(super) const OF_OWN: u32 = 4;

impl Kept {
    pub(super) const NONE: Self =
        Self { key: 0, address: 0, frame: FrameIndex(0), valid: 0, guarded: 0, glances: 0 };

    /// A page that is used, and not guarded.
    pub(super) const fn seen(key: Key) -> Self {
        Self { key: key.word(), ..Self::NONE }
    }
    pub(super) fn guarded(cache: &Cache, key: Key, frame: FrameIndex) -> Self {
        let (address, valid) = (cache.address(frame), cache.frame(frame).valid());
        Self { key: key.word(), address, frame, valid, guarded: GUARDED, glances: 0 }
    }
    pub(super) const fn stays(&self) -> bool {
        self.guarded != 0
    }
    pub(super) const fn guard(&self) -> Option<FrameIndex> {
        if self.guarded == GUARDED { Some(self.frame) } else { None }
    }
}

/// Bytes of a page.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) key: Key,
    /// Where they begin in the page, and how many there are.
    pub(super) within: u64,
    pub(super) size: u64,
}

impl Place {
    /// Whether a page of so many bytes has them.
    pub(super) const fn fits(&self, valid: u32) -> bool {
        self.within + self.size <= valid as u64
    }
}

/// Where the lanes meet that look for pages.
static PAGES: CallSite = CallSite::new();
/// Where those meet that pin: what they do together is something else.
static PINS: CallSite = CallSite::new();

/// In the place of [`glanced`] where there are no glances.
pub(super) fn never_glances<R>(_: u64) -> R {
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
pub(super) fn reach<R, const STORES: bool, const GLANCES: bool>(
    fs: Fs,
    (word, within, size): (u64, u64, u64),
    (kept_key, kept_frame): (u64, u32),
    (guarded, glances): (u32, u32),
    body: impl FnOnce(u64) -> R,
    glance: impl FnOnce(u64) -> R,
) -> (Kept, Result<R, Errno>) {
    let session = fs.session();
    let cache = &session.cache;
    let is_own = guarded & OF_OWN != 0;
    let guarded = guarded & !OF_OWN;
    let kept = Kept { key: kept_key, frame: FrameIndex(kept_frame), guarded, glances, ..Kept::NONE };
    let Some(key) = Key::from_word(word) else { return (kept, Err(Errno::INVAL)) };
    let place = Place { key, within, size };
    let lanes = Lanes::calling_at(&PAGES);
    if let (1.., Some(last)) = (kept.glances, Key::from_word(kept.key)) {
        cache.count_hits(last, kept.glances.into());
    }
    // A lane that scans uses a page again and again, and then the next: it is kept, unless it stays by itself.
    let scans = !is_own && (kept.key == key.word() || (kept.stays() && kept.key + 1 == key.word()));
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
pub(super) fn guard(fs: Fs, place: Place) -> Result<(FrameIndex, u64), Errno> {
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

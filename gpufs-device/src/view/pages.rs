//! A warp's way to pages: looked for, brought as one batch, used, let go of ([R-CACHE-4]).

use gpufs_core::Errno;
use gpufs_core::cache::{Begun, Cache, Found, FrameIndex, Guarded, Key};
use gpufs_core::session::{FileIndex, SessionTables, Target, WaitReason};

use super::flush::write_back;
use crate::io::{Backoff, Request, drain, ring_of_warp, transfer};
use crate::warp::{self, Broadcast, LaneMask, Lanes, Machine, Warp};

impl Broadcast for Guarded {
    #[inline]
    fn to_word(self) -> u64 {
        self as u64
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        match word {
            0 => Self::Yes,
            1 => Self::Full,
            _ => Self::Later,
        }
    }
}

/// What one round came to for a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Its page is in this frame, pinned once for the lane.
    Pinned(FrameIndex),
    /// It looks again.
    Again,
    /// It cannot be had.
    Failed(Errno),
}

/// The frame above 2³², the errno above 2³³; 0 to look again.
impl Broadcast for Step {
    #[inline]
    fn to_word(self) -> u64 {
        match self {
            Self::Pinned(frame) => 1 << 32 | u64::from(frame.0),
            Self::Again => 0,
            Self::Failed(errno) => 1 << 33 | errno.number().to_word(),
        }
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        match word >> 32 {
            0 => Self::Again,
            1 => Self::Pinned(FrameIndex(u32::from_word(word & u64::from(u32::MAX)))),
            _ => Self::Failed(Errno::from_number(i32::from_word(word & u64::from(u32::MAX)))),
        }
    }
}

/// What a lane does with a page that it has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Visit {
    /// It is done with it.
    Ends,
    /// It keeps it, by a guard if there is room for one; whether there must be.
    Keeps { must: bool },
}

/// The result of [`visit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a guard that is dropped keeps the page for ever"]
pub(super) enum Visited {
    /// The lane has let go of the page.
    Left,
    /// It has a guard of it.
    Guards(FrameIndex),
}

/// Reaches the page that each lane wants, if it wants one, and calls `body` with its frame while it is pinned, once. Convergent; called by `lanes`;
/// `body` is called by each lane for itself, and takes no part in anything with others.
///
/// # Errors
/// What bringing the page met: the errno of a read; `ENXIO` where the file has no byte of the page; of a write, where a dirty page must go first.
/// `EBUSY` where the lane must keep the page and too many are kept ([R-CACHE-5]).
pub(super) fn visit(
    session: &SessionTables,
    lanes: Lanes,
    key: Option<Key>,
    mut body: impl FnMut(FrameIndex) -> Visit,
) -> Result<Visited, Errno> {
    let cache = &session.cache;
    let mut backoff = Backoff::of_many(session);
    let mut wanted = key;
    let (mut outcome, mut decided) = (Ok(Visited::Left), None::<Visit>);
    // Ends: [P-CACHE-PROGRESS].
    loop {
        let step = round(session, lanes, wanted);
        let pinned = match step {
            // Called once, also where the guard has to be tried for again.
            Step::Pinned(frame) => Some((frame, *decided.get_or_insert_with(|| body(frame)))),
            Step::Failed(errno) => {
                outcome = Err(errno);
                wanted = None;
                None
            }
            Step::Again => None,
        };
        let keeps = |visit| matches!(visit, Visit::Keeps { .. });
        let guarded = ends_pin(cache, lanes, pinned.map(|(frame, visit)| (frame, keeps(visit))));
        if let Some((frame, visit)) = pinned {
            match (guarded, visit) {
                (Guarded::Yes, _) => {
                    outcome = Ok(Visited::Guards(frame));
                    wanted = None;
                }
                (Guarded::Later, Visit::Keeps { must: true }) => {}
                (Guarded::Full, Visit::Keeps { must: true }) => {
                    outcome = Err(Errno::BUSY);
                    wanted = None;
                }
                _ => wanted = None,
            }
        }
        if !lanes.any(wanted.is_some()) {
            return outcome;
        }
        if lanes.any(pinned.is_some()) {
            continue;
        }
        // Nothing of the cache is held here ([R-CACHE-4]), but for guards that views have.
        let (ring, word) = (ring_of_warp(session), key.map_or(0, Key::word));
        backoff.wait(drain(session, lanes, ring), WaitReason::CachedPage, ring, word)?;
    }
}

/// In the place of a frame, where there is none.
const NO_FRAME: u64 = 1 << 34;

/// The frame of a word that is not [`NO_FRAME`].
fn frame_of(word: u64) -> Option<FrameIndex> {
    (word < NO_FRAME).then(|| FrameIndex(u32::from_word(word)))
}

/// Guards the page that each lane wants, if it wants one, that is there, and may be kept ([`Cache::keep`]); whether all have the same answer: where
/// all want the same, the leader does it for all. Convergent; called by `lanes`.
pub(super) fn keep(session: &SessionTables, lanes: Lanes, wanted: Option<Key>) -> (Option<FrameIndex>, bool) {
    if !lanes.same(wanted.map_or(0, Key::word)) {
        return (wanted.and_then(|key| session.cache.keep(key, 1)), false);
    }
    let Some(key) = wanted else { return (None, true) };
    let found =
        lanes.on_leader(|| session.cache.keep(key, lanes.count()).map_or(NO_FRAME, |frame| frame.0.into()));
    (frame_of(found), true)
}

/// How many lanes' share a lane takes of what each is to do with a frame: where all have the same `word`, all of them if it is the leader, and
/// none if not; otherwise its own. What the lanes have read comes before. Convergent; called by `lanes`.
fn share(lanes: Lanes, word: u64) -> u32 {
    match lanes.same(word) {
        false => 1,
        true if lanes.is_leader() => lanes.count(),
        true => 0,
    }
}

/// Ends each lane's guard, if it has one: where all have the same frame's, the leader does it for all. Convergent; called by `lanes`.
pub(super) fn end(cache: &Cache, lanes: Lanes, frame: Option<FrameIndex>) {
    let share = share(lanes, frame.map_or(NO_FRAME, |frame| frame.0.into()));
    if let Some(frame) = frame
        && share > 0
    {
        cache.frame(frame).unguard(share);
    }
}

/// Ends each lane's pin, if it has one, or makes it a guard where it is to stay: whether it is one. Where all want the same, the leader does it for
/// all: lanes that each did it would change the word one after the other. Convergent; called by `lanes`.
fn ends_pin(cache: &Cache, lanes: Lanes, pin: Option<(FrameIndex, bool)>) -> Guarded {
    let word = pin.map_or(NO_FRAME, |(frame, stays)| u64::from(frame.0) << 1 | u64::from(stays));
    let share = share(lanes, word);
    let mut guarded = Guarded::Full;
    if let Some((frame, stays)) = pin
        && share > 0
    {
        if stays {
            guarded = cache.guard(frame, share);
        }
        if guarded != Guarded::Yes {
            cache.frame(frame).unpin(share);
        }
    }
    // Where each did it for itself, each has its own answer.
    let from = if share == 1 { lanes.lane() } else { lanes.leader() };
    lanes.shuffle(guarded, from)
}

/// One look for the pages of those lanes that want one, and, where none of them is there, one try to bring those that are absent, as one batch.
/// Waits for the kernel alone. Convergent; called by `lanes`.
#[inline(never)]
fn round(session: &SessionTables, lanes: Lanes, wanted: Option<Key>) -> Step {
    let cache = &session.cache;
    let word = wanted.map_or(0, Key::word);
    let found = look(session, lanes, wanted);
    let (mut step, absent) = match found {
        Some(Found::Pinned(frame)) => (Step::Pinned(frame), false),
        Some(Found::Absent) => (Step::Again, true),
        Some(Found::InTransit) => {
            if let Some(key) = wanted {
                cache.count_wait(key);
            }
            (Step::Again, false)
        }
        None => (Step::Again, false),
    };
    let mut rest = lanes.ballot(absent);
    // A lane that has its page lets go of it before others of the warp try for frames.
    if rest.is_empty() || lanes.any(matches!(step, Step::Pinned(_))) {
        return step;
    }
    // Lanes that miss the same page ask once, by the first of them.
    let mut mates = LaneMask::NONE;
    // Ends: each round takes the lanes of a page.
    while !rest.is_empty() {
        let chosen = lanes.broadcast(word, rest.first());
        let group = lanes.ballot(absent && word == chosen);
        if group.contains(lanes.lane()) {
            mates = group;
        }
        rest = rest.without(group);
    }
    let leads = absent && mates.first() == lanes.lane();
    let begun = match wanted {
        Some(key) if leads => cache.begin(key),
        _ => Begun::Present,
    };
    let fill = if let Begun::Fill(frame) = begun { Some(frame) } else { None };
    let victim = if let Begun::Write(frame) = begun { Some(frame) } else { None };
    let brought = bring(session, lanes, wanted.zip(fill));
    if let Some((key, frame)) = wanted.zip(fill) {
        step = match brought {
            Ok(0) => Step::Failed(Errno::NXIO),
            Ok(_) => Step::Pinned(frame),
            Err(errno) => Step::Failed(errno),
        };
        match brought {
            Ok(valid) if valid > 0 => cache.filled(key, frame, valid, mates.count()),
            _ => cache.frame(frame).failed(),
        }
    }
    if lanes.any(victim.is_some()) {
        let written = write_back(session, lanes, victim);
        if let Some(frame) = victim {
            cache.frame(frame).end_write(written.is_ok());
            cache.frame(frame).unpin(1);
            if let Err(errno) = written {
                step = Step::Failed(errno);
            }
        }
    }
    if begun == Begun::Later
        && let Some(key) = wanted
    {
        cache.count_wait(key);
    }
    let from = if absent { mates.first() } else { lanes.lane() };
    lanes.shuffle(step, from)
}

/// Looks for each lane's page, and pins it for the lane. Where all want the same, the leader does it for all. Convergent; called by `lanes`.
fn look(session: &SessionTables, lanes: Lanes, wanted: Option<Key>) -> Option<Found> {
    const TRANSIT: u64 = 1 << 32;
    const ABSENT: u64 = 1 << 33;
    let cache = &session.cache;
    if !lanes.same(wanted.map_or(0, Key::word)) {
        return wanted.map(|key| cache.find(key, 1));
    }
    let key = wanted?;
    let found = lanes.on_leader_inline(|| match cache.find(key, lanes.count()) {
        Found::Pinned(frame) => u64::from(frame.0),
        Found::InTransit => TRANSIT,
        Found::Absent => ABSENT,
    });
    Some(match found {
        TRANSIT => Found::InTransit,
        ABSENT => Found::Absent,
        frame => Found::Pinned(FrameIndex(u32::from_word(frame))),
    })
}

/// The file of a key's mapping.
pub(super) fn target_of(session: &SessionTables, key: Key) -> Result<Target, Errno> {
    let mapping = session.cache.mappings().get(key.mapping() as usize).ok_or(Errno::BADF)?;
    // ORDERING: relaxed: constant while kernels run.
    let index = FileIndex(mapping.file.peek());
    let (file, flags) = session.file_and_flags(index)?;
    Ok(file.target_of(flags, index))
}

/// Where a page begins in its file, in bytes.
pub(super) fn offset_of(session: &SessionTables, key: Key) -> u64 {
    key.page() * u64::from(session.cache.page_bytes)
}

/// Of lanes that `wait` to move a page, those whose turn it is. Where pages are large they are as few as a warp's share of staging memory has room
/// for: a warp copies one page after the other, and meanwhile all of its memory waits, which others would use. Convergent.
pub(super) fn turn(session: &SessionTables, lanes: Lanes, waits: bool) -> bool {
    /// Bytes of a large page.
    const LARGE: u32 = 32 << 10;
    let (page, pool) = (session.cache.page_bytes, &session.staging);
    if page < LARGE {
        return waits;
    }
    let warps = warp::grid_threads().div_ceil(Machine::width().into()).max(1);
    let all = u64::from(pool.free.capacity()) * u64::from(pool.buffer_bytes);
    let at_once = (all / warps / u64::from(page)).max(2);
    let before = lanes.ballot(waits).rank(lanes.lane());
    waits && u64::from(before) < at_once
}

/// Reads each lane's page into its frame, which is the lane's: how many bytes the file had for it. A short read is continued. Convergent; called
/// by `lanes`.
fn bring(session: &SessionTables, lanes: Lanes, wanted: Option<(Key, FrameIndex)>) -> Result<u32, Errno> {
    let page = u64::from(session.cache.page_bytes);
    let mut outcome = Ok(0);
    let mut done = 0;
    let place = wanted.and_then(|(key, frame)| match target_of(session, key) {
        Ok(target) => Some((target, offset_of(session, key), session.cache.address(frame))),
        Err(errno) => {
            outcome = Err(errno);
            None
        }
    });
    let mut open = place.is_some();
    // Ends: each round moves bytes of some lane's page, or closes it.
    while lanes.any(open) {
        let moves = turn(session, lanes, open);
        let request = place.filter(|_| moves).map(|(target, offset, address)| Request {
            target,
            memory: address + done,
            bytes: page - done,
            offset: offset + done,
        });
        let read = transfer(session, lanes, false, request);
        if moves {
            match read {
                Ok(count) => {
                    done += count;
                    open = count > 0 && done < page;
                }
                Err(errno) => {
                    outcome = Err(errno);
                    open = false;
                }
            }
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most a page")]
    outcome.map(|_: u32| done as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::message::assert_comes_back;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_step_comes_back(frame: u32) {
            assert_comes_back(Step::Pinned(FrameIndex(frame)));
        }
    }

    #[test]
    fn every_other_step_comes_back() {
        assert_comes_back(Step::Again);
        assert_comes_back(Step::Failed(Errno::NXIO));
        assert_comes_back(Step::Failed(Errno::IO));
        for guarded in [Guarded::Yes, Guarded::Full, Guarded::Later] {
            assert_comes_back(guarded);
        }
    }
}

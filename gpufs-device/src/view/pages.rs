//! A warp's way to pages: looked for, brought as one batch, used, let go of ([R-CACHE-4]).
#![expect(unsafe_code, reason = "copies what other lanes may store to")]

use gpufs_core::Errno;
use gpufs_core::cache::{Begun, Cache, Found, FrameIndex, Guarded, Key, Pinned, Write};
use gpufs_core::session::{FileIndex, Resources, SessionTables, Target, WaitReason};
use gpufs_core::word::DeviceWord64;

use crate::io::{Backoff, Request, drain, ring_of_warp, staged, transact, transfer};
use crate::warp::{Broadcast, LaneMask, Lanes};

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
    let (mut outcome, mut decided) = (Ok(Visited::Left), None);
    // Ends: [P-CACHE-PROGRESS].
    loop {
        let step = round(session, lanes, wanted);
        match step {
            Step::Pinned(frame) => {
                // Called once, also where the guard has to be tried for again.
                let decision = *decided.get_or_insert_with(|| body(frame));
                let guarded = match decision {
                    Visit::Ends => Guarded::Full,
                    Visit::Keeps { .. } => cache.guard(frame),
                };
                if guarded == Guarded::Yes {
                    outcome = Ok(Visited::Guards(frame));
                } else {
                    cache.frame(frame).unpin(1);
                }
                match (guarded, decision) {
                    (Guarded::Later, Visit::Keeps { must: true }) => {}
                    (Guarded::Full, Visit::Keeps { must: true }) => {
                        outcome = Err(Errno::BUSY);
                        wanted = None;
                    }
                    _ => wanted = None,
                }
            }
            Step::Failed(errno) => {
                outcome = Err(errno);
                wanted = None;
            }
            Step::Again => {}
        }
        if !lanes.any(wanted.is_some()) {
            return outcome;
        }
        if lanes.any(matches!(step, Step::Pinned(_))) {
            continue;
        }
        // Nothing of the cache is held here ([R-CACHE-4]), but for guards that views have.
        let (ring, word) = (ring_of_warp(session), key.map_or(0, Key::word));
        backoff.wait(drain(session, lanes, ring), WaitReason::CachedPage, ring, word)?;
    }
}

/// In the place of a frame, where there is none.
const NO_FRAME: u64 = 1 << 32;

/// The frame of a word that is not [`NO_FRAME`].
fn frame_of(word: u64) -> Option<FrameIndex> {
    (word < NO_FRAME).then(|| FrameIndex(u32::from_word(word)))
}

/// Guards the page that each lane wants, if it wants one, that is there, and may be kept ([`Cache::keep`]): where all want the same, the leader
/// does it for all. Convergent; called by `lanes`.
pub(super) fn keep(cache: &Cache, lanes: Lanes, wanted: Option<Key>) -> Option<FrameIndex> {
    let word = wanted.map_or(0, Key::word);
    let first = lanes.from_leader(word);
    if !lanes.all(word == first) {
        return wanted.and_then(|key| cache.keep(key, 1));
    }
    let key = wanted?;
    frame_of(lanes.on_leader(|| cache.keep(key, lanes.count()).map_or(NO_FRAME, |frame| frame.0.into())))
}

/// Ends each lane's guard, if it has one: where all have the same frame's, the leader does it for all. Convergent; called by `lanes`.
pub(super) fn end(cache: &Cache, lanes: Lanes, frame: Option<FrameIndex>) {
    let word = frame.map_or(NO_FRAME, |frame| frame.0.into());
    let first = lanes.from_leader(word);
    // What the lanes have read comes before the vote.
    let share = if !lanes.all(word == first) {
        1
    } else if lanes.is_leader() {
        lanes.count()
    } else {
        return;
    };
    if let Some(frame) = frame {
        cache.frame(frame).unguard(share);
    }
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
    // Who has its page lets go of it before others of the warp try for frames.
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
    if let Some(frame) = fill {
        step = match brought {
            Ok(0) => Step::Failed(Errno::NXIO),
            Ok(_) => Step::Pinned(frame),
            Err(errno) => Step::Failed(errno),
        };
        match brought {
            Ok(valid) if valid > 0 => cache.frame(frame).filled(valid, mates.count()),
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
    let word = wanted.map_or(0, Key::word);
    let first = lanes.from_leader(word);
    if !lanes.all(word == first) {
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
fn target_of(session: &SessionTables, key: Key) -> Result<Target, Errno> {
    let mapping = session.cache.mappings().get(key.mapping() as usize).ok_or(Errno::BADF)?;
    // ORDERING: relaxed: constant while kernels run.
    let index = FileIndex(mapping.file.peek());
    let (file, flags) = session.file_and_flags(index)?;
    Ok(file.target_of(flags, index))
}

/// Where a page begins in its file, in bytes.
fn offset_of(session: &SessionTables, key: Key) -> u64 {
    key.page() * u64::from(session.cache.page_bytes)
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
        let request = place.filter(|_| open).map(|(target, offset, address)| Request {
            target,
            memory: address + done,
            bytes: page - done,
            offset: offset + done,
        });
        let read = transfer(session, lanes, false, request);
        if open {
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

/// Writes each lane's page, which it has begun to write, as far as the file had bytes for it. Convergent; called by `lanes`.
fn write_back(session: &SessionTables, lanes: Lanes, frame: Option<FrameIndex>) -> Result<(), Errno> {
    let cache = &session.cache;
    let mut outcome = Ok(());
    let place = frame.and_then(|index| {
        let frame = cache.frame(index);
        let key = Key::from_word(frame.key())?;
        match target_of(session, key) {
            Ok(target) => {
                Some((target, offset_of(session, key), cache.address(index), u64::from(frame.valid())))
            }
            Err(errno) => {
                outcome = Err(errno);
                None
            }
        }
    });
    let mut done = 0;
    let mut open = place.is_some();
    let (target, offset, address, valid) = place.unwrap_or((Target { fd: -1, fixed: false }, 0, 0, 0));
    // Ends: each round moves bytes of some lane's page, or closes it, unless a signal interrupted it.
    while lanes.any(open) {
        // A short write may end anywhere, and words are copied whole.
        let skew = done % 8;
        let left = valid - done;
        let waited = staged(session, lanes, open.then_some(skew + left), |area| {
            let (staging, room) = area.map_or((0, 0), |area| (area.address, u64::from(area.bytes)));
            let bytes = left.min(room.saturating_sub(skew));
            copy_stored(lanes, staging, address + done - skew, if bytes > 0 { skew + bytes } else { 0 });
            #[expect(clippy::cast_possible_truncation, reason = "at most a page")]
            let entry = (bytes > 0).then(|| {
                let memory = (staging + skew, bytes as u32);
                Resources::pool_transfer(&session.staging, true, target, memory, offset + done)
            });
            let result = transact(session, lanes, entry);
            if bytes > 0 {
                match Errno::check(result) {
                    Ok(0) => outcome = Err(Errno::IO),
                    Ok(count) => done += u64::from(count),
                    Err(Errno::INTR) => {}
                    Err(errno) => outcome = Err(errno),
                }
            }
        });
        outcome = outcome.and(waited);
        open = open && outcome.is_ok() && done < valid;
    }
    outcome
}

/// Copies each lane's `bytes` to staging memory from a frame that other lanes may store to: in words, each as it is at some time. Convergent; called
/// by `lanes`; `source` and `target` are multiples of 8.
fn copy_stored(lanes: Lanes, target: u64, source: u64, bytes: u64) {
    for lane in lanes.ballot(bytes > 0).iter() {
        let (target, source) = (lanes.broadcast(target, lane), lanes.broadcast(source, lane));
        let words = lanes.broadcast(bytes, lane).div_ceil(8);
        let mut at = u64::from(lanes.rank());
        // Ends: `at` grows.
        while at < words {
            // SAFETY:
            // - within a frame, whose bytes are whole words, aligned; it is pinned
            // - lanes store to it by words alone
            let word = unsafe { &*((source + 8 * at) as *const DeviceWord64) };
            // ORDERING: relaxed: the store's mark was taken before ([R-CACHE-6]).
            let value = word.peek();
            // SAFETY:
            // - within the lane's staging memory, whose size is a multiple of a page, aligned; nobody else uses it
            unsafe { ((target + 8 * at) as *mut u64).write(value) };
            at += u64::from(lanes.count());
        }
    }
    // What all have copied is the kernel's.
    lanes.sync();
}

/// Writes every dirty page of a mapping ([R-CACHE-7]). Convergent; called by `lanes`, with the same mapping.
///
/// # Errors
/// The first that a write of the lane's met; the page is dirty still.
pub(super) fn flush(session: &SessionTables, lanes: Lanes, mapping: u32) -> Result<(), Errno> {
    let cache = &session.cache;
    let frames = cache.frames().len() as u64;
    let mut outcome = Ok(());
    let mut base = 0;
    // Ends: `base` grows.
    while base < frames {
        let index = base + u64::from(lanes.rank());
        let mine = (index < frames).then(|| FrameIndex(u32::from_word(index)));
        outcome = outcome.and(flush_some(session, lanes, mapping, mine));
        base += u64::from(lanes.count());
    }
    outcome
}

/// [`flush`] of one frame of each lane. Convergent; called by `lanes`.
fn flush_some(
    session: &SessionTables,
    lanes: Lanes,
    mapping: u32,
    mut mine: Option<FrameIndex>,
) -> Result<(), Errno> {
    let cache = &session.cache;
    let mut outcome = Ok(());
    let mut backoff = Backoff::new(session);
    // Ends: each round writes what is dirty, or waits for another lane's write, which ends.
    loop {
        let mut begun = None;
        if let Some(index) = mine {
            match begin_flush(session, mapping, index) {
                Flush::Writes => begun = Some(index),
                Flush::Waits => {}
                Flush::Nothing => mine = None,
            }
        }
        if lanes.any(begun.is_some()) {
            let written = write_back(session, lanes, begun);
            if let Some(index) = begun {
                cache.frame(index).end_write(written.is_ok());
                cache.frame(index).unpin(1);
                outcome = outcome.and(written);
                mine = None;
            }
        }
        if !lanes.any(mine.is_some()) {
            return outcome;
        }
        let ring = ring_of_warp(session);
        let drained = drain(session, lanes, ring);
        backoff.wait(drained, WaitReason::CachedPage, ring, u64::from(mapping))?;
    }
}

/// What [`flush_some`] finds in a frame.
enum Flush {
    /// The lane has pinned the page and begun to write it.
    Writes,
    /// Another lane writes it.
    Waits,
    /// It is not the mapping's, or clean.
    Nothing,
}

/// Pins a frame and begins to write it, if it is the mapping's and dirty. One lane. Waits for nothing.
fn begin_flush(session: &SessionTables, mapping: u32, index: FrameIndex) -> Flush {
    let cache = &session.cache;
    let frame = cache.frame(index);
    let seen = frame.seen();
    let Some(key) = Key::from_word(frame.key()).filter(|key| key.mapping() == mapping) else {
        return Flush::Nothing;
    };
    if !seen.is_dirty() && !seen.is_writing() {
        return Flush::Nothing;
    }
    if frame.pin(key, 1) != Pinned::Yes {
        // A dirty page does not go: it was written meanwhile.
        return Flush::Nothing;
    }
    match frame.begin_write() {
        Write::Begun => {
            cache.set_of(index).write_backs.count(1);
            Flush::Writes
        }
        Write::Clean => {
            frame.unpin(1);
            Flush::Nothing
        }
        Write::Elsewhere => {
            frame.unpin(1);
            Flush::Waits
        }
    }
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
    }
}

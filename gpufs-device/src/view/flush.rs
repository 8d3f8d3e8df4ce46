//! Pages that go to their files: those that must make room, and all of a mapping ([R-CACHE-6], [R-CACHE-7]).
#![expect(unsafe_code, reason = "copies what other lanes may store to")]

use gpufs_core::Errno;
use gpufs_core::cache::{FrameIndex, Key, Mapping, Pinned, Write};
use gpufs_core::session::{Resources, SessionTables, Target, WaitReason};
use gpufs_core::word::DeviceWord64;

use super::pages::{offset_of, target_of, turn};
use crate::io::{Backoff, drain, ring_of_warp, staged, transact, warp_of_grid};
use crate::warp::{Broadcast, Lanes};

/// Writes each lane's page, which it has begun to write, as far as the file had bytes for it. Convergent; called by `lanes`.
pub(super) fn write_back(
    session: &SessionTables,
    lanes: Lanes,
    frame: Option<FrameIndex>,
) -> Result<(), Errno> {
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
        let moves = turn(session, lanes, open);
        let waited = staged(session, lanes, moves.then_some(skew + left), |area| {
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
    /// Words of a lane on their way at once.
    const AT_ONCE: usize = 16;
    let each = u64::from(lanes.count());
    for lane in lanes.ballot(bytes > 0).iter() {
        let (target, source) = (lanes.broadcast(target, lane), lanes.broadcast(source, lane));
        let words = lanes.broadcast(bytes, lane).div_ceil(8);
        let load = |at: u64| {
            // SAFETY:
            // - within a frame, whose bytes are whole words, aligned; it is pinned
            // - lanes store to it by words alone
            let word = unsafe { &*((source + 8 * at) as *const DeviceWord64) };
            // ORDERING: relaxed: the store's mark was taken before ([R-CACHE-6]).
            word.peek()
        };
        let store = |at: u64, value: u64| {
            // SAFETY:
            // - within the lane's staging memory, whose size is a multiple of a page, aligned; nobody else uses it
            unsafe { ((target + 8 * at) as *mut u64).write(value) };
        };
        let mut at = u64::from(lanes.rank());
        // Ends: `at` grows.
        while at + (AT_ONCE as u64 - 1) * each < words {
            let mut values = [0; AT_ONCE];
            for (value, index) in values.iter_mut().zip(0..) {
                *value = load(at + index * each);
            }
            for (value, index) in values.into_iter().zip(0..) {
                store(at + index * each, value);
            }
            at += AT_ONCE as u64 * each;
        }
        // Ends: `at` grows.
        while at < words {
            store(at, load(at));
            at += each;
        }
    }
    // What all have copied is the kernel's.
    lanes.sync();
}

/// Writes every dirty page of a mapping ([R-CACHE-7]): each lane looks for pages until it has one, and those of all lanes are written as one batch.
/// Convergent; called by `lanes`, with the same mapping.
///
/// # Errors
/// The first that a write of the lane's met; the page is dirty still.
pub(super) fn flush(session: &SessionTables, lanes: Lanes, mapping: u32) -> Result<(), Errno> {
    /// Odd: warps that flush the same mapping begin at different frames, and so meet seldom.
    const MIXER: u32 = 0x9e37_79b9;
    let cache = &session.cache;
    let Some(layout) = cache.mappings().get(mapping as usize).map(Mapping::layout) else { return Ok(()) };
    // First the frames of its own, then those that its other pages share with other files'.
    let (own, shared) = (u64::from(layout.own), u64::from(layout.shared));
    let frames = own + shared;
    // The same in all lanes: each looks at other frames only then.
    let mixed = u64::from(warp_of_grid().wrapping_mul(MIXER));
    let (first_own, first_shared) = (mixed % own.max(1), mixed % shared.max(1));
    let turned = |at: u64, of: u64| if at < of { at } else { at - of };
    let frame_at = |place: u64| {
        FrameIndex(u32::from_word(if place < own {
            u64::from(layout.first) + turned(first_own + place, own)
        } else {
            turned(first_shared + place - own, shared)
        }))
    };
    // How many frames are before the one that the lane looks at.
    let mut looked = u64::from(lanes.rank());
    let mut outcome = Ok(());
    let mut backoff = Backoff::new(session);
    // Ends: each round writes what is dirty, or waits for another lane's write, which ends; `looked` grows.
    loop {
        let (mut begun, mut waits) = (None, false);
        // Ends: `looked` grows.
        while begun.is_none() && !waits && looked < frames {
            let index = frame_at(looked);
            match begin_flush(session, mapping, index) {
                Flush::Writes => begun = Some(index),
                Flush::Waits => waits = true,
                Flush::Nothing => looked += u64::from(lanes.count()),
            }
        }
        if lanes.any(begun.is_some()) {
            let written = write_back(session, lanes, begun);
            if let Some(index) = begun {
                cache.frame(index).end_write(written.is_ok());
                cache.frame(index).unpin(1);
                outcome = outcome.and(written);
                looked += u64::from(lanes.count());
            }
            continue;
        }
        if !lanes.any(waits) {
            return outcome;
        }
        let ring = ring_of_warp(session);
        let drained = drain(session, lanes, ring);
        backoff.wait(drained, WaitReason::CachedPage, ring, u64::from(mapping))?;
    }
}

/// What [`flush`] finds in a frame.
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

//! Events that kernels left in the pieces of traces ([R-TRACE-4]): they go into their streams, or where the device is dead into the files.
#![expect(unsafe_code, reason = "writes into stream buffers")]

use std::collections::BTreeMap;

use gpufs_core::Errno;
use gpufs_core::pieces::{Found, stream_word, whole_bytes};
use gpufs_core::session::SessionTables;
use gpufs_core::stream::{Direction, Progress, Stream};

/// The whole events of a piece.
fn events_of(session: &SessionTables, found: Found) -> Vec<u8> {
    let words: Vec<u64> = session.pieces.words_of(found).collect();
    let whole = whole_bytes(&words);
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.take(whole).collect()
}

/// The open stream that a piece is of.
fn stream_of(session: &SessionTables, found: Found) -> Option<&Stream> {
    let all = (0_u32..).zip(session.streams());
    // ORDERING: relaxed: no kernel runs, or under the stream's lock.
    all.into_iter()
        .find(|(index, stream)| stream_word(*index, stream.generation.peek()) == found.stream)
        .map(|(_, stream)| stream)
        .filter(|stream| stream.generation.peek() % 2 == 1)
}

/// What happened to a piece's events.
pub(super) enum Taken<'a> {
    /// All are in the stream, or there were none.
    All,
    /// So many bytes are not, for this reason; they are kept.
    Kept(&'a Stream, usize, Errno),
    /// So many bytes are lost, as their stream is closed.
    Lost(usize),
}

/// Puts the events of all pieces into their streams, whose fast paths are closed then. While no kernel runs. `wait` waits for a ring.
pub(super) fn take_all<'a>(
    session: &'a SessionTables,
    wait: &mut dyn FnMut(u32) -> Result<(), Errno>,
) -> Vec<Taken<'a>> {
    if session.pieces.all_free() {
        return Vec::new();
    }
    let take = |found: Found| {
        let events = events_of(session, found);
        if events.is_empty() {
            session.pieces.give_back(found);
            return Taken::All;
        }
        let Some(stream) = stream_of(session, found) else {
            session.pieces.give_back(found);
            return Taken::Lost(events.len());
        };
        stream.close_cursor();
        stream.forget_error();
        let (accepted, outcome) = append(session, stream, 0, &events, wait);
        match outcome {
            Ok(()) => {
                session.pieces.give_back(found);
                Taken::All
            }
            Err(errno) => {
                #[expect(clippy::cast_possible_truncation, reason = "within the piece")]
                session.pieces.keep(found, found.start + accepted as u32);
                Taken::Kept(stream, events.len() - accepted, errno)
            }
        }
    };
    session.pieces.found().map(take).collect()
}

/// Puts copies of the events of a stream's pieces into it, while lanes run: at the end of the process. Under the stream's lock, quiet.
pub(super) fn copy_into(
    session: &SessionTables,
    stream: &Stream,
    ring: u32,
    wait: &mut dyn FnMut(u32) -> Result<(), Errno>,
) -> Result<(), Errno> {
    if session.pieces.all_free() {
        return Ok(());
    }
    let name = stream_word(stream.index_in(session), stream.generation.peek());
    for found in session.pieces.found().filter(|found| found.stream == name) {
        append(session, stream, ring, &events_of(session, found), wait).1?;
    }
    Ok(())
}

/// Appends bytes to what a stream has accepted: how many, and why not all. Under its lock, quiet, or while no kernel runs.
fn append(
    session: &SessionTables,
    stream: &Stream,
    ring: u32,
    bytes: &[u8],
    wait: &mut dyn FnMut(u32) -> Result<(), Errno>,
) -> (usize, Result<(), Errno>) {
    // A trace is written as soon as it is open. A kernel may have written over its entry: the pieces' memory is behind that of all buffers.
    let (buffers, end) = (&session.stream_buffers, session.pieces.address(0));
    let is_whole = stream.has_plausible_blocks(session)
        && stream.blocks.iter().take(stream.block_count.peek() as usize).all(|block| {
            let address = buffers.address(block.buffer.peek());
            buffers.base <= address && address <= end - stream.block_bytes()
        });
    if stream.direction() != Direction::Writing || !is_whole {
        return (0, Err(Errno::IO));
    }
    let mut done = 0;
    // Ends: each round takes bytes in, or waits for room, of which `wait` is the end.
    while done < bytes.len() {
        let at = stream.reserved();
        let taken = stream.reserve_locked((bytes.len() - done) as u64);
        if taken == 0 {
            let waited = match stream.settle_writes_step(session, ring) {
                Progress::Done => Ok(()),
                Progress::Failed(errno) => Err(errno),
                Progress::Wait(ring) => wait(ring),
                Progress::NoSlot => wait(ring),
            };
            if let Err(errno) = waited {
                return (done, Err(errno));
            }
            continue;
        }
        let count = usize::try_from(taken).unwrap_or(usize::MAX);
        put(session, stream, at, &bytes[done..done + count], ring);
        done += count;
    }
    (done, Ok(()))
}

/// Puts bytes where they were reserved, from position `at` on, within one block.
fn put(session: &SessionTables, stream: &Stream, at: u64, bytes: &[u8], ring: u32) {
    let geometry = stream.geometry(session);
    let number = geometry.block_of(at);
    let block_ref = stream.block_ref(&geometry, number);
    let (address, room) = geometry.address(block_ref, at);
    assert!(bytes.len() as u64 <= room, "within one block");
    // SAFETY:
    // - the room was reserved in the block, whose buffer is one of the session's (`append`), which the host has at the same address
    unsafe {
        let into = std::ptr::with_exposed_provenance_mut::<u8>(usize::try_from(address).unwrap_or(0));
        into.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
    #[expect(clippy::cast_possible_truncation, reason = "within one block")]
    let share = ((at - geometry.start_of(number)) as u32, bytes.len() as u32);
    let entry = stream.draw_entry(&geometry, number, share);
    let committed = stream.commit(session, &geometry, block_ref, share, entry);
    if committed.full {
        // Where no slot is free now, whoever waits for room starts it, or the flush.
        let (Progress::Done | Progress::Wait(_) | Progress::NoSlot | Progress::Failed(_)) =
            stream.start(session, ring, number);
    } else if committed.unrecorded.is_some() {
        stream.catch_up(session);
    }
}

/// The events of all pieces, by their streams, as entries of the journal name these: index and 1, generation, descriptor. Of a device that is dead.
pub(super) fn survivors(session: &SessionTables) -> BTreeMap<(u32, u32, i32), Vec<u8>> {
    let mut all: BTreeMap<(u32, u32, i32), Vec<u8>> = BTreeMap::new();
    for found in session.pieces.found() {
        #[expect(clippy::cast_possible_truncation, reason = "the halves")]
        let (index, generation) = (found.stream as u32, (found.stream >> 32) as u32);
        let events = events_of(session, found);
        if !events.is_empty() {
            all.entry((index, generation, found.descriptor)).or_default().extend(events);
        }
    }
    all
}

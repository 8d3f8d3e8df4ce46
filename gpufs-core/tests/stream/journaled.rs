//! What the journal is told of a block, and when.

use super::*;

#[test]
fn the_journal_is_told_whose_block_it_is() {
    for (file_flags, offset, serial) in [(OpenFile::SEEKABLE, 100, false), (0, 100, true)] {
        let tables = writing(JOURNALED, file_flags, offset);
        let inside = if serial { 0 } else { 4 };
        for place in 0..BLOCKS {
            let (record, _) = tables.record(place as usize);
            let taken = if place == 0 { inside } else { 0 };
            let wanted = Record {
                block_number: place.into(),
                offset: offset - u64::from(inside) + u64::from(place * BLOCK),
                token: 0,
                written: taken,
                filled: taken,
                descriptor: DESCRIPTOR.cast_signed(),
                shape: SHIFT | if serial { Record::SERIAL } else { 0 },
                stream: 1,
                generation: 1,
            };
            assert_eq!(record, wanted);
            assert_eq!((record.block_shift(), record.is_serial()), (SHIFT, serial));
        }
    }
}

/// From the last commit of a block to the place's next one.
#[test]
fn the_journal_is_told_how_far_a_block_is() {
    let tables = writing(JOURNALED, OpenFile::SEEKABLE, 0);
    let (stream, session) = (tables.stream(), &tables.session);
    let told = || {
        let (record, _) = tables.record(0);
        (record.block_number, record.token != 0, record.written, record.filled)
    };
    tables.put(5);
    assert_eq!(told(), (0, false, 0, 0), "an entry has it");
    tables.put(BLOCK - 5);
    assert_eq!(told(), (0, false, 0, BLOCK));
    assert_eq!(stream.start(session, 0, 0), Progress::Wait(0));
    assert_eq!(told(), (0, true, 0, BLOCK));
    assert_eq!(tables.record(0).0.token & u64::from(u32::MAX), tables.entry(0, 0).user_data & 0xffff);
    assert_ne!(tables.entry(0, 0).user_data & gpufs_core::Operation::JOURNALED, 0);
    tables.complete(0, 0, 7);
    assert_eq!(stream.reap(session, 0), Progress::Wait(0));
    assert_eq!(told(), (0, true, 7, BLOCK));
    tables.complete(0, 1, EIO);
    assert_eq!(stream.reap(session, 0), Progress::Failed(Errno::IO));
    assert_eq!(told(), (0, false, 7, BLOCK));
    stream.forget_error();
    assert_eq!(stream.start(session, 0, 0), Progress::Wait(0));
    tables.complete_all();
    assert_eq!(stream.reap(session, 0), Progress::Done);
    assert_eq!(told(), (BLOCKS.into(), false, 0, 0));
}

/// Commits of few bytes draw entries, of which there are few.
#[test]
fn a_commit_without_an_entry_is_behind_until_the_place_is_switched() {
    let tables = writing(JOURNALED, OpenFile::SEEKABLE, 0);
    let stream = tables.stream();
    for drawn in 0..ENTRIES {
        assert_eq!(stream.try_reserve(1, 1), Reservation::At(drawn.into()));
        assert_eq!(tables.commit_in_block(drawn.into(), 1), Committed { full: false, unrecorded: None });
    }
    let (_, epoch) = tables.record(0);
    assert_eq!(stream.try_reserve(1, 1), Reservation::At(ENTRIES.into()));
    let committed = tables.commit_in_block(ENTRIES.into(), 1);
    assert_eq!(committed, Committed { full: false, unrecorded: Some(epoch) });
    assert!(stream.is_behind(0, epoch) && !stream.is_behind(0, epoch - 1));
    tables.close();
    for direction in [Direction::Idle, Direction::Reading] {
        stream.direction.set(direction as u32);
        stream.catch_up(&tables.session);
        assert!(stream.is_behind(0, epoch), "the blocks are not the stream's");
    }
    stream.direction.set(Direction::Writing as u32);
    stream.catch_up(&tables.session);
    assert!(!stream.is_behind(0, epoch));
    let (record, next) = tables.record(0);
    assert_eq!((record.filled, next), (ENTRIES + 1, epoch + 1));
    stream.catch_up(&tables.session);
    assert_eq!(tables.record(0).1, next, "no entry was drawn since");
}

/// The place of the block that is next holds one that is full, which its last commit switched.
#[test]
fn a_full_block_is_not_behind() {
    let tables = writing(JOURNALED, OpenFile::SEEKABLE, 0);
    (0..BLOCKS * BLOCK).for_each(|at| assert_eq!(tables.put(1), at.into()));
    tables.close();
    // As if entries had been drawn since.
    let block = tables.block(0);
    block.committed.set(block.committed.peek() + (1 << 32));
    let epochs = [0, 1, 2, 3].map(|place| tables.record(place).1);
    tables.stream().catch_up(&tables.session);
    assert_eq!([0, 1, 2, 3].map(|place| tables.record(place).1), epochs);
}

/// What lanes reserved that are gone counts as there, and a block that is full so is FULL. Where nothing is missing nothing is told.
#[test]
fn what_was_abandoned_is_counted_in() {
    let tables = writing(JOURNALED, OpenFile::SEEKABLE, 0);
    let (stream, session) = (tables.stream(), &tables.session);
    tables.put(BLOCK);
    tables.put(3);
    assert_eq!(stream.try_reserve(1, BLOCK.into()), Reservation::At(u64::from(BLOCK) + 3));
    stream.close_cursor();
    let before = [0, 1, 2, 3].map(|place| tables.record(place).1);
    for _ in 0..2 {
        stream.count_in_abandoned(session);
        let after = [0, 1, 2, 3].map(|place| tables.record(place).1);
        assert_eq!(after, [before[0], before[1] + 1, before[2] + 1, before[3]]);
        let blocks = [0, 1, 2, 3].map(|place| {
            let block = tables.block(place);
            (block.state.peek(), block.committed.peek())
        });
        let (all, full) = (BLOCK.into(), State::Full);
        assert_eq!(blocks, [(full, all), (full, all), (State::Filling, 3), (State::Filling, 0)]);
    }
    assert_eq!([1, 2].map(|place| tables.record(place).0.filled), [BLOCK, 3]);
}

/// Between counting in a block's last bytes and saying that it is FULL, its committer was gone.
#[test]
fn a_block_whose_last_committer_is_gone_is_full() {
    let tables = writing(JOURNALED, OpenFile::SEEKABLE, 0);
    let stream = tables.stream();
    assert_eq!(stream.try_reserve(1, BLOCK.into()), Reservation::At(0));
    tables.block(0).committed.set(BLOCK.into());
    stream.close_cursor();
    let (_, epoch) = tables.record(0);
    stream.count_in_abandoned(&tables.session);
    assert_eq!((tables.block(0).state.peek(), tables.record(0).1), (State::Full, epoch));
}

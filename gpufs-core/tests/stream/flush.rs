//! Under the lock: what a flush, and what follows a write, says and leaves.

use super::*;

/// What no slot is left for is not taken for written.
#[test]
fn a_flush_says_what_it_waits_for() {
    let tables = writing(USUAL, OpenFile::SEEKABLE, 0);
    let (stream, queue) = (tables.stream(), &tables.rigs[0].queue);
    tables.put(BLOCK);
    tables.close();
    let all = queue.claim(SLOTS, 0).unwrap();
    assert_eq!(all.count(), SLOTS);
    assert_eq!(stream.flush_step(&tables.session, 0), Progress::NoSlot);
    queue.release(all);
    assert_eq!(stream.flush_step(&tables.session, 0), Progress::Wait(0));
    assert_eq!((stream.unwritten(), tables.submitted(0)), (BLOCK.into(), 1));
    tables.complete_all();
    // Somebody is about to grant what is freed.
    stream.freeing.fetch_add(1);
    assert_eq!(stream.settle_writes_step(&tables.session, 0), Progress::Wait(0));
    assert_eq!(stream.flush_step(&tables.session, 0), Progress::Wait(0));
    assert_eq!(stream.take_back_step(&tables.session, 0), Progress::Wait(0));
    stream.fail(Errno::IO);
    assert_eq!(stream.flush_step(&tables.session, 0), Progress::Wait(0));
    stream.freeing.fetch_sub(1);
    assert_eq!(stream.flush_step(&tables.session, 0), Progress::Failed(Errno::IO));
    stream.forget_error();
    for step in [Stream::settle_writes_step, Stream::flush_step, Stream::take_back_step] {
        assert_eq!(step(stream, &tables.session, 0), Progress::Done);
    }
}

/// A step that finds the last write complete says so, and not that there is more to wait for.
#[test]
fn a_flush_ends_with_the_last_completion() {
    let tables = writing(USUAL, OpenFile::SEEKABLE, 0);
    tables.put(BLOCK);
    tables.close();
    assert_eq!(tables.stream().flush_step(&tables.session, 0), Progress::Wait(0));
    tables.complete_all();
    assert_eq!(tables.stream().flush_step(&tables.session, 0), Progress::Done);
}

/// The buffer of what is in flight is the kernel's, so it is waited for, whatever failed.
#[test]
fn a_flush_waits_for_what_is_in_flight_before_it_fails() {
    let tables = writing(USUAL, OpenFile::SEEKABLE, 0);
    let (stream, session) = (tables.stream(), &tables.session);
    tables.put(2 * BLOCK + 5);
    assert_eq!(stream.start(session, 1, 0), Progress::Wait(1));
    assert_eq!(stream.start(session, 0, 1), Progress::Wait(0));
    tables.close();
    tables.complete(0, 0, EIO);
    assert_eq!(stream.flush_step(session, 0), Progress::Wait(1));
    tables.complete(1, 0, BLOCK.cast_signed());
    assert_eq!(stream.flush_step(session, 0), Progress::Failed(Errno::IO));
    assert_eq!((tables.submitted(0), tables.submitted(1)), (1, 1), "nothing is started behind an error");
    assert_eq!((stream.unwritten(), stream.first_unwritten()), (u64::from(BLOCK) + 5, BLOCK.into()));
    stream.forget_error();
    tables.flush();
    assert_eq!((stream.unwritten(), stream.first_unwritten()), (0, u64::from(2 * BLOCK + 5)));
}

/// A block that failed is not what is waited for.
#[test]
fn taking_back_waits_on_the_ring_of_what_is_in_flight() {
    let tables = writing(USUAL, OpenFile::SEEKABLE, 0);
    let (stream, session) = (tables.stream(), &tables.session);
    tables.put(2 * BLOCK);
    assert_eq!(stream.start(session, 1, 0), Progress::Wait(1));
    assert_eq!(stream.start(session, 0, 1), Progress::Wait(0));
    tables.close();
    tables.complete(0, 0, EIO);
    assert_eq!(stream.take_back_step(session, 0), Progress::Wait(1));
    assert_eq!(stream.take_back_step(session, 0), Progress::Wait(1));
    tables.complete(1, 0, BLOCK.cast_signed());
    assert_eq!(stream.take_back_step(session, 0), Progress::Done);
    assert!(stream.blocks.iter().all(|block| block.state.peek() == State::Filling));
}

#[test]
fn what_is_unwritten_is_counted_from_what_the_file_has() {
    let tables = writing(USUAL, OpenFile::SEEKABLE, 0);
    let stream = tables.stream();
    tables.put(10);
    tables.close();
    assert_eq!((stream.unwritten(), stream.first_unwritten()), (10, 0));
    tables.flush();
    assert_eq!((stream.unwritten(), stream.first_unwritten()), (0, 10));
    stream.open_cursor();
    assert_eq!(tables.put(5), 10);
    tables.close();
    assert_eq!((stream.unwritten(), stream.first_unwritten()), (5, 10));
    assert_eq!(stream.flush_step(&tables.session, 0), Progress::Wait(0));
    assert_eq!(tables.last_write(0, 0), (10, 5, 10));
}

/// A round of the blocks and more, so that their numbers have moved on.
#[test]
fn unwritten_bytes_are_those_of_the_last_round() {
    let tables = writing(USUAL, OpenFile::SEEKABLE, 0);
    let stream = tables.stream();
    for _ in 0..3 {
        tables.put(2 * BLOCK);
        tables.close();
        tables.flush();
        stream.open_cursor();
    }
    tables.put(BLOCK + 1);
    tables.close();
    assert_eq!((stream.unwritten(), stream.first_unwritten()), (u64::from(BLOCK) + 1, u64::from(6 * BLOCK)));
    stream.fail(Errno::IO);
    assert_eq!(stream.flush_step(&tables.session, 0), Progress::Failed(Errno::IO));
    assert_eq!((stream.unwritten(), stream.first_unwritten()), (u64::from(BLOCK) + 1, u64::from(6 * BLOCK)));
}

#[test]
fn the_rest_of_a_short_write_is_written() {
    let tables = writing(USUAL, OpenFile::SEEKABLE, 64);
    let (stream, session) = (tables.stream(), &tables.session);
    tables.put(BLOCK);
    assert_eq!(stream.start(session, 0, u64::from(BLOCKS)), Progress::Done, "the place's next block");
    assert_eq!(tables.submitted(0), 0);
    assert_eq!(stream.start(session, 0, 0), Progress::Wait(0));
    for (ticket, written, res) in [(0, 0, 3), (1, 3, -4), (2, 3, 20), (3, 23, 8), (4, 31, 1)] {
        assert_eq!(tables.last_write(0, 0), (64 + written, BLOCK - written as u32, written));
        assert_eq!(stream.reap(session, 0), Progress::Wait(0));
        assert_eq!(tables.submitted(0), ticket + 1);
        tables.complete(0, ticket, res);
        let ends = ticket == 4;
        assert_eq!(stream.reap(session, 0), if ends { Progress::Done } else { Progress::Wait(0) });
    }
    assert_eq!(tables.block(0).block_number.peek(), BLOCKS.into());
    assert_eq!(tables.rigs[0].queue.free_slots(), SLOTS);
}

#[test]
fn a_write_of_nothing_is_an_error() {
    let tables = writing(USUAL, OpenFile::SEEKABLE, 0);
    let (stream, session) = (tables.stream(), &tables.session);
    tables.put(BLOCK);
    for (ticket, before) in [(0, None), (1, Some(7))] {
        assert_eq!(stream.start(session, 0, 0), Progress::Wait(0));
        tables.complete(0, ticket, before.unwrap_or(0));
        if before.is_some() {
            assert_eq!(stream.reap(session, 0), Progress::Wait(0));
            tables.complete(0, ticket + 1, 0);
        }
        assert_eq!(stream.reap(session, 0), Progress::Failed(Errno::IO));
        assert_eq!((stream.failed(), tables.block(0).state.peek()), (Some(Errno::IO), State::Full));
        assert_eq!(tables.rigs[0].queue.free_slots(), SLOTS);
        stream.forget_error();
    }
    assert_eq!(stream.unwritten(), u64::from(BLOCK) - 7);
}

#[test]
fn some_look_after_the_blocks_and_no_more() {
    let tables = writing(USUAL, OpenFile::SEEKABLE, 0);
    let stream = tables.stream();
    for most in 1..4 {
        assert!((0..most).all(|_| stream.enter_progress(most)));
        assert!(!stream.enter_progress(most) && !stream.enter_progress(most));
        stream.leave_progress();
        assert!(stream.enter_progress(most));
        (0..most).for_each(|_| stream.leave_progress());
        assert_eq!(stream.progressing.0.peek(), 0);
    }
}

#[test]
fn buffers_are_the_systems_while_writes_are_in_flight() {
    let tables = writing(USUAL, OpenFile::SEEKABLE, 0);
    let stream = tables.stream();
    tables.put(BLOCK + 1);
    assert!(!stream.is_in_flight());
    assert_eq!(stream.start(&tables.session, 0, 0), Progress::Wait(0));
    assert!(stream.is_in_flight());
    // The token of a read is none of a write.
    for direction in [Direction::Idle, Direction::Reading] {
        stream.direction.set(direction as u32);
        assert!(!stream.is_in_flight());
    }
    stream.direction.set(Direction::Writing as u32);
    tables.complete_all();
    assert_eq!(stream.reap(&tables.session, 0), Progress::Done);
    assert!(!stream.is_in_flight());
}

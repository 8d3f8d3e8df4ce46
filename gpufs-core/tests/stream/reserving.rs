//! Reserving, and when the fast path is open and quiet.

use super::*;

#[test]
fn the_fast_path_is_open_between_open_and_close_without_an_error() {
    let tables = writing(USUAL, OpenFile::SEEKABLE, 0);
    let stream = tables.stream();
    let is_closed = || stream.cursor.0.peek() & CLOSED != 0;
    assert!(stream.is_open() && !is_closed());
    tables.put(5);
    assert!(stream.is_open());
    stream.fail(Errno::NOSPC);
    assert_eq!(stream.failed(), Some(Errno::NOSPC));
    assert!(!stream.is_open() && !is_closed());
    assert_eq!(stream.try_reserve(1, 1), Reservation::Closed);
    tables.close();
    stream.open_cursor();
    assert!(is_closed(), "after an error it stays closed");
    stream.forget_error();
    assert_eq!(stream.failed(), None);
    assert!(!stream.is_open());
    // As a lane that has taken room and not yet added it to the cursor.
    stream.available.0.fetch_sub(1);
    assert!(!stream.is_quiet());
    stream.open_cursor();
    assert!(is_closed(), "while somebody has room in hand it stays closed");
    stream.available.0.fetch_add(1);
    stream.open_cursor();
    assert!(stream.is_open() && !is_closed());
    assert_eq!(tables.put(1), 5);
}

#[test]
fn a_stream_is_quiet_when_all_that_was_reserved_is_counted_in() {
    let tables = writing(USUAL, OpenFile::SEEKABLE, 0);
    let Reservation::At(position) = tables.stream().try_reserve(1, u64::from(BLOCK) + 2) else { panic!() };
    tables.stream().close_cursor();
    assert!(!tables.stream().is_quiet());
    assert!(tables.commit_in_block(position, BLOCK).full);
    assert!(!tables.stream().is_quiet());
    assert!(!tables.commit_in_block(position + u64::from(BLOCK), 1).full);
    assert!(!tables.stream().is_quiet());
    assert!(!tables.commit_in_block(position + u64::from(BLOCK) + 1, 1).full);
    assert!(tables.stream().is_quiet());
}

#[test]
fn room_is_what_was_granted() {
    let tables = writing(USUAL, OpenFile::SEEKABLE, 0);
    let stream = tables.stream();
    let all = u64::from(BLOCKS * BLOCK);
    assert!(stream.has_available(all) && !stream.has_available(all + 1));
    tables.put(3);
    assert!(stream.has_available(all - 3) && !stream.has_available(all - 2));
    tables.put(61);
    tables.put(64);
    assert_eq!(stream.try_reserve(1, 1), Reservation::Busy);
    assert_eq!(stream.try_reserve(2, 1), Reservation::Closed, "a handle of another generation");
}

#[test]
fn a_record_of_many_blocks_takes_the_lock() {
    for (before, bytes, is_taken) in [(0, 96, true), (0, 97, false), (31, 65, true), (31, 66, false)] {
        let tables = writing(USUAL, OpenFile::SEEKABLE, before);
        let reserved = tables.stream().try_reserve(1, bytes);
        let wanted = if is_taken { Reservation::At(before) } else { Reservation::Closed };
        assert_eq!(reserved, wanted, "{bytes} bytes behind {before}");
    }
}

#[test]
fn positions_run_short_behind_half_of_them() {
    for (position, is_spent) in
        [(0, false), (Stream::SPENT, false), (Stream::SPENT + 1, true), (Stream::SPENT + 2, true)]
    {
        let tables = writing(USUAL, OpenFile::SEEKABLE, 0);
        let stream = tables.stream();
        stream.cursor.0.set(position);
        let wanted = if is_spent { Reservation::Closed } else { Reservation::At(position) };
        assert_eq!(stream.try_reserve(1, 1), wanted);
        stream.close_cursor();
        stream.closed_at.set(position);
        assert_eq!(stream.is_spent(), is_spent, "{position}");
    }
}

//! Starting reads, taking in their results, and publishing what was read.

use gpufs_core::stream::readahead::{Tokens, Work};

use super::taking::eights;
use super::text::{LINE_MAX, PLACES, TEXT_BLOCK, Text};
use super::*;

#[test]
fn reads_go_round_the_rings_from_the_streams_own() {
    let text = Text::new(&eights(100), 0, (3, 1));
    text.open(None);
    assert!(text.lines().enter_progress());
    for place in 0..PLACES {
        let ring = (1 + place) % 3;
        let before = text.tables.submitted(ring);
        assert_eq!(text.progress(place), (Work::Nothing, Some(ring)));
        assert_eq!(text.tables.submitted(ring), before + 1);
        assert_eq!(text.tables.entry(ring, before).off, u64::from(place) * TEXT_BLOCK);
        assert_eq!(text.progress(place), (Work::Nothing, Some(ring)), "it is in flight");
    }
}

#[test]
fn a_short_read_is_read_on() {
    let text = Text::new(&eights(100), 40, (1, 0));
    text.open(None);
    let (buffer, ..) = text.lines().memory(&text.tables.session, 0);
    assert_eq!(text.progress(0), (Work::Nothing, Some(0)));
    for (ticket, got, res) in [(0, 0, 20), (1, 20, -4), (2, 20, 43), (3, 63, 1)] {
        let sqe = text.tables.entry(0, ticket);
        assert_eq!((sqe.off, sqe.addr), (40 + got, buffer + got));
        assert_eq!(u64::from(sqe.len), TEXT_BLOCK - got);
        assert_eq!(text.progress(0), (Work::Nothing, Some(0)));
        text.tables.complete(0, ticket, res);
        let wanted = if ticket < 3 { (Work::Nothing, Some(0)) } else { (Work::Index, None) };
        assert_eq!(text.progress(0), wanted);
    }
    assert_eq!(text.lines().places[0].got.peek(), 64);
    assert!(text.lines().is_whole(text.stream(), 0));
}

/// The end of the file and a failed read end what comes of a block.
#[test]
fn a_read_that_gives_no_more_is_taken_in() {
    for res in [0, EIO] {
        let text = Text::of_lines(&eights(100));
        assert_eq!(text.progress(0), (Work::Nothing, Some(0)));
        text.tables.complete(0, 0, 20);
        assert_eq!(text.progress(0), (Work::Nothing, Some(0)));
        text.tables.complete(0, 1, res);
        assert_eq!(text.progress(0), (Work::Index, None));
        assert_eq!(text.lines().places[0].got.peek(), 20);
        assert!(!text.lines().is_whole(text.stream(), 0));
        assert_eq!(text.tables.rigs[0].queue.free_slots(), SLOTS);
    }
}

#[test]
fn few_make_progress_at_a_time() {
    let text = Text::of_lines(&eights(100));
    for _ in 0..2 {
        assert!((0..2 * PLACES).all(|_| text.lines().enter_progress()));
        assert!(!text.lines().enter_progress());
        (0..2 * PLACES).for_each(|_| text.lines().leave_progress());
    }
    text.lines().close();
    assert!(!text.lines().enter_progress());
    assert_eq!(text.settle(), 0, "nobody is left");
}

/// What a warp could do with a place, until no more is published.
#[test]
fn a_place_says_what_could_be_done() {
    let text = Text::of_lines(&eights(10));
    let lines = text.lines();
    assert!(lines.enter_progress());
    text.look_after();
    text.serve(usize::MAX);
    // The end of the file is what a second read finds.
    assert_eq!(text.progress(1), (Work::Nothing, Some(0)));
    text.serve(usize::MAX);
    for place in 0..PLACES {
        assert_eq!(text.progress(place), (Work::Index, None));
        assert_eq!(text.progress(place), (Work::Index, None), "it still is");
    }
    for place in [1, 0, 3] {
        assert!(!lines.claim(place, Work::Nothing) && !lines.claim(place, Work::Publish));
        assert!(lines.claim(place, Work::Index) && !lines.claim(place, Work::Index));
        assert_eq!(text.progress(place), (Work::Nothing, None));
        text.index(place);
        let work = if place == 0 { Work::Publish } else { Work::Nothing };
        assert_eq!(text.progress(place), (work, None), "of place {place}");
    }
    assert!(!lines.claim(1, Work::Publish) && text.publish_run(1));
    assert_eq!(text.progress(1), (Work::Publish, None));
    assert!(text.publish_run(1) && !lines.is_flowing());
    // Place 2 was read, place 3 is indexed: nothing comes of either.
    for place in 0..PLACES {
        assert_eq!(text.progress(place), (Work::Nothing, None));
    }
    assert_eq!(lines.places[2].state.peek(), State::Full);
    assert_eq!(text.tables.in_flight(), []);
}

/// Over the end of the places.
#[test]
fn a_run_is_claimed_place_by_place() {
    let text = Text::of_lines(&eights(100));
    let lines = text.lines();
    assert!(lines.enter_progress());
    text.look_after();
    text.serve(usize::MAX);
    text.look_after();
    assert!(text.publish_run(3));
    assert_eq!(text.take(8).len(), 8);
    text.serve(usize::MAX);
    text.look_after();
    let state = |place: usize| lines.places[place].state.peek();
    assert_eq!([0, 1, 2, 3].map(state), [State::Indexed, State::Published, State::Published, State::Indexed]);
    assert_eq!(lines.claim_next(), Some(3));
    assert_eq!((state(3), lines.claim_next()), (State::Claimed, None));
    assert_eq!(lines.claim_behind(3, 1), Some(0));
    assert_eq!((state(0), lines.claim_behind(3, 1)), (State::Claimed, None));
    assert_eq!((lines.claim_behind(3, 2), lines.claim_behind(3, 3)), (None, None));
    lines.put_back(0);
    assert_eq!(
        (state(0), lines.claim_behind(3, PLACES), lines.claim_behind(3, PLACES + 1)),
        (State::Indexed, None, None)
    );
    lines.put_back(3);
    assert_eq!((lines.block_before(3), lines.block_before(0)), (Some(2), Some(3)));
    assert!(text.publish_run(PLACES));
    assert_eq!([0, 3].map(state), [State::Published; 2]);
    assert_eq!(text.take(32).len(), 32);
    lines.leave_progress();
}

/// What block 0 leaves begun and where the first line of block 1 ends: together at most the longest line.
#[test]
fn a_line_over_two_blocks_is_published_if_it_is_short_enough() {
    for (begun, end, fits) in [
        (0, 16, true),
        (0, 17, false),
        (6, 10, true),
        (6, 11, false),
        (15, 1, true),
        (16, 1, false),
        (17, 1, false),
        (30, 1, false),
    ] {
        let first = "abcdefg\n".repeat(8)[..64 - begun - 1].to_owned() + "\n" + &"b".repeat(begun);
        let second = "e".repeat(end - 1) + "\n" + &"a line\n".repeat(20);
        let text = Text::of_lines((first + &second).as_bytes());
        assert!(text.lines().enter_progress());
        text.look_after();
        text.serve(usize::MAX);
        text.look_after();
        assert!(text.publish_run(1));
        let before = text.lines().published();
        assert_eq!(text.lines().claim_next(), Some(1));
        let carry = text.lines().carry(&text.tables.session, text.stream(), 1);
        let wanted = fits.then_some(begun as u64);
        assert_eq!(carry.map(|(bytes, _)| bytes), wanted, "{begun} and {end}");
        text.lines().put_back(1);
        assert!(text.publish_run(1));
        assert_eq!(text.lines().is_flowing(), fits);
        assert_eq!(text.lines().published() > before, fits);
        text.lines().leave_progress();
    }
}

#[test]
fn a_block_with_a_line_that_is_too_long_is_not_published() {
    let long = "l".repeat(LINE_MAX as usize) + "\n";
    let many = "\n".repeat(13);
    for (content, is_published) in [
        ("short\n".repeat(20), true),
        (long.clone() + &"short\n".repeat(20), false),
        ("a\n".to_owned() + &long + &"short\n".repeat(20), false),
        ("l".repeat(64) + &"short\n".repeat(20), false),
        (many + &"short\n".repeat(20), false),
        ("\n".repeat(12) + &"lines\n".repeat(2) + &"l".repeat(80), false),
        ("a\n".to_owned() + &"0123456789abcde\n".repeat(4), true),
    ] {
        let text = Text::of_lines(content.as_bytes());
        text.read(usize::MAX);
        let published = text.lines().published();
        assert_eq!(published > 0, is_published, "{content:?}");
        if is_published {
            let lines: Vec<&str> = content.split_inclusive('\n').collect();
            assert_eq!(text.take(1), [lines[0]]);
        }
        assert_eq!(text.settle(), if is_published { content.find('\n').unwrap() as u64 + 1 } else { 0 });
    }
}

/// Each text is one block's and what comes behind it.
#[test]
fn a_white_space_that_ends_nothing_is_no_token() {
    let numbers = |count: usize| (0..count).map(|at| format!("{at:>8}")).collect::<String>();
    let led = |text: &str| (text.to_owned() + &numbers(30) + "\n").into_bytes();
    for (content, first) in [
        // The first byte of the text is white space, or is not.
        (led(""), "       0"),
        (led("7"), "7"),
        (led(" 7"), " 7"),
        (led("77"), "77"),
    ] {
        let text = Text::new(&content, 0, (1, 0));
        text.open(Some(Tokens::Integers));
        text.read(usize::MAX);
        assert_eq!(text.take(1), [first]);
        assert_eq!(text.settle(), first.len() as u64);
    }
}

/// The second block begins with white space: behind a token that the first block began, or behind white space.
#[test]
fn a_token_ends_where_the_next_block_begins() {
    for (at_end, tokens) in
        [("  123", ["  123", " 45"]), ("12 3 ", ["3", "  45"]), ("    9", ["    9", " 45"])]
    {
        let first = "12345 ".repeat(32)[..64 - at_end.len()].to_owned() + at_end;
        let text = Text::new((first + " 45 6 7\n").as_bytes(), 0, (1, 0));
        text.open(Some(Tokens::Reals));
        text.read(usize::MAX);
        let all = text.take(text.lines().published());
        let found = all.iter().position(|token| token.trim_start() == "45").unwrap();
        assert_eq!(all[found], tokens[1]);
        assert_eq!(all[found - 1].trim_start(), tokens[0].trim_start());
    }
}

/// Of a block whose only white space is its first byte nothing is published: whatever its memory holds behind the ends that it has.
#[test]
fn a_block_of_one_end_that_ends_nothing_is_not_published() {
    let text = Text::new((" ".to_owned() + &"1".repeat(63) + " 2 \n").as_bytes(), 0, (1, 0));
    text.open(Some(Tokens::Integers));
    text.read(usize::MAX);
    assert_eq!((text.lines().published(), text.lines().is_flowing()), (0, false));
    assert_eq!(text.settle(), 0);
}

//! Taking lines and tokens that were read ahead.

use gpufs_core::stream::readahead::{Lines, Tokens};
use proptest::prelude::*;

use super::text::{LINE_MAX, PLACES, TEXT_BLOCK, Text};
use super::*;

/// A line of eight bytes.
fn eight(number: usize) -> String {
    format!("{number:07}\n")
}
/// So many lines of eight bytes: eight to a block.
pub(crate) fn eights(count: usize) -> Vec<u8> {
    (0..count).map(eight).collect::<String>().into_bytes()
}

/// As many cases as usual; few under Miri, which also has no files to keep regressions in.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    if cfg!(miri) { ProptestConfig { cases: 2, failure_persistence: None, ..usual } } else { usual }
}

proptest! {
    #![proptest_config(config())]

    /// Short lines and short reads: each line once, in order, and the stream stands behind the last that was taken.
    #[test]
    fn lines_are_what_the_text_has(
        lengths in prop::collection::vec(6_usize..16, 0..80),
        tail in 0_usize..10,
        counts in prop::collection::vec(1_u64..12, 40),
        most in 7_usize..80,
        skipped in 0_usize..3,
    ) {
        let lines: Vec<String> = lengths.iter().map(|length| format!("{length:>length$}\n")).collect();
        let begin: usize = lines.iter().take(skipped).map(String::len).sum();
        let content = lines.concat() + &"x".repeat(tail);
        let text = Text::new(content.as_bytes(), begin as u64, (1, 0));
        text.open(None);
        let mut taken = Vec::new();
        for count in counts {
            text.read(most);
            if let Reservation::At(first) = text.try_take(count) {
                prop_assert_eq!(first, taken.len() as u64);
                taken.extend(text.finish(first, count));
            }
        }
        let wanted = &lines[skipped.min(lines.len())..];
        prop_assert_eq!(&taken[..], &wanted[..taken.len()]);
        let is_left = |count: u64| text.lines().has_available(count) && text.lines().is_open();
        prop_assert!(wanted.len() < taken.len() + 12 || is_left(1), "{} of {}", taken.len(), wanted.len());
        let end = begin + taken.iter().map(String::len).sum::<usize>();
        prop_assert_eq!(text.settle(), end as u64);
        prop_assert_eq!(text.tables.rigs[0].queue.free_slots(), SLOTS);
    }

    /// Numbers with any white space between them, also where blocks meet.
    #[test]
    fn tokens_are_what_the_text_has(
        tokens in prop::collection::vec(("[ \n\t]{1,4}", 1_u64..1_000_000), 1..120),
        led in any::<bool>(),
        counts in prop::collection::vec(1_u64..12, 40),
        most in 7_usize..80,
    ) {
        let spaced = |(space, number): &(String, u64)| format!("{space}{number}");
        let mut tokens: Vec<String> = tokens.iter().map(spaced).collect();
        if !led {
            tokens[0] = tokens[0].trim_start().to_owned();
        }
        let text = Text::new((tokens.concat() + "\n").as_bytes(), 0, (1, 0));
        text.open(Some(Tokens::Integers));
        let mut taken = Vec::new();
        for count in counts {
            text.read(most);
            if let Reservation::At(first) = text.try_take(count) {
                prop_assert_eq!(first, taken.len() as u64);
                taken.extend(text.finish(first, count));
            }
        }
        prop_assert_eq!(&taken[..], &tokens[..taken.len()]);
        let end: usize = taken.iter().map(String::len).sum();
        prop_assert_eq!(text.settle(), end as u64);
    }
}

#[test]
fn all_lines_of_a_text_are_taken_whatever_reads_give() {
    for (most, count) in [(usize::MAX, 40), (13, 40), (63, 35)] {
        let text = Text::of_lines(&eights(count));
        for taken in (0..count).step_by(5) {
            text.read(most);
            assert_eq!(text.lines().next_line(), taken as u64);
            assert_eq!(text.take(5), (taken..taken + 5).map(eight).collect::<Vec<_>>());
        }
        text.read(most);
        assert_eq!(text.try_take(1), Reservation::Closed);
        assert_eq!(text.settle(), 8 * count as u64);
    }
}

/// A line at which a block ends, one that the next begins, and the positions behind each.
#[test]
fn lines_settle_behind_each_line() {
    for (count, offset) in (0..=24).flat_map(|count| [(count, 0), (count, 8), (count, 72)]) {
        let content = eights(50);
        let text = Text::new(&content, offset, (1, 0));
        text.stream().position.set(offset - offset / 2);
        text.stream().read_next.set(offset as u32 / 2);
        text.open(None);
        text.read(usize::MAX);
        for _ in 0..count {
            text.take(1);
        }
        assert_eq!(text.settle(), offset + 8 * count);
        assert_eq!((text.stream().read_next.peek(), text.stream().read_end.peek()), (0, 0));
        assert_eq!(text.tables.session.line_buffers.free.free(), PLACES);
    }
}

#[test]
fn lines_are_numbered_from_where_they_begin() {
    for first in [0, 5, 1 << 30, Lines::SPENT - 2] {
        let text = Text::new(&eights(3), 0, (1, 0));
        text.lines().begin_at(first);
        text.open(None);
        text.read(usize::MAX);
        assert_eq!(text.lines().next_line(), first);
        assert_eq!(text.try_take(2), Reservation::At(first));
        assert_eq!(text.finish(first, 2), [eight(0), eight(1)]);
        assert_eq!(text.lines().is_open(), first + 2 < Lines::SPENT);
        assert_eq!(text.settle(), 16);
    }
}

#[test]
fn the_longest_line_and_the_most_lines_follow_from_the_buffers() {
    let text = Text::new(b"", 0, (1, 0));
    let session = &text.tables.session;
    assert_eq!(u64::from(Lines::fitting_line_bytes_max(session)), LINE_MAX);
    assert_eq!(Lines::block_lines_max(session), 12);
    text.open(None);
    assert_eq!((text.lines().unit_bytes_max(), text.lines().tokens()), (16, None));
    for kind in [Tokens::Integers, Tokens::Reals] {
        let text = Text::new(b"", 0, (1, 0));
        text.open(Some(kind));
        assert_eq!((text.lines().unit_bytes_max(), text.lines().tokens()), (16, Some(kind)));
        for other in [Tokens::Integers, Tokens::Reals] {
            assert_eq!(text.lines().offers(other), other == kind);
        }
        assert!(u64::from(text.lines().line_bytes_max()) > 1 << 31);
    }
}

/// A caller that finds nothing is told whether more will come.
#[test]
fn what_is_not_there_comes_later_or_never() {
    let text = Text::of_lines(&eights(10));
    let (lines, stream) = (text.lines(), text.stream());
    let looks = |count| (text.try_take(count), lines.has_available(count));
    assert_eq!(looks(1), (Reservation::Busy, false));
    assert_eq!(lines.try_take_lines(stream, 2, 1, LINE_MAX), Reservation::Closed, "of another generation");
    assert_eq!(lines.try_take_lines(stream, 1, 1, LINE_MAX - 1), Reservation::Closed, "with less room");
    assert!(lines.enter_progress());
    for _ in 0..2 {
        text.look_after();
        text.serve(usize::MAX);
    }
    text.look_after();
    assert!(text.publish_run(1));
    assert_eq!(looks(9), (Reservation::Busy, false));
    assert!(lines.has_available(8));
    assert!(text.publish_run(1));
    lines.leave_progress();
    // The text ends with the second block.
    assert!(!lines.is_flowing());
    assert_eq!(looks(11), (Reservation::Closed, true));
    assert_eq!(text.take(10).len(), 10);
    assert_eq!(looks(1), (Reservation::Closed, true));
    lines.close();
    assert_eq!(looks(1), (Reservation::Closed, true));

    let closed = Text::of_lines(&eights(10));
    closed.lines().close();
    assert_eq!((closed.try_take(1), closed.lines().has_available(1)), (Reservation::Closed, true));
}

/// Where every place is published and the oldest has lines left, no more come before somebody takes some.
#[test]
fn a_caller_that_wants_more_than_all_places_hold_takes_the_lock() {
    let all = u64::from(PLACES) * 8;
    let text = Text::of_lines(&eights(100));
    for round in 0..9 {
        text.read(usize::MAX);
        assert_eq!(text.try_take(all + 1), Reservation::Closed, "with {round} blocks taken");
        let Reservation::At(first) = text.try_take(1) else { panic!() };
        assert_eq!(text.try_take(all), Reservation::Closed, "one is not counted");
        let Reservation::At(_) = text.try_take(7) else { panic!() };
        assert_eq!(text.try_take(all), Reservation::Busy, "the oldest place will be free");
        text.lines().leave();
        text.finish(first, 8);
        assert_eq!(text.try_take(all), Reservation::Busy, "and is");
    }
    let Reservation::At(first) = text.try_take(all - 8) else { panic!() };
    assert_eq!(text.try_take(1), Reservation::Busy, "all are taken");
    text.finish(first, all - 8);
}

#[test]
fn a_place_that_is_not_published_may_bring_more() {
    let text = Text::of_lines(&eights(100));
    assert!(text.lines().enter_progress());
    text.look_after();
    text.serve(usize::MAX);
    text.look_after();
    for published in 1..PLACES {
        assert!(text.publish_run(1));
        assert_eq!(text.try_take(u64::from(published) * TEXT_BLOCK / 8 + 1), Reservation::Busy);
    }
    assert!(text.publish_run(1));
    assert_eq!(text.try_take(u64::from(PLACES) * TEXT_BLOCK / 8 + 1), Reservation::Closed);
    text.lines().leave_progress();
}

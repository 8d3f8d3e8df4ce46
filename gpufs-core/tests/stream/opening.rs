//! When lines open, and how much later they open where that was not worth it.

use gpufs_core::stream::readahead::Tokens;

use super::taking::eights;
use super::text::Text;
use super::*;

#[test]
fn lines_open_after_some_calls_or_where_many_wait() {
    let fresh = || Text::new(&eights(10), 0, (1, 0));
    for (queued, opens) in [(0, false), (1, false), (4, false), (5, true), (6, true)] {
        let text = fresh();
        if queued > 0 {
            assert_eq!(text.stream().lock.draw_many(queued), 0);
        }
        assert_eq!(text.lines().count_call(text.stream(), 1), opens, "{queued}");
    }
    for (calls, opens) in
        [(vec![127, 1], true), (vec![128], true), (vec![127], false), (vec![1, 126, 1, 1], true)]
    {
        let text = fresh();
        let (last, before) = calls.split_last().unwrap();
        assert!(before.iter().all(|lanes| !text.lines().count_call(text.stream(), *lanes) || *lanes == 1));
        assert_eq!(text.lines().count_call(text.stream(), *last), opens, "{calls:?}");
    }
    let text = fresh();
    assert_eq!(text.delay(), 0);
}

#[test]
fn callers_look_before_they_queue_where_lines_may_open() {
    for queued in [3, 4, 5, 6] {
        for direction in [Direction::Idle, Direction::Reading, Direction::Writing] {
            for buffering in [Buffering::Full, Buffering::Line, Buffering::None] {
                let text = Text::new(b"", 0, (1, 0));
                assert_eq!(text.stream().lock.draw_many(queued), 0);
                text.stream().direction.set(direction as u32);
                text.stream().buffering.set(buffering as u32);
                let wanted = queued > 4 && direction != Direction::Writing && buffering == Buffering::Full;
                assert_eq!(
                    text.lines().may_open(text.stream()),
                    wanted,
                    "{queued} {direction:?} {buffering:?}"
                );
            }
        }
    }
}

/// The text from an offset on, of which so many lines of eight bytes are taken; with how many calls as a power of two lines then open.
fn delay_after(content: &[u8], offset: u64, taken: usize) -> u32 {
    let text = Text::new(content, offset, (1, 0));
    text.open(None);
    for _ in 0..taken {
        text.read(usize::MAX);
        text.take(1);
    }
    text.read(usize::MAX);
    assert_eq!(text.settle(), offset + 8 * taken as u64);
    text.delay()
}

/// Worth it is more than what all places hold: 32 lines.
#[test]
fn lines_that_were_closed_early_open_later() {
    let long = eights(300);
    for offset in [0, 64, 640] {
        for (taken, delay) in [(0, 2), (1, 2), (31, 2), (32, 2), (33, 0), (100, 0)] {
            assert_eq!(delay_after(&long, offset, taken), delay, "{taken} from {offset} on");
        }
    }
}

/// Worth it, but for the end: of the file in a block, or behind one; and of a line that has no end.
#[test]
fn lines_open_a_little_later_where_the_file_ended() {
    for count in [41, 45, 48] {
        assert_eq!(delay_after(&eights(count), 0, count), 2, "{count}");
    }
    let unfinished = [eights(48), b"unfinished".to_vec()].concat();
    assert_eq!(delay_after(&unfinished, 0, 48), 0);
    let too_long = [eights(48), b"a line of more than sixteen bytes\nand one\n".to_vec()].concat();
    assert_eq!(delay_after(&too_long, 0, 48), 0);
}

#[test]
fn the_delay_grows_up_to_its_most_and_counts_from_opening() {
    let text = Text::new(&eights(10), 0, (1, 0));
    for delay in [2, 4, 6, 8, 10, 12, 12] {
        text.open(None);
        assert_eq!(text.settle(), 0);
        assert_eq!(text.delay(), delay);
        assert_eq!(text.stream().lock.queued(), 0);
    }
    // Where they open late, many that wait make no difference.
    text.open(Some(Tokens::Integers));
    assert_eq!(text.settle(), 0);
    assert_eq!(text.stream().lock.draw_many(50), 0);
    assert!(!text.lines().count_call(text.stream(), 1));
    text.lines().set_up();
    assert!(text.lines().count_call(text.stream(), 1), "of a new stream it does");
}

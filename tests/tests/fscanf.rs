//! `fscanf` on streams that lanes share.

use gpufs_core::stream::readahead::Tokens;
use gpufs_device::stdio::{Buffering, Whence};
use gpufs_device::{Errno, File, fscanf};
use gpufs_host::CpuOptions;
use gpufs_host::ring::Mode;
use gpufs_tests::{Scratch, each, once, small, tables_of};

fn session(width: u32) -> gpufs_host::Session {
    let options = CpuOptions { width, ..CpuOptions::default() };
    small().mode(Mode::Enter).cpu_with(options).unwrap()
}

fn open(session: &mut gpufs_host::Session, scratch: &Scratch, text: &str) -> File {
    std::fs::write(scratch.path("numbers"), text).unwrap();
    once(session, |fs| fs.fopen(&scratch.c("numbers"), c"r+").unwrap())
}

/// Every number once, in lane order within a warp, and the end of the file for the rest.
#[test]
fn lanes_read_in_lane_order() {
    let scratch = Scratch::new("fscanf-order");
    let text: String =
        (0..1000).map(|number| format!("{number}{}", [" ", "\n", "\n \t", "  "][number % 4])).collect();
    for width in [32, 64] {
        let mut session = session(width);
        let file = open(&mut session, &scratch, &text);
        // Buffers of 64 bytes: numbers lie across their ends.
        once(&mut session, |_| file.setvbuf(Buffering::Full, 64)).unwrap();
        let got = each(&mut session, width, |_, _| {
            let mut numbers = Vec::new();
            loop {
                let mut number = -1;
                match fscanf!(file, c"%d", &mut number).unwrap() {
                    Some(1) => numbers.push(number),
                    None => return numbers,
                    other => panic!("{other:?} at {number}"),
                }
            }
        });
        for lane in &got {
            assert!(lane.is_sorted());
        }
        let mut all: Vec<i32> = got.into_iter().flatten().collect();
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        assert!(once(&mut session, |_| file.feof()));
        once(&mut session, |_| file.fclose()).unwrap();
    }
}

/// A wide character that a set lacks, whose bytes lie in two buffers, stays unread, as does all that does not match.
#[test]
fn what_does_not_match_stays_unread() {
    let scratch = Scratch::new("fscanf-rest");
    let mut session = session(32);
    let file = open(&mut session, &scratch, "aaaaaaaaaaaaaa€b 12x nan, infin");
    once(&mut session, |_| {
        file.setvbuf(Buffering::Full, 16).unwrap();
        let (mut wide, mut number, mut real) = ([0_u32; 32], 0_i32, 0.0_f64);
        assert_eq!(fscanf!(file, c"%l[a]", &mut wide), Ok(Some(1)));
        assert_eq!(file.ftell(), Ok(14));
        assert_eq!(file.fgetc(), Ok(Some(0xe2)));
        assert_eq!(file.ungetc(0xe2), Ok(Some(0xe2)));
        assert_eq!(fscanf!(file, c"%lc%*c%d", &mut wide, &mut number), Ok(Some(2)));
        assert_eq!((wide[0], number), (u32::from('€'), 12));
        assert_eq!(fscanf!(file, c"%d", &mut number), Ok(Some(0)));
        assert_eq!(file.fgetc(), Ok(Some(b'x')));
        assert_eq!(fscanf!(file, c"%lf", &mut real), Ok(Some(1)));
        assert!(real.is_nan());
        assert_eq!(fscanf!(file, c",%lf", &mut real), Ok(Some(0)));
        assert_eq!((file.fgetc(), file.feof()), (Ok(None), true));
        file.fseek(0, Whence::Set).unwrap();
        // Longer than what it is given room for: the rest stays.
        let mut text = [0; 4];
        assert_eq!(fscanf!(file, c"%s", &mut text), Ok(Some(1)));
        assert_eq!((&text, file.ftell()), (b"aaa\0", Ok(3)));
    });
}

/// A wide character that was pushed back, before anything was read, stays pushed back where it does not match.
#[test]
fn what_was_pushed_back_and_does_not_match_stays_unread() {
    let scratch = Scratch::new("fscanf-pushed");
    let mut session = session(1);
    let file = open(&mut session, &scratch, "b");
    once(&mut session, |_| {
        let bytes = "€".as_bytes();
        bytes.iter().rev().for_each(|byte| assert_eq!(file.ungetc(*byte), Ok(Some(*byte))));
        assert_eq!(fscanf!(file, c"%l[ab]", &mut [0_u32; 4]), Ok(Some(0)));
        bytes.iter().chain(b"b").for_each(|byte| assert_eq!(file.fgetc(), Ok(Some(*byte))));
        assert_eq!(file.fgetc(), Ok(None));
    });
}

/// Calls of more numbers than are read ahead at a time are not tried for ever.
#[test]
fn more_numbers_than_are_read_ahead_at_a_time() {
    let scratch = Scratch::new("fscanf-many");
    let options = CpuOptions { width: 64, ..CpuOptions::default() };
    let mut session =
        small().ring_entries(512).read_ahead(16 << 10).mode(Mode::Enter).cpu_with(options).unwrap();
    let text: String = (0..64 * 16 * 10).map(|number| format!("{number:015}\n")).collect();
    let file = open(&mut session, &scratch, &text);
    let opened = each(&mut session, 64, |fs, lane| {
        let mut opened = false;
        for round in 0..10 {
            let mut got = [0_i64; 16];
            let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = &mut got;
            let format = c"%ld%ld%ld%ld%ld%ld%ld%ld%ld%ld%ld%ld%ld%ld%ld%ld";
            let count = fscanf!(file, format, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
            assert_eq!(count, Ok(Some(16)));
            let first = (round * 64 + lane.cast_signed()) * 16;
            assert!(got.into_iter().eq(first..first + 16), "lane {lane}, round {round}: {got:?}");
            // Of an entry that was never used the words mean nothing.
            let mut streams =
                tables_of(fs).streams().iter().filter(|stream| stream.generation.peek() % 2 == 1);
            opened |= streams.any(|stream| stream.lines.offers(Tokens::Integers));
        }
        opened
    });
    assert!(opened.contains(&true), "numbers were never read ahead");
    once(&mut session, |_| file.fclose()).unwrap();
}

/// A lane whose format is wrong reads nothing; the others read on.
#[test]
fn a_wrong_format_in_one_lane() {
    let scratch = Scratch::new("fscanf-wrong");
    let mut session = session(32);
    let file = open(&mut session, &scratch, &"7 ".repeat(31));
    let results = each(&mut session, 32, |_, lane| {
        let mut number = 0_i32;
        let format = if lane == 9 { c"%ld" } else { c"%d" };
        fscanf!(file, format, &mut number)
    });
    for (lane, result) in results.into_iter().enumerate() {
        assert_eq!(result, if lane == 9 { Err(Errno::INVAL) } else { Ok(Some(1)) }, "lane {lane}");
    }
    let next = |session: &mut gpufs_host::Session| {
        once(session, |_| {
            let mut number = 0_i32;
            fscanf!(file, c"%d", &mut number)
        })
    };
    assert_eq!(next(&mut session), Ok(None));
    once(&mut session, |_| file.fclose()).unwrap();
    assert_eq!(next(&mut session), Err(Errno::BADF));
}

//! Streams, descriptors and formats against the C library and the system: the same calls, the same answers.
#![expect(unsafe_code, reason = "strings in registered memory")]

use std::ffi::CStr;
use std::fs;

use gpufs_device::stdio::Whence;
use gpufs_host::{Grid, Session};
use gpufs_test_kernels::{Format, print_formats};

use crate::differential::compare::compare;
use crate::differential::descriptors::Descriptors;
use crate::differential::formats::{Case, ROOM, TEXTS, Texts, speak_utf8};
use crate::differential::places::Scratch;
use crate::differential::streams::Streams;
use crate::random::Random;
use crate::suite::harness::{Do, Harness, fopen};
use crate::suite::{Bench, Outcome};
use crate::{c_path, setting, small};

/// `GPUFS_SEQUENCES` sequences of calls on streams, from `GPUFS_SEED` on.
pub fn streams_like_the_c_librarys(bench: &Bench) -> Outcome {
    compare::<Streams>(bench, 500);
    Outcome::Passed
}

/// As many on descriptors.
pub fn descriptors_like_the_systems(bench: &Bench) -> Outcome {
    compare::<Descriptors>(bench, 500);
    Outcome::Passed
}

/// The bytes both sides are given, so that what neither writes is equal too.
const CANARY: u8 = 0xa5;
/// Bytes behind the output that are compared too.
const BEHIND: usize = 64;
/// Formats of one launch.
const BATCH: u64 = 8192;

/// The texts of the cases, in memory that the device reaches until the next batch.
fn put_texts(harness: &mut Harness, utf8: bool) -> Texts {
    let narrow = TEXTS.narrow.map(|text| {
        let address = harness.put(text.to_bytes_with_nul());
        // SAFETY:
        // - just put there; it stays until the next batch, which no case of this one outlives
        unsafe { CStr::from_ptr(address as *const _) }
    });
    let wide = TEXTS.wide.map(|text| {
        let bytes: Vec<u8> = text.iter().flat_map(|character| character.to_ne_bytes()).collect();
        let address = harness.put(&bytes);
        // SAFETY:
        // - as above; addresses are multiples of 16
        unsafe { std::slice::from_raw_parts(address as *const u32, text.len()) }
    });
    Texts { narrow, wide, utf8 }
}

/// `GPUFS_KERNEL_CASES` formats, printed by the threads of a kernel, from `GPUFS_SEED` on.
pub fn snprintf_like_the_c_librarys(bench: &Bench) -> Outcome {
    let cases = setting("GPUFS_KERNEL_CASES", u64::from(bench.sized(20_000, 10)));
    let seed = setting("GPUFS_SEED", 1);
    let utf8 = speak_utf8();
    let mut harness = bench.open(small());
    for first in (0..cases).step_by(BATCH as usize) {
        let count = BATCH.min(cases - first);
        // Formats and arguments take little; most outputs too.
        harness.reserve(16 << 20);
        let texts = put_texts(&mut harness, utf8);
        let table = harness.take(usize::try_from(count).expect("a few") * size_of::<Format>());
        let mut theirs = vec![0; ROOM];
        let mut kept = Vec::new();
        for index in 0..count {
            let random = Random::of_case(seed, first + index);
            let case = Case::generate(&random, &texts);
            let size = if random.one_in(4) { random.below(48) } else { ROOM };
            theirs[..size].fill(CANARY);
            let expected = case.system(&mut theirs[..size]);
            // Room for what is expected and a little more.
            let size = size.min(usize::try_from(expected.max(0)).expect("a length") + 1 + BEHIND);
            let format = Format {
                format: harness.put(case.format.as_bytes()),
                format_bytes: case.format.len() as u64,
                arguments: harness.take(16 * case.arguments.len()),
                count: case.arguments.len() as u64,
                into: harness.put(&vec![CANARY; size]),
                room: size as u64,
                errno: i64::from(case.errno),
                length: 0,
            };
            for (place, argument) in case.arguments.iter().enumerate() {
                harness.write(format.arguments + 16 * place as u64, *argument);
            }
            harness.write(table + index * size_of::<Format>() as u64, format);
            // Its strings go with the batch: what is kept is for the report alone.
            kept.push((
                format!("{:?} of {:x?}", case.format, case.passed),
                expected,
                theirs[..size].to_vec(),
            ));
        }
        let grid = Grid { blocks: 8, threads: 128 };
        harness.keep_arena();
        harness
            .session
            .start::<print_formats::Entry>(grid, print_formats::Arguments { formats: table, count })
            .expect("a launch");
        harness.synchronize().expect("the kernel");
        for (index, (what, expected, theirs)) in (0..count).zip(kept) {
            let format: Format = harness.read(table + index * size_of::<Format>() as u64);
            let ours = harness.get(format.into, theirs.len());
            assert!(
                // A call that fails writes nothing here, and glibc's what came before.
                format.length == i64::from(expected) && (expected < 0 || ours == theirs),
                "GPUFS_SEED={seed} case {}, buffer of {}: {what}\n ours   {} {:?}\n system {expected} {:?}",
                first + index,
                theirs.len(),
                format.length,
                String::from_utf8_lossy(&ours),
                String::from_utf8_lossy(&theirs)
            );
        }
    }
    println!("{cases} cases equal");
    Outcome::Passed
}

/// POSIX: a flush of an input stream forgets what was read ahead and pushed back, and keeps the position. (glibc 2.36 corrupts its
/// heap here.)
pub fn flushing_input(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("flushing");
    let path = scratch.path().join("file");
    fs::write(&path, "abc").expect("a file");
    let mut harness = bench.open(Session::builder().deadline(crate::patience()));
    let answers = harness.must(vec![
        fopen(0, &c_path(&path), c"r"),
        Do::Fgetc(0),
        Do::Fgetc(0),
        Do::Ungetc(0, b'x'),
        Do::Fflush(0),
        Do::Ftell(0),
    ]);
    let values: Vec<i64> = answers.iter().map(|answer| answer.value).collect();
    assert_eq!(values, [0, i64::from(b'a'), i64::from(b'b'), i64::from(b'x'), 0, 1]);
    fs::write(&path, "ABCD").expect("a file");
    // A failed move keeps what was pushed back (C11 7.21.9.2).
    let answers = harness.once(vec![
        Do::Fgetc(0),
        Do::Ungetc(0, b'y'),
        Do::Fseek(0, -9, Whence::Set),
        Do::Fgetc(0),
        Do::Fgetc(0),
    ]);
    assert!(answers[2].result().is_err());
    let values: Vec<i64> = answers.iter().map(|answer| answer.value).collect();
    assert_eq!(values, [i64::from(b'B'), i64::from(b'y'), -1, i64::from(b'y'), i64::from(b'C')]);
    Outcome::Passed
}

//! The formatting engine against the system's `snprintf(3)`: the same formats, arguments and buffer sizes, byte for byte. The suite's case
//! of the same kind runs fewer of them, in kernels. Here in all four rounding directions.
//!
//! `GPUFS_CASES` sets how many cases run and `GPUFS_SEED` where they come from; case `i` of a seed is always the same.
#![expect(unsafe_code, reason = "sets the rounding direction")]

use gpufs_device::format::snprintf_with;
use gpufs_tests::differential::formats::{Case, ROOM, TEXTS, Texts, speak_utf8};
use gpufs_tests::random::Random;

/// The bytes both sides are given, so that what neither writes is equal too.
const CANARY: u8 = 0xa5;

unsafe extern "C" {
    fn fesetround(direction: i32) -> i32;
}

/// Sets the rounding direction of the thread, as `<fenv.h>` of x86-64 numbers it.
fn round(direction: i32) {
    // SAFETY:
    // - the numbers are that machine's; nothing but the two printings is done meanwhile
    assert_eq!(unsafe { fesetround(direction) }, 0);
}

/// To nearest, down, up, to zero.
const DIRECTIONS: [i32; 4] = [0, 0x400, 0x800, 0xc00];

/// Runs case `index` of `seed`.
fn run(seed: u64, index: u64, texts: &Texts, ours: &mut [u8], theirs: &mut [u8]) {
    let random = Random::of_case(seed, index);
    let case = Case::generate(&random, texts);
    let size = if random.one_in(4) { random.below(48) } else { ROOM };
    let (ours, theirs) = (&mut ours[..size], &mut theirs[..size]);
    // Only a short buffer is compared to its end.
    let canaries = size.min(64);
    ours[..canaries].fill(CANARY);
    theirs[..canaries].fill(CANARY);

    // The generator leaves out what glibc prints against C11 with `#g`, rounding to nearest.
    let direction = if case.format.contains('#') { 0 } else { DIRECTIONS[(index % 4) as usize] };
    if cfg!(target_arch = "x86_64") {
        round(direction);
    }
    let length = snprintf_with(ours, case.format.as_bytes(), &case.arguments, || Some(case.errno));
    let expected = case.system(theirs);
    if cfg!(target_arch = "x86_64") {
        round(0);
    }
    // A call that fails writes nothing here, and glibc's what came before.
    let compared = if expected < 0 { 0 } else { (expected as usize + 1).max(canaries).min(size) };
    if length.ok() == usize::try_from(expected).ok() && ours[..compared] == theirs[..compared] {
        return;
    }
    panic!(
        "GPUFS_SEED={seed} case {index}, buffer of {size}, direction {direction:#x}\n format {:?}\n arguments {:x?}\n ours   {length:?} {:?}\n system {expected} {:?}",
        case.format,
        case.passed,
        String::from_utf8_lossy(&ours[..compared]),
        String::from_utf8_lossy(&theirs[..compared]),
    );
}

/// A number from the environment.
fn variable(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

#[test]
fn snprintf_equals_the_systems() {
    const THREADS: u64 = 2;
    let cases = variable("GPUFS_CASES").unwrap_or(200_000);
    let seed = variable("GPUFS_SEED").unwrap_or(1);
    println!("GPUFS_SEED={seed} GPUFS_CASES={cases}");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let texts = Texts { utf8: speak_utf8(), ..TEXTS };
                if !texts.utf8 && thread == 0 {
                    println!("SKIP wide characters beyond ASCII: the system has no locale C.UTF-8");
                }
                let (mut ours, mut theirs) = (vec![0; ROOM], vec![0; ROOM]);
                for index in (thread..cases).step_by(THREADS as usize) {
                    run(seed, index, &texts, &mut ours, &mut theirs);
                }
            });
        }
    });
    println!("{cases} cases equal");
}

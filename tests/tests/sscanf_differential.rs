//! The scanning engine against the system's `sscanf(3)`: the same texts and formats, what is stored byte for byte.
//!
//! `GPUFS_CASES` sets how many cases run and `GPUFS_SEED` where they come from; case `i` of a seed is always the same.
#![expect(unsafe_code, reason = "sets the locale")]

use gpufs_tests::differential::scans::Case;
use gpufs_tests::random::Random;

/// A number from the environment.
fn variable(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// Runs case `index` of `seed`.
fn run(seed: u64, index: u64, wide: bool) {
    let case = Case::generate(&Random::of_case(seed, index), wide);
    let (ours, system) = (case.ours(), case.system());
    if ours.equals(&system) {
        return;
    }
    let differs = ours.memory.iter().zip(&system.memory).position(|(ours, system)| ours != system);
    let shown = |memory: &[Vec<u8>]| {
        differs.map(|at| memory[at].iter().take(48).map(|byte| format!("{byte:02x}")).collect::<String>())
    };
    panic!(
        "GPUFS_SEED={seed} case {index}\n format {:?}\n text   {:?}\n ours   {} {:?} target {differs:?} {:?}\n system {} {:?} {:?}",
        case.format,
        String::from_utf8_lossy(&case.text),
        ours.count,
        ours.out_of_range,
        shown(&ours.memory),
        system.count,
        system.out_of_range,
        shown(&system.memory),
    );
}

#[test]
fn sscanf_equals_the_systems() {
    const THREADS: u64 = 2;
    let cases = variable("GPUFS_CASES").unwrap_or(100_000);
    let seed = variable("GPUFS_SEED").unwrap_or(1);
    println!("GPUFS_SEED={seed} GPUFS_CASES={cases}");
    // Wide characters are UTF-8 here; in the C locale they are ASCII.
    // SAFETY:
    // - before any other thread of this program is there to ask for the locale
    let wide = !unsafe { libc::setlocale(libc::LC_ALL, c"C.UTF-8".as_ptr()) }.is_null();
    if !wide {
        println!("SKIP wide characters beyond ASCII: the system has no locale C.UTF-8");
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                (thread..cases).step_by(THREADS as usize).for_each(|index| run(seed, index, wide));
            });
        }
    });
    println!("{cases} cases equal");
}

//! Each target over the corpus, and over random bytes: `GPUFS_FUZZ_CASES` of them a target, from `GPUFS_SEED`.

use std::path::Path;

use gpufs_fuzz::TARGETS;
use gpufs_tests::random::Random;
use gpufs_tests::setting;

/// The inputs that are kept of a target.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(&path).expect("an input")).collect()
}

fn run(name: &str, cases: u64) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target");
    let inputs = corpus(name);
    assert!(!inputs.is_empty(), "{name} has no corpus");
    for input in &inputs {
        target(input);
    }
    let seed = setting("GPUFS_SEED", 1);
    let cases = setting("GPUFS_FUZZ_CASES", cases);
    for index in 0..cases {
        let random = Random::of_case(seed, index);
        // Half of them are inputs of the corpus with some bytes changed.
        let mut input: Vec<u8> = (0..random.below(400)).map(|_| random.bits() as u8).collect();
        if random.one_in(2) {
            input.clone_from(&inputs[random.below(inputs.len())]);
            for _ in 0..random.below(8) {
                let at = random.below(input.len() + 1);
                match random.below(3) {
                    0 => input.insert(at, random.bits() as u8),
                    1 => input.truncate(at),
                    _ => input.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.bits() as u8),
                }
            }
        }
        if let Err(panic) = std::panic::catch_unwind(|| target(&input)) {
            eprintln!("{name}: GPUFS_SEED={seed}, case {index}, these bytes: {input:02x?}");
            std::panic::resume_unwind(panic);
        }
    }
    println!("{name}: {} inputs of the corpus, {cases} random ones of seed {seed}", inputs.len());
}

#[test]
fn formats() {
    run("formats", 20_000);
}

#[test]
fn scans() {
    run("scans", 20_000);
}

#[test]
fn opens() {
    run("opens", 300);
}

#[test]
fn options() {
    run("options", 150);
}

#[test]
fn completions() {
    run("completions", 20_000);
}

#[test]
fn sequences() {
    run("sequences", 150);
}

/// Each target has a test here, but `recovery`, which `gpufs-host` tests.
#[test]
fn each_target_has_a_program() {
    for (name, _) in TARGETS.iter().chain(&[("recovery", (|_| ()) as fn(&[u8]))]) {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets").join(format!("{name}.rs"));
        assert!(program.exists(), "{}", program.display());
        assert!(!corpus(name).is_empty());
    }
}

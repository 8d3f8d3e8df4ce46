//! Every check of the project as a named step, and the sets of them: `quick`, `test` and `nightly`.

use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::book;
use crate::device;
use crate::dist;
use crate::mutants;
use crate::python;
use crate::sanitize;
use crate::step::{self, Outcome, Report};
use crate::tidy;
use crate::workspace::{cargo, hip_path, minutes};

/// In which sets a check is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Set {
    /// First in `test` and `nightly`, where the rest does not run if it fails.
    Lint,
    /// In `test` and `nightly`.
    Test,
    /// In `test` and `nightly`, at low priority beside those of [`Set::Test`], which wait more than they compute: what compiles and computes only.
    Beside,
    /// In `nightly`.
    Nightly,
}

/// The command that runs a check, the set that it is in, and its steps.
struct Check(&'static str, Set, fn() -> Vec<Report>);

/// All of them, cheapest first.
const CHECKS: &[Check] = &[
    Check("tidy", Set::Lint, tidy),
    Check("lint", Set::Lint, lint),
    Check("tests", Set::Test, tests),
    Check("book", Set::Test, book::check),
    Check("loom-by-day", Set::Beside, loom_by_day),
    Check("device-code", Set::Beside, device::check),
    Check("hip-runtime", Set::Beside, hip_runtime),
    // AMD's device code keeps one compiler busy for minutes.
    Check("abi", Set::Beside, dist::check),
    Check("python", Set::Test, python::check),
    Check("packages", Set::Beside, packages),
    // Behind the others, since it waits for what the tests build.
    Check("doc-tests", Set::Beside, doc_tests),
    Check("miri", Set::Beside, miri),
    // The day ends what takes minutes.
    Check("loom", Set::Nightly, loom),
    // With fewer cases they are among the tests.
    Check("differential", Set::Nightly, differential),
    Check("other-gpus", Set::Nightly, other_gpus),
    Check("mutants", Set::Nightly, || vec![mutants::run(&[], 1)]),
    Check("sanitize", Set::Nightly, sanitize::core),
    Check("sanitize-host", Set::Nightly, sanitize::host),
    Check("long", Set::Nightly, long),
];

/// What can be known of a change in two minutes; whether nothing failed.
fn quick() -> bool {
    let mut reports = tidy();
    reports.extend([format(), clippy()]);
    reports.push(step::run(
        "tests of the core and xtask",
        &mut cargo("test -p gpufs-core -p xtask --lib --bins --tests --no-fail-fast"),
        minutes(10),
    ));
    reports.push(step::run(
        "examples in the documentation",
        &mut cargo("test -p gpufs-core -p gpufs-device -p gpufs-host --doc --no-fail-fast"),
        minutes(10),
    ));
    step::summarize(&reports)
}

/// Every check that is not for the night; whether nothing failed. If a lint fails, the rest does not run unless it is to `keep_going`.
pub(crate) fn test(keep_going: bool) -> bool {
    in_turn(&[Set::Lint, Set::Test, Set::Beside], keep_going)
}

/// The soak, for so many minutes in each mode.
pub(crate) fn soak(minutes_each: u64) -> Report {
    let mut command = cargo("test -p gpufs-tests --release --test soak -- --nocapture");
    command.env("GPUFS_SOAK_SECONDS", (60 * minutes_each).to_string());
    step::run("soak", &mut command, minutes(15 + 4 * minutes_each))
}

/// Every check; whether nothing failed.
fn nightly() -> bool {
    in_turn(&[Set::Lint, Set::Test, Set::Beside, Set::Nightly], true)
}

/// Lints first; then the others, those of [`Set::Beside`] in a thread of their own.
fn in_turn(sets: &[Set], keep_going: bool) -> bool {
    let of = |set: Set| CHECKS.iter().filter(move |check| check.1 == set && sets.contains(&set));
    let made = |Check(_, _, check): &Check| check();
    let mut reports: Vec<Report> = of(Set::Lint).flat_map(made).collect();
    if keep_going || !reports.iter().any(Report::failed) {
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| {
                step::at_low_priority();
                of(Set::Beside).flat_map(made).collect::<Vec<_>>()
            });
            reports.extend([Set::Test, Set::Nightly].into_iter().flat_map(of).flat_map(made));
            reports.extend(beside.join().expect("it reports, and does not panic"));
        });
    } else {
        let why = "a lint failed (cargo xtask test --keep-going runs it)";
        let left = [Set::Test, Set::Beside, Set::Nightly].into_iter().flat_map(of);
        reports.extend(left.map(|Check(name, ..)| Report::skipped(name, why)));
    }
    step::summarize(&reports)
}

/// What runs the set or the check of this name, and says whether nothing failed; `None` if there is no such name.
pub(crate) fn named(name: &str) -> Option<Box<dyn Fn() -> bool>> {
    match name {
        "quick" => Some(Box::new(quick)),
        "nightly" => Some(Box::new(nightly)),
        _ => {
            let Check(_, _, check) = CHECKS.iter().find(|Check(known, ..)| *known == name)?;
            Some(Box::new(|| step::summarize(&check())))
        }
    }
}

/// The checks' names.
#[cfg(test)]
pub(crate) fn names() -> Vec<&'static str> {
    CHECKS.iter().map(|Check(name, ..)| *name).collect()
}

fn tidy() -> Vec<Report> {
    vec![tidy::check(), mutants::check_definitions()]
}

fn lint() -> Vec<Report> {
    let rustdoc = step::run(
        "rustdoc",
        cargo("doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings"),
        minutes(20),
    );
    vec![format(), clippy(), rustdoc]
}

fn format() -> Report {
    step::run("rustfmt", &mut cargo("fmt --all --check"), minutes(2))
}

/// Warnings are denied, but for blocks with more than one unsafe operation: these are counted, and what is listed passes.
fn clippy() -> Report {
    let command = "clippy --workspace --all-targets --message-format=short -- -D warnings --force-warn \
                   clippy::multiple_unsafe_ops_per_block";
    let mut lines = Vec::new();
    let mut report =
        step::run_hearing("clippy", &mut cargo(command), minutes(20), |line| lines.push(line.to_owned()));
    if report.passed()
        && let Err(why) = tidy::unsafe_blocks(&lines)
    {
        report.outcome = Outcome::Failed(why);
    }
    report
}

fn tests() -> Vec<Report> {
    vec![step::run(
        "unit and whole-stack tests",
        &mut cargo(
            "test --workspace --release --no-fail-fast --lib --bins --tests --examples -- --show-output",
        ),
        minutes(60),
    )]
}

fn doc_tests() -> Vec<Report> {
    vec![step::run(
        "examples in the documentation",
        &mut cargo("test --workspace --release --no-fail-fast --doc"),
        minutes(30),
    )]
}

/// Builds loom's models and runs them.
fn models() -> Command {
    let mut command =
        cargo("test -p gpufs-core --test loom* --release --target-dir target/loom -- --show-output");
    command.env("RUSTFLAGS", "--cfg loom");
    command
}

/// All models, each to its end.
fn loom() -> Vec<Report> {
    vec![step::run("loom", &mut models(), minutes(30))]
}

/// All models; of the few that take longer, what a few seconds explore.
fn loom_by_day() -> Vec<Report> {
    const SECONDS: &str = "10";
    vec![step::run("loom, by day", models().env("GPUFS_LOOM_SECONDS", SECONDS), minutes(30))]
}

/// What `device-code` and `abi` do for the other GPUs.
fn other_gpus() -> Vec<Report> {
    let mut reports = device::check_at_night();
    reports.extend(dist::check_at_night());
    reports
}

fn differential() -> Vec<Report> {
    vec![
        step::run(
            "printf, 10 million cases",
            cargo("test -p gpufs-tests --release --test snprintf_differential -- --nocapture")
                .env("GPUFS_CASES", "10000000"),
            minutes(30),
        ),
        step::run(
            "scanf, 10 million cases",
            cargo("test -p gpufs-tests --release --test sscanf_differential -- --nocapture")
                .env("GPUFS_CASES", "10000000"),
            minutes(30),
        ),
        step::run(
            "streams and descriptors, 4,000 sequences",
            cargo(
                "test -p gpufs-tests --release --test suite differential:: -- --nocapture --test-threads=1",
            )
            .env("GPUFS_SEQUENCES", "4000"),
            minutes(30),
        ),
    ]
}

/// The runtime for AMD GPUs: it compiles, links, and says that there is no GPU.
fn hip_runtime() -> Vec<Report> {
    let path = match hip_path() {
        Ok(path) => path,
        Err(reason) => return vec![Report::skipped("HIP runtime", reason)],
    };
    let clippy =
        "clippy -p gpufs-host -p gpufs-c --features gpufs-host/hip,gpufs-c/hip --all-targets -- -D warnings";
    let apps = "clippy -p gpufs-apps --features hip --all-targets -- -D warnings";
    let tests = "test -p gpufs-host --features hip --test gpu -- --show-output";
    vec![
        step::run("HIP runtime, clippy", cargo(clippy).env("HIP_PATH", &path), minutes(20)),
        step::run("apps with HIP, clippy", cargo(apps).env("HIP_PATH", &path), minutes(20)),
        step::run("HIP runtime, tests", cargo(tests).env("HIP_PATH", &path), minutes(20)),
    ]
}

/// Those that have `publish = true`, each built from what would be published of it and of those that it depends on.
/// The crates that are published: what is packed. At night also built from what was packed.
fn packages() -> Vec<Report> {
    vec![packed("packages", "--no-verify")]
}

fn packed(name: &'static str, option: &str) -> Report {
    let command = format!(
        "publish --dry-run --allow-dirty {option} --target-dir target/packages -p gpufs-core -p gpufs-device -p gpufs-host \
         -p gpufs-build -p cargo-gpufs"
    );
    step::run(name, &mut cargo(&command), minutes(30))
}

fn miri() -> Vec<Report> {
    let installed = cargo("miri --version").output().is_ok_and(|output| output.status.success());
    if !installed {
        let reason = "cargo miri is not installed (it comes with a nightly toolchain: rustup +nightly component add miri)";
        return vec![Report::skipped("Miri", reason)];
    }
    vec![step::run("Miri", &mut cargo("miri test -p gpufs-core"), minutes(20))]
}

/// The checks that have a length, longer, and from seeds that another day does not have.
fn long() -> Vec<Report> {
    let day = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
    let seed = (day * 1_000_000).to_string();
    let environment: &[(&str, &str)] = &[
        ("GPUFS_SEED", &seed),
        ("GPUFS_FIRST_SEED", &seed),
        ("GPUFS_CASES", "100000000"),
        ("GPUFS_KERNEL_CASES", "1000000"),
        ("GPUFS_SEQUENCES", "50000"),
        ("GPUFS_SEEDS", "20000"),
        ("GPUFS_SHARED", "500"),
        ("GPUFS_STRESS", "50"),
        ("PROPTEST_CASES", "20000"),
    ];
    let long = |name, command: &str, limit: Duration| {
        step::run(name, cargo(command).envs(environment.iter().copied()), limit)
    };
    let mut deeper = models();
    deeper.env("GPUFS_LOOM_SWITCHES", "1").env("GPUFS_LOOM_SECONDS", "300");
    vec![
        packed("packages, and built", ""),
        step::run("loom, a switch more, five minutes a model", &mut deeper, minutes(300)),
        long("core, longer", "test -p gpufs-core --release --no-fail-fast", minutes(60)),
        long("formats in Rust, longer", "test -p gpufs-device --release --no-fail-fast", minutes(60)),
        long(
            "printf, 100 million cases",
            "test -p gpufs-tests --release --test snprintf_differential -- --nocapture",
            minutes(120),
        ),
        long(
            "scanf, 100 million cases",
            "test -p gpufs-tests --release --test sscanf_differential -- --nocapture",
            minutes(120),
        ),
        long(
            "streams and descriptors, 50,000 sequences",
            "test -p gpufs-tests --release --test suite -- --nocapture --test-threads=1",
            minutes(180),
        ),
        long(
            "lines and numbers, 50,000 sequences",
            "test -p gpufs-tests --release --test fgets --test fscanf_numbers -- --nocapture",
            minutes(360),
        ),
    ]
}

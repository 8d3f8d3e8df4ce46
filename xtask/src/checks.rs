//! Every check of the project as a named step.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::device;
use crate::dist;
use crate::step::{self, Report};

/// The command that runs a set of checks, and the set.
type Check = (&'static str, fn() -> Vec<Report>);

/// All of them, cheapest first.
const CHECKS: &[Check] = &[
    ("lint", lint),
    ("suites", suites),
    ("loom", loom),
    ("device", device::check),
    ("hip", hip),
    ("c", dist::check),
    ("sanitize", sanitize),
    ("miri", miri),
    ("differential", differential),
];

/// Runs everything; whether nothing failed.
pub(crate) fn all() -> bool {
    step::summarize(&CHECKS.iter().flat_map(|(_, check)| check()).collect::<Vec<_>>())
}

/// Runs the checks of this name; whether nothing failed, or `None` if there is no such name.
pub(crate) fn one(name: &str) -> Option<bool> {
    CHECKS.iter().find(|(known, _)| *known == name).map(|(_, check)| step::summarize(&check()))
}

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Where cargo builds.
pub(crate) fn target_directory() -> PathBuf {
    // Relative to the root, as for cargo, which runs there.
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |directory| root().join(directory))
}

/// `cargo` with these arguments, in the workspace's root.
pub(crate) fn cargo(arguments: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments.split_whitespace()).current_dir(root());
    command
}

fn lint() -> Vec<Report> {
    vec![
        step::run("rustfmt", &mut cargo("fmt --all --check"), minutes(2)),
        step::run("clippy", &mut cargo("clippy --workspace --all-targets -- -D warnings"), minutes(10)),
        step::run(
            "rustdoc",
            cargo("doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings"),
            minutes(10),
        ),
    ]
}

fn suites() -> Vec<Report> {
    vec![step::run(
        "unit and whole-stack tests",
        &mut cargo("test --workspace --release --no-fail-fast -- --show-output"),
        minutes(20),
    )]
}

fn loom() -> Vec<Report> {
    let mut command = cargo("test -p gpufs-core --test loom* --release --target-dir target/loom");
    vec![step::run("loom", command.env("RUSTFLAGS", "--cfg loom"), minutes(10))]
}

fn differential() -> Vec<Report> {
    vec![
        step::run(
            "printf, 10 million cases",
            cargo("test -p gpufs-tests --release --test snprintf_differential -- --nocapture")
                .env("GPUFS_CASES", "10000000"),
            minutes(15),
        ),
        step::run(
            "streams and descriptors, 8,000 sequences",
            cargo(
                "test -p gpufs-tests --release --test suite differential:: -- --nocapture --test-threads=1",
            )
            .env("GPUFS_SEQUENCES", "8000"),
            minutes(15),
        ),
    ]
}

/// The stable toolchain ships the sanitizers' runtimes; only the flags that use them are unstable.
fn sanitize() -> Vec<Report> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return vec![Report::skipped("sanitizers", "only set up for x86_64 Linux")];
    }
    let sanitizer = |name: &'static str, directory: &str, flags: &str, tests: &str| {
        let target = "--target x86_64-unknown-linux-gnu";
        let mut command =
            cargo(&format!("test -p gpufs-core {target} --target-dir target/{directory} {tests}"));
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", flags);
        (name, command)
    };
    let (name, mut address) = sanitizer("AddressSanitizer", "asan", "-Zsanitizer=address", "--tests");
    let address = step::run(name, &mut address, minutes(10));
    // The standard library is not instrumented, hence the second flag and the suppression of one of its channels.
    let flags = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer";
    let (name, mut thread) = sanitizer("ThreadSanitizer", "tsan", flags, "--test threads");
    let suppressions = root().join("gpufs-core/tests/threads.tsan");
    thread.env("TSAN_OPTIONS", format!("halt_on_error=1 suppressions={}", suppressions.display()));
    vec![address, step::run(name, &mut thread, minutes(10))]
}

/// Under which directory `include/hip/hip_runtime_api.h` lies; what to do, where it is nowhere.
pub(crate) fn hip_path() -> Result<PathBuf, String> {
    let has_headers = |path: &Path| path.join("include/hip/hip_runtime_api.h").exists();
    let named = ["HIP_PATH", "ROCM_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let found = named.chain(["/opt/rocm", "/usr"].map(PathBuf::from)).find(|path| has_headers(path));
    found.ok_or_else(|| {
        "libamdhip64 and its headers are not here (Debian: libamdhip64-dev), or HIP_PATH must say where"
            .to_owned()
    })
}

/// The runtime for AMD GPUs: it compiles, links, and says that there is no GPU.
fn hip() -> Vec<Report> {
    let path = match hip_path() {
        Ok(path) => path,
        Err(reason) => return vec![Report::skipped("HIP runtime", reason)],
    };
    let clippy =
        "clippy -p gpufs-host -p gpufs-c --features gpufs-host/hip,gpufs-c/hip --all-targets -- -D warnings";
    let apps = "clippy -p gpufs-apps --features hip --all-targets -- -D warnings";
    let tests = "test -p gpufs-host --features hip --test gpu -- --show-output";
    vec![
        step::run("HIP runtime, clippy", cargo(clippy).env("HIP_PATH", &path), minutes(10)),
        step::run("apps with HIP, clippy", cargo(apps).env("HIP_PATH", &path), minutes(10)),
        step::run("HIP runtime, tests", cargo(tests).env("HIP_PATH", &path), minutes(10)),
    ]
}

fn miri() -> Vec<Report> {
    let installed = cargo("miri --version").output().is_ok_and(|output| output.status.success());
    if !installed {
        let reason = "cargo miri is not installed (it comes with a nightly toolchain: rustup +nightly component add miri)";
        return vec![Report::skipped("Miri", reason)];
    }
    vec![step::run("Miri", &mut cargo("miri test -p gpufs-core"), minutes(20))]
}

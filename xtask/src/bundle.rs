//! One folder with what runs on a GPU machine that has a driver and nothing else: `bundle/`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::checks::{cargo, root};
use crate::device;
use crate::step::{self, Outcome, Report};

/// Builds the folder's content; whether all of it is there.
pub(crate) fn run() -> bool {
    let bundle = root().join("bundle");
    if let Err(error) = fs::create_dir_all(&bundle) {
        eprintln!("{}: {error}", bundle.display());
        return false;
    }
    let limit = Duration::from_secs(15 * 60);
    let program = bundle.join("kernels.ptx");
    let kernels = match device::ptx_of("gpufs-test-kernels", &program) {
        Ok(mut command) => step::run("kernels", &mut command, limit),
        Err(reason) => Report::skipped("kernels", reason),
    };
    let mut build = cargo("build --release -p gpufs-tests --bin print_check");
    let host = step::run("host program", build.env_remove("CARGO_TARGET_DIR"), limit);
    let copied = fs::copy(root().join("target/release/print_check"), bundle.join("print_check"));
    let [bench_kernels, bench] = benchmark(&bundle, limit);
    let reports = [kernels, host, bench_kernels, bench];
    let whole = reports.iter().all(|report| report.outcome == Outcome::Passed) && copied.is_ok();
    step::summarize(&reports);
    if whole {
        println!(
            "on the GPU machine: bundle/print_check FILE --program bundle/kernels.ptx\n                    \
             bundle/gpufs-bench --program bundle/bench.ptx --quick all"
        );
    }
    whole
}

/// The benchmark and its kernels, without symbols: it travels.
fn benchmark(bundle: &Path, limit: Duration) -> [Report; 2] {
    let kernels = match device::ptx_of("gpufs-bench-kernels", &bundle.join("bench.ptx")) {
        Ok(mut command) => step::run("benchmark's kernels", &mut command, limit),
        Err(reason) => Report::skipped("benchmark's kernels", reason),
    };
    let mut build = cargo("rustc --release -p gpufs-bench --bin gpufs-bench -- -C strip=symbols");
    let mut program = step::run("benchmark", build.env_remove("CARGO_TARGET_DIR"), limit);
    let built = root().join("target/release/gpufs-bench");
    if program.outcome == Outcome::Passed
        && let Err(error) = fs::copy(&built, bundle.join("gpufs-bench"))
    {
        program.outcome = Outcome::Failed(format!("{}: {error}", built.display()));
    }
    [kernels, program]
}

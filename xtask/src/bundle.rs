//! One folder with what runs on a GPU machine that has a driver and nothing else: `bundle/`.

use std::fs;
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
    let code_objects = device::code_objects_of("gpufs-test-kernels", &bundle);
    let mut build = cargo("build --release -p gpufs-tests --bin print_check");
    let host = step::run("host program", build.env_remove("CARGO_TARGET_DIR"), limit);
    let copied = fs::copy(root().join("target/release/print_check"), bundle.join("print_check"));
    let whole = [&kernels, &host].iter().all(|report| report.outcome == Outcome::Passed) && copied.is_ok();
    let built = step::summarize(&[vec![kernels, host], code_objects].concat());
    let whole = whole && built;
    if whole {
        println!("on the GPU machine: bundle/print_check FILE --program bundle/kernels.ptx");
    }
    whole
}

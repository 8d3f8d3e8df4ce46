//! One folder with what runs on a GPU machine that has a driver and nothing else: `bundle/`.

use std::fs;
use std::path::Path;
use std::process::Command;
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
    let assembled = assemble(&program, limit);
    let mut build = cargo("build --release -p gpufs-tests --bin print_check --bin suite");
    let host = step::run("host programs", build.env_remove("CARGO_TARGET_DIR"), limit);
    let copied = PROGRAMS.iter().all(|name| copy_stripped(name, &bundle));
    let reports: Vec<Report> = [kernels, host].into_iter().chain(assembled).collect();
    let whole = reports.iter().all(|report| report.outcome == Outcome::Passed) && copied;
    step::summarize(&reports);
    if whole {
        println!("on the GPU machine: bundle/suite --device cuda --program bundle/kernels.ptx");
        println!("                    bundle/print_check FILE --program bundle/kernels.ptx");
    }
    whole
}

/// Names the GPU, such as `sm_90`, that the kernels are assembled for here, into `kernels.cubin`. Else the driver does it there, which
/// takes minutes.
const ASSEMBLE: &str = "GPUFS_BUNDLE_FOR";

/// Assembles the kernels, if that is wanted.
fn assemble(program: &Path, limit: Duration) -> Option<Report> {
    let cpu = std::env::var(ASSEMBLE).ok()?;
    let output = program.with_extension("cubin");
    Some(match device::assembly_of(program, &cpu, &output) {
        Ok(mut command) => step::run("kernels, assembled", &mut command, limit),
        Err(reason) => Report::skipped("kernels, assembled", reason),
    })
}

/// Host programs of the bundle.
const PROGRAMS: &[&str] = &["print_check", "suite"];

/// Copies a host program without what only a debugger reads; whether that worked. Where there is no `strip`, it stays as it is.
fn copy_stripped(name: &str, to: &Path) -> bool {
    let target = to.join(name);
    if let Err(error) = fs::copy(root().join("target/release").join(name), &target) {
        eprintln!("{name}: {error}");
        return false;
    }
    if !Command::new("strip").arg(&target).status().is_ok_and(|status| status.success()) {
        eprintln!("{name}: not stripped");
    }
    true
}

//! The main job on real input: builds the programs of `apps/` and runs their `demo` on this machine.

use std::path::Path;
use std::process::Command;

use crate::bundle;
use crate::workspace::{cargo, root, target_directory};

/// Runs the demonstration with these options; whether every program's result was right.
pub(crate) fn run(options: &[String]) -> bool {
    let built = cargo("build --release -p gpufs-apps --bins").status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("the programs of apps/ could not be built");
        return false;
    }
    let programs = target_directory().join("release");
    // On a GPU the programs look for the device program beside themselves.
    if options.iter().any(|option| option == "cuda" || option == "--device=cuda")
        && !device_program(&programs)
    {
        return false;
    }
    let mut demo = Command::new(programs.join("demo"));
    match demo.arg("--work").arg(root().join("target")).args(options).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("{}: {error}", programs.join("demo").display());
            false
        }
    }
}

fn device_program(programs: &Path) -> bool {
    let report = bundle::device_program("gpufs-apps", &programs.join(bundle::APPS_PTX));
    report.passed() || {
        eprintln!("the device program could not be built: {:?}", report.outcome);
        false
    }
}

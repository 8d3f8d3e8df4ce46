//! The project's own commands: `cargo xtask <command>`.
//!
//! | file | what |
//! |---|---|
//! | `bundle.rs` | what runs on a GPU machine, in one folder |
//! | `checks.rs` | every check as a named step; `test` runs them all, each also runs alone |
//! | `demo.rs` | the main job on real input |
//! | `device.rs` | device code for each GPU target, and a look at what the compiler emitted |
//! | `dist` | an installable prefix for C, C++, CUDA and HIP |
//! | `step.rs` | running a command under a time limit, and collecting what was skipped |

mod bundle;
mod checks;
mod demo;
mod device;
mod dist;
mod step;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask <command>

  demo           run the programs of apps/ on this machine and say what they did; takes options, such as --device cuda
                 (cargo xtask demo --help)
  test           every check below, with a summary of what passed, failed and was skipped

  bundle [cuda]  one folder with what runs on a machine that has a GPU and its driver; with cuda, without AMD's code objects
  dist DIR [hip] [cuda] [gfx90a] [gfx942] [gfx1100]
                 an installable prefix: headers, libgpufs, CMake and pkg-config, and of libgpufs_hip and device code all, or what is named

  lint           rustfmt, clippy and rustdoc, warnings denied
  suites         unit, property, whole-stack and documentation tests
  loom           the ring protocol under loom
  differential   printf against the system's (10 million cases), streams against the system's stdio (8,000 sequences)
  sanitize       the core's tests under AddressSanitizer and ThreadSanitizer
  miri           the core's tests under Miri, where it is installed
  device         device code for NVPTX and AMDGCN: it builds, and the instructions that matter are the expected ones
  c              device code for C, C++, CUDA and HIP, and HIP programs built with it by CMake, which say where there is no GPU
  hip            the runtime for AMD GPUs: it compiles, links, and says where there is no GPU
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    if command == "dist" {
        let Some(prefix) = arguments.next() else {
            eprintln!("cargo xtask dist DIR: DIR is missing");
            return ExitCode::from(2);
        };
        let whole = dist::run(&prefix, &arguments.collect::<Vec<_>>());
        return if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let options: Vec<_> = arguments.collect();
    let only_cuda = command == "bundle" && options == ["cuda"];
    if let (Some(extra), false) = (options.first(), command == "demo" || only_cuda) {
        eprintln!("cargo xtask {command} takes no argument, but there is '{extra}'");
        return ExitCode::from(2);
    }
    let passed = match command.as_str() {
        "demo" => demo::run(&options),
        "test" => checks::all(),
        "bundle" => bundle::run(!only_cuda),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            true
        }
        other => match checks::one(other) {
            Some(passed) => passed,
            None => {
                eprint!("there is no command '{other}'\n\n{HELP}");
                return ExitCode::from(2);
            }
        },
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! `gpufs`: builds and runs C programs on a GPU, or on CPU lanes, and says what this machine can do. docs/c-programs.md and docs/doctor.md
//! describe it for those who use it.
//!
//! | file | what |
//! |---|---|
//! | `command_line.rs` | what was asked for |
//! | `prefix.rs` | where headers, libraries and device code are |
//! | `tools.rs` | compilers and linkers: finding them, running them, what they say |
//! | `build` | sources to a program: `nvidia.rs`, `amd.rs`, `lanes.rs`, and what the first two share, `bitcode.rs` |
//! | `run.rs` | a built program: starting it and its exit status |
//! | `doctor.rs` | what this machine can do: text, JSON, exit status |
//! | `stat.rs` | what the sessions of a running process do |
//! | `generate.rs` | manual pages, and completions for shells |
//! | `block.rs` | the memory of a program on a GPU: its arguments, environment and heap |

mod block;
mod build;
mod command_line;
mod doctor;
mod generate;
mod prefix;
mod run;
mod stat;
mod tools;

use std::process::ExitCode;

use command_line::{Command, Options};

/// The exit status after an error of gpufs's own, as env(1) has it.
const TROUBLE: u8 = 125;

fn main() -> ExitCode {
    let command = match command_line::read(std::env::args_os()) {
        Ok(command) => command,
        Err(said) => {
            // A reader such as head(1) may have closed the pipe.
            let _ = said.print();
            return if said.use_stderr() { ExitCode::from(TROUBLE) } else { ExitCode::SUCCESS };
        }
    };
    let ended = match command {
        Command::Generate { dir } => generate::write(&dir).map(|()| ExitCode::SUCCESS),
        Command::Doctor(asked) => doctor::examine(&asked),
        Command::Stat(asked) => stat::watch(&asked),
        Command::Build(options) => build::to_output(&options).map(|()| ExitCode::SUCCESS),
        Command::Run(options) => build_and_run(&options),
    };
    ended.unwrap_or_else(|error| {
        eprintln!("gpufs: {error}");
        ExitCode::from(TROUBLE)
    })
}

/// Runs what is built already, or builds sources into a folder of their own and runs them from there.
fn build_and_run(options: &Options) -> Result<ExitCode, String> {
    if let [program] = &options.files[..]
        && !command_line::is_source(program)
    {
        return run::built(program, options);
    }
    let scratch = build::Scratch::new()?;
    let device = options.device_or_best();
    let program = scratch.path(match device {
        command_line::Device::Cuda => "program.cubin",
        command_line::Device::Amd => return Err(run::NO_AMD.to_owned()),
        command_line::Device::Cpu => "program",
    });
    build::program(options, device, &program)?;
    run::named(&program, &options.name(), options)
}

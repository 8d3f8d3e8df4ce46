//! `cargo gpufs`: `new` makes a package whose kernels read and write files, `build`, `run` and `test` build it with its device program in it, and
//! `program` writes that program alone.
//!
//! | file | what |
//! |---|---|
//! | `cargo.rs` | `build`, `run`, `test`: cargo, told which GPU |
//! | `new.rs` | `new`: a package from the template in `template/` |
//! | `program.rs` | `program`: the device program as a file |

mod cargo;
mod new;
mod program;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo", bin_name = "cargo", version, about)]
struct CommandLine {
    #[command(subcommand)]
    cargo: Cargo,
}

#[derive(Debug, Subcommand)]
enum Cargo {
    /// Programs whose kernels read and write files
    #[command(subcommand, version, arg_required_else_help = true)]
    Gpufs(Command),
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a package that prints from every thread into one file, on CPU lanes and on a GPU
    New(New),
    /// Build the package, with its device program in it
    Build(Build),
    /// Build the package and run it
    Run(Build),
    /// Build the package and run its tests
    Test(Build),
    /// Write the device program alone: PTX or a cubin for NVIDIA, a code object for AMD
    Program(Program),
}

#[derive(Debug, Args)]
struct New {
    /// The folder to make; its last part is the package's name
    folder: PathBuf,
    /// A copy of gpufs's sources [default: those that this program was built from, while they are there; else a version]
    #[arg(long, value_name = "FOLDER")]
    gpufs: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Build {
    /// `none` for CPU lanes alone; `nvidia` for PTX; `sm_90` or the like for an image that needs no translation
    #[arg(long, value_name = "GPU", default_value = "nvidia")]
    gpu: String,
    /// What cargo is given, such as --release; behind another `--`, what the program is given
    #[arg(last = true, value_name = "CARGO'S ARGUMENTS")]
    rest: Vec<String>,
}

#[derive(Debug, Args)]
struct Program {
    /// `nvidia` for PTX; `sm_90` or the like for a cubin; `gfx942` or the like for a code object
    #[arg(long, value_name = "GPU", default_value = "nvidia")]
    gpu: String,
    /// Where to write it [default: the package's name and what it is: hello.ptx, hello-sm_90.cubin, hello-gfx942.hsaco]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn main() -> ExitCode {
    let CommandLine { cargo: Cargo::Gpufs(command) } = CommandLine::parse();
    let done = match command {
        Command::New(new) => new::new(&new.folder, new.gpufs.as_deref()).map(|()| ExitCode::SUCCESS),
        Command::Build(build) => cargo::cargo("build", &build.gpu, &build.rest),
        Command::Run(build) => cargo::cargo("run", &build.gpu, &build.rest),
        Command::Test(build) => cargo::cargo("test", &build.gpu, &build.rest),
        Command::Program(program) => {
            program::program(&program.gpu, program.output.as_deref()).map(|()| ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("cargo gpufs: {error}");
        ExitCode::FAILURE
    })
}

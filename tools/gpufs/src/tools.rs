//! Compilers and linkers: where they are, and running them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// LLVM's programs. A GPU's program is linked as bitcode, so they are of one version.
pub(crate) struct Llvm(PathBuf);

impl Llvm {
    /// Debian's LLVM 22, the one that `GPUFS_LLVM` names, or that of the `clang` on `PATH`.
    pub(crate) fn find() -> Result<Self, String> {
        let named = std::env::var_os("GPUFS_LLVM").filter(|named| !named.is_empty()).map(PathBuf::from);
        let on_path = std::env::var_os("PATH")
            .into_iter()
            .flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
        let mut folders = named.into_iter().chain([PathBuf::from("/usr/lib/llvm-22/bin")]).chain(on_path);
        let whole =
            |folder: &PathBuf| ["clang", "llvm-link", "opt"].iter().all(|name| folder.join(name).exists());
        folders.find(whole).map(Self).ok_or_else(|| {
            "there is no clang for GPUs: LLVM 22's clang, llvm-link and opt (Debian: clang-22 llvm-22) on PATH, or in the folder that GPUFS_LLVM \
             names. Where there is none, build on another machine and run the .cubin here"
                .to_owned()
        })
    }

    pub(crate) fn tool(&self, name: &str) -> Command {
        Command::new(self.0.join(name))
    }

    /// A tool that another package has.
    pub(crate) fn other(&self, name: &str, package: &str) -> Result<Command, String> {
        let path = self.0.join(name);
        if path.exists() {
            return Ok(Command::new(path));
        }
        Err(format!("{} is not there (Debian: {package})", path.display()))
    }
}

/// A program of the CUDA toolkit: on `PATH`, in `/usr/local/cuda/bin`, or of PyPI's packages.
pub(crate) fn cuda(name: &str) -> Result<PathBuf, String> {
    const FROM_PYPI: &str = "\
import glob, nvidia, sys
print(*(path for base in nvidia.__path__ for path in glob.glob(base + '/*/bin/' + sys.argv[1])))";
    let home = std::env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let mut folders = on_path.chain(home).chain([PathBuf::from("/usr/local/cuda/bin")]);
    if let Some(found) = folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.exists())) {
        return Ok(found);
    }
    let listed = Command::new("python3").args(["-c", FROM_PYPI, name]).stderr(Stdio::null()).output();
    let listed =
        listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    listed.split_whitespace().next().map(PathBuf::from).ok_or_else(|| {
        format!(
            "there is no {name}: CUDA's bin directory on PATH, CUDA_HOME, or 'pip install nvidia-cuda-nvcc'"
        )
    })
}

/// Runs a tool. What it says of a source that is right goes on to the standard error; what it says otherwise is the error.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let output = output(command)?;
    if !output.status.success() {
        return Err(refused(command, &output));
    }
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Runs a tool to its end, whatever that is.
pub(crate) fn output(command: &mut Command) -> Result<Output, String> {
    command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{} cannot be run: {error}", Path::new(command.get_program()).display()))
}

/// What a tool said when it failed.
pub(crate) fn refused(command: &Command, output: &Output) -> String {
    format!(
        "{} failed ({}):\n{}{}",
        Path::new(command.get_program()).display(),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
    .trim_end()
    .to_owned()
}

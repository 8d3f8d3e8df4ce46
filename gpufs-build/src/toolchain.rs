//! Where the programs are found that build device code.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A toolchain that can build `core` for a GPU.
#[derive(Clone, Debug)]
pub struct Toolchain {
    pub(crate) cargo: PathBuf,
    pub(crate) rustc: PathBuf,
}

impl Toolchain {
    /// Rustup's nightly or a distribution's Rust, whichever has the sources of `core`.
    ///
    /// # Errors
    /// There is none; which to install.
    pub fn find() -> Result<Self, String> {
        let nightly = Command::new("rustup").args(["run", "nightly", "rustc", "--print", "sysroot"]).output();
        let nightly = nightly.ok().filter(|output| output.status.success());
        let nightly = nightly.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
        let sysroots = nightly.into_iter().chain([PathBuf::from("/usr")]);
        let mut found = sysroots.filter(|sysroot| sysroot.join("lib/rustlib/src/rust/library/core").exists());
        let complete = found.find_map(|sysroot| {
            let toolchain = Self { cargo: sysroot.join("bin/cargo"), rustc: sysroot.join("bin/rustc") };
            (toolchain.cargo.exists() && toolchain.rustc.exists()).then_some(toolchain)
        });
        complete.ok_or_else(|| {
            "no toolchain with the sources of core: 'rustup toolchain install nightly --component rust-src', or a \
             distribution's Rust 1.96 or newer with its sources (Debian: rustc-web cargo-web rust-web-src)"
                .to_owned()
        })
    }
    /// Its cargo.
    #[must_use]
    pub fn cargo(&self) -> &Path {
        &self.cargo
    }
    /// Its compiler.
    #[must_use]
    pub fn rustc(&self) -> &Path {
        &self.rustc
    }
}

/// Folders of `PATH`.
fn on_path() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

/// A tool of LLVM: on `PATH`, with its version in its name, or where Debian puts LLVM 22. It must be as new as rustc's.
///
/// # Errors
/// It is not there; what to install.
pub fn llvm_tool(name: &str) -> Result<PathBuf, String> {
    let versioned = format!("{name}-22");
    let on_path = on_path().flat_map(|folder| [folder.join(&versioned), folder.join(name)]);
    std::iter::once(Path::new("/usr/lib/llvm-22/bin").join(name))
        .chain(on_path)
        .find(|path| path.exists())
        .ok_or_else(|| {
            format!("there is no {name}: LLVM 22 (Debian: clang-22 clang-tools-22 lld-22 llvm-22)")
        })
}

/// `ptxas` of a CUDA installation or of PyPI's `nvidia-cuda-nvcc`.
///
/// # Errors
/// It is not there; what to install.
pub fn ptxas() -> Result<PathBuf, String> {
    const FROM_PYPI: &str = "import glob, nvidia; print(*(path for base in nvidia.__path__ for path in glob.glob(base + '/*/bin/ptxas')))";
    let installed = [PathBuf::from("/usr/local/cuda/bin/ptxas")];
    let from_path = on_path().map(|folder| folder.join("ptxas"));
    if let Some(found) = from_path.chain(installed).find(|path| path.exists()) {
        return Ok(found);
    }
    let python = Command::new("python3").args(["-c", FROM_PYPI]).output().ok();
    let listed =
        python.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    listed.split_whitespace().next().map(PathBuf::from).ok_or_else(|| {
        "there is no ptxas: CUDA's bin directory on PATH, or 'pip install nvidia-cuda-nvcc'".to_owned()
    })
}

/// The folder with CUDA's `ptxas` and `nvlink`.
///
/// # Errors
/// One of them is not there.
pub fn cuda_tools() -> Result<PathBuf, String> {
    let folder = ptxas()?.parent().map(Path::to_owned).unwrap_or_default();
    if folder.join("nvlink").exists() {
        Ok(folder)
    } else {
        Err("there is no nvlink next to ptxas".to_owned())
    }
}

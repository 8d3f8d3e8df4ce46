//! One build of a package's kernels for a GPU.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::gpu::Gpu;
use crate::toolchain::Toolchain;

/// What a build leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emit {
    /// Text: PTX for NVIDIA's, assembly for AMD's GPUs.
    Assembly,
    /// LLVM's bitcode.
    Bitcode,
    /// An object, to be linked.
    Object,
}

/// The library of a package, built for a GPU as one image: kernels are its entry points, and nothing is left to link.
#[derive(Clone, Debug)]
pub struct Kernels<'a> {
    /// The folder that cargo runs in: of the package, or of its workspace.
    pub folder: &'a Path,
    /// The package.
    pub package: &'a str,
    /// Its features, or those of its dependencies, separated by commas. The feature `runtime` of gpufs-device must be among them, by some name.
    pub features: &'a str,
    /// The folder that cargo builds in.
    pub target_directory: &'a Path,
}

impl Kernels<'_> {
    /// The command that builds them and writes `output`, to be run at once.
    #[must_use]
    pub fn command(&self, toolchain: &Toolchain, gpu: &Gpu, emit: Emit, output: &Path) -> Command {
        let emit = match emit {
            Emit::Assembly => "asm",
            Emit::Bitcode => "llvm-bc",
            Emit::Object => "obj",
        };
        if !output.exists() {
            self.forget(gpu);
        }
        let mut command = Command::new(&toolchain.cargo);
        command.args([
            "rustc",
            "-p",
            self.package,
            "--lib",
            "--target",
            gpu.triple(),
            "-Z",
            "build-std=core",
        ]);
        // The whole program at once, so that calls are inlined and nothing is left to link.
        for setting in
            ["inherits=\"release\"", "codegen-units=1", "debug=false", "lto=\"fat\"", "panic=\"abort\""]
        {
            command.arg("--config").arg(format!("profile.device.{setting}"));
        }
        command.args(["--profile", "device"]);
        // The kernels alone, where a package has a host's half too.
        command.args(["--no-default-features", "--features", self.features]);
        command.arg("--target-dir").arg(self.target_directory);
        // What counts is the emitted code, and for AMDGCN rustc 1.96 fails where it would link: an archive takes no linker.
        command.args(["--crate-type", "staticlib", "--"]).arg(format!("--emit={emit}={}", output.display()));
        // Functions that come out the same stay apart.
        command.args(["-Z", "merge-functions=disabled"]);
        if !gpu.is_nvidia() && emit != "obj" {
            // The archive, which nobody reads, then holds bitcode, as those for NVPTX do. Its code would be made beside what is emitted, in minutes.
            command.args(["-C", "linker-plugin-lto"]);
        }
        // A distribution's compiler takes unstable flags only so.
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTC", &toolchain.rustc).env("RUSTFLAGS", gpu.rustflags());
        // Of a cargo that runs this one, as that of a build script.
        for other in [
            "CARGO_ENCODED_RUSTFLAGS",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
            "CARGO_BUILD_TARGET",
            "RUSTUP_TOOLCHAIN",
        ] {
            command.env_remove(other);
        }
        command.current_dir(self.folder);
        command
    }

    /// Has cargo build the package again: of the output it knows nothing, and where that alone was removed it would find all as it was.
    fn forget(&self, gpu: &Gpu) {
        let noted = self.target_directory.join(gpu.triple()).join("device").join(".fingerprint");
        for entry in std::fs::read_dir(noted).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.rsplit_once('-').is_some_and(|(package, _)| package == self.package) {
                // What cannot be removed is told by the missing output.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    /// The sources that the last build for this GPU read, from what cargo notes beside the library.
    #[must_use]
    pub fn sources(&self, gpu: &Gpu) -> Vec<PathBuf> {
        let name = format!("lib{}.d", self.package.replace('-', "_"));
        let noted = self.target_directory.join(gpu.triple()).join("device").join(name);
        let text = std::fs::read_to_string(noted).unwrap_or_default();
        let sources = text.split_once(": ").map(|(_, sources)| sources).unwrap_or_default();
        // A blank in a path has a backslash before it.
        let mut paths = vec![String::new()];
        let mut letters = sources.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => paths.last_mut().expect("never empty").extend(letters.next()),
                blank if blank.is_whitespace() => paths.push(String::new()),
                letter => paths.last_mut().expect("never empty").push(letter),
            }
        }
        paths.into_iter().filter(|path| !path.is_empty()).map(PathBuf::from).collect()
    }
}

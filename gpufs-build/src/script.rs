//! What a build script does: the device program of its package.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::assemble::assemble;
use crate::compile::{Emit, Kernels};
use crate::gpu::{Gpu, GpuError};
use crate::ptx::finish;
use crate::toolchain::Toolchain;

/// The environment variable that chooses what the program is built for: nothing or `nvidia`, PTX for every NVIDIA GPU; `sm_90` or the like, PTX and
/// then an image for that GPU, which is loaded without being translated; `none`, no program: kernels run on CPU lanes alone.
pub const ARCHITECTURES: &str = "GPUFS_BUILD_FOR";
/// Set for the inner build, whose build script has nothing to do.
const INNER: &str = "GPUFS_BUILD_INNER";
/// Where the program lies, for `include_bytes!`.
const PROGRAM: &str = "GPUFS_PROGRAM";

/// Builds the kernels of this package's library as a device program, and names its file in the environment variable `GPUFS_PROGRAM` of the package's
/// own compilation.
///
/// The file is empty, and a warning says why, where there is no toolchain for GPUs: the program then runs on CPU lanes. Kernels that do not compile
/// end the build.
///
/// # Panics
/// Outside of a build script.
pub fn program() {
    println!("cargo::rerun-if-env-changed={ARCHITECTURES}");
    println!("cargo::rerun-if-env-changed=PATH");
    if env::var_os(INNER).is_some() {
        return;
    }
    let out = PathBuf::from(variable("OUT_DIR"));
    let file = out.join("program");
    println!("cargo::rustc-env={PROGRAM}={}", file.display());
    let wanted = env::var(ARCHITECTURES).unwrap_or_default();
    let built = if wanted == "none" { Ok(Vec::new()) } else { build(&out, &wanted) };
    match built {
        Ok(program) => fs::write(&file, program).expect("OUT_DIR can be written"),
        Err(Trouble::Missing(why)) => {
            println!("cargo::warning=no program for GPUs, kernels run on CPU lanes: {why}");
            fs::write(&file, []).expect("OUT_DIR can be written");
        }
        Err(Trouble::Wrong(why)) => {
            println!("cargo::error={why}");
            std::process::exit(1);
        }
    }
}

/// Why there is no program.
enum Trouble {
    /// Something is not installed.
    Missing(String),
    /// The kernels do not compile, or what was asked for is not to be had.
    Wrong(String),
}

/// A variable that cargo sets for build scripts.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name}: cargo sets it for a build script, where this belongs"))
}

fn build(out: &Path, wanted: &str) -> Result<Vec<u8>, Trouble> {
    let assembled = match wanted {
        "" | "nvidia" => None,
        name if name.strip_prefix("sm_").is_some_and(|number| number.len() >= 2) => Some(name),
        other => {
            let hint = Gpu::amd(other).map_or_else(
                |error: GpuError| error.to_string(),
                |_| format!("{other}: a build script embeds programs for NVIDIA; 'cargo gpufs program --gpu {other}' makes a code object"),
            );
            return Err(Trouble::Wrong(format!("{ARCHITECTURES}: {hint}")));
        }
    };
    let toolchain = Toolchain::find().map_err(Trouble::Missing)?;
    let folder = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let package = variable("CARGO_PKG_NAME");
    // Beside the folders of the profiles, which share it: target/PROFILE/build/PACKAGE/out.
    let target_directory = out.ancestors().nth(4).unwrap_or(out).join("gpufs");
    let kernels = Kernels {
        folder: &folder,
        package: &package,
        features: "gpufs-device/runtime",
        target_directory: &target_directory,
    };
    let gpu = Gpu::nvidia();
    let ptx = target_directory.join(format!("{package}.ptx"));
    let output = kernels
        .command(&toolchain, &gpu, Emit::Assembly, &ptx)
        .env(INNER, "1")
        .output()
        .map_err(|error| Trouble::Missing(format!("{}: {error}", toolchain.cargo().display())))?;
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        return Err(Trouble::Wrong(format!(
            "the kernels of '{package}' do not compile for a GPU: the compiler's words are below"
        )));
    }
    for source in kernels.sources(&gpu) {
        println!("cargo::rerun-if-changed={}", source.display());
    }
    println!("cargo::rerun-if-changed={}", folder.join("Cargo.toml").display());
    let text =
        fs::read_to_string(&ptx).map_err(|error| Trouble::Wrong(format!("{}: {error}", ptx.display())))?;
    let text = finish(&text).map_err(Trouble::Wrong)?;
    let Some(gpu) = assembled else { return Ok(text.into_bytes()) };
    let finished = ptx.with_extension("finished.ptx");
    fs::write(&finished, text).map_err(|error| Trouble::Wrong(format!("{}: {error}", finished.display())))?;
    let image = finished.with_extension(format!("{gpu}.cubin"));
    assemble(&finished, gpu, &image, None)
        .map_err(|why| Trouble::Wrong(format!("{ARCHITECTURES}={gpu}: {why}")))?;
    fs::read(&image).map_err(|error| Trouble::Wrong(format!("{}: {error}", image.display())))
}

//! `program`: the device program of the package in this folder, as a file.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpufs_build::{Emit, Gpu, Kernels, Toolchain, assemble, finish, llvm_tool};

/// Writes the program for a GPU.
pub(crate) fn program(gpu: &str, output: Option<&Path>) -> Result<(), String> {
    let package = package()?;
    let target_directory = PathBuf::from("target/gpufs");
    let assembled = gpu.starts_with("sm_");
    let (gpu_built, ending) = match gpu {
        "nvidia" => (Gpu::nvidia(), ".ptx".to_owned()),
        name if assembled => (Gpu::nvidia(), format!("-{name}.cubin")),
        name => (Gpu::amd(name).map_err(|error| format!("--gpu: {error}"))?, format!("-{name}.hsaco")),
    };
    let output = output.map_or_else(|| PathBuf::from(format!("{package}{ending}")), Path::to_owned);
    let (emit, built) = if gpu_built.is_nvidia() {
        (Emit::Assembly, target_directory.join(format!("{package}.ptx")))
    } else {
        (Emit::Object, target_directory.join(format!("{package}-{gpu}.o")))
    };
    // Cargo runs in this folder, and the compiler where it likes.
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let (target_directory, built) = (here.join(target_directory), here.join(built));
    let kernels = Kernels {
        folder: &here,
        package: &package,
        features: "gpufs-device/runtime",
        target_directory: &target_directory,
    };
    let toolchain = Toolchain::find()?;
    run(kernels.command(&toolchain, &gpu_built, emit, &built).env("GPUFS_BUILD_INNER", "1"))?;
    if emit == Emit::Object {
        let mut link = Command::new(llvm_tool("ld.lld")?);
        run(link.args(["-shared", "--no-undefined", "-o"]).args([&output, &built]))?;
    } else {
        let text =
            std::fs::read_to_string(&built).map_err(|error| format!("{}: {error}", built.display()))?;
        let finished = if assembled { built.with_extension("finished.ptx") } else { output.clone() };
        std::fs::write(&finished, finish(&text)?)
            .map_err(|error| format!("{}: {error}", finished.display()))?;
        if assembled {
            assemble(&finished, gpu, &output, None)?;
        }
    }
    println!("{}", output.display());
    Ok(())
}

/// The name of the package in this folder.
fn package() -> Result<String, String> {
    let cargo = |command| {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Command::new(program).arg(command).output().map_err(|error| format!("cargo: {error}"))
    };
    let mut output = cargo("pkgid")?;
    if !output.status.success() {
        // It wants a Cargo.lock, which a new package has not.
        cargo("generate-lockfile")?;
        output = cargo("pkgid")?;
    }
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    // `path+file:///folder#name@version`, or `…/name#version` where the folder has the package's name.
    let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let (place, fragment) = id.split_once('#').ok_or_else(|| format!("cargo pkgid said '{id}'"))?;
    let name = fragment
        .split_once('@')
        .map_or_else(|| place.rsplit('/').next().unwrap_or_default(), |(name, _)| name);
    Ok(name.to_owned())
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().display().to_string();
    let status = command.status().map_err(|error| format!("{program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program}: {status}")) }
}

//! Programs for NVIDIA GPUs: `clang` to PTX, `ptxas` and `nvlink` to a cubin. The device code of gpufs is assembled once for each kind of GPU
//! and kept.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bitcode::Build;
use super::ptx;
use super::scratch::{Scratch, undefined};
use crate::command_line::Options;
use crate::prefix::{self, Prefix};
use crate::tools::{self, Llvm};

/// The GPU that PTX for every GPU is made for, as gpufs's own is.
const OLDEST: &str = "sm_70";

/// The device code: files of a prefix.
const DEVICE: [&str; 2] = ["lib/gpufs/gpufs.ptx", "lib/gpufs/gpufs-libc.ptx"];

pub(super) fn build(options: &Options, output: &Path) -> Result<(), String> {
    let prefix = Prefix::find()?;
    let llvm = Llvm::find()?;
    let scratch = Scratch::new()?;
    let as_ptx = output.extension() == Some(OsStr::new("ptx"));
    let arch = options.arch.clone().unwrap_or_else(|| if as_ptx { OLDEST.to_owned() } else { here() });
    if !arch.starts_with("sm_") {
        return Err(format!("--arch {arch}: an NVIDIA GPU has a name such as sm_90"));
    }
    let device = [prefix.part(DEVICE[0], "cuda")?, prefix.part(DEVICE[1], "cuda")?];
    let mut texts = Vec::new();
    for file in &device {
        texts.push(std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?);
    }
    let march = format!("-march={arch}");
    // PTX 8.0 is the version of CUDA 12.0.
    let target = ["--target=nvptx64-nvidia-cuda", &march, "-Xclang", "-target-feature", "-Xclang", "+ptx80"];
    let build = Build { options, prefix: &prefix, llvm: &llvm, scratch: &scratch, target: &target };
    let exported: Vec<&str> = texts.iter().flat_map(|text| ptx::exports(text)).collect();
    let whole = build.link(&[], &|name| exported.contains(&name) || name == "vprintf")?;
    let assembly = scratch.path("program.ptx");
    let mut clang = llvm.tool("clang");
    clang.args(target).args(["-nogpulib", "-O2", "-Wno-override-module", "-S", "-x", "ir"]);
    tools::run(clang.arg(&whole).arg("-o").arg(&assembly))?;
    if as_ptx {
        let program =
            std::fs::read_to_string(&assembly).map_err(|error| format!("{}: {error}", assembly.display()))?;
        let joined = ptx::join(&program, &[&texts[0], &texts[1], &program]);
        return std::fs::write(output, joined).map_err(|error| format!("{}: {error}", output.display()));
    }
    let object = scratch.path("program.o");
    assemble(&assembly, &arch, &object)?;
    let mut objects = vec![object];
    for (file, text) in device.iter().zip(&texts) {
        objects.push(assembled_once(file, text, &arch, &scratch)?);
    }
    link(&objects, &arch, output)
}

/// The machine's own GPU; where there is none, an H100's or H200's.
fn here() -> String {
    let asked =
        Command::new("nvidia-smi").args(["--query-gpu=compute_cap", "--format=csv,noheader"]).output();
    let said = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let number: String =
        said.lines().next().unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
    if number.is_empty() { "sm_90".to_owned() } else { format!("sm_{number}") }
}

fn assemble(ptx: &Path, arch: &str, object: &Path) -> Result<(), String> {
    let mut ptxas = Command::new(tools::cuda("ptxas")?);
    // As nvcc has it, nvlink says nothing of the stack of functions that call themselves.
    ptxas.args(["-c", "-w", &format!("-arch={arch}"), "-o"]).arg(object).arg(ptx);
    tools::run(&mut ptxas)
}

/// A device object, from the folder of what was assembled before.
fn assembled_once(file: &Path, text: &str, arch: &str, scratch: &Scratch) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    tools::cuda("ptxas")?.hash(&mut hasher);
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{stem}-{arch}-{:016x}.o", hasher.finish());
    let kept = prefix::cache().map(|folder| folder.join(&name));
    if let Some(kept) = kept.as_ref().filter(|kept| kept.exists()) {
        return Ok(kept.clone());
    }
    let object = scratch.path(&name);
    assemble(file, arch, &object)?;
    let Some(kept) = kept else { return Ok(object) };
    // Another build may look at the same time: it finds the whole file or none.
    let fresh = kept.with_extension(format!("{}.new", std::process::id()));
    let moved = std::fs::copy(&object, &fresh).and_then(|_| std::fs::rename(&fresh, &kept));
    Ok(if moved.is_ok() { kept } else { object })
}

fn link(objects: &[PathBuf], arch: &str, output: &Path) -> Result<(), String> {
    let mut nvlink = Command::new(tools::cuda("nvlink")?);
    nvlink.arg(format!("-arch={arch}")).arg("-w").args(objects).arg("-o").arg(output);
    let linked = tools::output(&mut nvlink)?;
    if linked.status.success() {
        return Ok(());
    }
    let said =
        String::from_utf8_lossy(&linked.stderr).into_owned() + &String::from_utf8_lossy(&linked.stdout);
    let missing: Vec<_> = said
        .split("Undefined reference to '")
        .skip(1)
        .filter_map(|rest| rest.split('\'').next().map(str::to_owned))
        .collect();
    Err(if missing.is_empty() { tools::refused(&nvlink, &linked) } else { undefined(missing) })
}

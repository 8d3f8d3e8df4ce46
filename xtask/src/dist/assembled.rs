//! The device calls assembled for NVIDIA's GPUs, an archive of a prefix for each, where there is a CUDA toolkit: programs for one GPU then link
//! without assembling them. (Programs for several assemble the PTX: an archive with all of them would make every program larger by all.)

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::quietly;
use crate::step::{self, Report};

/// The GPUs, by CUDA's numbers of their architectures.
const ARCHITECTURES: &[&str] = &["75", "80", "86", "89", "90", "100", "120"];
/// Chooses others, as in `GPUFS_DIST_FOR=80,90` or `sm_90`; `none` leaves the archives out.
const CHOSEN: &str = "GPUFS_DIST_FOR";
/// Registers of a thread inside a device call: the CMake package's own default.
const REGISTERS: &str = "64";

/// Makes `libgpufs_device_sm_….a` of `gpufs.ptx`, and beside them a file that says what there is, for the CMake package.
pub(super) fn make(prefix: &Path) -> Report {
    const STEP: &str = "device code, assembled";
    let chosen = std::env::var(CHOSEN).unwrap_or_default();
    if chosen == "none" {
        return Report::skipped(STEP, format!("{CHOSEN} is none"));
    }
    let architectures: Vec<&str> = match chosen.as_str() {
        "" => ARCHITECTURES.to_vec(),
        chosen => chosen.split(',').map(|one| one.trim().trim_start_matches("sm_")).collect(),
    };
    let nvcc = match nvcc() {
        Ok(nvcc) => nvcc,
        Err(why) => return Report::skipped(STEP, why),
    };
    let folder = prefix.join("lib/gpufs");
    step::in_process(STEP, || {
        let version = version(&nvcc)?;
        let failed = step::two_at_a_time(&architectures, |architecture| {
            archive(&nvcc, &folder, architecture).err().into_iter().collect()
        });
        if !failed.is_empty() {
            return Err(failed.join("\n"));
        }
        let text = format!(
            "# What is in libgpufs_device_sm_*.a: read by gpufs-config.cmake.\nset(gpufs_assembled_for {})\n\
             set(gpufs_assembled_registers {REGISTERS})\nset(gpufs_assembled_by {version})\n",
            architectures.join(" ")
        );
        println!("{STEP} for {}", architectures.join(", "));
        fs::write(folder.join("assembled.cmake"), text).map_err(|error| error.to_string())
    })
}

/// The archive for one GPU.
fn archive(nvcc: &Path, folder: &Path, architecture: &str) -> Result<(), String> {
    let object = folder.join(format!("gpufs-sm_{architecture}.o"));
    quietly(
        Command::new(nvcc)
            .args(["-dc", &format!("-arch=sm_{architecture}"), &format!("-maxrregcount={REGISTERS}")])
            .arg(folder.join("gpufs.ptx"))
            .arg("-o")
            .arg(&object),
    )?;
    let archive = folder.join(format!("libgpufs_device_sm_{architecture}.a"));
    quietly(Command::new(nvcc).arg("-lib").arg(&object).arg("-o").arg(archive))?;
    fs::remove_file(&object).map_err(|error| format!("{}: {error}", object.display()))
}

/// `nvcc`: that of `NVCC`, or next to ptxas.
fn nvcc() -> Result<PathBuf, String> {
    let named = std::env::var_os("NVCC").map(PathBuf::from);
    let nvcc = match named {
        Some(nvcc) => nvcc,
        None => gpufs_build::ptxas()?.with_file_name("nvcc"),
    };
    if nvcc.exists() { Ok(nvcc) } else { Err(format!("there is no {}", nvcc.display())) }
}

/// Its version, as CMake has it: 13.0.88.
fn version(nvcc: &Path) -> Result<String, String> {
    let said = quietly(Command::new(nvcc).arg("--version"))?;
    let version = said.split_whitespace().find_map(|word| word.strip_prefix('V'));
    version.map(str::to_owned).ok_or_else(|| format!("{} --version says no version:\n{said}", nvcc.display()))
}

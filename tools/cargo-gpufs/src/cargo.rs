//! `build`, `run` and `test`: cargo does them; the package's build script builds the device program for the GPU that is named here.

use std::process::{Command, ExitCode};

/// Runs cargo's command of this name.
pub(crate) fn cargo(command: &str, gpu: &str, rest: &[String]) -> Result<ExitCode, String> {
    let is_for_nvidia = gpu == "nvidia" || gpu.starts_with("sm_");
    if gpu != "none" && !is_for_nvidia {
        return Err(format!(
            "--gpu {gpu}: a package embeds a program for NVIDIA's GPUs (nvidia, or sm_90 or the like), or none; 'cargo gpufs program' \
             writes one for AMD's"
        ));
    }
    if !std::path::Path::new("Cargo.toml").exists() {
        return Err(
            "there is no Cargo.toml in this folder: go into a package, or make one with 'cargo gpufs new'"
                .to_owned(),
        );
    }
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(&program)
        .arg(command)
        .args(rest)
        .env(gpufs_build::ARCHITECTURES, gpu)
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

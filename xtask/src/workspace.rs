//! The workspace: where it lies, where cargo builds, and cargo's commands in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Where cargo builds.
pub(crate) fn target_directory() -> PathBuf {
    // Relative to the root, as for cargo, which runs there.
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |directory| root().join(directory))
}

/// `cargo` with these arguments, in the workspace's root.
pub(crate) fn cargo(arguments: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments.split_whitespace()).current_dir(root());
    command
}

/// A step's limit.
pub(crate) const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// Under which directory `include/hip/hip_runtime_api.h` lies; what to do, where it is nowhere.
pub(crate) fn hip_path() -> Result<PathBuf, String> {
    let has_headers = |path: &Path| path.join("include/hip/hip_runtime_api.h").exists();
    let named = ["HIP_PATH", "ROCM_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let found = named.chain(["/opt/rocm", "/usr"].map(PathBuf::from)).find(|path| has_headers(path));
    found.ok_or_else(|| {
        "libamdhip64 and its headers are not here (Debian: libamdhip64-dev), or HIP_PATH must say where"
            .to_owned()
    })
}

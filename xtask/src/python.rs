//! The Python package: its wheel, and its tests, which run on the wheel's content.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dist::{copy, copy_folder};
use crate::step::{self, Outcome, Report};
use crate::workspace::{cargo, minutes, root, target_directory};

/// The interpreter, if it is not `python3`: its path.
const INTERPRETER: &str = "GPUFS_PYTHON";

fn interpreter() -> Command {
    Command::new(std::env::var_os(INTERPRETER).unwrap_or_else(|| "python3".into()))
}

/// Whether Python has these modules; what to do, where it lacks one.
fn has(modules: &[&str]) -> Result<(), String> {
    let program =
        format!("import sys; assert sys.version_info >= (3, 10), sys.version\nimport {}", modules.join(", "));
    let output =
        interpreter().args(["-c", &program]).output().map_err(|error| format!("python3: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().last().unwrap_or("it fails");
    let names = modules.join(" ");
    Err(format!("{why} (python3 -m pip install {names}; or name another Python in {INTERPRETER})"))
}

/// The package's tests, on a wheel if one can be made here, else on the sources.
pub(crate) fn check() -> Vec<Report> {
    const TESTS: &str = "Python package";
    if let Err(why) = has(&["numpy", "pytest"]) {
        return vec![Report::skipped(TESTS, why)];
    }
    let library = step::run("libgpufs for Python", &mut cargo("build --release -p gpufs-c"), minutes(20));
    if !library.passed() {
        return vec![library];
    }
    let shared = target_directory().join("release/libgpufs.so");
    let mut tests = interpreter();
    tests.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "python/tests"]).current_dir(root());
    tests.env("PYTHONDONTWRITEBYTECODE", "1");
    let wheel = match has(&["setuptools", "wheel", "pip"]) {
        Ok(()) => make(&Parts::of_sources(&shared)),
        Err(why) => (Report::skipped("wheel", why), None),
    };
    if let (report, Some(wheel)) = &wheel
        && report.passed()
    {
        let unpacked = target_directory().join("wheel/unpacked");
        let _ = fs::remove_dir_all(&unpacked);
        let unzip = interpreter().args(["-m", "zipfile", "-e"]).arg(wheel).arg(&unpacked).status();
        if !unzip.is_ok_and(|status| status.success()) {
            let outcome = Outcome::Failed(format!("{} cannot be unpacked", wheel.display()));
            return vec![library, Report { outcome, ..report.clone() }];
        }
        tests.env("PYTHONPATH", unpacked).env_remove("GPUFS_LIBRARY").env_remove("GPUFS_INCLUDE");
    } else {
        tests.env("PYTHONPATH", root().join("python/src"));
        tests.env("GPUFS_LIBRARY", &shared).env("GPUFS_INCLUDE", root().join("include"));
    }
    vec![library, wheel.0, step::run(TESTS, &mut tests, minutes(10))]
}

/// `cargo xtask wheel [PREFIX]`: whether it was made. Without a prefix of `cargo xtask dist` it has no device code.
pub(crate) fn wheel(prefix: Option<&str>) -> bool {
    if let Err(why) = has(&["pip"]) {
        return step::summarize(&[Report { outcome: Outcome::Failed(why), ..Report::skipped("wheel", "") }]);
    }
    let mut reports = Vec::new();
    let parts = match prefix {
        Some(prefix) => Parts::of_prefix(&std::env::current_dir().unwrap_or_default().join(prefix)),
        None => {
            reports.push(step::run("libgpufs", &mut cargo("build -p gpufs-c --profile dist"), minutes(20)));
            Parts::of_sources(&target_directory().join("dist/libgpufs.so"))
        }
    };
    let (report, wheel) = make(&parts);
    reports.push(report);
    let made = step::summarize(&reports);
    if let (true, Some(wheel)) = (made, wheel) {
        println!("python3 -m pip install {}", wheel.display());
    }
    made
}

/// What goes into a wheel besides Python.
struct Parts {
    library: PathBuf,
    include: PathBuf,
    /// Device code: PTX, and archives for single GPUs.
    device: Vec<PathBuf>,
}

impl Parts {
    /// A library that cargo has built, and no device code.
    fn of_sources(library: &Path) -> Self {
        Self { library: library.to_owned(), include: root().join("include/gpufs"), device: Vec::new() }
    }
    /// What `cargo xtask dist` has put into a prefix.
    fn of_prefix(prefix: &Path) -> Self {
        let folder = prefix.join("lib/gpufs");
        let files = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_device = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name == "gpufs.ptx" || name.starts_with("libgpufs_device_sm_")
        };
        let device = files.filter(is_device).collect();
        Self { library: prefix.join("lib/libgpufs.so"), include: prefix.join("include/gpufs"), device }
    }
}

/// Makes the wheel in `target/wheel`.
fn make(parts: &Parts) -> (Report, Option<PathBuf>) {
    let folder = target_directory().join("wheel");
    let staged = folder.join("staged");
    let platform = match stage(parts, &staged) {
        Ok(platform) => platform,
        Err(why) => return (Report { outcome: Outcome::Failed(why), ..Report::skipped("wheel", "") }, None),
    };
    let mut build = interpreter();
    build.args(["-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "-w"]).arg(&folder);
    if has(&["setuptools", "wheel"]).is_ok() {
        build.arg("--no-build-isolation");
    }
    build.arg(&staged).env("GPUFS_WHEEL_PLATFORM", &platform);
    let report = step::run("wheel", &mut build, minutes(10));
    let name = format!("gpufs-{}-py3-none-{platform}.whl", env!("CARGO_PKG_VERSION"));
    let wheel = Some(folder.join(name)).filter(|wheel| wheel.exists());
    let outcome = match (&report.outcome, &wheel) {
        (Outcome::Passed, None) => {
            Outcome::Failed(format!("{} has no wheel for {platform}", folder.display()))
        }
        (outcome, _) => outcome.clone(),
    };
    (Report { outcome, ..report }, wheel)
}

/// Puts together what the wheel is made of; the platform that it is for.
fn stage(parts: &Parts, staged: &Path) -> Result<String, String> {
    let _ = fs::remove_dir_all(staged);
    let package = staged.join("src/gpufs");
    for file in ["pyproject.toml", "setup.py", "README.md"] {
        copy(&root().join("python").join(file), &staged.join(file))?;
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&root().join(licence), &staged.join(licence))?;
    }
    copy_folder(&root().join("python/src/gpufs"), &package)?;
    let _ = fs::remove_dir_all(package.join("__pycache__"));
    copy_folder(&parts.include, &package.join("include/gpufs"))?;
    copy(&parts.library, &package.join("lib/libgpufs.so"))?;
    for file in &parts.device {
        copy(file, &package.join("lib").join(file.file_name().unwrap_or_default()))?;
    }
    println!("{} files of device code", parts.device.len());
    let library =
        fs::read(&parts.library).map_err(|error| format!("{}: {error}", parts.library.display()))?;
    Ok(format!("manylinux_2_{}_{}", glibc_of(&library), std::env::consts::ARCH))
}

/// The minor version of glibc 2 that a library asks for.
fn glibc_of(library: &[u8]) -> u32 {
    const BEFORE: &[u8] = b"\0GLIBC_2.";
    let names = library.windows(BEFORE.len()).enumerate().filter(|(_, window)| *window == BEFORE);
    let minor = |at: usize| {
        let digits = library[at + BEFORE.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0_u32, |number, byte| number * 10 + u32::from(byte - b'0'))
    };
    names.map(|(at, _)| minor(at)).max().unwrap_or(17)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_is_found() {
        assert_eq!(glibc_of(b"x\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GCC_3.0\0"), 34);
    }

    /// The package has the version of the crates.
    #[test]
    fn the_package_has_the_version_of_cargo() {
        let text = fs::read_to_string(root().join("python/src/gpufs/_version.py")).expect("it is there");
        assert!(text.contains(&format!("VERSION = \"{}\"\n", env!("CARGO_PKG_VERSION"))), "{text}");
    }
}

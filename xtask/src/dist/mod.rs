//! An installable prefix for C, C++, CUDA and HIP programs: headers, `libgpufs`, device code, CMake and pkg-config files. It may be moved.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use crate::checks::{cargo, root, target_directory};
use crate::device;
use crate::step::{self, Outcome, Report};

/// Device code that a prefix holds, by the names that choose it.
const DEVICES: &[(&str, &str)] = &[
    ("cuda", "device code, CUDA"),
    ("gfx90a", "device code, gfx90a"),
    ("gfx942", "device code, gfx942"),
    ("gfx1100", "device code, gfx1100"),
];

/// What the device code exports begins so; the C functions that the compiler calls on its own stay inside.
const EXPORTED: &str = "gpufs_raw_";

/// AMD GPUs, the step that links HIP kernels for each, and instructions that system scope takes there: a release and an acquire (LLVM,
/// "User Guide for AMDGPU Backend", memory model), or what stands for them.
const LINKED: &[(&str, &str, &[&str])] = &[
    ("gfx90a", "HIP kernels, gfx90a", &["buffer_wbl2", "buffer_invl2"]),
    ("gfx942", "HIP kernels, gfx942", &["buffer_wbl2 sc0 sc1", "buffer_inv sc0 sc1"]),
    ("gfx1100", "HIP kernels, gfx1100", &["s_waitcnt_vscnt", "buffer_gl1_inv"]),
];

/// The device code of every kind is there and exports what it should; HIP's examples link with it, and hold what they should.
pub(crate) fn check() -> Vec<Report> {
    let prefix = target_directory().join("dist-check");
    let mut reports = Vec::new();
    for (name, step) in DEVICES {
        let built = device_code(&prefix, name, step);
        let passed = built.passed();
        reports.push(built);
        if let (true, Some((_, step, expected))) = (passed, LINKED.iter().find(|(gpu, ..)| gpu == name)) {
            reports.push(match ["clang++", "ld.lld", "llvm-objdump"].map(device::llvm_tool) {
                [Ok(clang), Ok(_), Ok(reader)] => {
                    step::in_process(step, || link_hip_kernels(&prefix, name, (&clang, &reader), expected))
                }
                [clang, linker, reader] => {
                    let missing = [clang, linker, reader].into_iter().find_map(Result::err);
                    Report::skipped(step, missing.unwrap_or_default())
                }
            });
        }
    }
    reports
}

/// Links each of HIP's examples as a program would, nothing left undefined, and looks for instructions.
fn link_hip_kernels(
    prefix: &Path,
    gpu: &str,
    (clang, reader): (&Path, &Path),
    expected: &[&str],
) -> Result<(), String> {
    let sources = fs::read_dir(root().join("examples/hip")).map_err(|error| error.to_string())?;
    for source in sources {
        let source = source.map_err(|error| error.to_string())?.path();
        let object =
            prefix.join(source.file_stem().unwrap_or_default()).with_extension(format!("{gpu}.hsaco"));
        let mut command = Command::new(clang);
        command
            .args(["-std=c++17", "-O2", "-x", "hip", "-nogpuinc", "-nogpulib", "--cuda-device-only"])
            .arg(format!("--offload-arch={gpu}"))
            // The linker's output as it is; the linker is told to leave nothing undefined.
            .args(["--no-gpu-bundle-output", "-c", "-I"])
            .arg(root().join("include"))
            .args(["-Xclang", "-mlink-builtin-bitcode", "-Xclang"])
            .arg(prefix.join(format!("lib/gpufs/gpufs-{gpu}.bc")));
        if gpu.starts_with("gfx11") {
            // LLVM 22's default selector leaves pseudo instructions of gfx11 unexpanded in this code.
            command.args(["-mllvm", "-global-isel=1", "-mllvm", "-global-isel-abort=2"]);
        }
        let status =
            command.arg(&source).arg("-o").arg(&object).status().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("{} for {gpu}: {status}", source.display()));
        }
        let listed =
            Command::new(reader).arg("-d").arg(&object).output().map_err(|error| error.to_string())?;
        let listed = String::from_utf8_lossy(&listed.stdout);
        if let Some(missing) = expected.iter().find(|wanted| !listed.contains(**wanted)) {
            return Err(format!("{}: there is no {missing}", object.display()));
        }
        println!("{}: linked, with {}", object.display(), expected.join(", "));
    }
    Ok(())
}

/// Fills `prefix`; with the named device code, or with all. Whether all that was asked for is there.
pub(crate) fn run(prefix: &str, chosen: &[String]) -> bool {
    if let Some(unknown) = chosen.iter().find(|name| DEVICES.iter().all(|(known, _)| *known != name.as_str()))
    {
        let known: Vec<_> = DEVICES.iter().map(|(name, _)| *name).collect();
        eprintln!("there is no device code '{unknown}'; there is {}", known.join(", "));
        return false;
    }
    let prefix = std::env::current_dir().unwrap_or_default().join(prefix);
    let mut reports = vec![host(&prefix)];
    for (name, step) in DEVICES {
        if chosen.is_empty() || chosen.iter().any(|wanted| wanted.as_str() == *name) {
            reports.push(device_code(&prefix, name, step));
        }
    }
    reports.push(step::in_process("headers, packages, licences", || texts(&prefix)));
    let whole = step::summarize(&reports)
        && (chosen.is_empty() || reports.iter().all(|report| report.outcome == Outcome::Passed));
    if whole {
        println!("-DCMAKE_PREFIX_PATH={0}  or  PKG_CONFIG_PATH={0}/lib/pkgconfig", prefix.display());
    }
    whole
}

/// `libgpufs`, both kinds.
fn host(prefix: &Path) -> Report {
    let target = target_directory();
    let report =
        step::run("libgpufs", &mut cargo("build -p gpufs-c --profile dist"), Duration::from_secs(20 * 60));
    if report.outcome != Outcome::Passed {
        return report;
    }
    let copied = ["libgpufs.a", "libgpufs.so"]
        .iter()
        .try_for_each(|name| copy(&target.join("dist").join(name), &prefix.join("lib").join(name)));
    match copied {
        Ok(()) => report,
        Err(why) => Report { outcome: Outcome::Failed(why), ..report },
    }
}

/// The device calls for one kind of GPU.
fn device_code(prefix: &Path, name: &str, step: &'static str) -> Report {
    let cuda = name == "cuda";
    let file = if cuda { "gpufs.ptx".to_owned() } else { format!("gpufs-{name}.bc") };
    let output = prefix.join("lib/gpufs").join(file);
    if let Err(error) = fs::create_dir_all(prefix.join("lib/gpufs")) {
        return Report::skipped(step, error.to_string());
    }
    let command = if cuda {
        device::ptx_of("gpufs-device-c", &output)
    } else {
        device::bitcode_of("gpufs-device-c", name, &output)
    };
    let report = match command {
        Ok(mut command) => step::run(step, &mut command, Duration::from_secs(15 * 60)),
        Err(reason) => return Report::skipped(step, reason),
    };
    if report.outcome != Outcome::Passed {
        return report;
    }
    let hidden = if cuda { hide_in_ptx(&output) } else { hide_in_bitcode(&output) };
    match hidden {
        Ok(()) => report,
        Err(why) => Report { outcome: Outcome::Failed(why), ..report },
    }
}

/// Makes all but the library's own functions local to the module.
fn hide_in_ptx(file: &Path) -> Result<(), String> {
    let code = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut kept = 0;
    let lines = code.lines().map(|line| match line.strip_prefix(".visible ") {
        Some(local) if line.starts_with(".visible .func") && !line.contains(EXPORTED) => local,
        Some(_) => {
            kept += 1;
            line
        }
        None => line,
    });
    let hidden = lines.collect::<Vec<_>>().join("\n") + "\n";
    if kept == 0 {
        return Err("the PTX exports nothing".to_owned());
    }
    fs::write(file, hidden).map_err(|error| format!("{}: {error}", file.display()))
}

/// The same for bitcode, where LLVM's `opt` is at hand. Where it is not, clang's `-mlink-builtin-bitcode` does it when it links.
fn hide_in_bitcode(file: &Path) -> Result<(), String> {
    let Some(opt) = ["opt-22", "/usr/lib/llvm-22/bin/opt"]
        .into_iter()
        .find(|opt| Command::new(opt).arg("--version").output().is_ok_and(|output| output.status.success()))
    else {
        println!("SKIP {}: no opt of LLVM 22, so its other functions stay visible", file.display());
        return Ok(());
    };
    let status = Command::new(opt)
        .arg("-passes=internalize,globaldce")
        .arg(format!("-internalize-public-api-list={EXPORTED}*"))
        .arg(file)
        .arg("-o")
        .arg(file)
        .status()
        .map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("opt: {status}")) }
}

/// What is copied as it is, or with the version put in.
fn texts(prefix: &Path) -> Result<(), String> {
    let root = root();
    copy_folder(&root.join("include/gpufs"), &prefix.join("include/gpufs"))?;
    copy(&root.join("include/README.md"), &prefix.join("share/doc/gpufs/README.md"))?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&root.join(licence), &prefix.join("share/licenses/gpufs").join(licence))?;
    }
    for kind in ["cuda", "hip"] {
        copy_folder(&root.join("examples").join(kind), &prefix.join("share/gpufs/examples").join(kind))?;
    }
    for (text, place) in [
        (include_str!("gpufs-config.cmake"), "lib/cmake/gpufs/gpufs-config.cmake"),
        (include_str!("gpufs-config-version.cmake"), "lib/cmake/gpufs/gpufs-config-version.cmake"),
        (include_str!("gpufs.pc"), "lib/pkgconfig/gpufs.pc"),
    ] {
        let path = prefix.join(place);
        make_parent(&path)?;
        fs::write(&path, text.replace("@VERSION@", env!("CARGO_PKG_VERSION")))
            .map_err(|error| at(&path, &error))?;
    }
    Ok(())
}

fn at(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn make_parent(path: &Path) -> Result<(), String> {
    path.parent().map_or(Ok(()), |parent| fs::create_dir_all(parent).map_err(|error| at(parent, &error)))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    make_parent(to)?;
    fs::copy(from, to).map(|_| ()).map_err(|error| at(from, &error))
}

/// The files of a folder that has no others in it.
fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    for entry in fs::read_dir(from).map_err(|error| at(from, &error))? {
        let path = entry.map_err(|error| at(from, &error))?.path();
        copy(&path, &to.join(path.file_name().unwrap_or(OsStr::new(""))))?;
    }
    Ok(())
}

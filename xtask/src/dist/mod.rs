//! An installable prefix for C, C++, CUDA and HIP programs: headers, `libgpufs`, device code, CMake and pkg-config files. It may be moved.

mod assembled;
mod man;

use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use crate::device;
use crate::programs;
use crate::step::{self, Outcome, Report};
use crate::workspace::{cargo, hip_path, root, target_directory};

/// Device code that a prefix holds, by the names that choose it.
const DEVICES: &[(&str, &str)] = &[
    ("cuda", "device code, CUDA"),
    ("gfx90a", "device code, gfx90a"),
    ("gfx942", "device code, gfx942"),
    ("gfx1100", "device code, gfx1100"),
];

/// The name that chooses `libgpufs_hip`.
const HIP: &str = "hip";
/// The part that every prefix has: libgpufs for CPU lanes.
const CPU: &str = "cpu";

/// The prefix of the functions that the device code exports. C functions that the compiler calls by itself stay inside.
const EXPORTED: &str = "gpufs_raw_";

/// AMD GPUs, the step that builds HIP programs for each, and instructions that system scope takes there: a release and an acquire (LLVM,
/// "User Guide for AMDGPU Backend", memory model), or what stands for them.
const BUILT: &[(&str, &str, &[&str])] = &[
    ("gfx90a", "HIP programs, gfx90a", &["buffer_wbl2", "buffer_invl2"]),
    ("gfx942", "HIP programs, gfx942", &["buffer_wbl2 sc0 sc1", "buffer_inv sc0 sc1"]),
    ("gfx1100", "HIP programs, gfx1100", &["s_waitcnt_vscnt", "buffer_gl1_inv"]),
];

/// The programs of `examples/hip`, and how each is called.
const PROGRAMS: &[(&str, &[&str])] =
    &[("hello", &["x"]), ("copy", &["x", "y"]), ("follow", &["x"]), ("grep", &["x", "y"])];
/// Those that the day builds: each takes LLVM most of a minute.
const BY_DAY: usize = 2;

/// Builds the device code of every kind. Builds HIP's programs from the prefix by CMake, looks for the expected instructions in them, and runs
/// them: they must say that there is no GPU.
pub(crate) fn check() -> Vec<Report> {
    check_devices(|name| !device::AT_NIGHT.contains(&name), false)
}

/// The same of the GPUs that are left to the night, and of all C programs.
pub(crate) fn check_at_night() -> Vec<Report> {
    check_devices(|name| device::AT_NIGHT.contains(&name), true)
}

fn check_devices(wanted: impl Fn(&str) -> bool, at_night: bool) -> Vec<Report> {
    let prefix = target_directory().join("dist-check");
    let mut reports = Vec::new();
    let library = host_hip(&prefix, "dev");
    let mut can_build = library.passed();
    reports.push(library);
    if can_build {
        let installed = step::in_process("headers, packages, licences", || texts(&prefix));
        can_build = installed.passed();
        reports.push(installed);
    }
    let devices: Vec<_> = DEVICES.iter().filter(|(name, _)| wanted(name)).collect();
    reports
        .extend(step::two_at_a_time(&devices, |(name, step)| check_device(&prefix, name, step, can_build)));
    if can_build {
        reports.extend(programs::check(&prefix, at_night));
    } else {
        reports.push(Report::skipped("C programs", "the prefix has no headers"));
    }
    reports
}

/// The device code of one kind, and HIP's programs with it, where they `can_build`.
fn check_device(prefix: &Path, name: &str, step: &'static str, can_build: bool) -> Vec<Report> {
    let programs = if device::AT_NIGHT.contains(&name) { PROGRAMS } else { &PROGRAMS[..BY_DAY] };
    let mut reports = vec![device_code(prefix, name, step)];
    let Some((_, step, expected)) = BUILT.iter().find(|(gpu, ..)| *gpu == name) else { return reports };
    if !reports[0].passed() {
        return reports;
    }
    let tools = ["clang++", "ld.lld", "clang-offload-bundler", "llvm-objcopy", "llvm-objdump"]
        .map(gpufs_build::llvm_tool);
    let missing = tools.iter().find_map(|tool| tool.as_ref().err()).cloned();
    let cmake = Command::new("cmake").arg("--version").output();
    reports.push(match (missing, cmake) {
        (Some(missing), _) => Report::skipped(step, missing),
        (_, Err(error)) => Report::skipped(step, format!("cmake: {error}")),
        _ if !can_build => Report::skipped(step, "there is no libgpufs_hip"),
        (None, Ok(_)) => {
            let [clang, _, bundler, copier, reader] = tools.map(Result::unwrap_or_default);
            step::in_process(step, || {
                let build = build_hip_programs(prefix, name, &clang, programs)?;
                for (program, arguments) in programs {
                    let program = build.join(program);
                    inspect(&program, name, [&bundler, &copier, &reader], expected)?;
                    finds_no_gpu(&program, arguments)?;
                }
                Ok(())
            })
        }
    });
    reports
}

/// Runs a command without showing its output. The output, also as the error if the command failed.
fn quietly(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(said)
    } else {
        Err(format!("{}: {}\n{said}", command.get_program().display(), output.status))
    }
}

/// Builds some of HIP's examples as their users would, from the prefix. The folder that they are in.
fn build_hip_programs(
    prefix: &Path,
    gpu: &str,
    clang: &Path,
    programs: &[(&str, &[&str])],
) -> Result<PathBuf, String> {
    let build = prefix.join(format!("hip-{gpu}"));
    quietly(
        Command::new("cmake")
            .arg("-S")
            .arg(prefix.join("share/gpufs/examples/hip"))
            .arg("-B")
            .arg(&build)
            .arg(format!("-DCMAKE_CXX_COMPILER={}", clang.display()))
            .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()))
            .arg(format!("-DGPUFS_HIP_ARCHITECTURE={gpu}"))
            // One GPU's programs are built without flags, as a user who follows the example builds them: the package then optimizes the device
            // code. The device calls themselves were optimized when they were built.
            .arg(format!("-DCMAKE_CXX_FLAGS={}", if gpu == "gfx90a" { "" } else { "-O1" })),
    )?;
    quietly(
        Command::new("cmake")
            .arg("--build")
            .arg(&build)
            .args(["--clean-first", "--parallel", "2", "--target"])
            .args(programs.iter().map(|(program, _)| program)),
    )?;
    Ok(build)
}

/// Takes the code object out of a program, and looks for instructions. (The linker has checked that nothing is undefined.)
fn inspect(
    program: &Path,
    gpu: &str,
    [bundler, copier, reader]: [&Path; 3],
    expected: &[&str],
) -> Result<(), String> {
    let (bundle, object) = (program.with_extension("hipfb"), program.with_extension("hsaco"));
    quietly(
        Command::new(copier)
            .arg(format!("--dump-section=.hip_fatbin={}", bundle.display()))
            .arg(program)
            .arg("/dev/null"),
    )?;
    quietly(
        Command::new(bundler)
            .args(["--unbundle", "--type=o", &format!("--targets=hipv4-amdgcn-amd-amdhsa--{gpu}")])
            .arg(format!("--input={}", bundle.display()))
            .arg(format!("--output={}", object.display())),
    )?;
    let listed = quietly(Command::new(reader).arg("-d").arg(&object))?;
    if let Some(missing) = expected.iter().find(|wanted| !listed.contains(**wanted)) {
        return Err(format!("{}: there is no {missing}", object.display()));
    }
    println!("{}: linked, with {}", program.display(), expected.join(", "));
    Ok(())
}

/// Runs a program on a machine without an AMD GPU: it must say so and end. On a machine with one this is skipped.
fn finds_no_gpu(program: &Path, arguments: &[&str]) -> Result<(), String> {
    if Path::new("/dev/kfd").exists() {
        println!("SKIP {}: there is an AMD GPU, or may be", program.display());
        return Ok(());
    }
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60"]).arg(program).args(arguments);
    match quietly(&mut command) {
        Ok(said) => Err(format!("{} ran without a GPU: {said}", program.display())),
        Err(said) if said.contains("there is no AMD GPU here") => {
            println!("{}", said.lines().last().unwrap_or_default());
            Ok(())
        }
        Err(said) => Err(format!("{} does not say that there is no GPU: {said}", program.display())),
    }
}

/// Fills `prefix` with the named device code and libraries, or with all. Whether everything that was asked for is there.
pub(crate) fn run(prefix: &str, chosen: &[String]) -> bool {
    let known: Vec<_> = DEVICES.iter().map(|(name, _)| *name).chain([HIP, CPU]).collect();
    if let Some(unknown) = chosen.iter().find(|name| !known.contains(&name.as_str())) {
        eprintln!(
            "cargo xtask dist: there is no part '{unknown}'; the parts of a prefix are {}",
            known.join(", ")
        );
        return false;
    }
    let prefix = std::env::current_dir().unwrap_or_default().join(prefix);
    let mut reports = vec![host(&prefix), program(&prefix)];
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|wanted| wanted == name);
    if wanted(HIP) {
        reports.push(host_hip(&prefix, "dist"));
    }
    for (name, step) in DEVICES {
        if wanted(name) {
            reports.push(device_code(&prefix, name, step));
        }
    }
    // A prefix is whole without it: programs then assemble the PTX themselves.
    let assembled = (wanted("cuda") && reports.iter().all(Report::passed)).then(|| assembled::make(&prefix));
    reports.push(step::in_process("headers, packages, licences", || texts(&prefix)));
    let assembled_or_not = assembled.as_ref().is_none_or(|report| !report.failed());
    let whole = step::summarize(&reports.iter().chain(&assembled).cloned().collect::<Vec<_>>())
        && assembled_or_not
        && (chosen.is_empty() || reports.iter().all(|report| report.outcome == Outcome::Passed));
    if whole {
        println!("-DCMAKE_PREFIX_PATH={0}  or  PKG_CONFIG_PATH={0}/lib/pkgconfig", prefix.display());
    }
    whole
}

/// The name that programs ask for that were linked with a library: `gpufs-c/build.rs` gives it to the shared one.
pub(crate) fn soname(library: &str) -> String {
    format!("{library}.so.{}", env!("CARGO_PKG_VERSION_MAJOR"))
}

/// Makes `name` in a folder a link to `target`, in the place of what is there.
pub(crate) fn link(folder: &Path, name: &str, target: &str) -> Result<(), String> {
    let path = folder.join(name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&path, &error)),
        _ => {}
    }
    symlink(target, &path).map_err(|error| at(&path, &error))
}

/// Installs what was built in a folder as `library`: the static one, the shared one by its whole version, and links by which programs are linked
/// (`.so`) and find it when they run (the SONAME).
fn install(built: &Path, prefix: &Path, library: &str) -> Result<(), String> {
    let lib = prefix.join("lib");
    copy(&built.join("libgpufs.a"), &lib.join(library).with_extension("a"))?;
    let whole = format!("{library}.so.{}", env!("CARGO_PKG_VERSION"));
    copy(&built.join("libgpufs.so"), &lib.join(&whole))?;
    link(&lib, &soname(library), &whole)?;
    link(&lib, &format!("{library}.so"), &soname(library))
}

/// `libgpufs`, both kinds.
fn host(prefix: &Path) -> Report {
    let target = target_directory();
    let report =
        step::run("libgpufs", &mut cargo("build -p gpufs-c --profile dist"), Duration::from_secs(20 * 60));
    if report.outcome != Outcome::Passed {
        return report;
    }
    match install(&target.join("dist"), prefix, "libgpufs") {
        Ok(()) => report,
        Err(why) => Report { outcome: Outcome::Failed(why), ..report },
    }
}

/// `libgpufs_hip`: the same with AMD GPUs, which needs libamdhip64.
fn host_hip(prefix: &Path, profile: &str) -> Report {
    const NAME: &str = "libgpufs_hip";
    let hip = match hip_path() {
        Ok(hip) => hip,
        Err(reason) => return Report::skipped(NAME, reason),
    };
    // What is installed, in a folder of its own: the library without AMD GPUs has the same file name. The checks' shares what the runtime's tests
    // have built.
    let target = if profile == "dev" { target_directory() } else { target_directory().join("hip") };
    let mut command = cargo(&format!("build -p gpufs-c --features hip --profile {profile} --target-dir"));
    command.arg(&target).env("HIP_PATH", hip);
    let report = step::run(NAME, &mut command, Duration::from_secs(20 * 60));
    if report.outcome != Outcome::Passed {
        return report;
    }
    let built = target.join(if profile == "dev" { "debug" } else { profile });
    match install(&built, prefix, NAME) {
        Ok(()) => report,
        Err(why) => Report { outcome: Outcome::Failed(why), ..report },
    }
}

/// The device calls for one kind of GPU.
fn device_code(prefix: &Path, name: &str, step: &'static str) -> Report {
    let cuda = name == "cuda";
    let file = if cuda { "gpufs.ptx".to_owned() } else { format!("gpufs-{name}.bc") };
    let output = prefix.join("lib/gpufs").join(&file);
    if let Err(error) = fs::create_dir_all(prefix.join("lib/gpufs")) {
        return Report::skipped(step, error.to_string());
    }
    let command = if cuda {
        device::ptx_of("gpufs-device-c", &output)
    } else {
        device::bitcode_of("gpufs-device-c", name, &output)
    };
    let report = match command {
        Ok(mut command) => step::run(step, &mut command, Duration::from_secs(45 * 60)),
        Err(reason) => return Report::skipped(step, reason),
    };
    if report.outcome != Outcome::Passed {
        return report;
    }
    let hidden = if cuda { hide_in_ptx(&output) } else { hide_in_bitcode(&output) };
    match hidden.and_then(|()| libc_code(&output, name, &file.replacen("gpufs", "gpufs-libc", 1))) {
        Ok(()) => report,
        Err(why) => Report { outcome: Outcome::Failed(why), ..report },
    }
}

/// The C library's Rust half for the same GPU, for `gpufs build`, as a file of this name next to the device calls.
fn libc_code(calls: &Path, name: &str, file: &str) -> Result<(), String> {
    const PACKAGE: &str = "gpufs-libc";
    let output = calls.with_file_name(file);
    let mut command = if name == "cuda" {
        device::ptx_of(PACKAGE, &output)?
    } else {
        device::bitcode_of(PACKAGE, name, &output)?
    };
    quietly(&mut command).map(drop)
}

/// The program `gpufs`.
fn program(prefix: &Path) -> Report {
    let report =
        step::run("gpufs", &mut cargo("build -p gpufs --profile dist"), Duration::from_secs(20 * 60));
    if report.outcome != Outcome::Passed {
        return report;
    }
    let copied = copy(&target_directory().join("dist/gpufs"), &prefix.join("bin/gpufs"));
    match copied.and_then(|()| man::of_program(prefix)) {
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

/// The same for bitcode, if LLVM's `opt` is installed. If it is not, clang's `-mlink-builtin-bitcode` does the same when it links.
fn hide_in_bitcode(file: &Path) -> Result<(), String> {
    let Some(opt) = ["opt-22", "/usr/lib/llvm-22/bin/opt"]
        .into_iter()
        .find(|opt| Command::new(opt).arg("--version").output().is_ok_and(|output| output.status.success()))
    else {
        println!(
            "SKIP {}: LLVM 22's opt is not installed, so its other functions stay visible",
            file.display()
        );
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

/// Copies the files that need no compiler, with the version put into the packages.
fn texts(prefix: &Path) -> Result<(), String> {
    let root = root();
    copy_folder(&root.join("include/gpufs"), &prefix.join("include/gpufs"))?;
    man::write(&root.join("include/gpufs"), prefix)?;
    copy_folder(&root.join("gpufs-libc/c"), &prefix.join("share/gpufs/libc"))?;
    copy(&root.join("include/README.md"), &prefix.join("share/doc/gpufs/README.md"))?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&root.join(licence), &prefix.join("share/licenses/gpufs").join(licence))?;
    }
    for folder in ["common", "cuda", "drop_in", "hip", "openmp"] {
        copy_folder(&root.join("examples").join(folder), &prefix.join("share/gpufs/examples").join(folder))?;
    }
    for (text, place) in [
        (include_str!("gpufs-config.cmake"), "lib/cmake/gpufs/gpufs-config.cmake"),
        (include_str!("gpufs-program.cmake"), "lib/cmake/gpufs/gpufs-program.cmake"),
        (include_str!("gpufs-config-version.cmake"), "lib/cmake/gpufs/gpufs-config-version.cmake"),
        (include_str!("hip-on-cuda13.h"), "lib/cmake/gpufs/hip-on-cuda13.h"),
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

pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    make_parent(to)?;
    fs::copy(from, to).map(|_| ()).map_err(|error| at(from, &error))
}

/// The files of a folder, and those of the folders in it.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    for entry in fs::read_dir(from).map_err(|error| at(from, &error))? {
        let path = entry.map_err(|error| at(from, &error))?.path();
        let copied = to.join(path.file_name().unwrap_or(OsStr::new("")));
        if path.is_dir() {
            copy_folder(&path, &copied)?;
        } else {
            copy(&path, &copied)?;
        }
    }
    Ok(())
}

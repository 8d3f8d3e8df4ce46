//! Device builds: the golden crate (and with it all device code) for each GPU target, and a look at what the compiler emitted.
//!
//! Beside it the kernels of the tests, as code objects for AMD GPUs: they link, and hold what a loader looks for.
//!
//! No GPU is needed. What a step wants and does not find (a toolchain with the sources of `core`, `ptxas`, `ld.lld`) it names in its SKIP.
//!
//! Expected instructions lie in `gpufs-device/tests/golden/expect`; with `GPUFS_BLESS=1` in the environment they are written anew.

mod emitted;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use self::emitted::golden;
use crate::step::{self, Report};
use crate::workspace::{self, root};

/// A GPU target.
struct Target {
    build: &'static str,
    golden: &'static str,
    triple: &'static str,
    cpu: &'static str,
    /// Further flags for the compiler.
    flags: &'static str,
}

/// sm_70 is the first with the memory model that `word/nvptx.rs` speaks; PTX 7.0 is the first version with all its instructions that
/// every driver since CUDA 11 takes. The driver translates it for whatever GPU it has.
const TARGETS: &[Target] = &[
    Target {
        build: "build, NVPTX sm_70",
        golden: "golden, NVPTX sm_70",
        triple: "nvptx64-nvidia-cuda",
        cpu: "sm_70",
        flags: "-C target-feature=+ptx70",
    },
    Target {
        build: "build, AMDGCN gfx90a",
        golden: "golden, AMDGCN gfx90a",
        triple: "amdgcn-amd-amdhsa",
        cpu: "gfx90a",
        flags: "",
    },
    Target {
        build: "build, AMDGCN gfx942",
        golden: "golden, AMDGCN gfx942",
        triple: "amdgcn-amd-amdhsa",
        cpu: "gfx942",
        flags: "",
    },
    Target {
        build: "build, AMDGCN gfx1100",
        golden: "golden, AMDGCN gfx1100",
        triple: "amdgcn-amd-amdhsa",
        cpu: "gfx1100",
        // Without it LLVM 22 leaves pseudo instructions of gfx11 unexpanded (S_ADD_CO_PSEUDO, S_ADD_U64_PSEUDO).
        flags: "-C llvm-args=-global-isel=1 -C llvm-args=-global-isel-abort=2",
    },
];

/// For every GPU: rustc's jump threading copies a call into the branches before it, of warp operations too, so that lanes meet at
/// different places: a ballot then counts only those at its own. Off until the compiler leaves it out for GPUs itself
/// (rust-lang/rust#137086).
const FLAGS: &str = "-Z mir-enable-passes=-JumpThreading";

/// GPUs that the PTX is assembled for.
const ASSEMBLED: &[(&str, &str)] = &[("ptxas sm_75", "sm_75"), ("ptxas sm_90", "sm_90")];

/// GPUs whose kernels are linked, and whose C and HIP programs are built, at night only, for time: by day gfx942 stands for them. Their golden
/// functions are looked at in any case.
pub(crate) const AT_NIGHT: &[&str] = &["gfx90a", "gfx1100"];

/// What is left to the night.
pub(crate) fn check_at_night() -> Vec<Report> {
    TARGETS.iter().filter(|target| AT_NIGHT.contains(&target.cpu)).flat_map(code_objects).collect()
}

/// Builds and looks.
pub(crate) fn check() -> Vec<Report> {
    let toolchain = toolchain();
    step::two_at_a_time(TARGETS, |target| check_target(&toolchain, target))
}

/// All that is looked at for one target.
fn check_target(toolchain: &Result<Toolchain, String>, target: &Target) -> Vec<Report> {
    let built = match toolchain {
        Err(reason) => Report::skipped(target.build, reason.clone()),
        Ok(toolchain) => step::run(target.build, &mut build(toolchain, target), Duration::from_secs(15 * 60)),
    };
    let passed = built.passed();
    let mut reports = vec![built];
    if passed {
        reports.push(step::in_process(target.golden, || golden(target)));
    }
    if passed && target.triple.starts_with("nvptx") {
        reports.extend(ASSEMBLED.iter().map(|(name, cpu)| assemble(name, cpu, target)));
    }
    if !AT_NIGHT.contains(&target.cpu) {
        reports.extend(code_objects(target));
    }
    reports
}

/// The code objects of the tests' kernels for a target, if it is one of those that have them.
fn code_objects(target: &Target) -> Vec<Report> {
    CODE_OBJECTS
        .iter()
        .filter(|object| object.2 == target.cpu)
        .flat_map(|object| code_object(object, "gpufs-test-kernels", "kernels", &target_directory(target)))
        .collect()
}

/// A toolchain that can build `core` for a GPU.
struct Toolchain {
    cargo: PathBuf,
    rustc: PathBuf,
}

/// Rustup's nightly or a distribution's Rust, whichever has the sources of `core`.
fn toolchain() -> Result<Toolchain, String> {
    let nightly = Command::new("rustup").args(["run", "nightly", "rustc", "--print", "sysroot"]).output();
    let nightly = nightly.ok().filter(|output| output.status.success());
    let nightly = nightly.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let sysroots = nightly.into_iter().chain([PathBuf::from("/usr")]);
    let mut found = sysroots.filter(|sysroot| sysroot.join("lib/rustlib/src/rust/library/core").exists());
    let complete = found.find_map(|sysroot| {
        let toolchain = Toolchain { cargo: sysroot.join("bin/cargo"), rustc: sysroot.join("bin/rustc") };
        (toolchain.cargo.exists() && toolchain.rustc.exists()).then_some(toolchain)
    });
    complete.ok_or_else(|| {
        "no toolchain with the sources of core: 'rustup toolchain install nightly --component rust-src', or a \
         distribution's Rust 1.96 or newer with its sources (Debian: rustc-web cargo-web rust-web-src)"
            .to_owned()
    })
}

fn target_directory(target: &Target) -> PathBuf {
    workspace::target_directory().join(format!("device-{}", target.cpu))
}

/// Where the build leaves the emitted code.
fn emitted(target: &Target) -> PathBuf {
    target_directory(target).join("golden.s")
}

fn build(toolchain: &Toolchain, target: &Target) -> Command {
    build_package(toolchain, target, ("gpufs-golden", "writeln"), ("asm", &emitted(target)))
}

/// The PTX of a package that holds kernels, written to `output` by the command; why not, where there is no toolchain for it.
pub(crate) fn ptx_of(package: &str, output: &Path) -> Result<Command, String> {
    Ok(build_package(&toolchain()?, &TARGETS[0], (package, "runtime"), ("asm", output)))
}

/// The LLVM bitcode of a package for an AMD GPU, likewise.
pub(crate) fn bitcode_of(package: &str, cpu: &str, output: &Path) -> Result<Command, String> {
    let target = TARGETS.iter().find(|target| target.cpu == cpu).ok_or_else(|| format!("no target {cpu}"))?;
    Ok(build_package(&toolchain()?, target, (package, "runtime"), ("llvm-bc", output)))
}

/// AMD GPUs that programs are built for: the steps' names, and the GPU.
const CODE_OBJECTS: &[(&str, &str, &str)] = &[
    ("kernels, AMDGCN gfx90a", "code object, gfx90a", "gfx90a"),
    ("kernels, AMDGCN gfx942", "code object, gfx942", "gfx942"),
];

/// The code objects of a package that holds kernels, as `<name>-<gpu>.hsaco` in `directory`, one for each AMD GPU: built, linked, and
/// looked at.
pub(crate) fn code_objects_of(package: &str, name: &str, directory: &Path) -> Vec<Report> {
    CODE_OBJECTS.iter().flat_map(|object| code_object(object, package, name, directory)).collect()
}

/// One of them.
fn code_object(
    &(build, link, cpu): &(&'static str, &'static str, &str),
    package: &str,
    name: &str,
    directory: &Path,
) -> Vec<Report> {
    let target = TARGETS.iter().find(|target| target.cpu == cpu).expect("one of the targets");
    let tools =
        toolchain().and_then(|toolchain| Ok((toolchain, llvm_tool("ld.lld")?, llvm_tool("llvm-readelf")?)));
    let (toolchain, linker, reader) = match tools {
        Ok(tools) => tools,
        Err(reason) => return vec![Report::skipped(build, reason)],
    };
    let object = target_directory(target).join(format!("{name}.o"));
    let mut command = build_package(&toolchain, target, (package, "runtime"), ("obj", &object));
    let built = step::run(build, &mut command, Duration::from_secs(15 * 60));
    let passed = built.passed();
    let mut reports = vec![built];
    if passed {
        let output = directory.join(format!("{name}-{cpu}.hsaco"));
        reports.push(step::in_process(link, || link_code_object(&linker, &reader, &object, &output)));
    }
    reports
}

/// Links a code object; whether it holds the descriptor of each kernel, and wants nothing from elsewhere.
fn link_code_object(linker: &Path, reader: &Path, object: &Path, output: &Path) -> Result<(), String> {
    let linked = Command::new(linker)
        .args(["-shared", "--no-undefined", "-o"])
        .args([output, object])
        .status()
        .map_err(|error| error.to_string())?;
    if !linked.success() {
        return Err(format!("ld.lld: {linked}"));
    }
    let listed = Command::new(reader)
        .args(["--dyn-syms", "--wide"])
        .arg(output)
        .output()
        .map_err(|error| error.to_string())?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    // Number, value, size, type, binding, visibility, section, name.
    let symbols: Vec<(&str, &str)> = listed
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.len() == 8 && words[0].ends_with(':'))
        .map(|words| (words[6], words[7]))
        .collect();
    if let Some((_, name)) = symbols.iter().find(|(section, _)| *section == "UND") {
        return Err(format!("unresolved: {name}"));
    }
    let names: Vec<&str> = symbols.iter().map(|(_, name)| *name).collect();
    let kernels: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| name.starts_with("gpufs_kernel_") && !name.ends_with(".kd"))
        .collect();
    if kernels.is_empty() {
        return Err("it holds no kernel".to_owned());
    }
    for kernel in &kernels {
        if !names.contains(&format!("{kernel}.kd").as_str()) {
            return Err(format!("{kernel} has no descriptor"));
        }
    }
    println!("{}: {} kernels, each with its descriptor, nothing unresolved", output.display(), kernels.len());
    Ok(())
}

/// A tool of LLVM: on `PATH`, with its version in its name, or where Debian puts LLVM 22. It must be as new as rustc's.
pub(crate) fn llvm_tool(name: &str) -> Result<PathBuf, String> {
    let versioned = format!("{name}-22");
    let on_path = std::env::var_os("PATH").into_iter().flat_map(|path| {
        std::env::split_paths(&path)
            .flat_map(|directory| [directory.join(&versioned), directory.join(name)])
            .collect::<Vec<_>>()
    });
    std::iter::once(Path::new("/usr/lib/llvm-22/bin").join(name))
        .chain(on_path)
        .find(|path| path.exists())
        .ok_or_else(|| {
            format!("there is no {name}: LLVM 22 (Debian: clang-22 clang-tools-22 lld-22 llvm-22)")
        })
}

fn build_package(
    toolchain: &Toolchain,
    target: &Target,
    (package, feature): (&str, &str),
    (emit, output): (&str, &Path),
) -> Command {
    let mut command = Command::new(&toolchain.cargo);
    command
        .args(["rustc", "-p", package, "--lib", "--profile", "device", "--target", target.triple])
        .args(["-Z", "build-std=core"])
        // The kernels alone, where a package has a host's half too.
        .args(["--no-default-features", "--features", feature])
        .arg("--target-dir")
        .arg(target_directory(target))
        // What counts is the emitted code, and for AMDGCN rustc 1.96 fails where it would link: an archive takes no linker.
        .args(["--crate-type", "staticlib", "--"])
        .arg(format!("--emit={emit}={}", output.display()))
        // Golden functions that come out the same stay apart.
        .args(["-Z", "merge-functions=disabled"])
        // A distribution's compiler takes unstable flags only so.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", &toolchain.rustc)
        .env("RUSTFLAGS", format!("-C target-cpu={} {FLAGS} {}", target.cpu, target.flags).trim_end())
        .current_dir(root());
    command
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Nothing is left to link in the PTX, since nothing links it; `vprintf` is the driver's own.
pub(crate) fn check_whole(ptx: &str) -> Result<(), String> {
    ptx.lines()
        .find(|line| line.starts_with(".extern .func") && !line.trim_end().ends_with(" vprintf"))
        .map_or(Ok(()), |line| Err(format!("unresolved: {line}")))
}

/// Assembles PTX for one GPU; why not, where there is no assembler.
pub(crate) fn assembly_of(program: &Path, cpu: &str, output: &Path) -> Result<Command, String> {
    let mut command = Command::new(ptxas()?);
    command.arg(format!("-arch={cpu}")).arg("-o").arg(output).arg(program);
    Ok(command)
}

/// The folder with CUDA's `ptxas` and `nvlink`.
pub(crate) fn cuda_tools() -> Result<PathBuf, String> {
    let folder = ptxas()?.parent().map(Path::to_owned).unwrap_or_default();
    if folder.join("nvlink").exists() {
        Ok(folder)
    } else {
        Err("there is no nvlink next to ptxas".to_owned())
    }
}

/// `ptxas` of a CUDA installation or of PyPI's `nvidia-cuda-nvcc`.
fn ptxas() -> Result<PathBuf, String> {
    const FROM_PYPI: &str = "import glob, nvidia; print(*(path for base in nvidia.__path__ for path in glob.glob(base + '/*/bin/ptxas')))";
    let from_path = std::env::var_os("PATH").into_iter().flat_map(|path| {
        std::env::split_paths(&path).map(|directory| directory.join("ptxas")).collect::<Vec<_>>()
    });
    let installed = [PathBuf::from("/usr/local/cuda/bin/ptxas")];
    if let Some(found) = from_path.chain(installed).find(|path| path.exists()) {
        return Ok(found);
    }
    let python = Command::new("python3").args(["-c", FROM_PYPI]).output().ok();
    let listed =
        python.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    listed.split_whitespace().next().map(PathBuf::from).ok_or_else(|| {
        "there is no ptxas: CUDA's bin directory on PATH, or 'pip install nvidia-cuda-nvcc'".to_owned()
    })
}

/// Assembles the PTX and prints what each kernel takes.
fn assemble(name: &'static str, cpu: &str, target: &Target) -> Report {
    let ptxas = match ptxas() {
        Ok(ptxas) => ptxas,
        Err(reason) => return Report::skipped(name, reason),
    };
    step::in_process(name, || {
        let object = target_directory(target).join(format!("golden-{cpu}.cubin"));
        let output = Command::new(ptxas)
            .args(["-v", &format!("-arch={cpu}"), "-o"])
            .arg(object)
            .arg(emitted(target))
            .output()
            .map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        let mut kernel = None;
        for line in said.lines() {
            if let Some(rest) = line.split_once("Compiling entry function '") {
                kernel = rest.1.split('\'').next();
            } else if let (Some((_, used)), Some(name)) = (line.split_once(": Used "), kernel) {
                println!("{name:<24} {used}");
                kernel = None;
            } else if line.contains("warning") || line.contains("error") || line.contains("fatal") {
                println!("{line}");
            }
        }
        if output.status.success() { Ok(()) } else { Err(output.status.to_string()) }
    })
}

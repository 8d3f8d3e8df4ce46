//! Device builds: the golden crate (and with it all device code) for each GPU target, and a look at what the compiler emitted.
//!
//! By day AMD's is LLVM's bitcode, of one GPU: to make code of it, and to look at that, takes minutes and is left to the night. Then also the other
//! AMD GPUs, and the kernels of the tests as code objects for them: they link, and hold what a loader looks for.
//!
//! No GPU is needed. What a step wants and does not find (a toolchain with the sources of `core`, `ptxas`, `ld.lld`) it names in its SKIP.
//!
//! Expected instructions lie in `gpufs-device/tests/golden/expect`; with `GPUFS_BLESS=1` in the environment they are written again.

mod emitted;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use gpufs_build::{Emit, Gpu, Kernels, Toolchain, llvm_tool, ptxas};

use self::emitted::golden;
use crate::step::{self, Report};
use crate::workspace::{self, root};

/// A GPU target: what its steps are called, and the GPU, by its name, where it is AMD's.
struct Target {
    build: &'static str,
    golden: &'static str,
    cpu: &'static str,
}

impl Target {
    fn gpu(&self) -> Gpu {
        if self.cpu == "sm_70" { Gpu::nvidia() } else { Gpu::amd(self.cpu).expect("one of those below") }
    }
}

const TARGETS: &[Target] = &[
    Target { build: "build, NVPTX sm_70", golden: "golden, NVPTX sm_70", cpu: "sm_70" },
    Target { build: "build, AMDGCN gfx90a", golden: "golden, AMDGCN gfx90a", cpu: "gfx90a" },
    Target { build: "build, AMDGCN gfx942", golden: "golden, AMDGCN gfx942", cpu: "gfx942" },
    Target { build: "build, AMDGCN gfx1100", golden: "golden, AMDGCN gfx1100", cpu: "gfx1100" },
];

/// The step of the day for AMD's GPU that is not left to the night.
const BITCODE: &str = "bitcode, AMDGCN gfx942";

/// GPUs that the PTX is assembled for.
const ASSEMBLED: &[(&str, &str)] = &[("ptxas sm_75", "sm_75"), ("ptxas sm_90", "sm_90")];

/// GPUs that are built for at night only, for time: by day gfx942 stands for them.
pub(crate) const AT_NIGHT: &[&str] = &["gfx90a", "gfx1100"];

/// What is left to the night: the code of AMD's GPUs, and the kernels of the tests as code objects.
pub(crate) fn check_at_night() -> Vec<Report> {
    let toolchain = Toolchain::find();
    let targets: Vec<_> = TARGETS.iter().filter(|target| !target.gpu().is_nvidia()).collect();
    let mut reports = step::two_at_a_time(&targets, |target| check_target(&toolchain, target));
    reports.extend(CODE_OBJECTS.iter().flat_map(|object| {
        let target = target_of(object.2).expect("one of the targets");
        code_object(object, "gpufs-test-kernels", "kernels", &target_directory(target))
    }));
    reports
}

/// Builds, and looks at what is NVIDIA's.
pub(crate) fn check() -> Vec<Report> {
    let toolchain = Toolchain::find();
    let targets: Vec<_> = TARGETS.iter().filter(|target| !AT_NIGHT.contains(&target.cpu)).collect();
    step::two_at_a_time(&targets, |target| {
        if target.gpu().is_nvidia() {
            check_target(&toolchain, target)
        } else {
            vec![bitcode(&toolchain, target)]
        }
    })
}

/// LLVM's bitcode of the same for one of AMD's GPUs: all of it compiles.
fn bitcode(toolchain: &Result<Toolchain, String>, target: &Target) -> Report {
    match toolchain {
        Err(reason) => Report::skipped(BITCODE, reason.clone()),
        Ok(toolchain) => {
            let output = target_directory(target).join("golden.bc");
            let golden = ("gpufs-golden", "writeln");
            let mut command = build_package(toolchain, target, golden, (Emit::Bitcode, &output));
            // To optimize it takes six times as long. What users link is optimized for the same GPU, by `abi`.
            command.env("CARGO_PROFILE_DEVICE_OPT_LEVEL", "0");
            step::run(BITCODE, &mut command, Duration::from_secs(30 * 60))
        }
    }
}

/// All that is looked at for one target.
fn check_target(toolchain: &Result<Toolchain, String>, target: &Target) -> Vec<Report> {
    let built = match toolchain {
        Err(reason) => Report::skipped(target.build, reason.clone()),
        Ok(toolchain) => step::run(target.build, &mut build(toolchain, target), Duration::from_secs(30 * 60)),
    };
    let passed = built.passed();
    let mut reports = vec![built];
    if passed {
        reports.push(step::in_process(target.golden, || golden(target)));
    }
    if passed && target.gpu().is_nvidia() {
        reports.extend(ASSEMBLED.iter().map(|(name, cpu)| assemble(name, cpu, target)));
    }
    reports
}

fn target_of(cpu: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.cpu == cpu)
}

fn target_directory(target: &Target) -> PathBuf {
    workspace::target_directory().join(format!("device-{}", target.cpu))
}

/// Where the build leaves the emitted code.
fn emitted(target: &Target) -> PathBuf {
    target_directory(target).join("golden.s")
}

fn build(toolchain: &Toolchain, target: &Target) -> Command {
    build_package(toolchain, target, ("gpufs-golden", "writeln"), (Emit::Assembly, &emitted(target)))
}

/// The PTX of a package that holds kernels, written to `output` by the command; why not, where there is no toolchain for it.
pub(crate) fn ptx_of(package: &str, output: &Path) -> Result<Command, String> {
    Ok(build_package(&Toolchain::find()?, &TARGETS[0], (package, "runtime"), (Emit::Assembly, output)))
}

/// The LLVM bitcode of a package for an AMD GPU, likewise.
pub(crate) fn bitcode_of(package: &str, cpu: &str, output: &Path) -> Result<Command, String> {
    let target = target_of(cpu).ok_or_else(|| format!("no target {cpu}"))?;
    Ok(build_package(&Toolchain::find()?, target, (package, "runtime"), (Emit::Bitcode, output)))
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
    let target = target_of(cpu).expect("one of the targets");
    let tools = Toolchain::find()
        .and_then(|toolchain| Ok((toolchain, llvm_tool("ld.lld")?, llvm_tool("llvm-readelf")?)));
    let (toolchain, linker, reader) = match tools {
        Ok(tools) => tools,
        Err(reason) => return vec![Report::skipped(build, reason)],
    };
    let object = target_directory(target).join(format!("{name}.o"));
    let mut command = build_package(&toolchain, target, (package, "runtime"), (Emit::Object, &object));
    let built = step::run(build, &mut command, Duration::from_secs(30 * 60));
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

fn build_package(
    toolchain: &Toolchain,
    target: &Target,
    (package, features): (&str, &str),
    (emit, output): (Emit, &Path),
) -> Command {
    let kernels = Kernels { folder: &root(), package, features, target_directory: &target_directory(target) };
    kernels.command(toolchain, &target.gpu(), emit, output)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
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

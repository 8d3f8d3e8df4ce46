//! One folder with what runs on a GPU machine that has a driver and nothing else: `bundle/`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::device;
use crate::step::{self, Outcome, Report};
use crate::workspace::{cargo, root, target_directory};

/// The device program of `apps/`, where they look for it.
pub(crate) const APPS_PTX: &str = "apps.ptx";
/// Programs of `apps/`, of the tests, and the benchmark.
const PROGRAMS: &[&str] = &[
    "greet",
    "grep",
    "copy",
    "follow",
    "serve",
    "graph",
    "experts",
    "demo",
    "suite",
    "print_check",
    "survive_check",
    "trace_check",
    "hostile_check",
    "gpufs-bench",
];
/// What else the checks on a GPU machine take, and where it goes: the script that makes them, and the C part's sources.
const FILES: &[(&str, &str)] = &[
    ("tests/gpu/check", "check"),
    ("tests/gpu/grep_speed", "grep_speed"),
    ("tests/gpu/serve_speed", "serve_speed"),
    ("tests/gpu/python_check", "python_check"),
    ("tests/gpu/trace_speed", "trace_speed"),
    ("tests/gpu/trace_printf.cu", "trace_printf.cu"),
    ("tests/gpu/turns", "turns"),
    ("tests/gpu/newcomer", "newcomer"),
    ("tests/gpu/views_speed", "views_speed"),
    ("tests/gpu/arrays_speed", "arrays_speed"),
    ("README.md", "pages/README.md"),
    ("include/README.md", "pages/include.md"),
    ("docs/start/cuda.md", "pages/cuda.md"),
    ("tests/c/gpu.cu", "c/gpu.cu"),
    ("tests/c/check.h", "c/check.h"),
    ("tests/c/units/CMakeLists.txt", "c/units/CMakeLists.txt"),
    ("tests/c/units/main.cu", "c/units/main.cu"),
    ("tests/c/units/log.cu", "c/units/log.cu"),
    ("tests/c/units/log.cuh", "c/units/log.cuh"),
    ("tests/c/units/idle.cu", "c/units/idle.cu"),
];
/// Packages of kernels, and their device programs.
const DEVICE_PROGRAMS: &[(&str, &str)] =
    &[("gpufs-test-kernels", "kernels.ptx"), ("gpufs-apps", APPS_PTX), ("gpufs-bench-kernels", "bench.ptx")];
/// Names the GPU, such as `sm_90`, that the device programs are assembled for here, beside the PTX. Else the driver does it when a program is
/// loaded for the first time, which takes a minute or more.
const ASSEMBLE: &str = "GPUFS_BUNDLE_FOR";
/// Names the one device program, such as `bench`, that is built: the rest of the folder stays as it is. For who measures again and again.
const ONLY: &str = "GPUFS_BUNDLE_ONLY";
/// Bytes of the whole folder at most, without the PTX of programs that are assembled, which the checks do not take: it travels, packed in less
/// than half of that.
const MOST_BYTES: u64 = 68 << 20;
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Builds the folder's content, what is for AMD GPUs if `amd`; whether all of it is there.
pub(crate) fn run(amd: bool) -> bool {
    let bundle = root().join("bundle");
    if let Err(error) = fs::create_dir_all(&bundle) {
        eprintln!("{}: {error}", bundle.display());
        return false;
    }
    let build = "build --release -p gpufs-tests -p gpufs-apps -p gpufs-bench --bins";
    let mut reports = Vec::new();
    let only = std::env::var(ONLY).ok();
    let is_wanted = |file: &str| only.as_ref().is_none_or(|only| file.strip_suffix(".ptx") == Some(only));
    for (package, file) in DEVICE_PROGRAMS.iter().filter(|(_, file)| is_wanted(file)) {
        let program = bundle.join(file);
        reports.push(device_program(package, &program));
        reports.extend(assemble(&program));
    }
    if let Some(only) = only {
        if reports.is_empty() {
            eprintln!("{ONLY}: there is no program '{only}': kernels, apps or bench");
        }
        return step::summarize(&reports) && !reports.is_empty();
    }
    let mut programs = cargo(build);
    // The benchmark says which commit it is of.
    if let Some(commit) = commit() {
        programs.env("GPUFS_COMMIT", commit);
    }
    reports.push(step::run("host programs", &mut programs, LIMIT));
    reports.push(step::in_process("copies", || copies(&bundle)));
    let whole = reports.iter().all(Report::passed);
    // A bundle for NVIDIA GPUs is whole without them.
    if amd {
        reports.extend(device::code_objects_of("gpufs-test-kernels", "kernels", &bundle));
        reports.extend(device::code_objects_of("gpufs-apps", "apps", &bundle));
    }
    let whole = step::summarize(&reports) && whole;
    if whole {
        println!(
            "on the GPU machine:\n  bundle/check\n  bundle/suite --device cuda --program bundle/kernels.ptx\n  bundle/demo --device cuda --copy-size 8G\n  bundle/gpufs-bench --program bundle/bench.ptx targets\n  bundle/gpufs-bench --program bundle/bench.ptx --quick all\n  bundle/print_check FILE --program bundle/kernels.ptx"
        );
    }
    whole
}

/// The commit that is checked out, with a mark if files differ from it; `None` where git does not know.
fn commit() -> Option<String> {
    let arguments = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    let output = Command::new("git").args(arguments).current_dir(root()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|commit| output.status.success() && !commit.is_empty())
}

/// The PTX of a package that holds kernels, in `output`.
pub(crate) fn device_program(package: &'static str, output: &Path) -> Report {
    // Cargo does not build again because what it built was removed elsewhere: hence by way of its own folder.
    let built = target_directory().join(package).with_extension("ptx");
    let mut report = match device::ptx_of(package, &built) {
        Ok(mut command) => step::run(package, &mut command, LIMIT),
        Err(reason) => return Report::skipped(package, reason),
    };
    if report.passed() {
        let checked = fs::read_to_string(&built).map_err(|error| format!("{}: {error}", built.display()));
        let copied = checked
            .and_then(|ptx| gpufs_build::finish(&ptx))
            .and_then(|ptx| fs::write(output, ptx).map_err(|error| format!("{}: {error}", output.display())));
        report.outcome = copied.map_or_else(Outcome::Failed, |()| Outcome::Passed);
    }
    report
}

/// Assembles a device program, if that is wanted; that of the tests also with so few registers that threads fill a GPU.
fn assemble(program: &Path) -> Vec<Report> {
    let Ok(cpu) = std::env::var(ASSEMBLE) else { return Vec::new() };
    if let Err(reason) = gpufs_build::ptxas() {
        return vec![Report::skipped("assembled", reason)];
    }
    let mut variants = vec![("cubin", None)];
    if program.ends_with("kernels.ptx") {
        variants.push(("32.cubin", Some(32)));
    }
    let assembled = |(extension, registers)| {
        let output = program.with_extension(extension);
        step::in_process("assembled", || gpufs_build::assemble(program, &cpu, &output, registers))
    };
    variants.into_iter().map(assembled).collect()
}

/// Copies the programs without what is for debuggers, and weighs the folder.
fn copies(bundle: &Path) -> Result<(), String> {
    for program in PROGRAMS {
        let (from, to) = (target_directory().join("release").join(program), bundle.join(program));
        let stripped = Command::new("strip").arg("-o").arg(&to).arg(&from).status();
        if !stripped.is_ok_and(|status| status.success()) {
            return Err(format!("strip -o {} {} failed", to.display(), from.display()));
        }
    }
    for folder in ["c/units", "pages"] {
        fs::create_dir_all(bundle.join(folder)).map_err(|error| format!("{folder}: {error}"))?;
    }
    for (from, to) in FILES {
        fs::copy(root().join(from), bundle.join(to)).map_err(|error| format!("{from}: {error}"))?;
    }
    let mut total = 0;
    for entry in fs::read_dir(bundle).map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let bytes = entry.metadata().map_err(|error| error.to_string())?.len();
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "ptx")
            && path.with_extension("cubin").exists()
        {
            continue;
        }
        println!("{bytes:>10} {}", entry.file_name().display());
        total += bytes;
    }
    println!("{total:>10} bytes");
    if total <= MOST_BYTES {
        Ok(())
    } else {
        Err(format!("the folder has {total} bytes, more than {MOST_BYTES}"))
    }
}

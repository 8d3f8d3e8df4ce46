//! AddressSanitizer and ThreadSanitizer: over the core's tests, over the library for C programs and those programs, and over the host's own threads.
//!
//! The stable toolchain ships the sanitizers' runtimes; only the flags that use them are unstable. C programs are gcc's, whose runtime takes what
//! LLVM has instrumented. CPU lanes are fibers, which ThreadSanitizer takes for one thread: it looks at the rings and what serves them, and at
//! sessions whose kernels run nowhere (`gpufs-host/tests/ring`, the unit tests). Of the host all of it takes seven minutes on two cores, most of
//! them building; each part has a limit. ThreadSanitizer's needs an instrumented standard library, hence a toolchain with
//! its sources.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::step::{self, Report};
use crate::workspace::{cargo, minutes, root, target_directory};

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// C programs that need no arguments.
const PROGRAMS: &[&str] = &[
    "calls",
    "paths",
    "services",
    "sockets",
    "memory_streams",
    "process",
    "many_streams",
    "shared_open",
    "host_deadline",
];
/// Seconds that one of them may take; the longest takes 15 on two cores.
const PROGRAM_SECONDS: u32 = 180;
/// Reads more than there is, through the library: what shows that it is instrumented.
const WRONG: &str = "#include <fcntl.h>\n#include <gpufs/file.h>\n#include <gpufs/host.h>\n#include <stdlib.h>\n\
    static void over(gpufs_session *fs, void *name) {\n    int fd = gpufs_open(fs, name, O_RDWR | O_CREAT, 0600);\n    \
    gpufs_write(fs, fd, malloc(8), 64);\n}\n\
    int main(void) {\n    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, NULL);\n    \
    return gpufs_host_launch(host, 1, 1, over, \"over\") != 0 || gpufs_host_synchronize(host) != 0;\n}\n";
/// Stacks of lanes come and go, which leak detection and stacks that are kept after a return do not know of.
const OPTIONS: &str = "detect_leaks=0:detect_stack_use_after_return=0";

fn is_set_up() -> Result<(), String> {
    if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        Ok(())
    } else {
        Err("only set up for x86_64 Linux".into())
    }
}

/// The core's tests.
pub(crate) fn core() -> Vec<Report> {
    if let Err(reason) = is_set_up() {
        return vec![Report::skipped("sanitizers", reason)];
    }
    let sanitizer = |name: &'static str, directory: &str, flags: &str, tests: &str| {
        let mut command =
            cargo(&format!("test -p gpufs-core --target {TARGET} --target-dir target/{directory} {tests}"));
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", flags);
        (name, command)
    };
    let (name, mut address) = sanitizer("AddressSanitizer", "asan", "-Zsanitizer=address", "--tests");
    let address = step::run(name, &mut address, minutes(30));
    // The standard library is not instrumented, hence the second flag and the suppression of one of its channels.
    let flags = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer";
    let (name, mut thread) = sanitizer("ThreadSanitizer", "tsan", flags, "--test threads");
    let suppressions = root().join("gpufs-core/tests/threads.tsan");
    thread.env("TSAN_OPTIONS", format!("halt_on_error=1 suppressions={}", suppressions.display()));
    vec![address, step::run(name, &mut thread, minutes(30))]
}

/// The library with its C programs, and the host's threads.
pub(crate) fn host() -> Vec<Report> {
    if let Err(reason) = is_set_up() {
        return vec![Report::skipped("sanitizers of the host", reason)];
    }
    let mut build = cargo(&format!("build -p gpufs-c --target {TARGET} --target-dir target/asan"));
    build.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
    let mut reports = vec![step::run("AddressSanitizer, libgpufs", &mut build, minutes(20))];
    if reports[0].passed() {
        reports.push(step::in_process("AddressSanitizer, C programs", c_programs));
    }
    reports.push(threads());
    reports
}

/// The tests of rings and of sessions on a GPU that is none, with a standard library that is instrumented.
fn threads() -> Report {
    const NAME: &str = "ThreadSanitizer, host threads";
    let rustc = Path::new("/usr/bin/rustc");
    if !Path::new("/usr/lib/rustlib/src/rust/library/std").exists() || !rustc.exists() {
        return Report::skipped(
            NAME,
            "no Rust in /usr with the sources of the standard library (Debian: rustc-web cargo-web rust-web-src)",
        );
    }
    let runtime = match runtime_of_threads() {
        Ok(runtime) => runtime,
        Err(reason) => return Report::skipped(NAME, reason),
    };
    let mut command = Command::new("/usr/bin/cargo");
    command
        .args(["test", "-Z", "build-std", "--target", TARGET, "--target-dir"])
        .arg(target_directory().join("tsan-host"))
        .args(["-p", "gpufs-host", "--test", "ring", "--lib"])
        .args(["--", "--test-threads", "2"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", rustc)
        // Such a Rust has no runtime of the sanitizers. It comes first, and the C library once more, as the runtime takes its functions' places.
        .env(
            "RUSTFLAGS",
            format!(
                "-Zsanitizer=thread -Zexternal-clangrt -Zpre-link-arg=-Wl,--whole-archive -Zpre-link-arg={runtime} \
                 -Zpre-link-arg=-Wl,--no-whole-archive -Clink-arg=-lc"
            ),
        )
        .env("TSAN_OPTIONS", "halt_on_error=1")
        .current_dir(root());
    step::run(NAME, &mut command, minutes(30))
}

/// The runtime of ThreadSanitizer that the stable toolchain has.
fn runtime_of_threads() -> Result<String, String> {
    let folder = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let folder = folder.map_err(|error| format!("rustc: {error}"))?;
    let folder = String::from_utf8_lossy(&folder.stdout).trim().to_owned();
    let runtime = format!("{folder}/librustc-stable_rt.tsan.a");
    if Path::new(&runtime).exists() {
        Ok(runtime)
    } else {
        Err(format!("there is no {runtime}: a toolchain of rustup's has it"))
    }
}

/// Builds and runs each, and one that must be caught.
fn c_programs() -> Result<(), String> {
    let folder = target_directory().join("asan-c");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let wrong = folder.join("wrong.c");
    for name in PROGRAMS {
        let work = folder.join(name);
        // What an earlier run left.
        let _ = fs::remove_dir_all(&work);
        fs::create_dir_all(&work).map_err(failed)?;
        let (good, said) = sanitized(&root().join("tests/c").join(name).with_extension("c"), &work)?;
        if !good {
            return Err(format!("{name}.c: {said}"));
        }
        println!("{name}: ok");
    }
    fs::write(&wrong, WRONG).map_err(failed)?;
    let (good, said) = sanitized(&wrong, &folder)?;
    if good || !said.contains("heap-buffer-overflow") {
        return Err(format!(
            "a read over the end of memory was not caught: the library is not instrumented: {said}"
        ));
    }
    Ok(())
}

/// Compiles a program, and runs it in `work`: whether it ended well, and the end of what it said.
fn sanitized(source: &Path, work: &Path) -> Result<(bool, String), String> {
    let library = root().join("target/asan").join(TARGET).join("debug/libgpufs.a");
    let program = work.join("program");
    let compiled = Command::new("gcc")
        .args(["-std=gnu11", "-D_GNU_SOURCE", "-g", "-O1", "-fsanitize=address", "-I"])
        .arg(root().join("include"))
        .args([source, &library])
        .arg("-o")
        .arg(&program)
        .args(["-lm", "-lpthread", "-ldl"])
        .output()
        .map_err(|error| format!("gcc: {error}"))?;
    if !compiled.status.success() {
        return Err(format!("{}: {}", source.display(), String::from_utf8_lossy(&compiled.stderr)));
    }
    let ran = Command::new("timeout")
        .args(["-s", "KILL", &PROGRAM_SECONDS.to_string()])
        .arg(&program)
        .env("ASAN_OPTIONS", OPTIONS)
        .current_dir(work)
        .output()
        .map_err(|error| format!("timeout: {error}"))?;
    let text = String::from_utf8_lossy(&ran.stderr).into_owned();
    // A lane's end by unwinding is on a stack that the sanitizer does not know.
    let told = |line: &&str| !line.contains("WARNING: ASan is ignoring") && !line.contains("False positive");
    let lines: Vec<&str> = text.lines().filter(told).take(60).collect();
    Ok((ran.status.success(), lines.join("\n")))
}

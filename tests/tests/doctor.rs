//! `gpufs_host::doctor` and `gpufs doctor`: on this machine, with io_uring's system calls refused by a seccomp filter, with little locked memory, as
//! another user. What says so of an old kernel, of sysctls and of GPUs has tests of its own in `gpufs-host/src/doctor`.
//!
//! A filter and a limit stay until their process ends, so each case is a process of its own: this program again, with the case in its
//! environment.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use gpufs_host::doctor::{self, Seccomp, Weight};
use gpufs_host::ring::Mode;
use gpufs_tests::{Scratch, compilers, refuse_call, skip};

const CASE: &str = "GPUFS_DOCTOR_CASE";
const FILE: &str = "GPUFS_DOCTOR_FILE";
/// A user with no rights of its own: `nobody`.
const NOBODY: u32 = 65534;

/// In the child: arranges the case, and prints the report and what a program would see of it.
#[test]
fn child() {
    let Ok(case) = std::env::var(CASE) else { return };
    let refused = match case.as_str() {
        "setup" => refuse_call(libc::SYS_io_uring_setup, libc::EPERM),
        "enter" => refuse_call(libc::SYS_io_uring_enter, libc::EPERM),
        "enter-silent" => refuse_call(libc::SYS_io_uring_enter, 0),
        _ => Ok(()),
    };
    if let Err(reason) = refused {
        return println!("SKIP {reason}");
    }
    let file = std::env::var(FILE).unwrap();
    let report = doctor::examine(&[Path::new(&file)]);
    println!("{report}");
    for tried in &report.modes {
        println!("mode={} {}", tried.mode, tried.result.is_ok());
    }
    let session = report.session.result.as_ref().expect("a session");
    println!("session={} {}", session.mode, session.is_registered);
    println!("filtered={}", matches!(report.access.seccomp, Seccomp::Filters(1..)));
    println!("worst={:?}", report.worst());
    println!("locked={:?}", report.locked);
    for finding in report.findings() {
        println!("finding={:?} {} -> {}", finding.weight, finding.is, finding.remedy);
    }
    println!("read={}", report.files[0].reading.is_ok());
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// What the child says of a case, as another user where this is root and `as_nobody`; none, and a SKIP, where it cannot be arranged.
fn run(case: &str, limit: Option<&str>, as_nobody: bool) -> Option<String> {
    let scratch = Scratch::new(&format!("doctor-{case}"));
    // Another user may not reach where this program lies.
    let program = scratch.path("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let file = scratch.path("file");
    std::fs::write(&file, vec![7; 1 << 20]).unwrap();
    for (path, mode) in [(program.parent().unwrap(), 0o755), (&program, 0o755), (&file, 0o644)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let script = match limit {
        Some(kilobytes) => format!("ulimit -l {kilobytes} && exec \"$0\" --exact child --nocapture"),
        None => "exec \"$0\" --exact child --nocapture".to_owned(),
    };
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "100", "sh", "-c", &script]).arg(&program);
    command.env(CASE, case).env(FILE, &file).current_dir("/");
    if as_nobody && is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let text = compilers::said(&output);
    println!("{case}:\n{text}");
    if text.contains("SKIP no seccomp filter") {
        skip(&format!("doctor {case}"), "no seccomp filter");
        return None;
    }
    assert!(output.status.success(), "{case}: {text}");
    Some(text)
}

/// Whether io_uring itself works here in a mode.
fn works(mode: Mode) -> bool {
    let refused = gpufs_tests::small().mode(mode).cpu().err();
    if let Some(refused) = &refused {
        skip(&format!("doctor in {mode}"), refused);
    }
    refused.is_none()
}

#[test]
fn this_machine() {
    let Some(said) = run("plain", None, false) else { return };
    assert!(said.contains("mode=threads true"), "{said}");
    assert!(said.contains("read=true"), "{said}");
    for mode in [Mode::Sqpoll, Mode::Enter] {
        assert!(said.contains(&format!("mode={mode} {}", works(mode))), "{said}");
    }
    if works(Mode::Sqpoll) && works(Mode::Enter) {
        assert!(said.contains("Sessions work in every mode") || said.contains("lack"), "{said}");
    }
}

#[test]
fn another_user() {
    let Some(said) = run("plain-nobody", None, true) else { return };
    assert!(said.contains("mode=threads true") && said.contains("read=true"), "{said}");
    assert!(said.contains("is_exempt: false") || !is_root(), "{said}");
}

#[test]
fn refused_system_calls_are_found_with_their_remedy() {
    if !works(Mode::Enter) || !works(Mode::Sqpoll) {
        return;
    }
    for (case, call) in [("setup", "io_uring_setup"), ("enter", "io_uring_enter")] {
        let Some(said) = run(case, None, false) else { return };
        assert!(said.contains("mode=sqpoll false") && said.contains("mode=enter false"), "{said}");
        assert!(said.contains("session=threads true") && said.contains("filtered=true"), "{said}");
        let finding =
            said.lines().find(|line| line.starts_with("finding=Lack no ring works in the mode")).unwrap();
        assert!(finding.contains(&format!("{call} is refused (EPERM)")), "{finding}");
        assert!(finding.contains("seccomp") && finding.contains("allow"), "{finding}");
        assert!(said.contains("worst=Some(Lack)") && said.contains("served by threads of gpufs"), "{said}");
    }
    // With 0 the call says that all is well, and nothing happens: only an operation that has to come back shows it.
    let Some(said) = run("enter-silent", None, false) else { return };
    assert!(said.contains("mode=enter false"), "{said}");
    assert!(said.contains("a NOP was submitted and did not come back within 3s"), "{said}");
}

#[test]
fn little_locked_memory_is_found() {
    if !works(Mode::Enter) {
        return;
    }
    // Too little for a ring, and enough for rings, but not for buffers. Whether a ring's own memory counts hangs on the kernel.
    for kilobytes in [64, 2048] {
        let Some(said) = run("memory", Some(&kilobytes.to_string()), true) else { return };
        if said.contains("is_exempt: true") {
            return skip("little_locked_memory_is_found", "no limit counts for this process");
        }
        assert!(said.contains(&format!("limit_bytes: Some({})", kilobytes * 1024)), "{said}");
        let finding = said.lines().find(|line| line.starts_with("finding=Lack")).expect("a lack");
        assert!(finding.contains(&format!("RLIMIT_MEMLOCK is {kilobytes} KiB")), "{finding}");
        assert!(finding.contains("raise RLIMIT_MEMLOCK above") && finding.contains("ulimit -l"), "{finding}");
        if !said.contains("session=threads") {
            assert!(
                finding.contains("works without registered buffers") && said.contains(" false\nfiltered"),
                "{said}"
            );
        }
    }
}

fn program(arguments: &[&str]) -> Output {
    let program = compilers::build(&["gpufs"]).join("gpufs");
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60"]).arg(program).args(arguments).output().unwrap()
}

#[test]
fn the_program_says_the_same_as_text_and_json_and_by_its_status() {
    let report = doctor::examine(&[]);
    let status = match report.worst() {
        Some(Weight::Stop) => 2,
        Some(Weight::Lack) => 1,
        _ => 0,
    };
    let scratch = Scratch::new("doctor-program");
    let file = scratch.path("file");
    std::fs::write(&file, vec![1; 300_000]).unwrap();
    let text = program(&["doctor", file.to_str().unwrap()]);
    let said = compilers::said(&text);
    assert_eq!(text.status.code(), Some(status), "{said}");
    for part in ["kernel ", "io_uring ", "rings ", "locked memory ", "sessions ", "NVIDIA ", "IOMMU ", "GB/s"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let json = program(&["doctor", "--json", "--", file.to_str().unwrap()]);
    assert_eq!(json.status.code(), Some(status), "{}", compilers::said(&json));
    let object: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(object["status"], status);
    assert_eq!(object["kernel"]["release"], report.survey.kernel.to_string());
    assert_eq!(object["rings"].as_array().map(Vec::len), Some(3));
    assert_eq!(object["files"][0]["bytes"], 300_000);
    assert!(object["files"][0]["reads"]["latency_us"].as_f64().is_some_and(|time| time > 0.0), "{object:#}");
    if !report.has_gpu() {
        assert_ne!(program(&["doctor", "--gpu"]).status.code(), Some(0));
    }
    assert_eq!(program(&["doctor", "--jsonn"]).status.code(), Some(125));
    let missing = program(&["doctor", scratch.path("missing").to_str().unwrap()]);
    assert_eq!(missing.status.code(), Some(status.max(1)), "{}", compilers::said(&missing));
    for command in ["run", "build", "doctor", "stat"] {
        let help = program(&[command, "--help"]);
        assert!(
            help.status.success() && compilers::said(&help).contains(&format!("gpufs {command}")),
            "{command} --help"
        );
    }
}

/// The commands of docs/doctor.md run, and end as the page says.
#[test]
fn commands_of_the_page() {
    let page = std::fs::read_to_string(compilers::root().join("docs/doctor.md")).expect("the page");
    let scratch = Scratch::new("doctor-page");
    let file = scratch.path("file");
    std::fs::write(&file, vec![1; 10_000]).unwrap();
    let commands: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("    gpufs ")).collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    for command in commands {
        let (command, _) = command.split_once("  ").expect("a command, and what it does");
        let arguments: Vec<_> = command
            .split(' ')
            .map(|word| if word == "FILE" { file.to_str().unwrap() } else { word })
            .collect();
        let output = program(&arguments);
        assert!(matches!(output.status.code(), Some(0..=2)), "{command}: {}", compilers::said(&output));
        assert!(output.stdout.len() > 200, "{command}: {}", compilers::said(&output));
    }
}

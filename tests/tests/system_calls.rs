//! In mode `sqpoll`, while kernels run, no thread of the process makes a system call for their I/O: the device writes entries, the
//! kernel's own thread takes them. For what io_uring does not have, threads of the service ring make [`SERVED`], and no others. Seen from
//! outside, with strace(1).

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use gpufs_tests::{Scratch, skip};

/// What only the kernel's threads may do while kernels run.
const FORBIDDEN: [&str; 43] = [
    "read",
    "readv",
    "pread64",
    "preadv",
    "preadv2",
    "write",
    "writev",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "open",
    "openat",
    "openat2",
    "creat",
    "close",
    "statx",
    "newfstatat",
    "fstat",
    "lseek",
    "fsync",
    "ftruncate",
    "sendfile",
    "splice",
    "tee",
    "copy_file_range",
    "poll",
    "stat",
    "lstat",
    "unlink",
    "unlinkat",
    "rmdir",
    "rename",
    "renameat",
    "renameat2",
    "mkdir",
    "mkdirat",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "fallocate",
    "fadvise64",
    "sync_file_range",
];

/// What threads of the service ring do for kernels: of `flock`, `fchmod`, `futimens`, `chmod`, `access`, `truncate`, `readlink`, `getcwd`,
/// `chdir`, `fchdir`, `umask`, `readdir`, of `stat` and its kin, `unlink` and `rmdir`, `rename`, `mkdir`, `symlink`, `link`.
/// Of `readdir` also `lseek`, where an entry was passed
/// over.
const SERVED: [&str; 18] = [
    "flock",
    "fchmod",
    "utimensat",
    "fchmodat",
    "faccessat",
    "truncate",
    "readlinkat",
    "getcwd",
    "chdir",
    "fchdir",
    "umask",
    "getdents64",
    "statx",
    "unlinkat",
    "renameat2",
    "mkdirat",
    "symlinkat",
    "linkat",
];

/// The thread, the name and the arguments of the call in a line of `strace -f -ttt`: `pid time name(arguments…`.
fn call(line: &str) -> Option<(&str, &str, &str)> {
    let (thread, rest) = line.trim_start().split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    let rest = rest.split_once(' ')?.1;
    // The end of a call whose beginning was logged before.
    if rest.starts_with("<...") {
        return None;
    }
    let (name, arguments) = rest.split_once('(')?;
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then_some((thread, name, arguments))
}

#[test]
fn no_system_calls_while_kernels_run() {
    const TEST: &str = "no_system_calls_while_kernels_run";
    let scratch = Scratch::new("calls");
    let log = scratch.path("log");
    let traced = Command::new("strace")
        .args(["-f", "-ttt", "-o"])
        .arg(&log)
        .arg(env!("CARGO_BIN_EXE_quiet_kernels"))
        .arg(scratch.path("out"))
        .output();
    let traced = match traced {
        Ok(traced) => traced,
        Err(error) => return skip(TEST, format!("no strace: {error}")),
    };
    let (said, erred) = (String::from_utf8_lossy(&traced.stdout), String::from_utf8_lossy(&traced.stderr));
    if said.contains("SKIP") || erred.contains("Operation not permitted") {
        return skip(TEST, format!("{said}{erred}"));
    }
    assert!(traced.status.success(), "{said}{erred}");

    let log = std::fs::read_to_string(&log).unwrap();
    let mut marks = 0;
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut wrong = Vec::new();
    let (mut served, mut servers, mut others) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for line in log.lines() {
        let Some((thread, name, arguments)) = call(line) else { continue };
        if name == "getppid" {
            marks += 1;
        } else if marks == 1 {
            *counts.entry(name).or_default() += 1;
            let wakes = arguments.contains("IORING_ENTER_SQ_WAKEUP") || arguments.contains(", 0, 0, 0x2");
            let submits = name == "io_uring_enter" && !(wakes && arguments.contains(", 0, 0, "));
            if FORBIDDEN.contains(&name) || submits {
                wrong.push(line);
            }
            if SERVED.contains(&name) {
                wrong.push(line);
            }
        } else if marks == 3 {
            if SERVED.contains(&name) {
                served.insert(name);
                servers.insert(thread);
            } else if FORBIDDEN.contains(&name) {
                // Threads of the service ring start with the first call, and ask how many cores there are.
                others.push((thread, line));
            }
        }
    }
    assert_eq!(marks, 4, "the marks of the helper program");
    println!("system calls while two kernels of 256 threads ran: {counts:?}; {}", said.trim());
    assert_eq!(served, BTreeSet::from(SERVED), "what threads of the service ring did");
    let lanes = said.split("lanes {").nth(1).and_then(|rest| rest.split('}').next()).expect("lanes' threads");
    let lanes: BTreeSet<&str> = lanes.split(", ").collect();
    assert!(!lanes.is_empty() && servers.is_disjoint(&lanes), "{servers:?} beside lanes on {lanes:?}");
    wrong.extend(others.into_iter().filter(|(thread, _)| lanes.contains(thread)).map(|(_, line)| line));
    assert!(wrong.is_empty(), "{} calls, such as\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    let waked = counts.get("io_uring_enter").copied().unwrap_or(0);
    assert!(waked > 0, "no SQPOLL thread went to sleep and was woken: the log shows too little");
    // The kernels did what they were to do.
    let text = std::fs::read_to_string(scratch.path("out.txt")).unwrap();
    assert_eq!(text.lines().count(), 2 * 16 * 20);
    assert_eq!(scratch.read("out.dat").len(), 256 * 100);
}

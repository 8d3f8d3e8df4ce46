//! Paths that lead outside: absolute ones, `..`, symbolic and magic links, `/proc`, devices; by entries and by the library's calls.

use gpufs_core::abi::Sqe;
use gpufs_test_kernels::Harm;

use super::{Attempt, Expected, Seen, World};

const PATH: usize = 0x1000;
const READ: u32 = libc::O_RDONLY.cast_unsigned();
const WRITE: u32 = libc::O_WRONLY.cast_unsigned();
const CREATE: u32 = (libc::O_WRONLY | libc::O_CREAT).cast_unsigned();

/// A path: absolute, or below the scene's directory where it does not begin with a slash. `{outside}` is the scene's, `{pid}` and `{fd}` the host's.
const PATHS: &[(&str, &str, u32)] = &[
    ("a file of the system", "/etc/passwd", READ),
    ("a file of the system", "/etc/hostname", READ),
    ("a file outside", "outside/secret", READ),
    ("a file outside", "outside/canary", WRITE),
    ("a new file outside", "outside/made", CREATE),
    ("a file outside, truncated", "outside/secret", WRITE | libc::O_TRUNC as u32),
    ("a file outside as a place (O_PATH)", "outside/secret", libc::O_PATH as u32),
    ("a directory outside", "outside", READ | libc::O_DIRECTORY as u32),
    ("a directory outside", "/", READ | libc::O_DIRECTORY as u32),
    ("a directory outside as a place (O_PATH)", "/", (libc::O_PATH | libc::O_DIRECTORY) as u32),
    ("a file without a name outside (O_TMPFILE)", "outside", WRITE | libc::O_TMPFILE as u32),
    ("..", "inside/../outside/secret", READ),
    ("..", "inside/sub/../../outside/secret", READ),
    ("..", "inside/../../../../../../../../../etc/passwd", READ),
    ("..", "inside/sub/.././../outside/canary", WRITE),
    ("..", "readonly/../outside/secret", READ),
    ("a symbolic link to the outside", "inside/escape/secret", READ),
    ("a symbolic link to the outside", "inside/absolute/secret", READ),
    ("a symbolic link to the outside", "inside/file-escape", READ),
    ("a symbolic link to the outside", "inside/escape/canary", WRITE),
    ("a symbolic link to nothing, created through", "inside/dangling", CREATE),
    ("writing to a tree to read", "readonly/file", WRITE),
    ("writing to a tree to read", "readonly/made", CREATE),
    ("writing to a tree to read", "readonly/file", READ | libc::O_TRUNC as u32),
    ("memory of the process", "/proc/self/mem", READ),
    ("memory of the process", "/proc/self/mem", WRITE),
    ("memory of the process", "/proc/{pid}/mem", libc::O_RDWR as u32),
    ("memory of the process", "/proc/thread-self/mem", READ),
    ("memory of the process", "/proc/{pid}/task/{pid}/mem", READ),
    ("descriptors of the process", "/proc/self/fd/{fd}", READ),
    ("descriptors of the process", "/proc/{pid}/fd/{fd}", libc::O_RDWR as u32),
    ("descriptors of the process", "/proc/self/fd", READ | libc::O_DIRECTORY as u32),
    ("descriptors of the process", "/dev/fd/{fd}", READ),
    ("magic links of the process", "/proc/self/exe", READ),
    ("magic links of the process", "/proc/self/root/etc/passwd", READ),
    ("magic links of the process", "/proc/self/cwd", READ | libc::O_DIRECTORY as u32),
    ("magic links of the process", "/proc/{pid}/root{outside}/secret", READ),
    ("magic links of the process", "/proc/1/root/etc/passwd", READ),
    ("what /proc tells of the process", "/proc/self/environ", READ),
    ("what /proc tells of the process", "/proc/self/maps", READ),
    ("what /proc tells of the process", "/proc/{pid}/cmdline", READ),
    ("what /proc tells of the process", "/proc/self/oom_score_adj", WRITE),
    ("devices", "/dev/zero", READ),
    ("devices", "/dev/null", WRITE),
    ("devices", "/dev/tty", READ),
    ("the system's settings", "/proc/sys/kernel/hostname", READ),
    ("a long path to the outside", "inside/./././././././././././././../outside/./././secret", READ),
    ("an empty path", "", READ),
];

fn text(world: &World, path: &str) -> std::ffi::CString {
    use std::os::fd::AsRawFd as _;
    let outside = world.scene.path("outside");
    let path = path
        .replace("{pid}", &std::process::id().to_string())
        .replace("{fd}", &world.scene.canary.as_raw_fd().to_string())
        .replace("{outside}", outside.to_str().expect("a path of letters"));
    if path.is_empty() || path.starts_with('/') {
        std::ffi::CString::new(path).expect("no NUL")
    } else {
        crate::c_path(&world.scene.path(&path))
    }
}

/// Opens by an entry.
fn by_entry(world: &mut World, path: &str, flags: u32, dirfd: i32) -> Seen {
    let text = text(world, path);
    let address = world.text(PATH, text.as_bytes_with_nul());
    Seen::reached(world.submit(&[Sqe::openat(dirfd, address, flags, 0o600)])[0])
}

/// Opens as kernels do.
fn by_library(world: &mut World, path: &str, flags: u32) -> Seen {
    let text = text(world, path);
    match world.call(Harm::Open, &text, None, flags) {
        Some(Ok(_)) => Seen::Harm("opened".into()),
        Some(Err(errno)) => Seen::Refused(errno.number()),
        None => Seen::Silent,
    }
}

pub(super) fn attempts() -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for &(row, path, flags) in PATHS {
        // What any system has, and lets its own users do.
        let sure = !["devices", "the system's settings", "an empty path"].contains(&row);
        let expected = if sure { Expected::Harm } else { Expected::Error };
        let variant = format!("{path} ({flags:#x})");
        attempts.push(Attempt::new(row, format!("entry: {variant}"), expected, move |world| {
            by_entry(world, path, flags, libc::AT_FDCWD)
        }));
        attempts.push(Attempt::new(row, format!("library: {variant}"), expected, move |world| {
            by_library(world, path, flags)
        }));
    }
    for (variant, path) in [
        ("from a directory", "../outside/secret"),
        ("a link", "escape/secret"),
        ("twice", "sub/../../outside/secret"),
    ] {
        attempts.push(Attempt::new(".. from an open directory", variant, Expected::Harm, move |world| {
            let dir = crate::c_path(&world.scene.path("inside"));
            let path = std::ffi::CString::new(path).expect("no NUL");
            let opened = world.call(Harm::OpenAt, &dir, Some(&path), READ);
            match opened {
                Some(Ok(_)) => Seen::Harm("opened".into()),
                Some(Err(errno)) => Seen::Refused(errno.number()),
                None => Seen::Silent,
            }
        }));
    }
    attempts.push(Attempt::new(
        "a link of a kernel's own to the outside",
        "symlink, open",
        Expected::Harm,
        |world| {
            let (to, link) = (
                crate::c_path(&world.scene.path("outside/secret")),
                crate::c_path(&world.scene.path("inside/own")),
            );
            let opened = world.call(Harm::OpenLink, &to, Some(&link), READ);
            match opened {
                Some(Ok(_)) => Seen::Harm("opened".into()),
                Some(Err(errno)) => Seen::Refused(errno.number()),
                None => Seen::Silent,
            }
        },
    ));
    attempts.push(Attempt::new(
        "a tree that was moved",
        "its directory renamed away",
        Expected::Harm,
        |world| {
            // The tree is what was named when the session was opened, not what has the name now.
            let (inside, moved) = (world.scene.path("inside"), world.scene.path("moved"));
            std::fs::rename(&inside, &moved).expect("the scene's own");
            std::os::unix::fs::symlink("outside", &inside).expect("the scene's own");
            let seen = by_library(world, "inside/secret", READ);
            std::fs::remove_file(&inside).expect("the link");
            std::fs::rename(&moved, &inside).expect("back");
            seen
        },
    ));
    attempts
}

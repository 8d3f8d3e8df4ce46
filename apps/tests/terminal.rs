//! Progress on a terminal: it is seen, says what is true, and is gone before results and errors.

mod common;

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::process::{Command, Stdio};

use common::{Tree, needs};

/// What a program printed, whose standard error is a terminal of 100 columns.
struct Shown {
    stdout: String,
    terminal: String,
    code: Option<i32>,
}

/// Both ends of a terminal: the one that a program gets, and the one that a person sees.
fn terminal() -> (OwnedFd, File) {
    let size = libc::winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut outer, mut inner) = (-1, -1);
    // SAFETY:
    // - two places for descriptors and a size, borrowed for the call; no name and no settings are asked for
    let opened = unsafe {
        libc::openpty(&raw mut outer, &raw mut inner, std::ptr::null_mut(), std::ptr::null(), &raw const size)
    };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY:
    // - opened above, and nothing else has it
    let inner = unsafe { OwnedFd::from_raw_fd(inner) };
    // SAFETY:
    // - as above
    let outer = unsafe { File::from_raw_fd(outer) };
    (inner, outer)
}

fn shown(tree: &Tree, program: &str, arguments: &[&str]) -> Shown {
    let (inner, mut outer) = terminal();
    let mut command = Command::new(program);
    command.current_dir(tree.path()).args(arguments).env("GPUFS_QUIET", "1").env("TERM", "xterm");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(inner).spawn().unwrap();
    // The command has the program's end, too: there is an end to read only without it.
    drop(command);
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        // EIO, when the program has ended.
        let _ = outer.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let output = child.wait_with_output().unwrap();
    let (stdout, code) = (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code());
    Shown { stdout, terminal: reader.join().unwrap(), code }
}

/// What a terminal clears its line with.
const CLEARED: &str = "\x1b[2K";

#[test]
fn a_copy_shows_how_far_it_is() {
    let tree = Tree::new("terminal-copy");
    tree.file("source", vec![7; 64 << 20]);
    // Slow enough to be seen.
    let slow = ["--device", "cpu", "--piece", "1K", "--blocks", "1", "--lanes", "1"];
    let Shown { stdout, terminal, code } =
        shown(&tree, env!("CARGO_BIN_EXE_copy"), &[&slow[..], &["--check", "source", "target"]].concat());
    assert_eq!(code, Some(0), "{terminal}");
    assert!(stdout.starts_with("copied 67108864 bytes in ") && stdout.contains("\nchecked: "), "{stdout}");
    // Each drawing is of more bytes than the one before, and of no more than all.
    let drawn: Vec<_> = terminal.split("copying [").skip(1).collect();
    let done = drawn.iter().map(|bar| {
        let (done, _) = bar.split_once("] ").unwrap().1.split_once(" of 64.00 MiB, ").unwrap();
        let (number, unit) = done.split_once(' ').unwrap();
        let unit = ["B", "KiB", "MiB"].iter().position(|known| *known == unit).unwrap();
        number.parse::<f64>().unwrap() * 1024_f64.powi(unit as i32)
    });
    let done: Vec<f64> = done.collect();
    assert!(done.len() > 1 && done.is_sorted() && done[done.len() - 1] <= f64::from(64 << 20), "{done:?}");
    assert!(done.iter().any(|done| *done > 0.0), "{done:?}");
    assert!(terminal.ends_with(CLEARED), "{terminal:?}");
}

#[test]
fn a_copy_beside_cp_shows_nothing_while_it_is_measured() {
    needs("cp");
    let tree = Tree::new("terminal-beside");
    tree.file("source", vec![7; 8 << 20]);
    let slow = ["--device", "cpu", "--piece", "1K", "--blocks", "1", "--lanes", "1", "--beside-cp"];
    let Shown { stdout, terminal, code } = shown(
        &tree,
        env!("CARGO_BIN_EXE_copy"),
        &[&slow[..], &["--rounds", "2", "source", "target"]].concat(),
    );
    assert_eq!((code, stdout.lines().count()), (Some(0), 4), "{stdout}{terminal}");
    assert!(!terminal.contains("copying"), "{terminal}");
}

#[test]
fn an_error_stands_alone_on_its_line() {
    let tree = Tree::new("terminal-error");
    tree.file("source", "text");
    let Shown { stdout, terminal, code } = shown(&tree, env!("CARGO_BIN_EXE_copy"), &["source", "/dev/full"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    let error = "copy: /dev/full: Invalid argument\r\n";
    assert!(terminal == error || terminal.ends_with(&format!("{CLEARED}{error}")), "{terminal:?}");
}

#[test]
fn the_demonstration_shows_its_steps() {
    needs("grep");
    needs("timeout");
    let tree = Tree::new("terminal-demo");
    let small = ["--device", "cpu", "--made", "20", "--copy-size", "1M", "--rounds", "1"];
    let Shown { stdout, terminal, code } = shown(&tree, env!("CARGO_BIN_EXE_demo"), &small);
    assert_eq!(code, Some(0), "{stdout}{terminal}");
    for step in ["1 of 7: greet prints", "4 of 7: grep searches", "7 of 7: follow reads a log"] {
        assert!(terminal.contains(step), "{step}: {terminal}");
    }
    assert!(terminal.ends_with(CLEARED), "{terminal:?}");
    assert!(stdout.ends_with("4 of 4 programs gave the right result\n"), "{stdout}");
}

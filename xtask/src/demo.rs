//! The main job on real input: builds the examples and runs them on this machine, beside the system's own tools.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::checks::{cargo, root};

/// The least number of files that `grep` searches.
const FILES: usize = 10_000;
/// Where it stops looking for more.
const MOST_FILES: usize = 20_000;
/// What it searches for.
const PATTERN: &str = "Result";
/// Bytes of the file that `copy` copies.
const COPY_BYTES: u64 = 1 << 30;

/// Runs the demonstration; whether every program's result was right.
pub(crate) fn run() -> bool {
    let built = cargo("build --release -p gpufs-examples --bins").status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("the examples could not be built");
        return false;
    }
    let work = root().join("target/demo");
    let demonstrated = fs::create_dir_all(&work).and_then(|()| {
        Ok([hello(&work)?, grep(&work)?, copy(&work)?, follow(&work)?].iter().all(|passed| *passed))
    });
    // A gibibyte is not left behind.
    let cleaned = fs::remove_dir_all(&work);
    match demonstrated.and_then(|passed| cleaned.map(|()| passed)) {
        Ok(true) => {
            println!("\nall four programs did what they should");
            true
        }
        Ok(false) => false,
        Err(error) => {
            eprintln!("the demonstration in {} failed: {error}", work.display());
            false
        }
    }
}

/// An example, killed should it hang.
fn example(name: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "300"]).arg(root().join("target/release").join(name));
    command
}

/// Says what a program did; whether it was right.
fn verdict(name: &str, right: bool, text: &str) -> bool {
    println!("{name:<8} {}  {text}", if right { "ok    " } else { "WRONG " });
    right
}

fn hello(work: &Path) -> io::Result<bool> {
    println!();
    let output = example("hello").args(["--check", "--lines", "10"]).arg(work.join("hello.txt")).output()?;
    let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
    let said = String::from_utf8_lossy(&output.stderr);
    let text = format!("{lines} lines on the standard output; {}", said.lines().last().unwrap_or_default());
    Ok(verdict("hello", output.status.success() && lines == 40_960, &text))
}

fn grep(work: &Path) -> io::Result<bool> {
    let files = find_files()?;
    if files.len() < FILES {
        let text = format!(
            "only {} files were found under /usr and the Rust toolchain; {FILES} are wanted",
            files.len()
        );
        return Ok(verdict("grep", false, &text));
    }
    let list = work.join("files");
    let mut writer = BufWriter::new(File::create(&list)?);
    for file in &files {
        writeln!(writer, "{}", file.display())?;
    }
    writer.flush()?;
    drop(writer);
    let (ours, theirs) = (work.join("ours"), work.join("theirs"));
    let system = |output: &Path| {
        timed(
            Command::new("xargs")
                .env("LC_ALL", "C")
                .args(["-d", "\n", "-a"])
                .arg(&list)
                .args(["grep", "-F", "-n", "-H", "--", PATTERN])
                .stdout(File::create(output)?),
        )
    };
    // The first run brings the files into memory for both.
    system(&theirs)?;
    let reference = system(&theirs)?;
    let took = timed(
        example("grep")
            .args(["-n", "-H", "--files-from"])
            .arg(&list)
            .arg(PATTERN)
            .stdout(File::create(&ours)?),
    )?;
    let same = same_content(&ours, &theirs)?;
    let bytes = fs::metadata(&ours)?.len();
    let text = format!(
        "{} files, {bytes} bytes of output {} those of grep -F -n; {:.2} s here, {:.2} s there",
        files.len(),
        if same { "identical to" } else { "DIFFERENT from" },
        took.as_secs_f64(),
        reference.as_secs_f64()
    );
    Ok(verdict("grep", same && bytes > 0, &text))
}

fn copy(work: &Path) -> io::Result<bool> {
    let source = work.join("source");
    fill(&source, COPY_BYTES)?;
    let output =
        example("copy").args(["--check", "--beside-cp"]).arg(&source).arg(work.join("target")).output()?;
    let said = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&said).lines().collect::<Vec<_>>().join("\n                ");
    Ok(verdict("copy", output.status.success(), &text))
}

fn follow(work: &Path) -> io::Result<bool> {
    let output = example("follow").arg(work.join("log")).output()?;
    let said = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&said);
    Ok(verdict("follow", output.status.success(), text.lines().last().unwrap_or_default()))
}

/// Runs a command that may find nothing, and times it.
fn timed(command: &mut Command) -> io::Result<Duration> {
    let started = Instant::now();
    let status = command.stdin(Stdio::null()).status()?;
    let took = started.elapsed();
    // grep says 1 and xargs 123 where some files have no match.
    if status.success() || matches!(status.code(), Some(1 | 123)) {
        Ok(took)
    } else {
        Err(io::Error::other(format!("{} ended with {status}", command.get_program().to_string_lossy())))
    }
}

/// Text files of this machine in a fixed order: the toolchain's documentation and sources, headers, and what else /usr/share holds.
fn find_files() -> io::Result<Vec<PathBuf>> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output()?.stdout;
    let mut places =
        vec![PathBuf::from(String::from_utf8_lossy(&sysroot).trim().to_owned()).join("share/doc")];
    places.extend(
        ["/usr/lib/rustlib/src", "/usr/include", "/usr/share", "/usr/lib/python3"].map(PathBuf::from),
    );
    let mut files = Vec::new();
    for place in places {
        visit(&place, &mut files);
    }
    Ok(files)
}

fn visit(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if files.len() >= MOST_FILES {
            return;
        }
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => visit(&path, files),
            Ok(kind) if kind.is_file() && !path.as_os_str().as_encoded_bytes().contains(&b'\n') => {
                files.push(path);
            }
            _ => {}
        }
    }
}

/// A file of bytes that do not repeat.
fn fill(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut piece = vec![0; 1 << 20];
    for _ in 0..bytes / piece.len() as u64 {
        for word in piece.chunks_exact_mut(8) {
            // xorshift64 (Marsaglia, 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all(&piece)?;
    }
    Ok(())
}

fn same_content(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    File::open(one)?.read_to_end(&mut a)?;
    File::open(other)?.read_to_end(&mut b)?;
    Ok(a == b)
}

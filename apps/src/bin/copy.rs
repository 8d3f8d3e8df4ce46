//! `copy SOURCE TARGET`: lanes copy a file through buffers that the host registered.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Parser;
use clap::builder::TypedValueParser;
use gpufs_apps::cli::values::{number, path, size};
use gpufs_apps::cli::{self, Defaults, Failure, Options, Program, Progress};
use gpufs_apps::kernels::Parts;
use gpufs_apps::kernels::copy::{self, copy_pieces};
use gpufs_core::word::DeviceWord64;
use gpufs_device::kernel::Handoff;
use gpufs_host::{Grid, Session};

const PROGRAM: Program = Program { name: "copy", needs: "a SOURCE and a TARGET are needed", trouble: 1 };
const DEFAULTS: Defaults =
    Defaults { width: 8, ..Defaults::new(Grid { blocks: 4, threads: 8 }, Grid { blocks: 16, threads: 32 }) };

/// Copy the file SOURCE to TARGET, or into TARGET if that is a directory
#[derive(Debug, Parser)]
struct Task {
    /// What a lane reads and writes at once, such as 256K [default: 512K on CPU lanes; 128K on a GPU,
    /// which has many more lanes]
    #[arg(long, verbatim_doc_comment, value_name = "BYTES", value_parser = piece())]
    piece: Option<usize>,
    /// Read both files afterwards and compare their checksums (CRC-32)
    #[arg(long)]
    check: bool,
    /// Let cp copy SOURCE, too, to TARGET.beside-cp, which is then removed, and print both speeds;
    /// SOURCE is read once before, so that it is in memory for both
    #[arg(long, verbatim_doc_comment)]
    beside_cp: bool,
    /// With --beside-cp: do this N times
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number::<u32>())]
    rounds: u32,
    /// The file to copy
    #[arg(value_parser = path())]
    source: PathBuf,
    /// Where to: a file, which is replaced, or a directory
    #[arg(value_parser = path())]
    target: PathBuf,
    #[command(flatten)]
    options: Options,
}

fn piece() -> impl TypedValueParser<Value = usize> {
    size().try_map(|bytes| if bytes == 0 { Err("a piece has at least 1 byte") } else { Ok(bytes) })
}

fn main() -> ExitCode {
    PROGRAM.main(|mut task: Task| {
        if task.target.is_dir() {
            let name = task.source.file_name();
            let name = name.ok_or_else(|| cli::about(&task.source, "does not end in the name of a file"))?;
            task.target.push(name);
        }
        work(&task)
    })
}

fn work(task: &Task) -> Result<ExitCode, Failure> {
    if task.beside_cp {
        return compete(task);
    }
    let (bytes, elapsed) = copy_file(task)?;
    println!("{}", speed("copied", bytes, elapsed));
    check(task, bytes)?;
    Ok(ExitCode::SUCCESS)
}

/// Copies beside `cp`, in turns.
fn compete(task: &Task) -> Result<ExitCode, Failure> {
    let mut beside = task.target.clone().into_os_string();
    beside.push(".beside-cp");
    let beside = PathBuf::from(beside);
    let length = fs::metadata(&task.source).map_or(0, |status| status.len());
    checksum(&task.source, &Progress::of_bytes("reading", length))?;
    for _ in 0..task.rounds {
        remove(&task.target)?;
        remove(&beside)?;
        let (bytes, elapsed) = copy_file(task)?;
        println!("{}", speed("copied", bytes, elapsed));
        // For cp as for the kernel, the target does not exist yet, and the page cache holds no other new pages.
        check(task, bytes)?;
        let started = Instant::now();
        let status = Command::new("cp").arg("--").arg(&task.source).arg(&beside).status();
        let elapsed = started.elapsed();
        match status {
            Ok(status) if status.success() => println!("{}", speed("cp:   ", bytes, elapsed)),
            Ok(status) => return Err(format!("cp ended with {status}").into()),
            Err(error) => return Err(format!("cp: {}", cli::reason(&error)).into()),
        }
        remove(&beside)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(cli::about(path, cli::reason(&error))),
        _ => Ok(()),
    }
}

fn speed(what: &str, bytes: u64, elapsed: Duration) -> String {
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let megabytes = bytes as f64 / 1e6;
    format!(
        "{what} {bytes} bytes in {:.3} s: {:.0} MB/s",
        elapsed.as_secs_f64(),
        megabytes / elapsed.as_secs_f64()
    )
}

/// Opens both files, and sets the length of the target: the files, and the length in bytes.
fn open(task: &Task) -> Result<(File, File, u64), Failure> {
    let Task { source, target, .. } = task;
    let of_source = |error: std::io::Error| cli::about(source, cli::reason(&error));
    let of_target = |error: std::io::Error| cli::about(target, cli::reason(&error));
    let from = File::open(source).map_err(of_source)?;
    let status = from.metadata().map_err(of_source)?;
    if !status.is_file() {
        return Err(cli::about(source, "not a regular file, and copy copies no other"));
    }
    if let Ok(there) = fs::metadata(target)
        && (there.dev(), there.ino()) == (status.dev(), status.ino())
    {
        return Err(cli::about(target, "is the same file as the source"));
    }
    // The process's umask applies, as with cp.
    let mode = status.mode() & 0o777;
    let to = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(target)
        .map_err(of_target)?;
    // Lanes write in any order: the length is set first.
    to.set_len(status.len()).map_err(of_target)?;
    Ok((from, to, status.len()))
}

/// Copies the file: its length in bytes, and how long that took, from opening the files until the kernel ended.
fn copy_file(task: &Task) -> Result<(u64, Duration), Failure> {
    let Task { options, source, target, .. } = task;
    let (mut session, plan) =
        options.open(&DEFAULTS, |_| Session::builder().buffers(1 << 20).stream_buffer(4096))?;
    let piece = task.piece.unwrap_or(if plan.is_gpu { 128 << 10 } else { 512 << 10 });
    let memory = session.register_buffer(piece * plan.all_lanes() as usize)?;
    let started = Instant::now();
    let (from, to, bytes) = open(task)?;
    #[allow(unsafe_code, reason = "memory that the kernel uses")]
    // SAFETY:
    // - the session's, and nobody touches it here
    let buffers = unsafe { Parts::new(memory.as_ptr() as u64, memory.len(), piece) };
    let job = copy::Job {
        source: session.register_file(from)?,
        target: session.register_file(to)?,
        bytes,
        buffers,
        next: DeviceWord64::new(0),
        failure: Handoff::default(),
    };
    let job = session.place(job)?;
    // Beside cp, lanes and host do nothing but copy.
    let progress = if task.beside_cp { Progress::NONE } else { Progress::of_bytes("copying", bytes) };
    // The target had no block before: what it has is written. A file system that compresses has fewer, for which the bar is late.
    let copied = || fs::metadata(target).map_or(0, |status| 512 * status.blocks()).min(bytes);
    let elapsed = progress.during(copied, || {
        let arguments = copy_pieces::Arguments { job: job.handle() };
        cli::run::<copy_pieces::Entry>(&mut session, plan.grid, arguments).map(|_| started.elapsed())
    })?;
    drop(progress);
    options.report(&session, &plan, elapsed);
    if let Some(trouble) = session.fetch(&job)?.failure.get() {
        let (path, verb) = if trouble.is_of_target() { (target, "write") } else { (source, "read") };
        let why = trouble
            .errno()
            .map_or("the file ended there; it was truncated while it was copied", gpufs_core::Errno::text);
        return Err(cli::about(path, format!("cannot {verb} at byte {}: {why}", trouble.offset)));
    }
    Ok((bytes, elapsed))
}

/// Compares the two files, of which the source has so many bytes, if `--check` was given.
fn check(task: &Task, bytes: u64) -> Result<(), Failure> {
    if !task.check {
        return Ok(());
    }
    let progress = Progress::of_bytes("checking", 2 * bytes);
    let (source, target) = (checksum(&task.source, &progress)?, checksum(&task.target, &progress)?);
    drop(progress);
    if source != target {
        let text =
            format!("differs from the source: {target:08x?} instead of {source:08x?} (CRC-32, length)");
        return Err(cli::about(&task.target, text));
    }
    println!("checked: both have CRC-32 {:08x} and {} bytes", source.0, source.1);
    Ok(())
}

/// A file's CRC-32 and length.
fn checksum(path: &Path, progress: &Progress) -> Result<(u32, u64), Failure> {
    let failed = |error: std::io::Error| cli::about(path, cli::reason(&error));
    let mut file = File::open(path).map_err(failed)?;
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut length = 0;
    loop {
        let count = file.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            return Ok((hasher.finalize(), length));
        }
        hasher.update(&buffer[..count]);
        length += count as u64;
        progress.add(count as u64);
    }
}

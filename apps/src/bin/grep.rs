//! `grep PATTERN FILE...`: prints the lines of many files that contain a string, or a byte of a class. The device reads the files.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::TypedValueParser;
use clap::{ArgAction, Parser};
use gpufs_apps::cli::values::{path, size};
use gpufs_apps::cli::{self, Defaults, Failure, Options, Plan, Program};
use gpufs_apps::kernels::Parts;
use gpufs_apps::kernels::grep::units::{Long, Record, Shape, Unit, Units, divide, piece_for};
use gpufs_apps::kernels::grep::{self, NEEDLE_BYTES_MAX, Names, Needle, Show};
use gpufs_core::Errno;
use gpufs_core::word::DeviceWord;
use gpufs_host::{Grid, Session};

/// Entries of the file table, and descriptors, besides those of the files that warps search.
const OTHER_FILES: u32 = 64;
/// The least number of files that a warp has open: a short one and a long one.
const WARP_FILES_MIN: u32 = 2;
/// Short files that a warp on a GPU has open at a time. A GPU has many warps.
const GPU_TOGETHER: u32 = 8;
/// The most rings that grep chooses by itself.
const RINGS_MAX: u32 = 8;
/// The most threads that look up the lengths of files, and the least number of files for a thread.
const THREADS_MAX: usize = 8;
const THREAD_FILES_MIN: usize = 512;
/// The most memory of a GPU for the texts and output of warps, and the least that is tried where the GPU has less.
const GPU_MEMORY_MAX: usize = 2 << 30;
const GPU_MEMORY_MIN: usize = 64 << 20;
/// The least output that a warp on a GPU buffers, and what it buffers in addition to the text of a piece.
const GPU_OUTPUT_MIN: u32 = 256 << 10;
const OUTPUT_EXTRA: u32 = 4096;
/// The most output that it buffers. A longer piece, which only --piece makes, may have to wait for its turn.
const GPU_OUTPUT_MAX: u32 = 2 << 20;
/// Sizes in bytes: a piece by default, a stretch, and output by default; the largest piece.
#[allow(clippy::cast_possible_truncation, reason = "a constant that fits")]
const PIECE: u32 = grep::PIECE_BYTES as u32;
#[allow(clippy::cast_possible_truncation, reason = "as above")]
const STRETCH: u32 = grep::STRETCH_BYTES as u32;
#[allow(clippy::cast_possible_truncation, reason = "as above")]
const OUTPUT: u32 = grep::OUTPUT_BYTES as u32;
const PIECE_MAX: u32 = 16 << 20;
/// The smallest output buffer.
const OUTPUT_MIN: u32 = 4096;

const PROGRAM: Program = Program { name: "grep", needs: "no PATTERN was given", trouble: 2 };
/// Eight warps of CPU lanes: their texts stay in the caches, and one of them always has something to do. A warp of a GPU waits for each of its
/// operations: only many warps keep the bus busy.
const DEFAULTS: Defaults = Defaults::new(Grid { blocks: 8, threads: 32 }, Grid { blocks: 132, threads: 128 });

/// Print the lines of the files that contain PATTERN, in the order of the files, as LC_ALL=C grep -F does
#[derive(Debug, Parser)]
#[command(
    disable_help_flag = true,
    after_help = "Exit status: 0 if a line matched, 1 if none did, 2 after an error."
)]
struct Task {
    /// Print, for each file, the number of lines that match
    #[arg(short = 'c')]
    counted: bool,
    /// Print the names of the files that have a match
    #[arg(short = 'l')]
    listed: bool,
    /// Print the number of each line
    #[arg(short = 'n')]
    numbered: bool,
    /// Print file names [default: if there is more than one file]
    #[arg(short = 'H', overrides_with = "unnamed")]
    named: bool,
    /// Print no file names
    #[arg(short = 'h', overrides_with = "named")]
    unnamed: bool,
    /// PATTERN is a string (the default)
    #[arg(short = 'F', overrides_with = "class")]
    fixed: bool,
    /// PATTERN is a class of bytes, such as [a-z0-9] or [^a]
    #[arg(long, overrides_with = "fixed")]
    class: bool,
    /// Also search the files named in LIST, one on each line; - is the standard input
    #[arg(long, value_name = "LIST", value_parser = path())]
    files_from: Vec<PathBuf>,
    /// Bytes of a long file that a warp searches at a time [default: 288K on CPU lanes; on a GPU 96K to
    /// 1152K, more for longer files]
    #[arg(long, verbatim_doc_comment, value_name = "BYTES", value_parser = bytes(1))]
    piece: Option<u32>,
    /// Bytes of output that a warp buffers until the output of the files before is printed [default: 64K
    /// on CPU lanes; on a GPU at least as much as a piece]
    #[arg(long, verbatim_doc_comment, value_name = "BYTES", value_parser = bytes(OUTPUT_MIN))]
    output: Option<u32>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// What to search for
    pattern: OsString,
    /// Where
    #[arg(value_name = "FILE")]
    files: Vec<OsString>,
    #[command(flatten)]
    options: Options,
}

/// A size in bytes from `least` to [`PIECE_MAX`].
fn bytes(least: u32) -> impl TypedValueParser<Value = u32> {
    size().try_map(move |bytes| {
        let bytes = u32::try_from(bytes).ok().filter(|bytes| (least..=PIECE_MAX).contains(bytes));
        bytes.ok_or_else(|| format!("choose {least} to {PIECE_MAX} bytes"))
    })
}

fn main() -> ExitCode {
    PROGRAM.main(|mut task: Task| {
        for list in &task.files_from {
            task.files.extend(read_list(list)?);
        }
        if task.files.is_empty() && task.files_from.is_empty() {
            return Err("no FILE was named; name some, or a list of them with --files-from".into());
        }
        search(&task)
    })
}

impl Task {
    /// What to print.
    fn show(&self) -> Show {
        match (self.listed, self.counted) {
            (true, _) => Show::Names,
            (_, true) => Show::Counts,
            _ => Show::Lines,
        }
    }
    /// Whether with file names.
    fn is_named(&self) -> bool {
        self.named || !self.unnamed && self.files.len() > 1
    }
}

/// The file names in a list.
fn read_list(path: &Path) -> Result<Vec<OsString>, Failure> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(path).map(|read| bytes = read)
    };
    read.map_err(|error| cli::about(path, cli::reason(&error)))?;
    let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(|line| OsString::from_vec(line.to_vec())).collect())
}

/// The needle that PATTERN describes.
fn needle(task: &Task) -> Result<Needle, Failure> {
    let bytes = task.pattern.as_bytes();
    if task.class {
        return class(bytes);
    }
    if bytes.contains(&b'\n') {
        return Err(
            "PATTERN contains a newline, and matches are within one line; search for one string at a time"
                .into(),
        );
    }
    Needle::fixed(bytes).ok_or_else(|| {
        format!(
            "PATTERN has {} bytes; the longest that can be searched for has {NEEDLE_BYTES_MAX}",
            bytes.len()
        )
        .into()
    })
}

/// The bytes of a bracket expression, as `grep` reads it in the C locale. Named classes such as `[:alpha:]` are not known.
fn class(pattern: &[u8]) -> Result<Needle, Failure> {
    let usage = || "--class: PATTERN is not a class of bytes, such as [a-z0-9] or [^a]";
    let inside = pattern.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")).ok_or_else(usage)?;
    let (is_negated, mut inside) = match inside {
        [b'^', rest @ ..] => (true, rest),
        all => (false, all),
    };
    if inside.is_empty() || inside.windows(2).any(|pair| matches!(pair, b"[:" | b"[." | b"[=")) {
        return Err(usage().into());
    }
    let mut class = [0; 4];
    let mut position = 0;
    // Ends: each round takes a byte or a range.
    while let [first, rest @ ..] = inside {
        let last = match rest {
            [b'-', last, after @ ..] => {
                inside = after;
                *last
            }
            _ => {
                inside = rest;
                *first
            }
        };
        if (*first == b']' && position > 0) || last < *first {
            return Err(usage().into());
        }
        for byte in *first..=last {
            class[usize::from(byte >> 6)] |= 1_u64 << (byte & 63);
        }
        position += 1;
    }
    if is_negated {
        class = class.map(|bits| !bits);
    }
    // A byte that ends a line is in no class.
    class[0] &= !(1 << b'\n' | 1);
    Ok(Needle::class(class))
}

/// The lengths of the files; 0 for a file that is not regular or cannot be looked up. The kernel opens it, and reports the error.
fn lengths(files: &[OsString]) -> Vec<u64> {
    let length = |file: &OsString| {
        std::fs::metadata(file).map_or(0, |status| if status.is_file() { status.len() } else { 0 })
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let share = files.len().div_ceil(threads).max(THREAD_FILES_MIN);
    std::thread::scope(|scope| {
        let parts: Vec<_> = files
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(length).collect::<Vec<u64>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect()
    })
}

/// The numbers, one after the other, as bytes.
fn bytes_of<const N: usize>(numbers: impl Iterator<Item = [u8; N]>) -> Vec<u8> {
    numbers.flatten().collect()
}

/// Copies bytes to device memory: their address there.
fn hand_over(session: &mut Session, bytes: &[u8]) -> Result<u64, Failure> {
    let buffer = session.device_buffer(bytes.len().max(1))?;
    session.write_device(&buffer, 0, bytes)?;
    Ok(buffer.address())
}

/// Copies the files' names and lengths to the device.
fn names(session: &mut Session, files: &[OsString], lengths: &[u64]) -> Result<Names, Failure> {
    let (mut text, mut starts) = (Vec::new(), Vec::new());
    for file in files {
        let start =
            u32::try_from(text.len()).map_err(|_| "the files' names are longer than 4 GiB together")?;
        starts.push(start.to_ne_bytes());
        text.extend_from_slice(cli::c_path(file)?.as_bytes_with_nul());
    }
    let count = u32::try_from(files.len()).map_err(|_| "there are more than 4 billion files")?;
    let starts = hand_over(session, &bytes_of(starts.into_iter()))?;
    let lengths = hand_over(session, &bytes_of(lengths.iter().map(|length| length.to_ne_bytes())))?;
    let text_address = hand_over(session, &text)?;
    #[allow(unsafe_code, reason = "memory that the kernel reads")]
    // SAFETY:
    // - the session owns the memory, aligned to 256 bytes, and it is not written to any more
    Ok(unsafe { Names::new(text_address, text.len() as u64, starts, lengths, count) })
}

/// Divides the files into units, and copies the tables to the device.
fn units(session: &mut Session, lengths: &[u64], shape: Shape) -> Result<Units, Failure> {
    let units: Vec<Unit> = divide(lengths, shape).collect();
    let count = u32::try_from(units.len()).map_err(|_| "there are more than 4 billion pieces of files")?;
    let long_count = units.iter().filter(|unit| unit.pieces > 0 && unit.offset == 0).count();
    #[allow(unsafe_code, reason = "a table of numbers as bytes")]
    // SAFETY:
    // - the fields are numbers whose order and sizes leave no padding, and `units` lives as long as the slice
    let bytes = unsafe {
        std::slice::from_raw_parts(units.as_ptr().cast::<u8>(), std::mem::size_of_val(units.as_slice()))
    };
    let table = hand_over(session, bytes)?;
    // Zeroed, as the tables must be.
    let records = session.device_buffer(units.len().max(1) * size_of::<Record>())?.address();
    let long = session.device_buffer(long_count.max(1) * size_of::<Long>())?.address();
    let long_count = u32::try_from(long_count).map_err(|_| "there are more than 4 billion files")?;
    #[allow(unsafe_code, reason = "memory that the kernel uses")]
    // SAFETY:
    // - the session owns the memory, aligned to 256 bytes, as large as the counts say; from here on only the kernel uses it
    Ok(unsafe { Units::new((table, records, count), (long, long_count)) })
}

/// Opens a session. Its grid has as many warps as the limit of open files allows.
fn open(options: &Options) -> Result<(Session, Plan), Failure> {
    options.open(&DEFAULTS, |plan| {
        // Each warp has a few short files and a long one open.
        let allowed = cli::allow_files(files_wanted(plan)).saturating_sub(OTHER_FILES);
        plan.limit_lanes(allowed / WARP_FILES_MIN * plan.width.min(plan.grid.threads));
        let files = files_wanted(plan).min(allowed.saturating_add(OTHER_FILES));
        // A fault of the device ends the search: no journal is kept.
        let builder = Session::builder().files(files).survives(false);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // One thread of the system copies from the page cache at a fraction of the speed of the bus.
        let rings = u32::try_from(cores / 2).unwrap_or(RINGS_MAX).clamp(1, RINGS_MAX);
        if plan.is_gpu { builder.rings(rings) } else { builder }
    })
}

/// The most files that the warps of a grid have open at a time.
fn files_wanted(plan: &Plan) -> u32 {
    plan.warps().saturating_mul(most_together(plan) + 1).saturating_add(OTHER_FILES)
}

/// The most short files that a warp has open at a time.
fn most_together(plan: &Plan) -> u32 {
    if plan.is_gpu { GPU_TOGETHER } else { plan.width }
}

/// The sizes of what a warp works with.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Bytes of a piece.
    piece: u32,
    /// Bytes of output that it buffers.
    output: u32,
    /// Bytes of its memory.
    part: usize,
}

/// Sizes for `total` bytes of text: if possible, the memory of all warps fits into `most` bytes.
fn sizes(task: &Task, plan: &Plan, (total, reach): (u64, u32), most: usize) -> Sizes {
    let of = |piece: u32| {
        let is_prefixed = task.numbered || task.is_named();
        let wanted = piece + if is_prefixed { piece / 2 } else { OUTPUT_EXTRA };
        let output = match (task.output, plan.is_gpu, task.show()) {
            (Some(output), ..) => output,
            (None, true, Show::Lines) => wanted.clamp(GPU_OUTPUT_MIN, GPU_OUTPUT_MAX),
            // There is little output at a time, or at most a line for each file.
            _ => OUTPUT,
        };
        Sizes { piece, output, part: grep::part_bytes(piece, reach, output) }
    };
    if let Some(piece) = task.piece {
        return of(piece);
    }
    if !plan.is_gpu {
        return of(PIECE);
    }
    let mut piece = u32::try_from(piece_for(total, plan.warps())).unwrap_or(PIECE);
    // Ends: `piece` shrinks.
    while piece > STRETCH && of(piece).part.saturating_mul(plan.warps() as usize) > most {
        piece -= STRETCH;
    }
    of(piece)
}

/// Divides the files, and allocates memory for as many warps as there is work for: the tables, the memory of the warps, and its sizes.
fn divided(
    session: &mut Session,
    task: &Task,
    plan: &Plan,
    (lengths, reach): (&[u64], u32),
) -> Result<(Units, Parts, Sizes), Failure> {
    // The files that each warp may have open.
    let allowed = cli::allow_files(files_wanted(plan)).saturating_sub(OTHER_FILES) / plan.warps().max(1);
    let total = lengths.iter().fold(0, |sum: u64, length| sum.saturating_add(*length));
    let mut most = if plan.is_gpu { GPU_MEMORY_MAX } else { usize::MAX };
    // Ends: `most` shrinks, down to `GPU_MEMORY_MIN`.
    loop {
        let sizes = sizes(task, plan, (total, reach), most);
        let piece = u64::from(sizes.piece);
        let shape = Shape {
            piece,
            short: piece.min(grep::SHORT_BYTES as u64),
            together: most_together(plan).min(allowed.saturating_sub(1)).max(1),
            text: grep::text_bytes(sizes.piece, reach) as u64,
        };
        // No more warps than units. A warp that gets no memory does no work.
        let work = divide(lengths, shape).take(plan.warps() as usize).count();
        let parts = work.min(most / sizes.part).max(1);
        match plan.scratch(session, sizes.part * parts) {
            Ok(memory) => {
                #[allow(unsafe_code, reason = "memory that the kernel uses")]
                // SAFETY:
                // - the session's, and nobody touches it here
                let memory = unsafe { Parts::new(memory, sizes.part * parts, sizes.part) };
                return Ok((units(session, lengths, shape)?, memory, sizes));
            }
            Err(_) if plan.is_gpu && parts > 1 && most > GPU_MEMORY_MIN => most /= 2,
            Err(error) => {
                let kib = sizes.part.div_ceil(1024);
                return Err(format!(
                    "no memory for {parts} warps of {kib} KiB: {error}; choose fewer --blocks, or a smaller --piece"
                )
                .into());
            }
        }
    }
}

fn search(task: &Task) -> Result<ExitCode, Failure> {
    let options = &task.options;
    let needle = needle(task)?;
    let lengths = lengths(&task.files);
    let (mut session, plan) = open(options)?;
    let reach = needle.reach();
    let (units, memory, sizes) = divided(&mut session, task, &plan, (&lengths, reach))?;
    let gather = plan.scratch(&mut session, grep::Gather::BYTES)?;
    #[expect(unsafe_code, reason = "memory that the kernel uses")]
    // SAFETY:
    // - the session's, and nobody touches it here
    let gather = unsafe { grep::Gather::new(gather) };
    let job = grep::Job {
        names: names(&mut session, &task.files, &lengths)?,
        show: task.show(),
        numbered: u32::from(task.numbered),
        named: u32::from(task.is_named()),
        units,
        piece: sizes.piece,
        reach,
        output: sizes.output,
        memory,
        next: DeviceWord::new(0),
        matched: DeviceWord::new(0),
        failed: DeviceWord::new(0),
        output_errno: DeviceWord::new(0),
        gather,
        needle,
    };
    let job = session.place(job)?;
    let ran = cli::run::<grep::search::Entry>(
        &mut session,
        plan.grid,
        grep::search::Arguments { job: job.handle() },
    );
    let job = session.fetch(&job);
    let output_errno = job.as_ref().map_or(0, |job| job.output_errno.peek());
    if output_errno != 0 {
        let errno = Errno::from_number(output_errno.cast_signed());
        return Err(format!("write error: {}", errno.text()).into());
    }
    options.report(&session, &plan, ran?);
    let job = job?;
    Ok(match (job.failed.peek(), job.matched.peek()) {
        (0, 0) => ExitCode::from(1),
        (0, _) => ExitCode::SUCCESS,
        _ => ExitCode::from(2),
    })
}

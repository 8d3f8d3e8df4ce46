//! `trace_check FILE [OPTION VALUE] …`: writes a trace from every thread of a grid, on CPU lanes or, given a device program, on the first GPU; says
//! how fast, and counts the packets by their lengths. With a victim that thread panics, which traps on a GPU, and the file must hold the events
//! of all rounds that were complete. The last line is for `trace_speed`: `figures`, events, bytes, millions of events a second, nanoseconds an event
//! of one warp, and nanoseconds a round. A launch that the GPU refuses is said to be that, with the size of block that it takes.
//!
//! | option | value |
//! |---|---|
//! | `--program` | PTX or a cubin that holds the kernels of `tests/kernels` |
//! | `--blocks`, `--threads`, `--rounds` | the grid, and rounds a thread |
//! | `--kind` | `nothing`, `instant`, `values`, `span`, `recorded` |
//! | `--memory` | bytes for events that wait in their warps' pieces |
//! | `--victim`, `--after` | the thread that panics, and after how many rounds |
#![expect(unsafe_code, reason = "memory shared with kernels")]

use std::error::Error;
use std::ffi::CString;
use std::io::{BufReader, Read};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use gpufs_core::word::SharedWord;
use gpufs_device::kernel::{Handoff, Path};
use gpufs_host::session::SyncError;
use gpufs_host::{Grid, Session};
use gpufs_test_kernels::{Round, TraceJob, trace_rounds};

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Options {
    program: Option<Vec<u8>>,
    grid: Grid,
    rounds: u32,
    kind: Round,
    memory: Option<usize>,
    victim: u64,
    after: u32,
}

fn options(mut arguments: impl Iterator<Item = String>) -> Outcome<Options> {
    let grid = Grid { blocks: 4, threads: 128 };
    let (kind, victim) = (Round::Instant, u64::MAX);
    let mut options = Options { program: None, grid, rounds: 10, kind, memory: None, victim, after: 5 };
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{option} wants a value"))?;
        match option.as_str() {
            "--program" => {
                let program = std::fs::read(&value).map_err(|error| format!("{value}: {error}"))?;
                options.program = Some(program);
            }
            "--blocks" => options.grid.blocks = value.parse()?,
            "--threads" => options.grid.threads = value.parse()?,
            "--rounds" => options.rounds = value.parse()?,
            "--memory" => options.memory = Some(value.parse()?),
            "--victim" => options.victim = value.parse()?,
            "--after" => options.after = value.parse()?,
            "--kind" => {
                options.kind = match value.as_str() {
                    "nothing" => Round::Nothing,
                    "instant" => Round::Instant,
                    "values" => Round::Values,
                    "span" => Round::Span,
                    "recorded" => Round::Recorded,
                    _ => return Err("--kind: nothing, instant, values, span or recorded".into()),
                }
            }
            _ => return Err(format!("{option} {value}: no such option").into()),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trace_check: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What a launch that did not begin says: whose size may be the cause, and what it was.
fn refused(grid: Grid, error: &SyncError) -> String {
    match error {
        SyncError::Gpu(_) => format!(
            "the GPU refused to launch {} blocks of {} threads (see --threads): {error}",
            grid.blocks, grid.threads
        ),
        _ => format!("{} blocks of {} threads were not launched: {error}", grid.blocks, grid.threads),
    }
}

fn run() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("trace_check: which file? See the head of its source")?;
    let options = options(arguments)?;
    let mut builder = Session::builder().deadline(Duration::from_secs(10));
    if let Some(bytes) = options.memory {
        builder = builder.trace_memory(bytes);
    }
    let mut session = match &options.program {
        Some(program) => builder.cuda(0, program)?,
        None => builder.cpu()?,
    };
    let fails = options.victim != u64::MAX;
    let threads = options.grid.blocks as usize * options.grid.threads as usize;
    let words = session.register_buffer(threads * size_of::<SharedWord>())?;
    let job = session.place(TraceJob {
        path: Path::new(&CString::new(path.clone())?).ok_or("a path that is too long")?,
        failed: Handoff::default(),
        progress: if fails { words.as_ptr() as u64 } else { 0 },
        round: options.kind as u32,
        rounds: options.rounds,
        victim: options.victim,
        after: options.after,
    })?;
    let started = Instant::now();
    session
        .start::<trace_rounds::Entry>(options.grid, trace_rounds::Arguments { job: job.handle() })
        .map_err(|error| refused(options.grid, &error))?;
    let ended = session.synchronize();
    let took = started.elapsed();
    match (&ended, fails) {
        (Ok(()), false) => {
            if let Some(errno) = session.fetch(&job)?.failed.get() {
                return Err(format!("a thread stopped: {errno}").into());
            }
        }
        (Err(error), true) => println!("the kernel ended: {error}"),
        (Err(error), false) => return Err(format!("the kernel ended: {error}").into()),
        (Ok(()), true) => return Err("the kernel ended well, though a thread was to panic".into()),
    }
    // SAFETY:
    // - a word for each thread, which no kernel writes any more
    let words = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<SharedWord>(), threads) };
    let complete_of =
        |stride| words.iter().step_by(stride).map(|word| u64::from(word.observe())).sum::<u64>();
    let complete = complete_of(1);
    let wanted_of_complete = match options.kind {
        Round::Nothing | Round::Span => 0,
        Round::Instant | Round::Values => complete,
        // Of a warp the lowest lane writes, two events a round.
        Round::Recorded => 2 * complete_of(32),
    };
    let name = session.device_name().to_owned();
    drop(session);
    println!("{name}, {:?}: {threads} threads, {} rounds", options.kind, options.rounds);
    let events = report(&path, &options, threads as u64, took)?;
    if fails {
        println!("{complete} rounds were complete, and {events} events are in the file");
        return if events >= wanted_of_complete {
            Ok(())
        } else {
            Err("events of complete rounds are missing".into())
        };
    }
    let wanted = wanted(&options, threads as u64);
    if events < wanted { Err(format!("{events} events of {wanted}").into()) } else { Ok(()) }
}

/// How many events a whole run writes.
fn wanted(options: &Options, threads: u64) -> u64 {
    let rounds = u64::from(options.rounds);
    match options.kind {
        Round::Nothing => 0,
        Round::Instant | Round::Values => threads * rounds,
        Round::Span | Round::Recorded => 2 * threads.div_ceil(32) * rounds,
    }
}

/// Says how fast it was; how many events the file has, or, where it is no file that can be read, would have.
fn report(path: &str, options: &Options, threads: u64, took: Duration) -> Outcome<u64> {
    let warps = threads.div_ceil(32);
    // What a warp writes besides: its track, three names of events and two of values.
    let besides = 2 + warps * 6;
    let is_file = std::fs::metadata(path)?.is_file();
    let (packets, bytes) = if is_file { packets(path)? } else { (wanted(options, threads) + besides, 0) };
    let events = packets.saturating_sub(besides);
    let nanoseconds = took.as_nanos() as f64;
    let rate = events as f64 * 1e3 / nanoseconds;
    let of_warp = nanoseconds * warps as f64 / events.max(1) as f64;
    let of_round = nanoseconds / f64::from(options.rounds.max(1));
    println!(
        "{events} events, {bytes} bytes in {took:.2?}: {rate:.2} M events/s, {of_warp:.1} ns an event of one warp, {of_round:.0} ns a round"
    );
    let of_warp = if events == 0 { "-".to_owned() } else { format!("{of_warp:.1}") };
    println!("figures {events} {bytes} {rate:.2} {of_warp} {of_round:.0}");
    Ok(events)
}

/// How many packets a file has, and bytes. A packet is a tag, its length in one or two bytes of seven bits, and so many bytes.
fn packets(path: &str) -> Outcome<(u64, u64)> {
    let mut file = BufReader::with_capacity(1 << 20, std::fs::File::open(path)?);
    let (mut packets, mut bytes) = (0, 0);
    let mut body = [0; 1 << 14];
    // Ends: with the file.
    loop {
        let (mut head, mut more) = ([0; 2], [0]);
        match file.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok((packets, bytes)),
            Err(error) => return Err(error.into()),
        }
        let is_long = head[1] & 0x80 != 0;
        if is_long {
            file.read_exact(&mut more)?;
        }
        if head[0] != 0x0a || more[0] & 0x80 != 0 {
            println!("a packet of a call that had not returned is cut, at byte {bytes}");
            return Ok((packets, bytes));
        }
        let length = usize::from(head[1] & 0x7f) | usize::from(more[0]) << 7;
        file.read_exact(&mut body[..length])?;
        packets += 1;
        bytes += 2 + u64::from(is_long) + length as u64;
    }
}

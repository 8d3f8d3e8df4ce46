//! `survive_check FILE [OPTION VALUE] …`: prints from every thread of a grid to one file until one of them writes to an illegal address,
//! and checks that every record whose call had returned is in the file, whole and in order; then does what `print_check` does in a new
//! session: in the same process, or, where the GPU's driver wants a new one after a fault, in a new process. Without a device program, CPU lanes print to the end, and the device is given up as if it had faulted.
//!
//! | option | value |
//! |---|---|
//! | `--program` | PTX that holds the kernels of `tests/kernels` |
//! | `--blocks`, `--threads`, `--rounds` | the grid, and lines a thread at most |
//! | `--victim`, `--after` | the thread that faults, and after how many lines |
//! | `--append` | 1: the file is opened for appending |
//! | `--survives` | 0: without a journal, for comparison; nothing is then checked but that it says so |
//! | `--only-after` | 1: without the fault, only what comes after it |
//! | `--rings`, `--mode`, `--memory` | rings; `sqpoll`, `enter`, `threads`; `kernel`, `caller` |
#![expect(unsafe_code, reason = "memory shared with kernels")]

use std::error::Error;
use std::process::Command;
use std::time::{Duration, Instant};

use gpufs_core::word::SharedWord;
use gpufs_host::gpu::GpuError;
use gpufs_host::ring::{Mode, RingMemory};
use gpufs_host::session::{OpenError, SyncError};
use gpufs_host::{Builder, Grid, Session};
use gpufs_test_kernels::{print, print_until_fault};

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Options {
    builder: Builder,
    program: Option<Vec<u8>>,
    grid: Grid,
    rounds: u32,
    victim: u64,
    after: u32,
    append: bool,
    survives: bool,
    only_after: bool,
}

fn options(mut arguments: impl Iterator<Item = String>) -> Outcome<Options> {
    let mut options = Options {
        builder: Session::builder().deadline(Duration::from_secs(10)),
        program: None,
        grid: Grid { blocks: 4, threads: 128 },
        rounds: 1000,
        victim: 77,
        after: 20,
        append: false,
        survives: true,
        only_after: false,
    };
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
            "--victim" => options.victim = value.parse()?,
            "--after" => options.after = value.parse()?,
            "--append" => options.append = value == "1",
            "--survives" => options.survives = value != "0",
            "--only-after" => options.only_after = value == "1",
            "--rings" => options.builder = options.builder.rings(value.parse()?),
            "--mode" => {
                let mode = Mode::BEST_FIRST.into_iter().find(|mode| mode.to_string() == value);
                options.builder = options.builder.mode(mode.ok_or("--mode: sqpoll, enter or threads")?);
            }
            "--memory" if value == "kernel" => {
                options.builder = options.builder.ring_memory(RingMemory::Kernel);
            }
            "--memory" if value == "caller" => {
                options.builder = options.builder.ring_memory(RingMemory::Caller);
            }
            _ => return Err(format!("{option} {value}: no such option or value").into()),
        }
    }
    options.builder = options.builder.survives(options.survives);
    Ok(options)
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("survive_check: which file? See the head of its source")?;
    let options = options(arguments)?;
    if !options.only_after {
        faulting(&path, &options)?;
    }
    match after(&path, &options) {
        Err(error) if !options.only_after && wants_a_new_process(&*error) => {
            println!("in this process: {error}");
            let status = Command::new(std::env::current_exe()?)
                .args(std::env::args().skip(1))
                .args(["--only-after", "1"])
                .status()?;
            if status.success() { Ok(()) } else { Err(format!("the new process: {status}").into()) }
        }
        outcome => outcome,
    }
}

/// Whether the GPU is lost to this process, and to no other.
fn wants_a_new_process(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(OpenError::Gpu(GpuError::Broken(_))))
}

fn session(options: &Options) -> Outcome<Session> {
    let builder = options.builder.clone();
    Ok(match &options.program {
        Some(program) => builder.cuda(0, program)?,
        None => builder.cpu()?,
    })
}

/// Prints until the fault, and checks what the file then holds.
fn faulting(path: &str, options: &Options) -> Outcome<()> {
    if options.append {
        let _ = std::fs::remove_file(path);
    }
    let mut session = session(options)?;
    println!("{}, served by {}", session.device_name(), session.mode());
    let threads = options.grid.blocks as usize * options.grid.threads as usize;
    let words = session.register_buffer(threads * size_of::<SharedWord>())?;
    let file = session.fopen(path, if options.append { "a" } else { "w" })?;
    let arguments = print_until_fault::Arguments {
        file,
        progress: words.as_ptr() as u64,
        rounds: options.rounds,
        victim: if options.program.is_some() { options.victim } else { u64::MAX },
        after: options.after,
        address: 0,
    };
    let started = Instant::now();
    session.start::<print_until_fault::Entry>(options.grid, arguments)?;
    let error = if options.program.is_some() {
        session.synchronize().err()
    } else {
        while !session.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // SAFETY:
        // - its kernel has ended
        Some(unsafe { session.pretend_fault() })
    };
    let took = started.elapsed();
    let Some(SyncError::Fault(fault)) = error else {
        return Err(format!("no fault, but {error:?}").into());
    };
    println!("after {took:.2?}: {fault}");
    match session.start::<print::Entry>(options.grid, print::Arguments { file, rounds: 1 }) {
        Err(SyncError::Dead) => {}
        other => return Err(format!("a dead session starts a kernel: {other:?}").into()),
    }
    // SAFETY:
    // - a word for each thread, which no kernel writes any more
    let returned: Vec<u32> = (0..threads)
        .map(|thread| unsafe { &*words.as_ptr().cast::<SharedWord>().add(thread) }.observe())
        .collect();
    if !options.survives {
        return if fault.recovery.kept { Err("a journal that was not asked for".into()) } else { Ok(()) };
    }
    let text = std::fs::read(path)?;
    let found = records(&text, &returned)?;
    let calls: u64 = returned.iter().map(|calls| u64::from(*calls)).sum();
    println!("{calls} calls returned; {found} records whole and in order in {} bytes", text.len());
    if fault.recovery.lost() > 0 {
        return Err("bytes of returned calls are lost".into());
    }
    Ok(())
}

/// How many whole records there are, if each thread's are in order, and those of its returned calls are all there.
fn records(text: &[u8], returned: &[u32]) -> Outcome<u64> {
    const START: &[u8] = b"thread ";
    let mut next = vec![0_u32; returned.len()];
    for at in (0..text.len()).filter(|at| text[*at..].starts_with(START)) {
        let line = text[at..].split_inclusive(|byte| *byte == b'\n').next().unwrap_or(&[]);
        let line = String::from_utf8_lossy(line);
        let mut words = line.split(' ').skip(1).step_by(2).map(str::parse);
        let (Some(Ok(thread)), Some(Ok(round))) = (words.next(), words.next()) else { continue };
        let (thread, round): (u32, u32) = (thread, round);
        if line != format!("thread {thread} iter {round} value {:.6}\n", f64::from(thread) * 0.5) {
            // Torn: of a call that had not returned, or it will be missed.
            continue;
        }
        let place = thread as usize;
        if next.get(place) != Some(&round) || round > returned[place] {
            return Err(format!("doubled, out of order or never written: {line}").into());
        }
        next[place] += 1;
    }
    match next.iter().zip(returned).position(|(found, returned)| found < returned) {
        Some(thread) => Err(format!(
            "thread {thread} has {} records, but {} of its calls had returned",
            next[thread], returned[thread]
        )
        .into()),
        None => Ok(next.iter().map(|count| u64::from(*count)).sum()),
    }
}

/// Prints in a new session, and checks that all is there.
fn after(path: &str, options: &Options) -> Outcome<()> {
    let path = format!("{path}.after");
    let mut session = session(options)?;
    let file = session.fopen(&path, "w")?;
    session.start::<print::Entry>(options.grid, print::Arguments { file, rounds: 10 })?;
    session.synchronize()?;
    let threads = options.grid.blocks as usize * options.grid.threads as usize;
    let found = records(&std::fs::read(&path)?, &vec![10; threads])?;
    println!("a new session: {found} records whole and in order");
    std::fs::remove_file(&path)?;
    Ok(())
}

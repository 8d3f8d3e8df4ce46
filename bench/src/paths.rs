//! `paths`: `stat` of many files, pairs of `open` and `close`, and `readdir`, beside as many CPU threads as rings.

use std::ffi::CStr;
use std::fs;
use std::path::Path;
use std::time::Instant;

use gpufs_bench_kernels::paths::{
    FILES_OF_A_DIRECTORY, NAME_BYTES, Name, TAIL_BYTES, open_and_close, read_directories, stat_all,
};

use crate::bench::Bench;
use crate::failure::Failure;
use crate::report::Role;
use crate::sample::Spread;
use crate::scratch::{self, Scratch};
use crate::stage::{Stage, WIDTH, grid_of};

const NAME: &str = "paths";
const UNIT: &str = "M/s";

/// Files, in folders of [`FILES_OF_A_DIRECTORY`].
const FILES: u64 = 100_000;
/// The same for a short look.
const FEW_FILES: u64 = 4_000;
/// Files and directories that are open at once, at most: many systems let a process have 1,024 open.
const OPEN_MAX: u32 = 768;

/// What is done with each file, or with each directory.
#[derive(Clone, Copy)]
enum What {
    Stat,
    OpenAndClose,
    Readdir,
}

impl What {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Stat, "stat"), (Self::OpenAndClose, "open and close"), (Self::Readdir, "readdir")];

    const fn operations(self) -> &'static str {
        match self {
            Self::Readdir => "operations on rings for each directory",
            _ => "operations on rings for each file",
        }
    }
}

/// The files.
struct Tree {
    files: u64,
    /// What the paths begin with.
    prefix: [u8; NAME_BYTES],
    length: u32,
    _scratch: Scratch,
}

impl Tree {
    /// Makes it in a folder.
    fn new(parent: &Path, files: u64) -> Result<Self, Failure> {
        let scratch = Scratch::new(parent, NAME)?;
        let text = scratch.path("").display().to_string();
        if text.len() + TAIL_BYTES > NAME_BYTES {
            return Err(format!("{text}: paths in it have more than {NAME_BYTES} bytes").into());
        }
        let mut prefix = [0; NAME_BYTES];
        prefix[..text.len()].copy_from_slice(text.as_bytes());
        let tree = Self { files, prefix, length: u32::try_from(text.len())?, _scratch: scratch };
        let mut name = tree.name();
        let wrong = |errno| format!("a path in {text}: {errno:?}");
        for index in 0..files {
            if index % FILES_OF_A_DIRECTORY == 0 {
                let path = name.directory(index / FILES_OF_A_DIRECTORY).map_err(wrong)?;
                fs::create_dir(path.to_str()?)?;
            }
            fs::write(name.file(index).map_err(wrong)?.to_str()?, "x")?;
        }
        Ok(tree)
    }
    fn name(&self) -> Name {
        Name::new(self.prefix, self.length)
    }
    fn directories(&self) -> u64 {
        self.files / FILES_OF_A_DIRECTORY
    }
    /// Entries of a directory, `.` and `..` among them.
    const ENTRIES: u64 = FILES_OF_A_DIRECTORY + 2;
    /// Files or directories of one pass.
    fn objects(&self, what: What) -> f64 {
        (if matches!(what, What::Readdir) { self.directories() } else { self.files }) as f64
    }
    /// Calls of one pass; of `readdir`, those that give an entry.
    fn calls(&self, what: What) -> u64 {
        match what {
            What::Stat | What::OpenAndClose => self.files,
            What::Readdir => self.directories() * Self::ENTRIES,
        }
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let files = bench.options.files.unwrap_or(if bench.options.quick { FEW_FILES } else { FILES });
    let files = files.next_multiple_of(FILES_OF_A_DIRECTORY);
    let chosen = bench.options.directory.clone();
    let kind = |path: &Path| scratch::kind(path).unwrap_or("the file system of --dir");
    let in_memory = scratch::in_memory().filter(|memory| kind(memory) != kind(&chosen));
    for folder in in_memory.into_iter().chain([chosen.as_path()]) {
        let tree = Tree::new(folder, files)?;
        for (what, call) in What::ALL {
            for warps in bench.warps() {
                measure(bench, &tree, what, (call, kind(folder)), warps)?;
            }
        }
    }
    Ok(())
}

/// One figure, and its rival's.
fn measure(
    bench: &mut Bench,
    tree: &Tree,
    what: What,
    (call, file_system): (&str, &str),
    warps: u32,
) -> Result<(), Failure> {
    let rings = bench.most_rings();
    let warps = match what {
        What::Stat => warps,
        What::OpenAndClose => warps.min(OPEN_MAX / WIDTH),
        What::Readdir => warps.min(OPEN_MAX),
    };
    let case = format!("{call}, {} files, {file_system}, warps: {warps}, rings: {rings}", tree.files);
    bench.step(&case);
    let samples = bench.options.effort.samples;
    let stage = bench.stage(rings)?;
    // The first pass starts threads, and its figure is not one of many calls.
    pass(stage, what, warps, tree)?;
    // What is no operation of the rings leaves their threads asleep, as in a program that does nothing else.
    stage.rest();
    let before = stage.session().statistics().total().operations;
    pass(stage, what, warps, tree)?;
    let operations = (stage.session().statistics().total().operations - before) as f64 / tree.objects(what);
    let ours = spread(samples, tree.calls(what), || pass(stage, what, warps, tree))?;
    stage.rest();
    threads(what, rings, tree)?;
    let rival = spread(samples, tree.calls(what), || threads(what, rings, tree))?;
    bench.figure(NAME, &case, "gpufs", Role::Ours, UNIT, ours, None);
    bench.figure(NAME, &case, &format!("CPU: threads: {rings}"), Role::Rival, UNIT, rival, None);
    let each = Spread::of(vec![operations]);
    bench.figure(NAME, &case, what.operations(), Role::Fact, "", each, None);
    Ok(())
}

/// Millions of calls a second.
fn spread(
    samples: usize,
    calls: u64,
    mut pass: impl FnMut() -> Result<f64, Failure>,
) -> Result<Spread, Failure> {
    let rates: Result<Vec<_>, Failure> = (0..samples).map(|_| Ok(calls as f64 / pass()? / 1e6)).collect();
    Ok(Spread::of(rates?))
}

/// One pass of the grid over the tree: seconds.
fn pass(stage: &mut Stage, what: What, warps: u32, tree: &Tree) -> Result<f64, Failure> {
    let (length, files) = (tree.length, tree.files);
    let placed = stage.session().place::<[u8; NAME_BYTES]>(tree.prefix)?;
    let (prefix, times) = (placed.handle(), stage.times());
    let grid = grid_of(warps);
    match what {
        What::Stat => {
            let arguments = stat_all::Arguments { prefix, length, files, times };
            stage.run_timed::<stat_all::Entry>(grid, arguments)
        }
        What::OpenAndClose => {
            let openers = u64::from(OPEN_MAX);
            let arguments = open_and_close::Arguments { prefix, length, files, openers, times };
            stage.run_timed::<open_and_close::Entry>(grid, arguments)
        }
        What::Readdir => {
            let (directories, entries) = (tree.directories(), Tree::ENTRIES);
            let arguments = read_directories::Arguments { prefix, length, directories, entries, times };
            stage.run_timed::<read_directories::Entry>(grid, arguments)
        }
    }
}

/// One pass of so many threads, each of which takes the next file or directory: seconds.
fn threads(what: What, count: u32, tree: &Tree) -> Result<f64, Failure> {
    let started = Instant::now();
    let (every, all) =
        (count as usize, if matches!(what, What::Readdir) { tree.directories() } else { tree.files });
    let wrong: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..u64::from(count))
            .map(|thread| {
                let mut name = tree.name();
                let body = move || {
                    (thread..all).step_by(every).filter(|index| !made(what, *index, &mut name)).count()
                };
                scope.spawn(body)
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(1)).sum()
    });
    match wrong {
        0 => Ok(started.elapsed().as_secs_f64()),
        wrong => Err(format!("{wrong} of {all} calls of CPU threads failed").into()),
    }
}

/// Whether the calls on one file or directory went well.
fn made(what: What, index: u64, name: &mut Name) -> bool {
    let path = if matches!(what, What::Readdir) { name.directory(index) } else { name.file(index) };
    path.is_ok_and(|path| match what {
        What::Stat => stat(path),
        What::OpenAndClose => open_close(path),
        What::Readdir => entries(path) == Tree::ENTRIES,
    })
}

#[expect(unsafe_code, reason = "the C library's call")]
fn stat(path: &CStr) -> bool {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY:
    // - a string that ends, and room for the result
    unsafe { libc::stat(path.as_ptr(), stat.as_mut_ptr()) == 0 }
}

#[expect(unsafe_code, reason = "the C library's calls")]
fn open_close(path: &CStr) -> bool {
    // SAFETY:
    // - a string that ends
    let number = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY) };
    // SAFETY:
    // - opened above, and used no more
    number >= 0 && unsafe { libc::close(number) } == 0
}

/// How many entries a directory has; 0 where it cannot be read.
#[expect(unsafe_code, reason = "the C library's calls")]
fn entries(path: &CStr) -> u64 {
    // SAFETY:
    // - a string that ends
    let directory = unsafe { libc::opendir(path.as_ptr()) };
    if directory.is_null() {
        return 0;
    }
    let mut count = 0;
    // SAFETY:
    // - opened above, and used by this thread alone
    while !unsafe { libc::readdir(directory) }.is_null() {
        count += 1;
    }
    // SAFETY:
    // - as above, and used no more
    unsafe { libc::closedir(directory) };
    count
}

//! Streams that the host opens and kernels take as arguments.

use gpufs_core::Errno;
use gpufs_device::kernel::{FileHandle, Handoff, Shared};
use gpufs_device::warp::global_thread;
use gpufs_device::{File, fprintf, kernel, portable};
use gpufs_host::{Grid, Session};
use gpufs_tests::{MODES, Scratch, skip, small};

portable! {
    /// Streams in a placed value.
    pub struct Logs {
        /// One for even threads, one for odd ones.
        pub files: [FileHandle; 2],
        /// The first error.
        pub failed: Handoff<Errno>,
    }
}

kernel! {
    /// Every thread prints a line to a stream that came as an argument.
    pub fn print(fs: Fs, log: File, failed: Shared<Handoff<Errno>>) {
        if let Err(errno) = fprintf!(log, c"thread %lu\n", global_thread()) {
            failed.with(fs, |failed| failed.put(errno));
        }
    }
}

kernel! {
    /// Every thread prints a line to one of two streams in a placed value.
    pub fn print_to_two(fs: Fs, logs: Shared<Logs>) {
        logs.with(fs, |logs| {
            let thread = global_thread();
            let printed = logs.files[(thread % 2) as usize].get(fs).and_then(|log| fprintf!(log, c"thread %lu\n", thread));
            if let Err(errno) = printed {
                logs.failed.put(errno);
            }
        });
    }
}

/// Runs [`print`]: the first error.
fn print_to(session: &mut Session, log: FileHandle, grid: Grid) -> Option<Errno> {
    let failed = session.place(Handoff::default()).unwrap();
    session.start::<print::Entry>(grid, print::Arguments { log, failed: failed.handle() }).unwrap();
    session.synchronize().unwrap();
    session.fetch(&failed).unwrap().get()
}

#[test]
fn a_kernel_takes_a_stream_as_an_argument() {
    for mode in MODES {
        let scratch = Scratch::new("given");
        let mut session = match small().mode(mode).cpu() {
            Ok(session) => session,
            Err(error) => {
                skip(&format!("a_kernel_takes_a_stream_as_an_argument, {mode}"), error);
                continue;
            }
        };
        let log = session.fopen(scratch.path("log"), "w").unwrap();
        assert_eq!(print_to(&mut session, log, Grid { blocks: 5, threads: 70 }), None);
        // It stays open from one kernel to the next.
        assert_eq!(print_to(&mut session, log, Grid { blocks: 1, threads: 1 }), None);
        session.fflush(log).unwrap();
        let text = String::from_utf8(scratch.read("log")).unwrap();
        let mut lines: Vec<u32> =
            text.lines().map(|line| line.replace("thread ", "").parse().unwrap()).collect();
        lines.sort_unstable();
        assert_eq!(lines, [0].into_iter().chain(0..350).collect::<Vec<_>>());
        session.fclose(log).unwrap();
        assert_eq!(session.fclose(log).unwrap_err().errno(), Errno::BADF);
        assert_eq!(session.fflush(log).unwrap_err().errno(), Errno::BADF);
        assert_eq!(print_to(&mut session, log, Grid { blocks: 1, threads: 40 }), Some(Errno::BADF));
    }
}

#[test]
fn streams_lie_in_placed_values() {
    let scratch = Scratch::new("given-two");
    let mut session = small().cpu().unwrap();
    let files = ["even", "odd"].map(|name| session.fopen(scratch.path(name), "a").unwrap());
    let logs = session.place(Logs { files, failed: Handoff::default() }).unwrap();
    let arguments = print_to_two::Arguments { logs: logs.handle() };
    session.start::<print_to_two::Entry>(Grid { blocks: 3, threads: 100 }, arguments).unwrap();
    session.synchronize().unwrap();
    assert_eq!(session.fetch(&logs).unwrap().failed.get(), None);
    for name in ["even", "odd"] {
        assert_eq!(scratch.read(name).iter().filter(|byte| **byte == b'\n').count(), 150);
    }
}

#[test]
fn another_sessions_stream_is_refused() {
    let scratch = Scratch::new("given-other");
    let (mut one, mut other) = (small().cpu().unwrap(), small().cpu().unwrap());
    let log = one.fopen(scratch.path("log"), "w").unwrap();
    assert_eq!(print_to(&mut other, log, Grid { blocks: 1, threads: 3 }), Some(Errno::BADF));
    assert_eq!(other.fclose(log).unwrap_err().errno(), Errno::BADF);
    one.fclose(log).unwrap();
    assert_eq!(scratch.read("log"), b"");
}

#[test]
fn what_cannot_be_opened_is_named() {
    let scratch = Scratch::new("given-wrong");
    let mut session = small().cpu().unwrap();
    let missing = scratch.path("no/such");
    let error = session.fopen(&missing, "r").unwrap_err();
    assert_eq!((error.errno(), error.path()), (Errno::NOENT, Some(missing.as_path())));
    assert_eq!(
        error.to_string(),
        format!("opening {}: No such file or directory (ENOENT)", missing.display())
    );
    assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::NotFound);
    for (path, mode) in [("file\0", "w"), ("file", "w\0"), ("file", "q"), ("file", "")] {
        assert_eq!(session.fopen(path, mode).unwrap_err().errno(), Errno::INVAL, "{path:?} {mode:?}");
    }
}

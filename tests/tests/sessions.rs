//! Sessions one after the other: what a process has after many of them is what it had after few, and handles of earlier ones say that they are
//! closed. `GPUFS_SESSIONS` says how many; 1,000 and more are for long runs.
#![expect(unsafe_code, reason = "a kept handle")]

use std::ffi::CStr;
use std::fs;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use gpufs_core::word::{DeviceWord, DeviceWord64};
use gpufs_device::file::O_RDONLY;
use gpufs_device::{Errno, File, warp};
use gpufs_host::ring::{Mode, RingMemory};
use gpufs_host::{Builder, CpuOptions, Session};
use gpufs_tests::{MODES, Scratch, lanes, once, setting, skip, small, tables};

/// One test at a time: what is measured is the process's.
static ALONE: Mutex<()> = Mutex::new(());

/// What a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Has {
    resident_kib: u64,
    addresses_kib: u64,
    locked_kib: u64,
    threads: u64,
    mappings: usize,
    descriptors: usize,
}

impl Has {
    fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let of = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        let mappings = fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        Self {
            resident_kib: of("VmRSS:"),
            addresses_kib: of("VmSize:"),
            locked_kib: of("VmLck:") + of("VmPin:"),
            threads: of("Threads:"),
            mappings,
            descriptors: fs::read_dir("/proc/self/fd").unwrap().count(),
        }
    }
    /// Once it has stayed the same for a while: threads that have ended leave the list a little later, and rings are taken apart by the
    /// kernel in its own time.
    fn at_rest() -> Self {
        let started = Instant::now();
        let mut before = Self::now();
        let mut same = 0;
        while same < 10 && started.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
            let now = Self::now();
            same = if now == before { same + 1 } else { 0 };
            before = now;
        }
        before
    }
    /// Whether this is no more than `earlier`, but for what the C library's allocator and the threads' stacks come to: an arena that
    /// a thread gets because others are taken reserves 64 MiB of addresses.
    fn is_like(self, earlier: Self) -> bool {
        self.resident_kib <= earlier.resident_kib + 1024
            && self.addresses_kib <= earlier.addresses_kib + 4 * 64 * 1024
            && self.locked_kib <= earlier.locked_kib
            && self.threads <= earlier.threads
            && self.mappings <= earlier.mappings + 8
            && self.descriptors <= earlier.descriptors
    }
    /// Once it is like `earlier`, or has stayed otherwise for long.
    fn settled(earlier: Self) -> Self {
        let started = Instant::now();
        loop {
            let now = Self::now();
            if now.is_like(earlier) || started.elapsed() > Duration::from_secs(60) {
                return now;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Does `once` some times, then many times more: the process has what it had. Says what it has if not.
fn stays_the_same(what: &str, mut once: impl FnMut(u64)) {
    let sessions = setting("GPUFS_SESSIONS", 60);
    (0..10).for_each(&mut once);
    let few = Has::at_rest();
    (10..sessions.max(11)).for_each(&mut once);
    let many = Has::settled(few);
    println!("{what}: after 10 {few:?}, after {sessions} {many:?}");
    assert!(many.is_like(few), "{what}: after 10 {few:?}, after {sessions} {many:?}");
}

fn options() -> CpuOptions {
    CpuOptions { threads: 1, width: 4, ..CpuOptions::default() }
}

/// Whether sessions of these choices open here.
fn opens(test: &str, builder: &Builder) -> bool {
    let opened = builder.clone().cpu_with(options());
    opened.map_err(|refused| skip(test, refused)).is_ok()
}

#[test]
fn opening_and_closing_keeps_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for mode in MODES {
        let builder = small().mode(mode);
        if opens(&format!("opening_and_closing_keeps_nothing in {mode}"), &builder) {
            stays_the_same(&format!("{mode}"), |_| drop(builder.clone().cpu_with(options()).unwrap()));
        }
    }
    for memory in [RingMemory::Caller, RingMemory::Runtime] {
        let builder = small().mode(Mode::Enter).ring_memory(memory);
        if opens(&format!("opening_and_closing_keeps_nothing with {memory}"), &builder) {
            stays_the_same(&format!("{memory}"), |_| drop(builder.clone().cpu_with(options()).unwrap()));
        }
    }
}

/// With the default sizes, whose tables are 1.1 MB.
#[test]
fn default_sessions_keep_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    stays_the_same("default", |_| drop(Session::builder().mode(Mode::Threads).cpu_with(options()).unwrap()));
}

/// Everything that a session can have: files, streams, placed values, buffers, kernels, one of which panics.
#[test]
fn sessions_that_are_used_keep_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let scratch = Scratch::new("sessions");
    fs::write(scratch.path("data"), b"some data").unwrap();
    for mode in MODES {
        let builder = small().mode(mode);
        if !opens(&format!("sessions_that_are_used_keep_nothing in {mode}"), &builder) {
            continue;
        }
        stays_the_same(&format!("used, {mode}"), |number| {
            let mut session = builder.clone().cpu_with(options()).unwrap();
            let counter = session.place(DeviceWord::new(7)).unwrap();
            let table = session.place([number; 512]).unwrap();
            let buffer = session.register_buffer(4096).unwrap();
            let device = session.device_buffer(8192).unwrap();
            session.write_device(&device, 0, &[1; 16]).unwrap();
            session.register_file(fs::File::open(scratch.path("data")).unwrap()).unwrap();
            let (handle, values) = (counter.handle(), table.handle());
            let (log, data) = (scratch.c("log"), scratch.c("data"));
            session
                .launch(lanes(8), move |fs| {
                    let file = fs.open(&data, O_RDONLY, 0).unwrap();
                    let mut into = [0; 4];
                    fs.pread(file, &mut into, 0).unwrap();
                    let out = fs.fopen(&log, c"a").unwrap();
                    out.fputs(c"a line\n").unwrap();
                    let is_ours = values.with(fs, |values| values[9] == number);
                    handle.with(fs, |count| count.fetch_add(u32::from(is_ours)));
                    assert!(number % 4 != 3 || warp::global_thread() != 5, "a lane panics");
                })
                .unwrap();
            assert_eq!(session.synchronize().is_err(), number % 4 == 3);
            assert_eq!(session.fetch(&counter).unwrap().peek(), 15);
            assert_eq!(session.fetch(&table).unwrap(), [number; 512]);
            assert!(!buffer.is_empty());
        });
    }
}

#[test]
fn sessions_that_do_not_open_keep_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Refused by the system in the middle: no room for the pools.
    let builder = small().mode(Mode::Enter).buffers(1 << 46).stream_buffer(1 << 20).ring_entries(32_768);
    stays_the_same("too large", |_| assert!(builder.clone().cpu_with(options()).is_err()));
    stays_the_same("no descriptor", |_| {
        // SAFETY:
        // - plain numbers, alive for the calls
        let before = unsafe {
            let mut before: libc::rlimit = std::mem::zeroed();
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before);
            libc::setrlimit(libc::RLIMIT_NOFILE, &libc::rlimit { rlim_cur: 3, ..before });
            before
        };
        let opened = small().mode(Mode::Enter).cpu_with(options());
        // SAFETY:
        // - as above
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const before) };
        assert!(opened.is_err());
    });
}

/// Many open at once, in changing numbers.
#[test]
fn sessions_beside_each_other_keep_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let builder = small().mode(Mode::Threads);
    stays_the_same("beside each other", |number| {
        let many = 1 + (number * 7 % 4);
        let mut open: Vec<Session> =
            (0..many).map(|_| builder.clone().cpu_with(options()).unwrap()).collect();
        // Closed in another order than opened.
        open.rotate_left(usize::try_from(number % many).unwrap());
        for session in &mut open {
            once(session, |fs| fs.nop().unwrap());
        }
    });
}

/// Handles of a session that was closed, and of a later one that has its tables.
#[test]
fn handles_of_an_earlier_session_are_closed() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let scratch = Scratch::new("handles");
    for mode in MODES {
        let builder = small().mode(mode);
        if !opens(&format!("handles_of_an_earlier_session_are_closed in {mode}"), &builder) {
            continue;
        }
        let mut kept: Vec<(File, u64)> = Vec::new();
        let mut all = Vec::new();
        for round in 0..5 {
            let mut session = builder.clone().cpu_with(options()).unwrap();
            all.push(std::ptr::from_ref(tables(&session)));
            let name = scratch.c(&format!("log{round}"));
            let file = once(&mut session, |fs| fs.fopen(&name, c"w").unwrap());
            let line: &CStr = c"of this session\n";
            once(&mut session, |_| file.fputs(line).unwrap());
            for (old, handle) in &kept {
                let (old, handle) = (*old, *handle);
                let said =
                    session.with_tables(|_| (old.fputs(c"of an earlier one\n"), old.fflush(), old.fclose()));
                assert_eq!(said, Ok((Err(Errno::BADF), Err(Errno::BADF), Err(Errno::BADF))), "{mode}");
                // SAFETY:
                // - its tables are there still, in which it is closed
                assert_eq!(unsafe { File::from_handle(handle) }.err(), Some(Errno::BADF), "{mode}");
            }
            kept.push((file, file.to_handle()));
            let fs = session.fs();
            drop(session);
            // Between sessions, calls on the tables.
            assert!(fs.fopen(&name, c"w").is_err() && fs.open(&name, O_RDONLY, 0).is_err());
            assert_eq!(
                (fs.nop(), file.fputs(line), file.fclose()),
                (Err(Errno::BADF), Err(Errno::BADF), Err(Errno::BADF))
            );
            // SAFETY:
            // - its tables are there still, in which it is closed
            assert_eq!(unsafe { File::from_handle(file.to_handle()) }.err(), Some(Errno::BADF));
            assert_eq!(scratch.read(&format!("log{round}")), b"of this session\n", "{mode}");
        }
        all.dedup();
        assert_eq!(all.len(), 1, "{mode}: each session has the tables of the one before");
    }
}

/// A value of one session is not taken for one of another's.
#[test]
fn a_value_of_an_earlier_session_is_not_fetched() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut session = small().mode(Mode::Threads).cpu_with(options()).unwrap();
    let old = session.place(DeviceWord64::new(1)).unwrap();
    drop(session);
    let mut session = small().mode(Mode::Threads).cpu_with(options()).unwrap();
    assert_eq!(session.fetch(&old).map(drop).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    let new = session.place(DeviceWord64::new(2)).unwrap();
    assert_eq!(session.fetch(&new).unwrap().peek(), 2);
}

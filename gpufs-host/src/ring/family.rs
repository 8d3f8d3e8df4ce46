//! The confined family: threads of this process that have a table of descriptors of their own, and a Landlock domain.
//!
//! The first thread confines itself, then runs what it is given, one job after the other. Linux makes an SQPOLL thread and the workers of
//! a ring share the table and the credentials of the thread that set the ring up, or that enters it, and a thread that is started here
//! shares those of the first. So a descriptor in an entry names what is open in the family, whoever serves the ring, and a path is opened
//! with the family's rights.
//!
//! The family's table holds what kernels opened and were given, and the directories of the sandbox as bare paths (`O_PATH`), which no
//! entry can read or write. A ring's descriptor is moved to the host (`pidfd_getfd(2)`; Linux sends none over a socket), and so is a file
//! that goes either way.

use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::landlock;
use super::sandbox::{Rights, Sandbox};
use super::sys::{self, signed};
use super::workers::lock;

type Job = Box<dyn FnOnce() + Send>;

/// `PIDFD_THREAD` of `pidfd_open(2)`, since Linux 6.9.
const PIDFD_THREAD: u64 = libc::O_EXCL as u64;
const SYS_PIDFD_GETFD: libc::c_long = 438;

thread_local! {
    /// The thread is of a family.
    static CONFINED: Cell<bool> = const { Cell::new(false) };
}

/// A tree of the sandbox, as the family has it open.
#[derive(Debug)]
pub(super) struct Tree {
    /// Its descriptor in the family: a bare path.
    pub(super) fd: RawFd,
    pub(super) rights: Rights,
    /// Its path as it was named, absolute, and as the system names it.
    pub(super) names: [Vec<u8>; 2],
}

/// A confined family. Its first thread ends when it is dropped.
#[derive(Debug)]
pub(super) struct Family {
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Option<JoinHandle<()>>,
    tid: i32,
}

impl Family {
    /// Starts the first thread. What this Linux lacks and the sandbox lets pass is told to `weaker`.
    ///
    /// # Errors
    /// A sentence: what of the sandbox cannot be had, and what to do.
    pub(super) fn start(sandbox: &Sandbox) -> Result<(Self, Vec<Tree>, Vec<String>), String> {
        let (jobs, work) = channel::<Job>();
        let (said, heard) = sync_channel(1);
        let sandbox = sandbox.clone();
        let body = move || {
            sys::block_signals();
            let confined = confine(&sandbox);
            CONFINED.set(true);
            let failed = confined.is_err();
            let tid = sys::thread_number();
            let _ = said.send(confined.map(|(trees, weaker)| (tid, trees, weaker)));
            if failed {
                return;
            }
            // Ends: when the family is dropped.
            for job in work {
                job();
            }
        };
        let thread = std::thread::Builder::new()
            .name("gpufs-family".into())
            .spawn(body)
            .map_err(|error| format!("the sandbox's thread could not be started: {error}"))?;
        let (tid, trees, weaker) = heard.recv().map_err(|_| "the sandbox's thread ended".to_owned())??;
        Ok((Self { jobs: Mutex::new(Some(jobs)), thread: Some(thread), tid }, trees, weaker))
    }

    /// Whether the calling thread is of a family.
    pub(super) fn is_here() -> bool {
        CONFINED.get()
    }

    /// The number of the first thread.
    pub(super) const fn first_thread(&self) -> i32 {
        self.tid
    }
    /// Runs `job` in the family, and waits for it.
    pub(super) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        if Self::is_here() {
            return job();
        }
        let (said, heard) = sync_channel(1);
        let job: Job = Box::new(move || {
            let _ = said.send(job());
        });
        let sent = lock(&self.jobs).as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        assert!(sent, "the family's first thread runs jobs as long as the family lives");
        heard.recv().expect("jobs do not panic")
    }

    /// Starts a thread of the family.
    pub(super) fn spawn(
        &self,
        name: &'static str,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        self.run(move || {
            std::thread::Builder::new().name(name.into()).spawn(move || {
                CONFINED.set(true);
                body();
            })
        })
    }

    /// Gives the family a file that the calling thread has open: its number there.
    pub(super) fn take_in(&self, file: RawFd) -> io::Result<RawFd> {
        if Self::is_here() {
            return duplicate(file).map_err(io_error);
        }
        let tid = sys::thread_number();
        // The thread waits for the job, so it is there.
        self.run(move || fetch(tid, file).map(std::os::fd::IntoRawFd::into_raw_fd))
    }
    /// A duplicate of a file of the family, for the calling thread.
    pub(super) fn hand_out(&self, file: RawFd) -> io::Result<OwnedFd> {
        fetch(self.tid, file)
    }
    /// Closes a file of the family.
    pub(super) fn close(&self, file: RawFd) {
        self.run(move || {
            // SAFETY:
            // - the call takes a number; its caller has the file
            let _ = unsafe { sys::call(libc::SYS_close, [signed(file), 0, 0, 0, 0, 0]) };
        });
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        *lock(&self.jobs) = None;
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

/// A descriptor, in the table of the family that it is of or in the host's.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) fd: RawFd,
    pub(super) family: Option<Arc<Family>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        match &self.family {
            Some(family) => family.close(self.fd),
            // SAFETY:
            // - nothing else owns it
            None => drop(unsafe { OwnedFd::from_raw_fd(self.fd) }),
        }
    }
}

fn io_error(errno: gpufs_core::Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.number())
}

/// Another descriptor of the same file, in the calling thread's table.
pub(super) fn duplicate(file: RawFd) -> Result<RawFd, gpufs_core::Errno> {
    // SAFETY:
    // - this `fcntl` takes numbers
    unsafe { sys::call(libc::SYS_fcntl, [signed(file), signed(libc::F_DUPFD_CLOEXEC), 3, 0, 0, 0]) }
}

/// A duplicate of a descriptor of thread `tid`, in the calling thread's table.
fn fetch(tid: i32, file: RawFd) -> io::Result<OwnedFd> {
    // SAFETY:
    // - the call takes numbers
    let thread = unsafe { sys::call(libc::SYS_pidfd_open, [signed(tid), PIDFD_THREAD, 0, 0, 0, 0]) };
    let thread = thread.map_err(io_error)?;
    // SAFETY:
    // - the kernel has just made this descriptor, and nothing else owns it
    let thread = unsafe { OwnedFd::from_raw_fd(thread) };
    let arguments = [signed(thread.as_raw_fd()), signed(file), 0, 0, 0, 0];
    // SAFETY:
    // - the call takes numbers
    let fetched = unsafe { sys::call(SYS_PIDFD_GETFD, arguments) }.map_err(io_error)?;
    // SAFETY:
    // - the kernel has just made this descriptor, and nothing else owns it
    Ok(unsafe { OwnedFd::from_raw_fd(fetched) })
}

/// Whether threads can hand each other descriptors here.
fn check_fetch() -> Result<(), String> {
    let null = std::fs::File::open("/dev/null").map_err(|error| format!("/dev/null: {error}"))?;
    fetch(sys::thread_number(), null.as_raw_fd()).map(drop).map_err(|error| {
        format!(
            "a sandbox needs pidfd_open(2) of a thread and pidfd_getfd(2), which Linux has since 6.9; this one ({}), or a seccomp filter, \
             refuses: {error}",
            sys::Release::running()
        )
    })
}

/// Confines the calling thread: a table of its own with nothing in it but what was given, and Landlock.
fn confine(sandbox: &Sandbox) -> Result<(Vec<Tree>, Vec<String>), String> {
    check_fetch()?;
    let failed = |what: &str| format!("{what}: {}", io::Error::last_os_error());
    // SAFETY:
    // - the call takes a number: this thread gets a copy of the table
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return Err(failed("a sandbox needs a table of descriptors of its own (unshare(2), CLONE_FILES)"));
    }
    let mut trees = Vec::new();
    for (path, rights) in &sandbox.trees {
        trees.push(open_tree(path, *rights)?);
    }
    let nothing = open(c"/dev/null", libc::O_PATH).map_err(|error| format!("/dev/null: {error}"))?;
    for standard in 0..3 {
        // SAFETY:
        // - this `fcntl` takes numbers
        let is_open = unsafe { libc::fcntl(standard, libc::F_GETFD) } >= 0;
        if !sandbox.standard_streams || !is_open {
            // SAFETY:
            // - the table is this thread's own, and nothing in it is used under this number
            unsafe { libc::dup2(nothing, standard) };
        }
    }
    let mut kept: Vec<u32> = trees.iter().map(|tree| tree.fd.cast_unsigned()).collect();
    kept.sort_unstable();
    let mut from = 3;
    for end in kept.into_iter().chain([u32::MAX]) {
        let last = if end == u32::MAX { end } else { end - 1 };
        if from <= last {
            let range = [from.into(), last.into(), 0, 0, 0, 0];
            // SAFETY:
            // - the table is this thread's own, and what is closed is used by nothing in it
            unsafe { sys::call(libc::SYS_close_range, range) }
                .map_err(|errno| format!("a sandbox needs close_range(2), since Linux 5.9: {errno}"))?;
        }
        from = end.saturating_add(1);
    }
    // Last, as trees are opened by their paths.
    let weaker = landlock::restrict(&trees, &sandbox.sockets, sandbox.may_be_weaker)?;
    Ok((trees, weaker))
}

fn open(path: &std::ffi::CStr, flags: libc::c_int) -> io::Result<RawFd> {
    // SAFETY:
    // - the path ends with a NUL
    let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    if fd > 2 {
        return Ok(fd);
    }
    // A standard stream of the program's is closed: its number is not for this.
    let moved = duplicate(fd).map_err(io_error);
    // SAFETY:
    // - opened above
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    moved
}

fn open_tree(path: &Path, rights: Rights) -> Result<Tree, String> {
    let failed = |error: io::Error| {
        format!("the sandbox's tree {}: {error}; name a directory that exists", path.display())
    };
    let own = std::path::absolute(path).map_err(failed)?;
    let real = std::fs::canonicalize(path).map_err(failed)?;
    let name = CString::new(real.as_os_str().as_bytes()).map_err(|error| failed(error.into()))?;
    let fd = open(&name, libc::O_PATH | libc::O_DIRECTORY).map_err(failed)?;
    Ok(Tree { fd, rights, names: [own, real].map(|name| name.into_os_string().as_bytes().to_vec()) })
}

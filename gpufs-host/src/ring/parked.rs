//! Operations of a ring that worker threads serve, while they wait for a file to become ready. One thread watches all of them, with
//! `poll(2)`.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use gpufs_core::abi::{IORING_OP_POLL_ADD, Sqe};

use super::chain::Rest;
use super::operation::{File, polled};
use super::sys;
use super::workers::{Task, WorkerPool, lock};

/// An entry that waits for its file.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) sqe: Sqe,
    /// Held as long as the entry waits.
    pub(super) file: File,
    /// `POLLIN`, `POLLOUT` …
    pub(super) events: i16,
    /// Those of its chain that come after it.
    pub(super) rest: Rest,
}

/// What wakes the watcher: an `eventfd(2)`; or a flag, for a watcher whose descriptors entries may name, and which looks for itself while something
/// is parked.
#[derive(Debug)]
pub(super) enum Event {
    Descriptor(OwnedFd),
    Flag(Mutex<bool>, Condvar),
}

impl Event {
    pub(super) fn flag() -> Self {
        Self::Flag(Mutex::new(false), Condvar::new())
    }
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY:
        // - `eventfd` touches no memory of ours
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY:
        // - the kernel has just made this descriptor, and nothing else owns it
        Ok(Self::Descriptor(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
    /// Makes it readable.
    pub(super) fn raise(&self) {
        let fd = match self {
            Self::Descriptor(fd) => fd,
            Self::Flag(raised, changed) => {
                *lock(raised) = true;
                return changed.notify_one();
            }
        };
        let one = 1_u64;
        // SAFETY:
        // - the kernel reads eight bytes, which are alive
        let written = unsafe { libc::write(fd.as_raw_fd(), (&raw const one).cast(), 8) };
        debug_assert_eq!(written, 8);
    }
    /// Makes it unreadable.
    fn lower(&self) {
        let fd = match self {
            Self::Descriptor(fd) => fd,
            Self::Flag(raised, _) => return *lock(raised) = false,
        };
        let mut count = 0_u64;
        // SAFETY:
        // - the kernel writes eight bytes, which are alive; where the event is not raised it answers EAGAIN
        unsafe { libc::read(fd.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
    /// Waits until it is raised, or a file is ready, or, with a flag, it is time to look again.
    fn wait(&self, files: &mut Vec<libc::pollfd>) {
        match self {
            Self::Descriptor(fd) => {
                files.push(libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
                wait_for_any(files, -1);
            }
            Self::Flag(raised, changed) if files.is_empty() => {
                let is_low = |raised: &mut bool| !*raised;
                drop(changed.wait_while(lock(raised), is_low).unwrap_or_else(PoisonError::into_inner));
            }
            Self::Flag(..) => wait_for_any(files, LOOK_MS),
        }
    }
}

/// How long a watcher with a flag polls before it looks again, in milliseconds.
const LOOK_MS: i32 = 5;

/// Between two polls of every file by itself, where `poll(2)` refuses to take all of them.
const REFUSED_NAP: Duration = Duration::from_millis(1);

impl WorkerPool {
    /// What the watcher thread runs. It waits only for the pool's event and for the files of parked operations.
    pub(super) fn watch(&self) {
        sys::block_signals();
        loop {
            // Before `parked` is read: an entry that is parked later raises the event again.
            self.event.lower();
            // One for each file: the system takes no more than a process can have open.
            let mut wanted: HashMap<RawFd, i16> = HashMap::new();
            {
                let queue = lock(&self.queue);
                if queue.stopped {
                    return;
                }
                for parked in &queue.parked {
                    *wanted.entry(parked.file.raw()).or_default() |= parked.events;
                }
            }
            let count = wanted.len();
            let files = wanted.into_iter().map(|(fd, events)| libc::pollfd { fd, events, revents: 0 });
            let mut files: Vec<libc::pollfd> = files.collect();
            self.event.wait(&mut files);
            let states: HashMap<RawFd, i16> = files
                .iter()
                .take(count)
                .filter(|file| file.revents != 0)
                .map(|file| (file.fd, file.revents))
                .collect();
            if states.is_empty() {
                continue;
            }
            let mut queue = lock(&self.queue);
            let state = |parked: &Parked| {
                states.get(&parked.file.raw()).and_then(|revents| polled(parked.events, *revents))
            };
            let before = queue.tasks.waiting();
            let ready: Vec<Parked> = queue.parked.extract_if(.., |parked| state(parked).is_some()).collect();
            for parked in ready {
                let result = state(&parked).unwrap_or(0);
                let Parked { sqe, rest, .. } = parked;
                match sqe.opcode {
                    IORING_OP_POLL_ADD => queue.end(&sqe, result, rest),
                    // For a bad descriptor the call itself fails.
                    _ => queue.tasks.push(Task::Perform { sqe, ready: true, rest }),
                }
            }
            self.resume(queue, before);
        }
    }
}

/// Waits until one of the files is ready, for so many milliseconds, or without end where they are negative.
fn wait_for_any(files: &mut [libc::pollfd], limit_ms: i32) {
    let count = libc::nfds_t::try_from(files.len()).unwrap_or(libc::nfds_t::MAX);
    // SAFETY:
    // - the kernel reads and writes `count` `pollfd`s, which are borrowed for the call
    if unsafe { libc::poll(files.as_mut_ptr(), count, limit_ms) } >= 0 {
        return;
    }
    // There are more files than the process's limit, which was lowered, or there is no memory.
    for file in files {
        file.revents = sys::poll_now(file.fd, file.events);
    }
    std::thread::sleep(REFUSED_NAP);
}

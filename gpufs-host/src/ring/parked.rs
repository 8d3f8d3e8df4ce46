//! Operations of a ring that threads serve, while they wait for a file to become ready: one thread and `poll(2)`, however many wait.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use gpufs_core::abi::{IORING_OP_POLL_ADD, Sqe};

use super::operation::{File, polled};
use super::sys;
use super::threads::{Pool, Task, lock};

/// An entry that waits for its file.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) sqe: Sqe,
    /// Held as long as it is waited for.
    pub(super) file: File,
    /// `POLLIN`, `POLLOUT` …
    pub(super) events: i16,
}

impl Parked {
    /// What is to be done with it, its file being in the state `revents`; none where it is to wait on.
    fn task(&self, revents: i16) -> Option<Task> {
        let result = polled(self.events, revents)?;
        let sqe = self.sqe;
        Some(match sqe.opcode {
            IORING_OP_POLL_ADD => Task::Answer { user_data: sqe.user_data, result },
            // What there is to be said of a bad descriptor, the call says.
            _ => Task::Perform { sqe, ready: true },
        })
    }
}

/// An `eventfd(2)`.
#[derive(Debug)]
pub(super) struct Event(OwnedFd);

impl Event {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY:
        // - `eventfd` touches no memory of ours
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY:
        // - the kernel has just made this descriptor, and nobody else owns it
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
    /// Makes it readable.
    pub(super) fn raise(&self) {
        let one = 1_u64;
        // SAFETY:
        // - the kernel reads eight bytes, which are alive
        let written = unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
        debug_assert_eq!(written, 8);
    }
    /// Makes it unreadable.
    fn lower(&self) {
        let mut count = 0_u64;
        // SAFETY:
        // - the kernel writes eight bytes, which are alive; where the event is not raised it answers EAGAIN
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

/// Between two looks at every file by itself, where `poll(2)` refuses to look at all of them.
const REFUSED_NAP: Duration = Duration::from_millis(1);

impl Pool {
    /// The life of the thread that looks after what is parked. It waits for nothing but the pool's event and parked files.
    pub(super) fn watch(&self) {
        sys::block_signals();
        loop {
            // Before the look at what is parked, so that who parks more afterwards raises it again.
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
            let own = libc::pollfd { fd: self.event.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let files = wanted.into_iter().map(|(fd, events)| libc::pollfd { fd, events, revents: 0 });
            let mut files: Vec<libc::pollfd> = std::iter::once(own).chain(files).collect();
            wait_for_any(&mut files);
            let states: HashMap<RawFd, i16> = files
                .iter()
                .skip(1)
                .filter(|file| file.revents != 0)
                .map(|file| (file.fd, file.revents))
                .collect();
            if states.is_empty() {
                continue;
            }
            let mut queue = lock(&self.queue);
            let mut tasks = Vec::new();
            queue.parked.retain(|parked| {
                let task = states.get(&parked.file.raw()).and_then(|revents| parked.task(*revents));
                let stays = task.is_none();
                tasks.extend(task);
                stays
            });
            self.resume(queue, tasks);
        }
    }
}

/// Waits until one of the files is ready.
fn wait_for_any(files: &mut [libc::pollfd]) {
    let count = libc::nfds_t::try_from(files.len()).unwrap_or(libc::nfds_t::MAX);
    // SAFETY:
    // - the kernel reads and writes `count` `pollfd`s, which are borrowed for the call
    if unsafe { libc::poll(files.as_mut_ptr(), count, -1) } >= 0 {
        return;
    }
    // More than the process's limit allows, which was lowered, or no memory.
    for file in files {
        file.revents = sys::poll_now(file.fd, file.events);
    }
    std::thread::sleep(REFUSED_NAP);
}

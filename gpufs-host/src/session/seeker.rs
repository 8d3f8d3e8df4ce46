//! Moves the positions that a session's standard streams share with other programs, for its kernels (`gpufs_core::seek`). When the session
//! ends, it leaves them where a C program would.
//!
//! A thread of its own answers, and sleeps in poll(2) between requests: the ring service naps, and a seek would wait for it. The thread
//! exists only where a standard stream is a file.
#![expect(unsafe_code, reason = "system calls without memory")]

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use gpufs_core::seek::SeekRequest;
use gpufs_core::session::{OpenFile, SessionTables};
use gpufs_core::stream::Direction;

use crate::ring::block_signals;

/// The thread needs little stack.
const STACK_BYTES: usize = 64 << 10;

/// One file that the thread serves.
#[derive(Debug)]
struct Served {
    /// A descriptor of the same open file description, even if the program closes or reuses its own.
    file: OwnedFd,
    socket: UnixStream,
}

/// The thread, and the kernels' ends of its sockets.
#[derive(Debug, Default)]
pub(super) struct Seeker {
    thread: Option<JoinHandle<()>>,
    kernels: Vec<UnixStream>,
}

impl Seeker {
    /// Serves those of the table's first three files whose position is shared.
    ///
    /// # Errors
    /// The system has no descriptor or thread to give.
    pub(super) fn start(tables: &SessionTables) -> io::Result<Self> {
        let (mut served, mut kernels) = (Vec::new(), Vec::new());
        for file in tables.files().iter().take(3) {
            if file.flags.peek() & OpenFile::SHARED == 0 {
                continue;
            }
            let (socket, kernel) = UnixStream::pair()?;
            file.seeker.set(kernel.as_raw_fd().cast_unsigned());
            served.push(Served { file: duplicate(file.descriptor.peek().cast_signed())?, socket });
            kernels.push(kernel);
        }
        let thread = if served.is_empty() {
            None
        } else {
            let builder = std::thread::Builder::new().name("gpufs-seeker".into()).stack_size(STACK_BYTES);
            Some(builder.spawn(move || serve(served))?)
        };
        Ok(Self { thread, kernels })
    }
}

impl Drop for Seeker {
    fn drop(&mut self) {
        // The thread sees its ends closed, and ends.
        for kernel in &self.kernels {
            let _ = kernel.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

fn duplicate(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY:
    // - no memory is involved
    let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY:
    // - just made, and nothing else owns it
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// What the thread runs, until every socket is closed.
fn serve(mut served: Vec<Served>) {
    block_signals();
    while !served.is_empty() {
        let mut waiting: Vec<libc::pollfd> = served
            .iter()
            .map(|one| libc::pollfd { fd: one.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
        // SAFETY:
        // - the entries are valid, and as many as said
        let ready = unsafe { libc::poll(waiting.as_mut_ptr(), waiting.len() as libc::nfds_t, -1) };
        if ready < 0 {
            continue;
        }
        let mut ready = waiting.iter().map(|one| one.revents != 0);
        served.retain_mut(|one| !ready.next().unwrap_or(false) || one.answer().is_ok());
    }
}

impl Served {
    /// Takes one request and answers it.
    fn answer(&mut self) -> io::Result<()> {
        let mut bytes = [0; SeekRequest::BYTES];
        self.socket.read_exact(&mut bytes)?;
        let SeekRequest { offset, whence } = SeekRequest::from_bytes(bytes);
        let answer = move_to(self.file.as_raw_fd(), offset, whence.cast_signed())
            .map_or_else(|error| -i64::from(error.raw_os_error().unwrap_or(libc::EIO)), u64::cast_signed);
        self.socket.write_all(&answer.to_ne_bytes())
    }
}

fn move_to(file: RawFd, offset: i64, whence: i32) -> io::Result<u64> {
    // SAFETY:
    // - no memory is involved
    let position = unsafe { libc::lseek(file, offset, whence) };
    u64::try_from(position).map_err(|_| io::Error::last_os_error())
}

/// Moves the files of standard streams that were reading back to where their readers are, as exit(3) does (POSIX 2.5.1). The next program
/// then reads what was read ahead, and so does a kernel that runs after this. While no kernel runs.
pub(super) fn leave_standard_streams(tables: &SessionTables) {
    for (stream, index) in tables.streams().iter().take(3).zip(0..) {
        let file = &tables.files()[index as usize];
        // ORDERING: acquire, device, partner `set_up`; no kernel runs.
        let open = stream.generation.observe() == 1 && stream.file.peek() == index;
        if !open || stream.direction() != Direction::Reading || file.flags.peek() & OpenFile::SHARED == 0 {
            continue;
        }
        let ahead = i64::from(stream.read_end.peek().saturating_sub(stream.read_next.peek()))
            + i64::from(stream.pushed_count.peek());
        let descriptor = file.descriptor.peek().cast_signed();
        if tables.is_confined() && descriptor.cast_unsigned() != index {
            // A number of the sandbox's, not of the host's.
            continue;
        }
        if ahead > 0 && move_to(descriptor, -ahead, libc::SEEK_CUR).is_err() {
            // More bytes were pushed back than the file has before this position.
            let _ = move_to(descriptor, 0, libc::SEEK_SET);
        }
        stream.direction.set(Direction::Idle as u32);
        stream.pushed_count.set(0);
    }
}

//! What a kernel left in its streams goes to the files when the session synchronizes ([D-14]).
//!
//! The host acts as a warp of one, through the same rings and the same steps (`gpufs_core::stream`). Only while no kernel runs.

use std::time::{Duration, Instant};
use std::{fmt, fs, thread};

use gpufs_core::Errno;
use gpufs_core::session::{FileIndex, SessionTables};
use gpufs_core::stream::{Buffering, Direction, Progress, Stream};

use super::pieces::{self, Taken};

/// A stream whose bytes could not all be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamError {
    /// Where the stream writes: a path, as far as the system knows one.
    pub file: String,
    /// What the write met.
    pub errno: Errno,
    /// Bytes that were accepted and are not in the file. They are kept, and tried again at the next synchronization.
    pub unwritten: u64,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes for {} could not be written: {}", self.unwritten, self.file, self.errno)
    }
}

impl std::error::Error for StreamError {}

/// The limit of a write in a session without a deadline. A pipe that nobody reads must not block the host for ever without an error.
const WRITE_WAIT_MAX: Duration = Duration::from_secs(30);

/// How long the host waits for a write.
pub(super) fn write_wait_max(session: &SessionTables) -> Duration {
    if session.deadline_ns == 0 { WRITE_WAIT_MAX } else { Duration::from_nanos(session.deadline_ns) }
}

/// Writes everything that every open stream accepted. An error does not stop it; the result is the first.
pub(super) fn flush_streams(session: &'static SessionTables) -> Result<(), StreamError> {
    let mut outcome = Ok(());
    for stream in session.streams() {
        // ORDERING: acquire, device, partner `set_up`; no kernel runs, and all that kernels did happened before their threads were joined.
        let open = stream.generation.observe() % 2 == 1;
        if !open || stream.direction() != Direction::Writing {
            continue;
        }
        if !stream.has_plausible_blocks(session) {
            outcome = outcome.and(Err(overwritten()));
        } else if stream.unwritten() > 0 {
            outcome = outcome.and(flush_stream(session, stream));
        }
    }
    outcome
}

/// Of a stream whose entry in the tables is not what calls write: nothing of it is followed.
fn overwritten() -> StreamError {
    StreamError { file: OVERWRITTEN.to_owned(), errno: Errno::IO, unwritten: 0 }
}

const OVERWRITTEN: &str = "a stream whose entry in the session's tables a kernel has overwritten";

/// Puts the events of traces that wait in their writers' pieces into the streams, which are flushed next. An error does not stop it; the result is
/// the first.
pub(super) fn flush_pieces(session: &'static SessionTables) -> Result<(), StreamError> {
    let until = Instant::now() + write_wait_max(session);
    let mut wait = |ring: u32| {
        let queue = &session.queues()[ring as usize];
        if queue.drain_alone(64) > 0 {
            return Ok(());
        }
        if queue.has_failed() {
            return Err(Errno::IO);
        }
        if Instant::now() > until {
            return Err(Errno::TIMEDOUT);
        }
        thread::sleep(Duration::from_micros(20));
        Ok(())
    };
    let mut outcome = Ok(());
    for taken in pieces::take_all(session, &mut wait) {
        outcome = outcome.and(match taken {
            Taken::All => Ok(()),
            Taken::Kept(stream, bytes, errno) => {
                Err(StreamError { file: path_of(session, stream), errno, unwritten: bytes as u64 })
            }
            Taken::Lost(bytes) => Err(StreamError {
                file: "a trace that was closed for lanes that had not closed it themselves".to_owned(),
                errno: Errno::BADF,
                unwritten: bytes as u64,
            }),
        });
    }
    outcome
}

fn flush_stream(session: &'static SessionTables, stream: &Stream) -> Result<(), StreamError> {
    // The next writer takes the lock, and there opens the fast path again or gets the error.
    stream.close_cursor();
    stream.forget_error();
    let until = Instant::now() + write_wait_max(session);
    // Ends: operations in flight complete and are drained here, or the time is up.
    let errno = loop {
        let ring = match stream.flush_step(session, 0) {
            Progress::Done => return Ok(()),
            Progress::Failed(errno) => break errno,
            Progress::Wait(ring) => ring,
            Progress::NoSlot => 0,
        };
        let queue = &session.queues()[ring as usize];
        if queue.drain_alone(64) == 0 {
            if queue.has_failed() {
                stream.fail(Errno::IO);
                break Errno::IO;
            }
            if Instant::now() > until {
                // The next writer sees this, and first waits for operations in flight.
                stream.fail(Errno::TIMEDOUT);
                break Errno::TIMEDOUT;
            }
            thread::sleep(Duration::from_micros(20));
        }
    };
    Err(StreamError { file: path_of(session, stream), errno, unwritten: stream.unwritten() })
}

/// How long the exit handler waits for a stream: for its lock, for room that lanes have reserved, and for its bytes to be written.
const EXIT_WAIT_MAX: Duration = Duration::from_secs(2);

/// Writes what the streams have accepted while lanes run, as one of them: under each stream's lock. For the end of the process: where a lane
/// holds a stream for too long, the ticket that was drawn here stays in its queue, and no caller gets the stream any more.
///
/// # Errors
/// The streams that could not be locked or written.
pub(super) fn flush_as_lane(session: &'static SessionTables) -> Result<(), String> {
    let mut lost = Vec::new();
    for stream in session.streams() {
        // ORDERING: acquire, device, partner `set_up`.
        if stream.generation.observe() % 2 == 1 && stream.direction() == Direction::Writing {
            if !stream.is_plausible(session) {
                lost.push(OVERWRITTEN.to_owned());
                continue;
            }
            let until = Instant::now() + EXIT_WAIT_MAX;
            if let Err(why) = flush_under_lock(session, stream, until) {
                lost.push(format!("{}: {why}", path_of(session, stream)));
            }
        }
    }
    if lost.is_empty() { Ok(()) } else { Err(lost.join("; ")) }
}

fn flush_under_lock(session: &'static SessionTables, stream: &Stream, until: Instant) -> Result<(), String> {
    let own = stream.ring(session);
    let wait = |ring: u32| {
        if session.queues()[ring as usize].drain_alone(64) == 0 {
            thread::sleep(Duration::from_micros(20));
        }
        Instant::now() < until
    };
    let ticket = stream.lock.draw();
    while !stream.lock.is_served(ticket) {
        if !wait(own) {
            return Err("a kernel has the stream, and what it buffered is lost".to_owned());
        }
    }
    stream.close_cursor();
    stream.lines.close();
    while !stream.is_quiet() {
        if !wait(own) {
            return Err(
                "a kernel is in the middle of a call on the stream, and what it buffered is lost".to_owned()
            );
        }
    }
    let outcome = if stream.direction() == Direction::Writing {
        stream.forget_error();
        let mut waited = |ring: u32| if wait(ring) { Ok(()) } else { Err(Errno::TIMEDOUT) };
        let copied = pieces::copy_into(session, stream, own, &mut waited);
        // Ends: operations in flight complete and are drained here, or the time is up.
        loop {
            let ring = match stream.flush_step(session, own) {
                Progress::Done => break copied,
                Progress::Failed(errno) => break Err(errno),
                Progress::Wait(ring) => ring,
                Progress::NoSlot => own,
            };
            if !wait(ring) {
                stream.fail(Errno::TIMEDOUT);
                break Err(Errno::TIMEDOUT);
            }
        }
    } else {
        Ok(())
    };
    let unwritten = stream.unwritten();
    if outcome.is_ok() && stream.direction() == Direction::Writing && stream.buffering() == Buffering::Full {
        stream.open_cursor();
    }
    stream.lock.release();
    outcome.map_err(|errno| format!("{unwritten} bytes could not be written: {errno}"))
}

/// A path for messages.
fn path_of(session: &SessionTables, stream: &Stream) -> String {
    let file = FileIndex(stream.file.peek());
    let descriptor = session.files()[file.0 as usize].descriptor.peek();
    if session.is_confined() {
        // A number of the sandbox's, not of the host's.
        return format!("descriptor {descriptor} of the sandbox");
    }
    fs::read_link(format!("/proc/self/fd/{descriptor}"))
        .map_or_else(|_| format!("descriptor {descriptor}"), |path| path.display().to_string())
}

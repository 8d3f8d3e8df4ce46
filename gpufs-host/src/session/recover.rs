//! Recovery when the device is dead: a fault of a GPU destroys its memory, with the session's tables.
//!
//! The streams' buffers, the rings and the journal are host memory. From them alone the host writes every record whose call had
//! returned (`gpufs_core::journal` has the argument). It makes ordinary system calls, since the rings' bookkeeping is gone. Nothing here
//! reads a table.
//!
//! A device that has faulted may have written anything there. Whatever the bytes are, the host reads the session's memory alone, and ends: a
//! record of a block that no buffer holds is none, a slot that no ring has names no result, and a place beyond all files is `EFBIG`.
#![expect(unsafe_code, reason = "reads memory that the device wrote, and makes system calls")]

#[cfg(test)]
mod tests;
mod writing;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, thread};

use gpufs_core::journal::{Journal, Record};
use gpufs_core::session::{PanicNote, SessionTables, Stall, WaitReason};
use gpufs_core::stream::Token;
use gpufs_core::{Errno, Operation, QueueProgress};

use super::host_journal::{HostJournal, capacity_of};
use super::pieces;
use crate::ring::{Confined, Ring, block_signals};
use writing::write_with_events;

/// A stream that held buffered bytes when the device died.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveredStream {
    /// Where it writes: a path, as far as the system knows one.
    pub file: String,
    /// Bytes that the host has written.
    pub written: u64,
    /// Bytes before others that calls had reserved and not finished: holes in a file with positions, omitted from a trace and from another file.
    pub unfinished: u64,
    /// Bytes of finished calls that could not be written, and are lost.
    pub lost: u64,
    /// The first error: why they are.
    pub errno: Option<Errno>,
}

/// What the host wrote after a device died.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Whether the session kept a journal (`Builder::survives`). If not, all buffered bytes are lost, and their number is not known.
    pub kept: bool,
    /// Streams that had bytes to be written.
    pub streams: Vec<RecoveredStream>,
}

impl Recovery {
    /// Bytes that the host has written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.streams.iter().map(|stream| stream.written).sum()
    }
    /// Bytes of finished calls that are lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.streams.iter().map(|stream| stream.lost).sum()
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.kept {
            return f.write_str("what its streams had buffered is lost, as the session kept no journal");
        }
        write!(
            f,
            "{} bytes that its streams had buffered were written from {} streams",
            self.written(),
            self.streams.len()
        )?;
        for RecoveredStream { file, written: _, unfinished, lost, errno } in &self.streams {
            if *unfinished > 0 {
                write!(f, "; {unfinished} bytes of unfinished calls are missing in {file}")?;
            }
            if let Some(errno) = errno {
                write!(f, "; {lost} bytes for {file} are lost: {errno}")?;
            }
        }
        Ok(())
    }
}

/// Where a wait on the device gave up (`Builder::deadline`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StalledAt {
    /// What was waited for.
    pub reason: WaitReason,
    /// The ring.
    pub ring: u32,
    /// Which of these: an operation's token, a position, a stream's index, a ticket …
    pub object: u64,
    /// How far the ring was then.
    pub progress: QueueProgress,
}

impl StalledAt {
    /// What the device noted, if it did.
    pub(super) fn of(stall: &Stall) -> Option<Self> {
        // ORDERING: acquire, system, partner `Stall::note`.
        let reason = *WaitReason::ALL.get(stall.reason.observe().checked_sub(1)? as usize)?;
        Some(Self {
            reason,
            ring: stall.ring.peek(),
            object: stall.object.peek(),
            progress: stall.progress(),
        })
    }
}

/// What the device noted of a panic, if there was one.
pub(super) fn panicked(note: &PanicNote) -> Option<String> {
    let mut text = [0; PanicNote::BYTES as usize];
    let length = note.copy(&mut text) as usize;
    (length > 0).then(|| String::from_utf8_lossy(&text[..length]).into_owned())
}

impl fmt::Display for StalledAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, ring, object, progress } = self;
        let QueueProgress { tickets, sq_tail, cq_tail, drained, unpublished, orphaned, polled } = progress;
        f.write_str("a wait passed its deadline: ")?;
        match reason {
            WaitReason::Completion if *object != 0 => {
                let Operation { slot, generation } = Operation::from_token(*object);
                write!(f, "the completion of the operation in slot {}, generation {generation}", slot.0)
            }
            WaitReason::Completion => f.write_str("another lane's completion"),
            WaitReason::Slot => f.write_str("a free slot"),
            WaitReason::Staging => write!(f, "a staging buffer for {object} bytes"),
            WaitReason::StreamBlock => write!(f, "a stream's block to be written (at {object})"),
            WaitReason::StreamLock => write!(f, "the lock of stream {object}"),
            WaitReason::StreamFill => {
                write!(f, "other lanes' bytes on their way into a stream, up to {object}")
            }
            WaitReason::FileLock => write!(f, "a file's lock, with ticket {object}"),
            WaitReason::CachedPage => {
                write!(f, "a page of a mapped file, or room for one (page {object:#x})")
            }
            WaitReason::SharedOpen => write!(f, "a shared stream that others open or close (entry {object})"),
        }?;
        write!(
            f,
            " (reason {reason:?}, ring {ring}: {tickets} tickets, SQ tail {sq_tail}, CQ tail {cq_tail}, {drained} drained, \
             {unpublished} draws and commits to publish, {orphaned} of them left to others, {} drains)",
            if *polled == 0 { "nobody" } else { "somebody" }
        )
    }
}

/// A device that died under its session.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fault {
    /// What the device's driver says.
    pub cause: Box<dyn Error + Send + Sync>,
    /// The panic, if that is the cause: the source's file and line, and its message where that is a constant.
    pub panicked: Option<String>,
    /// The wait that gave up, if that is the cause.
    pub stalled: Option<StalledAt>,
    /// What the host wrote.
    pub recovery: Recovery,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        if let Some(stalled) = &self.stalled {
            write!(f, "; {stalled}")?;
        } else if let Some(panicked) = &self.panicked {
            write!(f, "; panicked at {panicked}")?;
        }
        write!(f, "; {}", self.recovery)
    }
}

/// The state of the write that a record names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It ended with this result.
    Done(i32),
    /// The kernel never saw it, and never will.
    Unpublished,
    /// The kernel has it.
    Pending,
}

/// One stream buffer with what it holds.
#[derive(Debug)]
struct SurvivingBlock {
    record: Record,
    /// Where the block's bytes lie.
    address: u64,
    /// Bytes from the block's start that are in the file.
    written: u32,
    /// The whole bytes from there on: disjoint, in order.
    rest: Vec<(u32, u32)>,
    /// The kernel may still be writing it.
    pending: bool,
}

/// Writes what the dead device's streams had accepted. Waits for operations in flight, and for a reader of a full pipe, no longer than
/// `wait_max`. The ring service is busy meanwhile.
///
/// `session` is the host's view, of which only what never changes is used.
pub(super) fn recover(
    session: &SessionTables,
    buffers: u32,
    host_journal: &HostJournal,
    rings: &[Ring],
    confined: Option<&Arc<Confined>>,
    wait_max: Duration,
) -> Recovery {
    if !host_journal.is_enabled() {
        return Recovery::default();
    }
    let until = Instant::now() + wait_max;
    let fate = |token: u64, ticket: Option<u32>| fate_of(host_journal, rings, token, ticket);
    let mut events = pieces::survivors(session);
    let mut streams = BTreeMap::<u32, Vec<SurvivingBlock>>::new();
    for buffer in 0..buffers {
        if let Some(block) = read_block(session, buffer, &fate, until) {
            streams.entry(block.record.stream).or_default().push(block);
        }
    }
    if let Some(confined) = confined {
        // In the family, whose descriptors these are.
        let known = Arc::clone(confined);
        let streams = confined.run(move || {
            let is_known = |descriptor| known.knows(descriptor);
            let work = |blocks| write_with_events(blocks, &mut events, is_known, until);
            streams.into_values().filter_map(work).collect()
        });
        for buffer in 0..buffers {
            session.journal.clear_owner(buffer);
        }
        return Recovery { kept: true, streams };
    }
    // In a thread of its own, whose signals are blocked: writing to a pipe that nobody reads is an error here, and no signal.
    let streams = thread::scope(|scope| {
        let work = || {
            block_signals();
            let work = |blocks| write_with_events(blocks, &mut events, |_| true, until);
            streams.into_values().filter_map(work).collect()
        };
        thread::Builder::new().spawn_scoped(scope, work).map(|work| work.join().unwrap_or_default())
    });
    for buffer in 0..buffers {
        session.journal.clear_owner(buffer);
    }
    // A system that refuses a thread refuses other things as well.
    Recovery { kept: true, streams: streams.unwrap_or_default() }
}

/// The content of a buffer, once the write in flight has ended; `None` if no stream has it.
fn read_block(
    session: &SessionTables,
    buffer: u32,
    fate: &dyn Fn(u64, Option<u32>) -> Fate,
    until: Instant,
) -> Option<SurvivingBlock> {
    let journal = &session.journal;
    // SAFETY:
    // - the device is dead
    let (record, epoch, ticket) = unsafe { journal.in_force(buffer) }?;
    if record.stream == 0 || record.block_shift() > journal.shift {
        return None;
    }
    let mut written = record.written;
    let mut pending = false;
    if record.token != 0 {
        let fate = loop {
            match fate(record.token, ticket) {
                Fate::Pending if Instant::now() < until => thread::sleep(Duration::from_micros(100)),
                fate => break fate,
            }
        };
        match fate {
            // A write that failed is tried again below, which meets the error.
            Fate::Done(result) => {
                let count = u32::try_from(result).unwrap_or(0);
                written = record.filled.min(written.saturating_add(count));
            }
            Fate::Unpublished => {}
            Fate::Pending => pending = true,
        }
    }
    let rest = whole_from(journal, buffer, epoch, &record, written);
    Some(SurvivingBlock { record, address: session.stream_buffers.address(buffer), written, rest, pending })
}

/// The state of the operation with this token. `ticket`: the ticket that was drawn for it, if one was (`gpufs_core::journal`, "The write
/// in flight").
fn fate_of(host_journal: &HostJournal, rings: &[Ring], token: u64, ticket: Option<u32>) -> Fate {
    let (index, operation) = Token::from_word(token).parts();
    let Some(ring) = rings.get(index as usize) else { return Fate::Unpublished };
    if operation.slot.0 >= capacity_of(&ring.parts(), true) {
        return Fate::Unpublished;
    }
    let kept = host_journal.result(index, operation.slot.0);
    if kept >> 32 == u64::from(operation.generation) {
        #[allow(clippy::cast_possible_truncation, reason = "the low half is the result")]
        return Fate::Done((kept as u32).cast_signed());
    }
    if let Some(result) = ring.completion_of(operation.token() | Operation::JOURNALED) {
        return Fate::Done(result);
    }
    let (sq_tail, _) = ring.tails();
    match ticket {
        Some(ticket) if ticket.wrapping_sub(sq_tail).cast_signed() < 0 => Fate::Pending,
        _ => Fate::Unpublished,
    }
}

/// The result of the operation that opened a file, if it is complete (`gpufs_core::journal`, "The open in flight").
pub(super) fn result_of(host_journal: &HostJournal, rings: &[Ring], token: u64) -> Option<i32> {
    match fate_of(host_journal, rings, token, None) {
        Fate::Done(result) => Some(result),
        Fate::Unpublished | Fate::Pending => None,
    }
}

/// The bytes of a block that are whole and not yet in the file.
fn whole_from(journal: &Journal, buffer: u32, epoch: u64, record: &Record, written: u32) -> Vec<(u32, u32)> {
    // ORDERING: acquire, system, partner `Journal::enter`: the entry's bytes come before.
    let entries = journal.entries(buffer).iter().filter_map(|entry| journal.whole(entry.observe(), epoch));
    let mut ranges: Vec<(u32, u32)> = entries.chain([(0, record.filled)]).collect();
    ranges.sort_unstable();
    let block_bytes = 1 << record.block_shift();
    let mut rest: Vec<(u32, u32)> = Vec::new();
    for (start, end) in ranges {
        let (start, end) = (start.max(written), end.min(block_bytes));
        match rest.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ if start < end => rest.push((start, end)),
            _ => {}
        }
    }
    rest
}

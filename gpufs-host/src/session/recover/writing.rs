//! Writing what survived of a stream: its blocks, and behind them the events that waited in pieces of it.

use std::collections::BTreeMap;
use std::time::Instant;
use std::{fs, io, ptr};

use gpufs_core::Errno;
use gpufs_core::journal::Record;
use gpufs_core::pieces::cut_bytes;

use super::{RecoveredStream, SurvivingBlock};

/// [`write_stream`], and behind that the `events` that waited in pieces of the same stream.
pub(super) fn write_with_events(
    blocks: Vec<SurvivingBlock>,
    events: &mut BTreeMap<(u32, u32, i32), Vec<u8>>,
    is_known: impl Fn(i32) -> bool,
    until: Instant,
) -> Option<RecoveredStream> {
    let Record { stream, generation, descriptor, .. } = blocks[0].record;
    let written = write_stream(blocks, &is_known, until);
    let Some(bytes) = events.remove(&(stream, generation, descriptor)) else { return written };
    let file = path_of(descriptor);
    let mut written =
        written.unwrap_or(RecoveredStream { file, written: 0, unfinished: 0, lost: 0, errno: None });
    // Behind all that is whole there; what has no positions takes them as they come.
    let end = fs::metadata(format!("/proc/thread-self/fd/{descriptor}")).ok();
    let end = end.filter(fs::Metadata::is_file).map(|file| file.len());
    let end = end.map(|end| if is_known(descriptor) { without_cut(descriptor, end) } else { end });
    let (count, outcome) = if is_known(descriptor) {
        write_all(descriptor, (bytes.as_ptr() as u64, bytes.len() as u64), end, until)
    } else {
        (0, Err(Errno::BADF))
    };
    written.written += count;
    written.lost += bytes.len() as u64 - count;
    written.errno = written.errno.or(outcome.err());
    Some(written)
}

/// A path, as far as the system knows one.
fn path_of(descriptor: i32) -> String {
    fs::read_link(format!("/proc/thread-self/fd/{descriptor}"))
        .map_or_else(|_| format!("descriptor {descriptor}"), |path| path.display().to_string())
}

/// Writes what one stream's blocks hold; `None` if that is nothing. Nothing is written to a descriptor that is not `is_known`.
pub(super) fn write_stream(
    mut blocks: Vec<SurvivingBlock>,
    is_known: impl Fn(i32) -> bool,
    until: Instant,
) -> Option<RecoveredStream> {
    blocks.sort_unstable_by_key(|block| block.record.block_number);
    if blocks.iter().all(|block| block.rest.is_empty()) {
        return None;
    }
    let descriptor = blocks[0].record.descriptor;
    let (serial, ordered) = (blocks[0].record.is_serial(), blocks[0].record.is_ordered());
    let mut omitted = Omitted::default();
    let file = path_of(descriptor);
    let mut stream =
        RecoveredStream { file, written: 0, unfinished: unfinished(&blocks), lost: 0, errno: None };
    for block in &blocks {
        if ordered {
            let _ = omitted.pass(&block.record, (0, block.written));
        }
        for &(start, end) in &block.rest {
            if ordered && omitted.pass(&block.record, (start, end)) && is_known(descriptor) {
                omitted.bytes =
                    omitted.bytes.saturating_add(cut_before(descriptor, &block.record, start, omitted.bytes));
            }
            let bytes = u64::from(end - start);
            // Bytes out of order are worse than missing bytes.
            if serial && (stream.errno.is_some() || block.pending) {
                stream.errno = stream.errno.or(Some(Errno::TIMEDOUT));
                stream.lost += bytes;
                continue;
            }
            let address = block.address + u64::from(start);
            let offset = match place_in_file(&block.record, (start, end)) {
                _ if serial => Ok(None),
                place => place.map(|place| Some(place.saturating_sub(omitted.bytes))),
            };
            let (written, outcome) = match offset {
                _ if !is_known(descriptor) => (0, Err(Errno::BADF)),
                Ok(offset) => write_all(descriptor, (address, bytes), offset, until),
                Err(errno) => (0, Err(errno)),
            };
            stream.written += written;
            stream.lost += bytes - written;
            stream.errno = stream.errno.or(outcome.err());
        }
    }
    Some(stream)
}

/// What is not there of a stream whose writes began in order. Nothing behind it is in the file, and what is goes where it would begin.
#[derive(Debug, Default)]
struct Omitted {
    /// Where the bytes end that were passed.
    end: Option<u64>,
    bytes: u64,
}

impl Omitted {
    /// The next bytes that are there; whether some before them are not.
    fn pass(&mut self, record: &Record, (start, end): (u32, u32)) -> bool {
        let before = self.bytes;
        if start < end {
            let [start, end] = [start, end].map(|inside| record.offset.saturating_add(inside.into()));
            let gap = start.saturating_sub(self.end.unwrap_or(record.offset));
            self.bytes = self.bytes.saturating_add(gap);
            self.end = Some(end);
        }
        self.bytes != before
    }
}

/// Bytes of the packet of a trace that ends too early in front of a block's byte `start`, of which `omitted` are not there.
fn cut_before(descriptor: i32, record: &Record, start: u32, omitted: u64) -> u64 {
    let end = record.offset.saturating_add(start.into()).saturating_sub(omitted);
    cut_bytes_at(descriptor, end)
}

/// Bytes of the packet of a trace that `end` cuts in the file, as far as the file can be read.
fn cut_bytes_at(descriptor: i32, end: u64) -> u64 {
    /// So much tells where packets begin.
    const LOOK_BYTES: u64 = 64 << 10;
    let from = end.saturating_sub(LOOK_BYTES).next_multiple_of(8);
    let mut bytes = vec![0; to_usize(end.saturating_sub(from))];
    let read = fs::File::open(format!("/proc/thread-self/fd/{descriptor}"))
        .and_then(|file| std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, from));
    if read.is_err() || !bytes.len().is_multiple_of(8) {
        return 0;
    }
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    cut_bytes(&words) as u64
}

/// Takes the packet from a trace of so many bytes that its end cuts; how many are left.
fn without_cut(descriptor: i32, end: u64) -> u64 {
    let whole = end - cut_bytes_at(descriptor, end);
    // What is written over it may be shorter than it is.
    // SAFETY:
    // - a descriptor's number and a length, of no memory
    if whole < end && unsafe { libc::ftruncate(descriptor, whole.cast_signed()) } != 0 {
        return end;
    }
    whole
}

/// Where in the file these bytes of a block begin.
///
/// # Errors
/// `EFBIG` where no file is so long.
fn place_in_file(record: &Record, (start, end): (u32, u32)) -> Result<u64, Errno> {
    match record.offset.checked_add(end.into()) {
        Some(end) if end <= i64::MAX.cast_unsigned() => Ok(record.offset + u64::from(start)),
        _ => Err(Errno::FBIG),
    }
}

/// Bytes of a stream's blocks that lie before others and are not whole.
fn unfinished(blocks: &[SurvivingBlock]) -> u64 {
    let position = |block: &SurvivingBlock, inside: u32| {
        (u128::from(block.record.block_number) << block.record.block_shift()) + u128::from(inside)
    };
    let end = blocks
        .iter()
        .filter_map(|block| block.rest.last().map(|(_, end)| position(block, *end)))
        .max()
        .unwrap_or(0);
    blocks
        .iter()
        .map(|block| {
            let block_bytes = 1 << block.record.block_shift();
            let inside = end.saturating_sub(position(block, 0)).min(block_bytes);
            let inside = u64::try_from(inside).unwrap_or(0);
            let whole: u64 = block.rest.iter().map(|(start, end)| u64::from(end - start)).sum();
            inside.saturating_sub(u64::from(block.written) + whole)
        })
        .sum()
}

/// `write(2)`, or `pwrite(2)` at `offset`, of all these bytes: how many were, and why not all.
fn write_all(
    descriptor: i32,
    (address, bytes): (u64, u64),
    offset: Option<u64>,
    until: Instant,
) -> (u64, Result<(), Errno>) {
    let most = if may_block(descriptor) { libc::PIPE_BUF as u64 } else { bytes };
    let mut done = 0;
    // Ends: each round writes, fails, is interrupted, or waits, of which `until` is the end.
    while done < bytes {
        if let Err(errno) = wait_writable(descriptor, until) {
            return (done, Err(errno));
        }
        let from = ptr::with_exposed_provenance::<libc::c_void>(to_usize(address + done));
        let count = to_usize(most.min(bytes - done));
        let result = match offset {
            // SAFETY:
            // - the bytes lie in a stream buffer of the session, which is alive; nothing writes them any more
            Some(offset) => unsafe { libc::pwrite(descriptor, from, count, (offset + done).cast_signed()) },
            // SAFETY:
            // - as above
            None => unsafe { libc::write(descriptor, from, count) },
        };
        match u64::try_from(result) {
            Ok(0) => return (done, Err(Errno::IO)),
            Ok(count) => done += count,
            Err(_) => match last_errno() {
                Errno::INTR | Errno::AGAIN => {}
                errno => return (done, Err(errno)),
            },
        }
    }
    (done, Ok(()))
}

/// Whether a write may wait for a reader: of anything except a regular file. A pipe that `poll` calls writable takes `PIPE_BUF` bytes.
fn may_block(descriptor: i32) -> bool {
    // SAFETY:
    // - `stat` is plain numbers, and fstat fills it
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY:
    // - `stat` is valid for writing
    let known = unsafe { libc::fstat(descriptor, &raw mut stat) } == 0;
    !known || stat.st_mode & libc::S_IFMT != libc::S_IFREG
}

/// Waits until the descriptor can be written, or has an error for the write to meet.
fn wait_writable(descriptor: i32, until: Instant) -> Result<(), Errno> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
        let timeout = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
        // SAFETY:
        // - one entry, alive for the call
        match unsafe { libc::poll(&raw mut poll, 1, timeout) } {
            0 => return Err(Errno::TIMEDOUT),
            count if count < 0 && last_errno() == Errno::INTR => {}
            _ => return Ok(()),
        }
    }
}

fn last_errno() -> Errno {
    Errno::from_number(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

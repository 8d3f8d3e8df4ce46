//! A fuzz target: recovery from a journal and completions that are any bytes. The host must read and write its session's memory alone, and end.
#![expect(unsafe_code, reason = "writes what a device writes")]

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpufs_core::abi::Cqe;
use gpufs_core::journal::{Journal, Record};
use gpufs_core::kernel::Kernel;
use gpufs_core::session::SessionTables;

use super::{Backend, Builder, Recovery, Session, SyncError};
use crate::cpu::Grid;
use crate::gpu::fake::{Fake, State};
use crate::ring::Mode;

/// What a stream's buffers hold.
const FILLING: u8 = b'B';
/// A number of no descriptor.
const NO_DESCRIPTOR: i32 = 1 << 20;
/// How long recovery may take in all: its own limit, and much for a machine that is busy.
const MOST: Duration = Duration::from_secs(20);

struct Any;

// SAFETY:
// - no device program here has it
// - it does nothing
unsafe impl Kernel for Any {
    const NAME: &'static std::ffi::CStr = c"any";
    type Arguments = u64;
    fn run(_: &'static SessionTables, _: u64) {}
}

/// Input as a source of numbers, which are 0 behind its end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let (taken, rest) = self.0.split_at(N.min(self.0.len()));
        array[..taken.len()].copy_from_slice(taken);
        self.0 = rest;
        array
    }
    fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }
    fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }
    fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
    /// Small numbers, numbers around a power of two, or any.
    fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..128 => small.into(),
            power @ 128..192 => (1u64 << (power - 128)) - u64::from(self.byte() & 1),
            _ => self.long(),
        }
    }
}

/// Lets a device die that has left what `data` says, and recovers.
///
/// # Panics
/// If recovery writes what was never a stream's, more than there is, or takes too long.
#[cfg_attr(not(fuzzing), expect(unreachable_pub, reason = "public where it is fuzzed"))]
pub fn recovery(data: &[u8]) {
    let gpu = Arc::new(Fake::default());
    // The least that a session takes.
    let builder = Builder::default()
        .mode(Mode::Threads)
        .rings(1)
        .ring_entries(128)
        .stream_buffer(4096)
        .blocks_per_stream(1)
        .buffers(128 << 10)
        .files(16)
        .streams(8)
        .assembly(0)
        .survives(true)
        .report_failures(false)
        .report_fallback(false)
        .deadline(Duration::from_millis(2));
    let mut session = Session::open(&builder, Backend::Gpu(gpu.clone())).expect("a session on threads");
    let outputs = Outputs::new();
    session.start::<Any>(Grid { blocks: 1, threads: 1 }, 0).expect("a kernel");
    gpu.end(1, State::Faulted);
    let bytes = {
        let mut entered = session.live.enter().expect("this process");
        let body = &mut *entered;
        let host = body.tables.host;
        // SAFETY:
        // - the streams' buffers, which nothing else uses
        unsafe {
            std::ptr::with_exposed_provenance_mut::<u8>(usize::try_from(host.stream_buffers.base).unwrap())
                .write_bytes(FILLING, body.memory.stream_bytes);
        }
        scribble(host, body, &outputs, &mut Bytes(data));
        body.memory.stream_bytes as u64
    };
    let begun = Instant::now();
    let Err(SyncError::Fault(fault)) = session.synchronize() else { panic!("a fault") };
    let text = fault.to_string();
    assert!(text.contains("the session") || text.contains("buffered"), "{text}");
    drop(session);
    assert!(begun.elapsed() < MOST, "recovery takes {:?}", begun.elapsed());
    outputs.check(&fault.recovery, bytes);
}

/// Writes the journal, the kept results and the completions as the bytes say.
fn scribble(host: &SessionTables, body: &super::Body, outputs: &Outputs, bytes: &mut Bytes<'_>) {
    let journal: &Journal = &host.journal;
    let buffers = u32::try_from(body.memory.stream_bytes).unwrap() / host.stream_buffers.buffer_bytes;
    let opens = bytes.byte().is_multiple_of(4);
    // Ends: each round takes a byte.
    while !bytes.0.is_empty() {
        match bytes.byte() % 6 {
            0 | 1 => {
                let buffer = u32::from(bytes.byte()) % buffers;
                let record = record(outputs, bytes);
                let place = journal.place(buffer).expect("it survives");
                let epoch = bytes.number().max(1);
                for record_cell in &place.records {
                    // SAFETY:
                    // - no other thread uses the journal
                    unsafe { record_cell.write(record) };
                }
                place.epoch.publish(epoch);
                if bytes.byte() & 1 == 1 {
                    place.ticket.publish(epoch << 32 | u64::from(bytes.word()));
                } else {
                    place.ticket.publish(bytes.long());
                }
            }
            2 => {
                let entries = journal.entries(u32::from(bytes.byte()) % buffers);
                let epoch = bytes.number();
                let span = bytes.long() & ((1 << (2 * journal.shift)) - 1);
                let at = bytes.word() as usize % entries.len();
                entries[at].publish(journal.entry_epoch(epoch) << (2 * journal.shift) | span);
            }
            3 => {
                let parts = body.rings[0].parts();
                let index = bytes.word() as usize % parts.cq_entries as usize;
                let (user_data, mut res) = (bytes.number(), bytes.word().cast_signed());
                if opens && res >= 0 {
                    // It may be taken for a descriptor that was opened, and closed.
                    res |= NO_DESCRIPTOR;
                }
                // SAFETY:
                // - an entry of the ring, below its count; nothing is in flight
                let cell = unsafe { &*parts.cqes.wrapping_add(index) };
                // SAFETY:
                // - as above
                unsafe { cell.write(Cqe { user_data, res, flags: 0 }) };
            }
            4 => {
                let results = body.host_journal.results[0];
                let slot = bytes.byte() as usize % 32;
                // SAFETY:
                // - one for each slot, of which there are more
                unsafe { &*results.wrapping_add(slot) }
                    .publish(bytes.number() << 32 | bytes.number() & 0xffff_ffff);
            }
            _ if opens => {
                let index = u32::from(bytes.byte()) % 16;
                // SAFETY:
                // - one word for each of 16 files
                let word = unsafe { &*journal.files.wrapping_add(index as usize) };
                let number = u64::from(bytes.word()) | u64::from(NO_DESCRIPTOR.cast_unsigned());
                word.publish(number | bytes.number() << 32);
            }
            _ => {}
        }
    }
}

fn record(outputs: &Outputs, bytes: &mut Bytes<'_>) -> Record {
    let descriptor = match bytes.byte() % 6 {
        0 | 1 => outputs.file.as_raw_fd(),
        2 | 3 => outputs.writer.as_raw_fd(),
        4 => NO_DESCRIPTOR,
        _ => bytes.word().cast_signed() | i32::MIN,
    };
    let order =
        [0, Record::SERIAL, Record::ORDERED, Record::SERIAL | Record::ORDERED][usize::from(bytes.byte() & 3)];
    let shift = match bytes.byte() {
        usual @ 0..192 => u32::from(usual) % 13,
        _ => bytes.word() & !Record::SERIAL,
    };
    #[expect(clippy::cast_possible_truncation, reason = "any number will do")]
    let mut word = || bytes.number() as u32;
    let (written, filled, stream) = (word(), word(), word());
    Record {
        block_number: bytes.number(),
        offset: bytes.number(),
        token: bytes.number(),
        written,
        filled,
        descriptor,
        shape: shift | order,
        stream,
        generation: 0,
    }
}

/// Where recovery may write.
struct Outputs {
    file: File,
    reader: io::PipeReader,
    writer: io::PipeWriter,
}

impl Outputs {
    fn new() -> Self {
        let name = format!("gpufs-fuzz-recovery-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.expect("a file for the test");
        // Without a name it goes with the process.
        fs::remove_file(&path).expect("it was just made");
        let (reader, writer) = io::pipe().expect("a pipe");
        Self { file, reader, writer }
    }

    /// All that was written is of the streams' buffers, and no more than they hold.
    fn check(mut self, recovery: &Recovery, most: u64) {
        assert!(recovery.kept && recovery.written() <= most, "{} of {most} bytes", recovery.written());
        let mut bytes = vec![0; 1 << 20];
        let count = self.file.read_at(&mut bytes, 0).expect("the file");
        let foreign = bytes[..count].iter().filter(|byte| **byte != 0 && **byte != FILLING).count();
        assert_eq!(foreign, 0, "bytes in the file that no stream had");
        drop(self.writer);
        let mut bytes = Vec::new();
        self.reader.read_to_end(&mut bytes).expect("the pipe");
        assert!(bytes.iter().all(|byte| *byte == FILLING), "bytes in the pipe that no stream had");
    }
}

#[cfg(test)]
mod tests {
    use super::recovery;

    /// The corpus, and bytes from a generator: `GPUFS_FUZZ_CASES` of them.
    #[test]
    fn recovery_from_any_bytes() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/recovery");
        let entries =
            std::fs::read_dir(corpus).expect("the corpus").map(|entry| entry.expect("an entry").path());
        for path in entries {
            recovery(&std::fs::read(path).expect("an input"));
        }
        let cases = std::env::var("GPUFS_FUZZ_CASES").map_or(400, |text| text.parse().expect("a number"));
        let mut state = 1u64;
        let mut next = || {
            // xorshift64 (Marsaglia 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for case in 0..cases {
            let length = next() % 600;
            let input: Vec<u8> = (0..length).map(|_| (next() >> 24) as u8).collect();
            if let Err(panic) = std::panic::catch_unwind(|| recovery(&input)) {
                eprintln!("case {case}: {input:02x?}");
                std::panic::resume_unwind(panic);
            }
        }
    }
}

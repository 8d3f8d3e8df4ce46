//! Lines that hold a string or a byte of a class, in many files, as `grep -F` finds and prints them.
//!
//! A warp draws as many files as it has lanes. Each lane opens one, reads its beginning and looks for the first match there, alone.
//! Most files end here. Those with a match, and those that are longer, the whole warp searches one after the other: a lane takes
//! the lines that begin in its slice of the text. What is found goes to the warp's output buffer, and from there to the standard
//! output when the files before have been printed.
//!
//! Files are drawn in order, and who has drawn the lowest of those under way has the turn, so it waits for nobody and the turn moves on.
//!
//! | differs from GNU grep 3.8 | how |
//! |---|---|
//! | where a file that turns binary after its first 96 KiB stops being text | at a multiple of 96 KiB; grep's reads are at times some pages shorter |
//! | files with holes | are read; grep looks for the hole, and calls the whole file binary |
//! | pipes, terminals | "Illegal seek": files are read at offsets |

mod file;
mod names;
mod needle;
mod output;
#[cfg(any(test, target_arch = "nvptx64", target_arch = "amdgpu"))]
mod rare;
mod text;

use gpufs_core::word::DeviceWord;
use gpufs_device::file::{Descriptor, O_RDONLY};
use gpufs_device::kernel::{Portable, Shared};
use gpufs_device::warp::Lanes;
use gpufs_device::{Errno, Fs, calling, kernel, portable};

use self::output::write;
use self::text::Searcher;
use super::{Part, Parts};

pub use names::Names;
pub use needle::{LONGEST_NEEDLE, Needle};

/// Text that is read, and judged text or binary, at once: GNU grep's buffer.
pub const STRETCH_BYTES: usize = 96 << 10;
/// The beginning of a file that a lane reads for itself.
pub const START_BYTES: usize = 32 << 10;
/// A stretch and the line that began before it.
const WINDOW_BYTES: usize = STRETCH_BYTES + LONGEST_NEEDLE;
/// What a warp finds until it has to wait for its turn.
const OUTPUT_BYTES: usize = 64 << 10;

/// What to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Show {
    /// The lines that match.
    Lines,
    /// For each file, how many.
    Counts,
    /// The names of the files that have one.
    Names,
}

#[allow(unsafe_code, reason = "a promise about a layout")]
// SAFETY:
// - a number, by its `repr`
unsafe impl Portable for Show {}

portable! {
    /// What the host places for the kernel.
    pub struct Job {
        /// The files to search.
        pub names: Names,
        /// What to print.
        pub show: Show,
        /// Whether lines get their numbers: 1 or 0.
        pub numbered: u32,
        /// Whether lines and counts get their file's name: 1 or 0.
        pub named: u32,
        /// A part of [`part_bytes`] for each warp. Warps for which there is none leave the work to the others.
        pub memory: Parts,
        /// The next file to draw, or more.
        pub next: DeviceWord,
        /// The file whose turn it is to be printed.
        pub turn: DeviceWord,
        /// 1 when a line matched.
        pub matched: DeviceWord,
        /// 1 when a file could not be read.
        pub failed: DeviceWord,
        /// The errno of a write to the standard output that failed; 0 if none did. Then all stop.
        pub output_errno: DeviceWord,
        /// What to look for.
        pub needle: Needle,
    }
}

impl Job {
    fn is_numbered(&self) -> bool {
        self.numbered == 1
    }
    fn is_named(&self) -> bool {
        self.named == 1
    }
}

/// Memory for one warp of `width` lanes, in bytes.
#[must_use]
pub const fn part_bytes(width: u32) -> usize {
    width as usize * START_BYTES + WINDOW_BYTES + OUTPUT_BYTES
}

/// A warp at work, the same in all its lanes.
struct Warp<'a> {
    fs: Fs,
    job: &'a Job,
    lanes: Lanes,
    /// ```text
    /// | beginnings, one for each lane | window | output |
    /// ```
    memory: Part<'a>,
    searcher: Searcher<'a>,
    /// The first file of the batch.
    first: u32,
    /// Whether the files before it have been printed.
    has_turn: bool,
    /// Bytes in the output buffer.
    pending: usize,
}

/// What is left to say of a lane's file at its turn, on the standard error.
#[derive(Clone, Copy, Debug)]
enum Remark {
    Nothing,
    Failed(Errno),
    BinaryMatches,
}

kernel! {
    /// Searches all files. Any grid.
    pub fn search(fs: Fs, job: Shared<Job>) {
        let job = job.get(fs);
        let lanes = calling!();
        let part = if lanes.is_leader() { job.memory.claim() } else { None };
        let address = lanes.from_leader(part.map_or(0, |part| part.address()));
        if address == 0 {
            return;
        }
        #[allow(unsafe_code, reason = "memory that lanes share")]
        // SAFETY:
        // - the leader claimed the part just now
        let memory = unsafe { Part::shared(&job.memory, address) };
        let searcher = Searcher::new(&job.needle);
        let mut warp = Warp { fs, job, lanes, memory, searcher, first: 0, has_turn: false, pending: 0 };
        // Ends: each round draws files.
        while warp.draw() {
            warp.batch();
            warp.end_turn();
        }
    }
}

impl Warp<'_> {
    /// Draws the next files; whether there are any. Convergent.
    fn draw(&mut self) -> bool {
        let lanes = self.lanes;
        // ORDERING: relaxed: the number is the claim.
        let first = if lanes.is_leader() { self.job.next.draw(lanes.count()) } else { 0 };
        #[allow(clippy::cast_possible_truncation, reason = "32 bits went in")]
        let first = lanes.from_leader(u64::from(first)) as u32;
        self.first = first;
        self.has_turn = false;
        first < self.job.names.count() && !self.is_stopped()
    }

    /// Whether nothing more can be printed. Convergent.
    fn is_stopped(&self) -> bool {
        self.lanes.any(self.job.output_errno.peek() != 0)
    }

    /// Searches a file for each lane and prints what is found. Convergent.
    fn batch(&mut self) {
        let (fs, job, lanes) = (self.fs, self.job, self.lanes);
        let mine = self.first + lanes.rank();
        let exists = mine < job.names.count();
        // Each lane for itself.
        let file = if exists { Some(fs.open(job.names.get(mine), O_RDONLY, 0)) } else { None };
        let (descriptor, start) = match file {
            Some(Ok(descriptor)) => (Some(descriptor), self.read_start(descriptor)),
            Some(Err(errno)) => (None, Err(errno)),
            None => (None, Ok(0)),
        };
        let mut remark = match start {
            Err(errno) => Remark::Failed(errno),
            Ok(_) => Remark::Nothing,
        };
        let bytes = start.unwrap_or(0);
        let is_long = bytes == START_BYTES;
        let concerns_all = descriptor.is_some()
            && (job.show == Show::Counts || is_long || self.searcher.is_in(self.start(lanes.rank(), bytes)));
        // All lanes together, one file after the other.
        for lane in lanes.ballot(concerns_all).iter() {
            #[allow(clippy::cast_possible_truncation, reason = "32 bits went in")]
            let descriptor = lanes.broadcast(descriptor.map_or(0, |file| u64::from(file.0)), lane) as u32;
            #[allow(clippy::cast_possible_truncation, reason = "below START_BYTES")]
            let bytes = lanes.broadcast(bytes as u64, lane) as usize;
            let rank = lanes.mask().rank(lane);
            let name = job.names.get(self.first + rank);
            let outcome = self.file(name, Descriptor(descriptor), rank, bytes);
            if lanes.lane() == lane && !matches!(outcome, Remark::Nothing) {
                remark = outcome;
            }
        }
        if let Some(descriptor) = descriptor {
            // Nothing was written to it.
            let _ = fs.close(descriptor);
        }
        self.print_pending();
        for lane in lanes.mask().iter() {
            if lanes.lane() == lane {
                self.print_remark(mine, remark);
            }
            lanes.sync();
        }
    }

    /// Says on the standard error what is left to say. One lane, whose warp has the turn.
    fn print_remark(&self, file: u32, remark: Remark) {
        let text = match remark {
            Remark::Nothing => return,
            Remark::Failed(errno) => {
                self.job.failed.set(1);
                errno.text()
            }
            Remark::BinaryMatches => "binary file matches",
        };
        // Without printf, whose conversions would be most of the device program.
        let name = self.job.names.get(file).to_bytes();
        for piece in [b"grep: ", name, b": ", text.as_bytes(), b"\n"] {
            // Nobody is left to hear of an error here.
            let _ = write(self.fs.stderr(), piece);
        }
    }
}

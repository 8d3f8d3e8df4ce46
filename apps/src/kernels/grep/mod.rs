//! Finds the lines of many files that contain a string, or a byte of a class, and prints them as `grep -F` does.
//!
//! The host divides the files, by their lengths, into *units*: a piece of a long file, or several short files. Warps draw units in order, so
//! that all warps work on one large file as on many small ones. A warp reads the text into its own memory, and each lane searches a slice.
//! After the search, each unit passes the state of the file to the next one: the number of lines, and whether the line that goes on matches.
//! A warp collects its output in a buffer, and prints it once the units before have printed.
//!
//! | file | |
//! |---|---|
//! | `units.rs` | how work is divided, and the tables |
//! | `order.rs` | what one unit passes to the next, and whose turn it is to print |
//! | `piece.rs`, `batch.rs` | a unit: of a long file, of short ones |
//! | `file.rs` | a text in memory: reading it, printing its lines |
//! | `lines.rs` | the lines that a lane prints |
//! | `survey.rs` | what each lane finds in its slice, and how a warp combines it |
//! | `text.rs`, `rare.rs`, `wide.rs` | searching by one lane |
//! | `output.rs` | the output buffer |
//! | `gather.rs` | the output of many units in one write |
//!
//! | differs from GNU grep 3.8 | how |
//! |---|---|
//! | where a file that turns binary after its first 96 KiB stops being text | at a multiple of 96 KiB; grep's reads are at times some pages shorter |
//! | files with holes | are read; grep looks for the hole, and calls the whole file binary |
//! | pipes, terminals | "Illegal seek": files are read at offsets |

mod batch;
mod file;
mod gather;
mod lines;
mod names;
mod needle;
mod order;
mod output;
mod piece;
#[cfg(any(test, target_arch = "nvptx64", target_arch = "amdgpu"))]
mod rare;
mod survey;
mod text;
pub mod units;
#[cfg(any(test, target_arch = "nvptx64", target_arch = "amdgpu"))]
mod wide;

use gpufs_core::word::DeviceWord;
use gpufs_device::kernel::{Portable, Shared};
use gpufs_device::warp::Lanes;
use gpufs_device::{Errno, Fs, calling, kernel, portable};

use self::text::Searcher;
use self::units::Units;
use super::{Part, Parts};

pub use gather::Gather;
pub use names::Names;
pub use needle::{NEEDLE_BYTES_MAX, Needle};

/// Text that is judged text or binary at once: GNU grep's buffer.
pub const STRETCH_BYTES: usize = 96 << 10;
/// A piece of a long file: whole stretches.
pub const PIECE_BYTES: usize = 3 * STRETCH_BYTES;
/// Shorter files are searched several at a time.
pub const SHORT_BYTES: usize = 32 << 10;
/// The default size of a warp's output buffer. It is small, because on CPU lanes few warps run at a time, and small buffers stay in the caches.
pub const OUTPUT_BYTES: usize = 64 << 10;
/// The least memory for texts: it holds a short file and the room it needs.
const TEXT_BYTES_MIN: usize = 64 << 10;

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

#[expect(unsafe_code, reason = "a promise about a layout")]
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
        /// How the files are divided.
        pub units: Units,
        /// Bytes of a piece of a long file.
        pub piece: u32,
        /// Bytes of a match beyond its first.
        pub reach: u32,
        /// Bytes of output that a warp buffers until its turn. A warp whose buffer is full waits for its turn before it searches on.
        pub output: u32,
        /// A part of [`part_bytes`] for each warp. A warp that gets none returns, and the others do the work.
        pub memory: Parts,
        /// The next unit to draw, or more.
        pub next: DeviceWord,
        /// 1 when a line matched.
        pub matched: DeviceWord,
        /// 1 when a file could not be read.
        pub failed: DeviceWord,
        /// The errno of a write to the standard output that failed; 0 if none did. Then all stop.
        pub output_errno: DeviceWord,
        /// Where the output of many units comes together.
        pub gather: Gather,
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
    const fn piece_bytes(&self) -> usize {
        self.piece as usize
    }
    /// Bytes that are read for a piece: also those of the next piece that a match may reach, at least one, which shows whether the file goes on.
    const fn wanted_bytes(&self) -> usize {
        wanted_bytes(self.piece, self.reach)
    }
    const fn output_bytes(&self) -> usize {
        self.output as usize
    }
    /// Memory for texts.
    const fn text_bytes(&self) -> usize {
        text_bytes(self.piece, self.reach)
    }
}

const fn wanted_bytes(piece: u32, reach: u32) -> usize {
    piece as usize + if reach > 1 { reach as usize } else { 1 }
}

/// Memory of a warp for texts, in bytes: for a piece, or for short files.
#[must_use]
pub const fn text_bytes(piece: u32, reach: u32) -> usize {
    let bytes = wanted_bytes(piece, reach).next_multiple_of(4096);
    if bytes < TEXT_BYTES_MIN { TEXT_BYTES_MIN } else { bytes }
}

/// Memory for one warp, in bytes.
#[must_use]
pub const fn part_bytes(piece: u32, reach: u32, output: u32) -> usize {
    // A multiple of the word size: all parts are aligned if the first is.
    text_bytes(piece, reach) + (output as usize).next_multiple_of(16)
}

/// A warp at work, the same in all its lanes.
struct Warp<'a> {
    fs: Fs,
    job: &'a Job,
    lanes: Lanes,
    /// ```text
    /// | texts | output |
    /// ```
    memory: Part<'a>,
    searcher: Searcher<'a>,
    /// The unit's number.
    unit: u32,
    /// The last unit before it that has output, plus 1; 0: none has.
    loud_before: u32,
    /// Whether this unit has output, or may have.
    is_loud: bool,
    /// Whether the output before it has been printed.
    has_turn: bool,
    /// Bytes in the output buffer.
    pending: usize,
}

/// A message about a file, for the standard error.
#[derive(Clone, Copy, Debug)]
enum Remark {
    Nothing,
    Failed(Errno),
    BinaryMatches,
}

kernel! {
    /// Searches all files. Any grid.
    pub fn search(fs: Fs, job: Shared<Job>) {
        job.with(fs, |job| {
            let lanes = calling!();
            let part = if lanes.is_leader() { job.memory.claim() } else { None };
            let address = lanes.from_leader(part.map_or(0, |part| part.address()));
            if address == 0 {
                return;
            }
            #[expect(unsafe_code, reason = "memory that lanes share")]
            // SAFETY:
            // - the leader claimed the part just now
            let memory = unsafe { Part::shared(&job.memory, address) };
            let mut warp = Warp {
                fs,
                job,
                lanes,
                memory,
                searcher: Searcher::new(&job.needle),
                unit: 0,
                loud_before: 0,
                is_loud: false,
                has_turn: false,
                pending: 0,
            };
            // Ends: each round draws a unit.
            while !warp.is_stopped() {
                // ORDERING: relaxed: the number is the claim.
                let drawn = if lanes.is_leader() { job.next.fetch_add_relaxed(1) } else { 0 };
                #[allow(clippy::cast_possible_truncation, reason = "32 bits went in")]
                let drawn = lanes.from_leader(u64::from(drawn)) as u32;
                let Some(unit) = job.units.get(drawn) else { return };
                warp.unit = drawn;
                if unit.files == 0 {
                    warp.piece(unit);
                } else {
                    warp.batch(unit);
                }
                warp.finish();
            }
        });
    }
}

impl Warp<'_> {
    /// Whether nothing more can be printed. Convergent.
    fn is_stopped(&self) -> bool {
        self.lanes.any(self.job.output_errno.peek() != 0)
    }
}

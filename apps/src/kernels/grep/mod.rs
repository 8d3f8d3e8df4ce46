//! Lines that hold a string or a byte of a class, in many files, as `grep -F` finds and prints them.
//!
//! The host looks how long the files are and divides them into *units*: a piece of a long file, or some short files. Warps draw units
//! in order, so that all of them search one large file, or many small ones. Text is read into memory of the warp's own; each lane looks
//! at a slice; what a unit has to know of what was before it, such as the number of lines, is handed on from unit to unit, behind the
//! search. What is found goes to the warp's output buffer, and from there to the standard output when the units before have printed.
//!
//! | file | |
//! |---|---|
//! | `units.rs` | how work is divided, and the tables |
//! | `order.rs` | what one unit leaves for the next, and turns |
//! | `piece.rs`, `batch.rs` | a unit: of a long file, of short ones |
//! | `file.rs` | a text in memory: reading it, lines that are put out |
//! | `lines.rs` | the lines that a lane puts out |
//! | `survey.rs` | what lanes see in a text, and how that is put together |
//! | `text.rs`, `rare.rs`, `wide.rs` | what one lane does alone |
//! | `output.rs` | the output buffer |
//!
//! | differs from GNU grep 3.8 | how |
//! |---|---|
//! | where a file that turns binary after its first 96 KiB stops being text | at a multiple of 96 KiB; grep's reads are at times some pages shorter |
//! | files with holes | are read; grep looks for the hole, and calls the whole file binary |
//! | pipes, terminals | "Illegal seek": files are read at offsets |

mod batch;
mod file;
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

pub use names::Names;
pub use needle::{LONGEST_NEEDLE, Needle};

/// Text that is judged text or binary at once: GNU grep's buffer.
pub const STRETCH_BYTES: usize = 96 << 10;
/// A piece of a long file: whole stretches.
pub const PIECE_BYTES: usize = 3 * STRETCH_BYTES;
/// Shorter files are searched several at a time.
pub const SHORT_BYTES: usize = 32 << 10;
/// What a warp finds until it has to wait for its turn, by default: on CPU lanes few run at a time, and memory near the cores is fast.
pub const OUTPUT_BYTES: usize = 64 << 10;
/// The least memory for texts: for the room of a short file at least.
const LEAST_TEXT_BYTES: usize = 64 << 10;

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
        /// How the files are divided.
        pub units: Units,
        /// Bytes of a piece of a long file.
        pub piece: u32,
        /// Bytes of a match beyond its first.
        pub reach: u32,
        /// Bytes of output that a warp keeps until its turn. Longer output waits for the turn, and the rest of the search with it.
        pub output: u32,
        /// A part of [`part_bytes`] for each warp. Warps for which there is none leave the work to the others.
        pub memory: Parts,
        /// The next unit to draw, or more.
        pub next: DeviceWord,
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
    const fn piece_bytes(&self) -> usize {
        self.piece as usize
    }
    /// Bytes that are read for a piece: what a match reaches into the next one, and one more at least, which shows whether there is a next one.
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

/// Memory of a warp for texts, in bytes: a piece's, or those of short files.
#[must_use]
pub const fn text_bytes(piece: u32, reach: u32) -> usize {
    let bytes = wanted_bytes(piece, reach).next_multiple_of(4096);
    if bytes < LEAST_TEXT_BYTES { LEAST_TEXT_BYTES } else { bytes }
}

/// Memory for one warp, in bytes.
#[must_use]
pub const fn part_bytes(piece: u32, reach: u32, output: u32) -> usize {
    // Whole words, so that all parts are aligned if the first is.
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
    /// Whether this one has output, or may have.
    is_loud: bool,
    /// Whether the output before it has been printed.
    has_turn: bool,
    /// Bytes in the output buffer.
    pending: usize,
}

/// What is left to say of a file, on the standard error.
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
        }
    }
}

impl Warp<'_> {
    /// Whether nothing more can be printed. Convergent.
    fn is_stopped(&self) -> bool {
        self.lanes.any(self.job.output_errno.peek() != 0)
    }
}

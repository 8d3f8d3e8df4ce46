//! How the host divides the work before the kernel runs, and the tables through which warps pass on their results.
//!
//! A *unit* is a piece of a long file, or several short files, which a warp searches file by file. Units are in the order of the output.
#![expect(unsafe_code, reason = "tables at addresses")]

use core::slice;

use gpufs_core::word::{DeviceWord, DeviceWord64};
use gpufs_device::portable;

use super::STRETCH_BYTES;

portable! {
    /// What a warp searches at a time.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Unit {
        /// The first file.
        pub file: u32,
        /// The number of short files; 0: a piece of a long file.
        pub files: u32,
        /// The number of the long file among the long files.
        pub long: u32,
        /// How many pieces it has.
        pub pieces: u32,
        /// Where in the file the piece begins.
        pub offset: u64,
    }
}

portable! {
    /// What the warp of a unit tells the warps of later units. Zeroed at first.
    #[derive(Debug, Default)]
    pub struct Record {
        /// 1 once all words below but `printed` are written.
        pub known: DeviceWord,
        /// One of the constants below, in their order. Only of units that have output.
        pub printed: DeviceWord,
        /// The last unit that has output, this one or one before it, plus 1; 0: none has.
        pub loud: DeviceWord,
        /// The bits of `Carry`.
        pub flags: DeviceWord,
        /// The state from which the next piece of the same file goes on; see `Carry`.
        pub newlines: DeviceWord64,
        /// As above.
        pub line_start: DeviceWord64,
        /// As above.
        pub matches: DeviceWord64,
    }
}

impl Record {
    /// The warp of the unit prints, and no other warp does.
    pub const PRINTING: u32 = 1;
    /// The unit's output, and so all output before it, has its place: in the buffer of the standard output, or in the ring before it.
    pub const PRINTED: u32 = 2;
}

portable! {
    /// A long file, which many warps read. Zeroed at first.
    #[derive(Debug, Default)]
    pub struct Long {
        /// [`Long::UNOPENED`], then one of the others.
        pub state: DeviceWord,
        /// The descriptor, or why there is none.
        pub outcome: DeviceWord,
        /// Pieces that are done with the file. The last one closes it.
        pub done: DeviceWord,
        /// 1 when the rest of the file cannot change the output.
        pub decided: DeviceWord,
    }
}

impl Long {
    /// The warp of the first piece has not opened the file yet.
    pub const UNOPENED: u32 = 0;
    /// `outcome` is the descriptor.
    pub const OPEN: u32 = 1;
    /// `outcome` is an errno.
    pub const FAILED: u32 = 2;
}

portable! {
    /// The tables; the memory lies elsewhere.
    #[derive(Clone, Copy, Debug)]
    pub struct Units {
        units: u64,
        records: u64,
        count: u32,
        long_count: u32,
        long: u64,
    }
}

impl Units {
    /// `count` [`Unit`]s and `count` [`Record`]s, and `long_count` entries for long files, at addresses of the device.
    ///
    /// # Safety
    /// As long as kernels use the tables, they are valid and aligned, the units are constant, and the rest is accessed by the methods of words only.
    #[must_use]
    pub const unsafe fn new(
        (units, records, count): (u64, u64, u32),
        (long, long_count): (u64, u32),
    ) -> Self {
        Self { units, records, count, long_count, long }
    }
    /// How many units.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }
    /// A unit; `None` after the last.
    #[must_use]
    pub fn get(&self, index: u32) -> Option<&Unit> {
        // SAFETY:
        // - aligned, there, and constant, by the contract of `new`
        let units = unsafe { slice::from_raw_parts(self.units as *const Unit, self.count as usize) };
        units.get(index as usize)
    }
    /// A unit's record.
    ///
    /// # Panics
    /// If there is no such unit.
    #[must_use]
    pub fn record(&self, index: u32) -> &Record {
        // SAFETY:
        // - aligned and there, by the contract of `new`; words may be shared
        let records = unsafe { slice::from_raw_parts(self.records as *const Record, self.count as usize) };
        &records[index as usize]
    }
    /// A long file's entry.
    ///
    /// # Panics
    /// If there is no such file.
    #[must_use]
    pub fn long(&self, index: u32) -> &Long {
        // SAFETY:
        // - as above
        let long = unsafe { slice::from_raw_parts(self.long as *const Long, self.long_count as usize) };
        &long[index as usize]
    }
}

/// How work is divided.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of a piece of a long file.
    pub piece: u64,
    /// Shorter files are searched several at a time.
    pub short: u64,
    /// The most short files in a unit.
    pub together: u32,
    /// The most bytes of [`room`] in a unit.
    pub text: u64,
}

/// The least number of pieces of long files for each warp, where the files are long enough: all warps then have work until the end.
const PIECES_PER_WARP: u64 = 4;
/// The most stretches in a piece of a large input: the fixed cost of a piece is then small.
const STRETCHES_MAX: u64 = 12;

/// Bytes of a piece, whole stretches, where `warps` share `total` bytes. With larger pieces there are fewer turns to print.
#[must_use]
pub fn piece_for(total: u64, warps: u32) -> u64 {
    let stretch = STRETCH_BYTES as u64;
    (total / (PIECES_PER_WARP * u64::from(warps.max(1))))
        .next_multiple_of(stretch)
        .clamp(stretch, STRETCHES_MAX * stretch)
}

/// Memory for a short file: a byte more than its length, which shows whether it has grown.
#[must_use]
pub const fn room(length: u64) -> u64 {
    (length + 1).next_multiple_of(1024)
}

/// Divides files of these lengths into units, in order. An iterator, because this library has no allocator.
pub fn divide(lengths: &[u64], shape: Shape) -> impl Iterator<Item = Unit> {
    // The next file, the next piece of it, and the number of long files before it.
    let (mut file, mut piece, mut long) = (0, 0, 0);
    core::iter::from_fn(move || {
        let length = *lengths.get(file)?;
        #[allow(clippy::cast_possible_truncation, reason = "the host refuses more than 2^32 files or pieces")]
        let (first, pieces) = (file as u32, length.div_ceil(shape.piece) as u32);
        if length >= shape.short {
            let unit = Unit { file: first, files: 0, long, pieces, offset: u64::from(piece) * shape.piece };
            piece += 1;
            if piece == pieces {
                (file, piece, long) = (file + 1, 0, long + 1);
            }
            return Some(unit);
        }
        let (mut files, mut bytes) = (0, 0);
        // Ends: over the files.
        while files < shape.together
            && let Some(&length) = lengths.get(file)
            && length < shape.short
            && (files == 0 || bytes + room(length) <= shape.text)
        {
            (file, files, bytes) = (file + 1, files + 1, bytes + room(length));
        }
        Some(Unit { file: first, files, ..Unit::default() })
    })
}

#[cfg(test)]
mod tests {
    use super::{PIECES_PER_WARP, STRETCH_BYTES, Shape, Unit, divide, piece_for, room};

    #[test]
    fn every_byte_is_in_one_unit() {
        let shape = Shape { piece: 100, short: 50, together: 3, text: 4096 };
        let lengths = [0, 49, 50, 99, 100, 101, 1, 1, 1, 1, 1000, 0];
        let units: Vec<Unit> = divide(&lengths, shape).collect();
        let (mut file, mut at, mut long) = (0, 0, 0);
        for unit in &units {
            assert_eq!(unit.file as usize, file, "{units:?}");
            if unit.files > 0 {
                assert_eq!(at, 0, "a long file was left");
                assert!(unit.files <= shape.together);
                let lengths = &lengths[file..file + unit.files as usize];
                assert!(lengths.iter().all(|&length| length < shape.short));
                assert!(lengths.iter().map(|&length| room(length)).sum::<u64>() <= shape.text);
                file += unit.files as usize;
                continue;
            }
            assert_eq!((unit.offset, unit.long), (at, long));
            at += shape.piece;
            if at >= lengths[file] {
                assert_eq!(u64::from(unit.pieces), lengths[file].div_ceil(shape.piece));
                (file, at, long) = (file + 1, 0, long + 1);
            }
        }
        assert_eq!(file, lengths.len());
    }

    #[test]
    fn pieces_grow_with_the_input() {
        let stretch = STRETCH_BYTES as u64;
        assert_eq!((piece_for(0, 0), piece_for(1, 528)), (stretch, stretch));
        assert_eq!(piece_for(u64::MAX, 1), 12 * stretch);
        // All warps get their pieces, and one more byte makes no piece longer by a stretch.
        for warps in [1, 8, 528] {
            let shares = PIECES_PER_WARP * u64::from(warps);
            for stretches in 1..=12 {
                assert_eq!(piece_for(stretches * stretch * shares, warps), stretches * stretch);
                assert_eq!(piece_for((stretches * stretch - 1) * shares, warps), stretches * stretch);
            }
        }
    }

    #[test]
    fn short_files_fit_the_memory() {
        let shape = Shape { piece: 1 << 20, short: 4096, together: 32, text: 8192 };
        let units: Vec<Unit> = divide(&[3000; 10], shape).collect();
        assert_eq!(units.iter().map(|unit| unit.files).collect::<Vec<_>>(), [2; 5]);
    }
}

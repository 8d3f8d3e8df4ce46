//! Threads that meet at one file, or at one stream that they read.

use core::ffi::CStr;

use gpufs_device::file::Descriptor;
use gpufs_device::kernel::Shared;
use gpufs_device::warp::{self, global_thread};
use gpufs_device::{File, kernel};

use crate::calls::Handle;
use crate::records::{Report, drawn};

/// The stream of an entry.
fn stream(handle: u64) -> Option<File> {
    // SAFETY:
    // - the host has an entry there
    unsafe { &*(handle as *const Handle) }.file()
}

/// What a thread's part of a file holds, 8 bytes at a time.
#[must_use]
pub const fn pattern(thread: u64, word: u64) -> u64 {
    drawn(thread, word)
}

kernel! {
    /// Every thread puts the pattern of its own number into its memory (the addresses are at `memories`), and writes it at its place of
    /// the file; or, with `back`, reads the part of thread `threads − 1 − thread`, and looks whether it holds that one's pattern.
    pub fn transfer(fs: Fs, handle: u64, memories: u64, bytes: u64, back: u32, report: Shared<Report>) {
        report.with(fs, |report| {
            let thread = global_thread();
            // SAFETY:
            // - the host has an entry there, and an address for each thread
            let (descriptor, memory) = unsafe {
                let memory = *(memories as *const u64).wrapping_add(thread as usize);
                (Descriptor((*(handle as *const Handle)).descriptor), memory)
            };
            let words = bytes.div_ceil(8);
            let whose = if back == 0 { thread } else { warp::grid_threads() - 1 - thread };
            let place = memory as *mut u64;
            for word in 0..words {
                // SAFETY:
                // - the host has so much memory for each thread
                unsafe { place.add(word as usize).write(if back == 0 { pattern(whose, word) } else { 0 }) };
            }
            let count = if back == 0 {
                // SAFETY:
                // - as above
                fs.pwrite(descriptor, unsafe { core::slice::from_raw_parts(memory as *const u8, bytes as usize) }, whose * bytes)
            } else {
                // SAFETY:
                // - as above
                fs.pread(descriptor, unsafe { core::slice::from_raw_parts_mut(memory as *mut u8, bytes as usize) }, whose * bytes)
            };
            match count {
                Ok(count) if count as u64 == bytes => {}
                Ok(count) => report.note(1, thread, back, count as u32),
                Err(errno) => report.note(2, thread, back, errno.number().cast_unsigned()),
            }
            if back != 0 {
                verify(place, whose, bytes, report);
            }
        });
    }
}

#[inline(never)]
fn verify(place: *const u64, whose: u64, bytes: u64, report: &Report) {
    for word in 0..bytes.div_ceil(8) {
        // SAFETY:
        // - the host has so much memory for each thread
        let got = unsafe { place.add(word as usize).read() };
        let kept = if bytes - word * 8 < 8 { (1 << ((bytes - word * 8) * 8)) - 1 } else { u64::MAX };
        if (got ^ pattern(whose, word)) & kept != 0 {
            return report.note(3, whose, 1, word as u32);
        }
    }
}

/// What one call of [`share_out()`] got: records of a file, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Piece {
    /// The thread.
    pub thread: u32,
    /// The first record's number.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// Bytes of a record that [`share_out()`] reads: seven digits and a newline.
pub const RECORD: usize = 8;
/// Records of a call of it.
const MOST: usize = 50;

kernel! {
    /// All threads read one stream to its end, by lines or by pieces of a length drawn from `seed`. The report counts the [`Piece`]s
    /// that were left at `pieces`, which has room for `room` of them; each thread's are in its order.
    pub fn share_out(
        fs: Fs,
        handle: u64,
        lines: u32,
        seed: u64,
        pieces: u64,
        room: u32,
        report: Shared<Report>,
    ) {
        report.with(fs, |report| {
            let thread = global_thread();
            let Some(input) = stream(handle) else { return report.note(1, thread, 0, 0) };
            let mut turn = 0;
            loop {
                let choice = drawn(seed ^ thread << 32, turn) as usize % 4;
                let records = if lines != 0 { 1 } else { [1, 2, 3, MOST][choice] };
                turn += 1;
                match take(input, lines != 0, records) {
                    Err((place, number)) => return report.note(place, thread, turn as u32, number),
                    Ok((_, 0)) => break,
                    Ok((first, count)) => {
                        let index = report.count.fetch_add_relaxed(1);
                        if index >= room {
                            return report.note(2, thread, turn as u32, index);
                        }
                        // SAFETY:
                        // - within the room, and no other thread drew this index
                        unsafe {
                            let piece = Piece { thread: thread as u32, first, count };
                            (pieces as *mut Piece).add(index as usize).write(piece);
                        }
                    }
                }
            }
            if !input.feof() {
                report.note(3, thread, turn as u32, 0);
            }
        });
    }
}

/// Reads up to so many records: the first's number, and how many; or what is wrong.
#[inline(never)]
fn take(input: File, lines: bool, records: usize) -> Result<(u32, u32), (u32, u32)> {
    let mut memory = [0; MOST * RECORD];
    let bytes = if lines {
        let line = input.fgets(&mut memory[..=RECORD]);
        line.map(|line| line.map_or(0, CStr::count_bytes))
    } else {
        input.fread(&mut memory[..records * RECORD])
    };
    let bytes = bytes.map_err(|errno| (4, errno.number().cast_unsigned()))?;
    if !bytes.is_multiple_of(RECORD) {
        return Err((5, bytes as u32));
    }
    let mut first = 0;
    for (index, record) in memory[..bytes].chunks_exact(RECORD).enumerate() {
        let mut number = 0;
        for &digit in &record[..RECORD - 1] {
            if !digit.is_ascii_digit() {
                return Err((6, u32::from(digit)));
            }
            number = number * 10 + u32::from(digit - b'0');
        }
        if index == 0 {
            first = number;
        }
        // One call, one piece of the file.
        if number != first + index as u32 || record[RECORD - 1] != b'\n' {
            return Err((7, number));
        }
    }
    Ok((first, (bytes / RECORD) as u32))
}

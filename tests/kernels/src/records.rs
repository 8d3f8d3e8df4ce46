//! Records that many threads print to shared streams, each in the order of its rounds.

use gpufs_core::word::DeviceWord;
use gpufs_device::format::{Argument, snprintf};
use gpufs_device::kernel::{Portable, Shared};
use gpufs_device::warp::global_thread;
use gpufs_device::{Errno, File, kernel, portable};

use crate::calls::{Handle, wait};

/// How a thread writes a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Call {
    /// `fprintf`.
    Fprintf,
    /// `fwrite`.
    Fwrite,
    /// One of `fprintf`, `fputs`, `fwrite` and `write!`, by thread and round.
    Mixed,
}

/// How many letters a record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Letters {
    /// 0 to 29.
    Short,
    /// Always as many.
    Fixed(u32),
    /// 300 to 4,299, and 5,000 more in each round.
    Long,
    /// One of five lengths, by a seed: up to 100, or with `far` up to 3,000.
    Drawn {
        /// What it is drawn from.
        seed: u64,
        /// Whether there are long ones.
        far: bool,
    },
}

// SAFETY:
// - `repr(C)`, with numbers in it
unsafe impl Portable for Call {}
// SAFETY:
// - `repr(C)`, with numbers in it
unsafe impl Portable for Letters {}

/// Bits that a seed and an index repeat (splitmix64).
#[must_use]
pub const fn drawn(seed: u64, index: u64) -> u64 {
    let mut value = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Letters {
    /// How many the record of this thread and round has.
    #[must_use]
    pub const fn of(self, thread: u64, round: u32) -> u64 {
        match self {
            Self::Short => (thread * 7 + round as u64 * 3) % 30,
            Self::Fixed(letters) => letters as u64,
            Self::Long => 300 + thread * 97 % 4000 + round as u64 * 5000,
            Self::Drawn { seed, far } => {
                let choice = drawn(seed, thread << 32 | round as u64) as usize % 5;
                if far { [0, 1, 5, 200, 3000][choice] } else { [0, 1, 5, 30, 100][choice] }
            }
        }
    }
    /// The letter itself.
    #[must_use]
    pub const fn letter(thread: u64, round: u32) -> u8 {
        b'a' + ((thread + round as u64) % 26) as u8
    }
}

portable! {
    /// What to print.
    #[derive(Clone, Copy, Debug)]
    pub struct Job {
        /// The address of the streams' [`Handle`]s.
        pub streams: u64,
        /// How many streams.
        pub stream_count: u32,
        /// 1: each thread prints to one stream, by its number; 0: to all.
        pub apart: u32,
        /// Records of a thread.
        pub rounds: u32,
        /// Not 0: of so many threads one stops after half of the rounds, and one never begins.
        pub truant: u32,
        /// Not 0: a dot, by `fputc`, goes before one record of so many.
        pub dots: u32,
        /// With which call.
        pub call: Call,
        /// How long records are.
        pub letters: Letters,
        /// The number of the launch's first thread.
        pub first_thread: u64,
        /// Pause before each round, in nanoseconds.
        pub nap_ns: u64,
        /// The address of 26 runs of letters.
        pub runs: u64,
        /// Bytes of a run.
        pub run_bytes: u64,
        /// The address of memory for long records.
        pub rooms: u64,
        /// Bytes of it for a thread of the launch.
        pub room_bytes: u64,
    }
}

/// What a thread of `truant` ones does: stops after `rounds / 2`, never begins, or all.
#[must_use]
pub const fn rounds_of(truant: u32, rounds: u32, thread: u64) -> u32 {
    match truant {
        0 => rounds,
        _ if thread % truant as u64 == 1 => rounds / 2,
        _ if thread % truant as u64 == 2 => 0,
        _ => rounds,
    }
}

portable! {
    /// What went wrong in a kernel.
    #[derive(Debug, Default)]
    pub struct Report {
        /// How often.
        pub failures: DeviceWord,
        /// Below: the first. Where in the kernel.
        pub place: DeviceWord,
        /// Which thread.
        pub thread: DeviceWord,
        /// In which round.
        pub round: DeviceWord,
        /// The errno, or a number that says more.
        pub number: DeviceWord,
        /// Things that the kernel counts.
        pub count: DeviceWord,
    }
}

impl Report {
    /// Notes a failure.
    pub fn note(&self, place: u32, thread: u64, round: u32, number: u32) {
        if self.failures.fetch_add_relaxed(1) == 0 {
            self.place.set(place);
            self.thread.set(thread as u32);
            self.round.set(round);
            self.number.set(number);
        }
    }
    /// Notes an error.
    pub fn check(&self, place: u32, thread: u64, round: u32, outcome: Result<(), Errno>) {
        if let Err(errno) = outcome {
            self.note(place, thread, round, errno.number().cast_unsigned());
        }
    }
}

/// Bytes of a record that is put together on the stack, its NUL included.
const SMALL: usize = 96;

/// The record of this thread and round, NUL and all, in `small` or in the thread's room.
#[inline(never)]
fn text<'a>(job: &Job, place: u64, thread: u64, round: u32, small: &'a mut [u8; SMALL]) -> &'a [u8] {
    let letters = job.letters.of(thread, round) as usize;
    let memory = if letters + 40 <= SMALL {
        &mut small[..]
    } else {
        let room = job.rooms + place * job.room_bytes;
        // SAFETY:
        // - the host has so much room for each thread
        unsafe { core::slice::from_raw_parts_mut(room as *mut u8, job.room_bytes as usize) }
    };
    let numbers = [Argument::from(thread), Argument::from(round)];
    let start = snprintf(memory, b"%llu %u ", &numbers).unwrap_or(0);
    memory[start..start + letters].fill(Letters::letter(thread, round));
    memory[start + letters] = b'\n';
    memory[start + letters + 1] = 0;
    &memory[..start + letters + 2]
}

fn run(job: &Job, thread: u64, round: u32) -> &'static [u8] {
    let letter = u64::from(Letters::letter(thread, round) - b'a');
    let letters = job.letters.of(thread, round).min(job.run_bytes);
    // SAFETY:
    // - the host put 26 runs there
    unsafe { core::slice::from_raw_parts((job.runs + letter * job.run_bytes) as *const u8, letters as usize) }
}

#[inline(never)]
fn by_fprintf(job: &Job, file: File, thread: u64, round: u32) -> Result<(), Errno> {
    gpufs_device::fprintf!(file, c"%llu %u %s\n", thread, round, run(job, thread, round)).map(drop)
}

#[inline(never)]
fn by_fwrite(job: &Job, file: File, place: u64, thread: u64, round: u32) -> Result<(), Errno> {
    let mut small = [0; SMALL];
    let text = text(job, place, thread, round, &mut small);
    file.fwrite(&text[..text.len() - 1]).map(drop)
}

#[inline(never)]
fn by_fputs(job: &Job, file: File, place: u64, thread: u64, round: u32) -> Result<(), Errno> {
    let mut small = [0; SMALL];
    let text = text(job, place, thread, round, &mut small);
    file.fputs(core::ffi::CStr::from_bytes_until_nul(text).map_err(|_| Errno::INVAL)?)
}

#[inline(never)]
fn by_write(job: &Job, file: File, thread: u64, round: u32) -> Result<(), Errno> {
    let run = core::str::from_utf8(run(job, thread, round)).map_err(|_| Errno::INVAL)?;
    writeln!(file, "{thread} {round} {run}")
}

fn print_all(job: &Job, report: &Report) {
    let place = global_thread();
    let thread = job.first_thread + place;
    for round in 0..rounds_of(job.truant, job.rounds, thread) {
        if job.nap_ns > 0 {
            wait(job.nap_ns);
        }
        let mut index = if job.apart == 0 { 0 } else { (thread % u64::from(job.stream_count)) as u32 };
        while index < job.stream_count {
            let handle = (job.streams as *const Handle).wrapping_add(index as usize);
            // SAFETY:
            // - the host has opened so many streams
            let Some(file) = (unsafe { &*handle }).file() else {
                return report.note(1, thread, round, index);
            };
            if job.dots != 0 && (thread + u64::from(round)).is_multiple_of(u64::from(job.dots)) {
                report.check(2, thread, round, file.fputc(b'.').map(drop));
            }
            report.check(3, thread, round, by(job, file, place, thread, round));
            index += if job.apart == 0 { 1 } else { job.stream_count };
        }
    }
}

#[inline(never)]
fn by(job: &Job, file: File, place: u64, thread: u64, round: u32) -> Result<(), Errno> {
    let choice = match job.call {
        Call::Fprintf => 0,
        Call::Fwrite => 2,
        Call::Mixed => (thread / 3 + u64::from(round)) % 4,
    };
    match choice {
        0 => by_fprintf(job, file, thread, round),
        1 => by_fputs(job, file, place, thread, round),
        2 => by_fwrite(job, file, place, thread, round),
        _ => by_write(job, file, thread, round),
    }
}

kernel! {
    /// Every thread prints its records.
    pub fn print_records(fs: Fs, job: Job, report: Shared<Report>) {
        report.with(fs, |report| print_all(&job, report));
    }
}

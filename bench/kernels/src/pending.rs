//! What asynchronous calls take: one read from start to end, several in flight, and reads beside work.

use core::cell::Cell;
use core::hint::black_box;

use gpufs_core::session::FileIndex;
use gpufs_device::aio::Pending;
use gpufs_device::kernel;
use gpufs_device::warp::{Machine, Warp, nap};
use gpufs_device::{Errno, Fs};

use crate::{Times, between, sampled, scramble, warp_index};

/// The most operations that a lane of [`async_reads()`] has in flight.
pub const IN_FLIGHT_MAX: usize = 32;

gpufs_device::portable! {
    /// What lanes read: pieces at random places of a file's beginning, each lane to memory of its own.
    #[derive(Clone, Copy, Debug)]
    pub struct Pieces {
        /// The file.
        pub file: FileIndex,
        /// Lanes of each warp that read, from the lowest.
        pub lanes: u32,
        /// Where a lane's memory lies, `bytes` for each lane of the grid.
        pub memory: u64,
        /// Bytes of a piece.
        pub bytes: u64,
        /// Bytes of the file's beginning.
        pub span: u64,
        /// Pieces of a lane.
        pub rounds: u32,
        /// Reads that a lane of [`in_step()`](crate::in_step::in_step()) has in flight beside its work.
        pub ahead: u32,
        /// [`Times`].
        pub times: u64,
    }
}

impl Pieces {
    fn is_reading(&self) -> bool {
        Machine::lane() < self.lanes
    }
    fn lane(&self) -> u64 {
        u64::from(warp_index()) * u64::from(Machine::width()) + u64::from(Machine::lane())
    }
    pub(crate) fn place(&self, round: u32) -> u64 {
        scramble(self.lane() << 32 | u64::from(round)) % (self.span / self.bytes) * self.bytes
    }
    #[expect(clippy::mut_from_ref, reason = "an address that is an argument")]
    pub(crate) fn memory(&self) -> &mut [u8] {
        // SAFETY:
        // - the host gives that much memory to each lane, and a lane asks once in a kernel
        unsafe {
            core::slice::from_raw_parts_mut(
                (self.memory + self.lane() * self.bytes) as *mut u8,
                self.bytes as usize,
            )
        }
    }
    pub(crate) fn start(&self, fs: Fs, round: u32) -> Result<Pending, Errno> {
        fs.start_pread(self.file, self.bytes as usize, self.place(round))
    }
    /// Starts the read of a lane that holds no operation, however long there is no room.
    pub(crate) fn start_soon(&self, fs: Fs, round: u32) -> Result<Pending, Errno> {
        // Ends: others take their results.
        loop {
            match self.start(fs, round) {
                Err(Errno::AGAIN) => nap(500),
                started => return started,
            }
        }
    }
}

kernel! {
    /// Samples of one read, from its start to its bytes in memory: lane 0's.
    pub fn async_latency(fs: Fs, job: Pieces) {
        let into = job.memory();
        let times = Times(job.times);
        let place = |round| job.place(round);
        sampled(times, job.rounds, place, |place| {
            let started = fs.start_pread(job.file, job.bytes as usize, place);
            times.check(started.and_then(|pending| pending.wait_into(into)), job.bytes);
        });
    }
}

kernel! {
    /// Samples of the start alone: until it returns. Lane 0's.
    pub fn async_starts(fs: Fs, job: Pieces) {
        let times = Times(job.times);
        let last: Cell<Option<Result<Pending, Errno>>> = Cell::new(None);
        let end_last = || {
            if let Some(started) = last.take() {
                times.check(started.and_then(Pending::wait).map(|read| read.count()), job.bytes);
            }
        };
        // The wait for the one before is not timed.
        let place = |round| {
            end_last();
            job.place(round)
        };
        sampled(times, job.rounds, place, |place| {
            last.set(Some(fs.start_pread(job.file, job.bytes as usize, place)));
        });
        end_last();
    }
}

kernel! {
    /// Lanes read their pieces, each with up to `in_flight` reads at once.
    pub fn async_reads(fs: Fs, job: Pieces, in_flight: u32) {
        let times = Times(job.times);
        between(times, || {
            if !job.is_reading() {
                return;
            }
            let into = job.memory();
            let mut flying: [Option<Pending>; IN_FLIGHT_MAX] = [const { None }; IN_FLIGHT_MAX];
            let most = (in_flight as usize).clamp(1, IN_FLIGHT_MAX);
            // The oldest is `begun - going`, at its number modulo `most`.
            let (mut begun, mut going) = (0, 0);
            // Ends: each round begins a read, ends one, or waits for others' ends.
            while begun < job.rounds || going > 0 {
                if begun < job.rounds && (going as usize) < most {
                    match job.start(fs, begun) {
                        Ok(pending) => {
                            flying[begun as usize % most] = Some(pending);
                            (begun, going) = (begun + 1, going + 1);
                            continue;
                        }
                        Err(Errno::AGAIN) if going == 0 => {
                            nap(500);
                            continue;
                        }
                        Err(Errno::AGAIN) => {}
                        Err(errno) => return times.fail(errno),
                    }
                }
                let oldest = flying[(begun - going) as usize % most].take();
                going -= 1;
                if let Some(pending) = oldest {
                    times.check(pending.wait_into(into), job.bytes);
                }
            }
        });
    }
}

kernel! {
    /// Lanes read their pieces, one after the other: a warp's as one batch.
    pub fn batch_reads(fs: Fs, job: Pieces) {
        let times = Times(job.times);
        between(times, || {
            if !job.is_reading() {
                return;
            }
            let into = job.memory();
            for round in 0..job.rounds {
                times.check(fs.pread(job.file, into, job.place(round)), job.bytes);
            }
        });
    }
}

/// [`overlapped()`], [`in_step()`](crate::in_step::in_step()): no reads.
pub const WORK: u32 = 0;
/// The same: a read, then its work.
pub const IN_TURN: u32 = 1;
/// The same: the next read beside the work.
pub const BESIDE: u32 = 2;
/// The same: no work.
pub const READ: u32 = 3;

/// Bytes after which there is another stamp in a file that is read.
const STAMPED: usize = 4096;

/// The eight bytes at `place` of a file that is read, a multiple of 4,096.
#[must_use]
pub const fn stamp(place: u64) -> u64 {
    scramble(place)
}

/// Works for `units` steps on a piece from `place` on: the result, and whether its stamps are those of that place.
pub(crate) fn work(units: u32, bytes: &[u8], place: u64) -> (u64, bool) {
    let mut sum = 1;
    let mut is_right = true;
    for (number, page) in bytes.chunks(STAMPED).enumerate() {
        let found = page.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        is_right &= found == stamp(place + (number * STAMPED) as u64);
        sum ^= found;
    }
    for _ in 0..units {
        sum = black_box(sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23));
    }
    (sum, is_right)
}

kernel! {
    /// Lanes read pieces, and work for `units` steps on each, as `way` says. No warp waits for another.
    pub fn overlapped(fs: Fs, job: Pieces, units: u32, way: u32) {
        let times = Times(job.times);
        between(times, || {
            let into = job.memory();
            let mut next = (way == BESIDE).then(|| job.start_soon(fs, 0));
            for round in 0..job.rounds {
                if let Some(started) = next.take() {
                    times.check(started.and_then(|pending| pending.wait_into(into)), job.bytes);
                    if round + 1 < job.rounds {
                        next = Some(job.start_soon(fs, round + 1));
                    }
                } else if way != WORK {
                    times.check(fs.pread(job.file, into, job.place(round)), job.bytes);
                }
                if way == READ {
                    continue;
                }
                let (sum, is_right) = work(units, into, job.place(round));
                black_box(sum);
                if !is_right && way != WORK {
                    times.put(0, Times::WRONG);
                }
            }
        });
    }
}

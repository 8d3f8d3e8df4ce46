//! Reads beside work in a grid whose warps go in step, as those of a tiled computation do: all wait for their tiles, then all work on them.
//!
//! Warps that do not wait for each other overlap by themselves, as some read while others work ([`overlapped()`](crate::pending::overlapped())).
//! In step they do not, so that what the next read beside the work saves is what asynchronous starts give.

use core::hint::black_box;

use gpufs_core::word::DeviceWord64;
use gpufs_device::aio::{Finished, Pending};
use gpufs_device::warp::{Lanes, nap};
use gpufs_device::{Errno, calling, kernel};

use crate::pending::{BESIDE, Pieces, READ, WORK, work};
use crate::{Supply, Times, between};

/// [`in_step()`]: what is read stays where the ring has put it, memory of the host's.
pub const IN_PLACE: u32 = 0;
/// [`in_step()`]: what is read is copied into the device's memory by the warp.
pub const COPIED: u32 = 1;

/// The most reads that a lane of [`in_step()`] has in flight beside its work.
pub const AHEAD_MAX: u32 = 4;

/// Where the warps of a grid meet. All of them are on the device at once.
struct Meeting<'a> {
    warp: Lanes,
    came: &'a DeviceWord64,
    /// What `came` says when all have come.
    all: u64,
    warps: u64,
}

impl Meeting<'_> {
    /// Of the calling warp, one of so many.
    fn new(supply: &Supply, warps: u32) -> Self {
        // SAFETY:
        // - the host has left such a word there, for this kernel alone
        let came = unsafe { &*(supply.taken as *const DeviceWord64) };
        Self { warp: calling!(), came, all: supply.before, warps: warps.into() }
    }
    /// Returns when all warps have called it as often. Convergent; called by all lanes of a warp.
    fn meet(&mut self) {
        self.all = self.all.wrapping_add(self.warps);
        self.warp.sync();
        if self.warp.is_leader() {
            // ORDERING: acquire and release, partner itself and `observe` in the other warps: what a warp did comes before what another does next.
            self.came.fetch_add(1);
            // Ends: the other warps are on the device, and come here as often as this one.
            // ORDERING: acquire, partner `fetch_add`.
            while self.came.observe().wrapping_sub(self.all).cast_signed() < 0 {
                nap(100);
            }
        }
        self.warp.sync();
    }
}

/// What a lane works on.
enum Tile {
    /// In the memory that a read has filled.
    Lent(Finished),
    /// In the memory of the lane's own.
    Own,
}

/// One lane's part.
struct Part {
    job: Pieces,
    landing: u32,
}

impl Part {
    /// Waits for a read that was started: its tile.
    fn tile(&self, started: Result<Pending, Errno>, into: &mut [u8]) -> Tile {
        let times = Times(self.job.times);
        if self.landing == COPIED {
            times.check(started.and_then(|pending| pending.wait_into(into)), self.job.bytes);
            return Tile::Own;
        }
        match started.and_then(Pending::wait) {
            Ok(read) => {
                times.check(Ok(read.count()), self.job.bytes);
                Tile::Lent(read)
            }
            Err(errno) => {
                times.fail(errno);
                Tile::Own
            }
        }
    }
    /// Works on a tile: whether it is the piece at `place`.
    fn work(&self, units: u32, tile: &Tile, own: &[u8], place: u64) -> bool {
        let body = |bytes: &[u8]| {
            let (sum, is_right) = work(units, bytes, place);
            black_box(sum);
            is_right
        };
        match tile {
            Tile::Lent(read) => read.with(body).unwrap_or(false),
            Tile::Own => body(own),
        }
    }
}

kernel! {
    /// All lanes read pieces, and work for `units` steps on each, as `way` says, with up to [`Pieces::ahead`] reads in flight beside it; the grid's
    /// warps go in step. At most as many as the device has room for at once.
    pub fn in_step(fs: Fs, job: Pieces, meeting: Supply, warps: u32, units: u32, way: u32, landing: u32) {
        let times = Times(job.times);
        between(times, || {
            let part = Part { job, landing };
            let into = job.memory();
            let mut all = Meeting::new(&meeting, warps);
            let ahead = job.ahead.clamp(1, AHEAD_MAX);
            // Started, from `round` to before `begun`: each at its number modulo the most.
            let mut next: [Option<Result<Pending, Errno>>; AHEAD_MAX as usize] =
                [const { None }; AHEAD_MAX as usize];
            let mut begun = 0;
            for round in 0..job.rounds {
                let (place, mut tile) = (job.place(round), Tile::Own);
                if way == BESIDE {
                    if begun == round {
                        // There was no room: the lane holds nothing now.
                        next[(round % AHEAD_MAX) as usize] = Some(job.start_soon(fs, round));
                        begun += 1;
                    }
                    if let Some(started) = next[(round % AHEAD_MAX) as usize].take() {
                        tile = part.tile(started, into);
                    }
                    while begun < job.rounds && begun <= round + ahead {
                        match job.start(fs, begun) {
                            Err(Errno::AGAIN) => break,
                            started => next[(begun % AHEAD_MAX) as usize] = Some(started),
                        }
                        begun += 1;
                    }
                } else if way != WORK {
                    times.check(fs.pread(job.file, into, place), job.bytes);
                }
                if way != WORK {
                    all.meet();
                }
                if way != READ {
                    if !part.work(units, &tile, into, place) && way != WORK {
                        times.put(0, Times::WRONG);
                    }
                    all.meet();
                }
                drop(tile);
            }
        });
    }
}

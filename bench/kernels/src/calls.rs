//! What is measured: the calls of gpufs.

use gpufs_core::kernel::Shared;
use gpufs_core::session::FileIndex;
use gpufs_device::kernel::FileHandle;
use gpufs_device::warp::{Machine, Warp, global_thread};
use gpufs_device::{Errno, Fs, calling, fprintf, fscanf, kernel};

use crate::{MOST_FILES, Supply, Times, between, copy_wide, sampled, scramble, timed, warp_index};

/// Each lane makes its requests on the source or target in device memory itself.
pub const DIRECT: u32 = 0;
/// Each request is of registered memory, in place.
pub const IN_PLACE: u32 = 1;
/// As [`IN_PLACE`], and the warp copies between that and device memory in wide words.
pub const COPIED: u32 = 2;
/// As [`DIRECT`], and the lanes that have no request take part in the call, with no bytes: a call in which the whole warp can copy.
pub const JOINED: u32 = 3;

gpufs_device::portable! {
    /// A measurement of transfers. Sizes are multiples of 16.
    #[derive(Clone, Copy, Debug)]
    pub struct Transfers {
        /// The files; a warp uses the one of its number.
        pub files: Shared<[FileIndex; MOST_FILES]>,
        /// How many there are.
        pub file_count: u32,
        /// [`DIRECT`], [`IN_PLACE`], [`COPIED`], [`JOINED`].
        pub way: u32,
        /// Whether requests go to random places.
        pub random: u32,
        /// Bytes of one request; the requests of a piece are a lane's each, from lane 0 on.
        pub request: u64,
        /// Bytes that a warp moves at a time: at most a request for each lane.
        pub piece: u64,
        /// A piece of registered memory for each warp.
        pub pinned: u64,
        /// A piece of device memory for each warp.
        pub device: u64,
        /// Bytes of a file that are used: a multiple of `piece`.
        pub span: u64,
        /// The first piece's number, from which random places are made.
        pub first: u64,
        /// The pieces.
        pub supply: Supply,
        /// The address of [`Times`].
        pub times: u64,
    }
}

gpufs_device::portable! {
    /// A measurement of a stream's writing.
    #[derive(Clone, Copy, Debug)]
    pub struct Writes {
        /// The streams; a warp uses the one of its number.
        pub streams: Shared<[FileHandle; MOST_FILES]>,
        /// How many there are.
        pub stream_count: u32,
        /// Calls of a lane.
        pub rounds: u32,
        /// Bytes of one call.
        pub bytes: u64,
        /// That many bytes of device memory for each thread.
        pub device: u64,
        /// The address of [`Times`].
        pub times: u64,
    }
}

kernel! {
    /// Samples of one `nop` of every calling lane.
    pub fn nop_latency(fs: Fs, rounds: u32, times: u64) {
        let times = Times(times);
        sampled(times, rounds, |_| (), |()| {
            if let Err(errno) = fs.nop() {
                times.fail(errno);
            }
        });
    }
}

kernel! {
    /// Samples of one `pread` of `bytes` at random places of the first `span` bytes, into `memory`: lane 0's. Other lanes take part in the
    /// call, with no bytes.
    pub fn read_latency(
        fs: Fs,
        file: FileIndex,
        memory: u64,
        bytes: u64,
        span: u64,
        rounds: u32,
        times: u64,
    ) {
        let mine = if Machine::lane() == 0 { bytes } else { 0 };
        // SAFETY:
        // - the host gives that much memory to the one lane that has bytes
        let into = unsafe { core::slice::from_raw_parts_mut(memory as *mut u8, mine as usize) };
        let place = |round| scramble(u64::from(round)) % (span / bytes) * bytes;
        sampled(Times(times), rounds, place, |place| Times(times).check(fs.pread(file, into, place), mine));
    }
}

kernel! {
    /// Every lane makes `rounds` NOPs.
    pub fn nops(fs: Fs, rounds: u32, times: u64) {
        let times = Times(times);
        timed(times, rounds, |_| {
            if let Err(errno) = fs.nop() {
                times.fail(errno);
            }
        });
    }
}

kernel! {
    /// Every thread prints `rounds` lines.
    pub fn print_lines(fs: Fs, file: gpufs_device::File, rounds: u32, times: u64) {
        let _ = fs;
        let thread = global_thread();
        for round in 0..rounds {
            let printed = fprintf!(file, c"thread %lu iter %u value %f\n", thread, round, thread as f64 * 0.5);
            if let Err(errno) = printed {
                Times(times).fail(errno);
            }
        }
    }
}

kernel! {
    /// Every thread writes the same bytes again and again.
    pub fn write_streams(fs: Fs, job: Writes) {
        let times = Times(job.times);
        let which = (warp_index() % job.stream_count) as usize;
        let stream = match job.streams.with(fs, |streams| streams[which]).get(fs) {
            Ok(stream) => stream,
            Err(errno) => return times.fail(errno),
        };
        let memory = job.device + global_thread() * job.bytes;
        // SAFETY:
        // - the host gives each thread that many bytes, which nobody writes
        let bytes = unsafe { core::slice::from_raw_parts(memory as *const u8, job.bytes as usize) };
        timed(times, job.rounds, |_| times.check(stream.fwrite(bytes), job.bytes));
    }
}

/// One warp's part in [`Transfers`].
fn transfers(fs: Fs, job: &Transfers, writing: bool) {
    let times = Times(job.times);
    let warp = calling!();
    let (index, lane) = (u64::from(warp_index()), u64::from(Machine::lane()));
    let which = warp_index() % job.file_count;
    let file = job.files.with(fs, |files| files[which as usize]);
    let (pinned, device) = (job.pinned + index * job.piece, job.device + index * job.piece);
    let requests = lane < job.piece / job.request;
    let (bytes, at) = if requests { (job.request, lane * job.request) } else { (0, 0) };
    let memory = if matches!(job.way, DIRECT | JOINED) { device } else { pinned } + at;
    let calls = requests || job.way == JOINED;
    between(times, || {
        // Ends: with the pieces.
        while let Some(number) = job.supply.next(warp) {
            let number = job.first + number;
            let offset = if job.random == 0 {
                job.supply.place(warp, which) % (job.span / job.piece) * job.piece + at
            } else {
                scramble(number << 6 | lane) % (job.span / job.request) * job.request
            };
            if writing && job.way == COPIED {
                copy_wide(pinned, device, job.piece);
                warp.sync();
            }
            if calls {
                let outcome = one(fs, file, writing, (memory, bytes), offset);
                times.check(outcome, bytes);
            }
            warp.sync();
            if !writing && job.way == COPIED {
                copy_wide(device, pinned, job.piece);
                warp.sync();
            }
        }
    });
}

/// One lane's request.
fn one(
    fs: Fs,
    file: FileIndex,
    writing: bool,
    (memory, bytes): (u64, u64),
    offset: u64,
) -> Result<usize, Errno> {
    if writing {
        // SAFETY:
        // - the lane's part of its warp's piece
        let from = unsafe { core::slice::from_raw_parts(memory as *const u8, bytes as usize) };
        fs.pwrite(file, from, offset)
    } else {
        // SAFETY:
        // - the lane's part of its warp's piece, which no other lane touches before the barrier
        let into = unsafe { core::slice::from_raw_parts_mut(memory as *mut u8, bytes as usize) };
        fs.pread(file, into, offset)
    }
}

kernel! {
    /// Warps write pieces.
    pub fn write_pieces(fs: Fs, job: Transfers) {
        transfers(fs, &job, true);
    }
}

kernel! {
    /// Warps read pieces.
    pub fn read_pieces(fs: Fs, job: Transfers) {
        transfers(fs, &job, false);
    }
}

kernel! {
    /// Every thread takes lines until there is none left, and leaves at `counts` how many it took.
    pub fn take_lines(fs: Fs, file: gpufs_device::File, counts: u64, times: u64) {
        let _ = fs;
        let times = Times(times);
        let mut line = [0; 128];
        let mut taken = 0;
        timed(times, 1, |_| {
            // Ends: with the file.
            loop {
                match file.fgets(&mut line) {
                    Ok(Some(_)) => taken += 1,
                    Ok(None) => break,
                    Err(errno) => {
                        times.fail(errno);
                        break;
                    }
                }
            }
        });
        Times(counts).put(global_thread() as usize, taken);
    }
}

/// Of [`take_numbers()`]: one integer a call.
pub const ONE_INTEGER: u32 = 0;
/// Four integers a call.
pub const FOUR_INTEGERS: u32 = 1;
/// Four floating-point numbers a call, which are multiples of a half.
pub const FOUR_REALS: u32 = 2;

/// Reads numbers until there is none left: the sum of all, of reals twice that.
fn read_numbers(file: gpufs_device::File, way: u32) -> Result<u64, Errno> {
    let (mut integers, mut reals) = ([0_i64; 4], [0.0_f64; 4]);
    let mut sum = 0_u64;
    // Ends: with the file.
    loop {
        let ([i, j, k, l], [x, y, z, w]) = (&mut integers, &mut reals);
        let stored = match way {
            ONE_INTEGER => fscanf!(file, c"%ld", i)?,
            FOUR_INTEGERS => fscanf!(file, c"%ld %ld %ld %ld", i, j, k, l)?,
            _ => fscanf!(file, c"%lf %lf %lf %lf", x, y, z, w)?,
        };
        let Some(stored) = stored else { return Ok(sum) };
        if stored == 0 {
            // No number: it would stay there.
            return Err(Errno::ILSEQ);
        }
        for at in 0..stored.min(4) {
            let value = if way == FOUR_REALS { (2.0 * reals[at]) as i64 } else { integers[at] };
            sum = sum.wrapping_add(value.cast_unsigned());
        }
    }
}

kernel! {
    /// Every thread reads numbers of a text in one of the ways until there is none left, and leaves their sum at `sums`.
    pub fn take_numbers(fs: Fs, file: gpufs_device::File, way: u32, sums: u64, times: u64) {
        let _ = fs;
        let times = Times(times);
        let mut sum = 0;
        timed(times, 1, |_| match read_numbers(file, way) {
            Ok(all) => sum = all,
            Err(errno) => times.fail(errno),
        });
        Times(sums).put(global_thread() as usize, sum);
    }
}

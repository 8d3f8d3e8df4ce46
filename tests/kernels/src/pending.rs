//! Threads that start operations and wait for them later.

use core::time::Duration;

use gpufs_device::aio::{Cancel, Finished, LINKS_MAX, Link, Pending, block_on, join, wait_any};
use gpufs_device::file::Descriptor;
use gpufs_device::kernel::Shared;
use gpufs_device::warp::{self, global_thread};
use gpufs_device::{Errno, Fs, kernel};

use crate::meetings::pattern;
use crate::records::Report;

/// Bytes of a block that [`start_and_wait()`] writes and reads.
pub const BLOCK: usize = 64;
/// Blocks that a thread has in flight, at most.
const IN_FLIGHT: usize = 3;

/// Block `block` of a thread's.
fn block_of(thread: u64, block: u64) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    for (word, into) in (0..).zip(bytes.chunks_exact_mut(8)) {
        into.copy_from_slice(&pattern(thread, block * 8 + word).to_le_bytes());
    }
    bytes
}

/// Starts again while there is no room. For a thread that holds no operation: what others hold they take, and wait for nobody to do so.
fn again(mut start: impl FnMut() -> Result<Pending, Errno>) -> Result<Pending, Errno> {
    // Ends: others take their results.
    loop {
        match start() {
            Err(Errno::AGAIN) => warp::nap(1_000),
            started => return started,
        }
    }
}

/// Waits for the first of the writes in flight, if there is one; whether there was.
#[inline(never)]
fn end_one(flying: &mut [Option<Pending>; IN_FLIGHT], report: &Report) -> bool {
    let Some(written) = flying.iter_mut().find_map(Option::take) else { return false };
    match written.wait() {
        Ok(done) if done.count() == BLOCK => {}
        Ok(done) => report.note(1, global_thread(), 0, done.count() as u32),
        Err(errno) => report.note(2, global_thread(), 0, errno.number().cast_unsigned()),
    }
    true
}

kernel! {
    /// Every thread writes `blocks` blocks at its place of the file, several at a time, and syncs; then reads them back, two at a time,
    /// and looks at each.
    pub fn start_and_wait(fs: Fs, file: u32, blocks: u64, report: Shared<Report>) {
        report.with(fs, |report| {
            let thread = global_thread();
            let file = Descriptor(file);
            let at = |block: u64| (thread * blocks + block) * BLOCK as u64;
            let noted = |place: u32, block: u64, errno: Errno| {
                report.note(place, thread, block as u32, errno.number().cast_unsigned());
            };
            let mut flying: [Option<Pending>; IN_FLIGHT] = [const { None }; IN_FLIGHT];
            for block in 0..blocks {
                let bytes = block_of(thread, block);
                if flying.iter().all(Option::is_some) {
                    let _ = end_one(&mut flying, report);
                }
                // Ends: each round without room takes a result of this thread's, or others take theirs.
                let started = loop {
                    match fs.start_pwrite(file, &bytes, at(block)) {
                        Err(Errno::AGAIN) => {
                            if !end_one(&mut flying, report) {
                                warp::nap(1_000);
                            }
                        }
                        started => break started,
                    }
                };
                match started {
                    Ok(started) => {
                        if let Some(place) = flying.iter_mut().find(|place| place.is_none()) {
                            *place = Some(started);
                        }
                    }
                    Err(errno) => noted(3, block, errno),
                }
            }
            while end_one(&mut flying, report) {}
            if let Err(errno) = again(|| fs.start_fdatasync(file)).and_then(Pending::wait) {
                noted(4, 0, errno);
            }
            for block in 0..blocks {
                let other = (block + 1) % blocks;
                match again(|| fs.start_pread(file, BLOCK, at(block))) {
                    Ok(first) => {
                        let second = fs.start_pread(file, BLOCK, at(other));
                        check(report, (second, other));
                        check(report, (Ok(first), block));
                    }
                    Err(errno) => noted(5, block, errno),
                }
            }
        });
    }
}

/// Waits for a block that was read, and looks at it.
#[inline(never)]
fn check(report: &Report, (read, block): (Result<Pending, Errno>, u64)) {
    let thread = global_thread();
    let mut bytes = [0; BLOCK];
    match read.and_then(|read| read.wait_into(&mut bytes)) {
        // There was no room.
        Err(Errno::AGAIN) => {}
        Ok(BLOCK) if bytes == block_of(thread, block) => {}
        Ok(count) => report.note(6, thread, block as u32, count as u32),
        Err(errno) => report.note(7, thread, block as u32, errno.number().cast_unsigned()),
    }
}

kernel! {
    /// Every thread has `blocks` blocks written at its place of the file, copied behind what all threads write, and synced, each by a chain; looks at
    /// the copy; and has chains refused and cut short, which leave the file as it is.
    pub fn copy_by_chains(fs: Fs, file: u32, blocks: u64, report: Shared<Report>) {
        report.with(fs, |report| {
            let thread = global_thread();
            let descriptor = Descriptor(file);
            let all = warp::grid_threads() * blocks * BLOCK as u64;
            for block in 0..blocks {
                let (bytes, offset) = (block_of(thread, block), (thread * blocks + block) * BLOCK as u64);
                let links = [
                    Link::Pwrite { descriptor, from: &bytes, offset },
                    Link::Pread { descriptor, bytes: BLOCK, offset },
                    Link::PwriteRead { descriptor, offset: all + offset },
                    Link::Fdatasync(descriptor),
                ];
                // Behind the end of the file nothing is read, so nothing is written.
                let short = [
                    Link::Pread { descriptor, bytes: BLOCK, offset: 1 << 40 },
                    Link::Pwrite { descriptor, from: &[0; 8], offset },
                ];
                let whole = start_again(fs, &links).map(|started| copied(report, started, &bytes, block));
                let cut = start_again(fs, &short).map(|started| cut_short(report, started, block));
                if let Err(errno) = whole.and(cut) {
                    report.note(11, thread, block as u32, errno.number().cast_unsigned());
                }
                if !matches!(fs.start_links(&links[2..], false), Err(Errno::INVAL)) {
                    report.note(12, thread, block as u32, 0);
                }
            }
        });
    }
}

/// The links of a chain that were started.
type Started = [Option<Pending>; LINKS_MAX];

/// Starts a chain again while there is no room, as [`again`].
fn start_again(fs: Fs, links: &[Link<'_>]) -> Result<Started, Errno> {
    // Ends: others take their results.
    loop {
        match fs.start_links(links, false) {
            Err(Errno::AGAIN) => warp::nap(1_000),
            started => return started,
        }
    }
}

/// Waits for the links of a chain that copies a block, and looks at what was read.
#[inline(never)]
fn copied(report: &Report, started: Started, expected: &[u8; BLOCK], block: u64) {
    let mut bytes = [0; BLOCK];
    for (place, link) in (0..).zip(started.into_iter().flatten()) {
        let wanted = if place == 3 { 0 } else { BLOCK };
        match link.wait_into(&mut bytes) {
            Ok(count) if count == wanted => {}
            Ok(count) => report.note(8, global_thread(), place, count as u32),
            Err(errno) => report.note(9, global_thread(), place, errno.number().cast_unsigned()),
        }
    }
    if bytes != *expected {
        report.note(10, global_thread(), block as u32, 0);
    }
}

/// Waits for the links of a chain that ends with its first.
#[inline(never)]
fn cut_short(report: &Report, started: Started, block: u64) {
    let [first, second, ..] = started.map(|link| link.map(|link| link.wait().map(|done| done.count())));
    if first != Some(Ok(0)) || second != Some(Err(Errno::CANCELED)) {
        report.note(13, global_thread(), block as u32, 0);
    }
}

kernel! {
    /// Every thread starts to read an empty pipe, twice: it cancels the first, and lets the second's time run out. With `leaves` it starts one and
    /// forgets it, if there is room.
    pub fn start_and_cancel(fs: Fs, pipe: u32, leaves: u32, report: Shared<Report>) {
        report.with(fs, |report| {
            let thread = global_thread();
            let pipe = Descriptor(pipe);
            let note = |place: u32, outcome: Result<usize, Errno>| {
                let number = outcome.map_or_else(Errno::number, |_| 1000);
                report.note(place, thread, 0, number.cast_unsigned());
            };
            if leaves != 0 {
                // As many as there is room for.
                if let Ok(pending) = fs.start_read(pipe, 8) {
                    core::mem::forget(pending);
                }
                return;
            }
            if let Ok(pending) = again(|| fs.start_read(pipe, 8)) {
                if wait_any([&pending], Some(Duration::from_micros(50))) != Err(Errno::TIMEDOUT) {
                    note(1, Ok(0));
                }
                match pending.cancel() {
                    Ok(Cancel::Canceled | Cancel::NotCanceled) => {}
                    Ok(Cancel::AllDone) => note(2, Ok(0)),
                    Err(errno) => note(2, Err(errno)),
                }
                match pending.wait().map(|done| done.count()) {
                    Err(Errno::CANCELED | Errno::INTR) => {}
                    other => note(3, other),
                }
            }
            if let Ok(pending) = again(|| fs.start_read(pipe, 8)) {
                match pending.wait_for(Duration::from_micros(300)).map(|done| done.count()) {
                    Err(Errno::TIMEDOUT) => {}
                    other => note(4, other),
                }
            }
        });
    }
}

kernel! {
    /// Every thread reads two blocks of the file as futures, at once.
    pub fn await_two(fs: Fs, file: u32, blocks: u64, report: Shared<Report>) {
        report.with(fs, |report| {
            let thread = global_thread();
            let file = Descriptor(file);
            let at = |block: u64| (thread * blocks + block) * BLOCK as u64;
            let look = |block: u64, read: Result<Finished, Errno>| {
                let mut bytes = [0; BLOCK];
                match read.and_then(|read| read.copy_to(&mut bytes)) {
                    Ok(BLOCK) if bytes == block_of(thread, block) => {}
                    Ok(count) => report.note(2, thread, block as u32, count as u32),
                    Err(errno) => report.note(3, thread, block as u32, errno.number().cast_unsigned()),
                }
            };
            let first = again(|| fs.start_pread(file, BLOCK, at(0)));
            let Ok(first) = first else { return report.note(1, thread, 0, 0) };
            match fs.start_pread(file, BLOCK, at(1)) {
                Ok(second) => {
                    let (first, second) = block_on(join(first, second));
                    look(0, first);
                    look(1, second);
                }
                // There is no room before this thread gives back what it has: of those that wait for more none may keep what it read.
                Err(Errno::AGAIN) => {
                    look(0, block_on(first));
                    look(1, again(|| fs.start_pread(file, BLOCK, at(1))).and_then(block_on));
                }
                Err(errno) => report.note(4, thread, 1, errno.number().cast_unsigned()),
            }
        });
    }
}

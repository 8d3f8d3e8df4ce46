//! The rivals on the CPU: threads with ordinary system calls, and one core with plain io_uring.
#![expect(unsafe_code, reason = "submission entries")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode};

use crate::failure::Failure;
use crate::sample::{Effort, Spread};

/// Cores of this machine.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Moves one thread's bytes between files and memory of its own.
pub(crate) trait Mover {
    /// Reads the thread's bytes at `offset`.
    fn read(&mut self, file: &File, offset: u64) -> io::Result<()>;
    /// Writes them there.
    fn write(&mut self, file: &File, offset: u64) -> io::Result<()>;
}

/// How threads move bytes.
pub(crate) trait Means: Sync {
    /// What a thread moves `bytes` at a time with. Called in that thread.
    fn mover(&self, bytes: usize) -> io::Result<Box<dyn Mover + '_>>;
}

/// Means: system calls on ordinary memory.
pub(crate) struct Plain;

/// Memory that begins a page, as direct I/O wants it.
struct Pages {
    memory: Vec<u8>,
    skip: usize,
    bytes: usize,
}

impl Pages {
    const PAGE: usize = 4096;

    fn own(&mut self) -> &mut [u8] {
        &mut self.memory[self.skip..self.skip + self.bytes]
    }
}

impl Means for Plain {
    fn mover(&self, bytes: usize) -> io::Result<Box<dyn Mover + '_>> {
        let memory = vec![b'x'; bytes + Pages::PAGE];
        let skip = memory.as_ptr().align_offset(Pages::PAGE);
        Ok(Box::new(Pages { memory, skip, bytes }))
    }
}

impl Mover for Pages {
    fn read(&mut self, file: &File, offset: u64) -> io::Result<()> {
        file.read_exact_at(self.own(), offset)
    }
    fn write(&mut self, file: &File, offset: u64) -> io::Result<()> {
        file.write_all_at(self.own(), offset)
    }
}

/// Means: system calls on one stretch after the other of memory larger than the caches, as a ring's are where a GPU takes what was read.
pub(crate) struct Roaming;

/// A thread's stretches.
struct Stretches {
    pages: Pages,
    /// Bytes of one.
    bytes: usize,
    /// Where the next begins.
    next: usize,
}

impl Roaming {
    /// Bytes of a thread.
    const BYTES: usize = 64 << 20;
}

impl Means for Roaming {
    fn mover(&self, bytes: usize) -> io::Result<Box<dyn Mover + '_>> {
        let all = Self::BYTES.max(bytes) / bytes * bytes;
        let memory = vec![b'x'; all + Pages::PAGE];
        let skip = memory.as_ptr().align_offset(Pages::PAGE);
        Ok(Box::new(Stretches { pages: Pages { memory, skip, bytes: all }, bytes, next: 0 }))
    }
}

impl Stretches {
    fn own(&mut self) -> &mut [u8] {
        let (start, all) = (self.next, self.pages.bytes);
        self.next = (start + self.bytes) % all;
        &mut self.pages.own()[start..start + self.bytes]
    }
}

impl Mover for Stretches {
    fn read(&mut self, file: &File, offset: u64) -> io::Result<()> {
        file.read_exact_at(self.own(), offset)
    }
    fn write(&mut self, file: &File, offset: u64) -> io::Result<()> {
        file.write_all_at(self.own(), offset)
    }
}

/// What threads move.
#[derive(Clone, Copy)]
pub(crate) struct Moving<'a> {
    /// How.
    pub(crate) means: &'a dyn Means,
    /// Thread `i` uses file `i`, round and round.
    pub(crate) files: &'a [File],
    pub(crate) writing: bool,
    pub(crate) random: bool,
    /// Bytes of one call.
    pub(crate) bytes: u64,
    /// Bytes of a file that are used.
    pub(crate) span: u64,
}

impl Moving<'_> {
    /// Has `threads` threads, each with its number and its mover, do `body` from the same moment on: bytes in all, and seconds until
    /// the last was done.
    fn together(
        self,
        threads: usize,
        body: impl Fn(usize, &mut dyn Mover) -> io::Result<u64> + Sync,
    ) -> Result<(f64, f64), Failure> {
        let bytes = usize::try_from(self.bytes)?;
        let ready = Barrier::new(threads);
        let alone = |number: usize| {
            let mover = self.means.mover(bytes);
            // Also where there is none: the others wait.
            ready.wait();
            let mut mover = mover?;
            let started = Instant::now();
            let moved = body(number, &mut *mover)?;
            Ok::<_, io::Error>((moved, started.elapsed().as_secs_f64()))
        };
        let all: Result<Vec<(u64, f64)>, io::Error> = thread::scope(|scope| {
            let alone = &alone;
            let all: Vec<_> = (0..threads).map(|number| scope.spawn(move || alone(number))).collect();
            all.into_iter().map(|thread| thread.join().expect("a thread that only reads or writes")).collect()
        });
        let all = all?;
        let seconds = all.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
        Ok((all.iter().map(|(moved, _)| *moved).sum::<u64>() as f64, seconds))
    }

    /// `threads` threads at work for `time`: bytes, and seconds.
    fn once(self, threads: usize, time: Duration) -> Result<(f64, f64), Failure> {
        self.together(threads, |number, mover| {
            let file = &self.files[number % self.files.len()];
            let places = (self.span / self.bytes).max(1);
            let mut place = number as u64 * places / threads as u64;
            let mut moved = 0;
            let mut seed = number as u64 + 1;
            let started = Instant::now();
            loop {
                // A look at the clock costs as much as a small call.
                for _ in 0..((64 << 10) / self.bytes).clamp(1, 64) {
                    if self.random {
                        seed ^= seed << 13;
                        seed ^= seed >> 7;
                        seed ^= seed << 17;
                        place = seed;
                    }
                    let offset = place % places * self.bytes;
                    if self.writing {
                        mover.write(file, offset)?;
                    } else {
                        mover.read(file, offset)?;
                    }
                    place += 1;
                    moved += self.bytes;
                }
                if started.elapsed() >= time {
                    return Ok(moved);
                }
            }
        })
    }

    /// Writes all of `span` once, into a file cut to nothing where it can be: seconds.
    fn whole(self, threads: usize) -> Result<f64, Failure> {
        for file in self.files {
            // Not where it is a device.
            let _ = file.set_len(0);
        }
        let (_, seconds) = self.together(threads, |number, mover| {
            let file = &self.files[number % self.files.len()];
            let mut moved = 0;
            for place in (number as u64..self.span / self.bytes).step_by(threads) {
                mover.write(file, place * self.bytes)?;
                moved += self.bytes;
            }
            Ok(moved)
        })?;
        Ok(seconds)
    }

    /// Bytes a second of the number of threads that writes a new file best, and that number.
    pub(crate) fn best_anew(self, samples: usize) -> Result<(usize, Spread), Failure> {
        let mut best = (1, f64::MAX);
        for count in Self::counts() {
            let seconds = self.whole(count)?.min(self.whole(count)?);
            if seconds < best.1 {
                best = (count, seconds);
            }
        }
        let bytes = self.span / self.bytes * self.bytes;
        let rates: Result<Vec<_>, Failure> =
            (0..samples).map(|_| Ok(bytes as f64 / self.whole(best.0)?)).collect();
        Ok((best.0, Spread::of(rates?)))
    }

    /// Numbers of threads to try.
    fn counts() -> Vec<usize> {
        let mut counts: Vec<usize> =
            [1, 2, 4, 8, 16, 32].into_iter().filter(|count| *count <= cores()).collect();
        if !counts.contains(&cores()) {
            counts.push(cores());
        }
        counts
    }

    /// Bytes a second of that many threads.
    pub(crate) fn rate(self, effort: Effort, threads: usize) -> Result<Spread, Failure> {
        let samples: Result<Vec<_>, Failure> = (0..effort.samples)
            .map(|_| {
                let (bytes, seconds) = self.once(threads, effort.target)?;
                Ok(bytes / seconds)
            })
            .collect();
        Ok(Spread::of(samples?))
    }

    /// Bytes a second of the number of threads that does best, and that number.
    pub(crate) fn best(self, effort: Effort) -> Result<(usize, Spread), Failure> {
        let mut best = (1, 0.0);
        for count in Self::counts() {
            let (bytes, seconds) = self.once(count, effort.target / 2)?;
            if bytes / seconds > best.1 {
                best = (count, bytes / seconds);
            }
        }
        Ok((best.0, self.rate(effort, best.0)?))
    }
}

/// A ring of so many entries, with a thread of the kernel that looks for them.
pub(crate) fn polled_ring(entries: u32) -> Result<IoUring, Failure> {
    Ok(IoUring::builder().setup_sqpoll(1000).build(entries)?)
}

/// One ring that one core drives.
pub(crate) struct Driven {
    ring: IoUring,
    /// Entries in flight at most.
    depth: u32,
    sqpoll: bool,
}

impl Driven {
    pub(crate) fn open(sqpoll: bool) -> Result<Self, Failure> {
        let depth = 256;
        let ring = if sqpoll { polled_ring(depth)? } else { IoUring::new(depth)? };
        Ok(Self { ring, depth, sqpoll })
    }

    /// Submits up to `count` NOPs; how many.
    fn submit(&mut self, count: u32) -> u32 {
        let entry = opcode::Nop::new().build();
        let mut queue = self.ring.submission();
        // SAFETY:
        // - a NOP refers to nothing
        let pushed = (0..count).take_while(|_| unsafe { queue.push(&entry) }.is_ok()).count();
        u32::try_from(pushed).unwrap_or(0)
    }
    /// Has the kernel look, and takes what is complete: how many. Without SQPOLL, waits until there is one.
    fn take(&mut self) -> Result<u32, Failure> {
        if self.sqpoll {
            self.ring.submit()?;
        } else {
            self.ring.submit_and_wait(1)?;
        }
        Ok(u32::try_from(self.ring.completion().count())?)
    }

    /// NOPs a second, with up to the ring's depth in flight.
    pub(crate) fn rate(&mut self, effort: Effort) -> Result<Spread, Failure> {
        effort.rate(u32::MAX, |rounds| {
            let started = Instant::now();
            let wanted = u64::from(rounds) * u64::from(self.depth);
            let (mut done, mut in_flight) = (0, 0);
            // Ends: the kernel completes what was submitted.
            while done < wanted {
                in_flight += self.submit(self.depth - in_flight);
                let taken = self.take()?;
                in_flight -= taken;
                done += u64::from(taken);
            }
            // What is still in flight belongs to no sample.
            while in_flight > 0 {
                in_flight -= self.take()?;
            }
            Ok((done as f64, started.elapsed().as_secs_f64()))
        })
    }

    /// Round trips of one NOP, in microseconds.
    pub(crate) fn samples_us(&mut self, count: u32) -> Result<Vec<f64>, Failure> {
        (0..count)
            .map(|_| {
                let started = Instant::now();
                self.submit(1);
                // Ends: the kernel completes what was submitted.
                while self.take()? == 0 {}
                Ok(started.elapsed().as_secs_f64() * 1e6)
            })
            .collect()
    }
}

/// Times of one read of a mover's each, at random places, in microseconds.
pub(crate) fn read_samples_us(
    mover: &mut dyn Mover,
    file: &File,
    bytes: u64,
    span: u64,
    count: u32,
) -> Result<Vec<f64>, Failure> {
    let mut seed = 1_u64;
    (0..count)
        .map(|_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let started = Instant::now();
            mover.read(file, seed % (span / bytes) * bytes)?;
            Ok(started.elapsed().as_secs_f64() * 1e6)
        })
        .collect()
}

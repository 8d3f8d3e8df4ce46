//! One core that writes one file as a stream of gpufs does: block after block of the same size, by a ring or by calls of its own.
//!
//! A stream's blocks come over the bus. Here the blocks lie in memory larger than the caches and are taken in rotation, so that by the
//! time a block's turn comes again, what was written since has put it out of them.
#![expect(unsafe_code, reason = "submission entries, and memory that is pinned")]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::ptr::NonNull;
use std::thread;
use std::time::Instant;

use gpufs_host::ring::{CpuMemory, MemorySource as _};
use io_uring::{IoUring, opcode, types};

use crate::cpu;
use crate::failure::Failure;
use crate::gpu::Gpu;
use crate::report::size;
use crate::sample::{Effort, Spread};

/// The least that is held to be larger than the caches: a virtual machine may not be told of all that it has.
const LEAST_BYTES: usize = 64 << 20;
/// The same of a GPU's host, whose caches are larger.
const LEAST_BYTES_OF_HOSTS: usize = 512 << 20;
/// What a ring registers as one buffer at most (`io_uring_register(2)`).
const MOST_BYTES: usize = 1 << 30;

/// Bytes of the largest cache, as the system tells.
fn largest_cache() -> usize {
    let size_of = |index: u32| {
        let text =
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")).ok()?;
        text.trim_end().strip_suffix('K')?.parse::<usize>().ok()
    };
    (0..8).filter_map(size_of).max().unwrap_or(0) << 10
}

/// Host memory larger than the caches, of the kind that a session's buffers are: whole pages, pinned where there is a GPU.
pub(crate) struct Source<'a> {
    memory: NonNull<u8>,
    bytes: usize,
    /// Whose driver has pinned it.
    pinned: Option<&'a Gpu>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(gpu: Option<&'a Gpu>) -> Result<Self, Failure> {
        let least = if gpu.is_some() { LEAST_BYTES_OF_HOSTS } else { LEAST_BYTES };
        let bytes = (2 * largest_cache()).clamp(least, MOST_BYTES).next_multiple_of(1 << 20).min(MOST_BYTES);
        let mut source = Self { memory: CpuMemory.allocate(bytes, 4096)?, bytes, pinned: None };
        // SAFETY:
        // - a mapping of that length, which nobody else has
        unsafe { source.memory.write_bytes(b'x', bytes) };
        if let Some(gpu) = gpu {
            // SAFETY:
            // - mapped until `drop`, which takes it back before
            unsafe { gpu.pin(source.memory, bytes) }?;
            source.pinned = Some(gpu);
        }
        Ok(source)
    }

    /// Where block `number` lies.
    fn offset(&self, number: u64, block: usize) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "less than the blocks that there are")]
        let place = (number % (self.bytes / block) as u64) as usize;
        place * block
    }
    fn block(&self, number: u64, block: usize) -> &[u8] {
        let first = self.offset(number, block);
        assert!(first + block <= self.bytes, "a block lies in the memory");
        // SAFETY:
        // - within the mapping, as checked; filled in `new`, and written by nobody afterwards
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(first), block) }
    }
}

impl Drop for Source<'_> {
    fn drop(&mut self) {
        if let Some(gpu) = self.pinned {
            // SAFETY:
            // - pinned in `new`, once
            unsafe { gpu.unpin(self.memory) };
        }
        // SAFETY:
        // - allocated in `new`; every ring that had it is gone, since it borrows this
        unsafe { CpuMemory.free(self.memory, self.bytes) };
    }
}

/// How the blocks get into the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// `pwrite` after `pwrite`.
    Calls,
    /// One ring with SQPOLL: so many writes in flight.
    Ring(u32),
}

/// A ring with SQPOLL that knows a file and, where the system lets it lock as much, the memory.
struct Ring {
    ring: IoUring,
    /// Writes in flight at most.
    depth: u32,
    registered: bool,
}

impl Ring {
    fn open(file: &File, source: &Source<'_>, depth: u32) -> Result<Self, Failure> {
        let ring = cpu::polled_ring(depth.next_power_of_two())?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let memory = libc::iovec { iov_base: source.memory.as_ptr().cast(), iov_len: source.bytes };
        // SAFETY:
        // - mapped as long as the source, which outlives this ring
        let registered = unsafe { ring.submitter().register_buffers(&[memory]) }.is_ok();
        Ok(Self { ring, depth, registered })
    }

    /// Asks for a block's write.
    fn submit(&mut self, block: &[u8], offset: u64) -> Result<(), Failure> {
        let (file, bytes) = (types::Fixed(0), u32::try_from(block.len())?);
        let entry = if self.registered {
            opcode::WriteFixed::new(file, block.as_ptr(), bytes, 0).offset(offset).build()
        } else {
            opcode::Write::new(file, block.as_ptr(), bytes).offset(offset).build()
        };
        // The kernel's thread posts completions before it says which entries of the submission queue it has consumed.
        // Ends: it consumes every entry, and there are as many as writes in flight at most.
        loop {
            // SAFETY:
            // - a block of the source, which outlives this ring and is not written
            let pushed = unsafe { self.ring.submission().push(&entry) };
            if pushed.is_ok() {
                break;
            }
            self.ring.submitter().squeue_wait()?;
        }
        self.ring.submit()?;
        Ok(())
    }
    /// Takes what is complete: how many.
    fn take(&mut self, bytes: usize) -> Result<u32, Failure> {
        let mut taken = 0;
        for entry in self.ring.completion() {
            match usize::try_from(entry.result()) {
                Ok(count) if count == bytes => taken += 1,
                Ok(count) => return Err(format!("a write of {bytes} bytes wrote {count}").into()),
                Err(_) => return Err(io::Error::from_raw_os_error(-entry.result()).into()),
            }
        }
        Ok(taken)
    }
}

/// One core, one file.
pub(crate) struct Writer<'a> {
    file: &'a File,
    source: &'a Source<'a>,
    /// Bytes of a block.
    block: usize,
    /// Blocks of the file that are used.
    places: u64,
    ring: Option<Ring>,
    /// The next block.
    next: u64,
}

impl<'a> Writer<'a> {
    /// Of blocks of so many bytes, into the file's first `span` bytes.
    pub(crate) fn open(
        file: &'a File,
        span: u64,
        source: &'a Source<'a>,
        block: u32,
        means: Means,
    ) -> Result<Self, Failure> {
        let ring = match means {
            Means::Calls => None,
            Means::Ring(depth) => Some(Ring::open(file, source, depth)?),
        };
        let places = (span / u64::from(block)).max(1);
        Ok(Self { file, source, block: block as usize, places, ring, next: 0 })
    }

    /// What is measured.
    pub(crate) fn name(&self) -> String {
        let block = size(self.block as u64);
        let pinned = if self.source.pinned.is_some() { "pinned " } else { "" };
        let memory = format!("from {pinned}memory larger than the caches");
        match &self.ring {
            None => format!("CPU: pwrite of {block} {memory}, threads: 1"),
            Some(ring) => {
                let known = if ring.registered { "" } else { ", which the ring may not register" };
                format!(
                    "one core with io_uring, SQPOLL: {} writes of {block} in flight, {memory}{known}",
                    ring.depth
                )
            }
        }
    }

    /// Writes the next so many blocks, and waits for them.
    fn write(&mut self, count: u64) -> Result<(), Failure> {
        let (first, block) = (self.next, self.block);
        self.next += count;
        let place = |number: u64| (number % self.places) * block as u64;
        let Some(ring) = &mut self.ring else {
            for number in first..self.next {
                self.file.write_all_at(self.source.block(number, block), place(number))?;
            }
            return Ok(());
        };
        let (mut submitted, mut done) = (0, 0);
        // Ends: the kernel completes what was submitted.
        while done < count {
            while submitted < count && submitted - done < u64::from(ring.depth) {
                let number = first + submitted;
                ring.submit(self.source.block(number, block), place(number))?;
                submitted += 1;
            }
            let taken = ring.take(block)?;
            done += u64::from(taken);
            if taken == 0 {
                thread::yield_now();
            }
        }
        Ok(())
    }

    /// GB/s of writing over what the file holds.
    pub(crate) fn over(&mut self, effort: Effort) -> Result<Spread, Failure> {
        let block = self.block as f64;
        effort.rate(u32::MAX, |rounds| {
            // As many as are in flight, or the first would end where the last begins.
            let count = u64::from(rounds) * 16;
            let started = Instant::now();
            self.write(count)?;
            Ok((count as f64 * block / 1e9, started.elapsed().as_secs_f64()))
        })
    }

    /// GB/s of writing all of it again, truncated before.
    pub(crate) fn rewrite(&mut self, samples: usize) -> Result<Spread, Failure> {
        let (places, block) = (self.places, self.block as f64);
        let mut once = || -> Result<f64, Failure> {
            self.file.set_len(0)?;
            self.next = self.next.next_multiple_of(places);
            let started = Instant::now();
            self.write(places)?;
            Ok(places as f64 * block / 1e9 / started.elapsed().as_secs_f64())
        };
        // The first one's pages may have to be found yet.
        once()?;
        let rates: Result<Vec<_>, Failure> = (0..samples).map(|_| once()).collect();
        Ok(Spread::of(rates?))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Means, Source, Writer};
    use crate::sample::Effort;
    use crate::scratch::Scratch;

    #[test]
    fn both_means_write_every_block_at_its_place() {
        let scratch = Scratch::new(&std::env::temp_dir(), "one-core").expect("a directory");
        let source = Source::new(None).expect("memory");
        for (number, means) in [Means::Calls, Means::Ring(4)].into_iter().enumerate() {
            let path = scratch.path(&number.to_string());
            let file = std::fs::File::create(&path).expect("a file");
            let mut writer = Writer::open(&file, 40 << 10, &source, 4096, means).expect("a writer");
            let rate = writer.rewrite(2).expect("writes");
            assert_eq!(rate.samples().len(), 2);
            assert_eq!(std::fs::read(&path).expect("the file"), vec![b'x'; 40 << 10]);
            let effort = Effort { samples: 1, target: Duration::from_millis(1) };
            assert!(writer.over(effort).expect("writes").median() > 0.0);
            assert_eq!(std::fs::metadata(&path).expect("the file").len(), 40 << 10);
        }
    }
}

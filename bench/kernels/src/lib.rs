//! Kernels of the benchmark. What is measured is in `calls` and, of views, in `cache`; what it is measured against on a GPU, without gpufs, in
//! `rivals`.
//!
//! Kernels leave their times in memory that they share with the host, laid out as [`Times`] says. A warp's time is its own: the
//! host takes the span from the first start to the last end, so that launching and translating a program do not count.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![expect(unsafe_code, reason = "memory shared with the host, at addresses that are arguments")]

pub mod cache;
pub mod calls;
pub mod in_step;
pub mod paths;
pub mod pending;
pub mod rivals;
pub mod steps;
pub mod wake;

use gpufs_core::word::{DeviceWord64, wake_fence};
use gpufs_device::warp::{Lanes, Machine, Warp, clock, position};
use gpufs_device::{Errno, calling};

/// Most files that a kernel uses at once.
pub const MOST_FILES: usize = 16;

/// Where kernels leave what they found: an address of 8-byte words.
///
/// ```text
/// 0        0, or what went wrong: an errno, SHORT for fewer bytes than asked for, or WRONG for others
/// 1        ticks of the fine clock in the whole measurement
/// 2        nanoseconds in the whole measurement
/// 3        free for the kernel
/// 4 …      samples in ticks; or, of each warp, when it started and when it ended, in nanoseconds
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Times(pub u64);

impl Times {
    /// Words before the samples.
    pub const HEAD: usize = 4;
    /// What stands in word 0 when a transfer moved fewer bytes than asked for.
    pub const SHORT: u64 = u64::MAX;
    /// What stands in word 0 when a read gave other bytes than the file has.
    pub const WRONG: u64 = u64::MAX - 1;

    /// Writes one word.
    pub fn put(self, index: usize, value: u64) {
        // SAFETY:
        // - the host made room for the kernel's words, and reads them after the kernel has ended
        unsafe { (self.0 as *mut u64).add(index).write_volatile(value) };
    }
    /// Notes a failure.
    pub fn fail(self, errno: Errno) {
        self.put(0, u64::try_from(errno.number()).unwrap_or(1));
    }
    /// Notes what a transfer came to, if it is not the `wanted` bytes.
    pub fn check(self, outcome: Result<usize, Errno>, wanted: u64) {
        match outcome {
            Ok(count) if count as u64 == wanted => {}
            Ok(_) => self.put(0, Self::SHORT),
            Err(errno) => self.fail(errno),
        }
    }
    /// Notes when the caller's warp started and ended. Lane 0.
    pub fn warp(self, start_ns: u64, end_ns: u64) {
        let at = Self::HEAD + 2 * warp_index() as usize;
        self.put(at, start_ns);
        self.put(at + 1, end_ns);
    }
}

/// The calling warp's number in its grid.
#[must_use]
pub fn warp_index() -> u32 {
    let place = position();
    place.block * place.block_threads.div_ceil(Machine::width()) + place.thread / Machine::width()
}

/// A clock for short times, in ticks whose length the kernel reports ([`Times`]).
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "nvptx64")]
    {
        let ticks;
        // SAFETY:
        // - reads a counter of the multiprocessor
        unsafe { core::arch::asm!("mov.u64 {}, %clock64;", out(reg64) ticks, options(nostack)) };
        ticks
    }
    #[cfg(not(target_arch = "nvptx64"))]
    clock()
}

/// Runs `body` in every lane of the warp, between two looks at the clock.
fn between(times: Times, body: impl FnOnce()) {
    let warp = calling!();
    let start = clock();
    body();
    warp.sync();
    if warp.lane() == 0 {
        times.warp(start, clock());
    }
}

/// Runs `body` `rounds` times in every lane of the warp, between two looks at the clock.
fn timed(times: Times, rounds: u32, mut body: impl FnMut(u32)) {
    between(times, || {
        for round in 0..rounds {
            body(round);
        }
    });
}

gpufs_device::portable! {
    /// Pieces of work that warps take one after the other, so that a slow warp has fewer: as with threads that work until a time is up.
    #[derive(Clone, Copy, Debug)]
    pub struct Supply {
        /// The address of [`Supply::WORDS`] words in device memory. The first counts what was taken, before this kernel and in it; the others
        /// what was taken of each file.
        pub taken: u64,
        /// What the first says before.
        pub before: u64,
        /// How many pieces there are.
        pub pieces: u64,
    }
}

impl Supply {
    /// Words at [`Supply::taken`].
    pub const WORDS: usize = 1 + MOST_FILES;

    /// The next number of a word.
    fn draw(&self, warp: Lanes, word: usize) -> u64 {
        // SAFETY:
        // - the host has left such words there, for this kernel alone
        let words = unsafe { &*(self.taken as *const [DeviceWord64; Self::WORDS]) };
        // ORDERING: relaxed: who gets which is all that is decided.
        warp.from_leader(if warp.is_leader() { words[word].fetch_add_relaxed(1) } else { 0 })
    }
    /// The next one's number, from 0. Convergent; called by `warp`; the same in all its lanes.
    fn next(&self, warp: Lanes) -> Option<u64> {
        let number = self.draw(warp, 0) - self.before;
        (number < self.pieces).then_some(number)
    }
    /// The next place in a file, from anywhere. As [`Supply::next`].
    fn place(&self, warp: Lanes, file: u32) -> u64 {
        self.draw(warp, 1 + file as usize)
    }
}

/// Takes `rounds` samples of `body` in ticks, each of what `prepare` made of its number before. Of several lanes that call, lane 0's count.
fn sampled<T>(times: Times, rounds: u32, prepare: impl Fn(u32) -> T, mut body: impl FnMut(T)) {
    let (warp, lane) = (calling!(), Machine::lane());
    let (start_ns, start) = (clock(), ticks());
    for round in 0..rounds {
        // Or it would be made where it is used, a division in the time of a call.
        let prepared = core::hint::black_box(prepare(round));
        // What follows is one call of all of them.
        warp.sync();
        let before = ticks();
        body(prepared);
        let after = ticks();
        if lane == 0 {
            times.put(Times::HEAD + round as usize, after.wrapping_sub(before));
            // Or the next sample's first fence would wait for this store.
            wake_fence();
        }
    }
    if lane == 0 {
        times.put(1, ticks().wrapping_sub(start));
        times.put(2, clock() - start_ns);
    }
}

/// A number that looks random (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
const fn scramble(seed: u64) -> u64 {
    let mut value = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Copies `bytes`, a multiple of 16, in aligned words of 16 bytes, the lanes of the warp side by side. Called by all its lanes.
fn copy_wide(target: u64, source: u64, bytes: u64) {
    /// Words of a lane on their way at once: one would leave the bus idle where warps are few.
    const AT_ONCE: usize = 4;
    let (target, source) = (target as *mut u128, source as *const u128);
    let (words, width) = ((bytes / 16) as usize, Machine::width() as usize);
    let mut word = Machine::lane() as usize;
    while word + (AT_ONCE - 1) * width < words {
        let mut values = [0; AT_ONCE];
        for (index, value) in values.iter_mut().enumerate() {
            // SAFETY:
            // - both stretches hold `bytes`, are aligned, and are this warp's while it runs
            *value = unsafe { source.add(word + index * width).read() };
        }
        for (index, value) in values.into_iter().enumerate() {
            // SAFETY:
            // - as above
            unsafe { target.add(word + index * width).write(value) };
        }
        word += AT_ONCE * width;
    }
    while word < words {
        // SAFETY:
        // - as above
        unsafe { target.add(word).write(source.add(word).read()) };
        word += width;
    }
}

//! Pages in device memory: numbers of a mapped file, each way beside the same loads of a plain array; misses; pages that are written back.

use core::ops::Deref;

use gpufs_core::kernel::Shared;
use gpufs_device::view::{Mapping, MappingMut, View};
use gpufs_device::warp::{Machine, Warp, global_thread, grid_threads};
use gpufs_device::{Errno, Fs, calling, kernel};

use crate::{MOST_FILES, Supply, Times, between, scramble, warp_index};

/// Number `at` of the file and of the array.
#[must_use]
pub const fn number(at: u64) -> u64 {
    scramble(at)
}

/// Looks of a lane at a time, in either way: a GPU's lane has that many loads on their way at once.
const AT_ONCE: u64 = 4;
/// Numbers between the places of random looks: a line of 128 bytes.
const LINE: u64 = 16;
/// Numbers that a warp takes in order: 64 KiB.
pub const STRETCH: u64 = 8192;

gpufs_device::portable! {
    /// A measurement of looks at numbers. `count` and `piece` are powers of two.
    #[derive(Clone, Copy, Debug)]
    pub struct Looks {
        /// The file.
        pub map: Mapping,
        /// The same numbers in device memory; 0 where there is no array.
        pub array: u64,
        /// How many numbers: a multiple of [`STRETCH`].
        pub count: u64,
        /// Numbers of a span or a page.
        pub piece: u64,
        /// Groups of four random looks, stretches, or spans, of the whole grid.
        pub work: u64,
        /// Where random places, or pages in order, begin.
        pub first: u64,
        /// Where threads leave their sums, a word each.
        pub sums: u64,
        /// The address of [`Times`].
        pub times: u64,
    }
}

gpufs_device::portable! {
    /// A measurement of pages that are written back.
    #[derive(Clone, Copy, Debug)]
    pub struct Dirty {
        /// The files; a warp uses the one of its number.
        pub maps: Shared<[MappingMut; MOST_FILES]>,
        /// Numbers of a page.
        pub piece: u64,
        /// Pages of each file.
        pub pages: u64,
        /// What goes to the first number of each page, with the page's number.
        pub value: u64,
        /// Where threads leave how often they have stored, a word each.
        pub sums: u64,
        /// The address of [`Times`].
        pub times: u64,
    }
}

/// Leaves the sum that `body` makes in every lane, between two looks at the clock.
fn summed(job: &Looks, body: impl FnOnce() -> Result<u64, Errno>) {
    let mut outcome = Ok(0);
    between(Times(job.times), || outcome = body());
    match outcome {
        Ok(sum) => Times(job.sums).put(global_thread() as usize, sum),
        Err(errno) => Times(job.times).fail(errno),
    }
}

/// The same of a view of the whole file, whose elements are of type `T`.
fn viewed<T: gpufs_device::view::Plain>(
    fs: Fs,
    job: &Looks,
    body: impl FnOnce(&View<'_, T>) -> Result<u64, Errno>,
) {
    let bytes = job.count * size_of::<u64>() as u64;
    summed(job, || fs.view::<T, _>(job.map, 0, bytes / size_of::<T>() as u64, |view| body(view))?);
}

impl Looks {
    /// Element `at` of the array.
    #[inline]
    fn load<T: Copy>(&self, at: u64) -> T {
        // SAFETY:
        // - within the array, as the looks of the file are within that
        let place = unsafe { (self.array as *const T).add(at as usize) };
        // SAFETY:
        // - a number, aligned; any bytes are one; nobody writes it meanwhile
        unsafe { place.read() }
    }
    /// Elements of the array.
    fn slice<T: Copy>(&self, first: u64, count: u64) -> &[T] {
        // SAFETY:
        // - within the array, as in `load`
        let start = unsafe { (self.array as *const T).add(first as usize) };
        // SAFETY:
        // - as in `load`
        unsafe { core::slice::from_raw_parts(start, count as usize) }
    }
}

/// The sum of looks at places that `place` makes of their numbers, four at a time; `index` of `total` takes its share.
#[inline(always)]
fn random(
    job: &Looks,
    (index, total): (u64, u64),
    place: impl Fn(u64) -> u64,
    get: impl Fn(u64) -> Result<u64, Errno>,
) -> Result<u64, Errno> {
    let (mut sum, mut group) = (0_u64, index);
    // Ends: `group` grows.
    while group < job.work {
        let first = job.first + group * AT_ONCE;
        let values =
            [get(place(first))?, get(place(first + 1))?, get(place(first + 2))?, get(place(first + 3))?];
        sum = values.into_iter().fold(sum, u64::wrapping_add);
        group += total;
    }
    Ok(sum)
}

/// Looks at lines anywhere: each lane at the first number of one of its own.
#[inline(always)]
fn by_lanes(job: &Looks, get: impl Fn(u64) -> Result<u64, Errno>) -> Result<u64, Errno> {
    let lines = job.count / LINE;
    random(job, (global_thread(), grid_threads()), |look| (scramble(look) & (lines - 1)) * LINE, get)
}

/// Looks at lines anywhere: each warp at one, each lane at its four bytes of it.
#[inline(always)]
fn by_warps(job: &Looks, get: impl Fn(u64) -> Result<u64, Errno>) -> Result<u64, Errno> {
    let (lines, lane) = (job.count / LINE, u64::from(Machine::lane()));
    let words = 2 * LINE;
    let warps = grid_threads() / u64::from(Machine::width());
    let place = |look| (scramble(look) & (lines - 1)) * words + lane % words;
    random(job, (u64::from(warp_index()), warps), place, get)
}

/// Part `number` of `all`, a power of two, in another order each time round: warps whose parts came in the same order again and again would
/// fall in step, and read what others have just had brought to a cache.
#[inline(always)]
const fn mixed(number: u64, all: u64) -> u64 {
    // Odd: each part once.
    const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;
    (number.wrapping_mul(MIXER) ^ scramble(number >> all.trailing_zeros())) & (all - 1)
}

/// Looks at all numbers of the warp's stretches, the lanes side by side.
#[inline(always)]
fn in_order(job: &Looks, get: impl Fn(u64) -> Result<u64, Errno>) -> Result<u64, Errno> {
    let (width, lane) = (u64::from(Machine::width()), u64::from(Machine::lane()));
    let (stretches, warps) = (job.count / STRETCH, grid_threads() / width);
    let (mut sum, mut stretch) = (0_u64, u64::from(warp_index()));
    // Ends: `stretch` grows.
    while stretch < job.work {
        let first = mixed(stretch, stretches) * STRETCH;
        let mut at = first + lane;
        // Ends: `at` grows.
        while at < first + STRETCH {
            let values = [get(at)?, get(at + width)?, get(at + 2 * width)?, get(at + 3 * width)?];
            sum = values.into_iter().fold(sum, u64::wrapping_add);
            at += AT_ONCE * width;
        }
        stretch += warps;
    }
    Ok(sum)
}

/// Words of 16 bytes, as they are summed up.
type Pair = u128;

/// The sum of the lane's words of a span that its warp looks at.
#[inline(always)]
fn sum_of(span: &[Pair]) -> u64 {
    /// Loads of a lane on their way at once.
    const LOADS: usize = 8;
    let width = Machine::width() as usize;
    let fold = |sum: u64, pair: Pair| sum.wrapping_add(pair as u64).wrapping_add((pair >> 64) as u64);
    let (mut sum, mut word) = (0, Machine::lane() as usize);
    // Ends: `word` grows.
    while word + (LOADS - 1) * width < span.len() {
        let mut values = [0; LOADS];
        for (index, value) in values.iter_mut().enumerate() {
            // SAFETY:
            // - below the length, as the loop's condition says
            *value = unsafe { *span.get_unchecked(word + index * width) };
        }
        sum = values.into_iter().fold(sum, fold);
        word += LOADS * width;
    }
    // Ends: `word` grows.
    while word < span.len() {
        sum = fold(sum, span[word]);
        word += width;
    }
    sum
}

/// Whole spans in a mixed order, each by one warp.
#[inline(always)]
fn spans<S: Deref<Target = [Pair]>>(
    job: &Looks,
    pin: impl Fn(u64, u64) -> Result<S, Errno>,
) -> Result<u64, Errno> {
    let (pairs, all) = (job.piece / 2, job.count / job.piece);
    let warps = grid_threads() / u64::from(Machine::width());
    let (mut sum, mut number) = (0_u64, u64::from(warp_index()));
    // Ends: `number` grows.
    while number < job.work {
        let span = pin(mixed(number, all) * pairs, pairs)?;
        sum = sum.wrapping_add(sum_of(&span));
        number += warps;
    }
    Ok(sum)
}

/// The lane's part of a piece, which has one for each lane of a warp.
#[inline(always)]
fn of_lane(piece: u64) -> u64 {
    piece * u64::from(Machine::width()) + u64::from(Machine::lane())
}

kernel! {
    /// Makes the array.
    pub fn fill_array(fs: Fs, job: Looks) {
        let _ = fs;
        let mut at = global_thread();
        // Ends: `at` grows.
        while at < job.count {
            // SAFETY:
            // - within the array
            let place = unsafe { (job.array as *mut u64).add(at as usize) };
            // SAFETY:
            // - each number is one thread's
            unsafe { place.write(number(at)) };
            at += grid_threads();
        }
    }
}

kernel! {
    /// Brings every page.
    pub fn warm(fs: Fs, job: Looks) {
        viewed::<u64>(fs, &job, |view| {
            let (mut sum, mut page) = (0_u64, global_thread());
            // Ends: `page` grows.
            while page < job.count / job.piece {
                sum = sum.wrapping_add(view.get(page * job.piece)?);
                page += grid_threads();
            }
            Ok(sum)
        });
    }
}

kernel! {
    #[maxnreg(64)]
    /// Random looks of 8 bytes a lane.
    pub fn cached_lanes(fs: Fs, job: Looks) {
        viewed::<u64>(fs, &job, |view| by_lanes(&job, |at| view.get(at)));
    }
}

kernel! {
    /// The same of the array.
    pub fn plain_lanes(fs: Fs, job: Looks) {
        let _ = fs;
        summed(&job, || by_lanes(&job, |at| Ok(job.load(at))));
    }
}

kernel! {
    #[maxnreg(64)]
    /// Random looks of 128 bytes a warp.
    pub fn cached_warps(fs: Fs, job: Looks) {
        viewed::<u32>(fs, &job, |view| by_warps(&job, |at| view.get(at).map(u64::from)));
    }
}

kernel! {
    /// The same of the array.
    pub fn plain_warps(fs: Fs, job: Looks) {
        let _ = fs;
        summed(&job, || by_warps(&job, |at| Ok(job.load::<u32>(at).into())));
    }
}

kernel! {
    #[maxnreg(64)]
    /// Looks in order.
    pub fn cached_in_order(fs: Fs, job: Looks) {
        viewed::<u64>(fs, &job, |view| in_order(&job, |at| view.get(at)));
    }
}

kernel! {
    /// The same of the array.
    pub fn plain_in_order(fs: Fs, job: Looks) {
        let _ = fs;
        summed(&job, || in_order(&job, |at| Ok(job.load(at))));
    }
}

kernel! {
    #[maxnreg(64)]
    /// Pinned spans.
    pub fn cached_spans(fs: Fs, job: Looks) {
        viewed::<Pair>(fs, &job, |view| spans(&job, |first, count| view.pin(first, count as usize)));
    }
}

kernel! {
    /// The same of the array.
    pub fn plain_spans(fs: Fs, job: Looks) {
        let _ = fs;
        summed(&job, || spans(&job, |first, count| Ok(job.slice::<Pair>(first, count))));
    }
}

kernel! {
    /// Every lane looks at a number of a page anywhere, as often as its warp has a piece of the `supply`.
    pub fn random_misses(fs: Fs, job: Looks, supply: Supply) {
        viewed::<u64>(fs, &job, |view| {
            let (pages, mut sum) = (job.count / job.piece, 0_u64);
            let warp = calling!();
            // Ends: with the pieces.
            while let Some(piece) = supply.next(warp) {
                let look = scramble(job.first + of_lane(piece));
                let at = (look & (pages - 1)) * job.piece + (look >> 40) % job.piece;
                let found = view.get(at)?;
                if found != number(at) {
                    return Err(Errno::IO);
                }
                sum = sum.wrapping_add(found);
                warp.sync();
            }
            Ok(sum)
        });
    }
}

kernel! {
    /// A piece of the `supply` is a page, which the warp that has it pins, and looks at all of it. Where it looks `ahead`, it has the system read a
    /// page meanwhile that comes as many pieces later as there are warps.
    pub fn pages_in_order(fs: Fs, job: Looks, supply: Supply, ahead: u32) {
        viewed::<Pair>(fs, &job, |view| {
            let (pages, pairs) = (job.count / job.piece, job.piece / 2);
            let warps = grid_threads() / u64::from(Machine::width());
            let mut sum = 0_u64;
            let warp = calling!();
            // Ends: with the pieces.
            while let Some(piece) = supply.next(warp) {
                let number = job.first + piece;
                if ahead != 0 && Machine::lane() == 0 {
                    view.prefetch(((number + warps) & (pages - 1)) * pairs, pairs)?;
                }
                let page = view.pin((number & (pages - 1)) * pairs, pairs as usize)?;
                sum = sum.wrapping_add(sum_of(&page));
                warp.sync();
            }
            Ok(sum)
        });
    }
}

kernel! {
    /// As [`pages_in_order()`], a page a lane: looks at its first number.
    pub fn pages_of_lanes(fs: Fs, job: Looks, supply: Supply) {
        viewed::<u64>(fs, &job, |view| {
            let (pages, mut sum) = (job.count / job.piece, 0_u64);
            let warp = calling!();
            // Ends: with the pieces.
            while let Some(piece) = supply.next(warp) {
                let page = (job.first + of_lane(piece)) & (pages - 1);
                let found = view.get(page * job.piece)?;
                if found != number(page * job.piece) {
                    return Err(Errno::IO);
                }
                sum = sum.wrapping_add(found);
                warp.sync();
            }
            Ok(sum)
        });
    }
}

kernel! {
    /// Each warp stores to its share of a file's pages and flushes the file, once, and again as often as it has a piece of the `supply`: a slow
    /// file has fewer. What is timed is both; lanes leave how often they have stored.
    pub fn write_back(fs: Fs, job: Dirty, supply: Supply) {
        let index = u64::from(warp_index());
        let map = job.maps.with(fs, |maps| maps[(index % MOST_FILES as u64) as usize]);
        let width = u64::from(Machine::width());
        let stride = grid_threads() / MOST_FILES as u64;
        let first = index / MOST_FILES as u64 * width + u64::from(Machine::lane());
        let (times, mut stores) = (Times(job.times), 0);
        let outcome = fs.view_mut::<u64, _>(map, 0, job.pages * job.piece, |view| {
            let mut outcome = Ok(());
            between(times, || {
                let warp = calling!();
                // Ends: with the pieces.
                loop {
                    let mut page = first;
                    // Ends: `page` grows.
                    while page < job.pages && outcome.is_ok() {
                        outcome = view.set(page * job.piece, job.value.wrapping_add(page));
                        (page, stores) = (page + stride, stores + 1);
                    }
                    warp.sync();
                    outcome = view.flush().and(outcome);
                    if supply.next(warp).is_none() {
                        break;
                    }
                }
            });
            outcome
        });
        Times(job.sums).put(global_thread() as usize, stores);
        if let Err(errno) = outcome.and_then(|outcome| outcome) {
            times.fail(errno);
        }
    }
}

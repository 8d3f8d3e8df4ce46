//! Moving bytes between callers' memory and the kernel's (stages 2 and 9): one lane alone, or a warp's lanes side by side.
//!
//! What crosses the bus costs by the access, not by the byte, and neighbouring lanes' accesses to neighbouring words are one access. So
//! bytes move in aligned words of 16 wherever source and target allow it, else of 4, and each lane of a warp takes the words of its rank. A lane
//! alone takes first one word of each sector, so that as many sectors as it has loads are on their way at once; the others are then in its cache.
#![allow(unsafe_code, reason = "copies between memory that addresses name")]

use crate::warp::{Lanes, Machine, Warp};

/// Words of a lane on their way at once: a load over the bus takes longer than all that follows it.
const AT_ONCE: usize = 16;
/// The same for words of 4 bytes.
const SMALL_AT_ONCE: usize = 8;
/// Bytes that one access over the bus brings at least.
const SECTOR_BYTES: usize = 32;

/// Between which memories bytes move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Out of memory that the kernel or the host reaches, which may lie behind the bus.
    In,
    /// Into it. What neighbouring stores put into one sector crosses the bus together, so a lane stores in order.
    Out,
}

impl Flow {
    /// That of a transfer.
    pub(crate) const fn of(writing: bool) -> Self {
        if writing { Self::Out } else { Self::In }
    }
}

/// A lane's share of a copy: the words of its rank, of those of `count` lanes.
#[derive(Clone, Copy)]
struct Share {
    rank: usize,
    count: usize,
    flow: Flow,
}

impl Share {
    /// All of it.
    const fn alone(flow: Flow) -> Self {
        Self { rank: 0, count: 1, flow }
    }
}

/// Copies `bytes` bytes, the lanes side by side. Convergent; called by `lanes`, with the same values; others see the copy after the
/// next barrier.
///
/// # Safety
/// Both stretches are valid for `bytes`, in every lane ([`Warp::is_private`]), and do not overlap; nobody writes them meanwhile, and nobody
/// else reads the target.
pub(crate) unsafe fn copy_together(lanes: Lanes, flow: Flow, target: u64, source: u64, bytes: u64) {
    let share = Share { rank: lanes.rank() as usize, count: lanes.count() as usize, flow };
    if (target | source | bytes).is_multiple_of(16) {
        // SAFETY:
        // - this function's contract; the lanes' ranks are all numbers below their count; aligned as just looked at
        unsafe { copy_aligned(share, target, source, bytes) }
    } else {
        // SAFETY:
        // - as above
        unsafe { copy_share(share, target, source, bytes) }
    }
}

/// [`copy_share`] of whole aligned words of 16 bytes, as pages are: little code, for calls that copy little.
///
/// # Safety
/// As [`copy_together`]; all three are multiples of 16.
#[inline(never)]
unsafe fn copy_aligned(share: Share, target: u64, source: u64, bytes: u64) {
    let words = usize::try_from(bytes / 16).unwrap_or(usize::MAX);
    let (to, from) = (target as *mut u128, source as *const u128);
    // SAFETY:
    // - this function's contract
    unsafe {
        copy_words::<_, AT_ONCE>(share, words, |at| from.add(at).read(), |at, word| to.add(at).write(word));
    }
}

/// Copies a slice; a lane alone.
#[inline]
pub(crate) fn copy_alone(target: &mut [u8], source: &[u8]) {
    assert!(target.len() == source.len());
    if Machine::COPIES_WORDS {
        // SAFETY:
        // - slices of the same length, one of them exclusive
        unsafe {
            copy_share(
                Share::alone(Flow::Out),
                target.as_mut_ptr() as u64,
                source.as_ptr() as u64,
                source.len() as u64,
            );
        }
    } else {
        target.copy_from_slice(source);
    }
}

/// Copies from one address to another; a lane alone.
///
/// # Safety
/// As [`copy_together`], for the calling lane.
#[inline]
pub(crate) unsafe fn copy_raw(flow: Flow, target: u64, source: u64, bytes: u64) {
    if Machine::COPIES_WORDS {
        // SAFETY:
        // - this function's contract
        unsafe { copy_share(Share::alone(flow), target, source, bytes) }
    } else {
        // SAFETY:
        // - this function's contract
        unsafe {
            core::ptr::copy_nonoverlapping(
                source as *const u8,
                target as *mut u8,
                usize::try_from(bytes).unwrap_or(usize::MAX),
            );
        }
    }
}

/// The share of one lane in a copy. The shares of all ranks are the whole.
///
/// # Safety
/// As [`copy_together`].
#[inline(never)]
unsafe fn copy_share(share: Share, target: u64, source: u64, bytes: u64) {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let (to, from) = (target as *mut u8, source as *const u8);
    let apart = (target ^ source) % 16;
    // Up to where the target is aligned.
    let unit: usize = match apart {
        0 => 16,
        8 => 8,
        _ => 4,
    };
    let head = ((target.wrapping_neg() % unit as u64) as usize).min(bytes);
    let words = (bytes - head) / unit;
    let tail = head + words * unit;
    // SAFETY:
    // - all that follows lies within the two stretches, and each byte is one rank's
    // - words are aligned as `head` and `apart` say
    unsafe {
        copy_bytes(share, to, from, head);
        let (to_word, from_word) = (to.add(head), from.add(head));
        match apart % 4 {
            0 if unit == 16 => copy_units::<u128, AT_ONCE>(share, to_word, from_word, words),
            0 if unit == 8 => copy_units::<u64, AT_ONCE>(share, to_word, from_word, words),
            0 => copy_units::<u32, SMALL_AT_ONCE>(share, to_word, from_word, words),
            _ => {
                // Each word of the target is put together from two of the source, or from bytes where one of the two lies across an end.
                let to_word = to_word.cast::<u32>();
                let shift = from_word.addr() % 4;
                let aligned = from_word.wrapping_sub(shift).cast::<u32>();
                let first = usize::from(head < shift);
                let last =
                    if head + words * 4 + (4 - shift) <= bytes { words } else { words.saturating_sub(1) };
                let load = |at: usize| {
                    if at >= first && at < last {
                        let pair =
                            u64::from(aligned.add(at + 1).read()) << 32 | u64::from(aligned.add(at).read());
                        #[allow(clippy::cast_possible_truncation, reason = "the bytes wanted")]
                        return (pair >> (8 * shift)) as u32;
                    }
                    let place = from_word.add(4 * at);
                    u32::from_le_bytes([
                        place.read(),
                        place.add(1).read(),
                        place.add(2).read(),
                        place.add(3).read(),
                    ])
                };
                copy_words::<_, SMALL_AT_ONCE>(share, words, load, |at, word| {
                    to_word.add(at).write(word);
                });
            }
        }
        copy_bytes(share, to.add(tail), from.add(tail), bytes - tail);
    }
}

/// [`copy_words`] between stretches that are both aligned.
///
/// # Safety
/// As [`copy_together`]; `words` words lie at both, aligned.
#[inline]
unsafe fn copy_units<W: Copy + Default, const N: usize>(
    share: Share,
    to: *mut u8,
    from: *const u8,
    words: usize,
) {
    let (to, from) = (to.cast::<W>(), from.cast::<W>());
    let load = |at| {
        // SAFETY:
        // - one of the words, by this function's contract
        unsafe { from.wrapping_add(at).read() }
    };
    copy_words::<W, N>(share, words, load, |at, word| {
        // SAFETY:
        // - as above
        unsafe { to.wrapping_add(at).write(word) };
    });
}

/// Every `count`th of `words` words from its rank on, `N` at once, and of what is left eight and four at once: a page is eight for each lane.
#[inline]
fn copy_words<W: Copy + Default, const N: usize>(
    Share { rank, count, flow }: Share,
    words: usize,
    load: impl Fn(usize) -> W,
    store: impl Fn(usize, W),
) {
    let at = if count == 1 && flow == Flow::In {
        copy_sectors::<W, N>(words, &load, &store)
    } else {
        copy_batches::<W, N>((rank, count), words, &load, &store)
    };
    let at = if N > 8 { copy_batches::<W, 8>((at, count), words, &load, &store) } else { at };
    let at = copy_batches::<W, 4>((at, count), words, &load, &store);
    copy_batches::<W, 1>((at, count), words, &load, &store);
}

/// [`copy_words`] of a lane alone, as long as there are words of `N` sectors: how far it came.
#[inline]
fn copy_sectors<W: Copy + Default, const N: usize>(
    words: usize,
    load: impl Fn(usize) -> W,
    store: impl Fn(usize, W),
) -> usize {
    let apart = SECTOR_BYTES / size_of::<W>();
    let mut at = 0;
    // Ends: `at` grows.
    while at + N * apart <= words {
        for first in at..at + apart {
            copy_batches::<W, N>((first, apart), at + N * apart, &load, &store);
        }
        at += N * apart;
    }
    at
}

/// [`copy_words`] from `at` on, as long as there are `N` for this lane; how far it came.
#[inline]
fn copy_batches<W: Copy + Default, const N: usize>(
    (mut at, count): (usize, usize),
    words: usize,
    load: impl Fn(usize) -> W,
    store: impl Fn(usize, W),
) -> usize {
    // Ends: `at` grows.
    while at + (N - 1) * count < words {
        let mut values = [W::default(); N];
        for (index, value) in values.iter_mut().enumerate() {
            *value = load(at + index * count);
        }
        // By index: written out, it stays in registers.
        #[allow(clippy::needless_range_loop, reason = "an iterator over the array keeps it in memory")]
        for index in 0..N {
            store(at + index * count, values[index]);
        }
        at += N * count;
    }
    at
}

/// Every `count`th byte from `rank` on.
///
/// # Safety
/// As [`copy_together`].
#[inline]
unsafe fn copy_bytes(Share { rank, count, .. }: Share, to: *mut u8, from: *const u8, bytes: usize) {
    let mut at = rank;
    // Ends: `at` grows.
    while at < bytes {
        // SAFETY:
        // - within the stretches
        unsafe { to.add(at).write(from.add(at).read()) };
        at += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every alignment of either end, lengths around the word sizes and the unrolling, warps of several widths.
    #[test]
    fn shares_make_the_whole() {
        let lengths = (0..70).chain([127, 128, 129, 511, 2048, 2049, 4095, 4096, 16 << 10]);
        for bytes in lengths {
            for (to, from) in (0..16).flat_map(|to| (0..16).map(move |from| (to, from))) {
                for (count, flow) in
                    [(1, Flow::In), (1, Flow::Out), (3, Flow::In), (32, Flow::In), (64, Flow::In)]
                {
                    let source: Vec<u8> = (0..bytes + 64).map(|at| (at * 31 + at / 256) as u8).collect();
                    let mut target = vec![0xee_u8; bytes + 64];
                    let (source_at, target_at) =
                        (source.as_ptr().align_offset(16) + from, target.as_ptr().align_offset(16) + to);
                    let aligned = (to | from | bytes) % 16 == 0;
                    for copy in [copy_share, copy_aligned].into_iter().take(1 + usize::from(aligned)) {
                        target.fill(0xee);
                        for rank in 0..count {
                            // SAFETY:
                            // - both vectors hold 64 bytes more than is copied, and the offsets are below 32
                            unsafe {
                                copy(
                                    Share { rank, count, flow },
                                    target.as_mut_ptr().add(target_at) as u64,
                                    source.as_ptr().add(source_at) as u64,
                                    bytes as u64,
                                );
                            }
                        }
                        let what = format!("{bytes} bytes from {from} to {to}, {count} lanes, {flow:?}");
                        assert_eq!(
                            target[target_at..target_at + bytes],
                            source[source_at..source_at + bytes],
                            "{what}"
                        );
                        let around = target[..target_at].iter().chain(&target[target_at + bytes..]);
                        assert!(around.into_iter().all(|byte| *byte == 0xee), "{what}: bytes beside it");
                    }
                }
            }
        }
    }
}

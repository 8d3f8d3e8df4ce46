//! Copies that the lanes of a warp make side by side. The wire lies in the host's memory, over the bus: there an access costs as much for 16 bytes as
//! for one, and what neighbouring lanes take of neighbouring words is one access.
#![expect(unsafe_code, reason = "copies between memory that addresses name")]

use gpufs_device::warp::{LaneMask, Lanes};

/// Bytes of a word.
const WORD: usize = size_of::<u128>();
/// There the compiler's own copies go byte by byte, each of which waits for the one before.
pub(super) const IS_GPU: bool = cfg!(any(target_arch = "nvptx64", target_arch = "amdgpu"));
/// Words of a lane on their way at once.
const AT_ONCE: usize = 4;

/// Copies for each of the lanes in `whose` its (target, source, bytes): those of one lane after those of another. Convergent; called by `lanes`,
/// which see the copies afterwards.
///
/// # Safety
/// Every lane reaches both stretches of each; they do not overlap, and nobody else uses the targets or writes the sources meanwhile. Sources begin
/// at multiples of 16.
pub(super) unsafe fn copy_together(lanes: Lanes, whose: LaneMask, (target, source, bytes): (u64, u64, u64)) {
    if !IS_GPU && lanes.count() == 1 {
        // SAFETY:
        // - this function's contract
        return unsafe { copy_share((0, 1), target as *mut u8, source as *const u8, bytes as usize) };
    }
    // What each has written to its source comes first.
    lanes.sync();
    for lane in whose.iter() {
        let (target, source) = (lanes.broadcast(target, lane), lanes.broadcast(source, lane));
        let bytes = usize::try_from(lanes.broadcast(bytes, lane)).unwrap_or(0);
        let share = (lanes.rank() as usize, lanes.count() as usize);
        // SAFETY:
        // - this function's contract; ranks are all numbers below their count
        unsafe { copy_share(share, target as *mut u8, source as *const u8, bytes) };
    }
    lanes.sync();
}

/// The part of a copy that one of `count` lanes makes.
///
/// # Safety
/// As [`copy_together`], for one lane's share.
unsafe fn copy_share((rank, count): (usize, usize), target: *mut u8, source: *const u8, bytes: usize) {
    debug_assert!(source.addr().is_multiple_of(WORD));
    if count == 1 && !IS_GPU {
        // SAFETY:
        // - this function's contract
        return unsafe { target.copy_from_nonoverlapping(source, bytes) };
    }
    let words = bytes / WORD;
    let from = source.cast::<u128>();
    let mut at = rank;
    // Ends: `at` grows.
    while at < words {
        let mut held = [0_u128; AT_ONCE];
        for (step, word) in held.iter_mut().enumerate() {
            let index = at + step * count;
            if index < words {
                // SAFETY:
                // - within the source, and aligned as it is
                *word = unsafe { from.wrapping_add(index).read() };
            }
        }
        for (step, word) in held.into_iter().enumerate() {
            let index = at + step * count;
            if index < words {
                // SAFETY:
                // - within the target
                unsafe { store(target.wrapping_add(index * WORD), word) };
            }
        }
        at += AT_ONCE * count;
    }
    for at in (words * WORD + rank..bytes).step_by(count) {
        // SAFETY:
        // - within the source
        let byte = unsafe { source.wrapping_add(at).read() };
        // SAFETY:
        // - within the target
        unsafe { target.wrapping_add(at).write(byte) };
    }
}

/// Copies from memory that begins at a multiple of 16; a lane alone.
///
/// # Safety
/// As [`copy_together`], for the calling lane.
pub(super) unsafe fn copy_alone(target: *mut u8, source: *const u8, bytes: usize) {
    // SAFETY:
    // - this function's contract
    unsafe { copy_share((0, 1), target, source, bytes) };
}

/// Copies a text to a target of its length; a lane alone.
pub(super) fn copy_text(target: &mut [u8], source: &[u8]) {
    debug_assert!(target.len() == source.len());
    if !IS_GPU {
        return target.copy_from_slice(source);
    }
    let (to, from) = (target.chunks_exact_mut(WORD), source.chunks_exact(WORD));
    let whole = source.len() / WORD * WORD;
    for (to, from) in to.zip(from) {
        // All bytes of a word are on their way at once.
        let mut held = [0_u8; WORD];
        held.iter_mut().zip(from).for_each(|(held, byte)| *held = *byte);
        to.iter_mut().zip(held).for_each(|(to, byte)| *to = byte);
    }
    target.iter_mut().zip(source).skip(whole).for_each(|(to, byte)| *to = *byte);
}

/// # Safety
/// 16 bytes at `target` are valid for writes.
unsafe fn store(target: *mut u8, word: u128) {
    if target.addr().is_multiple_of(WORD) {
        // SAFETY:
        // - this function's contract, and aligned
        unsafe { target.cast::<u128>().write(word) };
    } else {
        for (at, byte) in word.to_ne_bytes().into_iter().enumerate() {
            // SAFETY:
            // - this function's contract
            unsafe { target.wrapping_add(at).write(byte) };
        }
    }
}

//! NVIDIA GPUs, sm_70 or newer: a warp is 32 lanes, and each lane makes progress of its own.
//!
//! Every operation that names lanes is an LLVM intrinsic: those are convergent, that is, the compiler neither duplicates one
//! nor makes it depend on a branch it did not depend on, and inline assembly is not. Each `.sync` instruction waits until all lanes of
//! its mask have come, so a lane that the hardware runs later than the others is waited for. Votes and shuffles go wrong all the same where
//! the lanes come to different copies of an instruction: each copy sees only the lanes that it is executed by. LLVM makes none, but
//! rustc's jump threading does (rust-lang/rust#137086), and device code is built without it: `-Z mir-enable-passes=-JumpThreading`.
//!
//! PTX lets lanes come to a barrier, vote or shuffle one after the other. As ptxas 13.0 makes it in place, in large functions, that went wrong
//! now and then on an H200 where several groups of a warp were under way at once, each with its mask: leaders' claims came out as other
//! numbers, and 3 of 5 runs of 4,000 sequences of calls on streams failed. Why is not known. It takes a barrier in place at which lanes wait that
//! are apart, and functions so deep that ptxas spills its own barriers, those that bring lanes together. It never went wrong where all lanes of the
//! mask execute the instruction together, nor where lanes that are apart execute it in a small function of its own (half a million
//! shuffles were compared there with votes, and 10⁹ in a small program). So what lies in place is for lanes that are together. Others try to come
//! together first ([`gather`]), and where they do not, call [`ballot_apart`] and [`shuffle_apart`].
//!
//! Lanes that have parted do not always come together there, since a barrier whose mask is no constant only holds them until all have come: ptxas
//! brings them together where the branch ends at which they parted. A loop that lanes leave by `return`, one of whose ways ends in a panic,
//! has no such end before that of the function, and each operation behind it then takes microseconds. What a warp does for every request
//! therefore selects instead of returning early (`gpufs_core::lines::Lines::locate`).
//!
//! Shuffles and votes order no memory (PTX ISA, "shfl.sync"; the intrinsics say so to the compiler as well), but the contract of
//! [`Warp`] is that they do. Hence the `bar.warp.sync` before each: it orders memory among its lanes, for the hardware and for the
//! compiler.
#![allow(unsafe_code, reason = "compiler intrinsics")]

use gpufs_core::Position;

use super::scan::scan_by_shuffles;
use super::{LaneMask, Warp};

unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.activemask"]
    safe fn activemask() -> u32;
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    fn bar_warp_sync(mask: u32);
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    fn vote_ballot_sync(mask: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    fn shfl_sync_idx(mask: u32, value: u32, from: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.nanosleep"]
    safe fn nanosleep(nanoseconds: u32);
    #[link_name = "llvm.nvvm.isspacep.local"]
    safe fn is_local(address: *const u8) -> bool;
    #[link_name = "llvm.nvvm.read.ptx.sreg.globaltimer"]
    safe fn globaltimer() -> u64;
    #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
    safe fn laneid() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.x"]
    safe fn tid_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.y"]
    safe fn tid_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.z"]
    safe fn tid_z() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ntid.x"]
    safe fn ntid_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ntid.y"]
    safe fn ntid_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ntid.z"]
    safe fn ntid_z() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.x"]
    safe fn ctaid_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.y"]
    safe fn ctaid_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.z"]
    safe fn ctaid_z() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nctaid.x"]
    safe fn nctaid_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nctaid.y"]
    safe fn nctaid_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nctaid.z"]
    safe fn nctaid_z() -> u32;
}

/// Shuffles see the warp as one segment of 32 lanes (PTX ISA, "shfl.sync", operand c).
const WHOLE_WARP: u32 = 0x1f;
/// Votes after which lanes that do not come together go on apart. A prime, so that the compiler copies none.
const MOST_VOTES: u32 = 61;
/// `nanosleep` takes at most a millisecond.
const LONGEST_NAP_NS: u32 = 1_000_000;

/// The machine that this build runs on.
#[derive(Clone, Copy, Debug)]
pub struct Machine;

/// The low half of a mask: a warp has 32 lanes.
#[allow(clippy::cast_possible_truncation, reason = "lanes 32 to 63 do not exist")]
const fn hardware(lanes: LaneMask) -> u32 {
    lanes.0 as u32
}

/// Whether all lanes of the mask execute this instruction together. Where one does not, none finds that they do.
#[inline]
fn are_together(mask: u32) -> bool {
    activemask() & mask == mask
}

/// Waits until all lanes have come, and tries to have them execute together what follows: whether they do. The same in all of them.
#[inline]
fn meet(lanes: LaneMask) -> bool {
    let mask = hardware(lanes);
    if mask & mask.wrapping_sub(1) == 0 {
        return true;
    }
    if !are_together(mask) {
        gather(mask);
    }
    let together = are_together(mask);
    if together {
        // SAFETY:
        // - the caller is one of `lanes`, and all of them call
        unsafe { bar_warp_sync(mask) };
    }
    together
}

/// Waits until all lanes have come; mostly a vote leaves them together.
#[inline(never)]
fn gather(mask: u32) {
    // Ends: a count. All lanes of the mask see the same in each round.
    for _ in 0..MOST_VOTES {
        // SAFETY:
        // - the caller is one of the mask's lanes, and all of them call
        let _ = unsafe { vote_ballot_sync(mask, true) };
        if are_together(mask) {
            break;
        }
    }
}

/// [`Warp::ballot`] of lanes that are apart, and [`Warp::sync`].
#[inline(never)]
fn ballot_apart(mask: u32, predicate: bool) -> u32 {
    // SAFETY:
    // - the caller is one of the mask's lanes, and all of them call
    unsafe {
        bar_warp_sync(mask);
        vote_ballot_sync(mask, predicate)
    }
}

/// [`Warp::shuffle`] of lanes that are apart, bit by bit.
#[inline(never)]
fn shuffle_apart(mask: u32, value: u64, from: u32) -> u64 {
    // SAFETY:
    // - the caller is one of the mask's lanes, and all of them call
    unsafe { bar_warp_sync(mask) };
    let mut result = 0;
    for bit in 0..u64::BITS {
        // SAFETY:
        // - as above
        let votes = unsafe { vote_ballot_sync(mask, value >> bit & 1 != 0) };
        result |= u64::from(votes >> from & 1) << bit;
    }
    result
}

/// [`Warp::shuffle`] without the barrier: 32 bits at a time is what the hardware moves.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the two halves")]
fn shuffle_halves(lanes: LaneMask, value: u64, from: u32) -> u64 {
    // SAFETY:
    // - the caller is one of `lanes`, and all of them call
    let low = unsafe { shfl_sync_idx(hardware(lanes), value as u32, from, WHOLE_WARP) };
    // SAFETY:
    // - as above
    let high = unsafe { shfl_sync_idx(hardware(lanes), (value >> 32) as u32, from, WHOLE_WARP) };
    u64::from(high) << 32 | u64::from(low)
}

/// [`Warp::shuffle`] after [`meet`], which found the lanes `together` or not.
#[inline]
fn shuffle_met(lanes: LaneMask, together: bool, value: u64, from: u32) -> u64 {
    if together { shuffle_halves(lanes, value, from) } else { shuffle_apart(hardware(lanes), value, from) }
}

impl Warp for Machine {
    const INDEPENDENT_LANES: bool = true;
    const COPIES_WORDS: bool = true;
    const LOOKS: u32 = 8;

    #[inline]
    fn width() -> u32 {
        32
    }
    #[inline]
    fn lane() -> u32 {
        laneid()
    }
    #[inline]
    fn calling() -> LaneMask {
        // Not all lanes that could come together need to; whichever do get one mask, that of the instruction they execute together.
        LaneMask(u64::from(activemask()))
    }
    #[inline]
    fn ballot(lanes: LaneMask, predicate: bool) -> LaneMask {
        let mask = hardware(lanes);
        LaneMask(u64::from(if meet(lanes) {
            // SAFETY:
            // - the caller is one of `lanes`, and all of them call
            unsafe { vote_ballot_sync(mask, predicate) }
        } else {
            ballot_apart(mask, predicate)
        }))
    }
    #[inline]
    fn shuffle(lanes: LaneMask, value: u64, from: u32) -> u64 {
        shuffle_met(lanes, meet(lanes), value, from)
    }
    #[inline]
    fn broadcast(lanes: LaneMask, value: u64, from: u32) -> u64 {
        Self::shuffle(lanes, value, from)
    }
    #[inline]
    fn scan(lanes: LaneMask, value: u64) -> u64 {
        let together = meet(lanes);
        scan_by_shuffles(lanes, laneid(), value, |value, from| shuffle_met(lanes, together, value, from))
    }
    #[inline]
    fn sync(lanes: LaneMask) {
        if !meet(lanes) {
            let _ = ballot_apart(hardware(lanes), true);
        }
    }
    #[inline]
    fn nap(nanoseconds: u32) {
        nanosleep(nanoseconds.min(LONGEST_NAP_NS));
    }
    #[inline]
    fn clock() -> u64 {
        globaltimer()
    }
    #[inline]
    fn is_private(address: u64) -> bool {
        is_local(address as *const u8)
    }
}

/// Where the calling thread stands in its launch; blocks and grids of more than one dimension are counted x first.
#[inline]
pub(super) fn position() -> Position {
    Position {
        thread: (tid_z() * ntid_y() + tid_y()) * ntid_x() + tid_x(),
        block: (ctaid_z() * nctaid_y() + ctaid_y()) * nctaid_x() + ctaid_x(),
        block_threads: ntid_x() * ntid_y() * ntid_z(),
        grid_blocks: nctaid_x() * nctaid_y() * nctaid_z(),
    }
}

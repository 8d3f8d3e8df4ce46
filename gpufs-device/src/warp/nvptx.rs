//! NVIDIA GPUs, sm_70 or newer: a warp is 32 lanes, and each lane makes progress of its own.
//!
//! Every operation that names lanes is an LLVM intrinsic: those are convergent, that is, the compiler neither duplicates one
//! nor makes it depend on a branch it did not depend on, and inline assembly is not. Each `.sync` instruction waits until all lanes of
//! its mask have come, so a lane that the hardware runs later than the others is waited for. Votes and shuffles go wrong all the same where
//! the lanes come to different copies of an instruction: each copy sees only the lanes that it is executed by. LLVM makes none, but
//! rustc's jump threading does (rust-lang/rust#137086), and device code is built without it: `-Z mir-enable-passes=-JumpThreading`.
//!
//! # Lanes that are apart
//!
//! ptxas brings the lanes of a warp together where the branch ends at which they parted. That is not always soon, nor does it always hold:
//!
//! - Into loops with atomics or strong loads it puts `YIELD`, so that no lane starves the one it spins for. When a lane yields, those that
//!   wait for it at a branch's end go on without it. So while a leader claims something in a loop, the others run ahead, to the operation
//!   that follows. With each `YIELD` of an assembled program overwritten by a `NOP`, no lanes were apart any more in 528 warps that write to
//!   one stream; with them, 200 million lanes were, at four places.
//! - Lanes that leave a loop by `return`, one of whose ways ends in a panic, come together at the end of the function. What a warp does
//!   for every request therefore selects instead of returning early (`gpufs_core::stream::readahead::Lines::locate`).
//!
//! PTX lets such lanes come to a barrier, vote or shuffle one after the other: the instruction waits for all, they execute it together, and
//! then go their ways again. Two things follow.
//!
//! **Each operation is one small function that is not inlined**, and has no other way around it. As ptxas 13.0 makes an operation in place,
//! in large functions, it went wrong now and then on an H200 where several groups of a warp were under way at once: leaders' claims
//! came out as other numbers, and two of three runs of 4,000 sequences of calls on streams failed. It takes a `bar.warp.sync` in
//! place at which lanes wait that are apart, in functions so deep that ptxas spills its own barriers; assembled by ptxas 13.5 the same code passed
//! three runs of three. As functions they never went wrong (36,000 sequences). A branch around each, with the operation in place for lanes
//! that are together, is as right, but four times as many barriers are then spilled, and a third of the speed is left.
//!
//! **Long work of a leader is [`Collectives::on_leader`]'s**: a function of its own, in whose code nothing yields if there is no loop in it, and
//! which all leave together behind a vote, if they came together. What comes to a shuffle apart all the same is passed on by 64 votes.
//!
//! Shuffles and votes order no memory (PTX ISA, "shfl.sync"; the intrinsics say so to the compiler as well), but the contract of
//! [`Collectives`] is that they do. Hence the `bar.warp.sync` before each: it orders memory among its lanes, for the hardware and for the
//! compiler.
#![allow(unsafe_code, reason = "compiler intrinsics")]

use gpufs_core::Position;

use super::scan::{scan_by_shuffles, scan_of_warp};
use super::{Collectives, LaneMask, Warp};

/// Lanes that call together: each of their operations is one instruction, which lanes in other places do not execute.
pub(crate) type Met = LaneMask;

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
    #[link_name = "llvm.nvvm.read.ptx.sreg.gridid"]
    safe fn gridid() -> u32;
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

/// All lanes of a warp.
const WHOLE_WARP: u32 = u32::MAX;
/// Shuffles see the warp as one segment of 32 lanes (PTX ISA, "shfl.sync", operand c).
const ONE_SEGMENT: u32 = 0x1f;
/// Votes after which lanes that do not come together go on apart. Most come together at once or not at all.
const VOTES_MAX: u32 = 7;
/// `nanosleep` takes at most a millisecond.
const NAP_NS_MAX: u32 = 1_000_000;

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

/// Whether the mask is the whole warp and all of it executes this instruction together: the mask of what follows is then a constant,
/// which saves several instructions for each operation.
#[inline]
fn is_whole_warp(mask: u32) -> bool {
    mask & activemask() == WHOLE_WARP
}

/// Whether the mask is of one lane, which is its own answer. Asked before [`ballot_of`] and [`shuffle_of`] are called: the ten calls of one
/// operation take 0.4 µs.
#[inline]
const fn is_alone(mask: u32) -> bool {
    mask.is_power_of_two()
}

/// The votes of a lane alone.
#[inline]
const fn votes_alone(mask: u32, predicate: bool) -> u32 {
    if predicate { mask } else { 0 }
}

/// The votes of a lane alone, or of a whole warp that is together.
#[inline]
fn votes_at_once(mask: u32, predicate: bool) -> Option<u32> {
    if is_alone(mask) {
        return Some(votes_alone(mask, predicate));
    }
    if !is_whole_warp(mask) {
        return None;
    }
    // SAFETY:
    // - all lanes of the warp are here
    Some(unsafe {
        bar_warp_sync(WHOLE_WARP);
        vote_ballot_sync(WHOLE_WARP, predicate)
    })
}

/// [`Collectives::ballot`]: after some votes lanes mostly go on together.
#[inline(never)]
fn ballot_of(mask: u32, predicate: bool) -> u32 {
    if let Some(votes) = votes_at_once(mask, predicate) {
        return votes;
    }
    let mut votes = 0;
    // Ends: a count. All lanes of the mask see the same in each round.
    for _ in 0..VOTES_MAX {
        // SAFETY:
        // - the caller is one of the mask's lanes, and all of them call
        votes = unsafe { vote_ballot_sync(mask, predicate) };
        if are_together(mask) {
            break;
        }
    }
    // SAFETY:
    // - as above
    unsafe { bar_warp_sync(mask) };
    votes
}

/// The leader's work, after which the lanes wait for each other; its result is valid in the leader.
#[inline(never)]
fn lead_of(mask: u32, work: impl FnOnce() -> u64) -> u64 {
    let word = if laneid() == mask.trailing_zeros() { work() } else { 0 };
    if votes_at_once(mask, true).is_none() {
        wait_for_all(mask);
    }
    word
}

/// Waits until all lanes of the mask have come.
#[inline(never)]
fn wait_for_all(mask: u32) {
    // SAFETY:
    // - the caller is one of the mask's lanes, and all of them call
    unsafe {
        bar_warp_sync(mask);
        let _ = vote_ballot_sync(mask, true);
    }
}

/// [`Collectives::shuffle`]: bit by bit where the lanes do not come together.
#[inline(never)]
fn shuffle_of(mask: u32, value: u64, from: u32) -> u64 {
    if is_alone(mask) {
        return value;
    }
    if is_whole_warp(mask) {
        // SAFETY:
        // - all lanes of the warp are here
        unsafe { bar_warp_sync(WHOLE_WARP) };
        return shuffle_halves(WHOLE_WARP, value, from);
    }
    // Ends: a count. All lanes of the mask see the same in each round.
    for _ in 0..VOTES_MAX {
        if are_together(mask) {
            // SAFETY:
            // - the caller is one of the mask's lanes, and all of them call
            unsafe { bar_warp_sync(mask) };
            return shuffle_halves(mask, value, from);
        }
        // SAFETY:
        // - as above
        let _ = unsafe { vote_ballot_sync(mask, true) };
    }
    // SAFETY:
    // - as above
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

/// [`Collectives::same`].
#[inline(never)]
fn same_of(mask: u32, value: u64) -> bool {
    if is_alone(mask) {
        return true;
    }
    if !is_whole_warp(mask) {
        let first = shuffle_of(mask, value, mask.trailing_zeros());
        return ballot_of(mask, value != first) == 0;
    }
    // SAFETY:
    // - all lanes of the warp are here
    unsafe { bar_warp_sync(WHOLE_WARP) };
    let first = shuffle_halves(WHOLE_WARP, value, 0);
    // SAFETY:
    // - as above
    unsafe { vote_ballot_sync(WHOLE_WARP, value != first) == 0 }
}

/// [`Collectives::scan`].
#[inline(never)]
fn scan_of(mask: u32, value: u64) -> u64 {
    if is_alone(mask) {
        return 0;
    }
    let _ = ballot_of(mask, true);
    let lanes = LaneMask(u64::from(mask));
    if is_whole_warp(mask) {
        scan_of_warp(Machine::width(), laneid(), value, |value, from| shuffle_halves(WHOLE_WARP, value, from))
    } else if are_together(mask) {
        scan_by_shuffles(lanes, laneid(), value, |value, from| shuffle_halves(mask, value, from))
    } else {
        scan_by_shuffles(lanes, laneid(), value, |value, from| shuffle_of(mask, value, from))
    }
}

/// [`Collectives::shuffle`] of lanes that are together, 32 bits at a time: that is what the hardware moves.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the two halves")]
fn shuffle_halves(mask: u32, value: u64, from: u32) -> u64 {
    // SAFETY:
    // - the caller is one of the mask's lanes, and all of them call
    let low = unsafe { shfl_sync_idx(mask, value as u32, from, ONE_SEGMENT) };
    // SAFETY:
    // - as above
    let high = unsafe { shfl_sync_idx(mask, (value >> 32) as u32, from, ONE_SEGMENT) };
    u64::from(high) << 32 | u64::from(low)
}

impl Warp for Machine {
    const INDEPENDENT_LANES: bool = true;
    const COPIES_WORDS: bool = true;
    const POLLS_BEFORE_YIELD: u32 = 8;
    // With 1, 2, 4, 8 and 16 of 528 warps one stream of an H200 takes 20.2, 23.8, 25.7, 26.2 and 26.4 GB/s.
    const PROGRESS_WARPS_MAX: u32 = 16;
    const NAP_OF_MANY_NS: u32 = 2_000;

    #[inline]
    fn width() -> u32 {
        32
    }
    #[inline]
    fn lane() -> u32 {
        laneid()
    }
    #[inline]
    fn nap(nanoseconds: u32) {
        nanosleep(nanoseconds.min(NAP_NS_MAX));
    }
    #[inline]
    fn clock() -> u64 {
        globaltimer()
    }
    #[inline]
    fn launch() -> u64 {
        // The number of the launch in its context (PTX ISA, "%gridid").
        u64::from(gridid())
    }
    #[inline]
    fn is_private(address: u64) -> bool {
        is_local(address as *const u8)
    }
}

impl Collectives for Machine {
    #[inline]
    fn calling(_: usize) -> LaneMask {
        // Not all lanes that could come together need to; whichever do get one mask, that of the instruction they execute together.
        LaneMask(u64::from(activemask()))
    }
    #[inline]
    fn ballot(lanes: LaneMask, predicate: bool) -> LaneMask {
        let mask = hardware(lanes);
        let votes = if is_alone(mask) { votes_alone(mask, predicate) } else { ballot_of(mask, predicate) };
        LaneMask(u64::from(votes))
    }
    #[inline]
    fn on_leader(lanes: LaneMask, work: impl FnOnce() -> u64) -> u64 {
        Self::shuffle(lanes, lead_of(hardware(lanes), work), lanes.first())
    }
    #[inline]
    fn shuffle(lanes: LaneMask, value: u64, from: u32) -> u64 {
        let mask = hardware(lanes);
        if is_alone(mask) { value } else { shuffle_of(mask, value, from) }
    }
    #[inline]
    fn broadcast(lanes: LaneMask, value: u64, from: u32) -> u64 {
        Self::shuffle(lanes, value, from)
    }
    #[inline]
    fn same(lanes: LaneMask, value: u64) -> bool {
        same_of(hardware(lanes), value)
    }
    #[inline]
    fn scan(lanes: LaneMask, value: u64) -> u64 {
        scan_of(hardware(lanes), value)
    }
    #[inline]
    fn sync(lanes: LaneMask) {
        let _ = Self::ballot(lanes, true);
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

//! AMD GPUs: CDNA with waves of 64 lanes, RDNA with waves of 32 (waves of 64 on RDNA are not supported: there a shuffle reaches only
//! its own half).
//!
//! A wave has one program counter and a mask of the lanes that execute, so lanes that call a convergent function together *are* the
//! execution mask, and no instruction takes a mask. Lanes outside `lanes` cannot take part: an operation is reached by all of `lanes`
//! at once, since the compiler brings lanes together again where their branches end, and [`super::Lanes::grouped`] keeps groups
//! apart. The price: a lane makes no progress while others of its wave are in another branch ([`Warp::INDEPENDENT_LANES`]).
//!
//! Memory: one wave's accesses are carried out in program order as far as its lanes can tell, and the counters that a release waits for
//! belong to the whole wave (LLVM, "User Guide for AMDGPU Backend", memory model: no code for wavefront scope). So ordering lanes among
//! each other takes a barrier for the compiler alone.
#![allow(unsafe_code, reason = "compiler intrinsics")]

use core::sync::atomic::{Ordering, compiler_fence};

use gpufs_core::Position;

use super::scan::scan_by_shuffles;
use super::{Collectives, LaneMask, Warp};

/// Lanes that call together: each of their operations is one instruction, which lanes in other places do not execute.
pub(crate) type Met = LaneMask;

unsafe extern "unadjusted" {
    #[link_name = "llvm.amdgcn.wavefrontsize"]
    safe fn wavefrontsize() -> u32;
    #[link_name = "llvm.amdgcn.mbcnt.lo"]
    safe fn mbcnt_lo(mask: u32, start: u32) -> u32;
    #[link_name = "llvm.amdgcn.mbcnt.hi"]
    safe fn mbcnt_hi(mask: u32, start: u32) -> u32;
    #[link_name = "llvm.amdgcn.ballot.i64"]
    safe fn wave_ballot(predicate: bool) -> u64;
    #[link_name = "llvm.amdgcn.ds.bpermute"]
    safe fn ds_bpermute(byte_address: u32, value: u32) -> u32;
    #[link_name = "llvm.amdgcn.readlane.i32"]
    safe fn readlane(value: u32, from: u32) -> u32;
    #[link_name = "llvm.amdgcn.wave.barrier"]
    safe fn wave_barrier();
    #[link_name = "llvm.amdgcn.s.sleep"]
    safe fn s_sleep(count: u32);
    #[link_name = "llvm.amdgcn.is.private"]
    safe fn is_private(address: *const u8) -> bool;
    #[link_name = "llvm.readsteadycounter"]
    safe fn readsteadycounter() -> u64;
    #[link_name = "llvm.amdgcn.workitem.id.x"]
    safe fn workitem_id_x() -> u32;
    #[link_name = "llvm.amdgcn.workitem.id.y"]
    safe fn workitem_id_y() -> u32;
    #[link_name = "llvm.amdgcn.workitem.id.z"]
    safe fn workitem_id_z() -> u32;
    #[link_name = "llvm.amdgcn.workgroup.id.x"]
    safe fn workgroup_id_x() -> u32;
    #[link_name = "llvm.amdgcn.workgroup.id.y"]
    safe fn workgroup_id_y() -> u32;
    #[link_name = "llvm.amdgcn.workgroup.id.z"]
    safe fn workgroup_id_z() -> u32;
}

/// The steady counter runs at 100 MHz on every part that this is built for (`s_memrealtime`, `s_sendmsg_rtn`; HIP calls it
/// `wall_clock64`), so that one count is 10 ns.
const NANOSECONDS_A_COUNT: u64 = 10;
/// `s_sleep 8` rests for 8 × 64 clocks: about this long at 2 GHz.
const NAP_STEP_NS: u32 = 256;
/// As on the other GPUs.
const NAP_NS_MAX: u32 = 1_000_000;

/// The machine that this build runs on.
#[derive(Clone, Copy, Debug)]
pub struct Machine;

/// [`Collectives::shuffle`] without the barrier: 32 bits at a time is what the hardware moves.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the two halves")]
fn shuffle_halves(value: u64, from: u32) -> u64 {
    // A lane's registers are addressed in bytes.
    let low = ds_bpermute(from * 4, value as u32);
    let high = ds_bpermute(from * 4, (value >> 32) as u32);
    u64::from(high) << 32 | u64::from(low)
}

impl Warp for Machine {
    const INDEPENDENT_LANES: bool = false;
    const COPIES_WORDS: bool = true;
    const POLLS_BEFORE_YIELD: u32 = 8;
    const PROGRESS_WARPS_MAX: u32 = 16;
    const NAP_OF_MANY_NS: u32 = 2_000;

    #[inline]
    fn width() -> u32 {
        wavefrontsize()
    }
    #[inline]
    fn lane() -> u32 {
        // Lanes below the caller, executing or not; the upper half counts nothing in a wave of 32.
        mbcnt_hi(u32::MAX, mbcnt_lo(u32::MAX, 0))
    }
    #[inline]
    fn nap(nanoseconds: u32) {
        s_sleep(1);
        // Ends: counts up to 3906.
        for _ in 0..nanoseconds.min(NAP_NS_MAX) / NAP_STEP_NS {
            s_sleep(8);
        }
    }
    #[inline]
    fn clock() -> u64 {
        readsteadycounter().wrapping_mul(NANOSECONDS_A_COUNT)
    }
    #[inline]
    fn launch() -> u64 {
        // The address of the launch's packet, which stays in place while it runs, hashed: two launches at once have the same in one case of 2^24.
        let packet = core::intrinsics::gpu::amdgpu_dispatch_ptr() as u64;
        (packet >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
    }
    #[inline]
    fn is_private(address: u64) -> bool {
        is_private(address as *const u8)
    }
}

impl Collectives for Machine {
    #[inline]
    fn calling(_: usize) -> LaneMask {
        LaneMask(wave_ballot(true))
    }
    #[inline]
    fn ballot(lanes: LaneMask, predicate: bool) -> LaneMask {
        Self::sync(lanes);
        // The execution mask is `lanes`; saying so again lets the compiler know.
        LaneMask(wave_ballot(predicate) & lanes.0)
    }
    #[inline]
    fn shuffle(lanes: LaneMask, value: u64, from: u32) -> u64 {
        Self::sync(lanes);
        shuffle_halves(value, from)
    }
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
    fn broadcast(lanes: LaneMask, value: u64, from: u32) -> u64 {
        Self::sync(lanes);
        u64::from(readlane((value >> 32) as u32, from)) << 32 | u64::from(readlane(value as u32, from))
    }
    #[inline]
    fn scan(lanes: LaneMask, value: u64) -> u64 {
        Self::sync(lanes);
        scan_by_shuffles(lanes, Self::lane(), value, shuffle_halves)
    }
    #[inline]
    fn sync(_: LaneMask) {
        // ORDERING: acquire and release, among the lanes of one wave, which only the compiler could upset.
        compiler_fence(Ordering::AcqRel);
        wave_barrier();
        compiler_fence(Ordering::AcqRel);
    }
}

/// The beginning of `hsa_kernel_dispatch_packet_t` (HSA Platform System Architecture, 2.9.6).
#[repr(C)]
struct DispatchPacket {
    header: u16,
    setup: u16,
    workgroup_size: [u16; 3],
    reserved: u16,
    /// In threads.
    grid_size: [u32; 3],
}

/// Where the calling thread stands in its launch; blocks and grids of more than one dimension are counted x first.
#[inline]
pub(super) fn position() -> Position {
    // SAFETY:
    // - every kernel is launched by such a packet, which stays in place while it runs
    let packet = unsafe { &*core::intrinsics::gpu::amdgpu_dispatch_ptr().cast::<DispatchPacket>() };
    let threads = packet.workgroup_size.map(u32::from);
    // Not `div_ceil`: for gfx11, LLVM 22 leaves the addition of its carry unexpanded (`S_ADD_CO_PSEUDO`).
    let blocks = [0, 1, 2].map(|axis: usize| (packet.grid_size[axis] + (threads[axis] - 1)) / threads[axis]);
    Position {
        thread: (workitem_id_z() * threads[1] + workitem_id_y()) * threads[0] + workitem_id_x(),
        block: (workgroup_id_z() * blocks[1] + workgroup_id_y()) * blocks[0] + workgroup_id_x(),
        block_threads: threads[0] * threads[1] * threads[2],
        grid_blocks: blocks[0] * blocks[1] * blocks[2],
    }
}

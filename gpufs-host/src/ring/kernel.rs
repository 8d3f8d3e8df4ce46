//! Opening a ring of the kernel's: setup, memory, and whether it can do what gpufs needs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use gpufs_core::abi::{
    Cqe, IORING_FEAT_NODROP, IORING_FEAT_SINGLE_MMAP, IORING_FEAT_SQPOLL_NONFIXED, IORING_OFF_SQ_RING,
    IORING_OFF_SQES, IORING_REGISTER_PROBE, IORING_SETUP_COOP_TASKRUN, IORING_SETUP_CQSIZE,
    IORING_SETUP_NO_MMAP, IORING_SETUP_NO_SQARRAY, IORING_SETUP_R_DISABLED, IORING_SETUP_SQ_AFF,
    IORING_SETUP_SQPOLL, PROBE_OPS, Params, Probe, Sqe,
};
use gpufs_core::word::SharedWord;

use super::confined::Confined;
use super::error::{MissingOpcode, RingError, SETUP};
use super::family::Held;
use super::memory::Region;
use super::opcodes::Lacks;
use super::restrict::restrict;
use super::sys::{self, Release};
use super::{Mode, RingConfig, RingMemory, RingParts};

/// Room for the heads, tails and flags that the kernel puts before the CQEs (`struct io_rings`, under 512 bytes).
const HEADER_BYTES: usize = 4096;

/// A ring that the kernel made: what [`Inner`](super::Inner) is put together from.
pub(super) struct Opened {
    pub(super) descriptor: OwnedFd,
    pub(super) family_descriptor: Option<Held>,
    pub(super) features: u32,
    pub(super) lacks: Vec<MissingOpcode>,
    pub(super) host: RingParts,
    pub(super) device: RingParts,
    pub(super) regions: Vec<Region>,
}

/// Opens a ring in mode [`Mode::Sqpoll`] or [`Mode::Enter`].
pub(super) fn open(config: &RingConfig) -> Result<Opened, RingError> {
    let (rings_bytes, sqes_bytes) = bytes(config);
    let need = rings_bytes + sqes_bytes;
    let explain = |step| move |error: io::Error| RingError::explain(step, error, config, need);

    let block = match config.memory {
        RingMemory::Kernel => None,
        RingMemory::Caller | RingMemory::Runtime => {
            Some(Region::allocate(&config.own_source(), need).map_err(explain("allocating ring memory"))?)
        }
    };
    let Made { descriptor, family_descriptor, params } =
        set_up(config, block.as_ref(), rings_bytes).map_err(explain(SETUP))?;
    check_features(config, params.features)?;
    let lacks = check_opcodes(config, descriptor.as_fd())?;
    if config.confined.is_some() {
        restrict(descriptor.as_fd()).map_err(explain("restricting the ring to what the sandbox allows"))?;
    }

    let (host, device, regions) = match block {
        Some(block) => {
            let parts = |base: *mut u8| RingParts::at(base, base.wrapping_add(rings_bytes), &params);
            (parts(block.host.as_ptr()), parts(block.device().as_ptr()), vec![block])
        }
        None => {
            let map = |offset, bytes| Region::map(&config.source, descriptor.as_fd(), offset, bytes);
            let rings =
                map(IORING_OFF_SQ_RING, mapped_bytes(&params)).map_err(explain("mapping the rings"))?;
            let sqes = map(IORING_OFF_SQES, sqes_bytes).map_err(explain("mapping the SQEs"))?;
            let host = RingParts::at(rings.host.as_ptr(), sqes.host.as_ptr(), &params);
            let device = RingParts::at(rings.device().as_ptr(), sqes.device().as_ptr(), &params);
            (host, device, vec![rings, sqes])
        }
    };
    if params.flags & IORING_SETUP_NO_SQARRAY == 0 {
        fill_index_array(&host, &params);
    }
    Ok(Opened { descriptor, family_descriptor, features: params.features, lacks, host, device, regions })
}

/// What the rings and the SQEs need at most, in bytes, whole pages.
fn bytes(config: &RingConfig) -> (usize, usize) {
    let (sq, cq, page) = (config.entries as usize, config.cq_entries as usize, sys::page_bytes());
    let rings = HEADER_BYTES + cq * size_of::<Cqe>() + sq * size_of::<u32>();
    (rings.next_multiple_of(page), (sq * size_of::<Sqe>()).next_multiple_of(page))
}

/// What the kernel's own mapping of the rings holds, in bytes.
fn mapped_bytes(params: &Params) -> usize {
    let cqes_end = params.cq_off.cqes as usize + params.cq_entries as usize * size_of::<Cqe>();
    let array_end = params.sq_off.array as usize + params.sq_entries as usize * size_of::<u32>();
    if params.flags & IORING_SETUP_NO_SQARRAY == 0 { cqes_end.max(array_end) } else { cqes_end }
}

/// A ring, and what the kernel said of it.
struct Made {
    descriptor: OwnedFd,
    family_descriptor: Option<Held>,
    params: Params,
}

/// Sets a ring up in the confined family, and moves it to the host. In the mode `enter` the family keeps it, for its thread to enter.
fn make_confined(confined: &Confined, config: &RingConfig, mut params: Params) -> io::Result<Made> {
    let family = &confined.family;
    let entries = config.entries;
    params.flags |= IORING_SETUP_R_DISABLED;
    let made = family.run(move || {
        // SAFETY:
        // - as for `set_up`, which calls this
        let made = unsafe { sys::setup(entries, &mut params) };
        made.map(|ring| (ring.into_raw_fd(), params))
    });
    let (number, params) = made?;
    let own = Held { fd: number, family: Some(Arc::clone(family)) };
    let descriptor = family.hand_out(number)?;
    Ok(Made { descriptor, family_descriptor: (config.mode == Mode::Enter).then_some(own), params })
}

/// Calls `io_uring_setup(2)`, with what spares work; then, for kernels before 6.6, with an index array; then, for kernels before 5.19, with
/// interruptions of the thread that enters it.
fn set_up(config: &RingConfig, block: Option<&Region>, rings_bytes: usize) -> io::Result<Made> {
    let attempt = |more_flags: u32| {
        let mut params = wanted(config, block, rings_bytes);
        params.flags |= more_flags;
        if let Some(confined) = &config.confined {
            return make_confined(confined, config, params);
        }
        // SAFETY:
        // - with NO_MMAP, `block` is page-aligned, holds `bytes(config)`, belongs to this ring alone, and is kept in the same
        //   `Inner`, which closes the descriptor before it frees the block
        let descriptor = unsafe { sys::setup(config.entries, &mut params) }?;
        Ok(Made { descriptor, family_descriptor: None, params })
    };
    // The thread that enters a ring does so again, or sleeps, which what completes ends.
    let spares = if config.mode == Mode::Enter { IORING_SETUP_COOP_TASKRUN } else { 0 };
    let no_array = if config.index_array { 0 } else { IORING_SETUP_NO_SQARRAY };
    let mut choices = vec![no_array | spares, spares, 0];
    choices.dedup();
    let last = choices.pop().unwrap_or(0);
    for flags in choices {
        match attempt(flags) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            done => return done,
        }
    }
    attempt(last)
}

fn wanted(config: &RingConfig, block: Option<&Region>, rings_bytes: usize) -> Params {
    let mut params =
        Params { flags: IORING_SETUP_CQSIZE, cq_entries: config.cq_entries, ..Params::default() };
    if config.mode == Mode::Sqpoll {
        params.flags |= IORING_SETUP_SQPOLL;
        params.sq_thread_idle = config.idle_ms;
        if let Some(cpu) = config.sq_thread_cpu {
            params.flags |= IORING_SETUP_SQ_AFF;
            params.sq_thread_cpu = cpu;
        }
    }
    if let Some(block) = block {
        debug_assert!(block.bytes() >= rings_bytes);
        let rings = block.host.as_ptr().expose_provenance();
        params.flags |= IORING_SETUP_NO_MMAP;
        params.cq_off.user_addr = rings as u64;
        params.sq_off.user_addr = (rings + rings_bytes) as u64;
    }
    params
}

pub(super) fn check_features(config: &RingConfig, features: u32) -> Result<(), RingError> {
    let mut needed = vec![
        (IORING_FEAT_SINGLE_MMAP, "rings in one mapping (IORING_FEAT_SINGLE_MMAP)", Release::new(5, 4)),
        (IORING_FEAT_NODROP, "completions that are never dropped (IORING_FEAT_NODROP)", Release::new(5, 5)),
    ];
    if config.mode == Mode::Sqpoll {
        let what = "SQPOLL on ordinary descriptors (IORING_FEAT_SQPOLL_NONFIXED)";
        needed.push((IORING_FEAT_SQPOLL_NONFIXED, what, Release::new(5, 11)));
    }
    match needed.into_iter().find(|(feature, ..)| features & feature == 0) {
        Some((_, what, since)) => Err(RingError::TooOld { what, since, kernel: Release::running() }),
        None => Ok(()),
    }
}

/// The optional opcodes that the kernel lacks; an error if it lacks a required one.
fn check_opcodes(config: &RingConfig, ring: BorrowedFd<'_>) -> Result<Vec<MissingOpcode>, RingError> {
    let probe = probe(config, ring)?;
    let Lacks { required, optional } = Lacks::of(&probe);
    if required.is_empty() {
        Ok(optional)
    } else {
        Err(RingError::MissingOpcodes { opcodes: required, kernel: Release::running() })
    }
}

/// What the kernel says of its opcodes.
pub(super) fn probe(config: &RingConfig, ring: BorrowedFd<'_>) -> Result<Probe, RingError> {
    let mut probe = Probe::EMPTY;
    // SAFETY:
    // - the kernel writes one `Probe` with `PROBE_OPS` members, which is borrowed for the call
    unsafe { sys::register(ring, IORING_REGISTER_PROBE, (&raw mut probe).cast(), PROBE_OPS as u32) }
        .map_err(|error| {
            RingError::explain("io_uring_register, asking for the kernel's opcodes", error, config, 0)
        })?;
    Ok(probe)
}

/// Makes the index array say "entry i is at i", once and for all.
fn fill_index_array(parts: &RingParts, params: &Params) {
    let array = parts.rings.wrapping_add(params.sq_off.array as usize).cast::<SharedWord>();
    for index in 0..params.sq_entries {
        // SAFETY:
        // - the kernel put `sq_entries` words at this offset of the rings, aligned to 4
        // ORDERING: relaxed; the tail's first `publish` hands the array over with the first entry.
        unsafe { &*array.wrapping_add(index as usize) }.set(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_feature_is_named_with_its_release() {
        let enter = RingConfig { mode: Mode::Enter, ..RingConfig::default() };
        let sqpoll = RingConfig { mode: Mode::Sqpoll, ..enter.clone() };
        let old = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP;
        assert!(check_features(&enter, old).is_ok());
        let said = check_features(&sqpoll, old).unwrap_err().to_string();
        assert!(said.contains("IORING_FEAT_SQPOLL_NONFIXED") && said.contains("5.11 or later"), "{said}");
        let said = check_features(&enter, IORING_FEAT_SINGLE_MMAP).unwrap_err().to_string();
        assert!(said.contains("IORING_FEAT_NODROP"), "{said}");
    }
}

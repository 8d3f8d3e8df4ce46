//! Stacks for lanes: made 32 at a time, each above a page that faults, and kept for the next launch.
//!
//! A stack that was used before costs a pop; a new one costs a system call and page faults, which at 32 lanes a warp is most of
//! what a short launch would cost.
#![expect(unsafe_code, reason = "memory mapping")]

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use corosensei::stack::{Stack, StackPointer};

use crate::process::Process;

/// How many stacks are made, and taken from the kept ones, at a time.
const BATCH: usize = 32;
/// The most stacks of one size that are kept between launches.
const KEPT_STACKS_MAX: usize = 4096;
/// The tops of a batch's stacks are this far apart modulo a page. Were they at the same place in their pages, the hot ends of a
/// warp's stacks would all compete for the same few sets of the first-level cache.
const STAGGER: usize = 128;

/// One lane's stack, with its guard page below.
#[derive(Debug)]
pub(super) struct LaneStack {
    /// Where the mapping starts: the guard page.
    start: NonZeroUsize,
    /// Bytes of the mapping.
    length: usize,
    /// Where the lane's first frame goes: at most a page below the end of the mapping.
    base: StackPointer,
}

// SAFETY:
// - the lowest page of the mapping is inaccessible, so an overflow faults
// - `new_batch` leaves at least the `bytes` asked for between that page and `base`; options demand more than `MIN_STACK_SIZE`
// - `base` is aligned: `STAGGER` and a page are multiples of `STACK_ALIGNMENT`
unsafe impl Stack for LaneStack {
    fn base(&self) -> StackPointer {
        self.base
    }
    fn limit(&self) -> StackPointer {
        self.start
    }
}

impl Drop for LaneStack {
    fn drop(&mut self) {
        // SAFETY:
        // - the range was mapped by `new_batch`, and belongs to this value alone
        // - no fiber runs on it: a fiber owns its stack
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(self.start.get()), self.length) };
    }
}

fn page_bytes() -> usize {
    // SAFETY: `sysconf` has no preconditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("a page size")
}

/// Maps `BATCH` new stacks of at least `bytes` each.
fn new_batch(bytes: usize) -> io::Result<Vec<LaneStack>> {
    let page = page_bytes();
    let length = (bytes + BATCH * STAGGER).next_multiple_of(page) + page;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, at no particular place, touches nothing that exists.
    let mapping = unsafe { libc::mmap(ptr::null_mut(), length * BATCH, prot, flags, -1, 0) };
    if mapping == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = mapping.expose_provenance();
    // Each piece owns its range from here on, so an error below unmaps all of them.
    let stacks: Vec<LaneStack> = (0..BATCH)
        .map(|i| LaneStack {
            start: NonZeroUsize::new(start + i * length).expect("a mapping"),
            length,
            base: NonZeroUsize::new(start + (i + 1) * length - i * STAGGER).expect("a mapping"),
        })
        .collect();
    for stack in &stacks {
        let guard = ptr::with_exposed_provenance_mut(stack.start.get());
        // SAFETY: the page lies in the new mapping, and nothing uses it.
        if unsafe { libc::mprotect(guard, page, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(stacks)
}

/// The process's stacks that no launch uses, by the bytes asked for.
#[derive(Debug, Default)]
struct KeptStacks(Mutex<BTreeMap<usize, Vec<LaneStack>>>);

/// Locks them; none where the process cannot keep any.
fn kept_stacks() -> Option<MutexGuard<'static, BTreeMap<usize, Vec<LaneStack>>>> {
    let kept = Process::this().ok()?.part::<KeptStacks>();
    Some(kept.0.lock().unwrap_or_else(PoisonError::into_inner))
}

/// One OS thread's stacks of one size. They go back to the process's when it is dropped.
#[derive(Debug)]
pub(super) struct StackPool {
    bytes: usize,
    free: Vec<LaneStack>,
}

impl StackPool {
    pub(super) fn new(bytes: usize) -> Self {
        Self { bytes, free: Vec::new() }
    }

    /// A free stack; the most recently used one where there is a choice.
    pub(super) fn take(&mut self) -> io::Result<LaneStack> {
        if let Some(stack) = self.free.pop() {
            return Ok(stack);
        }
        self.refill()?;
        Ok(self.free.pop().expect("a batch holds stacks"))
    }

    #[cold]
    fn refill(&mut self) -> io::Result<()> {
        if let Some(mut kept) = kept_stacks()
            && let Some(kept) = kept.get_mut(&self.bytes).filter(|kept| !kept.is_empty())
        {
            self.free.extend(kept.drain(kept.len().saturating_sub(BATCH)..));
            return Ok(());
        }
        self.free = new_batch(self.bytes)?;
        Ok(())
    }

    pub(super) fn put_back(&mut self, stack: LaneStack) {
        self.free.push(stack);
    }
}

impl Drop for StackPool {
    fn drop(&mut self) {
        let Some(mut kept) = kept_stacks() else { return };
        let kept = kept.entry(self.bytes).or_default();
        let room = KEPT_STACKS_MAX.saturating_sub(kept.len()).min(self.free.len());
        kept.extend(self.free.drain(..room));
    }
}

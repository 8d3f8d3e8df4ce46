//! What a kernel that means harm does, on any device: entries of its own making, past the library, and calls of the library. What it is to do lies
//! in memory of the session, which the host has written. One lane.

use core::ffi::CStr;

use gpufs_core::abi::Sqe;
use gpufs_core::{Operation, Outcome, Queue, Slot, SlotClaim};
use gpufs_device::file::Descriptor;
use gpufs_device::{Errno, Fs, kernel, warp};

/// Entries of a batch at most.
pub const BATCH_MAX: usize = 32;
/// How long what comes behind the entries may take. Nothing on these rings takes nearly as long, but where an entry holds it up.
const FENCE_NS: u64 = 400_000_000;
/// Between two looks.
const NAP_NS: u32 = 20_000;

/// What came of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Answer {
    /// 1 where there was a completion.
    pub completed: u32,
    /// Its result.
    pub result: i32,
}

kernel! {
    /// Puts `count` entries that lie at `entries` into ring `ring` of all as one batch, and stores an [`Answer`] for each at `answers`. Those
    /// without a completion in good time keep their slots. `patience_ns`: how long they may take when what came behind them is done.
    pub fn hostile_entries(fs: Fs, ring: u32, entries: u64, count: u32, answers: u64, patience_ns: u64) {
        let count = (count as usize).min(BATCH_MAX);
        // SAFETY:
        // - of the session that runs this kernel
        let tables = unsafe { fs.tables() };
        let Some(queue) = tables.all_queues().get(ring as usize) else { return };
        // SAFETY:
        // - the host wrote as many there, and waits for this kernel
        let entries = unsafe { core::slice::from_raw_parts(entries as *const Sqe, count) };
        let Some((claim, operations)) = put(queue, entries) else { return };
        let Some((fence_claim, fence)) = put(queue, &[Sqe::nop()]) else { return };
        let answers = answers as *mut Answer;
        let started = warp::clock();
        let mut fenced = None;
        // Ends: at the limits.
        loop {
            queue.drain_alone(64);
            let mut whole = true;
            for (index, operation) in operations.iter().take(count).enumerate() {
                match outcome(queue, *operation) {
                    Some(result) => {
                        let answer = Answer { completed: 1, result };
                        // SAFETY:
                        // - the host keeps room for as many answers, for this lane
                        unsafe { answers.wrapping_add(index).write_volatile(answer) };
                    }
                    None => whole = false,
                }
            }
            let now = warp::clock();
            if fenced.is_none() && outcome(queue, fence[0]).is_some() {
                fenced = Some(now);
            }
            if whole && fenced.is_some() {
                queue.release(claim);
                queue.release(fence_claim);
                return;
            }
            // From the start, or from when what came behind them was done.
            let late = fenced.map_or(started + FENCE_NS, |since| since) + patience_ns;
            if now > late {
                return;
            }
            warp::nap(NAP_NS);
        }
    }
}

fn outcome(queue: &Queue, operation: Operation) -> Option<i32> {
    match queue.outcome(operation) {
        Outcome::Done(result) => Some(result),
        _ => None,
    }
}

/// Puts a batch into a ring, if there is room: its slots and its operations.
fn put(queue: &Queue, entries: &[Sqe]) -> Option<(SlotClaim, [Operation; BATCH_MAX])> {
    let count = entries.len() as u32;
    let claim = queue.claim(count, 0)?;
    if claim.count() != count {
        queue.release(claim);
        return None;
    }
    // SAFETY:
    // - filled and committed below
    let batch = unsafe { queue.reserve(count) };
    let mut operations = [Operation { slot: Slot(0), generation: 0 }; BATCH_MAX];
    for (rank, (entry, place)) in (0..).zip(entries.iter().zip(&mut operations)) {
        // SAFETY:
        // - claimed above, and released when it is done, or never
        *place = unsafe { queue.arm(Slot(claim.item(rank))) };
        // SAFETY:
        // - drawn above, after as many slots were claimed; nobody else fills it
        // - that the entry refers to memory of others is the point: the process does nothing but this
        unsafe { queue.fill(batch.first().plus(rank), entry.with_user_data(place.token())) };
    }
    // SAFETY:
    // - each ticket was filled above
    unsafe { queue.commit(batch) };
    Some((claim, operations))
}

/// One call of the library, and below what came of it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HostileCall {
    /// What to call.
    pub what: Harm,
    /// A descriptor.
    pub descriptor: u32,
    /// The address of a path or a command.
    pub path: u64,
    /// The address of a second path.
    pub other: u64,
    /// Flags of an open.
    pub flags: u32,
    /// The errno of a call that failed, else 0; −1 before there was one.
    pub errno: i32,
    /// What was returned.
    pub value: i64,
}

/// What can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Harm {
    /// Opens `path`, and leaves it open: the descriptor.
    Keep,
    /// Closes `descriptor`.
    Close,
    /// Opens `path` with `flags`.
    Open,
    /// Opens the directory `path`, and `other` from there.
    OpenAt,
    /// Makes the symbolic link `other` to `path`, and opens that.
    OpenLink,
    /// Writes a byte to `descriptor`.
    Write,
    /// Starts the command at `path`.
    Popen,
    /// Removes `path`.
    Unlink,
    /// Asks about `path`.
    Stat,
}

kernel! {
    /// Makes the [`HostileCall`] at `call`.
    pub fn hostile_call(fs: Fs, call: u64) {
        // SAFETY:
        // - the host wrote it, and waits for this lane, which alone uses it
        let call = unsafe { &mut *(call as *mut HostileCall) };
        (call.value, call.errno) = match made(fs, call) {
            Ok(value) => (value, 0),
            Err(errno) => (-1, errno.number()),
        };
    }
}

fn string<'a>(address: u64) -> &'a CStr {
    // SAFETY:
    // - the host put a string there
    unsafe { CStr::from_ptr(address as *const _) }
}

fn made(fs: Fs, call: &HostileCall) -> Result<i64, Errno> {
    let descriptor = Descriptor(call.descriptor);
    match call.what {
        Harm::Keep => fs.open(string(call.path), call.flags, 0).map(|kept| i64::from(kept.0)),
        Harm::Close => fs.close(descriptor).map(|()| 0),
        Harm::Open => opened(fs, string(call.path), call.flags),
        Harm::OpenAt => {
            // O_DIRECTORY.
            let dir = fs.open(string(call.path), 0o200_000, 0)?;
            let at = fs.openat(dir, string(call.other), call.flags, 0o600);
            if let Ok(at) = at {
                let _ = fs.close(at);
            }
            let _ = fs.close(dir);
            at.map(|_| 0)
        }
        Harm::OpenLink => {
            fs.symlink(string(call.path), string(call.other))?;
            opened(fs, string(call.other), call.flags)
        }
        Harm::Write => fs.write(descriptor, b"\n").map(|count| count as i64),
        Harm::Popen => fs.popen(string(call.path), c"r").map(|_| 0),
        Harm::Unlink => fs.unlink(string(call.path)).map(|()| 0),
        Harm::Stat => fs.stat(string(call.path)).map(|_| 0),
    }
}

/// Opens and closes: what was open is no matter here.
fn opened(fs: Fs, path: &CStr, flags: u32) -> Result<i64, Errno> {
    let file = fs.open(path, flags, 0o600)?;
    let _ = fs.close(file);
    Ok(0)
}

//! Directories that are read ahead ([R-SERVE-9]): opened with their first entries, given out from what was read, read on, let go.
#![expect(unsafe_code, reason = "copies entries out of memory that the host filled")]

use core::ffi::CStr;

use gpufs_core::abi::{AT_FDCWD, Dirent, LISTING_BYTES_MIN, READDIR_END, Sqe, listing_place};
use gpufs_core::alloc::{BufferPool, Staged};
use gpufs_core::listing::Next;
use gpufs_core::session::{OpenFile, SessionTables, WaitReason};
use gpufs_core::{Claim, Errno};

use super::dup::claim;
use super::open::enter;
use super::{Descriptor, PATH_MAX};
use crate::Fs;
use crate::io::{Backoff, DeviceRange, abandoned, drain, ring_of_warp, serve, slot_hint, staged};
use crate::warp::{Lanes, Machine, Warp};

/// What a directory is read into that has more entries than a buffer holds.
const MORE_BYTES: u64 = 32 << 10;
/// Bytes of the smallest entry, and of what says where it begins.
const ENTRY_BYTES_MIN: u32 = 26;

/// `opendir` of every lane. Convergent; called by `lanes`.
pub(crate) fn open(fs: Fs, lanes: Lanes, path: &CStr) -> Result<Descriptor, Errno> {
    let session = fs.session();
    let ring = ring_of_warp(session);
    let text = path.to_bytes_with_nul();
    let claimed = if text.len() > PATH_MAX { Err(Errno::NAMETOOLONG) } else { claim(session) };
    let block = claimed.ok().and_then(|_| session.listings.claim_bytes(1, hint(ring, lanes)));
    let into = block.map_or((0, 0), |block| (block.address, block.bytes));
    let before = abandoned(session, ring);
    let mut outcome = claimed;
    let had_memory = staged(session, lanes, claimed.ok().map(|_| text.len() as u64), |stage| {
        let entry = stage.map(|stage| {
            stage.put(0, text);
            Sqe::opendir(AT_FDCWD, stage.address, into.0, into.1)
        });
        let opened = Errno::check(serve(session, lanes, entry));
        if let (Some(_), Ok(index)) = (stage, claimed) {
            outcome = opened.map(|number| {
                session.journal.note_open(index.0, number);
                let file = &session.files()[index.0 as usize];
                if let Some(block) = block {
                    // SAFETY:
                    // - the listing that the operation has filled, which begins with its count; nobody writes it now
                    let told = unsafe { range_of(block).read::<u32>() };
                    file.listing.put(block.claim, told_of(told, block.bytes), 0);
                }
                let flags = OpenFile::OPEN | OpenFile::READABLE | OpenFile::SEEKABLE | OpenFile::DIRECTORY;
                enter(session, index, number, flags);
                index
            });
        }
    });
    let outcome = had_memory.and(outcome);
    if let (Ok(index), Err(_)) = (claimed, outcome) {
        session.files_free.release(Claim::single(index.0));
        // What is still in flight keeps its memory.
        if let Some(block) = block
            && abandoned(session, ring) == before
        {
            session.listings.free.release(block.claim);
        }
    }
    outcome
}

/// Takes the lock of a file, for a group of lanes that all name it. Convergent; called by `group`.
///
/// # Errors
/// Of a thread of the host's, that it gave up.
pub(crate) fn lock(session: &SessionTables, group: Lanes, file: &OpenFile) -> Result<(), Errno> {
    let ring = ring_of_warp(session);
    let ticket = if group.is_leader() && !Machine::is_host() { file.lock.draw() } else { 0 };
    let mut backoff = Backoff::new(session);
    // Ends: the lock is first come first served, and its holder waits only for the host ([L-PROGRESS e]). A thread of the host's may give up.
    loop {
        let mine = group.is_leader()
            && if Machine::is_host() { file.lock.try_take() } else { file.lock.is_served(ticket) };
        if group.any(mine) {
            return Ok(());
        }
        let drained = drain(session, group, ring);
        backoff.wait(drained, WaitReason::FileLock, ring, u64::from(ticket))?;
    }
}

/// Gives back what was read ahead of the directory of each lane that has one. Its entry is out of use ([R-SERVE-9]). Convergent; called by
/// `lanes`.
///
/// # Errors
/// Of a thread of the host's, that it gave up: the entry of the file table is another's to use no more.
#[inline(never)]
pub(super) fn let_go(
    session: &SessionTables,
    lanes: Lanes,
    directory: Option<Descriptor>,
) -> Result<(), Errno> {
    lanes.grouped(directory.map_or(u64::MAX, |directory| directory.0.into()), |group| {
        let Some(directory) = directory else { return Ok(()) };
        let file = &session.files()[directory.0 as usize];
        lock(session, group, file)?;
        if group.is_leader() {
            if let Some(block) = file.listing.take() {
                session.listings.free.release(block);
            }
            file.lock.release();
        }
        Ok(())
    })
}

/// The next entries of a directory whose lock the group holds, one for each lane, in lane order: whether the lane has one. Convergent; called by
/// `group`.
pub(crate) fn next_entries(
    session: &SessionTables,
    group: Lanes,
    file: &OpenFile,
    into: &mut Dirent,
) -> Result<bool, Errno> {
    let mut turn = Turn { group, file, given: 0, outcome: Ok(false) };
    // Ends: each round gives an entry, reads some, or is the last.
    while turn.given < group.count() {
        let next = if group.is_leader() { file.listing.next(file.position.peek()) } else { Next::End };
        let (address, bytes, first, count) = match next {
            Next::Entries { block, first, count } => {
                let pool = &session.listings;
                (pool.address(block.item(0)), block.count() * pool.buffer_bytes, first, count)
            }
            Next::End => (0, 0, 0, 0),
            Next::Unknown => (0, 0, 1, 0),
        };
        let what = group.from_leader(u64::from(first) << 32 | u64::from(count));
        #[expect(clippy::cast_possible_truncation, reason = "a half each")]
        let (first, count) = ((what >> 32) as u32, what as u32);
        if count > 0 {
            let listing = DeviceRange::new(group.from_leader(address), group.from_leader(u64::from(bytes)));
            let (taken, position) = turn.give(listing, (first, count), into);
            if group.is_leader() {
                file.listing.took(taken, position);
                file.position.set(position);
            }
        } else if first == 0 || !read_on(session, &mut turn, into)? {
            break;
        }
    }
    turn.outcome
}

/// One call of a group of lanes for entries.
struct Turn<'a> {
    group: Lanes,
    file: &'a OpenFile,
    /// Lanes that have an entry.
    given: u32,
    /// Whether this lane has.
    outcome: Result<bool, Errno>,
}

impl Turn<'_> {
    /// Gives lanes that have none the entries from `first` on, of which there are `count`: how many, and the position after the last. Convergent.
    fn give(&mut self, listing: DeviceRange, (first, count): (u32, u32), into: &mut Dirent) -> (u32, u64) {
        let (given, rank) = (self.given, self.group.rank());
        let taken = count.min(self.group.count() - given);
        self.given += taken;
        if (given..self.given).contains(&rank) {
            // SAFETY:
            // - a listing that the host has filled, and that the lock's holder keeps as it is until the next barrier
            self.outcome = unsafe { copy_entry(listing, first + rank - given, into) }.map(|()| true);
        }
        let last = self.group.ballot(rank + 1 == self.given).first();
        (taken, self.group.shuffle(into.d_off.cast_unsigned(), last))
    }
}

/// Asks the host for what comes next in a directory, where nothing is known of it: whether there is more to do for this call. Convergent.
///
/// # Errors
/// Of a thread of the host's, that it gave up waiting for memory.
#[inline(never)]
fn read_on(session: &SessionTables, turn: &mut Turn<'_>, into: &mut Dirent) -> Result<bool, Errno> {
    let (group, file) = (turn.group, turn.file);
    let ring = ring_of_warp(session);
    let position = file.position.peek();
    let fd = file.descriptor.peek().cast_signed();
    let block = if group.is_leader() { memory_for(session, group, file, position) } else { None };
    if group.any(block.is_some()) {
        let before = abandoned(session, ring);
        let entry = block.map(|block| Sqe::readdir(fd, position, block.address, block.bytes));
        let told = Errno::check(group.from_leader(serve(session, group, entry)));
        // What is still in flight keeps its memory.
        if let Some(block) = block
            && abandoned(session, ring) == before
        {
            file.listing.put(block.claim, told_of(told.unwrap_or(0), block.bytes), position);
        }
        return Ok(goes_on(turn, told));
    }
    let wanted = (group.count() - turn.given) * size_of::<Dirent>() as u32;
    let mut more = false;
    staged(session, group, group.is_leader().then(|| wanted.max(LISTING_BYTES_MIN).into()), |area| {
        let entry = area.map(|area| Sqe::readdir(fd, position, area.address, area.bytes));
        let told = Errno::check(group.from_leader(serve(session, group, entry)));
        let (address, bytes) = (
            group.from_leader(area.map_or(0, |area| area.address)),
            group.from_leader(area.map_or(0, |area| area.bytes)),
        );
        more = goes_on(turn, told);
        let told = told_of(told.unwrap_or(0), bytes);
        let count = told & !READDIR_END;
        if count == 0 {
            return;
        }
        let (taken, position) = turn.give(DeviceRange::new(address, bytes.into()), (0, count), into);
        if group.is_leader() {
            file.position.set(position);
            let is_all = taken == count && file.flags.peek() & OpenFile::DIRECTORY != 0;
            file.listing.tell(if is_all { told & READDIR_END } else { 0 }, position);
        }
        // Where some were left, each lane has one.
        more = told & READDIR_END == 0;
        // The leader gives the memory back next.
        group.sync();
    })?;
    Ok(more)
}

/// Memory for what is read ahead of a directory: what it has, or better; none where none is free, or where nobody would give it back. The leader,
/// which has the lock.
fn memory_for(session: &SessionTables, group: Lanes, file: &OpenFile, position: u64) -> Option<Staged> {
    let pool = &session.listings;
    let hint = hint(ring_of_warp(session), group);
    let held = file.listing.take().map(|claim| of_claim(pool, claim));
    if file.flags.peek() & OpenFile::DIRECTORY == 0 {
        // It is being closed, and the lane that closes it finds nothing here.
        if let Some(held) = held {
            pool.free.release(held.claim);
        }
        return None;
    }
    match held {
        // It is read on, so it is large.
        Some(held) if position != 0 && held.bytes == pool.buffer_bytes => {
            match pool.claim_bytes(MORE_BYTES, hint) {
                Some(more) if more.bytes > held.bytes => {
                    pool.free.release(held.claim);
                    Some(more)
                }
                Some(no_more) => {
                    pool.free.release(no_more.claim);
                    Some(held)
                }
                None => Some(held),
            }
        }
        None => pool.claim_bytes(if position == 0 { 1 } else { MORE_BYTES }, hint),
        held => held,
    }
}

/// Whether a call goes on after the host has told what comes next; an error is that of the lanes that have no entry.
fn goes_on(turn: &mut Turn<'_>, told: Result<u32, Errno>) -> bool {
    match told {
        Ok(told) => told & !READDIR_END != 0,
        Err(errno) => {
            if turn.group.rank() >= turn.given {
                turn.outcome = Err(errno);
            }
            false
        }
    }
}

/// What the host told of a listing of so many bytes, which cannot have more entries than that.
const fn told_of(told: u32, bytes: u32) -> u32 {
    let (count, most) = (told & !READDIR_END, bytes / ENTRY_BYTES_MIN);
    told & READDIR_END | if count < most { count } else { most }
}

/// Where a warp's lane begins to look for memory.
fn hint(ring: u32, lanes: Lanes) -> u32 {
    slot_hint(ring).wrapping_mul(7).wrapping_add(lanes.rank())
}

fn of_claim(pool: &BufferPool, claim: Claim) -> Staged {
    Staged { claim, address: pool.address(claim.item(0)), bytes: claim.count() * pool.buffer_bytes }
}

fn range_of(block: Staged) -> DeviceRange {
    DeviceRange::new(block.address, block.bytes.into())
}

/// Copies an entry of a listing. Its words come over the bus together, and beside those of the neighbouring lanes.
///
/// # Safety
/// The range is a listing that nobody writes, and has the place of `index` and the next.
unsafe fn copy_entry(listing: DeviceRange, index: u32, into: &mut Dirent) -> Result<(), Errno> {
    const TOGETHER: usize = 4;
    let bytes = u32::try_from(listing.bytes).map_err(|_| Errno::IO)?;
    let place = |index: u32| {
        // SAFETY:
        // - by this function's contract
        8 * u64::from(unsafe { listing.part(listing_place(bytes, index).into(), 2).read::<u16>() })
    };
    let (start, end) = (place(index), place(index + 1));
    let length = end.checked_sub(start).filter(|length| *length <= size_of::<Dirent>() as u64);
    let length = length.filter(|_| end <= listing.bytes).ok_or(Errno::IO)?;
    let words = (length / 8) as usize;
    let from = listing.part(start, length).address as *const u64;
    let to = core::ptr::from_mut(into).cast::<u64>();
    for at in (0..words).step_by(TOGETHER) {
        let mut copy = [0; TOGETHER];
        for (offset, word) in copy.iter_mut().enumerate() {
            if at + offset < words {
                // SAFETY:
                // - within the entry, which is part of the listing; entries begin at multiples of 8
                *word = unsafe { from.wrapping_add(at + offset).read() };
            }
        }
        for (offset, word) in copy.into_iter().enumerate() {
            if at + offset < words {
                // SAFETY:
                // - within the entry of the caller, which is as long, aligned for words, and of plain numbers
                unsafe { to.wrapping_add(at + offset).write(word) };
            }
        }
    }
    into.d_reclen = size_of::<Dirent>() as u16;
    Ok(())
}

//! A shared open: one stream for all that open a path in a mode, counted (`gpufs_core::shared` has the rules).

use core::ffi::CStr;

use gpufs_core::failures::counted;
use gpufs_core::session::{SessionTables, WaitReason};
use gpufs_core::shared::{Entry, Left, Seen, State, Table};
use gpufs_core::{Call, Errno};

use super::File;
use super::fopen::{open_flags, open_stream};
use crate::Fs;
use crate::file::{O_CLOEXEC, O_EXCL, O_TRUNC, PATH_MAX};
use crate::io::{Backoff, drain, ring_of_warp};
use crate::warp::{LaneMask, Lanes, Machine, Warp};

impl Fs {
    /// Opens a stream that all lanes share which open the same path in the same mode by this call, in any warp and kernel of the session: the first
    /// opens it, the others get the same stream, and it is closed when [`File::fclose`] has been called as often as this. It is the way to open a
    /// file inside a kernel of many threads: one system call for all of them, one stream, and one buffer.
    ///
    /// ```
    /// use gpufs_device::{Errno, Fs, fprintf};
    ///
    /// /// Every thread of a grid calls it.
    /// fn report(fs: Fs, thread: u64) -> Result<(), Errno> {
    ///     let out = fs.fopen_shared(c"report.txt", c"w")?;
    ///     fprintf!(out, c"thread %lu\n", thread)?;
    ///     out.fclose()
    /// }
    /// ```
    ///
    /// The path is compared as it is written: `a` and `./a` are two streams, and so are a path before and after somebody renamed what it
    /// names, but only once the stream was closed in between. Modes are compared by what they do: `"r"` and `"rb"` are the same, `"w"` and
    /// `"w+"` are not. A file is truncated by `"w"`, or refused by `"x"`, when it is opened first: not for lanes that find the stream open, nor for
    /// those that open it again in the same kernels after its last close, which go on at its end. So threads that come and go may open with
    /// `"w"`. That is forgotten when the host synchronizes, and where a kernel opens more files in this way than the session has streams. What
    /// a kernel leaves open counts as open for the next. [`Fs::fopen`] of the same
    /// path is another stream.
    ///
    /// # Errors
    /// As [`Fs::fopen`]; of an open that failed, all that waited for it get the error, and the next call tries again. `ENAMETOOLONG` for a
    /// path of 4,096 bytes or more, `EMFILE` also where one stream was opened 2²⁹ times.
    pub fn fopen_shared(self, path: &CStr, mode: &CStr) -> Result<File, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::FopenShared);
        let opened = self.open_shared_by(lanes, path, open_flags(mode.to_bytes()), |_, _, _| Ok(()));
        counted(self.session(), Call::FopenShared, opened)
    }

    /// [`Fs::fopen_shared`] by flags. Convergent; called by `lanes`. `first` is what the lane that opens the stream does before any other has it, as
    /// one that calls alone; where it fails, so does the opening.
    pub(crate) fn open_shared_by(
        self,
        lanes: Lanes,
        path: &CStr,
        flags: Result<u32, Errno>,
        first: impl Fn(File, Lanes, &Entry) -> Result<(), Errno>,
    ) -> Result<File, Errno> {
        let bytes = path.to_bytes();
        let checked = match flags {
            Ok(_) if bytes.len() >= PATH_MAX => Err(Errno::NAMETOOLONG),
            Ok(_) if self.session().shared.paths == 0 => Err(Errno::NOSYS),
            other => other,
        };
        let flags = checked.unwrap_or(0);
        let wanted = Wanted {
            path,
            flags,
            same_flags: flags & !O_CLOEXEC,
            key: Table::key_of(bytes, flags & !O_CLOEXEC),
        };
        let mut outcome = checked.err().map(Err);
        // Ends: each round serves a lane at least.
        while lanes.any(outcome.is_none()) {
            // A key is never 0.
            let key = if outcome.is_none() { wanted.key } else { 0 };
            let served = lanes
                .grouped(key, |group| if key == 0 { None } else { open_group(self, group, &wanted, &first) });
            outcome = outcome.or(served);
        }
        outcome.unwrap_or(Err(Errno::INVAL))
    }
}

impl File {
    /// The entry of a stream that the caller has opened by [`Fs::open_shared_by`] and not closed.
    pub(crate) fn shared_entry(self) -> Option<&'static Entry> {
        // ORDERING: acquire, device, partner `open_group`.
        let word = self.stream().shared.observe();
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        (word as u32).checked_sub(1).map(|index| self.session.shared.entry(index))
    }
}

/// Flags that must not be obeyed when threads of the same kernels open a path again: what was written would be lost, or refused.
pub(super) const EMPTIES: u32 = O_TRUNC | O_EXCL;

/// What a lane wants to open.
struct Wanted<'a> {
    path: &'a CStr,
    flags: u32,
    /// The flags that make another stream.
    same_flags: u32,
    key: u64,
}

/// Where a group's stream is.
#[derive(Clone, Copy)]
struct Found {
    index: u32,
    seen: Seen,
    /// The lanes that want this one, the leader among them.
    same: LaneMask,
}

/// The stream that the leader wants, opened if it must be, for all lanes of the group that want the same; `None` in others. Convergent.
fn open_group(
    fs: Fs,
    group: Lanes,
    wanted: &Wanted<'_>,
    first: &impl Fn(File, Lanes, &Entry) -> Result<(), Errno>,
) -> Option<Result<File, Errno>> {
    let session = fs.session();
    let table = &session.shared;
    let mut backoff = Backoff::of_many(session);
    let ring = ring_of_warp(session);
    // Ends: each round joins or begins an entry, or waits for one that is being opened or closed, which comes to an end, or for others that
    // have just joined or left ([R-SHARE-5]).
    loop {
        if let Some(Found { index, seen, same }) = find(group, table, wanted) {
            if group.on_leader(|| table.entry(index).join(seen, same.count())) {
                return settled(fs, group, index, same);
            }
            if seen.count() + u64::from(same.count()) >= OPENS_MAX {
                return same.contains(group.lane()).then_some(Err(Errno::MFILE));
            }
            // Somebody else came first, or the entry has to be freed.
            let drained = drain(session, group, ring);
            if let Err(errno) = backoff.wait(drained, WaitReason::SharedOpen, ring, u64::from(index)) {
                return Some(Err(errno));
            }
            continue;
        }
        if let Err(errno) = lock(session, group) {
            return Some(Err(errno));
        }
        if find(group, table, wanted).is_some() {
            unlock(group, table);
            continue;
        }
        let remembered = find_remembered(group, table, wanted);
        let Some(index) = remembered.or_else(|| find_free(group, table)) else {
            unlock(group, table);
            return group.is_leader().then_some(Err(Errno::MFILE));
        };
        if remembered.is_none() && group.is_leader() {
            table.prepare(index, wanted.key, wanted.path.to_bytes(), wanted.same_flags);
        }
        group.sync();
        let same = group.ballot(table.is_for(index, wanted.path.to_bytes(), wanted.same_flags));
        let epoch = group.on_leader(|| table.begin(index, same.count()));
        unlock(group, table);
        let flags = if remembered.is_some() { wanted.flags & !EMPTIES } else { wanted.flags };
        let request = if group.is_leader() { Ok((wanted.path, flags)) } else { Err(Errno::AGAIN) };
        let opened = open_stream(fs, group, request, remembered.is_some());
        if group.is_leader() {
            match opened.and_then(|file| begin(file, group, table.entry(index), first)) {
                Ok(file) => {
                    // ORDERING: release, device, partner `leave`: a lane that sees this sees the stream's generation.
                    file.stream().shared.publish(u64::from(epoch) << 32 | u64::from(index + 1));
                    table.entry(index).opened(file.index, file.generation);
                }
                Err(errno) => table.entry(index).failed(errno),
            }
        }
        group.sync();
        return settled(fs, group, index, same);
    }
}

/// What comes before all others of a stream that the caller, the leader, has opened; where that fails, it is closed. A lane alone.
fn begin(
    file: File,
    group: Lanes,
    entry: &Entry,
    first: &impl Fn(File, Lanes, &Entry) -> Result<(), Errno>,
) -> Result<File, Errno> {
    let alone = group.subset(LaneMask(1 << group.lane()));
    if let Err(errno) = first(file, alone, entry) {
        let _ = file.close(alone);
        return Err(errno);
    }
    Ok(file)
}

/// Opens of one stream at a time.
const OPENS_MAX: u64 = (1 << 29) - 1;

/// The result of an entry that `same` of the group have joined. Convergent; `None` in the others.
fn settled(fs: Fs, group: Lanes, index: u32, same: LaneMask) -> Option<Result<File, Errno>> {
    let session = fs.session();
    let entry = session.shared.entry(index);
    let mut backoff = Backoff::of_many(session);
    let ring = ring_of_warp(session);
    // Ends: the lane that opens waits for the kernel.
    let seen = loop {
        let seen = group.on_leader(|| entry.seen());
        if seen.state() != State::Opening {
            break seen;
        }
        let drained = drain(session, group, ring);
        // A thread of the host's may give up.
        if let Err(errno) = backoff.wait(drained, WaitReason::SharedOpen, ring, u64::from(index))
            && entry.withdraw(same.count())
        {
            return Some(Err(errno));
        }
    };
    let outcome = if seen.state() == State::Open {
        let (index, generation) = entry.stream();
        Ok(File { session, index, generation })
    } else {
        Err(entry.errno())
    };
    group.sync();
    if outcome.is_err() && group.is_leader() {
        entry.leave_failed(same.count());
    }
    same.contains(group.lane()).then_some(outcome)
}

/// The entry that the leader wants, if there is one that is not free. Convergent.
fn find(group: Lanes, table: &Table, wanted: &Wanted<'_>) -> Option<Found> {
    // Ends: over the entries, one for each lane at a time.
    for first in (0..table.count).step_by(group.count() as usize) {
        let mine = first + group.rank();
        let hits = group.ballot(mine < table.count && table.hits(mine, wanted.key));
        for lane in hits.iter() {
            let index = group.broadcast(mine, lane);
            let seen = group.on_leader(|| table.entry(index).seen());
            let same = group.ballot(table.is_for(index, wanted.path.to_bytes(), wanted.same_flags));
            let taken = !matches!(seen.state(), State::Free | State::Dead);
            if taken && same.contains(group.leader()) {
                return Some(Found { index, seen, same });
            }
        }
    }
    None
}

/// The entry that remembers that the leader's path was emptied by these flags ([R-SHARE-6]). Convergent; the lock's holder.
fn find_remembered(group: Lanes, table: &Table, wanted: &Wanted<'_>) -> Option<u32> {
    if !group.any(group.is_leader() && wanted.flags & EMPTIES != 0) {
        return None;
    }
    let key = group.from_leader(wanted.key);
    first_entry(
        group,
        table,
        |index| table.hits(index, key) && table.entry(index).is_remembered(),
        |index| table.is_for(index, wanted.path.to_bytes(), wanted.same_flags),
    )
}

/// A free entry, one that remembers nothing if there is such. Convergent; the lock's holder.
fn find_free(group: Lanes, table: &Table) -> Option<u32> {
    let is_free = |index| table.entry(index).seen().state() == State::Free;
    first_entry(group, table, |index| is_free(index) && !table.entry(index).is_remembered(), |_| true)
        .or_else(|| first_entry(group, table, is_free, |_| true))
}

/// The first entry that is so, as the lane sees it that looks at it, and that the leader takes. Convergent.
fn first_entry(
    group: Lanes,
    table: &Table,
    is_so: impl Fn(u32) -> bool,
    takes: impl Fn(u32) -> bool,
) -> Option<u32> {
    // Ends: over the entries, one for each lane at a time.
    for first in (0..table.count).step_by(group.count() as usize) {
        let mine = first + group.rank();
        let found = group.ballot(mine < table.count && is_so(mine));
        for lane in found.iter() {
            let index = group.broadcast(mine, lane);
            if group.any(group.is_leader() && takes(index)) {
                return Some(index);
            }
        }
    }
    None
}

/// Takes the table's lock. Convergent.
fn lock(session: &SessionTables, group: Lanes) -> Result<(), Errno> {
    let table_lock = session.shared.lock();
    let ring = ring_of_warp(session);
    let ticket = if group.is_leader() && !Machine::is_host() { table_lock.draw() } else { 0 };
    // A thread of the host's may give up.
    let is_mine = || if Machine::is_host() { table_lock.try_take() } else { table_lock.is_served(ticket) };
    let mut backoff = Backoff::new(session);
    // Ends: first come first served, and a holder waits for nothing.
    while !group.any(group.is_leader() && is_mine()) {
        let drained = drain(session, group, ring);
        backoff.wait(drained, WaitReason::SharedOpen, ring, u64::from(u32::MAX))?;
    }
    Ok(())
}

fn unlock(group: Lanes, table: &Table) {
    group.sync();
    if group.is_leader() {
        table.lock().release();
    }
}

/// What a lane's `fclose` has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// Close a stream that nobody shares, or whose handle is old.
    Alone,
    /// Close the stream of this entry, which nobody has open any more.
    Last(u32),
    /// Nothing: others have it open.
    Left,
    /// Nothing: it is not open.
    NotOpen,
}

/// Leaves the lanes' streams, where they are shared. Convergent.
pub(super) fn leave(file: File, lanes: Lanes) -> Closing {
    lanes.grouped(file.key(), |group| {
        let stream = file.stream();
        let word = group.on_leader(|| {
            // ORDERING: acquire, device, partner `open_group`: were it a later stream's, the generation would be, too. It is no earlier one's,
            // since a lane that has the handle has acquired its own.
            let word = stream.shared.observe();
            if stream.generation.peek() == file.generation { word } else { 0 }
        });
        if word == 0 {
            return Closing::Alone;
        }
        #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
        let (epoch, index) = ((word >> 32) as u32, word as u32 - 1);
        let left = group.on_leader(|| file.session.shared.entry(index).leave(epoch, group.count()));
        match (left, u64::from(group.rank())) {
            (Left::Others, _) => Closing::Left,
            (Left::Last(_), 0) => Closing::Last(index),
            (Left::Last(count), rank) if rank < count => Closing::Left,
            (Left::Last(_) | Left::NotOpen, _) => Closing::NotOpen,
        }
    })
}

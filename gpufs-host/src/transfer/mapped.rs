//! Files of which rows are read again and again: a mapping out of which rows are copied, in the place of a system call for each.
//!
//! A `pread` of a row of 4 KiB from the page cache takes a core 0.7 to 1.7 µs, the copy alone less than half. A transfer of [`MANY`] rows of
//! one file, or the second of fewer within [`KEPT`], maps it, and copies what is known to be in memory (cachestat(2), Linux 6.5): a *block* all of
//! whose pages were there when a row of it was first asked for, or of other blocks a *region* whose pages were there when a row of it was read. All
//! other rows are read, and so is told what is wrong with a file.
//!
//! Where a file is cut off, a load from its mapping ends the process (SIGBUS). So a transfer that copies has a *lease* on the file (`F_SETLEASE` of
//! fcntl(2)): the system gives one only where nobody has the file open for writing, and who opens it for writing or cuts it off meanwhile waits until
//! the transfer has ended, or, where that takes very long, for `/proc/sys/fs/lease-break-time`; each piece looks whether the lease still stands. A
//! file without a lease (others write to it, it is another user's, its file system has none) is read as ever.
//!
//! A page that was known to be in memory, was driven out since, and cannot be read again from its disk ends the process as well, as with every
//! mapping of a file.
//!
//! A mapping is let go when it was not used for [`KEPT`], and within a second when its file is unlinked, so that the room is given back.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a file is remembered, and its mapping kept, after a transfer of its rows.
pub(super) const KEPT: Duration = Duration::from_secs(60);
/// How often a thread looks which mappings to let go, while there are any.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Files that are remembered at most.
const FILES_MAX: usize = 64;
/// A transfer of so many rows of a file is worth a mapping, though it be the first.
pub(super) const MANY: usize = 4096;
/// What is looked at before a row of it is read. The system takes some microseconds for it.
const BLOCK: u64 = 2 << 20;
/// What is looked at after a row was read: sixteen small pages, as many as the system maps at a time.
pub(super) const REGION: u64 = 64 << 10;
/// Longer stretches are read as fast by a system call.
pub(super) const STRETCH_MAX: usize = 64 << 10;

/// `F_SETSIG` of fcntl(2), which libc does not name.
const F_SETSIG: libc::c_int = 10;
/// `cachestat(2)`, which has this number on every machine.
const SYS_CACHESTAT: libc::c_long = 451;

/// What tells a file, and that it is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    bytes: u64,
    blocks: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(about: &Metadata) -> Self {
        Self {
            file: (about.dev(), about.ino()),
            bytes: about.size(),
            blocks: about.blocks(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        }
    }
}

/// A file's mapping.
#[derive(Debug)]
pub(super) struct Mapping {
    /// Opened for reading alone; the lease is this descriptor's.
    file: File,
    stamp: Stamp,
    begin: NonNull<libc::c_void>,
    bytes: usize,
    /// Of blocks that were looked at, whether they were in memory.
    blocks: Vec<OnceLock<bool>>,
    /// Which regions are known to be in memory.
    known: Vec<OnceLock<()>>,
    /// Transfers that use it, and when the last one ended.
    users: Mutex<(usize, Instant)>,
}

// SAFETY:
// - a mapping belongs to the process, not to a thread; nothing writes to it
unsafe impl Send for Mapping {}
// SAFETY:
// - as above; any threads read it, while a lease keeps all writers away
unsafe impl Sync for Mapping {}

/// A transfer's right to copy out of a mapping: there is a lease. Let go on drop.
#[derive(Debug)]
pub(super) struct Leased(Arc<Mapping>);

/// What is remembered of a file.
#[derive(Debug)]
enum Remembered {
    /// Rows of it were read once, then.
    Seen(Stamp, Instant),
    Mapped(Arc<Mapping>),
}

/// Files by device and number.
type Files = HashMap<(u64, u64), Remembered>;

/// The files whose rows this process has read of late.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    /// And whether a thread looks after them.
    files: Mutex<(Files, bool)>,
}

impl Mappings {
    fn files(&self) -> MutexGuard<'_, (Files, bool)> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a transfer of so many rows of a file: its mapping, if the file is as it was and a lease can be had, and it has one, or is worth one. Else
    /// the file is remembered.
    pub(super) fn lease(&'static self, file: &OwnedFd, rows: usize) -> Option<Leased> {
        let about = File::from(file.try_clone().ok()?).metadata().ok()?;
        if !about.is_file() || about.size() == 0 {
            return None;
        }
        let stamp = Stamp::of(&about);
        let (leased, gone) = {
            let mut files = self.files();
            let (known, looked_after) = &mut *files;
            if known.len() >= FILES_MAX && !known.contains_key(&stamp.file) {
                known.retain(|_, remembered| matches!(remembered, Remembered::Mapped(_)));
                if known.len() >= FILES_MAX {
                    return None;
                }
            }
            let mapping = match known.remove(&stamp.file) {
                Some(Remembered::Mapped(mapping)) => Some(mapping),
                Some(Remembered::Seen(before, at)) if before == stamp && at.elapsed() < KEPT => {
                    Mapping::of(file, stamp).map(Arc::new)
                }
                _ if rows >= MANY => Mapping::of(file, stamp).map(Arc::new),
                _ => None,
            };
            if mapping.is_some() && !*looked_after {
                let started = std::thread::Builder::new().name("gpufs-mapped".to_owned());
                *looked_after = started.spawn(|| self.look_after()).is_ok();
            }
            let leased = mapping.as_ref().filter(|_| *looked_after).and_then(Leased::on);
            // Only a lease keeps it as it is.
            let is_as_it_was = |mapping: &&Arc<Mapping>| {
                mapping.file.metadata().is_ok_and(|about| Stamp::of(&about) == mapping.stamp)
            };
            let kept = mapping.as_ref().filter(|_| *looked_after).filter(is_as_it_was);
            let seen = || Remembered::Seen(stamp, Instant::now());
            known.insert(
                stamp.file,
                kept.map_or_else(seen, |mapping| Remembered::Mapped(Arc::clone(mapping))),
            );
            // Unmapped behind the lock.
            (leased.filter(|_| kept.is_some()), mapping)
        };
        drop(gone);
        leased
    }

    /// Lets go what is not used any more, until there is nothing.
    fn look_after(&self) {
        // Ends: mappings that are not used any more are let go.
        loop {
            std::thread::sleep(LOOK_AGAIN);
            let mut gone = Vec::new();
            let mut files = self.files();
            let (known, looked_after) = &mut *files;
            known.retain(|_, remembered| match remembered {
                Remembered::Seen(_, at) => at.elapsed() < KEPT,
                Remembered::Mapped(mapping) if mapping.is_of_use() => true,
                Remembered::Mapped(mapping) => {
                    gone.push(Arc::clone(mapping));
                    false
                }
            });
            let is_over = !known.values().any(|remembered| matches!(remembered, Remembered::Mapped(_)));
            *looked_after = !is_over;
            drop(files);
            drop(gone);
            if is_over {
                return;
            }
        }
    }
}

impl Mapping {
    /// All of a file that is as `stamp` says.
    fn of(file: &OwnedFd, stamp: Stamp) -> Option<Self> {
        let name = std::ffi::CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        // SAFETY:
        // - a name that ends with a zero
        let opened =
            unsafe { libc::open(name.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK) };
        if opened < 0 {
            return None;
        }
        // SAFETY:
        // - opened above, and nobody else's
        let file = File::from(unsafe { OwnedFd::from_raw_fd(opened) });
        let bytes = usize::try_from(stamp.bytes).ok()?;
        if Stamp::of(&file.metadata().ok()?) != stamp {
            return None;
        }
        let (reading, shared) = (libc::PROT_READ, libc::MAP_SHARED);
        // SAFETY:
        // - a place of the system's choice
        let begin = unsafe { libc::mmap(std::ptr::null_mut(), bytes, reading, shared, file.as_raw_fd(), 0) };
        if begin == libc::MAP_FAILED {
            return None;
        }
        let known = (0..stamp.bytes.div_ceil(REGION)).map(|_| OnceLock::new()).collect();
        let blocks = (0..stamp.bytes.div_ceil(BLOCK)).map(|_| OnceLock::new()).collect();
        let begin = NonNull::new(begin)?;
        Some(Self { file, stamp, begin, bytes, blocks, known, users: Mutex::new((0, Instant::now())) })
    }
    fn users(&self) -> MutexGuard<'_, (usize, Instant)> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Whether it is used, or was of late and its file has a name.
    fn is_of_use(&self) -> bool {
        let users = self.users();
        users.0 > 0 || users.1.elapsed() < KEPT && self.file.metadata().is_ok_and(|about| about.nlink() > 0)
    }
    /// One number to fcntl(2), and its answer.
    fn control(&self, command: libc::c_int, argument: libc::c_int) -> libc::c_int {
        // SAFETY:
        // - numbers alone
        unsafe { libc::fcntl(self.file.as_raw_fd(), command, argument) }
    }
    /// The `unit`s, blocks or regions, in which a stretch of the file lies, if it lies in the mapping: their numbers.
    fn within(&self, unit: u64, offset: u64, bytes: usize) -> Option<Range<usize>> {
        let end = offset.checked_add(bytes as u64)?;
        if bytes == 0 || end > self.stamp.bytes {
            return None;
        }
        Some(usize::try_from(offset / unit).ok()?..usize::try_from(end.div_ceil(unit)).ok()?)
    }
    /// Whether a stretch is known to be in memory. Blocks that nobody has looked at are looked at.
    fn has(&self, offset: u64, bytes: usize) -> bool {
        let Some(mut blocks) = self.within(BLOCK, offset, bytes) else { return false };
        let is_there =
            |block: usize| *self.blocks[block].get_or_init(|| self.is_in_memory(BLOCK, block as u64));
        if blocks.all(is_there) {
            return true;
        }
        let regions = self.within(REGION, offset, bytes);
        regions.is_some_and(|mut regions| regions.all(|region| self.known[region].get().is_some()))
    }
    /// Whether all pages of a block or a region are in memory.
    fn is_in_memory(&self, unit: u64, number: u64) -> bool {
        // SAFETY:
        // - a number of the system
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.cast_unsigned();
        let begin = number * unit;
        let range = [begin, unit.min(self.stamp.bytes - begin)];
        let mut counts = [0_u64; 5];
        // SAFETY:
        // - two numbers that are read, and five that are written: `struct cachestat_range` and `struct cachestat`
        let answer = unsafe {
            libc::syscall(SYS_CACHESTAT, self.file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0_u32)
        };
        answer == 0 && page > 0 && counts[0] == range[1].div_ceil(page)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY:
        // - this object's mapping, which nothing uses any more
        unsafe { libc::munmap(self.begin.as_ptr(), self.bytes) };
    }
}

impl Leased {
    /// One more user of a mapping; the first takes the lease. None comes while somebody waits for its end.
    fn on(mapping: &Arc<Mapping>) -> Option<Self> {
        let mut users = mapping.users();
        if users.0 == 0 {
            // Who waits for the lease's end is told of by a signal, which would end the process: SIGURG does nothing, and then it is nobody's.
            mapping.control(F_SETSIG, libc::SIGURG);
            if mapping.control(libc::F_SETLEASE, libc::F_RDLCK) != 0 {
                return None;
            }
            mapping.control(libc::F_SETOWN, 0);
        } else if mapping.control(libc::F_GETLEASE, 0) != libc::F_RDLCK {
            return None;
        }
        users.0 += 1;
        drop(users);
        Some(Self(Arc::clone(mapping)))
    }
    /// Whether nobody waits to write to the file or to cut it off.
    pub(super) fn stands(&self) -> bool {
        self.0.control(libc::F_GETLEASE, 0) == libc::F_RDLCK
    }
    /// Copies a stretch of the file to `memory`, if it is known to be in memory; whether it was.
    ///
    /// # Safety
    /// The memory is the caller's, for that length, and the lease [stands](Self::stands), or did so a moment ago.
    pub(super) unsafe fn copy(&self, offset: u64, memory: *mut u8, bytes: usize) -> bool {
        if !self.0.has(offset, bytes) {
            return false;
        }
        // SAFETY:
        // - within the mapping, as `has` looked
        let source = unsafe { self.0.begin.as_ptr().cast::<u8>().add(offset as usize) };
        // SAFETY:
        // - bytes of the mapping, which nobody writes while the lease stands, and memory of the caller's
        unsafe { std::ptr::copy_nonoverlapping(source, memory, bytes) };
        true
    }
    /// Looks, after a stretch was read, which of its regions are in memory.
    pub(super) fn learn(&self, offset: u64, bytes: usize) {
        for region in self.0.within(REGION, offset, bytes).unwrap_or_default() {
            let known = &self.0.known[region];
            if known.get().is_none() && self.0.is_in_memory(REGION, region as u64) {
                let _ = known.set(());
            }
        }
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        let mut users = self.0.users();
        *users = (users.0 - 1, Instant::now());
        if users.0 == 0 {
            self.0.control(libc::F_SETLEASE, libc::F_UNLCK);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    use std::path::Path;

    use super::*;

    fn writer(path: &Path) -> std::io::Result<File> {
        File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path)
    }

    /// A lease, which may have to wait for a child of another test's that has not closed yet what it has of its parent.
    fn soon(lease: impl Fn() -> Option<Leased>) -> Leased {
        let tries = (0..200).find_map(|_| {
            lease().or_else(|| {
                std::thread::sleep(Duration::from_millis(10));
                None
            })
        });
        tries.expect("a lease on a file that nobody writes to")
    }

    /// Where the hole begins that the first block ends with.
    const HOLE: u64 = BLOCK - 2 * REGION;

    /// A file of two blocks and a shorter one. What was never written of it is not in memory.
    fn with_a_hole(path: &Path) -> Vec<u8> {
        let mut content: Vec<u8> =
            (0..2 * BLOCK + 3 * REGION + 100).map(|at| ((at * 7) >> 3) as u8).collect();
        content[HOLE as usize..BLOCK as usize].fill(0);
        let written = File::create(path).unwrap();
        written.write_all_at(&content[..HOLE as usize], 0).unwrap();
        written.write_all_at(&content[BLOCK as usize..], BLOCK).unwrap();
        content
    }

    /// The second transfer of rows of one file has its mapping, and copies what is in memory; nobody cuts the file off meanwhile.
    #[test]
    fn rows_that_were_read_are_copied_while_nobody_can_write() {
        let path = std::env::temp_dir().join(format!("gpufs-mapped-{}", std::process::id()));
        let content = with_a_hole(&path);
        let bytes = content.len() as u64;
        let mappings: &'static Mappings = Box::leak(Box::default());
        let file = File::open(&path).unwrap();
        let lease = || mappings.lease(&file.as_fd().try_clone_to_owned().unwrap(), 1);
        assert!(lease().is_none(), "a row was read for the first time");
        let leased = soon(lease);
        assert!(leased.stands());

        let mut row = vec![0; 500];
        let mut copied = |offset: u64, bytes: usize| {
            // SAFETY:
            // - memory of the test's, of that length at least; the lease stood
            let is = unsafe { leased.copy(offset, row.as_mut_ptr(), bytes) };
            is.then(|| row[..bytes].to_vec())
        };
        assert_eq!(copied(REGION + 3, 100), None, "it was not read yet");
        file.read_exact_at(&mut [0; 100], REGION + 3).unwrap();
        leased.learn(REGION + 3, 100);
        if leased.0.known[1].get().is_none() {
            eprintln!("SKIP: the system has no cachestat(2)");
        } else {
            let known = |offset: u64, bytes: usize| Some(content[offset as usize..][..bytes].to_vec());
            assert_eq!(copied(REGION + 3, 100), known(REGION + 3, 100));
            assert_eq!(copied(2 * REGION - 500, 500), known(2 * REGION - 500, 500), "of the same region");
            assert_eq!(copied(2 * REGION - 499, 500), None, "the next region was not read");
            assert_eq!(copied(HOLE - 1, 2), None, "it is not in memory");
            assert_eq!(copied(BLOCK - 1, 2), None, "nor is the end of its block");
            assert_eq!(copied(2 * BLOCK - 250, 500), known(2 * BLOCK - 250, 500), "of two blocks in memory");
            assert_eq!(copied(bytes - 50, 50), known(bytes - 50, 50), "the last block is shorter");
        }
        assert_eq!(copied(bytes - 50, 51), None, "the file ends before");
        assert_eq!(copied(u64::MAX, 2), None);

        // Another transfer at the same time has the same lease.
        drop(lease().unwrap());
        assert!(leased.stands());
        let error = writer(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "it would wait for the end of the lease");
        assert!(!leased.stands(), "somebody waits");
        assert!(lease().is_none(), "the one who waits is not to wait for more transfers");
        drop(leased);
        let mut written = writer(&path).unwrap();
        assert!(lease().is_none(), "somebody can write to it");
        written.write_all(b"other").unwrap();
        drop(written);
        assert!(lease().is_none(), "it is not as it was");
        let leased = soon(lease);
        // SAFETY:
        // - as above
        assert!(!unsafe { leased.copy(0, row.as_mut_ptr(), 5) }, "nothing is known of what it is now");
        drop(leased);
        std::fs::remove_file(&path).unwrap();
        let mapping = {
            let files = mappings.files();
            let Some(Remembered::Mapped(mapping)) = files.0.values().next() else { panic!("it is mapped") };
            Arc::clone(mapping)
        };
        assert!(!mapping.is_of_use(), "it has no name any more");
        // Ends: with a look of the thread that lets mappings go, or the test's time.
        while !mappings.files().0.is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(Arc::strong_count(&mapping), 1);
        assert!(!mappings.files().1, "the thread has ended");
    }

    #[test]
    fn what_is_no_file_or_is_written_to_has_no_mapping() {
        let mappings: &'static Mappings = Box::leak(Box::default());
        let (mut read, mut write) = std::io::pipe().unwrap();
        write.write_all(b"x").unwrap();
        let pipe = read.as_fd().try_clone_to_owned().unwrap();
        let path = std::env::temp_dir().join(format!("gpufs-unmapped-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        for _ in 0..4 {
            assert!(mappings.lease(&pipe, MANY).is_none());
            let empty = file.as_fd().try_clone_to_owned().unwrap();
            assert!(mappings.lease(&empty, MANY).is_none(), "an empty file");
        }
        assert!(mappings.files().0.is_empty());
        read.read_exact(&mut [0]).unwrap();
        (&file).write_all(&[1; 5000]).unwrap();
        let reader = File::open(&path).unwrap().into();
        for _ in 0..4 {
            assert!(mappings.lease(&reader, MANY).is_none(), "it is open for writing");
        }
        drop(file);
        let mappings: &'static Mappings = Box::leak(Box::default());
        drop(mappings.lease(&reader, MANY));
        assert!(matches!(mappings.files().0.values().next(), Some(Remembered::Mapped(_))), "at once");
        drop(soon(|| mappings.lease(&reader, MANY)));
        std::fs::remove_file(&path).unwrap();
    }
}

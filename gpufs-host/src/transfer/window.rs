//! One file in memory, written by many threads at once: a window on it, a mapping into which each thread writes its piece.
//!
//! An inode lets one write(2) in at a time, which for tmpfs is one core's copying, whoever calls. Pages that come into a shared mapping take no such
//! lock. The pieces go into the mapping by `process_vm_writev`, never by stores: where a store would end the process by SIGBUS (the file system
//! is full, or another process cut the file off), the call moves fewer bytes, and the rest is left to `pwrite`, which says why.
//!
//! What such a file has not had yet comes as huge pages (`MADV_COLLAPSE` of madvise(2), Linux 6.1), one at a time and before its first byte is
//! written: 512 small pages would each take the locks of the file's page tree and of the system's lists of pages, for which many threads wait.
//!
//! Only for regular files of tmpfs. File systems on disks do more for a page that is written to through a mapping than for one in a write(2).

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A range of fewer bytes is written as fast without a window.
const WORTH: u64 = 8 << 20;
/// All that page sizes of x86-64 and AArch64 divide.
const PAGE: u64 = 64 << 10;

/// A huge page.
pub(super) const HUGE: u64 = 2 << 20;
/// What a huge page may take. One that takes longer had to be made of memory that is in pieces, as the next ones would, or its thread had to wait for
/// a core. (Memory that a virtual machine's host has not given it yet takes 4 ms, as small pages as well.)
const HUGE_TAKES: Duration = Duration::from_millis(8);
/// How many may take longer before no more are made.
const SLOW_MAX: u32 = 16;
/// Advice that libc does not name: `MADV_COLLAPSE`.
const MADV_COLLAPSE: libc::c_int = 25;

/// A mapping of a range of a file. It is undone on drop.
#[derive(Debug)]
pub(super) struct Window {
    /// The addresses that are this object's, of which the mapping has a part.
    reserved: (NonNull<libc::c_void>, usize),
    mapped: NonNull<libc::c_void>,
    length: usize,
    /// The first byte in the file, a multiple of [`PAGE`].
    begin: u64,
    /// Where the file may have huge pages that it has not had before, in order: each is made, if it can be, by the first thread that comes to it.
    huge: Vec<OnceLock<bool>>,
    /// Where the first of them begins in the file.
    huge_from: u64,
    /// How many took long; [`SLOW_MAX`] or more where none can be made at all.
    slow: Mutex<u32>,
}

// SAFETY:
// - a mapping belongs to the process, not to a thread
// - nothing reads or writes it by its address: `write` has the system do it
unsafe impl Send for Window {}
// SAFETY:
// - as above; `write` takes ranges of any threads, and the system writes them
unsafe impl Sync for Window {}

impl Window {
    /// A window on the bytes from `begin` to `end` of a file, which is then that long at least; `None` where it is of no use or cannot be had.
    pub(super) fn on(file: &OwnedFd, begin: u64, end: u64) -> Option<Self> {
        let first = begin / PAGE * PAGE;
        let length = usize::try_from(end.checked_sub(first)?).ok()?;
        if end - begin < WORTH || i64::try_from(end).is_err() || !is_in_memory(file) {
            return None;
        }
        // Looked at first: to open a device again does something to it.
        let size =
            File::from(file.try_clone().ok()?).metadata().ok().filter(std::fs::Metadata::is_file)?.len();
        let huge_from = begin.max(size).next_multiple_of(HUGE);
        let huge = (0..(end / HUGE).saturating_sub(huge_from / HUGE)).map(|_| OnceLock::new()).collect();
        let both = for_both(file)?;
        if size < end {
            // A byte at the end makes the file longer, and never shorter, whoever else writes.
            both.write_all_at(&[0], end - 1).ok()?;
        }
        // Addresses with as much room as lets a huge page of the file be one of the mapping.
        let room = length.checked_add(HUGE as usize)?;
        let (nothing, anywhere) =
            (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY:
        // - a place of the system's choice, in which nothing is
        let reserved = unsafe { libc::mmap(std::ptr::null_mut(), room, nothing, anywhere, -1, 0) };
        if reserved == libc::MAP_FAILED {
            return None;
        }
        let reserved = NonNull::new(reserved)?;
        let skip = first.wrapping_sub(reserved.addr().get() as u64) % HUGE;
        let (reading_and_writing, here) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
        let place = reserved.as_ptr().wrapping_byte_add(skip as usize);
        // SAFETY:
        // - within the addresses that were just reserved, as `skip` is less than a huge page
        let mapped =
            unsafe { libc::mmap(place, length, reading_and_writing, here, both.as_raw_fd(), first as i64) };
        let window = Self {
            reserved: (reserved, room),
            mapped: NonNull::new(mapped)?,
            length,
            begin: first,
            huge,
            huge_from,
            slow: Mutex::new(0),
        };
        if mapped == libc::MAP_FAILED { None } else { Some(window) }
    }

    /// Writes `bytes` bytes from `memory` to the place `offset` of the file: how many were written, fewer where the system could not.
    ///
    /// # Safety
    /// The memory is the caller's, for that length, and holds bytes.
    pub(super) unsafe fn write(&self, offset: u64, memory: *mut u8, bytes: usize) -> usize {
        let Some(from) = offset.checked_sub(self.begin).and_then(|from| usize::try_from(from).ok()) else {
            return 0;
        };
        if from.checked_add(bytes).is_none_or(|end| end > self.length) {
            return 0;
        }
        let process = std::process::id().cast_signed();
        let is_huge = self.make_huge(offset, bytes);
        let mut done = 0;
        // Ends: each round moves a byte at least, or ends the loop.
        while done < bytes {
            let rest = bytes - done;
            let source = libc::iovec { iov_base: memory.wrapping_add(done).cast(), iov_len: rest };
            let place =
                libc::iovec { iov_base: self.mapped.as_ptr().wrapping_byte_add(from + done), iov_len: rest };
            // SAFETY:
            // - the source is the caller's, by this function's contract
            // - the place is in the mapping, which is this object's, and of which no reference exists
            let moved =
                unsafe { libc::process_vm_writev(process, &raw const source, 1, &raw const place, 1, 0) };
            match usize::try_from(moved) {
                Ok(moved) if moved > 0 => done += moved,
                _ => break,
            }
        }
        // Huge pages take next to nothing to be unmapped, and others write to them.
        if !is_huge {
            self.forget(from, done);
        }
        done
    }

    /// Makes huge pages of what the file has not had before, where a range lies; whether all of the range lies in such. Other threads that come to
    /// one wait until it is made.
    fn make_huge(&self, offset: u64, bytes: usize) -> bool {
        let Some(last) = (offset + bytes as u64).checked_sub(self.huge_from + 1) else { return false };
        let first = offset.saturating_sub(self.huge_from) / HUGE;
        // A range that begins before them makes its own as well: small pages that are written to cannot become a huge one meanwhile.
        let are_made = (first..=last / HUGE).all(|page| {
            let Some(made) = self.huge.get(page as usize) else { return false };
            *made.get_or_init(|| {
                if *self.slow() >= SLOW_MAX {
                    return false;
                }
                let started = Instant::now();
                let is_made = self.is_made_huge(self.huge_from + page * HUGE);
                if !is_made {
                    *self.slow() += SLOW_MAX;
                } else if started.elapsed() > HUGE_TAKES {
                    *self.slow() += 1;
                }
                is_made
            })
        });
        are_made && offset >= self.huge_from
    }
    fn slow(&self) -> MutexGuard<'_, u32> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Makes one, from this byte of the file on; whether it could. Nothing that is in the file changes.
    fn is_made_huge(&self, at: u64) -> bool {
        let place = self.mapped.as_ptr().wrapping_byte_add((at - self.begin) as usize);
        // Where a huge page has nothing at all yet, none is made.
        let steps = [(1, libc::MADV_POPULATE_WRITE), (HUGE, MADV_COLLAPSE)];
        // SAFETY:
        // - within the mapping, which is this object's; the file keeps what it has, and nobody has references to it
        steps.into_iter().all(|(bytes, advice)| unsafe { libc::madvise(place, bytes as usize, advice) } == 0)
    }
    /// How many huge pages were made.
    #[cfg(test)]
    pub(super) fn huge_pages(&self) -> usize {
        self.huge.iter().filter(|page| page.get() == Some(&true)).count()
    }

    /// Lets go of the table entries of a range that was written, in the thread that wrote it. The pages stay in the file.
    fn forget(&self, from: usize, bytes: usize) {
        let first = from / PAGE as usize * PAGE as usize;
        // SAFETY:
        // - a range of this object's mapping, which begins with a page; the file keeps what is in a shared mapping
        // - a range that another thread is writing to comes back, as the file's
        unsafe {
            libc::madvise(
                self.mapped.as_ptr().wrapping_byte_add(first),
                from + bytes - first,
                libc::MADV_DONTNEED,
            )
        };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let (reserved, room) = self.reserved;
        // SAFETY:
        // - this object's addresses, with its mapping, which nothing uses any more
        unsafe { libc::munmap(reserved.as_ptr(), room) };
    }
}

/// Whether a file lies in a tmpfs.
fn is_in_memory(file: &OwnedFd) -> bool {
    let mut about = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY:
    // - room for the answer
    if unsafe { libc::fstatfs(file.as_raw_fd(), about.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY:
    // - zeroes are a value of it, and the call has filled it
    let about = unsafe { about.assume_init() };
    about.f_type == libc::TMPFS_MAGIC
}

/// The file, open for reading as well, as mappings take it; `None` where it is not to be written to, or only appended to.
fn for_both(file: &OwnedFd) -> Option<File> {
    // SAFETY:
    // - numbers alone
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 || flags & libc::O_APPEND != 0 {
        return None;
    }
    match flags & libc::O_ACCMODE {
        libc::O_RDWR => file.try_clone().ok().map(File::from),
        libc::O_WRONLY => {
            let name = std::ffi::CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
            // SAFETY:
            // - a name that ends with a zero
            let opened = unsafe { libc::open(name.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
            // SAFETY:
            // - opened above, and nobody else's
            (opened >= 0).then(|| unsafe { File::from_raw_fd(opened) })
        }
        _ => None,
    }
}

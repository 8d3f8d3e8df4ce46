//! One file in memory, written by many threads at once: a window on it, a mapping into which each thread writes its piece.
//!
//! An inode lets one write(2) in at a time, which for tmpfs is one core's copying, whoever calls. Pages that come into a shared mapping take no such
//! lock. The pieces go into the mapping by `process_vm_writev`, never by stores: where a store would end the process by SIGBUS (the file system
//! is full, or another process cut the file off), the call moves fewer bytes, and the rest is left to `pwrite`, which says why.
//!
//! Only for regular files of tmpfs. File systems on disks do more for a page that is written to through a mapping than for one in a write(2).

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

/// A range of fewer bytes is written as fast without a window.
const WORTH: u64 = 8 << 20;
/// All that page sizes of x86-64 and AArch64 divide.
const PAGE: u64 = 64 << 10;

/// A mapping of a range of a file. It is undone on drop.
#[derive(Debug)]
pub(super) struct Window {
    mapped: NonNull<libc::c_void>,
    length: usize,
    /// The first byte in the file, a multiple of [`PAGE`].
    begin: u64,
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
        let both = for_both(file)?;
        if size < end {
            // A byte at the end makes the file longer, and never shorter, whoever else writes.
            both.write_all_at(&[0], end - 1).ok()?;
        }
        // SAFETY:
        // - a place of the system's choice, in which nothing is
        let mapped = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                both.as_raw_fd(),
                first as i64,
            )
        };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        Some(Self { mapped: NonNull::new(mapped)?, length, begin: first })
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
        self.forget(from, done);
        done
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
        // SAFETY:
        // - this object's mapping, which nothing uses any more
        unsafe { libc::munmap(self.mapped.as_ptr(), self.length) };
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

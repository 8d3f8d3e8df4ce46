//! Opening a directory, and reading it from a position that the device keeps ([R-SERVE-9]). Nothing of one is kept here.

use std::cell::RefCell;

use gpufs_core::Errno;
use gpufs_core::abi::{
    LISTING_BYTES_MAX, LISTING_BYTES_MIN, LISTING_HEAD_BYTES, READDIR_END, Sqe, listing_entries_bytes,
    listing_place,
};

use super::super::sys::{self, signed};
use super::super::tasks::close_unseen;

/// Bytes of an entry as the system gives it, without its name (`struct linux_dirent64`).
const HEAD_BYTES: usize = 19;
/// The most that the system is asked for at a time.
const BLOCK_BYTES: usize = 32 << 10;

thread_local! {
    /// What the system fills. The listing itself may be memory that a lane writes.
    static BLOCK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The next entries of a directory, as [`Sqe::readdir`].
///
/// The system's position is the open file description's. The device locks the file meanwhile, so no other reader of this session moves it.
///
/// # Safety
/// At `sqe.addr` there are `sqe.len` bytes, which nothing else uses until the CQE.
pub(super) unsafe fn read(sqe: &Sqe) -> Result<i32, Errno> {
    // SAFETY:
    // - the call takes numbers
    unsafe { sys::call(libc::SYS_lseek, [signed(sqe.fd), sqe.off, 0, 0, 0, 0]) }?;
    // SAFETY:
    // - by this function's contract
    unsafe { list(sqe.fd, sqe.addr, sqe.len) }.map(u32::cast_signed)
}

/// Opens a directory, as [`Sqe::opendir`].
///
/// # Safety
/// At `sqe.addr` lies a string that ends with a NUL, and at `sqe.off` there are `sqe.len` bytes, which nothing else uses until the CQE.
pub(super) unsafe fn open(sqe: &Sqe) -> Result<i32, Errno> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY:
    // - the string is the producer's, by this function's contract
    let number = unsafe { sys::call(libc::SYS_openat, [signed(sqe.fd), sqe.addr, signed(flags), 0, 0, 0]) }?;
    // SAFETY:
    // - by this function's contract
    if let Err(errno) = unsafe { list_first(number, sqe.off, sqe.len) } {
        close_unseen(number);
        return Err(errno);
    }
    Ok(number)
}

/// The first entries of a directory that has just been opened, as [`Sqe::opendir`] leaves them.
///
/// # Errors
/// `EINVAL` where the memory is none for a listing. That the directory cannot be read is for the next call to find.
///
/// # Safety
/// At `into` there are `bytes` bytes, which nothing else uses meanwhile.
pub(in crate::ring) unsafe fn list_first(number: i32, into: u64, bytes: u32) -> Result<(), Errno> {
    if bytes == 0 {
        return Ok(());
    }
    check(into, bytes)?;
    // SAFETY:
    // - by this function's contract
    if unsafe { list(number, into, bytes) }.is_err() {
        // SAFETY:
        // - a listing begins with its count, within the memory by `check`
        unsafe { (into as *mut u32).write(0) };
    }
    Ok(())
}

/// Whether a listing may lie there.
fn check(into: u64, bytes: u32) -> Result<(), Errno> {
    let fits = (LISTING_BYTES_MIN..=LISTING_BYTES_MAX).contains(&bytes);
    if fits && bytes.is_multiple_of(8) && into.is_multiple_of(8) { Ok(()) } else { Err(Errno::INVAL) }
}

/// Puts what comes next in a directory into a listing: its count, with [`READDIR_END`] where it is all.
///
/// # Safety
/// At `into` there are `bytes` bytes, which nothing else uses meanwhile.
unsafe fn list(fd: i32, into: u64, bytes: u32) -> Result<u32, Errno> {
    check(into, bytes)?;
    BLOCK.with_borrow_mut(|block| {
        block.resize(BLOCK_BYTES / 8, 0);
        let room = (listing_entries_bytes(bytes) as usize).min(BLOCK_BYTES);
        let (filled, ended) = fill(fd, &mut block[..room / 8])?;
        // SAFETY:
        // - bytes of `block`, which is borrowed for as long, and numbers are bytes
        let entries = unsafe { std::slice::from_raw_parts_mut(block.as_mut_ptr().cast::<u8>(), filled) };
        // SAFETY:
        // - by this function's contract: the producer's memory, which is no memory of this thread's; `put` keeps within `bytes`
        let count = unsafe { put(entries, into, bytes) }?;
        let told = count | if ended { READDIR_END } else { 0 };
        // SAFETY:
        // - the listing's first bytes, as above; aligned by `check`
        unsafe { (into as *mut u32).write(told) };
        Ok(told)
    })
}

/// Fills a block with entries, as long as they fit: bytes of them, and whether there are no more.
fn fill(fd: i32, block: &mut [u64]) -> Result<(usize, bool), Errno> {
    let mut filled = 0;
    // Ends: each round brings an entry, or is the last.
    loop {
        // Entries have multiples of 8 bytes.
        let rest = &mut block[filled / 8..];
        let (address, room) = (rest.as_mut_ptr().expose_provenance() as u64, size_of_val(rest) as u64);
        // SAFETY:
        // - the kernel writes at most `room` bytes, which `rest` has
        match unsafe { sys::call(libc::SYS_getdents64, [signed(fd), address, room, 0, 0, 0]) } {
            Ok(0) => return Ok((filled, true)),
            Ok(bytes) => filled += usize::try_from(bytes).unwrap_or(0),
            // The next entry does not fit, or what has been read is told first: the next call meets the error again.
            Err(_) if filled > 0 => return Ok((filled, false)),
            Err(errno) => return Err(errno),
        }
    }
}

/// Puts whole entries into a listing, and where each begins: how many. What follows a name is cleared.
///
/// # Safety
/// At `into` there are `bytes` bytes, enough for these entries and their places, which nothing else uses and `entries` do not lie in.
unsafe fn put(entries: &mut [u8], into: u64, bytes: u32) -> Result<u32, Errno> {
    let (mut at, mut count) = (0, 0);
    let place = |count: u32, at: usize| {
        let unit = u16::try_from((LISTING_HEAD_BYTES as usize + at) / 8).map_err(|_| Errno::OVERFLOW)?;
        // SAFETY:
        // - one of the places, which lie within the memory, by this function's contract; even, as `bytes` and `into` are
        unsafe { ((into + u64::from(listing_place(bytes, count))) as *mut u16).write(unit) };
        Ok::<_, Errno>(())
    };
    // Ends: `at` grows.
    while at < entries.len() {
        place(count, at)?;
        let record = entries.get(at + 16..at + 18).ok_or(Errno::IO)?;
        let record = usize::from(u16::from_ne_bytes([record[0], record[1]]));
        let name = entries.get_mut(at..at + record).and_then(|entry| entry.get_mut(HEAD_BYTES..));
        let name = name.ok_or(Errno::IO)?;
        let length = name.iter().position(|byte| *byte == 0).ok_or(Errno::IO)?;
        name[length..].fill(0);
        at += record;
        count += 1;
    }
    place(count, at)?;
    let to = (into + u64::from(LISTING_HEAD_BYTES)) as *mut u8;
    // SAFETY:
    // - by this function's contract
    unsafe { std::ptr::copy_nonoverlapping(entries.as_ptr(), to, entries.len()) };
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::ffi::CString;
    use std::fs::File;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
    use std::path::PathBuf;

    /// A folder with so many files, which goes with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: usize) -> Self {
            let path = std::env::temp_dir().join(format!("gpufs-directory-{}-{name}", std::process::id()));
            std::fs::create_dir(&path).expect("a folder");
            for number in 0..files {
                let tail = "x".repeat(number % 230);
                std::fs::write(path.join(format!("{name}{number:03}{tail}")), "").expect("a file");
            }
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Names in a listing, the position after the last, whether the end came.
    fn told(block: &[u64], told: u32, before: u64) -> (Vec<String>, u64, bool) {
        let bytes: Vec<u8> = block.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let length = u32::try_from(bytes.len()).expect("a short block");
        let place = |index| {
            let at = listing_place(length, index) as usize;
            usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]])) * 8
        };
        let (mut names, mut after) = (Vec::new(), before);
        for index in 0..told & !READDIR_END {
            let entry = &bytes[place(index)..place(index + 1)];
            assert_eq!(usize::from(u16::from_ne_bytes([entry[16], entry[17]])), entry.len());
            let name = entry[HEAD_BYTES..].split(|byte| *byte == 0).next().expect("a name");
            assert!(entry[HEAD_BYTES + name.len()..].iter().all(|byte| *byte == 0), "{entry:?}");
            names.push(String::from_utf8(name.to_vec()).expect("a name"));
            after = u64::from_ne_bytes(entry[8..16].try_into().expect("a number"));
        }
        (names, after, told & READDIR_END != 0)
    }

    /// All names, with listings of so many bytes.
    fn all(fd: RawFd, bytes: usize) -> Vec<String> {
        let (mut names, mut position, mut block) =
            (Vec::new(), 0, vec![0x5a5a_5a5a_5a5a_5a5a_u64; bytes / 8]);
        // Ends: at the end of the folder.
        loop {
            let address = block.as_mut_ptr().expose_provenance() as u64;
            let sqe = Sqe::readdir(fd, position, address, u32::try_from(bytes).expect("few bytes"));
            // SAFETY:
            // - the block is for as many bytes
            let result = unsafe { read(&sqe) }.expect("entries").cast_unsigned();
            let (some, after, ended) = told(&block, result, position);
            assert!(ended || !some.is_empty());
            names.extend(some);
            position = after;
            if ended {
                return names;
            }
        }
    }

    #[test]
    fn every_entry_comes_once_whatever_the_room() {
        let folder = Folder::new("once", 250);
        let file = File::open(&folder.0).expect("the folder");
        let whole = all(file.as_raw_fd(), LISTING_BYTES_MAX as usize);
        assert_eq!(whole.len(), 252);
        assert_eq!(whole.iter().collect::<BTreeSet<_>>().len(), 252);
        for bytes in [512, 520, 1024, 4096, 32 << 10] {
            assert_eq!(all(file.as_raw_fd(), bytes), whole, "{bytes} bytes at a time");
        }
    }

    #[test]
    fn opening_gives_the_first_entries() {
        let folder = Folder::new("open", 20);
        let path = CString::new(folder.0.as_os_str().as_encoded_bytes()).expect("a path");
        let mut block = vec![0_u64; 512];
        let address = block.as_mut_ptr().expose_provenance() as u64;
        let path = path.as_ptr().expose_provenance() as u64;
        // SAFETY:
        // - a string that ends, and the block's bytes
        let number = unsafe { open(&Sqe::opendir(libc::AT_FDCWD, path, address, 4096)) }.expect("it opens");
        // SAFETY:
        // - opened above, and nothing else closes it
        let file = unsafe { OwnedFd::from_raw_fd(number) };
        #[expect(clippy::cast_possible_truncation, reason = "a listing's first four bytes")]
        let (names, _, ended) = told(&block, block[0].to_le() as u32, 0);
        assert_eq!((names, ended), (all(file.as_raw_fd(), 4096), true));
        for (into, bytes, wanted) in
            [(address, 0, true), (address, 504, false), (address + 4, 512, false), (address, 516, false)]
        {
            // SAFETY:
            // - as above: within the block
            let opened = unsafe { open(&Sqe::opendir(libc::AT_FDCWD, path, into, bytes)) };
            assert_eq!(opened.is_ok(), wanted, "{bytes} bytes");
            // SAFETY:
            // - as above
            drop(opened.map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
        }
    }

    #[test]
    fn what_is_no_directory_is_refused() {
        let file = File::open("/proc/self/exe").expect("a file");
        let mut block = vec![0_u64; 64];
        let address = block.as_mut_ptr().expose_provenance() as u64;
        // SAFETY:
        // - the block is for as many bytes
        assert_eq!(unsafe { read(&Sqe::readdir(file.as_raw_fd(), 0, address, 512)) }, Err(Errno::NOTDIR));
    }
}

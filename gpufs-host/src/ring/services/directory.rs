//! Reading a directory, from a position that the device keeps.
//!
//! The system gives many entries at a time, and a call of the device takes few. What it has not taken is kept for its next call, as the C library's
//! `readdir` keeps it: by the descriptor, with the position that it begins at. A call from another position does not see it, and one from the
//! start throws it away; so a descriptor that is closed and used again finds nothing of before.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::Mutex;

use gpufs_core::Errno;
use gpufs_core::abi::{Dirent, READDIR_END, Sqe};

use super::super::sys::{self, signed};
use super::super::workers::lock;

/// Bytes of an entry as the system gives it, without its name (`struct linux_dirent64`).
const HEAD_BYTES: usize = 19;
/// The most that the system is asked for at a time.
const BLOCK_BYTES: usize = 32 << 10;
/// Parts of the table, so that threads seldom wait for each other.
const PARTS: usize = 16;
/// The most bytes of entries that a part keeps: those of some three hundred directories of a hundred files. With less a
/// grid whose warps each read a directory has the system list most of them again for every call.
const KEPT_BYTES_MAX: usize = 1 << 20;

thread_local! {
    /// What the system fills.
    static BLOCK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Entries that the system gave and no call has taken yet.
#[derive(Debug)]
struct Kept {
    /// The position after the last that was taken.
    position: u64,
    /// As the system gives them.
    bytes: Vec<u8>,
    /// Where the first begins.
    at: usize,
}

/// A part of the table.
#[derive(Debug, Default)]
struct Part {
    kept: HashMap<RawFd, Kept>,
    /// Of all that is kept.
    bytes: usize,
}

impl Part {
    fn remove(&mut self, fd: RawFd) -> Option<Kept> {
        let kept = self.kept.remove(&fd)?;
        self.bytes -= kept.bytes.len();
        Some(kept)
    }
    /// Keeps it in the place of what was kept of the same descriptor, and of others, where there is too much: directories that were closed before
    /// their end, perhaps. Those are read again.
    fn insert(&mut self, fd: RawFd, kept: Kept) {
        self.remove(fd);
        self.bytes += kept.bytes.len();
        // Ends: each round removes one.
        while self.bytes > KEPT_BYTES_MAX
            && let Some(other) = self.kept.keys().next().copied()
        {
            self.remove(other);
        }
        self.kept.insert(fd, kept);
    }
}

/// What is kept of the directories of a session.
#[derive(Debug, Default)]
pub(super) struct Directories {
    parts: [Mutex<Part>; PARTS],
}

/// Where entries go.
struct Room {
    address: *mut Dirent,
    count: u32,
    done: u32,
    /// The position after the last entry.
    position: u64,
}

impl Directories {
    fn part(&self, fd: RawFd) -> &Mutex<Part> {
        &self.parts[usize::try_from(fd).unwrap_or(0) % PARTS]
    }
    /// What is kept from this position on. It is kept no more.
    fn take(&self, fd: RawFd, position: u64) -> Option<Kept> {
        lock(self.part(fd)).remove(fd).filter(|kept| kept.position == position && position != 0)
    }
    fn keep(&self, fd: RawFd, kept: Kept) {
        lock(self.part(fd)).insert(fd, kept);
    }

    /// The next entries, as many as are asked for or as there are, and whether the end came after them ([`READDIR_END`]).
    ///
    /// The system's position is the open file description's. The device locks the file meanwhile, so no other reader of this session moves it.
    ///
    /// # Safety
    /// At `sqe.addr` there is room for `sqe.len` entries, which nothing else uses until the CQE.
    pub(super) unsafe fn read(&self, sqe: &Sqe) -> Result<i32, Errno> {
        let mut room = Room { address: sqe.addr as *mut Dirent, count: sqe.len, done: 0, position: sqe.off };
        if let Some(mut kept) = self.take(sqe.fd, room.position) {
            // SAFETY:
            // - by this function's contract
            kept.at += unsafe { room.fill(&kept.bytes[kept.at..]) };
            if kept.at < kept.bytes.len() {
                kept.position = room.position;
                self.keep(sqe.fd, kept);
            }
        }
        BLOCK.with_borrow_mut(|block| {
            block.resize(BLOCK_BYTES / 8, 0);
            // Ends: each round reads an entry at least, or is the last.
            while room.done < room.count {
                match next_block(sqe.fd, room.position, block) {
                    Ok([]) => return Ok((room.done | READDIR_END).cast_signed()),
                    Ok(all) => {
                        let before = room.done;
                        // SAFETY:
                        // - by this function's contract
                        let taken = unsafe { room.fill(all) };
                        if room.done == before {
                            return Err(Errno::IO);
                        }
                        if taken < all.len() {
                            let kept = Kept { position: room.position, bytes: all[taken..].to_vec(), at: 0 };
                            self.keep(sqe.fd, kept);
                        }
                    }
                    // What has been read is told first; the next call meets the error again.
                    Err(_) if room.done > 0 => break,
                    Err(errno) => return Err(errno),
                }
            }
            Ok(room.done.cast_signed())
        })
    }
}

impl Room {
    /// Puts entries in, as long as there is room: how many bytes of them it took.
    ///
    /// # Safety
    /// There is room for `count` entries, which nothing else uses.
    unsafe fn fill(&mut self, mut rest: &[u8]) -> usize {
        let before = rest.len();
        while self.done < self.count
            && let Some((entry, after)) = first(rest)
        {
            // SAFETY:
            // - within the room for `count` entries, by this function's contract
            unsafe { self.address.wrapping_add(self.done as usize).write_unaligned(entry) };
            self.position = entry.d_off.cast_unsigned();
            self.done += 1;
            rest = after;
        }
        before - rest.len()
    }
}

/// What the system says of the entries from a position on.
fn next_block(fd: i32, position: u64, block: &mut [u64]) -> Result<&[u8], Errno> {
    // SAFETY:
    // - the call takes numbers
    unsafe { sys::call(libc::SYS_lseek, [signed(fd), position, 0, 0, 0, 0]) }?;
    let (address, room) = (block.as_mut_ptr().expose_provenance() as u64, size_of_val(block) as u64);
    // SAFETY:
    // - the kernel writes at most `room` bytes, which `block` has
    let bytes = unsafe { sys::call(libc::SYS_getdents64, [signed(fd), address, room, 0, 0, 0]) }?;
    // SAFETY:
    // - bytes of `block`, which is borrowed for the result
    let all = unsafe { std::slice::from_raw_parts(block.as_ptr().cast::<u8>(), size_of_val(block)) };
    Ok(&all[..usize::try_from(bytes).unwrap_or(0)])
}

/// The first entry of a block, and what comes after it.
fn first(block: &[u8]) -> Option<(Dirent, &[u8])> {
    let head = block.get(..HEAD_BYTES)?;
    let number = |at: usize| u64::from_ne_bytes(head[at..at + 8].try_into().unwrap_or_default());
    let record = usize::from(u16::from_ne_bytes([head[16], head[17]]));
    let name = block.get(HEAD_BYTES..record)?;
    let length = name.iter().position(|byte| *byte == 0)?;
    let mut entry = Dirent {
        d_ino: number(0),
        d_off: number(8).cast_signed(),
        d_reclen: 280,
        d_type: head[18],
        ..Dirent::default()
    };
    entry.d_name.get_mut(..length)?.copy_from_slice(&name[..length]);
    Some((entry, &block[record..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::path::PathBuf;

    /// A folder with so many files, which goes with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: usize) -> Self {
            let path = std::env::temp_dir().join(format!("gpufs-directory-{}-{name}", std::process::id()));
            std::fs::create_dir(&path).expect("a folder");
            for number in 0..files {
                std::fs::write(path.join(format!("{name}{number:03}")), "").expect("a file");
            }
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// One request: names, the position after them, whether the end came.
    fn read(directories: &Directories, fd: RawFd, position: u64, count: u32) -> (Vec<String>, u64, bool) {
        let mut room = vec![Dirent::default(); count as usize];
        let sqe = Sqe::readdir(fd, position, room.as_mut_ptr().expose_provenance() as u64, count);
        // SAFETY:
        // - the room is for as many
        let told = unsafe { directories.read(&sqe) }.expect("entries").cast_unsigned();
        room.truncate((told & !READDIR_END) as usize);
        let name = |entry: &Dirent| {
            let length = entry.d_name.iter().position(|byte| *byte == 0).expect("an end");
            String::from_utf8(entry.d_name[..length].to_vec()).expect("a name")
        };
        let after = room.last().map_or(position, |entry| entry.d_off.cast_unsigned());
        (room.iter().map(name).collect(), after, told & READDIR_END != 0)
    }

    /// All names, in requests of so many.
    fn all(directories: &Directories, fd: RawFd, count: u32) -> Vec<String> {
        let (mut names, mut position) = (Vec::new(), 0);
        // Ends: at the end of the folder.
        loop {
            let (some, after, ended) = read(directories, fd, position, count);
            assert!(ended || some.len() == count as usize, "{} of {count}", some.len());
            names.extend(some);
            position = after;
            if ended {
                return names;
            }
        }
    }

    #[test]
    fn every_entry_comes_once_whatever_is_kept() {
        let folder = Folder::new("once", 200);
        let file = File::open(&folder.0).expect("the folder");
        let directories = Directories::default();
        let whole = all(&directories, file.as_raw_fd(), 1000);
        assert_eq!(whole.len(), 202);
        assert_eq!(whole.iter().collect::<BTreeSet<_>>().len(), 202);
        for count in [1, 7, 32, 202, 203] {
            assert_eq!(all(&directories, file.as_raw_fd(), count), whole, "{count} at a time");
        }
    }

    #[test]
    fn what_is_kept_is_of_one_opening_and_one_position() {
        let (one, other) = (Folder::new("one", 50), Folder::new("other", 50));
        let directories = Directories::default();
        let file = File::open(&one.0).expect("a folder");
        let fd = file.as_raw_fd();
        let (first, after, _) = read(&directories, fd, 0, 10);
        let (second, ..) = read(&directories, fd, after, 10);
        // The same position again, of which nothing is kept any more.
        assert_eq!(read(&directories, fd, after, 10).0, second);
        assert_eq!(read(&directories, fd, 0, 10).0, first);
        // Another folder takes the number while something of the first is kept.
        let next = File::open(&other.0).expect("a folder");
        // SAFETY:
        // - both are open, and ours
        assert_eq!(unsafe { libc::dup2(next.as_raw_fd(), fd) }, fd);
        let names = all(&directories, fd, 10);
        assert_eq!(names.len(), 52);
        assert!(names.iter().all(|name| name.starts_with('.') || name.starts_with("other")), "{names:?}");
    }

    #[test]
    fn so_many_directories_are_kept_that_no_grid_reads_one_twice() {
        let folder = Folder::new("many", 5);
        let directories = Directories::default();
        let files: Vec<File> = (0..400).map(|_| File::open(&folder.0).expect("the folder")).collect();
        let begun: Vec<_> = files.iter().map(|file| read(&directories, file.as_raw_fd(), 0, 2)).collect();
        let kept = |part: &Mutex<Part>| lock(part).kept.len();
        assert_eq!(directories.parts.iter().map(kept).sum::<usize>(), files.len());
        for (file, (names, after, _)) in files.iter().zip(begun) {
            let (rest, _, ended) = read(&directories, file.as_raw_fd(), after, 100);
            assert!(ended && names.len() + rest.len() == 7, "{names:?} {rest:?}");
        }
        assert_eq!(directories.parts.iter().map(kept).sum::<usize>(), 0);
        assert!(directories.parts.iter().all(|part| lock(part).bytes == 0));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut part = Part::default();
        // Ends: a count.
        for fd in 0..1000 {
            part.insert(fd % 700, Kept { position: 1, bytes: vec![0; 4000], at: 0 });
            assert!(part.bytes <= KEPT_BYTES_MAX && part.kept.contains_key(&(fd % 700)));
            assert_eq!(part.bytes, part.kept.len() * 4000);
        }
        assert_eq!(part.kept.len(), KEPT_BYTES_MAX / 4000);
    }
}

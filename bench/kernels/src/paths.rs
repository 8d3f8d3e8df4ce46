//! What is measured: calls on paths. The tree has [`FILES_OF_A_DIRECTORY`] files in each directory, `000012/34` and so on behind a prefix.

use core::ffi::CStr;

use gpufs_device::file::Descriptor;
use gpufs_device::kernel::Shared;
use gpufs_device::service::{Directory, Dirent};
use gpufs_device::warp::{Machine, Warp, global_thread, grid_threads};
use gpufs_device::{Errno, calling, kernel};

use crate::{Times, timed, warp_index};

/// Bytes of a path, its NUL included, at most.
pub const NAME_BYTES: usize = 96;
/// Files in each directory.
pub const FILES_OF_A_DIRECTORY: u64 = 100;
/// Digits of a directory's name.
const DIGITS: usize = 6;
/// Bytes of a file's name behind the prefix, with the NUL.
pub const TAIL_BYTES: usize = DIGITS + 4;

/// A path, of which only the digits change.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    bytes: [u8; NAME_BYTES],
    prefix: usize,
}

impl Name {
    /// Paths that begin with the first `length` of these bytes; at most [`NAME_BYTES`] less [`TAIL_BYTES`].
    #[must_use]
    pub const fn new(bytes: [u8; NAME_BYTES], length: u32) -> Self {
        Self { bytes, prefix: length as usize }
    }
    fn digits(&mut self, from: usize, count: usize, mut number: u64) {
        for place in (from..from + count).rev() {
            self.bytes[place] = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }
    fn end(&self) -> Result<&CStr, Errno> {
        CStr::from_bytes_until_nul(&self.bytes).map_err(|_| Errno::INVAL)
    }
    /// The path of a directory.
    ///
    /// # Errors
    /// `EINVAL` where the prefix is too long.
    pub fn directory(&mut self, index: u64) -> Result<&CStr, Errno> {
        self.digits(self.prefix, DIGITS, index);
        self.bytes[self.prefix + DIGITS] = 0;
        self.end()
    }
    /// The path of a file.
    ///
    /// # Errors
    /// As [`Name::directory`].
    pub fn file(&mut self, index: u64) -> Result<&CStr, Errno> {
        self.digits(self.prefix, DIGITS, index / FILES_OF_A_DIRECTORY);
        self.bytes[self.prefix + DIGITS] = b'/';
        self.digits(self.prefix + DIGITS + 1, 2, index % FILES_OF_A_DIRECTORY);
        self.bytes[self.prefix + TAIL_BYTES - 1] = 0;
        self.end()
    }
}

/// Calls `body` with the path of each file of this thread: those whose number is the thread's, and every `threads`th from there.
#[inline]
fn each_file(
    mut name: Name,
    files: u64,
    threads: u64,
    times: Times,
    mut body: impl FnMut(&CStr) -> Result<(), Errno>,
) {
    timed(times, 1, |_| {
        let mut index = if global_thread() < threads { global_thread() } else { files };
        // Ends: `index` grows.
        while index < files {
            if let Err(errno) = name.file(index).and_then(&mut body) {
                times.fail(errno);
            }
            index += threads;
        }
    });
}

kernel! {
    /// `stat` of every file.
    pub fn stat_all(fs: Fs, prefix: Shared<[u8; NAME_BYTES]>, length: u32, files: u64, times: u64) {
        let name = Name::new(prefix.with(fs, |prefix| *prefix), length);
        each_file(name, files, grid_threads(), Times(times), |path| match fs.stat(path)?.st_size {
            1 => Ok(()),
            _ => Err(Errno::IO),
        });
    }
}

kernel! {
    /// `open` and `close` of every file, by the first `openers` threads: so many files are open at once.
    pub fn open_and_close(
        fs: Fs,
        prefix: Shared<[u8; NAME_BYTES]>,
        length: u32,
        files: u64,
        openers: u64,
        times: u64,
    ) {
        let name = Name::new(prefix.with(fs, |prefix| *prefix), length);
        let both = |path: &CStr| fs.close(fs.open(path, 0, 0)?);
        each_file(name, files, openers.min(grid_threads()), Times(times), both);
    }
}

kernel! {
    /// `readdir` of every directory, `entries` of each. A warp takes a directory, opens it, reads it with all its lanes together, and closes it.
    pub fn read_directories(
        fs: Fs,
        prefix: Shared<[u8; NAME_BYTES]>,
        length: u32,
        directories: u64,
        entries: u64,
        times: u64,
    ) {
        let mut name = Name::new(prefix.with(fs, |prefix| *prefix), length);
        let times = Times(times);
        let lanes = calling!();
        timed(times, 1, |_| {
            let mut index = u64::from(warp_index());
            // Ends: `index` grows.
            while index < directories {
                let mut opened = 0_u32;
                if lanes.is_leader() {
                    match name.directory(index).and_then(|path| fs.opendir(path)) {
                        Ok(directory) => opened = 1 + directory.0.0,
                        Err(errno) => times.fail(errno),
                    }
                }
                let opened = lanes.from_leader(opened);
                if opened == 0 {
                    break;
                }
                let directory = Directory(Descriptor(opened - 1));
                let mut entry = Dirent::default();
                let mut count = 0;
                // Ends: at the directory's end.
                loop {
                    match fs.readdir(directory, &mut entry) {
                        Ok(true) => count += 1,
                        Ok(false) => break,
                        Err(errno) => {
                            times.fail(errno);
                            break;
                        }
                    }
                }
                lanes.sync();
                let before = lanes.scan(count);
                if lanes.rank() + 1 == lanes.count() {
                    times.check(usize::try_from(before + count).map_err(|_| Errno::OVERFLOW), entries);
                }
                if lanes.is_leader()
                    && let Err(errno) = fs.closedir(directory)
                {
                    times.fail(errno);
                }
                index += grid_threads() / u64::from(Machine::width());
            }
        });
    }
}

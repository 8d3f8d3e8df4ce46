//! What is measured: calls on paths. Thread `i` of the grid takes each file whose number is `i` more than a multiple of the grid.

use core::ffi::CStr;

use gpufs_device::kernel::Shared;
use gpufs_device::warp::{global_thread, grid_threads};
use gpufs_device::{Errno, kernel};

use crate::{Times, timed};

/// Bytes of a path, its NUL included, at most.
pub const NAME_BYTES: usize = 96;

/// Calls `body` with the path of each file of this thread, whose name is its number in eight digits behind the prefix.
#[inline]
fn each_file(
    (prefix, length): (&[u8; NAME_BYTES], u32),
    files: u64,
    times: Times,
    mut body: impl FnMut(&CStr) -> Result<(), Errno>,
) {
    let mut path = [0; NAME_BYTES];
    path.copy_from_slice(prefix);
    let digits = length as usize;
    timed(times, 1, |_| {
        let mut index = global_thread();
        // Ends: `index` grows.
        while index < files {
            let mut rest = index;
            for place in (digits..digits + 8).rev() {
                path[place] = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            let outcome = CStr::from_bytes_until_nul(&path).map_err(|_| Errno::INVAL).and_then(&mut body);
            if let Err(errno) = outcome {
                times.fail(errno);
            }
            index += grid_threads();
        }
    });
}

kernel! {
    /// `stat` of every file.
    pub fn stat_all(fs: Fs, prefix: Shared<[u8; NAME_BYTES]>, length: u32, files: u64, times: u64) {
        each_file((prefix.get(fs), length), files, Times(times), |path| match fs.stat(path)?.st_size {
            1 => Ok(()),
            _ => Err(Errno::IO),
        });
    }
}

kernel! {
    /// `open` and `close` of every file.
    pub fn open_and_close(fs: Fs, prefix: Shared<[u8; NAME_BYTES]>, length: u32, files: u64, times: u64) {
        let both = |path: &CStr| fs.close(fs.open(path, 0, 0)?);
        each_file((prefix.get(fs), length), files, Times(times), both);
    }
}

//! `snprintf` alone: formats, and their results.

use gpufs_device::format::{Argument, snprintf_with};
use gpufs_device::kernel;
use gpufs_device::warp::{self, global_thread};

/// One `snprintf`, and below its result.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Format {
    /// The address of the format.
    pub format: u64,
    /// Its bytes.
    pub format_bytes: u64,
    /// The address of the arguments.
    pub arguments: u64,
    /// How many.
    pub count: u64,
    /// Where to print.
    pub into: u64,
    /// The room there.
    pub room: u64,
    /// What `%m` prints.
    pub errno: i64,
    /// What was returned; −1 for an error.
    pub length: i64,
}

kernel! {
    /// Prints the `count` [`Format`]s at `formats`, which the threads share.
    pub fn print_formats(fs: Fs, formats: u64, count: u64) {
        let _ = fs;
        let mut index = global_thread();
        while index < count {
            print_format((formats as *mut Format).wrapping_add(index as usize));
            index += warp::grid_threads();
        }
    }
}

#[inline(never)]
fn print_format(place: *mut Format) {
    // SAFETY:
    // - the host wrote it, and this thread alone uses it
    let case = unsafe { &mut *place };
    // SAFETY:
    // - the host put a format, its arguments, and as much room there
    let (format, arguments, into) = unsafe {
        (
            core::slice::from_raw_parts(case.format as *const u8, case.format_bytes as usize),
            core::slice::from_raw_parts(case.arguments as *const Argument<'_>, case.count as usize),
            core::slice::from_raw_parts_mut(case.into as *mut u8, case.room as usize),
        )
    };
    let errno = case.errno as i32;
    case.length = snprintf_with(into, format, arguments, || Some(errno)).map_or(-1, |length| length as i64);
}

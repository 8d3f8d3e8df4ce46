//! The kernel: it needs no `std`, and neither do the crates that it uses.

use core::ffi::CStr;

use csv_core::{ReadFieldResult, Reader};
use embedded_io::BufRead;
use gpufs_device::embedded::Buffered;
use gpufs_device::file::O_RDONLY;
use gpufs_device::kernel::{Handoff, Path, Shared};
use gpufs_device::warp::{global_thread, grid_threads};
use gpufs_device::{Errno, File, Fs, fprintf, kernel, snprintf};

/// Bytes of the longest field of which the kernel makes a number.
const FIELD_BYTES: usize = 32;
/// Bytes that a thread reads at once.
const READ_BYTES: usize = 1024;

kernel! {
    /// Threads share the files `0.csv` to `<files − 1>.csv` of a folder. Of each it prints its number, its records, and the sum of a column.
    pub fn totals(
        fs: Fs,
        folder: Shared<Path>,
        files: u32,
        column: u32,
        output: File,
        failed: Shared<Handoff<Errno>>,
    ) {
        folder.with(fs, |folder| {
            let folder = folder.as_c_str();
            for number in (global_thread() as u32..files).step_by(grid_threads() as usize) {
                if let Err(errno) = total(fs, folder, number, column, output) {
                    failed.with(fs, |failed| failed.put(errno));
                }
            }
        });
    }
}

/// One file. `EINVAL`: a record's field is missing or no number.
fn total(fs: Fs, folder: &CStr, number: u32, column: u32, output: File) -> Result<(), Errno> {
    let mut path = [0; 512];
    let length = snprintf!(&mut path, c"%s/%u.csv", folder, number).map_err(|_| Errno::INVAL)?;
    let path = path.get(..=length).and_then(|path| CStr::from_bytes_with_nul(path).ok());
    let descriptor = fs.open(path.ok_or(Errno::NAMETOOLONG)?, O_RDONLY, 0)?;
    let mut memory = [0; READ_BYTES];
    let summed = sum(Buffered::new(fs.io(descriptor), &mut memory), column);
    fs.close(descriptor)?;
    let (records, sum) = summed?;
    fprintf!(output, c"%u %lu %ld\n", number, records, sum).map(drop)
}

/// The records behind the first, which has the names, and the sum of a column of theirs.
fn sum(mut input: impl BufRead<Error = Errno>, wanted: u32) -> Result<(u64, i64), Errno> {
    let mut csv = Reader::new();
    let mut field = [0; FIELD_BYTES];
    let (mut length, mut column, mut records, mut sum) = (0, 0, 0_u64, 0);
    // Ends: each round takes bytes of the file, or ends a field; the parser ends after the last.
    loop {
        let piece = input.fill_buf()?;
        let (result, read, written) = csv.read_field(piece, &mut field[length..]);
        input.consume(read);
        length += written;
        match result {
            ReadFieldResult::InputEmpty => {}
            // Of another column: it need not fit.
            ReadFieldResult::OutputFull if column != wanted => length = 0,
            ReadFieldResult::OutputFull => return Err(Errno::INVAL),
            ReadFieldResult::Field { record_end } => {
                if records > 0 && column == wanted {
                    let text = core::str::from_utf8(&field[..length]).map_err(|_| Errno::INVAL)?;
                    sum += text.parse::<i64>().map_err(|_| Errno::INVAL)?;
                }
                (length, column) = (0, column + 1);
                if record_end {
                    if column <= wanted {
                        return Err(Errno::INVAL);
                    }
                    (column, records) = (0, records + 1);
                }
            }
            ReadFieldResult::End => return Ok((records.saturating_sub(1), sum)),
        }
    }
}

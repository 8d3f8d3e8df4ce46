//! Kernels that stay, and talk with the host while they run.

use gpufs_device::channel::{Receiver, Sender};
use gpufs_device::kernel::Shared;
use gpufs_device::warp::global_thread;
use gpufs_device::{File, fprintf, kernel};

use crate::records::Report;

kernel! {
    /// Answers each number with its double and one, and writes it to the log, until there are no more. Where a warp's lanes run in lockstep, one of
    /// them does so.
    pub fn answer_numbers(
        fs: Fs,
        numbers: Receiver<u64>,
        answers: Sender<u64>,
        log: File,
        alone: u32,
        report: Shared<Report>,
    ) {
        report.with(fs, |report| {
            let noted = |place: u32, errno: gpufs_device::Errno| {
                report.note(place, global_thread(), 0, errno.number().cast_unsigned());
            };
            if alone != 0 && !global_thread().is_multiple_of(u64::from(alone)) {
                return;
            }
            // Ends: when the host has closed the channel, or with an error.
            loop {
                let number = match numbers.receive(fs) {
                    Ok(Some(number)) => number,
                    Ok(None) => return,
                    Err(errno) => return noted(1, errno),
                };
                if let Err(errno) = fprintf!(log, c"%lu\n", number) {
                    noted(2, errno);
                }
                if let Err(errno) = answers.send(fs, number * 2 + 1) {
                    return noted(3, errno);
                }
            }
        });
    }
}

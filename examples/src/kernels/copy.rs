//! Lanes copy a file: each draws the next piece, reads it into memory of its own that the host registered, and writes it out.

use gpufs_core::word::DeviceWord64;
use gpufs_device::file::Descriptor;
use gpufs_device::{Errno, Fs};

use super::Parts;

/// What the host hands to the kernel.
#[derive(Debug)]
pub struct Job<'a> {
    /// The file to read.
    pub source: Descriptor,
    /// The file to write.
    pub target: Descriptor,
    /// How many bytes.
    pub bytes: u64,
    /// A buffer for each lane, registered: it is read into and written from in place.
    pub buffers: Parts<'a>,
    /// Where the next piece begins, or more than `bytes`.
    pub next: DeviceWord64,
    /// The first failure.
    pub failure: Failure,
}

/// Which call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Reading the source.
    Read,
    /// Writing the target.
    Write,
}

/// Why a piece could not be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Which call failed.
    pub call: Call,
    /// What it said; `None`: the file ended there.
    pub errno: Option<Errno>,
    /// Where in the file, in bytes.
    pub offset: u64,
}

/// The first trouble of a launch.
pub type Failure = super::Handoff<Trouble>;

/// Copies pieces until none is left. Any grid; lanes for which there is no buffer end at once.
pub fn copy(fs: Fs, job: &Job<'_>) {
    let Some(buffer) = job.buffers.claim() else { return };
    let buffer = buffer.into_slice();
    let piece = buffer.len() as u64;
    // Ends: each round takes a piece of the file.
    loop {
        // ORDERING: relaxed: the number is the claim.
        let at = job.next.draw(piece);
        if at >= job.bytes || job.failure.get().is_some() {
            return;
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most the buffer's length")]
        let count = piece.min(job.bytes - at) as usize;
        if let Err(trouble) = copy_piece(fs, job, &mut buffer[..count], at) {
            job.failure.put(trouble);
            return;
        }
    }
}

fn copy_piece(fs: Fs, job: &Job<'_>, buffer: &mut [u8], at: u64) -> Result<(), Trouble> {
    let mut done = 0;
    // Ends: each round moves bytes or fails. A short transfer is continued where it stopped.
    while done < buffer.len() {
        let offset = at + done as u64;
        let trouble = |errno| Trouble { call: Call::Read, errno, offset };
        match fs.pread(job.source, &mut buffer[done..], offset) {
            Ok(0) => return Err(trouble(None)),
            Ok(count) => done += count,
            Err(errno) => return Err(trouble(Some(errno))),
        }
    }
    done = 0;
    // Ends: as above.
    while done < buffer.len() {
        let offset = at + done as u64;
        let trouble = |errno| Trouble { call: Call::Write, errno, offset };
        match fs.pwrite(job.target, &buffer[done..], offset) {
            Ok(0) => return Err(trouble(None)),
            Ok(count) => done += count,
            Err(errno) => return Err(trouble(Some(errno))),
        }
    }
    Ok(())
}

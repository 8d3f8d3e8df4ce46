//! Copies a file: each lane draws the next piece, reads it into its part of a buffer that the host registered, and writes it.

use gpufs_core::word::DeviceWord64;
use gpufs_device::file::Descriptor;
use gpufs_device::kernel::{Handoff, Shared};
use gpufs_device::{Errno, Fs, kernel, portable};

use super::Parts;

portable! {
    /// What the host places for the kernel.
    pub struct Job {
        /// The file to read.
        pub source: Descriptor,
        /// The file to write.
        pub target: Descriptor,
        /// How many bytes.
        pub bytes: u64,
        /// A registered buffer for each lane. The system reads into it and writes from it in place; no lane touches the bytes.
        pub buffers: Parts,
        /// Where the next piece begins; past the end, `bytes` or more.
        pub next: DeviceWord64,
        /// The first failure.
        pub failure: Handoff<Trouble>,
    }
}

portable! {
    /// Why a piece could not be copied.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Trouble {
        /// 1 if it was written, 0 if it was read.
        writing: u32,
        /// 0 if the file ended there.
        errno: i32,
        /// Where in the file, in bytes.
        pub offset: u64,
    }
}

impl Trouble {
    fn new(writing: bool, errno: Option<Errno>, offset: u64) -> Self {
        Self { writing: u32::from(writing), errno: errno.map_or(0, Errno::number), offset }
    }
    /// Whether writing the target failed; else reading the source did.
    #[must_use]
    pub const fn is_of_target(&self) -> bool {
        self.writing == 1
    }
    /// The error of the call; `None`: the file ended there.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        (self.errno != 0).then(|| Errno::from_number(self.errno))
    }
}

kernel! {
    /// Copies pieces until none is left. Any grid; a lane that gets no buffer returns.
    pub fn copy_pieces(fs: Fs, job: Shared<Job>) {
        job.with(fs, |job| {
            let Some(buffer) = job.buffers.claim() else { return };
            let buffer = buffer.into_slice();
            let piece = buffer.len() as u64;
            // Ends: each round takes a piece of the file.
            loop {
                // ORDERING: relaxed: the number is the claim.
                let at = job.next.fetch_add_relaxed(piece);
                if at >= job.bytes || job.failure.is_full() {
                    return;
                }
                #[allow(clippy::cast_possible_truncation, reason = "at most the buffer's length")]
                let count = piece.min(job.bytes - at) as usize;
                if let Err(trouble) = copy_piece(fs, job, &mut buffer[..count], at) {
                    job.failure.put(trouble);
                    return;
                }
            }
        });
    }
}

fn copy_piece(fs: Fs, job: &Job, buffer: &mut [u8], at: u64) -> Result<(), Trouble> {
    let mut done = 0;
    // Ends: each round moves bytes or fails. A short transfer is continued where it stopped.
    while done < buffer.len() {
        let offset = at + done as u64;
        match fs.pread(job.source, &mut buffer[done..], offset) {
            Ok(0) => return Err(Trouble::new(false, None, offset)),
            Ok(count) => done += count,
            Err(errno) => return Err(Trouble::new(false, Some(errno), offset)),
        }
    }
    done = 0;
    // Ends: as above.
    while done < buffer.len() {
        let offset = at + done as u64;
        match fs.pwrite(job.target, &buffer[done..], offset) {
            Ok(0) => return Err(Trouble::new(true, None, offset)),
            Ok(count) => done += count,
            Err(errno) => return Err(Trouble::new(true, Some(errno), offset)),
        }
    }
    Ok(())
}

//! Each thread writes records of a fixed size to its own part of a file, which the host opened. No thread waits for another.
//!
//! `cargo run --bin write_records FILE`. For a GPU, see `hello.rs`.

use gpufs_device::file::Descriptor;
use gpufs_device::kernel::{Handoff, Shared};
use gpufs_device::{Errno, Fs, kernel, warp::global_thread};
use gpufs_host::{Grid, Session};

/// Records of a thread.
const RECORDS: usize = 16;
/// Bytes of a record: its number and the square of that, in little-endian order.
const RECORD_BYTES: usize = 16;

kernel! {
    /// Writes this thread's records. Any grid.
    pub fn write_squares(fs: Fs, file: Descriptor, failed: Shared<Handoff<Errno>>) {
        let first = global_thread() * RECORDS as u64;
        let mut bytes = [0; RECORDS * RECORD_BYTES];
        for (number, record) in (first..).zip(bytes.chunks_exact_mut(RECORD_BYTES)) {
            record[..8].copy_from_slice(&number.to_le_bytes());
            record[8..].copy_from_slice(&(number * number).to_le_bytes());
        }
        if let Err(errno) = write_all(fs, file, &bytes, first * RECORD_BYTES as u64) {
            failed.with(fs, |failed| failed.put(errno));
        }
    }
}

fn write_all(fs: Fs, file: Descriptor, bytes: &[u8], offset: u64) -> Result<(), Errno> {
    let mut done = 0;
    // Ends: each call writes bytes, or fails. As pwrite(2), it may write a part.
    while done < bytes.len() {
        done += fs.pwrite(file, &bytes[done..], offset + done as u64)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("no file was named: write_records FILE")?;
    let mut session = Session::builder().cpu()?;
    let file = session.register_file(std::fs::File::create(path)?)?;
    let failed = session.place(Handoff::default())?;
    let arguments = write_squares::Arguments { file, failed: failed.handle() };
    session.start::<write_squares::Entry>(Grid { blocks: 32, threads: 256 }, arguments)?;
    session.synchronize()?;
    match session.fetch(&failed)?.get() {
        Some(errno) => Err(errno.into()),
        None => Ok(()),
    }
}

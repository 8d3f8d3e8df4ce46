//! Memory of a device for the kernels of one session, as these take it. It is zeroed, and lives as long as the session; the host touches it only
//! while no kernel runs, which the session sees to.
#![expect(unsafe_code, reason = "memory that kernels use")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use gpufs_host::Session;
use gpufs_host::session::DeviceBuffer;

use crate::kernels::{Array, Cells, Words, Words64};

/// Bytes that go to the device at a time.
const PIECE: usize = 1 << 20;

/// Words of 4 bytes.
///
/// # Errors
/// There is not enough memory; none are wanted.
pub fn words(session: &mut Session, count: u64) -> io::Result<(DeviceBuffer, Words)> {
    let buffer = session.device_buffer(4 * count as usize)?;
    // SAFETY:
    // - new memory of the session's, aligned, and of so many words
    Ok((buffer, unsafe { Words::new(buffer.address(), count) }))
}

/// Words of 8 bytes.
///
/// # Errors
/// As [`words`].
pub fn words64(session: &mut Session, count: u64) -> io::Result<(DeviceBuffer, Words64)> {
    let buffer = session.device_buffer(8 * count as usize)?;
    // SAFETY:
    // - as above
    Ok((buffer, unsafe { Words64::new(buffer.address(), count) }))
}

/// Bytes that lanes write and read in turns.
///
/// # Errors
/// As [`words`].
pub fn cells(session: &mut Session, bytes: u64) -> io::Result<(DeviceBuffer, Cells)> {
    let buffer = session.device_buffer(bytes as usize)?;
    // SAFETY:
    // - new memory of the session's, a multiple of 256, and of so many bytes
    Ok((buffer, unsafe { Cells::new(buffer.address(), bytes) }))
}

/// Bytes that the host writes between launches, and kernels read.
///
/// # Errors
/// As [`words`].
pub fn array(session: &mut Session, bytes: u64) -> io::Result<(DeviceBuffer, Array)> {
    let buffer = session.device_buffer(bytes as usize)?;
    // SAFETY:
    // - new memory of the session's, a multiple of 256, and of so many bytes; kernels cannot write to it
    Ok((buffer, unsafe { Array::new(buffer.address(), bytes) }))
}

/// Bytes `at` to `at + bytes` of a file, without the latter, which are read now.
///
/// # Errors
/// As [`words`], and the system's.
pub fn array_of_file(session: &mut Session, file: &File, (at, bytes): (u64, u64)) -> io::Result<Array> {
    let (buffer, array) = array(session, bytes)?;
    let mut piece = vec![0; PIECE];
    for from in (0..bytes).step_by(PIECE) {
        let piece = &mut piece[..PIECE.min((bytes - from) as usize)];
        file.read_exact_at(piece, at + from)?;
        session.write_device(&buffer, from as usize, piece)?;
    }
    Ok(array)
}

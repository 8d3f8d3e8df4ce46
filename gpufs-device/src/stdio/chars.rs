//! `fputc(3)`, `fgetc(3)`, `ungetc(3)`.

use gpufs_core::failures::counted;
use gpufs_core::stream::Stream;
use gpufs_core::{Call, Errno};

use super::File;
use super::input::read;
use super::lock::with_lock;
use super::output::write;
use crate::warp::Lanes;

/// Bytes that can be pushed back.
const PUSHED_MAX: u32 = 8;

impl File {
    /// Writes one byte, as `fputc(3)`; the byte.
    ///
    /// # Errors
    /// As [`File::fwrite`].
    pub fn fputc(self, byte: u8) -> Result<u8, Errno> {
        let bytes: &[u8] = &[byte];
        let inside = self.enter()?;
        let written = write(self, Lanes::calling(&inside, Call::Fputc), &bytes);
        counted(self.session, Call::Fputc, written.result()).map(|_| byte)
    }

    /// Reads one byte, as `fgetc(3)`; `None` at the end of the file.
    ///
    /// # Errors
    /// As [`File::fread`].
    pub fn fgetc(self) -> Result<Option<u8>, Errno> {
        let mut byte = [0];
        let inside = self.enter()?;
        let came = read(self, Lanes::calling(&inside, Call::Fgetc), byte.as_mut_ptr(), 1);
        let count = counted(self.session, Call::Fgetc, came.result())?;
        Ok((count == 1).then_some(byte[0]))
    }

    /// Pushes a byte back, to be read next, as `ungetc(3)`; clears the end-of-file flag. The byte, or `None` if eight are pushed back
    /// already. Lanes that call together push in lane order.
    ///
    /// # Errors
    /// `EBADF` if the stream is closed or not open for reading.
    pub fn ungetc(self, byte: u8) -> Result<Option<u8>, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Ungetc);
        let pushed = lanes.grouped(u64::from(lanes.lane()), |alone| {
            with_lock(self, alone, |held| {
                held.prepare_reading()?;
                let (count, bytes) = (held.stream.pushed_count.peek(), held.stream.pushed.peek());
                if count == PUSHED_MAX {
                    return Ok(None);
                }
                held.update(|stream| {
                    stream.pushed.set(bytes << 8 | u64::from(byte));
                    stream.pushed_count.set(count + 1);
                    stream.flags.set(stream.flags.peek() & !Stream::FLAG_EOF);
                });
                Ok(Some(byte))
            })
        });
        counted(self.session, Call::Ungetc, pushed)
    }
}

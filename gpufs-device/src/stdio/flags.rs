//! `feof(3)`, `ferror(3)`, `clearerr(3)`.

use gpufs_core::Call;
use gpufs_core::failures::counted;
use gpufs_core::stream::Stream;

use super::File;
use super::lock::with_lock;
use crate::warp::Lanes;

impl File {
    /// Whether the end of the file was met, as `feof(3)`. Any lane; no other need call.
    #[must_use]
    pub fn feof(self) -> bool {
        self.has(Stream::FLAG_EOF)
    }
    /// Whether a transfer failed, as `ferror(3)`. Any lane; no other need call.
    #[must_use]
    pub fn ferror(self) -> bool {
        self.has(Stream::FLAG_ERROR)
    }
    /// Clears both, as `clearerr(3)`.
    pub fn clearerr(self) {
        let Ok(inside) = self.enter() else { return };
        let cleared = Lanes::calling(&inside, Call::Clearerr).grouped(self.key(), |group| {
            with_lock(self, group, |held| {
                held.lower(Stream::FLAG_EOF | Stream::FLAG_ERROR);
                Ok(())
            })
        });
        // On a closed stream there is nothing to clear.
        let _ = counted(self.session, Call::Clearerr, cleared);
    }
    fn has(self, flag: u32) -> bool {
        let stream = self.stream();
        stream.generation.peek() == self.generation && stream.flags.peek() & flag != 0
    }
}

//! `fputs(3)`, `puts(3)`.

use core::ffi::CStr;

use gpufs_core::failures::counted;
use gpufs_core::{Call, Errno};

use super::File;
use super::output::{Record, write};
use crate::Fs;
use crate::io::copy_alone;
use crate::warp::Lanes;

/// What ends a line.
pub const NEWLINE: u8 = b'\n';

/// A string and the newline that `puts` adds.
struct Line<'a>(&'a [u8]);

impl Record for Line<'_> {
    fn bytes(&self) -> u64 {
        self.0.len() as u64 + 1
    }
    fn emit(&self, skip: u64, into: &mut [u8]) {
        let text = self.0.get(usize::try_from(skip).unwrap_or(usize::MAX)..).unwrap_or(&[]);
        let count = text.len().min(into.len());
        let (head, tail) = into.split_at_mut(count);
        copy_alone(head, &text[..count]);
        tail.fill(NEWLINE);
    }
    fn address(&self) -> Option<u64> {
        // The newline lies elsewhere.
        None
    }
    fn has_newline(&self) -> bool {
        true
    }
}

impl Fs {
    /// Writes a string and a newline to the standard output, as `puts(3)`.
    ///
    /// # Errors
    /// As [`File::fwrite`].
    pub fn puts(self, string: &CStr) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Puts);
        let written = write(self.stdout(), lanes, &Line(string.to_bytes()));
        counted(self.session(), Call::Puts, written.result()).map(|_| ())
    }
}

impl File {
    /// Writes a string without its NUL, as `fputs(3)`.
    ///
    /// # Errors
    /// As [`File::fwrite`].
    pub fn fputs(self, string: &CStr) -> Result<(), Errno> {
        let inside = self.enter()?;
        let written = write(self, Lanes::calling(&inside, Call::Fputs), &string.to_bytes());
        counted(self.session, Call::Fputs, written.result()).map(|_| ())
    }
}

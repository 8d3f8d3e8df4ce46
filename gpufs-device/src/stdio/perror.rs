//! `perror(3)`.

use core::ffi::CStr;

use gpufs_core::Errno;

use crate::{Fs, fprintf};

impl Fs {
    /// Prints what an error means to the standard error, as [perror(3)](https://man7.org/linux/man-pages/man3/perror.3.html): `prefix`, a colon
    /// and a space where it is not empty, the message, a newline. One call's text stays together.
    ///
    /// # Errors
    /// As [`File::fwrite`](crate::File::fwrite).
    pub fn perror(self, prefix: &CStr, errno: Errno) -> Result<(), Errno> {
        let (message, between) = (errno.message(), if prefix.is_empty() { c"" } else { c": " });
        fprintf!(self.stderr(), c"%s%s%s\n", prefix, between, message).map(|_| ())
    }
}

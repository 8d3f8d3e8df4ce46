//! `fprintf(3)`, `printf(3)` and Rust's `write!` on streams.
//!
//! A lane formats once, into scratch memory of its own; only then do the lanes of the call meet, reserve, and copy. What C's formats print that
//! is longer than the scratch memory is formatted again, straight into its places in the stream's blocks: no code of the program runs
//! there. What `write!` prints, whose values are the program's own, is formatted as a whole first ([`super::text`]).

use core::fmt;

use gpufs_core::failures::counted;
use gpufs_core::{Call, Errno};
use memchr::memchr;

use super::File;
use super::lines::NEWLINE;
use super::output::{Record, write};
use super::text::Text;
use crate::Fs;
use crate::format::{Argument, WindowSink, format_again, format_scratch};
use crate::warp::Lanes;

/// Bytes of a lane's scratch memory: longer records are formatted twice.
const SCRATCH_BYTES: usize = 256;

/// A formatted record: its beginning in scratch memory, and how to make it again.
struct Formatted<'a, F> {
    scratch: &'a [u8; SCRATCH_BYTES],
    bytes: u64,
    again: F,
}

impl<F: Fn(&mut WindowSink<'_>)> Formatted<'_, F> {
    /// Whether the scratch memory holds all of it.
    const fn is_whole(&self) -> bool {
        self.bytes <= SCRATCH_BYTES as u64
    }
}

impl<F: Fn(&mut WindowSink<'_>)> Record for Formatted<'_, F> {
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn emit(&self, skip: u64, into: &mut [u8]) {
        if self.is_whole() {
            (&self.scratch[..]).emit(skip, into);
            return;
        }
        let mut window = WindowSink::new(into, skip);
        (self.again)(&mut window);
        let kept = window.kept();
        // Only strings that another thread changes meanwhile leave a gap; its bytes are reserved.
        into[kept..].fill(b' ');
    }
    fn has_newline(&self) -> bool {
        // Of a long record the end is not at hand; flushing once too often is harmless.
        !self.is_whole()
            || memchr(NEWLINE, &self.scratch[..usize::try_from(self.bytes).unwrap_or(SCRATCH_BYTES)])
                .is_some()
    }
    fn address(&self) -> Option<u64> {
        // Its scratch memory is its lane's own.
        None
    }
}

impl File {
    /// Prints `arguments` as `format` says, as `fprintf(3)`: how many bytes. [`fprintf!`](crate::fprintf) checks a literal format at
    /// compile time; this checks it at run time. See [`crate::format`] for the conversions.
    ///
    /// # Errors
    /// `EINVAL` for a format or an argument that does not fit, `EOVERFLOW` for an output longer than an `int` can say, `EILSEQ` for a wide
    /// character that is none, `EFAULT` for a null `%n`: nothing is written then. Else as [`File::fwrite`].
    pub fn fprintf(self, format_bytes: &[u8], arguments: &[Argument<'_>]) -> Result<usize, Errno> {
        self.fprintf_with(format_bytes, arguments, || None)
    }

    /// [`File::fprintf`] where there is an `errno`, which `errno()` gives: C's. It is the same while the call lasts.
    ///
    /// # Errors
    /// As [`File::fprintf`].
    #[inline]
    pub fn fprintf_with(
        self,
        format_bytes: &[u8],
        arguments: &[Argument<'_>],
        errno: impl Fn() -> Option<i32>,
    ) -> Result<usize, Errno> {
        let mut scratch = [0; SCRATCH_BYTES];
        let (bytes, failed) = match format_scratch(&mut scratch, format_bytes, arguments, &errno) {
            Ok(bytes) => (bytes, None),
            // The others wait for this lane; it brings nothing.
            Err(error) => (0, Some(error.errno())),
        };
        // Asked for while nothing is held: it is code of the program.
        let number = if bytes > SCRATCH_BYTES as u64 { errno() } else { None };
        let again = |window: &mut WindowSink<'_>| format_again(window, format_bytes, arguments, number);
        let record = Formatted { scratch: &scratch, bytes, again };
        let inside = self.enter()?;
        let written = write(self, Lanes::calling(&inside, Call::Fprintf), &record).result();
        counted(self.session, Call::Fprintf, failed.map_or(written, Err))
    }

    /// Prints as Rust's `write!` and `writeln!` do, which call this: one call's text is one whole record. The values' `Display` is called before
    /// anything of the stream is touched, and may make calls of its own; once, unless memory for long texts is short.
    ///
    /// # Errors
    /// `EINVAL` if a value's `Display` fails; `ENOMEM` for a text of more than about 4 MiB, or where others' long texts have all memory and
    /// none of them ends within the session's deadline, or a minute: nothing is written then. Else as [`File::fwrite`].
    pub fn write_fmt(self, arguments: fmt::Arguments<'_>) -> Result<(), Errno> {
        let mut text = Text::new(self);
        let formatted = text.print(arguments);
        let inside = self.enter()?;
        let formatted = formatted.and_then(|()| text.confirm(&inside));
        let lanes = Lanes::calling(&inside, Call::WriteFmt);
        // Where that failed there is nothing to write, but the others may wait for this lane.
        let written = write(self, lanes, &text).result();
        counted(self.session, Call::WriteFmt, formatted.and(written.map(|_| ())))
    }
}

impl Fs {
    /// Prints to the standard output, as `printf(3)`. See [`File::fprintf`]; [`printf!`](crate::printf) checks a literal format.
    ///
    /// # Errors
    /// As [`File::fprintf`].
    pub fn printf(self, format_bytes: &[u8], arguments: &[Argument<'_>]) -> Result<usize, Errno> {
        self.stdout().fprintf(format_bytes, arguments)
    }
}

/// `fprintf!(file, c"format", arguments …)`: prints to a [`File`], as `fprintf(3)`. A format that is a literal is checked by
/// the compiler against its arguments, any other when it is printed. Gives `Result<usize, Errno>`, the bytes printed.
///
/// ```
/// # use gpufs_device::{File, Errno, fprintf};
/// fn report(out: File, thread: u32, value: f64) -> Result<(), Errno> {
///     fprintf!(out, c"thread %u saw %.3f\n", thread, value)?;
///     Ok(())
/// }
/// ```
///
/// ```compile_fail
/// # use gpufs_device::{File, fprintf};
/// fn report(out: File) {
///     let _ = fprintf!(out, c"%s\n", 1); // argument 1 is an integer
/// }
/// # fn main() { let _: fn(File) = report; } // unused code is not checked
/// ```
#[macro_export]
macro_rules! fprintf {
    ($file:expr, $($format:tt)+) => {
        match $crate::format_arguments!($($format)+) {
            (format, arguments) => $file.fprintf(format, &arguments),
        }
    };
}

/// `printf!(fs, c"format", arguments …)`: prints to the standard output of an [`Fs`]. See [`fprintf!`](crate::fprintf).
#[macro_export]
macro_rules! printf {
    ($fs:expr, $($format:tt)+) => {
        $crate::fprintf!($fs.stdout(), $($format)+)
    };
}

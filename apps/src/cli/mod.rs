//! What all programs do alike: reading the command line, opening a session where it says, and messages.
//!
//! | file | what |
//! |---|---|
//! | `program.rs` | the command line: messages, help, manual page, completions |
//! | `options.rs` | the options that every program takes: where and how its kernel runs |
//! | `values.rs` | values of options, and what is said of wrong ones |
//! | `statistics.rs` | what `--statistics` prints |
//! | `progress.rs` | progress of long work, on a terminal |
//!
//! What one program alone does is in `src/bin`.

mod options;
mod program;
mod progress;
mod statistics;
pub mod values;

use std::error::Error;
use std::ffi::{CString, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::{Duration, Instant};

use gpufs_core::kernel::Kernel;
use gpufs_host::{Grid, Session};

pub use options::{Defaults, Device, Options, Plan};
pub use program::Program;
pub use progress::Progress;
pub use statistics::Format;

/// Anything that ends a program; its text is the message.
pub type Failure = Box<dyn Error>;

/// Runs a kernel to its end, and writes what its streams hold: how long that took.
///
/// # Errors
/// As [`Session::start`] and [`Session::synchronize`].
pub fn run<K: Kernel>(
    session: &mut Session,
    grid: Grid,
    arguments: K::Arguments,
) -> Result<Duration, gpufs_host::session::SyncError> {
    let started = Instant::now();
    session.start::<K>(grid, arguments)?;
    session.synchronize()?;
    Ok(started.elapsed())
}

/// A path for device code.
///
/// # Errors
/// It contains a NUL byte.
pub fn c_path(path: impl Into<OsString>) -> Result<CString, Failure> {
    CString::new(path.into().into_vec()).map_err(|error| {
        let path = String::from_utf8_lossy(&error.into_vec()).into_owned();
        format!("{path:?}: a path cannot contain a NUL byte").into()
    })
}

/// A path in a message.
#[must_use]
pub fn show(path: &Path) -> String {
    String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned()
}

/// An error with a file: `path: error`.
pub fn about(path: &Path, error: impl fmt::Display) -> Failure {
    format!("{}: {error}", show(path)).into()
}

/// An error of the system, in the words of `strerror(3)`.
#[must_use]
pub fn reason(error: &std::io::Error) -> String {
    // `Display` adds the number.
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Raises the limit of open files of this process (`RLIMIT_NOFILE`) to `wanted`, or as far as the system allows: the limit then.
#[must_use]
#[expect(unsafe_code, reason = "the system's limits")]
pub fn allow_files(wanted: u32) -> u32 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY:
    // - `limit` is valid for writing
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return wanted;
    }
    let raised = libc::rlimit { rlim_cur: limit.rlim_max.min(wanted.into()), rlim_max: limit.rlim_max };
    if limit.rlim_cur < raised.rlim_cur {
        // SAFETY:
        // - `raised` is valid for reading
        let outcome = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
        if outcome == 0 {
            limit = raised;
        }
    }
    u32::try_from(limit.rlim_cur).unwrap_or(u32::MAX)
}

//! Fuzz targets. Each is a function of bytes that panics, or breaks a rule of a sanitizer, where something is wrong.
//!
//! | target | what it is given | what must hold |
//! |---|---|---|
//! | `formats` | formats and arguments of `printf` | no panic; each size of memory gets the beginning of the same text; equal to the system's `snprintf` where that is comparable |
//! | `scans` | formats and inputs of `scanf` | no panic; nothing is written outside of the targets; equal to the system's `sscanf` where that is comparable |
//! | `opens` | modes and paths of `fopen`, ended by a NUL or by the end of memory | the system's error, and no byte is read beyond the bounds |
//! | `options` | `gpufs_options` as bytes | a session that works, or `EINVAL` and the like with a text |
//! | `recovery` | a journal and a ring as a faulting device may leave them | no access outside of the session's memory, no endless wait (`gpufs-host`, with `--cfg fuzzing`) |
//! | `completions` | what a cruel kernel posts | an operation is done once, with the result of a completion that names it |
//! | `sequences` | calls of two warps, some of them wrong | what a model of one file for each lane says; bytes of a shared stream are whole |
//!
//! `cargo test -p gpufs-fuzz` runs each over `corpus` and some random bytes, `cargo xtask fuzz [TARGET] [MINUTES]` with libFuzzer.

mod bytes;
mod completions;
mod formats;
mod opens;
mod options;
mod scans;
mod sequences;

pub use completions::completions;
pub use formats::formats;
#[cfg(fuzzing)]
pub use gpufs_host::fuzzing::recovery;
pub use opens::opens;
pub use options::options;
pub use scans::scans;
pub use sequences::sequences;

/// A target and its name, that of its folder in `corpus`.
pub type Target = (&'static str, fn(&[u8]));

/// The targets that are here; `recovery` is in `gpufs-host`, whose tests run it.
pub const TARGETS: &[Target] = &[
    ("formats", formats),
    ("scans", scans),
    ("opens", opens),
    ("options", options),
    ("completions", completions),
    ("sequences", sequences),
];

//! The host half of gpufs: rings that a GPU can reach, sessions, and the CPU-lane runtime.
//!
//! A [`Session`] holds everything that kernels need for file I/O on one device. A program opens it with a [`Builder`], opens
//! streams, starts kernels and synchronizes; [`Session::synchronize`] waits for the kernels and writes what their streams
//! still hold. Dropping the session does the same.
//!
//! ```
//! use gpufs_device::{File, fprintf, kernel, warp::global_thread};
//! use gpufs_host::{Grid, Session};
//!
//! kernel! {
//!     /// Every thread prints one line.
//!     pub fn hello(_fs: Fs, log: File) {
//!         fprintf!(log, c"hello from thread %lu\n", global_thread()).expect("the line is printed");
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("gpufs-front-page-{}", std::process::id()));
//! let mut session = Session::builder().cpu()?; // or .cuda(0, &program)?
//! let log = session.fopen(&path, "w")?;
//! session.start::<hello::Entry>(Grid { blocks: 2, threads: 32 }, hello::Arguments { log })?;
//! session.synchronize()?; // a kernel's panic is an error here
//! session.fclose(log)?;
//! let text = std::fs::read_to_string(&path)?;
//! assert_eq!(text.lines().count(), 64);
//! assert!(text.contains("hello from thread 63\n"));
//! # std::fs::remove_file(&path)?;
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!  Session::builder() ─ cpu, cuda, hip ─► open ─ start, launch ─► kernels run ─ synchronize ─► open ─ drop ─► closed
//!                                                                      │ a GPU fault: what calls had accepted is written
//!                                                                      └────────────────────► dead ─ drop ─► closed
//! ```
//!
//! A kernel may do through a session all that the process could do when it opened it; rights given up later stay with the kernels. With a
//! [`Sandbox`] it may do what that names. `SECURITY.md` has more.
//!
//! | module | what is in it |
//! |---|---|
//! | [`session`] | opening, launching, streams, buffers, the flush at the end, recovery after a fault |
//! | [`ring`] | rings: their memory, the modes that serve them, and the ring service, which wakes SQPOLL threads |
//! | [`doctor`] | what this machine can do for sessions, and what to do about each lack |
//! | [`transfer`] | bulk transfers between files and memory, without a kernel |
//! | [`cpu`] | CPU lanes: lanes as fibers, warps on threads |
//! | [`gpu`] | what a session needs of a GPU's runtime, and what its errors mean |
//! | `cuda` | NVIDIA GPUs, with the feature `cuda` (on by default) |
//! | `hip` | AMD GPUs, with the feature `hip`; never run on one |
#![deny(unsafe_code)]

pub mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
pub mod doctor;
pub mod gpu;
#[cfg(feature = "hip")]
mod hip;
/// Targets for fuzzing that need what is private here.
#[cfg(fuzzing)]
pub mod fuzzing {
    pub use crate::session::fuzz::recovery;
}
mod process;
#[expect(unsafe_code, reason = "system calls and the memory shared with the kernel")]
pub mod ring;
pub mod session;
pub mod transfer;

pub use cpu::{CpuOptions, Grid, Schedule};
pub use ring::{Sandbox, Sockets};
pub use session::{
    Builder, CacheError, CacheStatistics, DeviceBuffer, FileError, RegisteredBuffer, Session, Statistics,
};

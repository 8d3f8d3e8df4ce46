//! What this machine can do for sessions, and what to do about each lack: `gpufs doctor` as a function.
//!
//! [`examine`] asks the kernel, opens rings and a session, asks the driver, and reads the files that it is given. Nothing is changed, but for a
//! file without a name that is written in the folder of each given file and gone afterwards. It takes less than a second where all is well; a
//! ring that does not answer costs three.
//!
//! ```
//! let report = gpufs_host::doctor::examine(&["/etc/hostname".as_ref()]);
//! println!("{report}");
//! for finding in report.findings() {
//!     eprintln!("{}: {}", finding.is, finding.remedy);
//! }
//! # assert!(report.to_string().contains("sessions"));
//! ```
//!
//! | file | what |
//! |---|---|
//! | `system.rs` | who may use io_uring, and how much memory may be locked |
//! | `rings.rs` | a ring of each mode, and a session |
//! | `gpus.rs` | GPUs, their drivers, their place on the bus |
//! | `files.rs` | how reads and writes of a file are served, and how fast |
//! | `findings.rs` | what is lacking, and what to do about it |
//! | `text.rs` | the report for people |

mod files;
mod findings;
mod gpus;
mod rings;
mod system;
mod text;

use std::path::Path;

pub use files::{FileReport, Measured, Served};
pub use findings::{Finding, Weight};
pub use gpus::{Driver, GpuReport, Gpus, Link, Seen};
pub use rings::{ModeTried, SessionReport, SessionTried};
pub use system::{Access, LockedMemory, Seccomp};

use crate::ring::Survey;

/// What this machine can do for sessions.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// What the kernel says that it can do.
    pub survey: Survey,
    /// Who may use io_uring here.
    pub access: Access,
    /// A ring of each mode, best first.
    pub modes: Vec<ModeTried>,
    /// How much memory may be locked.
    pub locked: LockedMemory,
    /// A session on CPU lanes with the default options.
    pub session: SessionTried,
    /// GPUs and their drivers.
    pub gpus: Gpus,
    /// The files that were given, in their order.
    pub files: Vec<FileReport>,
}

/// Looks at this machine, and at `files`.
#[must_use]
pub fn examine(files: &[&Path]) -> Report {
    Report {
        survey: Survey::ask(),
        access: Access::of_this_process(),
        modes: rings::try_each(),
        locked: LockedMemory::of_this_process(),
        session: SessionTried::open(),
        gpus: Gpus::look(Path::new("/")),
        files: files.iter().map(|path| FileReport::look(path)).collect(),
    }
}

impl Report {
    /// What is lacking, the worst first.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        findings::of(self)
    }

    /// The worst of what is lacking; none where sessions work in the best mode and nothing is lacking.
    #[must_use]
    pub fn worst(&self) -> Option<Weight> {
        self.findings().iter().map(|finding| finding.weight).max()
    }

    /// Whether there is a GPU that a session can be opened on, as far as the driver says.
    #[must_use]
    pub fn has_gpu(&self) -> bool {
        self.gpus.gpus.iter().any(|gpu| gpu.seen.is_some())
    }
}

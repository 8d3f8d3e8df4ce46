//! Why a ring cannot be had: what is missing, and what to do about it.

use std::fmt;
use std::io;
use std::time::Duration;

use gpufs_core::Errno;

use super::sys::{self, Release};
use super::{Mode, RingConfig, RingMemory};

/// The step whose `EINVAL` can mean that the kernel is too old.
pub(super) const SETUP: &str = "io_uring_setup";
/// The step in which a ring is entered.
pub(super) const ENTER: &str = "io_uring_enter";

/// An opcode that the running kernel does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingOpcode {
    /// Its number, `IORING_OP_*`.
    pub opcode: u8,
    /// Its name without the prefix.
    pub name: &'static str,
    /// The first release that has it.
    pub since: Release,
    /// The calls that are made with it.
    pub calls: &'static str,
}

impl fmt::Display for MissingOpcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (Linux {})", self.name, self.since)
    }
}

/// Why a ring could not be opened or changed. The text says what is missing and how to get it.
#[derive(Debug)]
#[non_exhaustive]
pub enum RingError {
    /// The configuration contradicts itself.
    Config(&'static str),
    /// The kernel has no io_uring, or a sandbox says so (`ENOSYS`).
    NoIoUring {
        /// The step that was refused.
        step: &'static str,
        /// The running kernel.
        kernel: Release,
    },
    /// This process may not use io_uring (`EPERM`, `EACCES`).
    Forbidden {
        /// The step that was refused.
        step: &'static str,
        /// What was asked for.
        mode: Mode,
        /// The running kernel.
        kernel: Release,
        /// The sysctl `kernel.io_uring_disabled` (Linux 6.6), where there is one.
        disabled: Option<i32>,
        /// The sysctl `kernel.io_uring_group`, where there is one.
        group: Option<i32>,
    },
    /// The kernel could not allocate or lock the memory (`ENOMEM`).
    LockedMemory {
        /// What the ring needs, in bytes.
        need_bytes: u64,
        /// `RLIMIT_MEMLOCK` in bytes; `None` where there is no limit.
        limit_bytes: Option<u64>,
    },
    /// No more file descriptors (`EMFILE`, `ENFILE`).
    Descriptors {
        /// `RLIMIT_NOFILE`; `None` where there is no limit.
        limit: Option<u64>,
        /// Whether the whole system ran out (`ENFILE`) rather than this process.
        system: bool,
    },
    /// The kernel is older than what was asked for.
    TooOld {
        /// What was asked for.
        what: &'static str,
        /// The first release that has it.
        since: Release,
        /// The running kernel.
        kernel: Release,
    },
    /// The kernel does not serve operations that gpufs cannot do without.
    MissingOpcodes {
        /// Which.
        opcodes: Vec<MissingOpcode>,
        /// The running kernel.
        kernel: Release,
    },
    /// The ring was opened, and an operation that does nothing (`NOP`) did not come back through it.
    NoCompletion {
        /// What was asked for.
        mode: Mode,
        /// How long it was waited for.
        waited: Duration,
    },
    /// Each kind of ring memory is refused for a reason of its own.
    EveryMemory(Vec<(RingMemory, RingError)>),
    /// Any other error of the system.
    System {
        /// What was being done.
        step: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl RingError {
    /// What an error of `step` means for a ring of this `config` that needs `need_bytes`.
    pub(super) fn explain(
        step: &'static str,
        error: io::Error,
        config: &RingConfig,
        need_bytes: usize,
    ) -> Self {
        let kernel = Release::running();
        match error.raw_os_error() {
            Some(libc::ENOSYS) => Self::NoIoUring { step, kernel },
            Some(libc::EPERM | libc::EACCES) => Self::Forbidden {
                step,
                mode: config.mode,
                kernel,
                disabled: sysctl("/proc/sys/kernel/io_uring_disabled"),
                group: sysctl("/proc/sys/kernel/io_uring_group"),
            },
            Some(libc::ENOMEM) => Self::LockedMemory {
                need_bytes: need_bytes as u64,
                limit_bytes: sys::limit(libc::RLIMIT_MEMLOCK),
            },
            Some(number @ (libc::EMFILE | libc::ENFILE)) => {
                Self::Descriptors { limit: sys::limit(libc::RLIMIT_NOFILE), system: number == libc::ENFILE }
            }
            Some(libc::EINVAL) if step == SETUP => {
                Self::too_old(config, kernel).unwrap_or(Self::System { step, error })
            }
            _ => Self::System { step, error },
        }
    }
    /// What of `config` the running kernel is too old for, if that explains an `EINVAL`.
    fn too_old(config: &RingConfig, kernel: Release) -> Option<Self> {
        let caller = config.memory != RingMemory::Kernel;
        let (what, since) = match () {
            () if caller && kernel < Release::new(6, 5) => {
                ("ring memory of our own (IORING_SETUP_NO_MMAP)", Release::new(6, 5))
            }
            () if caller && kernel < Release::new(6, 10) => {
                ("ring memory of our own in ordinary pages (huge pages would do)", Release::new(6, 10))
            }
            () if kernel < Release::new(5, 11) => ("io_uring as gpufs uses it", Release::new(5, 11)),
            () => return None,
        };
        Some(Self::TooOld { what, since, kernel })
    }
    /// The kernel's error number, where there is one.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Config(_) => Some(Errno::INVAL),
            Self::NoIoUring { .. } => Some(Errno::NOSYS),
            Self::NoCompletion { .. } => Some(Errno::TIMEDOUT),
            Self::Forbidden { .. } => Some(Errno::PERM),
            Self::LockedMemory { .. } => Some(Errno::NOMEM),
            Self::Descriptors { system, .. } => Some(if *system { Errno::NFILE } else { Errno::MFILE }),
            Self::TooOld { .. } | Self::MissingOpcodes { .. } => None,
            Self::EveryMemory(errors) => errors.first().and_then(|(_, error)| error.errno()),
            Self::System { error, .. } => {
                error.raw_os_error().filter(|number| (1..=4095).contains(number)).map(Errno::from_number)
            }
        }
    }
}

fn sysctl(path: &str) -> Option<i32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(what) => f.write_str(what),
            Self::NoIoUring { step, kernel } => write!(
                f,
                "no io_uring here (ENOSYS in {step}, Linux {kernel}): gpufs needs Linux 5.11 or later with CONFIG_IO_URING, and a \
                 sandbox such as gVisor must pass it through"
            ),
            Self::Forbidden { step, mode, kernel, disabled, group } => {
                write!(f, "io_uring is forbidden here (EPERM in {step}): ")?;
                forbidden(f, *mode, *kernel, *disabled, *group)
            }
            Self::NoCompletion { mode, waited } => write!(
                f,
                "no operation completes in the mode {mode}: a NOP was submitted and did not come back within {waited:?}; a sandbox may pass \
                 io_uring's system calls over, or the machine be too busy"
            ),
            Self::LockedMemory { need_bytes, limit_bytes } => {
                write!(f, "no memory for a ring of {} KiB (ENOMEM): ", need_bytes.div_ceil(1024))?;
                match limit_bytes {
                    Some(limit) => write!(
                        f,
                        "RLIMIT_MEMLOCK is {} KiB for all that this user has locked; raise it (`ulimit -l`, LimitMEMLOCK= in \
                         systemd, `--ulimit memlock=-1` in Docker), or ask for fewer entries",
                        limit / 1024
                    ),
                    None => f.write_str("RLIMIT_MEMLOCK is unlimited, so free memory or the cgroup's limit is short"),
                }
            }
            Self::Descriptors { limit: Some(limit), system: false } => write!(
                f,
                "no descriptor left for the ring (EMFILE): RLIMIT_NOFILE is {limit}; raise it (`ulimit -n`) or close files"
            ),
            Self::Descriptors { .. } => f.write_str(
                "no descriptor left for the ring (ENFILE): the system's limit fs.file-max is reached; raise that sysctl",
            ),
            Self::TooOld { what, since, kernel } => {
                write!(f, "this kernel (Linux {kernel}) is too old for {what}: Linux {since} or later is needed")
            }
            Self::MissingOpcodes { opcodes, kernel } => {
                write!(f, "this kernel (Linux {kernel}) lacks operations of io_uring, each with the release that has it:")?;
                opcodes.iter().try_for_each(|opcode| write!(f, " {opcode}"))
            }
            Self::EveryMemory(errors) => errors.iter().enumerate().try_for_each(|(index, (memory, error))| {
                write!(f, "{}with memory of the {memory}: {error}", if index == 0 { "" } else { "; " })
            }),
            Self::System { step, error } if error.raw_os_error() == Some(libc::EAGAIN) => write!(
                f,
                "{step}: {error}; where that is the limit of processes, raise it (`ulimit -u`, pids.max of the cgroup, `--pids-limit` in Docker)"
            ),
            Self::System { step, error } => write!(f, "{step}: {error}"),
        }
    }
}

/// What forbids io_uring, and how to permit it.
fn forbidden(
    f: &mut fmt::Formatter<'_>,
    mode: Mode,
    kernel: Release,
    disabled: Option<i32>,
    group: Option<i32>,
) -> fmt::Result {
    match disabled {
        Some(2) => f.write_str(
            "kernel.io_uring_disabled is 2, which forbids it to all; `sysctl kernel.io_uring_disabled=0`",
        ),
        Some(1) => {
            f.write_str("kernel.io_uring_disabled is 1, which leaves it to CAP_SYS_ADMIN and the group kernel.io_uring_group")?;
            match group {
                Some(group) if group >= 0 => write!(f, " ({group}); join that group")?,
                _ => f.write_str(" (none is set); name one of your groups there")?,
            }
            f.write_str(", or `sysctl kernel.io_uring_disabled=0`")
        }
        _ if mode == Mode::Sqpoll && kernel < Release::new(5, 13) => {
            write!(
                f,
                "before Linux 5.13 (this is {kernel}) SQPOLL needs CAP_SYS_NICE, before 5.11 CAP_SYS_ADMIN"
            )
        }
        _ => {
            if let Some(value) = disabled {
                write!(f, "kernel.io_uring_disabled is {value}, which permits it, so ")?;
            }
            f.write_str(
                "a seccomp filter or security module refuses; in a container, allow io_uring_setup, io_uring_enter and \
                 io_uring_register (Docker: `--security-opt seccomp=<profile>`)",
            )
        }
    }
}

impl std::error::Error for RingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<RingError> for io::Error {
    fn from(error: RingError) -> Self {
        let kind = error
            .errno()
            .map_or(io::ErrorKind::Unsupported, |errno| Self::from_raw_os_error(errno.number()).kind());
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(disabled: Option<i32>, group: Option<i32>, mode: Mode, kernel: (u32, u32)) -> String {
        let kernel = Release::new(kernel.0, kernel.1);
        RingError::Forbidden { step: SETUP, mode, kernel, disabled, group }.to_string()
    }

    #[test]
    fn a_refusal_names_who_refuses_and_the_remedy() {
        let all = said(Some(2), Some(-1), Mode::Enter, (6, 18));
        assert!(all.contains("is 2") && all.contains("sysctl kernel.io_uring_disabled=0"), "{all}");
        let grouped = said(Some(1), Some(1000), Mode::Enter, (6, 18));
        assert!(grouped.contains("(1000); join that group"), "{grouped}");
        assert!(said(Some(1), Some(-1), Mode::Enter, (6, 18)).contains("none is set"));
        assert!(said(Some(0), None, Mode::Enter, (6, 18)).contains("seccomp"));
        assert!(said(None, None, Mode::Enter, (5, 15)).contains("seccomp"));
        assert!(said(None, None, Mode::Sqpoll, (5, 12)).contains("CAP_SYS_NICE"));
    }

    #[test]
    fn an_old_kernel_is_told_from_a_wrong_argument() {
        let config = RingConfig { memory: RingMemory::Caller, ..RingConfig::default() };
        let old =
            |major, minor| RingError::too_old(&config, Release::new(major, minor)).map(|e| e.to_string());
        assert!(old(6, 1).unwrap().contains("Linux 6.5 or later"));
        assert!(old(6, 8).unwrap().contains("Linux 6.10 or later"));
        assert_eq!(old(6, 18), None);
        assert!(RingError::too_old(&RingConfig::default(), Release::new(6, 1)).is_none());
    }
}

//! Who may use io_uring here, and how much memory may be locked: what `/proc` and `getrlimit(2)` say.

use std::fs;
use std::path::Path;

use crate::ring::limit;

/// `CAP_IPC_LOCK` and `CAP_SYS_ADMIN` (capabilities(7)).
const IPC_LOCK: u32 = 14;
const SYS_ADMIN: u32 = 21;

/// Who may use io_uring here, as far as can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access {
    /// The sysctl `kernel.io_uring_disabled`: 0 for all, 1 for a group and `CAP_SYS_ADMIN`, 2 for nobody. None before Linux 6.6.
    pub disabled: Option<i32>,
    /// The sysctl `kernel.io_uring_group`; -1 for no group.
    pub group: Option<i32>,
    /// Whether this process is in that group.
    pub in_group: bool,
    /// Whether this process has `CAP_SYS_ADMIN`.
    pub is_admin: bool,
    /// What seccomp(2) does with this process's system calls.
    pub seccomp: Seccomp,
    /// What tells that this is a container: its kind, or the file that says so.
    pub container: Option<String>,
    /// The label that a security module has given this process, such as AppArmor's or SELinux's.
    pub label: Option<String>,
}

/// What seccomp(2) does with a process's system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seccomp {
    /// Nothing.
    #[default]
    Off,
    /// So many filters look at each.
    Filters(u32),
    /// The kernel does not say.
    Unknown,
}

/// How much memory may be locked. Registered buffers count as locked; with some kernels the rings' own memory does, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockedMemory {
    /// `RLIMIT_MEMLOCK` in bytes; none where there is no limit.
    pub limit_bytes: Option<u64>,
    /// Whether the process has `CAP_IPC_LOCK`, for which the limit does not count.
    pub is_exempt: bool,
}

/// A line of `/proc/self/status` after its name.
fn line<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| *key == name).map(|(_, value)| value.trim())
}

fn has(status: &str, capability: u32) -> bool {
    let effective = line(status, "CapEff").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    effective.is_some_and(|mask| mask >> capability & 1 == 1)
}

fn numbers(text: &str) -> impl Iterator<Item = i32> {
    text.split_whitespace().filter_map(|word| word.parse().ok())
}

fn number_in(path: &str) -> Option<i32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

impl Seccomp {
    fn of(status: &str) -> Self {
        match line(status, "Seccomp") {
            Some("0") => Self::Off,
            Some(_) => {
                let filters = line(status, "Seccomp_filters").and_then(|number| number.parse().ok());
                Self::Filters(filters.unwrap_or(1))
            }
            None => Self::Unknown,
        }
    }
}

impl Access {
    pub(super) fn of_this_process() -> Self {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let label = fs::read_to_string("/proc/self/attr/current").ok();
        let label = label.map(|label| label.trim_matches(['\0', '\n', ' ']).to_owned());
        Self {
            disabled: number_in("/proc/sys/kernel/io_uring_disabled"),
            group: number_in("/proc/sys/kernel/io_uring_group"),
            container: container(),
            label: label.filter(|label| !label.is_empty() && label != "unconfined"),
            ..Self::default()
        }
        .with(&status)
    }

    /// What a `/proc/self/status` says.
    fn with(self, status: &str) -> Self {
        // The second of four is the effective group.
        let effective = line(status, "Gid").and_then(|ids| numbers(ids).nth(1));
        let others = numbers(line(status, "Groups").unwrap_or_default());
        let in_group = self.group.is_some_and(|group| others.chain(effective).any(|own| own == group));
        Self { in_group, is_admin: has(status, SYS_ADMIN), seccomp: Seccomp::of(status), ..self }
    }

    /// Whether the sysctls let this process use io_uring.
    #[must_use]
    pub fn is_permitted(&self) -> bool {
        match self.disabled {
            None | Some(0) => true,
            Some(1) => self.is_admin || self.in_group,
            Some(_) => false,
        }
    }
}

/// The kind of container that this is, if it tells.
fn container() -> Option<String> {
    let named = std::env::var("container").ok().filter(|kind| !kind.is_empty());
    named.or_else(|| {
        let marks = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];
        marks.into_iter().find(|mark| Path::new(mark).exists()).map(str::to_owned)
    })
}

impl LockedMemory {
    pub(super) fn of_this_process() -> Self {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        Self { limit_bytes: limit(libc::RLIMIT_MEMLOCK), is_exempt: has(&status, IPC_LOCK) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tsh\nGid:\t100\t200\t100\t100\nGroups:\t4 24 300 \nCapEff:\t0000000000204000\n\
                          Seccomp:\t2\nSeccomp_filters:\t3\n";

    #[test]
    fn a_status_says_who_may_what() {
        let grouped = |group| Access { disabled: Some(1), group: Some(group), ..Access::default() };
        let access = grouped(300).with(STATUS);
        assert_eq!((access.in_group, access.is_admin, access.seccomp), (true, true, Seccomp::Filters(3)));
        assert!(grouped(200).with(STATUS).in_group, "the effective group counts");
        assert!(!grouped(100).with(STATUS).in_group, "the real one does not");
        let plain = STATUS.replace("204000", "000000").replace("Seccomp:\t2", "Seccomp:\t0");
        let access = grouped(-1).with(&plain);
        assert_eq!((access.is_permitted(), access.seccomp), (false, Seccomp::Off));
        assert!(grouped(300).with(&plain).is_permitted());
        assert!(!Access { disabled: Some(2), ..grouped(300) }.with(STATUS).is_permitted());
        assert_eq!(Access::default().with("").seccomp, Seccomp::Unknown);
        assert!(has(STATUS, IPC_LOCK) && !has(&plain, IPC_LOCK));
    }
}

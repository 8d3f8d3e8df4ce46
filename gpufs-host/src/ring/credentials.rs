//! The rights of a thread, and giving them to another: who it is for the system, and its capabilities (`credentials(7)`, `capabilities(7)`).
//!
//! A thread's credentials are its own for Linux; the C library alone makes a process's threads change theirs together. So these are system calls,
//! for the calling thread and no other.

use std::io;

use gpufs_core::Errno;

use super::sys;

/// `_LINUX_CAPABILITY_VERSION_3`.
const VERSION: u32 = 0x2008_0522;
/// Groups of a thread at most (`NGROUPS_MAX`).
const GROUPS_MAX: usize = 65_536;
/// An argument that changes nothing.
const KEEP: u64 = u32::MAX as u64;

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct Header {
    version: u32,
    thread: i32,
}

/// `struct __user_cap_data_struct`, twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Capabilities {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// What a thread may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Credentials {
    /// Real, effective, saved, and for files.
    users: [u32; 4],
    groups: [u32; 4],
    more_groups: Vec<u32>,
    capabilities: [Capabilities; 2],
}

fn io_error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.number())
}

/// A system call of numbers and of memory that is borrowed for it.
fn call(number: libc::c_long, arguments: [u64; 3]) -> io::Result<i32> {
    let [a, b, c] = arguments;
    // SAFETY:
    // - the callers below pass numbers, and addresses of values that are alive, as large as the call wants
    unsafe { sys::call(number, [a, b, c, 0, 0, 0]) }.map_err(io_error)
}

fn address<T>(of: &mut T) -> u64 {
    (&raw mut *of).expose_provenance() as u64
}

/// Real, effective and saved by `three`, and the one for files by `files`, which returns the one that was.
fn identity(three: libc::c_long, files: libc::c_long) -> io::Result<[u32; 4]> {
    let mut ids = [0_u32; 3];
    let [real, effective, saved] = ids.each_mut().map(address);
    call(three, [real, effective, saved])?;
    let for_files = call(files, [KEEP, 0, 0])?;
    Ok([ids[0], ids[1], ids[2], for_files.cast_unsigned()])
}

impl Credentials {
    /// The calling thread's.
    pub(super) fn of_this_thread() -> io::Result<Self> {
        let users = identity(libc::SYS_getresuid, libc::SYS_setfsuid)?;
        let groups = identity(libc::SYS_getresgid, libc::SYS_setfsgid)?;
        let count = call(libc::SYS_getgroups, [0, 0, 0])?;
        let mut more_groups = vec![0_u32; usize::try_from(count).unwrap_or(0).min(GROUPS_MAX)];
        let to = more_groups.as_mut_ptr().expose_provenance() as u64;
        let count = call(libc::SYS_getgroups, [more_groups.len() as u64, to, 0])?;
        more_groups.truncate(usize::try_from(count).unwrap_or(0));
        let mut capabilities = [Capabilities::default(); 2];
        let mut header = Header { version: VERSION, thread: 0 };
        call(libc::SYS_capget, [address(&mut header), address(&mut capabilities), 0])?;
        Ok(Self { users, groups, more_groups, capabilities })
    }

    /// Gives them to the calling thread, as far as it may take them.
    ///
    /// # Errors
    /// The system's refusal: it has fewer already. Some may be taken then.
    pub(super) fn take(&self) -> io::Result<()> {
        let now = Self::of_this_thread()?;
        if now == *self {
            return Ok(());
        }
        if now.more_groups != self.more_groups {
            let from = self.more_groups.as_ptr().expose_provenance() as u64;
            call(libc::SYS_setgroups, [self.more_groups.len() as u64, from, 0])?;
        }
        // What is permitted stays so when the user changes, and is set last.
        // SAFETY:
        // - this `prctl` takes numbers
        unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1_u64, 0, 0, 0) };
        let set = |three, files, [real, effective, saved, for_files]: [u32; 4]| {
            call(three, [real.into(), effective.into(), saved.into()])?;
            // It returns the one that was, whether it changes it or not.
            call(files, [for_files.into(), 0, 0])
        };
        let identified = set(libc::SYS_setresgid, libc::SYS_setfsgid, self.groups)
            .and_then(|_| set(libc::SYS_setresuid, libc::SYS_setfsuid, self.users));
        // SAFETY:
        // - as above
        unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 0_u64, 0, 0, 0) };
        identified?;
        let (mut header, mut capabilities) = (Header { version: VERSION, thread: 0 }, self.capabilities);
        call(libc::SYS_capset, [address(&mut header), address(&mut capabilities), 0])?;
        if Self::of_this_thread()? == *self { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
    }
}

/// System calls of the calling thread that seccomp filters (`seccomp(2)`): how many filters it has; 0 where that is not told.
pub(super) fn filters(thread: i32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_its_own_and_takes_anothers() {
        let own = Credentials::of_this_thread().unwrap();
        own.take().unwrap();
        // SAFETY:
        // - takes nothing
        if unsafe { libc::geteuid() } != 0 {
            return println!("SKIP a_thread_has_its_own_and_takes_anothers: only root has rights to give up");
        }
        let fewer = Credentials {
            users: [65534; 4],
            groups: [65533; 4],
            more_groups: vec![65532],
            capabilities: [Capabilities::default(); 2],
        };
        let some = Capabilities { effective: 1 << 2, permitted: 1 << 2 | 1 << 1, inheritable: 0 };
        let kept = Credentials { capabilities: [some, Capabilities::default()], ..fewer.clone() };
        let theirs = std::thread::spawn({
            let (fewer, kept) = (fewer.clone(), kept.clone());
            move || {
                kept.take().unwrap();
                let first = Credentials::of_this_thread().unwrap();
                fewer.take().unwrap();
                let back = kept.take().unwrap_err();
                (first, Credentials::of_this_thread().unwrap(), back.raw_os_error())
            }
        });
        assert_eq!(theirs.join().unwrap(), (kept, fewer, Some(libc::EPERM)));
        assert_eq!(Credentials::of_this_thread().unwrap(), own, "the thread's own alone");
    }
}

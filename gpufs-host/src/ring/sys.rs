//! The system calls that the rings need, and nothing of what they mean: `io_uring_setup(2)`, `io_uring_enter(2)`,
//! `io_uring_register(2)`, and a few questions about this process and kernel.

use std::ffi::{c_long, c_void};
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::thread::RawPthread;
use std::time::Duration;

use gpufs_core::Errno;
use gpufs_core::abi::Params;
use static_assertions::const_assert_eq;

// Addresses and offsets travel in one system call argument each.
const_assert_eq!(size_of::<usize>(), 8);

/// `syscall(2)` with up to six arguments: its result, or the errno.
///
/// # Safety
/// The system call does with `arguments` what its man page says; the caller must own whatever it touches.
pub(super) unsafe fn call(number: c_long, arguments: [u64; 6]) -> Result<i32, Errno> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY:
    // - what the call touches is the caller's, by this function's contract
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result >= 0 {
        // No call made here returns more than MAX_RW_COUNT, 0x7fff_f000.
        Ok(i32::try_from(result).unwrap_or(i32::MAX))
    } else {
        let number = io::Error::last_os_error().raw_os_error();
        Err(number.filter(|number| (1..=4095).contains(number)).map_or(Errno::IO, Errno::from_number))
    }
}

/// A signed argument (a descriptor, `AT_FDCWD`) as [`call`] wants it.
pub(super) const fn signed(value: i32) -> u64 {
    #[allow(clippy::cast_lossless, reason = "`i64::from` is not const")]
    (value as i64).cast_unsigned()
}

fn io_error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.number())
}

/// `io_uring_setup(2)`.
///
/// # Safety
/// With `IORING_SETUP_NO_MMAP`, `params` names page-aligned memory that is large enough for the rings and entries, is used
/// for nothing else, and outlives the ring.
pub(super) unsafe fn setup(entries: u32, params: &mut Params) -> io::Result<OwnedFd> {
    let params = (&raw mut *params).expose_provenance() as u64;
    // SAFETY:
    // - the kernel reads and writes one `Params`, which is borrowed for the call
    // - memory named in it is good, by this function's contract
    let fd =
        unsafe { call(libc::SYS_io_uring_setup, [entries.into(), params, 0, 0, 0, 0]) }.map_err(io_error)?;
    // SAFETY:
    // - the kernel has just made this descriptor, and nothing else owns it
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `io_uring_enter(2)` without a signal mask: how many entries were submitted.
pub(super) fn enter(
    ring: BorrowedFd<'_>,
    to_submit: u32,
    min_complete: u32,
    flags: u32,
) -> Result<u32, Errno> {
    let arguments = [signed(ring.as_raw_fd()), to_submit.into(), min_complete.into(), flags.into(), 0, 0];
    // SAFETY:
    // - the call itself touches no memory of ours; what the submitted entries touch is their producer's
    unsafe { call(libc::SYS_io_uring_enter, arguments) }.map(i32::cast_unsigned)
}

/// What [`enter_for`] passes: `struct io_uring_getevents_arg`.
#[repr(C)]
struct GetEvents {
    signals: u64,
    signals_bytes: u32,
    min_wait_us: u32,
    limit: u64,
}
const_assert_eq!(size_of::<GetEvents>(), 24);

/// [`enter`], which waits for at most so long: entries to submit, and completions to wait for. `ETIME` where none was submitted and the time was
/// over first.
pub(super) fn enter_for(
    ring: BorrowedFd<'_>,
    (to_submit, min_complete): (u32, u32),
    flags: u32,
    limit: Duration,
) -> Result<u32, Errno> {
    // `struct __kernel_timespec`.
    let limit = [limit.as_secs(), u64::from(limit.subsec_nanos())];
    let limit = (&raw const limit).expose_provenance() as u64;
    let argument = GetEvents { signals: 0, signals_bytes: 0, min_wait_us: 0, limit };
    let address = (&raw const argument).expose_provenance() as u64;
    let bytes = size_of::<GetEvents>() as u64;
    let arguments =
        [signed(ring.as_raw_fd()), to_submit.into(), min_complete.into(), flags.into(), address, bytes];
    // SAFETY:
    // - the kernel reads the argument and the limit, which live until the call has returned
    // - what the submitted entries touch is their producer's
    unsafe { call(libc::SYS_io_uring_enter, arguments) }.map(i32::cast_unsigned)
}

/// `io_uring_register(2)`.
///
/// # Safety
/// `argument` and `count` are what `opcode` wants, and memory that it registers stays valid while registered.
pub(super) unsafe fn register(
    ring: BorrowedFd<'_>,
    opcode: u32,
    argument: *const c_void,
    count: u32,
) -> io::Result<i32> {
    let address = argument.expose_provenance() as u64;
    let arguments = [signed(ring.as_raw_fd()), opcode.into(), address, count.into(), 0, 0];
    // SAFETY:
    // - the argument suits the opcode, by this function's contract
    unsafe { call(libc::SYS_io_uring_register, arguments) }.map_err(io_error)
}

/// The size of a page, in bytes; a power of two.
pub(super) fn page_bytes() -> usize {
    // SAFETY:
    // - `sysconf` touches no memory of ours
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// A soft limit of this process (`getrlimit(2)`); `None` where there is no limit.
pub(crate) fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY:
    // - the kernel writes one `rlimit`, which is borrowed for the call
    let result = unsafe { libc::getrlimit(resource, &raw mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// What `poll(2)` says of a descriptor now, without waiting. 0 too where the system has no memory to look.
pub(super) fn poll_now(fd: RawFd, events: i16) -> i16 {
    if fd < 0 {
        // `poll(2)` passes over it.
        return libc::POLLNVAL;
    }
    let mut wanted = libc::pollfd { fd, events, revents: 0 };
    // SAFETY:
    // - the kernel reads and writes one `pollfd`, which is borrowed for the call
    unsafe { libc::poll(&raw mut wanted, 1, 0) };
    wanted.revents
}

/// Blocks every signal in the calling thread, so that the program's handlers run in its own threads and a write to a
/// broken pipe is an error rather than a signal.
pub(crate) fn block_signals() {
    // SAFETY:
    // - all-zero is a valid `sigset_t`
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY:
    // - the set is borrowed for the call
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY:
    // - the set is borrowed for the call, and no old mask is asked for
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()) };
}

/// Blocks the signals by which the kernel answers reads and writes of the calling thread, so that those that it does for a ring have errors alone:
/// `SIGPIPE`, `SIGXFSZ`, and what a terminal sends to processes in the background.
pub(crate) fn block_signals_of_transfers() {
    // SAFETY:
    // - all-zero is a valid `sigset_t`
    let mut some: libc::sigset_t = unsafe { std::mem::zeroed() };
    for signal in [libc::SIGPIPE, libc::SIGXFSZ, libc::SIGTTIN, libc::SIGTTOU] {
        // SAFETY:
        // - the set is borrowed for the call
        unsafe { libc::sigaddset(&raw mut some, signal) };
    }
    // SAFETY:
    // - the set is borrowed for the call, and no old mask is asked for
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const some, std::ptr::null_mut()) };
}

/// The calling thread's number (`gettid(2)`).
pub(super) fn thread_number() -> i32 {
    // SAFETY:
    // - the call touches no memory
    unsafe { libc::gettid() }
}

/// Makes the calling thread's naps end within a microsecond of the time that they ask for, rather than fifty.
pub(super) fn sharpen_naps() {
    // SAFETY:
    // - this `prctl` takes one number and touches no memory
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1000_u64, 0, 0, 0) };
}

/// The processor time that a thread has used.
///
/// # Safety
/// `thread` has not been joined or detached.
pub(super) unsafe fn thread_cpu_time(thread: RawPthread) -> Duration {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY:
    // - the thread can still be named, by this function's contract
    // - the result is borrowed for the call
    let has_clock = unsafe { libc::pthread_getcpuclockid(thread, &raw mut clock) } == 0;
    // SAFETY:
    // - the result is borrowed for the call
    let known = has_clock && unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    match (known, seconds, nanoseconds) {
        (true, Ok(seconds), Ok(nanoseconds)) => Duration::new(seconds, nanoseconds),
        _ => Duration::ZERO,
    }
}

/// A release of Linux, as far as it decides what io_uring can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// The 6 of 6.18.
    pub major: u32,
    /// The 18 of 6.18.
    pub minor: u32,
}

impl Release {
    pub(super) const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
    /// The running kernel's (`uname(2)`); 0.0 if it cannot be told.
    #[must_use]
    pub fn running() -> Self {
        let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
        Self { major: numbers.next().unwrap_or(0), minor: numbers.next().unwrap_or(0) }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

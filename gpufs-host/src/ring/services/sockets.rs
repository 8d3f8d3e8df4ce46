//! Sockets: the services that set them up, and what the mode `threads` does for the operations of io_uring that move bytes and accept.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd as _, OwnedFd, RawFd};
use std::sync::Mutex;

use gpufs_core::Errno;
use gpufs_core::abi::{
    IORING_ACCEPT_DONTWAIT, IORING_OP_ACCEPT, IORING_OP_RECV, IORING_OP_RECVMSG, IORING_OP_SEND,
    IORING_OP_SENDMSG, PollFd, SERVICE_ACCEPT, SERVICE_BIND, SERVICE_CONNECT, SERVICE_GETPEERNAME,
    SERVICE_GETSOCKNAME, SERVICE_GETSOCKOPT, SERVICE_LISTEN, SERVICE_OTHER_END, SERVICE_PIPE, SERVICE_POLL,
    SERVICE_POLL_END, SERVICE_POLL_SET, SERVICE_SETSOCKOPT, SERVICE_SHUTDOWN, SERVICE_SOCKET,
    SERVICE_SOCKETPAIR, Sqe,
};

use super::super::operation::{File, Step};
use super::super::sys::{self, signed};
use super::super::workers::lock;

/// The most descriptors of one `poll`.
pub(in super::super) const POLL_MAX: u32 = 4096;

/// What the services of sockets keep between two entries.
#[derive(Debug, Default)]
pub(in super::super) struct Sockets {
    /// The second of two descriptors, by the first, until it is asked for.
    others: Mutex<HashMap<RawFd, OwnedFd>>,
    /// Descriptors that lanes wait for in the place of several.
    sets: Mutex<HashMap<RawFd, OwnedFd>>,
    /// Held while a descriptor that would wait is asked not to: another thread that did the same to it meanwhile would find it waiting.
    asked: Mutex<()>,
}

impl Sockets {
    /// Whether an operation code is one of these services.
    pub(super) fn has(opcode: u8) -> bool {
        (SERVICE_SOCKET..=SERVICE_POLL_END).contains(&opcode)
    }

    /// Does the service that `sqe` asks for.
    ///
    /// # Safety
    /// As for [`perform`](super::super::operation::perform).
    pub(super) unsafe fn perform(&self, sqe: &Sqe) -> Result<i32, Errno> {
        match sqe.opcode {
            SERVICE_SOCKETPAIR => self.pair(sqe),
            SERVICE_OTHER_END => self.other_end(sqe.fd),
            SERVICE_POLL_END => lock(&self.sets).remove(&sqe.fd).map(|_| 0).ok_or(Errno::BADF),
            // SAFETY:
            // - by this function's contract
            SERVICE_ACCEPT => unsafe { self.accept(sqe.fd, sqe) },
            // SAFETY:
            // - by this function's contract
            SERVICE_CONNECT => unsafe { self.connect(sqe) },
            // SAFETY:
            // - by this function's contract
            SERVICE_POLL_SET => unsafe { self.set(sqe) },
            // SAFETY:
            // - by this function's contract
            SERVICE_GETSOCKOPT | SERVICE_GETSOCKNAME | SERVICE_GETPEERNAME => unsafe { measured(sqe) },
            // SAFETY:
            // - by this function's contract
            _ => unsafe { one_call(sqe) },
        }
    }

    /// Takes back what an entry gave whose result nobody will see.
    pub(super) fn unseen(&self, sqe: &Sqe, result: i32) {
        match sqe.opcode {
            SERVICE_SOCKETPAIR | SERVICE_PIPE => {
                let _ = self.other_end(result).map(super::super::tasks::close_unseen);
                super::super::tasks::close_unseen(result);
            }
            SERVICE_SOCKET | SERVICE_ACCEPT | SERVICE_OTHER_END | IORING_OP_ACCEPT => {
                super::super::tasks::close_unseen(result);
            }
            SERVICE_POLL_SET => drop(lock(&self.sets).remove(&result)),
            _ => {}
        }
    }

    fn pair(&self, sqe: &Sqe) -> Result<i32, Errno> {
        let mut ends: [RawFd; 2] = [-1; 2];
        let kind = u64::from(sqe.op_flags) | signed(libc::SOCK_CLOEXEC);
        let into = (&raw mut ends).expose_provenance() as u64;
        let arguments = [sqe.len.into(), kind, sqe.file_index.into(), into, 0, 0];
        // SAFETY:
        // - the kernel writes two descriptors, which are alive
        unsafe { sys::call(libc::SYS_socketpair, arguments) }?;
        Ok(self.keep_other(ends.map(|end| {
            // SAFETY:
            // - the kernel has just made this descriptor, and nothing else owns it
            unsafe { OwnedFd::from_raw_fd(end) }
        })))
    }

    /// Keeps the second of two descriptors until it is asked for: the first.
    pub(super) fn keep_other(&self, [first, second]: [OwnedFd; 2]) -> i32 {
        let first = first.into_raw_fd();
        lock(&self.others).insert(first, second);
        first
    }

    fn other_end(&self, first: RawFd) -> Result<i32, Errno> {
        lock(&self.others).remove(&first).map(OwnedFd::into_raw_fd).ok_or(Errno::BADF)
    }

    /// `accept4(2)` of `fd`, which need not be one that does not wait: nobody else takes what is seen to be there.
    ///
    /// # Safety
    /// As for [`Sockets::perform`].
    unsafe fn accept(&self, fd: RawFd, sqe: &Sqe) -> Result<i32, Errno> {
        let _asked = lock(&self.asked);
        // What is no listening socket is hung up or ready, and the call says what is wrong.
        if sys::poll_now(fd, libc::POLLIN) == 0 {
            return Err(Errno::AGAIN);
        }
        let flags = u64::from(sqe.op_flags) | signed(libc::SOCK_CLOEXEC);
        // SAFETY:
        // - the kernel checks the addresses it is given, and their producer vouches for what they hold
        unsafe { sys::call(libc::SYS_accept4, [signed(fd), sqe.addr, sqe.off, flags, 0, 0]) }
    }

    /// `connect(2)` that does not wait.
    ///
    /// # Safety
    /// As for [`Sockets::perform`].
    unsafe fn connect(&self, sqe: &Sqe) -> Result<i32, Errno> {
        let _asked = lock(&self.asked);
        let flags = |command: i32, flags: i32| {
            // SAFETY:
            // - this `fcntl` takes numbers and touches no memory
            unsafe { sys::call(libc::SYS_fcntl, [signed(sqe.fd), signed(command), signed(flags), 0, 0, 0]) }
        };
        let has = flags(libc::F_GETFL, 0)?;
        let waits = has & libc::O_NONBLOCK == 0;
        if waits {
            flags(libc::F_SETFL, has | libc::O_NONBLOCK)?;
        }
        // SAFETY:
        // - the kernel checks the address it is given, and its producer vouches for what it holds
        let done =
            unsafe { sys::call(libc::SYS_connect, [signed(sqe.fd), sqe.addr, sqe.len.into(), 0, 0, 0]) };
        if waits {
            flags(libc::F_SETFL, has)?;
        }
        done
    }

    /// A descriptor that is ready when one of several is.
    ///
    /// # Safety
    /// As for [`Sockets::perform`].
    unsafe fn set(&self, sqe: &Sqe) -> Result<i32, Errno> {
        if sqe.len > POLL_MAX {
            return Err(Errno::INVAL);
        }
        let all = (0..sqe.len as usize).map(|index| {
            let place = (sqe.addr as *const PollFd).wrapping_add(index);
            // SAFETY:
            // - below the count of those that lie there, for which the producer vouches
            unsafe { place.read_unaligned() }
        });
        let set = poll_set(all)?;
        let number = set.as_raw_fd();
        lock(&self.sets).insert(number, set);
        Ok(number)
    }

    /// What the mode `threads` does for an operation of io_uring on a socket. As io_uring does, waits where the entry does not say otherwise.
    ///
    /// # Safety
    /// As for [`Sockets::perform`].
    pub(in super::super) unsafe fn operate(&self, sqe: &Sqe, file: File) -> Result<Step, Errno> {
        let fd = signed(file.raw());
        let flags = u64::from(sqe.op_flags) | signed(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        let (reads, waits) = (
            matches!(sqe.opcode, IORING_OP_RECV | IORING_OP_RECVMSG | IORING_OP_ACCEPT),
            match sqe.opcode {
                IORING_OP_ACCEPT => u32::from(sqe.ioprio) & IORING_ACCEPT_DONTWAIT == 0,
                _ => sqe.op_flags & libc::MSG_DONTWAIT.cast_unsigned() == 0,
            },
        );
        let (number, arguments) = match sqe.opcode {
            IORING_OP_SEND => (libc::SYS_sendto, [fd, sqe.addr, sqe.len.into(), flags, 0, 0]),
            IORING_OP_RECV => (libc::SYS_recvfrom, [fd, sqe.addr, sqe.len.into(), flags, 0, 0]),
            IORING_OP_SENDMSG => (libc::SYS_sendmsg, [fd, sqe.addr, flags, 0, 0, 0]),
            IORING_OP_RECVMSG => (libc::SYS_recvmsg, [fd, sqe.addr, flags, 0, 0, 0]),
            _ => (0, [0; 6]),
        };
        let done = if sqe.opcode == IORING_OP_ACCEPT {
            // SAFETY:
            // - by this function's contract
            unsafe { self.accept(file.raw(), sqe) }
        } else {
            // SAFETY:
            // - the bytes are the producer's until the CQE; the kernel checks that they are mapped
            unsafe { sys::call(number, arguments) }
        };
        match done {
            Err(Errno::AGAIN) if waits => {
                Ok(Step::Waits(file, if reads { libc::POLLIN } else { libc::POLLOUT }))
            }
            done => done.map(Step::Done),
        }
    }
}

/// A descriptor that is ready when one of several is (`epoll(7)`).
pub(in super::super) fn poll_set(all: impl Iterator<Item = PollFd>) -> Result<OwnedFd, Errno> {
    // SAFETY:
    // - the call takes a number
    let number = unsafe { sys::call(libc::SYS_epoll_create1, [signed(libc::EPOLL_CLOEXEC), 0, 0, 0, 0, 0]) }?;
    // SAFETY:
    // - the kernel has just made this descriptor, and nothing else owns it
    let set = unsafe { OwnedFd::from_raw_fd(number) };
    let mut wanted: HashMap<RawFd, u32> = HashMap::new();
    for one in all.filter(|one| one.fd >= 0) {
        *wanted.entry(one.fd).or_default() |= u32::from(one.events.cast_unsigned());
    }
    for (fd, events) in wanted {
        let event = libc::epoll_event { events, u64: 0 };
        let address = (&raw const event).expose_provenance() as u64;
        let arguments = [signed(set.as_raw_fd()), signed(libc::EPOLL_CTL_ADD), signed(fd), address, 0, 0];
        // SAFETY:
        // - the kernel reads one event, which is alive
        let added = unsafe { sys::call(libc::SYS_epoll_ctl, arguments) };
        // What is always ready, as a regular file is, has been seen to have none of the events.
        if added != Err(Errno::PERM) {
            added?;
        }
    }
    Ok(set)
}

/// Calls that fill memory and say how much.
///
/// # Safety
/// As for [`Sockets::perform`].
unsafe fn measured(sqe: &Sqe) -> Result<i32, Errno> {
    let mut length = sqe.len;
    let at = (&raw mut length).expose_provenance() as u64;
    let fd = signed(sqe.fd);
    let (level, name) = (sqe.off & u64::from(u32::MAX), sqe.off >> 32);
    let (number, arguments) = match sqe.opcode {
        SERVICE_GETSOCKOPT => (libc::SYS_getsockopt, [fd, level, name, sqe.addr, at, 0]),
        SERVICE_GETSOCKNAME => (libc::SYS_getsockname, [fd, sqe.addr, at, 0, 0, 0]),
        _ => (libc::SYS_getpeername, [fd, sqe.addr, at, 0, 0, 0]),
    };
    // SAFETY:
    // - the kernel checks the addresses it is given, and their producer vouches for what they hold; `length` is alive
    unsafe { sys::call(number, arguments) }?;
    i32::try_from(length).map_err(|_| Errno::OVERFLOW)
}

/// Services that are one system call, which takes numbers and addresses.
///
/// # Safety
/// As for [`Sockets::perform`].
unsafe fn one_call(sqe: &Sqe) -> Result<i32, Errno> {
    let (fd, addr, len) = (signed(sqe.fd), sqe.addr, u64::from(sqe.len));
    let (level, name) = (sqe.off & u64::from(u32::MAX), sqe.off >> 32);
    let (number, arguments) = match sqe.opcode {
        SERVICE_SOCKET => {
            let kind = u64::from(sqe.op_flags) | signed(libc::SOCK_CLOEXEC);
            (libc::SYS_socket, [len, kind, sqe.file_index.into(), 0, 0, 0])
        }
        SERVICE_BIND => (libc::SYS_bind, [fd, addr, len, 0, 0, 0]),
        SERVICE_LISTEN => (libc::SYS_listen, [fd, len, 0, 0, 0, 0]),
        SERVICE_SHUTDOWN => (libc::SYS_shutdown, [fd, len, 0, 0, 0, 0]),
        SERVICE_SETSOCKOPT => (libc::SYS_setsockopt, [fd, level, name, addr, len, 0]),
        SERVICE_POLL if sqe.len <= POLL_MAX => (libc::SYS_poll, [addr, len, 0, 0, 0, 0]),
        _ => return Err(Errno::INVAL),
    };
    // SAFETY:
    // - the kernel checks the addresses it is given, and their producer vouches for what they hold, by this function's contract
    unsafe { sys::call(number, arguments) }
}

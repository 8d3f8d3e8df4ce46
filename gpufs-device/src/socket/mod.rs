//! Sockets: TCP, UDP, Unix and what else [socket(2)](https://man7.org/linux/man-pages/man2/socket.2.html) makes, and `poll(2)`.
//!
//! A socket is a [`Descriptor`](crate::file::Descriptor), valid in every kernel and warp of the session. `read`, `write`, `dup`, `close` and `fdopen`
//! take it as they take a file: a stream on a connection prints with `fprintf` and reads lines with `fgets`. A socket that the host registers is one,
//! too.
//!
//! Each call is made by any lanes at once, each for itself. A warp's calls are tried as one batch; a lane that has to wait for its peer then waits by
//! itself, holds neither staging memory nor a lock, and keeps no other from being served. Where lanes of a warp run in lockstep (AMD's GPUs), a lane
//! that waits keeps the others of its warp from running: there, one warp serves one connection, or `poll` says which is ready.
//!
//! | file | calls | who does it |
//! |---|---|---|
//! | `setup.rs` | `socket`, `socketpair`, `bind`, `listen`, `shutdown`, `setsockopt`, `getsockopt`, `getsockname`, `getpeername` | the service ring |
//! | `connect.rs` | `accept`, `accept4`; `connect` | io_uring; the service ring |
//! | `transfer.rs` | `send`, `sendto`, `recv`, `recvfrom` | io_uring |
//! | `message.rs` | `sendmsg`, `recvmsg` | io_uring |
//! | `poll.rs` | `poll` | the service ring looks, io_uring waits |
//!
//! In a sandbox sockets are those that it names (`Sandbox::sockets`); what it does not name fails with `EACCES`. There the service ring does all of
//! it but the waiting ([R-SERVE-7](gpufs_core::protocol::services)). A socket that the host registered can be read and written there.
//!
//! What differs from the system's calls:
//!
//! | call | difference |
//! |---|---|
//! | all | no call raises `SIGPIPE`: a connection that is gone is `EPIPE`, as with `MSG_NOSIGNAL` |
//! | all | a socket closes on `execve(2)` (`SOCK_CLOEXEC`). `SOCK_NONBLOCK` is known to the session alone: its calls do not wait, the process's would |
//! | `send`, `recv` and their kin | `SO_RCVTIMEO` and `SO_SNDTIMEO` have no effect: `poll` has a time limit |
//! | `send`, `sendto`, `sendmsg` of a message | `EMSGSIZE` for more than 65,280 bytes, or less with smaller staging buffers (`Builder::buffers`), whatever the protocol allows; `recv` and its kin take in no more of one |
//! | `sendmsg`, `recvmsg` | without ancillary data: from C, `EOPNOTSUPP` for a message with some; what comes is dropped (`MSG_CTRUNC`) |
//! | `recv` into more than 16 KiB of memory that is not registered | gives 16 KiB at most, unless with `MSG_WAITALL` |
//! | `connect` of a Unix socket whose peer accepts too slowly | tries again, after rests of up to 20 ms |
//! | `poll` | of [`POLL_MAX`] descriptors at most (`EINVAL`) |

mod connect;
mod message;
mod poll;
mod setup;
mod transfer;

pub use gpufs_core::abi::{AF_INET, AF_INET6, AF_UNIX, PollFd, SocketAddress};
pub use message::Received;
pub use poll::{POLL_MAX, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI, POLLRDHUP};

use gpufs_core::session::OpenFile;

/// Of [`Fs::socket`](crate::Fs::socket): bytes in order, in both directions, between two that are connected.
pub const SOCK_STREAM: u32 = 1;
/// Of [`Fs::socket`](crate::Fs::socket): messages that arrive whole or not at all.
pub const SOCK_DGRAM: u32 = 2;
/// Of [`Fs::socket`](crate::Fs::socket): messages in order between two that are connected.
pub const SOCK_SEQPACKET: u32 = 5;
/// With the kind of a socket: its calls do not wait.
pub const SOCK_NONBLOCK: u32 = 0o4000;
/// With the kind of a socket: it closes on `execve(2)`, as each does.
pub const SOCK_CLOEXEC: u32 = 0o2_000_000;

/// Of [`Fs::shutdown`](crate::Fs::shutdown): nothing more is received.
pub const SHUT_RD: u32 = 0;
/// Of [`Fs::shutdown`](crate::Fs::shutdown): nothing more is sent, which the peer sees as the end.
pub const SHUT_WR: u32 = 1;
/// Of [`Fs::shutdown`](crate::Fs::shutdown): both.
pub const SHUT_RDWR: u32 = 2;

/// Urgent data.
pub const MSG_OOB: u32 = 1;
/// What is received stays to be received again.
pub const MSG_PEEK: u32 = 2;
/// Of [`Received`]: ancillary data came that was dropped.
pub const MSG_CTRUNC: u32 = 8;
/// Of [`Received`]: a record ends with it.
pub const MSG_EOR: u32 = 0x80;
/// The count is the message's length, also where it was cut.
pub const MSG_TRUNC: u32 = 0x20;
/// Fails with `EAGAIN` rather than wait.
pub const MSG_DONTWAIT: u32 = 0x40;
/// Waits until all bytes have come, the connection has ended, or failed.
pub const MSG_WAITALL: u32 = 0x100;
/// Raises no signal, as no call here does.
pub const MSG_NOSIGNAL: u32 = 0x4000;
/// More comes soon: it may be sent together.
pub const MSG_MORE: u32 = 0x8000;

/// Level of options of sockets of any kind ([socket(7)](https://man7.org/linux/man-pages/man7/socket.7.html)).
pub const SOL_SOCKET: u32 = 1;
/// Level of options of TCP ([tcp(7)](https://man7.org/linux/man-pages/man7/tcp.7.html)).
pub const IPPROTO_TCP: u32 = 6;
/// An `int`: an address may be bound again at once.
pub const SO_REUSEADDR: u32 = 2;
/// An `int`: the kind of the socket.
pub const SO_TYPE: u32 = 3;
/// An `int`: the error that waits, which is taken.
pub const SO_ERROR: u32 = 4;
/// An `int`: bytes of the buffer of what is to be sent.
pub const SO_SNDBUF: u32 = 7;
/// An `int`: bytes of the buffer of what was received.
pub const SO_RCVBUF: u32 = 8;
/// An `int`: silent connections are asked whether they live.
pub const SO_KEEPALIVE: u32 = 9;
/// An `int`: several sockets may be bound to one address, and share what comes.
pub const SO_REUSEPORT: u32 = 15;
/// An `int` of TCP: what is small is sent at once.
pub const TCP_NODELAY: u32 = 1;

/// The flags of a socket's entry in the file table, by what it was made with.
const fn entry_flags(kind: u32) -> u32 {
    let mut flags = OpenFile::OPEN | OpenFile::READABLE | OpenFile::WRITABLE | OpenFile::SOCKET;
    if kind & 0xf != SOCK_STREAM {
        flags |= OpenFile::MESSAGES;
    }
    if kind & SOCK_NONBLOCK != 0 {
        flags |= OpenFile::NONBLOCK;
    }
    flags
}

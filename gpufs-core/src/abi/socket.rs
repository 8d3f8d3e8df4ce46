//! Sockets: addresses, what `poll(2)` takes, and the entries for both. Layouts and numbers are those of Linux on x86-64, on every device.
//!
//! What moves bytes, and `accept`, are operations of io_uring that are told not to wait ([R-8]). What sets a socket up is a service: io_uring has it
//! since Linux 5.19 to 6.11 only, or not at all, and programs do it once.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use static_assertions::const_assert_eq;

use super::{
    Errno, IORING_ACCEPT_DONTWAIT, IORING_OP_ACCEPT, IORING_OP_RECV, IORING_OP_RECVMSG, IORING_OP_SEND,
    IORING_OP_SENDMSG, IORING_RECVSEND_POLL_FIRST, SERVICE_ACCEPT, SERVICE_BIND, SERVICE_CONNECT,
    SERVICE_GETPEERNAME, SERVICE_GETSOCKNAME, SERVICE_GETSOCKOPT, SERVICE_LISTEN, SERVICE_OTHER_END,
    SERVICE_POLL, SERVICE_POLL_END, SERVICE_POLL_SET, SERVICE_SETSOCKOPT, SERVICE_SHUTDOWN, SERVICE_SOCKET,
    SERVICE_SOCKETPAIR, Sqe,
};

/// Sockets between processes of one machine ([unix(7)](https://man7.org/linux/man-pages/man7/unix.7.html)).
pub const AF_UNIX: u16 = 1;
/// IPv4 ([ip(7)](https://man7.org/linux/man-pages/man7/ip.7.html)).
pub const AF_INET: u16 = 2;
/// IPv6 ([ipv6(7)](https://man7.org/linux/man-pages/man7/ipv6.7.html)).
pub const AF_INET6: u16 = 10;

/// The address of a socket: `struct sockaddr_storage` and how many of its bytes count.
///
/// ```text
/// IPv4  0 family(2) port(2, big-endian) address(4)                                  length 16
/// IPv6  0 family(2) port(2, big-endian) flow(4, big-endian) address(16) scope(4)    length 28
/// Unix  0 family(2) path                                                            length 2 + the path's
/// ```
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct SocketAddress {
    bytes: [u8; Self::BYTES],
    length: u32,
}
const_assert_eq!(size_of::<SocketAddress>(), 136);

impl SocketAddress {
    /// The longest address, in bytes: `sizeof(struct sockaddr_storage)`.
    pub const BYTES: usize = 128;
    /// The longest path of a Unix socket, with its NUL.
    pub const PATH_BYTES: usize = 108;
    /// No address: what a call that fills one in is given.
    pub const NONE: Self = Self { bytes: [0; Self::BYTES], length: 0 };

    /// The address of these bytes, as `bind(2)` takes one. It is not looked at.
    ///
    /// # Errors
    /// `EINVAL` for more than [`SocketAddress::BYTES`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Errno> {
        let mut address = Self::NONE;
        address.bytes.get_mut(..bytes.len()).ok_or(Errno::INVAL)?.copy_from_slice(bytes);
        #[expect(clippy::cast_possible_truncation, reason = "at most BYTES")]
        {
            address.length = bytes.len() as u32;
        }
        Ok(address)
    }
    /// A Unix socket at a path, which has no NUL in it; or, with a NUL as the first byte, of an abstract name.
    ///
    /// # Errors
    /// `EINVAL` for an empty path or one of [`SocketAddress::PATH_BYTES`] bytes or more.
    pub fn unix(path: &[u8]) -> Result<Self, Errno> {
        if path.is_empty() || path.len() >= Self::PATH_BYTES {
            return Err(Errno::INVAL);
        }
        let mut address = Self::NONE;
        address.bytes[..2].copy_from_slice(&AF_UNIX.to_ne_bytes());
        address.bytes[2..2 + path.len()].copy_from_slice(path);
        let end = if path[0] == 0 { 0 } else { 1 };
        #[expect(clippy::cast_possible_truncation, reason = "at most BYTES")]
        {
            address.length = (2 + path.len() + end) as u32;
        }
        Ok(address)
    }
    /// The bytes that count.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }
    /// How many bytes count.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length as usize
    }
    /// Whether it is no address: of a peer that has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }
    /// The memory for the bytes of an address.
    #[must_use]
    pub const fn storage(&mut self) -> &mut [u8; Self::BYTES] {
        &mut self.bytes
    }
    /// The same memory, of which `length` bytes count, [`SocketAddress::BYTES`] at most.
    pub const fn set_len(&mut self, length: u32) {
        self.length = if length as usize > Self::BYTES { Self::BYTES as u32 } else { length };
    }
    /// `AF_…`; 0 for none.
    #[must_use]
    pub const fn family(&self) -> u16 {
        if self.length < 2 { 0 } else { u16::from_ne_bytes([self.bytes[0], self.bytes[1]]) }
    }
    /// The address of IPv4 or IPv6 that it is.
    #[must_use]
    pub fn ip(&self) -> Option<SocketAddr> {
        let port = u16::from_be_bytes([self.bytes[2], self.bytes[3]]);
        match (self.family(), self.length) {
            (AF_INET, 16..) => {
                let octets: [u8; 4] = self.bytes[4..8].try_into().ok()?;
                Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(octets)), port))
            }
            (AF_INET6, 28..) => {
                let octets: [u8; 16] = self.bytes[8..24].try_into().ok()?;
                let flow = u32::from_be_bytes(self.bytes[4..8].try_into().ok()?);
                let scope = u32::from_ne_bytes(self.bytes[24..28].try_into().ok()?);
                Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(octets), port, flow, scope)))
            }
            _ => None,
        }
    }
    /// The path of the Unix socket that it is, without its NUL, or the abstract name with its NUL before it; empty where it has no name.
    #[must_use]
    pub fn unix_path(&self) -> Option<&[u8]> {
        let path = self.as_bytes().get(2..).filter(|_| self.family() == AF_UNIX)?;
        if path.first() == Some(&0) {
            return Some(path);
        }
        let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
        Some(&path[..end])
    }
}

impl From<SocketAddr> for SocketAddress {
    fn from(ip: SocketAddr) -> Self {
        let mut address = Self::NONE;
        address.bytes[2..4].copy_from_slice(&ip.port().to_be_bytes());
        let (family, length) = match ip {
            SocketAddr::V4(ip) => {
                address.bytes[4..8].copy_from_slice(&ip.ip().octets());
                (AF_INET, 16)
            }
            SocketAddr::V6(ip) => {
                address.bytes[4..8].copy_from_slice(&ip.flowinfo().to_be_bytes());
                address.bytes[8..24].copy_from_slice(&ip.ip().octets());
                address.bytes[24..28].copy_from_slice(&ip.scope_id().to_ne_bytes());
                (AF_INET6, 28)
            }
        };
        address.bytes[..2].copy_from_slice(&family.to_ne_bytes());
        Self { length, ..address }
    }
}

impl Default for SocketAddress {
    fn default() -> Self {
        Self::NONE
    }
}

impl PartialEq for SocketAddress {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for SocketAddress {}

impl fmt::Debug for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.ip(), self.unix_path()) {
            (Some(ip), _) => write!(f, "{ip}"),
            (_, Some(path)) => write!(f, "unix:{}", path.escape_ascii()),
            _ => write!(f, "{:02x?}", self.as_bytes()),
        }
    }
}

/// What `poll(2)` is asked of a descriptor, and what it says: `struct pollfd`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PollFd {
    /// The descriptor; one below 0 is passed over.
    pub fd: i32,
    /// What is wanted: [`POLLIN`](crate::abi::POLLIN) …
    pub events: i16,
    /// What there is: of `events`, and `POLLERR`, `POLLHUP`, `POLLNVAL`.
    pub revents: i16,
}
const_assert_eq!(size_of::<PollFd>(), 8);

/// `struct msghdr` for one piece of memory and no ancillary data, and behind it the `struct iovec` that names the piece. As words:
///
/// ```text
/// 0 name | 8 bytes of the name (32 bits) | 16 vectors | 24 1 | 32 no ancillary data (2 words) | 48 flags (32 bits)
/// 56 the piece's address | 64 its length
/// ```
///
/// `at` is where it will lie. `name` is an address and its bytes, or the room for one.
#[must_use]
pub const fn message_header(at: u64, name: (u64, u32), piece: (u64, u64)) -> [u64; 9] {
    [name.0, name.1 as u64, at + 56, 1, 0, 0, 0, piece.0, piece.1]
}

impl Sqe {
    /// `accept4(2)`, which fails with `EAGAIN` rather than wait: the peer's address to `address`, which has as many bytes as the 32-bit word at
    /// `length` says, and its length there. Completes with a descriptor; `EINVAL` also before Linux 6.10.
    #[must_use]
    pub const fn accept(fd: i32, address: u64, length: u64, accept_flags: u32) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the flag is bit 1")]
        let ioprio = IORING_ACCEPT_DONTWAIT as u16;
        Self {
            opcode: IORING_OP_ACCEPT,
            fd,
            ioprio,
            addr: address,
            off: length,
            op_flags: accept_flags,
            ..Self::ZERO
        }
    }
    /// `send(2)`. Completes with the count of bytes sent. No signal is raised.
    #[must_use]
    pub const fn send(fd: i32, addr: u64, len: u32, send_flags: u32) -> Self {
        Self { opcode: IORING_OP_SEND, fd, addr, len, op_flags: send_flags, ..Self::ZERO }
    }
    /// `recv(2)`. Completes with the count of bytes received.
    #[must_use]
    pub const fn recv(fd: i32, addr: u64, len: u32, recv_flags: u32) -> Self {
        Self { opcode: IORING_OP_RECV, fd, addr, len, op_flags: recv_flags, ..Self::ZERO }
    }
    /// The same where nothing is expected to have come yet: the kernel does not try before there is something. Before Linux 5.19: `EINVAL`.
    #[must_use]
    pub const fn recv_when_ready(fd: i32, addr: u64, len: u32, recv_flags: u32) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the first bit")]
        let ioprio = IORING_RECVSEND_POLL_FIRST as u16;
        Self { ioprio, ..Self::recv(fd, addr, len, recv_flags) }
    }
    /// `sendmsg(2)` of the [`message_header`] at `header`.
    #[must_use]
    pub const fn sendmsg(fd: i32, header: u64, send_flags: u32) -> Self {
        Self { opcode: IORING_OP_SENDMSG, fd, addr: header, len: 1, op_flags: send_flags, ..Self::ZERO }
    }
    /// `recvmsg(2)` with the [`message_header`] at `header`, which gets the length of the peer's address.
    #[must_use]
    pub const fn recvmsg(fd: i32, header: u64, recv_flags: u32) -> Self {
        Self { opcode: IORING_OP_RECVMSG, fd, addr: header, len: 1, op_flags: recv_flags, ..Self::ZERO }
    }

    /// `socket(2)`. Completes with a descriptor of the process, which closes on `execve(2)`.
    #[must_use]
    pub const fn socket(family: u32, kind: u32, protocol: u32) -> Self {
        Self { len: family, op_flags: kind, file_index: protocol, ..Self::service(SERVICE_SOCKET) }
    }
    /// `socketpair(2)`. Completes with the first end; [`Sqe::other_end`] has the second.
    #[must_use]
    pub const fn socketpair(family: u32, kind: u32, protocol: u32) -> Self {
        Self { len: family, op_flags: kind, file_index: protocol, ..Self::service(SERVICE_SOCKETPAIR) }
    }
    /// The second of two descriptors of which an entry completed with the first, `fd`. Once.
    #[must_use]
    pub const fn other_end(fd: i32) -> Self {
        Self { fd, ..Self::service(SERVICE_OTHER_END) }
    }
    /// `bind(2)` to the address of `length` bytes at `address`.
    #[must_use]
    pub const fn bind(fd: i32, address: u64, length: u32) -> Self {
        Self { fd, addr: address, len: length, ..Self::service(SERVICE_BIND) }
    }
    /// `listen(2)`.
    #[must_use]
    pub const fn listen(fd: i32, backlog: u32) -> Self {
        Self { fd, len: backlog, ..Self::service(SERVICE_LISTEN) }
    }
    /// [`Sqe::accept`], on any Linux.
    #[must_use]
    pub const fn accept_service(fd: i32, address: u64, length: u64, accept_flags: u32) -> Self {
        Self { fd, addr: address, off: length, op_flags: accept_flags, ..Self::service(SERVICE_ACCEPT) }
    }
    /// `connect(2)` to the address of `length` bytes at `address`, as of a descriptor that does not wait: `EINPROGRESS` until `POLLOUT`, and then
    /// the same again completes with the result.
    #[must_use]
    pub const fn connect(fd: i32, address: u64, length: u32) -> Self {
        Self { fd, addr: address, len: length, ..Self::service(SERVICE_CONNECT) }
    }
    /// `shutdown(2)`.
    #[must_use]
    pub const fn shutdown(fd: i32, how: u32) -> Self {
        Self { fd, len: how, ..Self::service(SERVICE_SHUTDOWN) }
    }
    /// `getsockopt(2)`: the option's value to the `bytes` bytes at `into`. Completes with how many bytes it has.
    #[must_use]
    pub const fn getsockopt(fd: i32, level: u32, name: u32, into: u64, bytes: u32) -> Self {
        let option = level as u64 | (name as u64) << 32;
        Self { fd, off: option, addr: into, len: bytes, ..Self::service(SERVICE_GETSOCKOPT) }
    }
    /// `setsockopt(2)` to the `bytes` bytes at `from`.
    #[must_use]
    pub const fn setsockopt(fd: i32, level: u32, name: u32, from: u64, bytes: u32) -> Self {
        let option = level as u64 | (name as u64) << 32;
        Self { fd, off: option, addr: from, len: bytes, ..Self::service(SERVICE_SETSOCKOPT) }
    }
    /// `getsockname(2)`: the address to the `bytes` bytes at `into`. Completes with how many bytes it has.
    #[must_use]
    pub const fn getsockname(fd: i32, into: u64, bytes: u32) -> Self {
        Self { fd, addr: into, len: bytes, ..Self::service(SERVICE_GETSOCKNAME) }
    }
    /// `getpeername(2)`, as [`Sqe::getsockname`].
    #[must_use]
    pub const fn getpeername(fd: i32, into: u64, bytes: u32) -> Self {
        Self { fd, addr: into, len: bytes, ..Self::service(SERVICE_GETPEERNAME) }
    }
    /// `poll(2)` of the `count` [`PollFd`]s at `all`, which does not wait. Completes with how many have something to say.
    #[must_use]
    pub const fn poll_all(all: u64, count: u32) -> Self {
        Self { addr: all, len: count, ..Self::service(SERVICE_POLL) }
    }
    /// A descriptor of the process that is ready for reading when `poll(2)` of the `count` [`PollFd`]s at `all` would return. Completes with it.
    #[must_use]
    pub const fn poll_set(all: u64, count: u32) -> Self {
        Self { addr: all, len: count, ..Self::service(SERVICE_POLL_SET) }
    }
    /// Closes a descriptor of [`Sqe::poll_set`].
    #[must_use]
    pub const fn poll_end(fd: i32) -> Self {
        Self { fd, ..Self::service(SERVICE_POLL_END) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        for text in ["127.0.0.1:80", "[::1]:65535", "[fe80::1%3]:7", "0.0.0.0:0"] {
            let ip: SocketAddr = text.parse().unwrap();
            let address = SocketAddress::from(ip);
            assert_eq!(address.ip(), Some(ip));
            assert_eq!(SocketAddress::from_bytes(address.as_bytes()), Ok(address));
            assert_eq!(format!("{address:?}"), text);
            assert_eq!(address.unix_path(), None);
        }
        for path in [&b"/tmp/socket"[..], b"\0abstract", &[b'x'; 107]] {
            let address = SocketAddress::unix(path).unwrap();
            assert_eq!(address.unix_path(), Some(path));
            assert_eq!(address.ip(), None);
        }
        for path in [&b""[..], &[b'x'; 108]] {
            assert_eq!(SocketAddress::unix(path), Err(Errno::INVAL));
        }
        assert_eq!(SocketAddress::from_bytes(&[0; 129]), Err(Errno::INVAL));
        assert!(SocketAddress::NONE.is_empty());
        let address = |text: &str| SocketAddress::from(text.parse::<SocketAddr>().unwrap());
        let addresses = ["127.0.0.1:80", "127.0.0.1:81", "[::1]:80"].map(address);
        for (index, one) in addresses.iter().enumerate() {
            assert!(addresses.iter().skip(index + 1).all(|other| one != other));
        }
        // A peer without a name: the family alone.
        let unnamed = SocketAddress::from_bytes(&AF_UNIX.to_ne_bytes()).unwrap();
        assert_eq!(unnamed.unix_path(), Some(&b""[..]));
    }

    #[test]
    fn a_length_is_cut_to_the_room() {
        let mut address = SocketAddress::NONE;
        address.set_len(4000);
        assert_eq!(address.len(), SocketAddress::BYTES);
    }
}

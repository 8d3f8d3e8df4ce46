//! Sockets: those that the sandbox names are made, and reach whom it names ([`Sockets`](super::super::sockets::Sockets)).
//!
//! Each address, header and vector that an entry points to is copied once, and the copy is checked and used. No ancillary data passes, which
//! could carry descriptors, and no flag or option that would make an address pass unseen. Behind this stands Landlock, for the ports of TCP. No
//! operation here waits ([R-SERVE-3]).

use std::os::fd::{IntoRawFd as _, RawFd};

use gpufs_core::Errno;
use gpufs_core::abi::{
    AF_INET, AF_INET6, AF_UNIX, IORING_OP_RECV, IORING_OP_RECVMSG, IORING_OP_SEND, IORING_OP_SENDMSG,
    IOSQE_FIXED_FILE, PollFd, SERVICE_ACCEPT, SERVICE_BIND, SERVICE_CONNECT, SERVICE_GETPEERNAME,
    SERVICE_GETSOCKNAME, SERVICE_GETSOCKOPT, SERVICE_LISTEN, SERVICE_OTHER_END, SERVICE_POLL,
    SERVICE_POLL_END, SERVICE_POLL_SET, SERVICE_SETSOCKOPT, SERVICE_SHUTDOWN, SERVICE_SOCKET,
    SERVICE_SOCKETPAIR, SocketAddress, Sqe,
};

use super::super::addresses::Memory;
use super::super::family::Held;
use super::super::operation::Tables;
use super::super::paths::held;
use super::super::services::{POLL_MAX, poll_set};
use super::super::sockets::{Side, Transport};
use super::super::sys::{self, signed};
use super::super::workers::lock;
use super::{Confined, Kind, Opened};

/// Flags of a transfer: urgent data, looking, cutting, not waiting, all of it, no signal, more to come. Not those that connect
/// (`MSG_FASTOPEN`), receive errors, or send from memory that stays in use.
const MESSAGE_FLAGS: i32 = libc::MSG_OOB
    | libc::MSG_PEEK
    | libc::MSG_TRUNC
    | libc::MSG_DONTWAIT
    | libc::MSG_WAITALL
    | libc::MSG_NOSIGNAL
    | libc::MSG_MORE;
/// Options: level and name. None lets a socket reach whom it could not, runs a filter, or makes closing wait.
const OPTIONS: [(i32, i32); 19] = [
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::SOL_SOCKET, libc::SO_TYPE),
    (libc::SOL_SOCKET, libc::SO_ERROR),
    (libc::SOL_SOCKET, libc::SO_SNDBUF),
    (libc::SOL_SOCKET, libc::SO_RCVBUF),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT),
    (libc::SOL_SOCKET, libc::SO_ACCEPTCONN),
    (libc::SOL_SOCKET, libc::SO_PROTOCOL),
    (libc::SOL_SOCKET, libc::SO_DOMAIN),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_MAXSEG),
    (libc::IPPROTO_TCP, libc::TCP_CORK),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    (libc::IPPROTO_TCP, libc::TCP_QUICKACK),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
];
/// Words of a `struct msghdr`.
const HEADER_WORDS: usize = 7;
/// Its words, behind the name's address.
const NAME_BYTES: usize = 1;
const PIECES: usize = 2;
const PIECE_COUNT: usize = 3;
const ANCILLARY: usize = 4;
const ANCILLARY_BYTES: usize = 5;
const FLAGS: usize = 6;
const POLL_BYTES: u64 = size_of::<PollFd>() as u64;

/// Whether an operation is one of those below.
pub(super) const fn is_of_sockets(opcode: u8) -> bool {
    matches!(opcode, IORING_OP_SEND | IORING_OP_RECV | IORING_OP_SENDMSG | IORING_OP_RECVMSG)
        || (opcode >= SERVICE_SOCKET && opcode <= SERVICE_POLL_END && opcode != SERVICE_OTHER_END)
}

impl Confined {
    /// What `sqe` asks of sockets, where it is allowed.
    ///
    /// # Safety
    /// As for [`perform`](super::super::operation::perform).
    pub(super) unsafe fn on_sockets(&self, sqe: &Sqe, tables: &Tables) -> Result<i32, Errno> {
        // What is polled are descriptors that entries may name, pipes among them.
        let polls = matches!(sqe.opcode, SERVICE_POLL | SERVICE_POLL_SET | SERVICE_POLL_END);
        if (self.sockets.is_empty() && !polls) || u32::from(sqe.flags) & IOSQE_FIXED_FILE != 0 {
            return Err(Errno::ACCES);
        }
        let memory = Memory::of(tables);
        match sqe.opcode {
            SERVICE_SOCKET => self.make(sqe),
            SERVICE_SOCKETPAIR => self.pair(sqe),
            SERVICE_POLL | SERVICE_POLL_SET => self.poll(sqe, memory),
            SERVICE_POLL_END => self.end_poll(sqe.fd),
            IORING_OP_SEND | IORING_OP_RECV => {
                let (_, socket) = self.socket(sqe.fd)?;
                memory.check(sqe.addr, sqe.len.into())?;
                let call = if sqe.opcode == IORING_OP_SEND { libc::SYS_sendto } else { libc::SYS_recvfrom };
                let flags = message_flags(sqe)?;
                let arguments = [signed(socket.fd), sqe.addr, sqe.len.into(), flags, 0, 0];
                // SAFETY:
                // - the bytes lie in the session's memory, as checked, and are the producer's until the CQE
                unsafe { sys::call(call, arguments) }
            }
            IORING_OP_SENDMSG | IORING_OP_RECVMSG => self.message(sqe, memory),
            SERVICE_ACCEPT => {
                // SAFETY:
                // - by this function's contract
                unsafe { self.accept(sqe, memory, tables) }
            }
            SERVICE_CONNECT => {
                let (socket, peer) = self.named(sqe, memory, Side::To)?;
                let peer = peer.as_bytes();
                let at = peer.as_ptr().expose_provenance() as u64;
                #[expect(clippy::cast_possible_truncation, reason = "at most the bytes of an address")]
                let copy = Sqe { fd: socket.fd, addr: at, len: peer.len() as u32, ..*sqe };
                // SAFETY:
                // - the address is a copy, which lives during the call
                unsafe { tables.services.perform(&copy) }
            }
            SERVICE_BIND => {
                let (socket, own) = self.named(sqe, memory, Side::At)?;
                let own = own.as_bytes();
                let at = own.as_ptr().expose_provenance() as u64;
                // SAFETY:
                // - the address is a copy, which lives during the call
                unsafe { sys::call(libc::SYS_bind, [signed(socket.fd), at, own.len() as u64, 0, 0, 0]) }
            }
            _ => {
                // SAFETY:
                // - by this function's contract
                unsafe { self.on_one(sqe, memory, tables) }
            }
        }
    }

    /// A socket that an entry made, which no entry can close meanwhile.
    fn socket(&self, number: RawFd) -> Result<(Opened, Held), Errno> {
        let (of, socket) = self.held(number)?;
        if matches!(of.kind, Kind::Tcp | Kind::Udp | Kind::Pair) {
            Ok((of, socket))
        } else {
            Err(Errno::ACCES)
        }
    }

    fn make(&self, sqe: &Sqe) -> Result<i32, Errno> {
        let family = u16::try_from(sqe.len).map_err(|_| Errno::ACCES)?;
        let kind = sqe.op_flags.cast_signed() & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        let protocol = sqe.file_index.cast_signed();
        let (transport, of) = match (kind, protocol) {
            (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => (Transport::Tcp, Kind::Tcp),
            (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => (Transport::Udp, Kind::Udp),
            _ => return Err(Errno::ACCES),
        };
        if !matches!(family, AF_INET | AF_INET6) || !self.sockets.makes(transport, family == AF_INET6) {
            return Err(Errno::ACCES);
        }
        let kind = u64::from(sqe.op_flags) | signed(libc::SOCK_CLOEXEC);
        // SAFETY:
        // - the call takes numbers
        let number =
            unsafe { sys::call(libc::SYS_socket, [family.into(), kind, signed(protocol), 0, 0, 0]) }?;
        Ok(self.enter(number, Opened::of(of)))
    }

    fn pair(&self, sqe: &Sqe) -> Result<i32, Errno> {
        if !self.sockets.pairs || sqe.len != u32::from(AF_UNIX) {
            return Err(Errno::ACCES);
        }
        let mut ends: [RawFd; 2] = [-1; 2];
        let kind = u64::from(sqe.op_flags) | signed(libc::SOCK_CLOEXEC);
        let into = (&raw mut ends).expose_provenance() as u64;
        let arguments = [sqe.len.into(), kind, sqe.file_index.into(), into, 0, 0];
        // SAFETY:
        // - the kernel writes two descriptors, which are alive
        unsafe { sys::call(libc::SYS_socketpair, arguments) }?;
        Ok(self.enter_two(ends, Kind::Pair))
    }

    /// The socket that an entry names, and a copy of the address, which is one that is allowed.
    fn named(&self, sqe: &Sqe, memory: Memory<'_>, side: Side) -> Result<(Held, SocketAddress), Errno> {
        let (of, socket) = self.socket(sqe.fd)?;
        let address = memory.socket_address(sqe.addr, sqe.len)?;
        self.allow(of, side, &address)?;
        Ok((socket, address))
    }
    fn allow(&self, of: Opened, side: Side, address: &SocketAddress) -> Result<(), Errno> {
        let transport = match of.kind {
            Kind::Tcp => Transport::Tcp,
            Kind::Udp => Transport::Udp,
            _ => return Err(Errno::ACCES),
        };
        let ip = address.ip().ok_or(Errno::ACCES)?;
        if self.sockets.allows(transport, side, ip) { Ok(()) } else { Err(Errno::ACCES) }
    }

    /// # Safety
    /// As for [`perform`](super::super::operation::perform).
    unsafe fn accept(&self, sqe: &Sqe, memory: Memory<'_>, tables: &Tables) -> Result<i32, Errno> {
        let (of, socket) = self.socket(sqe.fd)?;
        if of.kind != Kind::Tcp {
            return Err(Errno::ACCES);
        }
        let mut room = [0; 4];
        memory.copy(sqe.off, &mut room)?;
        let room = u32::from_ne_bytes(room);
        memory.check(sqe.addr, room.into())?;
        let (mut peer, mut length) = (SocketAddress::NONE, SocketAddress::BYTES as u32);
        let copy = Sqe {
            fd: socket.fd,
            addr: peer.storage().as_mut_ptr().expose_provenance() as u64,
            off: (&raw mut length).expose_provenance() as u64,
            ..*sqe
        };
        // SAFETY:
        // - the address and its length are written to memory of this function's, which lives during the call
        let number = unsafe { tables.services.perform(&copy) }?;
        peer.set_len(length);
        let number = self.enter(number, Opened::of(Kind::Tcp));
        memory.put(sqe.addr, &peer.as_bytes()[..peer.len().min(room as usize)])?;
        memory.put(sqe.off, &length.to_ne_bytes())?;
        Ok(number)
    }

    /// A message with an address, or with room for one.
    fn message(&self, sqe: &Sqe, memory: Memory<'_>) -> Result<i32, Errno> {
        let (of, socket) = self.socket(sqe.fd)?;
        let flags = message_flags(sqe)?;
        let sends = sqe.opcode == IORING_OP_SENDMSG;
        let mut header: [u64; HEADER_WORDS] = memory.words(sqe.addr)?;
        if header[PIECE_COUNT] != 1 || header[ANCILLARY] != 0 || header[ANCILLARY_BYTES] != 0 {
            return Err(Errno::ACCES);
        }
        let piece: [u64; 2] = memory.words(header[PIECES])?;
        memory.check(piece[0], piece[1])?;
        let (name_at, name_bytes) = (header[0], header[NAME_BYTES] as u32);
        let mut name = SocketAddress::NONE;
        if name_at == 0 {
            header[NAME_BYTES] = 0;
        } else if sends {
            name = memory.socket_address(name_at, name_bytes)?;
            self.allow(of, Side::To, &name)?;
            header[NAME_BYTES] = name.len() as u64;
        } else {
            memory.check(name_at, name_bytes.into())?;
            header[NAME_BYTES] = SocketAddress::BYTES as u64;
        }
        if name_at != 0 {
            header[0] = name.storage().as_mut_ptr().expose_provenance() as u64;
        }
        header[PIECES] = (&raw const piece).expose_provenance() as u64;
        let at = (&raw mut header).expose_provenance() as u64;
        let call = if sends { libc::SYS_sendmsg } else { libc::SYS_recvmsg };
        // SAFETY:
        // - header, name and piece are copies, which live during the call; the bytes lie in the session's memory, as checked
        let done = unsafe { sys::call(call, [signed(socket.fd), at, flags, 0, 0, 0]) }?;
        if !sends {
            let length = header[NAME_BYTES] as u32;
            if name_at != 0 {
                name.set_len(length);
                memory.put(name_at, &name.as_bytes()[..name.len().min(name_bytes as usize)])?;
            }
            memory.put(sqe.addr + 8 * NAME_BYTES as u64, &length.to_ne_bytes())?;
            memory.put(sqe.addr + 8 * FLAGS as u64, &(header[FLAGS] as u32).to_ne_bytes())?;
        }
        Ok(done)
    }

    /// What takes a socket, numbers, and memory of a length that is said.
    ///
    /// # Safety
    /// As for [`perform`](super::super::operation::perform).
    unsafe fn on_one(&self, sqe: &Sqe, memory: Memory<'_>, tables: &Tables) -> Result<i32, Errno> {
        let (of, socket) = self.socket(sqe.fd)?;
        match sqe.opcode {
            // One without an address would get one of its own, on each interface.
            SERVICE_LISTEN if of.kind != Kind::Tcp || !is_bound(&socket) => return Err(Errno::ACCES),
            SERVICE_LISTEN | SERVICE_SHUTDOWN => {}
            SERVICE_GETSOCKNAME | SERVICE_GETPEERNAME => memory.check(sqe.addr, sqe.len.into())?,
            SERVICE_GETSOCKOPT | SERVICE_SETSOCKOPT => {
                memory.check(sqe.addr, sqe.len.into())?;
                let option =
                    OPTIONS.iter().any(|&(level, name)| signed(level) | signed(name) << 32 == sqe.off);
                if !option {
                    return Err(Errno::ACCES);
                }
            }
            _ => return Err(Errno::ACCES),
        }
        // SAFETY:
        // - by this function's contract; the memory is the session's, as checked
        unsafe { tables.services.perform(&Sqe { fd: socket.fd, ..*sqe }) }
    }

    /// Looks at several descriptors, or makes one that stands for them.
    fn poll(&self, sqe: &Sqe, memory: Memory<'_>) -> Result<i32, Errno> {
        if sqe.len > POLL_MAX {
            return Err(Errno::INVAL);
        }
        let place = |index: usize| sqe.addr + index as u64 * POLL_BYTES;
        let mut bytes = vec![0; sqe.len as usize * POLL_BYTES as usize];
        memory.copy(sqe.addr, &mut bytes)?;
        let mut all: Vec<PollFd> = bytes.chunks_exact(POLL_BYTES as usize).map(poll_entry).collect();
        if sqe.opcode == SERVICE_POLL_SET {
            for entry in all.iter().filter(|entry| entry.fd >= 0) {
                self.known(entry.fd)?;
            }
            let number = poll_set(all.into_iter())?.into_raw_fd();
            return Ok(self.enter(number, Opened { closes: false, ..Opened::of(Kind::Set) }));
        }
        let unknown: Vec<bool> =
            all.iter().map(|entry| entry.fd >= 0 && self.known(entry.fd).is_err()).collect();
        for (entry, _) in all.iter_mut().zip(&unknown).filter(|(_, unknown)| **unknown) {
            entry.fd = -1;
        }
        let at = all.as_mut_ptr().expose_provenance() as u64;
        // SAFETY:
        // - the kernel reads and writes as many entries, which are copies
        let ready = unsafe { sys::call(libc::SYS_poll, [at, sqe.len.into(), 0, 0, 0, 0]) }?;
        let mut closed = 0;
        for (index, (entry, unknown)) in all.iter().zip(unknown).enumerate() {
            let revents = if unknown { libc::POLLNVAL } else { entry.revents };
            closed += i32::from(unknown);
            memory.put(place(index) + 6, &revents.to_ne_bytes())?;
        }
        Ok(ready + closed)
    }

    /// Closes what stood for several.
    fn end_poll(&self, number: RawFd) -> Result<i32, Errno> {
        let mut opened = lock(&self.opened);
        if opened.get(&number).is_none_or(|of| of.kind != Kind::Set) {
            return Err(Errno::BADF);
        }
        opened.remove(&number);
        drop(held(number));
        Ok(0)
    }
}

fn poll_entry(bytes: &[u8]) -> PollFd {
    let half = |at: usize| i16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    PollFd {
        fd: i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        events: half(4),
        revents: half(6),
    }
}

fn message_flags(sqe: &Sqe) -> Result<u64, Errno> {
    if sqe.op_flags & !MESSAGE_FLAGS.cast_unsigned() != 0 || sqe.ioprio != 0 {
        return Err(Errno::ACCES);
    }
    Ok(u64::from(sqe.op_flags) | signed(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL))
}

/// Whether a socket of IPv4 or IPv6 has a port.
fn is_bound(socket: &Held) -> bool {
    let (mut own, mut length) = (SocketAddress::NONE, SocketAddress::BYTES as u32);
    let at = own.storage().as_mut_ptr().expose_provenance() as u64;
    let arguments = [signed(socket.fd), at, (&raw mut length).expose_provenance() as u64, 0, 0, 0];
    // SAFETY:
    // - the kernel writes the address and its length, which are alive
    let asked = unsafe { sys::call(libc::SYS_getsockname, arguments) };
    own.set_len(length);
    asked.is_ok() && own.ip().is_some_and(|ip| ip.port() != 0)
}

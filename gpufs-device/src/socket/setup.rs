//! What makes a socket, names it, and sets its options: services.

use gpufs_core::abi::{SocketAddress, Sqe};
use gpufs_core::failures::counted;
use gpufs_core::session::{OpenFile, SessionTables};
use gpufs_core::{Call, Errno};

use super::{SOCK_CLOEXEC, SOCK_NONBLOCK, entry_flags};
use crate::Fs;
use crate::file::{Descriptor, claim, claim_two, entered};
use crate::io::{serve, serve_staged};
use crate::warp::Lanes;

/// The most bytes of an option's value.
const OPTION_BYTES_MAX: usize = 4096;

impl Fs {
    /// Makes a socket, as [socket(2)](https://man7.org/linux/man-pages/man2/socket.2.html): of the family [`AF_INET`](super::AF_INET) …, of the kind
    /// [`SOCK_STREAM`](super::SOCK_STREAM) …, with [`SOCK_NONBLOCK`] if its calls are not to wait.
    ///
    /// # Errors
    /// The system call's: `EAFNOSUPPORT`, `EPROTONOSUPPORT`, `EINVAL`; `EMFILE` too where the session's file table is full. `EACCES` for one that a
    /// sandbox does not name.
    pub fn socket(self, family: u16, kind: u32, protocol: u32) -> Result<Descriptor, Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Socket);
        let claimed = claim(session);
        let entry = claimed.ok().map(|_| Sqe::socket(family.into(), kind & !SOCK_NONBLOCK, protocol));
        let made = Errno::check(serve(session, lanes, entry));
        counted(
            session,
            Call::Socket,
            claimed.and_then(|index| entered(session, index, made, entry_flags(kind))),
        )
    }

    /// Makes two sockets that are connected, as [socketpair(2)](https://man7.org/linux/man-pages/man2/socketpair.2.html).
    ///
    /// # Errors
    /// As [`Fs::socket`]; `EOPNOTSUPP` for a family other than [`AF_UNIX`](super::AF_UNIX).
    pub fn socketpair(self, family: u16, kind: u32, protocol: u32) -> Result<[Descriptor; 2], Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Socketpair);
        let claimed = claim_two(session);
        let entry = claimed.ok().map(|_| Sqe::socketpair(family.into(), kind & !SOCK_NONBLOCK, protocol));
        let first = Errno::check(serve(session, lanes, entry));
        let other = entry.and(first.ok()).map(|first| Sqe::other_end(first.cast_signed()));
        let second = Errno::check(serve(session, lanes, other));
        let made = claimed.and_then(|[one, two]| {
            let second = first.and(second);
            let one = entered(session, one, first, entry_flags(kind));
            let two = entered(session, two, second, entry_flags(kind));
            Ok([one?, two?])
        });
        counted(session, Call::Socketpair, made)
    }

    /// Gives a socket its address, as [bind(2)](https://man7.org/linux/man-pages/man2/bind.2.html).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; the system call's: `EADDRINUSE`, `EACCES`, `EINVAL`, `EADDRNOTAVAIL` …
    pub fn bind(self, socket: Descriptor, address: &SocketAddress) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Bind);
        let session = self.session();
        let number = number_of(session, socket);
        let bytes = number.ok().map(|_| SocketAddress::BYTES as u64);
        let bound = serve_staged(
            session,
            lanes,
            bytes,
            |area| {
                area.put(0, address.as_bytes());
                Sqe::bind(number.unwrap_or(-1), area.address, address.len() as u32)
            },
            |_, _| {},
        );
        counted(session, Call::Bind, number.and(bound.map(drop)))
    }

    /// Lets a socket accept connections, as [listen(2)](https://man7.org/linux/man-pages/man2/listen.2.html): `backlog` of them may wait.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; the system call's: `EADDRINUSE`, `EOPNOTSUPP` …
    pub fn listen(self, socket: Descriptor, backlog: u32) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Listen);
        self.plain(lanes, Call::Listen, socket, |number| Sqe::listen(number, backlog))
    }

    /// Ends one direction of a connection or both, as [shutdown(2)](https://man7.org/linux/man-pages/man2/shutdown.2.html):
    /// [`SHUT_RD`](super::SHUT_RD), [`SHUT_WR`](super::SHUT_WR) or [`SHUT_RDWR`](super::SHUT_RDWR). Lanes that wait for it go on. Of a listening
    /// socket it ends those that wait in `accept`, with `EINVAL`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; the system call's: `ENOTCONN`, `EINVAL`.
    pub fn shutdown(self, socket: Descriptor, how: u32) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Shutdown);
        self.plain(lanes, Call::Shutdown, socket, |number| Sqe::shutdown(number, how))
    }

    /// A service that takes numbers. Convergent; called by `lanes`.
    fn plain(
        self,
        lanes: Lanes,
        call: Call,
        socket: Descriptor,
        entry: impl Fn(i32) -> Sqe,
    ) -> Result<(), Errno> {
        let session = self.session();
        let number = number_of(session, socket);
        let done = Errno::check(serve(session, lanes, number.ok().map(entry)));
        counted(session, call, number.and(done.map(drop)))
    }

    /// Sets an option, as [setsockopt(2)](https://man7.org/linux/man-pages/man2/setsockopt.2.html): `name` of `level` to `value`, an `int`'s bytes as
    /// a rule.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `EINVAL` for a value of more than 4,096 bytes; the system call's: `ENOPROTOOPT`, `EINVAL`, `EDOM` …
    pub fn setsockopt(self, socket: Descriptor, level: u32, name: u32, value: &[u8]) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Setsockopt);
        let session = self.session();
        let fits = if value.len() > OPTION_BYTES_MAX { Err(Errno::INVAL) } else { Ok(()) };
        let number = number_of(session, socket).and_then(|number| fits.map(|()| number));
        let bytes = number.ok().map(|_| value.len() as u64);
        let set = serve_staged(
            session,
            lanes,
            bytes,
            |area| {
                area.put(0, value);
                Sqe::setsockopt(number.unwrap_or(-1), level, name, area.address, value.len() as u32)
            },
            |_, _| {},
        );
        counted(session, Call::Setsockopt, number.and(set.map(drop)))
    }

    /// An option's value, as [getsockopt(2)](https://man7.org/linux/man-pages/man2/getsockopt.2.html), cut to `value`: how many bytes of it.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; the system call's: `ENOPROTOOPT`, `EINVAL` …
    pub fn getsockopt(
        self,
        socket: Descriptor,
        level: u32,
        name: u32,
        value: &mut [u8],
    ) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Getsockopt);
        let session = self.session();
        let number = number_of(session, socket);
        let room = value.len().min(OPTION_BYTES_MAX);
        let bytes = number.ok().map(|_| room as u64);
        let got = serve_staged(
            session,
            lanes,
            bytes,
            |area| Sqe::getsockopt(number.unwrap_or(-1), level, name, area.address, room as u32),
            |area, length| area.take(0, &mut value[..room.min(length as usize)]),
        );
        counted(session, Call::Getsockopt, number.and(got).map(|length| room.min(length as usize)))
    }

    /// The address of a socket, as [getsockname(2)](https://man7.org/linux/man-pages/man2/getsockname.2.html).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn getsockname(self, socket: Descriptor) -> Result<SocketAddress, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Getsockname);
        counted(self.session(), Call::Getsockname, self.name(lanes, socket, Sqe::getsockname))
    }

    /// The address of a socket's peer, as [getpeername(2)](https://man7.org/linux/man-pages/man2/getpeername.2.html).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `ENOTCONN`.
    pub fn getpeername(self, socket: Descriptor) -> Result<SocketAddress, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Getpeername);
        counted(self.session(), Call::Getpeername, self.name(lanes, socket, Sqe::getpeername))
    }

    /// Convergent; called by `lanes`.
    fn name(
        self,
        lanes: Lanes,
        socket: Descriptor,
        entry: impl Fn(i32, u64, u32) -> Sqe,
    ) -> Result<SocketAddress, Errno> {
        const BYTES: u32 = SocketAddress::BYTES as u32;
        let session = self.session();
        let number = number_of(session, socket);
        let mut address = SocketAddress::NONE;
        let asked = serve_staged(
            session,
            lanes,
            number.ok().map(|_| BYTES.into()),
            |area| entry(number.unwrap_or(-1), area.address, BYTES),
            |area, length| {
                area.take(0, address.storage());
                address.set_len(length);
            },
        );
        number.and(asked).map(|_| address)
    }
}

/// The process's descriptor of a socket.
pub(super) fn number_of(session: &SessionTables, socket: Descriptor) -> Result<i32, Errno> {
    let (file, flags) = session.file_and_flags(socket)?;
    if flags & OpenFile::SOCKET == 0 { Err(Errno::NOTSOCK) } else { Ok(file.descriptor.peek().cast_signed()) }
}

/// Whether `accept4` knows these flags.
pub(super) const fn are_known(flags: u32) -> bool {
    flags & !(SOCK_NONBLOCK | SOCK_CLOEXEC) == 0
}

//! `accept(2)`, `accept4(2)`, `connect(2)`: calls that wait for a peer.

use gpufs_core::abi::{POLLIN, POLLOUT, SocketAddress, Sqe};
use gpufs_core::failures::counted;
use gpufs_core::session::{OpenFile, SessionTables};
use gpufs_core::{Call, Claim, Errno};

use super::setup::{are_known, number_of};
use super::{SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM, entry_flags};
use crate::Fs;
use crate::file::{Descriptor, claim, enter};
use crate::io::{
    Awaited, Progress, Rests, ring_of_warp, serve, serve_staged, staged, transact_open, until_done,
};
use crate::warp::Lanes;

/// Where the length of an address lies in staging memory, behind the address.
const LENGTH_AT: u32 = SocketAddress::BYTES as u32;
const BYTES: u64 = SocketAddress::BYTES as u64 + 4;

impl Fs {
    /// Takes the next connection, as [accept(2)](https://man7.org/linux/man-pages/man2/accept.2.html), and waits for one: a new socket, with its
    /// peer's address in `peer`. Each is given to one lane. A lane that waits holds an entry of the file table.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `EMFILE` where the session's file table is full, or the process has no descriptor left; the system call's: `EINVAL` for
    /// a socket that does not listen, or that was shut down meanwhile, `EAGAIN` with [`SOCK_NONBLOCK`], `ECONNABORTED` …
    pub fn accept(self, socket: Descriptor, peer: Option<&mut SocketAddress>) -> Result<Descriptor, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Accept);
        counted(self.session(), Call::Accept, self.accept_one(lanes, socket, peer, 0))
    }

    /// [`Fs::accept`] with flags, as [accept4(2)](https://man7.org/linux/man-pages/man2/accept4.2.html): with [`SOCK_NONBLOCK`], calls on the new
    /// socket do not wait.
    ///
    /// # Errors
    /// As [`Fs::accept`]; `EINVAL` for another flag.
    pub fn accept4(
        self,
        socket: Descriptor,
        peer: Option<&mut SocketAddress>,
        flags: u32,
    ) -> Result<Descriptor, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Accept4);
        counted(self.session(), Call::Accept4, self.accept_one(lanes, socket, peer, flags))
    }

    /// Convergent; called by `lanes`.
    fn accept_one(
        self,
        lanes: Lanes,
        socket: Descriptor,
        peer: Option<&mut SocketAddress>,
        flags: u32,
    ) -> Result<Descriptor, Errno> {
        let session = self.session();
        let known = if are_known(flags) { Ok(()) } else { Err(Errno::INVAL) };
        let awaited = known.and_then(|()| Awaited::socket(session, socket, POLLIN));
        let claimed = awaited.and_then(|awaited| Ok((awaited, claim(session)?)));
        let mut address = SocketAddress::NONE;
        let mut outcome = Err(Errno::BADF);
        let waiting = claimed.ok().map(|(awaited, _)| awaited);
        let waited = until_done(session, lanes, waiting, |lanes, takes_part| {
            let wanted = claimed.and_then(|(_, index)| Ok((number_of(session, socket)?, index)));
            outcome = wanted.map(|_| 0);
            let wanted = wanted.ok().filter(|_| takes_part);
            if let Some(asked) = ask(session, lanes, wanted, &mut address) {
                outcome = asked;
            }
            match outcome {
                Err(Errno::AGAIN) if waiting.is_some_and(|awaited| awaited.waits()) => Progress::Waits,
                Err(Errno::INTR) => Progress::Moved,
                _ => Progress::Done,
            }
        });
        let (awaited, index) = claimed?;
        match waited.and(outcome) {
            Ok(number) => {
                let messages = awaited.flags & OpenFile::MESSAGES;
                enter(session, index, number, entry_flags(SOCK_STREAM | flags & SOCK_NONBLOCK) | messages);
                if let Some(peer) = peer {
                    *peer = address;
                }
                Ok(index)
            }
            Err(errno) => {
                session.files_free.release(Claim::single(index.0));
                Err(errno)
            }
        }
    }

    /// Connects a socket with a peer, as [connect(2)](https://man7.org/linux/man-pages/man2/connect.2.html), and waits until that is done. Of a
    /// socket for messages: where they go, and whence they come.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; the system call's: `ECONNREFUSED`, `ENETUNREACH`, `ETIMEDOUT`, `EISCONN`, `EINPROGRESS` with [`SOCK_NONBLOCK`] (`poll`
    /// says when it is done, and the option `SO_ERROR` how it ended) …
    pub fn connect(self, socket: Descriptor, address: &SocketAddress) -> Result<(), Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Connect);
        let awaited = Awaited::socket(session, socket, POLLOUT);
        let number = awaited.and_then(|_| number_of(session, socket));
        // Closed in between: it takes no part.
        let awaited = number.and(awaited);
        let mut rests = Rests::new(session, ring_of_warp(session));
        let mut outcome = Err(Errno::BADF);
        let waited = until_done(session, lanes, awaited.ok(), |lanes, takes_part| {
            let before = outcome;
            // A lane alone: no poll says when a Unix socket's peer has room for a connection.
            if before == Err(Errno::AGAIN)
                && let Err(errno) = rests.rest(lanes, u64::from(socket.0))
            {
                outcome = Err(errno);
                return Progress::Done;
            }
            let bytes = takes_part.then_some(SocketAddress::BYTES as u64);
            let done = serve_staged(
                session,
                lanes,
                bytes,
                |area| {
                    area.put(0, address.as_bytes());
                    Sqe::connect(number.unwrap_or(-1), area.address, address.len() as u32)
                },
                |_, _| {},
            );
            let was_begun = matches!(before, Err(Errno::INPROGRESS | Errno::ALREADY));
            outcome = match done {
                Err(Errno::ISCONN) if was_begun => Ok(()),
                done => done.map(drop),
            };
            match outcome {
                Err(Errno::INPROGRESS | Errno::ALREADY) if takes_part && waits(awaited) => Progress::Waits,
                Err(Errno::AGAIN) if takes_part && waits(awaited) => Progress::Moved,
                _ => Progress::Done,
            }
        });
        counted(session, Call::Connect, awaited.and(waited).and(outcome))
    }
}

/// Asks once for a connection of the process's descriptor `number`, for an entry of the file table, for each lane that wants one: the process's
/// descriptor of it, and `address` is its peer's. Convergent; called by `lanes`.
fn ask(
    session: &SessionTables,
    lanes: Lanes,
    wanted: Option<(i32, Descriptor)>,
    address: &mut SocketAddress,
) -> Option<Result<u32, Errno>> {
    let mut outcome = None;
    let given = staged(session, lanes, wanted.map(|_| BYTES), |area| {
        let mut entry = None;
        if let (Some(area), Some((number, _))) = (area, wanted) {
            area.put(LENGTH_AT, &(SocketAddress::BYTES as u32).to_ne_bytes());
            let length = area.address + u64::from(LENGTH_AT);
            entry = Some(Sqe::accept(number, area.address, length, SOCK_CLOEXEC));
        }
        let index = wanted.map_or(0, |(_, index)| index.0);
        // In a sandbox the service alone does it [R-SERVE-7].
        let confined = session.is_confined();
        let mut result = Errno::check(transact_open(session, lanes, entry.filter(|_| !confined), index));
        // Of a socket that does not listen, or before Linux 6.10: the service says which.
        let again = entry
            .filter(|_| confined || result == Err(Errno::INVAL))
            .map(|entry| Sqe::accept_service(entry.fd, entry.addr, entry.off, entry.op_flags));
        let served = Errno::check(serve(session, lanes, again));
        if again.is_some() {
            result = served;
            if let (Ok(number), false) = (served, confined) {
                session.journal.note_open(index, number);
            }
        }
        if let Some(area) = area {
            outcome = Some(result);
            if result.is_ok() {
                area.take(0, address.storage());
                address.set_len(area.read(LENGTH_AT));
            }
        }
    });
    if let (Err(errno), Some(_)) = (given, wanted) { Some(Err(errno)) } else { outcome }
}

fn waits(awaited: Result<Awaited, Errno>) -> bool {
    awaited.is_ok_and(|awaited| awaited.waits())
}

//! `send(2)`, `sendto(2)`, `recv(2)`, `recvfrom(2)`.

use gpufs_core::abi::{POLLIN, POLLOUT, SocketAddress, Sqe, message_header};
use gpufs_core::failures::counted;
use gpufs_core::session::{OpenFile, SessionTables};
use gpufs_core::{Call, Errno};

use super::{MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, MSG_WAITALL};
use crate::Fs;
use crate::file::Descriptor;
use crate::io::{Awaited, Progress, StagingArea, staged_whole, transact_or_serve, until_done};
use crate::warp::Lanes;

/// Staging memory of a message with an address: the header, the address, the bytes.
const NAME_AT: u32 = 128;
const NAMED_AT: u32 = 256;
/// Bytes of a stream socket that are moved at a time.
const PIECE_BYTES: u64 = 16 << 10;

/// The caller's memory.
enum Memory<'a> {
    From(&'a [u8]),
    Into(&'a mut [u8]),
}

/// Whose address goes with a message.
enum Name<'a> {
    None,
    To(&'a SocketAddress),
    Of(&'a mut SocketAddress),
}

impl Fs {
    /// Sends bytes to a socket's peer, as [send(2)](https://man7.org/linux/man-pages/man2/send.2.html): how many. Waits until all are taken, unless
    /// with [`MSG_DONTWAIT`]. Of a socket for messages, they are one.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `EPIPE` where the connection is gone; `EAGAIN` where it would have to wait and must not; the system call's: `ENOTCONN`,
    /// `EDESTADDRREQ`, `ECONNRESET`, `EMSGSIZE` …
    pub fn send(self, socket: Descriptor, from: &[u8], flags: u32) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Send);
        counted(
            self.session(),
            Call::Send,
            message(self, lanes, socket, Memory::From(from), flags, Name::None),
        )
    }

    /// [`Fs::send`] of a message to an address, as [sendto(2)](https://man7.org/linux/man-pages/man2/sendto.2.html).
    ///
    /// # Errors
    /// As [`Fs::send`]; `EISCONN` for an address where the connection has its own.
    pub fn sendto(
        self,
        socket: Descriptor,
        from: &[u8],
        flags: u32,
        to: &SocketAddress,
    ) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Sendto);
        let name = if to.is_empty() { Name::None } else { Name::To(to) };
        counted(self.session(), Call::Sendto, message(self, lanes, socket, Memory::From(from), flags, name))
    }

    /// Receives what there is, as [recv(2)](https://man7.org/linux/man-pages/man2/recv.2.html), and waits for a first byte: how many; 0 where the
    /// connection has ended. Of a socket for messages, one; what does not fit of it is lost.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `EAGAIN` where it would have to wait and must not; the system call's: `ENOTCONN`, `ECONNRESET`, `ECONNREFUSED` …
    pub fn recv(self, socket: Descriptor, into: &mut [u8], flags: u32) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Recv);
        counted(
            self.session(),
            Call::Recv,
            message(self, lanes, socket, Memory::Into(into), flags, Name::None),
        )
    }

    /// [`Fs::recv`], with the sender's address in `of`, as [recvfrom(2)](https://man7.org/linux/man-pages/man2/recvfrom.2.html); of a connection it
    /// is empty.
    ///
    /// # Errors
    /// As [`Fs::recv`].
    pub fn recvfrom(
        self,
        socket: Descriptor,
        into: &mut [u8],
        flags: u32,
        of: &mut SocketAddress,
    ) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Recvfrom);
        counted(
            self.session(),
            Call::Recvfrom,
            message(self, lanes, socket, Memory::Into(into), flags, Name::Of(of)),
        )
    }
}

/// One lane's transfer.
struct Transfer<'a> {
    session: &'a SessionTables,
    memory: Memory<'a>,
    name: Name<'a>,
    flags: u32,
    /// Of messages, which go whole.
    messages: bool,
    waits: bool,
    bytes: u64,
    done: u64,
    outcome: Result<u64, Errno>,
}

/// Convergent; called by `lanes`.
#[inline(never)]
fn message(
    fs: Fs,
    lanes: Lanes,
    socket: Descriptor,
    memory: Memory<'_>,
    flags: u32,
    name: Name<'_>,
) -> Result<usize, Errno> {
    let session = fs.session();
    let (bytes, events) = match &memory {
        Memory::From(from) => (from.len() as u64, POLLOUT),
        Memory::Into(into) => (into.len() as u64, POLLIN),
    };
    let awaited = Awaited::socket(session, socket, events);
    let messages = awaited.is_ok_and(|awaited| awaited.flags & OpenFile::MESSAGES != 0);
    let waits = awaited.is_ok_and(|awaited| awaited.waits()) && flags & MSG_DONTWAIT == 0;
    let mut transfer =
        Transfer { session, memory, name, flags, messages, waits, bytes, done: 0, outcome: Ok(0) };
    let awaited = awaited.and_then(|awaited| if transfer.fits() { Ok(awaited) } else { Err(Errno::MSGSIZE) });
    let waited = until_done(session, lanes, awaited.ok(), |lanes, takes_part| {
        transfer.attempt(lanes, awaited.ok().filter(|_| takes_part))
    });
    awaited?;
    match waited {
        // What was moved is not taken back.
        Err(errno) if transfer.done == 0 => Err(errno),
        _ => transfer.outcome.map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
    }
}

impl Transfer<'_> {
    fn writing(&self) -> bool {
        matches!(self.memory, Memory::From(_))
    }
    /// Where the bytes begin in staging memory.
    fn bytes_at(&self) -> u32 {
        if matches!(self.name, Name::None) { 0 } else { NAMED_AT }
    }
    /// Bytes that are asked for next of what is left.
    fn asked(&self) -> u64 {
        let room = self.session.staging.most_bytes() - u64::from(self.bytes_at());
        let most = if self.messages { room } else { room.min(PIECE_BYTES) };
        (self.bytes - self.done).min(most)
    }
    /// Whether a message that is to be sent whole can be.
    fn fits(&self) -> bool {
        !(self.messages && self.writing()) || self.asked() == self.bytes
    }

    /// Asks once. Convergent; called by `lanes`.
    fn attempt(&mut self, lanes: Lanes, awaited: Option<Awaited>) -> Progress {
        let session = self.session;
        let memory = match &self.memory {
            Memory::From(from) => from.as_ptr() as u64,
            Memory::Into(into) => into.as_ptr() as u64,
        };
        let (address, left) = (memory + self.done, self.bytes - self.done);
        // Registered memory is used in place.
        let in_place = awaited.is_some()
            && left > 0
            && matches!(self.name, Name::None)
            && u32::try_from(left).is_ok()
            && session.region_of(address, left).is_some();
        let mut result = Ok(0);
        let mut asked = self.asked();
        if lanes.any(in_place) {
            let entry = awaited.filter(|_| in_place).map(|awaited| self.entry(awaited, address, left));
            let got = Errno::check(transact_or_serve(session, lanes, entry));
            if in_place {
                (result, asked) = (got, left);
            }
        }
        let wanted = awaited.filter(|_| !in_place).map(|_| u64::from(self.bytes_at()) + asked);
        let given = staged_whole(session, lanes, wanted, |area| {
            let entry = match (area, awaited) {
                (Some(area), Some(awaited)) => Some(self.staged_entry(awaited, area, asked)),
                _ => None,
            };
            let got = Errno::check(transact_or_serve(session, lanes, entry));
            if let Some(area) = area {
                result = got;
                if let Ok(count) = got {
                    self.take(area, u64::from(count).min(asked));
                }
            }
        });
        if awaited.is_none() {
            return Progress::Done;
        }
        self.settle(asked, given.and(result))
    }

    /// The flags for the system: which waits there are is decided here.
    fn system_flags(&self) -> u32 {
        self.flags & !MSG_WAITALL | MSG_DONTWAIT
    }
    fn entry(&self, awaited: Awaited, address: u64, bytes: u64) -> Sqe {
        let make = if self.writing() { Sqe::send } else { Sqe::recv };
        #[expect(clippy::cast_possible_truncation, reason = "checked, or at most staging memory")]
        let entry = make(awaited.target.fd, address, bytes as u32, self.system_flags());
        if awaited.target.fixed { entry.with_fixed_file() } else { entry }
    }
    /// Puts what goes out into staging memory: the entry.
    fn staged_entry(&self, awaited: Awaited, area: StagingArea, asked: u64) -> Sqe {
        let at = self.bytes_at();
        if let Memory::From(from) = &self.memory {
            area.put(at, &from[self.done as usize..][..asked as usize]);
        }
        let bytes = area.address + u64::from(at);
        let length = match &self.name {
            Name::None => return self.entry(awaited, bytes, asked),
            Name::To(to) => {
                area.put(NAME_AT, to.as_bytes());
                to.len() as u32
            }
            Name::Of(_) => SocketAddress::BYTES as u32,
        };
        let name = (area.address + u64::from(NAME_AT), length);
        let header = message_header(area.address, name, (bytes, asked));
        for (at, word) in (0..).step_by(8).zip(header) {
            area.put(at, &word.to_ne_bytes());
        }
        let make = if self.writing() { Sqe::sendmsg } else { Sqe::recvmsg };
        let entry = make(awaited.target.fd, area.address, self.system_flags());
        if awaited.target.fixed { entry.with_fixed_file() } else { entry }
    }
    /// Takes what came out of staging memory.
    fn take(&mut self, area: StagingArea, count: u64) {
        let at = self.bytes_at();
        // A stream socket throws away with this flag, and writes nothing.
        let thrown_away = self.flags & MSG_TRUNC != 0 && !self.messages;
        if let (Memory::Into(into), false) = (&mut self.memory, thrown_away) {
            area.take(at, &mut into[self.done as usize..][..count as usize]);
        }
        if let Name::Of(of) = &mut self.name {
            area.take(NAME_AT, of.storage());
            of.set_len(area.read(8));
        }
    }
    /// Takes a result in.
    fn settle(&mut self, asked: u64, result: Result<u32, Errno>) -> Progress {
        match result {
            Ok(count) => {
                let count = u64::from(count);
                self.done = (self.done + count).min(self.bytes);
                self.outcome = Ok(if self.messages { count } else { self.done });
                let goes_on = match self.writing() {
                    true => count == asked || self.waits,
                    false => self.waits && self.flags & (MSG_WAITALL | MSG_PEEK) == MSG_WAITALL,
                };
                let more = !self.messages && count > 0 && self.done < self.bytes;
                if more && goes_on { Progress::Moved } else { Progress::Done }
            }
            Err(Errno::INTR) => Progress::Moved,
            Err(Errno::AGAIN) if self.waits => Progress::Waits,
            Err(errno) => {
                // An error after some bytes shows in the next call, as POSIX has it.
                if self.done == 0 {
                    self.outcome = Err(errno);
                }
                Progress::Done
            }
        }
    }
}

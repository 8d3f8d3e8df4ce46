//! `send(2)`, `sendto(2)`, `recv(2)`, `recvfrom(2)`.

use core::ops::Range;

use gpufs_core::abi::{POLLIN, POLLOUT, SocketAddress, Sqe, message_header};
use gpufs_core::failures::counted;
use gpufs_core::session::{OpenFile, SessionTables};
use gpufs_core::{Call, Errno};

use super::{MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, MSG_WAITALL};
use crate::Fs;
use crate::file::{Descriptor, IOV_MAX, IoSlice, IoSliceMut};
use crate::io::{Awaited, Progress, StagingArea, staged_whole, transact_or_serve, until_done};
use crate::warp::Lanes;

/// Staging memory of a message with an address: the header, the address, the bytes.
const NAME_AT: u32 = 128;
const NAMED_AT: u32 = 256;
/// Where the flags of what came lie in the header.
const FLAGS_AT: u32 = 48;
/// Bytes of a stream socket that are moved at a time.
const PIECE_BYTES: u64 = 16 << 10;

/// The caller's memory: in one piece or in several.
pub(super) enum Memory<'a, 'b> {
    From(&'a [u8]),
    Into(&'a mut [u8]),
    Gather(&'a [IoSlice<'b>]),
    Scatter(&'a mut [IoSliceMut<'b>]),
}

/// Of a piece: its bytes behind the first `skip` of all, `left` at most. Takes what it gives off both.
fn part(bytes: usize, skip: &mut usize, left: &mut usize) -> Range<usize> {
    let start = bytes.min(*skip);
    let count = (bytes - start).min(*left);
    (*skip, *left) = (*skip - start, *left - count);
    start..start + count
}

impl Memory<'_, '_> {
    const fn writing(&self) -> bool {
        matches!(self, Self::From(_) | Self::Gather(_))
    }
    fn bytes(&self) -> u64 {
        let sum = |sum: u64, bytes: usize| sum.saturating_add(bytes as u64);
        match self {
            Self::From(from) => from.len() as u64,
            Self::Into(into) => into.len() as u64,
            Self::Gather(pieces) => pieces.iter().map(|piece| piece.parts().1).fold(0, sum),
            Self::Scatter(pieces) => pieces.iter().map(|piece| piece.parts().1).fold(0, sum),
        }
    }
    /// Its first byte, where it is in one piece.
    fn address(&self) -> Option<u64> {
        match self {
            Self::From(from) => Some(from.as_ptr() as u64),
            Self::Into(into) => Some(into.as_ptr() as u64),
            Self::Gather(_) | Self::Scatter(_) => None,
        }
    }
    /// Whether it has as many pieces as a call takes.
    const fn is_taken(&self) -> bool {
        match self {
            Self::From(_) | Self::Into(_) => true,
            Self::Gather(pieces) => pieces.len() <= IOV_MAX,
            Self::Scatter(pieces) => pieces.len() <= IOV_MAX,
        }
    }
    /// Copies `count` of its bytes, from byte `skip` on, to place `at` of staging memory.
    fn put(&self, area: StagingArea, mut at: u32, skip: u64, count: u64) {
        let (mut skip, mut left) = (skip as usize, count as usize);
        match self {
            Self::From(from) => area.put(at, &from[skip..][..left]),
            Self::Gather(pieces) => {
                // Ends: with the pieces.
                for piece in *pieces {
                    let bytes = piece.as_slice();
                    let range = part(bytes.len(), &mut skip, &mut left);
                    let count = range.len() as u32;
                    if count > 0 {
                        area.put(at, &bytes[range]);
                    }
                    at += count;
                }
            }
            Self::Into(_) | Self::Scatter(_) => {}
        }
    }
    /// Copies as many bytes there.
    fn take(&mut self, area: StagingArea, mut at: u32, skip: u64, count: u64) {
        let (mut skip, mut left) = (skip as usize, count as usize);
        match self {
            Self::Into(into) => area.take(at, &mut into[skip..][..left]),
            Self::Scatter(pieces) => {
                // Ends: with the pieces.
                for piece in pieces.iter_mut() {
                    let bytes = piece.as_mut_slice();
                    let range = part(bytes.len(), &mut skip, &mut left);
                    let count = range.len() as u32;
                    if count > 0 {
                        area.take(at, &mut bytes[range]);
                    }
                    at += count;
                }
            }
            Self::From(_) | Self::Gather(_) => {}
        }
    }
}

/// Whose address goes with a message.
pub(super) enum Name<'a> {
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
            message(self, lanes, socket, Memory::From(from), flags, Name::None).map(|(count, _)| count),
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
        let sent = message(self, lanes, socket, Memory::From(from), flags, name);
        counted(self.session(), Call::Sendto, sent.map(|(count, _)| count))
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
            message(self, lanes, socket, Memory::Into(into), flags, Name::None).map(|(count, _)| count),
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
            message(self, lanes, socket, Memory::Into(into), flags, Name::Of(of)).map(|(count, _)| count),
        )
    }
}

/// One lane's transfer.
struct Transfer<'a, 'b> {
    session: &'a SessionTables,
    memory: Memory<'a, 'b>,
    name: Name<'a>,
    flags: u32,
    /// Of messages, which go whole.
    messages: bool,
    waits: bool,
    bytes: u64,
    done: u64,
    outcome: Result<u64, Errno>,
    /// The flags of what came with an address.
    came: u32,
}

/// How many bytes, and with [`Name::Of`] the flags of what came. Convergent; called by `lanes`.
#[inline(never)]
pub(super) fn message(
    fs: Fs,
    lanes: Lanes,
    socket: Descriptor,
    memory: Memory<'_, '_>,
    flags: u32,
    name: Name<'_>,
) -> Result<(usize, u32), Errno> {
    let session = fs.session();
    let (bytes, events) = (memory.bytes(), if memory.writing() { POLLOUT } else { POLLIN });
    let awaited = Awaited::socket(session, socket, events);
    let messages = awaited.is_ok_and(|awaited| awaited.flags & OpenFile::MESSAGES != 0);
    let waits = awaited.is_ok_and(|awaited| awaited.waits()) && flags & MSG_DONTWAIT == 0;
    let mut transfer =
        Transfer { session, memory, name, flags, messages, waits, bytes, done: 0, outcome: Ok(0), came: 0 };
    let awaited = awaited.and_then(|awaited| if transfer.fits() { Ok(awaited) } else { Err(Errno::MSGSIZE) });
    let waited = until_done(session, lanes, awaited.ok(), |lanes, takes_part| {
        transfer.attempt(lanes, awaited.ok().filter(|_| takes_part))
    });
    awaited?;
    match waited {
        // What was moved is not taken back.
        Err(errno) if transfer.done == 0 => Err(errno),
        _ => transfer.outcome.map(|count| (usize::try_from(count).unwrap_or(usize::MAX), transfer.came)),
    }
}

impl Transfer<'_, '_> {
    fn writing(&self) -> bool {
        self.memory.writing()
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
    /// Whether it has no more pieces than a call takes, and a message that is to be sent whole can be.
    fn fits(&self) -> bool {
        self.memory.is_taken() && (!(self.messages && self.writing()) || self.asked() == self.bytes)
    }

    /// Asks once. Convergent; called by `lanes`.
    fn attempt(&mut self, lanes: Lanes, awaited: Option<Awaited>) -> Progress {
        let session = self.session;
        let memory = self.memory.address();
        let (address, left) = (memory.unwrap_or(0) + self.done, self.bytes - self.done);
        // Registered memory is used in place.
        let in_place = awaited.is_some()
            && memory.is_some()
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
        self.memory.put(area, at, self.done, asked);
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
        if !thrown_away {
            self.memory.take(area, at, self.done, count);
        }
        if let Name::Of(of) = &mut self.name {
            area.take(NAME_AT, of.storage());
            of.set_len(area.read(8));
            self.came = area.read(FLAGS_AT);
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

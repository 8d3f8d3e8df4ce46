//! `readv(2)`, `writev(2)`, `preadv(2)`, `pwritev(2)`, `preadv2(2)`, `pwritev2(2)`: memory in several pieces, and flags for one transfer.
#![expect(unsafe_code, reason = "C makes pieces by their layout")]

use core::marker::PhantomData;

use gpufs_core::abi::CURRENT_POSITION;
use gpufs_core::failures::counted;
use gpufs_core::session::OpenFile;
use gpufs_core::{Call, Errno};

use super::Descriptor;
use super::open::size;
use crate::Fs;
use crate::io::{VectorRequest, Waiting, transfer_vectors, transfer_waiting};
use crate::warp::Lanes;

/// The most pieces of one transfer (`sysconf(_SC_IOV_MAX)` of Linux).
pub const IOV_MAX: usize = 1024;

/// Polls for completion (`preadv2(2)`). The rings are none that the system polls: it has no effect.
pub const RWF_HIPRI: u32 = 1;
/// Each write waits for its data to be on the device, as with `O_DSYNC`.
pub const RWF_DSYNC: u32 = 2;
/// Each write waits for its data and its metadata to be on the device, as with `O_SYNC`.
pub const RWF_SYNC: u32 = 4;
/// Fails with `EAGAIN` rather than wait.
pub const RWF_NOWAIT: u32 = gpufs_core::abi::RWF_NOWAIT;
/// Writes at the end of the file, as with `O_APPEND`.
pub const RWF_APPEND: u32 = gpufs_core::abi::RWF_APPEND;
/// Writes where it is told to also with `O_APPEND`. Since Linux 6.9.
pub const RWF_NOAPPEND: u32 = 0x20;
/// All of the bytes are written, or none, also if power fails. Since Linux 6.11, of few files.
pub const RWF_ATOMIC: u32 = 0x40;
/// Leaves nothing in the page cache. Since Linux 6.14, of some file systems.
pub const RWF_DONTCACHE: u32 = 0x80;
/// All flags that there are.
const RWF_KNOWN: u32 = 0xff;

/// Memory that a call reads, with the layout of C's `struct iovec`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IoSlice<'a> {
    base: *const u8,
    len: usize,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> IoSlice<'a> {
    /// These bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { base: bytes.as_ptr(), len: bytes.len(), memory: PhantomData }
    }
    /// The address of the first byte, and how many there are.
    #[must_use]
    pub const fn parts(&self) -> (*const u8, usize) {
        (self.base, self.len)
    }
    /// The bytes.
    #[must_use]
    pub const fn as_slice(&self) -> &'a [u8] {
        // C's may be null where there are none.
        if self.len == 0 {
            return &[];
        }
        // SAFETY:
        // - the parts of a slice that is borrowed for as long, by `new`; whoever makes one otherwise answers for the same
        unsafe { core::slice::from_raw_parts(self.base, self.len) }
    }
}

/// Memory that a call fills, with the layout of C's `struct iovec`.
#[derive(Debug)]
#[repr(C)]
pub struct IoSliceMut<'a> {
    base: *mut u8,
    len: usize,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> IoSliceMut<'a> {
    /// These bytes.
    #[must_use]
    pub const fn new(bytes: &'a mut [u8]) -> Self {
        Self { base: bytes.as_mut_ptr(), len: bytes.len(), memory: PhantomData }
    }
    /// The address of the first byte, and how many there are.
    #[must_use]
    pub const fn parts(&self) -> (*mut u8, usize) {
        (self.base, self.len)
    }
    /// The bytes.
    #[must_use]
    pub const fn as_mut_slice(&mut self) -> &mut [u8] {
        // C's may be null where there are none.
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY:
        // - the parts of a slice that is borrowed alone for longer than this is, by `new`; whoever makes one otherwise answers for the same
        unsafe { core::slice::from_raw_parts_mut(self.base, self.len) }
    }
}

/// What a lane wants to transfer.
#[derive(Clone, Copy)]
struct Pieces {
    call: Call,
    writing: bool,
    /// The address of the first vector.
    vectors: u64,
    /// How many; `EINVAL` for more than [`IOV_MAX`].
    count: Result<u32, Errno>,
    /// Bytes that they name.
    bytes: u64,
}

impl Pieces {
    fn new(call: Call, writing: bool, vectors: u64, lengths: impl ExactSizeIterator<Item = usize>) -> Self {
        let count = match u32::try_from(lengths.len()) {
            Ok(count) if lengths.len() <= IOV_MAX => Ok(count),
            _ => Err(Errno::INVAL),
        };
        let bytes = lengths.take(IOV_MAX).fold(0, |sum: u64, length| sum.saturating_add(length as u64));
        Self { call, writing, vectors, count, bytes }
    }
    fn reading(call: Call, into: &mut [IoSliceMut<'_>]) -> Self {
        Self::new(call, false, into.as_ptr() as u64, into.iter().map(|piece| piece.len))
    }
    fn writing(call: Call, from: &[IoSlice<'_>]) -> Self {
        Self::new(call, true, from.as_ptr() as u64, from.iter().map(|piece| piece.len))
    }
    fn access(self) -> u32 {
        if self.writing { OpenFile::WRITABLE } else { OpenFile::READABLE }
    }
}

impl Fs {
    /// Reads at the position into one piece after the other, and moves it, as `readv(2)`: how many bytes; 0 at the end of the file. It is one
    /// read, of one lane after the other.
    ///
    /// # Errors
    /// As [`Fs::read`]; `EINVAL` for more than [`IOV_MAX`] pieces.
    pub fn readv(self, descriptor: Descriptor, into: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Readv);
        self.vectored(lanes, descriptor, Pieces::reading(Call::Readv, into), None, 0)
    }

    /// Writes the pieces at the position and moves it, or at the end with [`super::O_APPEND`], as `writev(2)`: how many bytes. It is one write,
    /// of one lane after the other: no other lane's bytes come between them.
    ///
    /// ```
    /// use gpufs_device::file::{Descriptor, IoSlice};
    /// use gpufs_device::{Errno, Fs};
    ///
    /// fn record(fs: Fs, log: Descriptor, key: &[u8], value: &[u8]) -> Result<usize, Errno> {
    ///     fs.writev(log, &[IoSlice::new(key), IoSlice::new(b"="), IoSlice::new(value), IoSlice::new(b"\n")])
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Fs::write`]; `EINVAL` for more than [`IOV_MAX`] pieces.
    pub fn writev(self, descriptor: Descriptor, from: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Writev);
        self.vectored(lanes, descriptor, Pieces::writing(Call::Writev, from), None, 0)
    }

    /// Reads from `offset` (bytes from the start) into one piece after the other, as `preadv(2)`: how many bytes; 0 at the end of the file. The
    /// lanes of a warp read as one batch.
    ///
    /// # Errors
    /// As [`Fs::pread`]; `EINVAL` for more than [`IOV_MAX`] pieces.
    pub fn preadv(
        self,
        descriptor: Descriptor,
        into: &mut [IoSliceMut<'_>],
        offset: u64,
    ) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Preadv);
        self.vectored(lanes, descriptor, Pieces::reading(Call::Preadv, into), Some(offset), 0)
    }

    /// Writes the pieces at `offset` (bytes from the start) as one write, as `pwritev(2)`: how many bytes. The lanes of a warp write as one
    /// batch.
    ///
    /// # Errors
    /// As [`Fs::pwrite`]; `EINVAL` for more than [`IOV_MAX`] pieces.
    pub fn pwritev(self, descriptor: Descriptor, from: &[IoSlice<'_>], offset: u64) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Pwritev);
        self.vectored(lanes, descriptor, Pieces::writing(Call::Pwritev, from), Some(offset), 0)
    }

    /// As [`Fs::preadv`], or with no `offset` as [`Fs::readv`], with flags for this transfer: [`RWF_NOWAIT`], [`RWF_DONTCACHE`] …, as
    /// `preadv2(2)`.
    ///
    /// # Errors
    /// As [`Fs::preadv`]; `EAGAIN` where [`RWF_NOWAIT`] finds nothing at once; `EOPNOTSUPP` for flags that the system or the file does not know.
    pub fn preadv2(
        self,
        descriptor: Descriptor,
        into: &mut [IoSliceMut<'_>],
        offset: Option<u64>,
        flags: u32,
    ) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Preadv2);
        self.vectored(lanes, descriptor, Pieces::reading(Call::Preadv2, into), offset, flags)
    }

    /// As [`Fs::pwritev`], or with no `offset` as [`Fs::writev`], with flags for this transfer: [`RWF_DSYNC`], [`RWF_APPEND`] …, as
    /// `pwritev2(2)`.
    ///
    /// # Errors
    /// As [`Fs::pwritev`]; `EAGAIN` where [`RWF_NOWAIT`] would have to wait; `EOPNOTSUPP` for flags that the system or the file does not know.
    pub fn pwritev2(
        self,
        descriptor: Descriptor,
        from: &[IoSlice<'_>],
        offset: Option<u64>,
        flags: u32,
    ) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Pwritev2);
        self.vectored(lanes, descriptor, Pieces::writing(Call::Pwritev2, from), offset, flags)
    }

    fn vectored(
        self,
        lanes: Lanes,
        descriptor: Descriptor,
        pieces: Pieces,
        offset: Option<u64>,
        rw_flags: u32,
    ) -> Result<usize, Errno> {
        let at_position = lanes.ballot(offset.is_none());
        let moved = match offset {
            Some(offset) => {
                let lanes = lanes.subset(lanes.mask().without(at_position));
                self.vectored_at(lanes, descriptor, pieces, offset, rw_flags)
            }
            None => self.vectored_sequential(lanes.subset(at_position), descriptor, pieces, rw_flags),
        };
        counted(self.session(), pieces.call, moved.map(|count| usize::try_from(count).unwrap_or(usize::MAX)))
    }

    /// At an offset: no position, no lock.
    fn vectored_at(
        self,
        lanes: Lanes,
        descriptor: Descriptor,
        pieces: Pieces,
        offset: u64,
        rw_flags: u32,
    ) -> Result<u64, Errno> {
        let session = self.session();
        // The offset is looked at before the descriptor, as the system call does.
        let offset_fits = if offset > i64::MAX.cast_unsigned() { Err(Errno::INVAL) } else { Ok(()) };
        let seen = offset_fits.and_then(|()| session.file_and_flags(descriptor));
        let request = seen.and_then(|(file, flags)| {
            if flags & (OpenFile::SEEKABLE | OpenFile::SHARED | OpenFile::POSITIONLESS) == 0 {
                return Err(Errno::SPIPE);
            }
            let target = file.target_of(flags, descriptor);
            request(pieces, flags, rw_flags).map(|rw_flags| {
                let Pieces { vectors, bytes, .. } = pieces;
                let count = pieces.count.unwrap_or(0);
                rw_flags.map(|rw_flags| VectorRequest { target, vectors, count, bytes, offset, rw_flags })
            })
        });
        let outcome = transfer_vectors(session, lanes, pieces.writing, request.ok().flatten());
        request.and(outcome)
    }

    /// At the position, in one lane after the other.
    fn vectored_sequential(
        self,
        lanes: Lanes,
        descriptor: Descriptor,
        pieces: Pieces,
        rw_flags: u32,
    ) -> Result<u64, Errno> {
        let session = self.session();
        let Pieces { writing, vectors, bytes, .. } = pieces;
        // As `Fs::sequential`: what may wait for another party has no position, and is waited for without the lock.
        let flags = session.file_and_flags(descriptor).map_or(0, |(_, flags)| flags);
        let checked = request(pieces, flags, rw_flags);
        // Flags with which the system is asked are of an open file, and of some bytes.
        let may_wait = matches!(checked, Ok(Some(_))) && OpenFile::may_wait(flags);
        let waiting = lanes.ballot(may_wait);
        if let (true, Ok(Some(rw_flags)), Ok(count)) = (may_wait, checked, pieces.count) {
            let waiting = lanes.subset(waiting);
            return waiting.grouped(u64::from(lanes.lane()), |alone| {
                let waiting =
                    Waiting { descriptor, writing, memory: vectors, bytes, vectors: count, rw_flags };
                transfer_waiting(session, alone, waiting)
            });
        }
        let lanes = lanes.subset(lanes.mask().without(waiting));
        self.one_by_one(lanes, descriptor, |lanes, file| {
            let flags = file.flags.peek();
            let Some(rw_flags) = request(pieces, flags, rw_flags)? else { return Ok(0) };
            let position = file.position.peek();
            let appends = writing
                && rw_flags & RWF_NOAPPEND == 0
                && (flags & OpenFile::APPEND != 0 || rw_flags & RWF_APPEND != 0);
            let offset = if appends {
                CURRENT_POSITION
            } else {
                OpenFile::offset(flags & !OpenFile::APPEND, position, writing)
            };
            let (target, count) = (file.target_of(flags, descriptor), pieces.count?);
            let request = VectorRequest { target, vectors, count, bytes, offset, rw_flags };
            let moved = transfer_vectors(session, lanes, writing, Some(request))?;
            if moved == 0 {
                // Nothing moved, an appending write's position neither.
            } else if appends && flags & OpenFile::SEEKABLE != 0 {
                // After an appending write the position is the end (POSIX write()).
                file.position.set(size(session, lanes, Some(file.descriptor.peek().cast_signed()))?);
            } else {
                file.position.set(position + moved);
            }
            Ok(moved)
        })
    }
}

/// The flags with which the system is asked, `None` where it need not be: no bytes of a file that is open for them. The checks come in the
/// system's order.
fn request(pieces: Pieces, flags: u32, rw_flags: u32) -> Result<Option<u32>, Errno> {
    pieces.count?;
    if flags & pieces.access() == 0 {
        return Err(Errno::BADF);
    }
    if pieces.bytes == 0 {
        return Ok(None);
    }
    if rw_flags & !RWF_KNOWN != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(Some(rw_flags & !RWF_HIPRI))
}

//! `fmemopen(3)`, `open_memstream(3)`: streams on memory.
//!
//! Such a stream is one on a file without a name (`memfd_create(2)`), which the host makes and every other call treats as any file. So all lanes
//! may use it, and the bytes of a call stay together. What is here carries bytes between that file and the caller's memory: in at the opening,
//! out where the stream is flushed or closed, under its lock ([`gpufs_core::stream::MemoryWords`]).
//!
//! A lane copies, since memory on its stack is its own. It is the opener, if that is among the callers. If not, a call that names the stream
//! (`fflush`, `fclose`) copies all the same, unless the memory is on a stack; others (`fseek`, a change from writing to reading,
//! `fflush(NULL)`) leave it to the next one.
#![expect(unsafe_code, reason = "reads and writes the caller's memory")]

use core::ffi::CStr;

use gpufs_core::abi::Sqe;
use gpufs_core::failures::counted;
use gpufs_core::session::{OpenFile, SessionTables, Target};
use gpufs_core::stream::{Direction, MemoryKind, MemoryWords};
use gpufs_core::{Call, Claim, Errno};

use super::File;
use super::flush::FileSize;
use super::fopen::{claim_with_file, open_flags, stream_on};
use super::lock::{LockedStream, with_lock};
use crate::Fs;
use crate::file::{self, Descriptor, O_APPEND, O_RDONLY, O_WRONLY};
use crate::io::{Request, serve, transfer};
use crate::warp::{Lanes, Machine, Warp, global_thread};

/// What a stream on memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryText {
    /// Bytes of the text.
    pub bytes: usize,
    /// Where the stream stands, in bytes from the text's start.
    pub position: u64,
}

/// The caller that wants the memory to have what the stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A call of the program's that names the stream for that end: `fflush`, `fclose`.
    ByName,
    /// Another one.
    Else,
}

/// What a lane opens.
#[derive(Clone, Copy)]
struct Opening {
    /// Of the entry of the file table.
    flags: u32,
    /// Zeros in the file at first.
    zeros: u64,
    /// Address and length of what is in it at first.
    content: (u64, u64),
    /// Where the stream stands.
    position: u64,
}

impl Fs {
    /// Opens a stream on `bytes` bytes at `memory`, as [fmemopen(3)](https://man7.org/linux/man-pages/man3/fmemopen.3.html), or on as many of its
    /// own where that is null. `mode` as [`Fs::fopen`]'s, whose `x`, `e` and `b` mean nothing here. Each lane gets a stream of its own.
    ///
    /// The content is `bytes` long with `"r"`, empty with `"w"`, and ends before the first NUL with `"a"`, where the stream then stands. What the
    /// stream writes comes to the memory with [`File::fflush`] and [`File::fclose`], and with its opener's [`File::fseek`] and its change to
    /// reading; a NUL follows where the content became longer, in place of its last byte if there is no room and it does not append. What
    /// else is written to the memory meanwhile the stream does not see.
    ///
    /// # Errors
    /// `EINVAL` for a mode that begins otherwise than with r, w or a, and for more bytes than memory has; `EMFILE` where the session has no stream
    /// or file entry left, or the process no descriptor; `ENOMEM`. Later: `ENOSPC` of a flush, for what does not fit and is dropped, and `EINVAL`
    /// of `fseek` beyond the memory; `EFAULT` of `fflush` and `fclose` of another thread, where the memory is on its opener's stack on a GPU.
    /// [`File::fileno`] is `EBADF`.
    ///
    /// # Safety
    /// - `memory` is null or `bytes` bytes that stay valid until the stream is closed, for each thread that flushes or closes it.
    /// - While a call on the stream is under way, nothing else uses them.
    pub unsafe fn fmemopen(self, memory: *mut u8, bytes: usize, mode: &CStr) -> Result<File, Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fmemopen);
        let (address, limit) = (memory as u64, bytes as u64);
        let fits = limit <= i64::MAX.cast_unsigned() && address.checked_add(limit).is_some();
        let request = open_flags(mode.to_bytes()).and_then(|flags| {
            if !fits {
                return Err(Errno::INVAL);
            }
            let (reads, appends) = (flags & 3 == O_RDONLY, flags & O_APPEND != 0);
            let keeps = mode.to_bytes().starts_with(b"r");
            let held = match (keeps, appends) {
                (true, _) => limit,
                // SAFETY:
                // - null or `bytes` bytes, by this function's contract
                (_, true) => unsafe { length_of(memory, bytes) },
                _ => 0,
            };
            let mut entry = OpenFile::OPEN | OpenFile::SEEKABLE;
            entry |= if flags & 3 == O_WRONLY { 0 } else { OpenFile::READABLE };
            entry |= if reads { 0 } else { OpenFile::WRITABLE };
            entry |= if appends { OpenFile::APPEND } else { 0 };
            Ok(Opening {
                flags: entry,
                zeros: if memory.is_null() && keeps { held } else { 0 },
                content: (address, if memory.is_null() { 0 } else { held }),
                position: if appends { held } else { 0 },
            })
        });
        let opened = open(self, lanes, request);
        if let (Ok(file), Ok(opening)) = (opened, request) {
            let words = &file.stream().memory;
            words.dirty.set(0);
            words.address.set(address);
            words.limit.set(limit);
            words.end.set(opening.content.1.max(opening.zeros));
            words.opener.set(opener());
            words.set_kind(MemoryKind::Fixed);
            // POSIX: `w+` empties the memory at once.
            let empties = opening.flags & OpenFile::READABLE != 0 && mode.to_bytes().starts_with(b"w");
            if empties && bytes > 0 && !memory.is_null() {
                // SAFETY:
                // - not null and a byte at least, by this function's contract
                unsafe { memory.write(0) };
            }
        }
        counted(session, Call::Fmemopen, opened)
    }

    /// Opens a stream for writing on memory that grows, as [open_memstream(3)](https://man7.org/linux/man-pages/man3/open_memstream.3.html):
    /// [`File::memory_text`] gives the text. (In C the text is in memory of the program's after `fflush` and `fclose`.) Each lane gets one of
    /// its own.
    ///
    /// # Errors
    /// `EMFILE` where the session has no stream or file entry left, or the process no descriptor; `ENOMEM`. [`File::fileno`] is `EBADF`.
    pub fn open_memstream(self) -> Result<File, Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::OpenMemstream);
        let flags = OpenFile::OPEN | OpenFile::SEEKABLE | OpenFile::WRITABLE;
        let opened = open(self, lanes, Ok(Opening { flags, zeros: 0, content: (0, 0), position: 0 }));
        if let Ok(file) = opened {
            let words = &file.stream().memory;
            words.address.set(0);
            words.set_kind(MemoryKind::Growing);
        }
        counted(session, Call::OpenMemstream, opened)
    }
}

impl File {
    /// What a stream of [`Fs::open_memstream`] or [`Fs::fmemopen`] holds: flushes, and if `into` is longer than the text, puts that there, with a
    /// NUL behind it; otherwise nothing. Lanes that call together get it in lane order.
    ///
    /// # Errors
    /// `EINVAL` for a stream that is not on memory; `EBADF` for a closed one; what flushing met.
    pub fn memory_text(self, into: &mut [u8]) -> Result<MemoryText, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::MemoryText);
        let (memory, room) = (into.as_mut_ptr() as u64, into.len() as u64);
        let text = lanes.grouped(u64::from(lanes.lane()), |alone| {
            with_lock(self, alone, |held| held.text(memory, room).or_else(|errno| held.fail(errno)))
        });
        let text = counted(self.session, Call::MemoryText, text)?;
        if let Some(end) = into.get_mut(text.bytes) {
            *end = 0;
        }
        Ok(text)
    }

    /// Gives a stream of [`Fs::open_memstream`] a word of the caller's. Its opener, before another lane has the stream.
    ///
    /// ```compile_fail,E0133
    /// fn elsewhere(file: gpufs_device::File) {
    ///     file.set_memory_word(0x1000);
    /// }
    /// ```
    ///
    /// # Safety
    /// - The stream is one of [`Fs::open_memstream`], and open: of one of [`Fs::fmemopen`] the word says where its memory is.
    /// - The word is what whoever asks for it ([`File::memory_word`]) takes it for.
    #[doc(hidden)]
    pub unsafe fn set_memory_word(self, word: u64) {
        self.stream().memory.address.set(word);
    }

    /// The word that [`File::set_memory_word`] gave; `None` if that is 0, or the stream is another.
    #[doc(hidden)]
    #[must_use]
    pub fn memory_word(self) -> Option<u64> {
        let words: &MemoryWords = &self.stream().memory;
        let word = words.address.peek();
        (words.kind() == MemoryKind::Growing && word != 0).then_some(word)
    }
}

impl LockedStream {
    /// Copies what a stream of `fmemopen` wrote to its memory, after a flush. Where the file has become longer than the memory, it is cut, and the
    /// stream stands at its end. The host's own calls copy nothing: the memory is the device's. Convergent.
    ///
    /// # Errors
    /// `ENOSPC` where what was written does not fit; what the copying met.
    pub(super) fn update_memory(&self, asked: Asked) -> Result<(), Errno> {
        if self.stream.memory.kind() != MemoryKind::Fixed || Machine::is_host() {
            return Ok(());
        }
        self.update_fixed(asked)
    }

    /// Not inlined: few streams are on memory.
    #[inline(never)]
    fn update_fixed(&self, asked: Asked) -> Result<(), Errno> {
        let (lanes, words) = (self.lanes, &self.stream.memory);
        if self.stream.direction() == Direction::Writing {
            self.update(|stream| stream.memory.dirty.set(1));
        }
        if words.dirty.peek() == 0 {
            return Ok(());
        }
        let openers = lanes.ballot(words.opener.peek() == opener());
        let copier = match asked {
            _ if !openers.is_empty() => openers.first(),
            // What lies there of another lane's stack is not the memory.
            Asked::ByName if Machine::is_private(words.address.peek()) => return Err(Errno::FAULT),
            Asked::ByName => lanes.mask().first(),
            Asked::Else => return Ok(()),
        };
        let is_copier = lanes.lane() == copier;
        let (address, limit) = (words.address.peek(), words.limit.peek());
        let written = self.size()?;
        let end = written.min(limit);
        if written > limit {
            self.cut(limit)?;
        }
        let grew = end > words.end.peek();
        if grew && end == limit && self.file_flags() & OpenFile::APPEND == 0 {
            let nul = [0_u8];
            let last =
                Request { target: self.target(), memory: nul.as_ptr() as u64, bytes: 1, offset: limit - 1 };
            let ended = transfer(self.session, lanes, true, is_copier.then_some(last));
            lanes.broadcast(FileSize(ended), copier).0?;
        }
        if address != 0 {
            self.copy_out(copier, address, end)?;
        }
        if is_copier && address != 0 && grew && end < limit {
            // SAFETY:
            // - `end` is below `limit`, the length of the memory, which is valid, by the contract of `fmemopen`
            unsafe { end_text(address, end) };
        }
        self.update(|stream| {
            stream.memory.end.set(end);
            stream.memory.dirty.set(0);
        });
        if written > limit { Err(Errno::NOSPC) } else { Ok(()) }
    }

    /// Cuts the file, and has the stream stand at its end.
    fn cut(&self, limit: u64) -> Result<(), Errno> {
        let entry = self.lanes.is_leader().then(|| Sqe::resize(self.descriptor(), limit));
        let cut = Errno::check(serve(self.session, self.lanes, entry)).map(u64::from);
        self.lanes.from_leader(FileSize(cut)).0?;
        self.update(|stream| {
            stream.position.set(limit);
            stream.direction.set(Direction::Idle as u32);
        });
        Ok(())
    }

    /// Copies the file's first `bytes` to memory of the lane `copier`, at the address that it gives. Convergent.
    fn copy_out(&self, copier: u32, address: u64, bytes: u64) -> Result<(), Errno> {
        let lanes = self.lanes;
        let mut done = 0;
        // Ends: each round copies bytes.
        while done < bytes {
            let rest = Request {
                target: self.target(),
                memory: address.wrapping_add(done),
                bytes: bytes - done,
                offset: done,
            };
            let request = (lanes.lane() == copier).then_some(rest);
            let moved = transfer(self.session, lanes, false, request);
            match lanes.broadcast(FileSize(moved), copier).0? {
                // Cut by another process that got at it.
                0 => return Err(Errno::IO),
                moved => done += moved,
            }
        }
        Ok(())
    }

    /// [`File::memory_text`] of a lane alone, but for the NUL.
    fn text(&self, memory: u64, room: u64) -> Result<MemoryText, Errno> {
        if self.stream.memory.kind() == MemoryKind::None {
            return Err(Errno::INVAL);
        }
        self.flush()?;
        let position = match self.stream.direction() {
            Direction::Writing => self.written_position()?,
            Direction::Idle | Direction::Reading => self.read_position(),
        };
        let bytes = self.size()?;
        if bytes < room {
            self.copy_out(self.lanes.mask().first(), memory, bytes)?;
        }
        Ok(MemoryText { bytes: usize::try_from(bytes).unwrap_or(usize::MAX), position })
    }

    /// Whether a stream may be moved to `position`: one of `fmemopen` not beyond its memory.
    ///
    /// # Errors
    /// `EINVAL`.
    pub(super) fn check_place(&self, position: u64) -> Result<(), Errno> {
        let words = &self.stream.memory;
        let beyond = words.kind() == MemoryKind::Fixed && position > words.limit.peek();
        if beyond { Err(Errno::INVAL) } else { Ok(()) }
    }
}

/// What tells the lane that opened a stream. Never 0. Any lane.
fn opener() -> u64 {
    Machine::launch() << 40 | ((global_thread() + 1) & ((1 << 40) - 1))
}

/// Bytes before the first NUL of `bytes` at `memory`; 0 for null.
///
/// # Safety
/// Null, or so many bytes.
unsafe fn length_of(memory: *const u8, bytes: usize) -> u64 {
    if memory.is_null() {
        return 0;
    }
    // Ends: at `bytes`.
    for at in 0..bytes {
        let byte = memory.wrapping_add(at);
        // SAFETY:
        // - within the memory, by this function's contract; bytes have no alignment
        if unsafe { byte.read() } == 0 {
            return at as u64;
        }
    }
    bytes as u64
}

/// Puts a NUL behind a text of `end` bytes that does not end with one.
///
/// # Safety
/// `address` is that of `end` bytes and one more.
unsafe fn end_text(address: u64, end: u64) {
    let place = core::ptr::with_exposed_provenance_mut::<u8>(address.wrapping_add(end) as usize);
    // SAFETY:
    // - with bytes before it, one of these, by this function's contract
    let ends_with_nul = end > 0 && unsafe { place.wrapping_sub(1).read() } == 0;
    if !ends_with_nul {
        // SAFETY:
        // - the byte behind the text, by this function's contract
        unsafe { place.write(0) };
    }
}

/// A stream on a new file in memory for every lane that has a request; the error of a lane that has none is handed back. Convergent; called by
/// `lanes`.
#[inline(never)]
fn open(fs: Fs, lanes: Lanes, request: Result<Opening, Errno>) -> Result<File, Errno> {
    let session = fs.session();
    let claimed = request.and_then(|opening| Ok((claim_with_file(session)?, opening)));
    let entry = claimed
        .ok()
        .map(|(_, opening)| Sqe::memory_file(opening.zeros, opening.flags & OpenFile::APPEND != 0));
    let made = Errno::check(serve(session, lanes, entry));
    let made = claimed.and_then(|((file, stream), opening)| match made {
        Ok(number) => {
            session.journal.note_open(file.0, number);
            file::enter(session, file, number, opening.flags);
            Ok((file, stream, opening))
        }
        Err(errno) => {
            session.files_free.release(Claim::single(file.0));
            session.streams_free.release(Claim::single(stream));
            Err(errno)
        }
    });
    let content = made.ok().map(|(file, _, opening)| (target_of(session, file), opening.content));
    let filled = fill(session, lanes, content);
    let failed = made.ok().filter(|_| filled.is_err()).map(|(file, ..)| file);
    if lanes.any(failed.is_some()) {
        // The error of the content is the caller's concern.
        let _ = file::close(fs, lanes, failed);
    }
    let (file, stream, opening) = made?;
    if let Err(errno) = filled {
        session.streams_free.release(Claim::single(stream));
        return Err(errno);
    }
    Ok(stream_on(session, stream, file, opening.position))
}

fn target_of(session: &SessionTables, file: Descriptor) -> Target {
    session.files()[file.0 as usize].target(file)
}

/// Puts each lane's memory at the start of its file, which is empty. Convergent; called by `lanes`.
fn fill(session: &SessionTables, lanes: Lanes, content: Option<(Target, (u64, u64))>) -> Result<(), Errno> {
    let mut done = 0;
    let mut outcome = Ok(());
    let bytes = content.map_or(0, |(_, (_, bytes))| bytes);
    // Ends: each round writes bytes of some lane, or fails.
    loop {
        let goes_on = done < bytes && outcome.is_ok();
        if !lanes.any(goes_on) {
            return outcome;
        }
        let request = content.filter(|_| goes_on).map(|(target, (address, bytes))| Request {
            target,
            memory: address.wrapping_add(done),
            bytes: bytes - done,
            offset: done,
        });
        let moved = transfer(session, lanes, true, request);
        if goes_on {
            match moved {
                Ok(0) => outcome = Err(Errno::NOSPC),
                Ok(moved) => done += moved,
                Err(errno) => outcome = Err(errno),
            }
        }
    }
}

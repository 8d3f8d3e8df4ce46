//! `splice(2)`, `tee(2)`: bytes from a pipe or into one, without the lanes' memory.

use gpufs_core::abi::{CURRENT_POSITION, POLLIN, POLLOUT, SPLICE_F_ALL, Sqe};
use gpufs_core::failures::counted;
use gpufs_core::session::{OpenFile, SessionTables};
use gpufs_core::{Call, Errno};

use super::SPLICE_F_NONBLOCK;
use crate::Fs;
use crate::file::Descriptor;
use crate::io::{Awaited, await_until, serve};
use crate::warp::Lanes;

/// The most bytes of one call, as of every transfer of Linux's (`MAX_RW_COUNT`).
const BYTES_MAX: usize = 0x7fff_f000;

impl Fs {
    /// Moves up to `bytes` bytes between two descriptors, of which one at least is a pipe's, as
    /// [splice(2)](https://man7.org/linux/man-pages/man2/splice.2.html): how many; 0 where the pipe is empty and nobody has it open for writing, and
    /// at the end of the file. Waits until it can move some, unless with [`SPLICE_F_NONBLOCK`] or of a pipe that does not wait. With an offset, in
    /// bytes from the start, a file is read or written there, and the offset moves; without, at its position, which moves.
    ///
    /// # Errors
    /// `EBADF`, also for an end that is not open for its direction; `EINVAL` for a flag that there is not, where neither is a pipe, both are the same
    /// one, or one is a socket, a terminal or open for appending; `ESPIPE` for an offset of a pipe; `EAGAIN` where it would have to wait and must
    /// not; the system call's: `EPIPE`, `ENOSPC`, `EFBIG` …
    pub fn splice(
        self,
        from: Descriptor,
        from_offset: Option<&mut u64>,
        to: Descriptor,
        to_offset: Option<&mut u64>,
        bytes: usize,
        flags: u32,
    ) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Splice);
        let offsets = [from_offset.as_deref().copied(), to_offset.as_deref().copied()];
        let asked = Asked { ends: [from, to], offsets, bytes, flags, tees: false };
        let moved = self.pass(lanes, asked);
        if let Ok(count) = moved {
            // No loop over the two: LLVM 22 copies from vector to scalar registers for it, which gfx11 cannot.
            if let Some(offset) = from_offset {
                *offset += count as u64;
            }
            if let Some(offset) = to_offset {
                *offset += count as u64;
            }
        }
        counted(self.session(), Call::Splice, moved)
    }

    /// Copies up to `bytes` bytes of what is in a pipe into another, as [tee(2)](https://man7.org/linux/man-pages/man2/tee.2.html), and leaves them
    /// in the first: how many; 0 where that is empty and nobody has it open for writing. Waits as [`Fs::splice`].
    ///
    /// # Errors
    /// `EBADF`, also for an end that is not open for its direction; `EINVAL` for a flag that there is not, where one is no pipe, or both are the same
    /// one; `EAGAIN` where it would have to wait and must not; `EPIPE` where nobody has the second open for reading.
    pub fn tee(self, from: Descriptor, to: Descriptor, bytes: usize, flags: u32) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Tee);
        let asked = Asked { ends: [from, to], offsets: [None; 2], bytes, flags, tees: true };
        counted(self.session(), Call::Tee, self.pass(lanes, asked))
    }

    /// Convergent; called by `lanes`.
    #[inline(never)]
    fn pass(self, lanes: Lanes, asked: Asked) -> Result<usize, Errno> {
        let session = self.session();
        let passing = asked.check(session);
        // What has to move a position goes by its file's lock, one lane after the other; all else is tried as one batch.
        let together = passing.ok().filter(|passing| passing.positioned().is_none());
        let tried = Errno::check(serve(session, lanes, together.map(|passing| passing.entry([None; 2]))));
        let goes_on = match (passing, together) {
            (Ok(passing), Some(_)) => passing.waits && tried == Err(Errno::AGAIN),
            (Ok(_), None) => true,
            (Err(_), _) => false,
        };
        let going_on = lanes.ballot(goes_on);
        let passing = passing?;
        if !goes_on {
            return tried.map(|count| count as usize);
        }
        let mut waits_first = together.is_some();
        lanes.subset(going_on).grouped(u64::from(lanes.lane()), |alone| {
            // Ends: each round waits for another party, or is the last.
            loop {
                if waits_first {
                    passing.wait(session, alone)?;
                }
                waits_first = true;
                if !passing.is_still_open(session) {
                    return Err(Errno::BADF);
                }
                match self.attempt(alone, passing) {
                    Err(Errno::AGAIN) if passing.waits => {}
                    done => return done.map(|count| count as usize),
                }
            }
        })
    }

    /// Tries once. One lane alone.
    fn attempt(self, alone: Lanes, passing: Passing) -> Result<u32, Errno> {
        let session = self.session();
        let Some(which) = passing.positioned() else {
            return Errno::check(serve(session, alone, Some(passing.entry([None; 2]))));
        };
        self.one_by_one(alone, passing.ends[which].descriptor, |alone, file| {
            let position = file.position.peek();
            let mut positions = [None; 2];
            positions[which] = Some(position);
            let moved = Errno::check(serve(session, alone, Some(passing.entry(positions))));
            if let Ok(count) = moved {
                file.position.set(position + u64::from(count));
            }
            moved
        })
    }
}

/// What a lane asks for: from the first end to the second.
#[derive(Clone, Copy)]
struct Asked {
    ends: [Descriptor; 2],
    offsets: [Option<u64>; 2],
    bytes: usize,
    flags: u32,
    tees: bool,
}

/// The same, of two files that are open.
#[derive(Clone, Copy)]
struct Passing {
    ends: [Awaited; 2],
    numbers: [i32; 2],
    offsets: [Option<u64>; 2],
    bytes: u32,
    flags: u32,
    tees: bool,
    waits: bool,
}

impl Asked {
    fn check(self, session: &SessionTables) -> Result<Passing, Errno> {
        if self.flags & !SPLICE_F_ALL != 0 {
            return Err(Errno::INVAL);
        }
        let [from, to] = self.ends;
        let ends = [Awaited::new(session, from, POLLIN)?, Awaited::new(session, to, POLLOUT)?];
        let numbers = [session.process_descriptor(from)?, session.process_descriptor(to)?];
        for (end, access) in ends.iter().zip([OpenFile::READABLE, OpenFile::WRITABLE]) {
            if end.flags & access == 0 {
                return Err(Errno::BADF);
            }
        }
        for (end, offset) in ends.iter().zip(self.offsets) {
            if end.flags & (OpenFile::SOCKET | OpenFile::TERMINAL) != 0 {
                return Err(Errno::INVAL);
            }
            match offset {
                Some(_) if OpenFile::may_wait(end.flags) && end.flags & OpenFile::SHARED == 0 => {
                    return Err(Errno::SPIPE);
                }
                Some(offset) if offset > i64::MAX.cast_unsigned() => return Err(Errno::INVAL),
                _ => {}
            }
        }
        // Neither is a pipe.
        if ends.iter().all(|end| !OpenFile::may_wait(end.flags)) {
            return Err(Errno::INVAL);
        }
        let waits = self.flags & SPLICE_F_NONBLOCK == 0
            && ends.iter().all(|end| !OpenFile::may_wait(end.flags) || end.waits());
        Ok(Passing {
            ends,
            numbers,
            offsets: self.offsets,
            bytes: self.bytes.min(BYTES_MAX) as u32,
            flags: self.flags,
            tees: self.tees,
            waits,
        })
    }
}

impl Passing {
    /// The end that is a file whose position says where, and moves.
    fn positioned(&self) -> Option<usize> {
        let at_position = |which: usize| {
            self.ends[which].flags & OpenFile::SEEKABLE != 0 && self.offsets[which].is_none() && !self.tees
        };
        (0..2).find(|which| at_position(*which))
    }
    /// With the positions of files that have one.
    fn entry(&self, positions: [Option<u64>; 2]) -> Sqe {
        let ([from, to], flags) = (self.numbers, self.flags | SPLICE_F_NONBLOCK);
        if self.tees {
            return Sqe::tee(from, to, self.bytes, flags);
        }
        let at = |which: usize| self.offsets[which].or(positions[which]).unwrap_or(CURRENT_POSITION);
        Sqe::splice((from, at(0)), (to, at(1)), self.bytes, flags)
    }
    fn is_still_open(&self, session: &SessionTables) -> bool {
        self.ends.iter().all(|end| end.is_still_open(session))
    }
    /// Waits until what is read has something and what is written has room. Holds nothing else. One lane alone.
    fn wait(&self, session: &SessionTables, alone: Lanes) -> Result<(), Errno> {
        for end in self.ends.iter().filter(|end| OpenFile::may_wait(end.flags)) {
            await_until(session, alone, end.target, end.events, None)?;
        }
        Ok(())
    }
}

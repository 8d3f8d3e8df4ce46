//! The text of a `write!`, formatted as a whole before anything of a stream is touched.
//!
//! A value's `Display` is code of the program: it may panic, take long, print something else the next time, and make calls of its own, on the same
//! stream, too. So it runs while its lane holds nothing that another lane waits for: no lock, no room of a stream ([D-13]), no buffer of
//! a transfer. What it prints goes to scratch memory of the lane; a longer text to *runs* of buffers of [`SessionTables::records`](gpufs_core::session::SessionTables::records), from which only
//! this takes:
//!
//! ```text
//! run of 1 to 16 buffers:   Head { next, buffers } │ text …
//! ```
//!
//! *Whose memory.* On the host a `Display` may take as long as it likes, and its session be closed meanwhile, by another thread or by itself: so it
//! does not run inside of its call ([`Inside`]), for which closing would wait. Each step that touches the memory of runs is inside by itself, with
//! the number of the session that the text began in. A text whose session is gone has lost its memory with it.
//!
//! *What waits.* A text that finds no memory left gives back what it has, is formatted to its end to learn its length, and waits until memory for
//! all of it can be had at once; then it is formatted again. So no text waits for memory while it holds some; only one that is printed *inside*
//! another's `Display` may wait while its lane holds some for the outer one. Hence the wait has an end: a time, and `ENOMEM`.
#![allow(unsafe_code, reason = "text in the session's memory")]

use core::fmt::{self, Write};

use gpufs_core::{Claim, Errno};
use memchr::memchr;

use super::File;
use super::lines::NEWLINE;
use super::output::Record;
use crate::inside::Inside;
use crate::io::{Flow, copy_alone, copy_raw, slot_hint};
use crate::warp::{Machine, Warp, clock, nap};

/// Bytes of a lane's scratch memory.
const SCRATCH_BYTES: usize = 256;
/// No run.
const NONE: u32 = u32::MAX;
/// Shortest and longest nap of a wait for memory, in nanoseconds.
const NAP_NS: (u32, u32) = (1_000, 1_000_000);
/// After how long without any text's end one is refused that gets no memory, in a session without a deadline; and how often it has tried
/// by then at least: where a nap is only a turn of others, those that have memory need some.
const WAIT_NS_MAX: u64 = 60_000_000_000;
const FEWEST_TRIES: u32 = 10_000;

/// In front of a run's text.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Head {
    /// The first buffer of the next run, or [`NONE`].
    next: u32,
    /// Buffers of this one.
    buffers: u32,
}

const HEAD_BYTES: u64 = size_of::<Head>() as u64;

/// A text, taken in piece by piece. It lies in the scratch memory, or, from its first byte on, in runs.
pub(super) struct Text {
    file: File,
    /// The session whose memory the runs are. On a GPU there is no other.
    #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
    owner: crate::Fs,
    scratch: [u8; SCRATCH_BYTES],
    /// Length in bytes.
    bytes: u64,
    /// The first run and the last one; [`NONE`] if there is none.
    first: u32,
    last: u32,
    /// The run that is being filled, [`NONE`] before the first; where its next byte goes, and how many go there.
    run: u32,
    at: u64,
    room: u64,
    has_newline: bool,
    /// There was no memory for all of it: nothing is kept, and only the length counts.
    is_lost: bool,
}

impl Text {
    /// A text for a stream, still empty.
    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
            owner: crate::Fs::of(file.session),
            scratch: [0; SCRATCH_BYTES],
            bytes: 0,
            first: NONE,
            last: NONE,
            run: NONE,
            at: 0,
            room: 0,
            has_newline: false,
            is_lost: false,
        }
    }

    /// Begins a step on the memory of runs.
    ///
    /// # Errors
    /// On the host: `EBADF` where the session is closed, `EBUSY` where its tables are a GPU's now.
    #[inline]
    fn enter(&self) -> Result<Inside, Errno> {
        #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
        return self.owner.enter();
        #[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
        Inside::enter(self.file.session, 0)
    }

    /// Whether the text is there to be written, by a call that is inside of the session that has the tables now.
    ///
    /// # Errors
    /// `EBADF` where that is a later session: the text is gone.
    #[cfg_attr(
        any(target_arch = "nvptx64", target_arch = "amdgpu"),
        expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "an error on the host")
    )]
    pub(super) fn confirm(&mut self, _: &Inside) -> Result<(), Errno> {
        #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
        if self.first != NONE && self.owner.is_past() {
            self.forget();
            self.bytes = 0;
            return Err(Errno::BADF);
        }
        Ok(())
    }

    /// Takes in what `arguments` print; nothing where that fails. One lane, once.
    ///
    /// # Errors
    /// `EINVAL` if a `Display` fails; `ENOMEM` where there is no memory for so long a text; `EBADF` where the session is
    /// closed meanwhile, or it waits for memory and the stream is closed.
    pub(super) fn print(&mut self, arguments: fmt::Arguments<'_>) -> Result<(), Errno> {
        let outcome = self.format(arguments);
        if outcome.is_err() {
            self.clear();
        }
        outcome
    }

    fn format(&mut self, arguments: fmt::Arguments<'_>) -> Result<(), Errno> {
        let mut formatted = self.write_fmt(arguments);
        if self.is_lost {
            self.wait_for(self.bytes)?;
            formatted = self.write_fmt(arguments);
            if self.is_lost {
                // Longer than the first time, and there is no memory for the rest; or the session was closed.
                return self.enter().and(Err(Errno::NOMEM));
            }
        }
        formatted.map_err(|fmt::Error| Errno::INVAL)
    }

    /// Begins again, with memory for `bytes` from the start.
    fn wait_for(&mut self, bytes: u64) -> Result<(), Errno> {
        self.clear();
        if bytes > self.most_bytes() {
            return Err(Errno::NOMEM);
        }
        let longest_ns =
            if self.file.session.deadline_ns == 0 { WAIT_NS_MAX } else { self.file.session.deadline_ns };
        let (mut nap_ns, mut tries, mut started_ns) = (NAP_NS.0, 0, clock());
        // ORDERING: relaxed here and below: a sign of progress.
        let mut ended = self.file.session.records_ended().peek();
        // Ends: memory is held by texts that are being formatted or written, which end; where they wait for each other, a time, or, by a clock
        // that stands still, a count.
        loop {
            let inside = self.enter()?;
            let mut held = 0;
            // Ends: each round claims a buffer at least, or is the last.
            while held < bytes
                && let Some(more) = self.claim(bytes - held)
            {
                held += more;
            }
            if held >= bytes {
                return Ok(());
            }
            self.release();
            tries += 1;
            if ended != self.file.session.records_ended().peek() {
                ended = self.file.session.records_ended().peek();
                (tries, started_ns) = (0, clock());
            }
            // ORDERING: relaxed: a hint. The memory of a session that is closed is never free again.
            if self.file.stream().generation.peek() != self.file.generation {
                return Err(Errno::BADF);
            }
            let waited_ns = clock().saturating_sub(started_ns);
            if tries > FEWEST_TRIES && (waited_ns == 0 || waited_ns > longest_ns) {
                return Err(Errno::NOMEM);
            }
            // Whoever closes the session does not wait for this text.
            drop(inside);
            nap(nap_ns);
            nap_ns = (nap_ns * 2).min(NAP_NS.1);
        }
    }

    /// No text, and no memory.
    fn clear(&mut self) {
        self.give_back();
        self.bytes = 0;
        self.has_newline = false;
        self.is_lost = false;
    }

    /// The most that there can be memory for, however it is cut up.
    fn most_bytes(&self) -> u64 {
        let records = &self.file.session.records;
        if records.base == 0 {
            return 0;
        }
        u64::from(records.free.capacity()) * (u64::from(records.buffer_bytes) - HEAD_BYTES)
    }

    /// Claims a run for `bytes`, or for fewer, after the last one; for how many. Inside, as all that follows but [`Text::give_back`].
    fn claim(&mut self, bytes: u64) -> Option<u64> {
        let records = &self.file.session.records;
        if records.base == 0 {
            return None;
        }
        let staged = records.claim_bytes(bytes + HEAD_BYTES, slot_hint(Machine::lane()))?;
        let (run, buffers) = (staged.claim.item(0), staged.claim.count());
        self.put_head(run, Head { next: NONE, buffers });
        if self.last == NONE {
            self.first = run;
        } else {
            self.put_head(self.last, Head { next: run, ..self.head(self.last) });
        }
        self.last = run;
        Some(u64::from(staged.bytes) - HEAD_BYTES)
    }

    /// What a run of this text begins with.
    fn head(&self, run: u32) -> Head {
        // SAFETY:
        // - the run is this text's alone, and its head was written when it was claimed
        // - buffers are aligned to 16, and longer than a head
        unsafe { (self.file.session.records.address(run) as *const Head).read() }
    }

    fn put_head(&self, run: u32, head: Head) {
        // SAFETY:
        // - the run is this text's alone; buffers are aligned to 16, and longer than a head
        unsafe { (self.file.session.records.address(run) as *mut Head).write(head) }
    }

    /// Where the text of a run lies, how long it can be, and which run is next.
    fn part(&self, run: u32) -> (u64, u64, u32) {
        let (records, head) = (&self.file.session.records, self.head(run));
        let room = u64::from(head.buffers) * u64::from(records.buffer_bytes) - HEAD_BYTES;
        (records.address(run) + HEAD_BYTES, room, head.next)
    }

    /// Goes on to the next run, if need be one claimed now; whether there is one.
    fn advance(&mut self, wanted: u64) -> bool {
        let next = if self.run == NONE { self.first } else { self.head(self.run).next };
        if next == NONE {
            // As much again as there is, so that a long text has few runs.
            if self.claim(wanted.max(self.bytes)).is_none() {
                return false;
            }
            self.run = self.last;
        } else {
            self.run = next;
        }
        (self.at, self.room, _) = self.part(self.run);
        true
    }

    /// Appends a piece to what the runs hold; whether there was memory for it.
    fn append(&mut self, mut piece: &[u8]) -> bool {
        // Ends: each round takes bytes of the piece, or goes on to a run, which has room.
        while !piece.is_empty() {
            if self.room == 0 && !self.advance(piece.len() as u64) {
                return false;
            }
            let count = (piece.len() as u64).min(self.room);
            #[allow(clippy::cast_possible_truncation, reason = "at most the piece's length")]
            let (here, rest) = piece.split_at(count as usize);
            // SAFETY:
            // - the run is this text's alone, and `room` bytes follow `at` in it; the piece lies elsewhere, since nobody is told where runs are
            unsafe { copy_raw(Flow::Out, self.at, here.as_ptr() as u64, count) };
            self.at += count;
            self.room -= count;
            piece = rest;
        }
        true
    }

    /// Puts the first `bytes` of the scratch memory where the rest will be; whether there was memory for them.
    fn move_scratch(&mut self, bytes: u64) -> bool {
        let scratch = self.scratch;
        #[allow(clippy::cast_possible_truncation, reason = "at most SCRATCH_BYTES")]
        self.append(&scratch[..bytes as usize])
    }

    /// Gives the runs back, if their session is still there. Not inside.
    fn give_back(&mut self) {
        if self.first == NONE {
            return;
        }
        let Ok(_inside) = self.enter() else { return self.forget() };
        self.release();
        // ORDERING: relaxed, as in `wait_for`.
        self.file.session.records_ended().fetch_add_relaxed(1);
    }

    /// Gives the runs back.
    fn release(&mut self) {
        let mut run = self.first;
        // Ends: the runs do.
        while run != NONE {
            let Head { next, buffers } = self.head(run);
            self.file.session.records.free.release(Claim::run(run, buffers));
            run = next;
        }
        self.forget();
    }

    /// Has no runs any more.
    const fn forget(&mut self) {
        (self.first, self.last, self.run, self.room) = (NONE, NONE, NONE, 0);
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Write for Text {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let piece = piece.as_bytes();
        let before = self.bytes;
        self.bytes += piece.len() as u64;
        if self.is_lost {
            // A text that goes on without end is too long for any memory.
            return if self.bytes > self.most_bytes() { Err(fmt::Error) } else { Ok(()) };
        }
        self.has_newline |= memchr(NEWLINE, piece).is_some();
        if self.first == NONE && self.bytes <= SCRATCH_BYTES as u64 {
            #[allow(clippy::cast_possible_truncation, reason = "at most SCRATCH_BYTES")]
            copy_alone(&mut self.scratch[before as usize..self.bytes as usize], piece);
            return Ok(());
        }
        match self.enter() {
            Ok(_inside) => {
                if (self.run == NONE && !self.move_scratch(before)) || !self.append(piece) {
                    self.release();
                    self.is_lost = true;
                }
            }
            // The memory went with the session.
            Err(_) => {
                self.forget();
                self.is_lost = true;
            }
        }
        Ok(())
    }
}

impl Record for Text {
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn emit(&self, skip: u64, into: &mut [u8]) {
        if self.first == NONE {
            return (&self.scratch[..]).emit(skip, into);
        }
        let (mut run, mut skip, mut done) = (self.first, skip, 0);
        // Ends: each round is a run's, and `skip` and `into` lie within the text.
        while done < into.len() && run != NONE {
            let (address, room, next) = self.part(run);
            let count = room.saturating_sub(skip).min((into.len() - done) as u64);
            if count > 0 {
                // SAFETY:
                // - the runs hold the text's bytes, among which these are; `into` has room for them and lies elsewhere
                unsafe { copy_raw(Flow::In, into[done..].as_mut_ptr() as u64, address + skip, count) };
            }
            #[allow(clippy::cast_possible_truncation, reason = "at most the slice's length")]
            let copied = count as usize;
            done += copied;
            skip = skip.saturating_sub(room);
            run = next;
        }
    }
    fn has_newline(&self) -> bool {
        self.has_newline
    }
    fn address(&self) -> Option<u64> {
        // Its scratch memory is its lane's own.
        (self.first != NONE && self.head(self.first).next == NONE)
            .then(|| self.file.session.records.address(self.first) + HEAD_BYTES)
    }
}

//! A text in memory that all lanes of a warp search: a whole short file, or a piece of a long one. Every function here is convergent.
#![expect(unsafe_code, reason = "memory that lanes share")]

use core::ffi::CStr;

use gpufs_device::Errno;
use gpufs_device::file::Descriptor;

use super::lines::Lines;
use super::output::Line;
use super::survey::{Carry, Place, Slice};
use super::text::Decimal;
use super::{Remark, STRETCH_BYTES, Show, Warp};

/// The least text whose lines are printed together. It matters where many short lines have long file names.
const RANGE_BYTES_MIN: usize = 512;

/// A text and where it comes from.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) name: &'a CStr,
    pub(super) descriptor: Descriptor,
    /// Where in the file it begins.
    pub(super) offset: u64,
    /// The text, and as many of the bytes after it as a match may reach.
    pub(super) text: &'a [u8],
    /// Bytes of the text itself.
    pub(super) own: usize,
    /// Whether the file ends with it.
    pub(super) closes: bool,
}

/// What a text adds to the output.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Where the printed lines end: at the end of the text, or where the file becomes binary.
    cut: usize,
    /// Whether some of them match.
    has_lines: bool,
    /// Whether the last line of the file, which has no newline, matches.
    is_closing: bool,
    /// Whether a line matches that is not printed, because the file is binary.
    pub(super) is_binary: bool,
    /// The caller's slice of the text up to `cut`, and its place.
    slice: Slice,
    /// As above.
    place: Place,
}

impl Found {
    /// Whether there are lines to print.
    pub(super) const fn has_output(&self) -> bool {
        self.has_lines || self.is_closing
    }
}

impl<'a> Warp<'a> {
    /// Reads `wanted` bytes of a file to `at` in the warp's memory: the number of bytes read, fewer at the end of the file.
    #[inline(never)]
    pub(super) fn load(
        &self,
        descriptor: Descriptor,
        at: usize,
        offset: u64,
        wanted: usize,
    ) -> Result<usize, Errno> {
        let lanes = self.lanes;
        let mut done = 0;
        lanes.sync();
        // Ends: each round reads bytes, or meets the end of the file or an error.
        while done < wanted {
            // The leader requests the bytes. The other lanes request none, and take part in the call to copy what comes over the bus.
            let from = at + done;
            let to = if lanes.is_leader() { at + wanted } else { from };
            // SAFETY:
            // - only the leader uses it, until the next barrier
            let into = unsafe { self.memory.write(from, to) };
            let outcome = self.fs.pread(descriptor, into, offset + done as u64);
            let word = match outcome {
                Ok(count) => count as u64,
                Err(errno) => FAILED | u64::from(errno.number().cast_unsigned()),
            };
            let word = lanes.from_leader(word);
            #[allow(clippy::cast_possible_truncation, reason = "an errno, or at most `wanted`")]
            match word {
                0 => break,
                word if word & FAILED != 0 => return Err(Errno::from_number(word as i32)),
                word => done += word as usize,
            }
        }
        lanes.sync();
        Ok(done)
    }

    /// The bytes that [`Warp::load`] read to the beginning of the warp's memory.
    pub(super) fn loaded(&self, bytes: usize) -> &'a [u8] {
        // SAFETY:
        // - read before the barrier in `load`; the next call writes only after another barrier
        unsafe { self.memory.read(0, bytes) }
    }

    /// Updates the state of the file from before a text to after it, and returns what of the text is printed; `whole` is the caller's slice of
    /// the whole text.
    pub(super) fn find_output(&self, source: &Source<'a>, whole: &Slice, carry: &mut Carry) -> Found {
        let lanes = self.lanes;
        let mut found = Found { cut: source.own, slice: *whole, ..Found::default() };
        let nul = lanes.ballot(whole.nul.is_some());
        let before = carry.matches;
        if nul.is_empty() || carry.is_binary {
            found.place = self.advance_carry(carry, whole, source.offset);
            found.has_lines = !carry.is_binary && carry.matches > before;
            found.is_binary = carry.is_binary && carry.matches > before;
        } else {
            // The stretch with the first NUL is binary as a whole.
            let at = source.offset + lanes.broadcast(whole.nul.unwrap_or(0) as u64, nul.first());
            let cut = (at - at % STRETCH_BYTES as u64).saturating_sub(source.offset);
            found.cut = usize::try_from(cut).unwrap_or(usize::MAX);
            found.slice = self.survey(source.text, 0, found.cut);
            found.place = self.advance_carry(carry, &found.slice, source.offset);
            found.has_lines = carry.matches > before;
            let before = carry.matches;
            carry.is_binary = true;
            self.advance_carry(carry, &self.survey(source.text, found.cut, source.own), source.offset);
            found.is_binary = carry.matches > before;
        }
        let end = source.offset + source.own as u64;
        if source.closes && carry.line_start < end && carry.has_match {
            carry.matches += 1;
            found.is_closing = !carry.is_binary;
            found.is_binary |= carry.is_binary;
        }
        carry.is_decided = match self.job.show {
            Show::Lines => found.is_binary,
            Show::Counts => false,
            Show::Names => carry.matches > 0,
        };
        if carry.matches > 0 && lanes.is_leader() {
            self.job.matched.set(1);
        }
        found
    }

    /// Prints the matching lines of a text; `before` and `after` are the states of the file before and after it.
    pub(super) fn emit(&mut self, source: &Source<'a>, before: Carry, found: &Found, after: &Carry) {
        if self.job.show != Show::Lines {
            return;
        }
        let cut = if found.has_lines { found.cut } else { 0 };
        let most = self.job.output_bytes();
        let (mut carry, mut from, mut step) = (before, 0, RANGE_BYTES_MIN.max(most / 2));
        // The lines of the whole text at once, if they fit, as they do where few match: `found` has their survey.
        if 0 < cut && self.emit_range(source, &before, &found.slice, &found.place, true) {
            from = cut;
        }
        // Ends: `from` grows, or `step` shrinks, which it does until it is `RANGE_BYTES_MIN`.
        while from < cut && !self.is_stopped() {
            let to = cut.min(from + step);
            let slice = self.survey(source.text, from, to);
            let mut next = carry;
            let place = self.advance_carry(&mut next, &slice, source.offset);
            let may_refuse = step > RANGE_BYTES_MIN;
            if next.matches > carry.matches && !self.emit_range(source, &carry, &slice, &place, may_refuse) {
                step = RANGE_BYTES_MIN.max(step / 4);
                continue;
            }
            (carry, from) = (next, to);
        }
        if found.is_closing {
            let end = source.offset + source.own as u64;
            self.emit_line(source, (after.line_start, end), after.newlines + 1);
        }
    }

    /// Prints the matching lines of a range of a text; `slice` and `place` are the caller's of that range. Returns `false`, having printed
    /// nothing, if the lines do not fit into the buffer and it `may_refuse`.
    #[inline(never)]
    fn emit_range(
        &mut self,
        source: &Source<'a>,
        before: &Carry,
        slice: &Slice,
        place: &Place,
        may_refuse: bool,
    ) -> bool {
        let (job, lanes) = (self.job, self.lanes);
        let name = job.is_named().then_some(source.name.to_bytes());
        // At most one line begins before the text.
        let is_split = place.matches && place.start < source.offset;
        let searcher = super::Searcher::new(&job.needle);
        let (text, ends) = (source.text, slice.ends);
        #[allow(clippy::cast_possible_truncation, reason = "within the text")]
        let start = (place.matches && !is_split).then(|| (place.start - source.offset) as usize);
        let lines = Lines::new((&searcher, text), (slice, place), start, job.is_numbered());
        let each_line = |each: &mut dyn FnMut(Line<'a>)| {
            for (start, end, number) in lines {
                let number = job.is_numbered().then_some(number);
                each(Line { name, number, text: &text[start..end] });
            }
        };
        let sizes = self.measure(each_line);
        let fits = sizes.2 <= job.output_bytes();
        if !fits && may_refuse {
            return false;
        }
        let split = lanes.ballot(is_split);
        if !split.is_empty() {
            let end = lanes.broadcast(ends.map_or(0, |(first, _)| first as u64), split.first());
            self.emit_line(source, (before.line_start, source.offset + end), before.newlines + 1);
        }
        if fits {
            self.put(sizes, each_line);
            return true;
        }
        // A long line, or a few short ones with very long file names: one at a time.
        for lane in lanes.mask().iter() {
            let mut index = 0;
            // Ends: over the lane's lines.
            loop {
                let (mut found, mut at) = ((0, 0, 0), 0);
                if lanes.lane() == lane {
                    each_line(&mut |line| {
                        at += 1;
                        if at == index + 1 {
                            let start = line.text.as_ptr() as u64 - text.as_ptr() as u64;
                            found = (start, start + line.text.len() as u64, line.number.unwrap_or(0));
                        }
                    });
                }
                if !lanes.any(at > index) {
                    break;
                }
                let (start, end) = (lanes.broadcast(found.0, lane), lanes.broadcast(found.1, lane));
                let number = lanes.broadcast(found.2, lane);
                self.emit_line(source, (source.offset + start, source.offset + end), number);
                index += 1;
            }
        }
        true
    }

    /// Prints a line: bytes [`start`, `end`) of the file, of which the text holds all, or the end.
    fn emit_line(&mut self, source: &Source<'a>, (start, end): (u64, u64), number: u64) {
        let job = self.job;
        if job.is_named() {
            self.append(source.name.to_bytes());
            self.append(b":");
        }
        if job.is_numbered() {
            self.append(Decimal::new(number).as_bytes());
            self.append(b":");
        }
        if start < source.offset {
            self.append_file(source.descriptor, start, source.offset.min(end));
        }
        #[allow(clippy::cast_possible_truncation, reason = "within the text")]
        let within = |at: u64| at.saturating_sub(source.offset) as usize;
        self.append(&source.text[within(start)..within(end)]);
        self.append(b"\n");
    }

    /// Prints what concerns the file as a whole. Once for each file, where it ends or the result is decided.
    pub(super) fn conclude(&mut self, name: &CStr, carry: &Carry) {
        match self.job.show {
            Show::Names if carry.matches > 0 => self.append(name.to_bytes()),
            Show::Lines | Show::Names => return,
            Show::Counts => {
                if self.job.is_named() {
                    self.append(name.to_bytes());
                    self.append(b":");
                }
                self.append(Decimal::new(carry.matches).as_bytes());
            }
        }
        self.append(b"\n");
    }

    /// Searches a file from `offset` to its end, and prints what it finds: the message about the file, and its last state.
    pub(super) fn search_rest(
        &mut self,
        name: &'a CStr,
        descriptor: Descriptor,
        mut offset: u64,
        mut carry: Carry,
    ) -> (Remark, Carry) {
        // Ends: with the file, or where output has failed.
        while !self.is_stopped() {
            let source = match self.load(descriptor, 0, offset, self.job.wanted_bytes()) {
                Ok(bytes) => self.source(name, descriptor, offset, bytes),
                Err(errno) => return (Remark::Failed(errno), carry),
            };
            let whole = self.survey(source.text, 0, source.own);
            let before = carry;
            let found = self.find_output(&source, &whole, &mut carry);
            self.emit(&source, before, &found, &carry);
            if found.is_binary && self.job.show == Show::Lines {
                return (Remark::BinaryMatches, carry);
            }
            if source.closes || carry.is_decided {
                break;
            }
            offset += source.own as u64;
        }
        (Remark::Nothing, carry)
    }

    /// The piece at `offset` of a file, of which `bytes` bytes were loaded; fewer than [`super::Job::wanted_bytes`] if the file ends there.
    pub(super) fn source(
        &self,
        name: &'a CStr,
        descriptor: Descriptor,
        offset: u64,
        bytes: usize,
    ) -> Source<'a> {
        let piece = self.job.piece_bytes();
        let closes = bytes < self.job.wanted_bytes() && bytes <= piece;
        Source { name, descriptor, offset, text: self.loaded(bytes), own: bytes.min(piece), closes }
    }
}

/// Marks a word that holds an errno; a count of bytes is smaller.
const FAILED: u64 = 1 << 63;

//! One file, searched by all lanes of a warp. Everything here is convergent, but for the functions that say otherwise.
#![allow(unsafe_code, reason = "memory that lanes share")]

use core::ffi::CStr;

use gpufs_device::file::Descriptor;
use gpufs_device::{Errno, Fs};
use memchr::{memchr, memchr_iter};

use super::output::Line;
use super::text::{Decimal, Ends, Matches};
use super::{Remark, START_BYTES, STRETCH_BYTES, Show, WINDOW_BYTES, Warp};

/// What is known of a file so far.
struct Sight {
    ends: Ends,
    /// Newlines before the text that comes next.
    newlines: u64,
    /// Lines that matched.
    matches: u64,
    /// Nothing more needs to be known.
    is_decided: bool,
}

/// Reads until `into` is full or the file ends: how many bytes. Any lane, each for itself. Once in the device program, as `write` is.
#[inline(never)]
fn read_all(fs: Fs, descriptor: Descriptor, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut done = 0;
    // Ends: each round reads bytes, or meets the end of the file or an error.
    while done < into.len() {
        match fs.pread(descriptor, &mut into[done..], offset + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}

impl<'a> Warp<'a> {
    /// Reads the beginning of the caller's own file. Each lane for itself.
    pub(super) fn read_start(&self, descriptor: Descriptor) -> Result<usize, Errno> {
        let from = self.lanes.rank() as usize * START_BYTES;
        // SAFETY:
        // - the beginning of this rank is this lane's until the next barrier
        let into = unsafe { self.memory.write(from, from + START_BYTES) };
        read_all(self.fs, descriptor, into, 0)
    }

    /// What [`Warp::read_start`] read in the lane of this rank: by that lane, or behind a barrier. Any lane.
    pub(super) fn start(&self, rank: u32, bytes: usize) -> &'a [u8] {
        let from = rank as usize * START_BYTES;
        // SAFETY:
        // - read before the barrier; the next batch begins behind another
        unsafe { self.memory.read(from, from + bytes) }
    }

    /// Searches a file, of which the lane of `rank` has read the first `bytes`, and puts out what it found.
    pub(super) fn file(&mut self, name: &CStr, descriptor: Descriptor, rank: u32, bytes: usize) -> Remark {
        let mut sight = Sight { ends: Ends::Newline, newlines: 0, matches: 0, is_decided: false };
        let mut failed = None;
        if bytes < START_BYTES {
            let text = self.start(rank, bytes);
            self.text(name, &mut sight, text, true);
        } else {
            failed = self.long_file(name, descriptor, &mut sight).err();
        }
        self.conclude(name, &sight);
        let is_unprinted =
            self.job.show == Show::Lines && sight.ends == Ends::NewlineOrNul && sight.is_decided;
        match failed {
            Some(errno) => Remark::Failed(errno),
            None if is_unprinted => Remark::BinaryMatches,
            None => Remark::Nothing,
        }
    }

    /// Prints what concerns the file as a whole.
    fn conclude(&mut self, name: &CStr, sight: &Sight) {
        let is_leader = self.lanes.is_leader();
        if is_leader && sight.matches > 0 {
            self.job.matched.set(1);
        }
        let count = Decimal::new(sight.matches);
        let shown = match self.job.show {
            Show::Lines => return,
            Show::Counts => Line {
                name: self.job.is_named().then_some(name.to_bytes()),
                number: None,
                text: count.as_bytes(),
            },
            Show::Names if sight.matches > 0 => Line { name: None, number: None, text: name.to_bytes() },
            Show::Names => return,
        };
        self.put(|each| {
            if is_leader {
                each(shown);
            }
        });
    }

    /// Searches a file window by window. A window begins with a line and ends where a stretch ends.
    fn long_file(&mut self, name: &CStr, descriptor: Descriptor, sight: &mut Sight) -> Result<(), Errno> {
        // The next line, and how far the file was read.
        let (mut at, mut seen) = (0, 0);
        // Ends: `seen` grows.
        while !sight.is_decided && !self.is_stopped() {
            let wanted = seen + STRETCH_BYTES as u64 - at;
            if wanted > WINDOW_BYTES as u64 {
                at = self.long_line(name, descriptor, at, sight)?;
                seen = at - at % STRETCH_BYTES as u64;
                continue;
            }
            #[allow(clippy::cast_possible_truncation, reason = "at most WINDOW_BYTES")]
            let window = self.window(descriptor, at, wanted as usize)?;
            let is_last = (window.len() as u64) < wanted;
            at += self.text(name, sight, window, is_last) as u64;
            seen += STRETCH_BYTES as u64;
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Reads a part of a file, each lane a slice; shorter where the file ends.
    #[inline(never)]
    fn window(&self, descriptor: Descriptor, offset: u64, bytes: usize) -> Result<&'a [u8], Errno> {
        let lanes = self.lanes;
        let window = START_BYTES * lanes.count() as usize;
        let share = bytes.div_ceil(lanes.count() as usize).next_multiple_of(4096);
        let from = bytes.min(share * lanes.rank() as usize);
        let to = bytes.min(from + share);
        lanes.sync();
        // SAFETY:
        // - between two barriers, and the lanes' slices do not overlap
        let into = unsafe { self.memory.write(window + from, window + to) };
        let outcome = read_all(self.fs, descriptor, into, offset + from as u64);
        let (reached, errno) = match outcome {
            Ok(count) => (from + count, 0),
            Err(errno) => (from, errno.number()),
        };
        let errors = lanes.ballot(errno != 0);
        if !errors.is_empty() {
            #[allow(clippy::cast_possible_truncation, reason = "an errno")]
            let errno = lanes.broadcast(u64::from(errno.cast_unsigned()), errors.first()) as i32;
            return Err(Errno::from_number(errno));
        }
        // The file ends in the first slice that is not full.
        let short = lanes.ballot(reached < to);
        let reached =
            if short.is_empty() { bytes as u64 } else { lanes.broadcast(reached as u64, short.first()) };
        #[allow(clippy::cast_possible_truncation, reason = "at most `bytes`")]
        let reached = reached as usize;
        // SAFETY:
        // - nobody writes there before the next call's first barrier
        Ok(unsafe { self.memory.read(window, window + reached) })
    }

    /// The caller's slice of a text.
    fn slice(&self, bytes: usize) -> (usize, usize) {
        let share = bytes.div_ceil(self.lanes.count() as usize);
        let from = bytes.min(share * self.lanes.rank() as usize);
        (from, bytes.min(from + share))
    }

    /// Notes whether the text makes the file binary.
    fn judge(&self, sight: &mut Sight, text: &[u8]) {
        let (from, to) = self.slice(text.len());
        if sight.ends == Ends::Newline && self.lanes.any(memchr(0, &text[from..to]).is_some()) {
            sight.ends = Ends::NewlineOrNul;
        }
    }

    /// Searches the lines of a text that begins with one; how many bytes they were. The last line of the file needs no end.
    #[inline(never)]
    fn text(&mut self, name: &CStr, sight: &mut Sight, text: &[u8], is_last: bool) -> usize {
        let lanes = self.lanes;
        self.judge(sight, text);
        let ends = sight.ends;
        let used = if is_last { text.len() } else { ends.last_start(text) };
        let lines = &text[..used];
        // Mine are those that begin in my slice.
        let (from, to) = self.slice(used);
        let mine = &lines[ends.start_from(lines, from)..ends.start_from(lines, to)];
        let matches = Matches { searcher: &self.searcher, ends, text: mine, next: 0 };
        if self.job.show == Show::Counts {
            let count = matches.count() as u64;
            sight.matches += self.sum(count);
            return used;
        }
        let mut matches = matches;
        let has_match = lanes.any(matches.next().is_some());
        sight.matches += u64::from(has_match);
        if self.job.show == Show::Names || ends == Ends::NewlineOrNul {
            sight.is_decided = has_match;
            return used;
        }
        if self.job.is_numbered() && (has_match || !is_last) {
            let newlines = memchr_iter(b'\n', mine).count() as u64;
            let before = sight.newlines + lanes.scan(newlines);
            sight.newlines = lanes.broadcast(before + newlines, lanes.mask().last());
            if has_match {
                self.put_matches(name, mine, Some(before));
            }
        } else if has_match {
            self.put_matches(name, mine, None);
        }
        used
    }

    /// Puts out the matching lines of each lane's `mine`, with numbers that follow `newlines`.
    #[inline(never)]
    fn put_matches(&mut self, name: &CStr, mine: &[u8], newlines: Option<u64>) {
        let job = self.job;
        let searcher = super::Searcher::new(&job.needle);
        let name = job.is_named().then_some(name.to_bytes());
        self.put(|each| {
            let (mut newlines, mut counted) = (newlines, 0);
            let matches = Matches { searcher: &searcher, ends: Ends::Newline, text: mine, next: 0 };
            for (start, end) in matches {
                if let Some(newlines) = &mut newlines {
                    *newlines += memchr_iter(b'\n', &mine[counted..start]).count() as u64;
                    counted = start;
                }
                each(Line { name, number: newlines.map(|newlines| newlines + 1), text: &mine[start..end] });
            }
        });
    }

    /// The sum of `value` over the lanes.
    fn sum(&self, value: u64) -> u64 {
        self.lanes.broadcast(self.lanes.scan(value) + value, self.lanes.mask().last())
    }

    /// Searches a line that does not fit a window, and puts it out if it matches; where the next one begins.
    fn long_line(
        &mut self,
        name: &CStr,
        descriptor: Descriptor,
        start: u64,
        sight: &mut Sight,
    ) -> Result<u64, Errno> {
        let lanes = self.lanes;
        let reach = self.searcher.reach();
        let mut has_match = false;
        let mut from = start;
        // Ends: each round reads further, as `reach` is less than a stretch, or meets the line's end or the file's.
        let (end, next) = loop {
            let window = self.window(descriptor, from, STRETCH_BYTES)?;
            self.judge(sight, window);
            let (mine, behind) = self.slice(window.len());
            let end = mine + sight.ends.first(&window[mine..behind]);
            let ended = lanes.ballot(end < behind);
            #[allow(clippy::cast_possible_truncation, reason = "within the window")]
            let end = if ended.is_empty() {
                window.len()
            } else {
                lanes.broadcast(end as u64, ended.first()) as usize
            };
            // A match that begins in my slice may end in the next.
            let (mine, behind) = (mine.min(end), end.min(behind + reach));
            has_match |= lanes.any(self.searcher.is_in(&window[mine..behind]));
            if !ended.is_empty() {
                break (from + end as u64, from + end as u64 + 1);
            }
            if window.len() < STRETCH_BYTES {
                break (from + end as u64, from + end as u64);
            }
            from += (STRETCH_BYTES - reach) as u64;
        };
        sight.newlines += 1;
        sight.matches += u64::from(has_match);
        if has_match && self.job.show != Show::Counts {
            if self.job.show == Show::Names || sight.ends == Ends::NewlineOrNul {
                sight.is_decided = true;
            } else {
                self.put_long_line(name, descriptor, (start, end), sight.newlines)?;
            }
        }
        Ok(next)
    }

    /// Prints a line that does not fit a window, piece by piece, straight from the file.
    fn put_long_line(
        &mut self,
        name: &CStr,
        descriptor: Descriptor,
        (start, end): (u64, u64),
        number: u64,
    ) -> Result<(), Errno> {
        self.print_pending();
        let job = self.job;
        let line = Line {
            name: job.is_named().then_some(name.to_bytes()),
            number: job.is_numbered().then_some(number),
            text: b"",
        };
        let is_leader = self.lanes.is_leader();
        if is_leader {
            line.prefix(|piece| self.print(piece));
        }
        let mut from = start;
        // Ends: each round prints bytes, or the file was cut.
        while from < end {
            #[allow(clippy::cast_possible_truncation, reason = "at most STRETCH_BYTES")]
            let wanted = (end - from).min(STRETCH_BYTES as u64) as usize;
            let window = self.window(descriptor, from, wanted)?;
            if is_leader {
                self.print(window);
            }
            if window.len() < wanted {
                break;
            }
            from += wanted as u64;
        }
        if is_leader {
            self.print(b"\n");
        }
        Ok(())
    }
}

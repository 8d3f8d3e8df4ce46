//! A text that a stream of the tables reads ahead, its warps' steps done one byte after the other, and the kernel that reads it.

use gpufs_core::stream::readahead::{Lines, Tokens, Work};

use super::rig::run::publish_run;
use super::*;

/// log₂ B, and B, for lines: a quarter of it is the longest line.
pub(crate) const TEXT_SHIFT: u32 = 6;
pub(crate) const TEXT_BLOCK: u64 = 1 << TEXT_SHIFT;
pub(crate) const LINE_MAX: u64 = TEXT_BLOCK / 4;
/// K.
pub(crate) const PLACES: u32 = 4;

/// A stream that reads a text.
pub(crate) struct Text {
    pub(crate) tables: Tables,
    pub(crate) content: Vec<u8>,
    /// Which of the streams.
    index: usize,
}

/// Bytes of memory of the tables.
fn bytes_at(address: u64, length: u64) -> Vec<u8> {
    // SAFETY:
    // - within one of the pools, by what the caller was told of its place
    (0..length).map(|at| unsafe { ((address + at) as *const u8).read() }).collect()
}
fn store(address: u64, bytes: &[u8]) {
    for (at, byte) in (0..).zip(bytes) {
        // SAFETY:
        // - within one of the pools, by what the caller was told of its place, and nobody else's now
        unsafe { ((address + at) as *mut u8).write(*byte) };
    }
}

impl Text {
    /// A stream of the session that stands at an offset of the text, on so many rings, with memory for [`PLACES`] places.
    pub(crate) fn new(content: &[u8], offset: u64, (rings, index): (u32, usize)) -> Self {
        let tables = Tables::new(Sizes { rings, shift: TEXT_SHIFT, blocks: 1, journaled: false });
        for wanted in [64, BUFFERS - 64 - PLACES] {
            let taken = tables.session.line_buffers.free.claim(wanted, 0).unwrap();
            assert_eq!(taken.count(), wanted);
        }
        let text = Self { tables, content: content.to_vec(), index };
        let stream = text.stream();
        stream.set_up(&text.tables.session, 0, OpenFile::SEEKABLE, Buffering::Full);
        stream.direction.set(Direction::Reading as u32);
        stream.position.set(offset);
        text
    }
    /// The same of the first stream, on one ring, from the text's beginning, with lines open.
    pub(crate) fn of_lines(content: &[u8]) -> Self {
        let text = Self::new(content, 0, (1, 0));
        text.open(None);
        text
    }
    pub(crate) fn stream(&self) -> &Stream {
        &self.tables.streams[self.index]
    }
    pub(crate) fn lines(&self) -> &Lines {
        &self.stream().lines
    }
    /// Opens lines of any length, or tokens of a kind.
    pub(crate) fn open(&self, units: Option<Tokens>) {
        match units {
            None => self.lines().open(&self.tables.session, self.stream(), u32::MAX),
            Some(kind) => self.lines().open_tokens(&self.tables.session, self.stream(), kind),
        }
        assert_eq!(self.lines().place_count(), PLACES);
    }

    /// The kernel: completes each read that is in flight, with at most so many bytes.
    pub(crate) fn serve(&self, most: usize) {
        for (ring, ticket) in self.tables.in_flight() {
            let sqe = self.tables.entry(ring, ticket);
            let rest = self.content.get(sqe.off as usize..).unwrap_or_default();
            let given = &rest[..rest.len().min(sqe.len as usize).min(most)];
            store(sqe.addr, given);
            self.tables.complete(ring, ticket, given.len() as i32);
        }
    }

    /// Progress of a place, for a warp that is present.
    pub(crate) fn progress(&self, place: u32) -> (Work, Option<u32>) {
        self.lines().progress(&self.tables.session, self.stream(), place)
    }
    /// Starts and reaps reads, and indexes what was read.
    pub(crate) fn look_after(&self) {
        for place in 0..PLACES {
            if self.progress(place).0 == Work::Index {
                assert!(self.lines().claim(place, Work::Index));
                self.index(place);
            }
        }
    }
    /// Indexes a claimed place: where units end in it, those within the limits.
    pub(crate) fn index(&self, place: u32) {
        let (lines, session) = (self.lines(), &self.tables.session);
        let (from, text, ends_at) = lines.memory(session, place);
        let read = bytes_at(from, lines.places[place as usize].got.peek().into());
        store(text, &read);
        let ends: Vec<u32> = match lines.tokens() {
            None => (0..).zip(&read).filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect(),
            Some(_) => {
                let begins =
                    |at: usize| Tokens::is_space(read[at]) && (at == 0 || !Tokens::is_space(read[at - 1]));
                (0..read.len()).filter(|at| begins(*at)).map(|at| at as u32).collect()
            }
        };
        let fits = ends.len() as u32 <= Lines::block_lines_max(session);
        if fits {
            (0..).zip(&ends).for_each(|(at, end)| store(ends_at + 4 * at, &end.to_ne_bytes()));
        }
        let are_short = ends.windows(2).all(|pair| pair[1] - pair[0] <= lines.unit_bytes_max());
        lines.indexed(place, ends.len() as u32, ends.last().copied().unwrap_or(0), !(fits && are_short));
    }

    /// [`publish_run`] of this stream; whether there was one.
    pub(crate) fn publish_run(&self, blocks_max: u32) -> bool {
        let (lines, session) = (self.lines(), &self.tables.session);
        publish_run((session, self.stream()), blocks_max, |place, bytes, from| {
            let (_, text, _) = lines.memory(session, place);
            store(text - bytes, &bytes_at(from, bytes));
            if lines.tokens().is_some() {
                self.check_first_token(place, bytes);
            }
        })
    }
    /// The first token of a claimed place is white space and then a number's bytes, as far as the next white space.
    fn check_first_token(&self, place: u32, carried_bytes: u64) {
        let (address, length) = self.lines().first_token(&self.tables.session, place, carried_bytes);
        let token = String::from_utf8(bytes_at(address, length)).unwrap();
        let behind = bytes_at(address + length, 1)[0];
        let is_one = token.split_ascii_whitespace().count() == 1 && !token.ends_with(char::is_whitespace);
        assert!(is_one && Tokens::is_space(behind), "{token:?} before {behind}");
    }

    /// Reads, indexes and publishes until nothing more comes of it, with reads of at most so many bytes.
    pub(crate) fn read(&self, most: usize) {
        assert!(self.lines().enter_progress());
        let mut rounds = 0;
        loop {
            self.look_after();
            while self.publish_run(PLACES) {}
            if self.tables.in_flight().is_empty() {
                break;
            }
            self.serve(most);
            rounds += 1;
            assert!(rounds < 1000, "no end");
        }
        self.lines().leave_progress();
    }

    /// Takes `count` units, by a handle of the stream's. The caller is then present.
    pub(crate) fn try_take(&self, count: u64) -> Reservation {
        let (lines, stream) = (self.lines(), self.stream());
        match lines.tokens() {
            None => lines.try_take_lines(stream, 1, count, LINE_MAX),
            Some(kind) => lines.try_take_tokens(stream, 1, count, kind),
        }
    }
    /// The place of a unit that was taken, and its text.
    pub(crate) fn unit(&self, number: u64) -> (u32, String) {
        let of_place = |place| {
            let (base, count) = self.lines().of_place(place);
            number.checked_sub(base).filter(|line| *line < count).map(|line| (place, line))
        };
        let (place, line) = (0..PLACES).find_map(of_place).expect("it is published");
        let (address, length) = self.lines().locate(&self.tables.session, place, line);
        (place, String::from_utf8(bytes_at(address, length)).unwrap())
    }
    /// Copies units that were taken, counts them, and leaves.
    pub(crate) fn finish(&self, first: u64, count: u64) -> Vec<String> {
        let all: Vec<_> = (first..first + count).map(|number| self.unit(number)).collect();
        for (place, _) in &all {
            self.lines().count_taken(&self.tables.session, self.stream(), *place, 1);
        }
        self.lines().leave();
        all.into_iter().map(|(_, text)| text).collect()
    }
    /// Takes `count` units that are there.
    pub(crate) fn take(&self, count: u64) -> Vec<String> {
        let Reservation::At(first) = self.try_take(count) else { panic!("no {count} are there") };
        self.finish(first, count)
    }

    /// The lock's holder closes lines; where the stream then stands.
    pub(crate) fn settle(&self) -> u64 {
        self.lines().close();
        for _ in 0..100 {
            match self.lines().settle_reads(&self.tables.session, self.stream()) {
                Progress::Wait(_) => self.serve(usize::MAX),
                end => {
                    assert_eq!(end, Progress::Done);
                    return self.stream().position.peek();
                }
            }
        }
        panic!("no end")
    }
    /// How many calls of 128 lanes there are until lines open, as a power of two. Lines are closed, and no call was counted.
    pub(crate) fn delay(&self) -> u32 {
        let calls = (1..=1 << 13).find(|_| self.lines().count_call(self.stream(), 128)).unwrap();
        assert!(u32::is_power_of_two(calls));
        calls.ilog2()
    }
}

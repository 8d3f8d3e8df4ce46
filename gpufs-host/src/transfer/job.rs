//! A transfer that has begun: its pieces, the result of each part, and the threads that wait for its end.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::bus::{Bus, Mark};
use super::counts::{Counters, Way};
use super::mapped::Leased;
use super::request::{Direction, MemoryKind, SMALL};
use super::window::{HUGE, Window};

/// A file gets a window where it has so many threads at least: they would wait for each other at its lock. One alone is faster by write(2).
const THREADS_OF_A_WINDOW: usize = 2;
/// Huge pages of a file that are begun before the second piece of the first is written: more than there are threads, as a rule.
const HUGE_AT_A_TIME: usize = 32;

/// Why a transfer failed.
#[derive(Debug)]
pub struct TransferError {
    /// Which part, where it is the fault of one.
    pub part: Option<usize>,
    /// What was wrong.
    pub error: io::Error,
}

impl TransferError {
    /// A request that cannot be met, with what to do about it.
    pub(super) fn invalid(part: Option<usize>, text: String) -> Self {
        Self { part, error: io::Error::new(io::ErrorKind::InvalidInput, text) }
    }
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Some(part) => write!(f, "part {part} of the transfer: {}", self.error),
            None => write!(f, "the transfer: {}", self.error),
        }
    }
}

impl Error for TransferError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

impl From<io::Error> for TransferError {
    fn from(error: io::Error) -> Self {
        Self { part: None, error }
    }
}

/// A part of a request, looked up.
#[derive(Debug)]
pub(super) struct Placed {
    /// Which of the job's files.
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) bytes: usize,
    pub(super) kind: MemoryKind,
    /// The GPU whose driver copies; `None`: the system uses the memory itself.
    pub(super) gpu: Option<u32>,
    /// Whether threads may store to it, or to a chunk for it. With ordinary memory it is the system that tells whether there is any.
    pub(super) takes_stores: bool,
    /// Bytes of a row, and where each row begins in the file.
    pub(super) rows: Option<(usize, Box<[u64]>)>,
}

/// What a thread takes at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) part: usize,
    /// From which byte of the part on.
    pub(super) from: usize,
    pub(super) bytes: usize,
}

/// A file of a job. Threads write to it one after the other, but side by side through a window.
#[derive(Debug)]
pub(super) struct JobFile {
    pub(super) file: OwnedFd,
    pub(super) writing: Mutex<()>,
    pub(super) window: Option<Window>,
    /// Of a file whose rows are read: its mapping.
    pub(super) mapping: Option<Leased>,
}

/// Opens windows on files that are written to, where they are few for so many threads: else each thread has one to itself.
pub(super) fn open_windows(files: &mut [JobFile], parts: &[Placed], threads: usize) {
    if files.len() * THREADS_OF_A_WINDOW > threads {
        return;
    }
    for (number, file) in files.iter_mut().enumerate() {
        let of_file = || parts.iter().filter(|part| part.file == number);
        let ends = of_file().map(|part| part.offset.checked_add(part.bytes as u64));
        let (Some(begin), Some(end)) =
            (of_file().map(|part| part.offset).min(), ends.collect::<Option<Vec<_>>>())
        else {
            continue;
        };
        if of_file().all(|part| part.rows.is_none()) {
            file.window = Window::on(&file.file, begin, end.into_iter().max().unwrap_or(begin));
        }
    }
}

/// A place in the program's own stream, before which nothing of the job's memory is touched. Let go on drop.
#[derive(Debug)]
pub(super) struct After {
    pub(super) bus: Arc<dyn Bus>,
    pub(super) gpu: u32,
    pub(super) mark: Mark,
}

impl Drop for After {
    fn drop(&mut self) {
        // SAFETY:
        // - made for this GPU, and this is its owner
        unsafe { self.bus.forget(self.gpu, self.mark) };
    }
}

/// What came of a part.
#[derive(Debug)]
struct Outcome {
    /// Up to here all bytes were moved.
    end: usize,
    error: Option<io::Error>,
}

#[derive(Debug)]
struct State {
    /// Pieces that have not ended.
    left: usize,
    /// Bytes moved.
    done: u64,
    outcomes: Vec<Outcome>,
    failed: bool,
}

/// A transfer that threads work on.
#[derive(Debug)]
pub(super) struct Job {
    /// Which of the engine's.
    pub(super) number: u64,
    pub(super) direction: Direction,
    /// None any more when all pieces have ended.
    files: Mutex<Arc<Vec<JobFile>>>,
    pub(super) parts: Vec<Placed>,
    pub(super) pieces: Vec<Piece>,
    /// Pieces from which threads take one after the other: those of each file, where threads would wait for each other at one; else all.
    pub(super) stretches: Vec<Range<usize>>,
    /// The length of the longest.
    pub(super) longest: usize,
    pub(super) after: Option<After>,
    pub(super) counters: Vec<Arc<Counters>>,
    total: u64,
    state: Mutex<State>,
    ended: Condvar,
}

impl Job {
    /// A job whose pieces are at most `piece_bytes` long. The first ones of a read, one for each of the threads, grow from
    /// short ones: the bus gets them one after the other, and not all at once when it has waited for long ones.
    pub(super) fn new(
        number: u64,
        direction: Direction,
        (files, parts): (Vec<JobFile>, Vec<Placed>),
        (piece_bytes, threads): (usize, usize),
        after: Option<After>,
        counters: Vec<Arc<Counters>>,
    ) -> Self {
        let short = if direction == Direction::Read && piece_bytes > SMALL { threads } else { 0 };
        let mut pieces = cut(&parts, piece_bytes, short);
        let longest = pieces.iter().map(|piece| piece.bytes).max().unwrap_or(0);
        let has_windows = files.iter().any(|file| file.window.is_some());
        if has_windows {
            round_files(&mut pieces, &parts);
            spread(&mut pieces, (HUGE as usize / piece_bytes).max(1));
        }
        let stretches = if direction == Direction::Write && !has_windows {
            by_file(&mut pieces, &parts)
        } else {
            std::iter::once(0..pieces.len()).collect()
        };
        let total = parts.iter().map(|part| part.bytes as u64).sum();
        let outcomes = parts.iter().map(|part| Outcome { end: part.bytes, error: None }).collect();
        let state = Mutex::new(State { left: pieces.len(), done: 0, outcomes, failed: false });
        let files = Mutex::new(Arc::new(files));
        Self {
            number,
            direction,
            files,
            parts,
            pieces,
            stretches,
            longest,
            after,
            counters,
            total,
            state,
            ended: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn files_locked(&self) -> MutexGuard<'_, Arc<Vec<JobFile>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The files, for a piece that has not ended; to be let go before it ends.
    pub(super) fn files(&self) -> Arc<Vec<JobFile>> {
        Arc::clone(&self.files_locked())
    }
    /// Whether a piece has failed: what has not begun is left out.
    pub(super) fn has_failed(&self) -> bool {
        self.state().failed
    }
    /// Notes how a piece ended: the bytes that it moved, of which it was to move more if a file ended.
    pub(super) fn end(&self, piece: Piece, way: Option<Way>, outcome: io::Result<usize>) {
        if let (Ok(moved), Some(way)) = (&outcome, way) {
            for counters in &self.counters {
                counters.note(self.direction, self.parts[piece.part].kind, way, *moved as u64);
            }
        }
        let mut state = self.state();
        let part = &mut state.outcomes[piece.part];
        match outcome {
            Ok(moved) => {
                if moved < piece.bytes {
                    part.end = part.end.min(piece.from + moved);
                }
                state.done += moved as u64;
            }
            Err(error) => {
                part.error.get_or_insert(error);
                state.failed = true;
            }
        }
        state.left -= 1;
        if state.left == 0 {
            // Threads may have the job for a while longer. A thread that waits for its end finds the files closed and their memory given back.
            std::mem::take(&mut *self.files_locked());
            self.ended.notify_all();
        }
    }
}

/// The parts in pieces, of which the first ones, as many as are to be `short`, grow up to the `longest`.
fn cut(parts: &[Placed], longest: usize, short: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let row = part.rows.as_ref().map_or(part.bytes, |(row, _)| *row);
        let mut from = 0;
        // Ends: `from` grows by a byte at least.
        while from < part.bytes {
            let piece_bytes = match longest * (pieces.len() + 1) / short.max(1) {
                share if pieces.len() < short => share.next_multiple_of(4096).min(longest),
                _ => longest,
            };
            // Whole rows, or what is left of one that is longer than a piece.
            let length =
                if row <= piece_bytes { piece_bytes / row * row } else { piece_bytes.min(row - from % row) };
            let bytes = length.min(part.bytes - from);
            pieces.push(Piece { part: index, from, bytes });
            from += bytes;
        }
    }
    pieces
}

/// Lets pieces go round the files, whose windows take several threads each.
fn round_files(pieces: &mut [Piece], parts: &[Placed]) {
    let mut turns = HashMap::new();
    // Stable: pieces of one file keep their order.
    pieces.sort_by_cached_key(|piece| {
        let turn = turns.entry(parts[piece.part].file).or_insert(0_usize);
        *turn += 1;
        *turn
    });
}

/// Puts the pieces of each file together; where each file's are.
fn by_file(pieces: &mut [Piece], parts: &[Placed]) -> Vec<Range<usize>> {
    // Stable: pieces of one file keep their order.
    pieces.sort_by_key(|piece| parts[piece.part].file);
    let mut begin = 0;
    let files = pieces.chunk_by(|one, next| parts[one.part].file == parts[next.part].file);
    let stretch = |file: &[Piece]| {
        begin += file.len();
        begin - file.len()..begin
    };
    files.map(stretch).collect()
}

/// What is left of a job's stretches.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) job: Arc<Job>,
    stretches: Vec<Range<usize>>,
}

impl Left {
    pub(super) fn of(job: Arc<Job>) -> Self {
        Self { stretches: job.stretches.clone(), job }
    }
    /// The next piece for a thread, one of so many: of stretches of its own, or when these are empty, of the one of which most is left.
    pub(super) fn next(&mut self, (thread, threads): (usize, usize)) -> Option<Piece> {
        let is_left = |place: &usize| !self.stretches[*place].is_empty();
        let own = (thread..self.stretches.len()).step_by(threads).find(is_left);
        let longest = || (0..self.stretches.len()).max_by_key(|place| self.stretches[*place].len());
        let place = own.or_else(longest)?;
        self.stretches[place].next().map(|index| self.job.pieces[index])
    }
}

/// Puts pieces apart of which so many are neighbours in a huge page: threads that take pieces at the same time each come to a page of their own,
/// which the first that comes to it makes while others would wait.
fn spread(pieces: &mut [Piece], of_a_page: usize) {
    for group in pieces.chunks_mut(of_a_page * HUGE_AT_A_TIME) {
        let mut turns: Vec<(usize, Piece)> = group.iter().copied().enumerate().collect();
        turns.sort_by_key(|(place, _)| place % of_a_page);
        for (piece, (_, turn)) in group.iter_mut().zip(turns) {
            *piece = turn;
        }
    }
}

/// A transfer that goes on by itself. Its memory belongs to it until it has ended: dropping it waits.
#[derive(Debug)]
#[must_use = "a transfer that is dropped is waited for"]
pub struct Transfer {
    job: Arc<Job>,
}

impl Transfer {
    pub(super) const fn new(job: Arc<Job>) -> Self {
        Self { job }
    }
    /// Bytes that were moved so far, and those of the whole.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.job.state().done, self.job.total)
    }
    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.job.state().left == 0
    }
    /// Waits for its end, for so long at most; whether it has ended.
    #[must_use]
    pub fn wait_for(&self, limit: Duration) -> bool {
        let until = Instant::now().checked_add(limit);
        let mut state = self.job.state();
        // Ends: the engine ends each piece, and the limit is finite or as long as time can be told.
        while state.left > 0 {
            let rest = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if rest.is_zero() {
                return false;
            }
            state = self.job.ended.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
    /// Waits for its end: the bytes of each part, fewer than the part has where a file that was read ended before.
    ///
    /// # Errors
    /// The first part's that failed.
    pub fn wait(self) -> Result<Vec<u64>, TransferError> {
        self.settle();
        let mut state = self.job.state();
        let failed = state.outcomes.iter_mut().enumerate();
        let failed = failed.filter_map(|(part, outcome)| Some((part, outcome.error.take()?))).next();
        match failed {
            Some((part, error)) => Err(TransferError { part: Some(part), error }),
            None => Ok(state.outcomes.iter().map(|outcome| outcome.end as u64).collect()),
        }
    }
    fn settle(&self) {
        // Ends: it does when the transfer has ended.
        while !self.wait_for(Duration::MAX) {}
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Direction, Job, Left, MemoryKind, Piece, Placed, cut, spread};

    #[test]
    fn the_first_pieces_of_a_read_grow() {
        let part = Placed {
            file: 0,
            offset: 0,
            address: 0,
            bytes: 100 << 20,
            kind: MemoryKind::Device,
            gpu: Some(0),
            takes_stores: true,
            rows: None,
        };
        let pieces = cut(std::slice::from_ref(&part), 4 << 20, 16);
        let lengths: Vec<usize> = pieces.iter().map(|piece| piece.bytes >> 10).collect();
        assert_eq!((&lengths[..3], &lengths[14..18]), (&[256, 512, 768][..], &[3840, 4096, 4096, 4096][..]));
        assert_eq!(pieces.iter().map(|piece| piece.bytes).sum::<usize>(), part.bytes);
        let pieces = cut(std::slice::from_ref(&part), 1 << 20, 0);
        assert!(pieces.iter().all(|piece| piece.bytes == 1 << 20));
    }

    /// Each thread takes of files of its own, in order, then of what is most; each piece comes once.
    #[test]
    fn threads_write_to_files_of_their_own() {
        let part = |file, mib: usize| Placed {
            file,
            offset: 0,
            address: 0,
            bytes: mib << 20,
            kind: MemoryKind::Pageable,
            gpu: None,
            takes_stores: true,
            rows: None,
        };
        let parts = [part(0, 2), part(1, 9), part(2, 3), part(0, 2), part(3, 1), part(4, 5)];
        let job = Job::new(1, Direction::Write, (Vec::new(), parts.into()), (1 << 20, 3), None, Vec::new());
        assert_eq!(job.stretches, [0..4, 4..13, 13..16, 16..17, 17..22]);
        let mut left = Left::of(Arc::new(job));
        let mut taken = |thread: usize, count: usize| -> Vec<(usize, usize)> {
            let next = (0..count).map(|_| left.next((thread, 3)).unwrap());
            next.map(|piece| (piece.part, piece.from >> 20)).collect()
        };
        assert_eq!(taken(2, 4), [(2, 0), (2, 1), (2, 2), (1, 0)], "the longest when its own are empty");
        assert_eq!(taken(0, 6), [(0, 0), (0, 1), (3, 0), (3, 1), (4, 0), (1, 1)]);
        assert_eq!(
            taken(1, 12)[..8],
            [2, 3, 4, 5, 6, 7, 8].map(|from| (1, from)).into_iter().chain([(5, 0)]).collect::<Vec<_>>()[..]
        );
        assert!((0..3).all(|thread| left.next((thread, 3)).is_none()));
    }

    #[test]
    fn pieces_of_one_huge_page_are_not_neighbours() {
        let all: Vec<Piece> = (0..300).map(|from| Piece { part: 0, from, bytes: 1 }).collect();
        let mut turns = all.clone();
        spread(&mut turns, 4);
        let begin: Vec<usize> = turns[..34].iter().map(|piece| piece.from).collect();
        assert_eq!((&begin[..3], &begin[31..]), (&[0, 4, 8][..], &[124, 1, 5][..]));
        turns.sort_by_key(|piece| piece.from);
        assert!(turns.iter().zip(&all).all(|(turn, piece)| turn.from == piece.from));
        spread(&mut turns, 1);
        assert!(turns.iter().zip(&all).all(|(turn, piece)| turn.from == piece.from));
    }
}

//! `fscanf(3)`, `scanf(3)` (stage 1).
//!
//! Lanes that call together take the stream's lock once, and read in lane order. Each reads by itself, byte by byte from the stream's buffer, and
//! makes the reads that refill it. It looks at a byte before it takes it, so that nothing is ever put back. Calls that read nothing but
//! numbers, again and again, take them without the lock ([`numbers`]).
#![expect(unsafe_code, reason = "reads from the stream's buffer")]

use gpufs_core::failures::counted;
use gpufs_core::stream::Stream;
use gpufs_core::{Call, Errno};

use super::File;
use super::ahead;
use super::lock::{LockedStream, with_lock, with_lock_unless};
use super::numbers::{self, Numbers, TokenSource};
use crate::Fs;
use crate::format::scan::{Input, Memory, Scanned, Target, check_targets, scan_checked};
use crate::warp::{LaneMask, Lanes};

/// What an unbuffered stream may read at once, so that it does not read past what is asked for.
const AT_LEAST: u64 = 1;

/// How often a call may go back to the tokens that it found closed.
const FAST_TRIES: u32 = 3;

/// What a lane reads from.
enum Source<'a> {
    /// A stream that it holds.
    Held(&'a LockedStream),
    /// Tokens that it has taken.
    Tokens(TokenSource<'a>),
}

/// A stream, as the input of a scan.
struct StreamInput<'a> {
    source: Source<'a>,
    /// The part of the buffer that can be read: where it began, the next byte, and its end. Addresses; empty at first.
    begin: u64,
    next: u64,
    end: u64,
}

impl<'a> StreamInput<'a> {
    fn new(source: Source<'a>) -> Self {
        Self { source, begin: 0, next: 0, end: 0 }
    }
    /// Takes the bytes from the stream that were taken from the buffer. Tokens were taken before they are read.
    fn settle(&mut self) {
        if let Source::Held(held) = self.source
            && self.next != self.begin
        {
            held.take(self.next - self.begin);
            self.begin = self.next;
        }
    }
    /// The byte that was pushed back last.
    #[inline(never)]
    fn pushed(held: &LockedStream) -> Option<u8> {
        #[expect(clippy::cast_possible_truncation, reason = "the lowest byte")]
        (held.stream.pushed_count.peek() > 0).then(|| held.stream.pushed.peek() as u8)
    }
    /// The next byte where the buffer has none left.
    #[inline(never)]
    fn refill(&mut self) -> Result<Option<u8>, Errno> {
        self.settle();
        let part = match &mut self.source {
            Source::Tokens(tokens) => tokens.next(),
            Source::Held(held) => {
                if let Some(byte) = Self::pushed(held) {
                    return Ok(Some(byte));
                }
                held.available(AT_LEAST)?.map(|(address, length)| (address, address + length))
            }
        };
        let Some((begin, end)) = part else { return Ok(None) };
        (self.begin, self.next, self.end) = (begin, begin, end);
        Ok(Some(self.byte()))
    }
    /// The next byte of the buffer, which has one.
    #[inline]
    fn byte(&self) -> u8 {
        // SAFETY:
        // - the buffer holds the bytes up to `end`, and nobody writes it while the stream is held and no read is in flight; or the tokens'
        //   place does, which stays as it is until they are counted as taken
        unsafe { (self.next as *const u8).read() }
    }
}

impl Input for StreamInput<'_> {
    #[inline(never)]
    fn put_back(&mut self, bytes: &[u8]) {
        if self.next - self.begin >= bytes.len() as u64 {
            self.next -= bytes.len() as u64;
            return;
        }
        // Some came from a buffer that was refilled since, or were pushed back before: there is room for them again.
        self.settle();
        (self.begin, self.end) = (self.next, self.next);
        let Source::Held(held) = self.source else { return };
        held.update(|stream| {
            for byte in bytes.iter().rev() {
                stream.pushed.set(stream.pushed.peek() << 8 | u64::from(*byte));
                stream.pushed_count.set(stream.pushed_count.peek() + 1);
            }
        });
    }
    #[inline]
    fn peek(&mut self) -> Result<Option<u8>, Errno> {
        if self.next == self.end { self.refill() } else { Ok(Some(self.byte())) }
    }
    #[inline]
    fn advance(&mut self) {
        if self.next < self.end {
            self.next += 1;
        } else if let Source::Held(held) = self.source {
            let _ = held.take_pushed();
        }
    }
}

/// Every lane's scan, lanes in order. `numbers`: all lanes' formats read numbers and nothing else, so that the first lane that meets the end of
/// the file meets it for those behind it. Convergent.
fn in_turn(
    held: &LockedStream,
    (format, numbers): (&[u8], bool),
    targets: Result<&[Target<'_>], Errno>,
    memory: Memory,
) -> Result<Scanned, Errno> {
    let mut outcome = targets.map(|_| Scanned::default());
    for lane in held.lanes.mask().iter() {
        let is_mine = held.lanes.lane() == lane;
        if is_mine && let Ok(targets) = targets {
            let alone = LockedStream { lanes: held.lanes.subset(LaneMask(1 << lane)), ..*held };
            outcome = scan_alone(&alone, format, targets, memory);
        }
        held.lanes.sync();
        if numbers && held.lanes.any(is_mine && outcome.is_ok_and(|scanned| scanned.stored.is_none())) {
            break;
        }
    }
    outcome
}

/// A scan of a stream that one lane holds.
#[inline(never)]
fn scan_alone(
    held: &LockedStream,
    format: &[u8],
    targets: &[Target<'_>],
    memory: Memory,
) -> Result<Scanned, Errno> {
    held.prepare_reading()?;
    scan_source(Source::Held(held), format, targets, memory)
}

/// A scan, by one lane. The one place that has the code for it.
#[inline(never)]
fn scan_source(
    source: Source<'_>,
    format: &[u8],
    targets: &[Target<'_>],
    memory: Memory,
) -> Result<Scanned, Errno> {
    let mut input = StreamInput::new(source);
    let outcome = scan_checked(&mut input, format, targets, memory);
    input.settle();
    outcome.map_err(|error| error.errno())
}

/// Every lane's call. Convergent; called by `group`.
fn read(
    file: File,
    group: Lanes,
    format: &[u8],
    checked: Result<&[Target<'_>], Errno>,
    memory: Memory,
) -> Result<Scanned, Errno> {
    let mine = if checked.is_ok() { Numbers::of(format) } else { None };
    let Some(numbers) = Numbers::common(file.session, group, mine) else {
        return with_lock(file, group, |held| in_turn(held, (format, false), checked, memory));
    };
    let targets = checked.unwrap_or(&[]);
    let mut tries = 0;
    // Ends: a count, the last of which does not look whether tokens are open.
    loop {
        let taken = numbers::take(file, group, numbers, |tokens| {
            scan_source(Source::Tokens(tokens), format, targets, Memory::NONE)
        });
        if let Some(outcome) = taken {
            return outcome;
        }
        tries += 1;
        if tries == 1 && ahead::await_opening(file, group) {
            continue;
        }
        // A grid that waits for the lock while another reads the last numbers needs no turn each to learn that there are none left.
        let needless =
            |stream: &Stream| tries < FAST_TRIES && (numbers.are_flowing(stream) || ahead::is_at_end(file));
        let held = with_lock_unless(file, group, needless, |held| {
            let outcome = in_turn(held, (format, true), checked, memory);
            numbers.consider(held);
            outcome
        });
        if let Some(outcome) = held {
            return outcome;
        }
    }
}

impl File {
    /// Reads from the stream as `format` says, as `fscanf(3)`: how many targets got a value, or `None` where the file ended before the first did
    /// (C's `EOF`). One call is one unit: no other call gets a byte between its bytes. Lanes that call together read in lane order, each from
    /// where the lane before stopped. Over a grid, each number of a text is read by one call, and a call's numbers follow each other in the text;
    /// which warp gets which is not said.
    ///
    /// Many lanes that call again and again are fast with formats of up to 16 `%d` and `%u`, or up to 16 `%f`, of any length, with white space
    /// between them or none, the same in all lanes that call together, on a seekable, fully buffered stream, in a session that reads ahead:
    /// such numbers are read ahead and taken without the lock. Another format, what is no such number (`0x1f`, `nan`, `12,5`), and numbers
    /// of fewer than six bytes on average, with their white space, are read under the lock, one lane after the other. The results are the same.
    ///
    /// [`fscanf!`](crate::fscanf) has the compiler check a literal format; see
    /// [`scan`](crate::format::scan) for the conversions.
    ///
    /// # Errors
    /// `EINVAL` for a format or a target that does not fit: nothing is read then. `EILSEQ` where a wide conversion meets bytes that are no UTF-8.
    /// Else as [`File::fread`], if no target got a value; otherwise the count is returned, and [`File::ferror`] tells.
    pub fn fscanf(self, format: &[u8], targets: &[Target<'_>]) -> Result<Option<usize>, Errno> {
        self.fscanf_with(format, targets, Memory::NONE).map(|scanned| scanned.stored)
    }

    /// As [`File::fscanf`], with an allocator for `%m`, and whether all numbers fitted. The allocator is
    /// called while the lane holds the stream, and makes no call on it.
    ///
    /// # Errors
    /// As [`File::fscanf`], and `ENOMEM` where the allocator has no memory; what `%m` allocated before in this call is freed then.
    pub fn fscanf_with(
        self,
        format: &[u8],
        targets: &[Target<'_>],
        memory: Memory,
    ) -> Result<Scanned, Errno> {
        let checked = check_targets(format, targets).map(|()| targets).map_err(|error| error.errno());
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fscanf);
        let outcome = lanes.grouped(self.key(), |group| {
            let outcome = read(self, group, format, checked, memory);
            // Numbers differ in length, and lanes that come to the next call one by one make it one by one.
            group.sync();
            outcome
        });
        counted(self.session, Call::Fscanf, outcome)
    }
}

impl Fs {
    /// Reads from the standard input, as `scanf(3)`. See [`File::fscanf`]; [`scanf!`](crate::scanf) checks a literal format.
    ///
    /// # Errors
    /// As [`File::fscanf`].
    pub fn scanf(self, format: &[u8], targets: &[Target<'_>]) -> Result<Option<usize>, Errno> {
        self.stdin().fscanf(format, targets)
    }
}

/// `fscanf!(file, c"format", targets …)`: reads from a [`File`], as `fscanf(3)`. A format that is a literal is checked by the compiler against
/// its targets, any other before anything is read. Gives `Result<Option<usize>, Errno>`: targets stored, `None` at the end of the file.
///
/// ```
/// # use gpufs_device::{File, Errno, fscanf};
/// fn point(input: File) -> Result<Option<(f64, f64)>, Errno> {
///     let (mut x, mut y) = (0.0, 0.0);
///     Ok((fscanf!(input, c"%lf %lf", &mut x, &mut y)? == Some(2)).then_some((x, y)))
/// }
/// ```
///
/// ```compile_fail
/// # use gpufs_device::{File, fscanf};
/// fn number(input: File) {
///     let mut value = 0_i64;
///     let _ = fscanf!(input, c"%d", &mut value); // %d stores four bytes
/// }
/// # fn main() { let _: fn(File) = number; } // unused code is not checked
/// ```
#[macro_export]
macro_rules! fscanf {
    ($file:expr, $($format:tt)+) => {
        match $crate::scan_targets!($($format)+) {
            (format, targets) => $file.fscanf(format, &targets),
        }
    };
}

/// `scanf!(fs, c"format", targets …)`: reads from the standard input of an [`Fs`]. See [`fscanf!`](crate::fscanf).
#[macro_export]
macro_rules! scanf {
    ($fs:expr, $($format:tt)+) => {
        $crate::fscanf!($fs.stdin(), $($format)+)
    };
}

//! The driver: walks through a format, and has each conversion read its field.

use gpufs_core::Errno;

use super::check::{self, Numbering};
use super::parse::{Conversion, Directive, Spec, directive, is_space};
use super::target::Memory;
use super::{Input, ScanError, Target, Why, integer, real, text};

/// Why reading ends before the format does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The input ended: C's input failure.
    End,
    /// The input is none that the directive reads: a matching failure.
    Mismatch,
    /// Something is wrong.
    Wrong(Why),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Wrong(Why::Input(errno))
    }
}

/// The input of a call, and how many bytes it has taken.
pub(super) struct Reader<'i, I> {
    input: &'i mut I,
    /// Bytes taken: what `%n` stores.
    taken: u64,
    /// Bytes that the field may still take.
    left: u64,
    /// A number was met that does not fit.
    pub(super) out_of_range: bool,
}

/// What came of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// How many targets got a value; `None` where the input ended before the first did (C's `EOF`).
    pub stored: Option<usize>,
    /// A number did not fit: of an integer beyond 64 bits the nearest that fits was taken, of a floating-point number an infinity, 0 or what
    /// a subnormal can say of it. C has `ERANGE` in `errno` then, as `strtol(3)` and `strtod(3)` leave it there.
    pub out_of_range: bool,
}

impl<I: Input> Reader<'_, I> {
    /// The next byte, whatever the width.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<Option<u8>, Stop> {
        Ok(self.input.peek()?)
    }
    /// The next byte of the field.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<u8>, Stop> {
        if self.left == 0 { Ok(None) } else { self.peek() }
    }
    /// Takes the byte that was shown.
    #[inline]
    pub(super) fn take(&mut self) {
        self.input.advance();
        self.taken += 1;
        self.left = self.left.wrapping_sub(1);
    }
    /// Puts the bytes back that were taken last, at most four.
    pub(super) fn put_back(&mut self, bytes: &[u8]) {
        self.input.put_back(bytes);
        self.taken -= bytes.len() as u64;
    }
    /// Takes the next byte of the field if it is `letter`, in either case.
    pub(super) fn take_letter(&mut self, letter: u8) -> Result<bool, Stop> {
        let found = self.next()?.is_some_and(|byte| byte.eq_ignore_ascii_case(&letter));
        if found {
            self.take();
        }
        Ok(found)
    }
    /// How many bytes the field may still take.
    #[inline]
    pub(super) const fn left(&self) -> u64 {
        self.left
    }
    /// Takes white space; the byte after it.
    #[inline]
    fn skip_space(&mut self) -> Result<Option<u8>, Stop> {
        // Ends: each round takes a byte.
        loop {
            match self.peek()? {
                Some(byte) if is_space(byte) => self.take(),
                other => return Ok(other),
            }
        }
    }
}

/// The memory that a call allocated, by the index of its target.
struct Allocated<'a, 'b> {
    memory: Memory,
    targets: &'a [Target<'b>],
    /// Bit `i`: target `i`. Of those above 63 the caller knows.
    which: u64,
}

impl Allocated<'_, '_> {
    /// Gives all back, and leaves null pointers, where a call fails: C's caller could not know which were allocated.
    fn give_back(&self) {
        for (index, target) in self.targets.iter().enumerate().take(64) {
            if self.which >> index & 1 == 1 {
                text::free(self.memory, target);
            }
        }
    }
}

/// Reads `input` as `format` says.
///
/// ```
/// use gpufs_device::format::scan::{Memory, Target, Text, scan};
///
/// let mut byte = 0_u8;
/// let targets = [Target::from(&mut byte)];
/// // Room for one byte: text is none that it takes.
/// assert!(scan(&mut Text::new(b"many bytes"), b"%s", &targets, Memory::NONE).is_err());
/// ```
///
/// # Errors
/// Those of [`check_targets`](super::check_targets), before anything is read. `Why::Input` and `Why::Encoding` where the input fails before a
/// target got a value; `Why::Memory` whenever it is met.
pub fn scan<I: Input>(
    input: &mut I,
    format: &[u8],
    targets: &[Target<'_>],
    memory: Memory,
) -> Result<Scanned, ScanError> {
    check::targets(format, targets)?;
    scan_checked(input, format, targets, memory)
}

/// [`scan`] of targets that fit the format, as [`check_targets`](super::check_targets) has said: what is stored relies on it.
///
/// # Errors
/// As [`scan`].
pub(crate) fn scan_checked<I: Input>(
    input: &mut I,
    format: &[u8],
    targets: &[Target<'_>],
    memory: Memory,
) -> Result<Scanned, ScanError> {
    let mut reader = Reader { input, taken: 0, left: u64::MAX, out_of_range: false };
    let stored = scan_with(&mut reader, format, targets, memory)?;
    Ok(Scanned { stored, out_of_range: reader.out_of_range })
}

/// [`scan_checked`], but for what the reader notes.
fn scan_with<I: Input>(
    reader: &mut Reader<'_, I>,
    format: &[u8],
    targets: &[Target<'_>],
    memory: Memory,
) -> Result<Option<usize>, ScanError> {
    let mut numbering = Numbering::NEW;
    let mut allocated = Allocated { memory, targets, which: 0 };
    let (mut at, mut stored, mut skips) = (0, 0, false);
    // Ends: a directive is not empty.
    while let Some((part, next)) = directive(format, at)? {
        let outcome = match part {
            Directive::Space => {
                skips = true;
                Ok(())
            }
            Directive::Byte(byte) => literal(reader, byte, core::mem::take(&mut skips)),
            Directive::Conversion(spec) => {
                let mut target = None;
                if spec.stores() {
                    let index = numbering.index(spec.number).map_err(|why| ScanError { offset: at, why })?;
                    let missing = ScanError { offset: at, why: Why::Missing { target: index } };
                    target = Some(targets.get(index).ok_or(missing)?);
                    if spec.allocates {
                        allocated.which |= 1_u64.checked_shl(index as u32).unwrap_or(0);
                    }
                }
                let outcome = conversion(reader, format, spec, target, memory, core::mem::take(&mut skips));
                if outcome.is_ok() && target.is_some() && !matches!(spec.conversion, Conversion::Count) {
                    stored += 1;
                }
                outcome
            }
        };
        match outcome {
            Ok(()) => {}
            Err(Stop::Mismatch) => return Ok(Some(stored)),
            Err(Stop::End) => return Ok((stored > 0).then_some(stored)),
            // Input failures: C's count says less than all were read, and a stream's flag says why.
            Err(Stop::Wrong(Why::Input(_) | Why::Encoding)) if stored > 0 => return Ok(Some(stored)),
            Err(Stop::Wrong(why)) => {
                allocated.give_back();
                return Err(ScanError { offset: at, why });
            }
        }
        at = next;
    }
    if skips && let Err(Stop::Wrong(why)) = reader.skip_space() {
        return if stored > 0 { Ok(Some(stored)) } else { Err(ScanError { offset: at, why }) };
    }
    Ok(Some(stored))
}

/// A byte of the format that the input has to have.
fn literal<I: Input>(reader: &mut Reader<'_, I>, wanted: u8, skips: bool) -> Result<(), Stop> {
    let next = if skips { reader.skip_space()? } else { reader.peek()? };
    match next {
        None => Err(Stop::End),
        Some(byte) if byte == wanted => {
            reader.take();
            Ok(())
        }
        Some(_) => Err(Stop::Mismatch),
    }
}

/// One conversion. It stores to its target, if it has one.
fn conversion<I: Input>(
    reader: &mut Reader<'_, I>,
    format: &[u8],
    spec: Spec,
    target: Option<&Target<'_>>,
    memory: Memory,
    skips: bool,
) -> Result<(), Stop> {
    let keeps_space =
        matches!(spec.conversion, Conversion::Chars | Conversion::Set { .. } | Conversion::Count);
    // An allocated text begins as none, however its conversion ends.
    if spec.allocates
        && let Some(target) = target
    {
        target.store(spec, 0);
    }
    let counts = matches!(spec.conversion, Conversion::Count);
    if (skips || !keeps_space) && reader.skip_space()?.is_none() && !counts {
        return Err(Stop::End);
    }
    reader.left = if spec.width == 0 { u64::MAX } else { u64::from(spec.width) };
    let value = match spec.conversion {
        Conversion::Count => reader.taken,
        Conversion::Percent => return literal(reader, b'%', false),
        Conversion::Integer { base, signed } => integer::read(reader, base, signed)?,
        Conversion::Pointer => integer::pointer(reader)?,
        Conversion::Real => real::read(reader, spec.size)?,
        Conversion::Chars | Conversion::Text | Conversion::Set { .. } => {
            return text::read(reader, format, spec, target, memory);
        }
    };
    if let Some(target) = target {
        target.store(spec, value);
    }
    Ok(())
}

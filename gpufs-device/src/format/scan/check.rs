//! The checks of a format against its targets, by the compiler where the format is a literal, and before a call reads anything.

use super::parse::{Conversion, Directive, directive};
use super::{ScanError, Target, TargetKind, Targets, Why};
use crate::format::Literal;

/// What a format says of its targets so far.
#[derive(Clone, Copy)]
pub(super) struct Numbering {
    /// Targets taken in order.
    next: usize,
    /// Whether some were numbered.
    numbered: bool,
}

impl Numbering {
    pub(super) const NEW: Self = Self { next: 0, numbered: false };

    /// The index of the target of a conversion that stores, which has this number.
    pub(super) const fn index(&mut self, number: u32) -> Result<usize, Why> {
        if number == 0 {
            if self.numbered {
                return Err(Why::Numbering);
            }
            self.next += 1;
            return Ok(self.next - 1);
        }
        if self.next > 0 {
            return Err(Why::Numbering);
        }
        self.numbered = true;
        Ok(number as usize - 1)
    }
}

/// Checks a format against the kinds of its targets: how many of them it reaches. The others are ignored.
///
/// # Errors
/// The first thing that is wrong, from left to right.
pub const fn check(format: &[u8], kinds: &[TargetKind]) -> Result<usize, ScanError> {
    let (mut numbering, mut reached, mut at) = (Numbering::NEW, 0, 0);
    // Ends: a directive is not empty.
    loop {
        let (part, next) = match directive(format, at) {
            Err(error) => return Err(error),
            Ok(None) => return Ok(reached),
            Ok(Some(found)) => found,
        };
        if let Directive::Conversion(spec) = part
            && spec.stores()
        {
            let target = match numbering.index(spec.number) {
                Ok(target) => target,
                Err(why) => return Err(ScanError { offset: at, why }),
            };
            if target >= kinds.len() {
                return Err(ScanError { offset: at, why: Why::Missing { target } });
            }
            let kind = kinds[target];
            if !spec.accepts(kind) {
                return Err(ScanError { offset: at, why: Why::Mismatch { target, kind } });
            }
            reached = if target < reached { reached } else { target + 1 };
        }
        at = next;
    }
}

/// How many targets a format takes, whatever they are.
///
/// # Errors
/// Of the format.
pub fn count_targets(format: &[u8]) -> Result<usize, ScanError> {
    let (mut numbering, mut reached, mut at) = (Numbering::NEW, 0, 0);
    // Ends: a directive is not empty.
    while let Some((part, next)) = directive(format, at)? {
        if let Directive::Conversion(spec) = part
            && spec.stores()
        {
            let index = numbering.index(spec.number).map_err(|why| ScanError { offset: at, why })?;
            reached = reached.max(index + 1);
        }
        at = next;
    }
    Ok(reached)
}

/// How many numbers a format reads that reads nothing else, and whether they are floating-point numbers: decimal conversions of one of the two
/// kinds, with white space between them or none. `None` for another format, or one with widths or `*`. Of a format in which [`targets`] finds
/// nothing wrong.
pub(crate) fn numbers(format: &[u8]) -> Option<(u32, bool)> {
    let (mut count, mut reals, mut at) = (0, false, 0);
    let mut ends_with_space = false;
    // Ends: a directive is not empty.
    while let Ok(Some((part, next))) = directive(format, at) {
        ends_with_space = matches!(part, Directive::Space);
        if let Directive::Conversion(spec) = part {
            let real = match spec.conversion {
                Conversion::Integer { base: 10, .. } => false,
                Conversion::Real => true,
                _ => return None,
            };
            if spec.number != 0 || spec.suppressed || spec.width != 0 || (count > 0 && real != reals) {
                return None;
            }
            (count, reals) = (count + 1, real);
        } else if !ends_with_space {
            return None;
        }
        at = next;
    }
    // White space at the end would take what lies before the next token.
    (count > 0 && !ends_with_space).then_some((count, reals))
}

/// [`check`] for targets at hand.
pub(super) fn targets(format: &[u8], targets: &[Target<'_>]) -> Result<(), ScanError> {
    let (mut numbering, mut at) = (Numbering::NEW, 0);
    // Ends: a directive is not empty.
    while let Some((part, next)) = directive(format, at)? {
        if let Directive::Conversion(spec) = part
            && spec.stores()
        {
            let wrong = |why| ScanError { offset: at, why };
            let index = numbering.index(spec.number).map_err(wrong)?;
            let target = targets.get(index).ok_or(wrong(Why::Missing { target: index }))?;
            if !spec.accepts(target.kind()) {
                return Err(wrong(Why::Mismatch { target: index, kind: target.kind() }));
            }
            if !target.has_room(spec) {
                return Err(wrong(Why::Room { target: index }));
            }
        }
        at = next;
    }
    Ok(())
}

/// Whether a format reaches so many targets at least; also where it is none.
#[must_use]
pub const fn takes_all(format: &[u8], kinds: &[TargetKind]) -> bool {
    match check(format, kinds) {
        Ok(reached) => reached >= kinds.len(),
        Err(_) => true,
    }
}

/// A format and its targets, which the compiler has found to fit each other. It does not compile where they do not.
#[inline]
#[must_use]
pub fn checked<'a, L: Literal, A: Targets<'a>>(_literal: L, targets: A) -> (&'static [u8], A::Array) {
    const { assert_fits(L::BYTES, A::KINDS) };
    (L::BYTES, targets.array())
}

/// Panics, in the compiler, where [`check`] finds something wrong.
pub(super) const fn assert_fits(format: &[u8], kinds: &[TargetKind]) {
    if let Err(error) = check(format, kinds) {
        panic!("{}", error.why.text());
    }
}

/// A format and its targets as the pair `(&[u8], [Target; N])` that [`sscanf`](crate::format::scan::sscanf) takes: mutable references to
/// numbers, slices for text. Where the format is a literal (`c"…"`) the compiler checks it against the types of the targets. There are
/// at most 16 of them, of the types in [`TargetType`](crate::format::scan::TargetType).
///
/// These do not compile. A target of the wrong type, too few targets, and no conversion:
///
/// ```compile_fail
/// let mut value = 0_i64;
/// let _ = gpufs_device::scan_targets!(c"%d", &mut value);
/// ```
/// ```compile_fail
/// let mut value = 0_i32;
/// let _ = gpufs_device::scan_targets!(c"%d %d", &mut value);
/// ```
/// ```compile_fail
/// let _ = gpufs_device::scan_targets!(c"%y");
/// ```
#[macro_export]
macro_rules! scan_targets {
    ($format:literal $(, $target:expr)* $(,)?) => {
        $crate::format::scan::checked(
            {
                struct Format;
                impl $crate::format::Literal for Format {
                    const BYTES: &'static [u8] = {
                        let format: &'static ::core::ffi::CStr = $format;
                        format.to_bytes()
                    };
                }
                Format
            },
            ($($target,)*),
        )
    };
    ($format:expr $(, $target:expr)* $(,)?) => {
        (
            ::core::ffi::CStr::to_bytes($format),
            $crate::format::scan::Targets::array(($($target,)*)),
        )
    };
}

/// `sscanf(3)`: reads bytes as a format says, as [`sscanf`](crate::format::scan::sscanf) does. A literal format is checked by the compiler,
/// as in [`scan_targets!`](crate::scan_targets).
///
/// ```
/// let (mut count, mut value, mut name) = (0_i32, 0.0_f64, [0_u8; 8]);
/// let stored = gpufs_device::sscanf!(b"17 2.5e3 lane", c"%d %lf %7s", &mut count, &mut value, &mut name)?;
/// assert_eq!((stored, count, value, &name[..5]), (Some(3), 17, 2500.0, &b"lane\0"[..]));
/// # Ok::<(), gpufs_device::format::scan::ScanError>(())
/// ```
#[macro_export]
macro_rules! sscanf {
    ($text:expr, $($format:tt)+) => {
        match $crate::scan_targets!($($format)+) {
            (format, targets) => $crate::format::scan::sscanf($text, format, &targets),
        }
    };
}

//! What can be wrong with a format that reads, its targets, or the input.

use core::fmt;

use gpufs_core::Errno;

use super::TargetKind;

/// A call that did not end as C's ends, with a count or `EOF`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanError {
    /// Where in the format, in bytes: at the `%` of the conversion.
    pub offset: usize,
    /// What is wrong there.
    pub why: Why,
}

/// What is wrong. Targets are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No conversion has this letter.
    Unknown,
    /// The format ends inside the conversion, or inside its `[`.
    Unfinished,
    /// The length modifier, `m` or `*` does not belong to this conversion, as in `%hf`.
    Modifier,
    /// `%1$d` beside `%d`, or a number of 0.
    Numbering,
    /// A width or a number is above `i32::MAX`.
    Overflow,
    /// There is no target with this index.
    Missing {
        /// The index.
        target: usize,
    },
    /// The target with this index is of another type than the conversion.
    Mismatch {
        /// The index.
        target: usize,
        /// What the target is.
        kind: TargetKind,
    },
    /// The target with this index has no room for what the width says, or for the NUL.
    Room {
        /// The index.
        target: usize,
    },
    /// `%m` where the caller has no allocator, or where it has no memory left.
    Memory,
    /// The input is not UTF-8 where a wide character was to be read.
    Encoding,
    /// The input could not be read.
    Input(Errno),
}

impl Why {
    /// The message, without the index.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Unknown => "unknown conversion",
            Self::Unfinished => "the format ends inside a conversion",
            Self::Modifier => "the modifier does not fit the conversion",
            Self::Numbering => "numbered targets, from 1, and others are mixed",
            Self::Overflow => "a width or a number is longer than an int can say",
            Self::Missing { .. } => "the format needs more targets than there are",
            Self::Mismatch { .. } => "a target does not fit its conversion",
            Self::Room { .. } => "a target has no room for what its conversion may store",
            Self::Memory => "no memory for a %m conversion (in Rust, give %s a slice)",
            Self::Encoding => "the input is not UTF-8",
            Self::Input(_) => "the input could not be read",
        }
    }
}

impl ScanError {
    /// What C callers find in `errno`.
    #[must_use]
    pub const fn errno(self) -> Errno {
        match self.why {
            Why::Overflow => Errno::OVERFLOW,
            Why::Memory => Errno::NOMEM,
            Why::Encoding => Errno::ILSEQ,
            Why::Input(errno) => errno,
            _ => Errno::INVAL,
        }
    }
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why.text())?;
        match self.why {
            Why::Missing { target } | Why::Room { target } => write!(f, ": target {}", target + 1),
            Why::Mismatch { target, kind } => write!(f, ": target {} is {}", target + 1, kind.name()),
            Why::Input(errno) => write!(f, ": {errno}"),
            _ => Ok(()),
        }?;
        write!(f, " (at byte {} of the format)", self.offset)
    }
}

impl core::error::Error for ScanError {}

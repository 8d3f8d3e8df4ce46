//! What can be wrong with a format or its arguments.

use core::fmt;

use gpufs_core::Errno;

use super::Kind;

/// A format that cannot be printed. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatError {
    /// Where in the format, in bytes: at the `%` of the conversion, or at the end if all of it is concerned.
    pub offset: usize,
    /// What is wrong there.
    pub what: What,
}

/// What is wrong with a format. Arguments are counted from 0, and a `*` takes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// No conversion has this letter.
    Unknown,
    /// The format ends inside the conversion.
    Unfinished,
    /// The length modifier does not belong to this conversion, as in `%hf`, or has no such number of bits, as in `%w9d`.
    Modifier,
    /// Some arguments are numbered (`%1$d`), others are not.
    Mixed,
    /// One number is used for arguments of two types, as in `%1$d %1$s`.
    Conflict,
    /// There are more arguments than a list of them has room for.
    TooMany,
    /// A wide character that UTF-8 does not encode: a surrogate, or above 2³¹ − 1.
    Illegal,
    /// `%n` is given a null pointer.
    Null,
    /// There is no argument with this index.
    Missing {
        /// The index.
        argument: usize,
    },
    /// The argument with this index does not fit the conversion, or is no integer where `*` wants one.
    Mismatch {
        /// The index.
        argument: usize,
        /// What the argument is.
        kind: Kind,
    },
    /// A width, a precision or the whole output is above `i32::MAX`.
    Overflow,
}

impl What {
    /// The message, without the index.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Unknown => "unknown conversion",
            Self::Unfinished => "the format ends inside a conversion",
            Self::Mixed => "some arguments are numbered, others are not",
            Self::Conflict => "an argument's number is used for two types",
            Self::TooMany => "the format takes more arguments than there is room for",
            Self::Illegal => "a wide character is none",
            Self::Null => "%n is given a null pointer",
            Self::Modifier => "the length modifier does not fit the conversion",
            Self::Missing { .. } => "the format needs more arguments than there are",
            Self::Mismatch { .. } => "an argument does not fit its conversion",
            Self::Overflow => "a width, a precision or the output is longer than an int can say",
        }
    }
}

impl FormatError {
    /// What C callers find in `errno`, as glibc has it: `EOVERFLOW`, `EILSEQ`, `EFAULT` or `EINVAL`.
    #[must_use]
    pub const fn errno(self) -> Errno {
        match self.what {
            What::Overflow => Errno::OVERFLOW,
            What::Illegal => Errno::ILSEQ,
            What::Null => Errno::FAULT,
            _ => Errno::INVAL,
        }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what.text())?;
        match self.what {
            What::Missing { argument } => {
                write!(f, ": argument {}", argument + 1)
            }
            What::Mismatch { argument, kind } => write!(f, ": argument {} is {}", argument + 1, kind.name()),
            _ => Ok(()),
        }?;
        write!(f, " (at byte {} of the format)", self.offset)
    }
}

impl core::error::Error for FormatError {}

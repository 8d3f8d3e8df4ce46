//! The kernel's error numbers (`errno(3)`), as io_uring returns them negated in a CQE.

use core::fmt;
use core::num::NonZeroU16;

/// One error number of Linux, 1 to 4095.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Errno(NonZeroU16);

macro_rules! errnos {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Self = Self::from_number($value);)*

            /// The symbolic name, or `None` for a number that has none here.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0.get() {
                    $($value => Some(concat!("E", stringify!($name))),)*
                    _ => None,
                }
            }
            /// What the number says, in the C library's words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self.0.get() {
                    $($value => $text,)*
                    _ => "Unknown error",
                }
            }
        }
    };
}

errnos! {
    PERM = 1, "Operation not permitted";
    NOENT = 2, "No such file or directory";
    INTR = 4, "Interrupted system call";
    IO = 5, "Input/output error";
    NXIO = 6, "No such device or address";
    BADF = 9, "Bad file descriptor";
    AGAIN = 11, "Resource temporarily unavailable";
    NOMEM = 12, "Cannot allocate memory";
    ACCES = 13, "Permission denied";
    FAULT = 14, "Bad address";
    BUSY = 16, "Device or resource busy";
    EXIST = 17, "File exists";
    NODEV = 19, "No such device";
    NOTDIR = 20, "Not a directory";
    ISDIR = 21, "Is a directory";
    INVAL = 22, "Invalid argument";
    NFILE = 23, "Too many open files in system";
    MFILE = 24, "Too many open files";
    NOTTY = 25, "Inappropriate ioctl for device";
    FBIG = 27, "File too large";
    NOSPC = 28, "No space left on device";
    SPIPE = 29, "Illegal seek";
    ROFS = 30, "Read-only file system";
    MLINK = 31, "Too many links";
    PIPE = 32, "Broken pipe";
    RANGE = 34, "Numerical result out of range";
    NAMETOOLONG = 36, "File name too long";
    NOSYS = 38, "Function not implemented";
    LOOP = 40, "Too many levels of symbolic links";
    OVERFLOW = 75, "Value too large for defined data type";
    OPNOTSUPP = 95, "Operation not supported";
    TIMEDOUT = 110, "Connection timed out";
    STALE = 116, "Stale file handle";
    DQUOT = 122, "Disk quota exceeded";
    CANCELED = 125, "Operation canceled";
}

impl Errno {
    /// The error with this number.
    ///
    /// # Panics
    /// If `number` is not in 1..=4095.
    #[must_use]
    pub const fn from_number(number: i32) -> Self {
        assert!(number >= 1 && number <= 4095, "an errno is between 1 and 4095");
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        match NonZeroU16::new(number as u16) {
            Some(value) => Self(value),
            None => unreachable!(),
        }
    }
    /// The number, positive, as `errno(3)` has it.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0.get() as i32
    }
    /// Splits a system call's result: a count, or an error where it is negative (`io_uring_enter(2)`: `res`).
    ///
    /// # Errors
    /// The errno, if `result` is in -4095..=-1. Other negative values, which no system call returns, read as `EIO`.
    pub const fn check(result: i32) -> Result<u32, Self> {
        if result >= 0 {
            Ok(result.cast_unsigned())
        } else if result >= -4095 {
            Err(Self::from_number(-result))
        } else {
            Err(Self::IO)
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.number()),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.text(), self)
    }
}

impl core::error::Error for Errno {}

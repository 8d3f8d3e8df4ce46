//! What a format is given: one [`Argument`] per conversion, `*` included, and the Rust types that become one.

use core::ffi::{CStr, c_void};
use core::marker::PhantomData;

use gpufs_core::Errno;
use static_assertions::const_assert_eq;

/// What an [`Argument`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A signed integer, sign-extended to 64 bits.
    Signed = 0,
    /// An unsigned integer, zero-extended to 64 bits.
    Unsigned = 1,
    /// The bits of an `f64`.
    Double = 2,
    /// An address, for `%p` only.
    Pointer = 3,
    /// The address of bytes that end with a NUL, or null.
    CString = 4,
    /// The address of `length` bytes, or null.
    Bytes = 5,
    /// A Unicode scalar value, for `%c` and `%lc`, which write its UTF-8 encoding.
    Char = 6,
    /// An error number (`errno(3)`), for `%m`.
    Error = 7,
    /// The address of wide characters, 32 bits each, that end with a NUL or after `length`, or null: for `%ls`.
    Wide = 8,
    /// The address of an integer of `length` bytes, or null: for `%n`.
    Place = 9,
    /// C's `int *`, which is its `wchar_t *` too: for `%n` and `%ls`.
    WidePlace = 10,
}

impl Kind {
    /// What the kind is called in a message.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Signed => "a signed integer",
            Self::Unsigned => "an unsigned integer",
            Self::Double => "a floating-point number",
            Self::Pointer => "a pointer",
            Self::CString | Self::Bytes => "a string",
            Self::Char => "a char",
            Self::Error => "an error number",
            Self::Wide => "a wide string",
            Self::Place | Self::WidePlace => "the address of an integer",
        }
    }
}

/// One argument of a format, with the type that it came with.
///
/// C callers build the same 16 bytes:
///
/// ```text
///  0      4        8               16
/// +------+--------+----------------+
/// | kind | length |      bits      |
/// +------+--------+----------------+
/// ```
///
/// `length` counts the bytes of a [`Kind::Bytes`], saturated at `u32::MAX`, which is more than any output may hold; the characters of a
/// [`Kind::Wide`]; the bytes of the integer of a [`Kind::Place`] or [`Kind::WidePlace`]. Of a [`Kind::CString`] it is 1 if `%hhn` may store
/// there. In other kinds it is 0.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Argument<'a> {
    kind: Kind,
    length: u32,
    bits: u64,
    borrowed: PhantomData<&'a [u8]>,
}

const_assert_eq!(size_of::<Argument<'_>>(), 16);
const_assert_eq!(align_of::<Argument<'_>>(), 8);
const_assert_eq!(core::mem::offset_of!(Argument<'_>, kind), 0);
const_assert_eq!(core::mem::offset_of!(Argument<'_>, length), 4);
const_assert_eq!(core::mem::offset_of!(Argument<'_>, bits), 8);

impl<'a> Argument<'a> {
    const fn plain(kind: Kind, bits: u64) -> Self {
        Self { kind, length: 0, bits, borrowed: PhantomData }
    }
    /// A C string, for `%s`. Null prints as `(null)`.
    ///
    /// # Safety
    /// `pointer` is null, or for the lifetime `'a` it points to bytes that end with a NUL and do not change. Where the
    /// conversion has a precision, that many bytes are enough, with or without a NUL.
    #[must_use]
    #[expect(unsafe_code, reason = "the promise about the pointer is the caller's")]
    pub unsafe fn c_string(pointer: *const u8) -> Self {
        Self::plain(Kind::CString, pointer.expose_provenance() as u64)
    }
    /// A wide C string, for `%ls`. Null prints as `(null)`.
    ///
    /// # Safety
    /// `pointer` is null, or for the lifetime `'a` it points to characters that end with a NUL and do not change. Where the conversion has
    /// a precision, characters that encode to as many bytes are enough, with or without a NUL.
    #[must_use]
    #[expect(unsafe_code, reason = "the promise about the pointer is the caller's")]
    pub unsafe fn wide_c_string(pointer: *const u32) -> Self {
        Self { length: u32::MAX, ..Self::plain(Kind::Wide, pointer.expose_provenance() as u64) }
    }
    /// A place for `%n`: an integer of 1, 2, 4 or 8 `bytes`, as the length modifier says.
    ///
    /// # Safety
    /// `pointer` is null, or for the lifetime `'a` such an integer is there, aligned, and nothing else uses it.
    #[must_use]
    #[expect(unsafe_code, reason = "the promise about the pointer is the caller's")]
    pub unsafe fn place(pointer: *mut c_void, bytes: u32) -> Self {
        Self { length: bytes, ..Self::plain(Kind::Place, pointer.expose_provenance() as u64) }
    }
    /// An error number for `%m`, 0 and unknown ones included.
    #[must_use]
    pub const fn error(number: i32) -> Self {
        Self::plain(Kind::Error, (number as i64).cast_unsigned())
    }
    /// What it holds.
    #[must_use]
    pub const fn kind(self) -> Kind {
        self.kind
    }
    /// The value: of an integer extended to 64 bits, of a double its bits, of the rest the address or the scalar value.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.bits
    }
    /// The length, as the table at the head of this type has it.
    pub(super) const fn length(self) -> u32 {
        self.length
    }
    /// The bytes of a string, at most `limit` of them; `None` if it is null or no string.
    #[inline]
    pub(super) fn text(self, limit: usize) -> Option<&'a [u8]> {
        let pointer: *const u8 = core::ptr::with_exposed_provenance(self.bits as usize);
        if pointer.is_null() {
            return None;
        }
        let length = match self.kind {
            Kind::Bytes => limit.min(self.length as usize),
            Kind::CString => {
                let mut length = 0;
                // Ends at `limit` at the latest.
                while length < limit {
                    // SAFETY:
                    // - the promise of `c_string`: no byte before this one was the NUL, and `length` is below the precision
                    #[allow(unsafe_code, reason = "a C string has no length but its NUL")]
                    let byte = unsafe { *pointer.add(length) };
                    if byte == 0 {
                        break;
                    }
                    length += 1;
                }
                length
            }
            _ => return None,
        };
        // SAFETY:
        // - `Bytes` is only made from a slice that lives for `'a`, and `length` is at most the slice's
        // - in a `CString`, the loop has just read these bytes, and they are there, unchanged, for `'a` by the promise of
        //   `c_string`
        #[allow(unsafe_code, reason = "a string argument is an address and a length")]
        Some(unsafe { core::slice::from_raw_parts(pointer, length) })
    }
}

/// A type whose values can be the argument of a format.
///
/// Any integer fits any integer conversion: the length modifier converts it as C does, so `%d` prints its low 32 bits
/// and `%lld` all 64. Any integer fits `%c`. Strings fit `%s`, whole: a Rust string's or slice's NUL bytes are written too.
pub trait ArgumentType<'a> {
    /// The kind of the argument, known to the compiler.
    const KIND: Kind;
    /// The argument.
    fn argument(self) -> Argument<'a>;
}

impl<'a, T: ArgumentType<'a>> From<T> for Argument<'a> {
    #[inline]
    fn from(value: T) -> Self {
        value.argument()
    }
}

macro_rules! argument_types {
    ($($type:ty => $kind:ident, |$value:ident| $bits:expr;)*) => {$(
        impl<'a> ArgumentType<'a> for $type {
            const KIND: Kind = Kind::$kind;
            #[inline]
            fn argument(self) -> Argument<'a> {
                let $value = self;
                Argument::plain(Kind::$kind, $bits)
            }
        }
    )*};
}

argument_types! {
    i8 => Signed, |value| i64::from(value).cast_unsigned();
    i16 => Signed, |value| i64::from(value).cast_unsigned();
    i32 => Signed, |value| i64::from(value).cast_unsigned();
    i64 => Signed, |value| value.cast_unsigned();
    isize => Signed, |value| (value as i64).cast_unsigned();
    bool => Unsigned, |value| u64::from(value);
    u8 => Unsigned, |value| u64::from(value);
    u16 => Unsigned, |value| u64::from(value);
    u32 => Unsigned, |value| u64::from(value);
    u64 => Unsigned, |value| value;
    usize => Unsigned, |value| value as u64;
    f32 => Double, |value| f64::from(value).to_bits();
    f64 => Double, |value| value.to_bits();
    char => Char, |value| u64::from(u32::from(value));
    Errno => Error, |value| i64::from(value.number()).cast_unsigned();
}

impl<'a, T: ?Sized> ArgumentType<'a> for *const T {
    const KIND: Kind = Kind::Pointer;
    #[inline]
    fn argument(self) -> Argument<'a> {
        Argument::plain(Kind::Pointer, self.addr() as u64)
    }
}

impl<'a, T: ?Sized> ArgumentType<'a> for *mut T {
    const KIND: Kind = Kind::Pointer;
    #[inline]
    fn argument(self) -> Argument<'a> {
        self.cast_const().argument()
    }
}

impl<'a> ArgumentType<'a> for &'a [u8] {
    const KIND: Kind = Kind::Bytes;
    #[inline]
    fn argument(self) -> Argument<'a> {
        Argument {
            kind: Kind::Bytes,
            length: u32::try_from(self.len()).unwrap_or(u32::MAX),
            bits: self.as_ptr().expose_provenance() as u64,
            borrowed: PhantomData,
        }
    }
}

impl<'a, const N: usize> ArgumentType<'a> for &'a [u8; N] {
    const KIND: Kind = Kind::Bytes;
    #[inline]
    fn argument(self) -> Argument<'a> {
        self.as_slice().argument()
    }
}

/// For `%ls`: up to the first NUL, or all of them.
impl<'a> ArgumentType<'a> for &'a [char] {
    const KIND: Kind = Kind::Wide;
    #[inline]
    fn argument(self) -> Argument<'a> {
        Argument {
            kind: Kind::Wide,
            length: u32::try_from(self.len()).unwrap_or(u32::MAX),
            bits: self.as_ptr().expose_provenance() as u64,
            borrowed: PhantomData,
        }
    }
}

impl<'a> ArgumentType<'a> for &'a str {
    const KIND: Kind = Kind::Bytes;
    #[inline]
    fn argument(self) -> Argument<'a> {
        self.as_bytes().argument()
    }
}

impl<'a> ArgumentType<'a> for &'a CStr {
    const KIND: Kind = Kind::Bytes;
    #[inline]
    fn argument(self) -> Argument<'a> {
        self.to_bytes().argument()
    }
}

/// `None` is C's null pointer.
impl<'a> ArgumentType<'a> for Option<&'a CStr> {
    const KIND: Kind = Kind::Bytes;
    #[inline]
    fn argument(self) -> Argument<'a> {
        match self {
            Some(text) => text.argument(),
            None => Argument::plain(Kind::Bytes, 0),
        }
    }
}

/// A tuple of up to 16 arguments, whose kinds the compiler knows.
pub trait Arguments<'a> {
    /// The kinds, in order.
    const KINDS: &'static [Kind];
    /// `[Argument<'a>; N]`.
    type Array: AsRef<[Argument<'a>]>;
    /// The arguments, in order.
    fn array(self) -> Self::Array;
}

macro_rules! arguments {
    ($($count:literal: $($name:ident)*;)*) => {$(
        impl<'a, $($name: ArgumentType<'a>),*> Arguments<'a> for ($($name,)*) {
            const KINDS: &'static [Kind] = &[$($name::KIND),*];
            type Array = [Argument<'a>; $count];
            #[inline]
            #[allow(non_snake_case, reason = "the type parameters' names serve as the values'")]
            fn array(self) -> Self::Array {
                let ($($name,)*) = self;
                [$($name.argument()),*]
            }
        }
    )*};
}

arguments! {
    0: ;
    1: A;
    2: A B;
    3: A B C;
    4: A B C D;
    5: A B C D E;
    6: A B C D E F;
    7: A B C D E F G;
    8: A B C D E F G H;
    9: A B C D E F G H I;
    10: A B C D E F G H I J;
    11: A B C D E F G H I J K;
    12: A B C D E F G H I J K L;
    13: A B C D E F G H I J K L M;
    14: A B C D E F G H I J K L M N;
    15: A B C D E F G H I J K L M N O;
    16: A B C D E F G H I J K L M N O P;
}

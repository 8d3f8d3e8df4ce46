//! Where scanned values go: one [`Target`] per conversion that stores, and the Rust types that become one.
#![expect(unsafe_code, reason = "stores through the addresses of mutable references")]

use core::cell::Cell;
use core::ffi::c_void;
use core::marker::PhantomData;

use static_assertions::const_assert_eq;

use super::parse::{Conversion, Spec};

/// What a [`Target`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TargetKind {
    /// An integer of one byte, or a character.
    Int8 = 0,
    /// An integer of two bytes.
    Int16 = 1,
    /// An integer of four bytes, or a wide character.
    Int32 = 2,
    /// An integer of eight bytes.
    Int64 = 3,
    /// An `f32`.
    Float = 4,
    /// An `f64`.
    Double = 5,
    /// A `long double` of x86: 80 bits.
    Extended = 6,
    /// A pointer: for `%p`, or for the memory of `%m`.
    Pointer = 7,
    /// Bytes.
    Text = 8,
    /// Wide characters, of four bytes each.
    Wide = 9,
    /// What C's pointers to characters point to: one, or a string.
    CBytes = 10,
    /// What C's `int *` points to: an integer, or wide characters.
    CWords = 11,
    /// Whatever the conversion stores: a pointer of C's `va_list`, whose type only the format says.
    Any = 12,
}

impl TargetKind {
    /// What the kind is called in a message.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int8 => "an integer of one byte",
            Self::Int16 => "an integer of two bytes",
            Self::Int32 => "an integer of four bytes",
            Self::Int64 => "an integer of eight bytes",
            Self::Float => "a float",
            Self::Double => "a double",
            Self::Extended => "a long double",
            Self::Pointer => "a pointer",
            Self::Text | Self::CBytes => "memory for text",
            Self::Wide => "memory for wide characters",
            Self::CWords => "an int",
            Self::Any => "a pointer",
        }
    }
}

/// One target of a format, with the type that it came with. Whoever scans stores through it, so one thread at a time has it:
///
/// ```compile_fail,E0277
/// use gpufs_device::format::scan::{Target, sscanf};
///
/// let mut number = 0;
/// let targets = [Target::from(&mut number)];
/// std::thread::scope(|threads| {
///     for _ in 0..2 {
///         threads.spawn(|| sscanf(b"7", b"%d", &targets));
///     }
/// });
/// ```
///
/// C callers build the same 16 bytes, where `length` counts elements of text, `u32::MAX` for a bare pointer; of other kinds it is not used:
///
/// ```text
///  0      4        8               16
/// +------+--------+----------------+
/// | kind | length |    address     |
/// +------+--------+----------------+
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct Target<'a> {
    kind: TargetKind,
    length: u32,
    address: u64,
    /// Stored through by whoever has a shared reference to this: `Send`, and not `Sync`.
    borrowed: PhantomData<(&'a mut [u8], Cell<u8>)>,
}

const_assert_eq!(size_of::<Target<'_>>(), 16);
const_assert_eq!(align_of::<Target<'_>>(), 8);
const_assert_eq!(core::mem::offset_of!(Target<'_>, kind), 0);
const_assert_eq!(core::mem::offset_of!(Target<'_>, length), 4);
const_assert_eq!(core::mem::offset_of!(Target<'_>, address), 8);

/// The length of a bare pointer's memory.
const UNKNOWN: u32 = u32::MAX;

impl Target<'_> {
    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> TargetKind {
        self.kind
    }
    /// Whether it has room for what a conversion of such a kind stores at most, or is told by it how much that may be.
    pub(super) fn has_room(&self, spec: Spec) -> bool {
        if self.length == UNKNOWN || spec.allocates {
            return true;
        }
        match spec.conversion {
            Conversion::Chars => self.length >= spec.width.max(1),
            Conversion::Text | Conversion::Set { .. } => self.length > spec.width.max(1),
            _ => true,
        }
    }
    /// Elements of a text, but for the NUL.
    pub(super) fn text_most(&self) -> u64 {
        if self.length == UNKNOWN { u64::MAX } else { u64::from(self.length).saturating_sub(1) }
    }
    /// The first byte.
    pub(super) const fn address(&self) -> u64 {
        self.address
    }
    /// Stores where the memory of a `%m` is.
    pub(super) fn point_to(&self, memory: u64) {
        // SAFETY:
        // - a target of `%m` is the address of a pointer, as was checked, or as C promises
        unsafe { (self.address as *mut u64).write(memory) }
    }
    /// Stores a conversion's value: the lowest bytes of `bits` that the target has room for.
    #[expect(clippy::cast_possible_truncation, reason = "the lowest bytes, as C converts")]
    pub(super) fn store(&self, spec: Spec, bits: u64) {
        let address = self.address;
        let kind = if self.kind == TargetKind::Any { spec.kind() } else { self.kind };
        // The address of a mutable reference of this type, borrowed as long as the target, or C's promise of the same.
        match kind {
            TargetKind::Int8 | TargetKind::CBytes => {
                // SAFETY:
                // - see above
                unsafe { (address as *mut u8).write(bits as u8) }
            }
            TargetKind::Int16 => {
                // SAFETY:
                // - see above
                unsafe { (address as *mut u16).write(bits as u16) }
            }
            TargetKind::Int32 | TargetKind::CWords | TargetKind::Float => {
                // SAFETY:
                // - see above
                unsafe { (address as *mut u32).write(bits as u32) }
            }
            TargetKind::Int64 | TargetKind::Double | TargetKind::Pointer => {
                // SAFETY:
                // - see above
                unsafe { (address as *mut u64).write(bits) }
            }
            TargetKind::Extended => {
                let (mantissa, rest) = extended(bits);
                // SAFETY:
                // - see above
                unsafe { (address as *mut u64).write(mantissa) };
                // SAFETY:
                // - see above: the type has ten bytes
                unsafe { ((address + 8) as *mut u16).write(rest) };
            }
            TargetKind::Text | TargetKind::Wide | TargetKind::Any => {}
        }
    }
}

/// A double's bits as 80 bits: the mantissa, then sign and exponent.
const fn extended(bits: u64) -> (u64, u16) {
    const EXPLICIT: u64 = 1 << 63;
    let sign = ((bits >> 63) as u16) << 15;
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as u16, bits << 12);
    match (exponent, fraction) {
        (0, 0) => (0, sign),
        (0, _) => {
            // Subnormal: its value is fraction · 2^(−1022 − 64).
            let shift = fraction.leading_zeros();
            (fraction << shift, sign | (16383 - 1023 - shift as u16))
        }
        (0x7ff, _) => (EXPLICIT | fraction >> 1, sign | 0x7fff),
        _ => (EXPLICIT | fraction >> 1, sign | (exponent + (16383 - 1023))),
    }
}

/// C's function behind [`Memory`]: memory of the last number of bytes that begins with what the first, of so many bytes, held. With 0 bytes it
/// frees.
pub type Reallocate = unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void;

/// The caller's allocator, for `%m`.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    reallocate: Option<Reallocate>,
}

impl Memory {
    /// No allocator: `%m` is an error.
    pub const NONE: Self = Self { reallocate: None };

    /// An allocator.
    ///
    /// # Safety
    /// The function does what [`Reallocate`] says, in the calling lane.
    #[must_use]
    pub const unsafe fn new(reallocate: Reallocate) -> Self {
        Self { reallocate: Some(reallocate) }
    }
    /// Memory of so many bytes with what `old`, of `before` bytes, holds; 0 where there is none, or none is left.
    pub(super) fn reallocate(self, old: u64, before: usize, bytes: usize) -> u64 {
        match self.reallocate {
            // SAFETY:
            // - the promise of `new`; `old` is null, or came from here with `before` bytes
            Some(reallocate) => unsafe { reallocate(old as *mut c_void, before, bytes) as u64 },
            None => 0,
        }
    }
    /// Gives memory back.
    pub(super) fn free(self, address: u64, bytes: usize) {
        if address != 0 {
            let _ = self.reallocate(address, bytes, 0);
        }
    }
}

/// A type that a scanned value can go to: `&mut` of an integer for the conversions of its size, whether signed or not, of a floating-point
/// number (`%f`, `%lf`), of a pointer (`%p`); `&mut [u8]` for `%s`, `%[` and `%c`, `&mut [u32]` for `%ls`, `%l[` and `%lc`.
pub trait TargetType<'a> {
    /// The kind of the target, known to the compiler.
    const KIND: TargetKind;
    /// The target.
    fn target(self) -> Target<'a>;
}

impl<'a, T: TargetType<'a>> From<T> for Target<'a> {
    #[inline]
    fn from(value: T) -> Self {
        value.target()
    }
}

macro_rules! target_types {
    ($($type:ty => $kind:ident;)*) => {$(
        impl<'a> TargetType<'a> for &'a mut $type {
            const KIND: TargetKind = TargetKind::$kind;
            #[inline]
            fn target(self) -> Target<'a> {
                let address = core::ptr::from_mut(self).expose_provenance() as u64;
                Target { kind: TargetKind::$kind, length: 1, address, borrowed: PhantomData }
            }
        }
    )*};
}

target_types! {
    i8 => Int8;
    u8 => Int8;
    i16 => Int16;
    u16 => Int16;
    i32 => Int32;
    u32 => Int32;
    i64 => Int64;
    u64 => Int64;
    isize => Int64;
    usize => Int64;
    f32 => Float;
    f64 => Double;
}

impl<'a, T> TargetType<'a> for &'a mut *mut T {
    const KIND: TargetKind = TargetKind::Pointer;
    #[inline]
    fn target(self) -> Target<'a> {
        let address = core::ptr::from_mut(self).expose_provenance() as u64;
        Target { kind: TargetKind::Pointer, length: 1, address, borrowed: PhantomData }
    }
}

macro_rules! text_types {
    ($($type:ty => $kind:ident;)*) => {$(
        impl<'a> TargetType<'a> for &'a mut [$type] {
            const KIND: TargetKind = TargetKind::$kind;
            #[inline]
            fn target(self) -> Target<'a> {
                let length = u32::try_from(self.len()).unwrap_or(UNKNOWN - 1);
                let address = self.as_mut_ptr().expose_provenance() as u64;
                Target { kind: TargetKind::$kind, length, address, borrowed: PhantomData }
            }
        }
        impl<'a, const N: usize> TargetType<'a> for &'a mut [$type; N] {
            const KIND: TargetKind = TargetKind::$kind;
            #[inline]
            fn target(self) -> Target<'a> {
                self.as_mut_slice().target()
            }
        }
    )*};
}

text_types! {
    u8 => Text;
    i8 => Text;
    u32 => Wide;
}

/// A tuple of up to 16 targets, whose kinds the compiler knows.
pub trait Targets<'a> {
    /// The kinds, in order.
    const KINDS: &'static [TargetKind];
    /// `[Target<'a>; N]`.
    type Array: AsRef<[Target<'a>]>;
    /// The targets, in order.
    fn array(self) -> Self::Array;
}

impl<'a> Targets<'a> for () {
    const KINDS: &'static [TargetKind] = &[];
    type Array = [Target<'a>; 0];
    #[inline]
    fn array(self) -> Self::Array {
        []
    }
}

macro_rules! targets {
    ($($count:literal: $($name:ident)*;)*) => {$(
        impl<'a, $($name: TargetType<'a>),*> Targets<'a> for ($($name,)*) {
            const KINDS: &'static [TargetKind] = &[$($name::KIND),*];
            type Array = [Target<'a>; $count];
            #[inline]
            #[expect(non_snake_case, reason = "the type parameters' names serve as the values'")]
            fn array(self) -> Self::Array {
                let ($($name,)*) = self;
                [$($name.target()),*]
            }
        }
    )*};
}

targets! {
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

#[cfg(test)]
mod tests {
    use super::extended;

    #[test]
    fn doubles_as_80_bits() {
        assert_eq!(extended(1.0_f64.to_bits()), (1 << 63, 16383));
        assert_eq!(extended((-1.5_f64).to_bits()), (3 << 62, 0x8000 | 16383));
        assert_eq!(extended(f64::from_bits(1).to_bits()), (1 << 63, 16383 - 1074));
        assert_eq!(extended(f64::MIN_POSITIVE.to_bits()), (1 << 63, 16383 - 1022));
        assert_eq!(extended(f64::INFINITY.to_bits()), (1 << 63, 0x7fff));
        assert_eq!(extended(f64::NAN.to_bits()), (3 << 62, 0x7fff));
        assert_eq!(extended(0), (0, 0));
    }
}

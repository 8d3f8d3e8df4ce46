//! The rounding direction (`fegetround(3)`), which printing follows as glibc's does. A GPU has none: to nearest, ties to even.
#![allow(unsafe_code, reason = "reads a control register")]

/// What rounding does to a magnitude.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    /// To nearest, ties to even.
    Nearest,
    /// Up, if anything is dropped.
    Away,
    /// Never up.
    Truncate,
}

/// What a rounding drops.
#[derive(Clone, Copy)]
pub(super) struct Rest {
    /// How it compares with half a unit of the last digit kept.
    pub(super) half: core::cmp::Ordering,
    /// It is nothing.
    pub(super) zero: bool,
}

impl Rounding {
    /// The direction in force, for numbers of this sign.
    #[inline]
    pub(super) fn current(negative: bool) -> Self {
        match (direction(), negative) {
            (Direction::Nearest, _) => Self::Nearest,
            (Direction::Up, false) | (Direction::Down, true) => Self::Away,
            _ => Self::Truncate,
        }
    }
    /// Whether to round up, where the last digit kept is `odd`.
    #[inline]
    pub(super) fn rounds_up(self, rest: Rest, odd: bool) -> bool {
        match self {
            Self::Nearest => rest.half.is_gt() || rest.half.is_eq() && odd,
            Self::Away => !rest.zero,
            Self::Truncate => false,
        }
    }
}

#[allow(dead_code, reason = "a machine without directions has one")]
enum Direction {
    Nearest,
    Down,
    Up,
    Zero,
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn direction() -> Direction {
    let mut mxcsr = 0_u32;
    // SAFETY:
    // - stores the control register into the variable, and does nothing else
    unsafe {
        core::arch::asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags));
    }
    match mxcsr >> 13 & 3 {
        0 => Direction::Nearest,
        1 => Direction::Down,
        2 => Direction::Up,
        _ => Direction::Zero,
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline]
fn direction() -> Direction {
    let fpcr: u64;
    // SAFETY:
    // - reads the control register
    unsafe {
        core::arch::asm!("mrs {}, fpcr", out(reg) fpcr, options(nomem, nostack, preserves_flags));
    }
    match fpcr >> 22 & 3 {
        0 => Direction::Nearest,
        1 => Direction::Up,
        2 => Direction::Down,
        _ => Direction::Zero,
    }
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
#[inline]
fn direction() -> Direction {
    Direction::Nearest
}

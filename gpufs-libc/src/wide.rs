//! `<wctype.h>` (C11 7.30): classes and cases of Unicode's characters, from Rust's `core`. The other classes follow from these, in `c/wide.c`.

use core::ffi::c_int;

/// Defines C functions that say whether a character is of a class; a number that is none is of no class.
macro_rules! classes {
    ($($name:ident = $is:expr;)*) => { $(
        #[doc = concat!("`", stringify!($name), "(3)`.")]
        #[cfg_attr(any(target_arch = "nvptx64", target_arch = "amdgpu"), unsafe(no_mangle))]
        #[must_use]
        pub extern "C" fn $name(character: c_int) -> c_int {
            c_int::from(char::from_u32(character.cast_unsigned()).is_some_and($is))
        }
    )* };
}

classes! {
    iswalpha = |letter| letter.is_alphabetic() || (letter.is_numeric() && letter > '\u{7f}');
    iswalnum = char::is_alphanumeric;
    iswlower = char::is_lowercase;
    iswupper = char::is_uppercase;
    iswcntrl = is_control;
    iswspace = is_space;
    iswprint = |letter| !is_control(letter);
}

/// Unicode's controls and the two that end lines and paragraphs.
fn is_control(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}')
}

/// White space where a line may be broken, as in glibc: so none of the three that forbid it, and not U+0085.
fn is_space(letter: char) -> bool {
    letter.is_whitespace() && !matches!(letter, '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}')
}

/// The one character that another becomes; itself, where it becomes none or several.
fn changed(character: c_int, mut others: impl FnMut(char) -> (Option<char>, Option<char>)) -> c_int {
    match char::from_u32(character.cast_unsigned()).map(&mut others) {
        Some((Some(one), None)) => u32::from(one).cast_signed(),
        _ => character,
    }
}

/// `towlower(3)`.
#[cfg_attr(any(target_arch = "nvptx64", target_arch = "amdgpu"), unsafe(no_mangle))]
#[must_use]
pub extern "C" fn towlower(character: c_int) -> c_int {
    changed(character, |letter| {
        let mut lower = letter.to_lowercase();
        (lower.next(), lower.next())
    })
}

/// `towupper(3)`.
#[cfg_attr(any(target_arch = "nvptx64", target_arch = "amdgpu"), unsafe(no_mangle))]
#[must_use]
pub extern "C" fn towupper(character: c_int) -> c_int {
    changed(character, |letter| {
        let mut upper = letter.to_uppercase();
        (upper.next(), upper.next())
    })
}

#[cfg(test)]
mod tests {
    use core::ffi::{c_char, c_int};

    unsafe extern "C" {
        fn setlocale(category: c_int, name: *const c_char) -> *mut c_char;
        safe fn towlower(character: c_int) -> c_int;
        safe fn towupper(character: c_int) -> c_int;
    }

    /// Each function beside the system's, over the letters of Latin, Greek, Cyrillic, Hebrew and Arabic and the common punctuation. What the two
    /// versions of Unicode have differently, and what their libraries count differently, is a small part.
    #[test]
    fn classes_are_beside_the_systems() {
        // SAFETY:
        // - the name ends with a NUL; no other thread of this test asks for locales
        let set = unsafe { setlocale(0, c"C.UTF-8".as_ptr()) };
        if set.is_null() {
            return;
        }
        macro_rules! beside {
            ($($name:ident)*) => { $( {
                unsafe extern "C" {
                    safe fn $name(character: c_int) -> c_int;
                }
                let ascii = (-1..128).filter(|&at| (super::$name(at) != 0) != ($name(at) != 0));
                assert_eq!(ascii.count(), 0, stringify!($name));
                let differ = (128..0x600).filter(|&at| (super::$name(at) != 0) != ($name(at) != 0)).count();
                assert!(differ < 64, "{}: {differ} characters differ", stringify!($name));
            } )* };
        }
        beside!(iswalpha iswalnum iswlower iswupper iswcntrl iswspace iswprint);
        let differ = (-1..0x600)
            .filter(|&at| super::towlower(at) != towlower(at) || super::towupper(at) != towupper(at));
        assert!(differ.count() < 16);
    }
}

//! Values of options, and what is said of wrong ones. The message that a parser returns stands behind the option and its value.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, PossibleValue, TypedValueParser};
use clap::{Arg, Command};

/// A value that a function makes of a text. Bytes that are not UTF-8 become U+FFFD, so that the error names option and value as it always does.
#[derive(Clone, Copy, Debug)]
struct Text<F>(F);

impl<T, F> TypedValueParser for Text<F>
where
    T: Clone + Send + Sync + 'static,
    F: Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        self.0.parse_ref(command, argument, OsStr::new(&*value.to_string_lossy()))
    }
}

/// What `parse` makes of a value.
pub fn text<T: Clone + Send + Sync + 'static>(
    parse: impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = T> {
    Text(parse)
}

/// A path: any bytes. That of no bytes is the system's to refuse.
pub fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// A whole number.
pub fn number<T: TryFrom<u64> + Clone + Send + Sync + 'static>() -> impl TypedValueParser<Value = T> {
    Text(whole)
}

/// A whole number of 1 or more; `wrong` is said of 0.
pub fn at_least_1<T: TryFrom<u64> + Clone + Send + Sync + 'static>(
    wrong: &'static str,
) -> impl TypedValueParser<Value = T> {
    Text(move |text: &str| if whole::<u64>(text) == Ok(0) { Err(wrong.to_owned()) } else { whole(text) })
}

/// A whole number from `least` to `most`, of `unit` where that is no empty text.
pub fn from_to<T: TryFrom<u64> + Clone + Send + Sync + 'static>(
    least: u64,
    most: u64,
    unit: &'static str,
) -> impl TypedValueParser<Value = T> {
    Text(move |text: &str| {
        if (least..=most).contains(&whole(text)?) {
            return whole(text);
        }
        Err(format!("from {least} to {most} {unit}").trim_end().to_owned())
    })
}

fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("not a whole number, such as 4".to_owned());
    }
    let number = text.parse::<u64>().ok().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| "the number is too large".to_owned())
}

/// A size in bytes, perhaps with K, M or G for 2¹⁰, 2²⁰, 2³⁰.
pub fn size() -> impl TypedValueParser<Value = usize> {
    Text(|text: &str| {
        let (digits, shift) = match text.as_bytes().last() {
            Some(b'K') => (&text[..text.len() - 1], 10),
            Some(b'M') => (&text[..text.len() - 1], 20),
            Some(b'G') => (&text[..text.len() - 1], 30),
            _ => (text, 0),
        };
        let number = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
        number.ok_or_else(|| "not a size in bytes, such as 65536 or 64K".to_owned())
    })
}

/// One of a few names, which help and completions show.
#[derive(Clone, Copy, Debug)]
pub struct Choice<T: 'static> {
    /// What is said of another.
    pub wrong: &'static str,
    /// Each name, and what it stands for.
    pub names: &'static [(&'static str, T)],
}

impl<T: Copy + Send + Sync> TypedValueParser for Choice<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let Self { wrong, names } = *self;
        let parse = move |text: &str| {
            names.iter().find(|(name, _)| *name == text).map(|(_, meant)| *meant).ok_or(wrong.to_owned())
        };
        Text(parse).parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(|(name, _)| PossibleValue::new(*name))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a parser makes of a value.
    fn parsed<T: Clone + Send + Sync + 'static>(
        parser: &impl TypedValueParser<Value = T>,
        value: &[u8],
    ) -> Result<T, String> {
        use std::os::unix::ffi::OsStrExt as _;
        parser.parse_ref(&Command::new("test"), None, OsStr::from_bytes(value)).map_err(|error| {
            std::error::Error::source(&error).map(ToString::to_string).unwrap_or_else(|| error.to_string())
        })
    }

    #[test]
    fn numbers() {
        assert_eq!(parsed(&number::<u8>(), b"255"), Ok(255));
        assert_eq!(parsed(&number::<u8>(), b"007"), Ok(7));
        assert_eq!(parsed(&number::<u8>(), b"256"), Err("the number is too large".to_owned()));
        assert_eq!(
            parsed(&number::<u64>(), b"18446744073709551616"),
            Err("the number is too large".to_owned())
        );
        for wrong in [&b""[..], b"-1", b"+1", b"1 ", b"4K", b"\xff", b"\xc2\xb2"] {
            let said = parsed(&number::<u64>(), wrong);
            assert_eq!(said, Err("not a whole number, such as 4".to_owned()), "{wrong:?}");
        }
        assert_eq!(parsed(&at_least_1::<u32>("none"), b"0"), Err("none".to_owned()));
        assert_eq!(parsed(&at_least_1::<u32>("none"), b"1"), Ok(1));
        let range = from_to::<u32>(2, 5, "KiB");
        assert_eq!((parsed(&range, b"2"), parsed(&range, b"5")), (Ok(2), Ok(5)));
        for outside in [&b"1"[..], b"6"] {
            assert_eq!(parsed(&range, outside), Err("from 2 to 5 KiB".to_owned()));
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("0", 0), ("1000", 1000), ("4K", 4 << 10), ("3M", 3 << 20), ("2G", 2 << 30)] {
            assert_eq!(parsed(&size(), text.as_bytes()), Ok(bytes));
        }
        for wrong in [&b""[..], b"K", b"4k", b"4KK", b"-4", b"18446744073709551615K", b"\xffK"] {
            let said = parsed(&size(), wrong);
            assert_eq!(said, Err("not a size in bytes, such as 65536 or 64K".to_owned()), "{wrong:?}");
        }
    }

    #[test]
    fn choices_and_paths() {
        let choice = Choice { wrong: "one or two", names: &[("one", 1), ("two", 2)] };
        assert_eq!(parsed(&choice, b"two"), Ok(2));
        assert_eq!(parsed(&choice, b"\xff"), Err("one or two".to_owned()));
        assert_eq!(choice.possible_values().unwrap().count(), 2);
        use std::os::unix::ffi::OsStrExt as _;
        for bytes in [&b""[..], b"\xff/a", b"-x"] {
            assert_eq!(parsed(&path(), bytes).unwrap().as_os_str().as_bytes(), bytes);
        }
    }
}

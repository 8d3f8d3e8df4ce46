//! Requests of RESP2 ([its specification](https://redis.io/docs/latest/develop/reference/protocol-spec/)): arrays of strings, and lines of words.

/// The most arguments of a request.
const ARGUMENTS_MAX: i64 = 1 << 20;
/// The most bytes of a line.
const LINE_BYTES_MAX: usize = 64 << 10;

/// What the bytes that came begin with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// A part of a request.
    Incomplete,
    /// No request: what is wrong.
    Wrong(&'static [u8]),
    /// A request, and how many bytes it has.
    Request(Arguments<'a>, usize),
}

/// The arguments of a whole request, from its name on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arguments<'a> {
    rest: &'a [u8],
    /// How many of an array; `None`: words of a line.
    left: Option<usize>,
}

impl Arguments<'_> {
    /// How many are left.
    pub(super) fn left(&self) -> usize {
        match self.left {
            Some(left) => left,
            None => self.clone().count(),
        }
    }
}

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let Some(left) = self.left else {
            let start = self.rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
            let word = self.rest.get(start..)?;
            let end = word.iter().position(u8::is_ascii_whitespace).unwrap_or(word.len());
            let (word, rest) = word.split_at(end);
            self.rest = rest;
            return Some(word);
        };
        self.left = Some(left.checked_sub(1)?);
        match string(self.rest, usize::MAX) {
            Step::Whole(text, bytes) => {
                self.rest = self.rest.get(bytes..).unwrap_or(&[]);
                Some(text)
            }
            // The request was whole.
            Step::Part | Step::Wrong(_) => None,
        }
    }
}

enum Step<T> {
    Part,
    Wrong(&'static [u8]),
    /// And how many bytes it has.
    Whole(T, usize),
}

/// What a line behind its first byte says, a number.
fn number(bytes: &[u8], wrong: &'static [u8]) -> Step<i64> {
    // Most have a digit or two.
    match *bytes {
        [_, ones @ b'0'..=b'9', b'\r', b'\n', ..] => return Step::Whole(i64::from(ones - b'0'), 4),
        [_, tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => {
            return Step::Whole(i64::from(tens - b'0') * 10 + i64::from(ones - b'0'), 5);
        }
        _ => {}
    }
    let Some(end) = bytes.iter().take(32).position(|&byte| byte == b'\r') else {
        return if bytes.len() > 32 { Step::Wrong(wrong) } else { Step::Part };
    };
    match (super::number::number_of(bytes.get(1..end).unwrap_or(&[])), bytes.get(end + 1)) {
        (None, _) => Step::Wrong(wrong),
        (_, None) => Step::Part,
        (Some(number), Some(b'\n')) => Step::Whole(number, end + 2),
        (_, Some(_)) => Step::Wrong(wrong),
    }
}

/// A string: `$`, its length, a line's end, its bytes, a line's end.
fn string(bytes: &[u8], most: usize) -> Step<&[u8]> {
    match bytes.first() {
        None => return Step::Part,
        Some(b'$') => {}
        Some(_) => return Step::Wrong(b"expected '$'"),
    }
    let (length, start) = match number(bytes, b"invalid bulk length") {
        Step::Part => return Step::Part,
        Step::Wrong(wrong) => return Step::Wrong(wrong),
        Step::Whole(length, start) => match usize::try_from(length) {
            Ok(length) if length <= most => (length, start),
            _ => return Step::Wrong(b"invalid bulk length"),
        },
    };
    let end = start + length;
    match (bytes.get(start..end), bytes.get(end..end + 2)) {
        (Some(text), Some(b"\r\n")) => Step::Whole(text, end + 2),
        (_, Some(_)) => Step::Wrong(b"a string does not end where it says"),
        _ => Step::Part,
    }
}

/// Reads what `bytes` begin with, whose strings have at most `most` bytes.
pub(super) fn parse(bytes: &[u8], most: usize) -> Parsed<'_> {
    match bytes.first() {
        None => return Parsed::Incomplete,
        Some(b'*') => {}
        Some(_) => {
            return match bytes.iter().position(|&byte| byte == b'\n') {
                Some(end) => {
                    Parsed::Request(Arguments { rest: bytes.get(..end).unwrap_or(&[]), left: None }, end + 1)
                }
                None if bytes.len() > LINE_BYTES_MAX => Parsed::Wrong(b"too big inline request"),
                None => Parsed::Incomplete,
            };
        }
    }
    let (count, start) = match number(bytes, b"invalid multibulk length") {
        Step::Part => return Parsed::Incomplete,
        Step::Wrong(wrong) => return Parsed::Wrong(wrong),
        Step::Whole(count, start) if count <= ARGUMENTS_MAX => (count.max(0), start),
        Step::Whole(..) => return Parsed::Wrong(b"invalid multibulk length"),
    };
    let mut end = start;
    for _ in 0..count {
        match string(bytes.get(end..).unwrap_or(&[]), most) {
            Step::Part => return Parsed::Incomplete,
            Step::Wrong(wrong) => return Parsed::Wrong(wrong),
            Step::Whole(_, bytes) => end += bytes,
        }
    }
    let arguments =
        Arguments { rest: bytes.get(start..end).unwrap_or(&[]), left: usize::try_from(count).ok() };
    Parsed::Request(arguments, end)
}

#[cfg(all(test, feature = "host"))]
mod tests {
    use super::{Parsed, parse};

    fn words(bytes: &[u8]) -> (Vec<Vec<u8>>, usize) {
        match parse(bytes, 1000) {
            Parsed::Request(arguments, bytes) => {
                let left = arguments.left();
                let words: Vec<_> = arguments.map(<[u8]>::to_vec).collect();
                assert_eq!(left, words.len());
                (words, bytes)
            }
            other => panic!("{other:?} of {}", bytes.escape_ascii()),
        }
    }

    #[test]
    fn every_cut_of_a_request_is_incomplete() {
        let whole = b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$5\r\na\r\n\0b\r\n";
        assert_eq!(words(whole), (vec![b"SET".to_vec(), vec![], b"a\r\n\0b".to_vec()], whole.len()));
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut], 1000), Parsed::Incomplete, "{cut}");
        }
        let two = [&whole[..], b"*1\r\n"].concat();
        assert_eq!(words(&two).1, whole.len());
    }

    #[test]
    fn lines_are_words() {
        assert_eq!(words(b"get  key \r\nnext"), (vec![b"get".to_vec(), b"key".to_vec()], 11));
        assert_eq!(words(b"\r\n"), (vec![], 2));
        assert_eq!(words(b"*0\r\n"), (vec![], 4));
        assert_eq!(words(b"*-1\r\n"), (vec![], 5));
        assert_eq!(parse(b"PING", 1000), Parsed::Incomplete);
        assert_eq!(parse(&[b'x'; 65537], 1000), Parsed::Wrong(b"too big inline request"));
    }

    #[test]
    fn garbage_is_wrong() {
        for (bytes, wrong) in [
            (&b"*x\r\n"[..], "invalid multibulk length"),
            (b"*99999999999999999999999999999999999999\r\n", "invalid multibulk length"),
            (b"*1048577\r\n", "invalid multibulk length"),
            (b"*1\r\r", "invalid multibulk length"),
            (b"*1\r\nPING", "expected '$'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$1001\r\n", "invalid bulk length"),
            (b"*1\r\n$4x\r\n", "invalid bulk length"),
            (b"*1\r\n$4\r\nPINGPONG", "a string does not end where it says"),
        ] {
            assert_eq!(parse(bytes, 1000), Parsed::Wrong(wrong.as_bytes()), "{}", bytes.escape_ascii());
        }
    }
}

//! Numbers in decimal, as Redis writes and takes them.

/// A number in decimal, as Redis takes it: no sign but `-`, no zeros before it, no blanks.
#[must_use]
pub(super) fn number_of(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0'] if !negative => return Some(0),
        [b'0', ..] => return None,
        _ => {}
    }
    let mut number = 0_i64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number.checked_mul(10)?.checked_sub(i64::from(digit - b'0'))?;
    }
    if negative { Some(number) } else { number.checked_neg() }
}

/// Room for the digits of a number.
#[derive(Debug)]
pub(super) struct Digits([u8; 20]);

impl Digits {
    /// Empty.
    #[must_use]
    pub(super) const fn new() -> Self {
        Self([0; 20])
    }
    /// A number in decimal.
    pub(super) fn of(&mut self, number: i64) -> &[u8] {
        let mut rest = number.unsigned_abs();
        let mut at = self.0.len();
        // Ends: 64 bits have 20 digits at most, with a sign.
        loop {
            at -= 1;
            self.0[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            at -= 1;
            self.0[at] = b'-';
        }
        &self.0[at..]
    }
}

#[cfg(all(test, feature = "host"))]
mod tests {
    use super::{Digits, number_of};

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(number_of(Digits::new().of(number)), Some(number));
            assert_eq!(Digits::new().of(number), number.to_string().as_bytes());
        }
        for text in ["", "-", "+1", " 1", "01", "-0", "1x", "9223372036854775808", "-9223372036854775809"] {
            assert_eq!(number_of(text.as_bytes()), None, "{text}");
        }
    }
}

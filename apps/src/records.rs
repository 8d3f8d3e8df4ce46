//! Checks what lanes printed: `lane L line N says hello`.

use std::fmt;

/// Knows which line of each lane comes next.
#[derive(Clone, Debug)]
pub struct Checker {
    /// For each lane, the number of its next line.
    next: Vec<u32>,
    lines: u32,
    seen: u64,
}

/// What is wrong with what lanes printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A line is not one whole record.
    Torn(String),
    /// A lane's lines are not in its own order.
    Order {
        /// The lane.
        lane: usize,
        /// The line that comes next.
        expected: u32,
        /// The line that was found.
        found: u32,
    },
    /// Lines of a lane are missing.
    Missing {
        /// The lane.
        lane: usize,
        /// The number of its lines that were found.
        lines: u32,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn(line) => write!(f, "not a whole record: {line:?}"),
            Self::Order { lane, expected, found } => {
                write!(f, "lane {lane}: line {found} is where line {expected} should be")
            }
            Self::Missing { lane, lines } => write!(f, "lane {lane}: only {lines} lines were found"),
        }
    }
}

impl std::error::Error for Wrong {}

impl Checker {
    /// For `lanes` lanes that print `lines` lines each.
    #[must_use]
    pub fn new(lanes: u32, lines: u32) -> Self {
        Self { next: vec![0; lanes as usize], lines, seen: 0 }
    }

    /// Checks the next line, given without its newline.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn line(&mut self, text: &str) -> Result<(), Wrong> {
        let torn = || Wrong::Torn(text.to_owned());
        let words: Vec<&str> = text.split(' ').collect();
        let ["lane", lane, "line", line, "says", "hello"] = words[..] else { return Err(torn()) };
        let (Ok(lane), Ok(found)) = (lane.parse::<usize>(), line.parse::<u32>()) else { return Err(torn()) };
        let expected = self.next.get_mut(lane).ok_or_else(torn)?;
        if *expected != found || found >= self.lines {
            return Err(Wrong::Order { lane, expected: *expected, found });
        }
        *expected += 1;
        self.seen += 1;
        Ok(())
    }

    /// Lines so far.
    #[must_use]
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// Checks that no line is missing: the number of lines.
    ///
    /// # Errors
    /// The first lane that lacks lines.
    pub fn finish(&self) -> Result<u64, Wrong> {
        match self.next.iter().position(|&lines| lines != self.lines) {
            Some(lane) => Err(Wrong::Missing { lane, lines: self.next[lane] }),
            None => Ok(self.seen),
        }
    }

    /// Checks a whole text: the number of lines.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn text(mut self, text: &[u8]) -> Result<u64, Wrong> {
        let text = String::from_utf8_lossy(text);
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(Wrong::Torn(text.lines().last().unwrap_or_default().to_owned()));
        }
        for line in text.lines() {
            self.line(line)?;
        }
        self.finish()
    }
}

//! The same calls made on this project's files and on the system's, and their results compared.
//!
//! [`streams`] compares streams with the C library's stdio, [`descriptors`] compares descriptors with the system calls. In both, a
//! *call* is plain data, a *step* is a call with what the system answered, and *rules* say which calls mean something in the present
//! state; so a list of calls can be made up while the system runs it, run again, and shrunk.

pub mod compare;
pub mod descriptors;
pub mod formats;
pub mod places;
pub mod scans;
pub mod streams;

use crate::suite::harness::{Answer, Do};
use streams::Sides;

/// A kind of sequence.
pub trait Subject: Sync {
    /// Its name.
    const NAME: &'static str;
    /// Entries of the handles that a sequence uses.
    const ENTRIES: u32;
    /// One call.
    type Call: std::fmt::Debug + Clone + Send + Sync;
    /// What the system answered.
    type Sequence: Send;
    /// Makes up the sequence of `seed`, or takes given calls and leaves out those that the rules forbid; makes them on the system's
    /// side, and puts this project's side into the same state. The script that makes the same calls there, on the entries from `on` on.
    fn prepare(sides: &Sides, seed: u64, calls: Option<&[Self::Call]>, on: u32) -> (Self::Sequence, Vec<Do>);
    /// Where the script's answers first differ.
    fn judge(sequence: Self::Sequence, answers: &[Answer]) -> Option<Difference<Self::Call>>;
}

/// What a call came to, as far as both sides must agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// A count, a byte, a position; −1 for EOF and errors.
    pub value: i64,
    /// The errno of a call that failed, else 0.
    pub errno: i32,
    /// Bytes read.
    pub bytes: Vec<u8>,
    /// `feof` and `ferror` after the call.
    pub flags: (bool, bool),
    /// The file's length and a hash of its content, where the call makes them visible.
    pub content: Option<(usize, u64)>,
}

impl Outcome {
    /// A value and nothing else.
    #[must_use]
    pub fn of(value: i64) -> Self {
        Self { value, ..Self::default() }
    }
    /// −1 and an errno, 0 for the end of a file.
    #[must_use]
    pub fn failed(errno: i32) -> Self {
        Self { value: -1, errno, ..Self::default() }
    }
    /// In short, for a report.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = format!("{}", self.value);
        if self.errno != 0 {
            text += &format!(" errno {}", self.errno);
        }
        if !self.bytes.is_empty() {
            let shown = &self.bytes[..self.bytes.len().min(40)];
            text += &format!(" bytes {:?}… of {}", shown.escape_ascii().to_string(), self.bytes.len());
        }
        if self.flags.0 {
            text += " feof";
        }
        if self.flags.1 {
            text += " ferror";
        }
        if let Some((length, hash)) = self.content {
            text += &format!(" content {length} bytes, {hash:x}");
        }
        text
    }
}

/// One call, and what the system answered.
#[derive(Clone, Debug)]
pub struct Step<C> {
    /// The call.
    pub call: C,
    /// The system's answer.
    pub expected: Outcome,
    /// Whether the answer is to be compared. False for what only brings both sides back to a common state.
    pub compared: bool,
}

/// Where the two sides first differ.
#[derive(Clone, Debug)]
pub struct Difference<C> {
    /// The steps up to and with the one that differs.
    pub steps: Vec<Step<C>>,
    /// What this project's side answered to the last.
    pub got: Outcome,
}

impl<C: std::fmt::Debug> Difference<C> {
    /// All of it as text, one call a line.
    #[must_use]
    pub fn report(&self) -> String {
        let lines =
            self.steps.iter().map(|step| format!("  {:?} -> {}\n", step.call, step.expected.describe()));
        format!("{}  but here {}\n", lines.collect::<String>(), self.got.describe())
    }
}

/// Drops calls while what is left still differs. `differs` runs a list of calls, leaving out those that its rules forbid.
pub fn shrink<C: Clone>(
    first: Difference<C>,
    mut differs: impl FnMut(&[C]) -> Option<Difference<C>>,
) -> Difference<C> {
    let mut best = first;
    let mut piece = best.steps.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < best.steps.len() {
            let mut calls: Vec<C> = best.steps.iter().map(|step| step.call.clone()).collect();
            calls.drain(at..calls.len().min(at + piece));
            match differs(&calls) {
                Some(smaller) if smaller.steps.len() < best.steps.len() => best = smaller,
                _ => at += piece,
            }
        }
        piece /= 2;
    }
    best
}

//! Calls that failed: their statistics, and the report for a program that never asks for those.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

use gpufs_core::failures::FailureCount;
use gpufs_core::session::SessionTables;
use gpufs_core::{Call, Errno};

/// How often a call failed with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedCalls {
    /// The call.
    pub call: Call,
    /// The error; `None` for a number that Linux does not have.
    pub errno: Option<Errno>,
    /// How often, since the session began.
    pub count: u64,
}

/// The calls that failed so far. While no kernel runs.
pub(super) fn failed(tables: &SessionTables) -> Vec<FailedCalls> {
    let one = |FailureCount { call, errno, count }| FailedCalls { call, errno, count };
    tables.failures().map(one).collect()
}

/// The failures that the program knows of.
#[derive(Debug)]
pub(super) struct ReportedFailures {
    /// Whether the session reports them (`Builder::report_failures`).
    reports: bool,
    seen: Mutex<Vec<FailedCalls>>,
}

impl ReportedFailures {
    pub(super) fn new(reports: bool) -> Self {
        Self { reports, seen: Mutex::new(Vec::new()) }
    }

    /// Notes that the program has asked for them, and got these.
    pub(super) fn note_seen(&self, failures: &[FailedCalls]) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = failures.to_vec();
    }

    /// Prints the failures that the program has not seen, a line for each kind, on the standard error. When the session ends.
    pub(super) fn report(&self, failures: Vec<FailedCalls>) {
        if !self.reports {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let text = lines(&failures, &seen);
        // A process without standard error gets no report.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
        *seen = failures;
    }

    /// Prints that they are not known, because a fault destroyed the counts.
    pub(super) fn report_unknown(&self) {
        if self.reports {
            let _ = std::io::stderr().lock().write_all(
                b"gpufs: which calls failed is not known: they were counted in the memory of the GPU, which died\n",
            );
        }
    }
}

/// A line for each kind whose count has grown.
fn lines(failures: &[FailedCalls], seen: &[FailedCalls]) -> String {
    let mut text = String::new();
    for FailedCalls { call, errno, count } in failures {
        let before = seen.iter().find(|seen| (seen.call, seen.errno) == (*call, *errno));
        let count = count - before.map_or(0, |before| before.count);
        if count == 0 {
            continue;
        }
        let times = if count == 1 { "once".to_owned() } else { format!("{} times", grouped(count)) };
        let _ = write!(text, "gpufs: {} failed {times} with ", call.name());
        let _ = match errno {
            Some(errno) => write!(text, "{errno:?} ({})", errno.text()),
            None => write!(text, "an error of no known number"),
        };
        if let Some(hint) = errno.and_then(|errno| hint(*call, errno)) {
            let _ = write!(text, ": {hint}");
        }
        text.push('\n');
    }
    text
}

/// What the user can do about it.
fn hint(call: Call, errno: Errno) -> Option<&'static str> {
    match (call, errno) {
        (Call::Fopen, Errno::MFILE) => Some(
            "open a stream once and share it, or raise the session's streams and files (Builder::streams, Builder::files; gpufs_options) or the \
             process's limit of open files (ulimit -n)",
        ),
        (Call::Open, Errno::MFILE) => Some(
            "raise the session's files (Builder::files; gpufs_options), or the process's limit of open files (ulimit -n)",
        ),
        (_, Errno::NFILE) => Some("the system's limit of open files is reached (fs.file-max)"),
        (_, Errno::NOMEM) => Some(
            "raise the session's buffers (Builder::buffers; gpufs_options.buffer_bytes), or lock more memory (ulimit -l)",
        ),
        (_, Errno::TIMEDOUT) => {
            Some("a wait was longer than the session's deadline, its limit, or the call's own allows")
        }
        _ => None,
    }
}

/// A number with commas.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Call, Errno, FailedCalls, grouped, lines};

    #[test]
    fn numbers_have_commas() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (33_633, "33,633"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_line_for_each_kind_that_was_not_seen() {
        let kind = |call, errno, count| FailedCalls { call, errno, count };
        let seen = [kind(Call::Fopen, Some(Errno::NOENT), 2), kind(Call::Fclose, Some(Errno::NOSPC), 1)];
        let now = [
            kind(Call::Fopen, Some(Errno::NOENT), 3),
            kind(Call::Fclose, Some(Errno::NOSPC), 1),
            kind(Call::Pread, Some(Errno::BADF), 40_000),
            kind(Call::Pwrite, None, 2),
        ];
        assert_eq!(
            lines(&now, &seen),
            "gpufs: fopen failed once with ENOENT (No such file or directory)\n\
             gpufs: pread failed 40,000 times with EBADF (Bad file descriptor)\n\
             gpufs: pwrite failed 2 times with an error of no known number\n"
        );
    }
}

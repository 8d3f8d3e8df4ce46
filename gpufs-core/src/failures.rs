//! Failed calls, counted by call and error number: a table of the session in device memory. Lanes that succeed never look at it.
#![expect(unsafe_code, reason = "a table behind a pointer that the host made")]

use crate::session::SessionTables;
use crate::word::DeviceWord64;
use crate::{Call, Errno};

/// Columns of a call: a number each up to Linux's last, 133, and column 0 for what a file system makes up.
const COLUMNS: usize = 134;

/// Words of the table: 1 while the session is open, then a row for each call.
pub const FAILURE_WORDS: u32 = (1 + Call::ALL.len() * COLUMNS) as u32;

/// How often a call failed with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureCount {
    /// The call.
    pub call: Call,
    /// The error; `None` for a number that Linux does not have.
    pub errno: Option<Errno>,
    /// How often.
    pub count: u64,
}

impl SessionTables {
    /// The table; empty in a session without one.
    fn failure_table(&self) -> &[DeviceWord64] {
        if self.failures.is_null() {
            return &[];
        }
        // SAFETY:
        // - valid for that number of words, by the host's construction
        unsafe { core::slice::from_raw_parts(self.failures, FAILURE_WORDS as usize) }
    }

    /// Counts a call that failed. Any lane, for itself.
    #[cold]
    #[inline(never)]
    pub fn note_failure(&self, call: Call, errno: Errno) {
        let Some((open, rows)) = self.failure_table().split_first() else { return };
        // ORDERING: relaxed, all of it: counters that order nothing; the host looks when kernels have ended.
        if open.peek() == 0 {
            // A handle that outlived its session: the memory may soon be another's.
            return;
        }
        let number = usize::try_from(errno.number()).unwrap_or(0);
        let column = if number < COLUMNS { number } else { 0 };
        if let Some(word) = rows.get(call.index() * COLUMNS + column) {
            word.count(1);
        }
    }

    /// Empties the table and opens it. The host, before the first call.
    pub fn open_failures(&self) {
        for (index, word) in self.failure_table().iter().enumerate() {
            // ORDERING: relaxed: what launches the first kernel publishes it.
            word.set(u64::from(index == 0));
        }
    }

    /// What failed so far, by call and number. Exact while no kernel runs.
    pub fn failures(&self) -> impl Iterator<Item = FailureCount> + '_ {
        let rows = self.failure_table().get(1..).unwrap_or_default();
        rows.iter().enumerate().filter_map(|(index, word)| {
            // ORDERING: relaxed: counters.
            let count = word.peek();
            let call = Call::of_index(index / COLUMNS).filter(|_| count > 0)?;
            let number = i32::try_from(index % COLUMNS).unwrap_or(0);
            Some(FailureCount { call, errno: (number > 0).then(|| Errno::from_number(number)), count })
        })
    }
}

/// Counts the error of a call that is about to return.
#[inline]
pub fn counted<T>(session: &SessionTables, call: Call, outcome: Result<T, Errno>) -> Result<T, Errno> {
    if let Err(errno) = &outcome {
        session.note_failure(call, *errno);
    }
    outcome
}

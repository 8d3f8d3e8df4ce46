//! What a check finds.

/// Something that a check minds. Exceptions name it by `check` and `subject`, and say how much of it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    /// What it is about: a path, a path and a function, an import.
    pub(super) subject: String,
    /// How large, how long or how many.
    pub(super) amount: usize,
    /// Where to look first.
    pub(super) at: String,
    /// What is wrong, and what to do.
    pub(super) advice: String,
}

impl Finding {
    /// Of a file that has it or has it not.
    pub(super) fn once(check: &'static str, path: &str, line: usize, advice: String) -> Self {
        Self::of(check, path.to_owned(), 1, path, line, advice)
    }

    /// Of anything, in any amount.
    pub(super) fn of(
        check: &'static str,
        subject: String,
        amount: usize,
        path: &str,
        line: usize,
        advice: String,
    ) -> Self {
        Self { check, subject, amount, at: format!("{path}:{line}"), advice }
    }
}

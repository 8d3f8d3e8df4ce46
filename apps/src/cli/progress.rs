//! Progress of long work, on the standard error while that is a terminal, and else nowhere. It is cleared when it is dropped: before results and
//! errors are printed.

use std::io::{IsTerminal as _, stderr};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often the bar of a running kernel is drawn. Shorter work than this has none.
const TICK: Duration = Duration::from_millis(100);

/// A bar, or nothing where nobody would see it.
#[derive(Debug)]
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Nothing.
    pub const NONE: Self = Self(None);

    fn new(total: u64, template: &str) -> Self {
        if !stderr().is_terminal() {
            return Self::NONE;
        }
        let bar = ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(Some(bar))
    }

    /// Of so many bytes, of which none is done: how many are, how fast, and for how long it will go on.
    #[must_use]
    pub fn of_bytes(what: &'static str, total: u64) -> Self {
        let progress =
            Self::new(total, "{msg} [{wide_bar}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left");
        if let Some(bar) = &progress.0 {
            bar.set_message(what);
        }
        progress
    }

    /// Of so many steps: which one is being done. It is drawn when a step begins, and takes no time in between.
    #[must_use]
    pub fn of_steps(total: u64) -> Self {
        Self::new(total, "step {pos} of {len}: {wide_msg}")
    }

    /// More bytes are done.
    pub fn add(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(bytes);
        }
    }

    /// The next step begins.
    pub fn step(&self, what: &'static str) {
        if let Some(bar) = &self.0 {
            bar.set_message(what);
            bar.inc(1);
            bar.tick();
        }
    }

    /// Prints where the bar is, which is drawn again below it.
    pub fn above(&self, print: impl FnOnce()) {
        match &self.0 {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Does the work, and meanwhile shows how far it is: `done` says how many bytes are. A thread of its own draws, so that the work ends when it
    /// ends.
    pub fn during<T>(&self, done: impl Fn() -> u64 + Send, work: impl FnOnce() -> T) -> T {
        let Some(bar) = &self.0 else { return work() };
        let (ended, end) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                // Ends with the work, which drops the sender, however it ends.
                while end.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    bar.set_position(done());
                }
            });
            let _ended = ended;
            work()
        })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

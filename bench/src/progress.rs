//! A line on the terminal that says how far a run is. It is drawn when a measurement begins, and by no thread of its own, so it takes no time
//! from what is measured. Where stderr is no terminal, there is none.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line on the terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    /// Figures so far.
    figures: usize,
}

impl Progress {
    /// The line of a run of so many parts.
    pub(crate) fn of(parts: usize) -> Self {
        // At this rate no step is passed over.
        Self::on(ProgressDrawTarget::stderr_with_hz(u8::MAX), parts)
    }
    /// Draws nothing yet.
    fn on(target: ProgressDrawTarget, parts: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(parts as u64), target).with_style(style(parts));
        Self { bar, started: Instant::now(), figures: 0 }
    }

    /// Says of how many parts the run is, of which none is done.
    pub(crate) fn parts(&self, parts: usize) {
        self.bar.set_style(style(parts));
        self.bar.set_length(parts as u64);
        self.bar.set_position(0);
    }
    /// Says that one more part is done.
    pub(crate) fn part_done(&self) {
        self.bar.inc(1);
    }
    /// Counts a figure.
    pub(crate) fn figure(&mut self) {
        self.figures += 1;
    }
    /// Says what is measured from here on.
    pub(crate) fn step(&self, what: &str) {
        self.bar.set_message(format!("figures: {:<4} {what}", self.figures));
    }
    /// Runs `print`, which writes lines to the terminal. They stand above the line.
    pub(crate) fn above(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }
    /// Takes the line away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
    /// The time since the run began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// The line of a run of so many parts. The bar of one part would be empty until the end, so it has none.
fn style(parts: usize) -> ProgressStyle {
    let template =
        if parts > 1 { "{bar:20} {elapsed_precise}  {wide_msg}" } else { "{elapsed_precise}  {wide_msg}" };
    ProgressStyle::with_template(template).expect("a right template").progress_chars("█░")
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::Progress;

    /// A terminal that keeps what is written.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl Screen {
        /// What was written since the last call.
        fn take(&self) -> String {
            std::mem::take(&mut *self.0.lock().expect("no test panicked"))
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            60
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().expect("no test panicked").push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_line_says_what_is_measured_and_is_drawn_by_steps_alone() {
        let screen = Screen::default();
        let mut progress = Progress::on(ProgressDrawTarget::term_like(Box::new(screen.clone())), 4);
        progress.part_done();
        progress.part_done();
        progress.figure();
        screen.take();
        progress.step("pread of 4 KiB");
        let line = screen.take();
        assert!(line.contains("██████████░░░░░░░░░░ 00:00:0"), "{line}");
        assert!(line.contains("figures: 1    pread of 4 KiB"), "{line}");
        // While a sample is measured.
        std::thread::sleep(Duration::from_millis(300));
        progress.figure();
        assert_eq!(screen.take(), "");
        progress.step(&"long ".repeat(40));
        let line = screen.take();
        assert!(line.contains("figures: 2    long long") && line.trim_end().chars().count() <= 60, "{line}");
        progress.above(|| assert!(!screen.take().contains("figures")));
        assert!(screen.take().contains("figures: 2"));
    }

    #[test]
    fn a_run_of_one_part_has_no_bar() {
        let screen = Screen::default();
        let progress = Progress::on(ProgressDrawTarget::term_like(Box::new(screen.clone())), 1);
        progress.step("NOPs");
        let line = screen.take();
        assert!(line.contains("NOPs") && !line.contains('░'), "{line}");
        progress.clear();
        assert!(!screen.take().contains("NOPs"));
    }
}

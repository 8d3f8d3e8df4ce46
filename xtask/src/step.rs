//! Running one command: shown as it runs, killed when it overstays, and searched for what it skipped.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Passed,
    /// It said no, or took too long.
    Failed(String),
    /// It could not run here, for this reason.
    Skipped(String),
}

/// The result of a step.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) name: &'static str,
    pub(crate) outcome: Outcome,
    pub(crate) took: Duration,
    /// `SKIP name: reason` lines of its tests.
    pub(crate) skips: Vec<String>,
    /// Tests that it counted as passed, from `cargo test`'s closing lines.
    pub(crate) tests: u64,
    /// Its tests that failed.
    pub(crate) failures: Vec<Failure>,
    /// Lines come that say why one of those failed.
    pub(crate) explains: Option<usize>,
    /// They are those of a backtrace.
    pub(crate) in_backtrace: bool,
}

/// A test that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    name: String,
    /// The last lines that it printed, without backtraces.
    why: VecDeque<String>,
}

impl Failure {
    /// Lines of `why`.
    const LINES_MAX: usize = 12;
}

impl Report {
    /// A step that cannot run here.
    pub(crate) fn skipped(name: &'static str, reason: impl Into<String>) -> Self {
        let (outcome, took) = (Outcome::Skipped(reason.into()), Duration::ZERO);
        Self {
            name,
            outcome,
            took,
            skips: Vec::new(),
            tests: 0,
            failures: Vec::new(),
            explains: None,
            in_backtrace: false,
        }
    }
    /// A step before its first line of output.
    fn begun(name: &'static str) -> Self {
        Self { outcome: Outcome::Passed, ..Self::skipped(name, "") }
    }
    /// Notes what a line of output says of skips, counts and failures.
    fn note(&mut self, line: &str) {
        if let Some(skip) = line.trim_start().strip_prefix("SKIP ") {
            self.skips.push(skip.to_owned());
        }
        if let Some((name, _)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... FAILED")) {
            self.failures.push(Failure { name: name.to_owned(), why: VecDeque::new() });
        }
        if let Some((name, why)) = line.strip_prefix("FAILED ").and_then(|rest| rest.split_once(" - ")) {
            // Of pytest.
            self.failures.push(Failure { name: name.to_owned(), why: VecDeque::from([why.to_owned()]) });
        }
        self.note_why(line);
        let counted = line.strip_prefix("test result: ok. ").and_then(|rest| rest.split_once(" passed"));
        if let Some((count, _)) = counted {
            self.tests += count.parse::<u64>().unwrap_or(0);
        }
    }
    /// Notes a line of what a failed test had printed, which comes behind all of them.
    fn note_why(&mut self, line: &str) {
        let begun = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        // What follows of a backtrace is indented, but for its closing note.
        self.in_backtrace =
            line.starts_with("stack backtrace:") || self.in_backtrace && line.starts_with(' ');
        if let Some(name) = begun {
            self.explains = self.failures.iter().rposition(|failure| failure.name == name);
        } else if line == "failures:" {
            self.explains = None;
        } else if let Some(index) = self.explains
            && !(self.in_backtrace || line.trim().is_empty() || line.starts_with("note: "))
        {
            let why = &mut self.failures[index].why;
            if why.len() == Failure::LINES_MAX {
                why.pop_front();
            }
            why.push_back(line.to_owned());
        }
    }
    /// Whether it ran, and all is well.
    pub(crate) fn passed(&self) -> bool {
        self.outcome == Outcome::Passed
    }
    /// Whether it ran, and something is wrong.
    pub(crate) fn failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }
}

/// Runs a check that is a function.
pub(crate) fn in_process(name: &'static str, check: impl FnOnce() -> Result<(), String>) -> Report {
    println!("\n== {name}");
    let started = Instant::now();
    let outcome = check().map_or_else(Outcome::Failed, |()| Outcome::Passed);
    Report { outcome, took: started.elapsed(), ..Report::begun(name) }
}

/// Runs `command` for at most `limit`.
pub(crate) fn run(name: &'static str, command: &mut Command, limit: Duration) -> Report {
    run_hearing(name, command, limit, |_| {})
}

/// [`run`], where `hear` gets each line of what the command prints.
pub(crate) fn run_hearing(
    name: &'static str,
    command: &mut Command,
    limit: Duration,
    mut hear: impl FnMut(&str),
) -> Report {
    println!("\n== {name}: {}", shown(command));
    let started = Instant::now();
    let mut report = Report::begun(name);
    let mut limited = Command::new("timeout");
    limited.args(["-s", "KILL", &limit.as_secs().to_string()]);
    limited.arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(key, value),
            None => limited.env_remove(key),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        limited.current_dir(directory);
    }
    let started_with_pipe = std::io::pipe().and_then(|(output, end)| {
        let child = limited.stdout(end.try_clone()?).stderr(end).spawn()?;
        // The ends that this process has are closed with it, so that the output has an end.
        drop(limited);
        Ok((child, output))
    });
    report.outcome = match started_with_pipe {
        Err(error) => Outcome::Failed(format!("could not be started: {error}")),
        Ok((mut child, output)) => {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                report.note(&line);
                hear(&line);
                let _ = writeln!(std::io::stdout(), "{line}");
            }
            match child.wait() {
                Ok(status) if status.success() => Outcome::Passed,
                Ok(_) if started.elapsed() >= limit => {
                    Outcome::Failed(format!("killed after {} s", limit.as_secs()))
                }
                Ok(status) => Outcome::Failed(status.to_string()),
                Err(error) => Outcome::Failed(error.to_string()),
            }
        }
    };
    report.took = started.elapsed();
    report
}

/// What `each` says of the items, two of which are in work at a time: for builds that are one thread's work each. What they print mixes.
pub(crate) fn two_at_a_time<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> Vec<R> + Sync) -> Vec<R> {
    let items = Mutex::new(items.iter());
    let next = || items.lock().expect("nobody panics while it is held").next();
    let work = || std::iter::from_fn(next).flat_map(&each).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut reports = work();
        reports.extend(other.join().expect("it reports, and does not panic"));
        reports
    })
}

/// Lets everything else go first that wants a processor: for this thread, and for the threads and processes that it starts.
pub(crate) fn at_low_priority() {
    let thread = std::fs::read_link("/proc/thread-self");
    let number = thread.as_deref().ok().and_then(Path::file_name);
    // Without it they share the processors evenly.
    if let Some(number) = number {
        let _ = Command::new("renice").args(["-n", "10", "-p"]).arg(number).stdout(Stdio::null()).status();
    }
}

/// The command as one would type it.
fn shown(command: &Command) -> String {
    let environment = command
        .get_envs()
        .filter_map(|(key, value)| Some(format!("{}={}", key.to_string_lossy(), value?.to_string_lossy())));
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    environment.chain(words.map(|word| word.to_string_lossy().into_owned())).collect::<Vec<_>>().join(" ")
}

/// Prints a table of what the steps came to; whether none failed.
pub(crate) fn summarize(reports: &[Report]) -> bool {
    println!("\n{:<28} {:>8} {:>7}  result", "step", "seconds", "tests");
    for report in reports {
        let result = match &report.outcome {
            Outcome::Passed => "passed".to_owned(),
            Outcome::Failed(why) => format!("FAILED: {why}"),
            Outcome::Skipped(why) => format!("SKIP: {why}"),
        };
        println!("{:<28} {:>8.1} {:>7}  {result}", report.name, report.took.as_secs_f64(), report.tests);
    }
    for report in reports {
        for skip in &report.skips {
            println!("SKIP in {}: {skip}", report.name);
        }
    }
    for report in reports {
        for test in &report.failures {
            println!("FAILED in {}: {}", report.name, test.name);
            test.why.iter().for_each(|line| println!("    {line}"));
        }
    }
    let count =
        |wanted: fn(&Outcome) -> bool| reports.iter().filter(|report| wanted(&report.outcome)).count();
    let failed = reports.iter().filter(|report| report.failed()).count();
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)))
        + reports.iter().map(|report| report.skips.len()).sum::<usize>();
    let passed = count(|outcome| *outcome == Outcome::Passed);
    println!("steps: {passed} passed, {failed} failed, {skipped} skipped");
    failed == 0
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn a_failed_test_says_why() {
        let mut report = Report::begun("tests");
        let printed = "test one ... ok\ntest two ... FAILED\ntest three ... FAILED\n\nfailures:\n\n---- two stdout ----\n\n\
            thread 'lane' panicked at b.rs:3:4:\non purpose\nstack backtrace:\n   0: main\nnote: Some details are omitted\n\
            thread 'two' panicked at a.rs:1:2:\n  left: 1\nstack backtrace:\n   0: main\n\n---- three stdout ----\nits line\n\n\
            failures:\n    two\n    three\nFAILED test_a.py::test_b - OSError: no\n";
        printed.lines().for_each(|line| report.note(line));
        let told = report.failures.iter().map(|failure| {
            (failure.name.as_str(), failure.why.iter().map(String::as_str).collect::<Vec<_>>().join("; "))
        });
        let wanted = [
            (
                "two",
                "thread 'lane' panicked at b.rs:3:4:; on purpose; thread 'two' panicked at a.rs:1:2:;   left: 1",
            ),
            ("three", "its line"),
            ("test_a.py::test_b", "OSError: no"),
        ];
        assert!(told.eq(wanted.map(|(name, why)| (name, why.to_owned()))), "{:?}", report.failures);
    }
}

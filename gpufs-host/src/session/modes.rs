//! The modes that a session tries, and its message where the best of them is refused.

use std::io::Write as _;
use std::sync::Once;

use crate::ring::{Mode, RingError};

/// With at least this many cores, CPU lanes leave some for SQPOLL threads. Each SQPOLL thread keeps a core busy, and lanes use all cores.
const CORES_FOR_SQPOLL: usize = 8;
/// The environment variable that suppresses the message, if it is set and not empty.
const QUIET: &str = "GPUFS_QUIET";

/// The modes to try, best first: `wanted` alone, if the program has chosen. `cores` are those that the process may use.
pub(super) fn to_try(wanted: Option<Mode>, on_gpu: bool, cores: usize) -> Vec<Mode> {
    match wanted {
        Some(mode) => vec![mode],
        None if on_gpu || cores >= CORES_FOR_SQPOLL => Mode::BEST_FIRST.to_vec(),
        None => vec![Mode::Enter, Mode::Threads],
    }
}

/// Cores that the process may use: by its affinity and its cgroup's quota.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Prints once in a process that sessions are not served in the best mode.
pub(super) fn report(mode: Mode, refused: &[(Mode, RingError)], wanted: bool) {
    static SAID: Once = Once::new();
    let Some((better, reason)) = refused.first() else { return };
    let line = || format!("the rings are served by {mode}, which is slower, not by {better}: {reason}");
    say(&SAID, wanted, line);
}

/// Prints once in a process that kernels run on CPU lanes, though a GPU was hoped for.
#[cfg(feature = "cuda")]
pub(super) fn report_lanes(why: &str, wanted: bool) {
    static SAID: Once = Once::new();
    say(&SAID, wanted, || format!("kernels run on CPU lanes: {why}"));
}

fn say(once: &Once, wanted: bool, line: impl FnOnce() -> String) {
    if wanted && std::env::var_os(QUIET).is_none_or(|value| value.is_empty()) {
        once.call_once(|| {
            // A program that closed its standard error gets no message.
            let _ = writeln!(std::io::stderr(), "gpufs: {}", line());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Mode, to_try};

    #[test]
    fn few_cores_are_not_for_polling() {
        assert_eq!(to_try(None, false, 2), [Mode::Enter, Mode::Threads]);
        assert_eq!(to_try(None, false, 64), Mode::BEST_FIRST);
        assert_eq!(to_try(None, true, 2), Mode::BEST_FIRST);
        for mode in Mode::BEST_FIRST {
            assert_eq!(to_try(Some(mode), false, 1), [mode], "what was asked for");
        }
    }
}

//! `--statistics`: where a kernel ran, for how long, and what the rings and the cache did: a text for people, or JSON.

use std::fmt::Write as _;
use std::time::Duration;

use gpufs_core::Errno;
use gpufs_host::Session;
use gpufs_host::session::{CacheStatistics, FailedCalls, RingStatistics};
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};

use super::Plan;
use super::values::Choice;

/// What statistics look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines for people.
    Text,
    /// One object on one line.
    Json,
}

impl Format {
    pub(super) const CHOICE: Choice<Self> = Choice {
        wrong: "unknown format; use text or json",
        names: &[("text", Self::Text), ("json", Self::Json)],
    };
}

/// A counter: its name in JSON, what it counts, in words, and its value.
type Count = (&'static str, &'static str, u64);

fn counts_of_rings(total: &RingStatistics) -> [Count; 9] {
    [
        ("operations", "operations submitted", total.operations),
        (
            "publications",
            "times that they were published, one or several batches at once",
            total.publications,
        ),
        ("completions", "completions drained", total.completions),
        ("empty_looks", "looks at an empty completion queue", total.empty_looks),
        ("stale", "completions that no operation waited for", total.stale),
        ("slot_waits", "times that a warp found no free slot", total.slot_waits),
        ("bytes_read", "bytes read", total.bytes_read),
        ("bytes_written", "bytes written", total.bytes_written),
        ("wake_ups", "times that the kernel's sleeping thread was woken", total.wake_ups),
    ]
}

fn counts_of_cache(cache: &CacheStatistics) -> [Count; 5] {
    [
        ("hits", "lookups that found their page in the cache", cache.hits),
        ("misses", "pages read into the cache", cache.misses),
        ("evictions", "pages that went to make room for others", cache.evictions),
        ("write_backs", "pages written to their files", cache.write_backs),
        ("waits", "waits for a page on its way, or for room", cache.waits),
    ]
}

/// The statistics of a session whose kernel ran for `ran`. While no kernel runs.
pub(super) fn of(format: Format, session: &Session, plan: &Plan, ran: Duration) -> String {
    match format {
        Format::Text => text(session, plan, ran),
        Format::Json => format!("{}\n", object(session, plan, ran)),
    }
}

fn text(session: &Session, plan: &Plan, ran: Duration) -> String {
    let (device, grid) = (session.device_name(), plan.grid);
    let mut text =
        format!("ran on {device}, {} blocks of {} lanes, for {ran:.2?}\n", grid.blocks, grid.threads);
    let mut line = |line: std::fmt::Arguments<'_>| {
        // A string takes all that is written to it.
        let _ = writeln!(text, "{line}");
    };
    if let Some(reason) = &plan.passed_over {
        line(format_args!("not on a GPU: {reason}"));
    }
    line(format_args!("served by {}, in memory of the {}", session.mode(), session.ring_memory()));
    for (mode, reason) in session.refused() {
        line(format_args!("not by {mode}: {reason}"));
    }
    for (memory, reason) in session.refused_memory() {
        line(format_args!("not of the {memory}: {reason}"));
    }
    let all = session.statistics();
    text += &lines(&counts_of_rings(&all.total()));
    text += &lines(&counts_of_cache(&session.cache_statistics()));
    text + &failures(all.failures.as_deref())
}

/// A line for each counter that is not zero.
fn lines(counts: &[Count]) -> String {
    let line = |(name, what, value): &Count| {
        let size = match *value {
            1024.. if name.starts_with("bytes") => format!(" ({})", HumanBytes(*value)),
            _ => String::new(),
        };
        // The counts stand below each other.
        format!("{:>16} {what}{size}\n", HumanCount(*value).to_string())
    };
    counts.iter().filter(|(.., value)| *value > 0).map(line).collect()
}

/// A line for each kind of failure.
fn failures(failed: Option<&[FailedCalls]>) -> String {
    let Some(failed) = failed else {
        return "which calls failed is not known: they were counted in the memory of the GPU, which died\n"
            .to_owned();
    };
    let line = |FailedCalls { call, errno, count, .. }: &FailedCalls| {
        let why = errno.map_or_else(|| "an error of no known number".to_owned(), |errno| errno.to_string());
        format!("{:>16} calls of {} failed: {why}\n", HumanCount(*count).to_string(), call.name())
    };
    failed.iter().map(line).collect()
}

fn object(session: &Session, plan: &Plan, ran: Duration) -> Value {
    let all = session.statistics();
    let map = |counts: &[Count]| {
        Value::Object(counts.iter().map(|(name, _, value)| ((*name).to_owned(), json!(value))).collect())
    };
    let refused: Vec<_> = session
        .refused()
        .iter()
        .map(|(mode, reason)| json!({ "mode": mode.to_string(), "reason": reason.to_string() }))
        .collect();
    let refused_memory: Vec<_> = session
        .refused_memory()
        .iter()
        .map(|(memory, reason)| json!({ "memory": memory.to_string(), "reason": reason.to_string() }))
        .collect();
    json!({
        "device": session.device_name(),
        "is_gpu": plan.is_gpu,
        "not_on_a_gpu": plan.passed_over,
        "blocks": plan.grid.blocks,
        "lanes": plan.grid.threads,
        "seconds": ran.as_secs_f64(),
        "mode": session.mode().to_string(),
        "refused_modes": refused,
        "ring_memory": session.ring_memory().to_string(),
        "refused_memory": refused_memory,
        "rings": all.rings.len(),
        "total": map(&counts_of_rings(&all.total())),
        "cache": map(&counts_of_cache(&session.cache_statistics())),
        "failures": all.failures.as_deref().map(failed_calls),
    })
}

fn failed_calls(failed: &[FailedCalls]) -> Vec<Value> {
    let one = |FailedCalls { call, errno, count, .. }: &FailedCalls| {
        let error = errno.and_then(Errno::name);
        json!({ "call": call.name(), "error": error, "count": count })
    };
    failed.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_counter_that_is_not_zero() {
        let total = RingStatistics { operations: 1, bytes_read: 3 << 20, ..RingStatistics::default() };
        assert_eq!(
            lines(&counts_of_rings(&total)),
            "               1 operations submitted\n       3,145,728 bytes read (3.00 MiB)\n"
        );
        assert_eq!(lines(&counts_of_cache(&CacheStatistics::default())), "");
    }

    #[test]
    fn failures_that_nobody_knows_are_no_failures_that_are_not() {
        assert_eq!(failures(Some(&[])), "");
        assert!(failures(None).contains("not known"));
    }
}

//! What loom's models have in common: how they are explored, and threads that share what they are about.

use std::time::{Duration, Instant};

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

pub(crate) use super::session::{no_pool, pool_of, session_of};

/// Explores `model` of what `make` makes, with at most `preemptions` involuntary switches in one run. The environment's: see [`limited`].
pub(crate) fn explore<W: 'static>(
    preemptions: usize,
    make: impl Fn() -> W + Sync + Send + 'static,
    model: impl Fn(&Arc<W>) + Sync + Send + 'static,
) {
    limited(preemptions, move || model(&Arc::new(make())));
}

/// Explores `body`. `GPUFS_LOOM_SWITCHES` in the environment adds to the involuntary switches, and `GPUFS_LOOM_SECONDS` says after how long an
/// exploration that finds nothing ends: it says so then.
pub(crate) fn limited(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    let setting = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    builder.preemption_bound = Some(preemptions + setting("GPUFS_LOOM_SWITCHES").unwrap_or(0));
    builder.max_duration = setting("GPUFS_LOOM_SECONDS").map(|seconds| Duration::from_secs(seconds as u64));
    // The places of lines that are read ahead, most of them unused, are many words.
    builder.max_branches = 20_000;
    let (limit, start) = (builder.max_duration, Instant::now());
    builder.check(body);
    if let Some(limit) = limit.filter(|limit| start.elapsed() >= *limit) {
        println!("explored for {limit:?}, and not to the end: `cargo xtask loom` does that");
    }
}

/// Starts a thread that shares the model's world.
pub(crate) fn spawn<W: 'static, T: 'static>(
    world: &Arc<W>,
    run: impl FnOnce(&W) -> T + 'static,
) -> JoinHandle<T> {
    let world = Arc::clone(world);
    thread::spawn(move || run(&world))
}

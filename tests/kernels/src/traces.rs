//! Threads that write events into a trace, until one of them fails.

use gpufs_core::word::SharedWord;
use gpufs_device::kernel::{Handoff, Path, Shared};
use gpufs_device::trace::{Event, Trace};
use gpufs_device::warp::global_thread;
use gpufs_device::{Errno, Fs, kernel, portable};

/// What a round of a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Round {
    /// Nothing: what the loop itself takes.
    Nothing,
    /// A moment with no value.
    Instant,
    /// A moment with the thread and the round as values.
    Values,
    /// A span, which is two calls; of a warp's lanes one writes.
    Span,
    /// The same by a recorder.
    Recorded,
}

portable! {
    /// What all threads share.
    pub struct TraceJob {
        /// The file.
        pub path: Path,
        /// Why a thread stopped.
        pub failed: Handoff<Errno>,
        /// Address of a 32-bit word for each thread: how many of its rounds are complete. 0 for none.
        pub progress: u64,
        /// A [`Round`].
        pub round: u32,
        /// Rounds of a thread.
        pub rounds: u32,
        /// The thread that panics, when `after` of its rounds are complete.
        pub victim: u64,
        /// Likewise.
        pub after: u32,
    }
}

kernel! {
    /// Every thread opens the trace, and writes its events.
    pub fn trace_rounds(fs: Fs, job: Shared<TraceJob>) {
        job.with(fs, |job| {
            if let Err(errno) = events(fs, job) {
                job.failed.put(errno);
            }
        });
    }
}

fn events(fs: Fs, job: &TraceJob) -> Result<(), Errno> {
    let thread = global_thread();
    let trace = fs.trace(job.path.as_c_str())?;
    let moment = trace.event("moment", [])?;
    let values = trace.event("values", ["thread", "round"])?;
    let span = trace.event("span", [])?;
    if job.round == Round::Recorded as u32 {
        return recorded(trace, span, job);
    }
    for round in 0..job.rounds {
        match job.round {
            1 => moment.instant(())?,
            2 => values.instant((thread, round))?,
            3 => span.begin(())?.end()?,
            _ => {}
        }
        end_round(job, round);
    }
    Ok(())
}

fn recorded(trace: Trace, span: Event<0>, job: &TraceJob) -> Result<(), Errno> {
    let mut recorder = trace.recorder()?;
    let is_told = job.progress != 0 || global_thread() == job.victim;
    for round in 0..job.rounds {
        recorder.begin(span, ())?;
        recorder.end()?;
        if is_told {
            end_round(job, round);
        }
    }
    Ok(())
}

/// Tells the host that a round is complete; the victim's end.
fn end_round(job: &TraceJob, round: u32) {
    let thread = global_thread();
    if job.progress != 0 {
        // SAFETY:
        // - the host registered a word for each thread there, and reads it as a shared word
        let progress = unsafe { &*((job.progress + thread * 4) as *const SharedWord) };
        // ORDERING: release, system, partner the host: what the calls did comes before.
        progress.publish(round + 1);
    }
    assert!(thread != job.victim || round + 1 != job.after, "this thread was to fail");
}

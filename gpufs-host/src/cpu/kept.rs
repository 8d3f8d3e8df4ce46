//! A thread that runs the lanes of one launch after the other, and enters a ring for them (`ring/submitter.rs`). What it has submitted may
//! outlast the launch, and the kernel cancels what a thread has submitted when that ends: so the session keeps it.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use gpufs_core::word::DeviceWord;

use super::work::Work;
use super::{CpuOptions, Grid, LaunchError, Launched, On, Schedule};
use crate::ring::Submitter;

/// A launch, from its first lane to its outcome.
type Job = Box<dyn FnOnce(&mut Submitter) + Send>;

/// See the module. Once this is dropped it ends, after its launch if it runs one, which is not waited for.
#[derive(Debug)]
pub(crate) struct KeptThread {
    /// `None` when it is to end.
    jobs: Option<Sender<Job>>,
    /// 1 from when it gets a launch until that has run.
    working: Arc<DeviceWord>,
    thread: Option<JoinHandle<()>>,
}

/// How a launch went: a thread's result.
type Ended = Result<Result<(), LaunchError>, Box<dyn Any + Send>>;

/// The outcome of a launch, for who waits for it.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    ended: Mutex<Option<Ended>>,
    changed: Condvar,
}

impl Outcome {
    fn lock(&self) -> MutexGuard<'_, Option<Ended>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn tell(&self, ended: Ended) {
        *self.lock() = Some(ended);
        self.changed.notify_all();
    }
    pub(super) fn is_known(&self) -> bool {
        self.lock().is_some()
    }
    /// Waits for it, and takes it: the one who has the launch, once.
    pub(super) fn wait(&self) -> Ended {
        let mut ended = self.lock();
        // Ends: with the launch.
        loop {
            match ended.take() {
                Some(ended) => return ended,
                None => ended = self.changed.wait(ended).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl KeptThread {
    /// Starts it, with the calling thread's rights.
    ///
    /// # Errors
    /// The system's refusal of a thread.
    pub(crate) fn start(mut submitter: Submitter) -> io::Result<Self> {
        let (jobs, incoming) = mpsc::channel::<Job>();
        let body = move || {
            crate::ring::block_signals_of_transfers();
            super::sleep_precisely();
            // Ends: when the handle is dropped.
            while let Ok(job) = incoming.recv() {
                job(&mut submitter);
            }
        };
        let thread = thread::Builder::new().name("gpufs lanes 0".to_owned()).spawn(body)?;
        Ok(Self { jobs: Some(jobs), working: Arc::new(DeviceWord::new(0)), thread: Some(thread) })
    }

    /// Starts a launch on it, as [`spawn_of`](super::spawn_of) does on threads of its own. Gives the kernel back where it is not for it: more
    /// than one thread would run its warps, or it has another one.
    ///
    /// # Errors
    /// As [`spawn_of`](super::spawn_of).
    pub(crate) fn spawn_of<F>(
        &self,
        session: u64,
        grid: Grid,
        options: &CpuOptions,
        kernel: F,
    ) -> Result<Result<Launched, F>, LaunchError>
    where
        F: Fn() + Send + Sync + 'static,
    {
        super::check(grid, options)?;
        let warps = u64::from(grid.blocks) * u64::from(grid.threads.div_ceil(options.width));
        let is_one = options.threads == 1 || warps == 1;
        let Some(jobs) = self.jobs.as_ref().filter(|_| is_one && options.schedule == Schedule::Fast) else {
            return Ok(Err(kernel));
        };
        // ORDERING: acquire, partner the publish below: the launch before has let go of all that it had.
        if !self.working.try_acquire(0, 1) {
            return Ok(Err(kernel));
        }
        let outcome = Arc::new(Outcome::default());
        let (working, teller, options) = (Arc::clone(&self.working), Arc::clone(&outcome), options.clone());
        let job: Job = Box::new(move |submitter| {
            let ended = catch_unwind(AssertUnwindSafe(|| {
                super::install();
                let work = Work::new(grid, &options, session, &kernel);
                let limit = super::resident_warps(&work, &options, 1);
                super::fast::run(&work, limit, Some(submitter));
                work.into_result()
            }));
            submitter.leave();
            // What the kernel captured goes before the launch is over, as with a thread of its own.
            let ended = catch_unwind(AssertUnwindSafe(|| drop(kernel))).and(ended);
            // ORDERING: release, partner the acquire above.
            working.publish(0);
            teller.tell(ended);
        });
        // The thread takes jobs until the sender is dropped.
        let _ = jobs.send(job);
        Ok(Ok(Launched(On::Kept(outcome))))
    }
}

impl Drop for KeptThread {
    fn drop(&mut self) {
        self.jobs = None;
        // ORDERING: acquire, partner the publish at a launch's end.
        let is_working = self.working.observe() != 0;
        // One whose lanes were given up on runs on by itself.
        if let Some(thread) = self.thread.take().filter(|_| !is_working) {
            let _ = thread.join();
        }
    }
}

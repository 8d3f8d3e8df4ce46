//! A ring without io_uring: the same words and entries in ordinary memory, consumed by host threads.
//!
//! The ring service takes entries off the SQ ([`WorkerPool::take_entries`]) and workers carry them out ([`operation`]). An operation that
//! has to wait for a pipe or socket blocks no worker: it is parked, and the watcher thread polls for all that are ([`parked`]). Other
//! operations that wait, an open of a FIFO for example, block a worker each. When all workers are blocked and entries wait, the service
//! starts another, up to [`WORKERS_MAX`]. Where all of those stay blocked for long, the entries that wait for one end with `EBUSY`.
//!
//! [`operation`]: super::operation
//! [`parked`]: super::parked

use std::collections::VecDeque;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpufs_core::Errno;
use gpufs_core::abi::{Cqe, IORING_OP_ASYNC_CANCEL, IORING_OP_OPENAT, IORING_OP_POLL_ADD, Sqe};
use gpufs_core::word::SharedWord;

use super::operation::{Step, Tables, perform, poll};
use super::parked::{Event, Parked};
use super::services::Services;
use super::{RingParts, sys};

/// Workers that a ring starts with.
const WORKERS_INITIAL: usize = 4;
/// Workers of a ring, and so operations that can block one at once.
const WORKERS_MAX: usize = 256;
/// After this long without progress, entries that wait get another worker.
const NEW_WORKER_AFTER: Duration = Duration::from_millis(1);
/// After this long without progress, entries that wait end with `EBUSY` where no worker can be added.
const BLOCKED_MAX: Duration = Duration::from_secs(10);
/// How long stopping waits for workers that are in a system call.
const STOP_MAX: Duration = Duration::from_millis(500);
/// Between two polls of the CQ head while the CQ is full, and of the workers while they stop.
const NAP: Duration = Duration::from_micros(20);

/// Locks, even if another thread panicked with the lock: the values that the locks here guard are whole between any two statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The threads that serve one ring, and what they share.
#[derive(Debug)]
pub(super) struct WorkerPool {
    parts: RingParts,
    tables: Tables,
    pub(super) queue: Mutex<Queue>,
    /// Entries wait, or the pool stops.
    work: Condvar,
    /// Held while a CQE is posted: the CQ has one producer at a time. True once the ring's memory may be gone.
    post: Mutex<bool>,
    /// Something was parked, or the pool stops.
    pub(super) event: Event,
}

/// What a worker is to do.
#[derive(Debug)]
pub(super) enum Task {
    /// Carry an entry out. `ready`: the file that it waited for is ready.
    Perform { sqe: Sqe, ready: bool },
    /// Post a result.
    Answer { user_data: u64, result: i32 },
}

#[derive(Debug)]
pub(super) struct Queue {
    /// Entries that no worker has begun, or that continue after a wait. Taking stops when there are `cq_entries` of them.
    waiting: VecDeque<Task>,
    /// The `user_data` of each entry that a worker carries out; at most one for each worker.
    running: Vec<u64>,
    /// Entries that wait for a file to become ready.
    pub(super) parked: Vec<Parked>,
    /// Workers that wait for work.
    idle: usize,
    workers: Vec<JoinHandle<()>>,
    /// The thread that polls for what is parked.
    watcher: Option<JoinHandle<()>>,
    /// When an entry was last begun or ended, or a worker started.
    moved: Instant,
    pub(super) stopped: bool,
}

impl WorkerPool {
    /// The pool of a ring. It has no threads yet.
    ///
    /// # Safety
    /// The parts lie in zeroed memory that stays until [`WorkerPool::stop`] has returned, and nothing else serves them.
    pub(super) unsafe fn new(parts: RingParts, services: Arc<Services>) -> io::Result<Arc<Self>> {
        let queue = Queue {
            waiting: VecDeque::new(),
            running: Vec::new(),
            parked: Vec::new(),
            idle: 0,
            workers: Vec::new(),
            watcher: None,
            moved: Instant::now(),
            stopped: false,
        };
        Ok(Arc::new(Self {
            parts,
            tables: Tables::sharing(services),
            queue: Mutex::new(queue),
            work: Condvar::new(),
            post: Mutex::new(false),
            event: Event::new()?,
        }))
    }

    /// Starts the threads that it lacks. After an error it may have some of them, and may be started again, or must be stopped.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<()> {
        if lock(&self.queue).watcher.is_none() {
            self.add_watcher()?;
        }
        let mut queue = lock(&self.queue);
        (queue.workers.len()..WORKERS_INITIAL).try_for_each(|_| self.add_worker(&mut queue))
    }

    /// Whether it has threads.
    pub(super) fn is_started(&self) -> bool {
        let queue = lock(&self.queue);
        queue.watcher.is_some() && !queue.workers.is_empty()
    }

    fn add_worker(self: &Arc<Self>, queue: &mut Queue) -> io::Result<()> {
        let pool = self.clone();
        let worker = std::thread::Builder::new().name("gpufs-worker".into()).spawn(move || pool.work())?;
        queue.workers.push(worker);
        queue.moved = Instant::now();
        Ok(())
    }

    fn add_watcher(self: &Arc<Self>) -> io::Result<()> {
        let pool = self.clone();
        let watcher = std::thread::Builder::new().name("gpufs-watcher".into()).spawn(move || pool.watch())?;
        lock(&self.queue).watcher = Some(watcher);
        Ok(())
    }

    /// The registered files and buffers.
    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    fn word(&self, word: *const SharedWord) -> &SharedWord {
        // SAFETY:
        // - called with words of `parts`, which live until `stop` has returned (`start`)
        // - shared words may be written by others at any time
        unsafe { &*word }
    }

    /// Takes the published entries off the SQ, for the workers; how many there were. Only the ring service calls this.
    pub(super) fn take_entries(self: &Arc<Self>) -> u32 {
        let parts = &self.parts;
        // ORDERING: acquire; partner: the producer's `publish` of the tail. Its entries are whole.
        let tail = self.word(parts.sq_tail).observe();
        // ORDERING: relaxed; only this thread writes the head.
        let head = self.word(parts.sq_head).peek();
        let mut queue = lock(&self.queue);
        if queue.stopped {
            return 0;
        }
        let room = parts.cq_entries - super::count(queue.waiting.len()).min(parts.cq_entries);
        let count = tail.wrapping_sub(head).min(room);
        let (mut polls, mut answers) = (0, 0);
        for number in 0..count {
            // SAFETY:
            // - a cell of the ring, whose memory stays until `stop` has returned (`start`)
            let cell = unsafe { &*parts.sqe(head.wrapping_add(number)) };
            // SAFETY:
            // - published (the tail was observed past it) and not given back yet (the head is published below), so its
            //   producer does not write it
            let sqe = unsafe { cell.read() };
            let user_data = sqe.user_data;
            // In order, as io_uring does it: a poll that is cancelled at once still says whether its file is ready now.
            match sqe.opcode {
                IORING_OP_POLL_ADD => match poll(&sqe, &self.tables) {
                    Step::Done(result) => queue.waiting.push_back(Task::Answer { user_data, result }),
                    Step::Waits(file, events) => {
                        queue.parked.push(Parked { sqe, file, events });
                        polls += 1;
                    }
                },
                IORING_OP_ASYNC_CANCEL => {
                    let result = queue.cancel(sqe.addr);
                    queue.waiting.push_back(Task::Answer { user_data, result });
                    answers += 1;
                }
                _ => queue.waiting.push_back(Task::Perform { sqe, ready: false }),
            }
        }
        self.unblock(&mut queue);
        if count == 0 {
            return 0;
        }
        // ORDERING: release; partner: a producer that observes the head before it overwrites an entry. The copies above are
        // made before the entries are given back.
        self.word(parts.sq_head).publish(head.wrapping_add(count));
        // A cancelled entry has an answer of its own.
        let wanted = (count as usize - polls + answers).min(queue.idle);
        drop(queue);
        if polls > 0 {
            self.event.raise();
        }
        (0..wanted).for_each(|_| self.work.notify_one());
        count
    }

    /// Starts another worker where all are blocked and entries have waited for long; where no worker can be added, ends those entries.
    fn unblock(self: &Arc<Self>, queue: &mut Queue) {
        if queue.waiting.is_empty() || queue.idle > 0 || queue.moved.elapsed() <= NEW_WORKER_AFTER {
            return;
        }
        if queue.workers.len() < WORKERS_MAX && self.add_worker(queue).is_ok() {
            return;
        }
        // Without another thread the entries wait until a worker is free: slower, and still right.
        if queue.moved.elapsed() > BLOCKED_MAX {
            let waiting = std::mem::take(&mut queue.waiting);
            let (pool, workers) = (self.clone(), queue.workers.len());
            eprintln!(
                "gpufs: all {workers} worker threads of a ring wait in system calls; {} operations end with EBUSY",
                waiting.len()
            );
            queue.moved = Instant::now();
            // A thread of its own: the ring service must not wait for room in the CQ.
            let ended = std::thread::Builder::new().name("gpufs-answers".into()).spawn({
                let waiting: Vec<(u64, i32)> = waiting.iter().map(Task::refused).collect();
                move || {
                    for (user_data, result) in waiting {
                        pool.post(user_data, result);
                    }
                }
            });
            if ended.is_err() {
                queue.waiting = waiting;
            }
        }
    }

    /// Whether no entry waits for a worker.
    pub(super) fn is_caught_up(&self) -> bool {
        lock(&self.queue).waiting.is_empty()
    }

    /// What a worker runs.
    fn work(&self) {
        sys::block_signals();
        while let Some(task) = self.next_task() {
            let (sqe, ready) = match task {
                Task::Answer { user_data, result } => {
                    self.post(user_data, result);
                    continue;
                }
                Task::Perform { sqe, ready } => (sqe, ready),
            };
            // SAFETY:
            // - the entry came off the SQ, so its producer published it
            let step = unsafe { perform(&sqe, ready, &self.tables) };
            let mut queue = lock(&self.queue);
            queue.moved = Instant::now();
            if let Some(own) = queue.running.iter().position(|running| *running == sqe.user_data) {
                queue.running.swap_remove(own);
            }
            match step {
                Step::Waits(file, events) => {
                    queue.parked.push(Parked { sqe, file, events });
                    drop(queue);
                    self.event.raise();
                }
                Step::Done(result) => {
                    drop(queue);
                    if self.post(sqe.user_data, result) {
                        continue;
                    }
                    if sqe.opcode == IORING_OP_OPENAT && sqe.file_index == 0 {
                        close_unseen(result);
                    }
                    self.tables.services.unseen(&sqe, result);
                }
            }
        }
    }

    /// The next task; `None` when the pool stops.
    fn next_task(&self) -> Option<Task> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.stopped {
                return None;
            }
            if let Some(task) = queue.waiting.pop_front() {
                if let Task::Perform { sqe, .. } = &task {
                    queue.running.push(sqe.user_data);
                }
                queue.moved = Instant::now();
                return Some(task);
            }
            queue.idle += 1;
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    /// Gives the workers tasks of entries that are no longer parked.
    pub(super) fn resume(&self, mut queue: MutexGuard<'_, Queue>, tasks: Vec<Task>) {
        let wanted = tasks.len().min(queue.idle);
        queue.waiting.extend(tasks);
        drop(queue);
        (0..wanted).for_each(|_| self.work.notify_one());
    }

    /// Posts a CQE, and returns whether it did: not if the pool has stopped. Waits for room first; a producer that keeps to its credits always
    /// leaves some.
    fn post(&self, user_data: u64, res: i32) -> bool {
        let parts = &self.parts;
        let gone = lock(&self.post);
        if *gone {
            return false;
        }
        // ORDERING: relaxed; the tail is written only with `post` locked.
        let tail = self.word(parts.cq_tail).peek();
        // ORDERING: acquire; partner: the consumer's `publish` of the head. It has read the entry that is about to be
        // overwritten.
        while tail.wrapping_sub(self.word(parts.cq_head).observe()) >= parts.cq_entries {
            if lock(&self.queue).stopped {
                return false;
            }
            std::thread::sleep(NAP);
        }
        // SAFETY:
        // - a cell of the ring, whose memory is there while `post` is locked and not set
        let cell = unsafe { &*parts.cqe(tail) };
        // SAFETY:
        // - not published yet (the tail is, below), and its last content was consumed (the head was observed past it)
        unsafe { cell.write(Cqe { user_data, res, flags: 0 }) };
        // ORDERING: release; partner: the consumer's `observe` of the tail. The CQE, and the bytes that the operation moved,
        // come before.
        self.word(parts.cq_tail).publish(tail.wrapping_add(1));
        true
    }

    /// Ends all threads. Drops entries that no worker has begun, and those that wait for pipes and sockets; other operations run to
    /// their end. Detaches a worker whose system call does not return within [`STOP_MAX`], as an open of a FIFO may never return: it touches
    /// the ring no more, and ends when the call does.
    pub(super) fn stop(&self) {
        let (mut workers, watcher) = {
            let mut queue = lock(&self.queue);
            queue.stopped = true;
            queue.waiting.clear();
            queue.parked.clear();
            (std::mem::take(&mut queue.workers), queue.watcher.take())
        };
        self.work.notify_all();
        self.event.raise();
        let started = Instant::now();
        // Ends: the time is up.
        while !workers.is_empty() && started.elapsed() < STOP_MAX {
            for worker in workers.extract_if(.., |worker| worker.is_finished()) {
                // A worker that panicked has said so already.
                let _ = worker.join();
            }
            std::thread::sleep(NAP);
        }
        drop(workers);
        if let Some(watcher) = watcher {
            // It waits only for the event.
            let _ = watcher.join();
        }
        // A worker that posts meanwhile has seen that the pool stops, or does not wait.
        *lock(&self.post) = true;
    }
}

impl Task {
    /// The `user_data`, and the result where there is no worker for it.
    fn refused(&self) -> (u64, i32) {
        match self {
            Self::Perform { sqe, .. } => (sqe.user_data, -Errno::BUSY.number()),
            Self::Answer { user_data, result } => (*user_data, *result),
        }
    }
    fn is(&self, wanted: u64) -> bool {
        matches!(self, Self::Perform { sqe, .. } if sqe.user_data == wanted)
    }
}

impl Queue {
    /// Cancels an entry that waits, for a worker or for a file; the result of the cancellation.
    fn cancel(&mut self, user_data: u64) -> i32 {
        let result = -Errno::CANCELED.number();
        if let Some(place) = self.parked.iter().position(|parked| parked.sqe.user_data == user_data) {
            self.parked.swap_remove(place);
        } else if let Some(place) = self.waiting.iter().position(|task| task.is(user_data)) {
            self.waiting.remove(place);
        } else if self.running.contains(&user_data) {
            return -libc::EALREADY;
        } else {
            return -Errno::NOENT.number();
        }
        self.waiting.push_back(Task::Answer { user_data, result });
        0
    }
}

/// Closes the descriptor of an open whose result is not posted.
pub(super) fn close_unseen(result: i32) {
    if result >= 0 {
        // SAFETY:
        // - the kernel has just made this descriptor, and nothing else owns it
        drop(unsafe { OwnedFd::from_raw_fd(result) });
    }
}

//! A ring without io_uring: the same words and entries in ordinary memory, consumed by host threads.
//!
//! The ring service takes entries off the SQ ([`WorkerPool::take_entries`]) and workers carry them out ([`operation`]). An operation that
//! has to wait for a pipe or socket blocks no worker: it is parked, and the watcher thread polls for all that are ([`parked`]). Other
//! operations that wait, an open of a FIFO for example, block a worker each. When all workers are blocked and entries wait, the service
//! starts another, up to [`WORKERS_MAX`]. Where all of those stay blocked for long, the entries that wait for one end with `EBUSY`.
//!
//! Brief operations ([`tasks`]) cost little more than a lock and a wake-up do. A worker takes several of them at a time, and posts their
//! results together. Where more of them wait than there are workers for, the service ring gets a worker for each core but two ([`crew`]).
//!
//! [`operation`]: super::operation
//! [`parked`]: super::parked
//! [`tasks`]: super::tasks

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpufs_core::Errno;
use gpufs_core::abi::{Cqe, IORING_OP_ASYNC_CANCEL, IORING_OP_OPENAT, IORING_OP_POLL_ADD, Sqe};
use gpufs_core::word::{DeviceWord, SharedWord};

use super::chain::{Rest, has_next, whole};
use super::confined::Confined;
use super::operation::{Step, Tables, perform, poll};
use super::parked::{Event, Parked};
use super::services::Services;
use super::tasks::{BRIEF_OF_A_WAKE, Held, Tasks, WORKERS_INITIAL, WORKERS_MAX, close_unseen, crew};
use super::{RingParts, sys};

pub(super) use super::tasks::Task;

/// After this long without progress, entries that wait get another worker.
const NEW_WORKER_AFTER: Duration = Duration::from_millis(1);
/// After this long without progress, entries that wait end with `EBUSY` where no worker can be added.
const BLOCKED_MAX: Duration = Duration::from_secs(10);
/// With fewer cores no worker looks for work before it sleeps: it would take the core of those that have some.
const CORES_FOR_LOOKING: usize = 8;
/// Workers that look for work before they sleep, and for how long.
const LOOKING: (usize, Duration) = (2, Duration::from_micros(30));
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
    /// How many entries wait, for workers that look for work without the lock.
    waiting: DeviceWord,
    /// Cores that the process may use.
    cores: usize,
    /// Workers that brief operations get.
    crew: usize,
}

#[derive(Debug)]
pub(super) struct Queue {
    /// Entries that no worker has begun, or that continue after a wait, and those that workers carry out. Taking stops when `cq_entries` wait.
    pub(super) tasks: Tasks,
    /// Entries that wait for a file to become ready.
    pub(super) parked: Vec<Parked>,
    /// Workers that sleep until there is work.
    idle: usize,
    /// Workers that look for work.
    looking: usize,
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
    pub(super) unsafe fn new(
        parts: RingParts,
        services: Arc<Services>,
        confined: Option<Arc<Confined>>,
        for_services: bool,
    ) -> io::Result<Arc<Self>> {
        let event = if confined.is_some() { Event::flag() } else { Event::new()? };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let queue = Queue {
            tasks: Tasks::default(),
            parked: Vec::new(),
            idle: 0,
            looking: 0,
            workers: Vec::new(),
            watcher: None,
            moved: Instant::now(),
            stopped: false,
        };
        Ok(Arc::new(Self {
            parts,
            tables: Tables::sharing(services, confined),
            queue: Mutex::new(queue),
            work: Condvar::new(),
            post: Mutex::new(false),
            event,
            waiting: DeviceWord::new(0),
            cores,
            crew: crew(cores, for_services),
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
        let (pool, number) = (self.clone(), queue.tasks.add_worker());
        let worker = self.tables.spawn("gpufs-worker", move || pool.work(number))?;
        queue.workers.push(worker);
        queue.moved = Instant::now();
        Ok(())
    }

    fn add_watcher(self: &Arc<Self>) -> io::Result<()> {
        let pool = self.clone();
        let watcher = self.tables.spawn("gpufs-watcher", move || pool.watch())?;
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
        let waiting = {
            let queue = lock(&self.queue);
            if queue.stopped {
                return 0;
            }
            super::count(queue.tasks.waiting())
        };
        let count = tail.wrapping_sub(head).min(parts.cq_entries.saturating_sub(waiting));
        // Without the lock, which the workers want: a device has just written these entries, and they are far away.
        let entry = |number: u32| {
            // SAFETY:
            // - a cell of the ring, whose memory stays until `stop` has returned (`start`)
            let cell = unsafe { &*parts.sqe(head.wrapping_add(number)) };
            // SAFETY:
            // - published (the tail was observed past it) and not given back yet (the head is published below), so its
            //   producer does not write it
            unsafe { cell.read() }
        };
        let mut entries: VecDeque<Sqe> = (0..count).map(entry).collect();
        // A chain is taken whole, but for one that has more entries than the ring.
        if count < tail.wrapping_sub(head) && waiting > 0 {
            let taken = whole(entries.make_contiguous());
            entries.truncate(taken);
        }
        let count = super::count(entries.len());
        let mut queue = lock(&self.queue);
        if queue.stopped {
            return 0;
        }
        let (polls, wakes) = self.sort(&mut queue, entries);
        self.unblock(&mut queue);
        // ORDERING: relaxed: workers look again with the lock.
        self.waiting.set(super::count(queue.tasks.waiting()));
        if count == 0 {
            return 0;
        }
        // ORDERING: release; partner: a producer that observes the head before it overwrites an entry. The copies above are
        // made before the entries are given back.
        self.word(parts.sq_head).publish(head.wrapping_add(count));
        let wakes = wakes.saturating_sub(queue.looking).min(queue.idle);
        drop(queue);
        if polls > 0 {
            self.event.raise();
        }
        (0..wakes).for_each(|_| self.work.notify_one());
        count
    }

    /// Puts entries where they belong: how many wait for files, and how many workers the others need.
    fn sort(&self, queue: &mut Queue, mut entries: VecDeque<Sqe>) -> (usize, usize) {
        let (mut polls, mut brief, mut others) = (0, 0_usize, 0);
        // Ends: each round takes an entry.
        while let Some((sqe, rest)) = Rest::split_off(&mut entries) {
            // In order, as io_uring does it: a poll that is cancelled at once still says whether its file is ready now.
            match sqe.opcode {
                IORING_OP_POLL_ADD => match poll(&sqe, &self.tables) {
                    Step::Done(result) => {
                        queue.end(&sqe, result, rest);
                        others += 1;
                    }
                    Step::Waits(file, events) => {
                        queue.parked.push(Parked { sqe, file, events, rest });
                        polls += 1;
                    }
                },
                IORING_OP_ASYNC_CANCEL => {
                    let result = queue.cancel(sqe.addr);
                    queue.end(&sqe, result, rest);
                    // A cancelled entry has an answer of its own.
                    others += 2;
                }
                _ => {
                    let task = Task::Perform { sqe, ready: false, rest };
                    if task.is_brief() {
                        brief += 1;
                    } else {
                        others += 1;
                    }
                    queue.tasks.push(task);
                }
            }
        }
        (polls, others + brief.div_ceil(BRIEF_OF_A_WAKE))
    }

    /// Starts another worker where more brief operations wait than the workers take at once, and where all are blocked and entries have waited
    /// for long; where no worker can be added, ends those entries.
    fn unblock(self: &Arc<Self>, queue: &mut Queue) {
        if queue.tasks.waiting() == 0 || queue.idle > 0 {
            return;
        }
        if queue.workers.len() < self.crew && queue.tasks.waiting() > BRIEF_OF_A_WAKE * queue.workers.len() {
            // Without another thread they wait a little longer.
            let _ = self.add_worker(queue);
            return;
        }
        if queue.moved.elapsed() <= NEW_WORKER_AFTER {
            return;
        }
        if queue.workers.len() < WORKERS_MAX && self.add_worker(queue).is_ok() {
            return;
        }
        // Without another thread the entries wait until a worker is free: slower, and still right.
        if queue.moved.elapsed() > BLOCKED_MAX {
            let waiting = queue.tasks.take_waiting();
            let (pool, workers) = (self.clone(), queue.workers.len());
            eprintln!(
                "gpufs: all {workers} worker threads of a ring wait in system calls; {} operations end with EBUSY",
                waiting.len()
            );
            queue.moved = Instant::now();
            // A thread of its own: the ring service must not wait for room in the CQ.
            let ended = std::thread::Builder::new().name("gpufs-answers".into()).spawn({
                let waiting: Vec<(u64, i32)> = waiting.iter().flat_map(Task::refused).collect();
                move || {
                    for (user_data, result) in waiting {
                        pool.post(user_data, result);
                    }
                }
            });
            if ended.is_err() {
                queue.tasks.put_back(waiting);
            }
        }
    }

    /// Whether no entry waits for a worker.
    pub(super) fn is_caught_up(&self) -> bool {
        lock(&self.queue).tasks.waiting() == 0
    }

    /// What worker `number` runs.
    fn work(&self, number: usize) {
        sys::block_signals();
        let mut held = Held::default();
        while self.next_tasks(number, &mut held) {
            // Ends: each round is of one task.
            while let Some(task) = held.tasks.pop_front() {
                let (sqe, ready, rest) = match task {
                    Task::Answer { user_data, result } => {
                        self.post(user_data, result);
                        continue;
                    }
                    Task::Perform { sqe, ready, rest } => (sqe, ready, rest),
                };
                let step = if sqe.opcode == IORING_OP_POLL_ADD {
                    // Behind another in its chain.
                    poll(&sqe, &self.tables)
                } else {
                    // SAFETY:
                    // - the entry came off the SQ, so its producer published it
                    unsafe { perform(&sqe, ready, &self.tables) }
                };
                let result = match step {
                    Step::Waits(file, events) => {
                        let mut queue = lock(&self.queue);
                        if !queue.tasks.forget(number, sqe.user_data) {
                            queue.parked.push(Parked { sqe, file, events, rest });
                            drop(queue);
                            self.event.raise();
                            continue;
                        }
                        -Errno::CANCELED.number()
                    }
                    Step::Done(result) => result,
                };
                held.results.push((sqe, result));
                if has_next(&sqe) {
                    // Before the next begins, as the kernel does it. A worker takes that next: this one, if no other.
                    self.post_all(&mut held.results);
                    lock(&self.queue).follow(&sqe, result, rest);
                }
            }
            self.post_all(&mut held.results);
        }
    }

    /// The next tasks of worker `number`, which has done those it took before; false when the pool stops.
    fn next_tasks(&self, number: usize, held: &mut Held) -> bool {
        let mut queue = lock(&self.queue);
        queue.tasks.forget_all(number);
        queue.moved = Instant::now();
        let mut has_looked = self.cores < CORES_FOR_LOOKING;
        loop {
            if queue.stopped {
                return false;
            }
            if queue.tasks.take(number, self.crew, held) {
                // ORDERING: relaxed: workers look again with the lock.
                self.waiting.set(super::count(queue.tasks.waiting()));
                queue.moved = Instant::now();
                return true;
            }
            if !has_looked && queue.looking < LOOKING.0 {
                has_looked = true;
                queue.looking += 1;
                drop(queue);
                self.look_for_work();
                queue = lock(&self.queue);
                queue.looking -= 1;
                continue;
            }
            queue.idle += 1;
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    /// Returns when there is work, or after a while.
    fn look_for_work(&self) {
        let started = Instant::now();
        // ORDERING: relaxed: the caller looks again with the lock.
        while self.waiting.peek() == 0 && started.elapsed() < LOOKING.1 {
            std::hint::spin_loop();
        }
    }

    /// Wakes workers for the tasks of entries that are no longer parked: those beyond the `before` that waited.
    pub(super) fn resume(&self, queue: MutexGuard<'_, Queue>, before: usize) {
        let wanted = (queue.tasks.waiting() - before).min(queue.idle);
        drop(queue);
        (0..wanted).for_each(|_| self.work.notify_one());
    }

    /// Posts the results of entries, and takes back what those gave that cannot be posted.
    fn post_all(&self, results: &mut Vec<(Sqe, i32)>) {
        let posted = self.post_each(results.iter().map(|(sqe, result)| (sqe.user_data, *result)));
        for (sqe, result) in results.drain(..).skip(posted) {
            if sqe.opcode == IORING_OP_OPENAT && sqe.file_index == 0 {
                close_unseen(result);
            }
            self.tables.services.unseen(&sqe, result);
        }
    }

    /// Posts a CQE.
    fn post(&self, user_data: u64, result: i32) {
        self.post_each(std::iter::once((user_data, result)));
    }

    /// Posts CQEs, and returns how many: all, or fewer if the pool has stopped. Waits for room first; a producer that keeps to its credits always
    /// leaves some.
    fn post_each(&self, results: impl Iterator<Item = (u64, i32)>) -> usize {
        let parts = &self.parts;
        let gone = lock(&self.post);
        if *gone {
            return 0;
        }
        // ORDERING: relaxed; the tail is written only with `post` locked.
        let first = self.word(parts.cq_tail).peek();
        let mut tail = first;
        for (user_data, res) in results {
            // ORDERING: acquire; partner: the consumer's `publish` of the head. It has read the entry that is about to be
            // overwritten.
            while tail.wrapping_sub(self.word(parts.cq_head).observe()) >= parts.cq_entries {
                // ORDERING: as below. The consumer makes room when it has seen what there is.
                self.word(parts.cq_tail).publish(tail);
                if lock(&self.queue).stopped {
                    return tail.wrapping_sub(first) as usize;
                }
                std::thread::sleep(NAP);
            }
            // SAFETY:
            // - a cell of the ring, whose memory is there while `post` is locked and not set
            let cell = unsafe { &*parts.cqe(tail) };
            // SAFETY:
            // - not published yet (the tail is, below), and its last content was consumed (the head was observed past it)
            unsafe { cell.write(Cqe { user_data, res, flags: 0 }) };
            tail = tail.wrapping_add(1);
        }
        // ORDERING: release; partner: the consumer's `observe` of the tail. The CQEs, and the bytes that the operations moved,
        // come before.
        self.word(parts.cq_tail).publish(tail);
        tail.wrapping_sub(first) as usize
    }

    /// Ends all threads. Drops entries that no worker has begun, and those that wait for pipes and sockets; other operations run to
    /// their end. Detaches a worker whose system call does not return within [`STOP_MAX`], as an open of a FIFO may never return: it touches
    /// the ring no more, and ends when the call does. Whether all have ended.
    pub(super) fn stop(&self) -> bool {
        let (mut workers, watcher) = {
            let mut queue = lock(&self.queue);
            queue.stopped = true;
            let _ = queue.tasks.take_waiting();
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
        let all_ended = workers.is_empty();
        if let Some(watcher) = watcher {
            // It waits only for the event.
            let _ = watcher.join();
        }
        // A worker that posts meanwhile has seen that the pool stops, or does not wait.
        *lock(&self.post) = true;
        all_ended
    }

    /// Ends all threads, of a ring with nothing in flight, so that others can be started in their place; false where one does not end in time:
    /// the pool is stopped then.
    pub(super) fn pause(&self) -> bool {
        if !self.stop() {
            return false;
        }
        let mut queue = lock(&self.queue);
        queue.tasks = Tasks::default();
        queue.stopped = false;
        *lock(&self.post) = false;
        true
    }
}

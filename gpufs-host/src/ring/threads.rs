//! A ring without io_uring: the same words and entries in ordinary memory, consumed by host threads.
//!
//! The attendant takes entries off the SQ ([`Pool::take`]) and workers carry them out ([`operation`]). What has to wait for a pipe or
//! socket holds up no worker: it is parked, and one more thread looks after all that is ([`parked`]). Other operations that wait, an
//! open of a FIFO say, hold up a worker each; when all are held up and entries wait, another is started, up to [`WORKERS_AT_MOST`].
//! Where all of those are held up for long, entries that wait for one end with `EBUSY`.
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
use gpufs_core::abi::{
    Cqe, CqringOffsets, IORING_OP_ASYNC_CANCEL, IORING_OP_OPENAT, IORING_OP_POLL_ADD, Params, Sqe,
    SqringOffsets,
};
use gpufs_core::word::SharedWord;

use super::operation::{Step, Tables, perform, poll};
use super::parked::{Event, Parked};
use super::{RingConfig, RingParts, sys};

const WORKERS_AT_FIRST: usize = 4;
/// Operations of a ring that can hold up a worker at once.
const WORKERS_AT_MOST: usize = 256;
/// How long entries wait for a worker until another is started.
const PATIENCE: Duration = Duration::from_millis(1);
/// How long entries wait for a worker where there can be no other, with none of those that there are getting anywhere.
const HELD_UP_FOR: Duration = Duration::from_secs(10);
/// How long stopping waits for workers that are in a system call.
const STOP_PATIENCE: Duration = Duration::from_millis(500);
/// Between two looks at the CQ head, when the CQ is full.
const FULL_NAP: Duration = Duration::from_micros(20);

/// Locks, whether or not another thread died with the lock: what the locks here guard is whole between any two statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How the ring lies in one block: each word on a cache line of its own, then the CQEs, then the SQEs.
pub(super) struct Layout {
    params: Params,
    sqes: usize,
    /// The whole block.
    pub(super) bytes: usize,
}

impl Layout {
    pub(super) fn of(config: &RingConfig) -> Self {
        const LINE: u32 = 64;
        const CQES: u32 = 4096;
        let params = Params {
            sq_entries: config.entries,
            cq_entries: config.cq_entries,
            sq_off: SqringOffsets { head: 0, tail: LINE, flags: 2 * LINE, ..SqringOffsets::default() },
            cq_off: CqringOffsets {
                head: 3 * LINE,
                tail: 4 * LINE,
                overflow: 5 * LINE,
                cqes: CQES,
                ..CqringOffsets::default()
            },
            ..Params::default()
        };
        let cqes_end = CQES as usize + config.cq_entries as usize * size_of::<Cqe>();
        let sqes = cqes_end.next_multiple_of(sys::page_bytes());
        Self { params, sqes, bytes: sqes + config.entries as usize * size_of::<Sqe>() }
    }
    pub(super) fn parts(&self, base: *mut u8) -> RingParts {
        RingParts::at(base, base.wrapping_add(self.sqes), &self.params)
    }
}

/// The threads that serve one ring, and what they share.
#[derive(Debug)]
pub(super) struct Pool {
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
    /// Entries taken off the SQ and not begun, or to be gone on with; at most `cq_entries` are taken while they wait.
    waiting: VecDeque<Task>,
    /// The `user_data` of each entry that a worker is at; at most one a worker.
    running: Vec<u64>,
    /// Entries that wait for a file to become ready.
    pub(super) parked: Vec<Parked>,
    /// Workers that wait for work.
    idle: usize,
    workers: Vec<JoinHandle<()>>,
    /// The thread that looks after what is parked.
    watcher: Option<JoinHandle<()>>,
    /// When an entry was last begun or ended, or a worker started.
    moved: Instant,
    pub(super) stopped: bool,
}

impl Pool {
    /// Starts the threads of a ring.
    ///
    /// # Safety
    /// The parts lie in zeroed memory that stays until [`Pool::stop`] has returned, and nobody else serves them.
    pub(super) unsafe fn start(parts: RingParts) -> io::Result<Arc<Self>> {
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
        let pool = Arc::new(Self {
            parts,
            tables: Tables::default(),
            queue: Mutex::new(queue),
            work: Condvar::new(),
            post: Mutex::new(false),
            event: Event::new()?,
        });
        let started = pool
            .add_watcher()
            .and_then(|()| (0..WORKERS_AT_FIRST).try_for_each(|_| pool.add_worker(&mut lock(&pool.queue))));
        if let Err(error) = started {
            pool.stop();
            return Err(error);
        }
        Ok(pool)
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

    /// Takes what was published off the SQ, for the workers: how many entries. Only the attendant calls this.
    pub(super) fn take(self: &Arc<Self>) -> u32 {
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
            let index = head.wrapping_add(number) & (parts.sq_entries - 1);
            // SAFETY:
            // - the index is masked, so the entry lies in the ring
            // - published (the tail was observed past it) and not given back yet (the head is published below), so its
            //   producer does not write it
            let sqe = unsafe { (*parts.sqes.wrapping_add(index as usize)).read() };
            let user_data = sqe.user_data;
            // In their order, as io_uring has it: a poll that is cancelled right away says whether its file is ready now.
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
        self.tend(&mut queue);
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

    /// Starts another worker where all are held up and entries have waited for long; where there can be no other, ends them.
    fn tend(self: &Arc<Self>, queue: &mut Queue) {
        if queue.waiting.is_empty() || queue.idle > 0 || queue.moved.elapsed() <= PATIENCE {
            return;
        }
        if queue.workers.len() < WORKERS_AT_MOST && self.add_worker(queue).is_ok() {
            return;
        }
        // Without one more thread the entries wait until a worker is free: slower, not wrong.
        if queue.moved.elapsed() > HELD_UP_FOR {
            let waiting = std::mem::take(&mut queue.waiting);
            let (pool, workers) = (self.clone(), queue.workers.len());
            eprintln!(
                "gpufs: all {workers} worker threads of a ring wait in system calls; {} operations end with EBUSY",
                waiting.len()
            );
            queue.moved = Instant::now();
            // A thread of its own: the attendant must not wait for room in the CQ.
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

    /// A worker's life.
    fn work(&self) {
        sys::block_signals();
        while let Some(task) = self.next() {
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
                    if !self.post(sqe.user_data, result)
                        && sqe.opcode == IORING_OP_OPENAT
                        && sqe.file_index == 0
                    {
                        close_unseen(result);
                    }
                }
            }
        }
    }

    /// The next thing to do; none when the pool stops.
    fn next(&self) -> Option<Task> {
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

    /// Gives workers what was parked and is so no longer.
    pub(super) fn resume(&self, mut queue: MutexGuard<'_, Queue>, tasks: Vec<Task>) {
        let wanted = tasks.len().min(queue.idle);
        queue.waiting.extend(tasks);
        drop(queue);
        (0..wanted).for_each(|_| self.work.notify_one());
    }

    /// Posts a CQE, unless the pool has stopped: whether it did. Waits for room first; a producer that keeps to its credits always leaves
    /// some.
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
            std::thread::sleep(FULL_NAP);
        }
        let index = tail & (parts.cq_entries - 1);
        // SAFETY:
        // - the index is masked, so the entry lies in the ring
        // - not published yet (the tail is, below), and its last content was consumed (the head was observed past it)
        unsafe { (*parts.cqes.wrapping_add(index as usize)).write(Cqe { user_data, res, flags: 0 }) };
        // ORDERING: release; partner: the consumer's `observe` of the tail. The CQE, and the bytes that the operation moved,
        // come before.
        self.word(parts.cq_tail).publish(tail.wrapping_add(1));
        true
    }

    /// Ends all threads. Entries that no worker has begun, and those that wait for pipes and sockets, are dropped; other operations run to
    /// their end. A worker whose system call does not return for a while is left to itself: an open of a FIFO may never return. It touches
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
        while !workers.is_empty() && started.elapsed() < STOP_PATIENCE {
            for worker in workers.extract_if(.., |worker| worker.is_finished()) {
                // A worker that panicked has said so already.
                let _ = worker.join();
            }
            std::thread::sleep(FULL_NAP);
        }
        drop(workers);
        if let Some(watcher) = watcher {
            // It waits for the event alone.
            let _ = watcher.join();
        }
        // Who posts meanwhile has seen that the pool stops, or does not wait.
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
    /// Cancels an entry that waits, for a worker or for a file; the result for who asked.
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

/// Closes what an open made that nobody will hear of any more.
fn close_unseen(result: i32) {
    if result >= 0 {
        // SAFETY:
        // - the kernel has just made this descriptor, and nobody else owns it
        drop(unsafe { OwnedFd::from_raw_fd(result) });
    }
}

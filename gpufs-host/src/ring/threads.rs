//! A ring without io_uring: the same words and entries in ordinary memory, consumed by host threads.
//!
//! The attendant takes entries off the SQ ([`Pool::take`]) and workers carry them out ([`operation`]). An operation that
//! waits, for a pipe say, holds up one worker; when all are held up and entries wait, another is started.
//!
//! [`operation`]: super::operation

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpufs_core::Errno;
use gpufs_core::abi::{Cqe, CqringOffsets, IORING_OP_ASYNC_CANCEL, Params, Sqe, SqringOffsets};
use gpufs_core::word::SharedWord;

use super::operation::{Tables, perform};
use super::{RingConfig, RingParts, sys};

const WORKERS_AT_FIRST: usize = 4;
const WORKERS_AT_MOST: usize = 64;
/// How long entries wait for a worker until another is started.
const PATIENCE: Duration = Duration::from_millis(1);
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
    queue: Mutex<Queue>,
    /// Entries wait, or the pool stops.
    work: Condvar,
    /// Held while a CQE is posted: the CQ has one producer at a time.
    post: Mutex<()>,
}

/// An entry that a worker has begun.
#[derive(Debug)]
struct Running {
    user_data: u64,
    stage: Stage,
    /// The worker's own event, which ends its wait.
    event: Arc<Event>,
}

/// How far an entry is. `Busy` and `Waiting` alternate; `Cancelled` follows `Waiting` and is the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// In a system call, which runs to its end.
    Busy,
    /// Waiting for a pipe or socket.
    Waiting,
    /// Its event was raised; the worker has yet to notice.
    Cancelled,
}

/// An `eventfd(2)`.
#[derive(Debug)]
struct Event(OwnedFd);

impl Event {
    fn new() -> io::Result<Self> {
        // SAFETY:
        // - `eventfd` touches no memory of ours
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY:
        // - the kernel has just made this descriptor, and nobody else owns it
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
    /// Makes it readable.
    fn raise(&self) {
        let one = 1_u64;
        // SAFETY:
        // - the kernel reads eight bytes, which are alive
        let written = unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
        debug_assert_eq!(written, 8);
    }
    /// Makes it unreadable.
    fn lower(&self) {
        let mut count = 0_u64;
        // SAFETY:
        // - the kernel writes eight bytes, which are alive; where the event is not raised it answers EAGAIN
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
    /// Waits until this is readable or `fd` is ready for `events`.
    fn wait_or(&self, fd: RawFd, events: i16) -> Result<(), Errno> {
        let own = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut wanted = [libc::pollfd { fd, events, revents: 0 }, own];
        // SAFETY:
        // - the kernel reads and writes two `pollfd`s, which are borrowed for the call
        if unsafe { libc::poll(wanted.as_mut_ptr(), 2, -1) } < 0 {
            let number = io::Error::last_os_error().raw_os_error();
            return Err(number.map_or(Errno::IO, Errno::from_number));
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Queue {
    /// Entries taken off the SQ and not begun; at most `cq_entries`.
    waiting: VecDeque<Sqe>,
    /// Each entry begun and not posted; at most one a worker.
    running: Vec<Running>,
    /// Workers that wait for work.
    idle: usize,
    workers: Vec<JoinHandle<()>>,
    /// When an entry was last begun or a worker started.
    moved: Instant,
    stopped: bool,
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
            idle: 0,
            workers: Vec::new(),
            moved: Instant::now(),
            stopped: false,
        };
        let pool = Arc::new(Self {
            parts,
            tables: Tables::default(),
            queue: Mutex::new(queue),
            work: Condvar::new(),
            post: Mutex::new(()),
        });
        for _ in 0..WORKERS_AT_FIRST {
            if let Err(error) = pool.add_worker(&mut lock(&pool.queue)) {
                pool.stop();
                return Err(error);
            }
        }
        Ok(pool)
    }

    fn add_worker(self: &Arc<Self>, queue: &mut Queue) -> io::Result<()> {
        let (pool, event) = (self.clone(), Arc::new(Event::new()?));
        let worker =
            std::thread::Builder::new().name("gpufs-worker".into()).spawn(move || pool.work(&event))?;
        queue.workers.push(worker);
        queue.moved = Instant::now();
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
        for number in 0..count {
            let index = head.wrapping_add(number) & (parts.sq_entries - 1);
            // SAFETY:
            // - the index is masked, so the entry lies in the ring
            // - published (the tail was observed past it) and not given back yet (the head is published below), so its
            //   producer does not write it
            let sqe = unsafe { (*parts.sqes.wrapping_add(index as usize)).read() };
            queue.waiting.push_back(sqe);
        }
        if count == 0 {
            self.tend(&mut queue);
            return 0;
        }
        // ORDERING: release; partner: a producer that observes the head before it overwrites an entry. The copies above are
        // made before the entries are given back.
        self.word(parts.sq_head).publish(head.wrapping_add(count));
        let wanted = (count as usize).min(queue.idle);
        drop(queue);
        (0..wanted).for_each(|_| self.work.notify_one());
        count
    }

    /// Starts another worker where all are held up and entries have waited for long.
    fn tend(self: &Arc<Self>, queue: &mut Queue) {
        let stuck = !queue.waiting.is_empty() && queue.idle == 0 && queue.moved.elapsed() > PATIENCE;
        if stuck && queue.workers.len() < WORKERS_AT_MOST {
            // Without one more thread the entries wait until a worker is free: slower, not wrong.
            let _ = self.add_worker(queue);
        }
    }

    /// Whether no entry waits for a worker.
    pub(super) fn is_caught_up(&self) -> bool {
        lock(&self.queue).waiting.is_empty()
    }

    /// A worker's life.
    fn work(&self, event: &Arc<Event>) {
        sys::block_signals();
        while let Some(sqe) = self.next(event) {
            let result = if sqe.opcode == IORING_OP_ASYNC_CANCEL {
                self.cancel(sqe.addr)
            } else {
                // SAFETY:
                // - the entry came off the SQ, so its producer published it
                unsafe { perform(&sqe, &self.tables, &|fd, events| self.wait(event, fd, events)) }
            };
            lock(&self.queue).running.retain(|running| !Arc::ptr_eq(&running.event, event));
            self.post(sqe.user_data, result);
        }
    }

    /// The next entry to carry out; none when the pool stops.
    fn next(&self, event: &Arc<Event>) -> Option<Sqe> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.stopped {
                return None;
            }
            if let Some(sqe) = queue.waiting.pop_front() {
                let running = Running { user_data: sqe.user_data, stage: Stage::Busy, event: event.clone() };
                queue.running.push(running);
                queue.moved = Instant::now();
                return Some(sqe);
            }
            queue.idle += 1;
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    /// A worker's wait for a pipe or socket, in which its entry can be cancelled.
    fn wait(&self, event: &Arc<Event>, fd: RawFd, events: i16) -> Result<(), Errno> {
        // Moves the worker's own entry to `next`; the stage before, or none where the pool stops.
        let advance = |next: Stage| {
            let mut queue = lock(&self.queue);
            if queue.stopped {
                return None;
            }
            let own = queue.running.iter_mut().find(|running| Arc::ptr_eq(&running.event, event))?;
            Some(std::mem::replace(&mut own.stage, next))
        };
        advance(Stage::Waiting).ok_or(Errno::CANCELED)?;
        let ended = event.wait_or(fd, events);
        match advance(Stage::Busy) {
            Some(Stage::Waiting) => ended,
            Some(_) => {
                event.lower();
                Err(Errno::CANCELED)
            }
            None => Err(Errno::CANCELED),
        }
    }

    /// Cancels an entry that waits, for a worker or for a pipe; the result for who asked.
    fn cancel(&self, user_data: u64) -> i32 {
        let mut queue = lock(&self.queue);
        if let Some(place) = queue.waiting.iter().position(|sqe| sqe.user_data == user_data) {
            queue.waiting.remove(place);
            drop(queue);
            self.post(user_data, -Errno::CANCELED.number());
            return 0;
        }
        match queue.running.iter_mut().find(|running| running.user_data == user_data) {
            None => -Errno::NOENT.number(),
            Some(running) if running.stage == Stage::Waiting => {
                running.stage = Stage::Cancelled;
                running.event.raise();
                0
            }
            Some(_) => -libc::EALREADY,
        }
    }

    /// Posts a CQE. Waits for room first; a producer that keeps to its credits always leaves some.
    fn post(&self, user_data: u64, res: i32) {
        let parts = &self.parts;
        let _posting = lock(&self.post);
        // ORDERING: relaxed; the tail is written only with `post` locked.
        let tail = self.word(parts.cq_tail).peek();
        // ORDERING: acquire; partner: the consumer's `publish` of the head. It has read the entry that is about to be
        // overwritten.
        while tail.wrapping_sub(self.word(parts.cq_head).observe()) >= parts.cq_entries {
            if lock(&self.queue).stopped {
                return;
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
    }

    /// Ends all workers. Entries that no worker has begun are dropped, and waits for pipes and sockets end; other
    /// operations run to their end.
    pub(super) fn stop(&self) {
        let workers = {
            let mut queue = lock(&self.queue);
            queue.stopped = true;
            queue.waiting.clear();
            queue.running.iter().for_each(|running| running.event.raise());
            std::mem::take(&mut queue.workers)
        };
        self.work.notify_all();
        for worker in workers {
            // A worker that panicked has said so already.
            let _ = worker.join();
        }
    }
}

//! Copies of all threads to one GPU, put together: a copy engine takes some microseconds from one request to the next, in which nothing moves on the
//! bus, but goes through all copies of one request without a pause.
//!
//! The GPU has two requests at most: one that it works on, and the next. What threads fill meanwhile waits, and becomes one request when the first
//! has ended, so that requests are short where there is little to do and longer where there is much. Whoever adds a copy, or waits for one, goes on
//! with them all: each copy is of a thread that waits for it in the end.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::bus::{Bus, Mark, Queue, ToGpu};
use super::request::Direction;
use crate::gpu::GpuError;

/// Requests that the GPU has at a time.
const AHEAD: usize = 2;
/// Bytes of a request, or one copy: its threads get their chunks back together, while others' are on the bus.
const LONGEST: usize = 32 << 20;
/// Of many threads that wait, one looks at the GPU in this time.
const BETWEEN_LOOKS: Duration = Duration::from_micros(10);

/// Which copy it is, in the order in which they were added, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

#[derive(Debug)]
struct Inner {
    /// Copies that are of no request yet.
    waiting: VecDeque<ToGpu>,
    /// Copies so far, and those of them that have ended.
    added: u64,
    ended: u64,
    /// Requests so far.
    begun: u64,
    /// Of each request that the GPU has, oldest first, the last copy.
    begun_up_to: VecDeque<u64>,
    /// Whether a thread is at the driver: the others leave it to this one, since whoever waited for it would hold up all.
    driven: bool,
    looked: Instant,
    /// Copies that the driver took neither with others nor alone.
    refused: Vec<(Ticket, GpuError)>,
    /// Why no more can be known of any copy.
    broken: Option<String>,
}

// SAFETY:
// - addresses of chunks, which are only given to the driver
unsafe impl Send for Inner {}

/// The copies to one GPU.
#[derive(Debug)]
pub(super) struct Merger {
    gpu: u32,
    queue: Queue,
    /// One for each request that the GPU has.
    marks: [Mark; AHEAD],
    inner: Mutex<Inner>,
}

impl Merger {
    /// For a GPU whose driver takes several copies at once.
    pub(super) fn new(bus: &dyn Bus, gpu: u32) -> Result<Self, GpuError> {
        let (queue, marks) = (bus.queue(gpu)?, [bus.mark(gpu)?, bus.mark(gpu)?]);
        let inner = Mutex::new(Inner {
            waiting: VecDeque::new(),
            added: 0,
            ended: 0,
            begun: 0,
            begun_up_to: VecDeque::new(),
            driven: false,
            looked: Instant::now(),
            refused: Vec::new(),
            broken: None,
        });
        Ok(Self { gpu, queue, marks, inner })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a copy, now or with those that are started meanwhile.
    ///
    /// # Safety
    /// As [`Bus::copy`], until [`Merger::outcome`] has told how it ended.
    pub(super) unsafe fn add(&self, bus: &dyn Bus, copy: ToGpu) -> Ticket {
        let mut inner = self.inner();
        inner.waiting.push_back(copy);
        inner.added += 1;
        let ticket = Ticket(inner.added);
        // SAFETY:
        // - this function's contract, for this copy and those before it
        unsafe { self.go_on(bus, inner) };
        ticket
    }

    /// How a copy ended, once; `None`: it has not.
    pub(super) fn outcome(&self, bus: &dyn Bus, ticket: Ticket) -> Option<io::Result<()>> {
        let mut inner = self.inner();
        if inner.ended < ticket.0 {
            // SAFETY:
            // - the contract of `add`, by which each copy came here
            unsafe { self.go_on(bus, inner) };
            inner = self.inner();
        }
        if let Some(why) = &inner.broken {
            return Some(Err(io::Error::other(why.clone())));
        }
        if inner.ended < ticket.0 {
            return None;
        }
        Some(match inner.refused.iter().position(|(of, _)| *of == ticket) {
            Some(place) => Err(io::Error::other(inner.refused.swap_remove(place).1)),
            None => Ok(()),
        })
    }

    /// Notes which requests have ended, and makes one of what waits while the GPU has room for it; unless another thread does.
    ///
    /// # Safety
    /// As [`Merger::add`], for all that waits.
    unsafe fn go_on<'a>(&'a self, bus: &dyn Bus, mut inner: MutexGuard<'a, Inner>) {
        let now = Instant::now();
        let looks = now.duration_since(inner.looked) >= BETWEEN_LOOKS;
        if inner.driven || inner.broken.is_some() || !(looks || inner.has_room()) {
            return;
        }
        inner.driven = true;
        inner.looked = now;
        // Ends: each round notes a request that has ended, or makes one; none ends before the GPU has done its copies.
        loop {
            let oldest = inner.begun_up_to.front().map(|up_to| (*up_to, inner.mark(&self.marks)));
            drop(inner);
            let ended = oldest.map_or(Ok(None), |(up_to, mark)| {
                // SAFETY:
                // - a mark of this GPU, which was put when the request began
                let is_reached = unsafe { bus.is_reached(self.gpu, mark) };
                is_reached.map(|is_reached| is_reached.then_some(up_to))
            });
            inner = self.inner();
            match ended {
                Ok(Some(up_to)) => {
                    inner.begun_up_to.pop_front();
                    inner.ended = up_to;
                }
                Ok(None) if !inner.has_room() => return inner.leave(None),
                Ok(None) => {}
                Err(error) => return inner.leave(Some(error)),
            }
            if !inner.has_room() {
                continue;
            }
            let (first, mark, copies) = inner.take(&self.marks);
            drop(inner);
            // SAFETY:
            // - this function's contract
            let begun = unsafe { self.begin(bus, first, mark, &copies) };
            inner = self.inner();
            if let Err(error) = begun {
                return inner.leave(Some(error));
            }
        }
    }

    /// Makes a request of copies, the first of which has a ticket.
    ///
    /// # Safety
    /// As [`Merger::add`], for the copies; the request that had the mark before has ended.
    unsafe fn begin(&self, bus: &dyn Bus, first: u64, mark: Mark, copies: &[ToGpu]) -> Result<(), GpuError> {
        // SAFETY:
        // - this function's contract
        if unsafe { bus.copy_all(self.gpu, self.queue, copies) }.is_err() {
            // Each by itself: one that is wrong is no reason for the others to fail. What was copied already is copied again.
            for (ticket, ToGpu { device, host, bytes }) in (first..).zip(copies) {
                // SAFETY:
                // - as above
                let alone =
                    unsafe { bus.copy(self.gpu, self.queue, Direction::Read, *device, *host, *bytes) };
                if let Err(error) = alone {
                    self.inner().refused.push((Ticket(ticket), error));
                }
            }
        }
        // SAFETY:
        // - a queue and a mark of this GPU
        unsafe { bus.put(self.gpu, mark, self.queue) }
    }
}

impl Inner {
    /// Whether there is something for a request, and the GPU has room for one more.
    fn has_room(&self) -> bool {
        !self.waiting.is_empty() && self.begun_up_to.len() < AHEAD
    }
    /// The mark of the oldest request.
    fn mark(&self, marks: &[Mark; AHEAD]) -> Mark {
        marks[((self.begun - self.begun_up_to.len() as u64) % AHEAD as u64) as usize]
    }
    /// What waits, as far as a request goes: the first ticket, the mark, and the copies.
    fn take(&mut self, marks: &[Mark; AHEAD]) -> (u64, Mark, Vec<ToGpu>) {
        let first = self.added - self.waiting.len() as u64 + 1;
        let mut bytes = 0;
        let fits = self.waiting.iter().take_while(|copy| {
            bytes += copy.bytes;
            bytes <= LONGEST
        });
        let count = fits.count().max(1);
        let copies: Vec<ToGpu> = self.waiting.drain(..count).collect();
        let mark = marks[(self.begun % AHEAD as u64) as usize];
        self.begun += 1;
        self.begun_up_to.push_back(first + count as u64 - 1);
        (first, mark, copies)
    }
    /// Leaves the driver to others.
    fn leave(&mut self, broken: Option<GpuError>) {
        self.driven = false;
        self.broken = broken.map(|error| error.to_string()).or(self.broken.take());
    }
}

//! The queue under real threads: warps of one lane's thread each, a kernel and an attendant, which share nothing but the ring, the
//! queue's words and the operations' buffers. This is the test for the thread and address sanitizers and for Miri; what they check is
//! that every entry and buffer changes hands through the words alone.
//!
//! `GPUFS_STRESS=n` makes it n times as long. With a target of its own, so that build scripts stay plain, and for the thread sanitizer
//! with `TSAN_OPTIONS=suppressions=<absolute path of tests/threads.tsan>`:
//!
//! ```text
//! RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address cargo test -p gpufs-core --target x86_64-unknown-linux-gnu --tests
//! RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
//!     cargo test -p gpufs-core --target x86_64-unknown-linux-gnu --test threads
//! ```
#![cfg(not(loom))]
#![allow(unsafe_code, reason = "entries and the queue's unsafe steps")]

mod rig;

use gpufs_core::abi::{Cqe, IORING_SQ_NEED_WAKEUP};
use gpufs_core::word::{EntryCell, SharedWord, wake_fence};
use gpufs_core::{Operation, Outcome, Slot, SlotClaim};
use rig::{Rig, Shape, check_sqe, sqe_of};
use std::thread;
use std::time::{Duration, Instant};

const WARPS: u32 = if cfg!(miri) { 2 } else { 4 };

/// Operations of one warp.
fn operations() -> u32 {
    let times = std::env::var("GPUFS_STRESS").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    if cfg!(miri) { 12 } else { 3000 * times }
}

/// xorshift32 (Marsaglia 2003): how long each waits and what the kernel does next.
struct Chance(u32);

impl Chance {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % end
    }
    /// Now and then lets another thread run, so that each step is interrupted somewhere.
    fn stumble(&mut self) {
        if self.below(16) == 0 {
            thread::yield_now();
        }
    }
}

/// An operation's buffer: as large and aligned as an entry cell wants it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
struct Buffer(u64);

/// What the threads share.
struct World {
    rig: Rig,
    /// The buffer of each slot. The kernel's while the operation is in flight, its warp's otherwise.
    buffers: Vec<EntryCell<Buffer>>,
    /// Wake-ups so far: the attendant writes, the kernel reads.
    wakes: SharedWord,
    /// 1 when the warps are done.
    stop: SharedWord,
    begun: Instant,
}

impl World {
    /// Lets another thread run. Every waiting loop comes here; one that goes on for too long fails.
    #[track_caller]
    fn nap(&self) {
        let limit = Duration::from_secs(30 + u64::from(operations()) / 100);
        assert!(self.begun.elapsed() < limit, "no end after {limit:?}: {:#?}", self.rig);
        thread::yield_now();
    }
    fn result_of(operation: Operation) -> i32 {
        (operation.token() as u32 ^ operation.generation.rotate_left(16)).cast_signed()
    }
}

/// The steps of one warp, its lanes one after the other.
struct Warp<'a> {
    world: &'a World,
    chance: Chance,
}

impl Warp<'_> {
    fn run(&mut self) {
        let mut left = operations();
        while left > 0 {
            let wanted = (1 + self.chance.below(8)).min(left);
            let claim = self.claim(wanted);
            left -= claim.count();
            let operations = self.submit(&claim);
            for operation in operations {
                self.wait(operation);
            }
            self.chance.stumble();
            self.world.rig.queue.release(claim);
        }
    }

    fn claim(&mut self, wanted: u32) -> SlotClaim {
        loop {
            let hint = self.chance.below(u32::MAX);
            match self.world.rig.queue.claim(wanted, hint) {
                Some(claim) => return claim,
                None => self.drain(),
            }
        }
    }

    fn submit(&mut self, claim: &SlotClaim) -> Vec<Operation> {
        let queue = &self.world.rig.queue;
        // SAFETY:
        // - the caller holds the claim, and releases it when every outcome is known
        let operations: Vec<_> =
            (0..claim.count()).map(|rank| unsafe { queue.arm(Slot(claim.item(rank))) }).collect();
        for operation in &operations {
            // SAFETY:
            // - the slot and its buffer are this warp's until the commit
            unsafe { self.world.buffers[operation.slot.0 as usize].write(Buffer(!operation.token())) };
        }
        self.chance.stumble();
        // SAFETY:
        // - the slots were claimed for this batch, which is filled and committed below, with nothing between that could fail
        let drawn = unsafe { queue.reserve(claim.count()) };
        let ticket = drawn.first();
        for (rank, operation) in (0..).zip(&operations) {
            self.chance.stumble();
            // SAFETY:
            // - the ticket was just drawn by this warp
            unsafe { queue.fill(ticket.plus(rank), sqe_of(*operation, ticket.plus(rank))) };
        }
        self.chance.stumble();
        // SAFETY:
        // - the tickets were drawn together, and each has been filled
        unsafe { queue.commit(drawn) };
        operations
    }

    fn wait(&mut self, operation: Operation) {
        let res = loop {
            match self.world.rig.queue.outcome(operation) {
                Outcome::InFlight => self.drain(),
                Outcome::Done(res) => break res,
                Outcome::Stale => panic!("{operation:?} lost its slot"),
            }
        };
        assert_eq!(res, World::result_of(operation));
        // SAFETY:
        // - the operation is done, so the buffer is the warp's again
        let Buffer(content) = unsafe { self.world.buffers[operation.slot.0 as usize].read() };
        assert_eq!(content, operation.token(), "the kernel wrote the buffer before it completed");
    }

    fn drain(&mut self) {
        let queue = &self.world.rig.queue;
        let Some(drain) = queue.begin_drain(1 + self.chance.below(8)) else { return self.world.nap() };
        let copies: Vec<_> = (0..drain.count()).map(|index| queue.entry(&drain, index)).collect();
        self.chance.stumble();
        // SAFETY:
        // - every entry was copied above
        unsafe { queue.advance(&drain) };
        for copy in copies {
            self.chance.stumble();
            let cqe = copy.cqe();
            assert_eq!(queue.deliver(copy), gpufs_core::Delivery::Delivered, "of {cqe:?}");
        }
        // SAFETY:
        // - advanced and delivered above
        unsafe { queue.end_drain(drain) };
    }
}

/// A kernel that reads in order, completes in any order, and sleeps as soon as it finds nothing.
struct Kernel<'a> {
    world: &'a World,
    chance: Chance,
    head: u32,
    seen_tail: u32,
    seen_head: u32,
    tail: u32,
    pending: Vec<Operation>,
}

impl Kernel<'_> {
    fn run(&mut self) {
        // ORDERING: acquire, partner the end of `stress`.
        while self.world.stop.observe() == 0 {
            self.look();
            if self.head == self.seen_tail && self.pending.is_empty() {
                self.sleep();
            }
            while self.head != self.seen_tail && self.chance.below(4) != 0 {
                self.read();
            }
            while !self.pending.is_empty() && self.chance.below(4) != 0 {
                self.finish();
            }
            // ORDERING: release, partner `begin_drain`.
            self.world.rig.cq_tail().publish(self.tail);
            self.chance.stumble();
        }
    }

    fn look(&mut self) {
        let rig = &self.world.rig;
        // ORDERING: acquire, partner the publisher.
        let tail = rig.sq_tail().observe();
        let (new, known) = (tail.wrapping_sub(self.head), self.seen_tail.wrapping_sub(self.head));
        assert!(new >= known && new <= rig.shape.capacity, "the tail went back or too far");
        self.seen_tail = tail;
        // ORDERING: acquire, partner `advance`. By [P-CQ] no later head is needed for what was just seen.
        self.seen_head = rig.cq_head().observe();
    }

    fn read(&mut self) {
        // SAFETY:
        // - the tail was acquired beyond the ticket; nobody writes the entry before the operation's completion
        let sqe = unsafe { self.world.rig.sqe(self.head).read() };
        self.pending.push(check_sqe(sqe, self.head));
        self.head = self.head.wrapping_add(1);
    }

    fn finish(&mut self) {
        let rig = &self.world.rig;
        let used = self.tail.wrapping_sub(self.seen_head);
        assert!(used < rig.shape.cq_entries, "the CQ overflows as the kernel counts");
        let index = self.chance.below(u32::try_from(self.pending.len()).expect("few"));
        let operation = self.pending.swap_remove(index as usize);
        // SAFETY:
        // - the operation is in flight: its buffer is the kernel's
        unsafe { self.world.buffers[operation.slot.0 as usize].write(Buffer(operation.token())) };
        let cqe = Cqe { user_data: operation.token(), res: World::result_of(operation), flags: 0 };
        // SAFETY:
        // - the entry is free: the head was acquired
        unsafe { rig.cqe(self.tail).write(cqe) };
        self.tail = self.tail.wrapping_add(1);
    }

    fn sleep(&mut self) {
        let flags = self.world.rig.sq_flags();
        // ORDERING: relaxed, before the announcement that the attendant answers.
        let wakes = self.world.wakes.peek();
        // ORDERING: relaxed: the fence orders it before the second look.
        flags.set(IORING_SQ_NEED_WAKEUP);
        wake_fence();
        self.look();
        // ORDERING: acquire, partner the end of `stress`; relaxed: the word counts and carries nothing.
        while self.head == self.seen_tail
            && self.world.wakes.peek() == wakes
            && self.world.stop.observe() == 0
        {
            // Asleep: it does not look at the tail again, whatever comes.
            self.world.nap();
        }
        flags.set(0);
    }
}

/// Wakes the kernel whenever it says that it sleeps.
fn attend(world: &World) {
    let mut wakes = 0;
    // ORDERING: acquire, partner the end of `stress`.
    while world.stop.observe() == 0 {
        // ORDERING: relaxed: a stale look is followed by a fresh one.
        if world.rig.sq_flags().peek() & IORING_SQ_NEED_WAKEUP != 0 {
            wakes += 1;
            world.wakes.set(wakes);
        }
        thread::yield_now();
    }
}

fn stress(shape: Shape) {
    let world = World {
        rig: Rig::new(shape),
        buffers: (0..shape.capacity).map(|_| EntryCell::new(Buffer(0))).collect(),
        wakes: SharedWord::new(0),
        stop: SharedWord::new(0),
        begun: Instant::now(),
    };
    let mut kernel = Kernel {
        world: &world,
        chance: Chance(0x9e37_79b9),
        head: shape.first_ticket,
        seen_tail: shape.first_ticket,
        seen_head: shape.first_completion,
        tail: shape.first_completion,
        pending: Vec::new(),
    };
    thread::scope(|scope| {
        let world = &world;
        let others = [scope.spawn(move || kernel.run()), scope.spawn(|| attend(world))];
        let warps: Vec<_> =
            (1..=WARPS).map(|seed| scope.spawn(move || Warp { world, chance: Chance(seed) }.run())).collect();
        let ended: Vec<_> = warps.into_iter().map(thread::ScopedJoinHandle::join).collect();
        // ORDERING: release, partner the loops of kernel and attendant. Also when a warp failed, or they would never end.
        world.stop.publish(1);
        // By hand: the thread sanitizer knows `pthread_join`, but not the count that ends a scope in an uninstrumented std.
        let others = others.map(thread::ScopedJoinHandle::join);
        assert!(ended.iter().chain(&others).all(Result::is_ok), "a thread failed");
    });
    let total = u64::from(WARPS * operations());
    let counters = world.rig.queue.counters();
    assert_eq!(world.rig.queue.free_slots(), shape.capacity);
    assert_eq!(counters.operations.peek(), total);
    assert_eq!(counters.completions.peek(), total);
    assert_eq!(counters.stale.peek(), 0);
}

#[test]
fn two_entries() {
    stress(Shape { first_ticket: u32::MAX - 5, first_completion: u32::MAX - 9, ..Shape::square(2) });
}

#[test]
fn fewer_completions_than_submissions() {
    stress(Shape { sq_entries: 8, cq_entries: 4, capacity: 3, first_ticket: u32::MAX, ..Shape::square(8) });
}

#[test]
fn slots_for_all() {
    stress(Shape::square(128));
}

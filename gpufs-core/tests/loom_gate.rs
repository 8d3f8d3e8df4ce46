//! The gate of a session's tables, explored by loom: no call touches tables that were closed, or that are another session's.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_gate --release`
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | `enter` looks at the flags first and adds itself afterwards | `close_or_enter` |
//! | `leave` is relaxed | `close_or_enter` |
//! | `enter` does not compare the session | `reopen` |
#![cfg(loom)]
#![expect(unsafe_code, reason = "a cell that the gate guards")]

use gpufs_core::gate::{Entry, Gate};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// Tables that are mapped or not, which loom watches: a call reads, who closes writes.
struct World {
    gate: Gate,
    mapped: UnsafeCell<u64>,
}

// SAFETY:
// - what the gate is for; loom finds where it fails
unsafe impl Sync for World {}

impl World {
    fn new(session: u64) -> Self {
        let gate = Gate::new();
        gate.open(session, false);
        Self { gate, mapped: UnsafeCell::new(session) }
    }
    /// A call on the tables of `session`, or of whichever has them where it is 0.
    fn call(&self, session: u64) -> Entry {
        let entry = self.gate.enter(session);
        if entry == Entry::Inside {
            // SAFETY:
            // - inside: nobody writes it, or loom says so
            let found = self.mapped.with(|mapped| unsafe { *mapped });
            assert!(found != 0 && (session == 0 || session == found), "tables of another, or none");
            self.gate.leave();
        }
        entry
    }
    /// Unmaps, or gives to another.
    fn become_of(&self, session: u64) {
        // SAFETY:
        // - nobody is inside, or loom says so
        self.mapped.with_mut(|mapped| unsafe { *mapped = session });
    }
    fn wait(&self) {
        while !self.gate.is_empty() {
            thread::yield_now();
        }
    }
}

#[test]
fn close_or_enter() {
    loom::model(|| {
        let world = Arc::new(World::new(1));
        let calls = [0, 1].map(|session| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.call(session))
        });
        world.gate.close();
        world.wait();
        world.become_of(0);
        for call in calls {
            assert!(matches!(call.join().unwrap(), Entry::Inside | Entry::Closed));
        }
    });
}

#[test]
fn reopen() {
    loom::model(|| {
        let world = Arc::new(World::new(1));
        let call = {
            let world = Arc::clone(&world);
            thread::spawn(move || (world.call(1), world.call(1)))
        };
        world.gate.close();
        world.wait();
        world.become_of(2);
        world.gate.open(2, false);
        assert_eq!(world.call(2), Entry::Inside);
        let (first, second) = call.join().unwrap();
        assert!(matches!(first, Entry::Inside | Entry::Closed));
        assert!(first == Entry::Inside || second == Entry::Closed, "it was closed before");
    });
}

#[test]
fn exclude() {
    loom::model(|| {
        let world = Arc::new(World::new(1));
        let call = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.call(1))
        };
        world.gate.exclude();
        world.wait();
        world.become_of(1);
        world.gate.admit();
        assert!(matches!(call.join().unwrap(), Entry::Inside | Entry::Excluded));
        assert_eq!(world.call(1), Entry::Inside);
    });
}

//! A reservation by itself (`stream::reservation`), explored by loom: without the streams and lines whose models stand in for each other's orders.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_reservation --release`
//!
//! Bounded as `loom.rs` is. For each position stands a cell, whose accesses loom checks for races: the granter writes it before it grants the
//! position, and the lane that reserves the position reads it.
//!
//! Each row is tried by `cargo xtask mutants`:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | what was taken in vain is kept | `take_take` |
//! | an amount is taken relaxed, or granted relaxed | `grant_take` |
//! | the cursor is added to relaxed | `old_amount_new_position` |
//! | `granted_to` is exchanged relaxed | `grant_grant` |
//! | no look at CLOSED after the cursor's addition | `close_take` |
//! | `quiet_at` without its look at what is available | `close_restart_take` |
//! | `quiet_at` without its look at the cursor | `close_leave` |
//! | a caller leaves relaxed | `close_leave` |
//! | a restart stores what is available | `restart_take` |
//!
//! No model catches a relaxed load of what is available in `quiet_at`: a grant under way could then pass for an amount in hand. Streams restart only
//! when no lane is freeing a block, and lines when no caller is present, so that the grants are acquired by then.
#![cfg(loom)]
#![expect(unsafe_code, reason = "the cells")]

mod rig;

use gpufs_core::stream::Reservation;
use gpufs_core::stream::reservation::ReservationWords;
use gpufs_core::word::{DeviceWord64, EntryCell};
use loom::sync::Arc;
use rig::models::{self, spawn};

/// What a cell holds: 16 bytes, as entry cells do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
struct Mark(u64, u64);

/// The words, a cell for each position, and the rule that callers ask for.
#[derive(Default)]
struct World {
    cursor: DeviceWord64,
    available: DeviceWord64,
    granted_to: DeviceWord64,
    closed_at: DeviceWord64,
    /// Positions are reserved only by callers of this rule.
    rule: DeviceWord64,
    cells: [EntryCell<Mark>; 4],
}

impl World {
    /// `granted` positions are granted, and their cells written.
    fn of(granted: u64) -> Self {
        let world = Self::default();
        for cell in &world.cells[..granted as usize] {
            // SAFETY:
            // - nobody else has the world yet
            unsafe { cell.write(Mark(1, 0)) };
        }
        world.available.set(granted);
        world.granted_to.set(granted);
        world
    }
    /// The words of a stream's kind.
    fn words(&self) -> ReservationWords<'_, 48, false> {
        let Self { cursor, available, granted_to, closed_at, .. } = self;
        ReservationWords { cursor, available, granted_to, closed_at }
    }
    /// The words of a kind that counts its callers.
    fn counted(&self) -> ReservationWords<'_, 43, true> {
        let Self { cursor, available, granted_to, closed_at, .. } = self;
        ReservationWords { cursor, available, granted_to, closed_at }
    }
    /// Writes the cell of a position, and grants it, where it is the next.
    fn grant(&self, position: u64) -> bool {
        // SAFETY:
        // - the position is this granter's, and not granted yet: what is tested
        unsafe { self.cells[position as usize].write(Mark(1, 0)) };
        self.words().granted_to.peek() == position && self.words().try_grant(position, 1)
    }
    /// Reserves a position and reads its cell.
    fn take(&self) -> Option<u64> {
        if !self.words().has_available(1) {
            return None;
        }
        match self.words().take(1, || true, || Reservation::Busy) {
            Reservation::At(position) => {
                // SAFETY:
                // - the position was granted after its cell was written: what is tested
                assert_eq!(unsafe { self.cells[position as usize].read() }, Mark(1, 0));
                Some(position)
            }
            Reservation::Closed | Reservation::Busy => None,
        }
    }
}

/// Explores `model` of a world with `granted` positions, with at most `preemptions` involuntary switches in one run.
fn explore(preemptions: usize, granted: u64, model: impl Fn(&Arc<World>) + Sync + Send + 'static) {
    models::explore(preemptions, move || World::of(granted), model);
}

/// Two take the last position: one of them reserves it, or neither, and what was taken in vain is given back.
#[test]
fn take_take() {
    explore(4, 1, |world| {
        let other = spawn(world, |world| world.take());
        let places = [world.take(), other.join().unwrap()];
        let taken = places.iter().flatten().count() as u64;
        assert!(places.iter().flatten().all(|place| *place == 0), "{places:?}");
        assert!(taken <= 1);
        assert_eq!(world.available.peek(), 1 - taken);
    });
}

/// A position is granted while another takes it: what was written before is there.
#[test]
fn grant_take() {
    explore(4, 0, |world| {
        let taker = spawn(world, |world| world.take());
        assert!(world.grant(0));
        assert!(taker.join().unwrap().is_none_or(|place| place == 0));
    });
}

/// One takes the amount of an old grant. Before it adds to the cursor, another is granted and takes the new amount, which gets the old position:
/// the first gets the new one, and knows of its grant from the cursor alone.
#[test]
fn old_amount_new_position() {
    explore(4, 1, |world| {
        let other = spawn(world, |world| {
            world.grant(1);
            world.take()
        });
        let places = [world.take(), other.join().unwrap()];
        assert!(places.contains(&Some(0)), "{places:?}");
    });
}

/// Two grant, one after the other, and the second's amount is there before the first's. Whoever takes it gets the first's position, and knows of that
/// from the exchange of `granted_to` alone.
#[test]
fn grant_grant() {
    explore(4, 0, |world| {
        let first = spawn(world, |world| world.grant(0));
        let second = spawn(world, |world| {
            // SAFETY:
            // - the position is this granter's, and not granted yet
            unsafe { world.cells[1].write(Mark(1, 0)) };
            world.words().granted_to.peek() == 1 && world.words().try_grant(1, 1)
        });
        let place = world.take();
        assert!(place.is_none_or(|place| place < 2));
        assert!(first.join().unwrap());
        second.join().unwrap();
    });
}

/// The lock's holder closes the cursor while another takes: reserved before, or not at all.
#[test]
fn close_take() {
    explore(4, 2, |world| {
        let taker = spawn(world, |world| world.take());
        world.words().close();
        let quiet = world.words().quiet_at();
        let place = taker.join().unwrap();
        if let Some(at) = quiet {
            assert_eq!(at, u64::from(place.is_some()));
        }
        assert_eq!(world.words().quiet_at(), Some(u64::from(place.is_some())));
    });
}

/// As lines close and open again: the lock's holder closes, empties, and opens under another rule once it is quiet. A caller that was
/// admitted under the
/// old rule reserves nothing under the new.
#[test]
fn close_restart_take() {
    explore(4, 2, |world| {
        let taker = spawn(world, |world| {
            let words = world.counted();
            let rule = || world.rule.peek() == 0;
            let taken = words.take(1, rule, || Reservation::Busy);
            if let Reservation::At(_) = taken {
                // Present: the rule stays.
                assert_eq!(world.rule.peek(), 0, "reserved under a rule that the caller was not admitted by");
                words.leave();
            }
        });
        let words = world.counted();
        words.close();
        if words.quiet_at().is_some() {
            words.restart(0, 0);
            if words.quiet_at().is_some() {
                world.rule.set(1);
                words.open();
                words.grant(0, 2);
            }
        }
        taker.join().unwrap();
    });
}

/// The lock's holder closes while a caller is on what it reserved: when it is quiet, the caller has left, and all that it did comes before.
#[test]
fn close_leave() {
    explore(4, 2, |world| {
        let caller = spawn(world, |world| {
            let words = world.counted();
            if words.enter() {
                // SAFETY:
                // - the caller is present: what is tested
                unsafe { world.cells[0].write(Mark(2, 0)) };
                words.leave();
            }
        });
        let words = world.counted();
        words.close();
        if words.quiet_at().is_some() {
            // SAFETY:
            // - nobody is present: what is tested
            unsafe { world.cells[0].write(Mark(3, 0)) };
        }
        caller.join().unwrap();
        assert!(words.quiet_at().is_some());
    });
}

/// The lock's holder restarts while a late caller has an amount in hand, and gives it back: nothing is lost.
#[test]
fn restart_take() {
    explore(4, 2, |world| {
        let late = spawn(world, |world| world.take());
        let words = world.words();
        words.close();
        if let Some(at) = words.quiet_at() {
            words.restart(0, 4 - at);
        }
        late.join().unwrap();
        assert!(words.has_none_in_hand());
    });
}

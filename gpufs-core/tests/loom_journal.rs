//! What a fault finds in the journal, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_journal --release`
//!
//! Bounded as `loom.rs` is. A fault stops the device between any two of its stores; what has arrived in host memory by then is what a host finds
//! that reads it meanwhile, word for word, in whatever order. So in each model one thread reads as `recover` of the host does, or the other way
//! round, while the device goes on.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | the epoch behind a round is published before the entries are cleared | `switch_finds_no_old_entry` |
//! | entries are cleared before the round's last epoch is left, or by relaxed stores | `switch_loses_no_entry` |
//! | an epoch is stored relaxed | `switch_finds_no_old_entry` `switch_loses_no_entry` |
#![cfg(loom)]
#![allow(unsafe_code, reason = "the journal is given pointers to the models' memory")]

mod rig;

use gpufs_core::journal::{Journal, JournalParts, Place, Record};
use gpufs_core::word::{EntryCell, SharedWord64};
use loom::sync::Arc;
use rig::models::{self, spawn};

/// log₂ of a buffer's bytes: the largest that leaves two bits of an entry to the epoch, so that epochs come round every four.
const SHIFT: u32 = 31;
/// Entries of a buffer.
const ENTRIES: u32 = 2;

/// One buffer's place and entries.
struct Tables {
    places: Box<Place>,
    entries: Vec<SharedWord64>,
}

impl Tables {
    /// At `epoch`, in which the last entry tells of [10, 30). The first is of epoch `other` and tells of [40, 50).
    fn new(epoch: u64, other: u64) -> Self {
        let tables = Self {
            places: Box::new(Place {
                epoch: SharedWord64::new(epoch),
                ticket: SharedWord64::new(0),
                records: [0, 1].map(|_| EntryCell::new(Record { stream: 1, ..Record::default() })),
            }),
            entries: (0..ENTRIES).map(|_| SharedWord64::new(0)).collect(),
        };
        assert!(tables.journal().enter(0, other, 0, 40, 10));
        assert!(tables.journal().enter(0, epoch, 1, 10, 20));
        tables
    }
    fn journal(&self) -> Journal {
        // SAFETY:
        // - used while `self` is there
        unsafe {
            Journal::new(JournalParts {
                places: &raw const *self.places,
                entries: self.entries.as_ptr(),
                files: std::ptr::null(),
                entries_per_buffer: ENTRIES,
                shift: SHIFT,
            })
        }
    }
    /// The switch that follows: all up to 30 is known.
    fn switch(&self, epoch: u64) -> u64 {
        self.journal().switch(0, epoch, Record { stream: 1, filled: 30, ..Record::default() })
    }
    /// How far the block is known by the record in force, and its epoch.
    fn filled(&self) -> (u32, u64) {
        // SAFETY:
        // - one switch, which writes the record that is not in force before it, and not that one again
        let (record, epoch, _) = unsafe { self.journal().in_force(0) }.expect("the buffer was used");
        (record.filled, epoch)
    }
    /// What an entry tells in an epoch.
    fn whole(&self, index: usize, epoch: u64) -> Option<(u32, u32)> {
        // ORDERING: acquire, partner `enter`, `switch`.
        self.journal().whole(self.entries[index].observe(), epoch)
    }
}

/// The last epoch of a round.
const LAST: u64 = 7;

/// A switch that ends a round, and a fault in the midst of it: no entry of that round counts in the next.
#[test]
fn switch_finds_no_old_entry() {
    for other in [1, 2] {
        models::explore(
            5,
            move || Tables::new(LAST, other),
            |tables: &Arc<Tables>| {
                let device = spawn(tables, |tables| tables.switch(LAST));
                let (filled, in_force) = tables.filled();
                if in_force != LAST {
                    assert_eq!(filled, 30);
                    let old = tables.whole(0, in_force);
                    assert_eq!(old, None, "an entry of an earlier round counts in epoch {in_force}");
                }
                device.join().unwrap();
            },
        );
    }
}

/// The same: an entry is cleared away only when it is in force no more.
#[test]
fn switch_loses_no_entry() {
    models::explore(
        5,
        || Tables::new(LAST, 1),
        |tables: &Arc<Tables>| {
            let device = spawn(tables, |tables| tables.switch(LAST));
            let kept = tables.whole(1, LAST);
            let (filled, in_force) = tables.filled();
            assert!(kept == Some((10, 30)) || filled == 30, "lost in epoch {in_force}: {kept:?} {filled}");
            device.join().unwrap();
        },
    );
}

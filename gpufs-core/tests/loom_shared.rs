//! Streams that are shared: opened by the first, closed by the last, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_shared --release`
//!
//! Bounded as `loom.rs` is. Two entries, and paths of up to eight bytes. In the place of the stream stands a cell: who opens and who closes
//! writes it, who has it open reads it, and loom checks for races. The steps are those of a warp of one.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | begun without a look under the lock | `open_open` |
//! | the state is seen relaxed; freed before the stream is closed | `open_open`, `join_other` |
//! | freed with the same epoch | `join_other` |
//! | who joined an open that failed does not keep the entry | `fail_fail` |
#![cfg(loom)]
#![allow(unsafe_code, reason = "a table of pointers, and the cell")]

mod rig;

use gpufs_core::Errno;
use gpufs_core::session::TicketLock;
use gpufs_core::shared::{Entry, Left, State, Table, TableParts};
use gpufs_core::word::{DeviceWord64, EntryCell};
use loom::sync::Mutex;
use loom::thread;
use rig::models::{self, spawn};

/// What stands for a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
struct Stream(u64, u64);

struct World {
    _entries: Vec<Entry>,
    _lock: Box<TicketLock>,
    _paths: Vec<DeviceWord64>,
    table: Table,
    /// One for each entry.
    streams: Vec<EntryCell<Stream>>,
    /// Streams opened, and streams that cannot be opened from now on.
    counts: Mutex<(u32, u32)>,
    /// The paths whose streams are open.
    open: Mutex<Vec<u8>>,
}

// SAFETY:
// - the table's pointers are to what the world owns, which is shared by design
unsafe impl Send for World {}
// SAFETY:
// - as for `Send`
unsafe impl Sync for World {}

impl World {
    fn new() -> Self {
        let entries: Vec<Entry> = (0..2).map(|_| Entry::default()).collect();
        for entry in &entries {
            entry.make_free();
        }
        let (lock, paths) = (Box::<TicketLock>::default(), vec![DeviceWord64::new(0), DeviceWord64::new(0)]);
        // SAFETY:
        // - all of it outlives the table
        let table = unsafe {
            Table::new(TableParts {
                entries: entries.as_ptr(),
                lock: &raw const *lock,
                paths: paths.as_ptr() as u64,
                count: 2,
            })
        };
        let streams = (0..2).map(|_| EntryCell::new(Stream::default())).collect();
        Self {
            _entries: entries,
            _lock: lock,
            _paths: paths,
            table,
            streams,
            counts: Mutex::new((0, 0)),
            open: Mutex::new(Vec::new()),
        }
    }

    /// The entry of a path that is not free, and what was seen of it before it was compared.
    fn find(&self, path: &[u8]) -> Option<(u32, gpufs_core::shared::Seen)> {
        let key = Table::key_of(path, 0);
        (0..2).filter(|index| self.table.hits(*index, key)).find_map(|index| {
            let seen = self.table.entry(index).seen();
            let taken = !matches!(seen.state(), State::Free | State::Dead);
            (self.table.is_for(index, path, 0) && taken).then_some((index, seen))
        })
    }

    /// Opens; the entry and its epoch.
    fn open(&self, path: &[u8]) -> Result<(u32, u32), Errno> {
        // Ends: who opens or closes goes on.
        loop {
            if let Some((index, seen)) = self.find(path) {
                if self.table.entry(index).join(seen, 1) {
                    return self.settled(index);
                }
                thread::yield_now();
                continue;
            }
            let lock = self.table.lock();
            let ticket = lock.draw();
            while !lock.is_served(ticket) {
                thread::yield_now();
            }
            if self.find(path).is_some() {
                lock.release();
                continue;
            }
            let free = (0..2).find(|index| self.table.entry(*index).seen().state() == State::Free);
            let index = free.expect("two paths and two entries");
            self.table.prepare(index, Table::key_of(path, 0), path, 0);
            let epoch = self.table.begin(index, 1);
            lock.release();
            let mut counts = self.counts.lock().unwrap();
            if counts.1 > 0 {
                counts.1 -= 1;
                drop(counts);
                self.table.entry(index).failed(Errno::NOENT);
            } else {
                counts.0 += 1;
                drop(counts);
                let mut open = self.open.lock().unwrap();
                assert!(!open.contains(&path[0]), "one stream of a path");
                open.push(path[0]);
                drop(open);
                // SAFETY:
                // - nobody has the stream open: what is tested
                unsafe { self.streams[index as usize].write(Stream(path[0].into(), epoch.into())) };
                self.table.entry(index).opened(index, epoch);
            }
            return self.settled(index);
        }
    }

    fn settled(&self, index: u32) -> Result<(u32, u32), Errno> {
        let entry = self.table.entry(index);
        while entry.seen().state() == State::Opening {
            thread::yield_now();
        }
        if entry.seen().state() == State::Failed {
            let errno = entry.errno();
            entry.leave_failed(1);
            return Err(errno);
        }
        Ok(entry.stream())
    }

    /// Uses a stream that the caller has opened, and closes it.
    fn close(&self, path: &[u8], (index, epoch): (u32, u32)) {
        let stream = &self.streams[index as usize];
        // SAFETY:
        // - the stream is open: what is tested
        assert_eq!(unsafe { stream.read() }, Stream(path[0].into(), epoch.into()));
        let entry = self.table.entry(index);
        match entry.leave(epoch, 1) {
            Left::Others => {}
            Left::Last(count) => {
                assert_eq!(count, 1);
                // SAFETY:
                // - nobody has it open any more: what is tested
                unsafe { stream.write(Stream::default()) };
                self.open.lock().unwrap().retain(|open| *open != path[0]);
                entry.closed(false);
            }
            Left::NotOpen => panic!("the caller had it open"),
        }
    }

    fn is_free(&self) -> bool {
        (0..2).all(|index| self.table.entry(index).seen().state() == State::Free)
    }
}

/// Two open the same path, use the stream and close it: they share it, or one comes after the other.
#[test]
fn open_open() {
    models::explore(2, World::new, |world| {
        let other = spawn(world, |world| world.close(b"a", world.open(b"a").unwrap()));
        world.close(b"a", world.open(b"a").unwrap());
        other.join().unwrap();
        assert!(world.is_free());
        assert!((1..=2).contains(&world.counts.lock().unwrap().0));
    });
}

/// One keeps it open while two others open and close it: it is opened once.
#[test]
fn one_keeps_it() {
    models::explore(2, World::new, |world| {
        let kept = world.open(b"a").unwrap();
        let others = [(); 2].map(|()| spawn(world, |world| world.close(b"a", world.open(b"a").unwrap())));
        others.into_iter().for_each(|other| other.join().unwrap());
        world.close(b"a", kept);
        assert_eq!((world.is_free(), world.counts.lock().unwrap().0), (true, 1));
    });
}

/// One looks for a path whose entry is freed and becomes another's meanwhile: it does not join that.
#[test]
fn join_other() {
    models::explore(3, World::new, |world| {
        let first = world.open(b"a").unwrap();
        let other = spawn(world, move |world| {
            world.close(b"a", first);
            // In the same entry.
            let second = world.open(b"b").unwrap();
            world.close(b"b", second);
            second.0
        });
        // What a joiner does, between whose look and exchange anything may happen.
        if let Some((index, seen)) = world.find(b"a")
            && world.table.entry(index).join(seen, 1)
        {
            let opened = world.settled(index).unwrap();
            world.close(b"a", opened);
        }
        other.join().unwrap();
        assert!(world.is_free());
        assert_eq!(world.table.entry(first.0).leave(first.1, 1), Left::NotOpen);
    });
}

/// The first open fails: those who waited for it get its error, and one that came later tried again.
#[test]
fn fail_fail() {
    models::explore(2, World::new, |world| {
        world.counts.lock().unwrap().1 = 1;
        let other = spawn(world, |world| world.open(b"a").map(|opened| world.close(b"a", opened)));
        let mine = world.open(b"a").map(|opened| world.close(b"a", opened));
        let theirs = other.join().unwrap();
        let failed = [mine, theirs].iter().filter(|outcome| **outcome == Err(Errno::NOENT)).count();
        assert_eq!(failed + world.counts.lock().unwrap().0 as usize, 2);
        assert!(failed >= 1 && world.is_free());
    });
}

//! A directory that one lane reads ahead and another closes, explored by loom: nobody has the memory of another's listing, and none is lost
//! ([R-SERVE-9]).
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_listing --release`
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | `TicketLock::release` is relaxed | `read_and_close` |
//! | `take` leaves the block in the entry | `read_and_close` |
//! | `answer` stores what it has worked out, without a comparison | `answered_and_closed` |
//! | `FreeSet::release` is relaxed | `memory_goes_from_one_to_another` |
#![cfg(loom)]
#![expect(unsafe_code, reason = "memory that the lock guards")]

use gpufs_core::files::OpenFile;
use gpufs_core::listing::Next;
use gpufs_core::word::DeviceWord64;
use gpufs_core::{Claim, FreeSet};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// Two directories, and one buffer for both.
struct World {
    files: [OpenFile; 2],
    free: DeviceWord64,
    /// The buffer, which loom watches: whose entries it has.
    buffer: UnsafeCell<u64>,
}

// SAFETY:
// - what the lock and the set are for; loom finds where they fail
unsafe impl Sync for World {}
// SAFETY:
// - as above
unsafe impl Send for World {}

impl World {
    fn new() -> Self {
        let files = [(); 2].map(|()| OpenFile::default());
        for file in &files {
            file.flags.set(OpenFile::OPEN | OpenFile::DIRECTORY);
        }
        Self { files, free: DeviceWord64::new(1), buffer: UnsafeCell::new(9) }
    }
    fn set(&self) -> FreeSet {
        // SAFETY:
        // - one word, which outlives the set
        unsafe { FreeSet::new(&raw const self.free, 1) }
    }
    fn locked<T>(&self, index: usize, body: impl FnOnce(&OpenFile) -> T) -> T {
        let file = &self.files[index];
        let ticket = file.lock.draw();
        while !file.lock.is_served(ticket) {
            thread::yield_now();
        }
        let outcome = body(file);
        file.lock.release();
        outcome
    }
    /// A lane's `readdir` in a directory of one entry: whether it got it.
    fn read(&self, index: usize) -> bool {
        self.locked(index, |file| {
            // ORDERING: acquire, device, as in `SessionTables::file`.
            if file.flags.observe() & OpenFile::OPEN == 0 {
                return false;
            }
            if file.listing.next(0) == Next::Unknown {
                let block = file.listing.take().or_else(|| self.set().claim(1, 0));
                let Some(block) = block else { return false };
                // SAFETY:
                // - the block is this directory's, and its lock is held, or loom says so
                self.buffer.with_mut(|buffer| unsafe { *buffer = index as u64 });
                file.listing.put(block, 1, 0);
            }
            let Next::Entries { .. } = file.listing.next(0) else { return false };
            // SAFETY:
            // - as above
            assert_eq!(self.buffer.with(|buffer| unsafe { *buffer }), index as u64, "another's entries");
            true
        })
    }
    /// A lane's `closedir`: whether it was the one that closed it.
    fn close(&self, index: usize) -> bool {
        if self.files[index].take_out().is_none() {
            return false;
        }
        let block: Option<Claim> = self.locked(index, |file| file.listing.take());
        if let Some(block) = block {
            self.set().release(block);
        }
        true
    }
}

/// What a file is becomes known while another lane asks the same and a third closes it: its entry stays out of use ([R-SERVE-6]).
#[test]
fn answered_and_closed() {
    loom::model(|| {
        let world = Arc::new(World::new());
        world.files[0].flags.set(OpenFile::OPEN | OpenFile::SEEKABLE | OpenFile::UNASKED);
        let asking = [(); 2].map(|()| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.files[0].answer(true))
        });
        let closed = world.files[0].take_out();
        asking.into_iter().for_each(|thread| thread.join().unwrap());
        let flags = closed.expect("nobody else closes it");
        let known = [OpenFile::SEEKABLE | OpenFile::UNASKED, OpenFile::POSITIONLESS];
        assert!(known.contains(&(flags & !OpenFile::OPEN)), "{flags:#x}: known in part");
        // ORDERING: relaxed: the threads have ended.
        assert_eq!(world.files[0].flags.peek(), 0);
        assert_eq!(world.files[0].take_out(), None);
    });
}

#[test]
fn read_and_close() {
    loom::model(|| {
        let world = Arc::new(World::new());
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let _ = world.read(0);
                // Another lane may have closed it, and a third have its memory.
                let _ = world.read(0);
            })
        };
        let closer = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                assert!(world.close(0));
                let _ = world.read(1);
                assert!(world.close(1));
            })
        };
        reader.join().unwrap();
        closer.join().unwrap();
        assert_eq!(world.free.observe(), 1, "memory that nobody gave back");
        assert!(
            world.files.iter().all(|file| file.listing.take().is_none()),
            "memory in an entry that is free"
        );
    });
}

#[test]
fn memory_goes_from_one_to_another() {
    loom::model(|| {
        let world = Arc::new(World::new());
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let _ = world.read(1);
                assert!(world.close(1));
            })
        };
        let _ = world.read(0);
        assert!(world.close(0));
        other.join().unwrap();
        assert_eq!(world.free.observe(), 1, "memory that nobody gave back");
    });
}

#[test]
fn one_of_two_closes() {
    loom::model(|| {
        let world = Arc::new(World::new());
        assert!(world.read(0));
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.close(0))
        };
        let mine = world.close(0);
        assert!(mine ^ other.join().unwrap());
        assert_eq!(world.free.observe(), 1);
    });
}

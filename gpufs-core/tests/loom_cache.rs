//! Pages that warps find, bring, store to, write and evict, explored by loom ([P-CACHE-READ] to [P-CACHE-PROGRESS]).
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_cache --release`
//!
//! Bounded as `loom.rs` is. One set of two frames. In the place of a frame's bytes stands a cell that loom watches; a read-only page's content is
//! its key, and that of the page that is stored to is a word, as lanes see it. The steps are those of a warp of one.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | `unpin` is relaxed | `read_or_evict` |
//! | the evictor does not look at pins | `read_or_evict` |
//! | `filled` is relaxed | `one_brings` |
//! | begun without a look under the lock | `one_brings` |
//! | the mark is set before the store | `store_and_write` |
//! | the mark is taken after the copy | `store_and_write` |
//! | guarded without a look at the others | `guards_leave_room` |
//! | a frame that is not READY may be kept | `two_keep_what_one_brought` |
//! | the mark that a frame may be kept outlives its page | `kept_again_or_evicted` |
//! | a frame that is kept loses the mark | `what_is_kept_stays` |
//! | a guard is added relaxed | `two_keep_what_one_brought` |
//! | the edition does not end | `glance_or_evict` |
//! | no fence behind its end | `glance_or_evict` |
//! | no second look at the edition | `glance_or_evict` |
//! | the key is loaded relaxed | `glance_or_evict` |
//! | a page of its own is counted before it is READY | `whole_or_brought` |
//! | the count of absent pages is taken off relaxed | `whole_or_brought` |
//! | the count of absent pages is loaded relaxed | `whole_or_brought` |
//! | a page of its own is looked for relaxed | `whole_or_brought` |
//! | a page of its own is stored to before it is READY | `stored_or_brought` |
//! | a frame of its own is taken without an exchange | `one_brings_its_own` |
#![cfg(loom)]
#![expect(unsafe_code, reason = "a table of pointers, and the cells")]

mod rig;

use gpufs_core::cache::{
    Begun, Cache, CacheParts, Found, Frame, FrameIndex, Guarded, Key, Layout, MAPPINGS, Mapping, Pinned, Set,
    WAYS, Write,
};
use gpufs_core::word::DeviceWord64;
use loom::cell::UnsafeCell;
use loom::thread;
use rig::models::{explore, spawn};

struct World {
    _set: Box<Set>,
    _frames: Vec<Frame>,
    _mappings: Vec<Mapping>,
    cache: Cache,
    /// What is in the frames, for lanes that pin, and for those that glance.
    bytes: Vec<UnsafeCell<u64>>,
    words: Vec<DeviceWord64>,
    /// The page that is stored to: what lanes see, and what the file has.
    page: DeviceWord64,
    file: DeviceWord64,
    /// Times that a page was brought.
    brought: DeviceWord64,
}

// SAFETY:
// - the table's pointers are to what the world owns, which is shared by design; loom finds where the cells are not
unsafe impl Send for World {}
// SAFETY:
// - as for `Send`
unsafe impl Sync for World {}

fn key(page: u64) -> Key {
    Key::new(0, page).unwrap()
}

impl World {
    /// Frames that hold these pages, which share them.
    fn of(pages: &[u64]) -> Self {
        Self::laid_out(Layout { first: 0, own: 0, shared: WAYS }, pages)
    }
    /// Frames that hold these pages.
    fn laid_out(layout: Layout, pages: &[u64]) -> Self {
        let set = Box::<Set>::default();
        let frames: Vec<Frame> = (0..WAYS).map(|_| Frame::default()).collect();
        let mappings: Vec<Mapping> = (0..MAPPINGS).map(|_| Mapping::default()).collect();
        mappings[0].lay_out(layout, u64::from(layout.own) * 4096, 4096);
        // SAFETY:
        // - all outlive the cache, which has no memory
        let cache = unsafe {
            Cache::new(CacheParts {
                sets: &raw const *set,
                frames: frames.as_ptr(),
                mappings: mappings.as_ptr(),
                memory: 0,
                set_count: 1,
                page_bytes: 4096,
            })
        };
        let world = Self {
            _set: set,
            _frames: frames,
            _mappings: mappings,
            cache,
            bytes: (0..WAYS).map(|_| UnsafeCell::new(0)).collect(),
            words: (0..WAYS).map(|_| DeviceWord64::new(0)).collect(),
            page: DeviceWord64::new(0),
            file: DeviceWord64::new(0),
            brought: DeviceWord64::new(0),
        };
        for page in pages {
            let frame = world.reach(*page);
            world.cache.frame(frame).unpin(1);
            // Nothing is spared in the first round.
            world.cache.frame(frame).let_go();
        }
        world
    }
    /// Brings a page into its frame.
    fn fill(&self, frame: FrameIndex, page: u64) {
        // SAFETY:
        // - the frame is the caller's, or loom says so
        self.bytes[frame.0 as usize].with_mut(|bytes| unsafe { *bytes = key(page).word() });
        self.words[frame.0 as usize].set(key(page).word());
        self.brought.count(1);
        self.cache.filled(key(page), frame, 4096, 1);
    }
    /// A lane's way to a page: its frame, pinned.
    fn reach(&self, page: u64) -> FrameIndex {
        loop {
            match self.cache.find(key(page), 1) {
                Found::Pinned(frame) => return frame,
                Found::InTransit => thread::yield_now(),
                Found::Absent => match self.cache.begin(key(page)) {
                    Begun::Fill(frame) => {
                        self.fill(frame, page);
                        return frame;
                    }
                    Begun::Write(victim) => {
                        self.write(victim);
                        self.cache.frame(victim).unpin(1);
                    }
                    Begun::Present | Begun::Later => thread::yield_now(),
                },
            }
        }
    }
    fn read(&self, page: u64) {
        let frame = self.reach(page);
        // SAFETY:
        // - pinned, or loom says so
        let found = self.bytes[frame.0 as usize].with(|bytes| unsafe { *bytes });
        assert_eq!(found, key(page).word(), "another page's bytes");
        self.cache.frame(frame).unpin(1);
    }
    /// Writes a page that the caller has begun to write.
    fn write(&self, frame: FrameIndex) {
        self.file.set(self.page.peek());
        self.cache.frame(frame).end_write(true);
    }
    fn store(&self, page: u64, value: u64) {
        let frame = self.reach(page);
        self.page.set(value);
        self.cache.frame(frame).stored();
        self.cache.frame(frame).unpin(1);
    }
    /// A lane's flush of a page that is in the cache.
    fn flush(&self, page: u64) {
        let frame = self.reach(page);
        loop {
            match self.cache.frame(frame).begin_write() {
                Write::Begun => self.write(frame),
                Write::Clean => break,
                Write::Elsewhere => thread::yield_now(),
            }
        }
        self.cache.frame(frame).unpin(1);
    }
}

#[test]
fn one_brings() {
    explore(
        2,
        || World::of(&[]),
        |world| {
            let other = spawn(world, |world| world.read(1));
            world.read(1);
            other.join().unwrap();
            assert_eq!(world.brought.peek(), 1, "a page in two frames");
        },
    );
}

#[test]
fn read_or_evict() {
    explore(
        2,
        || World::of(&[1, 2]),
        |world| {
            let other = spawn(world, |world| world.read(3));
            world.read(1);
            world.read(2);
            other.join().unwrap();
            for frame in world.cache.frames() {
                assert_eq!((frame.seen().pins(), frame.seen().guards()), (0, 0));
            }
        },
    );
}

#[test]
fn glance_or_evict() {
    explore(
        2,
        || World::of(&[1, 2]),
        |world| {
            let other = spawn(world, |world| world.read(3));
            for page in [1, 2, 3] {
                let found = world.cache.glance(key(page), |index, _| world.words[index.0 as usize].observe());
                assert!(found.is_none_or(|found| found == key(page).word()), "another page's bytes");
            }
            other.join().unwrap();
        },
    );
}

/// Two lanes bring two pages that have frames of their own, and one looks whether both are there: then it reads them without a pin.
#[test]
fn whole_or_brought() {
    explore(
        2,
        || World::laid_out(Layout { first: 0, own: 2, shared: 0 }, &[]),
        |world| {
            let other = spawn(world, |world| world.read(1));
            world.read(0);
            if let Some(whole) = world.cache.whole(0) {
                assert_eq!((whole.first, whole.bytes), (FrameIndex(0), 8192));
                for page in [0, 1] {
                    // SAFETY:
                    // - it stays, or loom says so
                    let found = world.bytes[page as usize].with(|bytes| unsafe { *bytes });
                    assert_eq!(found, key(page).word(), "another page's bytes");
                }
            }
            if world.cache.frame(FrameIndex(1)).settled() == Some(4096) {
                // SAFETY:
                // - as above
                let found = world.bytes[1].with(|bytes| unsafe { *bytes });
                assert_eq!(found, key(1).word(), "another page's bytes");
            }
            other.join().unwrap();
            assert!(world.cache.whole(0).is_some(), "both are there");
        },
    );
}

/// A lane stores to a page with a frame of its own that another brings, without a pin, and then flushes what it finds dirty.
#[test]
fn stored_or_brought() {
    explore(
        2,
        || World::laid_out(Layout { first: 0, own: 1, shared: 0 }, &[]),
        |world| {
            let other = spawn(world, |world| {
                let frame = world.cache.frame(FrameIndex(0));
                if frame.settled_ready().is_none() {
                    return;
                }
                world.page.set(7);
                frame.stored();
                // A flush passes over what is not READY.
                if frame.pin(key(0), 1) == Pinned::Yes {
                    if frame.begin_write() == Write::Begun {
                        world.write(FrameIndex(0));
                    }
                    frame.unpin(1);
                }
                assert_eq!(world.file.peek(), 7, "a flush returned without a store before it");
            });
            world.read(0);
            other.join().unwrap();
        },
    );
}

/// Two lanes want the same page, which has a frame of its own.
#[test]
fn one_brings_its_own() {
    explore(
        2,
        || World::laid_out(Layout { first: 0, own: 1, shared: 0 }, &[]),
        |world| {
            let other = spawn(world, |world| world.read(0));
            world.read(0);
            other.join().unwrap();
            assert_eq!(world.brought.peek(), 1, "a page was brought twice");
            assert!(world.cache.whole(0).is_some(), "it is there");
        },
    );
}

#[test]
fn kept_or_evicted() {
    explore(
        2,
        || World::of(&[1, 2]),
        |world| {
            let other = spawn(world, |world| world.read(3));
            for page in [1, 2] {
                let Some(frame) = world.cache.keep(key(page), 1) else { continue };
                // SAFETY:
                // - guarded, or loom says so
                let found = world.bytes[frame.0 as usize].with(|bytes| unsafe { *bytes });
                assert_eq!(found, key(page).word(), "another page's bytes");
                world.cache.frame(frame).unguard(1);
            }
            other.join().unwrap();
        },
    );
}

#[test]
fn kept_again_or_evicted() {
    explore(
        2,
        || {
            let world = World::of(&[1, 2]);
            let frame = world.cache.keep(key(1), 1).expect("nobody has the lock");
            world.cache.frame(frame).unguard(1);
            world
        },
        |world| {
            // The second has to take the frame of page 1, unless that is kept.
            let other = spawn(world, |world| {
                world.read(3);
                world.read(4);
                world.read(5);
            });
            if let Some(frame) = world.cache.keep(key(1), 1) {
                // SAFETY:
                // - guarded, or loom says so
                let found = world.bytes[frame.0 as usize].with(|bytes| unsafe { *bytes });
                assert_eq!(found, key(1).word(), "another page's bytes");
                world.cache.frame(frame).unguard(1);
            }
            other.join().unwrap();
            let marked = |frame: &&Frame| frame.seen().is_keepable() && frame.key() != key(1).word();
            assert!(!world.cache.frames().iter().any(|frame| marked(&frame)), "a mark of a page that went");
        },
    );
}

#[test]
fn two_keep_what_one_brought() {
    explore(
        2,
        || World::of(&[]),
        |world| {
            let look = |world: &World| {
                let frame = loop {
                    match world.cache.keep(key(1), 1) {
                        Some(frame) => break frame,
                        None => thread::yield_now(),
                    }
                };
                // SAFETY:
                // - guarded, or loom says so
                let found = world.bytes[frame.0 as usize].with(|bytes| unsafe { *bytes });
                assert_eq!(found, key(1).word(), "another page's bytes");
                world.cache.frame(frame).unguard(1);
            };
            let other = spawn(world, move |world| {
                world.read(1);
                look(world);
            });
            look(world);
            other.join().unwrap();
            assert!(world.cache.frames().iter().all(|frame| frame.seen().guards() == 0));
        },
    );
}

#[test]
fn what_is_kept_stays() {
    explore(
        2,
        || World::of(&[1, 2]),
        |world| {
            let other = spawn(world, |world| world.cache.keep(key(2), 1));
            let mine = world.cache.keep(key(1), 1);
            let theirs = other.join().unwrap();
            assert!(mine.is_none() || theirs.is_none(), "every frame of a set is guarded");
            // Whoever keeps a page may ask for any other.
            world.read(3);
            let kept = [(mine, 1), (theirs, 2)];
            for (frame, page) in kept.into_iter().filter_map(|(frame, page)| Some((frame?, page))) {
                // SAFETY:
                // - guarded, or loom says so
                let found = world.bytes[frame.0 as usize].with(|bytes| unsafe { *bytes });
                assert_eq!(found, key(page).word(), "another page's bytes");
            }
            for frame in mine.into_iter().chain(theirs) {
                world.cache.frame(frame).unguard(1);
            }
            assert!(world.cache.frames().iter().all(|frame| frame.seen().guards() == 0));
        },
    );
}

#[test]
fn store_and_write() {
    explore(
        2,
        || World::of(&[1]),
        |world| {
            let other = spawn(world, |world| world.flush(1));
            world.store(1, 7);
            world.flush(1);
            assert_eq!(world.file.peek(), 7, "a flush returned without a store before it");
            other.join().unwrap();
            assert_eq!(world.file.peek(), 7, "an older content came later");
        },
    );
}

#[test]
fn a_store_goes_before_its_page_does() {
    explore(
        2,
        || World::of(&[1, 2]),
        |world| {
            let other = spawn(world, |world| {
                world.read(3);
                world.read(2);
            });
            world.store(1, 7);
            other.join().unwrap();
            let held = world.cache.frames().iter().any(|frame| frame.key() == key(1).word());
            let dirty = world.cache.frames().iter().any(|frame| frame.seen().is_dirty());
            assert!(world.file.peek() == 7 || (held && dirty), "a page went with its stores");
        },
    );
}

#[test]
fn guards_leave_room() {
    explore(
        2,
        || World::of(&[1, 2]),
        |world| {
            let guard = |world: &World, page| {
                let frame = world.reach(page);
                let guarded = loop {
                    match world.cache.guard(frame, 1) {
                        Guarded::Later => thread::yield_now(),
                        guarded => break guarded,
                    }
                };
                // Whoever keeps a page may ask for any other.
                world.read(3);
                match guarded {
                    Guarded::Yes => world.cache.frame(frame).unguard(1),
                    _ => world.cache.frame(frame).unpin(1),
                }
                guarded
            };
            // Both hold theirs at once, unless one is refused.
            let other = spawn(world, |world| {
                let frame = world.reach(2);
                let guarded = world.cache.guard(frame, 1);
                if guarded != Guarded::Yes {
                    world.cache.frame(frame).unpin(1);
                }
                guarded
            });
            let frame = world.reach(1);
            let mine = world.cache.guard(frame, 1);
            if mine != Guarded::Yes {
                world.cache.frame(frame).unpin(1);
            }
            let theirs = other.join().unwrap();
            assert!(mine != Guarded::Yes || theirs != Guarded::Yes, "every frame of a set is guarded");
            assert!(mine != Guarded::Full || theirs == Guarded::Yes, "refused without a reason");
            let guarded = world.cache.frames().iter().filter(|frame| frame.seen().guards() > 0).count();
            assert!(guarded <= 1);
            if guarded == 0 {
                let _ = guard(world, 1);
            } else {
                world.read(3);
            }
        },
    );
}

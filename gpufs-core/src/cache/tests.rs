//! What a lane finds that is overtaken between its look for a page and its guard.

use super::{Begun, Cache, CacheParts, Frame, FrameIndex, Guarded, Key, MAPPINGS, Mapping, Set, WAYS};

/// A set, its frames, and mappings.
struct World {
    set: Set,
    frames: [Frame; WAYS as usize],
    mappings: [Mapping; MAPPINGS as usize],
}

impl Default for World {
    fn default() -> Self {
        let mappings = core::array::from_fn(|_| Mapping::default());
        mappings[0].share(WAYS);
        Self { set: Set::default(), frames: Default::default(), mappings }
    }
}

impl World {
    fn cache(&self) -> Cache {
        // SAFETY:
        // - the tables outlive what is made here, and there is no memory
        unsafe {
            Cache::new(CacheParts {
                sets: &raw const self.set,
                frames: self.frames.as_ptr(),
                mappings: self.mappings.as_ptr(),
                memory: 0,
                set_count: 1,
                page_bytes: 4096,
            })
        }
    }
    /// Guards of a frame that is there for the lane's page no more: as they were, where it gets none.
    fn refuses(&self, index: FrameIndex, key: Key, expected: Guarded) {
        let cache = self.cache();
        let before = cache.frame(index).seen();
        assert_eq!(cache.join(index, key, 2), expected);
        assert_eq!(cache.mark_and_join(index, key, 2), expected);
        assert_eq!(cache.frame(index).seen().guards(), before.guards());
    }
}

fn key(page: u64) -> Key {
    Key::new(0, page).unwrap()
}

/// A frame that has another page by now, whose guards are that page's.
#[test]
fn a_page_that_has_gone_is_not_kept() {
    let world = World::default();
    let cache = world.cache();
    let Begun::Fill(index) = cache.begin(key(1)) else { panic!("every frame is free") };
    world.refuses(index, key(1), Guarded::Full);
    cache.frame(index).filled(4096, 1);
    world.refuses(index, key(2), Guarded::Full);
    assert_eq!(cache.guard(index, 1), Guarded::Yes);
    world.refuses(index, key(2), Guarded::Full);
    assert_eq!(
        (cache.join(index, key(1), 3), cache.mark_and_join(index, key(1), 3)),
        (Guarded::Yes, Guarded::Yes)
    );
    assert_eq!(cache.frame(index).seen().guards(), 7);
}

/// Where the set's lock is another lane's, a frame may be KEEPABLE already, of the page or of another; else the lane comes back.
#[test]
fn a_lock_that_is_busy_keeps_nobody_from_a_frame_that_is_marked() {
    let world = World::default();
    let cache = world.cache();
    let Begun::Fill(index) = cache.begin(key(1)) else { panic!("every frame is free") };
    cache.frame(index).filled(4096, 1);
    assert!(world.set.lock.try_take());
    world.refuses(index, key(1), Guarded::Later);
    cache.frame(index).make_keepable();
    assert_eq!(cache.mark_and_join(index, key(2), 2), Guarded::Full);
    assert_eq!(cache.frame(index).seen().guards(), 0);
    assert_eq!(cache.mark_and_join(index, key(1), 2), Guarded::Yes);
    assert_eq!((cache.frame(index).seen().guards(), world.set.lock.queued()), (2, 1));
}

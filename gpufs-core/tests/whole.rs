//! Files whose pages have a frame of their own each ([R-CACHE-9]).
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "a table of pointers")]

use gpufs_core::cache::{
    Begun, Cache, CacheParts, Found, Frame, FrameIndex, Guarded, Key, Layout, MAPPINGS, Mapping, Phase, Set,
    WAYS, Whole,
};

const PAGE: u32 = 4096;
/// Sets: the first is shared.
const SETS: u32 = 3;
/// The file that has frames of its own, and one that has none.
const WHOLE: u32 = 5;
const SHARES: u32 = 6;
/// Bytes of its last page.
const LAST: u32 = 100;
/// Pages of a file that has frames of its own.
const OWN: u32 = WAYS + 3;

struct World {
    sets: Vec<Set>,
    frames: Vec<Frame>,
    mappings: Vec<Mapping>,
}

impl World {
    fn new(bytes: u64) -> Self {
        let mappings: Vec<Mapping> = (0..MAPPINGS).map(|_| Mapping::default()).collect();
        mappings[SHARES as usize].share(WAYS);
        let own = u32::try_from(bytes.div_ceil(PAGE.into())).unwrap();
        mappings[WHOLE as usize].lay_out(Layout { first: WAYS, own, shared: WAYS }, bytes, PAGE);
        let frames = (0..SETS * WAYS).map(|_| Frame::default()).collect();
        Self { sets: (0..SETS).map(|_| Set::default()).collect(), frames, mappings }
    }
    fn cache(&self) -> Cache {
        // SAFETY:
        // - the tables are longer-lived than what is made here, and there is no memory
        unsafe {
            Cache::new(CacheParts {
                sets: self.sets.as_ptr(),
                frames: self.frames.as_ptr(),
                mappings: self.mappings.as_ptr(),
                memory: 0,
                set_count: SETS,
                page_bytes: PAGE,
            })
        }
    }
}

/// The bytes of the file: all pages are whole but for the last.
const BYTES: u64 = (OWN as u64 - 1) * PAGE as u64 + LAST as u64;

fn own(page: u32) -> Key {
    Key::new(WHOLE, page.into()).unwrap()
}

/// Brings a page, and lets go of it: its frame.
fn bring(cache: &Cache, key: Key, valid: u32) -> FrameIndex {
    let Begun::Fill(index) = cache.begin(key) else { panic!("its frame is empty") };
    cache.filled(key, index, valid, 1);
    cache.frame(index).unpin(1);
    index
}

/// The bytes of a page, as the file has them.
fn bytes_of(page: u32) -> u32 {
    if page + 1 == OWN { LAST } else { PAGE }
}

#[test]
fn pages_lie_one_behind_the_other_and_are_whole_when_all_are_there() {
    for last in 0..OWN {
        let world = World::new(BYTES);
        let cache = world.cache();
        for page in (0..OWN).filter(|page| *page != last) {
            assert_eq!(bring(&cache, own(page), bytes_of(page)), FrameIndex(WAYS + page));
            assert_eq!((cache.whole(WHOLE), cache.has_own(own(page))), (None, true));
            let frame = cache.frame(FrameIndex(WAYS + page));
            assert_eq!([frame.settled(), frame.settled_ready()], [Some(bytes_of(page)); 2]);
        }
        let index = FrameIndex(WAYS + last);
        assert_eq!((cache.frame(index).settled(), cache.frame(index).settled_ready()), (None, None));
        bring(&cache, own(last), bytes_of(last));
        assert_eq!(cache.whole(WHOLE), Some(Whole { first: FrameIndex(WAYS), bytes: BYTES }));
        assert!(!cache.has_own(own(OWN)));
        assert_eq!(cache.whole(SHARES), None);
    }
}

#[test]
fn a_file_of_whole_pages_is_whole() {
    let world = World::new(u64::from(2 * PAGE));
    let cache = world.cache();
    bring(&cache, own(1), PAGE);
    bring(&cache, own(0), PAGE);
    assert_eq!(cache.whole(WHOLE), Some(Whole { first: FrameIndex(WAYS), bytes: u64::from(2 * PAGE) }));
}

/// A file that is shorter by now, or has grown, is looked at page by page.
#[test]
fn a_page_that_is_not_whole_is_not_counted() {
    for (odd, valid) in [(0, PAGE - 1), (OWN - 1, LAST - 1), (OWN - 1, LAST + 1), (OWN - 1, PAGE)] {
        let world = World::new(BYTES);
        let cache = world.cache();
        for page in 0..OWN {
            bring(&cache, own(page), if page == odd { valid } else { bytes_of(page) });
        }
        assert_eq!(cache.whole(WHOLE), None, "page {odd} with {valid} bytes");
        assert!(matches!(cache.find(own(odd), 1), Found::Pinned(_)), "it is there, as it is");
    }
}

/// A page that could not be had is tried again, in the same frame.
#[test]
fn a_page_that_failed_is_absent() {
    let world = World::new(BYTES);
    let cache = world.cache();
    let Begun::Fill(index) = cache.begin(own(2)) else { panic!("its frame is empty") };
    assert_eq!((index, cache.begin(own(2))), (FrameIndex(WAYS + 2), Begun::Present));
    assert_eq!((cache.find(own(2), 1), cache.keep(own(2), 1)), (Found::InTransit, None));
    cache.frame(index).failed();
    assert_eq!((cache.find(own(2), 1), cache.frame(index).seen().phase()), (Found::Absent, Phase::Empty));
    assert_eq!(bring(&cache, own(2), PAGE), index);
    assert_eq!(cache.begin(own(2)), Begun::Present);
    let counts =
        [&world.sets[1].misses, &world.sets[1].hits, &world.sets[0].misses].map(|count| count.peek());
    assert_eq!(counts, [2, 0, 0]);
}

/// Nothing is wanted in their sets by others, so all pages of a set may be kept.
#[test]
fn every_page_with_a_frame_of_its_own_may_be_kept() {
    let world = World::new(BYTES);
    let cache = world.cache();
    for page in 0..OWN {
        bring(&cache, own(page), bytes_of(page));
    }
    for page in 0..OWN {
        assert_eq!(cache.keep(own(page), 2), Some(FrameIndex(WAYS + page)));
        assert!(matches!(cache.find(own(page), 1), Found::Pinned(_)));
        assert_eq!(cache.guard(FrameIndex(WAYS + page), 1), Guarded::Yes);
    }
}

/// Other files, and what the file has more than when it was mapped, have their place among the frames that are shared.
#[test]
fn all_other_pages_share_the_rest() {
    let world = World::new(BYTES);
    let cache = world.cache();
    let mut homes = std::collections::BTreeSet::new();
    for page in 0..200 {
        for key in [Key::new(SHARES, page).unwrap(), Key::new(WHOLE, u64::from(OWN) + page).unwrap()] {
            assert!(cache.home(key).0 < WAYS);
            homes.insert((key.mapping(), cache.home(key).0));
            let index = bring(&cache, key, PAGE);
            assert!(index.0 < WAYS);
        }
    }
    assert_eq!(homes.len(), 2 * WAYS as usize, "pages of each are spread over the frames");
    assert_eq!(cache.whole(WHOLE), None, "what is beyond does not count");
    assert_eq!([0, 1, 2].map(|set: usize| world.sets[set].misses.peek()), [400, 0, 0]);
}

/// The frames of a file that is unmapped are the next one's, whatever was in them.
#[test]
fn frames_that_are_forgotten_are_empty() {
    let world = World::new(BYTES);
    let cache = world.cache();
    for page in 0..OWN {
        bring(&cache, own(page), bytes_of(page));
    }
    cache.forget_frames(WAYS..WAYS + 2);
    let keys: Vec<u64> = world.frames[WAYS as usize..].iter().take(4).map(Frame::key).collect();
    assert_eq!(keys, [0, 0, own(2).word(), own(3).word()]);
    world.mappings[WHOLE as usize].lay_out(Layout { first: WAYS, own: 1, shared: WAYS }, 1, PAGE);
    assert_eq!(cache.whole(WHOLE), None);
    bring(&cache, own(0), 1);
    assert_eq!(cache.whole(WHOLE), Some(Whole { first: FrameIndex(WAYS), bytes: 1 }));
}

//! The cache of pages against plain arrays, from a seed: warps that each take one step at a time, in any order, on few frames, over a system whose
//! reads and writes may fail.
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "a table of pointers")]

use gpufs_core::cache::{
    Begun, Cache, CacheParts, Found, Frame, FrameIndex, Guarded, Key, Layout, MAPPINGS, Mapping, Phase,
    Pinned, Set, WAYS, Whole, Write,
};
use proptest::prelude::*;

/// Pages of the file: more than there are frames.
const PAGES: usize = 60;
/// The mapping of the file.
const MAPPING: u32 = 3;
/// Sets that pages share.
const SETS: u32 = 2;
/// Pages with a frame of their own, where there are such.
const OWN: u32 = 2 * WAYS - 1;

/// What a warp is about. It holds a page only in the states that say so.
#[derive(Clone, Copy, Debug)]
enum Warp {
    Idle,
    Fills(FrameIndex, u64),
    Pins(FrameIndex, u64),
    Guards(FrameIndex, u64),
    /// What it has copied, and whether it does so to get the frame.
    Writes(FrameIndex, u64, u64),
}

/// The cache, what its frames hold, the file, and what both together should be.
struct World {
    sets: Vec<Set>,
    frames: Vec<Frame>,
    mappings: Vec<Mapping>,
    bytes: Vec<u64>,
    file: Vec<u64>,
    model: Vec<u64>,
    warps: Vec<Warp>,
}

impl World {
    fn new(warps: usize) -> Self {
        Self::laid_out(warps, 0)
    }
    /// One in which so many pages have a frame of their own.
    fn laid_out(warps: usize, own: u32) -> Self {
        let sets = SETS + own.div_ceil(WAYS);
        let count = (sets * WAYS) as usize;
        let mappings: Vec<Mapping> = (0..MAPPINGS).map(|_| Mapping::default()).collect();
        let layout = Layout { first: SETS * WAYS, own, shared: SETS * WAYS };
        mappings[MAPPING as usize].lay_out(layout, u64::from(own) * 4096, 4096);
        Self {
            sets: (0..sets).map(|_| Set::default()).collect(),
            frames: (0..count).map(|_| Frame::default()).collect(),
            mappings,
            bytes: vec![0; count],
            file: (0..PAGES as u64).collect(),
            model: (0..PAGES as u64).collect(),
            warps: vec![Warp::Idle; warps],
        }
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
                set_count: u32::try_from(self.sets.len()).unwrap(),
                page_bytes: 4096,
            })
        }
    }
    /// Reads all pages with a frame of their own, if they are there.
    fn reads_whole(&self, cache: &Cache) {
        if let Some(whole) = cache.whole(MAPPING) {
            assert_eq!(whole, Whole { first: FrameIndex(SETS * WAYS), bytes: u64::from(OWN) * 4096 });
            let own = OWN as usize;
            assert_eq!(self.bytes[whole.first.0 as usize..][..own], self.model[..own]);
        }
    }
    /// One step of a warp. `choice` chooses among those that it may take, `page` the page that it wants, `fails` whether the system refuses.
    fn step(&mut self, warp: usize, choice: u8, page: u64, fails: bool) {
        let cache = self.cache();
        let next = match self.warps[warp] {
            Warp::Idle if choice.is_multiple_of(5) => {
                let found = cache.glance(key(page), |index, valid| (self.bytes[index.0 as usize], valid));
                assert!(found.is_none_or(|found| found == (self.model[page as usize], 4096)), "page {page}");
                Warp::Idle
            }
            Warp::Idle if choice % 5 == 1 => match cache.keep(key(page), 1) {
                Some(index) => Warp::Guards(index, page),
                None => Warp::Idle,
            },
            Warp::Idle => self.wants(&cache, page),
            Warp::Fills(index, page) if fails => {
                cache.frame(index).failed();
                assert_ne!(cache.frame(index).key(), key(page).word());
                Warp::Idle
            }
            Warp::Fills(index, page) => {
                self.bytes[index.0 as usize] = self.file[page as usize];
                cache.filled(key(page), index, 4096, 1);
                Warp::Pins(index, page)
            }
            Warp::Pins(index, page) => {
                self.reads(index, page);
                let frame = cache.frame(index);
                match choice % 4 {
                    0 => {
                        let value = u64::from(choice) << 32 | page;
                        self.bytes[index.0 as usize] = value;
                        self.model[page as usize] = value;
                        frame.stored();
                        Warp::Pins(index, page)
                    }
                    1 => match cache.guard(index, 1) {
                        Guarded::Yes => Warp::Guards(index, page),
                        Guarded::Full => Warp::Pins(index, page),
                        Guarded::Later => panic!("nobody has the lock between two steps"),
                    },
                    2 => match frame.begin_write() {
                        Write::Begun => Warp::Writes(index, page, self.bytes[index.0 as usize]),
                        Write::Clean | Write::Elsewhere => Warp::Pins(index, page),
                    },
                    _ => {
                        frame.unpin(1);
                        Warp::Idle
                    }
                }
            }
            Warp::Guards(index, page) => {
                self.reads(index, page);
                if choice.is_multiple_of(3) {
                    cache.frame(index).unguard(1);
                    Warp::Idle
                } else {
                    Warp::Guards(index, page)
                }
            }
            Warp::Writes(index, page, copied) => {
                if !fails {
                    self.file[page as usize] = copied;
                }
                cache.frame(index).end_write(!fails);
                cache.frame(index).unpin(1);
                Warp::Idle
            }
        };
        self.warps[warp] = next;
        self.check(&cache);
    }
    fn wants(&self, cache: &Cache, page: u64) -> Warp {
        match cache.find(key(page), 1) {
            Found::Pinned(index) => Warp::Pins(index, page),
            Found::InTransit => Warp::Idle,
            Found::Absent => match cache.begin(key(page)) {
                Begun::Fill(index) => Warp::Fills(index, page),
                Begun::Write(index) => {
                    let other = Key::from_word(cache.frame(index).key()).unwrap().page();
                    Warp::Writes(index, other, self.bytes[index.0 as usize])
                }
                Begun::Present => panic!("nobody begins it between two steps"),
                Begun::Later => {
                    // [P-CACHE-PROGRESS]: then some warp that waits for no page uses a frame without a guard.
                    assert!(
                        self.warps
                            .iter()
                            .any(|warp| matches!(warp, Warp::Fills(..) | Warp::Pins(..) | Warp::Writes(..))),
                        "no frame, and nobody to wait for"
                    );
                    Warp::Idle
                }
            },
        }
    }
    fn reads(&self, index: FrameIndex, page: u64) {
        assert_eq!(self.bytes[index.0 as usize], self.model[page as usize], "page {page} in frame {index:?}");
    }
    fn check(&self, cache: &Cache) {
        let mut keys: Vec<u64> = self.frames.iter().map(Frame::key).filter(|key| *key != 0).collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "[R-CACHE-1]");
        for (number, set) in (0..).zip(self.frames.chunks(WAYS as usize)) {
            let seen: Vec<_> = set.iter().map(Frame::seen).collect();
            assert!(seen.iter().all(|seen| seen.guards() == 0 || seen.is_keepable()), "[R-CACHE-5]");
            assert!(
                seen.iter().all(|seen| !seen.is_keepable() || seen.phase() == Phase::Ready),
                "[R-CACHE-5]"
            );
            let keepable = seen.iter().filter(|seen| seen.is_keepable()).count();
            // Nobody else wants a frame of a page's own.
            assert!(keepable < WAYS as usize || number >= SETS, "[R-CACHE-5]");
        }
        for (index, frame) in (0..).zip(&self.frames) {
            let count = |of: fn(&Warp) -> Option<FrameIndex>| {
                self.warps.iter().filter(|warp| of(warp) == Some(FrameIndex(index))).count() as u64
            };
            let pins = count(|warp| match warp {
                Warp::Pins(frame, _) | Warp::Writes(frame, ..) => Some(*frame),
                _ => None,
            });
            let guards = count(|warp| if let Warp::Guards(frame, _) = warp { Some(*frame) } else { None });
            assert_eq!((frame.seen().pins(), frame.seen().guards()), (pins, guards));
        }
        for page in 0..PAGES {
            let held = self
                .frames
                .iter()
                .find(|frame| frame.key() == key(page as u64).word() && frame.seen().phase() == Phase::Ready);
            let kept = held.is_some_and(|frame| frame.seen().is_dirty() || frame.seen().is_writing());
            assert!(kept || self.file[page] == self.model[page], "[R-CACHE-6]: page {page} is lost");
        }
        assert_eq!(cache.frames().len(), self.frames.len());
    }
}

fn key(page: u64) -> Key {
    Key::new(MAPPING, page).unwrap()
}

proptest! {
    #[test]
    fn warps_find_what_others_stored(
        warps in 1..20_usize,
        own in prop::sample::select(vec![0, OWN]),
        steps in prop::collection::vec((any::<usize>(), any::<u8>(), 0..PAGES as u64, 0..8_u8), 1..600),
    ) {
        let mut world = World::laid_out(warps, own);
        for (warp, choice, page, chance) in steps {
            world.step(warp % warps, choice, page, chance == 0);
            world.reads_whole(&world.cache());
        }
        // The warps are gone, and the host writes what they left.
        let cache = world.cache();
        cache.let_go();
        for (index, frame) in world.frames.iter().enumerate() {
            let seen = frame.seen();
            prop_assert_eq!((seen.pins(), seen.guards(), seen.is_writing()), (0, 0, false));
            if frame.seen().is_dirty() {
                let page = Key::from_word(frame.key()).unwrap().page();
                world.file[page as usize] = world.bytes[index];
            }
        }
        prop_assert_eq!(&world.file, &world.model);
        cache.forget(MAPPING);
        prop_assert!(world.frames.iter().all(|frame| frame.key() == 0));
    }
}

#[test]
fn any_seven_pages_may_be_kept() {
    let world = World::new(0);
    let cache = world.cache();
    let mut kept = Vec::new();
    let mut refused = 0;
    for page in 0..PAGES as u64 {
        let frame = match cache.begin(key(page)) {
            Begun::Fill(frame) => frame,
            other => panic!("one frame of a set is free, or clean: {other:?}"),
        };
        cache.frame(frame).filled(4096, 1);
        match cache.guard(frame, 1) {
            Guarded::Yes => kept.push((frame, page)),
            Guarded::Full => {
                refused += 1;
                cache.frame(frame).unpin(1);
            }
            Guarded::Later => panic!("nobody has the lock"),
        }
        assert!(refused == 0 || kept.len() >= WAYS as usize - 1, "refused with {} kept", kept.len());
    }
    assert_eq!(kept.len() as u32, SETS * (WAYS - 1));
    for (frame, page) in kept {
        assert_eq!(cache.frame(frame).pin(key(page), 1), Pinned::Yes, "what is kept stays");
    }
}

/// A page that nobody has looked at again does not go while its set has an empty frame.
#[test]
fn no_page_goes_while_a_frame_is_empty() {
    let world = World::new(0);
    let cache = world.cache();
    // All are looked for first in the frame at which the clock's hand stands.
    let of_a_frame = |page: &u64| cache.home(key(*page)).0 == 0;
    let pages: Vec<u64> = (0..).filter(of_a_frame).take(WAYS as usize).collect();
    for page in &pages {
        let Begun::Fill(frame) = cache.begin(key(*page)) else { panic!("a frame of the set is empty") };
        cache.frame(frame).filled(4096, 1);
        cache.frame(frame).unpin(1);
    }
    for page in &pages {
        let Found::Pinned(frame) = cache.find(key(*page), 1) else { panic!("page {page} has gone") };
        cache.frame(frame).unpin(1);
    }
}

#[test]
fn what_is_there_can_be_glanced_at_and_kept() {
    let world = World::new(0);
    let cache = world.cache();
    for page in 0..u64::from(SETS) {
        assert_eq!((cache.glance(key(page), |_, _| ()), cache.keep(key(page), 1)), (None, None));
        let Begun::Fill(frame) = cache.begin(key(page)) else { panic!("every frame is free") };
        assert_eq!(frame, cache.home(key(page)));
        assert_eq!(cache.glance(key(page), |_, _| ()), None, "it is on its way");
        assert_eq!(cache.keep(key(page), 1), None, "it is on its way");
        cache.frame(frame).filled(100, 1);
        assert_eq!(cache.glance(key(page), |index, valid| (index, valid)), Some((frame, 100)));
        assert_eq!(cache.keep(key(page), 32), Some(frame));
        assert_eq!(cache.keep(key(page), 2), Some(frame));
        assert_eq!((cache.frame(frame).seen().guards(), cache.frame(frame).seen().pins()), (34, 1));
        cache.frame(frame).unguard(34);
        cache.frame(frame).unpin(1);
        // Another comes while it is looked at.
        let seen = cache.glance(key(page), |_, _| cache.forget(MAPPING));
        assert_eq!(seen, None);
    }
}

#[test]
fn a_key_is_what_it_was_made_of() {
    for (mapping, page) in [(0, 0), (0, (1 << 40) - 1), (255, 77)] {
        let key = Key::new(mapping, page).unwrap();
        assert_eq!((key.mapping(), key.page()), (mapping, page));
        assert_eq!(Key::from_word(key.word()), Some(key));
    }
    assert_eq!(Key::new(0, 1 << 40), None);
    assert_eq!(Key::from_word(0), None);
}

/// Pages of the first set that are in no frame of [`filled`].
fn others(cache: &Cache) -> impl Iterator<Item = u64> {
    (1000..).filter(|page| cache.home(key(*page)).0 < WAYS)
}

/// A cache whose first set has a page in each frame, which nobody uses; the pages, by their frames.
fn filled(world: &World) -> Vec<u64> {
    let (cache, mut pages) = (world.cache(), vec![0; WAYS as usize]);
    for page in (0..).filter(|page| cache.home(key(*page)).0 < WAYS).take(WAYS as usize) {
        pages[bring(&cache, page) as usize] = page;
    }
    pages
}

/// Brings a page that is in no frame, which nobody then uses; the frame that it came to.
fn bring(cache: &Cache, page: u64) -> u32 {
    let Begun::Fill(index) = cache.begin(key(page)) else { panic!("a frame can be had") };
    cache.frame(index).filled(4096, 1);
    cache.frame(index).unpin(1);
    index.0
}

/// Uses the page of a frame, in one of the ways in which a lane does.
fn uses(cache: &Cache, frame: u32, page: u64) {
    let index = FrameIndex(frame);
    match frame % 3 {
        0 => {
            assert_eq!(cache.find(key(page), 1), Found::Pinned(index));
            cache.frame(index).unpin(1);
        }
        1 => {
            assert_eq!(cache.keep(key(page), 1), Some(index));
            cache.frame(index).unguard(1);
        }
        _ => cache.refer(index),
    }
}

/// The clock: its hand goes over the frames in turn, and passes once over what was used since it was there.
#[test]
fn a_page_that_was_used_lately_is_spared_once() {
    for spared in 0..WAYS {
        let world = World::new(0);
        let (cache, pages) = (world.cache(), filled(&world));
        for frame in (0..WAYS).filter(|frame| *frame != spared) {
            uses(&cache, frame, pages[frame as usize]);
        }
        let came_to: Vec<u32> = others(&cache).take(4).map(|page| bring(&cache, page)).collect();
        // It goes on behind the one that was not used, and where all were passed over it begins with those before.
        assert_eq!(came_to, [spared, 0, 1, 2]);
        assert_eq!(world.sets[0].evictions.peek(), 4);
    }
}

/// Where lanes use the frames at which the hand stands, it goes on to the others, twice round where all were used.
#[test]
fn the_last_frame_that_nobody_uses_is_found() {
    for free in 0..WAYS {
        let world = World::new(0);
        let (cache, pages) = (world.cache(), filled(&world));
        for (frame, page) in (0..).zip(&pages) {
            if frame == free {
                uses(&cache, frame, *page);
            } else {
                assert_eq!(cache.find(key(*page), 1), Found::Pinned(FrameIndex(frame)));
            }
        }
        let page = others(&cache).next().unwrap();
        assert_eq!(bring(&cache, page), free);
    }
}

/// A lane that finds every frame of a set in use leaves the set as it is, and its lock to others.
#[test]
fn a_set_that_is_in_use_is_only_looked_at() {
    let world = World::new(0);
    let (cache, pages) = (world.cache(), filled(&world));
    for page in &pages {
        assert!(matches!(cache.find(key(*page), 1), Found::Pinned(_)));
    }
    let set = || format!("{:?}", world.sets[0]);
    let before = set();
    for page in others(&cache).take(3).chain(pages) {
        assert_eq!(cache.begin(key(page)), Begun::Later);
    }
    assert_eq!(set(), before);
}

#[test]
fn each_set_counts_its_own_looks() {
    let world = World::new(0);
    let (cache, pages) = (world.cache(), filled(&world));
    let counts = |set: &Set| {
        [&set.hits, &set.misses, &set.evictions, &set.write_backs, &set.waits].map(|count| count.peek())
    };
    assert_eq!(counts(&world.sets[0]), [0, u64::from(WAYS), 0, 0, 0]);
    let Found::Pinned(frame) = cache.find(key(pages[0]), 3) else { panic!("it is there") };
    assert_eq!(cache.keep(key(pages[1]), 4), Some(FrameIndex(1)));
    cache.count_hits(key(pages[2]), 5);
    cache.count_wait(key(pages[3]));
    cache.frame(frame).stored();
    cache.frame(frame).unpin(3);
    cache.frame(FrameIndex(1)).unguard(4);
    for index in 0..WAYS {
        cache.frame(FrameIndex(index)).stored();
    }
    let Begun::Write(_) = cache.begin(key(others(&cache).next().unwrap())) else { panic!("all are dirty") };
    assert_eq!(counts(&world.sets[0]), [12, u64::from(WAYS), 0, 1, 1]);
    assert_eq!(counts(&world.sets[1]), [0; 5]);
    let page = (0..).find(|page| cache.home(key(*page)).0 >= WAYS).unwrap();
    cache.count_hits(key(page), 3);
    cache.count_wait(key(page));
    assert_eq!(counts(&world.sets[1]), [3, 0, 0, 0, 1]);
}

/// What was in a frame before it was forgotten is not seen while the next page is on its way.
#[test]
fn a_frame_that_was_forgotten_has_no_valid_bytes() {
    let world = World::new(0);
    let (cache, pages) = (world.cache(), filled(&world));
    cache.forget(MAPPING);
    for page in pages {
        let Begun::Fill(frame) = cache.begin(key(page)) else { panic!("every frame is free") };
        assert_eq!((cache.frame(frame).valid(), cache.glance(key(page), |_, _| ())), (0, None));
        cache.frame(frame).filled(7, 1);
        assert_eq!(cache.glance(key(page), |_, valid| valid), Some(7));
    }
}

/// The kernel that fills a frame has gone: its pins, guards and locks are taken back, and its page is not there.
#[test]
fn what_lanes_that_are_gone_had_begun_ends() {
    let world = World::new(0);
    let (cache, pages) = (world.cache(), filled(&world));
    let Begun::Fill(filling) = cache.begin(key(others(&cache).next().unwrap())) else { panic!("one can go") };
    let kept = (0..WAYS).map(FrameIndex).find(|index| *index != filling).unwrap();
    assert_eq!(cache.keep(key(pages[kept.0 as usize]), 2), Some(kept));
    assert!(matches!(cache.find(key(pages[kept.0 as usize]), 5), Found::Pinned(_)));
    cache.let_go();
    assert_eq!((cache.frame(filling).key(), cache.frame(filling).seen().phase()), (0, Phase::Empty));
    let seen = cache.frame(kept).seen();
    assert_eq!((seen.pins(), seen.guards(), seen.is_keepable()), (0, 0, false));
    assert_eq!(cache.frame(kept).key(), key(pages[kept.0 as usize]).word());
}

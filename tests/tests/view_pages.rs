//! What views do with the pages that they touch: which are kept and let go of, how accesses are counted, which operations are asked for.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use gpufs_core::QueueParts;
use gpufs_core::abi::{IORING_OP_FADVISE, IORING_OP_FSYNC, Sqe};
use gpufs_core::cache::Key;
use gpufs_core::word::DeviceWord;
use gpufs_device::view::{Mapping, View};
use gpufs_device::{Errno, Fs, warp};
use gpufs_host::{Builder, CpuOptions, Grid, Session};
use gpufs_tests::{MODES, Scratch, each, lanes, once, skip, small, tables_of};

const PAGE: u64 = 4096;
/// Elements of a page.
const EACH: u64 = PAGE / 8;

/// A session with so many frames, of warps of 64 lanes.
fn cached(frames: u64) -> Session {
    opened(small().cache((frames * PAGE) as usize).cache_page(PAGE as u32))
}

fn opened(builder: Builder) -> Session {
    builder.cpu_with(CpuOptions { width: 64, ..CpuOptions::default() }).unwrap()
}

/// A file of so many pages, whose elements are their own indices.
fn numbered(scratch: &Scratch, name: &str, pages: u64) -> File {
    let content: Vec<u8> = (0..pages * EACH).flat_map(u64::to_le_bytes).collect();
    fs::write(scratch.path(name), content).unwrap();
    File::options().read(true).write(true).open(scratch.path(name)).unwrap()
}

/// The same, with a hole behind that has no room in a cache: its pages share frames, and stay where they are kept alone.
fn sharing(scratch: &Scratch, name: &str, pages: u64) -> File {
    let file = numbered(scratch, name, pages);
    file.set_len(4096 * PAGE).unwrap();
    file
}

/// The pages that are kept, and by how many guards. No page is pinned.
fn kept(fs: Fs) -> Vec<(u64, u64)> {
    let frames = tables_of(fs).cache;
    let mut kept = Vec::new();
    for frame in frames.frames() {
        let seen = frame.seen();
        assert_eq!(seen.pins(), 0, "a page that nobody uses is pinned");
        if seen.guards() > 0 {
            kept.push((Key::from_word(frame.key()).unwrap().page(), seen.guards()));
        }
    }
    kept.sort_unstable();
    kept
}

/// Hits that are counted so far.
fn hits(fs: Fs) -> u64 {
    tables_of(fs).cache.sets().iter().map(|set| set.hits.peek()).sum()
}

/// Pages that are touched one after the other, and the page that the view keeps then.
const TOUCHED: [(u64, Option<u64>); 16] = [
    (3, None),
    (3, Some(3)),
    (3, Some(3)),
    // The next of one that is kept, and no other.
    (4, Some(4)),
    (5, Some(5)),
    (7, None),
    (8, None),
    (8, Some(8)),
    (7, None),
    (7, Some(7)),
    (6, None),
    (7, None),
    (6, None),
    (6, Some(6)),
    (7, Some(7)),
    (0, None),
];

/// Touches each of [`TOUCHED`] in lanes of which each has pages of its own, or all the same.
fn touch(fs: Fs, apart: bool, mut access: impl FnMut(u64)) {
    let own = if apart { warp::global_thread() * 20 } else { 0 };
    let count = u64::from(warp::position().block_threads);
    for (page, keeps) in TOUCHED {
        access(own + page);
        if count == 1 {
            let wanted: Vec<_> = keeps.map(|page| (page, 1)).into_iter().collect();
            assert_eq!(kept(fs), wanted, "after page {page}");
        }
    }
}

#[test]
fn a_view_keeps_the_page_that_it_used_twice_and_the_next() {
    let scratch = Scratch::new("views-keep");
    // All pages are there at once, and there is room to keep one of each lane.
    for (count, apart, frames, pages) in [(1, false, 64, 20), (40, false, 64, 20), (3, true, 512, 60)] {
        let mut session = cached(frames);
        let map = session.map(sharing(&scratch, "file", pages)).unwrap();
        let write = session.map_mut(sharing(&scratch, "written", pages)).unwrap();
        let left = DeviceWord::new(count);
        session
            .run(lanes(count), |fs| {
                fs.view::<u64, _>(map, 0, pages * EACH, |view| {
                    touch(fs, apart, |page| assert_eq!(view.get(page * EACH + 5), Ok(page * EACH + 5)));
                })
                .unwrap();
                fs.view::<[u64; 4], _>(map, 0, pages * EACH / 4, |view| {
                    touch(fs, apart, |page| {
                        assert_eq!(view.get(page * EACH / 4).unwrap()[1], page * EACH + 1);
                    });
                })
                .unwrap();
                fs.view_mut::<u64, _>(write, 0, pages * EACH, |view| {
                    touch(fs, apart, |page| view.set(page * EACH + 5, 1).unwrap());
                })
                .unwrap();
                // ORDERING: a count of lanes.
                if left.fetch_add_relaxed(u32::MAX) == 1 {
                    assert_eq!(kept(fs), [], "the last lane is done");
                }
            })
            .unwrap();
        let statistics = session.cache_statistics();
        assert_eq!(statistics.evictions, 0, "{statistics:?}");
    }
}

/// A view that ends lets go of the page that it keeps, whatever it did before.
#[test]
fn a_view_that_ends_keeps_nothing() {
    let scratch = Scratch::new("views-end");
    let mut session = cached(16);
    let map = session.map(sharing(&scratch, "file", 4)).unwrap();
    each(&mut session, 1, |fs, _| {
        for accesses in 1..6 {
            fs.view::<u64, _>(map, 0, EACH, |view| {
                for at in 0..accesses {
                    assert_eq!(view.get(at), Ok(at));
                }
                assert_eq!(kept(fs).len(), usize::from(accesses > 1));
            })
            .unwrap();
            assert_eq!(kept(fs), []);
        }
    });
}

/// Two lanes that use two pages, of each pair of frames, each let go of their own.
#[test]
fn lanes_let_go_of_their_own_pages() {
    let scratch = Scratch::new("views-own");
    let mut session = cached(8);
    let map = session.map_mut(numbered(&scratch, "file", 8)).unwrap();
    let pairs = |fs: Fs, lane: u64| {
        for (one, two) in (0..8).flat_map(|one| (one + 1..8).map(move |two| (one, two))) {
            // A view that has used no page keeps none.
            let page = if lane == 0 { one } else { two };
            fs.view_mut::<u64, _>(map, 0, 8 * EACH, |view| view.add(page * EACH, 1).unwrap()).unwrap();
        }
    };
    let left = DeviceWord::new(2);
    each(&mut session, 2, |fs, lane| {
        pairs(fs, lane);
        // ORDERING: a count of lanes.
        if left.fetch_add_relaxed(u32::MAX) == 1 {
            assert_eq!(kept(fs), []);
        }
    });
}

/// Alternates between two pages that are in the frames in which they are looked for first: what is counted after each access, and at the view's end.
fn alternate<T: gpufs_device::view::Plain + PartialEq + std::fmt::Debug>(
    fs: Fs,
    (map, pages): (Mapping, [u64; 2]),
    glances: bool,
    wanted: impl Fn(u64) -> T,
) {
    let each = PAGE / size_of::<T>() as u64;
    let before = hits(fs);
    fs.view::<T, _>(map, 0, 64 * each, |view| {
        for count in 1..=40 {
            let (page, within) = (pages[(count % 2) as usize], count % each);
            assert_eq!(view.get(page * each + within), Ok(wanted(page * each + within)), "access {count}");
            // Glances are counted sixteen at a time, visits at once.
            let counted = if glances { count / 16 * 16 } else { count };
            assert_eq!(hits(fs) - before, counted, "{} bytes, access {count}", size_of::<T>());
        }
    })
    .unwrap();
    assert_eq!(hits(fs) - before, 40, "all at the end");
    assert_eq!(kept(fs), []);
}

#[test]
fn every_access_to_another_page_that_is_there_is_one_hit() {
    let scratch = Scratch::new("views-hits");
    let mut session = cached(64);
    let map = session.map(numbered(&scratch, "file", 64)).unwrap();
    once(&mut session, |fs| {
        let cache = tables_of(fs).cache;
        let home = |page| cache.home(Key::new(map.entry().0, page).unwrap());
        let other = (2..64).find(|page| home(*page) != home(0)).unwrap();
        let pages = (map, [0, other]);
        let bring = |view: &View<'_, u64>| [0, other].map(|page| view.get(page * EACH));
        assert_eq!(fs.view(map, 0, 64 * EACH, bring).unwrap(), [Ok(0), Ok(other * EACH)]);
        assert_eq!(hits(fs), 0);
        let byte = |at: u64| (at / 8).to_le_bytes()[(at % 8) as usize];
        alternate::<u8>(fs, pages, true, byte);
        alternate::<u16>(fs, pages, true, |at| u16::from_le_bytes([byte(2 * at), byte(2 * at + 1)]));
        alternate::<u32>(fs, pages, true, |at| if at % 2 == 0 { (at / 2) as u32 } else { 0 });
        alternate::<u64>(fs, pages, true, |at| at);
        alternate::<u128>(fs, pages, true, |at| u128::from(2 * at) | u128::from(2 * at + 1) << 64);
        alternate::<[u64; 4]>(fs, pages, false, |at| [0, 1, 2, 3].map(|part| 4 * at + part));
        // What was glanced at is counted by the next access that is no glance; that to a page that is kept is none.
        let before = hits(fs);
        fs.view::<u64, _>(map, 0, 64 * EACH, |view| {
            for (page, counted) in [(0, 0), (other, 0), (0, 0), (0, 4), (0, 4), (other, 4), (0, 4), (0, 7)] {
                assert_eq!(view.get(page * EACH), Ok(page * EACH));
                assert_eq!(hits(fs) - before, counted);
            }
        })
        .unwrap();
    });
}

/// Eight lanes' pages fill the cache. A ninth lane finds room once they are done: nobody waits.
#[test]
fn a_lane_that_misses_begins_when_the_others_are_done() {
    let scratch = Scratch::new("views-ninth");
    let mut session = cached(8);
    let map = session.map(numbered(&scratch, "file", 9)).unwrap();
    each(&mut session, 9, |fs, lane| {
        fs.view::<[u64; 4], _>(map, 0, 9 * EACH / 4, |view| {
            for page in [lane % 8, lane] {
                assert_eq!(view.get(page * EACH / 4).unwrap()[0], page * EACH);
            }
        })
        .unwrap();
    });
    let statistics = session.cache_statistics();
    assert_eq!((statistics.waits, statistics.misses, statistics.evictions), (0, 9, 1), "{statistics:?}");
}

#[test]
fn what_lies_beyond_the_end_takes_no_frame() {
    let scratch = Scratch::new("views-beyond");
    let mut session = cached(8);
    let map = session.map(numbered(&scratch, "file", 1)).unwrap();
    once(&mut session, |fs| {
        fs.view::<u64, _>(map, 0, 40 * EACH, |view| {
            for page in 1..40 {
                assert_eq!(view.get(page * EACH), Err(Errno::NXIO));
                assert_eq!(kept(fs), []);
            }
            assert_eq!(view.get(EACH - 1), Ok(EACH - 1));
            assert!(tables_of(fs).cache.frames().iter().all(|frame| u64::from(frame.valid()) <= PAGE));
        })
        .unwrap();
    });
}

/// Operations that a kernel of so many lanes asks for.
fn operations(session: &mut Session, count: u32, kernel: impl Fn(Fs, u64) + Sync) -> u64 {
    let before = session.statistics().total().operations;
    each(session, count, kernel);
    session.statistics().total().operations - before
}

/// Pages that are larger than what one operation writes: a whole one, and one that the file ends in, in the middle of a word.
#[test]
fn a_page_is_written_as_far_as_the_file_goes() {
    const LARGE: u64 = 128 << 10;
    let scratch = Scratch::new("views-pieces");
    let whole: Vec<u8> = (0..LARGE + LARGE).map(|at| (at % 251) as u8).collect();
    for mode in MODES {
        for (tail, pieces) in [(10, 1), (100_003, 2)] {
            let end = LARGE + tail;
            fs::write(scratch.path("file"), &whole[..end as usize]).unwrap();
            let file = File::options().read(true).write(true).open(scratch.path("file")).unwrap();
            let builder = small().mode(mode).cache(8 * LARGE as usize).cache_page(LARGE as u32);
            let mut session = match builder.cpu() {
                Ok(session) => session,
                Err(refused) => return skip("a_page_is_written_as_far_as_the_file_goes", refused),
            };
            let map = session.map_mut(file.try_clone().unwrap()).unwrap();
            let changed = [1, LARGE / 4 - 1, LARGE / 4 + 1, (end - 4) / 4];
            let mut wanted = whole[..end as usize].to_vec();
            for at in changed {
                wanted[at as usize * 4..][..4].copy_from_slice(&[0xee; 4]);
            }
            // Each lane looks at one frame, so that both pages are written at once.
            let stores = |fs: Fs, flushes: bool| {
                fs.view_mut::<u32, _>(map, 0, end / 4, |view| {
                    for at in changed {
                        assert_eq!(view.set(at, 0xeeee_eeee), Ok(()));
                    }
                    assert_eq!(if flushes { view.flush() } else { Ok(()) }, Ok(()));
                })
                .unwrap();
            };
            each(&mut session, 8, |fs, _| stores(fs, false));
            fs::write(scratch.path("file"), &whole[..end as usize]).unwrap();
            let asked = operations(&mut session, 8, |fs, _| {
                stores(fs, true);
                let mut found = vec![0; end as usize];
                file.read_exact_at(&mut found, 0).unwrap();
                assert!(found == wanted, "{mode}, {tail}");
            });
            assert_eq!(asked, 2 + pieces, "{mode}, {tail}: an operation for each piece");
            assert_eq!(file.metadata().unwrap().len(), end, "{mode}: the file is as long as it was");
        }
    }
}

#[test]
fn a_page_is_read_by_one_operation() {
    let scratch = Scratch::new("views-one");
    let mut session = cached(64);
    let map = session.map(numbered(&scratch, "file", 9)).unwrap();
    for page in 0..8 {
        let asked = operations(&mut session, 3, |fs, lane| {
            let get = |view: &View<'_, u64>| view.get(page * EACH + lane);
            assert_eq!(fs.view(map, 0, 9 * EACH, get), Ok(Ok(page * EACH + lane)));
        });
        assert_eq!(asked, 1);
    }
}

/// A flush by any number of lanes, in any warp of a block of any size, writes what is dirty in every frame.
#[test]
fn a_flush_by_any_lanes_writes_every_dirty_page() {
    const PAGES: u64 = 20;
    let scratch = Scratch::new("views-every");
    for threads in [1, 2, 3, 7, 24, 33, 70] {
        let mut session = cached(24);
        let file = numbered(&scratch, "file", PAGES);
        let map = session.map_mut(file.try_clone().unwrap()).unwrap();
        let grid = Grid { blocks: 3, threads };
        for flushing in 0..3 {
            session
                .run(grid, |fs| {
                    let position = warp::position();
                    if position.block != flushing {
                        return;
                    }
                    let at = |page: u64| page * EACH + u64::from(position.thread);
                    let stored = |page: u64| 1 + page + u64::from(position.thread + 100 * flushing) * 1000;
                    fs.view_mut::<u64, _>(map, 0, PAGES * EACH, |view| {
                        for page in 0..PAGES {
                            view.set(at(page), stored(page)).unwrap();
                        }
                        view.flush().unwrap();
                    })
                    .unwrap();
                    for page in 0..PAGES {
                        let mut found = [0; 8];
                        file.read_exact_at(&mut found, at(page) * 8).unwrap();
                        let found = u64::from_le_bytes(found);
                        assert_eq!(found, stored(page), "{threads} threads, block {flushing}, page {page}");
                    }
                })
                .unwrap();
        }
    }
}

/// The entry that was submitted last to the only ring, by the caller.
#[expect(unsafe_code, reason = "looks at a ring's entries")]
fn last_entry(fs: Fs) -> Sqe {
    let queue = &tables_of(fs).queues()[0];
    // SAFETY:
    // - a queue begins with its parts, which lie as C has it
    let parts = unsafe { core::ptr::from_ref(queue).cast::<QueueParts>().read() };
    let last = queue.progress().sq_tail.wrapping_sub(1) & (parts.sq_entries - 1);
    // SAFETY:
    // - within the ring
    let cell = unsafe { &*parts.sqes.wrapping_add(last as usize) };
    // SAFETY:
    // - the operation is done, and nobody submits another
    unsafe { cell.read() }
}

/// What `prefetch` and `sync` ask of which file.
#[test]
fn advice_and_syncs_are_of_the_view_s_own_file() {
    let scratch = Scratch::new("views-own-file");
    let mut session = small().mode(gpufs_host::ring::Mode::Threads).cache(1 << 20).cpu().unwrap();
    let reads = [0, 1].map(|index| session.map(numbered(&scratch, &format!("r{index}"), 20)).unwrap());
    let writes = [0, 1].map(|index| session.map_mut(numbered(&scratch, &format!("w{index}"), 20)).unwrap());
    once(&mut session, |fs| {
        let mut files = Vec::new();
        for map in reads {
            for (offset, first, count) in [(0, 0, 20 * EACH), (4096, 3, 70), (24, 1000, 1), (40, 1, 7)] {
                let ask = |view: &View<'_, u64>| view.prefetch(first, count);
                assert_eq!(fs.view(map, offset, 20 * EACH - offset / 8, ask), Ok(Ok(())));
                let entry = last_entry(fs);
                let asked = (entry.opcode, entry.off, u64::from(entry.len));
                assert_eq!(asked, (IORING_OP_FADVISE, offset + first * 8, count * 8));
                files.push((entry.flags, entry.fd));
            }
        }
        for map in writes {
            assert_eq!(fs.view_mut::<u64, _>(map, 0, EACH, |view| view.sync()), Ok(Ok(())));
            let entry = last_entry(fs);
            assert_eq!(entry.opcode, IORING_OP_FSYNC);
            files.push((entry.flags, entry.fd));
        }
        files.dedup();
        assert_eq!(files.len(), 4, "each is of another file: {files:?}");
    });
}

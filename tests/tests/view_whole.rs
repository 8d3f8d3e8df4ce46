//! Files that have room in the cache as a whole ([R-CACHE-9]): what views of them cost and promise, and how files share the cache.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use gpufs_device::view::{Mapping, MappingMut};
use gpufs_device::{Errno, Fs};
use gpufs_host::{CpuOptions, Session};
use gpufs_tests::random::Random;
use gpufs_tests::{MODES, Scratch, each, once, skip, small, tables_of};

const PAGE: u64 = 4096;
/// Elements of a page.
const EACH: u64 = PAGE / 8;

/// Sessions with so many frames, in all modes, of warps of 1, 32 and 64 lanes.
fn sessions(test: &str, frames: u64, go: impl Fn(&mut Session)) {
    for mode in MODES {
        for width in [1, 32, 64] {
            let builder = small().mode(mode).cache((frames * PAGE) as usize).cache_page(PAGE as u32);
            match builder.cpu_with(CpuOptions { width, ..CpuOptions::default() }) {
                Ok(mut session) => go(&mut session),
                Err(refused) => skip(&format!("{test}, {mode}"), refused),
            }
        }
    }
}

fn numbers(count: u64) -> Vec<u64> {
    (0..count).map(|at| at * 3 + 1).collect()
}

fn bytes_of(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().copied().flat_map(u64::to_le_bytes).collect()
}

/// A file of these numbers.
fn file(scratch: &Scratch, name: &str, numbers: &[u64]) -> File {
    fs::write(scratch.path(name), bytes_of(numbers)).unwrap();
    File::options().read(true).write(true).open(scratch.path(name)).unwrap()
}

/// Has every page of a file brought.
fn warm(session: &mut Session, map: Mapping, count: u64) {
    each(session, 40, |fs, lane| {
        fs.view::<u64, _>(map, 0, count, |view| {
            for at in (lane * EACH..count).step_by(40 * EACH as usize) {
                view.get(at).unwrap();
            }
        })
        .unwrap();
    });
}

/// Looks of the cache for pages: those that were found, and those that were brought.
fn looks(fs: Fs) -> u64 {
    tables_of(fs).cache.sets().iter().map(|set| set.hits.peek() + set.misses.peek()).sum()
}

/// Pages that are kept.
fn kept(fs: Fs) -> usize {
    tables_of(fs).cache.frames().iter().filter(|frame| frame.seen().guards() > 0).count()
}

#[test]
fn what_is_there_as_a_whole_is_not_looked_for() {
    const COUNT: u64 = 20 * EACH + 77;
    let scratch = Scratch::new("whole-read");
    let wanted = numbers(COUNT);
    sessions("what_is_there_as_a_whole_is_not_looked_for", 32, |session| {
        let map = session.map(file(&scratch, "file", &wanted)).unwrap();
        let slices = |session: &mut Session, there: bool| {
            once(session, |fs| {
                fs.view::<u64, _>(map, 8, COUNT - 1, |view| match view.whole() {
                    Some(slice) => assert!(there && *slice == wanted[1..]),
                    None => assert!(!there, "all of it was touched"),
                })
                .unwrap();
                fs.view::<u64, _>(map, 0, COUNT + 1, |view| assert_eq!(view.whole(), None)).unwrap();
                fs.view::<u64, _>(map, 8, 0, |view| assert_eq!(view.whole(), Some(&[][..]))).unwrap();
                let nothing = fs.view::<u64, _>(map, 0, COUNT, |view| {
                    let pin = view.pin(0, 0).unwrap();
                    (pin.len(), pin.as_ptr().addr() >= PAGE as usize)
                });
                assert_eq!(nothing, Ok((0, true)), "no element, at an address of memory");
            });
        };
        slices(session, false);
        warm(session, map, COUNT);
        slices(session, true);
        let before = once(session, looks);
        each(session, 100, |fs, lane| {
            let random = Random::of_case(3, lane);
            // From any element on, of which the view's first is one of its own.
            let first = random.word_below(COUNT);
            fs.view::<u64, _>(map, first * 8, COUNT - first + 1, |view| {
                for _ in 0..50 {
                    let at = random.word_below(COUNT - first);
                    assert_eq!(view.get(at), Ok(wanted[(first + at) as usize]));
                }
                assert_eq!(view.get(COUNT - first + 1), Err(Errno::INVAL));
            })
            .unwrap();
            fs.view::<[u64; 4], _>(map, 0, COUNT / 4, |view| {
                let at = random.word_below(COUNT / 4);
                assert_eq!(view.get(at).unwrap()[..], wanted[at as usize * 4..][..4]);
            })
            .unwrap();
        });
        assert_eq!(once(session, looks), before);
        // Beyond the file's end there is nothing, and that is looked for.
        let beyond =
            once(session, |fs| fs.view::<u64, _>(map, 0, COUNT + 1, |view| view.get(COUNT)).unwrap());
        assert_eq!(beyond, Err(Errno::NXIO));
        session.unmap(map).unwrap();
    });
}

/// A look that needs no page to be kept, and as many pages as the file has.
#[test]
fn all_of_its_pages_may_be_pinned() {
    const PAGES: u64 = 24;
    let scratch = Scratch::new("whole-pins");
    let wanted = numbers(PAGES * EACH);
    sessions("all_of_its_pages_may_be_pinned", 32, |session| {
        let map = session.map(file(&scratch, "file", &wanted)).unwrap();
        // Before all are there, too.
        for round in 0..2 {
            each(session, 3, |fs, _| {
                fs.view::<u64, _>(map, 0, PAGES * EACH, |view| {
                    let pins: Vec<_> =
                        (0..PAGES).map(|page| view.pin(page * EACH, EACH as usize).unwrap()).collect();
                    for (page, pin) in pins.iter().enumerate() {
                        assert_eq!(pin[..], wanted[page * EACH as usize..][..EACH as usize]);
                    }
                    assert!(kept(fs) <= if round == 0 { PAGES as usize } else { 0 });
                    // Over the pages' ends where all are there.
                    let two = view.pin(EACH - 1, 2).map(|pin| pin.to_vec());
                    let all = view.pin(0, (PAGES * EACH) as usize).map(|pin| pin.len());
                    match view.rest_of_page(EACH - 1) {
                        1 => assert_eq!((two, all), (Err(Errno::INVAL), Err(Errno::INVAL))),
                        rest => {
                            assert_eq!(rest, (PAGES - 1) * EACH + 1);
                            assert_eq!(two.as_deref(), Ok(&wanted[EACH as usize - 1..=EACH as usize]));
                            assert_eq!(all, Ok(wanted.len()));
                        }
                    }
                    assert_eq!(view.rest_of_page(PAGES * EACH), 0);
                    assert!(round == 0 || view.rest_of_page(0) == PAGES * EACH);
                    assert_eq!(view.pin(PAGES * EACH, 1).map(drop), Err(Errno::INVAL));
                    assert_eq!(view.pin(u64::MAX, 2).map(drop), Err(Errno::INVAL));
                })
                .unwrap();
            });
        }
        session.unmap(map).unwrap();
    });
}

#[test]
fn what_is_stored_there_is_written() {
    const COUNT: u64 = 9 * EACH + 5;
    let scratch = Scratch::new("whole-written");
    sessions("what_is_stored_there_is_written", 16, |session| {
        let mut wanted = numbers(COUNT);
        let map = session.map_mut(file(&scratch, "file", &wanted)).unwrap();
        let content = || fs::read(scratch.path("file")).unwrap();
        for round in 0..3 {
            each(session, 70, |fs, lane| {
                fs.view_mut::<u64, _>(map, 0, COUNT, |view| {
                    for at in (lane..COUNT).step_by(70) {
                        let was = view.get(at).unwrap();
                        view.set(at, was + round).unwrap();
                        assert_eq!(view.add(at, 5), Ok(was + round));
                    }
                    if round == 1 {
                        view.flush().unwrap();
                        for at in (lane..COUNT).step_by(70) {
                            let mut found = [0; 8];
                            let path = scratch.path("file");
                            File::open(path).unwrap().read_exact_at(&mut found, at * 8).unwrap();
                            assert_eq!(u64::from_le_bytes(found), view.get(at).unwrap());
                        }
                    }
                })
                .unwrap();
            });
            for number in &mut wanted {
                *number += round + 5;
            }
            assert_eq!(content(), bytes_of(&wanted), "round {round}");
        }
        // What was not stored to is not written.
        fs::write(scratch.path("file"), vec![0; COUNT as usize * 8]).unwrap();
        once(session, |fs| {
            fs.view_mut::<u64, _>(map, 0, COUNT, |view| view.set(3 * EACH, 1)).unwrap().unwrap();
        });
        let found = content();
        assert_eq!(found.iter().position(|byte| *byte != 0), Some(3 * PAGE as usize));
        assert_eq!(found[4 * PAGE as usize..], vec![0; (COUNT * 8 - 4 * PAGE) as usize]);
        session.unmap_mut(map).unwrap();
    });
}

/// A file that is cut, or grows, after it was mapped.
#[test]
fn a_file_of_another_length_than_when_it_was_mapped() {
    const COUNT: u64 = 5 * EACH + 9;
    let scratch = Scratch::new("whole-lengths");
    let (old, new) = (numbers(COUNT), numbers(30 * EACH));
    sessions("a_file_of_another_length_than_when_it_was_mapped", 32, |session| {
        let get = |fs: Fs, map: Mapping, at: u64| {
            fs.view::<u64, _>(map, 0, 100 * EACH, |view| view.get(at)).unwrap()
        };
        for touched in [false, true] {
            let path = scratch.path("file");
            let map = session.map(file(&scratch, "file", &old)).unwrap();
            if touched {
                warm(session, map, COUNT);
            }
            fs::write(&path, bytes_of(&new)).unwrap();
            for _ in 0..2 {
                let found =
                    each(session, 40, |fs, lane| (get(fs, map, lane), get(fs, map, 6 * EACH + lane * 100)));
                for (lane, found) in (0..).zip(found) {
                    assert_eq!(found, (Ok(lane * 3 + 1), Ok((6 * EACH + lane * 100) * 3 + 1)));
                }
                // Of the page at the end the file had so much when it was brought.
                let behind = once(session, |fs| get(fs, map, COUNT));
                assert_eq!(behind, if touched { Err(Errno::NXIO) } else { Ok(COUNT * 3 + 1) });
            }
            session.unmap(map).unwrap();

            let map = session.map(file(&scratch, "file", &old)).unwrap();
            if touched {
                warm(session, map, COUNT);
            }
            File::options().write(true).open(&path).unwrap().set_len(PAGE).unwrap();
            for _ in 0..2 {
                let found = each(session, 40, |fs, lane| (get(fs, map, lane), get(fs, map, 3 * EACH + lane)));
                for (lane, found) in (0..).zip(found) {
                    let cut = if touched { Ok((3 * EACH + lane) * 3 + 1) } else { Err(Errno::NXIO) };
                    assert_eq!(found, (Ok(lane * 3 + 1), cut));
                }
            }
            session.unmap(map).unwrap();
        }
    });
}

/// A view that goes from what a file has more than when it was mapped, whose pages are shared, to pages with frames of their own.
#[test]
fn a_view_of_pages_of_both_kinds() {
    const MAPPED: u64 = 3;
    let scratch = Scratch::new("whole-both");
    let wanted = numbers(30 * EACH);
    let hits = |fs: Fs| tables_of(fs).cache.sets().iter().map(|set| set.hits.peek()).sum::<u64>();
    sessions("a_view_of_pages_of_both_kinds", 64, |session| {
        let map = session.map(file(&scratch, "file", &wanted[..(MAPPED * EACH) as usize])).unwrap();
        fs::write(scratch.path("file"), bytes_of(&wanted)).unwrap();
        once(session, |fs| {
            let get = |accesses: &[(u64, usize, u64)]| {
                let before = hits(fs);
                fs.view::<u64, _>(map, 0, 30 * EACH, |view| {
                    for (page, keeps, counted) in accesses {
                        assert_eq!(view.get(page * EACH), Ok(wanted[(page * EACH) as usize]));
                        assert_eq!((kept(fs), hits(fs) - before), (*keeps, *counted), "page {page}");
                    }
                })
                .unwrap();
                assert_eq!(kept(fs), 0);
                hits(fs) - before
            };
            // Brought; the last of those with frames of their own stays absent.
            get(&[(0, 0, 0), (1, 0, 0), (9, 0, 0), (10, 0, 0)]);
            // A page that is kept by a guard, which is not forgotten over one that stays by itself.
            assert_eq!(get(&[(9, 0, 0), (9, 1, 2), (0, 1, 2), (9, 1, 2), (1, 1, 2), (10, 1, 3)]), 3);
            // Glances are counted, though pages of the other kind come between.
            assert_eq!(get(&[(9, 0, 0), (0, 0, 0), (10, 0, 0), (1, 0, 0)]), 2);
        });
        session.unmap(map).unwrap();
    });
}

/// Files that are mapped and unmapped in any order, of which some have room as a whole, against plain arrays.
#[test]
fn files_that_come_and_go() {
    const ROUNDS: u64 = 15;
    let scratch = Scratch::new("whole-order");
    sessions("files_that_come_and_go", 48, |session| {
        let random = Random::new(11);
        let mut mapped: Vec<(MappingMut, String, Vec<u64>)> = Vec::new();
        for round in 0..ROUNDS {
            if mapped.len() > 4 || (!mapped.is_empty() && random.one_in(3)) {
                let (map, name, wanted) = mapped.swap_remove(random.below(mapped.len()));
                session.unmap_mut(map).unwrap();
                assert_eq!(fs::read(scratch.path(&name)).unwrap(), bytes_of(&wanted), "round {round}");
            } else {
                let pages = random.pick(&[0, 1, 3, 7, 8, 9, 20, 39, 40, 47, 60]);
                let count = pages * EACH + if random.one_in(2) { random.word_below(EACH) } else { 0 };
                let (name, wanted) = (format!("file{round}"), numbers(count));
                let map = session.map_mut(file(&scratch, &name, &wanted)).unwrap();
                mapped.push((map, name, wanted));
            }
            for (map, _, wanted) in &mut mapped {
                let count = wanted.len() as u64;
                // In the second, what the first has brought may be there as a whole.
                for (kernel, every) in [(0, 1), (1, 1 + random.word_below(EACH))] {
                    let expected = &*wanted;
                    each(session, 40, |fs, lane| {
                        fs.view_mut::<u64, _>(*map, 0, count, |view| {
                            for at in (lane * every..count).step_by(40 * every as usize) {
                                assert_eq!(view.get(at), Ok(expected[at as usize]), "{kernel}, element {at}");
                                view.set(at, expected[at as usize] ^ round).unwrap();
                            }
                        })
                        .unwrap();
                    });
                    for at in (0..count).step_by(every as usize) {
                        wanted[at as usize] ^= round;
                    }
                }
            }
        }
        for (map, name, wanted) in mapped {
            assert_eq!(fs::read(scratch.path(&name)).unwrap(), bytes_of(&wanted));
            session.unmap_mut(map).unwrap();
        }
    });
}

/// Pages that were brought stay while other files come that have room, and leave half of the cache to one that has none.
#[test]
fn who_stays_when_another_comes() {
    let scratch = Scratch::new("whole-stay");
    let brought = |session: &mut Session, map: Mapping, count: u64| {
        let before = session.cache_statistics().misses;
        warm(session, map, count);
        session.cache_statistics().misses - before
    };
    sessions("who_stays_when_another_comes", 64, |session| {
        let mapped = |session: &mut Session, name: &str, pages: u64| {
            session.map(file(&scratch, name, &numbers(pages * EACH))).unwrap()
        };
        // Two sets, one set, and three: two remain.
        let sizes = [("first", 16), ("second", 5), ("third", 24)];
        let maps = sizes.map(|(name, pages)| (mapped(session, name, pages), pages));
        for (map, pages) in maps {
            assert_eq!(brought(session, map, pages * EACH), pages);
        }
        // This has no room, and gets half of the sets: the one that lies before that half is brought again.
        let large = mapped(session, "large", 70);
        assert_eq!(brought(session, large, 70 * EACH), 70);
        let again = maps.map(|(map, pages)| brought(session, map, pages * EACH));
        assert_eq!(again, [0, 0, 24]);
        for (map, _) in maps {
            session.unmap(map).unwrap();
        }
        session.unmap(large).unwrap();
        // Where all have gone, one may have nearly all.
        let most = mapped(session, "most", 56);
        assert_eq!([0, 1].map(|_| brought(session, most, 56 * EACH)), [56, 0]);
        session.unmap(most).unwrap();
    });
}

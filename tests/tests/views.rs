//! Files as arrays: views of mapped files on few frames, against plain arrays, in each mode, from seeds; what errors reach whom; what is kept.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use gpufs_device::view::{Mapping, MappingMut, View, ViewMut};
use gpufs_device::{Errno, Fs, warp};
use gpufs_host::cpu::Schedule;
use gpufs_host::ring::Mode;
use gpufs_host::session::SyncError;
use gpufs_host::{Builder, CpuOptions, Grid, Session};
use gpufs_tests::random::Random;
use gpufs_tests::{MODES, Scratch, each, once, setting, skip, small, tables};

const PAGE: usize = 4096;

/// A small session with a cache of so many frames of the smallest page.
fn cached(frames: usize) -> Builder {
    small().cache(frames * PAGE).cache_page(PAGE as u32)
}

/// Sessions of eight frames in all modes, of warps of 1, 32 and 64 lanes.
fn sessions(test: &str, go: impl Fn(&mut Session)) {
    for mode in MODES {
        for width in [1, 32, 64] {
            let options = CpuOptions { width, ..CpuOptions::default() };
            match cached(8).mode(mode).cpu_with(options) {
                Ok(mut session) => go(&mut session),
                Err(refused) => skip(&format!("{test}, {mode}"), refused),
            }
        }
    }
}

fn numbers(count: u64) -> Vec<u8> {
    (0..count).flat_map(|at| (at * 3 + 1).to_le_bytes()).collect()
}

fn open(path: &std::path::Path) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

#[test]
fn every_lane_reads_any_element() {
    const COUNT: u64 = 40 * 512 + 77;
    let scratch = Scratch::new("views-read");
    let mut content = numbers(COUNT);
    content.extend([1, 2, 3]);
    fs::write(scratch.path("file"), &content).unwrap();
    sessions("every_lane_reads_any_element", |session| {
        let map = session.map(File::open(scratch.path("file")).unwrap()).unwrap();
        each(session, 150, |fs, lane| {
            let random = Random::of_case(7, lane);
            fs.view::<u64, _>(map, 0, COUNT + 1, |view| {
                assert_eq!(view.len(), COUNT + 1);
                for _ in 0..30 {
                    let at = random.word_below(COUNT);
                    assert_eq!(view.get(at), Ok(at * 3 + 1));
                }
                // A scan, of the lanes of a warp side by side, and to the last element.
                for at in (lane..COUNT).step_by(150) {
                    assert_eq!(view.get(at), Ok(at * 3 + 1));
                }
                assert_eq!(view.get(COUNT), Err(Errno::NXIO), "three bytes are no element");
                assert_eq!(view.get(COUNT + 1), Err(Errno::INVAL));
            })
            .unwrap();
            // From the middle of a page, smaller elements, and behind the end of the file.
            let behind = fs.view::<u16, _>(map, PAGE as u64 + 6, 10, |view| view.get(1)).unwrap();
            assert_eq!(behind.unwrap().to_le_bytes(), content[PAGE + 8..PAGE + 10]);
            let beyond = fs.view::<u8, _>(map, 50 * PAGE as u64, 10, |view| view.get(1));
            assert_eq!(beyond, Ok(Err(Errno::NXIO)));
            assert_eq!(fs.view::<u64, _>(map, 4, 1, |_| ()), Err(Errno::INVAL));
        });
        let statistics = session.cache_statistics();
        assert!(statistics.misses >= 41 && statistics.evictions >= 33, "{statistics:?}");
        session.unmap(map).unwrap();
        assert_eq!(each(session, 1, |fs, _| fs.view::<u64, _>(map, 0, 1, |_| ())), [Err(Errno::BADF)]);
        let unmapped = session.unmap(map).unwrap_err();
        assert!(unmapped.to_string().contains("Bad file"), "{unmapped}");
    });
}

/// What a lane does in its own elements, one in `lanes`, beside a plain array of them.
fn program(view: &ViewMut<'_, u64>, random: &Random, (lane, lanes): (u64, u64), own: &mut [u64]) {
    for _ in 0..60 {
        let at = random.below(own.len());
        let index = at as u64 * lanes + lane;
        match random.below(12) {
            0..4 => assert_eq!(view.get(index), Ok(own[at]), "lane {lane}, element {index}"),
            4..8 => {
                own[at] = random.bits();
                view.set(index, own[at]).unwrap();
            }
            8 | 9 => {
                let more = random.bits();
                assert_eq!(view.add(index, more), Ok(own[at]));
                own[at] = own[at].wrapping_add(more);
            }
            10 => {
                for (next, wanted) in own.iter().enumerate().skip(at).take(5) {
                    assert_eq!(view.get(next as u64 * lanes + lane), Ok(*wanted));
                }
            }
            _ if random.one_in(4) => view.flush().unwrap(),
            _ => {}
        }
    }
}

/// Random programs on eight frames: reads, stores, sums, flushes; every page is everybody's, every element one lane's.
fn random_programs(mode: Mode, width: u32, seed: u64) {
    const LANES: u64 = 70;
    const OWN: u64 = 150;
    let scratch = Scratch::new("views-random");
    let path = scratch.path("file");
    let count = LANES * OWN + 1;
    fs::write(&path, numbers(count)).unwrap();
    let options = CpuOptions { width, schedule: Schedule::Seeded(seed), ..CpuOptions::default() };
    let mut session = match cached(8).mode(mode).cpu_with(options) {
        Ok(session) => session,
        Err(refused) => return skip(&format!("random_programs, {mode}"), refused),
    };
    let map = session.map_mut(open(&path)).unwrap();
    let results = each(&mut session, LANES as u32, |fs, lane| {
        let random = Random::of_case(seed, lane);
        let mut own: Vec<u64> = (0..OWN).map(|at| (at * LANES + lane) * 3 + 1).collect();
        fs.view_mut::<u64, _>(map, 0, count, |view| {
            program(view, &random, (lane, LANES), &mut own);
            // One that all add to.
            view.add(count - 1, lane).unwrap();
        })
        .unwrap();
        own
    });
    let content = fs::read(&path).unwrap();
    assert_eq!(content.len() as u64, count * 8);
    for (index, word) in content.chunks_exact(8).enumerate() {
        let found = u64::from_le_bytes(word.try_into().unwrap());
        let index = index as u64;
        let wanted = if index == count - 1 {
            (count - 1) * 3 + 1 + LANES * (LANES - 1) / 2
        } else {
            results[(index % LANES) as usize][(index / LANES) as usize]
        };
        assert_eq!(found, wanted, "{mode}, width {width}, seed {seed}: element {index}");
    }
    let statistics = session.cache_statistics();
    assert!(statistics.evictions > 0 && statistics.write_backs > 0, "{statistics:?}");
}

#[test]
fn random_programs_against_plain_arrays() {
    let seeds = setting("GPUFS_VIEW_SEEDS", 2);
    let first = setting("GPUFS_SEED", 1);
    for seed in first..first + seeds {
        for mode in MODES {
            for width in [1, 32, 64] {
                random_programs(mode, width, seed);
            }
        }
    }
}

#[test]
fn many_warps_share_few_frames() {
    let scratch = Scratch::new("views-many");
    const COUNT: u64 = 64 * 512;
    fs::write(scratch.path("sums"), vec![0; COUNT as usize * 8]).unwrap();
    for mode in MODES {
        let mut session = match cached(16).mode(mode).cpu() {
            Ok(session) => session,
            Err(refused) => return skip("many_warps_share_few_frames", refused),
        };
        let map = session.map_mut(open(&scratch.path("sums"))).unwrap();
        session
            .run(Grid { blocks: 8, threads: 64 }, |fs| {
                let thread = warp::global_thread();
                fs.view_mut::<u64, _>(map, 0, COUNT, |view| {
                    for round in 0..16 {
                        let at = (thread * 977 + round * 4099) % COUNT;
                        view.add(at, 1).unwrap();
                    }
                })
                .unwrap();
            })
            .unwrap();
        let content = fs::read(scratch.path("sums")).unwrap();
        let sum: u64 = content.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).sum();
        assert_eq!(sum, 8 * 64 * 16, "{mode}");
        session.unmap_mut(map).unwrap();
        fs::write(scratch.path("sums"), vec![0; COUNT as usize * 8]).unwrap();
    }
}

#[test]
fn pins_keep_their_pages_and_leave_room() {
    let scratch = Scratch::new("views-pins");
    let content = numbers(30 * 512);
    fs::write(scratch.path("file"), &content).unwrap();
    sessions("pins_keep_their_pages_and_leave_room", |session| {
        let map = session.map(File::open(scratch.path("file")).unwrap()).unwrap();
        each(session, 3, |fs, lane| {
            fs.view::<u64, _>(map, 0, 30 * 512, |view| {
                // All lanes keep the same seven pages; an eighth is refused, and each other page can be read.
                let pins: Vec<_> = (0..7).map(|page| view.pin(page * 512, 512).unwrap()).collect();
                for page in 7..30 {
                    assert_eq!(view.pin(page * 512, 1).map(|pin| pin[0]), Err(Errno::BUSY));
                    assert_eq!(view.get(page * 512 + lane), Ok((page * 512 + lane) * 3 + 1));
                    assert_eq!(view.get(page * 512 + lane + 1), Ok((page * 512 + lane + 1) * 3 + 1));
                }
                for (page, pin) in (0_u64..).zip(&pins) {
                    let wanted: Vec<u64> = (page * 512..(page + 1) * 512).map(|at| at * 3 + 1).collect();
                    assert_eq!(pin[..], wanted);
                }
                // A page that others still keep is no more than seven.
                assert_eq!(view.pin(3 * 512 + 5, 2).map(|pin| pin.to_vec()), Ok(pins[3][5..7].to_vec()));
                drop(pins);
                assert_eq!(view.pin(500, 20).map(|pin| pin[0]), Err(Errno::INVAL), "in two pages");
                // As far as its page goes, and no farther.
                for (first, rest) in [(0, 512), (500, 12), (511, 1), (512, 512)] {
                    assert_eq!(view.rest_of_page(first), rest);
                    assert_eq!(view.pin(first, rest as usize).map(|pin| pin[0]), Ok(first * 3 + 1));
                    assert_eq!(view.pin(first, rest as usize + 1).map(|pin| pin[0]), Err(Errno::INVAL));
                }
                let part = |view: &View<'_, u64>| [0, 11, 12, 29, 30].map(|first| view.rest_of_page(first));
                // A view that begins and ends within a page.
                assert_eq!(fs.view::<u64, _>(map, 8 * 500, 30, part), Ok([12, 1, 18, 1, 0]));
                assert_eq!(view.rest_of_page(u64::MAX), 0);
                assert_eq!(view.pin(30 * 512, 1).map(|pin| pin[0]), Err(Errno::INVAL));
            })
            .unwrap();
        });
        // What was kept is free again.
        each(session, 1, |fs, _| {
            fs.view::<u64, _>(map, 0, 30 * 512, |view| {
                for page in 0..30 {
                    assert_eq!(view.pin(page * 512, 1).map(|pin| pin[0]), Ok(page * 512 * 3 + 1));
                }
            })
            .unwrap();
        });
    });
}

#[test]
fn lanes_pin_beside_lanes_that_load() {
    let scratch = Scratch::new("views-beside");
    const COUNT: u64 = 30 * 512;
    fs::write(scratch.path("file"), numbers(COUNT)).unwrap();
    sessions("lanes_pin_beside_lanes_that_load", |session| {
        let map = session.map(File::open(scratch.path("file")).unwrap()).unwrap();
        each(session, 130, |fs, lane| {
            let random = Random::of_case(9, lane);
            fs.view::<u64, _>(map, 0, COUNT, |view| {
                for _ in 0..40 {
                    let at = random.word_below(COUNT);
                    if random.one_in(2) {
                        assert_eq!(view.get(at), Ok(at * 3 + 1));
                        continue;
                    }
                    let count = random.word_below(512 - at % 512) as usize + 1;
                    match view.pin(at, count) {
                        Ok(pin) => assert!((at..).zip(&*pin).all(|(at, found)| *found == at * 3 + 1)),
                        Err(errno) => assert_eq!(errno, Errno::BUSY),
                    }
                }
            })
            .unwrap();
        });
        // Nothing is kept.
        each(session, 1, |fs, _| {
            fs.view::<u64, _>(map, 0, COUNT, |view| {
                let pins: Vec<_> = (0..7).map(|page| view.pin(page * 512, 512).unwrap()).collect();
                assert_eq!(view.pin(9 * 512, 1).map(|pin| pin[0]), Err(Errno::BUSY));
                drop(pins);
            })
            .unwrap();
        });
    });
}

/// A file in memory, and what makes it take no more writes.
#[expect(unsafe_code, reason = "system calls of the host's")]
fn sealed(bytes: usize) -> (File, impl Fn()) {
    // SAFETY:
    // - a name, and flags
    let number = unsafe { libc::memfd_create(c"views".as_ptr(), libc::MFD_ALLOW_SEALING) };
    assert!(number >= 0);
    // SAFETY:
    // - made above, and nobody else's
    let file = File::from(unsafe { OwnedFd::from_raw_fd(number) });
    file.write_all_at(&vec![7; bytes], 0).unwrap();
    let own = file.try_clone().unwrap();
    let seal = move || {
        // SAFETY:
        // - an open descriptor; no memory is involved
        let outcome = unsafe { libc::fcntl(own.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_WRITE) };
        assert_eq!(outcome, 0);
    };
    (file, seal)
}

#[test]
fn what_cannot_be_written_is_said_and_kept() {
    for mode in MODES {
        let mut session = match cached(8).mode(mode).cpu() {
            Ok(session) => session,
            Err(refused) => return skip("what_cannot_be_written_is_said_and_kept", refused),
        };
        let (file, seal) = sealed(20 * PAGE);
        let map = session.map_mut(file).unwrap();
        let store = |fs: Fs, map: MappingMut, at: u64| {
            fs.view_mut::<u32, _>(map, 0, 20 * 1024, |view| view.set(at, 99)).unwrap()
        };
        assert_eq!(each(&mut session, 1, |fs, _| store(fs, map, 0)), [Ok(())]);
        seal();
        let outcome = once_failing(&mut session, |fs| {
            let stored: Vec<_> = (0..8).map(|page| store(fs, map, page * 1024)).collect();
            assert!(stored.iter().all(Result::is_ok), "as many as there are frames: {stored:?}");
            fs.view_mut::<u32, _>(map, 0, 20 * 1024, |view| {
                assert_eq!(view.flush(), Err(Errno::PERM));
                assert_eq!(view.get(9 * 1024), Err(Errno::PERM), "no room without a write");
                assert_eq!(view.get(3 * 1024), Ok(99), "it is kept");
            })
            .unwrap();
        });
        match outcome {
            Err(SyncError::Cache(error)) => {
                assert_eq!((error.errno, error.pages), (Errno::PERM, 8), "{mode}");
            }
            other => panic!("{mode}: {other:?}"),
        }
        assert!(session.unmap_mut(map).unwrap_err().to_string().contains("8 pages"));
    }
}

/// Runs `kernel` in one lane: what synchronizing said.
fn once_failing(session: &mut Session, kernel: impl Fn(Fs) + Sync) -> Result<(), SyncError> {
    session.run(Grid { blocks: 1, threads: 1 }, kernel)
}

#[test]
fn a_flush_is_seen_by_others() {
    let scratch = Scratch::new("views-flush");
    fs::write(scratch.path("file"), vec![0; 3 * PAGE + 10]).unwrap();
    sessions("a_flush_is_seen_by_others", |session| {
        let (path, file) = (scratch.path("file"), open(&scratch.path("file")));
        let map = session.map_mut(file).unwrap();
        each(session, 40, |fs, lane| {
            fs.view_mut::<u32, _>(map, 0, 3 * 1024 + 2, |view| {
                view.set(lane * 70, lane as u32 + 1).unwrap();
                view.flush().unwrap();
                let mut found = [0; 4];
                File::open(&path).unwrap().read_exact_at(&mut found, lane * 280).unwrap();
                assert_eq!(u32::from_le_bytes(found), lane as u32 + 1, "lane {lane}");
                assert_eq!(view.set(3 * 1024 + 1, 5), Ok(()));
                assert_eq!(view.sync(), Ok(()));
            })
            .unwrap();
        });
        assert_eq!(fs::metadata(&path).unwrap().len(), 3 * PAGE as u64 + 10, "no view makes a file longer");
    });
}

#[test]
fn short_reads_are_continued() {
    const NAME: &str = "short_reads_are_continued";
    // A file of the system's that one read returns in pieces, however much is asked for.
    let Ok(whole) = fs::read("/proc/kallsyms") else { return skip(NAME, "there is no /proc/kallsyms") };
    let mut session = small().cache(8 << 20).cache_page(64 << 10).cpu().unwrap();
    let map = session.map(File::open("/proc/kallsyms").unwrap()).unwrap();
    let count = (whole.len() as u64).min(300 << 10);
    each(&mut session, 32, |fs, lane| {
        fs.view::<u8, _>(map, 0, whole.len() as u64, |view| {
            for at in (lane..count).step_by(32 * 101) {
                assert_eq!(view.get(at), Ok(whole[at as usize]), "byte {at}");
            }
        })
        .unwrap();
    });
    // No read goes on beyond its page.
    assert!(tables(&session).cache.frames().iter().all(|frame| frame.valid() <= 64 << 10));
}

#[test]
fn the_end_of_a_file_that_was_cut() {
    let scratch = Scratch::new("views-cut");
    fs::write(scratch.path("file"), numbers(4 * 512)).unwrap();
    let mut session = cached(8).cpu().unwrap();
    let map = session.map(File::open(scratch.path("file")).unwrap()).unwrap();
    let get =
        |fs: Fs, map: Mapping, at: u64| fs.view::<u64, _>(map, 0, 4 * 512, |view| view.get(at)).unwrap();
    assert_eq!(each(&mut session, 1, |fs, _| get(fs, map, 3 * 512)), [Ok(3 * 512 * 3 + 1)]);
    open(&scratch.path("file")).set_len(100).unwrap();
    let found = each(&mut session, 1, |fs, _| {
        [get(fs, map, 3 * 512), get(fs, map, 512), get(fs, map, 2), get(fs, map, 13)]
    });
    let held = Ok(3 * 512 * 3 + 1);
    assert_eq!(found, [[held, Err(Errno::NXIO), Ok(7), Err(Errno::NXIO)]]);
    // Its pages leave the cache with the mapping.
    session.unmap(map).unwrap();
    let map = session.map(File::open(scratch.path("file")).unwrap()).unwrap();
    assert_eq!(each(&mut session, 1, |fs, _| get(fs, map, 3 * 512)), [Err(Errno::NXIO)]);
}

#[test]
fn who_may_not() {
    let scratch = Scratch::new("views-refused");
    fs::write(scratch.path("file"), [0; 64]).unwrap();
    let file = || File::open(scratch.path("file")).unwrap();
    let mut without = small().cpu().unwrap();
    assert!(without.map(file()).unwrap_err().to_string().contains("Builder::cache"));
    let mut session = cached(8).cpu().unwrap();
    assert!(session.map_mut(file()).unwrap_err().to_string().contains("Permission denied"));
    let (reader, _writer) = std::io::pipe().unwrap();
    assert!(session.map(OwnedFd::from(reader)).unwrap_err().to_string().contains("No such device"));
    let map = session.map(file()).unwrap();
    // A thread of the host's, and another session's lane.
    let viewed = session.with_tables(|fs| fs.view::<u8, _>(map, 0, 1, |view| view.get(0)).map(drop)).unwrap();
    assert_eq!(viewed, Err(Errno::OPNOTSUPP));
    let (other, theirs) = (once(&mut session, |fs| fs), &mut without);
    let viewed = each(theirs, 1, |_, _| other.view::<u8, _>(map, 0, 1, |view| view.get(0)).map(drop));
    assert_eq!(viewed, [Err(Errno::OPNOTSUPP)]);
    for (builder, text) in [
        (small().cache(1000), "cache: 1000 bytes hold fewer than 8 pages; raise it to 524288"),
        (
            small().cache(1 << 20).cache_page(5000),
            "cache_page: 5000 is not a power of two from 4096 to 1048576",
        ),
        (small().cache_page(2048), "cache_page: 2048 is not a power of two"),
    ] {
        let refused = builder.cpu().unwrap_err().to_string();
        assert!(refused.contains(text), "{refused}");
    }
}

/// `prefetch` asks the system once and touches no page; `sync` is a flush and one `fdatasync`.
#[test]
fn what_prefetch_and_sync_ask() {
    let scratch = Scratch::new("views-asks");
    fs::write(scratch.path("file"), numbers(30 * 512)).unwrap();
    sessions("what_prefetch_and_sync_ask", |session| {
        let map = session.map(File::open(scratch.path("file")).unwrap()).unwrap();
        let write = session.map_mut(open(&scratch.path("file"))).unwrap();
        let operations = |session: &mut Session, kernel: &(dyn Fn(Fs) + Sync)| {
            let before = session.statistics().total().operations;
            once(session, kernel);
            session.statistics().total().operations - before
        };
        let prefetched = operations(session, &|fs| {
            fs.view::<u64, _>(map, 512 * 8, 28 * 512, |view| {
                assert_eq!(view.prefetch(0, 28 * 512), Ok(()));
                assert_eq!(view.prefetch(1, 28 * 512), Err(Errno::INVAL));
                assert_eq!(view.prefetch(u64::MAX, 2), Err(Errno::INVAL));
            })
            .unwrap();
        });
        assert_eq!(prefetched, 1);
        let changed = |syncs: bool| {
            move |fs: Fs| {
                fs.view_mut::<u64, _>(write, 0, 512, |view| {
                    view.set(3, 10).unwrap();
                    let done = if syncs { view.sync() } else { view.flush() };
                    assert_eq!(done, Ok(()));
                })
                .unwrap();
            }
        };
        // The page is there from the first time on.
        once(session, changed(false));
        let flushed = operations(session, &changed(false));
        assert_eq!(operations(session, &changed(true)), flushed + 1);
    });
}

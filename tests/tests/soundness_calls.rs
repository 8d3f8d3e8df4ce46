//! Programs of safe Rust whose own code runs in the middle of a call, or between the steps of one, and misuses that.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use gpufs_core::session::FileIndex;
use gpufs_device::Errno;
use gpufs_host::{Builder, CpuOptions, Session};
use gpufs_tests::{MODES, Scratch, each, lanes, small};

/// Sessions of this process take each other's memory: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn options() -> CpuOptions {
    CpuOptions { threads: 2, ..CpuOptions::default() }
}

fn open(builder: &Builder) -> Session {
    builder.clone().cpu_with(options()).unwrap()
}

/// Prints more than a lane's own memory holds, does something, and prints more.
struct Interrupted<F: Fn()>(F);

impl<F: Fn()> fmt::Display for Interrupted<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let long = "a long text, ".repeat(100);
        f.write_str(&long)?;
        (self.0)();
        f.write_str(&long)
    }
}

/// A text lies in its session's memory, which goes while the text is still being formatted.
#[test]
fn a_session_is_closed_while_a_text_is_formatted() {
    let _alone = alone();
    let scratch = Scratch::new("sound-text-closed");
    for mode in MODES {
        let Ok(session) = small().mode(mode).cpu_with(options()) else { continue };
        let log = session.fs().fopen(&scratch.c("log"), c"w").unwrap();
        let (begun, closed) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let prints = thread::spawn({
            let (begun, closed) = (Arc::clone(&begun), Arc::clone(&closed));
            move || {
                log.write_fmt(format_args!(
                    "{}",
                    Interrupted(|| {
                        begun.wait();
                        closed.wait();
                    })
                ))
            }
        });
        begun.wait();
        drop(session);
        closed.wait();
        assert_eq!(prints.join().unwrap(), Err(Errno::BADF), "{mode}");
    }
}

/// The same, by the text itself; and a later session has the memory then, whose texts stay whole.
#[test]
fn a_text_closes_its_session() {
    let _alone = alone();
    let scratch = Scratch::new("sound-text-closes");
    let builder = small();
    let own = Mutex::new(Some(open(&builder)));
    let later = Mutex::new(None);
    let log = own.lock().unwrap().as_ref().unwrap().fs().fopen(&scratch.c("log"), c"w").unwrap();
    let printed = log.write_fmt(format_args!(
        "{}",
        Interrupted(|| {
            drop(own.lock().unwrap().take());
            let session = open(&builder);
            let log = session.fs().fopen(&scratch.c("later"), c"w").unwrap();
            log.write_fmt(format_args!("{}", Interrupted(|| ()))).unwrap();
            *later.lock().unwrap() = Some(session);
        })
    ));
    assert_eq!(printed, Err(Errno::BADF));
    drop(later);
    assert_eq!(scratch.read("later"), "a long text, ".repeat(200).as_bytes());
    assert_eq!(scratch.read("log"), b"");
}

const PAGE: usize = 4096;

/// A small session with eight frames of the smallest page.
fn cached() -> Builder {
    small().cache(8 * PAGE).cache_page(PAGE as u32)
}

/// A slice of a page is plain memory, so the page stays, however many slices of it were forgotten.
#[test]
fn a_page_stays_while_a_slice_of_it_is_kept() {
    /// With the one that is kept, one more than a frame's word can count.
    const FORGOTTEN: u32 = (1 << 24) - 1;
    let _alone = alone();
    let scratch = Scratch::new("sound-pins");
    std::fs::write(scratch.path("file"), (0..20 * PAGE).map(|at| (at / PAGE) as u8).collect::<Vec<u8>>())
        .unwrap();
    let mut session = cached().cpu_with(CpuOptions { width: 1, ..options() }).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(scratch.path("file")).unwrap();
    let map = session.map(file).unwrap();
    let refused = each(&mut session, 1, |fs, _| {
        fs.view::<u8, _>(map, 0, 20 * PAGE as u64, |view| {
            let kept = view.pin(0, PAGE).unwrap();
            let refused = (0..FORGOTTEN).find_map(|_| view.pin(0, 1).map(std::mem::forget).err());
            // As many others as there may be, so that there is no room but in its place.
            let others: Vec<_> = (1..8).map(|page| view.pin((page * PAGE) as u64, PAGE)).collect();
            for page in 8..20 {
                assert_eq!(view.get((page * PAGE) as u64), Ok(page as u8));
            }
            drop(others);
            assert!(kept.iter().all(|byte| *byte == 0), "another page's bytes");
            refused
        })
        .unwrap()
    });
    assert_eq!(refused, [Some(Errno::BUSY)]);
}

/// A mapping is of the session that made it: a later one, or another, has files of its own in the same entry.
#[test]
fn a_mapping_is_its_own_sessions() {
    let _alone = alone();
    let scratch = Scratch::new("sound-mapping");
    for name in ["one", "other"] {
        std::fs::write(scratch.path(name), name).unwrap();
    }
    let file = |name| std::fs::File::options().read(true).write(true).open(scratch.path(name)).unwrap();
    let mut first = open(&cached());
    let (kept, kept_mut) = (first.map(file("one")).unwrap(), first.map_mut(file("one")).unwrap());
    let refused = |session: &mut Session| {
        let (own, own_mut) = (session.map(file("other")).unwrap(), session.map_mut(file("other")).unwrap());
        each(session, 1, |fs, _| {
            assert_eq!(fs.view::<u8, _>(kept, 0, 1, |_| ()), Err(Errno::BADF));
            assert_eq!(fs.view_mut::<u32, _>(kept_mut, 0, 1, |_| ()), Err(Errno::BADF));
        });
        assert!(session.unmap(kept).is_err() && session.unmap_mut(kept_mut).is_err());
        session.unmap(own).unwrap();
        session.unmap_mut(own_mut).unwrap();
    };
    refused(&mut open(&cached().ring_entries(256)));
    drop(first);
    refused(&mut open(&cached()));
}

/// The numbers of the files that the session itself has registered are easily guessed: they are not taken back under its mappings and channels,
/// whose bytes would then go to whatever file has the number next.
#[test]
fn files_of_mappings_and_channels_are_not_taken_back() {
    let _alone = alone();
    let scratch = Scratch::new("sound-numbers");
    std::fs::write(scratch.path("mapped"), [1; PAGE]).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(scratch.path("mapped")).unwrap();
    let mut session = open(&cached());
    let map = session.map_mut(file).unwrap();
    let (numbers, sender) = session.channel_from_kernels::<u64>(4).unwrap();
    for number in 0..64 {
        let refused = session.unregister_file(FileIndex(number)).unwrap_err().to_string();
        let busy = [3, 4, 5].contains(&number);
        assert!(refused.contains(if busy { "EBUSY" } else { "EBADF" }), "{number}: {refused}");
    }
    let others: Vec<_> = (0..4)
        .map(|number| {
            let path = scratch.path(&format!("other-{number}"));
            std::fs::write(&path, [2; PAGE]).unwrap();
            session
                .register_file(std::fs::File::options().read(true).write(true).open(&path).unwrap())
                .unwrap();
            path
        })
        .collect();
    let waits = thread::spawn(move || numbers.receive());
    session
        .run(lanes(1), |fs| {
            assert_eq!(fs.view_mut::<u32, _>(map, 0, 1, |view| view.set(0, 7)), Ok(Ok(())));
            sender.send(fs, 12).unwrap();
        })
        .unwrap();
    assert_eq!(waits.join().unwrap(), Some(12));
    session.unmap_mut(map).unwrap();
    drop(session);
    assert_eq!(scratch.read("mapped")[..4], 7_u32.to_ne_bytes());
    for other in others {
        assert_eq!(std::fs::read(&other).unwrap(), [2; PAGE], "{other:?}");
    }
}

/// What a program may keep of channels of a closed session, from lanes of a later one that has its memory.
#[test]
fn ends_of_channels_that_were_kept() {
    let _alone = alone();
    for mode in MODES {
        // Sessions of no other test have these choices, and so this memory.
        let builder = small().mode(mode).ring_entries(64);
        let Ok(mut session) = builder.clone().cpu_with(options()) else { continue };
        let (to, receiver) = session.channel_to_kernels::<u64>(4).unwrap();
        let (from, sender) = session.channel_from_kernels::<u64>(4).unwrap();
        to.send(5).unwrap();
        // Nobody takes it, and whoever waits for more is told.
        let waits = thread::spawn({
            let from = from.clone();
            move || from.receive()
        });
        let tables = session.device_tables();
        drop(session);
        assert_eq!(waits.join().unwrap(), None, "{mode}");
        assert_eq!((to.send(6), from.receive()), (Err(Errno::PIPE), None), "{mode}");
        let mut later = open(&builder);
        let (_to, own) = later.channel_to_kernels::<u64>(4).unwrap();
        assert_eq!(later.device_tables(), tables, "{mode}: the same memory");
        let got = each(&mut later, 40, |fs, _| {
            assert_eq!(own.try_receive(fs), Err(Errno::AGAIN));
            (receiver.receive(fs), sender.send(fs, 1), receiver.is_closed(fs))
        });
        let closed = (Err(Errno::BADF), Err(Errno::BADF), Err(Errno::BADF));
        assert!(got.iter().all(|got| *got == closed), "{mode}: {got:?}");
        // A lane that calls on its own session with another's.
        let other = open(&small().mode(mode).ring_entries(256));
        let fs = other.fs();
        let ran = later.run(lanes(1), move |_| _ = own.try_receive(fs));
        assert!(ran.unwrap_err().to_string().contains("another session"), "{mode}");
    }
}

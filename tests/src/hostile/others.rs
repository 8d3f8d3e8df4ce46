//! Another session of the same process: a kernel of it waits for a pipe's bytes, and has to wait on, and to get them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpufs_core::abi::{IORING_OP_ASYNC_CANCEL, Sqe};
use gpufs_core::{Operation, Slot};
use gpufs_device::Fs;
use gpufs_device::file::Descriptor;
use gpufs_host::Session;

use super::{Attempt, Expected, Scene, Seen, Way, World, builder};

const MSG_RING: u8 = 40;
/// What the kernel that waits is given in the end.
const SENT: &[u8] = b"at last";
/// Entries of a batch.
const BATCH: usize = 32;

/// What the other session's read returned, and the bytes.
type Got = Arc<Mutex<Option<(Result<usize, gpufs_core::Errno>, Vec<u8>)>>>;

struct Victim {
    session: Session,
    got: Got,
    writer: std::io::PipeWriter,
    /// The descriptor of its ring.
    ring: i32,
}

impl Victim {
    fn new(way: Way) -> Self {
        let before = Scene::descriptors();
        // Others' sessions are not in a sandbox.
        let mut session = builder(way).deadline(crate::patience()).cpu().expect("another session");
        let new = Scene::descriptors()
            .into_iter()
            .find(|(number, target)| target.contains("io_uring") && before.get(number) != Some(target));
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let reader = Descriptor(session.register_file(reader).expect("a place").0);
        let got = Got::default();
        let gets = Arc::clone(&got);
        let waits = move |fs: Fs| {
            let mut bytes = [0; 16];
            let read = fs.read(reader, &mut bytes);
            *gets.lock().expect("one lane") = Some((read, bytes[..read.unwrap_or(0).min(16)].to_vec()));
        };
        session.launch(crate::lanes(1), waits).expect("a kernel");
        let tables = crate::tables(&session);
        let started = Instant::now();
        // Ends: the lane submits.
        while tables.all_queues().iter().all(|queue| queue.free_slots() == queue.capacity()) {
            assert!(started.elapsed() < crate::patience(), "the lane waits");
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(5));
        Self { session, got, writer, ring: new.map_or(1023, |(number, _)| number) }
    }

    /// Whether it still waited, and got what was sent.
    fn check(mut self, world: &World, seen: Seen) -> Seen {
        use std::io::Write as _;
        // Once more for what is under way.
        std::thread::sleep(Duration::from_millis(20));
        if let Some(early) = self.got.lock().expect("no panic").take() {
            let _ = world;
            std::mem::forget(self.session);
            return Seen::Harm(format!("another session's read ended early: {early:?}"));
        }
        self.writer.write_all(SENT).expect("room in the pipe");
        self.session.synchronize().expect("the kernel ends");
        let got = self.got.lock().expect("no panic").take();
        match got {
            Some((Ok(7), bytes)) if bytes == SENT => seen,
            other => Seen::Harm(format!("another session's read got {other:?}")),
        }
    }
}

/// Results of entries, batch by batch: the first that succeeded, or the last error.
fn each(world: &mut World, entries: &[Sqe]) -> Seen {
    let mut seen = Seen::Silent;
    for batch in entries.chunks(BATCH) {
        for result in world.submit(batch) {
            match Seen::reached(result) {
                Seen::Refused(errno) => seen = Seen::Refused(errno),
                Seen::Silent => {}
                reached => return reached,
            }
        }
    }
    seen
}

/// Every operation that the other session may have in flight.
fn tokens() -> impl Iterator<Item = u64> {
    (1..=4)
        .flat_map(|generation| (0..128).map(move |slot| Operation { slot: Slot(slot), generation }.token()))
}

pub(super) fn attempts() -> Vec<Attempt> {
    let mut attempts = Vec::new();
    // Of `ASYNC_CANCEL`: by name, by any name, by descriptor, everything.
    for (name, flags) in
        [("by its name", 0), ("all of a name", 1), ("by a descriptor", 2), ("everything", 1 | 4)]
    {
        // A ring's cancelling reaches its own operations alone; where none is found it says so, and where all are asked for it says how many.
        attempts.push(Attempt::new(
            "ASYNC_CANCEL of another session's read",
            name,
            Expected::Own,
            move |world| {
                let victim = Victim::new(world.way);
                let cancel = |user_data| Sqe {
                    opcode: IORING_OP_ASYNC_CANCEL,
                    addr: user_data,
                    op_flags: flags,
                    ..Sqe::default()
                };
                let entries: Vec<Sqe> = if flags & 6 == 0 {
                    tokens().map(cancel).collect()
                } else {
                    (0..64).map(|fd| Sqe { fd, ..cancel(0) }).collect()
                };
                let results = entries.chunks(BATCH).flat_map(|batch| world.submit(batch)).collect::<Vec<_>>();
                let last = results.into_iter().flatten().last();
                victim.check(world, Seen::done(last))
            },
        ));
    }
    attempts.push(Attempt::new(
        "MSG_RING: a completion for another session's read",
        "",
        Expected::Error,
        |world| {
            let victim = Victim::new(world.way);
            let ring = victim.ring;
            let entries: Vec<Sqe> = tokens()
                .map(|token| Sqe { opcode: MSG_RING, fd: ring, len: 5, off: token, ..Sqe::default() })
                .collect();
            let seen = each(world, &entries);
            victim.check(world, seen)
        },
    ));
    links(&mut attempts);
    attempts.push(Attempt::new("the bytes of another session's pipe", "", Expected::Harm, |world| {
        let victim = Victim::new(world.way);
        let pipes = Scene::descriptors().into_iter().filter(|(_, target)| target.starts_with("pipe:"));
        let entries: Vec<Sqe> =
            pipes.map(|(fd, _)| Sqe::write(fd, world.text(0x4000, b"forged!"), 7, u64::MAX)).collect();
        let seen = each(world, &entries);
        victim.check(world, seen)
    }));
    attempts
}

/// Link flags on the last entry of a submission, and what is behind it.
fn links(attempts: &mut Vec<Attempt>) {
    for (name, flag, well) in
        [("that fails", 4, false), ("that ends well", 4, true), ("that fails, behind a hard link", 8, false)]
    {
        attempts.push(Attempt::new("a link on the last entry", name, Expected::Own, move |world| {
            let victim = Victim::new(world.way);
            // The number of no file, or an operation that does nothing.
            let bad = if well { Sqe::nop() } else { Sqe::read(1023, world.area.base, 8, 0) };
            for _ in 0..20 {
                if world.submit(&[Sqe { flags: flag, ..bad }]) == [None] {
                    return Seen::Harm("an entry was not answered".into());
                }
            }
            // A chain ends where its submission does.
            let seen = if world.goes_on() {
                Seen::Harmless("the ring goes on".into())
            } else {
                Seen::Harm("its own session's ring stands still".into())
            };
            victim.check(world, seen)
        }));
        // Whatever stands behind it in one submission: the session's own call, here an entry that does nothing.
        attempts.push(Attempt::new(
            "a link on the last entry",
            "and what is behind it",
            Expected::Own,
            move |world| {
                let bad = if well { Sqe::nop() } else { Sqe::read(1023, world.area.base, 8, 0) };
                match world.submit(&[Sqe { flags: flag, ..bad }, Sqe::nop()])[1] {
                    Some(0) if well || flag == 8 => Seen::Harmless("done".into()),
                    Some(result) if !well && result == -libc::ECANCELED => Seen::Refused(libc::ECANCELED),
                    other => Seen::Harm(format!("the entry behind came to {other:?}")),
                }
            },
        ));
    }
}

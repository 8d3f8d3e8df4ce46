//! Forged tables: a kernel writes to the session's tables and rings, which lie in memory that it reaches, and the host acts on what it finds there.
#![expect(unsafe_code, reason = "what a hostile kernel does")]

use std::os::fd::AsRawFd as _;

use gpufs_core::QueueParts;
use gpufs_core::alloc::BufferPool;
use gpufs_core::session::{OpenFile, SessionTables};
use gpufs_device::Fs;
use gpufs_device::file::Descriptor;

use super::{Attempt, Expected, Seen};

/// The entry of the file table that is forged. The library has not taken it.
const FORGED: u32 = 50;
/// The buffer of the first stream after the standard ones.
const OWN_BUFFER: u64 = 3;

/// Makes an entry of the file table one of the host's descriptors.
fn forge(tables: &SessionTables, descriptor: i32) {
    let file = &tables.files()[FORGED as usize];
    file.descriptor.set(descriptor.cast_unsigned());
    file.position.set(0);
    file.flags.publish(OpenFile::OPEN | OpenFile::READABLE | OpenFile::WRITABLE | OpenFile::SEEKABLE);
}

fn refused<T>(outcome: Option<Result<T, gpufs_core::Errno>>) -> Seen {
    match outcome {
        Some(Err(errno)) => Seen::Refused(errno.number()),
        Some(Ok(_)) => Seen::Harm("done".into()),
        None => Seen::Silent,
    }
}

pub(super) fn attempts() -> Vec<Attempt> {
    let mut attempts = Vec::new();
    entries(&mut attempts);
    a_stream_of_the_host(&mut attempts);
    streams(&mut attempts);
    pools(&mut attempts);
    tails(&mut attempts);
    attempts
}

fn entries(attempts: &mut Vec<Attempt>) {
    attempts.push(Attempt::new("a forged entry of the file table", "written to", Expected::Harm, |world| {
        let canary = world.scene.canary.as_raw_fd();
        refused(world.lane(|fs| {
            forge(crate::tables_of(fs), canary);
            fs.pwrite(Descriptor(FORGED), b"written by a kernel", 0)
        }))
    }));
    attempts.push(Attempt::new(
        "a forged entry of the file table",
        "the end of the session",
        Expected::HarmOrOwn,
        |world| {
            let canary = world.scene.canary.as_raw_fd();
            let mut session = world.another();
            session
                .run(crate::lanes(1), |fs| forge(crate::tables_of(fs), canary))
                .expect("nothing fails here");
            drop(session);
            Seen::Harmless("the session has ended".into())
        },
    ));
}

fn a_stream_of_the_host(attempts: &mut Vec<Attempt>) {
    attempts.push(Attempt::new(
        "a forged entry of the file table",
        "the host's call of a stream",
        Expected::HarmOrOwn,
        |world| {
            // A stream of the host's on a file inside, whose descriptor becomes another's: the host's own flush goes where the entry says.
            let (canary, path) = (world.scene.canary.as_raw_fd(), world.scene.path("inside/stream"));
            let mut session = world.another();
            let Ok(file) = session.fopen(&path, "w") else { return Seen::Refused(libc::EACCES) };
            let forged = |fs: Fs| {
                assert_eq!(file.get(fs).and_then(|file| file.fwrite(b"written by a kernel")), Ok(19));
                for entry in crate::tables_of(fs).files().iter().skip(3) {
                    if entry.flags.peek() & OpenFile::OPEN != 0 {
                        entry.descriptor.set(canary.cast_unsigned());
                        entry.flags.publish(entry.flags.peek() & !OpenFile::FIXED);
                    }
                }
            };
            let ran = session.run(crate::lanes(1), forged);
            let closed = session.fclose(file);
            drop(session);
            match (ran, closed) {
                (Ok(()), Ok(())) => Seen::Harmless("flushed and closed".into()),
                _ => Seen::Refused(libc::EBADF),
            }
        },
    ));
}

/// What the host follows when it flushes: each word of an open stream's entry that is an index, a count or a shift.
fn streams(attempts: &mut Vec<Attempt>) {
    type Forge = fn(&gpufs_core::stream::Stream);
    let words: [(&str, Forge); 6] = [
        ("the file's index", |stream| stream.file.set(0xffff)),
        ("how many blocks", |stream| stream.block_count.set(u32::MAX)),
        ("no block", |stream| stream.block_count.set(0)),
        ("a block's bytes", |stream| stream.block_shift.set(63)),
        ("what is committed", |stream| stream.blocks[0].committed.set(u64::from(u32::MAX))),
        ("what is written", |stream| stream.blocks[0].written.set(u32::MAX)),
    ];
    for (name, forge) in words {
        attempts.push(Attempt::new(
            "a forged entry of the stream table",
            name,
            Expected::Own,
            move |world| {
                let path = crate::c_path(&world.scene.path("inside/stream"));
                let mut session = world.another();
                let ran = session.run(crate::lanes(1), |fs| {
                    let Ok(file) = fs.fopen(&path, c"w") else { return };
                    assert_eq!(file.fwrite(b"thirty-two bytes of a kernel's.."), Ok(32));
                    let tables = crate::tables_of(fs);
                    tables
                        .streams()
                        .iter()
                        .skip(3)
                        .filter(|one| one.generation.peek() % 2 == 1)
                        .for_each(forge);
                });
                drop(session);
                match ran {
                    Ok(()) => Seen::Harmless("flushed".into()),
                    Err(_) => Seen::Refused(libc::EIO),
                }
            },
        ));
    }
}

fn pools(attempts: &mut Vec<Attempt>) {
    attempts.push(Attempt::new(
        "a forged pool of stream buffers",
        "the flush behind the kernel",
        Expected::HarmOrOwn,
        |world| {
            let (secret, path) =
                (world.scene.secret.address(), crate::c_path(&world.scene.path("inside/stream")));
            let mut session = world.another();
            let ran = session.run(crate::lanes(1), |fs| {
                let Ok(file) = fs.fopen(&path, c"w") else { return };
                assert_eq!(file.fwrite(b"thirty-two bytes of a kernel's.."), Ok(32));
                let pool = (&raw const crate::tables_of(fs).resources.stream_buffers)
                    .cast_mut()
                    .cast::<gpufs_core::alloc::BufferPoolParts>();
                // SAFETY:
                // - what a kernel on a GPU can do to its image of the tables: these words lie in memory of the session
                let mut forged = unsafe { pool.read() };
                forged.base = secret - OWN_BUFFER * u64::from(forged.buffer_bytes);
                forged.buffer_index = BufferPool::UNREGISTERED;
                // SAFETY:
                // - as above
                unsafe { pool.write_volatile(forged) };
            });
            drop(session);
            match ran {
                Ok(()) => Seen::Harmless("flushed".into()),
                Err(_) => Seen::Refused(libc::EFAULT),
            }
        },
    ));
}

fn tails(attempts: &mut Vec<Attempt>) {
    for (name, by) in [("by one round", 128), ("by a million", 1 << 20), ("by half the numbers", 1 << 31)] {
        attempts.push(Attempt::new(
            "a submission tail that is stored far ahead",
            name,
            Expected::Own,
            move |world| {
                let mut session = world.another();
                // It is left behind.
                world.scene.note();
                let ring = if world.way == super::Way::Services {
                    crate::tables(&session).ring_count - 1
                } else {
                    0
                };
                let ran = session.run(crate::lanes(1), |fs| {
                    let queue: *const gpufs_core::Queue =
                        &raw const crate::tables_of(fs).all_queues()[ring as usize];
                    // SAFETY:
                    // - a queue begins with its parts (`repr(C)`)
                    let tail = unsafe { (*queue.cast::<QueueParts>()).sq_tail };
                    // SAFETY:
                    // - a word of the ring's, valid while the session is open
                    let tail = unsafe { &*tail };
                    tail.publish(tail.peek().wrapping_add(by));
                    gpufs_device::warp::nap(50_000_000);
                });
                drop(ran);
                std::mem::forget(session);
                Seen::Harmless("the host lives".into())
            },
        ));
    }
}

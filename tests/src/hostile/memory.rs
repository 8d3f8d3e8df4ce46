//! Addresses that are not the session's: memory of the host as a buffer, as a path, as a place for a result; buffers that are none.

use gpufs_core::abi::{
    IORING_OP_READ_FIXED, IORING_OP_WRITE_FIXED, RecordLock, SERVICE_LOCK, SERVICE_READLINK, Sqe,
};

use super::{Attempt, Expected, Seen, World};

const PATH: usize = 0x1000;
const VECTOR: usize = 0x3000;
/// No mapping of a process is there.
const NOWHERE: [u64; 4] = [0, 8, 0x7fff_ffff_f000, u64::MAX - 7];

type Entry = fn(&World, u64) -> Sqe;

/// Entries that write to the address they are given.
const WRITERS: &[(&str, bool, Entry)] = &[
    ("READ", false, |w, to| Sqe::read(w.own, to, 8, 0)),
    ("READV", false, |w, to| Sqe::readv(w.own, vector(w, to), 1, 0)),
    ("READ_FIXED", false, |w, to| Sqe::read_fixed(w.own, to, 8, 0, w.area.index)),
    ("STATX", true, |w, to| {
        let path = w.path(PATH, "inside/file");
        Sqe::statx(libc::AT_FDCWD, path, 0, 0x7ff, to)
    }),
    ("readlink", true, |w, to| {
        let path = w.path(PATH, "inside/file-escape");
        Sqe { opcode: SERVICE_READLINK, ..Sqe::readlink(libc::AT_FDCWD, path, to, 64) }
    }),
    ("getcwd", true, |_, to| Sqe::getcwd(to, 4096)),
    ("clock_gettime", true, |_, to| Sqe::clock_gettime(1, to)),
    ("readdir", true, |w, to| Sqe::readdir(w.own, 0, to, 4096)),
    ("opendir", true, |w, to| Sqe::opendir(libc::AT_FDCWD, w.path(PATH, "inside"), to, 512)),
    ("fcntl (a lock that is there)", true, |w, to| {
        let lock = RecordLock { l_type: 1, ..RecordLock::default() };
        Sqe { opcode: SERVICE_LOCK, ..Sqe::lock(w.own, &lock, to) }
    }),
];
/// Entries that read from the address they are given.
const READERS: &[(&str, bool, Entry)] = &[
    ("WRITE", false, |w, from| Sqe::write(w.own, from, 64, 0)),
    ("WRITEV", false, |w, from| Sqe::writev(w.own, vector(w, from), 1, 0)),
    ("WRITE_FIXED", false, |w, from| Sqe::write_fixed(w.own, from, 64, 0, w.area.index)),
];
/// Entries with a path at the address they are given.
const PATHS: &[(&str, bool, Entry)] = &[
    ("OPENAT", false, |_, path| Sqe::openat(libc::AT_FDCWD, path, 0, 0)),
    ("STATX", true, |w, path| Sqe::statx(libc::AT_FDCWD, path, 0, 0x7ff, w.area.base)),
    ("UNLINKAT", true, |_, path| Sqe::unlinkat(libc::AT_FDCWD, path, 0)),
    ("MKDIRAT", true, |_, path| Sqe::mkdirat(libc::AT_FDCWD, path, 0o700)),
    ("readlink", true, |w, path| Sqe::readlink(libc::AT_FDCWD, path, w.area.base, 64)),
    ("opendir", true, |_, path| Sqe::opendir(libc::AT_FDCWD, path, 0, 0)),
    ("truncate", true, |_, path| Sqe::truncate(path, 0)),
    ("chmod", true, |_, path| Sqe::chmod(libc::AT_FDCWD, path, 0o777, 0)),
    ("access", true, |_, path| Sqe::access(libc::AT_FDCWD, path, 0, 0)),
    ("getenv", true, |_, path| Sqe::getenv(path, 0, 64)),
    ("popen", true, |_, path| Sqe::popen(path, false)),
];

fn vector(world: &World, address: u64) -> u64 {
    let words = [address.to_ne_bytes(), 64_u64.to_ne_bytes()].concat();
    world.text(VECTOR, &words)
}

/// On the ring that serves such entries.
fn put(world: &mut World, served: bool, entry: Sqe) -> Option<i32> {
    let results = if served { world.submit_to_services(&[entry]) } else { world.submit(&[entry]) };
    results[0]
}

pub(super) fn attempts() -> Vec<Attempt> {
    let mut attempts = Vec::new();
    results(&mut attempts);
    sources(&mut attempts);
    nowhere(&mut attempts);
    registered(&mut attempts);
    attempts
}

fn results(attempts: &mut Vec<Attempt>) {
    for &(name, served, entry) in WRITERS {
        // A fixed buffer is checked by Linux. A file is no directory, and has no lock that would be told of.
        let expected = if ["READ_FIXED", "readdir", "fcntl (a lock that is there)"].contains(&name) {
            Expected::Error
        } else {
            Expected::Harm
        };
        let row = if expected == Expected::Harm {
            "a result into memory of the host"
        } else {
            "a result there, which needs more"
        };
        attempts.push(Attempt::new(row, name, expected, move |world| {
            let entry = entry(world, world.scene.memory.address());
            Seen::reached(put(world, served, entry))
        }));
    }
}

fn sources(attempts: &mut Vec<Attempt>) {
    for &(name, served, entry) in READERS {
        attempts.push(Attempt::new("memory of the host into a file", name, Expected::Harm, move |world| {
            let entry = entry(world, world.scene.secret.address());
            Seen::reached(put(world, served, entry))
        }));
    }
    for &(name, served, entry) in PATHS {
        // Whether there is a file of the name that the memory holds is told by the errors.
        attempts.push(Attempt::new("memory of the host as a path", name, Expected::Error, move |world| {
            let entry = entry(world, world.scene.secret.address());
            Seen::reached(put(world, served, entry))
        }));
        attempts.push(Attempt::new("a path that nothing ends", name, Expected::Error, move |world| {
            // No NUL before the end of the session's memory.
            let (at, all) = (world.area.bytes - 4096, vec![b'a'; 4096]);
            let path = world.text(at, &all);
            let entry = entry(world, path);
            let result = put(world, served, entry);
            world.text(at, &[0; 4096]);
            Seen::reached(result)
        }));
    }
}

fn nowhere(attempts: &mut Vec<Attempt>) {
    for address in NOWHERE {
        for (of, table) in [("result", WRITERS), ("source", READERS), ("path", PATHS)] {
            for &(name, served, entry) in table {
                // Without a place for it a lock is set, not asked for.
                if address == 0 && name.starts_with("fcntl") {
                    continue;
                }
                attempts.push(Attempt::new(
                    "addresses where nothing is",
                    format!("{name}: {of} at {address:#x}"),
                    Expected::Harm,
                    move |world| {
                        let entry = entry(world, address);
                        // What io_uring is asked for ends with EFAULT.
                        Seen::done(put(world, served, entry))
                    },
                ));
            }
        }
    }
}

fn registered(attempts: &mut Vec<Attempt>) {
    for (name, opcode) in [("READ_FIXED", IORING_OP_READ_FIXED), ("WRITE_FIXED", IORING_OP_WRITE_FIXED)] {
        for index in [2, 3, 63, 64, 1024, u16::MAX] {
            let variant = format!("{name} of buffer {index}");
            attempts.push(Attempt::new(
                "registered buffers that are none",
                variant,
                Expected::Error,
                move |world| {
                    let entry = Sqe { opcode, ..Sqe::read_fixed(world.own, world.area.base, 16, 0, index) };
                    Seen::reached(world.submit(&[entry])[0])
                },
            ));
        }
        for (from, bytes) in [(0, u32::MAX), (0, 1 << 31), (8, 1 << 20), (usize::MAX, 16), (1 << 30, 16)] {
            let variant = format!("{name} of {bytes} bytes from {from:#x}");
            attempts.push(Attempt::new(
                "over the end of registered memory",
                variant,
                Expected::Error,
                move |world| {
                    // From the end of the pool, or from before its start.
                    let end = world.area.base + world.area.bytes as u64;
                    let address = end.wrapping_sub(8).wrapping_add(from as u64);
                    let entry =
                        Sqe { opcode, ..Sqe::read_fixed(world.own, address, bytes, 0, world.area.index) };
                    Seen::reached(world.submit(&[entry])[0])
                },
            ));
        }
    }
}

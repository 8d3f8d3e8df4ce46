//! Entries with every operation code of io_uring, aimed at what is the host's, with every flag.

use std::os::fd::{AsRawFd, RawFd};

use gpufs_core::abi::Sqe;

use super::{Attempt, Expected, Seen, World};

/// What shows that an entry did what it was to do.
#[derive(Clone, Copy)]
enum Shown {
    /// Something of the scene, or a secret in the session's memory.
    ByScene,
    /// That it succeeds.
    ByResult,
    /// That it succeeds, where it does; without a sandbox it need not.
    ByResultIfAny,
    /// Something of the scene. With a sandbox it may succeed, as the number may be one of the kernel's own.
    BySceneOrOwn,
    /// Nothing: it reaches only what is the kernel's own.
    Own,
}
use Shown::{ByResult, ByResultIfAny, ByScene, BySceneOrOwn, Own};

/// An operation code with arguments for something of the host's.
struct Aim {
    code: u8,
    name: &'static str,
    shown: Shown,
    entry: fn(&World) -> Sqe,
}

const FLAGS: [(&str, u8); 8] = [
    ("alone", 0),
    ("FIXED_FILE", 1),
    ("IO_DRAIN", 2),
    ("IO_LINK", 4),
    ("IO_HARDLINK", 8),
    ("ASYNC", 16),
    ("BUFFER_SELECT", 32),
    ("CQE_SKIP_SUCCESS", 64),
];
/// Of `OPENAT2`.
const OPEN_HOW: [u64; 3] = [libc::O_RDONLY as u64, 0, 0];
const SECRET_BYTES: u32 = 16;
/// Where things lie in the session's memory; what is read arrives at its start.
const PATH: usize = 0x1000;
const PATH2: usize = 0x2000;
const STRUCTURE: usize = 0x3000;
const TEXT: usize = 0x4000;

fn fd(of: &impl AsRawFd) -> RawFd {
    of.as_raw_fd()
}
fn entry(fd: RawFd, addr: u64, len: u32, off: u64) -> Sqe {
    Sqe { fd, addr, len, off, ..Sqe::default() }
}
fn text(world: &World) -> u64 {
    world.text(TEXT, b"written by a kernel\0")
}
fn words(world: &World, offset: usize, words: &[u64]) -> u64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    world.text(offset, &bytes)
}
/// A `msghdr` of one vector.
fn message(world: &World, address: u64) -> u64 {
    let vector = words(world, STRUCTURE + 128, &[address, u64::from(SECRET_BYTES)]);
    words(world, STRUCTURE, &[0, 0, vector, 1, 0, 0, 0])
}
/// A `sockaddr_un`.
fn address(world: &World, name: &str) -> u64 {
    let path = world.scene.path(name);
    let mut bytes = vec![0_u8; 110];
    bytes[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    let path = path.as_os_str().as_encoded_bytes();
    bytes[2..2 + path.len()].copy_from_slice(path);
    world.text(STRUCTURE, &bytes)
}
/// The first ring of the process by its descriptor.
pub(super) fn ring(world: &World) -> RawFd {
    let _ = world;
    let rings = super::Scene::descriptors();
    rings.into_iter().find(|(_, target)| target.contains("io_uring")).map_or(1023, |(number, _)| number)
}

/// Every operation code of Linux 6.18.
const AIMS: &[Aim] = &[
    Aim { code: 0, name: "NOP", shown: Own, entry: |_| entry(-1, 0, 0, 0) },
    Aim {
        code: 1,
        name: "READV of the host's file into its memory",
        shown: ByScene,
        entry: |w| {
            let vector = words(w, STRUCTURE, &[w.scene.memory.address(), 16]);
            entry(fd(&w.scene.canary), vector, 1, 0)
        },
    },
    Aim {
        code: 2,
        name: "WRITEV into the host's file",
        shown: ByScene,
        entry: |w| {
            let vector = words(w, STRUCTURE, &[text(w), 16]);
            entry(fd(&w.scene.canary), vector, 1, 0)
        },
    },
    Aim {
        code: 3,
        name: "FSYNC of the host's file",
        shown: ByResult,
        entry: |w| entry(fd(&w.scene.canary), 0, 0, 0),
    },
    Aim {
        code: 4,
        name: "READ_FIXED of the host's file",
        shown: ByScene,
        entry: |w| Sqe {
            buf_index: w.area.index,
            ..entry(fd(&w.scene.canary), w.area.base, SECRET_BYTES, 0)
        },
    },
    Aim {
        code: 5,
        name: "WRITE_FIXED into the host's file",
        shown: ByScene,
        entry: |w| Sqe { buf_index: w.area.index, ..entry(fd(&w.scene.canary), text(w), 16, 0) },
    },
    Aim {
        code: 6,
        name: "POLL_ADD of the host's pipe",
        shown: ByResult,
        entry: |w| Sqe { op_flags: 1, ..entry(fd(&w.scene.pipes[0].0), 0, 0, 0) },
    },
    Aim { code: 7, name: "POLL_REMOVE", shown: Own, entry: |_| entry(-1, 1, 0, 0) },
    Aim {
        code: 8,
        name: "SYNC_FILE_RANGE of the host's file",
        shown: ByResult,
        entry: |w| entry(fd(&w.scene.canary), 0, 16, 0),
    },
    Aim {
        code: 9,
        name: "SENDMSG on the host's socket",
        shown: ByScene,
        entry: |w| entry(fd(&w.scene.sockets.0), message(w, text(w)), 1, 0),
    },
    Aim {
        code: 10,
        name: "RECVMSG from the host's socket",
        shown: ByScene,
        entry: |w| entry(fd(&w.scene.sockets.0), message(w, w.area.base), 1, 0),
    },
    Aim {
        code: 11,
        name: "TIMEOUT",
        shown: Own,
        entry: |w| entry(-1, words(w, STRUCTURE, &[0, 1_000_000]), 1, 0),
    },
    Aim { code: 12, name: "TIMEOUT_REMOVE", shown: Own, entry: |_| entry(-1, 1, 0, 0) },
    Aim {
        code: 13,
        name: "ACCEPT from the host's listener",
        shown: ByResult,
        entry: |w| entry(fd(&w.scene.listeners[1]), 0, 0, 0),
    },
    Aim {
        code: 14,
        name: "ASYNC_CANCEL of everything",
        shown: Own,
        // ALL and ANY.
        entry: |_| Sqe { op_flags: 1 | 4, ..entry(-1, 0, 0, 0) },
    },
    Aim {
        code: 15,
        name: "LINK_TIMEOUT",
        shown: Own,
        entry: |w| entry(-1, words(w, STRUCTURE, &[0, 1_000_000]), 1, 0),
    },
    Aim {
        code: 16,
        name: "CONNECT of the host's socket",
        shown: ByScene,
        entry: |w| entry(fd(&w.scene.loose), address(w, "outside/quiet"), 0, 110),
    },
    Aim {
        code: 17,
        name: "FALLOCATE (punching holes) in the host's file",
        shown: ByScene,
        entry: |w| entry(fd(&w.scene.canary), 4096, 3, 0),
    },
    Aim {
        code: 18,
        name: "OPENAT outside",
        shown: ByResult,
        entry: |w| entry(libc::AT_FDCWD, w.path(PATH, "outside/secret"), 0, 0),
    },
    Aim {
        code: 18,
        name: "OPENAT outside into a registered file",
        shown: ByResult,
        entry: |w| Sqe { file_index: 41, ..entry(libc::AT_FDCWD, w.path(PATH, "outside/secret"), 0, 0) },
    },
    Aim {
        code: 19,
        name: "CLOSE of the host's file",
        shown: ByScene,
        entry: |w| entry(fd(&w.scene.canary), 0, 0, 0),
    },
    Aim { code: 19, name: "CLOSE of a ring", shown: BySceneOrOwn, entry: |w| entry(ring(w), 0, 0, 0) },
    Aim {
        code: 20,
        name: "FILES_UPDATE with the host's file",
        shown: ByResult,
        entry: |w| {
            let number = w.text(STRUCTURE, &fd(&w.scene.canary).to_ne_bytes());
            entry(-1, number, 1, 40)
        },
    },
    Aim {
        code: 21,
        name: "STATX outside",
        shown: ByResult,
        entry: |w| entry(libc::AT_FDCWD, w.path(PATH, "outside/secret"), 0x7ff, w.area.base),
    },
    Aim {
        code: 21,
        name: "STATX of the host's descriptor",
        shown: ByResult,
        entry: |w| Sqe {
            op_flags: libc::AT_EMPTY_PATH.cast_unsigned(),
            ..entry(fd(&w.scene.canary), w.text(PATH, b"\0"), 0x7ff, w.area.base)
        },
    },
    Aim {
        code: 22,
        name: "READ of the host's file",
        shown: ByScene,
        entry: |w| entry(fd(&w.scene.canary), w.area.base, SECRET_BYTES, 0),
    },
    Aim {
        code: 22,
        name: "READ of the host's pipe",
        shown: ByScene,
        entry: |w| entry(fd(&w.scene.pipes[0].0), w.area.base, SECRET_BYTES, u64::MAX),
    },
    Aim {
        code: 23,
        name: "WRITE into the host's file",
        shown: ByScene,
        entry: |w| entry(fd(&w.scene.canary), text(w), 16, 0),
    },
    Aim {
        code: 24,
        name: "FADVISE of the host's file",
        shown: ByResult,
        entry: |w| entry(fd(&w.scene.canary), 0, 16, 0),
    },
    Aim {
        code: 25,
        name: "MADVISE (DONTNEED) of the host's memory",
        shown: ByScene,
        entry: |w| Sqe { op_flags: 4, ..entry(-1, w.scene.memory.address(), 4096, 0) },
    },
    Aim {
        code: 26,
        name: "SEND on the host's socket",
        shown: ByScene,
        entry: |w| entry(fd(&w.scene.sockets.0), text(w), 16, 0),
    },
    Aim {
        code: 27,
        name: "RECV from the host's socket",
        shown: ByScene,
        entry: |w| entry(fd(&w.scene.sockets.0), w.area.base, SECRET_BYTES, 0),
    },
    Aim {
        code: 28,
        name: "OPENAT2 outside",
        shown: ByResult,
        entry: |w| {
            let how = words(w, STRUCTURE, &OPEN_HOW);
            entry(libc::AT_FDCWD, w.path(PATH, "outside/secret"), 24, how)
        },
    },
    Aim {
        code: 29,
        name: "EPOLL_CTL of the host's epoll",
        shown: ByScene,
        entry: |w| {
            let event = words(w, STRUCTURE, &[1, 2]);
            // ADD.
            entry(fd(&w.scene.epoll), event, 1, u64::from(fd(&w.scene.pipes[0].0).cast_unsigned()))
        },
    },
    Aim {
        code: 30,
        name: "SPLICE from the host's pipe into another",
        shown: ByScene,
        entry: |w| {
            let from = fd(&w.scene.pipes[0].0);
            Sqe { file_index: from.cast_unsigned(), ..entry(fd(&w.scene.pipes[1].1), u64::MAX, 16, u64::MAX) }
        },
    },
    Aim {
        code: 31,
        name: "PROVIDE_BUFFERS in the host's memory",
        shown: ByResult,
        entry: |w| entry(1, w.scene.memory.address(), 64, 0),
    },
    Aim { code: 32, name: "REMOVE_BUFFERS", shown: Own, entry: |_| entry(1, 0, 0, 0) },
    Aim {
        code: 33,
        name: "TEE from the host's pipe into another",
        shown: ByScene,
        entry: |w| {
            let from = fd(&w.scene.pipes[0].0);
            Sqe { file_index: from.cast_unsigned(), ..entry(fd(&w.scene.pipes[1].1), 0, 16, 0) }
        },
    },
    Aim {
        code: 34,
        name: "SHUTDOWN of the host's socket",
        shown: ByScene,
        entry: |w| entry(fd(&w.scene.sockets.0), 0, 2, 0),
    },
    Aim {
        code: 35,
        name: "RENAMEAT outside",
        shown: ByScene,
        entry: |w| {
            let to = w.path(PATH2, "outside/renamed");
            entry(libc::AT_FDCWD, w.path(PATH, "outside/secret"), libc::AT_FDCWD.cast_unsigned(), to)
        },
    },
    Aim {
        code: 36,
        name: "UNLINKAT outside",
        shown: ByScene,
        entry: |w| entry(libc::AT_FDCWD, w.path(PATH, "outside/secret"), 0, 0),
    },
    Aim {
        code: 37,
        name: "MKDIRAT outside",
        shown: ByScene,
        entry: |w| entry(libc::AT_FDCWD, w.path(PATH, "outside/made"), 0o700, 0),
    },
    Aim {
        code: 38,
        name: "SYMLINKAT outside",
        shown: ByScene,
        entry: |w| entry(libc::AT_FDCWD, w.text(PATH, b"/etc/passwd\0"), 0, w.path(PATH2, "outside/link")),
    },
    Aim {
        code: 39,
        name: "LINKAT from outside",
        shown: ByScene,
        entry: |w| {
            let to = w.path(PATH2, "inside/linked");
            entry(libc::AT_FDCWD, w.path(PATH, "outside/secret"), libc::AT_FDCWD.cast_unsigned(), to)
        },
    },
    Aim {
        code: 40,
        name: "MSG_RING (data) to a ring of the process",
        shown: ByResultIfAny,
        entry: |w| entry(ring(w), 0, 7, 0x1234),
    },
    Aim {
        code: 40,
        name: "MSG_RING (descriptor) to a ring of the process",
        shown: ByResultIfAny,
        // SEND_FD of the registered file 0, to any place.
        entry: |w| Sqe { file_index: u32::MAX, ..entry(ring(w), 1, 0, 0x1234) },
    },
    Aim {
        code: 41,
        name: "FSETXATTR of the host's file",
        shown: ByScene,
        entry: |w| {
            let (name, value) = (w.text(PATH, b"user.hostile\0"), text(w));
            entry(fd(&w.scene.canary), name, 4, value)
        },
    },
    Aim {
        code: 42,
        name: "SETXATTR outside",
        shown: ByScene,
        entry: |w| {
            let (name, value) = (w.text(PATH, b"user.hostile\0"), text(w));
            Sqe { addr3: w.path(PATH2, "outside/secret"), ..entry(-1, name, 4, value) }
        },
    },
    Aim {
        code: 43,
        name: "FGETXATTR of the host's pipe",
        shown: ByResultIfAny,
        entry: |w| entry(fd(&w.scene.pipes[0].0), w.text(PATH, b"user.secret\0"), 16, w.area.base),
    },
    Aim {
        code: 44,
        name: "GETXATTR outside",
        shown: ByResultIfAny,
        entry: |w| Sqe {
            addr3: w.path(PATH2, "outside/secret"),
            ..entry(-1, w.text(PATH, b"user.secret\0"), 16, w.area.base)
        },
    },
    Aim {
        code: 45,
        name: "SOCKET",
        shown: ByResult,
        entry: |_| entry(libc::AF_INET, 0, 0, libc::SOCK_STREAM as u64),
    },
    Aim {
        code: 46,
        name: "URING_CMD (SIOCINQ) of the host's socket",
        shown: ByResultIfAny,
        entry: |w| entry(fd(&w.scene.sockets.0), 0, 0, 0),
    },
    Aim {
        code: 47,
        name: "SEND_ZC on the host's socket",
        shown: ByResultIfAny,
        entry: |w| entry(fd(&w.scene.sockets.0), text(w), 16, 0),
    },
    Aim {
        code: 48,
        name: "SENDMSG_ZC on the host's socket",
        shown: ByResultIfAny,
        entry: |w| entry(fd(&w.scene.sockets.0), message(w, text(w)), 1, 0),
    },
    Aim {
        code: 49,
        name: "READ_MULTISHOT of the host's pipe",
        shown: ByResultIfAny,
        entry: |w| Sqe { buf_index: 0, ..entry(fd(&w.scene.pipes[0].0), 0, 0, u64::MAX) },
    },
    Aim {
        code: 50,
        name: "WAITID of the host's child",
        shown: ByScene,
        entry: |w| Sqe {
            file_index: libc::WEXITED.cast_unsigned(),
            ..entry(w.scene.child.id().cast_signed(), 0, libc::P_PID, 0)
        },
    },
    Aim {
        code: 51,
        name: "FUTEX_WAIT in the host's memory",
        shown: ByResultIfAny,
        // 32 bits, private.
        entry: |w| Sqe {
            addr3: u64::from(u32::MAX),
            ..entry(0x82, w.scene.memory.address(), 0, 0x5a5a_5a5a)
        },
    },
    Aim {
        code: 52,
        name: "FUTEX_WAKE in the host's memory",
        shown: ByResult,
        entry: |w| Sqe { addr3: u64::from(u32::MAX), ..entry(0x82, w.scene.memory.address(), 0, 1) },
    },
    Aim {
        code: 53,
        name: "FUTEX_WAITV in the host's memory",
        shown: ByResultIfAny,
        entry: |w| {
            let waiter = words(w, STRUCTURE, &[0, w.scene.memory.address(), 0x82]);
            entry(0, waiter, 1, 0)
        },
    },
    Aim {
        code: 54,
        name: "FIXED_FD_INSTALL of a registered file",
        shown: ByResultIfAny,
        entry: |w| Sqe { flags: 1, ..entry(w.registered.cast_signed(), 0, 0, 0) },
    },
    Aim {
        code: 55,
        name: "FTRUNCATE of the host's file",
        shown: ByScene,
        entry: |w| entry(fd(&w.scene.canary), 0, 0, 1),
    },
    Aim {
        code: 56,
        name: "BIND of the host's socket",
        shown: ByScene,
        entry: |w| entry(fd(&w.scene.loose), address(w, "outside/bound"), 0, 110),
    },
    Aim {
        code: 57,
        name: "LISTEN of the host's listener",
        shown: ByResult,
        entry: |w| entry(fd(&w.scene.listeners[0]), 0, 1, 0),
    },
    Aim {
        code: 58,
        name: "RECV_ZC from the host's socket",
        shown: ByResultIfAny,
        entry: |w| Sqe { ioprio: 2, ..entry(fd(&w.scene.sockets.0), 0, 0, 0) },
    },
    Aim {
        code: 59,
        name: "EPOLL_WAIT of the host's epoll",
        shown: ByResultIfAny,
        entry: |w| entry(fd(&w.scene.epoll), w.area.base, 1, 0),
    },
    Aim {
        code: 60,
        name: "READV_FIXED of the host's file",
        shown: ByScene,
        entry: |w| {
            let vector = words(w, STRUCTURE, &[w.area.base, u64::from(SECRET_BYTES)]);
            Sqe { buf_index: w.area.index, ..entry(fd(&w.scene.canary), vector, 1, 0) }
        },
    },
    Aim {
        code: 61,
        name: "WRITEV_FIXED into the host's file",
        shown: ByScene,
        entry: |w| {
            let vector = words(w, STRUCTURE, &[text(w), 16]);
            Sqe { buf_index: w.area.index, ..entry(fd(&w.scene.canary), vector, 1, 0) }
        },
    },
    Aim {
        code: 62,
        name: "PIPE with its numbers in the host's memory",
        shown: ByScene,
        entry: |w| entry(0, w.scene.memory.address(), 0, 0),
    },
];

/// Codes that Linux 6.18 does not have, and those of the services of which `services.rs` tries each.
const BEYOND: std::ops::Range<u8> = 63..0xC0;

/// The codes that are attacked with arguments of their own.
#[must_use]
pub fn attacked() -> Vec<u8> {
    AIMS.iter().map(|aim| aim.code).chain(BEYOND).collect()
}

fn seen(shown: Shown, result: Option<i32>) -> Seen {
    match shown {
        ByScene | BySceneOrOwn | Own => Seen::done(result),
        ByResult | ByResultIfAny => Seen::reached(result),
    }
}

pub(super) fn attempts() -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for aim in AIMS {
        let Aim { code, name, shown, entry } = *aim;
        let expected = match shown {
            ByScene | ByResult => Expected::Harm,
            ByResultIfAny => Expected::Error,
            BySceneOrOwn => Expected::HarmOrOwn,
            Own => Expected::Own,
        };
        for (flag_name, flag) in FLAGS {
            attempts.push(Attempt::new(name, flag_name, expected, move |world| {
                let entry = entry(world);
                // `FIXED_FILE` makes the number an index: of no registered file, or of one that is the kernels'.
                let entry = Sqe { opcode: code, flags: entry.flags | flag, ..entry };
                // Something for a link to go on to.
                let results = world.submit(&[entry, Sqe::nop()]);
                seen(shown, results[0])
            }));
        }
        attempts.push(Attempt::new(name, "behind a link", expected, move |world| {
            let entry = Sqe { opcode: code, ..entry(world) };
            let results = world.submit(&[Sqe { flags: 4, ..Sqe::nop() }, entry]);
            seen(shown, results[1])
        }));
        attempts.push(Attempt::new(name, "with a personality", expected, move |world| {
            let entry = Sqe { opcode: code, personality: 1, ..entry(world) };
            seen(shown, world.submit(&[entry])[0])
        }));
        attempts.push(Attempt::new(name, "with a priority", expected, move |world| {
            let entry = Sqe { opcode: code, ioprio: 0x4007, ..entry(world) };
            seen(shown, world.submit(&[entry])[0])
        }));
    }
    for code in BEYOND {
        attempts.push(Attempt::new(
            "codes that Linux has not",
            code.to_string(),
            Expected::Error,
            move |world| {
                let entry = Sqe { opcode: code, ..entry(fd(&world.scene.canary), text(world), 16, 0) };
                Seen::reached(world.submit(&[entry])[0])
            },
        ));
    }
    attempts
}

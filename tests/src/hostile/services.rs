//! What the service ring does for kernels, aimed outside: processes, the environment, files by paths and by descriptors, functions of the program.

use std::os::fd::AsRawFd as _;
use std::time::Duration;

use gpufs_core::Errno;
use gpufs_core::abi::{SERVICES, Sqe};
use gpufs_core::service::key_of;
use gpufs_test_kernels::Harm;

use super::{Attempt, Expected, Seen, World};

const PATH: usize = 0x1000;

type Entry = fn(&World) -> Sqe;

fn path(world: &World) -> u64 {
    world.path(PATH, "outside/secret")
}
fn number(world: &World) -> i32 {
    world.scene.canary.as_raw_fd()
}

/// Harm, each, without a sandbox.
const SERVED: &[(&str, Entry)] = &[
    ("readlink of /proc/self/exe", |w| {
        Sqe::readlink(libc::AT_FDCWD, w.text(PATH, b"/proc/self/exe\0"), w.area.base, 4096)
    }),
    ("truncate outside", |w| Sqe::truncate(path(w), 0)),
    ("chmod outside", |w| Sqe::chmod(libc::AT_FDCWD, path(w), 0o777, 0)),
    ("chmod outside through a link", |w| {
        Sqe::chmod(libc::AT_FDCWD, w.path(PATH, "inside/file-escape"), 0o777, 0)
    }),
    ("chmod of the host's descriptor", |w| Sqe::fchmod(number(w), 0o777)),
    ("chmod of a file to read alone", |w| {
        Sqe::chmod(libc::AT_FDCWD, w.path(PATH, "readonly/file"), 0o777, 0)
    }),
    ("utimens outside", |w| Sqe::utimens(libc::AT_FDCWD, path(w), (1, 0), (1, 0), 0)),
    ("utimens of the host's descriptor", |w| Sqe::utimens(number(w), 0, (1, 0), (1, 0), 0)),
    ("utimens of a file to read alone", |w| {
        Sqe::utimens(libc::AT_FDCWD, w.path(PATH, "readonly/file"), (1, 0), (1, 0), 0)
    }),
    ("access outside", |w| Sqe::access(libc::AT_FDCWD, path(w), 0, 0)),
    ("getcwd", |w| Sqe::getcwd(w.area.base, 4096)),
    ("chdir", |w| Sqe::chdir(libc::AT_FDCWD, w.text(PATH, b"/\0"))),
    ("fchdir to the host's directory", |w| Sqe::chdir(w.scene.folder.as_raw_fd(), 0)),
    ("umask", |_| Sqe::umask(0)),
    ("flock of the host's descriptor", |w| Sqe::flock(number(w), 2)),
    ("flags of the host's descriptor", |w| Sqe::add_status_flags(number(w), libc::O_APPEND.cast_unsigned())),
    ("ftruncate of the host's descriptor", |w| Sqe::resize(number(w), 1)),
    ("dup of the host's descriptor", |w| Sqe::duplicate(number(w))),
    ("getenv", |w| Sqe::getenv(w.text(PATH, b"PATH\0"), 0, 64)),
    ("stat outside", |w| Sqe::statx(libc::AT_FDCWD, path(w), 0, 0x7ff, w.area.base)),
    ("stat outside through a link", |w| {
        Sqe::statx(libc::AT_FDCWD, w.path(PATH, "inside/file-escape"), 0, 0x7ff, w.area.base)
    }),
    ("unlink outside", |w| Sqe::unlinkat(libc::AT_FDCWD, path(w), 0)),
    ("unlink of a file to read alone", |w| Sqe::unlinkat(libc::AT_FDCWD, w.path(PATH, "readonly/file"), 0)),
    ("rename outside", |w| {
        Sqe::renameat(libc::AT_FDCWD, path(w), libc::AT_FDCWD, w.path(0x2000, "outside/renamed"), 0)
    }),
    ("rename to the inside", |w| {
        Sqe::renameat(libc::AT_FDCWD, path(w), libc::AT_FDCWD, w.path(0x2000, "inside/renamed"), 0)
    }),
    ("rename to the outside", |w| {
        let from = w.path(PATH, "inside/file");
        Sqe::renameat(libc::AT_FDCWD, from, libc::AT_FDCWD, w.path(0x2000, "outside/renamed"), 0)
    }),
    ("exchange with the outside", |w| {
        let from = w.path(PATH, "inside/file");
        Sqe::renameat(libc::AT_FDCWD, from, libc::AT_FDCWD, path2(w), libc::RENAME_EXCHANGE)
    }),
    ("mkdir outside", |w| Sqe::mkdirat(libc::AT_FDCWD, w.path(PATH, "outside/made"), 0o700)),
    ("mkdir outside through a link", |w| {
        Sqe::mkdirat(libc::AT_FDCWD, w.path(PATH, "inside/escape/made"), 0o700)
    }),
    ("link from outside", |w| {
        Sqe::linkat(libc::AT_FDCWD, path(w), libc::AT_FDCWD, w.path(0x2000, "inside/linked"), 0)
    }),
    ("link to the outside", |w| {
        let from = w.path(PATH, "inside/file");
        Sqe::linkat(libc::AT_FDCWD, from, libc::AT_FDCWD, w.path(0x2000, "outside/linked"), 0)
    }),
    ("link from a file to read alone", |w| {
        let from = w.path(PATH, "readonly/file");
        Sqe::linkat(libc::AT_FDCWD, from, libc::AT_FDCWD, w.path(0x2000, "inside/linked"), 0)
    }),
    ("symlink outside", |w| {
        Sqe::symlinkat(w.text(PATH, b"/etc/passwd\0"), libc::AT_FDCWD, w.path(0x2000, "outside/link"))
    }),
];

fn path2(world: &World) -> u64 {
    world.path(0x2000, "outside/secret")
}

/// Starts a shell that makes a file outside, and waits for it for a moment.
fn popen(world: &mut World, by_library: bool) -> Seen {
    let made = world.scene.path("outside/shell");
    let command = std::ffi::CString::new(format!("echo there > {}", made.display())).expect("no NUL");
    let result = if by_library {
        world
            .call(Harm::Popen, &command, None, 0)
            .map(|opened| opened.map_or_else(|errno| -errno.number(), |_| 0))
    } else {
        let address = world.text(PATH, command.as_bytes_with_nul());
        world.submit_to_services(&[Sqe::popen(address, false)])[0]
    };
    // Ends: at the limit.
    for _ in 0..50 {
        if result.is_none_or(|value| value < 0) || made.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Seen::reached(result)
}

fn refused<T>(outcome: Option<Result<T, Errno>>) -> Seen {
    match outcome {
        Some(Err(errno)) => Seen::Refused(errno.number()),
        Some(Ok(_)) => Seen::Harm("done".into()),
        None => Seen::Silent,
    }
}

/// Tries an entry that is made for a pipe of the kernel's own: the end that is read, and the one that is written.
fn on_a_pipe(world: &mut World, entry: impl Fn(&World, [i32; 2]) -> Sqe) -> Seen {
    let ends = match world.submit_to_services(&[Sqe::pipe()])[0] {
        Some(from @ 0..) => match world.submit_to_services(&[Sqe::other_end(from)])[0] {
            Some(to @ 0..) => [from, to],
            other => return Seen::reached(other),
        },
        other => return Seen::reached(other),
    };
    let entry = entry(world, ends);
    let result = world.submit_to_services(&[entry])[0];
    for end in ends {
        let _ = world.submit_to_services(&[Sqe::close(end)]);
    }
    Seen::reached(result)
}

/// Bytes of the host's through a pipe of the kernel's own.
fn pipes(attempts: &mut Vec<Attempt>) {
    const QUICK: u32 = 2;
    const NONE: u64 = u64::MAX;
    let host = |world: &World| world.scene.pipes[0].0.as_raw_fd();
    let row = "bytes of the host's through a pipe of the kernel's own";
    attempts.push(Attempt::new(row, "its file", Expected::Harm, |world| {
        on_a_pipe(world, |world, [_, to]| Sqe::splice((number(world), 0), (to, NONE), 16, QUICK))
    }));
    attempts.push(Attempt::new(row, "its pipe", Expected::Harm, move |world| {
        on_a_pipe(world, |world, [_, to]| Sqe::splice((host(world), NONE), (to, NONE), 16, QUICK))
    }));
    attempts.push(Attempt::new(row, "a copy of its pipe", Expected::Harm, move |world| {
        on_a_pipe(world, |world, [_, to]| Sqe::tee(host(world), to, 16, QUICK))
    }));
    attempts.push(Attempt::new(row, "its pipe into its file", Expected::Harm, move |world| {
        on_a_pipe(world, |world, _| Sqe::splice((host(world), NONE), (number(world), 0), 16, QUICK))
    }));
    attempts.push(Attempt::new(row, "by a registered file", Expected::Error, move |world| {
        let registered = world.registered.cast_signed();
        on_a_pipe(world, |_, [_, to]| Sqe::splice((registered, 0), (to, NONE), 16, QUICK | 1 << 31))
    }));
    attempts.push(Attempt::new(row, "into a socket, which may wait", Expected::Error, |world| {
        let socket = world.scene.sockets.0.as_raw_fd();
        on_a_pipe(world, |_, [from, _]| Sqe::splice((from, NONE), (socket, NONE), 16, 0))
    }));
    attempts.push(Attempt::new("a second end that there is not", "", Expected::Error, |world| {
        Seen::reached(world.submit_to_services(&[Sqe::other_end(world.own)])[0])
    }));
}

pub(super) fn attempts() -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = SERVED
        .iter()
        .map(|&(name, entry)| {
            Attempt::new(name, "", Expected::Harm, move |world| {
                let entry = entry(world);
                Seen::reached(world.submit_to_services(&[entry])[0])
            })
        })
        .collect();
    pipes(&mut attempts);
    attempts.push(Attempt::new("popen", "entry", Expected::Harm, |world| popen(world, false)));
    attempts.push(Attempt::new("popen", "library", Expected::Harm, |world| popen(world, true)));
    let function = "a function of the program that the sandbox does not name";
    attempts.push(Attempt::new(function, "entry", Expected::Harm, |world| {
        let added = world.session.add_service_of_bytes("unnamed", (8, 8), |_, reply| {
            reply.copy_from_slice(b"SECRET-!");
            Ok(())
        });
        if added.is_err() {
            return Seen::Refused(libc::EACCES);
        }
        let entry = Sqe::call(key_of(b"unnamed"), world.area.base, 8, 8);
        Seen::reached(world.submit_to_services(&[entry])[0])
    }));
    attempts.push(Attempt::new("a function that there is not", "entry", Expected::Error, |world| {
        let entry = Sqe::call(key_of(b"nobody's"), world.area.base, 8, 8);
        Seen::reached(world.submit_to_services(&[entry])[0])
    }));
    attempts.push(Attempt::new("the library's calls outside", "unlink", Expected::Harm, |world| {
        let path = crate::c_path(&world.scene.path("outside/secret"));
        refused(world.call(Harm::Unlink, &path, None, 0))
    }));
    attempts.push(Attempt::new("the library's calls outside", "stat", Expected::Harm, |world| {
        let path = crate::c_path(&world.scene.path("outside/secret"));
        refused(world.call(Harm::Stat, &path, None, 0))
    }));
    for &(name, code) in SERVICES {
        // Codes and arguments that do not go together: what they name is the kernel's own, and nothing is at the address.
        attempts.push(Attempt::new(
            "each service with an address where nothing is",
            name,
            Expected::HarmOrOwn,
            move |world| {
                let entry = Sqe {
                    opcode: code,
                    fd: world.own,
                    addr: 8,
                    off: 8,
                    len: 8,
                    file_index: 8,
                    ..Sqe::default()
                };
                Seen::done(world.submit_to_services(&[entry])[0])
            },
        ));
    }
    attempts
}

//! What changes between a look at it and its use: names of a directory that are exchanged with a link, paths and vectors that a lane rewrites while
//! they are served.
#![expect(unsafe_code, reason = "what a hostile kernel does")]

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use gpufs_core::abi::Sqe;
use gpufs_core::word::DeviceWord;
use gpufs_device::Fs;

use super::{Attempt, Expected, SECRET, Seen, World};

const PATH: usize = 0x1000;
const VECTOR: usize = 0x3000;

/// Races of this family and of sockets, in each way, with a sandbox and without.
const RACES: u64 = 18 * 4 * 2;

/// How long a race is tried: as is asked for, but all of them together for no longer than `GPUFS_HOSTILE_RACES_S` seconds.
fn duration() -> Duration {
    let whole = crate::setting("GPUFS_HOSTILE_RACES_S", 50);
    Duration::from_millis(crate::setting("GPUFS_HOSTILE_MS", 400).min(whole * 1000 / RACES))
}

/// Runs `attack` again and again while `change` runs beside it. The first attack that saw harm, or the last.
pub(super) fn race(
    world: &mut World,
    change: impl Fn() + Send + Sync,
    mut attack: impl FnMut(&mut World) -> Seen,
) -> Seen {
    let (over, started) = (DeviceWord::new(0), Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // ORDERING: relaxed: nothing hangs on it but the loop. Ends: with the attacks.
            while over.peek() == 0 {
                change();
            }
        });
        let mut seen = Seen::Silent;
        // Ends: at the limit.
        while started.elapsed() < duration() {
            let now = attack(world);
            let reached = matches!(now, Seen::Harm(_)) || world.harm(&now).is_some();
            // A refusal says more than what a race that was lost found.
            if reached || !matches!(seen, Seen::Refused(_)) || matches!(now, Seen::Refused(libc::EACCES)) {
                seen = now;
            }
            if reached {
                break;
            }
        }
        // ORDERING: relaxed, as above.
        over.set(1);
        seen
    })
}

/// Exchanges `inside/turn`, a directory with a file `secret` that is none, and `inside/other`, a link to the outside.
fn turn(world: &World) -> impl Fn() + Send + Sync + use<> {
    let (turn, other) = (world.scene.path("inside/turn"), world.scene.path("inside/other"));
    if !turn.exists() {
        fs::create_dir(&turn).expect("the scene's own");
        fs::write(turn.join("secret"), "free").expect("the scene's own");
        symlink("../outside", &other).expect("the scene's own");
    }
    let [turn, other] = [&turn, &other].map(|path| crate::c_path(path));
    move || {
        // SAFETY:
        // - both paths end with a NUL
        unsafe {
            let at = libc::AT_FDCWD;
            libc::renameat2(at, turn.as_ptr(), at, other.as_ptr(), libc::RENAME_EXCHANGE);
        }
    }
}

/// Turns a path in the session's memory between `inside//secret`, a file that is none, and `outside/secret`.
fn rewrite(world: &World) -> impl Fn() + Send + Sync + use<> {
    fs::write(world.scene.path("inside/secret"), "free").expect("the scene's own");
    let base = world.scene.path("").as_os_str().len();
    world.path(PATH, "outside/secret");
    // `Scratch::path("")` ends with a slash.
    let to = (world.area.base as usize) + PATH + base;
    move || {
        for name in [b"inside//", b"outside/"] {
            // SAFETY:
            // - within the path in the session's memory, where only the kernel reads besides
            unsafe { (to as *mut [u8; 8]).write_volatile(*name) };
            std::hint::spin_loop();
        }
    }
}

/// What a kernel finds in the file of this path.
fn content(fs: Fs, path: &std::ffi::CStr) -> Result<bool, gpufs_core::Errno> {
    let file = fs.open(path, 0, 0)?;
    let mut bytes = [0; 7];
    let read = fs.pread(file, &mut bytes, 0);
    fs.close(file)?;
    Ok(read? == 7 && bytes == SECRET)
}

type Entry = fn(&World, u64) -> Sqe;

/// Operations on a path that change what it names.
const CHANGES: &[(&str, Entry)] = &[
    ("chmod", |_, path| Sqe::chmod(libc::AT_FDCWD, path, 0o711, 0)),
    ("truncate", |_, path| Sqe::truncate(path, 3)),
    ("utimens", |_, path| Sqe::utimens(libc::AT_FDCWD, path, (7, 0), (7, 0), 0)),
    ("unlink", |_, path| Sqe::unlinkat(libc::AT_FDCWD, path, 0)),
    ("mkdir", |_, path| Sqe::mkdirat(libc::AT_FDCWD, path, 0o700)),
];

fn seen_content(read: Option<Result<bool, gpufs_core::Errno>>) -> Seen {
    match read {
        Some(Ok(true)) => Seen::Harm("read the secret".into()),
        Some(Ok(false)) => Seen::Harmless("the file that is none".into()),
        Some(Err(errno)) => Seen::Refused(errno.number()),
        None => Seen::Silent,
    }
}

pub(super) fn attempts() -> Vec<Attempt> {
    let mut attempts = Vec::new();
    links(&mut attempts);
    changes(&mut attempts);
    rewritten(&mut attempts);
    moved(&mut attempts);
    taken(&mut attempts);
    attempts
}

fn links(attempts: &mut Vec<Attempt>) {
    attempts.push(Attempt::new("a directory that becomes a link", "open", Expected::HarmOrOwn, |world| {
        let (change, path) = (turn(world), crate::c_path(&world.scene.path("inside/turn/secret")));
        race(world, change, |world| seen_content(world.lane(|fs| content(fs, &path))))
    }));
    attempts.push(Attempt::new(
        "a directory that becomes a link",
        "open below an open one",
        Expected::HarmOrOwn,
        |world| {
            let (change, dir) = (turn(world), crate::c_path(&world.scene.path("inside")));
            race(world, change, |world| {
                seen_content(world.lane(|fs| {
                    let dir = fs.open(&dir, libc::O_DIRECTORY.cast_unsigned(), 0)?;
                    let opened = fs.openat(dir, c"turn/secret", 0, 0);
                    fs.close(dir)?;
                    let mut bytes = [0; 7];
                    let read = fs.pread(opened?, &mut bytes, 0);
                    fs.close(opened?)?;
                    Ok(read? == 7 && bytes == SECRET)
                }))
            })
        },
    ));
}

fn changes(attempts: &mut Vec<Attempt>) {
    for &(name, entry) in CHANGES {
        let variant = format!("{name} through it");
        attempts.push(Attempt::new(
            "a directory that becomes a link",
            variant,
            Expected::HarmOrOwn,
            move |world| {
                let change = turn(world);
                let path = world.path(PATH, "inside/turn/secret");
                race(world, change, |world| {
                    let entry = entry(world, path);
                    Seen::done(world.submit_to_services(&[entry])[0])
                })
            },
        ));
        attempts.push(Attempt::new(
            "a path that is rewritten while it is served",
            name,
            Expected::HarmOrOwn,
            move |world| {
                let change = rewrite(world);
                let path = world.area.base + PATH as u64;
                race(world, change, |world| {
                    let entry = entry(world, path);
                    Seen::done(world.submit_to_services(&[entry])[0])
                })
            },
        ));
    }
}

fn rewritten(attempts: &mut Vec<Attempt>) {
    attempts.push(Attempt::new(
        "a path that is rewritten while it is served",
        "open, read",
        Expected::HarmOrOwn,
        |world| {
            let change = rewrite(world);
            let path = world.area.base + PATH as u64;
            race(world, change, |world| {
                let opened = world.submit(&[Sqe::openat(libc::AT_FDCWD, path, 0, 0)])[0];
                let Some(fd @ 0..) = opened else { return Seen::done(opened) };
                // What is read lies in the session's memory, where the scene looks for it.
                let read = world.submit(&[Sqe::read_fixed(fd, world.area.base, 16, 0, world.area.index)])[0];
                let _ = world.submit(&[Sqe::close(fd)]);
                Seen::done(read)
            })
        },
    ));
    attempts.push(Attempt::new(
        "a vector that is rewritten while it is served",
        "READV",
        Expected::HarmOrOwn,
        |world| {
            let bytes = [world.area.base.to_ne_bytes(), 8_u64.to_ne_bytes()].concat();
            let vectors = world.text(VECTOR, &bytes);
            let (inside, outside) = (world.area.base, world.scene.memory.address());
            let change = move || {
                for address in [inside, outside] {
                    // SAFETY:
                    // - the vector in the session's memory, where only the kernel reads besides
                    unsafe { (vectors as usize as *mut u64).write_volatile(address) };
                    std::hint::spin_loop();
                }
            };
            race(world, change, |world| {
                let own = world.own;
                Seen::done(world.submit(&[Sqe::readv(own, vectors, 1, 0)])[0])
            })
        },
    ));
}

fn moved(attempts: &mut Vec<Attempt>) {
    attempts.push(Attempt::new(
        "a directory that the host moved out, while a kernel has it open",
        "",
        Expected::Harm,
        |world| {
            let (sub, moved) = (world.scene.path("inside/sub"), world.scene.path("outside/sub/moved"));
            let path = crate::c_path(&sub);
            let dir = world.lane(|fs| fs.open(&path, libc::O_DIRECTORY.cast_unsigned(), 0));
            let Some(Ok(dir)) = dir else { return Seen::Silent };
            fs::rename(&sub, &moved).expect("the scene's own");
            let seen = seen_content(world.lane(|fs| {
                let file = fs.openat(dir, c"../secret", 0, 0)?;
                let mut bytes = [0; 7];
                Ok(fs.pread(file, &mut bytes, 0)? == 7 && bytes == SECRET)
            }));
            fs::rename(&moved, &sub).expect("back");
            world.scene.note();
            seen
        },
    ));
}

/// An operation that changes what a descriptor names.
type OfFile = fn(i32) -> Sqe;

const CHANGES_OF_FILES: &[(&str, OfFile)] =
    &[("chmod", |fd| Sqe::fchmod(fd, 0o711)), ("utimens", |fd| Sqe::utimens(fd, 0, (7, 0), (7, 0), 0))];

/// Closes a descriptor that may be changed, and has a file that may be read alone take its number, while others change what has the number.
fn taken(attempts: &mut Vec<Attempt>) {
    for (name, change) in CHANGES_OF_FILES {
        let row = "a descriptor that is closed and taken while it is served";
        attempts.push(Attempt::new(row, *name, Expected::HarmOrOwn, move |world| {
            let (inside, readonly) = (world.path(PATH, "inside/file"), world.path(VECTOR, "readonly/file"));
            let open = |path, flags: i32| Sqe::openat(libc::AT_FDCWD, path, flags.cast_unsigned(), 0);
            race(world, std::thread::yield_now, |world| {
                let opened = world.submit_to_services(&[open(inside, libc::O_RDWR)])[0];
                let Some(number @ 0..) = opened else { return Seen::done(opened) };
                let mut entries = vec![change(number), Sqe::close(number), open(readonly, libc::O_RDONLY)];
                entries.extend([change(number); 8]);
                let results = world.submit_to_services(&entries);
                let _ = world.submit_to_services(&[Sqe::close(number)]);
                if let Some(other @ 0..) = results[2]
                    && other != number
                {
                    let _ = world.submit_to_services(&[Sqe::close(other)]);
                }
                results[3..].iter().copied().map(Seen::done).next_back().unwrap_or(Seen::Silent)
            })
        }));
    }
}

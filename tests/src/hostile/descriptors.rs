//! Numbers that are not the kernels': descriptors of the host, its rings, indices of registered files out of range.

use std::os::fd::AsRawFd as _;

use gpufs_core::abi::{IORING_OP_FSYNC, IORING_OP_READ, IORING_OP_WRITE, SERVICE_DUPLICATE, Sqe};

use gpufs_test_kernels::Harm;

use super::operations::ring;
use super::{Attempt, Expected, Scene, Seen, World};

/// A row: low numbers, of which a sandbox has trees, and a process on a GPU the driver's files.
pub(super) const TAKEN: &str = "the number of a tree, closed and taken";

/// `FSYNC` says `EBADF` where a number is no open file, and something else where it is one, and changes nothing. Whether the number reached the
/// host's own table of descriptors: a private table has none of these files.
fn reaches(result: Option<i32>) -> bool {
    !matches!(result, Some(value) if value == -libc::EBADF || value == -libc::EACCES)
}

/// Every descriptor of the host below 1,024 by its number.
fn numbers(world: &mut World, fixed: bool) -> Seen {
    let open = Scene::descriptors_of_kernels();
    // In a sandbox: files of its trees, `/dev/null` in the place of the standard streams, and the ring itself, which nothing can be done with.
    let trees = ["inside", "readonly"].map(|tree| world.scene.path(tree));
    let theirs = |fd: i32| {
        open.as_ref().and_then(|open| open.get(&fd)).is_some_and(|target| {
            let path = std::path::Path::new(target);
            trees.iter().any(|tree| path.starts_with(tree))
                || target == "/dev/null"
                || target.contains("io_uring")
        })
    };
    let own = world.own;
    let own_fixed = world.registered.cast_signed();
    let mut reached = Vec::new();
    let mut last = libc::EBADF;
    for first in (0..1024).step_by(8) {
        let group: Vec<i32> = (first..first + 8).collect();
        let flags = u8::from(fixed);
        let entries: Vec<Sqe> = group
            .iter()
            .map(|fd| Sqe { opcode: IORING_OP_FSYNC, flags, fd: *fd, ..Sqe::default() })
            .collect();
        let results = world.submit(&entries);
        for (fd, result) in group.into_iter().zip(results) {
            // What the kernels have: the file that one opened, and the file that the host registered.
            let theirs = if fixed { fd == own_fixed } else { fd == own || theirs(fd) };
            if reaches(result) && !theirs {
                reached.push(fd);
            }
            last = result.map_or(last, |value| if value < 0 { -value } else { last });
        }
    }
    if reached.is_empty() {
        Seen::Refused(last)
    } else {
        Seen::Harm(format!("reached {} of them: {:?}", reached.len(), &reached[..reached.len().min(8)]))
    }
}

/// What a kernel sees of descriptor 0, 1 or 2 of the host by the library.
fn standard_stream(world: &mut World, number: u32) -> Seen {
    match world.call_on(Harm::Write, gpufs_device::file::Descriptor(number)) {
        Some(Err(errno)) => Seen::Refused(errno.number()),
        Some(Ok(_)) => Seen::Harm("written".into()),
        None => Seen::Silent,
    }
}

/// Closes a low number, has a directory that is to be read take it, and changes what the path of a file says that is to be written: whoever takes
/// the number for that of the tree changes the wrong file.
fn take(world: &mut World, number: i32) -> Seen {
    let (readonly, file) = (world.path(0x1000, "readonly"), world.path(0x2000, "inside/file"));
    for close in [Sqe::close(number), Sqe::duplicate(number)] {
        // On whichever ring does it.
        let _ = world.submit(&[close]);
        let _ = world.submit_to_services(&[close]);
    }
    let flags = (libc::O_DIRECTORY | libc::O_CLOEXEC).cast_unsigned();
    let _ = world.submit_to_services(&[Sqe::openat(libc::AT_FDCWD, readonly, flags, 0)]);
    let _ = world.submit(&[Sqe::openat(libc::AT_FDCWD, readonly, flags, 0)]);
    let chmod = Sqe::chmod(libc::AT_FDCWD, file, 0o711, 0);
    let utimens = Sqe::utimens(libc::AT_FDCWD, file, (7, 0), (7, 0), 0);
    Seen::done(world.submit_to_services(&[chmod, utimens])[0])
}

pub(super) fn attempts() -> Vec<Attempt> {
    let mut attempts = vec![
        Attempt::new("the numbers 0 to 1,023 of the host", "plain", Expected::Harm, |w| numbers(w, false)),
        // Registered files are the session's own table: without a sandbox the standard streams are there.
        Attempt::new("indices 0 to 1,023 of registered files", "fixed", Expected::Error, |w| {
            numbers(w, true)
        }),
    ];
    for number in [1, 2] {
        let row = "the host's standard streams by the library";
        attempts.push(Attempt::new(row, number.to_string(), Expected::Harm, move |world| {
            standard_stream(world, number)
        }));
    }
    for index in [40, 63, 64, 65, 1 << 15, 1 << 20, i32::MAX, -1, -2, i32::MIN] {
        let row = "registered files that are none";
        attempts.push(Attempt::new(row, index.to_string(), Expected::Error, move |world| {
            let entry =
                Sqe { opcode: IORING_OP_READ, flags: 1, fd: index, ..Sqe::read(0, world.area.base, 16, 0) };
            Seen::reached(world.submit(&[entry])[0])
        }));
    }
    for (opcode, name) in [(IORING_OP_READ, "READ"), (IORING_OP_WRITE, "WRITE")] {
        attempts.push(Attempt::new("a ring as a file", name, Expected::Error, move |world| {
            let entry = Sqe { opcode, ..Sqe::read(ring(world), world.area.base, 16, 0) };
            Seen::reached(world.submit(&[entry])[0])
        }));
    }
    for number in 3..10 {
        attempts
            .push(Attempt::new(TAKEN, number.to_string(), Expected::Own, move |world| take(world, number)));
    }
    attempts.push(Attempt::new("dup of a descriptor of the host", "", Expected::Harm, |world| {
        let fd = world.scene.canary.as_raw_fd();
        let entry = Sqe { opcode: SERVICE_DUPLICATE, fd, ..Sqe::default() };
        Seen::reached(world.submit_to_services(&[entry])[0])
    }));
    attempts
}

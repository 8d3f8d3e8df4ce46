//! Calls on paths, on descriptors that are closed or another kind of file's, and what a full disk refuses them.
#![expect(unsafe_code, reason = "users")]

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};

use gpufs_device::Errno;
use gpufs_device::file::{O_DIRECTORY, O_RDONLY, O_RDWR};
use gpufs_device::service::{LOCK_EX, W_OK};
use gpufs_device::stdio::Buffering;
use gpufs_test_kernels::{Verb, What};

use super::super::sessions::assert_works;
use super::full::FullDisk;
use crate::suite::harness::{Do, Try, Value, fopen, open, results};
use crate::suite::{Bench, Outcome};
use crate::{Scratch, c_path, small};

/// `path` for a call, with a new name beside it where the call takes two.
fn on(what: What, path: &CStr, fresh: &CStr) -> Try {
    match what {
        What::Symlink => Try::on(what, path).with(c"target"),
        What::Rename | What::Link => Try::on(what, path).with(fresh),
        What::Readlink => Try::on(what, path).number(64),
        What::Access => Try::on(what, path).choice(W_OK),
        _ => Try::on(what, path),
    }
}

/// Each call on each path that the system cannot follow; lanes of a warp make different calls.
pub fn paths_that_lead_nowhere(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("nowhere");
    fs::write(scratch.path("file"), "x").unwrap();
    symlink("loop", scratch.path("loop")).unwrap();
    let fresh = scratch.c("fresh");
    let long = CString::new(vec![b'x'; 5000]).unwrap();
    let wrong = [
        (scratch.c("missing/x"), Errno::NOENT),
        (c"".to_owned(), Errno::NOENT),
        (scratch.c("file/below"), Errno::NOTDIR),
        (scratch.c("loop/x"), Errno::LOOP),
        (scratch.c(&"n".repeat(256)), Errno::NAMETOOLONG),
        (long, Errno::NAMETOOLONG),
    ];
    let calls = wrong
        .iter()
        .flat_map(|(path, errno)| What::ON_PATHS.map(|what| (on(what, path, &fresh), Err(*errno))));
    // The new name is wrong, too.
    let second = wrong.iter().flat_map(|(path, errno)| {
        [What::Rename, What::Link].map(|what| (Try::on(what, &scratch.c("file")).with(path), Err(*errno)))
    });
    let calls: Vec<_> = calls.chain(second).collect();
    let mut harness = bench.open(small());
    harness.expect(&calls);
    assert!(!scratch.path("fresh").exists() && scratch.read("file") == b"x", "nothing was changed");
    assert_works(&mut harness);
    Outcome::Passed
}

/// Names that are there, or are another kind of file; lengths and operations that mean nothing.
pub fn names_that_are_taken(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("taken");
    fs::write(scratch.path("file"), "x").unwrap();
    fs::create_dir_all(scratch.path("full/inner")).unwrap();
    fs::create_dir(scratch.path("empty")).unwrap();
    let (file, full, empty) = (scratch.c("file"), scratch.c("full"), scratch.c("empty"));
    let (inner, moved) = (scratch.c("full/inner"), scratch.c("full/inner/moved"));
    let mut harness = bench.open(small());
    harness.expect(&[
        (Try::on(What::Mkdir, &empty), Err(Errno::EXIST)),
        (Try::on(What::Mkdir, &file), Err(Errno::EXIST)),
        (Try::on(What::Rmdir, &full), Err(Errno::NOTEMPTY)),
        (Try::on(What::Remove, &full), Err(Errno::NOTEMPTY)),
        (Try::on(What::Rmdir, &file), Err(Errno::NOTDIR)),
        (Try::on(What::Unlink, &empty), Err(Errno::ISDIR)),
        (Try::on(What::Creat, &empty), Err(Errno::ISDIR)),
        (Try::on(What::Truncate, &empty), Err(Errno::ISDIR)),
        (Try::on(What::Truncate, &file).number(1 << 63), Err(Errno::INVAL)),
        (Try::on(What::Rename, &file).with(&empty), Err(Errno::ISDIR)),
        (Try::on(What::Rename, &empty).with(&file), Err(Errno::NOTDIR)),
        (Try::on(What::Rename, &empty).with(&full), Err(Errno::NOTEMPTY)),
        (Try::on(What::Rename, &full).with(&moved), Err(Errno::INVAL)),
        (Try::on(What::Link, &file).with(&empty), Err(Errno::EXIST)),
        (Try::on(What::Symlink, &file).with(c"target"), Err(Errno::EXIST)),
        (Try::on(What::Readlink, &file).number(64), Err(Errno::INVAL)),
        (Try::on(What::Opendir, &file), Err(Errno::NOTDIR)),
        (Try::on(What::Access, &file).choice(64), Err(Errno::INVAL)),
        (Try::on(What::Mkstemp, c"/tmp/none").number(10), Err(Errno::INVAL)),
        (Try::on(What::Getcwd, c"").number(0), Err(Errno::INVAL)),
        (Try::on(What::Getcwd, c"").number(1), Err(Errno::RANGE)),
        (Try::on(What::Stat, &inner), Ok(0)),
    ]);
    // Descriptors 0 and 1 of the script: a file for reading, and a directory.
    harness.must(vec![
        open(0, &file, O_RDONLY),
        open(1, &empty, O_RDONLY | O_DIRECTORY),
        open(2, &file, O_RDWR),
    ]);
    let [reading, directory, both] = [0, 1, 2].map(|entry| harness.descriptor(entry));
    harness.expect(&[
        (Try::of(What::Fallocate, reading).number(100), Err(Errno::BADF)),
        (Try::of(What::Fallocate, both).number(0), Err(Errno::INVAL)),
        (Try::of(What::Fallocate, both).number(1 << 63), Err(Errno::INVAL)),
        (Try::of(What::PosixFadvise, both).choice(99), Err(Errno::INVAL)),
        (Try::of(What::SyncFileRange, both).number(1 << 63), Err(Errno::INVAL)),
        (Try::of(What::SyncFileRange, both).choice(1 << 20), Err(Errno::INVAL)),
        (Try::of(What::Flock, both).choice(0), Err(Errno::INVAL)),
        (Try::of(What::Flock, both).choice(16), Err(Errno::INVAL)),
        (Try::of(What::Fcntl, reading), Err(Errno::BADF)),
        (Try::of(What::Readdir, both), Err(Errno::NOTDIR)),
        (Try::of(What::Fdopen, reading).with(c"w"), Err(Errno::INVAL)),
        (Try::of(What::Fdopen, both).with(c"q"), Err(Errno::INVAL)),
        (Try::of(What::Fdopen, directory).with(c"w"), Err(Errno::INVAL)),
    ]);
    assert_eq!(scratch.read("file"), b"x");
    harness.must(vec![Do::Close(0), Do::Close(1), Do::Close(2)]);
    assert_works(&mut harness);
    Outcome::Passed
}

/// Calls on a descriptor and a directory that are closed, on one that never was, and on the largest number.
pub fn descriptors_that_are_closed(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("closed-descriptors");
    fs::write(scratch.path("file"), "x").unwrap();
    let folder = c_path(scratch.dir());
    let mut harness = bench.open(small());
    harness.must(vec![open(0, &scratch.c("file"), O_RDWR), open(1, &folder, O_RDONLY | O_DIRECTORY)]);
    let [file, directory] = [0, 1].map(|entry| harness.descriptor(entry));
    harness.must(vec![Do::CloseAndKeep(0), Do::CloseAndKeep(1)]);
    let numbers = [file, directory, 63, u32::MAX];
    let tries: Vec<_> = numbers
        .into_iter()
        .flat_map(|number| {
            What::ON_DESCRIPTORS
                .map(|what| (Try::of(what, number).number(1).choice(LOCK_EX), Err(Errno::BADF)))
        })
        .collect();
    harness.expect(&tries);
    // Vectors on the same.
    for entry in [0, 1] {
        let vectors =
            [Verb::Readv, Verb::Preadv, Verb::Preadv2].map(|verb| Do::Scatter(entry, verb, (8, 2), 0, 0));
        let gathers = [Verb::Writev, Verb::Pwritev, Verb::Pwritev2]
            .map(|verb| Do::Gather(entry, verb, (vec![1; 8], 2), 0, 0));
        let answers = harness.once(vectors.into_iter().chain(gathers).collect());
        assert_eq!(results(&answers), [Err(Errno::BADF); 6]);
    }
    assert_works(&mut harness);
    Outcome::Passed
}

/// As a user who owns nothing.
pub fn calls_without_permission(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("forbidden");
    fs::create_dir(scratch.path("closed")).unwrap();
    fs::write(scratch.path("closed/file"), "x").unwrap();
    fs::write(scratch.path("file"), "x").unwrap();
    fs::set_permissions(scratch.path("file"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(scratch.path("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(scratch.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    // SAFETY:
    // - takes nothing
    let is_root = unsafe { libc::geteuid() } == 0;
    // SAFETY:
    // - the call takes numbers; 65534 is nobody, who owns nothing
    if !is_root || unsafe { libc::setresuid(65534, 65534, 0) } != 0 {
        return Outcome::Skipped(format!(
            "it needs root, who becomes nobody: {}",
            io::Error::last_os_error()
        ));
    }
    let mut harness = bench.open(small());
    let (inside, fresh) = (scratch.c("closed/file"), scratch.c("fresh"));
    let closed: Vec<_> =
        What::ON_PATHS.iter().map(|what| (on(*what, &inside, &fresh), Err(Errno::ACCES))).collect();
    harness.expect(&closed);
    let file = scratch.c("file");
    harness.expect(&[
        (Try::on(What::Unlink, &file), Err(Errno::ACCES)),
        (Try::on(What::Remove, &file), Err(Errno::ACCES)),
        (Try::on(What::Rmdir, &scratch.c("closed")), Err(Errno::ACCES)),
        (Try::on(What::Mkdir, &fresh), Err(Errno::ACCES)),
        (Try::on(What::Creat, &fresh), Err(Errno::ACCES)),
        (Try::on(What::Creat, &file), Err(Errno::ACCES)),
        (Try::on(What::Symlink, &fresh).with(c"target"), Err(Errno::ACCES)),
        (Try::on(What::Rename, &file).with(&fresh), Err(Errno::ACCES)),
        (Try::on(What::Truncate, &file), Err(Errno::ACCES)),
        (Try::on(What::Access, &file).choice(W_OK), Err(Errno::ACCES)),
        (Try::on(What::Utimensat, &file), Err(Errno::ACCES)),
        (Try::on(What::Chmod, &file).choice(0o777), Err(Errno::PERM)),
        (Try::on(What::Opendir, &scratch.c("closed")), Err(Errno::ACCES)),
        (Try::on(What::Stat, &file), Ok(0)),
    ]);
    harness.must(vec![open(0, &file, O_RDONLY)]);
    let number = harness.descriptor(0);
    harness.expect(&[
        (Try::of(What::Fchmod, number), Err(Errno::PERM)),
        (Try::of(What::Futimens, number), Err(Errno::ACCES)),
        (Try::of(What::Fstat, number), Ok(1)),
    ]);
    harness.must(vec![Do::Close(0)]);
    drop(harness);
    // Back to the user that may remove the directory.
    // SAFETY:
    // - the call takes numbers
    unsafe { libc::setresuid(u32::MAX, 0, u32::MAX) };
    assert_eq!(scratch.read("file"), b"x");
    Outcome::Passed
}

/// A vector, and a format, that the disk takes a part of; names for which it has no room.
pub fn a_full_disk_under_vectors_formats_and_names(bench: &Bench) -> Outcome {
    // The root, the filler, and three files.
    let disk = match FullDisk::mount_for("full-names", 5) {
        Ok(disk) => disk,
        Err(skipped) => return skipped,
    };
    let name = |name: &str| disk.scratch.c(name);
    let mut harness = bench.open(small());
    fs::write(disk.scratch.path("vector"), "").unwrap();
    fs::write(disk.scratch.path("format"), "").unwrap();
    disk.fill(8 << 10);
    // 8 KiB of 20,000 bytes in four pieces; then nothing more.
    let bytes: Vec<u8> = (0..20_000_u32).map(|at| (at % 251) as u8).collect();
    let gather = |verb, offset| Do::Gather(0, verb, (bytes.clone(), 4), offset, 0);
    let answers = harness.once(vec![
        open(0, &name("vector"), O_RDWR),
        gather(Verb::Writev, 0),
        gather(Verb::Writev, 0),
        gather(Verb::Pwritev, 8192),
        gather(Verb::Pwritev2, -1),
    ]);
    let full = Err(Errno::NOSPC);
    assert_eq!(results(&answers), [Ok(0), Ok(8192), full, full, full]);
    assert_eq!(disk.scratch.read("vector"), bytes[..8192]);
    let number = harness.descriptor(0);
    harness.expect(&[(Try::of(What::Fallocate, number).number(1 << 20), full)]);
    // Without its bytes, the file leaves room for a part of a format's output.
    let answers = harness.once(vec![
        Do::Ftruncate(0, 0),
        Do::Close(0),
        fopen(1, &name("format"), c"w"),
        Do::Setvbuf(1, Buffering::None, 0),
        Do::Fprintf(1, c"%20000d", vec![Value::Integer(7)]),
        Do::Fclose(1),
    ]);
    assert_eq!(results(&answers), [Ok(0), Ok(0), Ok(0), Ok(0), full, Ok(0)]);
    assert!(answers[4].error, "ferror");
    assert_eq!(disk.scratch.read("format"), vec![b' '; 8192]);
    // One more file is the last.
    harness.expect(&[(Try::on(What::Mkdir, &name("last")), Ok(0))]);
    let template = name("XXXXXX");
    harness.expect(&[
        (Try::on(What::Mkdir, &name("a")), full),
        (Try::on(What::Creat, &name("b")), full),
        (Try::on(What::Symlink, &name("c")).with(c"target"), full),
        (Try::on(What::Mkstemp, &template).number(template.as_bytes_with_nul().len() as u64), full),
    ]);
    assert_works(&mut harness);
    Outcome::Passed
}

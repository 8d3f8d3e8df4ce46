//! What io_uring has no operation for: the calls of the service ring, beside the system's own.

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirEntryExt, MetadataExt, PermissionsExt, symlink};

use gpufs_core::word::DeviceWord;
use gpufs_device::Errno;
use gpufs_device::file::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, Descriptor, O_RDONLY, O_RDWR, Whence};
use gpufs_device::service::{
    AT_EACCESS, CLOCK_BOOTTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_REALTIME, Directory, Dirent,
    F_RDLCK, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, LockCommand, RecordLock, Service,
    TimeSpec, UTIME_OMIT, key_of,
};
use gpufs_host::ring::Mode;
use gpufs_host::{Builder, Session};
use gpufs_tests::{MODES, Scratch, c_path, each, once, skip, small};

/// A session in each mode that works here.
fn in_each_mode(builder: impl Fn() -> Builder, test: impl Fn(&mut Session, Mode)) {
    for mode in MODES {
        match builder().mode(mode).cpu() {
            Ok(mut session) => test(&mut session, mode),
            Err(refused) => skip(&mode.to_string(), refused),
        }
    }
}

/// Threads of this process with this name.
fn threads(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks
        .filter(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name))
        .count()
}

/// The errno that the system gave.
fn errno(error: &std::io::Error) -> Errno {
    Errno::from_number(error.raw_os_error().unwrap())
}

#[test]
fn links_are_read_as_the_system_reads_them() {
    let scratch = Scratch::new("readlink");
    fs::write(scratch.path("file"), "text").unwrap();
    symlink("file", scratch.path("short")).unwrap();
    symlink("x".repeat(3000), scratch.path("long")).unwrap();
    symlink("loop", scratch.path("loop")).unwrap();
    let names = ["short", "long", "loop", "file", "missing", "file/beyond", "", "."];
    in_each_mode(small, |session, mode| {
        for name in names {
            let path = scratch.path(name);
            let wanted = fs::read_link(&path)
                .map(|target| target.into_os_string().into_encoded_bytes())
                .map_err(|error| errno(&error));
            let path = scratch.c(name);
            let found = once(session, |fs| {
                let mut target = [b'#'; 4096];
                fs.readlink(&path, &mut target).map(|length| {
                    assert!(target[length..].iter().all(|byte| *byte == b'#'), "no more is written");
                    target[..length].to_vec()
                })
            });
            assert_eq!(found, wanted, "{mode}: {name}");
        }
        // What does not fit is cut; no room is the system's error.
        let path = scratch.c("short");
        assert_eq!(once(session, |fs| fs.readlink(&path, &mut [0; 2])), Ok(2));
        assert_eq!(once(session, |fs| fs.readlink(&path, &mut [])), Err(Errno::INVAL));
        let endless = CString::new("y".repeat(4096)).unwrap();
        assert_eq!(once(session, |fs| fs.readlink(&endless, &mut [0; 2])), Err(Errno::NAMETOOLONG));
    });
}

/// Lanes with paths of their own, some wrong, and more of them than the service ring has slots and the session has staging buffers.
#[test]
fn every_lane_gets_its_own_answer() {
    let scratch = Scratch::new("readlinks");
    for lane in 0..1000 {
        if lane % 3 != 0 {
            symlink(format!("target {lane}"), scratch.path(&format!("link{lane}"))).unwrap();
        }
    }
    in_each_mode(small, |session, mode| {
        let found = each(session, 1000, |fs, lane| {
            let mut target = [0; 64];
            let length = fs.readlink(&scratch.c(&format!("link{lane}")), &mut target)?;
            Ok(String::from_utf8_lossy(&target[..length]).into_owned())
        });
        for (lane, found) in found.into_iter().enumerate() {
            let wanted = if lane % 3 == 0 { Err(Errno::NOENT) } else { Ok(format!("target {lane}")) };
            assert_eq!(found, wanted, "{mode}: lane {lane}");
        }
        let statistics = session.statistics();
        let services = if mode == Mode::Threads { statistics.rings[0] } else { statistics.services };
        assert!(services.operations >= 1000 && services.stale == 0, "{mode}: {statistics:?}");
    });
}

/// Runs in a process of its own, as other tests start threads.
#[test]
fn a_session_without_services_has_no_threads_for_them() {
    let name = "a_session_without_services_has_no_threads_for_them";
    if !gpufs_tests::closures::is_child(name) {
        return gpufs_tests::closures::run_child(name);
    }
    let scratch = Scratch::new("no-services");
    for mode in [Mode::Sqpoll, Mode::Enter] {
        let mut session = match small().mode(mode).cpu() {
            Ok(session) => session,
            Err(refused) => {
                skip(&mode.to_string(), refused);
                continue;
            }
        };
        once(&mut session, |fs| {
            let file = fs.fopen(&scratch.c("file"), c"w").unwrap();
            file.fputs(c"text").unwrap();
            file.fclose().unwrap();
        });
        assert_eq!((threads("gpufs-worker"), threads("gpufs-watcher")), (0, 0), "{mode}");
        assert_eq!(session.statistics().services.operations, 0, "{mode}");
        let missing = scratch.c("missing");
        assert_eq!(once(&mut session, |fs| fs.readlink(&missing, &mut [0; 8])), Err(Errno::NOENT));
        assert!(threads("gpufs-worker") > 0, "{mode}");
        drop(session);
        assert_eq!((threads("gpufs-worker"), threads("gpufs-watcher")), (0, 0), "{mode}");
    }
}

/// What the system says of a path that a call changed: size, permissions, times of access and modification.
fn seen(path: &std::path::Path) -> Option<(u64, u32, i64, i64, i64, i64)> {
    let status = fs::metadata(path).ok()?;
    Some((
        status.len(),
        status.mode(),
        status.atime(),
        status.atime_nsec(),
        status.mtime(),
        status.mtime_nsec(),
    ))
}

/// A system call's result, as the session gives it.
fn told(result: i32) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(errno(&std::io::Error::last_os_error())) }
}

/// A file of each kind.
fn tree() -> Scratch {
    let scratch = Scratch::new("changes");
    fs::write(scratch.path("file"), "0123456789").unwrap();
    fs::write(scratch.path("locked"), "x").unwrap();
    fs::set_permissions(scratch.path("locked"), fs::Permissions::from_mode(0o400)).unwrap();
    fs::create_dir(scratch.path("dir")).unwrap();
    symlink("file", scratch.path("link")).unwrap();
    symlink("nowhere", scratch.path("dangling")).unwrap();
    scratch
}

fn time(tv_sec: i64, tv_nsec: i64) -> TimeSpec {
    TimeSpec { tv_sec, tv_nsec }
}

/// Times to set, right and wrong ones.
fn all_times() -> [Option<[TimeSpec; 2]>; 6] {
    [
        Some([time(1_000_000_000, 5), time(2_000_000_000, 999_999_999)]),
        Some([time(-1, 0), time(7, UTIME_OMIT)]),
        Some([time(0, UTIME_OMIT), time(3, 4)]),
        Some([time(0, 1_000_000_000), time(0, 0)]),
        Some([time(0, -1), time(0, 0)]),
        Some([time(0, i64::MAX), time(0, 0)]),
    ]
}

/// The same changes on two trees, one by the session and one by the system.
#[test]
fn files_change_as_the_system_changes_them() {
    in_each_mode(small, |session, mode| {
        let (ours, theirs) = (tree(), tree());
        for name in ["file", "link", "dangling", "dir", "locked", "missing", "file/beyond", ""] {
            let (own, other) = (ours.c(name), theirs.c(name));
            let other = other.as_ptr();
            let agree = |what: &str, found: Result<(), Errno>, wanted: Result<(), Errno>| {
                assert_eq!(found, wanted, "{mode}: {what} of {name:?}");
                assert_eq!(seen(&ours.path(name)), seen(&theirs.path(name)), "{mode}: {what} of {name:?}");
            };
            for flags in [0, AT_SYMLINK_NOFOLLOW] {
                for times in all_times() {
                    let found = once(session, |fs| fs.utimensat(AT_FDCWD, &own, times, flags));
                    let system = times.map(|times| {
                        times.map(|time| libc::timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec })
                    });
                    let system = system.as_ref().map_or(std::ptr::null(), |times| times.as_ptr());
                    // SAFETY:
                    // - a string with its NUL, and two times or none
                    let wanted =
                        unsafe { libc::utimensat(libc::AT_FDCWD, other, system, flags.cast_signed()) };
                    agree("utimensat", found, told(wanted));
                }
            }
            for mode in [0, 1, 2, 4, 7, 8] {
                let found = once(session, |fs| fs.access(&own, mode));
                // SAFETY:
                // - a string with its NUL
                agree("access", found, told(unsafe { libc::access(other, mode.cast_signed()) }));
                let found =
                    once(session, |fs| fs.faccessat(AT_FDCWD, &own, mode, AT_EACCESS | AT_SYMLINK_NOFOLLOW));
                let flags = libc::AT_EACCESS | libc::AT_SYMLINK_NOFOLLOW;
                // SAFETY:
                // - a string with its NUL
                let wanted = unsafe { libc::faccessat(libc::AT_FDCWD, other, mode.cast_signed(), flags) };
                agree("faccessat", found, told(wanted));
            }
            for length in [3, 100, 0, u64::MAX, i64::MAX as u64] {
                let found = once(session, |fs| fs.truncate(&own, length));
                // SAFETY:
                // - a string with its NUL
                let wanted = told(unsafe { libc::truncate(other, length.cast_signed()) });
                assert_eq!(found, wanted, "{mode}: truncate of {name:?} to {length}");
                let sizes = [&ours, &theirs].map(|tree| seen(&tree.path(name)).map(|seen| seen.0));
                assert_eq!(sizes[0], sizes[1], "{mode}: truncate of {name:?} to {length}");
            }
            for permissions in [0o600, 0o6755, 0o10644] {
                let found = once(session, |fs| fs.chmod(&own, permissions));
                // SAFETY:
                // - a string with its NUL
                let wanted = told(unsafe { libc::chmod(other, permissions) });
                assert_eq!(found, wanted, "{mode}: chmod of {name:?}");
                let modes = [&ours, &theirs].map(|tree| seen(&tree.path(name)).map(|seen| seen.1));
                assert_eq!(modes[0], modes[1], "{mode}: chmod of {name:?}");
            }
        }
    });
}

#[test]
fn open_files_change_and_the_present_is_a_time() {
    in_each_mode(small, |session, mode| {
        let ours = Scratch::new("changes");
        fs::write(ours.path("file"), "0123456789").unwrap();
        let path = ours.c("file");
        let before = std::time::SystemTime::now();
        let results = once(session, |fs| {
            let file = fs.open(&path, O_RDONLY, 0)?;
            fs.futimens(file, Some([time(5, 6), time(7, 8)]))?;
            fs.fchmod(file, 0o640)?;
            let wrong = [fs.fchmod(Descriptor(63), 0), fs.futimens(Descriptor(63), None)];
            fs.close(file)?;
            Ok::<_, Errno>(wrong)
        });
        assert_eq!(results, Ok([Err(Errno::BADF); 2]), "{mode}");
        let (_, permissions, accessed, _, modified, _) = seen(&ours.path("file")).unwrap();
        assert_eq!((permissions & 0o777, accessed, modified), (0o640, 5, 7), "{mode}");
        assert_eq!(once(session, |fs| fs.utimensat(AT_FDCWD, &path, None, 0)), Ok(()));
        let modified = fs::metadata(ours.path("file")).unwrap().modified().unwrap();
        assert!(modified + std::time::Duration::from_secs(2) > before, "{mode}");
    });
}

#[test]
fn the_working_directory_is_the_processs() {
    let wanted = std::env::current_dir().unwrap();
    in_each_mode(small, |session, mode| {
        let found = once(session, |fs| {
            let mut path = [0; 4096];
            fs.getcwd(&mut path).map(|path| path.to_bytes().to_vec())
        });
        assert_eq!(found.unwrap(), wanted.as_os_str().as_encoded_bytes(), "{mode}");
        assert_eq!(once(session, |fs| fs.getcwd(&mut [0; 2]).map(drop)), Err(Errno::RANGE), "{mode}");
        assert_eq!(once(session, |fs| fs.getcwd(&mut []).map(drop)), Err(Errno::INVAL), "{mode}");
        // Changes are in tests/c/programs/here.c: they would be those of other tests here.
        assert_eq!(once(session, |fs| fs.chdir(c".")), Ok(()), "{mode}");
        assert_eq!(once(session, |fs| fs.chdir(c"/nowhere/at/all")), Err(Errno::NOENT), "{mode}");
        assert_eq!(once(session, |fs| fs.chdir(c"")), Err(Errno::NOENT), "{mode}");
        assert_eq!(once(session, |fs| fs.chdir(c"/proc/self/stat")), Err(Errno::NOTDIR), "{mode}");
        assert_eq!(once(session, |fs| fs.fchdir(Descriptor(50))), Err(Errno::BADF), "{mode}");
    });
}

fn name_of(entry: &Dirent) -> Vec<u8> {
    std::ffi::CStr::from_bytes_until_nul(&entry.d_name).unwrap().to_bytes().to_vec()
}

/// A directory of many entries, read by lanes of several warps at once: each entry once, and with the system's numbers.
#[test]
fn a_directory_is_read_as_the_system_reads_it() {
    let scratch = Scratch::new("readdir");
    for file in 0..700 {
        fs::write(scratch.path(&format!("file{file}{}", "x".repeat(file % 200))), "").unwrap();
    }
    fs::create_dir(scratch.path("folder")).unwrap();
    symlink("folder", scratch.path("link")).unwrap();
    let path = c_path(scratch.dir());
    let mut wanted: Vec<_> = fs::read_dir(scratch.dir())
        .unwrap()
        .flatten()
        .map(|entry| (entry.file_name().into_encoded_bytes(), entry.ino()))
        .collect();
    wanted.sort();
    in_each_mode(small, |session, mode| {
        for lanes in [1, 7, 96] {
            let directory = once(session, |fs| fs.opendir(&path)).unwrap();
            let found = each(session, lanes, |fs, _| {
                let (mut entry, mut found) = (Dirent::default(), Vec::new());
                while fs.readdir(directory, &mut entry).unwrap() {
                    found.push((name_of(&entry), entry.d_ino, entry.d_type));
                }
                found
            });
            let mut found: Vec<_> = found.into_iter().flatten().collect();
            found.sort();
            let kind = |name: &[u8]| found.iter().find(|(found, ..)| found == name).map(|(_, _, kind)| *kind);
            let kinds = [&b"."[..], b"..", b"folder", b"link", b"file0"].map(kind);
            assert_eq!(kinds, [Some(4), Some(4), Some(4), Some(10), Some(8)], "{mode}: {lanes} lanes");
            let names: Vec<_> = found
                .into_iter()
                .filter(|(name, ..)| *name != b"." && *name != b"..")
                .map(|(name, number, _)| (name, number))
                .collect();
            assert_eq!(names, wanted, "{mode}: {lanes} lanes");
            // The end stays the end, until it is rewound.
            let after = once(session, |fs| {
                let mut entry = Dirent::default();
                let end = fs.readdir(directory, &mut entry)?;
                fs.rewinddir(directory)?;
                let again = fs.readdir(directory, &mut entry)?;
                fs.closedir(directory)?;
                Ok::<_, Errno>((end, again))
            });
            assert_eq!(after, Ok((false, true)), "{mode}: {lanes} lanes");
        }
    });
}

/// Lanes of one call get the next entries in lane order, which is the file system's.
#[test]
fn lanes_get_entries_in_lane_order() {
    let scratch = Scratch::new("readdir-order");
    for file in 0..40 {
        fs::write(scratch.path(&format!("file{file}")), "").unwrap();
    }
    let path = c_path(scratch.dir());
    in_each_mode(small, |session, mode| {
        let one = once(session, |fs| {
            let (directory, mut entry, mut names) =
                (fs.opendir(&path).unwrap(), Dirent::default(), Vec::new());
            while fs.readdir(directory, &mut entry).unwrap() {
                names.push(name_of(&entry));
            }
            fs.closedir(directory).unwrap();
            names
        });
        assert_eq!(one.len(), 42);
        let directory = once(session, |fs| fs.opendir(&path)).unwrap();
        let rounds = each(session, 32, |fs, _| {
            let mut entry = Dirent::default();
            [(); 2].map(|()| fs.readdir(directory, &mut entry).unwrap().then(|| name_of(&entry)))
        });
        let found: Vec<_> =
            (0..2).flat_map(|round| rounds.iter().filter_map(move |names| names[round].clone())).collect();
        assert_eq!(found, one, "{mode}");
        assert!(rounds[..10].iter().all(|names| names[1].is_some()) && rounds[10][1].is_none(), "{mode}");
        assert_eq!(once(session, |fs| fs.closedir(directory)), Ok(()));
    });
}

#[test]
fn what_is_no_directory_is_refused() {
    let scratch = Scratch::new("no-directory");
    fs::write(scratch.path("file"), "").unwrap();
    in_each_mode(small, |session, mode| {
        let results = once(session, |fs| {
            let file = fs.open(&scratch.c("file"), O_RDONLY, 0).unwrap();
            let mut entry = Dirent::default();
            let results = [
                fs.opendir(&scratch.c("file")).map(drop),
                fs.opendir(&scratch.c("missing")).map(drop),
                fs.opendir(c"").map(drop),
                fs.readdir(Directory(file), &mut entry).map(drop),
                fs.readdir(Directory(Descriptor(60)), &mut entry).map(drop),
                fs.readdir(Directory(Descriptor(u32::MAX)), &mut entry).map(drop),
                fs.rewinddir(Directory(Descriptor(60))),
                fs.closedir(Directory(Descriptor(60))),
            ];
            fs.close(file).unwrap();
            results
        });
        let wanted = [
            Errno::NOTDIR,
            Errno::NOENT,
            Errno::NOENT,
            Errno::NOTDIR,
            Errno::BADF,
            Errno::BADF,
            Errno::BADF,
            Errno::BADF,
        ];
        assert_eq!(results, wanted.map(Err), "{mode}");
    });
}

/// Locks exclude other open file descriptions, of this session and of the process, and a lane that waits gets its turn. More lanes wait than the
/// service ring has slots; the one that they wait for needs one, too.
#[test]
fn locks_exclude_and_waiters_get_their_turn() {
    let scratch = Scratch::new("locks");
    fs::write(scratch.path("file"), [0; 8]).unwrap();
    let path = scratch.c("file");
    let builder = || small().files(512);
    in_each_mode(builder, |session, mode| {
        for (record, lanes) in [(false, 40), (true, if mode == Mode::Enter { 300 } else { 40 })] {
            let inside = DeviceWord::new(0);
            let counts = each(session, lanes, |fs, _| {
                let file = fs.open(&path, O_RDWR, 0).unwrap();
                let mut lock = RecordLock { l_type: F_WRLCK, l_len: 8, ..RecordLock::default() };
                if record {
                    fs.fcntl(file, LockCommand::SetAndWait, &mut lock).unwrap();
                } else {
                    fs.flock(file, LOCK_EX).unwrap();
                }
                assert_eq!(inside.fetch_add(1), 0, "alone");
                let mut count = [0; 8];
                assert_eq!(fs.pread(file, &mut count, 0), Ok(8));
                let next = u64::from_le_bytes(count) + 1;
                assert_eq!(fs.pwrite(file, &next.to_le_bytes(), 0), Ok(8));
                inside.fetch_sub(1);
                if record {
                    lock.l_type = F_UNLCK;
                    fs.fcntl(file, LockCommand::Set, &mut lock).unwrap();
                } else {
                    fs.flock(file, LOCK_UN).unwrap();
                }
                fs.close(file).unwrap();
                next
            });
            let mut counts: Vec<_> = counts.into_iter().collect();
            counts.sort_unstable();
            let first = counts[0];
            assert_eq!(
                counts,
                (first..first + u64::from(lanes)).collect::<Vec<_>>(),
                "{mode}: record {record}"
            );
        }
    });
}

#[test]
fn locks_are_refused_as_the_system_refuses_them() {
    let scratch = Scratch::new("lock-errors");
    fs::write(scratch.path("file"), "0123456789").unwrap();
    let path = scratch.c("file");
    let host = fs::OpenOptions::new().read(true).write(true).open(scratch.path("file")).unwrap();
    in_each_mode(small, |session, mode| {
        let (file, read_only) =
            once(session, |fs| (fs.open(&path, O_RDWR, 0).unwrap(), fs.open(&path, O_RDONLY, 0).unwrap()));
        let flock = |operation| {
            // SAFETY:
            // - the call takes numbers
            told(unsafe { libc::flock(host.as_raw_fd(), operation) })
        };
        assert_eq!(flock(libc::LOCK_EX), Ok(()));
        let tries = once(session, |fs| [LOCK_SH, LOCK_EX].map(|lock| fs.flock(file, lock | LOCK_NB)));
        assert_eq!(tries, [Err(Errno::AGAIN); 2], "{mode}");
        assert_eq!(flock(libc::LOCK_UN), Ok(()));
        assert_eq!(once(session, |fs| fs.flock(file, LOCK_SH | LOCK_NB)), Ok(()), "{mode}");
        assert_eq!(flock(libc::LOCK_EX | libc::LOCK_NB), Err(Errno::AGAIN), "{mode}");
        let lock =
            |l_type, l_whence, l_start, l_len| RecordLock { l_type, l_whence, l_start, l_len, l_pid: 0 };
        let results = once(session, |fs| {
            fs.lseek(file, 4, Whence::Set).unwrap();
            [
                // Bytes 6 and 7, from the position; bytes 8 and 9, from the end.
                fs.fcntl(file, LockCommand::Set, &mut lock(F_WRLCK, 1, 2, 2)),
                fs.fcntl(file, LockCommand::Set, &mut lock(F_WRLCK, 2, -2, 2)),
                fs.fcntl(read_only, LockCommand::Set, &mut lock(F_RDLCK, 0, 7, 1)),
                fs.fcntl(read_only, LockCommand::Set, &mut lock(F_RDLCK, 0, 0, 6)),
                fs.fcntl(read_only, LockCommand::Set, &mut lock(F_WRLCK, 0, 0, 1)),
                fs.fcntl(file, LockCommand::Set, &mut lock(F_WRLCK, 1, -5, 1)),
                fs.fcntl(file, LockCommand::Set, &mut lock(9, 0, 0, 1)),
                fs.fcntl(file, LockCommand::Set, &mut RecordLock { l_pid: 1, ..lock(F_RDLCK, 0, 0, 1) }),
                fs.fcntl(Descriptor(50), LockCommand::SetAndWait, &mut lock(F_RDLCK, 0, 0, 1)),
                fs.flock(file, 0),
                fs.flock(Descriptor(50), LOCK_EX),
            ]
        });
        let wanted = [
            Ok(()),
            Ok(()),
            Err(Errno::AGAIN),
            Ok(()),
            Err(Errno::BADF),
            Err(Errno::INVAL),
            Err(Errno::INVAL),
            Err(Errno::INVAL),
            Err(Errno::BADF),
            Err(Errno::INVAL),
            Err(Errno::BADF),
        ];
        assert_eq!(results, wanted, "{mode}");
        let (found, free, still_free) = once(session, |fs| {
            let (mut found, mut free) = (lock(F_WRLCK, 0, 0, 0), lock(F_RDLCK, 0, 1, 2));
            fs.fcntl(read_only, LockCommand::Find, &mut found).unwrap();
            fs.fcntl(file, LockCommand::Find, &mut free).unwrap();
            // A lock that was looked for is not set.
            let mut still_free = lock(F_WRLCK, 0, 1, 2);
            fs.fcntl(read_only, LockCommand::Find, &mut still_free).unwrap();
            (found, free, still_free)
        });
        assert_eq!(found, RecordLock { l_pid: -1, ..lock(F_WRLCK, 0, 6, 4) }, "{mode}");
        assert_eq!((free, still_free), (lock(F_UNLCK, 0, 1, 2), lock(F_UNLCK, 0, 1, 2)), "{mode}");
        once(session, |fs| {
            fs.close(file).unwrap();
            fs.close(read_only).unwrap();
        });
    });
}

#[test]
fn the_environment_is_the_processs() {
    let name = "the_environment_is_the_processs";
    if std::env::var_os("GPUFS_TEST_LONG").is_none() {
        let long: String = (0..9000).map(|number| char::from(b'a' + (number % 26) as u8)).collect();
        let own = std::env::current_exe().unwrap();
        let child = std::process::Command::new(own)
            .args([name, "--exact", "--nocapture"])
            .env("GPUFS_TEST_LONG", long)
            .env("GPUFS_TEST_EMPTY", "")
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
        return;
    }
    in_each_mode(small, |session, mode| {
        for (variable, room) in
            [(c"GPUFS_TEST_LONG", 9001), (c"GPUFS_TEST_LONG", 5000), (c"GPUFS_TEST_EMPTY", 3), (c"PATH", 0)]
        {
            let wanted = std::env::var(variable.to_str().unwrap()).unwrap();
            let (length, text) = once(session, |fs| {
                let mut text = vec![b'#'; room];
                (fs.getenv(variable, &mut text), text)
            });
            assert_eq!(length, Ok(wanted.len()), "{mode}: {variable:?}");
            let end = wanted.len().min(room.saturating_sub(1));
            assert_eq!(text[..end.min(room)], wanted.as_bytes()[..end.min(room)], "{mode}: {variable:?}");
            assert!(room == 0 || text[end] == 0, "{mode}: {variable:?}");
        }
        for variable in [c"GPUFS_TEST_NONE", c"", c"A=B"] {
            assert_eq!(once(session, |fs| fs.getenv(variable, &mut [0; 4])), Err(Errno::NOENT), "{mode}");
        }
    });
}

#[test]
fn clocks_are_the_hosts() {
    let now = |clock| {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY:
        // - the system writes one `timespec`, which is alive
        assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
        TimeSpec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec }
    };
    in_each_mode(small, |session, mode| {
        for (clock, system) in [
            (CLOCK_REALTIME, libc::CLOCK_REALTIME),
            (CLOCK_MONOTONIC, libc::CLOCK_MONOTONIC),
            (CLOCK_BOOTTIME, libc::CLOCK_BOOTTIME),
            (CLOCK_PROCESS_CPUTIME_ID, libc::CLOCK_PROCESS_CPUTIME_ID),
        ] {
            let before = now(system);
            let times = each(session, 40, |fs, _| fs.clock_gettime(clock).unwrap());
            let after = now(system);
            assert!(times.iter().all(|time| (before..=after).contains(time)), "{mode}: clock {clock}");
        }
        assert_eq!(
            once(session, |fs| [3, 99].map(|clock| fs.clock_gettime(clock).map(drop))),
            [Err(Errno::INVAL); 2]
        );
        let before = now(libc::CLOCK_REALTIME).tv_sec;
        assert!((before..before + 60).contains(&once(session, |fs| fs.time()).unwrap()), "{mode}");
        // A sleep is at least as long as asked for; lanes with other times do not wait for each other's mistakes.
        let started = std::time::Instant::now();
        let slept = each(session, 3, |fs, lane| {
            let tv_nsec = [20_000_000, 1_000_000_000, -1][lane as usize];
            fs.nanosleep(TimeSpec { tv_sec: 0, tv_nsec })
        });
        assert_eq!(slept, [Ok(()), Err(Errno::INVAL), Err(Errno::INVAL)], "{mode}");
        assert!(started.elapsed() >= std::time::Duration::from_millis(20), "{mode}");
        assert_eq!(once(session, |fs| fs.nanosleep(TimeSpec { tv_sec: -1, tv_nsec: 0 })), Err(Errno::INVAL));
    });
}

#[test]
fn processes_are_read_written_and_waited_for() {
    let scratch = Scratch::new("popen");
    in_each_mode(small, |session, mode| {
        let said = each(session, 6, |fs, lane| {
            let command = CString::new(format!("echo lane {lane}; exit {lane}")).unwrap();
            let child = fs.popen(&command, c"r").unwrap();
            let mut line = [0; 64];
            let line = child.fgets(&mut line).unwrap().unwrap().to_str().unwrap().to_owned();
            (line, fs.pclose(child).map(|status| status >> 8))
        });
        for (lane, said) in said.into_iter().enumerate() {
            assert_eq!(said, (format!("lane {lane}\n"), Ok(i32::try_from(lane).unwrap())), "{mode}");
        }
        let (out, path) = (scratch.path("out"), scratch.c("out"));
        let _ = fs::remove_file(&out);
        let status = once(session, |fs| {
            let command = CString::new(format!("cat > '{}'; kill -9 $$", path.to_str().unwrap())).unwrap();
            let child = fs.popen(&command, c"we").unwrap();
            child.fputs(c"written to a process\n").unwrap();
            fs.pclose(child)
        });
        // Ended by signal 9.
        assert_eq!(status.map(|status| status & 127), Ok(9), "{mode}");
        assert_eq!(fs::read_to_string(&out).unwrap(), "written to a process\n", "{mode}");
        let results = once(session, |fs| {
            let file = fs.fopen(&path, c"r").unwrap();
            let other = fs.pclose(file).map(drop);
            file.fclose().unwrap();
            let endless = CString::new("x".repeat(4096)).unwrap();
            [
                other,
                fs.pclose(file).map(drop),
                fs.popen(c"true", c"rw").map(drop),
                fs.popen(c"true", c"").map(drop),
                fs.popen(&endless, c"r").map(drop),
            ]
        });
        let wanted = [Errno::CHILD, Errno::BADF, Errno::INVAL, Errno::INVAL, Errno::TOOBIG];
        assert_eq!(results, wanted.map(Err), "{mode}");
        // Nothing is left of those that failed: as many streams can be opened as before.
        once(session, |fs| {
            let all: Vec<_> = std::iter::from_fn(|| fs.fopen(&path, c"r").ok()).collect();
            assert_eq!(all.len(), 29);
            assert_eq!(fs.popen(c"true", c"r").map(drop), Err(Errno::MFILE));
            all.into_iter().for_each(|file| file.fclose().unwrap());
        });
    });
}

/// Adds, and refuses sums above a limit.
struct Sum;
impl Service for Sum {
    const NAME: &'static str = "sum";
    type Request = [u32; 3];
    type Reply = u64;
}

/// Has no reply, and panics when it is asked to.
struct Maybe;
impl Service for Maybe {
    const NAME: &'static str = "maybe";
    type Request = u8;
    type Reply = ();
}

/// The longest request and reply.
struct Reverse;
impl Service for Reverse {
    const NAME: &'static str = "reverse";
    type Request = [u64; 512];
    type Reply = [u64; 512];
}

#[test]
fn kernels_call_functions_of_the_program() {
    let builder = || {
        small()
            .service::<Sum>(|numbers: [u32; 3]| {
                let sum = numbers.into_iter().map(u64::from).sum();
                if sum > 2000 { Err(Errno::RANGE) } else { Ok(sum) }
            })
            .service::<Maybe>(|panics| {
                assert!(panics == 0, "as it was asked");
                Ok(())
            })
            .service::<Reverse>(|mut numbers| {
                numbers.reverse();
                Ok(numbers)
            })
    };
    in_each_mode(builder, |session, mode| {
        let sums = each(session, 700, |fs, lane| {
            let lane = u32::try_from(lane).unwrap();
            fs.call::<Sum>(&[lane, lane, lane])
        });
        for (lane, sum) in (0_u64..).zip(sums) {
            let wanted = if 3 * lane > 2000 { Err(Errno::RANGE) } else { Ok(3 * lane) };
            assert_eq!(sum, wanted, "{mode}");
        }
        assert_eq!(once(session, |fs| [0, 1].map(|how| fs.call::<Maybe>(&how))), [Ok(()), Err(Errno::IO)]);
        let numbers: [u64; 512] = std::array::from_fn(|index| index as u64);
        let reversed = once(session, |fs| fs.call::<Reverse>(&numbers)).unwrap();
        assert!(reversed.into_iter().rev().eq(numbers), "{mode}");
        // Wrong sizes, an unknown name, and too many bytes.
        let wrong = once(session, |fs| {
            [
                fs.call_by_key(key_of(b"sum"), &[0; 12], &mut [0; 4]),
                fs.call_by_key(key_of(b"sum"), &[0; 11], &mut [0; 8]),
                fs.call_by_key(key_of(b"none"), &[0; 12], &mut [0; 8]),
                fs.call_by_key(key_of(b"sum"), &[0; 5000], &mut [0; 8]),
            ]
        });
        assert_eq!(wrong, [Errno::INVAL, Errno::INVAL, Errno::NOSYS, Errno::INVAL].map(Err), "{mode}");
        // Names are taken once; more can come while the session is open.
        let taken = session.add_service::<Sum>(|_| Ok(0)).unwrap_err().to_string();
        assert!(taken.contains("\"sum\"") && taken.contains("another"), "{taken}");
        let long = session.add_service_of_bytes("long", (4097, 0), |_, _| Ok(())).unwrap_err().to_string();
        assert!(long.contains("4097") && long.contains("4096"), "{long}");
        session
            .add_service_of_bytes("late", (1, 1), |request, reply| {
                reply[0] = request[0] + 1;
                Ok(())
            })
            .unwrap();
        let late = once(session, |fs| {
            let mut reply = [0];
            fs.call_by_key(key_of(b"late"), &[7], &mut reply).map(|()| reply[0])
        });
        assert_eq!(late, Ok(8), "{mode}");
    });
    let refused = small().service::<Sum>(|_| Ok(1)).service::<Sum>(|_| Ok(2)).cpu().unwrap_err();
    assert!(refused.to_string().contains("service \"sum\""), "{refused}");
}

/// A function that waits for another call of the same kernel: whoever comes later is served all the same.
#[test]
fn functions_that_wait_hold_up_nobody() {
    for mode in MODES {
        let (sender, receiver) = std::sync::mpsc::channel::<u32>();
        let receiver = std::sync::Mutex::new(receiver);
        let builder = small().mode(mode).service::<Maybe>(move |how| {
            if how == 0 {
                receiver.lock().unwrap().recv().unwrap();
            } else {
                sender.send(1).unwrap();
            }
            Ok(())
        });
        let mut session = match builder.cpu() {
            Ok(session) => session,
            Err(refused) => {
                skip(&mode.to_string(), refused);
                continue;
            }
        };
        // Each warp of 32 lanes makes one call; those that wait come first.
        let results = each(&mut session, 40, |fs, lane| fs.call::<Maybe>(&u8::from(lane >= 20)));
        assert!(results.into_iter().all(|result| result == Ok(())), "{mode}");
    }
}

//! `open` of what the kernel has cached: at once, without a question what it is, and with the same answers as ever.

use std::ffi::{CStr, CString};
use std::fs::OpenOptions;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::Duration;

use gpufs_core::session::OpenFile;
use gpufs_device::file::{
    Descriptor, O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR, O_TMPFILE,
    O_WRONLY, Whence,
};
use gpufs_device::service::{Directory, Dirent, F_OK};
use gpufs_device::{Errno, File, Fs};
use gpufs_host::Session;
use gpufs_host::ring::Mode;
use gpufs_tests::{MODES, Scratch, once, skip, small, tables_of};

/// A session in each mode, in which a wait for another party ends.
fn sessions(test: &str, go: impl Fn(&mut Session, Mode)) {
    for mode in MODES {
        match small().mode(mode).wait_limit(Duration::from_secs(20)).cpu() {
            Ok(mut session) => go(&mut session, mode),
            Err(refused) => skip(&format!("{test}, {mode}"), refused),
        }
    }
}

/// How many operations of the rings a kernel's calls take.
fn operations(session: &mut Session, calls: impl Fn(Fs) + Sync) -> u64 {
    let before = session.statistics().total().operations;
    once(session, &calls);
    session.statistics().total().operations - before
}

/// Opens, asks for the position, and closes.
fn open_seek_close(fs: Fs, path: &CStr, flags: u32) -> Result<u64, Errno> {
    let descriptor = fs.open(path, flags, 0)?;
    let position = fs.lseek(descriptor, 0, Whence::Current);
    fs.close(descriptor).unwrap();
    position
}

#[test]
fn what_is_cached_is_asked_when_it_matters() {
    let scratch = Scratch::new("opening-asked");
    std::fs::write(scratch.path("file"), "text").unwrap();
    let path = scratch.c("file");
    sessions("what_is_cached_is_asked_when_it_matters", |session, mode| {
        let at_once = mode != Mode::Threads;
        // Once, for the path to be cached.
        once(session, |fs| assert_eq!(open_seek_close(fs, &path, O_RDONLY), Ok(0)));
        let plain = operations(session, |fs| {
            let descriptor = fs.open(&path, O_RDONLY, 0).unwrap();
            fs.close(descriptor).unwrap();
        });
        let seeking = operations(session, |fs| {
            let descriptor = fs.open(&path, O_RDONLY, 0).unwrap();
            assert_eq!(fs.lseek(descriptor, 2, Whence::Set), Ok(2));
            assert_eq!(fs.lseek(descriptor, 1, Whence::Current), Ok(3));
            assert_eq!(fs.pread(descriptor, &mut [0; 2], 0), Ok(2));
            fs.close(descriptor).unwrap();
        });
        // Opening takes two, and it is asked once what the file is; host threads have asked before.
        assert_eq!(plain, 3, "{mode}");
        assert_eq!(seeking, if at_once { 5 } else { 4 }, "{mode}");
        assert_eq!(
            operations(session, |fs| assert_eq!(open_seek_close(fs, &path, O_RDWR), Ok(0))),
            seeking - 1
        );
    });
}

#[test]
fn each_kind_of_file_is_known_for_what_it_is() {
    let scratch = Scratch::new("opening-kinds");
    std::fs::write(scratch.path("file"), "text").unwrap();
    std::fs::create_dir(scratch.path("folder")).unwrap();
    symlink("file", scratch.path("link")).unwrap();
    let fifo = scratch.c("fifo");
    // SAFETY:
    // - a string that ends
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    let path = |name: &str| scratch.c(name);
    let cases: Vec<(CString, u32, Result<u64, Errno>)> = vec![
        (path("file"), O_RDONLY, Ok(0)),
        (path("file"), O_WRONLY | O_NONBLOCK, Ok(0)),
        (path("link"), O_RDWR, Ok(0)),
        (path("link"), O_RDONLY | O_NOFOLLOW, Err(Errno::LOOP)),
        (path("folder"), O_RDONLY, Ok(0)),
        (path("folder"), O_WRONLY, Err(Errno::ISDIR)),
        (path("file"), O_DIRECTORY, Err(Errno::NOTDIR)),
        (path("missing"), O_RDONLY, Err(Errno::NOENT)),
        (path("file/below"), O_RDONLY, Err(Errno::NOTDIR)),
        (CString::default(), O_RDONLY, Err(Errno::NOENT)),
        (fifo.clone(), O_RDONLY, Err(Errno::SPIPE)),
        (fifo.clone(), O_RDWR, Err(Errno::SPIPE)),
        (fifo, O_WRONLY | O_NONBLOCK, Err(Errno::NXIO)),
        (c"/dev/null".into(), O_RDWR, Ok(0)),
        (c"/dev/ptmx".into(), O_RDWR, Err(Errno::SPIPE)),
        (c"/proc/self/status".into(), O_RDONLY, Ok(0)),
        (c"/dev/random".into(), O_RDONLY, Ok(0)),
    ];
    sessions("each_kind_of_file_is_known_for_what_it_is", |session, mode| {
        // The second time it is cached, if not the first.
        for _ in 0..2 {
            for (path, flags, expected) in &cases {
                once(session, |fs| {
                    assert_eq!(
                        open_seek_close(fs, path, *flags),
                        *expected,
                        "{path:?} with {flags:#o}, {mode}"
                    );
                });
            }
        }
    });
}

#[test]
fn a_device_without_a_position_stays_where_it_is() {
    sessions("a_device_without_a_position_stays_where_it_is", |session, mode| {
        once(session, |fs| {
            let descriptor = fs.open(c"/dev/null", O_RDWR, 0).unwrap();
            assert_eq!(fs.write(descriptor, b"text"), Ok(4));
            assert_eq!(fs.lseek(descriptor, 7, Whence::Set), Ok(0), "{mode}");
            assert_eq!(fs.lseek(descriptor, 0, Whence::Current), Ok(0), "{mode}");
            assert_eq!(fs.read(descriptor, &mut [0; 4]), Ok(0));
            let stream = fs.fdopen(descriptor, c"r+").unwrap();
            stream.fputs(c"more").unwrap();
            assert_eq!(stream.ftell(), Ok(0), "{mode}");
            stream.fclose().unwrap();
            // A stream on one that nobody has asked about.
            let descriptor = fs.open(c"/dev/zero", O_RDWR, 0).unwrap();
            let stream = fs.fdopen(descriptor, c"r").unwrap();
            assert_eq!(stream.fgetc(), Ok(Some(0)));
            assert_eq!(stream.ftell(), Ok(0), "{mode}");
            stream.fclose().unwrap();
        });
    });
}

#[test]
fn a_directory_that_was_opened_as_a_file_is_read_and_closed() {
    let scratch = Scratch::new("opening-directory");
    for name in 0..300 {
        std::fs::write(scratch.path(&format!("entry-{name}")), "").unwrap();
    }
    let path = scratch.c(".");
    // Other tests of this process open files, but not here.
    let still_open = || {
        let numbers = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        numbers
            .filter_map(|number| number.path().read_link().ok())
            .filter(|of| *of == scratch.path(""))
            .count()
    };
    sessions("a_directory_that_was_opened_as_a_file_is_read_and_closed", |session, mode| {
        for _ in 0..2 {
            once(session, |fs| {
                let descriptor = fs.open(&path, O_RDONLY, 0).unwrap();
                assert_eq!(fs.read(descriptor, &mut [0; 4]), Err(Errno::ISDIR), "{mode}");
                assert_eq!(still_open(), 1, "{mode}");
                let directory = Directory(descriptor);
                let mut entry = Dirent::default();
                let mut count = 0;
                while fs.readdir(directory, &mut entry).unwrap() {
                    count += 1;
                }
                assert_eq!(count, 302, "{mode}");
                fs.closedir(directory).unwrap();
                assert_eq!(fs.close(descriptor), Err(Errno::BADF));
            });
        }
    });
    assert_eq!(still_open(), 0);
}

/// The writer waits for the kernel's `open`, and is gone before anything is read: the end of the file, and no wait for another writer.
#[test]
fn a_writer_that_comes_and_goes_is_the_end() {
    let scratch = Scratch::new("opening-writer");
    sessions("a_writer_that_comes_and_goes_is_the_end", |session, mode| {
        for round in 0..100 {
            // One for each round: a writer could meet the last round's reader, which the system lets go a moment after its close has completed.
            let name = format!("{mode}-{round}");
            let (fifo, path) = (scratch.c(&name), scratch.path(&name));
            // SAFETY:
            // - a string that ends
            assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
            let writer = thread::spawn(move || drop(OpenOptions::new().write(true).open(path).unwrap()));
            once(session, |fs| {
                let from = fs.open(&fifo, O_RDONLY, 0).unwrap();
                assert_eq!(fs.read(from, &mut [0]), Ok(0), "{mode}, {round}");
                fs.close(from).unwrap();
            });
            writer.join().unwrap();
        }
    });
}

/// No bytes of a file by `pread` and `pwrite` are no operation; of a device, which may have its own view of that, they are.
#[test]
fn transfers_of_nothing() {
    let scratch = Scratch::new("opening-nothing");
    std::fs::write(scratch.path("file"), "text").unwrap();
    let (path, fifo) = (scratch.c("file"), scratch.c("fifo"));
    // SAFETY:
    // - a string that ends
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    sessions("transfers_of_nothing", |session, _| {
        let file = once(session, |fs| fs.open(&path, O_RDWR, 0).unwrap());
        // What it is, the first look at its position finds out.
        once(session, |fs| assert_eq!(fs.lseek(file, 0, Whence::Set), Ok(0)));
        let nothing = |fs: Fs| {
            assert_eq!(fs.pread(file, &mut [], 1), Ok(0));
            assert_eq!(fs.pwrite(file, &[], 1), Ok(0));
        };
        assert_eq!(operations(session, nothing), 0);
        let device = once(session, |fs| fs.open(c"/dev/zero", O_RDWR, 0).unwrap());
        once(session, |fs| assert_eq!(fs.lseek(device, 0, Whence::Set), Ok(0)));
        let nothing = |fs: Fs| {
            assert_eq!(fs.pread(device, &mut [], 1), Ok(0));
            assert_eq!(fs.read(device, &mut []), Ok(0));
        };
        assert_eq!(operations(session, nothing), 2);
        // Nobody writes it, and nobody is waited for.
        let end = once(session, |fs| fs.open(&fifo, O_RDWR, 0).unwrap());
        assert_eq!(once(session, |fs| fs.read(end, &mut [])), Ok(0));
    });
}

/// A path of 4,096 bytes with its NUL is the longest, as the system has it.
#[test]
fn the_longest_path() {
    let scratch = Scratch::new("opening-long");
    std::fs::write(scratch.path("file"), "text").unwrap();
    let name = scratch.c("file");
    let longer = |bytes: usize| {
        let fill = "/.".repeat(4096);
        let rest = name.to_str().unwrap();
        // An odd byte is one more slash.
        let left = bytes - rest.len();
        let slash = if left % 2 == 1 { "/" } else { "" };
        CString::new(format!("{}{slash}{rest}", &fill[..left / 2 * 2])).unwrap()
    };
    let (fits, beyond) = (longer(4095), longer(4096));
    assert!(
        std::fs::metadata(fits.to_str().unwrap()).is_ok()
            && std::fs::metadata(beyond.to_str().unwrap()).is_err()
    );
    sessions("the_longest_path", |session, _| {
        once(session, |fs| {
            let close = |descriptor| fs.close(descriptor);
            assert_eq!(fs.open(&fits, O_RDONLY, 0).and_then(close), Ok(()));
            assert_eq!(fs.open(&beyond, O_RDONLY, 0).and_then(close), Err(Errno::NAMETOOLONG));
            assert_eq!(fs.fopen(&fits, c"r").and_then(File::fclose), Ok(()));
            assert_eq!(fs.fopen(&beyond, c"r").and_then(File::fclose), Err(Errno::NAMETOOLONG));
            assert_eq!(fs.stat(&fits).map(|stat| stat.st_size), Ok(4));
            assert_eq!(fs.stat(&beyond).map(drop), Err(Errno::NAMETOOLONG));
            assert_eq!(fs.access(&fits, F_OK), Ok(()));
            assert_eq!(fs.access(&beyond, F_OK), Err(Errno::NAMETOOLONG));
            assert_eq!(fs.mkdir(&fits, 0o700), Err(Errno::EXIST));
            assert_eq!(fs.mkdir(&beyond, 0o700), Err(Errno::NAMETOOLONG));
            assert_eq!(fs.unlink(&beyond), Err(Errno::NAMETOOLONG));
        });
    });
}

/// `F_GETFL` says how a descriptor was opened.
#[test]
fn flags_of_open_files() {
    let scratch = Scratch::new("opening-flags");
    let path = scratch.c("file");
    sessions("flags_of_open_files", |session, _| {
        once(session, |fs| {
            for access in [O_RDONLY, O_WRONLY, O_RDWR] {
                for more in [0, O_APPEND, O_NONBLOCK, O_APPEND | O_NONBLOCK] {
                    let descriptor = fs.open(&path, access | more | O_CREAT, 0o600).unwrap();
                    let other = fs.dup(descriptor).unwrap();
                    assert_eq!(fs.getfl(descriptor), Ok(access | more), "{access:o} {more:o}");
                    assert_eq!(fs.getfl(other), Ok(access | more), "{access:o} {more:o}, a duplicate");
                    fs.close(descriptor).unwrap();
                    fs.close(other).unwrap();
                }
            }
            assert_eq!(fs.getfl(Descriptor(60)), Err(Errno::BADF));
        });
    });
}

/// A directory, and a file that the call makes, are known for what they are by the flags alone; what else is opened is asked about.
#[test]
fn what_flags_say_is_not_asked() {
    let scratch = Scratch::new("opening-said");
    let (folder, new, fifo) = (scratch.c("."), scratch.c("new"), scratch.c("fifo"));
    // SAFETY:
    // - a string that ends
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    // What is asked before and after the open, with that and the close.
    let cases = [
        (&new, O_RDWR | O_CREAT | O_EXCL, 2, Ok(0)),
        (&new, O_RDWR | O_CREAT, 4, Ok(0)),
        (&folder, O_DIRECTORY, 2, Ok(0)),
        (&folder, O_RDWR | O_TMPFILE, 2, Ok(0)),
        (&fifo, O_RDONLY | O_NONBLOCK | O_CREAT, 3, Err(Errno::SPIPE)),
    ];
    sessions("what_flags_say_is_not_asked", |session, mode| {
        for (path, flags, asked, position) in cases {
            let case = format!("{path:?} with {flags:#o}, {mode}");
            let refused = once(session, |fs| fs.open(path, flags, 0o600).and_then(|opened| fs.close(opened)));
            if refused == Err(Errno::OPNOTSUPP) {
                skip(&case, "the file system has no files without a name");
                continue;
            }
            assert_eq!(refused, Ok(()), "{case}");
            let _ = std::fs::remove_file(scratch.path("new"));
            let taken = operations(session, |fs| {
                let opened = fs.open(path, flags, 0o600).unwrap();
                assert_eq!(fs.lseek(opened, 0, Whence::Current), position, "{case}");
                fs.close(opened).unwrap();
            });
            assert_eq!(taken, asked, "{case}");
            let _ = std::fs::remove_file(scratch.path("new"));
        }
    });
}

/// Paths are relative to the working directory, which is this package's.
#[test]
fn a_path_that_is_relative() {
    sessions("a_path_that_is_relative", |session, mode| {
        once(session, |fs| {
            assert_eq!(open_seek_close(fs, c"Cargo.toml", O_RDONLY), Ok(0), "{mode}");
            assert_eq!(open_seek_close(fs, c"tests", O_DIRECTORY), Ok(0), "{mode}");
            assert!(fs.stat(c"Cargo.toml").is_ok(), "{mode}");
        });
    });
}

/// Of what may wait, a FIFO is told not to, since the session waits for it; a terminal is as it was opened, and known for one.
#[test]
fn what_the_system_knows_of_flags() {
    let scratch = Scratch::new("opening-told");
    let fifo = scratch.c("fifo");
    // SAFETY:
    // - a string that ends
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    let told = |fs: Fs, descriptor: Descriptor| {
        let number = tables_of(fs).files()[descriptor.0 as usize].descriptor.peek();
        let known = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap();
        let flags = known.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        u32::from_str_radix(flags.trim(), 8).unwrap() & O_NONBLOCK
    };
    sessions("what_the_system_knows_of_flags", |session, mode| {
        // The second time it is cached, if not the first.
        for _ in 0..2 {
            once(session, |fs| {
                let end = fs.open(&fifo, O_RDWR, 0).unwrap();
                assert_eq!(told(fs, end), O_NONBLOCK, "{mode}: a FIFO");
                fs.close(end).unwrap();
                let terminal = fs.open(c"/dev/ptmx", O_RDWR, 0).unwrap();
                assert_eq!(told(fs, terminal), 0, "{mode}: a terminal");
                let flags = tables_of(fs).files()[terminal.0 as usize].flags.peek();
                assert_eq!(flags & OpenFile::TERMINAL, OpenFile::TERMINAL, "{mode}");
                fs.close(terminal).unwrap();
            });
        }
    });
}

/// What the system says of a close is the call's result, and the number is free whatever that is.
#[test]
fn a_close_that_fails() {
    let scratch = Scratch::new("opening-close");
    std::fs::write(scratch.path("file"), "text").unwrap();
    let path = scratch.c("file");
    sessions("a_close_that_fails", |session, mode| {
        let (closed, again) = once(session, |fs| {
            let descriptor = fs.open(&path, O_RDONLY, 0).unwrap();
            let number = &tables_of(fs).files()[descriptor.0 as usize].descriptor;
            let own = number.peek();
            // No number that the process has.
            number.set(u32::MAX >> 2);
            let closed = fs.close(descriptor);
            // SAFETY:
            // - a descriptor of this test, which nobody else knows any more
            assert_eq!(unsafe { libc::close(own.cast_signed()) }, 0);
            (closed, fs.close(descriptor))
        });
        assert_eq!((closed, again), (Err(Errno::BADF), Err(Errno::BADF)), "{mode}");
        let free = once(session, |fs| fs.open(&path, O_RDONLY, 0).and_then(|opened| fs.close(opened)));
        assert_eq!(free, Ok(()), "{mode}");
    });
}

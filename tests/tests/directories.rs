//! Directories that are read ahead: what the rings do for them, whose memory that takes, and what another lane's call does meanwhile.

use std::collections::BTreeSet;
use std::fs;

use gpufs_device::file::{Descriptor, O_DIRECTORY, O_RDONLY, Whence};
use gpufs_device::service::{Directory, Dirent};
use gpufs_device::{Errno, Fs};
use gpufs_host::Session;
use gpufs_host::ring::Mode;
use gpufs_tests::{MODES, Scratch, c_path, each, once, skip, small, tables};

/// A session in each mode that works here. In the end all memory of directories is free again.
fn in_each_mode(test: impl Fn(&mut Session, Mode)) {
    for mode in MODES {
        match small().mode(mode).cpu() {
            Ok(mut session) => {
                test(&mut session, mode);
                assert_eq!(free(&session), LISTINGS, "{mode}: memory of directories");
            }
            Err(refused) => skip(&mode.to_string(), refused),
        }
    }
}

/// Buffers for entries in a [`small`] session.
const LISTINGS: u32 = 16;

fn free(session: &Session) -> u32 {
    tables(session).listings.free.free()
}

fn name_of(entry: &Dirent) -> String {
    let name = std::ffi::CStr::from_bytes_until_nul(&entry.d_name).unwrap();
    name.to_str().unwrap().to_owned()
}

fn names(fs: Fs, directory: Directory) -> Result<Vec<String>, Errno> {
    let (mut entry, mut found) = (Dirent::default(), Vec::new());
    while fs.readdir(directory, &mut entry)? {
        found.push(name_of(&entry));
    }
    Ok(found)
}

fn folder(name: &str, files: usize) -> Scratch {
    let scratch = Scratch::new(name);
    for file in 0..files {
        fs::write(scratch.path(&format!("file{file:04}")), "").unwrap();
    }
    scratch
}

fn operations(session: &Session) -> u64 {
    session.statistics().total().operations
}

#[test]
fn a_small_directory_takes_two_operations() {
    let scratch = folder("two", 90);
    let path = c_path(scratch.dir());
    in_each_mode(|session, mode| {
        for lanes in [1, 32] {
            let before = operations(session);
            let directory = once(session, |fs| fs.opendir(&path)).unwrap();
            let read = each(session, lanes, |fs, _| names(fs, directory).unwrap().len());
            assert_eq!(once(session, |fs| fs.closedir(directory)), Ok(()));
            assert_eq!(read.iter().sum::<usize>(), 92, "{mode}: {lanes} lanes");
            assert_eq!(operations(session) - before, 2, "{mode}: {lanes} lanes");
        }
    });
}

/// The rings of I/O have nothing to do, so that their kernel threads sleep ([R-SERVE-9]). A file among the directories is closed as ever.
#[test]
fn directories_are_the_services_alone() {
    let scratch = folder("services", 40);
    let (path, file) = (c_path(scratch.dir()), scratch.c("file0000"));
    in_each_mode(|session, mode| {
        let rings =
            |session: &Session| session.statistics().rings.iter().map(|ring| ring.operations).sum::<u64>();
        let (before, of_rings) = (operations(session), rings(session));
        let read = each(session, 8, |fs, _| {
            let directory = fs.opendir(&path)?;
            let found = names(fs, directory)?;
            fs.closedir(directory)?;
            Ok::<_, Errno>(found.len())
        });
        assert_eq!(read, [Ok(42); 8], "{mode}");
        assert_eq!(operations(session) - before, 16, "{mode}");
        if mode != Mode::Threads {
            assert_eq!(rings(session), of_rings, "{mode}: operations of I/O");
        }
        // Both kinds in one call of a warp, and descriptors that nobody has.
        let closed = each(session, 16, |fs, lane| {
            let directory = fs.open(&path, O_RDONLY | O_DIRECTORY, 0)?;
            let other = fs.open(&file, O_RDONLY, 0)?;
            let (one, two) = if lane % 2 == 0 { (directory, other) } else { (other, directory) };
            let first = fs.close(if lane % 5 == 0 { Descriptor(u32::MAX) } else { one });
            if first.is_err() {
                fs.close(one)?;
            }
            fs.close(two)?;
            first
        });
        for (lane, closed) in closed.into_iter().enumerate() {
            assert_eq!(closed, if lane % 5 == 0 { Err(Errno::BADF) } else { Ok(()) }, "{mode}: lane {lane}");
        }
        let twice = once(session, |fs| {
            let directory = fs.opendir(&path)?;
            fs.closedir(directory)?;
            fs.closedir(directory)
        });
        assert_eq!(twice, Err(Errno::BADF), "{mode}");
        // Other tests of this process open other files meanwhile.
        let is_ours = |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|to| to == scratch.dir());
        let open = || fs::read_dir("/proc/self/fd").unwrap().flatten().filter(is_ours).count();
        each(session, 32, |fs, _| fs.opendir(&path).and_then(|directory| fs.closedir(directory)).unwrap());
        assert_eq!(open(), 0, "{mode}: descriptors of the process");
    });
}

#[test]
fn a_large_directory_is_read_in_larger_pieces() {
    let scratch = folder("large", 2000);
    let path = c_path(scratch.dir());
    in_each_mode(|session, mode| {
        let before = operations(session);
        let found = once(session, |fs| {
            let directory = fs.opendir(&path)?;
            let found = names(fs, directory)?;
            fs.closedir(directory)?;
            Ok::<_, Errno>(found)
        });
        let found = found.unwrap();
        assert_eq!(found.len(), 2002, "{mode}");
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 2002, "{mode}");
        // 32 bytes each and the place: one of 4 KiB, then pieces of 32 KiB.
        assert!(operations(session) - before <= 6, "{mode}: {}", operations(session) - before);
    });
}

/// Directories for which there is no memory are read all the same.
#[test]
fn more_directories_are_open_than_have_memory() {
    let scratch = folder("many", 60);
    let path = c_path(scratch.dir());
    in_each_mode(|session, mode| {
        let open: Vec<_> =
            (0..LISTINGS + 4).map(|_| once(session, |fs| fs.opendir(&path)).unwrap()).collect();
        assert_eq!(free(session), 0, "{mode}");
        let mut each_of = Vec::new();
        for directory in &open {
            for lanes in [1, 32] {
                let parts = each(session, lanes, |fs, _| names(fs, *directory).unwrap());
                let found: BTreeSet<_> = parts.iter().flatten().cloned().collect();
                assert_eq!((parts.iter().map(Vec::len).sum::<usize>(), found.len()), (62, 62), "{mode}");
                assert_eq!(once(session, |fs| fs.rewinddir(*directory)), Ok(()));
                each_of.push(found);
            }
        }
        assert!(each_of.windows(2).all(|two| two[0] == two[1]), "{mode}");
        for directory in open {
            assert_eq!(once(session, |fs| fs.closedir(directory)), Ok(()));
        }
    });
}

#[test]
fn a_place_that_was_told_is_found_again() {
    let scratch = folder("places", 300);
    let path = c_path(scratch.dir());
    in_each_mode(|session, mode| {
        let outcome = once(session, |fs| {
            let directory = fs.opendir(&path)?;
            let (mut entry, mut places) = (Dirent::default(), Vec::new());
            loop {
                let place = fs.telldir(directory)?;
                if !fs.readdir(directory, &mut entry)? {
                    break;
                }
                places.push((place, name_of(&entry)));
            }
            let mut wrong = 0;
            let mut at = 1;
            for _ in 0..1000 {
                at = (at * 7919 + 13) % places.len();
                fs.seekdir(directory, places[at].0)?;
                wrong += usize::from(fs.telldir(directory)? != places[at].0);
                // Some entries in a row, or none.
                for place in places.iter().skip(at).take(at % 3) {
                    let found = fs.readdir(directory, &mut entry)?;
                    wrong += usize::from(!found || name_of(&entry) != place.1);
                }
            }
            let negative = fs.seekdir(directory, -1);
            fs.closedir(directory)?;
            let closed = (fs.telldir(directory), fs.seekdir(directory, 0));
            Ok::<_, Errno>((places.len(), wrong, negative, closed))
        });
        let closed = (Err(Errno::BADF), Err(Errno::BADF));
        assert_eq!(outcome, Ok((302, 0, Err(Errno::INVAL), closed)), "{mode}");
    });
}

/// `rewinddir` shows what has come since, also where nothing was read in between; a position set by `lseek` counts as one by `seekdir`.
#[test]
fn what_was_read_ahead_is_forgotten() {
    in_each_mode(|session, mode| {
        let scratch = folder(&format!("rewind-{mode}"), 3);
        let path = c_path(scratch.dir());
        let directory = once(session, |fs| fs.opendir(&path)).unwrap();
        fs::write(scratch.path("later"), "").unwrap();
        let has = |found: &[String]| found.iter().any(|name| name == "later");
        assert!(!has(&once(session, |fs| names(fs, directory)).unwrap()), "{mode}: read ahead with the open");
        once(session, |fs| fs.rewinddir(directory)).unwrap();
        assert!(has(&once(session, |fs| names(fs, directory)).unwrap()), "{mode}");
        let again = once(session, |fs| {
            fs.lseek(directory.0, 0, Whence::Set)?;
            names(fs, directory)
        });
        assert_eq!(again.unwrap().len(), 6, "{mode}");
        assert_eq!(once(session, |fs| fs.closedir(directory)), Ok(()));
    });
}

/// A directory that `open` opened, its copy by `dup`, and `dup2` onto one that is read.
#[test]
fn copies_of_a_directory_have_their_own_place() {
    let (one, other) = (folder("copies", 10), folder("copies-other", 5));
    let (path, other_path) = (c_path(one.dir()), c_path(other.dir()));
    in_each_mode(|session, mode| {
        let found = once(session, |fs| {
            let plain = fs.open(&path, O_RDONLY | O_DIRECTORY, 0)?;
            let mut entry = Dirent::default();
            for _ in 0..4 {
                fs.readdir(Directory(plain), &mut entry)?;
            }
            let copy = fs.dup(plain)?;
            let (rest, of_copy) = (names(fs, Directory(plain))?, names(fs, Directory(copy))?);
            let third = fs.opendir(&other_path)?;
            fs.readdir(third, &mut entry)?;
            fs.dup2(copy, third.0)?;
            fs.rewinddir(third)?;
            let replaced = names(fs, third)?;
            for descriptor in [plain, copy, third.0] {
                fs.close(descriptor)?;
            }
            Ok::<_, Errno>((rest.len(), of_copy == rest, replaced.len()))
        });
        assert_eq!(found, Ok((8, true, 12)), "{mode}");
    });
}

/// One lane closes what others read, and opens another directory: nobody gets an entry of that, and the memory is whole.
#[test]
fn who_reads_what_is_closed_gets_its_entries_or_an_error() {
    let (one, other) = (folder("closed", 200), Scratch::new("closed-other"));
    for file in 0..200 {
        fs::write(other.path(&format!("other{file}")), "").unwrap();
    }
    let (path, other_path) = (c_path(one.dir()), c_path(other.dir()));
    in_each_mode(|session, mode| {
        for round in 0..20 {
            let directory = once(session, |fs| fs.opendir(&path)).unwrap();
            let found = each(session, 96, |fs, lane| {
                if lane == 40 {
                    for _ in 0..round {
                        std::thread::yield_now();
                    }
                    fs.closedir(directory).unwrap();
                    let next = fs.opendir(&other_path).unwrap();
                    return Ok((names(fs, next).unwrap(), Some(next)));
                }
                let (mut entry, mut found) = (Dirent::default(), Vec::new());
                loop {
                    match fs.readdir(directory, &mut entry) {
                        Ok(true) => found.push(name_of(&entry)),
                        Ok(false) | Err(Errno::BADF) => return Ok((found, None)),
                        Err(errno) => return Err(errno),
                    }
                }
            });
            for (lane, outcome) in found.into_iter().enumerate() {
                let (names, next) = outcome.unwrap();
                // The number may be the other's by now, and then its entries are what it gives.
                let known = |name: &String| {
                    name.starts_with('.') || name.starts_with("file") || name.starts_with("other")
                };
                assert!(names.iter().all(known), "{mode}, lane {lane}: {names:?}");
                if let Some(next) = next {
                    assert_eq!(once(session, |fs| fs.closedir(next)), Ok(()));
                }
            }
            assert_eq!(free(session), LISTINGS, "{mode}");
        }
    });
}

/// Opens directories until they have all memory there is for entries.
fn fill(session: &mut Session) -> Vec<Directory> {
    (0..free(session)).map(|_| once(session, |fs| fs.opendir(c"/")).unwrap()).collect()
}

fn close(session: &mut Session, open: Vec<Directory>) {
    for directory in open {
        assert_eq!(once(session, |fs| fs.closedir(directory)), Ok(()));
    }
}

/// One buffer while that may hold a whole directory, and more once it is known not to: also where the first was not there with the open.
#[test]
fn a_directory_has_memory_as_it_needs() {
    let (small_one, large) = (folder("needs-small", 20), folder("needs-large", 1000));
    let (small_path, large_path) = (c_path(small_one.dir()), c_path(large.dir()));
    in_each_mode(|session, mode| {
        // Read, and read again from its start.
        let directory = once(session, |fs| fs.opendir(&small_path)).unwrap();
        for _ in 0..2 {
            assert_eq!(once(session, |fs| names(fs, directory)).unwrap().len(), 22, "{mode}");
            assert_eq!(free(session), LISTINGS - 1, "{mode}");
            assert_eq!(once(session, |fs| fs.rewinddir(directory)), Ok(()));
        }
        close(session, vec![directory]);
        for (skipped, taken) in [(0, 1), (1, 8)] {
            let full = fill(session);
            let directory = once(session, |fs| fs.opendir(&large_path)).unwrap();
            for _ in 0..skipped {
                assert_eq!(once(session, |fs| fs.readdir(directory, &mut Dirent::default())), Ok(true));
            }
            close(session, full);
            assert_eq!(free(session), LISTINGS, "{mode}");
            assert_eq!(once(session, |fs| fs.readdir(directory, &mut Dirent::default())), Ok(true));
            assert_eq!(free(session), LISTINGS - taken, "{mode}: behind {skipped}");
            let rest = once(session, |fs| names(fs, directory)).unwrap();
            assert_eq!(rest.len(), 1001 - skipped, "{mode}: behind {skipped}");
            close(session, vec![directory]);
        }
    });
}

/// Without memory: a call of many lanes gives each an entry while there are some, however few the host tells at a time, and takes as many
/// operations as that needs. Nobody is asked behind the end.
#[test]
fn without_memory_lanes_get_their_entries_too() {
    let scratch = Scratch::new("without");
    for file in 0..70 {
        fs::write(scratch.path(&format!("{file:0>255}")), "").unwrap();
    }
    let path = c_path(scratch.dir());
    in_each_mode(|session, mode| {
        let full = fill(session);
        // Staging memory for as many lanes' entries, for 13, and for no more than that.
        for (lanes, spare, needed) in [(1, 64, 72), (13, 64, 6), (32, 64, 3), (32, 1, 7)] {
            let staging = &tables(session).staging.free;
            let held: Vec<_> =
                (spare..64).map(|hint| staging.claim_one(hint).expect("one is free")).collect();
            let what = format!("{mode}: {lanes} lanes, {spare} buffers");
            let directory = once(session, |fs| fs.opendir(&path)).unwrap();
            let (before, mut given) = (operations(session), 0);
            loop {
                let found = each(session, lanes, |fs, _| fs.readdir(directory, &mut Dirent::default()));
                let count = found.iter().filter(|found| **found == Ok(true)).count();
                given += count;
                if count < found.len() {
                    break;
                }
            }
            let ended = operations(session);
            assert_eq!((given, ended - before), (72, needed), "{what}");
            for lanes in [1, 32] {
                let found = each(session, lanes, |fs, _| fs.readdir(directory, &mut Dirent::default()));
                assert!(found.iter().all(|found| *found == Ok(false)), "{what}: behind the end");
            }
            assert_eq!(operations(session), ended, "{what}");
            close(session, vec![directory]);
            held.into_iter().for_each(|claim| staging.release(claim));
        }
        close(session, full);
    });
}

/// A directory that was opened as a file leaves nothing of its end to the next that has its number.
#[test]
fn an_end_is_of_one_directory() {
    // Their places are numbers from 0 on: the end of the first is within the second.
    let (few, many) = (c"/proc/self/ns", c"/proc/self");
    in_each_mode(|session, mode| {
        // Twice: what was not looked up before is not opened at once, and then it is known for a directory.
        for path in [few, many] {
            once(session, |fs| fs.open(path, O_RDONLY, 0).and_then(|opened| fs.close(opened))).unwrap();
        }
        let read = |fs: Fs, path| {
            let directory = Directory(fs.open(path, O_RDONLY, 0)?);
            let found = names(fs, directory)?.len();
            let end = fs.telldir(directory)?;
            fs.closedir(directory)?;
            Ok::<_, Errno>((directory.0, found, end))
        };
        let (number, found, end) = once(session, |fs| read(fs, few)).unwrap();
        assert!(found > 4, "{mode}");
        let behind = |fs: Fs, opened: Result<Directory, Errno>| {
            let directory = opened?;
            fs.seekdir(directory, end)?;
            let behind = names(fs, directory)?;
            fs.closedir(directory)?;
            Ok::<_, Errno>((directory.0, behind))
        };
        let (again, left) =
            once(session, |fs| behind(fs, fs.open(many, O_RDONLY, 0).map(Directory))).unwrap();
        assert_eq!(again, number, "{mode}: the same number");
        let wanted = once(session, |fs| behind(fs, fs.opendir(many))).unwrap().1;
        assert_eq!(left, wanted, "{mode}: behind {end}");
    });
}

/// The longest path has 4,096 bytes with its NUL.
#[test]
fn the_longest_path_of_a_directory() {
    let [fits, beyond] = [4095, 4096].map(|bytes| std::ffi::CString::new("/".repeat(bytes)).unwrap());
    in_each_mode(|session, mode| {
        let opened = once(session, |fs| fs.opendir(&fits).and_then(|directory| fs.closedir(directory)));
        assert_eq!(opened, Ok(()), "{mode}");
        assert_eq!(once(session, |fs| fs.opendir(&beyond)).map(drop), Err(Errno::NAMETOOLONG), "{mode}");
    });
}

/// A failed open keeps nothing.
#[test]
fn what_does_not_open_takes_no_memory() {
    let scratch = folder("fails", 1);
    let file = scratch.c("file0000");
    let long = std::ffi::CString::new("x".repeat(4096)).unwrap();
    in_each_mode(|session, mode| {
        let errors = once(session, |fs| {
            [fs.opendir(&file), fs.opendir(c"/no/such"), fs.opendir(&long)].map(|opened| opened.map(drop))
        });
        assert_eq!(errors, [Errno::NOTDIR, Errno::NOENT, Errno::NAMETOOLONG].map(Err), "{mode}");
        let full = once(session, |fs| {
            let mut open = Vec::new();
            let refused = loop {
                match fs.opendir(c"/") {
                    Ok(directory) => open.push(directory),
                    Err(errno) => break errno,
                }
            };
            open.into_iter().try_for_each(|directory| fs.closedir(directory)).unwrap();
            refused
        });
        assert_eq!(full, Errno::MFILE, "{mode}");
        assert_eq!(once(session, |fs| fs.closedir(Directory(Descriptor(60)))), Err(Errno::BADF));
    });
}

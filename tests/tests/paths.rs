//! Calls on paths and metadata against the system's: random sequences, of several lanes at once, each on a tree of its own beside a twin on which
//! the system's calls are made. Results, error numbers and the trees afterwards are the same, whoever serves the rings.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use gpufs_device::file::{
    AT_FDCWD, AT_SYMLINK_NOFOLLOW, Descriptor, O_CREAT, O_DIRECTORY, O_EXCL, O_RDWR, O_TRUNC, Stat, Statx,
};
use gpufs_device::{Errno, Fs};
use gpufs_tests::random::Random;
use gpufs_tests::{MODES, Scratch, c_path, each, once, setting, skip, small};

/// Names of a tree: files, directories, links to either and to nothing, and what can never be.
const NAMES: [&str; 16] =
    ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "e", "e/a", "l", "d/l", "a/x", "absent/x", "", "d/", "d/."];
/// Lanes that make calls at once.
const LANES: u64 = 6;
/// Calls of a sequence.
const CALLS: usize = 60;

/// What a path of a call is relative to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    /// The path is absolute.
    Root,
    /// The tree's directory, which is open.
    Tree,
    /// A descriptor that is not open.
    Stale,
    /// A file that is open.
    File,
}

/// A path of a call.
#[derive(Clone, Copy, Debug)]
struct Name {
    from: From,
    /// Of [`NAMES`]; beyond these, a name that is too long.
    name: usize,
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Stat(Name, u32),
    Statx(Name, u32, u32),
    Fstat(bool),
    Open(Name, u32),
    Unlink(Name, u32),
    Remove(Name),
    Rename(Name, Name, u32),
    Mkdir(Name, u32),
    Link(Name, Name, u32),
    Symlink(usize, Name),
    Fallocate(u32, i64, i64),
    Advise(i64, i64, i32),
    Sync(i64, i64, u32),
}

/// What a call gave: of metadata what twins have in common.
type Outcome = Result<(u64, u64, u64), i32>;

fn name(random: &Random) -> Name {
    let from = match random.below(20) {
        0..9 => From::Root,
        9..18 => From::Tree,
        18 => From::Stale,
        _ => From::File,
    };
    let name = if random.one_in(40) { NAMES.len() + random.below(2) } else { random.below(NAMES.len()) };
    Name { from, name }
}

fn call(random: &Random) -> Call {
    let lengths = [0, 1, 4096, 10_000, -1, i64::MAX];
    match random.below(100) {
        0..14 => Call::Stat(name(random), random.pick(&[0, 0x100, 0x100, 0x1000, 0x800, 1])),
        14..20 => Call::Statx(
            name(random),
            random.pick(&[0, 0x100, 0x1000, 0x6000]),
            random.pick(&[0x7ff, 0xfff, 0, 1 << 31]),
        ),
        20..24 => Call::Fstat(random.one_in(5)),
        24..38 => Call::Open(
            name(random),
            random.pick(&[O_CREAT | O_RDWR, O_CREAT | O_EXCL | O_RDWR, O_RDWR | O_TRUNC, 0]),
        ),
        38..46 => Call::Unlink(name(random), random.pick(&[0, 0, 0x200, 1])),
        46..52 => Call::Remove(name(random)),
        52..64 => Call::Rename(name(random), name(random), random.pick(&[0, 0, 0, 1, 2, 3, 64])),
        64..76 => Call::Mkdir(name(random), random.pick(&[0o755, 0o700, 0o777])),
        76..84 => Call::Link(name(random), name(random), random.pick(&[0, 0x400, 1])),
        84..92 => Call::Symlink(random.below(NAMES.len() + 2), name(random)),
        92..96 => {
            Call::Fallocate(random.pick(&[0, 1, 3, 1 << 20]), random.pick(&lengths), random.pick(&lengths))
        }
        96..98 => {
            Call::Advise(random.pick(&lengths), random.pick(&[0, 1, 4096, -1]), random.pick(&[0, 1, 4, 9]))
        }
        _ => Call::Sync(random.pick(&lengths), random.pick(&lengths), random.pick(&[0, 2, 7, 64])),
    }
}

/// Where a path is empty or too long and something else is wrong, io_uring looks at the path first, and some system calls at the rest.
fn is_doubly_wrong(call: &Call) -> bool {
    let wrong = |of: Name| of.name == NAMES.len() + 1 || NAMES.get(of.name) == Some(&"");
    match *call {
        Call::Stat(of, flags) => flags == 1 && wrong(of),
        Call::Statx(of, flags, mask) => (flags == 0x6000 || mask == 1 << 31) && wrong(of),
        Call::Rename(old, new, flags) => wrong(new) || (flags >= 3 && wrong(old)),
        Call::Link(old, new, flags) => wrong(new) || (flags == 1 && wrong(old)),
        Call::Symlink(_, of) => wrong(of),
        Call::Unlink(of, flags) => flags == 1 && wrong(of),
        _ => false,
    }
}

/// One side: its tree, and how it names directories.
struct Side<'a> {
    root: &'a Path,
    too_long: &'a [CString; 2],
}

impl Side<'_> {
    fn path(&self, of: Name) -> CString {
        match NAMES.get(of.name) {
            None => self.too_long[of.name - NAMES.len()].clone(),
            Some(&"") => CString::default(),
            // A link or a folder with that slash at its end.
            Some(text) if of.from == From::Root => {
                CString::new(format!("{}/{text}", self.root.display())).unwrap()
            }
            Some(text) => CString::new(*text).unwrap(),
        }
    }
    /// What a symbolic link says: the same on both sides.
    fn target(&self, name: usize) -> CString {
        NAMES
            .get(name)
            .map_or_else(|| self.too_long[name - NAMES.len()].clone(), |text| CString::new(*text).unwrap())
    }
}

fn of_stat(stat: &Stat) -> (u64, u64, u64) {
    (u64::from(stat.st_mode), stat.st_nlink, stat.st_size.cast_unsigned() ^ u64::from(stat.st_uid) << 48)
}
fn of_statx(statx: &Statx, asked: u32) -> (u64, u64, u64) {
    // What was not asked for may be there or not.
    if asked & 0x7ff == 0x7ff {
        (statx.stx_mode.into(), statx.stx_nlink.into(), statx.stx_size)
    } else {
        (0, 0, 0)
    }
}

/// The calls on this project's side.
fn ours(fs: Fs, side: &Side<'_>, calls: &[Call]) -> Vec<Outcome> {
    let tree = fs.open(&c_path(side.root), 0o200_000, 0).expect("the tree");
    let file = fs.open(&c_path(&side.root.with_extension("file")), O_CREAT | O_RDWR, 0o600).expect("a file");
    let stale = fs.open(c"/dev/null", 0, 0).expect("the null device");
    fs.close(stale).expect("open until now");
    let dir = |of: Name| match of.from {
        From::Root => AT_FDCWD,
        From::Tree => tree,
        // Other lanes may open what has its number: one beyond the table.
        From::Stale => Descriptor(1 << 20),
        From::File => file,
    };
    let path = |of: Name| side.path(of);
    let outcomes = calls.iter().map(|call| {
        let nothing = |()| (0, 0, 0);
        let outcome = match *call {
            Call::Stat(of, flags) => fs.fstatat(dir(of), &path(of), flags).map(|stat| of_stat(&stat)),
            Call::Statx(of, flags, mask) => {
                fs.statx(dir(of), &path(of), flags, mask).map(|found| of_statx(&found, mask))
            }
            Call::Fstat(of_file) => fs.fstat(if of_file { file } else { tree }).map(|stat| of_stat(&stat)),
            Call::Open(of, flags) => {
                fs.openat(dir(of), &path(of), flags, 0o640).and_then(|opened| fs.close(opened)).map(nothing)
            }
            Call::Unlink(of, flags) => fs.unlinkat(dir(of), &path(of), flags).map(nothing),
            Call::Remove(of) => fs.remove(&path(Name { from: From::Root, ..of })).map(nothing),
            Call::Rename(old, new, flags) => {
                fs.renameat2(dir(old), &path(old), dir(new), &path(new), flags).map(nothing)
            }
            Call::Mkdir(of, mode) => fs.mkdirat(dir(of), &path(of), mode).map(nothing),
            Call::Link(old, new, flags) => {
                fs.linkat(dir(old), &path(old), dir(new), &path(new), flags).map(nothing)
            }
            Call::Symlink(target, of) => fs.symlinkat(&side.target(target), dir(of), &path(of)).map(nothing),
            Call::Fallocate(mode, at, length) => {
                fs.fallocate(file, mode, at.cast_unsigned(), length.cast_unsigned()).map(nothing)
            }
            Call::Advise(at, length, advice) => {
                let (at, length) = (at.cast_unsigned(), length.cast_unsigned());
                fs.posix_fadvise(file, at, length, advice.cast_unsigned()).map(nothing)
            }
            Call::Sync(at, length, flags) => {
                fs.sync_file_range(file, at.cast_unsigned(), length.cast_unsigned(), flags).map(nothing)
            }
        };
        outcome.map_err(Errno::number)
    });
    let outcomes = outcomes.collect();
    fs.close(tree).and(fs.close(file)).expect("open until now");
    outcomes
}

/// A call of the C library's, with strings that end, structures that are there, and descriptors of this side's own.
macro_rules! system {
    ($call:expr) => {{
        // SAFETY:
        // - what it is given is as said above
        unsafe { $call }
    }};
}

/// The same calls of the system's.
#[expect(unsafe_code, reason = "calls the C library")]
fn systems(side: &Side<'_>, calls: &[Call]) -> Vec<Outcome> {
    let open = |path: &CStr, flags: i32| {
        // SAFETY: a string that ends.
        unsafe { libc::open(path.as_ptr(), flags, 0o600) }
    };
    let tree = open(&c_path(side.root), libc::O_DIRECTORY);
    let file = open(&c_path(&side.root.with_extension("file")), libc::O_CREAT | libc::O_RDWR);
    assert!(tree >= 0 && file >= 0);
    let outcomes = calls.iter().map(|call| system_call(side, (tree, file), call)).collect();
    assert!(system!(libc::close(tree)) == 0 && system!(libc::close(file)) == 0);
    outcomes
}

/// One of them.
#[expect(unsafe_code, reason = "calls the C library")]
fn system_call(side: &Side<'_>, (tree, file): (i32, i32), call: &Call) -> Outcome {
    let dir = |of: Name| match of.from {
        From::Root => libc::AT_FDCWD,
        From::Tree => tree,
        From::Stale => 1 << 20,
        From::File => file,
    };
    let path = |of: Name| side.path(of);
    let errno = || std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    let checked = |result: i32| if result == 0 { Ok((0, 0, 0)) } else { Err(errno()) };
    // SAFETY: `stat` is plain numbers.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let of_system = |stat: &libc::stat| {
        (u64::from(stat.st_mode), stat.st_nlink, stat.st_size.cast_unsigned() ^ u64::from(stat.st_uid) << 48)
    };
    match *call {
        Call::Stat(of, flags) => {
            let result =
                system!(libc::fstatat(dir(of), path(of).as_ptr(), &raw mut stat, flags.cast_signed()));
            checked(result).map(|_| of_system(&stat))
        }
        Call::Statx(of, flags, mask) => {
            let mut found = Statx::default();
            let into = (&raw mut found).cast();
            let result = system!(libc::statx(dir(of), path(of).as_ptr(), flags.cast_signed(), mask, into));
            checked(result).map(|_| of_statx(&found, mask))
        }
        Call::Fstat(of_file) => {
            let result = system!(libc::fstat(if of_file { file } else { tree }, &raw mut stat));
            checked(result).map(|_| of_system(&stat))
        }
        Call::Open(of, flags) => {
            match system!(libc::openat(dir(of), path(of).as_ptr(), flags.cast_signed(), 0o640)) {
                -1 => Err(errno()),
                opened => checked(system!(libc::close(opened))),
            }
        }
        Call::Unlink(of, flags) => {
            checked(system!(libc::unlinkat(dir(of), path(of).as_ptr(), flags.cast_signed())))
        }
        Call::Remove(of) => checked(system!(libc::remove(path(Name { from: From::Root, ..of }).as_ptr()))),
        Call::Rename(old, new, flags) => {
            let (first, second) = (path(old), path(new));
            checked(system!(libc::renameat2(dir(old), first.as_ptr(), dir(new), second.as_ptr(), flags)))
        }
        Call::Mkdir(of, mode) => checked(system!(libc::mkdirat(dir(of), path(of).as_ptr(), mode))),
        Call::Link(old, new, flags) => {
            let (first, second) = (path(old), path(new));
            let flags = flags.cast_signed();
            checked(system!(libc::linkat(dir(old), first.as_ptr(), dir(new), second.as_ptr(), flags)))
        }
        Call::Symlink(target, of) => {
            checked(system!(libc::symlinkat(side.target(target).as_ptr(), dir(of), path(of).as_ptr())))
        }
        Call::Fallocate(mode, at, length) => {
            checked(system!(libc::fallocate(file, mode.cast_signed(), at, length)))
        }
        Call::Advise(at, length, advice) => match system!(libc::posix_fadvise(file, at, length, advice)) {
            0 => Ok((0, 0, 0)),
            number => Err(number),
        },
        Call::Sync(at, length, flags) => checked(system!(libc::sync_file_range(file, at, length, flags))),
    }
}

/// Every name below a folder, with what twins have in common; hard links by the first of their names.
fn tree(root: &Path) -> BTreeMap<String, String> {
    fn walk(
        root: &Path,
        at: &Path,
        inodes: &mut BTreeMap<u64, String>,
        found: &mut BTreeMap<String, String>,
    ) {
        let mut entries: Vec<_> = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let status = fs::symlink_metadata(&path).unwrap();
            let first = inodes.entry(status.ino()).or_insert_with(|| name.clone()).clone();
            let target = fs::read_link(&path).ok();
            let what = format!("{:o} {} {} {first} {target:?}", status.mode(), status.nlink(), status.size());
            found.insert(name, what);
            if status.is_dir() {
                walk(root, &path, inodes, found);
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut BTreeMap::new(), &mut found);
    found
}

#[test]
fn sequences_on_twin_trees() {
    let rounds = setting("GPUFS_SEQUENCES", 240).div_ceil(LANES * MODES.len() as u64);
    let seed = setting("GPUFS_SEED", 1);
    let too_long = [CString::new("x".repeat(256)).unwrap(), CString::new("./".repeat(2048)).unwrap()];
    let (mut made, mut failed) = (0, 0);
    for mode in MODES {
        let mut session = match small().mode(mode).files(64).cpu() {
            Ok(session) => session,
            Err(error) => {
                skip("sequences_on_twin_trees", error);
                continue;
            }
        };
        for round in 0..rounds {
            let scratch = Scratch::new("twins");
            let sequences: Vec<Vec<Call>> = (0..LANES)
                .map(|lane| {
                    let random = Random::of_case(seed, round * LANES + lane);
                    let calls = (0..CALLS).map(|_| call(&random));
                    calls.filter(|call| !is_doubly_wrong(call)).collect()
                })
                .collect();
            let roots = |side: &str| -> Vec<_> {
                (0..LANES).map(|lane| scratch.path(&format!("{side}{lane}"))).collect()
            };
            let (our_roots, system_roots) = (roots("ours"), roots("twin"));
            for root in our_roots.iter().chain(&system_roots) {
                fs::create_dir(root).unwrap();
                fs::create_dir(root.join("d")).unwrap();
                fs::write(root.join("a"), "content").unwrap();
            }
            let wanted: Vec<Vec<Outcome>> = (0..LANES as usize)
                .map(|lane| {
                    systems(&Side { root: &system_roots[lane], too_long: &too_long }, &sequences[lane])
                })
                .collect();
            let lanes = u32::try_from(LANES).unwrap();
            let got = each(&mut session, lanes, |fs, lane| {
                let lane = usize::try_from(lane).unwrap();
                ours(fs, &Side { root: &our_roots[lane], too_long: &too_long }, &sequences[lane])
            });
            for lane in 0..LANES as usize {
                let both = got[lane].iter().zip(&wanted[lane]);
                for (at, (got, wanted)) in both.enumerate() {
                    let sequence = &sequences[lane][..=at];
                    assert_eq!(
                        got, wanted,
                        "GPUFS_SEED={seed} {mode:?} round {round} lane {lane}: {sequence:?}"
                    );
                    made += 1;
                    failed += u32::from(got.is_err());
                }
                let (ours, theirs) = (tree(&our_roots[lane]), tree(&system_roots[lane]));
                assert_eq!(ours, theirs, "GPUFS_SEED={seed} {mode:?} round {round} lane {lane}");
            }
        }
    }
    println!("{made} calls equal, {failed} of them errors");
    assert!(made == 0 || (failed * 10 > made && failed * 10 < made * 9), "{failed} of {made} are errors");
}

/// Where a name may not be, or nothing may be written, the error is the system's, and the next call is made.
#[test]
fn file_systems_that_refuse() {
    for mode in MODES {
        let Ok(mut session) = small().mode(mode).cpu() else { continue };
        let scratch = Scratch::new("refuse");
        let made = scratch.c("made");
        let got = once(&mut session, |fs| {
            [
                fs.mkdir(c"/proc/gpufs", 0o700),
                fs.unlink(c"/proc/self/stat"),
                fs.rename(&made, c"/proc/made"),
                fs.link(c"/proc/self/stat", &made),
                fs.symlink(c"x", c"/proc/gpufs"),
                fs.rmdir(c"/"),
                fs.mkdir(&made, 0o700),
                fs.rmdir(&made),
            ]
        });
        let numbers = got.map(|result| result.err().map(Errno::number));
        let system = |result: std::io::Result<()>| result.err().and_then(|error| error.raw_os_error());
        let place = scratch.path("made");
        let wanted = [
            system(fs::create_dir("/proc/gpufs")),
            system(fs::remove_file("/proc/self/stat")),
            system(fs::rename(&place, "/proc/made")),
            system(fs::hard_link("/proc/self/stat", &place)),
            system(std::os::unix::fs::symlink("x", "/proc/gpufs")),
            system(fs::remove_dir("/")),
            None,
            None,
        ];
        assert_eq!(numbers, wanted, "{mode:?}");
    }
}

/// Calls with a directory of their own, and those that the sequences above do not make.
#[test]
fn calls_that_name_a_directory() {
    for mode in MODES {
        let Ok(mut session) = small().mode(mode).cpu() else { continue };
        let scratch = Scratch::new("at");
        fs::write(scratch.path("file"), "text").unwrap();
        let folder = c_path(scratch.dir());
        let (directory, link) = once(&mut session, |fs| {
            let directory = fs.open(&folder, O_DIRECTORY, 0).unwrap();
            fs.renameat(directory, c"file", directory, c"moved").unwrap();
            fs.fchmodat(directory, c"moved", 0o640, 0).unwrap();
            fs.symlinkat(c"moved", directory, c"link").unwrap();
            let mut target = [0; 16];
            let bytes = fs.readlinkat(directory, c"link", &mut target).unwrap();
            (directory, target[..bytes].to_vec())
        });
        assert_eq!(link, b"moved", "{mode:?}");
        assert_eq!(fs::metadata(scratch.path("moved")).unwrap().mode() & 0o777, 0o640, "{mode:?}");
        assert!(!scratch.path("file").exists(), "{mode:?}");
        let path = scratch.c("link");
        let kinds = once(&mut session, |fs| {
            [fs.stat(&path), fs.lstat(&path), fs.fstatat(directory, c"link", AT_SYMLINK_NOFOLLOW)]
                .map(|stat| stat.map(|stat| stat.st_mode & libc::S_IFMT))
        });
        assert_eq!(kinds, [Ok(libc::S_IFREG), Ok(libc::S_IFLNK), Ok(libc::S_IFLNK)], "{mode:?}");
    }
}

/// What cannot fit is refused without a question, and what just fits has its memory.
#[test]
fn lengths_at_the_edge() {
    let long = |bytes: usize| CString::new("/".repeat(bytes)).unwrap();
    let (fits, beyond, name) = (long(4095), long(4096), CString::new("N".repeat(4096)).unwrap());
    for mode in MODES {
        let Ok(mut session) = small().mode(mode).cpu() else { continue };
        let refused = once(&mut session, |fs| {
            // The memory of two paths, of which the second has its NUL alone.
            [fs.rename(&fits, c""), fs.rename(c"", &fits), fs.rename(&fits, &fits)]
        });
        assert_eq!(refused, [Err(Errno::NOENT), Err(Errno::NOENT), Err(Errno::BUSY)], "{mode:?}");
        let operations = |session: &gpufs_host::Session| session.statistics().total().operations;
        let before = operations(&session);
        let refused = once(&mut session, |fs| {
            [
                fs.mkdir(&beyond, 0o700),
                fs.unlink(&beyond),
                fs.rename(&beyond, c"x"),
                fs.rename(c"x", &beyond),
                fs.getenv(&name, &mut []).map(drop),
            ]
        });
        assert_eq!(refused, [Err(Errno::NAMETOOLONG); 5], "{mode:?}");
        assert_eq!(once(&mut session, |fs| fs.getcwd(&mut []).map(drop)), Err(Errno::INVAL), "{mode:?}");
        assert_eq!(operations(&session), before, "{mode:?}");
    }
}

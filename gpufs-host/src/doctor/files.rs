//! How reads and writes of a file are served, and how fast: asked of the kernel (`RWF_NOWAIT`, `preadv2(2)`), then measured through a session.
//!
//! The kernel serves an entry of a ring where it is submitted if the file can be asked not to wait, which is what `RWF_NOWAIT` asks. Otherwise it
//! hands the entry to a worker thread, which costs a few microseconds for each, and one inode's buffered writes wait for each other.
#![expect(unsafe_code, reason = "preadv2(2) and pwritev2(2)")]

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use gpufs_device::{Errno, Fs};

use crate::ring::Mode;
use crate::{CpuOptions, Grid, Session};

/// One operation whose time is taken, and how many of them.
const SMALL: usize = 4 << 10;
const SMALLS: u64 = 128;
/// One operation of a stretch, and how much is moved at most, and how long.
const LARGE: usize = 64 << 10;
const STRETCH: u64 = 64 << 20;
const TIME: Duration = Duration::from_millis(500);
/// No operation of a file that answers takes as long.
const DEADLINE: Duration = Duration::from_secs(5);
/// Lanes that move a stretch, each an operation at a time.
const LANES: u32 = 32;

/// What serves an operation on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Served {
    /// The kernel, where it is submitted.
    Inline,
    /// A worker thread of the kernel: the file system cannot be asked not to wait.
    Worker,
    /// A thread of gpufs, as the mode is `threads`.
    HostThread,
    /// It cannot be told; why.
    Unknown(String),
}

/// What was measured of one kind of operation, from lanes on the CPU.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// What serves it.
    pub served: Served,
    /// The median time of one operation of 4 KiB, or of the file if that is shorter, with nothing else going on.
    pub latency: Duration,
    /// Bytes in a second, with 32 lanes that move 64 KiB at a time.
    pub bytes_per_second: f64,
}

/// What was found of a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileReport {
    /// As it was given.
    pub path: PathBuf,
    /// The type of its file system, by `/proc/self/mountinfo`.
    pub file_system: Option<String>,
    /// Its size in bytes.
    pub bytes: u64,
    /// What serves the rings of the session that measured.
    pub mode: Option<Mode>,
    /// Reading it, as it lies: from the page cache, if it is there.
    pub reading: Result<Measured, String>,
    /// Writing a file without a name in its folder (`O_TMPFILE`), to the page cache.
    pub writing: Result<Measured, String>,
    /// Whether it can be opened for direct I/O (`O_DIRECT`).
    pub direct: bool,
}

/// One kind of operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    Write,
}

impl FileReport {
    pub(super) fn look(path: &Path) -> Self {
        let unknown = |reason: String| Self {
            path: path.to_owned(),
            file_system: file_system(path),
            bytes: 0,
            mode: None,
            reading: Err(reason.clone()),
            writing: Err(reason),
            direct: false,
        };
        let file = match open(path) {
            Ok(file) => file,
            Err(reason) => return unknown(reason),
        };
        let mut session = match session() {
            Ok(session) => session,
            Err(reason) => return unknown(reason),
        };
        let bytes = size(&file);
        let reading = measure(&mut session, file.as_fd(), bytes, Way::Read);
        let writing =
            nameless(path).and_then(|file| measure(&mut session, file.as_fd(), STRETCH, Way::Write));
        let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).is_ok();
        Self { bytes, mode: Some(session.mode()), reading, writing, direct, ..unknown(String::new()) }
    }
}

/// A session for measuring: one that gives up on a file that does not answer.
fn session() -> Result<Session, String> {
    let builder = Session::builder().report_failures(false).report_fallback(false).deadline(DEADLINE);
    let options = CpuOptions { width: LANES, ..CpuOptions::default() };
    builder.cpu_with(options).map_err(|error| error.to_string())
}

/// Opens a file that can be read at any place.
fn open(path: &Path) -> Result<File, String> {
    let kind = fs::metadata(path).map_err(|error| error.to_string())?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err("not a regular file nor a block device".to_owned());
    }
    File::open(path).map_err(|error| error.to_string())
}

/// The bytes of a file or block device.
fn size(mut file: &File) -> u64 {
    io::Seek::seek(&mut file, io::SeekFrom::End(0)).unwrap_or(0)
}

/// A file without a name in the folder of `path`.
fn nameless(path: &Path) -> Result<File, String> {
    let named = fs::canonicalize(path).map_err(|error| error.to_string())?;
    if !named.is_file() {
        return Err("not a regular file".to_owned());
    }
    let folder = named.parent().unwrap_or(Path::new("/"));
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder);
    opened.map_err(|error| format!("no file without a name in {}: {error}", folder.display()))
}

/// What the kernel would do with an operation of a few bytes that must not wait.
fn asked(file: BorrowedFd<'_>, way: Way) -> Served {
    let mut bytes = [0_u8; SMALL];
    let vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let (fd, flags) = (file.as_raw_fd(), libc::RWF_NOWAIT);
    let done = match way {
        // SAFETY:
        // - the kernel writes what the one vector names, which is borrowed for the call
        Way::Read => unsafe { libc::preadv2(fd, &raw const vector, 1, 0, flags) },
        // SAFETY:
        // - the kernel reads what the one vector names, which is borrowed for the call
        Way::Write => unsafe { libc::pwritev2(fd, &raw const vector, 1, 0, flags) },
    };
    if done >= 0 {
        return Served::Inline;
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // It was asked, and would have waited for a page: the kernel tries again when the page is there.
        Some(libc::EAGAIN) => Served::Inline,
        Some(libc::EOPNOTSUPP) => Served::Worker,
        _ => Served::Unknown(error.to_string()),
    }
}

fn measure(session: &mut Session, file: BorrowedFd<'_>, bytes: u64, way: Way) -> Result<Measured, String> {
    if bytes == 0 {
        return Err("it is empty".to_owned());
    }
    let served = if session.mode() == Mode::Threads { Served::HostThread } else { asked(file, way) };
    // Opened by the kernel as any file is; the descriptor stays the host's.
    let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("no byte of it is 0");
    let latency = latency(session, &path, bytes, way)?;
    let bytes_per_second = bandwidth(session, &path, bytes, way)?;
    Ok(Measured { served, latency, bytes_per_second })
}

/// The operation that is measured.
fn move_once(
    fs: Fs,
    file: gpufs_device::file::Descriptor,
    memory: &mut [u8],
    at: u64,
    way: Way,
) -> Result<usize, Errno> {
    match way {
        Way::Read => fs.pread(file, memory, at),
        Way::Write => fs.pwrite(file, memory, at),
    }
}

fn flags(way: Way) -> u32 {
    let flags = if way == Way::Read { libc::O_RDONLY } else { libc::O_RDWR };
    flags.cast_unsigned()
}

fn latency(session: &mut Session, path: &CString, bytes: u64, way: Way) -> Result<Duration, String> {
    let times = Mutex::new(Ok(Vec::new()));
    let ran = session.run(Grid { blocks: 1, threads: 1 }, |fs| {
        let all = fs.open(path, flags(way), 0).and_then(|file| {
            let mut memory = vec![0; SMALL];
            let pages = bytes.div_ceil(SMALL as u64);
            let mut all = Vec::new();
            let begun = Instant::now();
            for number in 0..SMALLS {
                // Spread over the file, in no order that is read ahead.
                let page = number * 7919 % pages;
                let started = Instant::now();
                move_once(fs, file, &mut memory, page * SMALL as u64, way)?;
                all.push(started.elapsed());
                if begun.elapsed() > TIME {
                    break;
                }
            }
            fs.close(file)?;
            Ok(all)
        });
        *times.lock().expect("no lane panics") = all;
    });
    ran.map_err(|error| error.to_string())?;
    let mut times = times.into_inner().expect("no lane panics").map_err(|errno: Errno| errno.to_string())?;
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

fn bandwidth(session: &mut Session, path: &CString, bytes: u64, way: Way) -> Result<f64, String> {
    let moved = Mutex::new((0_u64, None));
    let started = Instant::now();
    let ran = session.run(Grid { blocks: 1, threads: LANES }, |fs| {
        let lane = gpufs_device::warp::global_thread();
        let done = fs.open(path, flags(way), 0).and_then(|file| {
            let mut memory = vec![0; LARGE];
            let (mut at, mut sum) = (lane * LARGE as u64, 0);
            // Of a short file each lane reads the same again.
            let end = bytes.min(STRETCH);
            let stride = u64::from(LANES) * LARGE as u64;
            let rounds = STRETCH / stride;
            for _ in 0..rounds {
                sum += move_once(fs, file, &mut memory, at % end, way)? as u64;
                at += stride;
                if started.elapsed() > TIME {
                    break;
                }
            }
            fs.close(file)?;
            Ok(sum)
        });
        let mut moved = moved.lock().expect("no lane panics");
        match done {
            Ok(sum) => moved.0 += sum,
            Err(errno) => moved.1 = Some(errno),
        }
    });
    let took = started.elapsed();
    ran.map_err(|error| error.to_string())?;
    let (sum, failed): (u64, Option<Errno>) = moved.into_inner().expect("no lane panics");
    match failed {
        Some(errno) => Err(errno.to_string()),
        None => Ok(sum as f64 / took.as_secs_f64()),
    }
}

/// The type of the file system that holds `path`: that of the longest mount point above it.
fn file_system(path: &Path) -> Option<String> {
    let named = fs::canonicalize(path).ok()?;
    type_of(&named, &fs::read_to_string("/proc/self/mountinfo").ok()?)
}

/// What a `mountinfo` (proc_pid_mountinfo(5)) says of a path.
fn type_of(path: &Path, mounts: &str) -> Option<String> {
    let entries = mounts.lines().filter_map(|line| {
        let (place, rest) = line.split_once(" - ")?;
        let point = place.split(' ').nth(4)?.replace("\\040", " ");
        let above = path.starts_with(Path::new(std::ffi::OsStr::from_bytes(point.as_bytes())));
        above.then(|| (point.len(), rest.split(' ').next().unwrap_or_default().to_owned()))
    });
    // Of two mounts at one place the later one is seen.
    entries.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_above_a_path_counts() {
        let mounts = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 21 0:25 / /dev/shm rw,nosuid shared:4 - tmpfs tmpfs rw\n\
                      31 21 0:26 / /with\\040space rw - xfs /dev/sdb rw\n32 21 0:27 / /dev/shm rw - ramfs ramfs rw\n";
        let of = |path: &str| type_of(Path::new(path), mounts);
        assert_eq!(of("/etc/hostname").as_deref(), Some("ext4"));
        assert_eq!(of("/dev/shm/a").as_deref(), Some("ramfs"));
        assert_eq!(of("/dev/shmem").as_deref(), Some("ext4"));
        assert_eq!(of("/with space/a").as_deref(), Some("xfs"));
        assert_eq!(type_of(Path::new("/a"), ""), None);
    }

    #[test]
    fn a_file_is_measured_and_stays_as_it_is() {
        let path = std::env::temp_dir().join(format!("gpufs-doctor-file-{}", std::process::id()));
        let content: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
        fs::write(&path, &content).unwrap();
        let report = FileReport::look(&path);
        assert_eq!(fs::read(&path).unwrap(), content);
        fs::remove_file(&path).unwrap();
        let reading = report.reading.expect("it can be read");
        assert!(reading.latency > Duration::ZERO && reading.bytes_per_second > 0.0, "{reading:?}");
        assert_eq!(report.bytes, 200_000);
        if let Err(reason) = report.writing {
            println!("SKIP writing in a_file_is_measured_and_stays_as_it_is: {reason}");
        }
    }

    #[test]
    fn what_cannot_be_measured_is_named() {
        let of = |path: &str| FileReport::look(Path::new(path)).reading.unwrap_err();
        assert!(of("/nowhere/a").contains("No such file"), "{}", of("/nowhere/a"));
        assert!(of("/dev/null").contains("not a regular file"));
        assert!(of("/tmp").contains("not a regular file"));
        assert!(of("/proc/self/status").contains("empty"));
    }
}

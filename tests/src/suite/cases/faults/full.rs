//! Devices and disks that are full: what a stream accepted is kept, and written when there is room.
#![expect(unsafe_code, reason = "mounts")]

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::Path;

use gpufs_device::Errno;
use gpufs_device::file::O_WRONLY;
use gpufs_device::stdio::Buffering;
use gpufs_host::Session;
use gpufs_host::session::SyncError;

use super::super::sessions::assert_works;
use crate::suite::harness::{Answer, Do, fopen, fputs, open, results};
use crate::suite::{Bench, Outcome};
use crate::{Scratch, c_path, record, small};

/// Gives the calling thread, and all it starts, a mount namespace of its own with a small file system at `at`.
fn mount_tmpfs(at: &Path, bytes: usize, files: usize) -> io::Result<()> {
    let (at, options) = (c_path(at), CString::new(format!("size={bytes},nr_inodes={files}"))?);
    // SAFETY:
    // - the strings are alive and end with NUL; the namespace and its mounts go with the threads that are in it
    let done = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
            && libc::mount(c"tmpfs".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A disk without room, with 4 KiB freed by each removal of a filler file.
pub(super) struct FullDisk {
    pub(super) scratch: Scratch,
}

impl FullDisk {
    const BYTES: usize = 64 << 10;
    fn mount(test: &str) -> Result<Self, Outcome> {
        Self::mount_for(test, 1024)
    }
    /// One that holds so many files, directories and links, its own root included.
    pub(super) fn mount_for(test: &str, files: usize) -> Result<Self, Outcome> {
        let scratch = Scratch::new(test);
        match mount_tmpfs(scratch.dir(), Self::BYTES, files) {
            Ok(()) => Ok(Self { scratch }),
            Err(error) => Err(Outcome::Skipped(format!("no small file system: {error}"))),
        }
    }
    /// Takes all but `rest` bytes.
    pub(super) fn fill(&self, rest: usize) {
        fs::write(self.scratch.path("filler"), vec![0; Self::BYTES - rest]).unwrap();
    }
    fn make_room(&self) {
        fs::remove_file(self.scratch.path("filler")).unwrap();
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        // So that the directory below can be removed.
        let at = c_path(self.scratch.dir());
        // SAFETY:
        // - the string is alive and ends with NUL
        unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
    }
}

/// Blocks of [`fill_and_flush`].
const BLOCKS: usize = 4;
const BLOCK_BYTES: usize = 4096;

/// Fills every block exactly, flushes and closes: what was accepted, and the other two results.
fn fill_and_flush(bench: &Bench, path: &std::ffi::CStr) -> (i64, [Result<i64, Errno>; 2]) {
    let builder = Session::builder().buffers(1 << 20).blocks_per_stream(4).stream_buffer(4096);
    let mut harness = bench.open(builder.deadline(crate::patience()));
    let mut calls = vec![fopen(0, path, c"w")];
    calls.extend(vec![Do::Fwrite(0, vec![b'x'; BLOCK_BYTES]); BLOCKS]);
    calls.extend([Do::Fflush(0), Do::Fclose(0)]);
    let answers = harness.once(calls);
    assert_eq!(answers[0].result(), Ok(0));
    let accepted = answers[1..=BLOCKS].iter().map(|answer| answer.value).sum();
    (accepted, [answers[BLOCKS + 1].result(), answers[BLOCKS + 2].result()])
}

/// A stream with a part of a block, an unbuffered stream and a descriptor.
fn small_writes_to_a_full_device(bench: &Bench) {
    let mut harness = bench.open(small());
    harness.must(vec![fopen(0, c"/dev/full", c"w")]);
    let (answers, outcome) = harness.try_each(vec![vec![Do::Fwrite(0, b"kept".to_vec()), Do::Fflush(0)]]);
    assert_eq!(results(&answers[0]), [Ok(4), Err(Errno::NOSPC)]);
    assert!(answers[0][1].error);
    assert!(matches!(&outcome, Err(SyncError::Stream(error))
            if error.errno == Errno::NOSPC && error.unwritten == 4));
    let (answers, _) = harness.try_each(vec![vec![Do::Fclose(0)]]);
    assert_eq!(results(&answers[0]), [Err(Errno::NOSPC)]);
    harness.synchronize().unwrap();
    let answers = harness.once(vec![
        fopen(0, c"/dev/full", c"w"),
        Do::Setvbuf(0, Buffering::None, 0),
        Do::Fwrite(0, b"refused".to_vec()),
        open(0, c"/dev/full", O_WRONLY),
        Do::Write(0, b"refused".to_vec()),
        Do::Close(0),
        Do::Fclose(0),
    ]);
    let full = Err(Errno::NOSPC);
    assert_eq!(results(&answers), [Ok(0), Ok(0), full, Ok(0), full, Ok(0), Ok(0)]);
    assert_eq!(answers[2].value, 0);
    assert_works(&mut harness);
}

/// Of a stream whose blocks are all full, the oldest shares its place with the block that comes next.
pub fn a_full_device_is_reported_at_every_flush(bench: &Bench) -> Outcome {
    let (_, outcomes) = fill_and_flush(bench, c"/dev/full");
    assert_eq!(outcomes, [Err(Errno::NOSPC); 2]);
    small_writes_to_a_full_device(bench);
    Outcome::Passed
}

/// The same, where it can be written.
pub fn a_file_gets_its_first_block_too(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("full-blocks");
    let found = fill_and_flush(bench, &scratch.c("file"));
    assert_eq!(found, ((BLOCKS * BLOCK_BYTES) as i64, [Ok(0); 2]));
    assert!(scratch.read("file") == [b'x'; BLOCKS * BLOCK_BYTES]);
    Outcome::Passed
}

/// What calls of `fwrite` accepted, and the errors they gave.
fn accepted(texts: &[CString], answers: &[Answer]) -> (Vec<u8>, Vec<Errno>) {
    let (mut bytes, mut errors) = (Vec::new(), Vec::new());
    for (text, answer) in texts.iter().zip(answers).filter(|(_, answer)| answer.done) {
        bytes.extend_from_slice(&text.as_bytes()[..usize::try_from(answer.value).expect("a count")]);
        errors.extend(answer.result().err());
    }
    (bytes, errors)
}

/// Nothing is lost, doubled or torn, and what there is room for later comes.
pub fn a_full_disk_keeps_what_was_accepted(bench: &Bench) -> Outcome {
    let disk = match FullDisk::mount("full-disk") {
        Ok(disk) => disk,
        Err(skipped) => return skipped,
    };
    let others = Scratch::new("room");
    let elsewhere = others.c("file");
    for (mode, buffering, bytes) in [
        (c"w", Buffering::Full, 0),
        (c"w", Buffering::Full, 64),
        (c"w", Buffering::None, 0),
        (c"w", Buffering::Line, 0),
        (c"a", Buffering::Full, 0),
        (c"a", Buffering::None, 0),
    ] {
        // A block of 8 KiB is cut short by what little is left.
        let mut harness = bench.open(small().stream_buffer(8192));
        disk.fill(12 << 10);
        let name = disk.scratch.c("log");
        harness.must(vec![fopen(0, &name, mode), Do::Setvbuf(0, buffering, bytes)]);
        let what = format!("{mode:?} {buffering:?} {bytes}");
        // Until none is accepted in full any more. The kernel's own synchronization meets the full disk too.
        let texts: Vec<CString> = (0..2000).map(|round| record(7, round, 90)).collect();
        harness.stops = true;
        let calls = texts.iter().map(|text| Do::Fwrite(0, text.as_bytes().to_vec())).collect();
        let (mut answers, outcome) = harness.try_each(vec![calls]);
        harness.stops = false;
        let answers = answers.pop().expect("a lane's");
        let (mut accepted, errors) = accepted(&texts, &answers);
        assert_eq!(errors, [Errno::NOSPC], "{what}");
        assert!(answers.iter().rfind(|answer| answer.done).is_some_and(|answer| answer.error), "{what}");
        let kept = accepted.len() - fs::metadata(disk.scratch.path("log")).unwrap().len() as usize;
        match outcome {
            Ok(()) => assert_eq!(kept, 0, "{what}"),
            Err(SyncError::Stream(error)) => {
                assert_eq!((error.errno, error.unwritten), (Errno::NOSPC, kept as u64), "{what}");
                assert!(error.file.ends_with("log"), "{error}");
            }
            Err(other) => panic!("{what}: {other}"),
        }
        // Still full: still refused, and nothing more is lost or doubled. Elsewhere all is well.
        let (answers, _) =
            harness.try_each(vec![vec![fopen(1, &elsewhere, c"w"), fputs(1, c"all is well"), Do::Fclose(1)]]);
        assert_eq!(results(&answers[0]), [Ok(0); 3]);
        if kept > 0 {
            assert!(
                matches!(harness.synchronize(), Err(SyncError::Stream(error)) if error.errno == Errno::NOSPC)
            );
        }
        assert_eq!(others.read("file"), b"all is well");
        disk.make_room();
        harness.must(vec![Do::Fflush(0)]);
        assert!(disk.scratch.read("log") == accepted, "{what}");
        let more = record(7, 1000, 5);
        let calls =
            vec![Do::Clearerr(0), Do::Fwrite(0, more.as_bytes().to_vec()), Do::Flags(0), Do::Fclose(0)];
        assert!(!harness.must(calls)[2].error);
        accepted.extend_from_slice(more.as_bytes());
        assert!(disk.scratch.read("log") == accepted, "{what}");
        fs::remove_file(disk.scratch.path("log")).unwrap();
        assert_works(&mut harness);
    }
    lanes_of_a_call_that_is_cut_short(bench, &disk);
    Outcome::Passed
}

/// Of lanes that write without a buffer, together or not, those whose bytes are all written get no error, and each other gets it.
fn lanes_of_a_call_that_is_cut_short(bench: &Bench, disk: &FullDisk) {
    let mut harness = bench.open(small());
    disk.fill(8 << 10);
    harness.must(vec![fopen(0, &disk.scratch.c("log"), c"w"), Do::Setvbuf(0, Buffering::None, 0)]);
    let (answers, _) = harness.try_each(vec![vec![Do::Fwrite(0, vec![b'x'; 3000])]; 4]);
    let answers: Vec<&Answer> = answers.iter().flatten().collect();
    for answer in &answers {
        let wanted = if answer.value == 3000 { 0 } else { Errno::NOSPC.number() };
        assert_eq!(answer.errno, wanted, "{} bytes", answer.value);
    }
    assert_eq!(answers.iter().filter(|answer| answer.errno != 0).count(), 2);
    let accepted: i64 = answers.iter().map(|answer| answer.value).sum();
    assert_eq!(accepted, fs::metadata(disk.scratch.path("log")).unwrap().len() as i64);
    disk.make_room();
    harness.must(vec![Do::Fclose(0)]);
    fs::remove_file(disk.scratch.path("log")).unwrap();
}

/// 512 threads × 3 × about 48 bytes: more than there is room for, with the blocks' own.
pub fn a_full_disk_under_many_lanes(bench: &Bench) -> Outcome {
    let disk = match FullDisk::mount("full-disk-lanes") {
        Ok(disk) => disk,
        Err(skipped) => return skipped,
    };
    let mut harness = bench.open(small());
    disk.fill(20 << 10);
    harness.must(vec![fopen(0, &disk.scratch.c("log"), c"w")]);
    let texts: Vec<Vec<CString>> =
        (0..512).map(|thread| (0..3).map(|round| record(thread, round, 40)).collect()).collect();
    let script =
        |texts: &Vec<CString>| texts.iter().map(|text| Do::Fwrite(0, text.as_bytes().to_vec())).collect();
    let (answers, _) = harness.try_each(texts.iter().map(script).collect());
    let (mut count, mut refused) = (0, 0);
    for (texts, answers) in texts.iter().zip(&answers) {
        let (bytes, errors) = accepted(texts, answers);
        count += bytes.len();
        refused += errors.len();
        assert!(errors.iter().all(|errno| *errno == Errno::NOSPC), "{errors:?}");
        for (text, answer) in texts.iter().zip(answers) {
            assert!(answer.errno != 0 || answer.value as usize == text.as_bytes().len());
        }
    }
    assert!(refused > 0, "the disk was not full");
    disk.make_room();
    harness.synchronize().unwrap();
    harness.must(vec![Do::Fclose(0)]);
    assert_eq!(disk.scratch.read("log").len(), count);
    Outcome::Passed
}

//! Limits of the process, of its user, and of the session's own tables.
#![expect(unsafe_code, reason = "limits and users")]

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;

use gpufs_device::Errno;
use gpufs_device::file::{O_CREAT, O_RDONLY, O_RDWR};

use super::super::sessions::assert_works;
use crate::suite::harness::{Do, fopen, open, results};
use crate::suite::{Bench, Outcome};
use crate::{MODES, Scratch, skip, small};

/// Changes a soft limit of the whole process: only in one of its own.
fn limit(resource: libc::__rlimit_resource_t, to: u64) {
    let limit = libc::rlimit { rlim_cur: to, rlim_max: libc::RLIM_INFINITY };
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY:
    // - both structures are alive for their calls
    unsafe {
        libc::getrlimit(resource, &raw mut now);
        let limit = libc::rlimit { rlim_max: now.rlim_max, ..limit };
        assert_eq!(libc::setrlimit(resource, &raw const limit), 0);
    }
}

/// As a user who owns nothing.
pub fn a_directory_without_permission(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("permission");
    let name = scratch.c("closed/file");
    fs::create_dir(scratch.path("closed")).unwrap();
    fs::write(scratch.path("closed/file"), "x").unwrap();
    fs::write(scratch.path("open"), "x").unwrap();
    fs::set_permissions(scratch.path("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(scratch.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    // SAFETY:
    // - the calls take numbers; 65534 is nobody, who owns nothing
    let stays_root = unsafe { libc::geteuid() == 0 && libc::setresuid(65534, 65534, 0) != 0 };
    if stays_root {
        return Outcome::Skipped(format!(
            "root may open anything, and cannot become another: {}",
            io::Error::last_os_error()
        ));
    }
    // Nobody may lock little memory: what cannot be registered is copied or named by the whole.
    let mut harness = bench.open(small().streams(64).blocks_per_stream(1));
    let open = scratch.c("open");
    let outcomes = harness.every(32, |lane| fopen(lane, if lane % 2 == 0 { &name } else { &open }, c"r"));
    for (lane, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome, if lane % 2 == 0 { Err(Errno::ACCES) } else { Ok(0) });
    }
    harness.every(32, Do::Abandon);
    assert_eq!(harness.once(vec![fopen(0, &open, c"w")])[0].result(), Err(Errno::ACCES));
    drop(harness);
    // Back to the user that may remove the directory.
    // SAFETY:
    // - the call takes numbers
    unsafe { libc::setresuid(u32::MAX, 0, u32::MAX) };
    Outcome::Passed
}

/// The session's own: files, streams, stream buffers.
pub fn tables_run_out(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("tables");
    let name = scratch.c("file");
    let full = |outcomes: &[Result<i64, Errno>], errno| {
        assert!(outcomes.iter().all(|one| *one == Ok(0) || *one == Err(errno)), "{outcomes:?}");
        outcomes.iter().filter(|outcome| outcome.is_ok()).count()
    };
    let mut harness = bench.open(small().files(12).streams(10));
    // 9 files and 7 streams beside the standard ones.
    let files = harness.every(32, |lane| open(lane, &name, O_RDWR | O_CREAT));
    assert_eq!(full(&files, Errno::MFILE), 9);
    assert_eq!(harness.once(vec![fopen(40, &name, c"r")])[0].result(), Err(Errno::MFILE));
    assert_eq!(full(&harness.every(32, Do::Close), Errno::BADF), 9);
    for _ in 0..3 {
        let streams = harness.every(32, |lane| fopen(lane, &name, c"r"));
        assert_eq!(full(&streams, Errno::MFILE), 7);
        assert_eq!(full(&harness.every(32, Do::Fclose), Errno::NXIO), 7);
    }
    assert_works(&mut harness);
    drop(harness);

    // 16 stream buffers of 4 KiB: 13 streams, three of them the standard ones.
    let mut harness = bench.open(small().buffers(128 << 10).read_ahead(0));
    let streams = harness.every(20, |lane| fopen(lane, &name, c"r"));
    assert_eq!(full(&streams, Errno::MFILE), 10);
    harness.every(20, Do::Abandon);
    assert_works(&mut harness);
    Outcome::Passed
}

/// `RLIMIT_NOFILE`.
pub fn the_process_runs_out_of_descriptors(bench: &Bench) -> Outcome {
    for mode in MODES {
        let mut harness = match bench.try_open(small().mode(mode)) {
            Ok(harness) => harness,
            Err(refused) => {
                skip(&format!("the_process_runs_out_of_descriptors in {mode}"), refused);
                continue;
            }
        };
        let scratch = Scratch::new("descriptors");
        let name = scratch.c("file");
        fs::write(scratch.path("file"), "x").unwrap();
        // Whatever the device's driver opens when it is first used is open then.
        assert_works(&mut harness);
        let most = fs::File::open("/dev/null").unwrap().as_raw_fd() + 5;
        limit(libc::RLIMIT_NOFILE, u64::try_from(most).unwrap());
        // SAFETY:
        // - the call takes numbers
        let free = (0..most).filter(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } < 0).count();
        assert!((1..=5).contains(&free));
        let files = harness.every(32, |lane| open(lane, &name, O_RDONLY));
        assert_eq!(files.iter().filter(|file| file.is_ok()).count(), free, "{mode}: {files:?}");
        assert!(files.iter().all(|file| matches!(file, Ok(_) | Err(Errno::MFILE))), "{mode}: {files:?}");
        harness.every(32, Do::Abandon);
        harness.must(vec![fopen(0, &name, c"r"), Do::Fclose(0)]);
        limit(libc::RLIMIT_NOFILE, 1024);
        assert_works(&mut harness);
    }
    Outcome::Passed
}

/// `RLIMIT_FSIZE`. SIGXFSZ would end the process if it came.
pub fn a_file_grows_past_the_limit(bench: &Bench) -> Outcome {
    for mode in MODES {
        let mut harness = match bench.try_open(small().mode(mode)) {
            Ok(harness) => harness,
            Err(refused) => {
                skip(&format!("a_file_grows_past_the_limit in {mode}"), refused);
                continue;
            }
        };
        let scratch = Scratch::new("limit");
        assert_works(&mut harness);
        limit(libc::RLIMIT_FSIZE, 8192);
        let answers = harness.once(vec![
            open(0, &scratch.c("file"), O_RDWR | O_CREAT),
            Do::Pwrite(0, vec![1; 4096], 0),
            Do::Pwrite(0, vec![1; 8192], 4096),
            Do::Pwrite(0, vec![1], 8192),
            Do::Close(0),
        ]);
        limit(libc::RLIMIT_FSIZE, libc::RLIM_INFINITY);
        let written = &results(&answers)[1..4];
        if written[2] == Ok(1) {
            let reason = "the service does not keep to RLIMIT_FSIZE";
            skip(&format!("a_file_grows_past_the_limit in {mode}"), reason);
        } else {
            assert_eq!(written, [Ok(4096), Ok(4096), Err(Errno::FBIG)], "{mode}");
        }
        assert_works(&mut harness);
    }
    Outcome::Passed
}

//! What io_uring has no operation for: the calls of the service ring, beside the system's own.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::symlink;

use gpufs_device::Errno;
use gpufs_host::ring::Mode;
use gpufs_host::{Builder, Session};
use gpufs_tests::{MODES, Scratch, each, once, skip, small};

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

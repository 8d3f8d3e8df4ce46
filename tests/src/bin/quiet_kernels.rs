//! Kernels between marks that `strace` sees: first those that open, print, read and close; then those that ask the service ring.
//! `system_calls.rs` runs it and reads the log.
#![expect(unsafe_code, reason = "the marks are system calls")]

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::sync::Mutex;
use std::time::Duration;

use gpufs_device::file::{Descriptor, IoSlice, IoSliceMut, O_CREAT, O_DIRECTORY, O_RDWR};
use gpufs_device::service::{Dirent, LOCK_EX, LOCK_UN, R_OK};
use gpufs_device::{Fs, fprintf, warp};
use gpufs_host::ring::Mode;
use gpufs_host::{Grid, Session};

/// A system call that nothing here makes otherwise.
fn mark() {
    // SAFETY:
    // - the call takes nothing and touches nothing
    unsafe { libc::syscall(libc::SYS_getppid) };
}

/// Calls on ranges and pieces of memory, which io_uring does.
fn use_ranges(fs: Fs, file: Descriptor, thread: u64) {
    let at = thread * 100;
    fs.fallocate(file, 0, at, 100).expect("fallocate");
    fs.posix_fadvise(file, at, 100, 0).expect("posix_fadvise");
    fs.sync_file_range(file, at, 100, 0).expect("sync_file_range");
    let letters = [thread as u8; 100];
    let (first, rest) = letters.split_at(1);
    assert_eq!(fs.pwritev(file, &[IoSlice::new(first), IoSlice::new(rest)], at), Ok(100));
    let mut bytes = [0; 100];
    let (first, rest) = bytes.split_at_mut(1);
    assert_eq!(fs.preadv(file, &mut [IoSliceMut::new(first), IoSliceMut::new(rest)], at), Ok(100));
    assert_eq!(bytes, letters);
}

/// Calls on names and metadata, which io_uring hands to threads of the kernel.
fn change_names(fs: Fs, data: &CStr, thread: u64) {
    let name = |what: &str| {
        let data = data.to_str().expect("text");
        CString::new(format!("{data}.{thread}.{what}")).expect("a path")
    };
    let (made, moved, linked, pointed, folder) =
        (name("made"), name("moved"), name("linked"), name("pointed"), name("folder"));
    let file = fs.creat(&made, 0o644).expect("creat");
    assert_eq!(fs.fstat(file).expect("fstat").st_size, 0);
    fs.close(file).expect("closing");
    fs.rename(&made, &moved).expect("rename");
    fs.link(&moved, &linked).expect("link");
    fs.symlink(&moved, &pointed).expect("symlink");
    assert_eq!(fs.stat(&pointed).expect("stat").st_nlink, 2);
    fs.mkdir(&folder, 0o755).expect("mkdir");
    for name in [&moved, &linked, &pointed] {
        fs.unlink(name).expect("unlink");
    }
    fs.rmdir(&folder).expect("rmdir");
}

/// Calls that io_uring does not have.
fn ask_the_host(fs: Fs, data: &CStr) {
    let file = fs.open(data, O_RDWR, 0).expect("the data file");
    fs.flock(file, LOCK_EX).expect("flock");
    fs.flock(file, LOCK_UN).expect("flock");
    fs.fchmod(file, 0o644).expect("fchmod");
    fs.futimens(file, None).expect("futimens");
    fs.close(file).expect("closing");
    fs.chmod(data, 0o600).expect("chmod");
    fs.access(data, R_OK).expect("access");
    fs.truncate(data, 25_600).expect("truncate");
    assert!(fs.readlink(c"/proc/self/exe", &mut [0; 256]).expect("readlink") > 0);
    assert!(fs.getcwd(&mut [0; 4096]).is_ok() && fs.chdir(c".").is_ok());
    let here = fs.open(c".", O_DIRECTORY, 0).unwrap();
    assert!(fs.fchdir(here).is_ok() && fs.close(here).is_ok());
    let mask = fs.umask(0o22).unwrap();
    assert_eq!(fs.umask(mask), Ok(0o22));
    let folder = fs.opendir(c"/").expect("opendir");
    assert!(fs.readdir(folder, &mut Dirent::default()).expect("readdir"));
    fs.closedir(folder).expect("closedir");
}

fn main() {
    let path = std::env::args().nth(1).expect("the path of a file to make");
    let (text, data) = (format!("{path}.txt"), format!("{path}.dat"));
    let (text, data) = (CString::new(text).expect("a path"), CString::new(data).expect("a path"));
    let builder = Session::builder().rings(2).mode(Mode::Sqpoll).idle(Duration::from_millis(20));
    let mut session = match builder.cpu() {
        Ok(session) => session,
        Err(refused) => {
            println!("SKIP: {refused}");
            return;
        }
    };
    println!("ready");
    mark();
    let grid = Grid { blocks: 4, threads: 64 };
    for round in 0..2_u32 {
        let (text, data) = (text.clone(), data.clone());
        let kernel = move |fs: Fs| {
            let thread = warp::global_thread();
            // A file of its own block's, shared by its warp's lanes through their own handles.
            let file = fs.open(&data, O_RDWR | O_CREAT, 0o644).expect("the data file");
            let mut bytes = [thread as u8; 100];
            assert_eq!(fs.pwrite(file, &bytes, thread * 100), Ok(100));
            // Long enough for the SQPOLL threads to go to sleep.
            let start = warp::clock();
            while thread.is_multiple_of(64) && round == 1 && warp::clock() - start < 60_000_000 {
                warp::nap(1000);
            }
            assert_eq!(fs.pread(file, &mut bytes, thread * 100), Ok(100));
            assert!(bytes.iter().all(|byte| *byte == thread as u8));
            if thread.is_multiple_of(64) {
                use_ranges(fs, file, thread);
            }
            fs.close(file).expect("closing");
            if thread.is_multiple_of(16) {
                let out = fs.fopen(&text, c"a").expect("the text file");
                for line in 0..20 {
                    fprintf!(out, c"round %u thread %llu line %d\n", round, thread, line).expect("printing");
                }
                out.fclose().expect("closing");
            }
        };
        session.launch(grid, kernel).expect("a launch");
        while !session.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    mark();
    session.synchronize().expect("the kernels' end");
    let threads = Mutex::new(BTreeSet::new());
    mark();
    let ran = session.run(Grid { blocks: 2, threads: 32 }, |fs| {
        // SAFETY:
        // - the call takes nothing and touches nothing
        let thread = unsafe { libc::syscall(libc::SYS_gettid) };
        threads.lock().expect("no lane died with it").insert(thread);
        ask_the_host(fs, &data);
        change_names(fs, &data, warp::global_thread());
    });
    mark();
    ran.expect("the kernel");
    println!("lanes {:?}", threads.into_inner().expect("no lane died with it"));
    println!("wake-ups {}", session.statistics().total().wake_ups);
}

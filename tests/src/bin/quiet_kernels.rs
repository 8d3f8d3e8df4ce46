//! Kernels that open, print, read and close, between two marks that `strace` sees. `system_calls.rs` runs it and reads the log.
#![expect(unsafe_code, reason = "the marks are system calls")]

use std::ffi::CString;
use std::time::Duration;

use gpufs_device::file::{O_CREAT, O_RDWR};
use gpufs_device::{Fs, fprintf, warp};
use gpufs_host::ring::Mode;
use gpufs_host::{Grid, Session};

/// A system call that nothing here makes otherwise.
fn mark() {
    // SAFETY:
    // - the call takes nothing and touches nothing
    unsafe { libc::syscall(libc::SYS_getppid) };
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
        let kernel = move |tables| {
            let (fs, thread) = (Fs::new(tables), warp::global_thread());
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
    println!("wake-ups {}", session.statistics().total().wake_ups);
}

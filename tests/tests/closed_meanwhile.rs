//! A descriptor that is closed while lanes wait for its lock: its number, which another file of the process has by then, is not theirs any more.
//!
//! One test, since it gives a number of this process's descriptors away.
#![expect(unsafe_code, reason = "gives a number to another file")]

use std::fs;
use std::os::fd::AsRawFd;
use std::sync::Mutex;

use gpufs_core::word::DeviceWord;
use gpufs_device::file::{Descriptor, O_RDWR, Whence};
use gpufs_device::{Errno, warp};
use gpufs_host::{CpuOptions, Grid};
use gpufs_tests::{MODES, Scratch, small};

/// Blocks that wait: one for each call under the file's lock.
const WAITERS: u32 = 3;

#[test]
fn a_lane_that_waited_for_the_lock_of_a_closed_file_touches_no_other() {
    let scratch = Scratch::new("closed-meanwhile");
    let path = scratch.c("file");
    for mode in MODES {
        fs::write(scratch.path("file"), "of the file").unwrap();
        fs::write(scratch.path("other"), "of another").unwrap();
        let other = fs::OpenOptions::new().read(true).write(true).open(scratch.path("other")).unwrap();
        // The holder spins without a nap of the lanes' own.
        let options = CpuOptions { width: 1, threads: 2, ..CpuOptions::default() };
        let mut session = small().mode(mode).cpu_with(options).expect("a session");
        let opened = &DeviceWord::new(0);
        let outcomes = Mutex::new(Vec::new());
        let taken = Mutex::new(None);
        session
            .run(Grid { blocks: WAITERS + 1, threads: 1 }, |fs| {
                let lane = warp::global_thread();
                if lane == 0 {
                    let descriptor = fs.open(&path, O_RDWR, 0).unwrap();
                    // SAFETY:
                    // - the session is open while its kernel runs
                    let tables = unsafe { fs.tables() };
                    let file = &tables.files()[descriptor.0 as usize];
                    let number = file.descriptor.peek().cast_signed();
                    let ticket = file.lock.draw();
                    assert!(file.lock.is_served(ticket));
                    opened.publish(descriptor.0 + 1);
                    while file.lock.queued() < WAITERS + 1 {
                        warp::nap(10_000);
                    }
                    fs.close(descriptor).unwrap();
                    // SAFETY:
                    // - two numbers; the second was just closed, and nothing else in this process opens files meanwhile
                    assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
                    *taken.lock().unwrap() = Some(number);
                    file.lock.release();
                    return;
                }
                let descriptor = loop {
                    match opened.observe() {
                        0 => warp::nap(10_000),
                        index => break Descriptor(index - 1),
                    }
                };
                let outcome = match lane {
                    1 => fs.read(descriptor, &mut [0; 8]).map(|count| count as u64),
                    2 => fs.write(descriptor, b"overwritten").map(|count| count as u64),
                    _ => fs.lseek(descriptor, 1, Whence::Set),
                };
                outcomes.lock().unwrap().push((lane, outcome));
            })
            .expect("the kernel");
        let mut outcomes = outcomes.into_inner().unwrap();
        outcomes.sort_by_key(|(lane, _)| *lane);
        assert_eq!(outcomes, [1, 2, 3].map(|lane| (lane, Err(Errno::BADF))), "{mode}");
        assert_eq!(scratch.read("other"), b"of another", "{mode}");
        // SAFETY:
        // - the number that was given away above, closed once
        unsafe { libc::close(taken.into_inner().unwrap().expect("the first lane has run")) };
    }
}

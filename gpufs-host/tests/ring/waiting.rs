//! Operations that wait for a pipe, a FIFO or a poll: however many, they hold up no others, and closing does not wait for them.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::Duration;

use gpufs_core::Errno;
use gpufs_core::abi::{AT_FDCWD, CURRENT_POSITION, POLLIN, POLLOUT, RWF_NOWAIT, Sqe};
use gpufs_host::ring::Mode;

use super::client::{Folder, address, on_every_kind};

const fn negated(errno: Errno) -> i32 {
    -errno.number()
}

#[test]
fn a_thousand_reads_of_pipes_and_then_the_writes() {
    on_every_kind(
        |config| (config.entries, config.cq_entries) = (1024, 2048),
        |_, _, client, _| {
            let mut pipes: Vec<_> = (0..10).map(|_| std::io::pipe().unwrap()).collect();
            let mut bytes = [0_u8; 1000];
            let into = bytes.as_mut_ptr();
            let reads: Vec<u64> = (0..1000)
                .map(|number| {
                    let (fd, byte) = (pipes[number % 10].0.as_raw_fd(), address(into.wrapping_add(number)));
                    client.push(Sqe::read(fd, byte, 1, CURRENT_POSITION))
                })
                .collect();
            for _ in 0..10 {
                assert_eq!(client.run(Sqe::nop()), 0);
            }
            assert!(!reads.iter().any(|read| client.is_done(*read)));
            for (_, writer) in &mut pipes {
                // Through the ring, behind all of them.
                let text = [b'x'; 100];
                let write = Sqe::write(writer.as_raw_fd(), address(text.as_ptr()), 100, CURRENT_POSITION);
                assert_eq!(client.run(write), 100);
            }
            for read in reads {
                assert_eq!(client.wait(read), 1);
            }
            // SAFETY:
            // - `bytes` lives, and every read is done
            assert!((0..1000).all(|at| unsafe { into.wrapping_add(at).read() } == b'x'));
        },
    );
}

#[test]
fn polls_say_what_a_file_is_ready_for() {
    on_every_kind(
        |_| {},
        |_, _, client, _| {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let (reads, writes) = (reader.as_raw_fd(), writer.as_raw_fd());
            assert_eq!(client.run(Sqe::poll_add(writes, POLLOUT)), POLLOUT.cast_signed());
            let waits =
                [client.push(Sqe::poll_add(reads, POLLIN)), client.push(Sqe::poll_add(reads, POLLIN))];
            // A poll that is cancelled right behind it says whether the file is ready now.
            let poll = client.push(Sqe::poll_add(reads, POLLIN));
            assert_eq!(client.run(Sqe::async_cancel(poll)), 0);
            assert_eq!(client.wait(poll), negated(Errno::CANCELED));
            assert!(!waits.iter().any(|poll| client.is_done(*poll)));
            let mut byte = 0_u8;
            let read = Sqe::read(reads, address(&raw mut byte), 1, CURRENT_POSITION);
            assert_eq!(client.run(read.with_transfer_flags(RWF_NOWAIT)), negated(Errno::AGAIN));
            writer.write_all(b"x").unwrap();
            for poll in waits {
                assert_eq!(client.wait(poll), POLLIN.cast_signed());
            }
            let poll = client.push(Sqe::poll_add(reads, POLLIN));
            assert_eq!(client.run(Sqe::async_cancel(poll)), negated(Errno::NOENT));
            assert_eq!(client.wait(poll), POLLIN.cast_signed());
            assert_eq!(client.run(read.with_transfer_flags(RWF_NOWAIT)), 1);
            let poll = client.push(Sqe::poll_add(reads, POLLIN));
            drop(writer);
            assert_eq!(client.wait(poll), i32::from(libc::POLLHUP));
            assert_eq!(client.run(Sqe::poll_add(-1, POLLIN)), negated(Errno::BADF));
        },
    );
}

/// Workers that the system keeps in `openat` for ever neither stop the ring nor keep it from closing.
#[test]
fn opens_of_fifos_hold_up_neither_others_nor_closing() {
    let folder = Folder::new("fifos");
    let paths: Vec<_> = (0..70).map(|number| folder.c_path(&format!("fifo{number}"))).collect();
    for path in &paths {
        // SAFETY:
        // - a path with its NUL, alive for the call
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    }
    on_every_kind(
        |_| {},
        |_, ring, client, _| {
            if ring.mode() != Mode::Threads {
                // The kernel has eight workers or so for opens: its own limit. The device never lets an open wait.
                return;
            }
            for path in &paths {
                client.push(Sqe::openat(AT_FDCWD, address(path.as_ptr()), libc::O_RDONLY.cast_unsigned(), 0));
            }
            assert_eq!(client.run(Sqe::nop()), 0);
            // The ring is closed on return.
        },
    );
    // The threads that are left to themselves end, and what they opened is closed.
    let writers: Vec<_> = paths
        .iter()
        .map(|path| {
            let path = path.to_str().unwrap();
            std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
        })
        .collect();
    let left = |path: &std::ffi::CString| {
        let name = path.to_str().unwrap();
        std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter(|entry| {
                let link = entry.as_ref().ok().and_then(|entry| std::fs::read_link(entry.path()).ok());
                link.is_some_and(|link| link.to_str() == Some(name))
            })
            .count()
    };
    // Ends with the writers' own descriptors and no other.
    while paths.iter().any(|path| left(path) != 1) {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(writers);
}

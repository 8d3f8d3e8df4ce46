//! What a stream that reads asks the kernel for when its buffer is empty, and what it keeps where that fails.

use std::fs;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;

use gpufs_device::file::O_NONBLOCK;
use gpufs_device::{Errno, File, Fs};
use gpufs_host::Session;
use gpufs_tests::{MODES, Scratch, c_path, once, skip, small, tables};

/// Calls `body` with a session in each mode that works here.
fn in_every_mode(name: &str, mut body: impl FnMut(&mut Session)) {
    for mode in MODES {
        match small().mode(mode).cpu() {
            Ok(mut session) => body(&mut session),
            Err(error) => skip(&format!("{name} in {mode}"), error),
        }
    }
}

/// Reads so many bytes: how many operations it took.
fn operations(session: &mut Session, file: File, bytes: usize) -> u64 {
    let before = session.statistics().total().operations;
    once(session, |_| assert_eq!(file.fread(&mut vec![0; bytes]), Ok(bytes)));
    session.statistics().total().operations - before
}

/// A read is one operation, also of what others write into: only a FIFO, whose descriptor does not wait, is polled before.
#[test]
fn only_a_fifo_is_polled_before_it_is_read() {
    let scratch = Scratch::new("refills");
    fs::write(scratch.path("file"), [7; 3 * 4096]).unwrap();
    assert!(Command::new("mkfifo").arg(scratch.path("fifo")).status().unwrap().success());
    in_every_mode("only_a_fifo_is_polled_before_it_is_read", |session| {
        let file = once(session, |fs| fs.fopen(&scratch.c("file"), c"r").unwrap());
        assert_eq!(operations(session, file, 3 * 4096), 3);
        once(session, |_| file.fclose().unwrap());
        for flags in [0, O_NONBLOCK] {
            let (file, to) = once(session, |fs: Fs| {
                let [from, to] = fs.pipe2(flags).unwrap();
                (fs.fdopen(from, c"r").unwrap(), to)
            });
            if flags == O_NONBLOCK {
                assert_eq!(once(session, |_| file.fread(&mut [0])), Err(Errno::AGAIN));
            }
            once(session, |fs| assert_eq!(fs.write(to, b"0123456789"), Ok(10)));
            // Not every kernel has reads of a pipe that do not wait: then there are two.
            let most = if flags == O_NONBLOCK { 2 } else { 1 };
            assert!((1..=most).contains(&operations(session, file, 10)), "{flags}");
            once(session, |fs| assert_eq!((file.fclose(), fs.close(to)), (Ok(()), Ok(()))));
        }
        let mut fifo = OpenOptions::new().read(true).write(true).open(scratch.path("fifo")).unwrap();
        let file = once(session, |fs| fs.fopen(&scratch.c("fifo"), c"r").unwrap());
        fifo.write_all(b"0123456789").unwrap();
        assert_eq!(operations(session, file, 10), 2);
        once(session, |_| file.fclose().unwrap());
    });
}

/// A read that failed has ended: the stream goes on with the buffer that it has, and takes no other.
#[test]
fn a_stream_keeps_its_buffer_where_a_read_fails() {
    let scratch = Scratch::new("refills-fail");
    let path = c_path(scratch.dir());
    in_every_mode("a_stream_keeps_its_buffer_where_a_read_fails", |session| {
        let free = |session: &Session| tables(session).resources.stream_buffers.free.free();
        let file = once(session, |fs| fs.fopen(&path, c"r").unwrap());
        let before = free(session);
        for _ in 0..3 {
            assert_eq!(
                once(session, |_| (file.fread(&mut [0; 8]), file.ferror())),
                (Err(Errno::ISDIR), true)
            );
            once(session, |_| file.clearerr());
        }
        assert_eq!(free(session), before);
        once(session, |_| file.fclose().unwrap());
    });
}

//! What a stream that reads asks the kernel for when its buffer is empty, what it keeps where that fails, and what it drops where it is written.

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

/// What was read ahead of a file is dropped where its reader writes next, which needs no seek between: it writes where it stands.
#[test]
fn who_reads_and_then_writes_does_so_where_it_stands() {
    let scratch = Scratch::in_memory("reads-writes");
    in_every_mode("who_reads_and_then_writes_does_so_where_it_stands", |session| {
        fs::write(scratch.path("file"), b"abcdefgh").unwrap();
        once(session, |fs| {
            let file = fs.fopen(&scratch.c("file"), c"r+").unwrap();
            assert_eq!(file.fgetc(), Ok(Some(b'a')));
            assert_eq!(file.fputs(c"XY"), Ok(()));
            assert_eq!((file.ftell(), file.fclose()), (Ok(3), Ok(())));
        });
        assert_eq!(scratch.read("file"), b"aXYdefgh");
    });
}

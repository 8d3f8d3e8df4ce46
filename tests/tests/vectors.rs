//! Memory in several pieces: many lanes at once, in place and through staging memory, short transfers in the middle of a piece, and the flags of
//! one transfer.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use gpufs_device::file::{
    Descriptor, IOV_MAX, IoSlice, IoSliceMut, O_APPEND, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY,
    RWF_APPEND, RWF_DONTCACHE, RWF_NOAPPEND, RWF_NOWAIT, Whence,
};
use gpufs_device::{Errno, Fs, warp};
use gpufs_host::{CpuOptions, Session};
use gpufs_tests::{MODES, Scratch, each, lanes, once, skip, small};

/// Sessions in all modes, of warps of 1, 32 and 64 lanes.
fn sessions(test: &str, go: impl Fn(&mut Session)) {
    for mode in MODES {
        for width in [1, 32, 64] {
            let options = CpuOptions { width, ..CpuOptions::default() };
            match small().mode(mode).cpu_with(options) {
                Ok(mut session) => go(&mut session),
                Err(refused) => skip(&format!("{test}, {mode}"), refused),
            }
        }
    }
}

/// Byte `at` of what lane `lane` writes.
fn byte(lane: u64, at: usize) -> u8 {
    (lane as usize * 31 + at) as u8
}

#[test]
fn many_lanes_write_and_read_in_pieces() {
    // In one staging buffer, and in several.
    for bytes in [100_usize, 9000] {
        let scratch = Scratch::new("vectors");
        sessions("many_lanes_write_and_read_in_pieces", |session| {
            let path = scratch.c("file");
            let file = once(session, |fs| fs.open(&path, O_RDWR | O_CREAT | O_TRUNC, 0o600)).unwrap();
            each(session, 96, |fs, lane| {
                let data: Vec<u8> = (0..bytes).map(|at| byte(lane, at)).collect();
                let (cut, at) = ((lane as usize * 7) % bytes, lane * bytes as u64);
                let (first, second) = data.split_at(cut);
                let pieces = [IoSlice::new(first), IoSlice::new(&[]), IoSlice::new(second)];
                assert_eq!(fs.pwritev(file, &pieces, at), Ok(bytes));
                let (mut one, mut two) = (vec![0; bytes - cut], vec![0; cut + 5]);
                let mut into = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
                let got = fs.preadv(file, &mut into, at).unwrap();
                assert!(got >= bytes && got <= bytes + 5, "{got}");
                assert!(one.iter().chain(&two[..cut]).eq(&data), "lane {lane}");
            });
            let content = scratch.read("file");
            assert_eq!(content.len(), 96 * bytes);
            for lane in 0..96 {
                let own = &content[lane as usize * bytes..][..bytes];
                assert!(own.iter().enumerate().all(|(at, found)| *found == byte(lane, at)), "lane {lane}");
            }
            once(session, |fs| fs.close(file)).unwrap();
        });
    }
}

#[test]
fn a_call_is_one_write() {
    let scratch = Scratch::new("vectors-append");
    sessions("a_call_is_one_write", |session| {
        let path = scratch.c("log");
        let open = |flags| move |fs: Fs| fs.open(&path.clone(), O_WRONLY | O_CREAT | flags, 0o600);
        let file = once(session, open(O_TRUNC | O_APPEND)).unwrap();
        each(session, 64, |fs, lane| {
            let name = format!("{lane:04}");
            for round in 0..5_u8 {
                let digit = [b'0' + round];
                let pieces = [
                    IoSlice::new(b"<"),
                    IoSlice::new(name.as_bytes()),
                    IoSlice::new(&digit),
                    IoSlice::new(b">"),
                ];
                // At the position, and from anywhere with a flag.
                let wrote = match round % 2 {
                    0 => fs.writev(file, &pieces),
                    _ => fs.pwritev2(file, &pieces, Some(3), RWF_APPEND),
                };
                assert_eq!(wrote, Ok(7));
            }
        });
        once(session, |fs| fs.close(file)).unwrap();
        let text = String::from_utf8(scratch.read("log")).unwrap();
        let mut records: Vec<_> = text.as_bytes().chunks(7).collect();
        assert!(records.iter().all(|record| record[0] == b'<' && record[6] == b'>'), "{text}");
        records.sort_unstable();
        records.dedup();
        assert_eq!(records.len(), 64 * 5);
    });
}

#[test]
fn registered_pieces_are_used_in_place() {
    let scratch = Scratch::new("vectors-registered");
    sessions("registered_pieces_are_used_in_place", |session| {
        let buffer = session.register_buffer(64 << 10).unwrap();
        let path = scratch.c("file");
        let file = once(session, |fs| fs.open(&path, O_RDWR | O_CREAT | O_TRUNC, 0o600)).unwrap();
        each(session, 32, |fs, lane| {
            // SAFETY:
            // - a part for each lane, which no other uses
            let own = unsafe { buffer.part(lane as usize * 1024, 1024) };
            own.iter_mut().enumerate().for_each(|(at, into)| *into = byte(lane, at));
            let (first, second) = own.split_at_mut(300);
            let at = lane * 1024;
            // Out of order, and one lane in three has a piece of its stack among them.
            let stack = [byte(lane, 0); 24];
            let third = if lane % 3 == 0 { &stack[..] } else { &[] };
            let pieces = [IoSlice::new(second), IoSlice::new(first), IoSlice::new(third)];
            assert_eq!(fs.pwritev(file, &pieces, at), Ok(1024 + third.len()));
            first.fill(0);
            second.fill(0);
            let mut into = [IoSliceMut::new(second), IoSliceMut::new(first)];
            assert_eq!(fs.preadv(file, &mut into, at), Ok(1024));
            // A neighbour may have written over the start of what this lane wrote, which is the start of `second`.
            let differs = |at: usize| !(300..324).contains(&at) && own[at] != byte(lane, at);
            assert_eq!((0..own.len()).find(|at| differs(*at)), None, "lane {lane}");
        });
        once(session, |fs| fs.close(file)).unwrap();
    });
}

#[test]
fn a_pipe_ends_a_read_in_the_middle_of_a_piece() {
    sessions("a_pipe_ends_a_read_in_the_middle_of_a_piece", |session| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let from = session.register_file(OwnedFd::from(reader)).unwrap();
        writer.write_all(b"seven b").unwrap();
        once(session, |fs| {
            let (mut first, mut second, mut third) = ([0; 5], [0; 10], [0; 4]);
            let mut into =
                [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second), IoSliceMut::new(&mut third)];
            assert_eq!(fs.readv(from, &mut into), Ok(7));
            assert_eq!((&first, &second[..3], third), (b"seven", &b" b\0"[..], [0; 4]));
            // Nothing is there, and it does not wait.
            let mut into = [IoSliceMut::new(&mut first)];
            assert_eq!(fs.preadv2(from, &mut into, None, RWF_NOWAIT), Err(Errno::AGAIN));
            assert_eq!(fs.preadv(from, &mut into, 0), Err(Errno::SPIPE));
            assert_eq!(fs.readv(from, &mut []), Ok(0));
        });
        drop(writer);
        let end = once(session, |fs| fs.readv(from, &mut [IoSliceMut::new(&mut [0; 4])]));
        assert_eq!(end, Ok(0));
    });
}

#[test]
fn a_pipe_gets_each_call_whole() {
    sessions("a_pipe_gets_each_call_whole", |session| {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let into = session.register_file(OwnedFd::from(writer)).unwrap();
        // More than the pipe holds: the reader makes room.
        let read = std::thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            all
        });
        each(session, 64, |fs, lane| {
            let (head, body) = ([lane as u8; 5], vec![lane as u8; 3000]);
            let pieces = [IoSlice::new(&head), IoSlice::new(&body)];
            assert_eq!(fs.writev(into, &pieces), Ok(3005));
        });
        session.unregister_file(into).unwrap();
        let all = read.join().unwrap();
        assert_eq!(all.len(), 64 * 3005);
        let mut seen: Vec<u8> = all
            .chunks(3005)
            .map(|call| {
                assert!(call.iter().all(|byte| *byte == call[0]), "torn");
                call[0]
            })
            .collect();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..64));
    });
}

#[test]
fn a_full_pipe_without_waiting() {
    sessions("a_full_pipe_without_waiting", |session| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let into = session.register_file(OwnedFd::from(writer.try_clone().unwrap())).unwrap();
        once(session, |fs| {
            let (head, body) = ([b'x'; 96], [b'y'; 4000]);
            let pieces = [IoSlice::new(&head), IoSlice::new(&body)];
            let mut written = 0;
            // Ends: a pipe holds so much.
            let full = loop {
                match fs.pwritev2(into, &pieces, None, RWF_NOWAIT) {
                    Ok(count) => written += count,
                    Err(errno) => break errno,
                }
            };
            assert_eq!(full, Errno::AGAIN);
            assert_eq!(written % 4096, 0, "no more than a pipe takes whole is written in part");
            assert!(written >= 4096, "{written}");
        });
        writer.flush().unwrap();
        drop(reader);
        let broken = once(session, |fs| fs.writev(into, &[IoSlice::new(b"x")]));
        assert_eq!(broken, Err(Errno::PIPE));
    });
}

#[test]
fn flags_are_of_one_transfer() {
    let scratch = Scratch::new("vectors-flags");
    sessions("flags_are_of_one_transfer", |session| {
        std::fs::write(scratch.path("file"), "0123456789").unwrap();
        let path = scratch.c("file");
        once(session, |fs| {
            let file = fs.open(&path, O_RDWR | O_APPEND, 0).unwrap();
            let piece = [IoSlice::new(b"ab")];
            assert_eq!(fs.pwritev(file, &piece, 0), Ok(2), "appended: Linux goes by O_APPEND");
            match fs.pwritev2(file, &piece, Some(0), RWF_NOAPPEND) {
                Ok(count) => assert_eq!((count, &scratch.read("file")[..3]), (2, &b"ab2"[..])),
                Err(errno) => {
                    assert_eq!(errno, Errno::OPNOTSUPP);
                    println!("SKIP RWF_NOAPPEND: Linux 6.9 has it");
                }
            }
            assert_eq!(fs.lseek(file, 8, Whence::Set), Ok(8));
            match fs.pwritev2(file, &piece, None, RWF_NOAPPEND) {
                Ok(count) => {
                    assert_eq!((count, &scratch.read("file")[7..10]), (2, &b"7ab"[..]), "at the position");
                    assert_eq!(fs.lseek(file, 0, Whence::Current), Ok(10));
                }
                Err(errno) => assert_eq!(errno, Errno::OPNOTSUPP),
            }
            assert_eq!(fs.lseek(file, 4, Whence::Set), Ok(4));
            assert_eq!(fs.writev(file, &piece), Ok(2));
            assert_eq!(fs.lseek(file, 0, Whence::Current), Ok(14), "at the end");
            fs.close(file).unwrap();

            let file = fs.open(&path, O_RDONLY, 0).unwrap();
            let mut memory = [0; 4];
            let mut into = [IoSliceMut::new(&mut memory)];
            match fs.preadv2(file, &mut into, Some(3), RWF_DONTCACHE) {
                Ok(count) => assert_eq!((count, &memory), (4, b"3456")),
                Err(errno) => {
                    assert_eq!(errno, Errno::OPNOTSUPP);
                    println!("SKIP RWF_DONTCACHE: Linux 6.14 has it, on some file systems");
                }
            }
            let mut into = [IoSliceMut::new(&mut memory)];
            assert_eq!(fs.preadv2(file, &mut into, Some(0), 1 << 30), Err(Errno::OPNOTSUPP));
            assert_eq!(fs.writev(file, &piece), Err(Errno::BADF), "open for reading only");
            assert_eq!(fs.pwritev(file, &piece, u64::MAX), Err(Errno::INVAL));
            let many: Vec<_> = (0..=IOV_MAX).map(|_| IoSlice::new(b"")).collect();
            assert_eq!(fs.writev(file, &many), Err(Errno::INVAL));
            fs.close(file).unwrap();
            assert_eq!(fs.readv(file, &mut into), Err(Errno::BADF));
            assert_eq!(fs.preadv(Descriptor(u32::MAX), &mut into, 0), Err(Errno::BADF));
        });
    });
}

/// Lanes of one warp with and without an offset, of different files, with errors among them.
#[test]
fn lanes_of_one_call_differ() {
    let scratch = Scratch::new("vectors-mixed");
    sessions("lanes_of_one_call_differ", |session| {
        std::fs::write(scratch.path("even"), [b'e'; 64]).unwrap();
        std::fs::write(scratch.path("odd"), [b'o'; 64]).unwrap();
        let paths = [scratch.c("even"), scratch.c("odd")];
        let files = paths.each_ref().map(|path| once(session, |fs| fs.open(path, O_RDONLY, 0)).unwrap());
        session
            .run(lanes(64), |fs| {
                let lane = warp::global_thread();
                let mut memory = [0; 2];
                let mut into = [IoSliceMut::new(&mut memory)];
                let offset = [Some(0), None, Some(u64::MAX), Some(60)][lane as usize % 4];
                let read = fs.preadv2(files[lane as usize % 2], &mut into, offset, 0);
                match lane % 4 {
                    2 => assert_eq!(read, Err(Errno::INVAL)),
                    1 => assert!(matches!(read, Ok(2)) && memory == *b"oo", "{read:?}"),
                    rest => {
                        assert_eq!((read, memory), (Ok(2), if rest == 0 { *b"ee" } else { *b"oo" }));
                    }
                }
            })
            .unwrap();
        for file in files {
            once(session, |fs| fs.close(file)).unwrap();
        }
    });
}

/// The largest offset and the ones beyond it, with bytes and without; devices that have no position take each.
#[test]
fn offsets_at_the_edge() {
    const LAST: u64 = i64::MAX as u64;
    let scratch = Scratch::new("vectors-edge");
    std::fs::write(scratch.path("file"), "0123456789").unwrap();
    let system = std::fs::File::options().read(true).write(true).open(scratch.path("file")).unwrap();
    sessions("offsets_at_the_edge", |session| {
        let give = |session: &mut Session, path: &std::path::Path| {
            let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
            Descriptor(session.register_file(file).unwrap().0)
        };
        let [file, zero, full] = [scratch.path("file"), "/dev/zero".into(), "/dev/full".into()]
            .map(|path: std::path::PathBuf| give(session, &path));
        once(session, |fs| {
            for beyond in [LAST + 1, u64::MAX] {
                assert_eq!(fs.pread(file, &mut [0; 4], beyond), Err(Errno::INVAL), "{beyond}");
                assert_eq!(fs.pwrite(file, b"", beyond), Err(Errno::INVAL), "{beyond}");
                let mut piece = [0; 4];
                let read = fs.preadv(file, &mut [IoSliceMut::new(&mut piece)], beyond);
                assert_eq!(read, Err(Errno::INVAL), "{beyond}");
                assert_eq!(fs.ftruncate(file, beyond), Err(Errno::INVAL), "{beyond}");
            }
            assert_eq!(fs.pread(file, &mut [], LAST), Ok(0));
            assert_eq!(fs.pwritev(file, &[IoSlice::new(b"")], LAST), Ok(0));
            assert_eq!(fs.lseek(file, i64::MAX, Whence::Set), Ok(LAST));
            assert_eq!(fs.lseek(file, 1, Whence::Current), Err(Errno::OVERFLOW));
            assert_eq!(fs.lseek(file, 0, Whence::Current), Ok(LAST));
            let mut piece = [1; 4];
            assert_eq!(fs.pread(zero, &mut piece, 7), Ok(4));
            assert_eq!(fs.preadv(zero, &mut [IoSliceMut::new(&mut piece)], 7), Ok(4));
            assert_eq!(piece, [0; 4]);
            assert_eq!(fs.pwrite(full, b"x", 7), Err(Errno::NOSPC));
        });
        // As long as the file system has it, or the system's error.
        let wanted = system.set_len(LAST).map_err(|error| error.raw_os_error().unwrap());
        // Before Linux 6.9 there is no such operation.
        if once(session, |fs| fs.ftruncate(file, 10)) == Ok(()) {
            let cut = once(session, |fs| fs.ftruncate(file, LAST));
            assert_eq!(cut.map_err(Errno::number), wanted);
        }
        system.set_len(10).unwrap();
    });
}

//! What operations give, in every mode.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::time::Duration;

use gpufs_core::Errno;
use gpufs_core::abi::{
    AT_FDCWD, CURRENT_POSITION, IORING_FSYNC_DATASYNC, IORING_OP_FTRUNCATE, SPLICE_F_NONBLOCK, Sqe, Statx,
};
use gpufs_host::ring::{Mode, Ring};

use super::client::{Client, Folder, address, on_every_kind};

fn negated(errno: Errno) -> i32 {
    -errno.number()
}

const CREATE: u32 = (libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC).cast_unsigned();

#[test]
fn nothing_and_errors() {
    on_every_kind(
        |_| {},
        |_, _, client, _| {
            assert_eq!(client.run(Sqe::nop()), 0);
            assert_eq!(client.run(Sqe { opcode: 250, ..Sqe::nop() }), negated(Errno::INVAL));
            let absent = c"/nonexistent/file";
            let open = Sqe::openat(AT_FDCWD, address(absent.as_ptr()), 0, 0);
            assert_eq!(client.run(open), negated(Errno::NOENT));
            assert_eq!(client.run(Sqe::close(1 << 20)), negated(Errno::BADF));
            let mut byte = 0_u8;
            assert_eq!(client.run(Sqe::read(1 << 20, address(&raw mut byte), 1, 0)), negated(Errno::BADF));
            assert_eq!(client.run(Sqe::read(0, 0, 1, 0).with_fixed_file()), negated(Errno::BADF));
            assert_eq!(client.run(Sqe::openat(AT_FDCWD, 8, 0, 0)), negated(Errno::FAULT));
        },
    );
}

#[test]
fn the_life_of_a_file() {
    let folder = Folder::new("life");
    on_every_kind(
        |_| {},
        |_, ring, client, _| {
            let (path, renamed) = (folder.c_path("file"), folder.c_path("renamed"));
            let fd = client.run(Sqe::openat(AT_FDCWD, address(path.as_ptr()), CREATE, 0o640));
            assert!(fd >= 0, "{fd}");
            writes_and_reads(client, fd);
            sizes(ring, client, fd, address(path.as_ptr()));

            let (from, to) = (address(path.as_ptr()), address(renamed.as_ptr()));
            assert_eq!(client.run(Sqe::renameat(AT_FDCWD, from, AT_FDCWD, to, 0)), 0);
            assert_eq!(client.run(Sqe::unlinkat(AT_FDCWD, from, 0)), negated(Errno::NOENT));
            assert!(folder.path("renamed").exists());
            assert_eq!(client.run(Sqe::unlinkat(AT_FDCWD, to, 0)), 0);
            assert!(!folder.path("renamed").exists());
            assert_eq!(client.run(Sqe::close(fd)), 0);
        },
    );
}

fn writes_and_reads(client: &mut Client, fd: i32) {
    let text = *b"hello, ring";
    let mut back = [0_u8; 64];
    let into = address(&raw mut back);
    assert_eq!(client.run(Sqe::write(fd, address(&raw const text), 11, 0)), 11);
    assert_eq!(client.run(Sqe::read(fd, into, 5, 7)), 4, "short at the end of the file");
    assert_eq!(&back[..5], b"ring\0");
    assert_eq!(client.run(Sqe::read(fd, into, 64, 11)), 0, "at the end of the file");
    assert_eq!(client.run(Sqe::read(fd, into, 6, CURRENT_POSITION)), 6, "pread moved no position");
    assert_eq!(&back[..6], b"hello,");
    assert_eq!(client.run(Sqe::read(fd, into, 64, CURRENT_POSITION)), 5);
    assert_eq!(client.run(Sqe::write(fd, address(&raw const text), 2, CURRENT_POSITION)), 2);
    assert_eq!(client.run(Sqe::read(fd, 8, 64, 0)), negated(Errno::FAULT));
    // Pieces of 2, 0 and 3 bytes.
    let pieces = [into, 2, into, 0, into + 8, 3];
    let vectors = address(&raw const pieces);
    assert_eq!(client.run(Sqe::readv(fd, vectors, 3, 1)), 5);
    assert_eq!((&back[..2], &back[8..11]), (&b"el"[..], &b"lo,"[..]));
    assert_eq!(client.run(Sqe::writev(fd, vectors, 3, 1)), 5);
    assert_eq!(client.run(Sqe::readv(fd, vectors, 3, 12)), 1, "short at the end of the file");
    assert_eq!(client.run(Sqe::readv(fd, 8, 3, 0)), negated(Errno::FAULT));
    assert_eq!(client.run(Sqe::writev(fd, vectors, 1025, 0)), negated(Errno::INVAL));
    assert_eq!(client.run(Sqe::fsync(fd, 0)), 0);
    assert_eq!(client.run(Sqe::fsync(fd, IORING_FSYNC_DATASYNC)), 0);
}

fn sizes(ring: &Ring, client: &mut Client, fd: i32, path: u64) {
    let mut statx = Statx::default();
    let into = address(&raw mut statx);
    assert_eq!(client.run(Sqe::statx(AT_FDCWD, path, 0, libc::STATX_SIZE | libc::STATX_MODE, into)), 0);
    assert_eq!((statx.stx_size, statx.stx_mode & 0o777), (13, 0o640));
    assert_eq!(client.run(Sqe::fallocate(fd, 0, 0, 8192)), 0);
    let empty = address(c"".as_ptr());
    let of_fd = Sqe::statx(fd, empty, libc::AT_EMPTY_PATH.cast_unsigned(), libc::STATX_SIZE, into);
    assert_eq!(client.run(of_fd), 0);
    assert_eq!(statx.stx_size, 8192);
    if ring.lacks().iter().any(|lack| lack.opcode == IORING_OP_FTRUNCATE) {
        println!("SKIP ftruncate: {}", ring.lacks()[0]);
        return assert_eq!(client.run(Sqe::ftruncate(fd, 3)), negated(Errno::INVAL));
    }
    assert_eq!(client.run(Sqe::ftruncate(fd, 3)), 0);
    assert_eq!(client.run(of_fd), 0);
    assert_eq!(statx.stx_size, 3);
}

#[test]
fn registered_files() {
    let folder = Folder::new("files");
    on_every_kind(
        |_| {},
        |_, ring, client, _| {
            std::fs::write(folder.path("a"), "alpha").unwrap();
            std::fs::write(folder.path("b"), "beta").unwrap();
            let (a, b) = (File::open(folder.path("a")).unwrap(), File::open(folder.path("b")).unwrap());
            assert_eq!(ring.update_file(0, Some(a.as_fd())).unwrap_err().errno(), Some(Errno::NXIO));
            ring.register_files(&[Some(a.as_fd()), None, None]).unwrap();
            assert_eq!(ring.register_files(&[None]).unwrap_err().errno(), Some(Errno::BUSY));
            ring.update_file(1, Some(b.as_fd())).unwrap();
            assert_eq!(ring.update_file(3, Some(b.as_fd())).unwrap_err().errno(), Some(Errno::INVAL));
            drop((a, b));

            let mut back = [0_u8; 8];
            let into = address(&raw mut back);
            let read = |slot| Sqe::read(slot, into, 8, 0).with_fixed_file();
            assert_eq!(client.run(read(0)), 5, "the ring has a reference of its own");
            assert_eq!(&back[..5], b"alpha");
            assert_eq!(client.run(read(1)), 4);
            for unused in [2, 3, -1] {
                assert_eq!(client.run(read(unused)), negated(Errno::BADF));
            }
            let by_slot = Sqe::statx(0, address(c"".as_ptr()), libc::AT_EMPTY_PATH.cast_unsigned(), 0, into);
            assert_eq!(client.run(by_slot.with_fixed_file()), negated(Errno::BADF));
            ring.update_file(0, None).unwrap();
            assert_eq!(client.run(read(0)), negated(Errno::BADF));
            opened_into_slots(client, &folder);
        },
    );
}

fn opened_into_slots(client: &mut Client, folder: &Folder) {
    let path = folder.c_path("direct");
    let open = Sqe::openat(AT_FDCWD, address(path.as_ptr()), CREATE, 0o600);
    assert_eq!(client.run(open.with_target_slot(2)), 0);
    assert_eq!(client.run(open.with_target_slot(3)), negated(Errno::INVAL));
    let cloexec = Sqe { op_flags: open.op_flags | libc::O_CLOEXEC.cast_unsigned(), ..open };
    assert_eq!(
        client.run(cloexec.with_target_slot(2)),
        negated(Errno::INVAL),
        "no descriptor to close on exec"
    );
    let word = *b"direct";
    let write = Sqe::write(2, address(&raw const word), 6, 0).with_fixed_file();
    assert_eq!(client.run(write), 6);
    assert_eq!(client.run(Sqe::close_slot(2)), 0);
    assert_eq!(client.run(Sqe::close_slot(2)), negated(Errno::BADF));
    assert_eq!(client.run(Sqe::close_slot(3)), negated(Errno::INVAL));
    assert_eq!(client.run(write), negated(Errno::BADF));
    assert_eq!(std::fs::read(folder.path("direct")).unwrap(), word);

    let file = File::options().write(true).open(folder.path("direct")).unwrap();
    let descriptors = [file.as_raw_fd(), -1];
    assert_eq!(client.run(Sqe::files_update(address(&raw const descriptors), 2, 1)), 2);
    let write = Sqe::write(1, address(&raw const word), 6, 6).with_fixed_file();
    assert_eq!(client.run(write), 6);
    assert_eq!(client.run(Sqe::files_update(8, 1, 1)), negated(Errno::FAULT));
}

#[test]
fn registered_buffers() {
    let folder = Folder::new("buffers");
    on_every_kind(
        |_| {},
        |_, ring, client, _| {
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(folder.path("file"))
                .unwrap();
            let fd = file.as_raw_fd();
            // The kernel uses it behind the compiler's back, so it is only touched through its pointer.
            let buffer = NonNull::from(Box::leak(Box::new([0_u8; 4096]))).cast::<u8>();
            let fill = |byte| {
                // SAFETY:
                // - 4096 bytes that no operation uses at this moment
                unsafe { buffer.write_bytes(byte, 4096) };
            };
            // SAFETY:
            // - leaked, so it stays
            unsafe { ring.register_buffers(&[(buffer, 4096)]) }.unwrap();
            fill(b'x');
            let base = address(buffer.as_ptr());
            assert_eq!(client.run(Sqe::write_fixed(fd, base + 96, 4000, 0, 0)), 4000);
            fill(0);
            assert_eq!(client.run(Sqe::read_fixed(fd, base, 4096, 1000, 0)), 3000);
            // SAFETY:
            // - 4096 bytes that no operation uses at this moment
            let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr(), 4096) };
            assert!(
                bytes[..3000].iter().all(|&byte| byte == b'x') && bytes[3000..].iter().all(|&byte| byte == 0)
            );
            let beyond = [Sqe::read_fixed(fd, base + 1, 4096, 0, 0), Sqe::write_fixed(fd, base - 1, 1, 0, 0)];
            for sqe in beyond.into_iter().chain([Sqe::read_fixed(fd, base, 1, 0, 1)]) {
                assert_eq!(client.run(sqe), negated(Errno::FAULT));
            }
        },
    );
}

#[test]
fn many_laps_of_a_small_ring() {
    on_every_kind(
        |config| (config.entries, config.cq_entries) = (8, 8),
        |_, ring, client, _| {
            for _ in 0..40 {
                let batch: Vec<u64> = (0..8).map(|_| client.push(Sqe::nop())).collect();
                for entry in batch {
                    assert_eq!(client.wait(entry), 0);
                }
            }
            assert_eq!(ring.overflow(), 0);
        },
    );
}

#[test]
fn many_operations_in_flight() {
    const BLOCK: usize = 512;
    let folder = Folder::new("many");
    on_every_kind(
        |config| (config.entries, config.cq_entries) = (256, 256),
        |name, ring, client, _| {
            let path = folder.path(name);
            let file = File::create_new(&path).unwrap();
            let data: Vec<u8> = (0..256 * BLOCK).map(|i| (i * 7 / BLOCK) as u8).collect();
            for lap in 0..3 {
                let entries: Vec<u64> = (0..256)
                    .map(|i| {
                        let off = (i * BLOCK) as u64;
                        let from = address(data[i * BLOCK..].as_ptr());
                        client.push(Sqe::write(
                            file.as_raw_fd(),
                            from,
                            BLOCK as u32,
                            lap * 256 * BLOCK as u64 + off,
                        ))
                    })
                    .collect();
                for entry in entries.into_iter().rev() {
                    assert_eq!(client.wait(entry), BLOCK as i32);
                }
            }
            assert_eq!(std::fs::read(&path).unwrap(), data.repeat(3));
            assert_eq!(ring.overflow(), 0);
        },
    );
}

fn pipes(count: usize) -> Vec<(PipeReader, PipeWriter)> {
    (0..count).map(|_| std::io::pipe().unwrap()).collect()
}

#[test]
fn operations_that_wait_hold_up_no_others() {
    on_every_kind(
        |_| {},
        |_, _, client, _| {
            let mut pipes = pipes(12);
            let mut bytes = [0_u8; 12];
            let into = bytes.as_mut_ptr();
            let reads: Vec<u64> = pipes
                .iter()
                .enumerate()
                .map(|(i, (reader, _))| {
                    client.push(Sqe::read(
                        reader.as_raw_fd(),
                        address(into.wrapping_add(i)),
                        1,
                        CURRENT_POSITION,
                    ))
                })
                .collect();
            for _ in 0..100 {
                assert_eq!(client.run(Sqe::nop()), 0);
            }
            for (i, (_, writer)) in pipes.iter_mut().enumerate().rev() {
                assert!(!client.is_done(reads[i]));
                writer.write_all(&[i as u8 + 1]).unwrap();
                assert_eq!(client.wait(reads[i]), 1);
                // SAFETY:
                // - in `bytes`, and its read is done
                assert_eq!(unsafe { into.wrapping_add(i).read() }, i as u8 + 1);
            }
        },
    );
}

#[test]
fn what_waits_can_be_cancelled() {
    on_every_kind(
        |_| {},
        |_, _, client, _| {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let mut byte = 0_u8;
            let read = Sqe::read(reader.as_raw_fd(), address(&raw mut byte), 1, CURRENT_POSITION);
            for _ in 0..50 {
                let entry = client.push(read);
                // The read may not have come to its wait yet: then it ends where it would wait.
                let cancelled = client.run(Sqe::async_cancel(entry));
                assert!(cancelled == 0 || cancelled == -libc::EALREADY, "{cancelled}");
                assert_eq!(client.wait(entry), negated(Errno::CANCELED));
                assert_eq!(client.run(Sqe::async_cancel(entry)), negated(Errno::NOENT));
            }
            let entry = client.push(read);
            writer.write_all(b"x").unwrap();
            assert_eq!(client.wait(entry), 1, "a cancelled read took nothing with it");
        },
    );
}

/// Of reads that were woken for one byte all but one wait again. Cancelled on the way there, in a worker's hands too, they end.
#[test]
fn what_goes_back_to_its_wait_can_be_cancelled() {
    on_every_kind(
        |_| {},
        |name, _, client, _| {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let mut byte = 0_u8;
            let read = Sqe::read(reader.as_raw_fd(), address(&raw mut byte), 1, CURRENT_POSITION);
            for round in 0..60 {
                let entries = [0; 8].map(|_| client.push(read));
                std::thread::sleep(Duration::from_micros(200));
                writer.write_all(b"x").unwrap();
                std::thread::sleep(Duration::from_micros(round * 10));
                let answers = entries.map(|entry| client.run(Sqe::async_cancel(entry)));
                let results = entries.map(|entry| client.wait(entry));
                let read = results.iter().filter(|result| **result == 1).count();
                let ended = results.iter().filter(|result| **result == negated(Errno::CANCELED)).count();
                assert_eq!(read + ended, 8, "{name}: {results:?}, {answers:?}");
                if read == 0 {
                    assert_eq!(client.run(read_of(&reader, &mut byte)), 1);
                }
            }
        },
    );
}

fn read_of(reader: &PipeReader, byte: &mut u8) -> Sqe {
    Sqe::read(reader.as_raw_fd(), address(&raw const *byte), 1, CURRENT_POSITION)
}

#[test]
fn pipes_end_and_break() {
    on_every_kind(
        |_| {},
        |_, _, client, _| {
            let mut byte = 0_u8;
            let at = address(&raw mut byte);
            let (reader, writer) = std::io::pipe().unwrap();
            assert_eq!(
                client.run(Sqe::write(writer.as_raw_fd(), at, 1, 0)),
                1,
                "a pipe's offset does not count"
            );
            assert_eq!(client.run(Sqe::read(reader.as_raw_fd(), at, 1, 0)), 1);
            drop(writer);
            assert_eq!(client.run(Sqe::read(reader.as_raw_fd(), at, 1, CURRENT_POSITION)), 0);
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let write = Sqe::write(writer.as_raw_fd(), at, 1, CURRENT_POSITION);
            assert_eq!(client.run(write), negated(Errno::PIPE));
        },
    );
}

#[test]
fn pipes_are_spliced() {
    let folder = Folder::new("splice");
    std::fs::write(folder.path("file"), b"0123456789").unwrap();
    on_every_kind(
        |_| {},
        |name, _, client, _| {
            let file = File::options().read(true).write(true).open(folder.path("file")).unwrap();
            let [(one, mut one_in), (two, two_in)] = [(); 2].map(|()| std::io::pipe().unwrap());
            let number = |file: &dyn AsRawFd| (file.as_raw_fd(), CURRENT_POSITION);
            let quick = SPLICE_F_NONBLOCK;
            assert_eq!(client.run(Sqe::splice((file.as_raw_fd(), 3), number(&one_in), 4, 0)), 4, "{name}");
            assert_eq!(client.run(Sqe::tee(one.as_raw_fd(), two_in.as_raw_fd(), 64, quick)), 4);
            assert_eq!(client.run(Sqe::splice(number(&one), number(&two_in), 1, 0)), 1);
            assert_eq!(client.run(Sqe::splice(number(&two), (file.as_raw_fd(), 10), 64, 0)), 5);
            assert_eq!(std::fs::read(folder.path("file")).unwrap()[10..], *b"34563");
            // The file's own position, of which nobody has heard yet.
            assert_eq!(client.run(Sqe::splice(number(&file), number(&one_in), 2, 0)), 2);
            let mut bytes = [0; 8];
            assert_eq!(std::io::Read::read(&mut (&one), &mut bytes).unwrap(), 5);
            assert_eq!(&bytes[..5], b"45601");
            for (entry, wanted) in [
                (Sqe::splice(number(&one), number(&file), 1, quick), Errno::AGAIN),
                (Sqe::tee(one.as_raw_fd(), two_in.as_raw_fd(), 1, quick), Errno::AGAIN),
                (Sqe::splice(number(&file), number(&file), 1, 0), Errno::INVAL),
                (Sqe::splice(number(&one), number(&one_in), 1, quick), Errno::INVAL),
                (Sqe::splice(number(&one), number(&two_in), 1, 16), Errno::INVAL),
                (Sqe::tee(file.as_raw_fd(), two_in.as_raw_fd(), 1, quick), Errno::INVAL),
                (Sqe::splice((1 << 20, 0), number(&two_in), 1, 0), Errno::BADF),
                (Sqe::tee(one.as_raw_fd(), 1 << 20, 1, 0), Errno::BADF),
            ] {
                assert_eq!(client.run(entry), negated(wanted), "{name}: {entry:?}");
            }
            // It waits for its pipe, and holds up no others.
            let waiting = client.push(Sqe::splice(number(&one), number(&two_in), 8, 0));
            assert_eq!(client.run(Sqe::nop()), 0);
            assert!(!client.is_done(waiting), "{name}");
            one_in.write_all(b"late").unwrap();
            assert_eq!(client.wait(waiting), 4, "{name}");
            std::fs::write(folder.path("file"), b"0123456789").unwrap();
        },
    );
}

#[test]
fn closing_does_not_wait_for_a_silent_pipe() {
    let mut byte = 0_u8;
    let pipe = std::io::pipe().unwrap();
    on_every_kind(
        |_| {},
        |_, _, client, _| {
            let read = Sqe::read(pipe.0.as_raw_fd(), address(&raw const byte), 1, CURRENT_POSITION);
            let reads = [client.push(read), client.push(read)];
            assert_eq!(client.run(Sqe::nop()), 0);
            assert!(!reads.iter().any(|&read| client.is_done(read)));
            // The ring is closed on return, with both reads waiting.
        },
    );
    byte += 1;
    assert_eq!(byte, 1);
}

#[test]
fn completions_beyond_the_cq_are_kept_and_come() {
    on_every_kind(
        |config| (config.entries, config.cq_entries) = (4, 4),
        |name, ring, client, service| {
            let entries: Vec<u64> = (0..12).map(|_| client.push(Sqe::nop())).collect();
            for entry in entries {
                assert_eq!(client.wait(entry), 0);
            }
            let report = service.report();
            println!("{name}: {} kept back, {:?}", ring.overflow(), report.rings[0]);
            assert!(ring.mode() == Mode::Threads || report.rings[0].flushes > 0);
        },
    );
}

//! Operations on paths and advice about files, in every mode: each gives what the system call gives.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

use gpufs_core::Errno;
use gpufs_core::abi::{AT_FDCWD, Sqe};

use super::client::{Folder, address, on_every_kind};

fn negated(errno: Errno) -> i32 {
    -errno.number()
}

#[test]
fn names_are_made_and_removed() {
    let folder = Folder::new("names");
    let [at, file, hard, soft, below] =
        ["d", "d/file", "d/hard", "d/soft", "d/absent/x"].map(|name| folder.c_path(name));
    let [at, file, hard, soft, below] = [&at, &file, &hard, &soft, &below].map(|path| address(path.as_ptr()));
    on_every_kind(
        |_| {},
        |_, ring, client, _| {
            if let Some(lack) = ring.lacks().iter().find(|lack| lack.name.ends_with("AT")) {
                return println!("SKIP names_are_made_and_removed: {lack}");
            }
            assert_eq!(client.run(Sqe::mkdirat(AT_FDCWD, at, 0o750)), 0);
            assert_eq!(client.run(Sqe::mkdirat(AT_FDCWD, at, 0o750)), negated(Errno::EXIST));
            assert_eq!(client.run(Sqe::mkdirat(AT_FDCWD, below, 0o750)), negated(Errno::NOENT));
            std::fs::write(folder.path("d/file"), "content").unwrap();
            assert_eq!(client.run(Sqe::linkat(AT_FDCWD, file, AT_FDCWD, hard, 0)), 0);
            assert_eq!(std::fs::read(folder.path("d/hard")).unwrap(), b"content");
            assert_eq!(client.run(Sqe::linkat(AT_FDCWD, file, AT_FDCWD, hard, 0)), negated(Errno::EXIST));
            assert_eq!(client.run(Sqe::linkat(AT_FDCWD, at, AT_FDCWD, below, 1)), negated(Errno::INVAL));
            let target = c"file";
            assert_eq!(client.run(Sqe::symlinkat(address(target.as_ptr()), AT_FDCWD, soft)), 0);
            assert_eq!(std::fs::read_link(folder.path("d/soft")).unwrap().to_str(), Some("file"));
            let directory = File::open(folder.path("d")).unwrap();
            let relative = address(c"by-directory".as_ptr());
            let fd = directory.as_raw_fd();
            assert_eq!(client.run(Sqe::symlinkat(address(target.as_ptr()), fd, relative)), 0);
            assert_eq!(client.run(Sqe::renameat(fd, relative, AT_FDCWD, soft, 0)), 0);
            assert_eq!(client.run(Sqe::mkdirat(-1, relative, 0o700)), negated(Errno::BADF));
            let fixed = Sqe::mkdirat(0, relative, 0o700).with_fixed_file();
            assert_eq!(client.run(fixed), negated(Errno::BADF), "no registered file is a directory here");
            for path in [file, hard, soft] {
                assert_eq!(client.run(Sqe::unlinkat(AT_FDCWD, path, 0)), 0);
            }
            let as_directory = libc::AT_REMOVEDIR.cast_unsigned();
            assert_eq!(client.run(Sqe::unlinkat(AT_FDCWD, at, 0)), negated(Errno::ISDIR));
            assert_eq!(client.run(Sqe::unlinkat(AT_FDCWD, at, as_directory)), 0);
            assert!(!folder.path("d").exists());
        },
    );
}

#[test]
fn ranges_of_files_are_written_back_and_advised_about() {
    let folder = Folder::new("advice");
    on_every_kind(
        |_| {},
        |_, ring, client, _| {
            if let Some(lack) =
                ring.lacks().iter().find(|lack| ["FADVISE", "SYNC_FILE_RANGE"].contains(&lack.name))
            {
                return println!("SKIP ranges_of_files_are_written_back_and_advised_about: {lack}");
            }
            let mut file = File::create(folder.path("file")).unwrap();
            file.write_all(&[7; 10_000]).unwrap();
            let (fd, (reader, _writer)) = (file.as_raw_fd(), std::io::pipe().unwrap());
            let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
                | libc::SYNC_FILE_RANGE_WRITE
                | libc::SYNC_FILE_RANGE_WAIT_AFTER;
            for (offset, length) in [(0, 0), (4096, 4096), (1 << 40, 4096), (0, u32::MAX)] {
                assert_eq!(client.run(Sqe::sync_file_range(fd, offset, length, all)), 0);
            }
            assert_eq!(client.run(Sqe::sync_file_range(fd, 0, 0, 8)), negated(Errno::INVAL));
            assert_eq!(
                client.run(Sqe::sync_file_range(reader.as_raw_fd(), 0, 0, all)),
                negated(Errno::SPIPE)
            );
            for (advice, length) in (0..=5).flat_map(|advice| [(advice, 0), (advice, 4096)]) {
                assert_eq!(client.run(Sqe::fadvise(fd, 0, length, advice)), 0, "advice {advice}");
            }
            assert_eq!(client.run(Sqe::fadvise(fd, 0, 0, 6)), negated(Errno::INVAL));
            assert_eq!(client.run(Sqe::fadvise(reader.as_raw_fd(), 0, 0, 0)), negated(Errno::SPIPE));
            // Before Linux 6.10 a ring takes 32 bits of a length.
            let long = client.run(Sqe::fadvise(fd, 0, 1 << 33, 0));
            assert!([0, negated(Errno::INVAL)].contains(&long), "{long}");
        },
    );
}

//! Chains: entries that are carried out in order, whoever serves the ring ([R-CHAIN-3]).

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use gpufs_core::Errno;
use gpufs_core::abi::{CURRENT_POSITION, POLLIN, Sqe};

use super::client::{Client, Folder, address, on_every_kind};

const CANCELED: i32 = -Errno::CANCELED.number();
const BADF: i32 = -Errno::BADF.number();

/// Publishes a chain, waits for its links, and returns their results.
fn run<const N: usize>(client: &mut Client, always: bool, entries: [Sqe; N]) -> [i32; N] {
    let mut left = N;
    let linked = entries.map(|sqe| {
        left -= 1;
        if left > 0 { sqe.with_next(always) } else { sqe }
    });
    client.push_all(linked).map(|number| client.wait(number))
}

/// A file of the test, and its descriptor.
fn file(folder: &Folder, name: &str, content: &[u8]) -> File {
    std::fs::write(folder.path(name), content).unwrap();
    File::options().read(true).write(true).open(folder.path(name)).unwrap()
}

fn write(fd: RawFd, bytes: &[u8], offset: u64) -> Sqe {
    Sqe::write(fd, address(bytes.as_ptr()), u32::try_from(bytes.len()).unwrap(), offset)
}

#[test]
fn links_are_carried_out_in_order() {
    let folder = Folder::new("chains");
    on_every_kind(
        |_| {},
        |name, _, client, _| {
            let (from, to) = (file(&folder, "from", b"0123456789"), file(&folder, "to", b""));
            let mut memory = [0_u8; 10];
            for round in 0..50_u64 {
                memory.fill(b'.');
                let place = address(memory.as_mut_ptr());
                let chain = [
                    Sqe::read(from.as_raw_fd(), place, 10, 0),
                    Sqe::write(to.as_raw_fd(), place, 10, round * 10),
                    Sqe::fsync(to.as_raw_fd(), 0),
                ];
                assert_eq!(run(client, false, chain), [10, 10, 0], "{name}");
            }
            assert_eq!(std::fs::read(folder.path("to")).unwrap(), b"0123456789".repeat(50), "{name}");
        },
    );
}

#[test]
fn an_error_or_a_short_transfer_ends_a_chain() {
    let folder = Folder::new("chains-end");
    on_every_kind(
        |_| {},
        |name, _, client, _| {
            let (from, to) = (file(&folder, "from", b"01234"), file(&folder, "to", b"untouched"));
            let (fd, mut memory) = (to.as_raw_fd(), [0_u8; 10]);
            let place = address(memory.as_mut_ptr());
            let short = Sqe::read(from.as_raw_fd(), place, 10, 0);
            let sync = Sqe::fsync(fd, 0);
            assert_eq!(
                run(client, false, [short, write(fd, b"W", 0), sync]),
                [5, CANCELED, CANCELED],
                "{name}"
            );
            let bad = Sqe::fsync(1 << 20, 0);
            assert_eq!(run(client, false, [sync, bad, write(fd, b"W", 0)]), [0, BADF, CANCELED], "{name}");
            assert_eq!(std::fs::read(folder.path("to")).unwrap(), b"untouched", "{name}");
            // With hard links all are done, and an entry behind the chain is of no chain.
            assert_eq!(run(client, true, [short, bad, write(fd, b"W", 0)]), [5, BADF, 1], "{name}");
            let both = client.push_all([bad.with_next(false), sync, write(fd, b"X", 1)]);
            assert_eq!(both.map(|number| client.wait(number)), [BADF, CANCELED, 1], "{name}");
            assert_eq!(std::fs::read(folder.path("to")).unwrap(), b"WXtouched", "{name}");
        },
    );
}

/// What waits in a chain keeps the rest waiting, and cancelled ends it. A link that has not begun is not found.
#[test]
fn a_link_that_waits_holds_up_its_chain_alone() {
    let folder = Folder::new("chains-wait");
    on_every_kind(
        |_| {},
        |name, _, client, _| {
            let to = file(&folder, "to", b"untouched");
            let (reader, mut writer) = std::io::pipe().unwrap();
            let (mut byte, fd) = (0_u8, reader.as_raw_fd());
            let read = Sqe::read(fd, address(&raw mut byte), 1, CURRENT_POSITION);
            let chain = || [read.with_next(false), write(to.as_raw_fd(), b"W", 0)];
            let [first, second] = client.push_all(chain());
            assert_eq!(client.run(Sqe::nop()), 0, "{name}: others go on");
            assert_eq!(client.run(Sqe::async_cancel(second)), -Errno::NOENT.number(), "{name}");
            assert!(!client.is_done(first) && !client.is_done(second), "{name}");
            writer.write_all(b"x").unwrap();
            assert_eq!([client.wait(first), client.wait(second)], [1, 1], "{name}");
            let [first, second] = client.push_all(chain());
            loop {
                // It may be on its way to its wait.
                let answer = client.run(Sqe::async_cancel(first));
                if client.is_done(first) {
                    break;
                }
                assert!(answer == 0 || answer == -libc::EALREADY, "{name}: {answer}");
                std::thread::sleep(Duration::from_micros(100));
            }
            assert_eq!([client.wait(first), client.wait(second)], [CANCELED, CANCELED], "{name}");
            let poll = Sqe::poll_add(fd, POLLIN);
            let chain = [Sqe::nop().with_next(false), poll.with_next(false), read];
            let [first, second, third] = client.push_all(chain);
            assert_eq!(client.wait(first), 0, "{name}");
            assert!(!client.is_done(second) && !client.is_done(third), "{name}");
            writer.write_all(b"y").unwrap();
            assert_eq!([client.wait(second), client.wait(third)], [POLLIN.cast_signed(), 1], "{name}");
        },
    );
}

/// Chains that fill a small ring again and again are taken whole each time.
#[test]
fn many_laps_of_chains() {
    let folder = Folder::new("chains-laps");
    on_every_kind(
        |config| (config.entries, config.cq_entries) = (8, 16),
        |name, _, client, _| {
            let to = file(&folder, "to", b"");
            let mut all = Vec::new();
            for round in 0..300_u64 {
                let place = round * 2;
                let chain = [write(to.as_raw_fd(), b"ab", place), write(to.as_raw_fd(), b"c", place)];
                let short = Sqe::read(to.as_raw_fd(), 8, 0, 0);
                let [one, two] = chain;
                all.extend(client.push_all([one.with_next(false), two.with_next(true), short]));
                if all.len() >= 6 {
                    let results: Vec<i32> = all.drain(..).map(|number| client.wait(number)).collect();
                    assert_eq!(results, [2, 1, 0, 2, 1, 0], "{name}");
                }
            }
            assert_eq!(std::fs::read(folder.path("to")).unwrap(), b"cb".repeat(300), "{name}");
        },
    );
}

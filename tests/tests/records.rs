//! What lanes write by one call: each record whole and in lane order, however it is copied, and what a newline writes.
#![expect(unsafe_code, reason = "looks at the memory of buffers")]

use std::ffi::CString;
use std::time::{Duration, Instant};

use gpufs_core::Claim;
use gpufs_core::alloc::BufferPool;
use gpufs_device::stdio::Buffering;
use gpufs_device::{Errno, File, fprintf, warp};
use gpufs_host::CpuOptions;
use gpufs_tests::random::Random;
use gpufs_tests::{Scratch, each, once, small, tables};

/// A way to write a text of so many letters, which some callers end with a newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Bytes,
    Printf,
    Write,
    /// Text that lies in several places.
    Pieces,
}

impl Way {
    const ALL: [Self; 4] = [Self::Bytes, Self::Printf, Self::Write, Self::Pieces];

    fn write(self, file: File, text: &str) -> Result<(), Errno> {
        match self {
            Self::Bytes => file.fwrite(text.as_bytes()).map(drop),
            Self::Printf => {
                let text = CString::new(text).unwrap();
                fprintf!(file, c"%s", &*text).map(drop)
            }
            Self::Write => write!(file, "{text}"),
            Self::Pieces => {
                let (first, rest) = text.split_at(text.len() / 3);
                write!(file, "{first}{rest}")
            }
        }
    }
}

/// Records of lanes that call together come whole and in lane order, however long each of them is: none, a few bytes, a block and more; in sessions
/// whose lanes copy together and in others, where the record begins at any byte of a word.
#[test]
fn records_of_any_lengths_come_in_lane_order() {
    let scratch = Scratch::in_memory("lengths");
    let mut patterns: Vec<Vec<usize>> = vec![
        vec![100, 20_000, 1],
        vec![100, 9000, 1],
        vec![0, 0, 5, 0, 9000, 9000, 3],
        vec![1; 32],
        vec![16; 32],
        vec![255; 32],
        vec![256; 32],
        vec![300; 32],
        vec![257; 9],
        vec![4096; 5],
        vec![70_000, 3],
        vec![8192, 1, 8191, 1, 8193],
        vec![0, 300],
        // The stream is being written by now.
        vec![100, 20_000, 1],
        vec![300, 0, 0, 20_000, 1],
        vec![20_000; 3],
        vec![4000, 4000, 4000, 4000, 4000, 4000, 4000],
    ];
    let random = Random::new(5);
    patterns
        .extend((0..12).map(|_| (0..32).map(|_| random.pick(&[0, 1, 7, 40, 255, 257, 600, 3000])).collect()));
    for builder in [small(), small().assembly(64 << 10), small().assembly(4096)] {
        for width in [1, 32] {
            let mut session =
                builder.clone().cpu_with(CpuOptions { width, ..CpuOptions::default() }).unwrap();
            for way in Way::ALL {
                let file = once(&mut session, |fs| fs.fopen(&scratch.c("log"), c"w").unwrap());
                let mut wanted = String::new();
                for lengths in &patterns {
                    let texts: Vec<String> = (b'a'..)
                        .zip(lengths)
                        .map(|(letter, length)| {
                            let letter = char::from(b'a' + (letter - b'a') % 26);
                            String::from(letter).repeat(*length)
                        })
                        .collect();
                    // The second call may find the stream open.
                    let wrote = each(&mut session, lengths.len() as u32, |_, lane| {
                        [(); 2].map(|()| way.write(file, &texts[lane as usize]))
                    });
                    assert_eq!(wrote, vec![[Ok(()); 2]; lengths.len()]);
                    wanted += &texts.concat().repeat(2);
                }
                once(&mut session, |_| file.fclose().unwrap());
                let got = scratch.read("log");
                // A warp of one lane: in any order.
                let sorted = |text: &[u8]| {
                    let mut text = text.to_vec();
                    text.sort_unstable();
                    text
                };
                if width == 1 {
                    assert!(sorted(&got) == sorted(wanted.as_bytes()), "{way:?}");
                } else {
                    let differs = got.iter().zip(wanted.as_bytes()).position(|(one, other)| one != other);
                    assert!(
                        got == wanted.as_bytes(),
                        "{way:?}: at {differs:?}, {} of {}",
                        got.len(),
                        wanted.len()
                    );
                }
            }
        }
    }
}

/// A line buffered stream is written by a call that brings a newline, and by no other.
#[test]
fn a_newline_writes_a_line_buffered_stream() {
    let scratch = Scratch::in_memory("line-buffered");
    let mut session = small().cpu().unwrap();
    for way in Way::ALL {
        for length in [1, 200, 1000] {
            let text = "x".repeat(length);
            once(&mut session, |fs| {
                let name = scratch.c("log");
                let size = || fs.stat(&name).unwrap().st_size as usize;
                let file = fs.fopen(&name, c"w").unwrap();
                file.setvbuf(Buffering::Line, 0).unwrap();
                way.write(file, &text).unwrap();
                // Of a long record of `fprintf` it is not known, and it is written once too often.
                let known = !(way == Way::Printf && length > 256);
                assert_eq!(size(), if known { 0 } else { length }, "{way:?} {length}");
                way.write(file, &format!("{text}\n{text}")).unwrap();
                assert_eq!(size(), 3 * length + 1, "{way:?} {length}");
                way.write(file, &text[..1]).unwrap();
                assert_eq!(size(), 3 * length + 1, "{way:?} {length}");
                file.fclose().unwrap();
                assert_eq!(size(), 3 * length + 2, "{way:?} {length}");
                // What writing the line meets is the call's.
                let full = fs.fopen(c"/dev/full", c"w").unwrap();
                full.setvbuf(Buffering::Line, 0).unwrap();
                assert_eq!(way.write(full, &text[..1]), Ok(()));
                assert_eq!(way.write(full, "\n"), Err(Errno::NOSPC));
                assert_eq!(full.fclose(), Err(Errno::NOSPC));
            });
        }
    }
}

/// The errno that `%m` prints is the caller's, in a record of any length.
#[test]
fn an_errno_is_printed_in_any_record() {
    let scratch = Scratch::in_memory("percent-m");
    let mut session = small().cpu().unwrap();
    for length in [0, 255 - 25, 256 - 25, 257 - 25, 300, 5000] {
        let format = [&b"x".repeat(length)[..], b"%m"].concat();
        once(&mut session, |fs| {
            let file = fs.fopen(&scratch.c("log"), c"w").unwrap();
            let printed = file.fprintf_with(&format, &[], || Some(libc::ENOENT));
            assert_eq!((printed, file.fclose()), (Ok(length + 25), Ok(())));
        });
        let wanted = [&b"x".repeat(length)[..], b"No such file or directory"].concat();
        assert!(scratch.read("log") == wanted, "{length}");
    }
}

/// A block that is full is written though nobody calls again, and so is each of several that one call fills.
#[test]
fn full_blocks_are_written_at_once() {
    let scratch = Scratch::in_memory("full-at-once");
    let mut session = small().cpu().unwrap();
    once(&mut session, |fs| {
        let file = fs.fopen(&scratch.c("log"), c"w").unwrap();
        let mut wanted = Vec::new();
        for letter in b'a'..=b'l' {
            let text = [letter; 10_000];
            file.fwrite(&text).unwrap();
            wanted.extend(text);
            let full = wanted.len() / 4096 * 4096;
            let started = Instant::now();
            // Ends: they are written, or too late.
            while scratch.read("log").get(..full) != Some(&wanted[..full]) {
                assert!(started.elapsed() < Duration::from_secs(20), "{full} bytes are not written");
                warp::nap(100_000);
            }
        }
        file.fclose().unwrap();
    });
}

/// What lies in a pool's buffers.
fn memory(pool: &BufferPool) -> &'static mut [u8] {
    let bytes = pool.free.capacity() as usize * pool.buffer_bytes as usize;
    // SAFETY:
    // - the buffers lie one behind the other in the host's memory, as long as the session
    // - no kernel runs while a test looks at them
    unsafe { std::slice::from_raw_parts_mut(pool.base as *mut u8, bytes) }
}

/// Lanes that copy together do so into the place that they reserved, and put their records side by side in what they claimed; no byte beyond
/// changes.
#[test]
fn no_byte_beyond_the_place_changes() {
    const MARK: u8 = 0xee;
    let scratch = Scratch::in_memory("beyond");
    let mut session =
        small().assembly(256 << 10).stream_buffer(64 << 10).streams(8).buffers(4 << 20).cpu().unwrap();
    let (blocks, assembly) = (&tables(&session).stream_buffers, &tables(&session).coalescing_buffers);
    let file = once(&mut session, |fs| fs.fopen(&scratch.c("log"), c"w").unwrap());
    memory(blocks).fill(MARK);
    let text = |lane: u64, length| String::from(char::from(b'a' + (lane % 26) as u8)).repeat(length);
    // One lane's record after the other's.
    let wrote = each(&mut session, 4, |_, lane| Way::Bytes.write(file, &text(lane, 300)));
    assert_eq!(wrote, [Ok(()); 4]);
    assert_eq!(memory(blocks).iter().filter(|byte| **byte != MARK).count(), 4 * 300);
    // Side by side: where one buffer of two that are needed is free, and where more are needed than one claim can have.
    memory(assembly).fill(MARK);
    for (free, lanes, length) in [(20..21, 8, 1024), (16..32, 32, 3000)] {
        let claims: Vec<Claim> = std::iter::from_fn(|| assembly.free.claim_one(0)).collect();
        let is_free = |claim: &Claim| free.contains(&claim.item(0));
        claims.iter().filter(|claim| is_free(claim)).for_each(|claim| assembly.free.release(*claim));
        // The second call finds the stream open.
        let wrote = each(&mut session, lanes, |_, lane| {
            [(); 2].map(|()| Way::Printf.write(file, &text(lane, length)))
        });
        assert_eq!(wrote, vec![[Ok(()); 2]; lanes as usize]);
        claims.into_iter().filter(|claim| !is_free(claim)).for_each(|claim| assembly.free.release(claim));
        let buffer = assembly.buffer_bytes as usize;
        for (index, bytes) in (0..).zip(memory(assembly).chunks(buffer)) {
            let changed = bytes.iter().filter(|byte| **byte != MARK).count();
            assert!(
                free.contains(&index) || changed == 0,
                "{changed} bytes of buffer {index}, {free:?} are free"
            );
        }
        memory(assembly).fill(MARK);
    }
    once(&mut session, |_| file.fclose().unwrap());
    assert_eq!(scratch.read("log").len(), 4 * 300 + 2 * (8 * 1024 + 32 * 3000));
}

//! Streams that are closed while other warps still write to them, on a device that is full, and whose entries and buffers the next stream gets
//! at once.

use std::ffi::{CStr, CString};
use std::fs;

use gpufs_core::word::DeviceWord64;
use gpufs_device::{Errno, File, Fs, warp};
use gpufs_host::ring::Mode;
use gpufs_host::{CpuOptions, Grid};
use gpufs_tests::{Scratch, small};

const ROUNDS: usize = 40;
const WRITERS: u32 = 7;

/// Writes whole blocks by a handle until it is refused.
fn write_until_closed(file: File) {
    // Ends: the stream is closed, and every handle of it with that.
    while file.fwrite(&[b'x'; 1000]) != Err(Errno::BADF) {}
}

/// One lane opens the full device and closes it under the others' hands, then opens a file, which gets the entry and the buffers: the file has its
/// bytes alone.
fn close_under_writers(fs: Fs, handles: &'static [DeviceWord64], full: &CStr, good: &[CString]) {
    if warp::global_thread() != 0 {
        for word in handles {
            let handle = loop {
                match word.observe() {
                    0 => warp::nap(1000),
                    handle => break handle,
                }
            };
            // SAFETY:
            // - the handle is of this session
            if let Ok(file) = unsafe { File::from_handle(handle) } {
                write_until_closed(file);
            }
        }
        return;
    }
    for (round, (word, name)) in handles.iter().zip(good).enumerate() {
        let file = fs.fopen(full, c"w").unwrap();
        word.publish(file.to_handle());
        for _ in 0..round {
            let _ = file.fwrite(&[b'y'; 700]);
        }
        let _ = file.fflush();
        let closed = file.fclose();
        assert!(matches!(closed, Ok(()) | Err(Errno::NOSPC)), "{closed:?}");
        let next = fs.fopen(name, c"w").unwrap();
        for _ in 0..20 {
            assert_eq!(next.fwrite(&[b'z'; 1000]), Ok(1000));
        }
        next.fclose().unwrap();
    }
}

#[test]
fn a_stream_that_cannot_be_written_is_closed_under_its_writers() {
    for (mode, width) in [(Mode::Enter, 1), (Mode::Enter, 32), (Mode::Threads, 1)] {
        let scratch = Scratch::new("closing");
        // One entry besides the standard streams, so that each stream follows the last in it.
        let builder = small().mode(mode).streams(4).stream_buffer(4096).blocks_per_stream(2);
        let options = CpuOptions { width, threads: 2, ..CpuOptions::default() };
        let mut session = builder.cpu_with(options).unwrap();
        let handles: &'static [DeviceWord64] =
            Vec::leak((0..ROUNDS).map(|_| DeviceWord64::new(0)).collect::<Vec<_>>());
        let good: Vec<CString> = (0..ROUNDS).map(|round| scratch.c(&format!("good{round}"))).collect();
        let grid = Grid { blocks: WRITERS + 1, threads: 1 };
        session.launch(grid, move |fs| close_under_writers(fs, handles, c"/dev/full", &good)).unwrap();
        session.synchronize().unwrap();
        for round in 0..ROUNDS {
            let found = fs::read(scratch.path(&format!("good{round}"))).unwrap();
            assert!(found == [b'z'; 20_000], "{mode:?} {width}: round {round} has {} bytes", found.len());
        }
    }
}

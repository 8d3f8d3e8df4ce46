//! A stream whose blocks are all full and cannot be written: the oldest of them shares its place with the block that comes next.
use std::ffi::CString;
use std::fs;
use std::io::Read;
use std::sync::Mutex;
use std::time::Duration;

use gpufs_device::{Errno, Fs};
use gpufs_host::{Grid, Session};

const ONE: Grid = Grid { blocks: 1, threads: 1 };
const BLOCKS: usize = 4;
const BLOCK_BYTES: usize = 4096;

fn session() -> Session {
    let builder = Session::builder().buffers(1 << 20).blocks_per_stream(4).stream_buffer(4096);
    builder.deadline(Duration::from_secs(5)).cpu().unwrap()
}

/// Fills every block exactly, then flushes.
fn fill_and_flush(fs: Fs, path: &CString) -> (usize, Result<(), Errno>, Result<(), Errno>) {
    let out = fs.fopen(path, c"w").unwrap();
    let mut accepted = 0;
    for _ in 0..BLOCKS {
        accepted += out.fwrite_counted(&[b'x'; BLOCK_BYTES]).bytes;
    }
    let flushed = out.fflush();
    (accepted, flushed, out.fclose())
}

#[test]
fn a_full_device_is_reported_at_every_flush() {
    let mut session = session();
    let path = CString::new("/dev/full").unwrap();
    let found = Mutex::new(None);
    session
        .run(ONE, |tables| {
            let outcome = fill_and_flush(Fs::new(tables), &path);
            *found.lock().unwrap() = Some(outcome);
        })
        .unwrap();
    let (_, flushed, closed) = found.into_inner().unwrap().unwrap();
    assert_eq!(flushed, Err(Errno::NOSPC));
    assert_eq!(closed, Err(Errno::NOSPC));
}

#[test]
fn a_file_gets_its_first_block_too() {
    let path = std::env::temp_dir().join(format!("gpufs-full-blocks-{}", std::process::id()));
    let name = CString::new(path.to_str().unwrap()).unwrap();
    let mut session = session();
    session
        .run(ONE, |tables| {
            assert_eq!(fill_and_flush(Fs::new(tables), &name), (BLOCKS * BLOCK_BYTES, Ok(()), Ok(())));
        })
        .unwrap();
    let mut text = Vec::new();
    fs::File::open(&path).unwrap().read_to_end(&mut text).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(text == [b'x'; BLOCKS * BLOCK_BYTES]);
}

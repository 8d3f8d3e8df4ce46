use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use gpufs_core::Errno;
use gpufs_core::journal::Record;

use super::{SurvivingBlock, write_stream};

/// One byte of a stream whose descriptor is `file`'s, by a record that may be forged.
fn block(block_number: u64, file: &File, byte: &u8) -> SurvivingBlock {
    let record = Record {
        block_number,
        offset: block_number,
        token: 0,
        written: 0,
        filled: 1,
        descriptor: file.as_raw_fd(),
        shape: 0,
        stream: 1,
        reserved: 0,
    };
    let address = std::ptr::from_ref(byte).expose_provenance() as u64;
    SurvivingBlock { record, address, written: 0, rest: vec![(0, 1)], pending: false }
}

/// Which descriptor a stream is written to, its first block by number says; and that one is what is asked for.
#[test]
fn nothing_is_written_to_a_descriptor_that_is_not_known() {
    let folder = std::env::temp_dir().join(format!("gpufs-recover-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let [own, other] = ["own", "other"].map(|name| File::create(folder.join(name)).unwrap());
    let blocks = vec![block(1, &own, &b'a'), block(0, &other, &b'b')];
    let until = Instant::now() + Duration::from_secs(1);
    let stream = write_stream(blocks, |descriptor| descriptor == own.as_raw_fd(), until).unwrap();
    assert_eq!((stream.written, stream.lost, stream.errno), (0, 2, Some(Errno::BADF)));
    assert_eq!(fs::read(folder.join("other")).unwrap(), b"");
    fs::remove_dir_all(&folder).unwrap();
}

//! Waits past the deadline, and what is left after one.

use std::ffi::CString;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use gpufs_device::Errno;
use gpufs_host::session::SyncError;

use super::super::sessions::assert_works;
use crate::suite::harness::{Do, fopen, fputs};
use crate::suite::{Bench, Outcome};
use crate::{MODES, record, skip, small};

/// The report names the reason, the ring, and what was waited for.
pub fn a_wait_past_the_deadline_says_where(bench: &Bench) -> Outcome {
    for mode in MODES {
        let mut harness = match bench.try_open(small().mode(mode).deadline(Duration::from_secs(1))) {
            Ok(harness) => harness,
            Err(refused) => {
                skip(&format!("a_wait_past_the_deadline_says_where in {mode}"), refused);
                continue;
            }
        };
        let (mut reader, writer) = io::pipe().unwrap();
        let file = harness.session.register_file(OwnedFd::from(reader.try_clone().unwrap())).unwrap();
        harness.set_descriptor(0, file.0);
        let started = harness.start(vec![vec![Do::Read(0, 4)]]);
        let said = harness.synchronize().map_err(|error| error.to_string()).unwrap_err();
        assert!(said.contains("reason Completion, ring 0"), "{mode}: {said}");
        // Behind the 64 operations that a new ring is tried with: the read that would have waited, and the poll that does.
        assert!(said.contains("66 tickets, SQ tail 66, CQ tail 65") || !bench.is_gpu(), "{mode}: {said}");
        drop(started);
        if bench.is_gpu() {
            // The context is gone with the kernel, and this process's with it.
            return Outcome::Passed;
        }
        let reason = crate::tables(&harness.session).stall().reason.peek();
        assert_eq!(reason, 1 + gpufs_core::session::WaitReason::Completion as u32);
        assert_works(&mut harness);
        drop(harness);
        // The pipe is the caller's still.
        drop(writer);
        assert_eq!(reader.read(&mut [0; 4]).unwrap(), 0);
    }
    Outcome::Passed
}

/// More than a pipe holds, and less than the pipe and the stream's blocks together.
pub fn a_stream_to_a_pipe_that_nobody_reads(bench: &Bench) -> Outcome {
    let mut harness = bench.open(small().deadline(Duration::from_secs(2)));
    let (mut reader, writer) = io::pipe().unwrap();
    let name = CString::new(format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd())).unwrap();
    harness.must(vec![fopen(0, &name, c"w")]);
    drop(writer);
    let text = record(1, 1, 70_000);
    let calls = vec![vec![Do::Fwrite(0, text.as_bytes().to_vec())]];
    let (answers, outcome) = harness.try_each(calls);
    assert_eq!(answers[0][0].result(), Ok(text.as_bytes().len() as i64));
    let Err(SyncError::Stream(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.errno, Errno::TIMEDOUT);
    // Once somebody reads, everything comes, in order, once.
    let read = std::thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).map(|_| all)
    });
    harness.must(vec![fputs(0, c"the end\n"), Do::Fclose(0)]);
    let all = read.join().unwrap().unwrap();
    assert!(all == [text.as_bytes(), b"the end\n"].concat());
    Outcome::Passed
}

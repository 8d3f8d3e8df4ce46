//! What belongs to CPU lanes alone: kernels that are closures, what the builder refuses, lanes that panic, and handles that outlive their
//! session.

use std::fmt;
use std::fs;

use gpufs_core::word::DeviceWord;
use gpufs_device::file::{Descriptor, O_RDONLY, O_RDWR};
use gpufs_device::stdio::Buffering;
use gpufs_device::{Errno, File, Fs, fprintf, warp};
use gpufs_host::session::{OpenError, SyncError};
use gpufs_host::{CpuOptions, Grid};
use gpufs_test_kernels::{Letters, print};
use gpufs_tests::closures::assert_works;
use gpufs_tests::suite::printing::check_records;
use gpufs_tests::{Scratch, lanes, once, record, small};

#[test]
fn a_device_buffer_is_shared_by_kernels_and_read_by_the_host() {
    let mut session = small().cpu().unwrap();
    assert!(session.device_buffer(0).is_err());
    let buffer = session.device_buffer(100 * 8).unwrap();
    let other = session.device_buffer(1).unwrap();
    assert_eq!((buffer.len(), buffer.address() % 256, other.len()), (800, 0, 1));
    let mut bytes = [1; 800];
    session.read_device(&buffer, 0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 800], "zeroed");
    session.write_device(&buffer, 8, &7_u64.to_ne_bytes()).unwrap();
    let address = buffer.address();
    let gate: &'static DeviceWord = Box::leak(Box::default());
    session
        .launch(lanes(100), move |_| {
            while gate.observe() == 0 {
                warp::nap(1000);
            }
            let thread = warp::global_thread();
            // SAFETY:
            // - the buffer has eight bytes for each thread, and no thread uses another's
            let own = unsafe { &mut *(address as *mut u64).add(usize::try_from(thread).unwrap()) };
            *own += thread;
        })
        .unwrap();
    let busy = session.read_device(&buffer, 0, &mut bytes).unwrap_err();
    assert!(busy.to_string().contains("kernels are running"), "{busy}");
    assert!(session.write_device(&buffer, 0, &bytes).is_err());
    gate.publish(1);
    session.synchronize().unwrap();
    session.read_device(&buffer, 0, &mut bytes).unwrap();
    for (thread, own) in (0_u64..).zip(bytes.as_chunks::<8>().0) {
        assert_eq!(u64::from_ne_bytes(*own), thread + if thread == 1 { 7 } else { 0 });
    }
    for (offset, length) in [(800, 1), (793, 8), (usize::MAX, 1), (0, 801)] {
        let outside = session.write_device(&buffer, offset, &vec![0; length]).unwrap_err();
        assert!(outside.to_string().contains("do not lie within"), "{outside}");
    }
    session.read_device(&buffer, 800, &mut []).unwrap();
}

#[test]
fn a_grid_can_be_sized_to_the_device() {
    let options = CpuOptions { threads: 3, resident_warps: 4, width: 32, ..CpuOptions::default() };
    let session = small().cpu_with(options.clone()).unwrap();
    let limits = session.kernel_limits::<print::Entry>().unwrap();
    assert_eq!((limits.registers, limits.threads_per_block), (None, 128));
    assert_eq!(limits.stack_bytes, options.stack_bytes as u64);
    assert_eq!(session.multiprocessors(), 3);
    assert_eq!([32, 100, 1000].map(|threads| session.occupancy::<print::Entry>(threads).unwrap()), [4, 1, 1]);
}

#[test]
fn builder_errors_name_what_is_wrong() {
    for (builder, name) in [
        (small().rings(0), "rings"),
        (small().rings(65), "rings"),
        (small().ring_entries(100), "ring_entries"),
        (small().ring_entries(64), "ring_entries"),
        (small().stream_buffer(5000), "stream_buffer"),
        (small().stream_buffer(2048), "stream_buffer"),
        (small().blocks_per_stream(3), "blocks_per_stream"),
        (small().blocks_per_stream(64), "blocks_per_stream"),
        (small().buffers(16 << 10), "buffers"),
        (small().files(2), "files"),
        (small().streams(1), "streams"),
        (small().registered_buffers(5000), "registered_buffers"),
        (small().gpu_registers(8), "gpu_registers"),
    ] {
        match builder.cpu() {
            Err(OpenError::Size(text)) => assert!(text.contains(name), "{name}: {text}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    match small().cpu_with(CpuOptions { width: 5, ..CpuOptions::default() }) {
        Err(OpenError::Size(text)) => assert!(text.contains("width"), "{text}"),
        other => panic!("width: {other:?}"),
    }
    let mut session = small().cpu().unwrap();
    assert!(session.launch(lanes(0), |_| {}).is_err());
    assert_works(&mut session);
}

/// With one block, what does not fit behind the last record fits only under the lock: no room comes that could be waited for.
#[test]
fn a_record_that_never_fits_is_not_waited_for() {
    let scratch = Scratch::new("lanes-one-block");
    let mut session = small().blocks_per_stream(1).deadline(gpufs_tests::patience()).cpu().unwrap();
    let name = scratch.c("log");
    once(&mut session, |fs| {
        let file = fs.fopen(&name, c"w").unwrap();
        for number in 0..500_u64 {
            fprintf!(file, c"%0999lu\n", number).unwrap();
        }
        file.fclose().unwrap();
    });
    let wanted: String = (0..500).map(|number| format!("{number:0999}\n")).collect();
    assert!(fs::read_to_string(scratch.path("log")).unwrap() == wanted);
}

#[test]
fn a_panic_flushes_as_well() {
    let scratch = Scratch::new("early");
    let name = scratch.c("out");
    let mut session = small().cpu().unwrap();
    let outcome = session.run(lanes(1), |fs| {
        let out = fs.fopen(&name, c"w").unwrap();
        fprintf!(out, c"%s", c"last words").unwrap();
        panic!("on purpose");
    });
    assert!(outcome.is_err());
    assert_eq!(scratch.read("out"), b"last words");
}

#[test]
fn a_lane_panics_between_calls() {
    let scratch = Scratch::new("panics");
    let name = scratch.c("out");
    let mut session = small().cpu().unwrap();
    let out = once(&mut session, |fs| fs.fopen(&name, c"w").unwrap());
    let outcome = session.run(Grid { blocks: 2, threads: 64 }, |_| {
        let thread = warp::global_thread();
        for round in 0..20 {
            assert!(thread != 5 || round < 3, "thread 5 has had enough");
            fprintf!(out, c"%s", record(thread, round, 20).as_c_str()).unwrap();
        }
    });
    assert!(
        matches!(&outcome, Err(SyncError::Kernel(error)) if error.to_string().contains("has had enough"))
    );
    let text = String::from_utf8(scratch.read("out")).unwrap();
    let (five, others): (Vec<_>, Vec<_>) =
        text.split_inclusive('\n').partition(|line: &&str| line.starts_with("5 "));
    assert_eq!(five.len(), 3);
    // Numbered as if thread 5 had gone on.
    let rest: String = (3..20).map(|round| record(5, round, 20).into_string().unwrap()).collect();
    check_records((five.concat() + &others.concat() + &rest).as_bytes(), 128, 20, Letters::Fixed(20));
    assert_works(&mut session);
    once(&mut session, |_| out.fclose()).unwrap();
}

/// Prints more than a lane's scratch memory holds, and panics.
struct Treacherous;

impl fmt::Display for Treacherous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&"x".repeat(300))?;
        panic!("in the middle");
    }
}

#[test]
fn a_lane_panics_in_the_middle_of_a_call() {
    let scratch = Scratch::new("treacherous");
    let name = scratch.c("out");
    for (mode, buffering) in [(c"w", Buffering::Full), (c"a", Buffering::Full), (c"w", Buffering::Line)] {
        let mut session = small().cpu().unwrap();
        let out = once(&mut session, |fs| {
            let out = fs.fopen(&name, mode).unwrap();
            out.setvbuf(buffering, 0).unwrap();
            out
        });
        let outcome = session.run(Grid { blocks: 1, threads: 96 }, |_| {
            let thread = warp::global_thread();
            out.fwrite(record(thread, 0, 30).as_bytes()).unwrap();
            if thread == 40 {
                let _ = write!(out, "{}", Treacherous);
            }
        });
        assert!(
            matches!(&outcome, Err(SyncError::Kernel(error)) if error.to_string().contains("in the middle"))
        );
        // Every record whose call returned is there.
        let text = scratch.read("out");
        for thread in 0..96 {
            let record = record(thread, 0, 30);
            let found = text.windows(record.as_bytes().len()).any(|window| window == record.as_bytes());
            assert!(found, "{mode:?} {buffering:?}: thread {thread}");
        }
        once(&mut session, |_| {
            out.fputs(c"\nafterwards\n").unwrap();
            out.fclose().unwrap();
        });
        assert!(scratch.read("out").ends_with(b"\nafterwards\n"));
        assert_works(&mut session);
        fs::remove_file(scratch.path("out")).unwrap();
    }
}

#[test]
fn handles_outlive_their_session() {
    let scratch = Scratch::new("outlive");
    let name = scratch.c("file");
    let mut session = small().cpu().unwrap();
    let refused = |fs: Fs, out: File| {
        let mut bytes = [0; 4];
        assert_eq!(out.fwrite(b"late"), Err(Errno::BADF));
        assert_eq!(out.fputs(c"late"), Err(Errno::BADF));
        assert_eq!(out.fread(&mut bytes), Err(Errno::BADF));
        assert_eq!(out.fgets(&mut bytes).map(drop), Err(Errno::BADF));
        assert_eq!(out.fflush(), Err(Errno::BADF));
        assert_eq!(out.fclose(), Err(Errno::BADF));
        assert_eq!(out.ftell(), Err(Errno::BADF));
        assert!(!out.feof() && !out.ferror());
        let file = Descriptor(40);
        assert_eq!(fs.close(file), Err(Errno::BADF));
        assert_eq!(fs.write(file, b"late"), Err(Errno::BADF));
        assert_eq!(fs.pwrite(file, b"late", 0), Err(Errno::BADF));
        assert_eq!(fs.fsync(file), Err(Errno::BADF));
    };
    let (left, fs) = once(&mut session, |fs| (fs.fopen(&name, c"w").unwrap(), fs));
    let file = once(&mut session, |fs| fs.open(&name, O_RDWR, 0).unwrap());
    once(&mut session, |_| left.fputs(c"left behind").unwrap());
    drop(session);
    assert_eq!(scratch.read("file"), b"left behind");
    refused(fs, left);
    assert_eq!(fs.read(file, &mut [0]), Err(Errno::BADF));
    assert_eq!(fs.open(&name, O_RDONLY, 0), Err(Errno::BADF));
    assert_eq!(fs.fopen(&name, c"r").map(drop), Err(Errno::BADF));
}

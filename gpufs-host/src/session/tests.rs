//! What a session makes of a GPU's runtime, on a fake one.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gpufs_core::Errno;
use gpufs_core::kernel::Kernel;

use gpufs_core::session::SessionTables;

use super::{Backend, Session, SyncError};
use crate::cpu::{Grid, LaunchError};
use crate::gpu::fake::{Fake, State};
use crate::ring::{Mode, RingMemory};

const ONE: Grid = Grid { blocks: 1, threads: 1 };

struct Known;

// SAFETY:
// - no device program has it, and it uses no tables
#[expect(unsafe_code, reason = "a kernel that does nothing")]
unsafe impl Kernel for Known {
    const NAME: &'static std::ffi::CStr = c"known";
    type Arguments = u64;
    fn run(_: &'static SessionTables, _: u64) {}
}

struct Missing;

// SAFETY:
// - no device program has it, and it uses no tables
#[expect(unsafe_code, reason = "a kernel that does nothing")]
unsafe impl Kernel for Missing {
    const NAME: &'static std::ffi::CStr = c"missing";
    type Arguments = ();
    fn run(_: &'static SessionTables, (): ()) {}
}

/// A session on threads, which work everywhere.
fn on(gpu: &Arc<Fake>) -> Session {
    let builder = Session::builder().mode(Mode::Threads).rings(1).buffers(2 << 20);
    Session::open(&builder, Backend::Gpu(gpu.clone())).unwrap()
}

#[test]
fn launches_run_at_once_and_end_one_by_one() {
    let gpu = Arc::new(Fake::default());
    let mut session = on(&gpu);
    assert!(session.is_finished());
    for argument in 0..3 {
        session.start::<Known>(ONE, argument).unwrap();
    }
    assert_eq!(gpu.counts()[0], 3, "each has a stream of its own");
    assert!(session.register_buffer(1).is_err() && session.device_buffer(8).is_ok());
    assert_eq!(gpu.arguments(), [0, 1, 2]);
    gpu.end(2, State::Done);
    gpu.end(1, State::Done);
    assert!(!session.is_finished());
    gpu.end(3, State::Done);
    assert!(session.is_finished());
    session.synchronize().unwrap();
    assert_eq!(gpu.counts()[0], 0, "the streams are gone");
    drop(session);
    assert_eq!(gpu.counts(), [0; 4], "everything was given back");
    assert_eq!(Arc::strong_count(&gpu), 1, "and the GPU let go");
}

#[test]
fn sessions_take_the_memory_that_they_promise() {
    const MIB: usize = 1 << 20;
    let small = Session::builder()
        .rings(1)
        .ring_entries(128)
        .buffers(256 << 10)
        .assembly(0)
        .read_ahead(0)
        .stream_buffer(4096)
        .blocks_per_stream(1)
        .files(64)
        .streams(16)
        .registered_buffers(4);
    for (builder, mapped, own) in [
        (Session::builder().rings(4), 64 * MIB, 64 * MIB),
        // Row 12 of the benchmark has this one, too.
        (small, MIB, MIB),
    ] {
        let gpu = Arc::new(Fake::default());
        let session = Session::open(&builder.mode(Mode::Threads), Backend::Gpu(gpu.clone())).unwrap();
        let (taken, own_taken) = (gpu.mapped_bytes(), gpu.device_bytes());
        drop(session);
        assert!(0 < taken && taken <= mapped, "{taken} bytes are mapped, of {mapped}");
        assert!(0 < own_taken && own_taken <= own, "{own_taken} bytes of its own memory, of {own}");
    }
}

#[test]
fn what_takes_the_tables_is_refused_while_the_gpu_has_them() {
    let gpu = Arc::new(Fake::default());
    let mut session = on(&gpu);
    let null = || std::fs::File::open("/dev/null").unwrap();
    let kept = session.register_file(null()).unwrap();
    session.start::<Known>(ONE, 0).unwrap();
    let errno = |error: &dyn std::error::Error| {
        error.source().and_then(|source| source.downcast_ref::<Errno>()).copied()
    };
    assert_eq!(errno(&session.register_file(null()).unwrap_err()), Some(Errno::BUSY));
    assert_eq!(errno(&session.unregister_file(kept).unwrap_err()), Some(Errno::BUSY));
    assert_eq!(session.with_tables(|_| ()), Err(Errno::BUSY));
    assert_eq!(session.fopen("/dev/null", "r").unwrap_err().errno(), Errno::BUSY);
    assert_eq!(session.fdopen(null(), "r").unwrap_err().errno(), Errno::BUSY);
    let busy = session.adopt_credentials().unwrap_err();
    assert_eq!(busy.kind(), std::io::ErrorKind::ResourceBusy);
    assert!(session.register_buffer(1).unwrap_err().to_string().contains("synchronize first"));
    assert_eq!(session.fs().nop(), Err(Errno::BUSY), "a thread of the host");
    gpu.end(1, State::Done);
    session.synchronize().unwrap();
    session.unregister_file(kept).unwrap();
    session.adopt_credentials().unwrap();
    assert_eq!(session.with_tables(|fs| fs.nop()), Ok(Ok(())));
}

/// Their paths lie in the GPU's own memory, which the host does not reach.
#[test]
fn the_host_opens_no_shared_streams_of_a_gpu() {
    let mut session = on(&Arc::new(Fake::default()));
    let opened = session.with_tables(|fs| fs.fopen_shared(c"/dev/null", c"w").map(|file| file.to_handle()));
    assert_eq!(opened, Ok(Err(Errno::NOSYS)));
    let opened = session.with_tables(|fs| fs.fopen(c"/dev/null", c"w").and_then(|file| file.fclose()));
    assert_eq!(opened, Ok(Ok(())));
}

/// The GPU lets go of the memory of a ring that is renewed, and gets what lies there then.
#[test]
fn rings_are_made_anew_below_a_gpu() {
    for memory in [RingMemory::Kernel, RingMemory::Caller, RingMemory::Runtime] {
        let gpu = Arc::new(Fake::default());
        let builder = Session::builder().mode(Mode::Sqpoll).ring_memory(memory).rings(1).buffers(2 << 20);
        let mut session = match Session::open(&builder, Backend::Gpu(gpu.clone())) {
            Ok(session) => session,
            Err(error) => {
                println!("SKIP rings_are_made_anew_below_a_gpu, {memory}: {error}");
                continue;
            }
        };
        let shared = gpu.counts();
        let adopted = session.adopt_credentials();
        if memory == RingMemory::Runtime {
            let said = adopted.unwrap_err().to_string();
            assert!(said.contains("open another"), "{said}");
        } else {
            adopted.unwrap();
        }
        assert_eq!(gpu.counts(), shared, "{memory}: as many places as before");
        assert_eq!(session.with_tables(|fs| fs.nop()), Ok(Ok(())), "{memory}");
        drop(session);
        assert_eq!(gpu.counts(), [0; 4], "{memory}: everything was given back");
    }
}

#[test]
fn a_session_knows_what_device_memory_it_has() {
    let gpu = Arc::new(Fake::default());
    let mut session = on(&gpu);
    let opened = session.device_bytes();
    assert_eq!(opened, gpu.device_bytes());
    session.device_buffer(4096).unwrap();
    assert_eq!(session.device_bytes(), opened + 4096);
    assert_eq!(session.device_bytes(), gpu.device_bytes());
    let builder = Session::builder().mode(Mode::Threads).rings(1).buffers(2 << 20).assembly(0);
    let without = Session::open(&builder, Backend::Gpu(Arc::new(Fake::default()))).unwrap().device_bytes();
    assert!(opened - without >= 8 << 20, "the assembly pool, and which of it is free");
}

#[test]
fn waiting_for_a_long_kernel_sleeps() {
    let gpu = Arc::new(Fake::default());
    let mut session = on(&gpu);
    session.start::<Known>(ONE, 0).unwrap();
    let ends = thread::spawn({
        let gpu = gpu.clone();
        move || {
            thread::sleep(Duration::from_millis(100));
            let brisk = gpu.polls();
            thread::sleep(Duration::from_millis(100));
            let later = gpu.polls() - brisk;
            gpu.end(1, State::Done);
            later
        }
    });
    session.synchronize().unwrap();
    let looks = ends.join().unwrap();
    assert!((1..=600).contains(&looks), "{looks} looks in 100 ms");
}

#[test]
fn a_fault_is_told_and_a_new_session_works() {
    let gpu = Arc::new(Fake::default());
    let mut session = on(&gpu);
    session.start::<Known>(ONE, 0).unwrap();
    session.start::<Known>(ONE, 1).unwrap();
    gpu.end(1, State::Faulted);
    gpu.end(2, State::Faulted);
    assert!(session.is_finished(), "a kernel that faulted has ended");
    let Err(SyncError::Fault(fault)) = session.synchronize() else { panic!("a fault") };
    assert!(fault.cause.to_string().contains("not mapped for the GPU"), "{fault}");
    assert!(matches!(session.synchronize(), Err(SyncError::Dead)));
    drop(session);
    assert_eq!(gpu.counts(), [0; 4]);
    let mut session = on(&gpu);
    session.start::<Known>(ONE, 0).unwrap();
    gpu.end(3, State::Done);
    session.synchronize().unwrap();
}

#[test]
fn a_launch_that_is_refused_leaves_nothing() {
    let gpu = Arc::new(Fake::default());
    let mut session = on(&gpu);
    let Err(SyncError::Gpu(refused)) = session.start::<Missing>(ONE, ()) else { panic!("a refusal") };
    assert!(refused.to_string().contains("missing") && !refused.is_fault(), "{refused}");
    let empty = session.start::<Known>(Grid { blocks: 0, threads: 1 }, 0);
    assert!(matches!(empty, Err(SyncError::Kernel(LaunchError::EmptyGrid(_)))));
    assert!(session.launch(ONE, |_| {}).is_err(), "a closure cannot run on a GPU");
    assert!(session.is_finished() && gpu.counts()[0] == 0);
    session.synchronize().unwrap();
    assert_eq!(session.kernel_limits::<Known>().unwrap().registers, Some(32));
    assert!(session.kernel_limits::<Missing>().is_err());
    assert_eq!((session.occupancy::<Known>(512).unwrap(), session.multiprocessors()), (4, 2));
}

#[test]
fn ring_memory_is_what_the_gpu_reaches() {
    let gpu = Arc::new(Fake::default());
    let builder = Session::builder().mode(Mode::Threads).rings(1).buffers(2 << 20);
    let open = |gpu: &Arc<Fake>, memory: Option<RingMemory>| {
        let builder = memory.map_or(builder.clone(), |memory| builder.clone().ring_memory(memory));
        Session::open(&builder, Backend::Gpu(gpu.clone()))
    };
    let refused = open(&gpu, Some(RingMemory::Kernel)).unwrap_err().to_string();
    assert!(refused.contains("cannot reach rings that the kernel allocates"), "{refused}");
    let session = open(&gpu, None).unwrap();
    assert_eq!((session.ring_memory(), session.refused_memory().len()), (RingMemory::Caller, 0));
    let session = open(&gpu, Some(RingMemory::Runtime)).unwrap();
    assert_eq!((session.ring_memory(), gpu.counts()[2]), (RingMemory::Runtime, 1));

    let picky = Arc::new(Fake::picky());
    let mut session = open(&picky, None).unwrap();
    assert_eq!((session.ring_memory(), picky.counts()[2]), (RingMemory::Runtime, 1));
    let [(RingMemory::Caller, why)] = session.refused_memory() else {
        panic!("{:?}", session.refused_memory())
    };
    assert!(why.to_string().contains("pinning host memory"), "{why}");
    let before = picky.counts();
    session.start::<Known>(ONE, 42).unwrap();
    assert_eq!((picky.arguments(), picky.counts()[1]), (vec![42], before[1] + 1), "by address");
    picky.end(1, State::Done);
    session.synchronize().unwrap();
    assert_eq!(picky.counts(), before);
}

#[test]
fn device_memory_is_written_and_read_in_place() {
    let gpu = Arc::new(Fake::default());
    let mut session = on(&gpu);
    let first = session.device_buffer(100).unwrap();
    let second = session.device_buffer(100).unwrap();
    session.write_device(&second, 10, &[7; 20]).unwrap();
    session.start::<Known>(ONE, second.address()).unwrap();
    assert!(session.write_device(&first, 0, &[1]).is_err(), "kernels are running");
    gpu.end(1, State::Done);
    session.synchronize().unwrap();
    let mut bytes = [9; 40];
    session.read_device(&second, 0, &mut bytes).unwrap();
    assert_eq!((bytes[..10].to_vec(), bytes[10..30].to_vec()), (vec![0; 10], vec![7; 20]));
    session.read_device(&first, 60, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 40]);
    assert!(session.read_device(&first, 61, &mut bytes).is_err());
}

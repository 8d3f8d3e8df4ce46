//! What a session's tables say of themselves, over tables that are zero but for what is looked at: failures by call and number, places of calls,
//! which lane notes a wait that gave up, and which entry a transfer becomes.
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "tables of pointers")]

use std::collections::BTreeSet;
use std::mem::MaybeUninit;

use gpufs_core::abi::{self, Sqe};
use gpufs_core::alloc::{BufferPool, BufferPoolParts, FreeSet};
use gpufs_core::failures::{FAILURE_WORDS, FailureCount, counted};
use gpufs_core::files::{FileIndex, OpenFile, Target};
use gpufs_core::resources::{Resources, ResourcesParts};
use gpufs_core::session::SessionTables;
use gpufs_core::word::{DeviceWord, DeviceWord64};
use gpufs_core::{Call, Errno};

/// Tables of zeros, as those of a session that was closed.
fn tables() -> SessionTables {
    // SAFETY:
    // - numbers, and pointers that may be null
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// The same of what streams and files need.
fn parts() -> ResourcesParts {
    // SAFETY:
    // - numbers, and pointers that may be null
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// A pool without memory.
fn pool(base: u64, buffer_index: u32) -> BufferPool {
    // SAFETY:
    // - an empty set has no words
    let free = unsafe { FreeSet::new(std::ptr::null(), 0) };
    // SAFETY:
    // - no buffer of it is reached
    unsafe { BufferPool::new(BufferPoolParts { base, buffer_bytes: 4096, buffer_index, free }) }
}

#[test]
fn failures_are_counted_by_call_and_number_while_the_session_is_open() {
    let words: Vec<_> = (0..FAILURE_WORDS).map(|_| DeviceWord64::new(0)).collect();
    let session = SessionTables { failures: words.as_ptr(), ..tables() };
    let failures = |session: &SessionTables| session.failures().collect::<Vec<FailureCount>>();
    session.note_failure(Call::Nop, Errno::IO);
    assert!(words.iter().all(|word| word.peek() == 0), "a session that is not open");
    words.iter().for_each(|word| word.set(7));
    session.open_failures();
    assert_eq!(failures(&session), []);
    let (first, last) = (Call::ALL[0], Call::ALL[Call::ALL.len() - 1]);
    let noted =
        [(first, 1, 1), (first, 2, 3), (first, 133, 1), (Call::Nop, 1, 2), (Call::Nop, 5, 1), (last, 133, 2)];
    for (call, number, count) in noted {
        for _ in 0..count {
            let errno = Errno::from_number(number);
            assert_eq!(counted::<()>(&session, call, Err(errno)), Err(errno));
        }
    }
    assert_eq!(counted(&session, Call::Nop, Ok(3)), Ok(3));
    let expected = noted.map(|(call, number, count)| FailureCount {
        call,
        errno: Some(Errno::from_number(number)),
        count,
    });
    assert_eq!(failures(&session), expected);
    // What Linux does not have.
    for number in [134, 4095] {
        session.note_failure(Call::Nop, Errno::from_number(number));
    }
    let made_up = failures(&session).into_iter().filter(|failure| failure.errno.is_none());
    let made_up: Vec<_> = made_up.map(|failure| (failure.call, failure.count)).collect();
    assert_eq!(made_up, [(Call::Nop, 2)]);
}

#[test]
fn a_session_without_a_table_of_failures_counts_none() {
    let session = tables();
    session.open_failures();
    session.note_failure(Call::Nop, Errno::IO);
    assert_eq!(session.failures().count(), 0);
}

#[test]
fn each_call_has_an_address_of_its_own_within_its_session() {
    let sessions = [tables(), tables()];
    let mut seen = BTreeSet::new();
    for session in &sessions {
        let within = std::ptr::from_ref(session).addr()..;
        let within = within.start..within.start + size_of::<SessionTables>();
        for call in Call::ALL {
            let identity = call.identity(session);
            assert!(within.contains(&identity), "{call:?}");
            assert!(seen.insert(identity), "{call:?}");
        }
    }
}

#[test]
fn the_first_lane_that_gives_up_notes_it() {
    let stalled = DeviceWord::new(0);
    // SAFETY:
    // - nothing else of it is looked at
    let resources = unsafe { Resources::new(ResourcesParts { stalled: &raw const stalled, ..parts() }) };
    assert_eq!([(); 3].map(|()| resources.claim_stall()), [true, false, false]);
}

#[test]
fn lanes_copy_together_where_there_is_memory_for_it() {
    for base in [0, 0x1000] {
        let parts = ResourcesParts { coalescing_buffers: pool(base, 0), ..parts() };
        // SAFETY:
        // - nothing else of it is looked at
        let resources = unsafe { Resources::new(parts) };
        assert_eq!(resources.copies_together(), base != 0);
    }
}

#[test]
fn a_file_is_there_while_it_is_open() {
    let files: Vec<_> = (0..4).map(|_| OpenFile::default()).collect();
    let flags = [0, OpenFile::OPEN, OpenFile::OPEN | OpenFile::FIXED | OpenFile::READABLE, OpenFile::FIXED];
    for (file, (flags, descriptor)) in files.iter().zip(flags.into_iter().zip(10..)) {
        file.flags.set(flags);
        file.descriptor.set(descriptor);
    }
    let parts = ResourcesParts { files: files.as_ptr(), file_count: 4, ..parts() };
    // SAFETY:
    // - nothing else of it is looked at
    let resources = unsafe { Resources::new(parts) };
    for index in 0..6 {
        let is_open = (1..3).contains(&index);
        let found = resources.file_and_flags(FileIndex(index)).map(|(_, flags)| flags);
        assert_eq!(found, if is_open { Ok(flags[index as usize]) } else { Err(Errno::BADF) }, "{index}");
        let descriptor = resources.process_descriptor(FileIndex(index));
        assert_eq!(descriptor, if is_open { Ok(10 + index.cast_signed()) } else { Err(Errno::BADF) });
    }
}

#[test]
fn transfers_of_a_pool_name_its_registered_memory() {
    let (target, memory) = (Target { fd: 3, fixed: false }, (4, 5));
    let entry = |index, writing| Resources::pool_transfer(&pool(0, index), writing, target, memory, 6);
    assert_eq!(entry(7, true), Sqe::write_fixed(3, 4, 5, 6, 7));
    assert_eq!(entry(7, false), Sqe::read_fixed(3, 4, 5, 6, 7));
    assert_eq!(entry(0, false), Sqe::read_fixed(3, 4, 5, 6, 0));
    assert_eq!(entry(BufferPool::UNREGISTERED, true), Sqe::write(3, 4, 5, 6));
    assert_eq!(entry(BufferPool::UNREGISTERED, false), Sqe::read(3, 4, 5, 6));
    let fixed = Target { fixed: true, ..target };
    let entry = Resources::pool_transfer(&pool(0, 7), true, fixed, memory, 6);
    assert_eq!((entry.flags, entry.fd), (abi::IOSQE_FIXED_FILE as u8, 3));
}

//! A session on some device, with the memory through which the cases of the suite drive it.
//!
//! | file | what |
//! |---|---|
//! | `calls.rs` | calls as plain data, and their answers |
//! | `memory.rs` | the arena, and chunks of device memory |
//! | `scripts.rs` | lists of calls on their way to lanes, and back |
//!
//! Kernels with arguments of their own, such as those that print records, are started by `suite/printing.rs` and the cases.
#![expect(unsafe_code, reason = "writes and reads registered buffers by their addresses")]

mod attempts;
mod calls;
mod memory;
mod scripts;

use std::fmt;

use gpufs_core::word::{DeviceWord, SharedWord};
use gpufs_device::Errno;
use gpufs_host::session::{OpenError, Placed, SyncError};
use gpufs_host::{Builder, RegisteredBuffer, Session};
use gpufs_test_kernels::{Handle, Report};

pub use attempts::Try;
pub use calls::{Answer, Do, Value, fopen, fputs, open, results};
pub use scripts::Started;

use super::Device;

/// Entries for streams and descriptors.
pub const HANDLES: u32 = 16 << 10;
/// Where the gate lies, after the handles.
const GATE_AT: usize = HANDLES as usize * size_of::<Handle>();

/// Where the data of calls lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// In memory of the device, if it fits; `gpufs` copies.
    Device,
    /// In a registered buffer, in place.
    Registered,
    /// Either, by a seed.
    Either(u64),
}

/// A session and its memory.
pub struct Harness {
    /// The session.
    pub session: Session,
    /// Where data lies.
    pub data: Data,
    /// Whether a script ends at its first failure.
    pub stops: bool,
    /// What [`Do::AwaitTurn`] looks at; 0 at first.
    pub token: Placed<DeviceWord>,
    is_gpu: bool,
    /// Handles, and the gate after them.
    entries: RegisteredBuffer,
    arena: RegisteredBuffer,
    used: usize,
    /// Kernels run that use the arena.
    busy: bool,
    /// Addresses of chunks of device memory, one for each lane that needed one.
    chunks: Vec<u64>,
    // Dropped after the session.
    host_chunks: Vec<Vec<u64>>,
}

impl fmt::Debug for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.session.fmt(f)
    }
}

impl Harness {
    /// Opens a session on the device.
    ///
    /// # Errors
    /// The session's.
    ///
    /// # Panics
    /// If the session has no room for three registered buffers.
    pub fn open(device: &Device, builder: Builder) -> Result<Self, OpenError> {
        let mut session = match device {
            Device::Cpu(options) => builder.cpu_with(options.clone())?,
            // A script's kernel holds every call, and calls through pointers: its own frame alone is over 8 KiB.
            Device::Cuda { ordinal, program } => builder.gpu_stack(32 << 10).cuda(*ordinal, program)?,
        };
        let entries = session.register_buffer(GATE_AT + 4096).expect("a buffer");
        let arena = session.register_buffer(256 << 10).expect("a buffer");
        let token = session.place(DeviceWord::new(0)).expect("device memory");
        for entry in 0..HANDLES as usize {
            // SAFETY:
            // - within the buffer, and no kernel runs
            unsafe { entries.as_ptr().cast::<Handle>().add(entry).write(Handle::NONE) };
        }
        Ok(Self {
            session,
            data: Data::Device,
            stops: false,
            token,
            is_gpu: matches!(device, Device::Cuda { .. }),
            entries,
            arena,
            used: 0,
            busy: false,
            chunks: Vec::new(),
            host_chunks: Vec::new(),
        })
    }

    /// The address of an entry of the handles.
    #[must_use]
    pub fn handle(&self, on: u32) -> u64 {
        assert!(on < HANDLES);
        self.entries.as_ptr() as u64 + u64::from(on) * size_of::<Handle>() as u64
    }
    /// Puts a descriptor into an entry.
    pub fn set_descriptor(&mut self, on: u32, descriptor: u32) {
        // SAFETY:
        // - within the buffer
        unsafe { (*(self.handle(on) as *mut Handle)).descriptor = descriptor };
    }
    /// The descriptor of an entry.
    #[must_use]
    pub fn descriptor(&self, on: u32) -> u32 {
        // SAFETY:
        // - within the buffer
        unsafe { (*(self.handle(on) as *const Handle)).descriptor }
    }
    /// Copies an entry: two handles to one thing.
    pub fn copy_handle(&mut self, from: u32, to: u32) {
        // SAFETY:
        // - within the buffer
        unsafe { (self.handle(to) as *mut Handle).write((self.handle(from) as *const Handle).read()) };
    }
    /// Opens the gate that [`Do::Await`] waits at.
    pub fn set_gate(&self, to: u32) {
        let word = (self.entries.as_ptr() as u64 + GATE_AT as u64) as *const SharedWord;
        // SAFETY:
        // - a word of the buffer, that kernels only read
        // ORDERING: release, system, partner the kernel's `observe`.
        unsafe { (*word).publish(to) };
    }

    /// Waits until every kernel has ended, and writes what their streams hold.
    ///
    /// # Errors
    /// As [`Session::synchronize`].
    pub fn synchronize(&mut self) -> Result<(), SyncError> {
        self.busy = false;
        self.session.synchronize()
    }
    /// Says that a kernel uses what was taken from the arena.
    pub fn keep_arena(&mut self) {
        self.busy = true;
    }

    /// Runs a script in each lane to the end, whatever the streams' flush says.
    ///
    /// # Panics
    /// If a kernel fails.
    pub fn try_each(&mut self, scripts: Vec<Vec<Do>>) -> (Vec<Vec<Answer>>, Result<(), SyncError>) {
        let started = self.start(scripts);
        let outcome = self.synchronize();
        if let Err(
            error @ (SyncError::Kernel(_) | SyncError::Gpu(_) | SyncError::Fault(_) | SyncError::Tables(_)),
        ) = &outcome
        {
            panic!("{error}");
        }
        (self.answers(started), outcome)
    }
    /// Runs a script in each lane.
    ///
    /// # Panics
    /// If a kernel fails, or a stream cannot be written.
    pub fn each(&mut self, scripts: Vec<Vec<Do>>) -> Vec<Vec<Answer>> {
        let (answers, outcome) = self.try_each(scripts);
        outcome.expect("the flush");
        answers
    }
    /// Makes one call in each of `count` lanes: the results.
    ///
    /// # Panics
    /// As [`Harness::each`].
    pub fn every(&mut self, count: u32, call: impl Fn(u32) -> Do) -> Vec<Result<i64, Errno>> {
        let scripts = (0..count).map(|lane| vec![call(lane)]).collect();
        self.each(scripts).into_iter().map(|answers| answers[0].result()).collect()
    }
    /// Runs a script in one lane.
    ///
    /// # Panics
    /// As [`Harness::each`].
    pub fn once(&mut self, calls: Vec<Do>) -> Vec<Answer> {
        self.each(vec![calls]).pop().expect("one lane's answers")
    }
    /// Runs a script in one lane; every call succeeds.
    ///
    /// # Panics
    /// If one does not; as [`Harness::each`].
    pub fn must(&mut self, calls: Vec<Do>) -> Vec<Answer> {
        let names = format!("{calls:?}");
        let answers = self.once(calls);
        for (index, answer) in answers.iter().enumerate() {
            assert_eq!(answer.result().err(), None, "call {index} of {names}");
        }
        answers
    }

    /// Places a report for a kernel.
    ///
    /// # Panics
    /// If the device's memory is full.
    pub fn report(&mut self) -> Placed<Report> {
        self.session.place(Report::default()).expect("device memory")
    }
    /// Checks a report: what the kernel counted.
    ///
    /// # Panics
    /// If it notes a failure.
    pub fn check(&mut self, report: &Placed<Report>) -> u32 {
        let report = self.session.fetch(report).expect("the report");
        assert_eq!(report.failures.peek(), 0, "the first of them: {report:?}");
        report.count.peek()
    }
}

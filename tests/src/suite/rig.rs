//! A session on some device, with the memory through which the cases of the suite drive it: lists of calls in a registered buffer, and
//! device memory for their data.
#![expect(unsafe_code, reason = "writes and reads registered buffers by their addresses")]

use std::ffi::{CStr, CString};
use std::fmt;
use std::time::Duration;

use gpufs_core::word::{DeviceWord, DeviceWord64, SharedWord};
use gpufs_device::Errno;
use gpufs_device::format::Argument;
use gpufs_device::kernel::Shared;
use gpufs_device::stdio::{Buffering, Whence};
use gpufs_host::session::{OpenError, Placed, SyncError};
use gpufs_host::{Builder, Grid, RegisteredBuffer, Session};
use gpufs_test_kernels::{
    Chunk, DONE, END, ERROR, Handle, KEEP, Op, Report, STOP, Script, UNTOUCHED, Verb, drawn, resolve, script,
};

use super::Device;

/// Entries for streams and descriptors.
pub const HANDLES: u32 = 16 << 10;

/// An argument of a format.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// An integer.
    Integer(i64),
    /// A string.
    Text(&'static CStr),
}

/// One call of a script. The first number is the entry of the handles that it is made on.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in C")]
pub enum Do {
    Nap(Duration),
    /// Waits until the gate is this far open.
    Await(u32),
    /// Waits until the token is this.
    AwaitTurn(u32),
    /// Sets the token.
    PassTurn(u32),
    Open(u32, CString, u32),
    Close(u32),
    /// The entry keeps the closed descriptor.
    CloseAndKeep(u32),
    Read(u32, usize),
    Write(u32, Vec<u8>),
    Pread(u32, usize, u64),
    Pwrite(u32, Vec<u8>, u64),
    Lseek(u32, i64, Whence),
    Ftruncate(u32, u64),
    Fsync(u32),
    Fopen(u32, CString, CString),
    Fclose(u32),
    /// The entry keeps the closed stream.
    FcloseAndKeep(u32),
    Fread(u32, usize),
    Fwrite(u32, Vec<u8>),
    Fgetc(u32),
    Fputc(u32, u8),
    Ungetc(u32, u8),
    Fgets(u32, usize),
    Fputs(u32, CString),
    Fprintf(u32, &'static CStr, Vec<Value>),
    Fseek(u32, i64, Whence),
    Ftell(u32),
    Rewind(u32),
    Fflush(u32),
    Setvbuf(u32, Buffering, usize),
    Clearerr(u32),
    /// `feof` and `ferror`.
    Flags(u32),
    /// To the standard output.
    Printf(&'static CStr, Vec<Value>),
    /// Length and hash of the file of that name.
    Look(CString),
    /// Closes what the entry has open.
    Abandon(u32),
}

/// `fopen` with a mode that is a literal.
#[must_use]
pub fn fopen(on: u32, path: &CStr, mode: &CStr) -> Do {
    Do::Fopen(on, path.to_owned(), mode.to_owned())
}
/// `open`.
#[must_use]
pub fn open(on: u32, path: &CStr, flags: u32) -> Do {
    Do::Open(on, path.to_owned(), flags)
}
/// `fputs` of a literal.
#[must_use]
pub fn fputs(on: u32, text: &CStr) -> Do {
    Do::Fputs(on, text.to_owned())
}

/// What came of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// What was returned; −1 for EOF and errors.
    pub value: i64,
    /// The errno of a call that failed, else 0; −1 if the entry has no stream.
    pub errno: i32,
    /// What was read. Of descriptors and `fgets`: all the memory.
    pub bytes: Vec<u8>,
    /// `feof` after the call.
    pub end: bool,
    /// `ferror` after the call.
    pub error: bool,
    /// Whether the script got so far.
    pub done: bool,
    /// The content's, of [`Do::Look`].
    pub hash: u64,
}

impl Answer {
    /// The value or the errno. A call that was not made, or not on a stream, is `ENXIO` here.
    ///
    /// # Errors
    /// The call's.
    pub fn result(&self) -> Result<i64, Errno> {
        match self.errno {
            _ if !self.done => Err(Errno::NXIO),
            0 => Ok(self.value),
            -1 => Err(Errno::NXIO),
            number => Err(Errno::from_number(number)),
        }
    }
}

/// The results of a lane's calls, for comparing them all at once.
#[must_use]
pub fn results(answers: &[Answer]) -> Vec<Result<i64, Errno>> {
    answers.iter().map(Answer::result).collect()
}

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
pub struct Rig {
    /// The session.
    pub session: Session,
    /// Where data lies.
    pub data: Data,
    /// Whether a script ends at its first failure.
    pub stops: bool,
    /// What [`Do::AwaitTurn`] looks at; 0 at first.
    pub token: Placed<DeviceWord>,
    is_gpu: bool,
    /// Handles, and the gate behind them.
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

impl fmt::Debug for Rig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.session.fmt(f)
    }
}

/// Scripts that were started: where their answers will be.
#[derive(Debug)]
#[must_use]
pub struct Started {
    ops: Vec<(u64, Vec<Do>)>,
}

const CHUNK_BYTES: usize = size_of::<Chunk>();
const GATE_AT: usize = HANDLES as usize * size_of::<Handle>();

fn rounded(bytes: usize) -> usize {
    bytes.next_multiple_of(16) + 16
}

impl Do {
    /// Bytes that it takes in the arena, its own entry included; not fewer.
    fn room(&self) -> usize {
        let data = match self {
            Self::Read(_, bytes)
            | Self::Pread(_, bytes, _)
            | Self::Fread(_, bytes)
            | Self::Fgets(_, bytes) => *bytes,
            Self::Write(_, bytes) | Self::Pwrite(_, bytes, _) | Self::Fwrite(_, bytes) => bytes.len(),
            Self::Fputs(_, text) => text.count_bytes() + 1,
            Self::Open(_, path, _) | Self::Look(path) => path.count_bytes() + 1,
            Self::Fopen(_, path, mode) => rounded(path.count_bytes() + 1) + mode.count_bytes() + 1,
            Self::Fprintf(_, format, values) | Self::Printf(format, values) => {
                let texts = values.iter().map(|value| match value {
                    Value::Integer(_) => 0,
                    Value::Text(text) => rounded(text.count_bytes() + 1),
                });
                rounded(format.count_bytes() + 1) + values.len() * 16 + texts.sum::<usize>()
            }
            _ => 0,
        };
        size_of::<Op>() + rounded(data)
    }
    /// Bytes of the device's memory that the call can be given.
    fn through(&self) -> Option<usize> {
        match self {
            Self::Read(_, bytes)
            | Self::Pread(_, bytes, _)
            | Self::Fread(_, bytes)
            | Self::Fgets(_, bytes) => Some(*bytes),
            Self::Write(_, bytes) | Self::Pwrite(_, bytes, _) | Self::Fwrite(_, bytes) => Some(bytes.len()),
            Self::Fputs(_, text) => Some(text.count_bytes() + 1),
            Self::Fprintf(_, format, _) | Self::Printf(format, _) => Some(format.count_bytes() + 1),
            Self::Look(_) => Some(CHUNK_BYTES),
            _ => None,
        }
    }
}

impl Rig {
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
            Device::Cuda { ordinal, program } => builder.cuda(*ordinal, program)?,
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

    /// Sees to so much free room in the arena.
    ///
    /// # Panics
    /// If kernels run and there is less.
    pub fn reserve(&mut self, bytes: usize) {
        if !self.busy {
            self.used = 0;
        }
        if self.arena.len() - self.used >= bytes {
            return;
        }
        assert!(!self.busy, "kernels are running, and {bytes} bytes are not free beside what they use");
        self.arena =
            self.session.register_buffer(bytes.next_power_of_two()).expect("a buffer for the kernels' data");
        self.used = 0;
    }
    /// So much of the arena: its address. What was reserved before.
    ///
    /// # Panics
    /// If it was not.
    pub fn take(&mut self, bytes: usize) -> u64 {
        let at = self.used;
        self.used += rounded(bytes);
        assert!(self.used <= self.arena.len(), "more than was reserved");
        self.arena.as_ptr() as u64 + at as u64
    }
    /// A copy of `bytes` in the arena.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        let address = self.take(bytes.len());
        // SAFETY:
        // - just taken
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        address
    }
    /// What the arena holds at `address`.
    #[must_use]
    pub fn get(&self, address: u64, bytes: usize) -> Vec<u8> {
        if bytes == 0 {
            return Vec::new();
        }
        // SAFETY:
        // - the arena's, by the caller's word: all that is asked for was taken from it
        unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }.to_vec()
    }
    /// Writes a plain value where it was taken.
    pub fn write<T: Copy>(&mut self, address: u64, value: T) {
        // SAFETY:
        // - as for `get`; addresses are multiples of 16
        unsafe { (address as *mut T).write(value) };
    }
    /// Reads it.
    #[must_use]
    pub fn read<T: Copy>(&self, address: u64) -> T {
        // SAFETY:
        // - as for `write`
        unsafe { (address as *const T).read() }
    }

    /// Sees to chunks of device memory for so many lanes. While no kernel runs.
    ///
    /// # Panics
    /// If the device refuses.
    pub fn prepare_chunks(&mut self, lanes: usize) {
        let missing = lanes.saturating_sub(self.chunks.len());
        if missing == 0 {
            return;
        }
        if !self.is_gpu {
            for _ in 0..missing {
                let chunk = vec![0; CHUNK_BYTES / 8];
                self.chunks.push(chunk.as_ptr() as u64);
                self.host_chunks.push(chunk);
            }
            return;
        }
        assert!(!self.busy, "device memory is placed before kernels run");
        let placed: Vec<Placed<Chunk>> = (0..missing)
            .map(|_| {
                self.session.place(std::array::from_fn(|_| DeviceWord64::new(0))).expect("device memory")
            })
            .collect();
        self.reserve(missing * 16 + missing * 8 + 4096);
        let handles = self.take(missing * size_of::<Shared<Chunk>>());
        for (index, placed) in placed.iter().enumerate() {
            self.write(handles + (index * size_of::<Shared<Chunk>>()) as u64, placed.handle());
        }
        let addresses = self.take(missing * 8);
        let count = missing as u64;
        let grid = Grid { blocks: u32::try_from(missing.div_ceil(64)).expect("a few"), threads: 64 };
        let arguments = resolve::Arguments { chunks: handles, count, addresses };
        self.session.start::<resolve::Entry>(grid, arguments).expect("a launch");
        self.synchronize().expect("the addresses");
        for index in 0..count {
            let address = self.read(addresses + index * 8);
            self.chunks.push(address);
        }
    }
    /// A table of the first so many lanes' chunks, in the arena.
    pub fn chunk_table(&mut self, lanes: usize) -> u64 {
        let table: Vec<u8> = self.chunks[..lanes].iter().flat_map(|address| address.to_ne_bytes()).collect();
        self.put(&table)
    }

    /// Starts one thread for each list of calls, in blocks of at most 128.
    pub fn start(&mut self, scripts: Vec<Vec<Do>>) -> Started {
        let threads = scripts.len().clamp(1, 128);
        let blocks = scripts.len().div_ceil(threads);
        let small = |count: usize| u32::try_from(count).expect("a grid");
        self.start_in(Grid { blocks: small(blocks), threads: small(threads) }, scripts)
    }

    /// The same in a grid of that many threads or more.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start_in(&mut self, grid: Grid, scripts: Vec<Vec<Do>>) -> Started {
        let room: usize = scripts.iter().flatten().map(Do::room).sum();
        let through = |call: &Do| call.through().is_some_and(|bytes| bytes <= CHUNK_BYTES);
        let wanted = scripts.iter().rposition(|script| script.iter().any(through)).map_or(0, |last| last + 1);
        if self.data != Data::Registered || scripts.iter().flatten().any(|call| matches!(call, Do::Look(_))) {
            self.prepare_chunks(wanted);
        }
        self.reserve(room + scripts.len() * 64 + 4096);
        let count = scripts.len();
        let table = self.take(count * size_of::<Script>());
        let mut started = Started { ops: Vec::new() };
        for (lane, calls) in scripts.into_iter().enumerate() {
            let ops = self.take(calls.len() * size_of::<Op>());
            for (index, call) in calls.iter().enumerate() {
                let op = self.op(lane, index, call);
                self.write(ops + (index * size_of::<Op>()) as u64, op);
            }
            let script = Script { ops, count: calls.len() as u64 };
            self.write(table + (lane * size_of::<Script>()) as u64, script);
            started.ops.push((ops, calls));
        }
        self.busy = true;
        let arguments = script::Arguments {
            scripts: table,
            count: count as u64,
            handles: self.handle(0),
            token: self.token.handle(),
        };
        self.session.start::<script::Entry>(grid, arguments).expect("a launch");
        started
    }

    fn op(&mut self, lane: usize, index: usize, call: &Do) -> Op {
        let mut op = Op {
            verb: Verb::Flags,
            on: 0,
            memory: 0,
            through: 0,
            bytes: 0,
            number: 0,
            choice: 0,
            flags: if self.stops { STOP } else { 0 },
            value: 0,
            errno: 0,
            state: 0,
            hash: 0,
        };
        let device = match self.data {
            Data::Device => true,
            Data::Registered => matches!(call, Do::Look(_)),
            Data::Either(seed) => {
                !drawn(seed, (lane << 20 | index) as u64).is_multiple_of(4) || matches!(call, Do::Look(_))
            }
        };
        if let (true, Some(0..=CHUNK_BYTES)) = (device, call.through()) {
            op.through = self.chunks[lane];
        }
        let at = |place: Whence| place as u32;
        (op.verb, op.on) = match call {
            Do::Nap(time) => {
                op.number = i64::try_from(time.as_nanos()).expect("a time");
                (Verb::Nap, 0)
            }
            Do::Await(value) => {
                (op.memory, op.bytes) = (self.entries.as_ptr() as u64 + GATE_AT as u64, u64::from(*value));
                (Verb::Await, 0)
            }
            Do::AwaitTurn(value) => {
                op.bytes = u64::from(*value);
                (Verb::AwaitTurn, 0)
            }
            Do::PassTurn(value) => {
                op.bytes = u64::from(*value);
                (Verb::PassTurn, 0)
            }
            Do::Open(on, path, flags) => {
                (op.memory, op.choice) = (self.put(path.to_bytes_with_nul()), *flags);
                (Verb::Open, *on)
            }
            Do::Close(on) => (Verb::Close, *on),
            Do::CloseAndKeep(on) => {
                op.flags |= KEEP;
                (Verb::Close, *on)
            }
            Do::Read(on, bytes) => {
                self.reading(&mut op, *bytes);
                (Verb::Read, *on)
            }
            Do::Pread(on, bytes, offset) => {
                self.reading(&mut op, *bytes);
                op.number = offset.cast_signed();
                (Verb::Pread, *on)
            }
            Do::Write(on, bytes) => {
                self.writing(&mut op, bytes);
                (Verb::Write, *on)
            }
            Do::Pwrite(on, bytes, offset) => {
                self.writing(&mut op, bytes);
                op.number = offset.cast_signed();
                (Verb::Pwrite, *on)
            }
            Do::Lseek(on, offset, whence) => {
                (op.number, op.choice) = (*offset, at(*whence));
                (Verb::Lseek, *on)
            }
            Do::Ftruncate(on, length) => {
                op.number = length.cast_signed();
                (Verb::Ftruncate, *on)
            }
            Do::Fsync(on) => (Verb::Fsync, *on),
            Do::Fopen(on, path, mode) => {
                (op.memory, op.bytes) =
                    (self.put(path.to_bytes_with_nul()), self.put(mode.to_bytes_with_nul()));
                (Verb::Fopen, *on)
            }
            Do::Fclose(on) => (Verb::Fclose, *on),
            Do::FcloseAndKeep(on) => {
                op.flags |= KEEP;
                (Verb::Fclose, *on)
            }
            Do::Fread(on, bytes) => {
                self.reading(&mut op, *bytes);
                (Verb::Fread, *on)
            }
            Do::Fwrite(on, bytes) => {
                self.writing(&mut op, bytes);
                (Verb::Fwrite, *on)
            }
            Do::Fgetc(on) => (Verb::Fgetc, *on),
            Do::Fputc(on, byte) => {
                op.choice = u32::from(*byte);
                (Verb::Fputc, *on)
            }
            Do::Ungetc(on, byte) => {
                op.choice = u32::from(*byte);
                (Verb::Ungetc, *on)
            }
            Do::Fgets(on, bytes) => {
                self.reading(&mut op, *bytes);
                (Verb::Fgets, *on)
            }
            Do::Fputs(on, text) => {
                self.writing(&mut op, text.to_bytes_with_nul());
                op.bytes -= 1;
                (Verb::Fputs, *on)
            }
            Do::Fprintf(on, format, values) => {
                self.formatting(&mut op, format, values);
                (Verb::Fprintf, *on)
            }
            Do::Printf(format, values) => {
                self.formatting(&mut op, format, values);
                (Verb::Printf, 0)
            }
            Do::Fseek(on, offset, whence) => {
                (op.number, op.choice) = (*offset, at(*whence));
                (Verb::Fseek, *on)
            }
            Do::Ftell(on) => (Verb::Ftell, *on),
            Do::Rewind(on) => (Verb::Rewind, *on),
            Do::Fflush(on) => (Verb::Fflush, *on),
            Do::Setvbuf(on, buffering, bytes) => {
                op.choice = match buffering {
                    Buffering::Full => 0,
                    Buffering::Line => 1,
                    Buffering::None => 2,
                };
                op.bytes = *bytes as u64;
                (Verb::Setvbuf, *on)
            }
            Do::Clearerr(on) => (Verb::Clearerr, *on),
            Do::Flags(on) => (Verb::Flags, *on),
            Do::Look(path) => {
                (op.memory, op.bytes) = (self.put(path.to_bytes_with_nul()), CHUNK_BYTES as u64);
                (Verb::Look, 0)
            }
            Do::Abandon(on) => (Verb::Abandon, *on),
        };
        op
    }
    fn reading(&mut self, op: &mut Op, bytes: usize) {
        let memory = self.take(bytes);
        // SAFETY:
        // - just taken
        unsafe { std::ptr::write_bytes(memory as *mut u8, UNTOUCHED, bytes) };
        (op.memory, op.bytes) = (memory, bytes as u64);
    }
    fn writing(&mut self, op: &mut Op, bytes: &[u8]) {
        (op.memory, op.bytes) = (self.put(bytes), bytes.len() as u64);
    }
    fn formatting(&mut self, op: &mut Op, format: &CStr, values: &[Value]) {
        self.writing(op, format.to_bytes());
        let arguments = self.take(std::mem::size_of_val(values) + 16 * values.len());
        for (index, value) in values.iter().enumerate() {
            let argument = match value {
                Value::Integer(number) => Argument::from(*number),
                Value::Text(text) => {
                    let address = self.put(text.to_bytes_with_nul());
                    // SAFETY:
                    // - a string in the arena, which stays until the kernel has ended
                    unsafe { Argument::c_string(address as *const u8) }
                }
            };
            self.write(arguments + 16 * index as u64, argument);
        }
        (op.number, op.choice) = (arguments.cast_signed(), u32::try_from(values.len()).expect("a few"));
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

    /// What came of the calls. After [`Rig::synchronize`], and before anything else is started.
    #[must_use]
    pub fn answers(&self, started: Started) -> Vec<Vec<Answer>> {
        let one = |(ops, calls): (u64, Vec<Do>)| {
            let calls = calls.iter().enumerate();
            calls
                .map(|(index, call)| self.answer(self.read(ops + (index * size_of::<Op>()) as u64), call))
                .collect()
        };
        started.ops.into_iter().map(one).collect()
    }
    fn answer(&self, op: Op, call: &Do) -> Answer {
        let done = op.state & DONE != 0;
        let bytes = match call {
            _ if !done || op.errno == -1 => 0,
            Do::Read(_, bytes) | Do::Pread(_, bytes, _) => *bytes,
            Do::Fgets(_, bytes) if op.value == 0 => *bytes,
            Do::Fread(..) => usize::try_from(op.value).unwrap_or(0),
            _ => 0,
        };
        Answer {
            value: op.value,
            errno: op.errno,
            bytes: self.get(op.memory, bytes),
            end: op.state & END != 0,
            error: op.state & ERROR != 0,
            done,
            hash: op.hash,
        }
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
    /// As [`Rig::each`].
    pub fn every(&mut self, count: u32, call: impl Fn(u32) -> Do) -> Vec<Result<i64, Errno>> {
        let scripts = (0..count).map(|lane| vec![call(lane)]).collect();
        self.each(scripts).into_iter().map(|answers| answers[0].result()).collect()
    }
    /// Runs a script in one lane.
    ///
    /// # Panics
    /// As [`Rig::each`].
    pub fn once(&mut self, calls: Vec<Do>) -> Vec<Answer> {
        self.each(vec![calls]).pop().expect("one lane's answers")
    }
    /// Runs a script in one lane; every call succeeds.
    ///
    /// # Panics
    /// If one does not; as [`Rig::each`].
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

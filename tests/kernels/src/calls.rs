//! Lists of calls that lanes carry out: the host writes them to a registered buffer, and finds the answers there.

use core::ffi::CStr;
use core::mem::MaybeUninit;

use gpufs_core::word::{DeviceWord, DeviceWord64, SharedWord};
use gpufs_device::file::{Descriptor, Whence};
use gpufs_device::format::{Argument, snprintf};
use gpufs_device::kernel::Shared;
use gpufs_device::stdio::{Buffering, Transfer};
use gpufs_device::warp::{self, global_thread};
use gpufs_device::{Errno, File, Fs, kernel};

/// What the memory of a read holds before.
pub const UNTOUCHED: u8 = 0xee;

/// One call, and below what came of it. Addresses are of memory that the device reaches; `memory` and `through` are multiples of 8,
/// and what lies there may be read and written up to the next one.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Op {
    /// What to call.
    pub verb: Verb,
    /// The entry of the handles that it is called on.
    pub on: u32,
    /// Where data, a string or a path lies.
    pub memory: u64,
    /// Not 0: memory of the device, as much as at `memory`, that the call is given in its place.
    pub through: u64,
    /// How many bytes; a word's value; `fopen`'s mode: the address of a string.
    pub bytes: u64,
    /// An offset, a time in nanoseconds, the address of arguments.
    pub number: i64,
    /// A byte, `open`'s flags, a [`Whence`], a [`Buffering`], how many arguments.
    pub choice: u32,
    /// [`STOP`] and [`KEEP`].
    pub flags: u32,
    /// What was returned; −1 for EOF and errors.
    pub value: i64,
    /// The errno of a call that failed, else 0; −1 if the entry has no stream.
    pub errno: i32,
    /// [`END`], [`ERROR`] and [`DONE`].
    pub state: u32,
    /// Of [`Verb::Look`]: a hash of the content.
    pub hash: u64,
}

/// In [`Op::flags`]: nothing more is called if this fails.
pub const STOP: u32 = 1;
/// In [`Op::flags`]: the handle stays when it is closed.
pub const KEEP: u32 = 2;
/// In [`Op::state`]: `feof` after the call.
pub const END: u32 = 1;
/// In [`Op::state`]: `ferror` after the call.
pub const ERROR: u32 = 2;
/// In [`Op::state`]: it was called.
pub const DONE: u32 = 4;

/// What can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs, reason = "named as in C")]
pub enum Verb {
    /// Waits for `number` nanoseconds.
    Nap,
    /// Waits until the word at `memory` is `bytes`.
    Await,
    /// Waits until the token is `bytes`.
    AwaitTurn,
    /// Sets the token to `bytes`.
    PassTurn,
    Open,
    Close,
    Read,
    Write,
    Pread,
    Pwrite,
    Lseek,
    Ftruncate,
    Fsync,
    Fopen,
    Fclose,
    Fread,
    Fwrite,
    Fgetc,
    Fputc,
    Ungetc,
    Fgets,
    Fputs,
    Fprintf,
    Fseek,
    Ftell,
    Rewind,
    Fflush,
    Setvbuf,
    Clearerr,
    /// `feof` and `ferror` alone.
    Flags,
    /// `fprintf` to the standard output.
    Printf,
    /// The length and a [`hash`] of the file at the path at `memory`, read by way of `bytes` bytes at `through`.
    Look,
    /// Closes what is open, if anything is.
    Abandon,
}

/// A stream and a descriptor of a script.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Handle {
    /// Whether there is a stream.
    pub is_stream: u32,
    /// The descriptor, or [`Handle::NOT_OPEN`].
    pub descriptor: u32,
    /// The stream.
    pub stream: MaybeUninit<File>,
}

impl Handle {
    /// An index beyond any session's table.
    pub const NOT_OPEN: u32 = u32::MAX;
    /// No stream and no descriptor.
    pub const NONE: Self = Self { is_stream: 0, descriptor: Self::NOT_OPEN, stream: MaybeUninit::uninit() };

    /// The stream.
    #[must_use]
    pub fn file(&self) -> Option<File> {
        // SAFETY:
        // - set together with `is_stream`
        (self.is_stream != 0).then(|| unsafe { self.stream.assume_init() })
    }
}

/// One lane's calls.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Script {
    /// The address of the first [`Op`].
    pub ops: u64,
    /// How many.
    pub count: u64,
}

/// What [`hash`] begins with.
pub const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

/// A hash of bytes (FNV-1a), `state` being that of what came before.
#[must_use]
pub fn hash(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(state, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Memory of the device.
pub type Chunk = [DeviceWord64; 16 << 10];

kernel! {
    /// Leaves the addresses of the first `count` threads' [`Chunk`]s, whose handles are at `chunks`, at `addresses`.
    pub fn resolve(fs: Fs, chunks: u64, count: u64, addresses: u64) {
        let thread = global_thread();
        if thread < count {
            // SAFETY:
            // - the host put as many handles there, and has room for as many addresses
            unsafe {
                let chunk = (chunks as *const Shared<Chunk>).wrapping_add(thread as usize).read();
                let address = core::ptr::from_ref(chunk.get(fs)) as u64;
                (addresses as *mut u64).wrapping_add(thread as usize).write(address);
            }
        }
    }
}

kernel! {
    /// Thread `i` of the first `count` carries out the [`Script`] number `i` of those at `scripts`, on the [`Handle`]s at `handles`.
    pub fn script(fs: Fs, scripts: u64, count: u64, handles: u64, token: Shared<DeviceWord>) {
        let (token, thread) = (token.get(fs), global_thread());
        if thread < count {
            let script = (scripts as *const Script).wrapping_add(thread as usize);
            carry_out(fs, script, handles as *mut Handle, token);
        }
    }
}

#[inline(never)]
fn carry_out(fs: Fs, script: *const Script, handles: *mut Handle, token: &DeviceWord) {
    // SAFETY:
    // - the host wrote the scripts and waits for the kernel
    let Script { ops, count } = unsafe { *script };
    for index in 0..count as usize {
        let place = (ops as *mut Op).wrapping_add(index);
        // SAFETY:
        // - the host wrote as many calls, and this lane alone uses them
        let mut op = unsafe { *place };
        // SAFETY:
        // - the host has an entry for it, which lanes use one after the other, or only to read
        let handle = unsafe { &mut *handles.wrapping_add(op.on as usize) };
        call(fs, &mut op, handle, token);
        if let Some(file) = handle.file() {
            op.state |= if file.feof() { END } else { 0 } | if file.ferror() { ERROR } else { 0 };
        }
        op.state |= DONE;
        // SAFETY:
        // - as above
        unsafe { *place = op };
        if op.flags & STOP != 0 && op.errno != 0 {
            return;
        }
    }
}

/// Copies whole words: both sides are multiples of 8.
fn copy(from: u64, to: u64, bytes: u64) {
    let words = bytes.div_ceil(8) as usize;
    // SAFETY:
    // - both are valid up to the next word's end, by `Op`'s contract, and apart
    unsafe { core::ptr::copy_nonoverlapping(from as *const u64, to as *mut u64, words) };
}

/// The memory that a writing call is given.
fn source<'a>(op: &Op, bytes: u64) -> &'a [u8] {
    let mut memory = op.memory;
    if op.through != 0 {
        copy(memory, op.through, bytes);
        memory = op.through;
    }
    // SAFETY:
    // - as long, by `Op`'s contract
    unsafe { core::slice::from_raw_parts(memory as *const u8, bytes as usize) }
}

fn c_string<'a>(address: u64) -> &'a CStr {
    // SAFETY:
    // - the host put a string there
    unsafe { CStr::from_ptr(address as *const _) }
}

/// Calls `read` with the memory that it is to fill.
fn filled<T>(op: &Op, read: impl FnOnce(&mut [u8]) -> T) -> T {
    let memory = if op.through == 0 { op.memory } else { op.through };
    if op.through != 0 {
        for word in 0..op.bytes.div_ceil(8) as usize {
            // SAFETY:
            // - valid up to the next word's end, by `Op`'s contract
            unsafe { (memory as *mut u64).add(word).write(u64::from_ne_bytes([UNTOUCHED; 8])) };
        }
    }
    // SAFETY:
    // - as long, by `Op`'s contract, and this lane's
    let result = read(unsafe { core::slice::from_raw_parts_mut(memory as *mut u8, op.bytes as usize) });
    if op.through != 0 {
        copy(memory, op.memory, op.bytes);
    }
    result
}

fn whence(op: &Op) -> Whence {
    [Whence::Set, Whence::Current, Whence::End][op.choice as usize % 3]
}

type Answer = Result<i64, Errno>;

fn count(transfer: Transfer) -> (i64, i32) {
    (transfer.bytes as i64, transfer.error.map_or(0, Errno::number))
}

#[inline(never)]
fn call(fs: Fs, op: &mut Op, handle: &mut Handle, token: &DeviceWord) {
    let answer = match op.verb {
        Verb::Nap => {
            wait(op.number.cast_unsigned());
            Ok(0)
        }
        Verb::Await => {
            // SAFETY:
            // - the host put a word there
            let word = unsafe { &*(op.memory as *const SharedWord) };
            // ORDERING: acquire, system, partner the host's store.
            while u64::from(word.observe()) != op.bytes {
                warp::nap(1000);
            }
            Ok(0)
        }
        Verb::AwaitTurn => {
            // ORDERING: acquire, device, partner the `publish` of the turn before.
            while u64::from(token.observe()) != op.bytes {
                warp::nap(100);
            }
            Ok(0)
        }
        Verb::PassTurn => {
            // ORDERING: release, device, partner the `observe` of the next turn.
            token.publish(op.bytes as u32);
            Ok(0)
        }
        Verb::Look => look(fs, op),
        Verb::Printf => fprintf(op, fs.stdout()),
        Verb::Fopen => fs.fopen(c_string(op.memory), c_string(op.bytes)).map(|file| {
            handle.stream.write(file);
            handle.is_stream = 1;
            0
        }),
        Verb::Open
        | Verb::Close
        | Verb::Read
        | Verb::Write
        | Verb::Pread
        | Verb::Pwrite
        | Verb::Lseek
        | Verb::Ftruncate
        | Verb::Fsync => on_descriptor(fs, op, handle),
        Verb::Abandon => {
            if handle.is_stream != 0 {
                op.verb = Verb::Fclose;
                on_stream(op, handle);
            }
            if handle.descriptor != Handle::NOT_OPEN {
                op.verb = Verb::Close;
                let _ = on_descriptor(fs, op, handle);
            }
            Ok(0)
        }
        _ => return on_stream(op, handle),
    };
    (op.value, op.errno) = match answer {
        Ok(value) => (value, 0),
        Err(errno) => (-1, errno.number()),
    };
}

/// Waits so many nanoseconds.
pub(crate) fn wait(nanoseconds: u64) {
    let start = warp::clock();
    // Ends: the clock goes on.
    while warp::clock() - start < nanoseconds {
        warp::nap(1000);
    }
}

fn on_descriptor(fs: Fs, op: &mut Op, handle: &mut Handle) -> Answer {
    let descriptor = Descriptor(handle.descriptor);
    match op.verb {
        Verb::Open => open(fs, op, handle),
        Verb::Close => {
            if op.flags & KEEP == 0 {
                handle.descriptor = Handle::NOT_OPEN;
            }
            close(fs, descriptor)
        }
        Verb::Read => read(fs, op, descriptor),
        Verb::Pread => pread(fs, op, descriptor),
        Verb::Write => write(fs, op, descriptor),
        Verb::Pwrite => pwrite(fs, op, descriptor),
        Verb::Lseek => lseek(fs, op, descriptor),
        Verb::Ftruncate => ftruncate(fs, op, descriptor),
        _ => fsync(fs, descriptor),
    }
}

// One call each, and never inlined: the GPU's assembler takes far longer for one large function than for the same code in many.

#[inline(never)]
fn open(fs: Fs, op: &Op, handle: &mut Handle) -> Answer {
    fs.open(c_string(op.memory), op.choice, 0o666).map(|opened| {
        handle.descriptor = opened.0;
        0
    })
}
#[inline(never)]
fn close(fs: Fs, descriptor: Descriptor) -> Answer {
    fs.close(descriptor).map(|()| 0)
}
#[inline(never)]
fn read(fs: Fs, op: &Op, descriptor: Descriptor) -> Answer {
    filled(op, |memory| fs.read(descriptor, memory)).map(|count| count as i64)
}
#[inline(never)]
fn pread(fs: Fs, op: &Op, descriptor: Descriptor) -> Answer {
    filled(op, |memory| fs.pread(descriptor, memory, op.number.cast_unsigned())).map(|count| count as i64)
}
#[inline(never)]
fn write(fs: Fs, op: &Op, descriptor: Descriptor) -> Answer {
    fs.write(descriptor, source(op, op.bytes)).map(|count| count as i64)
}
#[inline(never)]
fn pwrite(fs: Fs, op: &Op, descriptor: Descriptor) -> Answer {
    fs.pwrite(descriptor, source(op, op.bytes), op.number.cast_unsigned()).map(|count| count as i64)
}
#[inline(never)]
fn lseek(fs: Fs, op: &Op, descriptor: Descriptor) -> Answer {
    fs.lseek(descriptor, op.number, whence(op)).map(u64::cast_signed)
}
#[inline(never)]
fn ftruncate(fs: Fs, op: &Op, descriptor: Descriptor) -> Answer {
    fs.ftruncate(descriptor, op.number.cast_unsigned()).map(|()| 0)
}
#[inline(never)]
fn fsync(fs: Fs, descriptor: Descriptor) -> Answer {
    fs.fsync(descriptor).map(|()| 0)
}

fn on_stream(op: &mut Op, handle: &mut Handle) {
    let Some(file) = handle.file() else {
        (op.value, op.errno) = (-1, -1);
        return;
    };
    let answer: Answer = match op.verb {
        Verb::Fclose => {
            if op.flags & KEEP == 0 {
                handle.is_stream = 0;
            }
            fclose(file)
        }
        Verb::Fread => return fread(op, file),
        Verb::Fwrite => return fwrite(op, file),
        Verb::Fgetc => fgetc(file),
        Verb::Fputc => fputc(op, file),
        Verb::Ungetc => ungetc(op, file),
        Verb::Fgets => fgets(op, file),
        Verb::Fputs => fputs(op, file),
        Verb::Fprintf => fprintf(op, file),
        Verb::Fseek => fseek(op, file),
        Verb::Ftell => ftell(file),
        Verb::Rewind => {
            rewind(file);
            Ok(0)
        }
        Verb::Fflush => fflush(file),
        Verb::Setvbuf => setvbuf(op, file),
        Verb::Clearerr => {
            file.clearerr();
            Ok(0)
        }
        _ => Ok(0),
    };
    (op.value, op.errno) = match answer {
        Ok(value) => (value, 0),
        Err(errno) => (-1, errno.number()),
    };
}

#[inline(never)]
fn fclose(file: File) -> Answer {
    file.fclose().map(|()| 0)
}
#[inline(never)]
fn fread(op: &mut Op, file: File) {
    (op.value, op.errno) = count(filled(op, |memory| file.fread_counted(memory)));
}
#[inline(never)]
fn fwrite(op: &mut Op, file: File) {
    (op.value, op.errno) = count(file.fwrite_counted(source(op, op.bytes)));
}
#[inline(never)]
fn fgetc(file: File) -> Answer {
    file.fgetc().map(|byte| byte.map_or(-1, i64::from))
}
#[inline(never)]
fn fputc(op: &Op, file: File) -> Answer {
    file.fputc(op.choice as u8).map(i64::from)
}
#[inline(never)]
fn ungetc(op: &Op, file: File) -> Answer {
    file.ungetc(op.choice as u8).map(|byte| byte.map_or(-1, i64::from))
}
#[inline(never)]
fn fgets(op: &Op, file: File) -> Answer {
    filled(op, |memory| file.fgets(memory).map(|line| if line.is_some() { 0 } else { -1 }))
}
#[inline(never)]
fn fputs(op: &Op, file: File) -> Answer {
    let text = source(op, op.bytes + 1);
    file.fputs(c_string(text.as_ptr() as u64)).map(|()| 0)
}
#[inline(never)]
fn fprintf(op: &Op, file: File) -> Answer {
    file.fprintf(source(op, op.bytes), arguments(op)).map(|count| count as i64)
}
#[inline(never)]
fn fseek(op: &Op, file: File) -> Answer {
    file.fseek(op.number, whence(op)).map(|()| 0)
}
#[inline(never)]
fn ftell(file: File) -> Answer {
    file.ftell().map(u64::cast_signed)
}
#[inline(never)]
fn rewind(file: File) {
    file.rewind();
}
#[inline(never)]
fn fflush(file: File) -> Answer {
    file.fflush().map(|()| 0)
}
#[inline(never)]
fn setvbuf(op: &Op, file: File) -> Answer {
    let buffering = [Buffering::Full, Buffering::Line, Buffering::None][op.choice as usize % 3];
    file.setvbuf(buffering, op.bytes as usize).map(|()| 0)
}

/// The arguments at `number`, `choice` of them.
fn arguments<'a>(op: &Op) -> &'a [Argument<'a>] {
    // SAFETY:
    // - the host put them there, with strings that the device reaches
    unsafe { core::slice::from_raw_parts(op.number as *const Argument<'_>, op.choice as usize) }
}

#[inline(never)]
fn look(fs: Fs, op: &mut Op) -> Answer {
    let descriptor = fs.open(c_string(op.memory), 0, 0)?;
    let (mut length, mut state) = (0, HASH_START);
    let outcome = loop {
        // SAFETY:
        // - as long, by `Op`'s contract, and this lane's
        let memory = unsafe { core::slice::from_raw_parts_mut(op.through as *mut u8, op.bytes as usize) };
        match fs.pread(descriptor, memory, length) {
            Ok(0) => break Ok(length.cast_signed()),
            Ok(count) => {
                state = hash(state, &memory[..count]);
                length += count as u64;
            }
            Err(errno) => break Err(errno),
        }
    };
    op.hash = state;
    fs.close(descriptor)?;
    outcome
}

/// One `snprintf`, and below what came of it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Format {
    /// The address of the format.
    pub format: u64,
    /// Its bytes.
    pub format_bytes: u64,
    /// The address of the arguments.
    pub arguments: u64,
    /// How many.
    pub count: u64,
    /// Where to print.
    pub into: u64,
    /// The room there.
    pub room: u64,
    /// What was returned; −1 for an error.
    pub length: i64,
}

kernel! {
    /// Prints the `count` [`Format`]s at `formats`, which the threads share.
    pub fn print_formats(fs: Fs, formats: u64, count: u64) {
        let _ = fs;
        let mut index = global_thread();
        while index < count {
            print_format((formats as *mut Format).wrapping_add(index as usize));
            index += warp::grid_threads();
        }
    }
}

#[inline(never)]
fn print_format(place: *mut Format) {
    // SAFETY:
    // - the host wrote it, and this thread alone uses it
    let case = unsafe { &mut *place };
    // SAFETY:
    // - the host put a format, its arguments, and as much room there
    let (format, arguments, into) = unsafe {
        (
            core::slice::from_raw_parts(case.format as *const u8, case.format_bytes as usize),
            core::slice::from_raw_parts(case.arguments as *const Argument<'_>, case.count as usize),
            core::slice::from_raw_parts_mut(case.into as *mut u8, case.room as usize),
        )
    };
    case.length = snprintf(into, format, arguments).map_or(-1, |length| length as i64);
}

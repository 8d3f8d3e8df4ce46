//! Lists of calls that lanes carry out: the host writes them to a registered buffer, and finds the answers there.
//!
//! | file | what |
//! |---|---|
//! | `descriptors.rs`, `streams.rs` | one function for each call |
//! | `vectors.rs` | the calls on memory in several pieces |
//! | `memory.rs` | the memory that calls are given |
//! | `look.rs` | the length and a hash of a file |
//! | `formats.rs` | `snprintf` alone |

mod descriptors;
mod formats;
mod look;
mod memory;
mod streams;
mod vectors;

use core::mem::MaybeUninit;

use gpufs_core::word::{DeviceWord, DeviceWord64, SharedWord};
use gpufs_device::file::Whence;
use gpufs_device::kernel::Shared;
use gpufs_device::warp::{self, global_thread};
use gpufs_device::{Errno, File, Fs, kernel};

pub use formats::{Format, print_formats};
pub use look::{HASH_START, hash};
pub use streams::{SCAN_BYTES, SCANS};
pub use vectors::{PIECES_MAX, piece};

use descriptors::on_descriptor;
use look::look;
use memory::c_string;
use streams::{fdopen, fprintf, on_stream};

/// The bytes of a read's memory before the call.
pub const UNTOUCHED: u8 = 0xee;

/// One call, and below its result. Addresses are of memory that the device reaches; `memory` and `through` are multiples of 8,
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
    /// Of `readv` and its kin, how many pieces and 256 times the flags; a byte,
    /// a delimiter, `open`'s flags, a [`Whence`], a [`Buffering`](gpufs_device::stdio::Buffering), how many arguments.
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
    Readv,
    Writev,
    Preadv,
    Pwritev,
    Preadv2,
    Pwritev2,
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
    /// By format `choice` of [`SCANS`].
    Fscanf,
    Fgets,
    /// Up to the byte `choice`, into memory that grows from two bytes to all there is.
    Getdelim,
    Fputs,
    Fprintf,
    Fseek,
    Ftell,
    Rewind,
    Fflush,
    Setvbuf,
    Clearerr,
    Flockfile,
    Ftrylockfile,
    Funlockfile,
    /// `fflush`, and then where the descriptor of `fileno` stands.
    Where,
    /// On the path at `memory`; 0: on the same file again.
    Freopen,
    /// `open` with the flags `choice`, and `fdopen`.
    Fdopen,
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
                let address = chunk.with(fs, |chunk| core::ptr::from_ref(chunk) as u64);
                (addresses as *mut u64).wrapping_add(thread as usize).write(address);
            }
        }
    }
}

kernel! {
    /// Thread `i` of the first `count` carries out the [`Script`] number `i` of those at `scripts`, on the [`Handle`]s at `handles`.
    pub fn script(fs: Fs, scripts: u64, count: u64, handles: u64, token: Shared<DeviceWord>) {
        token.with(fs, |token| {
            let thread = global_thread();
            if thread < count {
                let script = (scripts as *const Script).wrapping_add(thread as usize);
                carry_out(fs, script, handles as *mut Handle, token);
            }
        });
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

type Answer = Result<i64, Errno>;

fn whence(op: &Op) -> Whence {
    [Whence::Set, Whence::Current, Whence::End][op.choice as usize % 3]
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
        Verb::Fopen => entered(handle, fs.fopen(c_string(op.memory), c_string(op.bytes))),
        Verb::Fdopen => entered(handle, fdopen(fs, op)),
        Verb::Open
        | Verb::Close
        | Verb::Read
        | Verb::Write
        | Verb::Pread
        | Verb::Pwrite
        | Verb::Readv
        | Verb::Writev
        | Verb::Preadv
        | Verb::Pwritev
        | Verb::Preadv2
        | Verb::Pwritev2
        | Verb::Lseek
        | Verb::Ftruncate
        | Verb::Fsync => on_descriptor(fs, op, handle),
        Verb::Abandon => {
            if handle.is_stream != 0 {
                op.verb = Verb::Fclose;
                on_stream(fs, op, handle);
            }
            if handle.descriptor != Handle::NOT_OPEN {
                op.verb = Verb::Close;
                let _ = on_descriptor(fs, op, handle);
            }
            Ok(0)
        }
        _ => return on_stream(fs, op, handle),
    };
    (op.value, op.errno) = match answer {
        Ok(value) => (value, 0),
        Err(errno) => (-1, errno.number()),
    };
}

/// Enters a stream that was opened.
fn entered(handle: &mut Handle, opened: Result<File, Errno>) -> Answer {
    opened.map(|file| {
        handle.stream.write(file);
        handle.is_stream = 1;
        0
    })
}

/// Waits so many nanoseconds.
pub(crate) fn wait(nanoseconds: u64) {
    let start = warp::clock();
    // Ends: the clock goes on.
    while warp::clock() - start < nanoseconds {
        warp::nap(1000);
    }
}

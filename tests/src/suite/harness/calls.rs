//! Calls of a script as plain data, what each needs in memory, and its answer.

use std::ffi::{CStr, CString};
use std::time::Duration;

use gpufs_device::Errno;
use gpufs_device::stdio::{Buffering, Whence};
use gpufs_test_kernels::{Chunk, Op, SCAN_BYTES, Verb};

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
    /// `readv` and its kin: the call, how many bytes in how many pieces, the offset, the flags.
    Scatter(u32, Verb, (usize, u32), i64, u32),
    /// `writev` and its kin.
    Gather(u32, Verb, (Vec<u8>, u32), i64, u32),
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
    /// By a format of [`SCANS`](gpufs_test_kernels::SCANS).
    Fscanf(u32, usize),
    Fgets(u32, usize),
    /// Up to a byte, into memory that grows up to so many bytes.
    Getdelim(u32, u8, usize),
    Fputs(u32, CString),
    Fprintf(u32, &'static CStr, Vec<Value>),
    Fseek(u32, i64, Whence),
    Ftell(u32),
    Rewind(u32),
    Fflush(u32),
    Setvbuf(u32, Buffering, usize),
    Clearerr(u32),
    Flockfile(u32),
    /// 1 where another has the stream.
    Ftrylockfile(u32),
    Funlockfile(u32),
    /// `fflush`, and where the descriptor of `fileno` stands then.
    Where(u32),
    /// On another file, or on the same one.
    Freopen(u32, Option<CString>, CString),
    /// `open` with these flags, and `fdopen`.
    Fdopen(u32, CString, u32, CString),
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

/// The result of a call.
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

/// Bytes of a chunk of device memory.
pub(super) const CHUNK_BYTES: usize = size_of::<Chunk>();

/// Bytes that a value of so many bytes takes in the arena.
pub(super) fn rounded(bytes: usize) -> usize {
    bytes.next_multiple_of(16) + 16
}

/// The data of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload<'a> {
    None,
    /// Memory of that many bytes, which the call fills.
    Fill(usize),
    /// Bytes that the call is given.
    Bytes(&'a [u8]),
    /// A string that the call is given.
    Text(&'a CStr),
    Path(&'a CStr),
    /// A path and a mode.
    PathAndMode(&'a CStr, &'a CStr),
    /// A mode alone.
    Mode(&'a CStr),
    Format(&'a CStr, &'a [Value]),
    /// The path of a file that is read by way of a chunk.
    Look(&'a CStr),
    /// The gate, and how far it is to be open.
    Gate(u32),
    /// A number in the place of a length.
    Word(u64),
}

/// A call as a lane is told of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    pub(super) verb: Verb,
    /// The entry of the handles.
    pub(super) on: u32,
    pub(super) payload: Payload<'a>,
    pub(super) number: i64,
    pub(super) choice: u32,
    /// Whether the entry keeps what is closed.
    pub(super) keeps: bool,
}

impl<'a> Parts<'a> {
    fn of(verb: Verb, on: u32) -> Self {
        Self { verb, on, payload: Payload::None, number: 0, choice: 0, keeps: false }
    }
    fn with(self, payload: Payload<'a>) -> Self {
        Self { payload, ..self }
    }
    fn fills(self, bytes: usize) -> Self {
        self.with(Payload::Fill(bytes))
    }
    fn number(self, number: i64) -> Self {
        Self { number, ..self }
    }
    fn choice(self, choice: u32) -> Self {
        Self { choice, ..self }
    }
    fn keeping(self) -> Self {
        Self { keeps: true, ..self }
    }
}

impl Do {
    pub(super) fn parts(&self) -> Parts<'_> {
        let of = Parts::of;
        match self {
            Self::Nap(time) => of(Verb::Nap, 0).number(i64::try_from(time.as_nanos()).expect("a time")),
            Self::Await(value) => of(Verb::Await, 0).with(Payload::Gate(*value)),
            Self::AwaitTurn(value) => of(Verb::AwaitTurn, 0).with(Payload::Word((*value).into())),
            Self::PassTurn(value) => of(Verb::PassTurn, 0).with(Payload::Word((*value).into())),
            Self::Open(on, path, flags) => of(Verb::Open, *on).with(Payload::Path(path)).choice(*flags),
            Self::Close(on) => of(Verb::Close, *on),
            Self::CloseAndKeep(on) => of(Verb::Close, *on).keeping(),
            Self::Read(on, bytes) => of(Verb::Read, *on).fills(*bytes),
            Self::Write(on, bytes) => of(Verb::Write, *on).with(Payload::Bytes(bytes)),
            Self::Pread(on, bytes, offset) => of(Verb::Pread, *on).fills(*bytes).number(offset.cast_signed()),
            Self::Pwrite(on, bytes, offset) => {
                of(Verb::Pwrite, *on).with(Payload::Bytes(bytes)).number(offset.cast_signed())
            }
            Self::Scatter(on, verb, (bytes, pieces), offset, flags) => {
                of(*verb, *on).fills(*bytes).number(*offset).choice(*pieces | *flags << 8)
            }
            Self::Gather(on, verb, (bytes, pieces), offset, flags) => {
                of(*verb, *on).with(Payload::Bytes(bytes)).number(*offset).choice(*pieces | *flags << 8)
            }
            Self::Lseek(on, offset, whence) => of(Verb::Lseek, *on).number(*offset).choice(*whence as u32),
            Self::Ftruncate(on, length) => of(Verb::Ftruncate, *on).number(length.cast_signed()),
            Self::Fsync(on) => of(Verb::Fsync, *on),
            Self::Fopen(on, path, mode) => of(Verb::Fopen, *on).with(Payload::PathAndMode(path, mode)),
            Self::Fclose(on) => of(Verb::Fclose, *on),
            Self::FcloseAndKeep(on) => of(Verb::Fclose, *on).keeping(),
            Self::Fread(on, bytes) => of(Verb::Fread, *on).fills(*bytes),
            Self::Fwrite(on, bytes) => of(Verb::Fwrite, *on).with(Payload::Bytes(bytes)),
            Self::Fgetc(on) => of(Verb::Fgetc, *on),
            Self::Fputc(on, byte) => of(Verb::Fputc, *on).choice((*byte).into()),
            Self::Ungetc(on, byte) => of(Verb::Ungetc, *on).choice((*byte).into()),
            Self::Fscanf(on, format) => {
                of(Verb::Fscanf, *on).fills(SCAN_BYTES).choice(u32::try_from(*format).expect("a format"))
            }
            Self::Fgets(on, bytes) => of(Verb::Fgets, *on).fills(*bytes),
            Self::Fputs(on, text) => of(Verb::Fputs, *on).with(Payload::Text(text)),
            Self::Fprintf(on, format, values) => of(Verb::Fprintf, *on).with(Payload::Format(format, values)),
            Self::Printf(format, values) => of(Verb::Printf, 0).with(Payload::Format(format, values)),
            Self::Fseek(on, offset, whence) => of(Verb::Fseek, *on).number(*offset).choice(*whence as u32),
            Self::Ftell(on) => of(Verb::Ftell, *on),
            Self::Rewind(on) => of(Verb::Rewind, *on),
            Self::Fflush(on) => of(Verb::Fflush, *on),
            Self::Setvbuf(on, buffering, bytes) => {
                of(Verb::Setvbuf, *on).with(Payload::Word(*bytes as u64)).choice(choice_of(*buffering))
            }
            Self::Clearerr(on) => of(Verb::Clearerr, *on),
            Self::Getdelim(on, delimiter, bytes) => {
                of(Verb::Getdelim, *on).fills(*bytes).choice((*delimiter).into())
            }
            Self::Flockfile(on) => of(Verb::Flockfile, *on),
            Self::Ftrylockfile(on) => of(Verb::Ftrylockfile, *on),
            Self::Funlockfile(on) => of(Verb::Funlockfile, *on),
            Self::Where(on) => of(Verb::Where, *on),
            Self::Freopen(on, Some(path), mode) => {
                of(Verb::Freopen, *on).with(Payload::PathAndMode(path, mode))
            }
            Self::Freopen(on, None, mode) => of(Verb::Freopen, *on).with(Payload::Mode(mode)),
            Self::Fdopen(on, path, flags, mode) => {
                of(Verb::Fdopen, *on).with(Payload::PathAndMode(path, mode)).choice(*flags)
            }
            Self::Flags(on) => of(Verb::Flags, *on),
            Self::Look(path) => of(Verb::Look, 0).with(Payload::Look(path)),
            Self::Abandon(on) => of(Verb::Abandon, *on),
        }
    }
    /// Bytes that it takes in the arena, its own entry included, or more.
    pub(super) fn room(&self) -> usize {
        let data = match self.parts().payload {
            Payload::None | Payload::Gate(_) | Payload::Word(_) => 0,
            Payload::Fill(bytes) => bytes,
            Payload::Bytes(bytes) => bytes.len(),
            Payload::Text(text) | Payload::Path(text) | Payload::Mode(text) | Payload::Look(text) => {
                text.count_bytes() + 1
            }
            Payload::PathAndMode(path, mode) => rounded(path.count_bytes() + 1) + mode.count_bytes() + 1,
            Payload::Format(format, values) => {
                let texts = values.iter().map(|value| match value {
                    Value::Integer(_) => 0,
                    Value::Text(text) => rounded(text.count_bytes() + 1),
                });
                rounded(format.count_bytes() + 1) + values.len() * 16 + texts.sum::<usize>()
            }
        };
        size_of::<Op>() + rounded(data)
    }
    /// Bytes of device memory that the call can be given.
    pub(super) fn through(&self) -> Option<usize> {
        match self.parts().payload {
            Payload::Fill(bytes) => Some(bytes),
            Payload::Bytes(bytes) => Some(bytes.len()),
            Payload::Text(text) | Payload::Format(text, _) => Some(text.count_bytes() + 1),
            Payload::Look(_) => Some(CHUNK_BYTES),
            _ => None,
        }
    }
}

/// As the kernel numbers them.
fn choice_of(buffering: Buffering) -> u32 {
    match buffering {
        Buffering::Full => 0,
        Buffering::Line => 1,
        Buffering::None => 2,
    }
}

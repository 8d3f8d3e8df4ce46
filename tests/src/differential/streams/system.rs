//! The C library's side.
#![expect(unsafe_code, reason = "calls the C library")]

use std::ffi::CString;
use std::path::PathBuf;
use std::ptr;

use gpufs_device::stdio::{Buffering, Whence};
use gpufs_test_kernels::{SCAN_BYTES, SCANS};

use super::{Call, Printf, UNTOUCHED, string};
use crate::differential::Outcome;
use crate::differential::places::{Kind, NAMES, Place, content};
use crate::random::text;

unsafe extern "C" {
    fn getdelim(
        line: *mut *mut libc::c_char,
        room: *mut usize,
        delimiter: i32,
        file: *mut libc::FILE,
    ) -> isize;
    fn flockfile(file: *mut libc::FILE);
    fn ftrylockfile(file: *mut libc::FILE) -> i32;
    fn funlockfile(file: *mut libc::FILE);
    /// The C99 function, which takes no `%a` for an allocation.
    fn __isoc99_fscanf(file: *mut libc::FILE, format: *const libc::c_char, ...) -> i32;
}

/// A `FILE` of the C library, and where it is.
pub(super) struct System<'a> {
    place: &'a Place,
    file: *mut libc::FILE,
    path: Option<PathBuf>,
    /// What `setvbuf` got; freed after the stream is closed.
    buffers: Vec<Vec<u8>>,
    buffering: Buffering,
}

/// Where the thread's errno is.
fn errno_place() -> *mut i32 {
    // SAFETY: it takes nothing.
    unsafe { libc::__errno_location() }
}

fn clear_errno() {
    // SAFETY: the address of the thread's errno is valid.
    unsafe { *errno_place() = 0 };
}

fn errno() -> i32 {
    // SAFETY: the address of the thread's errno is valid.
    let errno = unsafe { *errno_place() };
    // Left by the library's question whether a character device is a terminal.
    if errno == libc::ENOTTY { 0 } else { errno }
}

/// A function's −1 with its errno, or its value.
fn value(result: i64) -> Outcome {
    if result == -1 { Outcome::failed(errno()) } else { Outcome::of(result) }
}

/// As [`value`], where success is any number that is not negative.
fn success(result: i32) -> Outcome {
    value(i64::from(result.min(0)))
}

impl<'a> System<'a> {
    pub(super) fn new(place: &'a Place) -> Self {
        Self { place, file: ptr::null_mut(), path: None, buffers: Vec::new(), buffering: Buffering::Full }
    }

    /// Makes a call that the rules allow.
    pub(super) fn call(&mut self, call: &Call) -> Outcome {
        clear_errno();
        if let Call::Close = call {
            return self.close();
        }
        if let Call::Reopen { name, mode } = call {
            return self.reopen(*name, mode);
        }
        let mut outcome = if let Call::Open { name, mode } = call {
            self.open(*name, None, mode)
        } else if let Call::OpenBy { name, flags, mode } = call {
            self.open(*name, Some(*flags), mode)
        } else {
            // SAFETY:
            // - the rules allow calls on an open stream only, so `file` is valid
            // - every call gets memory of the length it is told, and strings that end
            unsafe { self.call_open(call) }
        };
        if !self.file.is_null() {
            // SAFETY: the stream is open.
            let at_end = unsafe { libc::feof(self.file) } != 0;
            // SAFETY: the stream is open.
            let failed = unsafe { libc::ferror(self.file) } != 0;
            outcome.flags = (at_end, failed);
        }
        if super::shows_content(call, self.buffering) {
            outcome.content = self.path.as_deref().and_then(content);
        }
        outcome
    }

    /// By `fopen`, or by `open` and `fdopen`.
    fn open(&mut self, name: usize, flags: Option<i32>, mode: &str) -> Outcome {
        let (name, kind) = NAMES[name];
        let path = self.place.c_path(name);
        let mode = CString::new(mode).expect("no NUL");
        let mut number = -1;
        // SAFETY: strings that end, and a descriptor that is open.
        self.file = unsafe {
            match flags {
                None => libc::fopen(path.as_ptr(), mode.as_ptr()),
                Some(flags) => {
                    number = libc::open(path.as_ptr(), flags, 0o666);
                    if number < 0 { ptr::null_mut() } else { libc::fdopen(number, mode.as_ptr()) }
                }
            }
        };
        if self.file.is_null() {
            let failed = Outcome::failed(errno());
            // SAFETY: a number, of a descriptor that is open or of none.
            unsafe { libc::close(number) };
            return failed;
        }
        self.buffering = Buffering::Full;
        self.path = (kind == Kind::File).then(|| self.place.path(name));
        Outcome::of(0)
    }

    /// The content is that of the file before.
    fn reopen(&mut self, name: Option<usize>, mode: &str) -> Outcome {
        let mode = CString::new(mode).expect("no NUL");
        let path = name.map(|name| self.place.c_path(NAMES[name].0));
        let address = path.as_ref().map_or(ptr::null(), |path| path.as_ptr());
        // SAFETY: strings that end, and an open stream, which is not used again where it is closed.
        self.file = unsafe { libc::freopen(address, mode.as_ptr(), self.file) };
        self.buffering = Buffering::Full;
        let old = self.path.clone();
        let mut outcome = if self.file.is_null() {
            self.path = None;
            Outcome::failed(errno())
        } else {
            if let Some(name) = name {
                let (name, kind) = NAMES[name];
                self.path = (kind == Kind::File).then(|| self.place.path(name));
            }
            Outcome::of(0)
        };
        outcome.content = old.as_deref().and_then(content);
        outcome
    }

    fn close(&mut self) -> Outcome {
        // SAFETY: the stream is open, and is not used again.
        let result = unsafe { libc::fclose(self.file) };
        let mut outcome = success(result);
        outcome.content = self.path.take().as_deref().and_then(content);
        self.file = ptr::null_mut();
        self.buffers.clear();
        outcome
    }

    /// # Safety
    /// The stream is open.
    unsafe fn call_open(&mut self, call: &Call) -> Outcome {
        let file = self.file;
        // SAFETY: as the caller says.
        unsafe {
            match call {
                Call::Open { .. } | Call::OpenBy { .. } | Call::Reopen { .. } | Call::Close => {
                    unreachable!("made by others")
                }
                Call::Getdelim { delimiter, .. } => Self::line(file, *delimiter),
                Call::Lock | Call::TryLock | Call::Unlock | Call::Where => Self::held(file, call),
                Call::Read { bytes } => {
                    let mut memory = vec![UNTOUCHED; *bytes];
                    let count = libc::fread(memory.as_mut_ptr().cast(), 1, *bytes, file);
                    memory.truncate(count);
                    Outcome { bytes: memory, ..Self::count(count, *bytes) }
                }
                Call::Write { salt, bytes } => {
                    let count = libc::fwrite(text(*salt, *bytes).as_ptr().cast(), 1, *bytes, file);
                    Self::count(count, *bytes)
                }
                Call::Getc => value(i64::from(libc::fgetc(file))),
                Call::Putc(byte) => value(i64::from(libc::fputc(i32::from(*byte), file))),
                Call::Gets { room } => {
                    let mut memory = vec![UNTOUCHED; *room];
                    let line = libc::fgets(memory.as_mut_ptr().cast(), *room as i32, file);
                    if line.is_null() {
                        // What is in the memory then is not said.
                        return Outcome::failed(errno());
                    }
                    Outcome { bytes: memory, ..Outcome::default() }
                }
                Call::Puts { salt, bytes } => success(libc::fputs(string(*salt, *bytes).as_ptr(), file)),
                Call::Scanf(format) => Self::scan(file, *format),
                Call::Ungetc(byte) => value(i64::from(libc::ungetc(i32::from(*byte), file))),
                Call::Printf { kind, number } => Self::print(file, *kind, *number),
                Call::Seek(offset, whence) => {
                    let whence = match whence {
                        Whence::Set => libc::SEEK_SET,
                        Whence::Current => libc::SEEK_CUR,
                        Whence::End => libc::SEEK_END,
                    };
                    success(libc::fseeko(file, *offset, whence))
                }
                Call::Tell => value(libc::ftello(file)),
                Call::Rewind => {
                    libc::rewind(file);
                    Outcome::default()
                }
                Call::Flush => success(libc::fflush(file)),
                Call::Setvbuf(buffering, bytes) => {
                    self.buffering = *buffering;
                    let mode = match buffering {
                        Buffering::Full => libc::_IOFBF,
                        Buffering::Line => libc::_IOLBF,
                        Buffering::None => libc::_IONBF,
                    };
                    self.buffers.push(vec![0; *bytes]);
                    let memory = self.buffers.last_mut().expect("just pushed");
                    success(libc::setvbuf(file, memory.as_mut_ptr().cast(), mode, *bytes))
                }
                Call::SetvbufHere(..) => Outcome::default(),
                Call::Clearerr => {
                    libc::clearerr(file);
                    Outcome::default()
                }
            }
        }
    }

    /// # Safety
    /// The stream is open.
    unsafe fn held(file: *mut libc::FILE, call: &Call) -> Outcome {
        // SAFETY: as the caller says.
        unsafe {
            match call {
                Call::Lock => {
                    flockfile(file);
                    Outcome::default()
                }
                Call::TryLock => Outcome::of(i64::from(ftrylockfile(file))),
                Call::Unlock => {
                    funlockfile(file);
                    Outcome::default()
                }
                Call::Where => {
                    if libc::fflush(file) == 0 {
                        value(libc::lseek(libc::fileno(file), 0, libc::SEEK_CUR))
                    } else {
                        Outcome::failed(errno())
                    }
                }
                _ => unreachable!("made by others"),
            }
        }
    }

    /// # Safety
    /// The stream is open.
    unsafe fn print(file: *mut libc::FILE, kind: Printf, number: i32) -> Outcome {
        // SAFETY: as the caller says; the arguments are those of each format.
        let count = unsafe {
            match kind {
                Printf::Number => libc::fprintf(file, c"%d".as_ptr(), number),
                Printf::Line => {
                    libc::fprintf(file, c"lane %08x said %s\n".as_ptr(), number, c"this".as_ptr())
                }
                Printf::Long => libc::fprintf(file, c"%400d\n%-20d|".as_ptr(), number, number),
            }
        };
        value(i64::from(count))
    }

    /// # Safety
    /// The stream is open.
    unsafe fn line(file: *mut libc::FILE, delimiter: u8) -> Outcome {
        let (mut line, mut room) = (ptr::null_mut(), 0);
        // SAFETY: as the caller says; no memory yet, which it takes from the heap.
        let length = unsafe { getdelim(&raw mut line, &raw mut room, i32::from(delimiter), file) };
        let mut outcome = value(length as i64);
        // SAFETY: the line and its NUL; whatever came of the call, the memory is to be freed.
        unsafe {
            if let Ok(length) = usize::try_from(length) {
                outcome.bytes = std::slice::from_raw_parts(line.cast::<u8>(), length + 1).to_vec();
            }
            libc::free(line.cast());
        }
        outcome
    }

    /// # Safety
    /// The stream is open.
    unsafe fn scan(file: *mut libc::FILE, format: usize) -> Outcome {
        let mut memory = vec![UNTOUCHED; SCAN_BYTES];
        let [a, b, c] = [0, 8, 16].map(|at| memory.as_mut_ptr().wrapping_add(at));
        // SAFETY: as the caller says; the format's targets fit eight bytes each.
        let count = unsafe { __isoc99_fscanf(file, SCANS[format].as_ptr(), a, b, c) };
        let errno = if count < 0 { errno() } else { 0 };
        Outcome { value: i64::from(count), errno, bytes: memory, ..Outcome::default() }
    }

    /// A transfer's count; short ones have an errno, or none at the end of the file.
    fn count(count: usize, asked: usize) -> Outcome {
        let errno = if count < asked { errno() } else { 0 };
        Outcome { value: count as i64, errno, ..Outcome::default() }
    }
}

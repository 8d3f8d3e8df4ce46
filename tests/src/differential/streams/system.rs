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

fn clear_errno() {
    // SAFETY: the address of the thread's errno is valid.
    unsafe { *libc::__errno_location() = 0 };
}

fn errno() -> i32 {
    // SAFETY: the address of the thread's errno is valid.
    let errno = unsafe { *libc::__errno_location() };
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
        let mut outcome = if let Call::Open { name, mode } = call {
            self.open(*name, mode)
        } else {
            // SAFETY:
            // - the rules allow calls on an open stream only, so `file` is valid
            // - every call gets memory of the length it is told, and strings that end
            unsafe { self.call_open(call) }
        };
        if !self.file.is_null() {
            // SAFETY: the stream is open.
            outcome.flags = unsafe { (libc::feof(self.file) != 0, libc::ferror(self.file) != 0) };
        }
        if super::shows_content(call, self.buffering) {
            outcome.content = self.path.as_deref().and_then(content);
        }
        outcome
    }

    fn open(&mut self, name: usize, mode: &str) -> Outcome {
        let (name, kind) = NAMES[name];
        let path = self.place.c_path(name);
        let mode = CString::new(mode).expect("no NUL");
        // SAFETY: two strings that end.
        self.file = unsafe { libc::fopen(path.as_ptr(), mode.as_ptr()) };
        if self.file.is_null() {
            return Outcome::failed(errno());
        }
        self.buffering = Buffering::Full;
        self.path = (kind == Kind::File).then(|| self.place.path(name));
        Outcome::of(0)
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
                Call::Open { .. } | Call::Close => unreachable!("made by others"),
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
                Call::Printf { kind, number } => value(i64::from(match kind {
                    Printf::Number => libc::fprintf(file, c"%d".as_ptr(), *number),
                    Printf::Line => {
                        libc::fprintf(file, c"lane %08x said %s\n".as_ptr(), *number, c"this".as_ptr())
                    }
                    Printf::Long => libc::fprintf(file, c"%400d\n%-20d|".as_ptr(), *number, *number),
                })),
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
    unsafe fn scan(file: *mut libc::FILE, format: usize) -> Outcome {
        let mut memory = vec![UNTOUCHED; SCAN_BYTES];
        // SAFETY: as the caller says; the format's targets fit eight bytes each.
        let count = unsafe {
            let [a, b, c] = [0, 8, 16].map(|at| memory.as_mut_ptr().add(at));
            __isoc99_fscanf(file, SCANS[format].as_ptr(), a, b, c)
        };
        let errno = if count < 0 { errno() } else { 0 };
        Outcome { value: i64::from(count), errno, bytes: memory, ..Outcome::default() }
    }

    /// A transfer's count; short ones have an errno, or none at the end of the file.
    fn count(count: usize, asked: usize) -> Outcome {
        let errno = if count < asked { errno() } else { 0 };
        Outcome { value: count as i64, errno, ..Outcome::default() }
    }
}

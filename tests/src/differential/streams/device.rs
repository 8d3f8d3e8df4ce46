//! This project's side.

use std::ffi::CString;
use std::path::PathBuf;

use gpufs_device::stdio::{Buffering, Transfer};
use gpufs_device::{Errno, File, Fs, fprintf};

use super::{Call, Printf, UNTOUCHED, string};
use crate::differential::Outcome;
use crate::differential::places::{Kind, NAMES, Place, content};
use crate::random::text;

/// A stream of a session, and where it is.
pub(super) struct Device<'a> {
    fs: Fs,
    place: &'a Place,
    file: Option<File>,
    path: Option<PathBuf>,
    buffering: Buffering,
}

/// A result as the C library would give it.
fn value<T>(result: Result<T, Errno>, value: impl FnOnce(T) -> i64) -> Outcome {
    match result {
        Ok(good) => Outcome::of(value(good)),
        Err(errno) => Outcome::failed(errno.number()),
    }
}

fn count(transfer: Transfer) -> Outcome {
    let errno = transfer.error.map_or(0, Errno::number);
    Outcome { value: transfer.bytes as i64, errno, ..Outcome::default() }
}

impl<'a> Device<'a> {
    pub(super) fn new(fs: Fs, place: &'a Place) -> Self {
        Self { fs, place, file: None, path: None, buffering: Buffering::Full }
    }

    /// Closes what is open, after a difference.
    pub(super) fn abandon(&mut self) {
        if let Some(file) = self.file.take() {
            let _ = file.fclose();
        }
    }

    pub(super) fn call(&mut self, call: &Call) -> Outcome {
        let mut outcome = match (call, self.file) {
            (Call::Open { name, mode }, _) => self.open(*name, mode),
            (_, None) => Outcome::failed(-1),
            (Call::Close, Some(file)) => return self.close(file),
            (call, Some(file)) => self.call_open(file, call),
        };
        if let Some(file) = self.file {
            outcome.flags = (file.feof(), file.ferror());
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
        let opened = self.fs.fopen(&path, &mode);
        self.file = opened.ok();
        if opened.is_ok() {
            self.buffering = Buffering::Full;
            self.path = (kind == Kind::File).then(|| self.place.path(name));
        }
        value(opened, |_| 0)
    }

    fn close(&mut self, file: File) -> Outcome {
        let mut outcome = value(file.fclose(), |()| 0);
        self.file = None;
        outcome.content = self.path.take().as_deref().and_then(content);
        outcome
    }

    fn call_open(&mut self, file: File, call: &Call) -> Outcome {
        match call {
            Call::Open { .. } | Call::Close => unreachable!("made by others"),
            Call::Read { bytes } => {
                let mut memory = vec![UNTOUCHED; *bytes];
                let transfer = file.fread_counted(&mut memory);
                memory.truncate(transfer.bytes);
                Outcome { bytes: memory, ..count(transfer) }
            }
            Call::Write { salt, bytes } => count(file.fwrite_counted(&text(*salt, *bytes))),
            Call::Getc => value(file.fgetc(), |byte| byte.map_or(-1, i64::from)),
            Call::Putc(byte) => value(file.fputc(*byte), i64::from),
            Call::Gets { room } => {
                let mut memory = vec![UNTOUCHED; *room];
                match file.fgets(&mut memory).map(|line| line.is_some()) {
                    Ok(true) => Outcome { bytes: memory, ..Outcome::default() },
                    Ok(false) => Outcome::failed(0),
                    Err(errno) => Outcome::failed(errno.number()),
                }
            }
            Call::Puts { salt, bytes } => value(file.fputs(&string(*salt, *bytes)), |()| 0),
            Call::Ungetc(byte) => value(file.ungetc(*byte), |byte| byte.map_or(-1, i64::from)),
            Call::Printf { kind, number } => {
                let number = *number;
                let printed = match kind {
                    Printf::Number => fprintf!(file, c"%d", number),
                    Printf::Line => fprintf!(file, c"lane %08x said %s\n", number, c"this"),
                    Printf::Long => fprintf!(file, c"%400d\n%-20d|", number, number),
                };
                value(printed, |count| count as i64)
            }
            Call::Seek(offset, whence) => value(file.fseek(*offset, *whence), |()| 0),
            Call::Tell => value(file.ftell(), |position| position.cast_signed()),
            Call::Rewind => {
                file.rewind();
                Outcome::default()
            }
            Call::Flush => value(file.fflush(), |()| 0),
            Call::Setvbuf(buffering, bytes) => {
                self.buffering = *buffering;
                value(file.setvbuf(*buffering, *bytes), |()| 0)
            }
            Call::SetvbufHere(bytes) => value(file.setvbuf(self.buffering, *bytes), |()| 0),
            Call::Clearerr => {
                file.clearerr();
                Outcome::default()
            }
        }
    }
}

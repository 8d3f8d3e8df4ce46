//! Calls on streams.
//!
//! Each call has a function of its own, which is never inlined: the GPU's assembler takes far longer for one large function than for the same
//! code in many.

use core::ffi::CStr;

use gpufs_device::format::scan::Target;
use gpufs_device::stdio::{Buffering, LineBuffer, Transfer, Whence};
use gpufs_device::{Errno, File, Fs};

use super::memory::{arguments, c_string, filled, source};
use super::{Answer, Handle, KEEP, Op, Verb, whence};

fn count(transfer: Transfer) -> (i64, i32) {
    (transfer.bytes as i64, transfer.error.map_or(0, Errno::number))
}

/// Formats of `fscanf`: numbers in base 16, of which text has some, and text of bounded length. Each has three targets of eight bytes.
pub const SCANS: [&CStr; 6] = [
    c"%x%n%3x",
    c"%7s%4hx%n",
    c"%5[^\n]%*7c%n",
    c" %3c%*[g-z]%3[a-m]%n",
    c"%*4s %7[a-z\n] %x",
    c"%2x,%x%*1[\n]%6c",
];
/// What their kinds are: `%x` and `%n`, `%hx`, text.
const SCAN_KINDS: [[u8; 3]; 6] = [*b"xxx", *b"shx", *b"sxx", *b"ssx", *b"sxx", *b"xxs"];
/// Bytes of the targets.
pub const SCAN_BYTES: usize = 24;

pub(super) fn on_stream(fs: Fs, op: &mut Op, handle: &mut Handle) {
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
        Verb::Getdelim => getdelim(op, file),
        Verb::Fscanf => fscanf(op, file),
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
        Verb::Flockfile => file.flockfile().map(|()| 0),
        Verb::Ftrylockfile => file.ftrylockfile().map(|kept| if kept { 0 } else { 1 }),
        Verb::Funlockfile => file.funlockfile().map(|()| 0),
        Verb::Where => stands(fs, file),
        Verb::Freopen => {
            let outcome = freopen(op, file);
            // A stream that could not be opened again is closed.
            handle.is_stream = u32::from(!matches!(outcome, Err(errno) if errno != Errno::BUSY));
            outcome
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
fn fscanf(op: &Op, file: File) -> Answer {
    let choice = op.choice as usize % SCANS.len();
    filled(op, |memory| {
        let places = memory.as_mut_ptr().cast::<u64>();
        // SAFETY:
        // - `SCAN_BYTES` bytes, aligned to eight, this lane's; each target is within its eight
        let targets: [Target<'_>; 3] = core::array::from_fn(|at| unsafe {
            let place = places.add(at);
            match SCAN_KINDS[choice][at] {
                b'h' => Target::from(&mut *place.cast::<u16>()),
                b's' => Target::from(&mut *place.cast::<[u8; 8]>()),
                _ => Target::from(&mut *place.cast::<u32>()),
            }
        });
        file.fscanf(SCANS[choice].to_bytes(), &targets)
            .map(|stored| stored.map_or(-1, |stored| stored as i64))
    })
}
#[inline(never)]
fn fputs(op: &Op, file: File) -> Answer {
    let text = source(op, op.bytes + 1);
    file.fputs(c_string(text.as_ptr() as u64)).map(|()| 0)
}
#[inline(never)]
pub(super) fn fprintf(op: &Op, file: File) -> Answer {
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

/// Memory that grows up to a bound.
struct Growing<'a> {
    memory: &'a mut [u8],
    now: usize,
}

impl LineBuffer for Growing<'_> {
    fn memory(&mut self) -> &mut [u8] {
        &mut self.memory[..self.now]
    }
    fn grow(&mut self, bytes: usize) -> Result<(), Errno> {
        if self.now == self.memory.len() {
            return Err(Errno::NOMEM);
        }
        self.now = bytes.min(self.memory.len());
        Ok(())
    }
}

#[inline(never)]
fn getdelim(op: &Op, file: File) -> Answer {
    filled(op, |memory| {
        let now = memory.len().min(2);
        file.getdelim(op.choice as u8, &mut Growing { memory, now })
            .map(|length| length.map_or(-1, |length| length as i64))
    })
}
#[inline(never)]
fn stands(fs: Fs, file: File) -> Answer {
    file.fflush()?;
    fs.lseek(file.fileno()?, 0, Whence::Current).map(u64::cast_signed)
}
#[inline(never)]
fn freopen(op: &Op, file: File) -> Answer {
    let path = (op.memory != 0).then(|| c_string(op.memory));
    file.freopen(path, c_string(op.bytes)).map(|_| 0)
}
#[inline(never)]
pub(super) fn fdopen(fs: Fs, op: &Op) -> Result<File, Errno> {
    let descriptor = fs.open(c_string(op.memory), op.choice, 0o666)?;
    fs.fdopen(descriptor, c_string(op.bytes)).inspect_err(|_| {
        let _ = fs.close(descriptor);
    })
}

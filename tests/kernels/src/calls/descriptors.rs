//! Calls on descriptors.
//!
//! Each call has a function of its own, which is never inlined: the GPU's assembler takes far longer for one large function than for the same
//! code in many.

use gpufs_device::Fs;
use gpufs_device::file::Descriptor;

use super::memory::{c_string, filled, source};
use super::{Answer, Handle, KEEP, Op, Verb, vectors, whence};

pub(super) fn on_descriptor(fs: Fs, op: &mut Op, handle: &mut Handle) -> Answer {
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
        Verb::Readv | Verb::Preadv | Verb::Preadv2 => vectors::read(fs, op, descriptor),
        Verb::Writev | Verb::Pwritev | Verb::Pwritev2 => vectors::write(fs, op, descriptor),
        Verb::Lseek => lseek(fs, op, descriptor),
        Verb::Ftruncate => ftruncate(fs, op, descriptor),
        _ => fsync(fs, descriptor),
    }
}

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

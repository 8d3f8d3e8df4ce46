//! `readv` and its kin: the memory of a call is cut into as many pieces as the call says, of which the last is the longest, and some are empty.

use gpufs_device::Fs;
use gpufs_device::file::{Descriptor, IoSlice, IoSliceMut};

use super::memory::{filled, source};
use super::{Answer, Op, Verb};

/// The most pieces.
pub const PIECES_MAX: usize = 8;

/// How many bytes piece `index` of `pieces` has of the `left` that no piece before it has.
#[must_use]
pub fn piece(left: usize, index: usize, pieces: usize) -> usize {
    if index + 1 == pieces { left } else { (index % 3) * left / 8 }
}

fn pieces(op: &Op) -> usize {
    (op.choice as usize & 0xff).min(PIECES_MAX)
}

fn offset(op: &Op) -> Option<u64> {
    (op.number != -1).then_some(op.number.cast_unsigned())
}

#[inline(never)]
pub(super) fn read(fs: Fs, op: &Op, descriptor: Descriptor) -> Answer {
    let count = filled(op, |mut memory| {
        let mut vectors = [const { IoSliceMut::new(&mut []) }; PIECES_MAX];
        let count = pieces(op);
        for (index, vector) in vectors[..count].iter_mut().enumerate() {
            let (mine, rest) = memory.split_at_mut(piece(memory.len(), index, count));
            *vector = IoSliceMut::new(mine);
            memory = rest;
        }
        let vectors = &mut vectors[..count];
        match op.verb {
            Verb::Readv => fs.readv(descriptor, vectors),
            Verb::Preadv => fs.preadv(descriptor, vectors, op.number.cast_unsigned()),
            _ => fs.preadv2(descriptor, vectors, offset(op), op.choice >> 8),
        }
    });
    count.map(|count| count as i64)
}

#[inline(never)]
pub(super) fn write(fs: Fs, op: &Op, descriptor: Descriptor) -> Answer {
    let mut memory = source(op, op.bytes);
    let mut vectors = [const { IoSlice::new(&[]) }; PIECES_MAX];
    let count = pieces(op);
    for (index, vector) in vectors[..count].iter_mut().enumerate() {
        let (mine, rest) = memory.split_at(piece(memory.len(), index, count));
        *vector = IoSlice::new(mine);
        memory = rest;
    }
    let vectors = &vectors[..count];
    let count = match op.verb {
        Verb::Writev => fs.writev(descriptor, vectors),
        Verb::Pwritev => fs.pwritev(descriptor, vectors, op.number.cast_unsigned()),
        _ => fs.pwritev2(descriptor, vectors, offset(op), op.choice >> 8),
    };
    count.map(|count| count as i64)
}

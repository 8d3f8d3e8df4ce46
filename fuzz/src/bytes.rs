//! Input as a source of choices: each takes some of the bytes, and is 0 behind the last.

/// The bytes that are left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) const fn new(data: &'a [u8]) -> Self {
        Self(data)
    }
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.take(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }
    pub(crate) fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }
    pub(crate) fn half(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }
    pub(crate) fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }
    pub(crate) fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }
    /// A number below `limit`, which is 1 to 256.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }
    /// Up to `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.take(usize::MAX)
    }
}

//! Bytes on their way in or out of a connection.

use super::copy::copy_text;

/// A stretch of bytes that is filled at its end and emptied from its start.
#[derive(Debug)]
pub(super) struct Buffer<'a> {
    bytes: &'a mut [u8],
    from: usize,
    to: usize,
}

impl<'a> Buffer<'a> {
    /// With what lies between these in it.
    pub(super) const fn of(bytes: &'a mut [u8], (from, to): (usize, usize)) -> Self {
        Self { bytes, from, to }
    }
    /// Between which what is in it lies.
    pub(super) const fn filled_range(&self) -> (usize, usize) {
        (self.from, self.to)
    }
    /// Its size.
    pub(super) const fn size(&self) -> usize {
        self.bytes.len()
    }
    /// How many bytes are in it.
    pub(super) const fn len(&self) -> usize {
        self.to - self.from
    }
    /// Bytes that can be added.
    pub(super) const fn room(&self) -> usize {
        self.bytes.len() - self.to
    }
    /// What is in it.
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }
    /// Adds bytes, for which there is room.
    pub(super) fn put(&mut self, text: &[u8]) {
        if let Some(into) = self.bytes.get_mut(self.to..self.to + text.len()) {
            copy_text(into, text);
            self.to += text.len();
        }
    }
    /// Takes bytes from the start.
    pub(super) fn taken(&mut self, bytes: usize) {
        self.from = (self.from + bytes).min(self.to);
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
    }
    pub(super) fn clear(&mut self) {
        (self.from, self.to) = (0, 0);
    }
}

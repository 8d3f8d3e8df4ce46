//! Bytes on their way in or out of a connection.

/// A stretch of bytes that is filled at its end and emptied from its start.
#[derive(Debug)]
pub(super) struct Buffer<'a> {
    bytes: &'a mut [u8],
    from: usize,
    to: usize,
}

impl<'a> Buffer<'a> {
    pub(super) const fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, from: 0, to: 0 }
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
    /// What can be filled: [`Buffer::added`] says how much was.
    pub(super) fn free(&mut self) -> &mut [u8] {
        &mut self.bytes[self.to..]
    }
    pub(super) fn added(&mut self, bytes: usize) {
        self.to = (self.to + bytes).min(self.bytes.len());
    }
    /// Adds bytes, for which there is room.
    pub(super) fn put(&mut self, text: &[u8]) {
        if let Some(into) = self.bytes.get_mut(self.to..self.to + text.len()) {
            into.copy_from_slice(text);
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
    /// Moves what is in it to the start, where its end has no room.
    pub(super) fn make_room(&mut self) {
        if self.from > 0 && self.room() < self.bytes.len() / 2 {
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
    }
    pub(super) fn clear(&mut self) {
        (self.from, self.to) = (0, 0);
    }
}

//! What is scanned: bytes, one after the other, of a text or of a stream.
#![expect(unsafe_code, reason = "a C string has no length but its NUL")]

use core::marker::PhantomData;

use gpufs_core::Errno;

/// Bytes that are looked at before they are taken.
pub trait Input {
    /// The next byte, `None` at the end. The same again until [`Input::advance`].
    ///
    /// # Errors
    /// Where it cannot be read.
    fn peek(&mut self) -> Result<Option<u8>, Errno>;
    /// Takes the byte that [`Input::peek`] showed.
    fn advance(&mut self);
    /// Puts the bytes back that were taken last, at most four: those of a wide character.
    fn put_back(&mut self, bytes: &[u8]);
}

/// A text in memory: it ends after its length, or at its first NUL.
#[derive(Clone, Debug)]
pub struct Text<'a> {
    next: *const u8,
    left: usize,
    text: PhantomData<&'a [u8]>,
}

impl<'a> Text<'a> {
    /// The text of a slice.
    #[must_use]
    pub const fn new(text: &'a [u8]) -> Self {
        Self { next: text.as_ptr(), left: text.len(), text: PhantomData }
    }
    /// A C string, whose length need not be known.
    ///
    /// # Safety
    /// For the lifetime `'a`, `text` points to bytes that end with a NUL and do not change.
    #[must_use]
    pub const unsafe fn c_string(text: *const u8) -> Self {
        Self { next: text, left: usize::MAX, text: PhantomData }
    }
}

impl Input for Text<'_> {
    #[inline]
    fn peek(&mut self) -> Result<Option<u8>, Errno> {
        if self.left == 0 {
            return Ok(None);
        }
        // SAFETY:
        // - within the slice; or, of a C string, no byte before this one was the NUL, which nothing takes
        let byte = unsafe { self.next.read() };
        Ok((byte != 0).then_some(byte))
    }
    #[inline]
    fn advance(&mut self) {
        self.next = self.next.wrapping_add(1);
        self.left -= 1;
    }
    fn put_back(&mut self, bytes: &[u8]) {
        self.next = self.next.wrapping_sub(bytes.len());
        self.left += bytes.len();
    }
}

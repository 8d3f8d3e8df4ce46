//! Where formatted bytes go (the writer): a slice, a window of a long record, or nowhere but a count.
//!
//! Sinks cannot fail. One that has no room keeps counting, so that the caller learns the length that it needed.

use core::fmt;

/// Takes formatted bytes in order.
pub trait Sink {
    /// Appends `bytes`.
    fn write(&mut self, bytes: &[u8]);
    /// Appends `count` times `byte`. Costs no more than what the sink keeps of it.
    fn fill(&mut self, byte: u8, count: usize);
}

impl<S: Sink + ?Sized> Sink for &mut S {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        (**self).write(bytes);
    }
    #[inline]
    fn fill(&mut self, byte: u8, count: usize) {
        (**self).fill(byte, count);
    }
}

/// Counts bytes and keeps none.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountSink {
    count: u64,
}

impl CountSink {
    /// A sink that has seen nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { count: 0 }
    }
    /// How many bytes it was given.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }
}

impl Sink for CountSink {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.count += bytes.len() as u64;
    }
    #[inline]
    fn fill(&mut self, _byte: u8, count: usize) {
        self.count += count as u64;
    }
}

/// Keeps the bytes `[skip, skip + slice.len())` of what it is given, in a slice, and counts them all.
///
/// It is how a record longer than one buffer is written: once for each piece, each time with the next `skip`.
#[derive(Debug)]
pub struct WindowSink<'a> {
    slice: &'a mut [u8],
    skip: u64,
    /// Bytes given so far; those below `skip` and those from `skip + slice.len()` on were not kept.
    count: u64,
}

impl<'a> WindowSink<'a> {
    /// A window that starts `skip` bytes into the output and is as long as `slice`.
    #[must_use]
    pub const fn new(slice: &'a mut [u8], skip: u64) -> Self {
        Self { slice, skip, count: 0 }
    }
    /// How many bytes it was given, inside the window or not.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }
    /// How many bytes of the slice are filled.
    #[must_use]
    pub const fn kept(&self) -> usize {
        let past = self.count.saturating_sub(self.skip);
        if past < self.slice.len() as u64 { past as usize } else { self.slice.len() }
    }
    /// Takes `length` more bytes of output: how many of them come before the window, and the part of the slice where those
    /// after them go.
    #[inline]
    fn advance(&mut self, length: usize) -> (usize, &mut [u8]) {
        let before = self.skip.saturating_sub(self.count).min(length as u64) as usize;
        let filled = self.kept();
        self.count += length as u64;
        let room = self.slice.get_mut(filled..).unwrap_or_default();
        let taken = (length - before).min(room.len());
        (before, room.get_mut(..taken).unwrap_or_default())
    }
}

impl Sink for WindowSink<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (before, room) = self.advance(bytes.len());
        for (place, byte) in room.iter_mut().zip(bytes.get(before..).unwrap_or_default()) {
            *place = *byte;
        }
    }
    #[inline]
    fn fill(&mut self, byte: u8, count: usize) {
        self.advance(count).1.fill(byte);
    }
}

/// Keeps what fits in a slice and counts everything: `snprintf`'s sink.
#[derive(Debug)]
pub struct SliceSink<'a>(WindowSink<'a>);

impl<'a> SliceSink<'a> {
    /// A sink that fills `slice` from its start.
    #[must_use]
    pub const fn new(slice: &'a mut [u8]) -> Self {
        Self(WindowSink::new(slice, 0))
    }
    /// How many bytes it was given, those that did not fit included.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.0.count()
    }
    /// How many bytes of the slice are filled.
    #[must_use]
    pub const fn kept(&self) -> usize {
        self.0.kept()
    }
}

impl Sink for SliceSink<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
    #[inline]
    fn fill(&mut self, byte: u8, count: usize) {
        self.0.fill(byte, count);
    }
}

/// Lets `core::fmt` write into a sink: `write!(SinkWriter(&mut sink), "{x:?}")`.
#[derive(Debug)]
pub struct SinkWriter<'a, S: Sink + ?Sized>(pub &'a mut S);

impl<S: Sink + ?Sized> fmt::Write for SinkWriter<'_, S> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// A sink together with how many bytes went into it: what the converters write to.
pub(super) struct Output<'a, S: Sink + ?Sized> {
    sink: &'a mut S,
    count: u64,
}

impl<'a, S: Sink + ?Sized> Output<'a, S> {
    pub(super) const fn new(sink: &'a mut S) -> Self {
        Self { sink, count: 0 }
    }
    pub(super) const fn count(&self) -> u64 {
        self.count
    }
    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.count += bytes.len() as u64;
            self.sink.write(bytes);
        }
    }
    #[inline]
    pub(super) fn fill(&mut self, byte: u8, count: u64) {
        if count != 0 {
            self.count += count;
            self.sink.fill(byte, count as usize);
        }
    }
}

//! A warp's output: a buffer that is printed at the unit's turn. Everything here is convergent, but for [`Line`] and [`write`].
#![allow(unsafe_code, reason = "memory that lanes share")]

use gpufs_device::file::Descriptor;
use gpufs_device::{Errno, File};

use super::Warp;
use super::text::Decimal;

/// The least of a file that is worth a read of its own, where there is more.
const LEAST_READ: usize = 4096;

/// What a line is printed as: `name:number:text`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'t> {
    pub(super) name: Option<&'t [u8]>,
    pub(super) number: Option<u64>,
    pub(super) text: &'t [u8],
}

impl Line<'_> {
    /// Hands out what comes before the text, in pieces.
    pub(super) fn prefix(self, mut each: impl FnMut(&[u8])) {
        if let Some(name) = self.name {
            each(name);
            each(b":");
        }
        if let Some(number) = self.number {
            each(Decimal::new(number).as_bytes());
            each(b":");
        }
    }
    /// Hands out its pieces in order.
    pub(super) fn pieces(self, mut each: impl FnMut(&[u8])) {
        self.prefix(&mut each);
        each(self.text);
        each(b"\n");
    }
}

/// Writes bytes to a stream. Any lane. Once in the device program: a copy of the call in each place would make it several times as
/// long, and the driver compile it as much longer.
#[inline(never)]
pub(super) fn write(stream: File, bytes: &[u8]) -> Result<(), Errno> {
    stream.fwrite(bytes).map(|_| ())
}

impl<'a> Warp<'a> {
    fn output_start(&self) -> usize {
        self.job.text_bytes()
    }

    /// Prints what the buffer holds, at the unit's turn.
    #[inline(never)]
    pub(super) fn print_pending(&mut self) {
        self.take_turn();
        self.lanes.sync();
        let start = self.output_start();
        // SAFETY:
        // - filled before the barrier; nobody writes there before the next
        let bytes = unsafe { self.memory.read(start, start + self.pending) };
        self.print(bytes);
        self.pending = 0;
        self.lanes.sync();
    }

    /// Prints bytes, or notes why not; then nothing more. The unit has the turn.
    pub(super) fn print(&self, bytes: &[u8]) {
        if bytes.is_empty() || self.is_stopped() {
            return;
        }
        // All of it is the leader's, so that it stays together if the lanes come one by one. Where they come together, all of them copy.
        let mine = if self.lanes.is_leader() { bytes } else { &bytes[..0] };
        if let Err(errno) = write(self.fs.stdout(), mine) {
            // ORDERING: relaxed would do: a flag and its reason in one word. The first stays.
            let _ = self.job.output_errno.compare_exchange(0, errno.number().cast_unsigned());
        }
    }

    /// Copies bytes that all lanes have to the end of the buffer; prints them at once where they are too many.
    #[inline(never)]
    pub(super) fn append(&mut self, bytes: &[u8]) {
        if self.pending + bytes.len() > self.job.output_bytes() {
            self.print_pending();
        }
        if bytes.len() > self.job.output_bytes() {
            self.print(bytes);
            return;
        }
        let share = bytes.len().div_ceil(self.lanes.count() as usize);
        let from = bytes.len().min(share * self.lanes.rank() as usize);
        let to = bytes.len().min(from + share);
        let start = self.output_start() + self.pending;
        // SAFETY:
        // - the lanes' shares do not overlap
        unsafe { self.memory.write(start + from, start + to) }.copy_from_slice(&bytes[from..to]);
        self.pending += bytes.len();
        self.lanes.sync();
    }

    /// As [`Warp::append`], with bytes [`from`, `to`) of a file, as far as they are still there.
    #[inline(never)]
    pub(super) fn append_file(&mut self, descriptor: Descriptor, mut from: u64, to: u64) {
        // Ends: each round takes bytes of the file, or is the last.
        while from < to && !self.is_stopped() {
            let left = usize::try_from(to - from).unwrap_or(usize::MAX);
            if self.job.output_bytes() - self.pending < left.min(LEAST_READ) {
                self.print_pending();
            }
            let wanted = left.min(self.job.output_bytes() - self.pending);
            match self.load(descriptor, self.output_start() + self.pending, from, wanted) {
                // The file was cut. An error shows where it is read for the search.
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    self.pending += count;
                    from += count as u64;
                }
            }
        }
    }

    /// How many bytes every lane's lines come to before the caller's, and in all. `each_line` hands its argument every line of the
    /// caller's.
    pub(super) fn measure<'t>(&self, each_line: impl Fn(&mut dyn FnMut(Line<'t>))) -> (usize, usize, usize) {
        let mut bytes = 0;
        each_line(&mut |line| line.pieces(|piece| bytes += piece.len()));
        let before = self.lanes.scan(bytes as u64);
        let total = self.lanes.broadcast(before + bytes as u64, self.lanes.mask().last());
        #[allow(clippy::cast_possible_truncation, reason = "sums of lengths in memory")]
        (before as usize, bytes, total as usize)
    }

    /// Puts every lane's lines, in lane order, into the buffer. They come to at most [`super::Job::output_bytes`]: to what [`Warp::measure`] says.
    pub(super) fn put<'t>(
        &mut self,
        (before, bytes, total): (usize, usize, usize),
        each_line: impl Fn(&mut dyn FnMut(Line<'t>)),
    ) {
        if self.pending + total > self.job.output_bytes() {
            self.print_pending();
        }
        let start = self.output_start() + self.pending + before;
        // SAFETY:
        // - the lanes' ranges do not overlap, by the scan
        let mut rest = unsafe { self.memory.write(start, start + bytes) };
        each_line(&mut |line| {
            line.pieces(|piece| {
                let (head, tail) = core::mem::take(&mut rest).split_at_mut(piece.len());
                head.copy_from_slice(piece);
                rest = tail;
            });
        });
        self.pending += total;
        self.lanes.sync();
    }
}

//! A warp's output buffer, which it prints at the unit's turn. Every function here is convergent, except [`write`] and those of [`Line`].
#![expect(unsafe_code, reason = "memory that lanes share")]

use gpufs_device::file::Descriptor;
use gpufs_device::{Errno, File};

use super::Warp;
use super::text::Decimal;

/// Bytes of a longer range of a file below which a separate read is not worth it.
const READ_BYTES_MIN: usize = 4096;

/// A line as it is printed: `name:number:text`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'t> {
    pub(super) name: Option<&'t [u8]>,
    pub(super) number: Option<u64>,
    pub(super) text: &'t [u8],
}

impl Line<'_> {
    /// Calls `each` with the pieces of what comes before the text.
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
    /// Calls `each` with the pieces of the line in order.
    pub(super) fn pieces(self, mut each: impl FnMut(&[u8])) {
        self.prefix(&mut each);
        each(self.text);
        each(b"\n");
    }
}

/// Writes bytes to a stream. Any lane. Not inlined: a copy of the call at each place would make the device program, and the time in which
/// the driver compiles it, several times as long.
#[inline(never)]
pub(super) fn write(stream: File, bytes: &[u8]) -> Result<(), Errno> {
    stream.fwrite(bytes).map(|_| ())
}

impl<'a> Warp<'a> {
    pub(super) fn output_start(&self) -> usize {
        self.job.text_bytes()
    }

    /// Prints what the buffer holds, at the unit's turn.
    #[inline(never)]
    pub(super) fn print_pending(&mut self) {
        self.take_turn();
        self.put_out(|_| {});
    }

    /// Prints bytes. An error is noted, and nothing is printed after it. Whatever comes before was printed.
    pub(super) fn print(&self, bytes: &[u8]) {
        if bytes.is_empty() || self.is_stopped() {
            return;
        }
        // One call of the leader: the bytes stay together even if the lanes make the call one by one. If they make it together, all copy.
        let mine = if self.lanes.is_leader() { bytes } else { &bytes[..0] };
        if let Err(errno) = write(self.fs.stdout(), mine) {
            // ORDERING: relaxed would do: one word holds the flag and the errno. The first error stays.
            let _ = self.job.output_errno.compare_exchange(0, errno.number().cast_unsigned());
        }
    }

    /// Copies bytes that all lanes have to the end of the buffer. Bytes that do not fit into an empty buffer are printed at once.
    #[inline(never)]
    pub(super) fn append(&mut self, bytes: &[u8]) {
        if self.pending + bytes.len() > self.job.output_bytes() {
            self.print_pending();
        }
        if bytes.len() > self.job.output_bytes() {
            self.put_out_alone(bytes);
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

    /// As [`Warp::append`], with bytes [`from`, `to`) of a file, or fewer if the file was truncated.
    #[inline(never)]
    pub(super) fn append_file(&mut self, descriptor: Descriptor, mut from: u64, to: u64) {
        // Ends: each round takes bytes of the file, or is the last.
        while from < to && !self.is_stopped() {
            let left = usize::try_from(to - from).unwrap_or(usize::MAX);
            if self.job.output_bytes() - self.pending < left.min(READ_BYTES_MIN) {
                self.print_pending();
            }
            let wanted = left.min(self.job.output_bytes() - self.pending);
            match self.load(descriptor, self.output_start() + self.pending, from, wanted) {
                // The file was truncated. A read error is reported where the search reads the file.
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    self.pending += count;
                    from += count as u64;
                }
            }
        }
    }

    /// Bytes of the lines of the lanes before the caller, of the caller's, and of all lanes. `each_line` calls its argument with each
    /// line of the caller.
    pub(super) fn measure<'t>(&self, each_line: impl Fn(&mut dyn FnMut(Line<'t>))) -> (usize, usize, usize) {
        let mut bytes = 0;
        each_line(&mut |line| line.pieces(|piece| bytes += piece.len()));
        let before = self.lanes.scan(bytes as u64);
        let total = self.lanes.broadcast(before + bytes as u64, self.lanes.mask().last());
        #[allow(clippy::cast_possible_truncation, reason = "sums of lengths in memory")]
        (before as usize, bytes, total as usize)
    }

    /// Puts the lines of all lanes, in lane order, into the buffer. Together they have the sizes that [`Warp::measure`] returned, at most
    /// [`super::Job::output_bytes`].
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

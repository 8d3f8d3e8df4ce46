//! A warp's output: a buffer that is printed at the warp's turn. Everything here is convergent, but for [`Line`].
#![allow(unsafe_code, reason = "memory that lanes share")]

use gpufs_device::warp::nap;
use gpufs_device::{Errno, File};

use super::text::Decimal;
use super::{OUTPUT_BYTES, WINDOW_BYTES, Warp};

/// Longest nap of a warp that waits for its turn, in nanoseconds.
const NAP_NS: u32 = 2_000;

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

impl Warp<'_> {
    fn output_start(&self) -> usize {
        super::START_BYTES * self.lanes.count() as usize + WINDOW_BYTES
    }

    /// Waits until the files before the batch have been printed.
    pub(super) fn take_turn(&mut self) {
        let Self { job, lanes, first, .. } = *self;
        if self.has_turn {
            return;
        }
        // Ends: the lowest batch under way has the turn, and waits only for its files and the standard output.
        // ORDERING: acquire, device, partner `end_turn`.
        while lanes.any(lanes.is_leader() && job.turn.observe() != first) && !self.is_stopped() {
            nap(NAP_NS);
        }
        self.has_turn = true;
    }

    /// Lets the next batch print. The warp has the turn, and has printed all of its own.
    pub(super) fn end_turn(&mut self) {
        self.take_turn();
        if self.lanes.is_leader() {
            // ORDERING: release, device, partner `take_turn`.
            self.job.turn.publish(self.first + self.lanes.count());
        }
    }

    /// Prints what the buffer holds, at the warp's turn.
    #[inline(never)]
    pub(super) fn print_pending(&mut self) {
        self.take_turn();
        self.lanes.sync();
        if self.lanes.is_leader() {
            let start = self.output_start();
            // SAFETY:
            // - filled before the barrier; nobody writes there before the next
            self.print(unsafe { self.memory.read(start, start + self.pending) });
        }
        self.pending = 0;
        self.lanes.sync();
    }

    /// Prints bytes, or notes why not; then nothing more. One lane of the warp that has the turn.
    pub(super) fn print(&self, bytes: &[u8]) {
        if self.job.output_errno.peek() != 0 {
            return;
        }
        if let Err(errno) = write(self.fs.stdout(), bytes) {
            self.note(errno);
        }
    }

    fn note(&self, errno: Errno) {
        // ORDERING: relaxed would do: a flag and its reason in one word. The first stays.
        let _ = self.job.output_errno.replace(0, errno.number().cast_unsigned());
    }

    /// Puts every lane's lines, in lane order, into the buffer; prints them at once where they are too many. `each_line` hands its
    /// argument every line of the caller's.
    pub(super) fn put<'t>(&mut self, each_line: impl Fn(&mut dyn FnMut(Line<'t>))) {
        let lanes = self.lanes;
        let mut bytes = 0;
        each_line(&mut |line| line.pieces(|piece| bytes += piece.len()));
        let before = lanes.scan(bytes as u64);
        #[allow(clippy::cast_possible_truncation, reason = "sums of lengths in memory")]
        let (before, total) =
            (before as usize, lanes.broadcast(before + bytes as u64, lanes.mask().last()) as usize);
        if self.pending + total > OUTPUT_BYTES {
            self.print_pending();
        }
        if total > OUTPUT_BYTES {
            for lane in lanes.mask().iter() {
                if lanes.lane() == lane {
                    each_line(&mut |line| line.pieces(|piece| self.print(piece)));
                }
                lanes.sync();
            }
            return;
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
        lanes.sync();
    }
}

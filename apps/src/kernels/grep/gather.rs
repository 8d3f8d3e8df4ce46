//! The output of many units in one write. A unit with little output takes a place for it in a ring of chunks at its turn, passes the turn, and then
//! copies the output there; whoever completes a chunk writes it to the standard output. The turn then takes as long as two words of the device's
//! memory, not as long as a call. Every function of [`Warp`] here is convergent.
//!
//! | word | writer |
//! |---|---|
//! | `next` | the warp that has the turn |
//! | `filled` of a chunk | whoever has copied bytes there adds them; who completes the chunk, and has written it, sets it to 0 |
//! | `short` of a chunk | the warp that has the turn, before it counts the rest of the chunk as filled |
//! | `printed` | the warp that has written a chunk, in order |
//!
//! A warp that waits for room in the ring waits for lower chunks to be completed: their places are taken, and their holders wait only for chunks
//! that are lower still. The lowest waits for none.
#![expect(unsafe_code, reason = "memory that warps share")]

use core::array;
use core::slice;

use gpufs_core::word::{DeviceWord, DeviceWord64};
use gpufs_device::portable;

use super::Warp;

/// Bytes of a chunk: one write.
const CHUNK: u64 = 64 << 10;
const CHUNKS: usize = 16;
/// More output than this, in bytes, is written by its unit, at its turn.
const GATHERED_BYTES_MAX: usize = 16 << 10;

portable! {
    /// The ring's words; the chunks lie elsewhere. A place in the output is a number of bytes from its start, gaps that a chunk was cut short by
    /// included.
    #[derive(Debug)]
    pub struct Gather {
        /// The chunks, as the device sees them.
        base: u64,
        /// The place that the next output takes.
        next: DeviceWord64,
        /// Places before it are in the buffer of the standard output.
        printed: DeviceWord64,
        /// Bytes of each chunk that are there, or will never be.
        filled: [DeviceWord; CHUNKS],
        /// How many bytes of each chunk are written; 0: all.
        short: [DeviceWord; CHUNKS],
        /// Units that are done.
        finished: DeviceWord,
    }
}

impl Gather {
    /// Bytes of memory that [`Gather::new`] is given.
    #[expect(clippy::cast_possible_truncation, reason = "a mebibyte")]
    pub const BYTES: usize = CHUNKS * CHUNK as usize;

    /// A ring in the [`Gather::BYTES`] at `base`, an address on the device.
    ///
    /// # Safety
    /// As long as kernels use it, the memory is valid, and nothing else accesses it.
    #[must_use]
    pub unsafe fn new(base: u64) -> Self {
        let words = || array::from_fn(|_| DeviceWord::new(0));
        Self {
            base,
            next: DeviceWord64::new(0),
            printed: DeviceWord64::new(0),
            filled: words(),
            short: words(),
            finished: DeviceWord::new(0),
        }
    }
    /// The chunk with this place.
    const fn index(place: u64) -> usize {
        (place / CHUNK) as usize % CHUNKS
    }
    /// Where in memory a place is.
    const fn address(&self, place: u64) -> *mut u8 {
        (self.base + place % (CHUNK * CHUNKS as u64)) as *mut u8
    }
}

impl Warp<'_> {
    /// Has the turn: prints all that is pending, by way of the ring or not, and calls `passes` as soon as the next may have its turn.
    pub(super) fn put_out(&mut self, passes: impl FnOnce(&Self)) {
        self.lanes.sync();
        let start = self.output_start();
        // SAFETY:
        // - filled before the barrier; no lane writes there before the next barrier
        let bytes = unsafe { self.memory.read(start, start + self.pending) };
        if bytes.len() > GATHERED_BYTES_MAX {
            self.put_out_alone(bytes);
            passes(self);
        } else {
            let place = self.take_place(bytes.len() as u64);
            passes(self);
            self.gather(place, bytes);
        }
        self.pending = 0;
        self.lanes.sync();
    }

    /// Has the turn: prints bytes after all that was printed before.
    pub(super) fn put_out_alone(&self, bytes: &[u8]) {
        let next = self.lanes.from_leader(self.job.gather.next.peek());
        let level = next % CHUNK;
        if level > 0 {
            let place = self.take_place(CHUNK - level);
            // Ends: lower chunks are completed.
            if !self.await_room(place) {
                return;
            }
            if self.lanes.is_leader() {
                self.job.gather.short[Gather::index(place)].set(level as u32);
            }
            self.count_filled(place, CHUNK - level);
        }
        let next = next.next_multiple_of(CHUNK);
        // Ends: all places before it are taken, and their holders wait for lower ones only.
        // ORDERING: acquire, device, partner `count_filled`.
        if self.wait_until(|| self.job.gather.printed.observe() == next) {
            self.print(bytes);
        }
    }

    /// Has the turn: takes the next places.
    fn take_place(&self, bytes: u64) -> u64 {
        let gather = &self.job.gather;
        // ORDERING: relaxed, both: the turn orders its holders, by `end_turn`'s release and `take_turn`'s acquire.
        let place = self.lanes.from_leader(gather.next.peek());
        if self.lanes.is_leader() {
            gather.next.set(place + bytes);
        }
        place
    }

    /// Waits until the chunk with this place may be filled; `false` if output has failed.
    fn await_room(&self, place: u64) -> bool {
        let end = place / CHUNK * CHUNK + CHUNK;
        // Ends: see above.
        // ORDERING: acquire, device, partner `count_filled`: the chunk was written, and its words are 0.
        self.wait_until(|| self.job.gather.printed.observe() + Gather::BYTES as u64 >= end)
    }

    /// Copies bytes to their places, and writes the chunks that are complete.
    #[inline(never)]
    fn gather(&self, mut place: u64, mut bytes: &[u8]) {
        // Ends: over the bytes; or output has failed.
        while !bytes.is_empty() && self.await_room(place) {
            #[expect(clippy::cast_possible_truncation, reason = "less than a chunk")]
            let (now, later) = bytes.split_at(bytes.len().min((CHUNK - place % CHUNK) as usize));
            let share = now.len().div_ceil(self.lanes.count() as usize);
            let from = now.len().min(share * self.lanes.rank() as usize);
            let mine = &now[from..now.len().min(from + share)];
            let to = self.job.gather.address(place).wrapping_add(from);
            // SAFETY:
            // - the places are this warp's, by `take_place`, and in memory that nobody reads until they are counted
            // - the lanes' shares do not overlap, and lie in one chunk
            unsafe { slice::from_raw_parts_mut(to, mine.len()) }.copy_from_slice(mine);
            self.count_filled(place, now.len() as u64);
            place += now.len() as u64;
            bytes = later;
        }
    }

    /// Counts places of one chunk as filled, and writes the chunk if it is complete.
    fn count_filled(&self, place: u64, bytes: u64) {
        let (gather, lanes) = (&self.job.gather, self.lanes);
        let index = Gather::index(place);
        let start = place / CHUNK * CHUNK;
        lanes.sync();
        #[expect(clippy::cast_possible_truncation, reason = "at most a chunk")]
        let bytes = bytes as u32;
        // ORDERING: acquire and release, device: who completes the chunk reads what all have copied.
        let filled = if lanes.is_leader() { gather.filled[index].fetch_add(bytes) + bytes } else { 0 };
        if lanes.from_leader(u64::from(filled)) < CHUNK {
            return;
        }
        // Ends: see above.
        // ORDERING: acquire, device, partner below: chunks are written in order.
        if !self.wait_until(|| gather.printed.observe() == start) {
            return;
        }
        let short = lanes.from_leader(u64::from(gather.short[index].peek()));
        self.print_places(start, if short == 0 { CHUNK } else { short });
        lanes.sync();
        if lanes.is_leader() {
            gather.filled[index].set(0);
            gather.short[index].set(0);
            // ORDERING: release, device, partner `await_room`, `put_out_alone` and above.
            gather.printed.publish(start + CHUNK);
        }
    }

    /// Writes places of one chunk to the standard output.
    fn print_places(&self, start: u64, bytes: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "at most a chunk")]
        // SAFETY:
        // - all of them were filled, and whoever fills the chunk again waits until it was written
        let bytes = unsafe { slice::from_raw_parts(self.job.gather.address(start), bytes as usize) };
        self.print(bytes);
    }

    /// The unit is done. After the last of all units, writes what the ring still holds.
    pub(super) fn finish(&self) {
        let (gather, lanes) = (&self.job.gather, self.lanes);
        lanes.sync();
        // ORDERING: acquire and release, device: the last one sees what all others did.
        let finished = if lanes.is_leader() { gather.finished.fetch_add(1) + 1 } else { 0 };
        if lanes.from_leader(u64::from(finished)) < u64::from(self.job.units.count()) {
            return;
        }
        let next = lanes.from_leader(gather.next.peek());
        if next % CHUNK > 0 {
            self.print_places(next / CHUNK * CHUNK, next % CHUNK);
        }
    }
}

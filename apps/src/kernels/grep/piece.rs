//! A unit that is a piece of a long file. Every function here is convergent.
//!
//! The warp with the first piece opens the file for all; the warp that is done last closes it.

use core::ffi::CStr;

use gpufs_device::Errno;
use gpufs_device::file::{Descriptor, O_RDONLY};

use super::survey::Carry;
use super::units::{Long, Unit};
use super::{Remark, Show, Warp};

impl<'a> Warp<'a> {
    /// Searches a piece.
    pub(super) fn piece(&mut self, unit: &Unit) {
        let job = self.job;
        let (long, name) = (job.units.long(unit.long), job.names.get(unit.file));
        let is_first = unit.offset == 0;
        let is_last = unit.offset / job.piece_bytes() as u64 + 1 == u64::from(unit.pieces);
        let Some(opened) = self.opened(long, name, is_first) else { return };
        // The text is read and searched before the warp waits for anything.
        let is_needless = self.lanes.any(long.decided.peek() == 1);
        let loaded = match opened {
            Ok(descriptor) if !is_needless => {
                self.load(descriptor, 0, unit.offset, job.wanted_bytes()).map(|bytes| (descriptor, bytes))
            }
            Ok(descriptor) => Ok((descriptor, 0)),
            Err(errno) => Err(errno),
        };
        let (descriptor, bytes) = loaded.unwrap_or((Descriptor(0), 0));
        let mut source = self.source(name, descriptor, unit.offset, bytes);
        source.closes &= is_last && loaded.is_ok();
        let whole = self.survey(source.text, 0, source.own);

        let Some(received) = self.receive() else { return };
        let before = if is_first { Carry::default() } else { received };
        let mut carry = before;
        if before.is_decided {
            self.leave(&carry, false);
            self.close(long, unit, opened.ok());
            return;
        }
        let found = self.find_output(&source, &whole, &mut carry);
        let mut remark = match loaded {
            Err(errno) => Remark::Failed(errno),
            Ok(_) if found.is_binary && job.show == Show::Lines => Remark::BinaryMatches,
            Ok(_) => Remark::Nothing,
        };
        carry.is_decided |= loaded.is_err();
        if carry.is_decided && self.lanes.is_leader() {
            long.decided.set(1);
        }
        // The file has grown since the host saw its length: the rest belongs to this piece, too.
        let has_grown = is_last && !source.closes && !carry.is_decided;
        let is_loud = match job.show {
            Show::Lines => found.has_output(),
            Show::Counts => is_last || carry.is_decided,
            Show::Names => carry.is_decided,
        };
        self.leave(&carry, is_loud || has_grown || !matches!(remark, Remark::Nothing));
        self.emit(&source, before, &found, &carry);
        if has_grown {
            let next = source.offset + source.own as u64;
            (remark, carry) = self.search_rest(name, descriptor, next, carry);
        }
        if (is_last || carry.is_decided) && opened.is_ok() {
            self.conclude(name, &carry);
        }
        if !matches!(remark, Remark::Nothing) {
            self.print_pending();
            if self.lanes.is_leader() {
                self.print_remark(name, remark);
            }
            self.lanes.sync();
        }
        self.end_turn();
        self.close(long, unit, opened.ok());
    }

    /// Opens a long file, or waits until it is open; `None` if output has failed.
    fn opened(&self, long: &Long, name: &CStr, is_first: bool) -> Option<Result<Descriptor, Errno>> {
        let lanes = self.lanes;
        if is_first && lanes.is_leader() {
            let (state, outcome) = match self.fs.open(name, O_RDONLY, 0) {
                Ok(descriptor) => (Long::OPEN, descriptor.0),
                Err(errno) => (Long::FAILED, errno.number().cast_unsigned()),
            };
            long.outcome.set(outcome);
            // ORDERING: release, device, partner below.
            long.state.publish(state);
        }
        // Ends: the first piece is drawn before all others, and its warp opens the file at once.
        // ORDERING: acquire, device, partner above.
        if !self.wait_until(|| long.state.observe() != Long::UNOPENED) {
            return None;
        }
        let both = lanes.from_leader(u64::from(long.state.peek()) << 32 | u64::from(long.outcome.peek()));
        #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
        let (state, outcome) = ((both >> 32) as u32, both as u32);
        Some(if state == Long::OPEN {
            Ok(Descriptor(outcome))
        } else {
            Err(Errno::from_number(outcome.cast_signed()))
        })
    }

    /// Counts this piece as done with the file, and closes the file after the last.
    fn close(&self, long: &Long, unit: &Unit, descriptor: Option<Descriptor>) {
        let Some(descriptor) = descriptor else { return };
        self.lanes.sync();
        // ORDERING: acquire and release, device: the close comes after the reads of all pieces.
        if self.lanes.is_leader() && long.done.fetch_add(1) + 1 == unit.pieces {
            // Nothing was written to it.
            let _ = self.fs.close(descriptor);
        }
    }
}

//! From unit to unit: what the next piece of a file goes on from, and whose turn it is to print. Everything here is convergent.
//!
//! Units are drawn in order, and who has drawn one looks at it before it waits for the unit before it. So the lowest unit under way waits for
//! nobody, and all others get what they wait for. Each waits at a word of its own, and only units with output wait for output.

use gpufs_device::warp::nap;

use super::Warp;
use super::survey::Carry;
use super::units::Record;

/// Whether a GPU runs this. There a warp that naps costs others little. A CPU's thread that never naps long takes the cores of those it
/// waits for.
const IS_GPU: bool = cfg!(any(target_arch = "nvptx64", target_arch = "amdgpu"));
/// Shortest nap of a warp that waits, in nanoseconds, and longest.
const NAP_NS: (u32, u32) = if IS_GPU { (50, 500) } else { (100, 2_000) };
/// Longest nap of the one that is next to print: all behind it wait for it.
const NEXT_NAP_NS: u32 = if IS_GPU { 100 } else { NAP_NS.1 };

/// What a warp sees of what it waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sight {
    Far,
    Near,
    Here,
}

impl Warp<'_> {
    /// Waits until it is so, as the leader sees; `false` if nothing can be printed any more.
    pub(super) fn wait_until(&self, is_so: impl Fn() -> bool) -> bool {
        self.wait(|| if is_so() { Sight::Here } else { Sight::Far })
    }

    /// As [`Warp::wait_until`], with shorter naps when it is near.
    fn wait(&self, look: impl Fn() -> Sight) -> bool {
        let lanes = self.lanes;
        let mut nap_ns = NAP_NS.0;
        // Ends: as the callers say, or a write to the standard output has failed.
        loop {
            let seen = lanes.from_leader(if lanes.is_leader() { look() as u64 } else { 0 });
            if seen == Sight::Here as u64 {
                return true;
            }
            if self.is_stopped() {
                return false;
            }
            let most = if seen == Sight::Near as u64 { NEXT_NAP_NS } else { NAP_NS.1 };
            nap_ns = nap_ns.min(most);
            nap(nap_ns);
            nap_ns *= 2;
        }
    }

    /// Waits for what the unit before leaves; `None` if nothing can be printed any more.
    pub(super) fn receive(&mut self) -> Option<Carry> {
        (self.loud_before, self.has_turn, self.is_loud) = (0, false, false);
        let Some(before) = self.unit.checked_sub(1) else { return Some(Carry::default()) };
        let record = self.job.units.record(before);
        // Ends: who has that unit needs nothing of this one.
        // ORDERING: acquire, device, partner `leave`.
        if !self.wait_until(|| record.known.observe() == 1) {
            return None;
        }
        // The leader's: it has acquired them.
        let lanes = self.lanes;
        let leaders = |word: u64| lanes.from_leader(word);
        #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
        let (loud, flags) = {
            let both = leaders(u64::from(record.loud.peek()) << 32 | u64::from(record.flags.peek()));
            ((both >> 32) as u32, both as u32)
        };
        self.loud_before = loud;
        let carry = Carry {
            newlines: leaders(record.newlines.peek()),
            line_start: leaders(record.line_start.peek()),
            matches: leaders(record.matches.peek()),
            ..Carry::default()
        };
        Some(carry.with_flags(flags))
    }

    /// Leaves that to the next unit; `is_loud`: whether this one has output, or may have. Once for each unit, behind [`Warp::receive`].
    pub(super) fn leave(&mut self, carry: &Carry, is_loud: bool) {
        self.is_loud = is_loud;
        if self.lanes.is_leader() {
            let record = self.job.units.record(self.unit);
            record.loud.set(if is_loud { self.unit + 1 } else { self.loud_before });
            record.flags.set(carry.flags());
            record.newlines.set(carry.newlines);
            record.line_start.set(carry.line_start);
            record.matches.set(carry.matches);
            // ORDERING: release, device, partner `receive`.
            record.known.publish(1);
        }
    }

    /// Waits until all output of the units before has been printed. Of a unit that is loud.
    pub(super) fn take_turn(&mut self) {
        if self.has_turn {
            return;
        }
        self.has_turn = true;
        if let Some(before) = self.loud_before.checked_sub(1) {
            let record = self.job.units.record(before);
            // Ends: who has that unit waits for output of lower ones only, and for the standard output.
            // ORDERING: acquire, device, partner `end_turn`.
            let _ = self.wait(|| match record.printed.observe() {
                Record::PRINTED => Sight::Here,
                Record::PRINTING => Sight::Near,
                _ => Sight::Far,
            });
        }
        if self.lanes.is_leader() {
            // ORDERING: relaxed: it only says how long to nap.
            self.job.units.record(self.unit).printed.set(Record::PRINTING);
        }
    }

    /// Prints what is left, and lets the next unit with output print.
    pub(super) fn end_turn(&mut self) {
        if !self.is_loud {
            return;
        }
        self.print_pending();
        if self.lanes.is_leader() {
            // ORDERING: release, device, partner `take_turn`.
            self.job.units.record(self.unit).printed.publish(Record::PRINTED);
        }
    }
}

//! What a unit passes to the next one: the state of the file, and the turn to print. Every function here is convergent.
//!
//! Warps draw units in order, and a warp searches its unit before it waits for the unit before. The lowest unit in work therefore never
//! waits, and every other unit waits for a lower one only: all waits end. Each unit has a word of its own to wait for, and only units with
//! output wait for the output of others.

use gpufs_device::warp::nap;

use super::Warp;
use super::survey::Carry;
use super::units::Record;

/// Whether a GPU runs this. On a GPU, a warp that waits with short naps costs the others little. On a CPU, a thread that only naps briefly
/// occupies a core that the warps it waits for need.
const IS_GPU: bool = cfg!(any(target_arch = "nvptx64", target_arch = "amdgpu"));
/// The shortest and the longest nap of a warp that waits, in nanoseconds.
const NAP_NS: (u32, u32) = if IS_GPU { (50, 500) } else { (100, 2_000) };
/// The longest nap of the warp that prints next: all later units wait for it.
const NEXT_NAP_NS: u32 = if IS_GPU { 100 } else { NAP_NS.1 };

/// How far the event is that a warp waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sight {
    Far,
    Near,
    Here,
}

impl Warp<'_> {
    /// Waits until `is_so` is true in the leader; `false` if output has failed, which stops the search.
    pub(super) fn wait_until(&self, is_so: impl Fn() -> bool) -> bool {
        self.wait(|| if is_so() { Sight::Here } else { Sight::Far })
    }

    /// As [`Warp::wait_until`], with shorter naps when the event is near.
    fn wait(&self, poll: impl Fn() -> Sight) -> bool {
        let lanes = self.lanes;
        let mut nap_ns = NAP_NS.0;
        // Ends: each caller says why; or a write to the standard output failed.
        loop {
            let seen = lanes.from_leader(if lanes.is_leader() { poll() as u64 } else { 0 });
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

    /// Waits for what the unit before passes on; `None` if output has failed, which stops the search.
    pub(super) fn receive(&mut self) -> Option<Carry> {
        (self.loud_before, self.has_turn, self.is_loud) = (0, false, false);
        let Some(before) = self.unit.checked_sub(1) else { return Some(Carry::default()) };
        let record = self.job.units.record(before);
        // Ends: the warp of that unit waits for nothing of this one.
        // ORDERING: acquire, device, partner `leave`.
        if !self.wait_until(|| record.known.observe() == 1) {
            return None;
        }
        // The leader reads them: it made the acquiring load.
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

    /// Passes `carry` to the next unit; `is_loud`: whether this unit has output, or may have. Once for each unit, after [`Warp::receive`].
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

    /// Waits until all output of the units before is printed. Only a unit with output calls it.
    pub(super) fn take_turn(&mut self) {
        if self.has_turn {
            return;
        }
        self.has_turn = true;
        if let Some(before) = self.loud_before.checked_sub(1) {
            let record = self.job.units.record(before);
            // Ends: the warp of that unit waits only for the output of lower units, and for the standard output.
            // ORDERING: acquire, device, partner `end_turn`.
            let _ = self.wait(|| match record.printed.observe() {
                Record::PRINTED => Sight::Here,
                Record::PRINTING => Sight::Near,
                _ => Sight::Far,
            });
        }
        if self.lanes.is_leader() {
            // ORDERING: relaxed: the value only decides how long others nap.
            self.job.units.record(self.unit).printed.set(Record::PRINTING);
        }
    }

    /// Prints what is left in the buffer, and lets the next unit with output print.
    pub(super) fn end_turn(&mut self) {
        if !self.is_loud {
            return;
        }
        self.take_turn();
        self.put_out(|warp| {
            if warp.lanes.is_leader() {
                // ORDERING: release, device, partner `take_turn`.
                warp.job.units.record(warp.unit).printed.publish(Record::PRINTED);
            }
        });
    }
}

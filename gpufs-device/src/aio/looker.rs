//! Looks at many operations, one after the other.

use gpufs_core::failures::counted;
use gpufs_core::{Call, Errno, Operation, Outcome, Slot};

use super::{Finished, Pending};
use crate::Fs;
use crate::inside::Inside;
use crate::io::{Look, Started};

/// What a lane has that looks at many operations of its own: a look costs a few loads, and the lanes of a warp do not meet for it. Of operations that
/// the lane's session has started, and while the lane calls nothing that waits.
///
/// ```
/// # use gpufs_device::{Errno, Fs, aio::Pending};
/// /// Bytes that have come of those operations that are complete, which it takes.
/// fn come(fs: Fs, reads: &mut [Pending]) -> Result<usize, Errno> {
///     let looker = fs.looker()?;
///     let mut bytes = 0;
///     for read in reads {
///         if let Some(finished) = looker.take(read) {
///             bytes += finished?.count();
///         }
///     }
///     Ok(bytes)
/// }
/// ```
#[derive(Debug)]
#[must_use = "what it looks at"]
pub struct Looker {
    fs: Fs,
    inside: Inside,
}

impl Fs {
    /// For looks at operations that were started, without looks at rings: one [`Pending::is_done`] before them drains what has completed.
    ///
    /// # Errors
    /// `EBADF` of a closed session.
    pub fn looker(self) -> Result<Looker, Errno> {
        Ok(Looker { fs: self, inside: self.enter()? })
    }
}

/// Which operation a [`Pending`] is of, in eight bytes: for a lane that has many, and keeps these side by side.
///
/// ```text
/// 63           62 … 32      31 … 20   19 … 0
/// 0            generation   ring      slot
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch(u64);

/// Bits of a slot's number.
const SLOT_BITS: u32 = 20;
/// A ring that no session has, as [`Watch::ALWAYS`] names it.
const NO_RING: u32 = (1 << (32 - SLOT_BITS)) - 1;

impl Watch {
    /// Of no operation: it is never complete.
    pub const NEVER: Self = Self(0);
    /// Of none, either: it may always be complete.
    pub const ALWAYS: Self = Self(u64::MAX);

    const fn of(ring: u32, operation: Operation) -> Self {
        if ring >= NO_RING || operation.slot.0 >> SLOT_BITS != 0 {
            return Self::ALWAYS;
        }
        Self((operation.generation as u64) << 32 | (ring as u64) << SLOT_BITS | operation.slot.0 as u64)
    }
    #[expect(clippy::cast_possible_truncation, reason = "parts of the number")]
    const fn parts(self) -> (usize, Operation) {
        let low = self.0 as u32;
        let slot = Slot(low & ((1 << SLOT_BITS) - 1));
        ((low >> SLOT_BITS) as usize, Operation { slot, generation: (self.0 >> 32) as u32 })
    }
}

impl Pending {
    /// What [`Looker::may_be_done`] needs of it.
    #[must_use]
    pub fn watch(&self) -> Watch {
        let of = |started: &Started| Watch::of(started.ring, started.operation());
        self.started.as_ref().map_or(Watch::NEVER, of)
    }
}

impl Looker {
    /// Whether an operation that the session has started may be complete; [`Looker::take`] says whether it is.
    #[inline]
    #[must_use]
    pub fn may_be_done(&self, watch: Watch) -> bool {
        if watch == Watch::NEVER {
            return false;
        }
        let (ring, operation) = watch.parts();
        let queue = self.inside.session().all_queues().get(ring);
        queue.is_none_or(|queue| queue.outcome(operation) != Outcome::InFlight)
    }
    /// The result of an operation, as [`Pending::wait`] has it, if it was seen to be complete. It is taken: of what is left there is none any more.
    #[inline]
    pub fn take(&self, pending: &mut Pending) -> Option<Result<Finished, Errno>> {
        debug_assert!(core::ptr::eq(pending.fs().session(), self.fs.session()), "of the same session");
        match pending.look() {
            Look::InFlight => None,
            look => Some(self.taken(pending, look)),
        }
    }
    fn taken(&self, pending: &mut Pending, look: Look) -> Result<Finished, Errno> {
        let session = self.inside.session();
        counted(session, Call::AioReturn, pending.taken(session, look))
    }
}

#[cfg(test)]
mod tests {
    use super::{NO_RING, Operation, SLOT_BITS, Slot, Watch};

    #[test]
    fn a_watch_says_which_operation_it_is_of() {
        for (ring, slot, generation) in
            [(0, 0, 1), (3, 32_767, 7), (NO_RING - 1, (1 << SLOT_BITS) - 1, i32::MAX as u32)]
        {
            let operation = Operation { slot: Slot(slot), generation };
            let watch = Watch::of(ring, operation);
            assert!(watch != Watch::NEVER && watch != Watch::ALWAYS);
            assert_eq!(watch.parts(), (ring as usize, operation));
        }
        let operation = |slot| Operation { slot: Slot(slot), generation: 1 };
        assert_eq!(Watch::of(NO_RING, operation(0)), Watch::ALWAYS);
        assert_eq!(Watch::of(0, operation(1 << SLOT_BITS)), Watch::ALWAYS);
    }
}

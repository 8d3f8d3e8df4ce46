//! What a call of the host's own does when it gives up: the operation is cancelled; what cannot be cancelled keeps its slot and its memory.
//!
//! Lanes do not come here: their kernel ends instead ([`super::Backoff`]).

use gpufs_core::abi::Sqe;
use gpufs_core::session::SessionTables;
use gpufs_core::{Errno, Operation, Outcome, Queue, Slot};

use super::slot_hint;
use crate::warp::{Machine, Warp};

/// Between two looks at an operation that was cancelled.
const NAP_NS: u32 = 1_000;
/// How long an operation that was cancelled may take to end. What does not by then, never may.
const CANCEL_NS: u64 = 1_000_000_000;

/// Cancels `operation`, whose entry has `user_data`: its result, which is `ETIMEDOUT` where the cancelling ended it, or `None` where it is still in
/// flight. A thread of the host's.
#[cold]
#[inline(never)]
pub(super) fn cancel(ring: u32, queue: &Queue, operation: Operation, user_data: u64) -> Option<i32> {
    let claim = queue.claim(1, slot_hint(ring))?;
    // SAFETY:
    // - claimed above; the claim is released where the outcome is known
    #[expect(unsafe_code, reason = "arms a slot")]
    let cancelling = unsafe { queue.arm(Slot(claim.item(0))) };
    // SAFETY:
    // - the slots were claimed for this batch, which is filled and committed below, with nothing between that could fail
    #[expect(unsafe_code, reason = "draws a ticket")]
    let drawn = unsafe { queue.reserve(1) };
    let entry = Sqe::async_cancel(user_data).with_user_data(cancelling.token());
    // SAFETY:
    // - the ticket was drawn above, after the slot was claimed, and nobody else knows it; the entry refers to no memory
    #[expect(unsafe_code, reason = "fills an entry")]
    unsafe {
        queue.fill(drawn.first(), entry);
    }
    // SAFETY:
    // - the one ticket was drawn and filled above
    #[expect(unsafe_code, reason = "commits an entry")]
    unsafe {
        queue.commit(drawn);
    }
    let started = Machine::clock();
    // Ends: at the time's end, or before.
    loop {
        queue.drain_alone(64);
        let (its, own) = (queue.outcome(operation), queue.outcome(cancelling));
        if let (Outcome::Done(value), Outcome::Done(_)) = (its, own) {
            queue.release(claim);
            return Some(timed_out_if_cancelled(value));
        }
        if queue.has_failed() || Machine::clock().saturating_sub(started) > CANCEL_NS {
            if let Outcome::Done(_) = own {
                queue.release(claim);
            }
            // ORDERING: relaxed: a counter, read by the thread that counts.
            queue.counters().abandoned.count(1);
            return match its {
                Outcome::Done(value) => Some(timed_out_if_cancelled(value)),
                _ => None,
            };
        }
        Machine::nap(NAP_NS);
    }
}

/// The result of an operation that was asked to end: what it did before it was, or that its time was over.
fn timed_out_if_cancelled(value: i32) -> i32 {
    match Errno::check(value) {
        Err(Errno::CANCELED | Errno::INTR) => -Errno::TIMEDOUT.number(),
        _ => value,
    }
}

/// How many operations of a ring and of the ring for services were given up and are in flight, as far as the caller may have done so: memory that
/// was theirs when the number was smaller may still be.
#[inline]
pub(crate) fn abandoned(session: &SessionTables, ring: u32) -> u64 {
    // ORDERING: relaxed: the caller's own thread counts; what others count only keeps memory that could be given back.
    let of = |ring: u32| session.all_queues()[ring as usize].counters().abandoned.peek();
    if Machine::is_host() { of(ring).wrapping_add(of(session.ring_for_services(ring))) } else { 0 }
}

//! Chains of operations that a lane starts and does not wait for: counted whole, with a slot for each link before the first ticket, and all links in
//! one batch ([R-CHAIN-1], [R-CHAIN-2]). What the links are is the caller's business.
#![expect(unsafe_code, reason = "hands buffers to the kernel")]

use gpufs_core::abi::Sqe;
use gpufs_core::session::SessionTables;
use gpufs_core::{Batch, Claim, Errno, Queue, Slot, SlotClaim, Ticket};

use super::start::{Started, await_slot, publish};
use super::{Backoff, draw, slot_hint};
use crate::warp::Lanes;

/// The most links of a chain.
pub(crate) const LINKS_MAX: usize = 4;

/// Counts a chain of so many `links` for each lane that wants one, as far as there may be so many more operations on the ring: whether the lane's
/// was. Convergent; called by `lanes`, whose `links` are the same. [R-CHAIN-1].
pub(crate) fn admit_chain(session: &SessionTables, ring: u32, lanes: Lanes, wants: bool, links: u32) -> bool {
    let wanting = lanes.ballot(wants);
    let queue = &session.queues()[ring as usize];
    let admitted = lanes
        .on_leader_inline(|| if wanting.is_empty() { 0 } else { queue.begin_chains(wanting.count(), links) });
    wants && wanting.rank(lanes.lane()) < admitted
}

/// Takes the count of lanes back whose chain went no further. Convergent; called by `lanes`, whose `links` are the same.
pub(crate) fn dismiss_chain(
    session: &SessionTables,
    ring: u32,
    lanes: Lanes,
    was_admitted: bool,
    links: u32,
) {
    let back = lanes.ballot(was_admitted).count();
    if back > 0 && lanes.is_leader() {
        session.queues()[ring as usize].end_waits(back * links);
    }
}

/// The slots of a lane's chain.
#[derive(Default)]
struct Gathered {
    slots: [u32; LINKS_MAX],
    count: u32,
}

impl Gathered {
    /// Claims what is missing of `links` slots, as far as there are some; whether it has all. Any lane.
    fn gather(&mut self, queue: &Queue, links: u32, hint: u32) -> bool {
        while self.count < links
            && let Some(claim) = queue.claim(1, hint)
        {
            self.slots[self.count as usize] = claim.item(0);
            self.count += 1;
        }
        self.count == links
    }
    /// Gives back what it has.
    fn release(&self, queue: &Queue) {
        for slot in &self.slots[..self.count as usize] {
            // SAFETY:
            // - claimed above, and nothing was started in it
            queue.release(unsafe { SlotClaim::from_claim(Claim::single(*slot)) });
        }
    }
}

/// Submits the chains of those lanes of which it `goes`, as one batch, and returns when it is published: an operation for each link. Each entry but
/// the last says that it has a next one. Convergent; called by `lanes`, whose chains have as many links; each whose chain goes was admitted
/// ([`admit_chain`]). [R-ASYNC-2], [R-CHAIN-2].
///
/// # Errors
/// Of a thread of the host's, that it gave up waiting for a slot; of a copy of a parent's tables, `EBADF`. It holds nothing then.
///
/// # Safety
/// What an entry refers to stays valid and the kernel's until its operation was found complete ([`Started::look`]), or the session's memory is
/// given back.
pub(crate) unsafe fn start_chain(
    session: &'static SessionTables,
    ring: u32,
    lanes: Lanes,
    goes: bool,
    entries: &[Sqe],
) -> Result<[Option<Started>; LINKS_MAX], Errno> {
    let tables = &session.queues()[ring as usize];
    let queue = &{ *tables };
    #[expect(clippy::cast_possible_truncation, reason = "a few")]
    let links = entries.len() as u32;
    let going = lanes.ballot(goes);
    let mut gathered = Gathered::default();
    let mut backoff = Backoff::new(session);
    let hint = slot_hint(ring).wrapping_mul(7).wrapping_add(lanes.rank());
    // Ends: slots come, and what a lane has it keeps ([P-CHAIN-PROGRESS]).
    while !lanes.all(!goes || gathered.gather(queue, links, hint)) {
        if let Err(errno) = await_slot(session, ring, lanes, &mut backoff) {
            gathered.release(queue);
            dismiss_chain(session, ring, lanes, goes, links);
            return Err(errno);
        }
    }
    let mut started = [const { None }; LINKS_MAX];
    if going.is_empty() {
        return Ok(started);
    }
    // The leader draws for what each lane has claimed: this puts the claims before.
    lanes.sync();
    let count = going.count() * links;
    // SAFETY:
    // - each lane whose chain goes has claimed as many slots as it has links. It fills its tickets below, and the leader commits the batch; nothing
    //   between could fail
    let drawn = unsafe { draw(queue, lanes, count) };
    let first = Ticket(lanes.from_leader(drawn.as_ref().map_or(0, |batch| batch.first().0)));
    if goes {
        let own = first.plus(going.rank(lanes.lane()) * links);
        for (place, entry) in (0..).zip(entries) {
            // SAFETY:
            // - this lane has claimed the slot, and nothing was in flight in it then
            // - it is released when its outcome was seen, by `Started::take` or by the host
            let operation = unsafe { queue.arm(Slot(gathered.slots[place as usize])) };
            // SAFETY:
            // - a ticket of the batch just drawn, this lane's alone by its rank; there is a slot for each
            // - what the entry refers to stays, by this function's contract
            unsafe { queue.fill(own.plus(place), entry.with_user_data(operation.token())) };
            started[place as usize] = Some(Started::of((ring, tables), operation, queue.round(), false));
        }
    }
    lanes.sync();
    let is_next = drawn.as_ref().is_some_and(Batch::is_next);
    if let Some(drawn) = drawn {
        // SAFETY:
        // - drawn above and committed here alone; each lane has filled its tickets, and the barrier puts that before
        unsafe { queue.commit(drawn) };
    }
    publish(session, ring, (tables, is_next), lanes, first.plus(count - 1));
    Ok(started)
}

//! The lock of a stream, a file and the table of shared streams: tickets, served in the order in which they were drawn.
//!
//! The steps of one lane. How a lane waits for its turn is the caller's business: it drains the rings meanwhile.

use crate::word::DeviceWord;

/// First come, first served. The holder may wait for the kernel, never for a lane that is queued after it.
#[derive(Debug, Default)]
#[repr(C)]
pub struct TicketLock {
    /// The next ticket. Written by lanes that draw.
    next: DeviceWord,
    /// The ticket that holds the lock. Written by the holder.
    serving: DeviceWord,
}

impl TicketLock {
    /// Draws a ticket. One lane.
    #[must_use]
    pub fn draw(&self) -> u32 {
        // ORDERING: relaxed: `is_served` acquires.
        self.next.fetch_add_relaxed(1)
    }
    /// Draws `count` tickets, which follow each other; the first. One lane, for as many that wait each by itself.
    #[must_use]
    pub fn draw_many(&self, count: u32) -> u32 {
        // ORDERING: relaxed: `is_served` acquires.
        self.next.fetch_add_relaxed(count)
    }
    /// Takes the lock if no lane holds it or waits for it. For callers that may give up: a ticket that was drawn must be served.
    #[must_use]
    pub fn try_take(&self) -> bool {
        // ORDERING: acquire, device, partner `release`.
        let ticket = self.serving.observe();
        // ORDERING: acquire and release, device; where it succeeds, the ticket drawn is the one that is served.
        self.next.compare_exchange(ticket, ticket.wrapping_add(1)).is_ok()
    }
    /// Whether the ticket's turn has come: then the lock is its holder's.
    #[must_use]
    pub fn is_served(&self, ticket: u32) -> bool {
        // ORDERING: acquire, device, partner `release`.
        self.serving.observe() == ticket
    }
    /// How many lanes hold the lock or wait for it: a hint.
    #[must_use]
    pub fn queued(&self) -> u32 {
        // ORDERING: relaxed: a hint.
        self.next.peek().wrapping_sub(self.serving.peek())
    }
    /// Frees the lock of a holder and of queued lanes that are gone. While no kernel runs.
    pub fn reset(&self) {
        // ORDERING: relaxed: the next launch publishes it.
        self.serving.set(self.next.peek());
    }
    /// Hands the lock to the next ticket. The holder.
    pub fn release(&self) {
        // ORDERING: release, device, partner `is_served`. Only the holder writes the word.
        self.serving.publish(self.serving.peek().wrapping_add(1));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::TicketLock;
    use crate::word::DeviceWord;

    #[test]
    fn a_ticket_lock_comes_round() {
        let begin = u32::MAX - 2;
        let lock = TicketLock { next: DeviceWord::new(begin), serving: DeviceWord::new(begin) };
        let tickets: Vec<u32> = (0..6).map(|_| lock.draw()).collect();
        assert_eq!(lock.queued(), 6);
        for ticket in &tickets {
            assert!(tickets.iter().all(|other| lock.is_served(*other) == (other == ticket)));
            lock.release();
        }
        assert_eq!((lock.queued(), lock.draw()), (0, 3));
        let _ = lock.draw();
        lock.reset();
        assert_eq!(lock.queued(), 0);
    }
}

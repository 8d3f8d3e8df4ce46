//! Who may use a session's tables on the host: a count of the calls that are inside, beside whether the tables are a session's at all.
//!
//! The lanes of a session's own launches need no gate: a session waits for them before it closes. Every other call on the host, of a thread
//! or of a lane of another session's, goes through it: it may come at any time, also when the session is closed and its rings are unmapped,
//! or when another session has the tables. A gate is never unmapped. Nothing of it exists on a GPU, whose launches are all its session's own.
//!
//! A gate's state is one word:
//!
//! ```text
//! 63 … 35     34          33         32       31 … 0
//! unused      elsewhere   excluded   closed   calls that are inside, or are about to find that they may not be
//! ```
//!
//! A call adds itself, then looks at the flags that its addition found, and takes itself back where one is set. The closer sets the flag, then
//! waits until nobody is inside. Additions to one word have one order: a call that came before the flag is waited for, and one that came after
//! has seen it, and touches nothing (`gpufs-core/tests/loom_gate.rs`).

use crate::word::DeviceWord64;

/// No session has the tables.
const CLOSED: u64 = 1 << 32;
/// The host works on the tables alone.
const EXCLUDED: u64 = 1 << 33;
/// The tables are a GPU's, and the host's are not the newest.
const ELSEWHERE: u64 = 1 << 34;
/// The count.
const INSIDE: u64 = CLOSED - 1;

/// See the module's documentation.
#[derive(Debug)]
pub struct Gate {
    state: DeviceWord64,
    /// The session that has the tables, or had them last; 0 before the first. Each session of a process has a number of its own.
    session: DeviceWord64,
}

/// What a call found at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a call that is inside leaves again"]
pub enum Entry {
    /// It is inside, until [`Gate::leave`].
    Inside,
    /// The session is closed.
    Closed,
    /// The host works on the tables alone: try again.
    Excluded,
    /// The tables are a GPU's now.
    Elsewhere,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self { state: DeviceWord64::new(CLOSED), session: DeviceWord64::new(0) }
    }

    /// The session that has the tables, or had them last; 0 before the first.
    #[must_use]
    pub fn session(&self) -> u64 {
        // ORDERING: relaxed: a call that is inside has it from `enter`; for others it is a number to compare.
        self.session.peek()
    }

    /// Enters, for a call on the tables of `session`; 0 for a call that finds out by itself whose they are.
    pub fn enter(&self, session: u64) -> Entry {
        // ORDERING: acquire and release, partner `open` and `admit`: the tables are as they left them. Partner `close` and `exclude`: the
        // addition comes before their flag, and they wait for `leave`, or it has seen it.
        let before = self.state.fetch_add(1);
        let entry = match before & !INSIDE {
            // ORDERING: relaxed: acquired with the state, and constant while a call is inside.
            0 if session == 0 || self.session.peek() == session => return Entry::Inside,
            0 => Entry::Closed,
            flags if flags & CLOSED != 0 => Entry::Closed,
            flags if flags & EXCLUDED != 0 => Entry::Excluded,
            _ => Entry::Elsewhere,
        };
        self.leave();
        entry
    }

    /// Leaves, after [`Entry::Inside`].
    pub fn leave(&self) {
        // ORDERING: acquire and release, partner `is_empty`: what the call did comes before.
        self.state.fetch_sub(1);
    }

    /// Whether no call is inside.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // ORDERING: acquire, partner `leave`.
        self.state.observe() & INSIDE == 0
    }

    /// Gives the tables of a closed gate to `session`, a number that no other session has. They are a GPU's where `elsewhere` says so: calls
    /// on the host are let in between [`Gate::lend`] and [`Gate::take_back`] alone.
    pub fn open(&self, session: u64, elsewhere: bool) {
        // ORDERING: relaxed: published with the state.
        self.session.set(session);
        // ORDERING: acquire and release, partner `enter`.
        self.state.fetch_add(if elsewhere { ELSEWHERE.wrapping_sub(CLOSED) } else { CLOSED.wrapping_neg() });
    }

    /// Lets no call in any more. The caller then waits until [`Gate::is_empty`].
    pub fn close(&self) {
        // ORDERING: acquire and release, partner `enter`.
        let before = self.state.fetch_add(CLOSED);
        if before & ELSEWHERE != 0 {
            self.state.fetch_sub(ELSEWHERE);
        }
    }

    /// Lets no call in until [`Gate::admit`]. The caller then waits until [`Gate::is_empty`].
    pub fn exclude(&self) {
        // ORDERING: acquire and release, partner `enter`.
        self.state.fetch_add(EXCLUDED);
    }

    /// Ends [`Gate::exclude`].
    pub fn admit(&self) {
        // ORDERING: acquire and release, partner `enter`: what the host did alone comes before.
        self.state.fetch_sub(EXCLUDED);
    }

    /// Whether calls on the host find the tables elsewhere.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        // ORDERING: relaxed: changed by the caller alone.
        self.state.peek() & ELSEWHERE != 0
    }

    /// Lets calls on the host in, on the tables of a GPU while it runs nothing.
    pub fn lend(&self) {
        // ORDERING: acquire and release, partner `enter`.
        self.state.fetch_sub(ELSEWHERE);
    }

    /// Ends [`Gate::lend`]. The caller then waits until [`Gate::is_empty`].
    pub fn take_back(&self) {
        // ORDERING: acquire and release, partner `enter`.
        self.state.fetch_add(ELSEWHERE);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Entry, Gate};

    #[test]
    fn a_gate_lets_in_while_its_session_is_open() {
        let gate = Gate::new();
        assert_eq!((gate.enter(0), gate.enter(7), gate.session()), (Entry::Closed, Entry::Closed, 0));
        gate.open(7, false);
        assert_eq!(
            (gate.enter(0), gate.enter(7), gate.enter(8)),
            (Entry::Inside, Entry::Inside, Entry::Closed)
        );
        gate.exclude();
        assert_eq!((gate.enter(7), gate.is_empty()), (Entry::Excluded, false));
        gate.leave();
        gate.leave();
        assert!(gate.is_empty());
        gate.admit();
        assert_eq!(gate.enter(7), Entry::Inside);
        gate.close();
        assert_eq!((gate.enter(7), gate.enter(0), gate.is_empty()), (Entry::Closed, Entry::Closed, false));
        assert_eq!(gate.session(), 7, "its own lanes go on");
        gate.leave();
        assert!(gate.is_empty());
        gate.open(8, false);
        assert_eq!(
            (gate.enter(7), gate.enter(8)),
            (Entry::Closed, Entry::Inside),
            "a later session's tables"
        );
    }

    #[test]
    fn tables_of_a_gpu_are_lent() {
        let gate = Gate::new();
        gate.open(3, true);
        assert_eq!((gate.enter(3), gate.is_elsewhere()), (Entry::Elsewhere, true));
        gate.lend();
        assert_eq!(gate.enter(3), Entry::Inside);
        gate.leave();
        gate.take_back();
        assert_eq!(gate.enter(3), Entry::Elsewhere);
        gate.close();
        assert_eq!((gate.enter(3), gate.is_elsewhere()), (Entry::Closed, false));
        gate.open(4, false);
        assert_eq!(gate.enter(4), Entry::Inside);
    }
}

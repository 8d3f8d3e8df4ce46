//! The state of a block, in one word: what may be done with it, who owns it, and which operation carries it. The same for a block of a stream
//! that is written and for a place of one that is read ahead.
//!
//! ```text
//! written:     FILLING ──fill──► FULL ──claim_full──► CLAIMED ──submit──► IN FLIGHT ──claim_in_flight──► CLAIMED ──► FILLING, or FULL
//!                 ▲               │
//!                 └───take_back───┘ (what could not be written is dropped, under the lock)
//!
//! read ahead:  FILLING ──claim_filling──► CLAIMED ──submit──► IN FLIGHT ──claim_in_flight──► CLAIMED ──► FULL
//!                 ▲                                                                                       │ claim_full
//!                 └──recycle── PUBLISHED ◄── CLAIMED ◄──claim_indexed── INDEXED ◄── CLAIMED ◄─────────────┘
//! ```
//!
//! CLAIMED belongs to one lane, or to the warp that it leads, which waits for nothing until it leaves the state. A state that several lanes
//! may leave is left by an exchange, and one of them succeeds. Every other transition is made by the owner, by a store; a debug build
//! asserts the state that it leaves.

use crate::ring::Operation;
use crate::word::DeviceWord64;

/// An operation in flight, by its ring, its slot and the slot's generation. It does not come again while anybody holds it (see
/// [`crate::protocol::wrapping`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Token(u64);

impl Token {
    /// Where the ring is kept: slots are below 2²⁴.
    const RING_SHIFT: u32 = 24;
    const RING: u64 = 0xff << Self::RING_SHIFT;
    /// Generations begin at 1.
    const SMALLEST: u64 = 1 << 32;

    /// The token of an operation on `ring`.
    #[must_use]
    #[inline]
    pub const fn new(ring: u32, operation: Operation) -> Self {
        Self(operation.token() | (ring as u64) << Self::RING_SHIFT)
    }
    /// The token of a word that [`Token::word`] made: of a state, or of the journal.
    #[must_use]
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }
    /// The token as a word, never 0.
    #[must_use]
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }
    /// The ring, and the operation on it.
    #[must_use]
    #[inline]
    pub const fn parts(self) -> (u32, Operation) {
        #[allow(clippy::cast_possible_truncation, reason = "the ring's eight bits")]
        let ring = (self.0 >> Self::RING_SHIFT) as u32 & 0xff;
        (ring, Operation::from_token(self.0 & !Self::RING))
    }
}

/// What a block's word says. In the order of the words, so that a device needs no table for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Bytes are still to come. Written: committers fill it. Read ahead: its next read was not started.
    Filling,
    /// All of its bytes are there. Written: a lane has to start its write. Read ahead: a warp has to index it.
    Full,
    /// One lane owns it, and leaves the state without waiting.
    Claimed,
    /// Read ahead: its lines are known, and the block before has to be published first.
    Indexed,
    /// Read ahead: its lines may be taken.
    Published,
    /// The kernel owns its buffer until the operation has completed; the lane that then claims it goes on.
    InFlight(Token),
}

impl State {
    const FILLING: u64 = 0;
    const FULL: u64 = 1;
    const CLAIMED: u64 = 2;
    const INDEXED: u64 = 3;
    const PUBLISHED: u64 = 4;

    #[inline]
    const fn word(self) -> u64 {
        match self {
            Self::Filling => Self::FILLING,
            Self::Full => Self::FULL,
            Self::Claimed => Self::CLAIMED,
            Self::Indexed => Self::INDEXED,
            Self::Published => Self::PUBLISHED,
            Self::InFlight(token) => token.0,
        }
    }
    #[inline]
    const fn from_word(word: u64) -> Self {
        if word >= Token::SMALLEST {
            return Self::InFlight(Token(word));
        }
        match word {
            Self::FILLING => Self::Filling,
            Self::FULL => Self::Full,
            Self::CLAIMED => Self::Claimed,
            Self::INDEXED => Self::Indexed,
            _ => Self::Published,
        }
    }
}

/// The word. A free block of zeroed memory is FILLING.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct BlockState(DeviceWord64);

impl BlockState {
    /// The state. Acquires what its last owner did before it left the block in it.
    #[inline]
    #[must_use]
    pub fn observe(&self) -> State {
        // ORDERING: acquire, device, partner whoever made the transition: each is a release.
        State::from_word(self.0.observe())
    }
    /// Whether the block is in `state`. Acquires what its last owner did before it left the block in it.
    #[inline]
    #[must_use]
    pub fn is(&self, state: State) -> bool {
        // ORDERING: acquire, device, partner whoever made the transition: each is a release.
        self.0.observe() == state.word()
    }
    /// Whether the block seems to be in `state`: a hint, or for the owner, or while no kernel runs.
    #[inline]
    #[must_use]
    pub fn seems(&self, state: State) -> bool {
        // ORDERING: relaxed: a lane that goes on by it makes a transition, which looks again.
        self.0.peek() == state.word()
    }
    /// The operation in flight. Acquires what the submitter did before.
    ///
    /// # Errors
    /// Whether the block is CLAIMED, if it is not in flight.
    #[inline]
    pub fn token(&self) -> Result<Token, bool> {
        // ORDERING: acquire, device, partner `submit`.
        let word = self.0.observe();
        if word < Token::SMALLEST { Err(word == State::CLAIMED) } else { Ok(Token(word)) }
    }
    /// The state: a hint, or for the owner, or while no kernel runs.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> State {
        // ORDERING: relaxed: a lane that goes on by it makes a transition, which looks again.
        State::from_word(self.0.peek())
    }

    // States that several lanes may leave.

    /// FULL → CLAIMED; whether it was FULL, and the block is the caller's.
    #[inline]
    #[must_use = "a block that was claimed has to be left in another state"]
    pub fn claim_full(&self) -> bool {
        self.exchange(State::FULL, State::CLAIMED)
    }
    /// FILLING → CLAIMED, by a lane that starts a read; whether the block is the caller's.
    #[inline]
    #[must_use = "a block that was claimed has to be left in another state"]
    pub fn claim_filling(&self) -> bool {
        self.exchange(State::FILLING, State::CLAIMED)
    }
    /// INDEXED → CLAIMED; whether the block is the caller's.
    #[inline]
    #[must_use = "a block that was claimed has to be left in another state"]
    pub fn claim_indexed(&self) -> bool {
        self.exchange(State::INDEXED, State::CLAIMED)
    }
    /// IN FLIGHT → CLAIMED, by a lane that has seen the operation complete; whether the block is the caller's.
    #[inline]
    #[must_use = "a block that was claimed has to be left in another state"]
    pub fn claim_in_flight(&self, token: Token) -> bool {
        self.exchange(token.0, State::CLAIMED)
    }
    /// FULL → FILLING, by the lock's holder, who drops what could not be written; whether no starter was faster.
    #[inline]
    #[must_use = "a starter may have been faster"]
    pub fn take_back(&self) -> bool {
        self.exchange(State::FULL, State::FILLING)
    }
    #[inline]
    fn exchange(&self, from: u64, to: u64) -> bool {
        // ORDERING: acquire and release, device: one lane succeeds. Acquire: partner whoever left the block in this state, whose doing comes
        // before. Release: partner whoever observes the new state.
        self.0.compare_exchange(from, to).is_ok()
    }

    // States that one lane leaves.

    /// FILLING → FULL, by the committer that has counted in the last bytes (or for one that is gone, while no kernel runs).
    #[inline]
    pub fn fill(&self) {
        debug_assert_eq!(self.peek(), State::Filling, "filled once");
        self.publish(State::FULL);
    }
    /// CLAIMED → IN FLIGHT, before the operation is published: its slot's new generation comes before the token. Or FILLING → IN FLIGHT, by the
    /// lock's holder, who writes a block that is not full, with everything reserved in it committed.
    #[inline]
    pub fn submit(&self, token: Token) {
        debug_assert!(matches!(self.peek(), State::Claimed | State::Filling), "the owner submits");
        debug_assert!(token.0 >= Token::SMALLEST, "a state");
        self.publish(token.0);
    }
    /// CLAIMED → FILLING: the block is ready for bytes.
    #[inline]
    pub fn release_filling(&self) {
        self.release(State::FILLING);
    }
    /// CLAIMED → FULL. Written: it still has to be written. Read ahead: it was read.
    #[inline]
    pub fn release_full(&self) {
        self.release(State::FULL);
    }
    /// CLAIMED → FULL or FILLING, after a write that failed: the block is as it was before.
    #[inline]
    pub fn release_unwritten(&self, full: bool) {
        self.release(if full { State::FULL } else { State::FILLING });
    }
    /// CLAIMED → INDEXED.
    #[inline]
    pub fn release_indexed(&self) {
        self.release(State::INDEXED);
    }
    /// CLAIMED → PUBLISHED, before the lines can be taken.
    #[inline]
    pub fn release_published(&self) {
        self.release(State::PUBLISHED);
    }
    #[inline]
    fn release(&self, to: u64) {
        debug_assert_eq!(self.peek(), State::Claimed, "the owner leaves it");
        self.publish(to);
    }
    /// PUBLISHED → FILLING, by the lane that has counted the last of its lines as taken.
    #[inline]
    pub fn recycle(&self) {
        debug_assert_eq!(self.peek(), State::Published, "lines were taken");
        self.publish(State::FILLING);
    }
    #[inline]
    fn publish(&self, word: u64) {
        // ORDERING: release, device, partner `exchange` and `observe`: what the owner did to the block comes before.
        self.0.publish(word);
    }

    // By a lane that has the stream to itself.

    /// IN FLIGHT → FILLING: the operation has completed, and its result is dropped. The lock's holder with nobody present, or while no
    /// kernel runs.
    pub fn drop_completed(&self, token: Token) {
        debug_assert_eq!(self.peek(), State::InFlight(token), "its operation has completed");
        // ORDERING: relaxed: the lock's hand-over publishes it, or no kernel runs.
        self.0.set(State::FILLING);
    }
    /// To FILLING, from any state that is nobody's: CLAIMED and IN FLIGHT are not. The lock's holder with nobody present, or the only user.
    pub fn reset(&self) {
        debug_assert!(!matches!(self.peek(), State::Claimed | State::InFlight(_)), "it is somebody's");
        // ORDERING: relaxed: whatever opens the stream to others publishes it.
        self.0.set(State::FILLING);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{BlockState, State, Token};
    use crate::ring::{Operation, Slot};

    fn token(ring: u32, slot: u32) -> Token {
        Token::new(ring, Operation { slot: Slot(slot), generation: 1 })
    }

    #[test]
    fn a_token_names_ring_and_operation() {
        for (ring, slot, generation) in [(0, 0, 1), (255, 0x00ff_ffff, 1), (3, 7, u32::MAX >> 1)] {
            let operation = Operation { slot: Slot(slot), generation };
            let token = Token::new(ring, operation);
            assert_eq!(token.parts(), (ring, operation));
            assert_eq!(State::from_word(token.word()), State::InFlight(token));
        }
    }

    /// What a block is, by each of the ways to look.
    fn assert_is(block: &BlockState, state: State) {
        assert_eq!((block.peek(), block.observe()), (state, state));
        let others = [
            State::Filling,
            State::Full,
            State::Claimed,
            State::Indexed,
            State::Published,
            State::InFlight(token(7, 7)),
        ];
        for other in others.into_iter().chain([state]) {
            assert_eq!((block.is(other), block.seems(other)), (other == state, other == state), "{other:?}");
        }
        let token = match state {
            State::InFlight(token) => Ok(token),
            other => Err(other == State::Claimed),
        };
        assert_eq!(block.token(), token);
    }

    #[test]
    fn a_written_block_goes_round() {
        let state = BlockState::default();
        assert_is(&state, State::Filling);
        assert!(!state.claim_full() && !state.take_back());
        state.fill();
        assert_is(&state, State::Full);
        assert!(state.claim_full() && !state.claim_full());
        assert_is(&state, State::Claimed);
        state.submit(token(1, 2));
        assert_is(&state, State::InFlight(token(1, 2)));
        assert!(!state.claim_in_flight(token(1, 3)) && state.claim_in_flight(token(1, 2)));
        state.release_full();
        assert!(state.take_back());
        state.submit(token(0, 0));
        assert!(state.claim_in_flight(token(0, 0)));
        state.release_filling();
        assert_is(&state, State::Filling);
        for (full, left) in [(true, State::Full), (false, State::Filling)] {
            assert!(state.claim_filling());
            state.release_unwritten(full);
            assert_is(&state, left);
            state.reset();
        }
    }

    #[test]
    fn a_place_that_is_read_ahead_goes_round() {
        let state = BlockState::default();
        assert!(state.claim_filling() && !state.claim_filling());
        state.submit(token(0, 5));
        assert!(state.claim_in_flight(token(0, 5)));
        state.release_full();
        assert!(state.claim_full());
        state.release_indexed();
        assert_is(&state, State::Indexed);
        assert!(state.claim_indexed() && !state.claim_indexed());
        state.release_published();
        assert_is(&state, State::Published);
        state.recycle();
        assert!(state.claim_filling());
        state.submit(token(0, 6));
        state.drop_completed(token(0, 6));
        assert_is(&state, State::Filling);
        state.fill();
        state.reset();
        assert_is(&state, State::Filling);
    }

    /// Each transition from a state that is not its own.
    #[cfg(debug_assertions)]
    #[test]
    fn transitions_assert_the_state_that_they_leave() {
        type Transition = fn(&BlockState);
        let claimed = || {
            let state = BlockState::default();
            assert!(state.claim_filling());
            state
        };
        let full = || {
            let state = BlockState::default();
            state.fill();
            state
        };
        let wrong: [(&str, BlockState, Transition); 8] = [
            ("fill", claimed(), BlockState::fill),
            ("submit", full(), |state| state.submit(token(0, 0))),
            ("release_filling", BlockState::default(), BlockState::release_filling),
            ("release_full", BlockState::default(), BlockState::release_full),
            ("release_published", BlockState::default(), BlockState::release_published),
            ("recycle", claimed(), BlockState::recycle),
            ("drop_completed", claimed(), |state| state.drop_completed(token(0, 0))),
            ("reset", claimed(), BlockState::reset),
        ];
        for (name, state, transition) in wrong {
            let state = std::panic::AssertUnwindSafe(state);
            assert!(std::panic::catch_unwind(|| transition(&state)).is_err(), "{name}");
        }
    }
}

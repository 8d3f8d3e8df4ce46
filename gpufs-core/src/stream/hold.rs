//! A stream that a caller keeps for several calls (`flockfile(3)`): the lock stays taken between them.
//!
//! Whoever keeps a stream has an *identity*, a word that is not 0 and that no other has who may keep it at the same time: a lane has one,
//! or a warp whose lanes run in lockstep. The rule ([R-12]): only the lock's holder writes `holder` and `holds`, and it writes `holder` with its
//! own identity or 0. So a caller that finds its own identity there has the lock, without an acquire: it wrote the word itself. Any other
//! value, however old, sends it to the lock.
//!
//! While the stream is kept the cursor is CLOSED and its lines are closed, as whenever the lock is held, so that the fast paths of
//! `fwrite` and `fgets` lead to the lock and look at nothing of this file.

use super::Stream;

impl Stream {
    /// Whether `identity`, not 0, keeps the stream: then the caller has the lock.
    #[must_use]
    pub fn is_kept_by(&self, identity: u64) -> bool {
        // ORDERING: relaxed: if the word is the caller's own, the caller wrote it; coherence keeps what it wrote before from coming back.
        self.holder.peek() == identity
    }
    /// Whether anyone seems to keep the stream: a hint, which spares most callers the question of who they are.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        // ORDERING: relaxed: a hint. A caller that keeps the stream wrote the word itself, and finds it.
        self.holder.peek() != 0
    }
    /// Keeps the stream for `identity`, or keeps it `times` more often. The lock's holder, for itself.
    pub fn keep(&self, identity: u64, times: u32) {
        debug_assert!(self.holder.peek() == 0 || self.is_kept_by(identity), "another keeps the stream");
        // ORDERING: relaxed: `release` publishes the end of it; nobody else relies on these words.
        self.holds.set(self.holds.peek() + times);
        self.holder.set(identity);
    }
    /// Keeps the stream `times` less often, at most as often as it is kept; how often that was. The lock's holder, who keeps the stream. Where
    /// nothing is left, the lock is to be handed on.
    pub fn keep_less(&self, times: u32) -> u32 {
        let taken = times.min(self.holds.peek());
        // ORDERING: relaxed: handing the lock on publishes both.
        self.holds.set(self.holds.peek() - taken);
        if self.holds.peek() == 0 {
            self.holder.set(0);
        }
        taken
    }
    /// Ends all keeping; whether there was any. The lock's holder, or while no kernel runs.
    pub fn let_go(&self) -> bool {
        let was_kept = self.is_kept();
        // ORDERING: relaxed: handing the lock on, or the next launch, publishes both.
        self.holds.set(0);
        self.holder.set(0);
        was_kept
    }
}

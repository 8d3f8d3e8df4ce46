//! Asynchronous operations as futures, and what runs some in one lane.
//!
//! Nothing wakes a lane: it looks at its operations, and at the ring, in turn. So there is no waker, and an executor is a loop.

use core::fmt;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

use gpufs_core::Errno;

use super::{Finished, Pending};
use crate::warp::nap;

/// Between two rounds of a lane that has looked at all of its operations.
const NAP_NS: u32 = 200;

impl Future for Pending {
    type Output = Result<Finished, Errno>;

    /// Ready with [`Pending::wait`]'s result. Polled again after that, `EINVAL`.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.is_done() {
            return Poll::Ready(self.take_over().wait());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Runs a future in the calling lane until it is ready. Each lane has its own.
///
/// Ends when the future does: it is for operations of this crate and what is made of them, which a look brings on.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    // Ends: with the future.
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        nap(NAP_NS);
    }
}

/// Waits for two futures at once: [`join`].
#[must_use = "a future does nothing unless it is polled"]
pub struct Join<A: Future, B: Future> {
    first: Half<A>,
    second: Half<B>,
}

impl<A: Future, B: Future> fmt::Debug for Join<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Join").finish_non_exhaustive()
    }
}

/// One of the two.
enum Half<F: Future> {
    Runs(F),
    Done(Option<F::Output>),
}

impl<F: Future + Unpin> Half<F> {
    /// Whether it is done.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if let Self::Runs(future) = self
            && let Poll::Ready(output) = Pin::new(future).poll(context)
        {
            *self = Self::Done(Some(output));
        }
        matches!(self, Self::Done(_))
    }
    fn take(&mut self) -> Option<F::Output> {
        if let Self::Done(output) = self { output.take() } else { None }
    }
}

/// The results of both of two futures that may be moved ([`Pending`], [`Join`], and others by `pin!`).
pub const fn join<A: Future + Unpin, B: Future + Unpin>(first: A, second: B) -> Join<A, B> {
    Join { first: Half::Runs(first), second: Half::Runs(second) }
}

impl<A: Future + Unpin, B: Future + Unpin> Future for Join<A, B>
where
    A::Output: Unpin,
    B::Output: Unpin,
{
    type Output = (A::Output, B::Output);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Both, whatever the first says.
        let done = [self.first.poll(context), self.second.poll(context)];
        if done == [true; 2]
            && let (Some(first), Some(second)) = (self.first.take(), self.second.take())
        {
            return Poll::Ready((first, second));
        }
        Poll::Pending
    }
}

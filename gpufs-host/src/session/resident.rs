//! A kernel that stays: started, fed, told to stop, drained.

use std::io;

use gpufs_core::Errno;
use gpufs_core::kernel::{Kernel, Portable};
use gpufs_device::channel as lanes;

use super::channels::{ChannelReceiver, ChannelSender};
use super::{RegisterError, Session, SyncError};
use crate::cpu::Grid;

/// A kernel that stays until it is told to stop, with a channel each way. [`Session::stay`] starts one.
///
/// Dropped, it is told to stop, its replies are refused, and it is waited for; what went wrong is said on the standard error.
#[derive(Debug)]
#[must_use = "dropping it stops the kernel"]
pub struct Resident<'s, I: Portable + Copy, O: Portable + Copy> {
    session: &'s mut Session,
    requests: ChannelSender<I>,
    replies: ChannelReceiver<O>,
    finished: bool,
}

/// Why a kernel does not stay.
#[derive(Debug)]
pub enum StayError {
    /// A channel could not be opened.
    Channel(RegisterError),
    /// The kernel could not be started.
    Start(SyncError),
}

impl std::fmt::Display for StayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Channel(error) => error.fmt(f),
            Self::Start(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StayError {}

impl Session {
    /// Starts a kernel that stays, with two channels of at least so many `cells`: `arguments` puts the kernel's ends of them among its arguments. The
    /// kernel receives requests until there are no more, which is when it is told to stop. Each call takes two of the session's registered buffers.
    ///
    /// ```
    /// use gpufs_device::channel::{Receiver, Sender};
    /// use gpufs_host::{Grid, Session};
    ///
    /// gpufs_device::kernel! {
    ///     /// Answers each number with its square.
    ///     pub fn square(fs: Fs, numbers: Receiver<u64>, squares: Sender<u64>) {
    ///         while let Ok(Some(number)) = numbers.receive(fs) {
    ///             if squares.send(fs, number * number).is_err() {
    ///                 break;
    ///             }
    ///         }
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut session = Session::builder().cpu()?;
    /// let grid = Grid { blocks: 1, threads: 32 };
    /// let kernel = session.stay::<square::Entry, u64, u64>(grid, 64, |numbers, squares| square::Arguments {
    ///     numbers,
    ///     squares,
    /// })?;
    /// kernel.requests().send(12)?; // the kernel runs meanwhile
    /// assert_eq!(kernel.replies().receive(), Some(144));
    /// for number in 1..=3 {
    ///     kernel.requests().send(number)?;
    /// }
    /// let mut rest = kernel.finish()?; // told to stop; everything that was sent is answered
    /// rest.sort_unstable();
    /// assert_eq!(rest, [1, 4, 9]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Session::channel_to_kernels`] and [`Session::start`].
    pub fn stay<K: Kernel, I: Portable + Copy, O: Portable + Copy>(
        &mut self,
        grid: Grid,
        cells: u32,
        arguments: impl FnOnce(lanes::Receiver<I>, lanes::Sender<O>) -> K::Arguments,
    ) -> Result<Resident<'_, I, O>, StayError> {
        let (requests, receiver) = self.channel_to_kernels::<I>(cells).map_err(StayError::Channel)?;
        let (replies, sender) = self.channel_from_kernels::<O>(cells).map_err(StayError::Channel)?;
        self.start::<K>(grid, arguments(receiver, sender)).map_err(StayError::Start)?;
        Ok(Resident { session: self, requests, replies, finished: false })
    }
}

impl<I: Portable + Copy, O: Portable + Copy> Resident<'_, I, O> {
    /// What feeds it. Copies may go to other threads.
    #[must_use]
    pub const fn requests(&self) -> &ChannelSender<I> {
        &self.requests
    }
    /// What comes from it. Copies may go to other threads.
    #[must_use]
    pub const fn replies(&self) -> &ChannelReceiver<O> {
        &self.replies
    }
    /// Tells it to stop, and does not wait: no more requests are sent, and those that were are still received.
    pub fn stop(&self) {
        self.requests.close();
    }
    /// Whether it has ended: by itself, by a panic of all its lanes, or because it was told to.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.session.is_finished()
    }
    /// Tells it to stop, takes the replies that nobody else takes, waits for it, and writes what streams hold, as [`Session::synchronize`] does:
    /// those replies.
    ///
    /// # Errors
    /// As [`Session::synchronize`]; the system's refusal of a thread.
    pub fn finish(mut self) -> Result<Vec<O>, SyncError> {
        self.stop();
        self.finished = true;
        let replies = self.replies.clone();
        // It takes replies meanwhile: a kernel may wait for room to send them.
        let taker = std::thread::Builder::new().name("gpufs-replies".into());
        let taker = taker.spawn(move || std::iter::from_fn(|| replies.receive()).collect());
        let taker = match taker {
            Ok(taker) => taker,
            Err(error) => {
                self.replies.close();
                let ended = self.session.synchronize();
                return ended.and(Err(SyncError::Tables(error)));
            }
        };
        let ended = self.session.synchronize();
        self.replies.close();
        let rest: Result<Vec<O>, _> = taker.join();
        let rest = rest.map_err(|_| SyncError::Tables(io::Error::other("the taker of replies panicked")));
        ended.and(rest)
    }
    /// Sends a request, and waits for one reply: for a kernel that answers one by one.
    ///
    /// # Errors
    /// `EPIPE` after [`Resident::stop`].
    pub fn ask(&self, request: I) -> Result<O, Errno> {
        self.requests.send(request)?;
        self.replies.receive().ok_or(Errno::PIPE)
    }
}

impl<I: Portable + Copy, O: Portable + Copy> Drop for Resident<'_, I, O> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        self.stop();
        self.replies.close();
        if let Err(error) = self.session.synchronize() {
            eprintln!("gpufs: while stopping a kernel: {error}");
        }
    }
}

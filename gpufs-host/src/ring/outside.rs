//! A thread that is in no family, and starts others: functions of the program run there.

use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel, sync_channel};

use gpufs_core::Errno;

use super::workers::lock;

type Call = Box<dyn FnOnce() + Send>;

/// Starts a thread for each call. Its own thread ends when it is dropped.
#[derive(Debug)]
pub(super) struct Outside(Mutex<Sender<Call>>);

impl Outside {
    /// The calling thread must be in no family.
    pub(super) fn start() -> std::io::Result<Self> {
        thread().map(|calls| Self(Mutex::new(calls)))
    }
    /// As [`Outside::start`], for this one: later calls have the rights of the calling thread.
    pub(super) fn renew(&self) -> std::io::Result<()> {
        *lock(&self.0) = thread()?;
        Ok(())
    }

    /// The result of `call`, in a thread of its own. `EAGAIN` where there is none to be had.
    pub(super) fn run(
        &self,
        call: impl FnOnce() -> Result<i32, Errno> + Send + 'static,
    ) -> Result<i32, Errno> {
        let (said, heard) = sync_channel(1);
        let call: Call = Box::new(move || {
            let _ = said.send(call());
        });
        lock(&self.0).send(call).map_err(|_| Errno::AGAIN)?;
        heard.recv().unwrap_or(Err(Errno::AGAIN))
    }
}

/// A thread that starts others.
fn thread() -> std::io::Result<Sender<Call>> {
    let (calls, waiting) = channel::<Call>();
    let body = move || {
        super::block_signals();
        // Ends: when the sender is dropped.
        for call in waiting {
            // Without a thread the caller gets an error: nobody answers it.
            let _ = std::thread::Builder::new().name("gpufs-function".into()).spawn(call);
        }
    };
    std::thread::Builder::new().name("gpufs-outside".into()).spawn(body)?;
    Ok(calls)
}

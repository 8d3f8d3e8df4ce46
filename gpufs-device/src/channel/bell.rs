//! The bells of a channel, as a lane has them: `eventfd(2)`s that the host registered.

use gpufs_core::Errno;
use gpufs_core::abi::{CURRENT_POSITION, POLLIN, RWF_NOWAIT};
use gpufs_core::channel::{Bell, ChannelWords};
use gpufs_core::session::{FileIndex, Resources, SessionTables, Target};

use crate::Fs;
use crate::io::{await_until, ring_of_warp, transact_on};
use crate::warp::Lanes;

/// Bytes of an `eventfd(2)`'s count.
const COUNT_BYTES: u32 = 8;

/// A bell, for one lane.
pub(super) struct LaneBell<'a> {
    session: &'a SessionTables,
    alone: Lanes,
    bell: FileIndex,
    words: &'a ChannelWords,
    limit: Option<u64>,
}

impl<'a> LaneBell<'a> {
    pub(super) fn new(
        fs: Fs,
        alone: Lanes,
        bell: FileIndex,
        words: &'a ChannelWords,
        limit: Option<u64>,
    ) -> Self {
        Self { session: fs.session(), alone, bell, words, limit }
    }
    fn target(&self) -> Result<Target, Errno> {
        let (file, flags) = self.session.file_and_flags(self.bell)?;
        Ok(file.target_of(flags, self.bell))
    }
    /// Adds one to its count, or takes the count.
    fn transfer(&self, ringing: bool) -> Result<u32, Errno> {
        let words = if ringing { &self.words.one } else { &self.words.silenced };
        let address = core::ptr::from_ref(words) as u64;
        let index = self.session.region_of(address, COUNT_BYTES.into());
        let entry =
            Resources::transfer(index, ringing, self.target()?, (address, COUNT_BYTES), CURRENT_POSITION);
        // A write needs no such flag, and `eventfd(2)` knows none: the descriptor does not wait.
        let entry = if ringing { entry } else { entry.with_transfer_flags(RWF_NOWAIT) };
        Errno::check(transact_on(self.session, ring_of_warp(self.session), self.alone, Some(entry)))
    }
    /// Rings. Without a bell, which only a kernel that closed it lacks, nobody is woken.
    pub(super) fn ring_it(&self) {
        let _ = self.transfer(true);
    }
}

impl Bell for LaneBell<'_> {
    fn wait(&mut self) -> Result<(), Errno> {
        let in_time = await_until(self.session, self.alone, self.target()?, POLLIN, self.limit)?;
        if in_time { Ok(()) } else { Err(Errno::TIMEDOUT) }
    }
    fn silence(&mut self) {
        // It may be silent already: EAGAIN.
        let _ = self.transfer(false);
    }
    fn ring(&mut self) {
        self.ring_it();
    }
}

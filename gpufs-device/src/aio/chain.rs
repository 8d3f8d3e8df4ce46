//! Chains: operations that the kernel carries out one after the other, started together and waited for later
//! ([io_uring_enter(2)](https://man7.org/linux/man-pages/man2/io_uring_enter.2.html), `IOSQE_IO_LINK`).

use gpufs_core::abi::{IORING_FSYNC_DATASYNC, Sqe};
use gpufs_core::alloc::{BufferPool, Staged};
use gpufs_core::session::{Resources, Target};
use gpufs_core::{Call, Errno};

use super::Pending;
use super::start::{At, BYTES_MAX};
use crate::Fs;
use crate::file::Descriptor;
use crate::io::{Flow, admit_chain, copy_lanes, dismiss_chain, ring_of_warp, slot_hint, start_chain};
use crate::warp::Lanes;

/// The most links of a chain.
pub const LINKS_MAX: usize = crate::io::LINKS_MAX;

/// An operation of a chain, on a file that has positions. It moves [`BYTES_MAX`] bytes at most.
#[derive(Clone, Copy, Debug)]
pub enum Link<'a> {
    /// Reads `bytes` bytes from `offset` (bytes from the start) on, as `pread(2)`. Where there are fewer the read is short.
    Pread {
        /// The file.
        descriptor: Descriptor,
        /// How many bytes.
        bytes: usize,
        /// From where on.
        offset: u64,
    },
    /// Writes `from` at `offset`, as `pwrite(2)`. The bytes are copied when the chain is started.
    Pwrite {
        /// The file.
        descriptor: Descriptor,
        /// What.
        from: &'a [u8],
        /// Where.
        offset: u64,
    },
    /// Writes at `offset` what the link before it, a [`Link::Pread`], reads: all of that, for a read that is short ends the chain. The bytes are then
    /// with this link's result, and no longer with the read's.
    PwriteRead {
        /// The file.
        descriptor: Descriptor,
        /// Where.
        offset: u64,
    },
    /// `fsync(2)`.
    Fsync(Descriptor),
    /// `fdatasync(2)`.
    Fdatasync(Descriptor),
}

/// What a link comes to.
#[derive(Clone, Copy)]
enum Work {
    /// In the direction of `writing`, of the memory of this link, or with `reads_before` of that of the link before.
    Transfer {
        writing: bool,
        reads_before: bool,
        target: Target,
        offset: u64,
    },
    Sync {
        number: i32,
        flags: u32,
    },
}

/// A link that was checked.
#[derive(Clone, Copy)]
struct Planned {
    work: Work,
    /// How many bytes it moves.
    bytes: u64,
    /// Where they are copied from when the chain is started; 0 for nowhere.
    from: u64,
}

impl Planned {
    const NOTHING: Self = Self { work: Work::Sync { number: -1, flags: 0 }, bytes: 0, from: 0 };

    const fn reads_before(&self) -> bool {
        matches!(self.work, Work::Transfer { reads_before: true, .. })
    }
    /// Bytes of memory that it claims.
    const fn claims(&self) -> u64 {
        if self.reads_before() { 0 } else { self.bytes }
    }
}

/// The links of a lane's chain: the first `count` of them.
type Plan = [Planned; LINKS_MAX];

impl Fs {
    /// Starts a chain: the kernel begins each link when the one before it has ended, and where one fails or moves fewer bytes than it was to, those
    /// behind it are not done. Each has a result of its own, in the order of `links`.
    ///
    /// ```
    /// # use gpufs_device::{Errno, Fs, aio::Link, file::Descriptor};
    /// /// Appends a record to a log that is `end` bytes long, and has it on the device before `commit` says so.
    /// fn append(fs: Fs, log: Descriptor, end: u64, record: &[u8], commit: &[u8]) -> Result<(), Errno> {
    ///     let [written, _, committed, synced] = fs.start_chain([
    ///         Link::Pwrite { descriptor: log, from: record, offset: end },
    ///         Link::Fdatasync(log),
    ///         Link::Pwrite { descriptor: log, from: commit, offset: 0 },
    ///         Link::Fdatasync(log),
    ///     ])?;
    ///     // The lane computes meanwhile.
    ///     synced.wait()?;
    ///     committed.wait().and(written.wait()).map(|_| ())
    /// }
    /// ```
    ///
    /// A link that is not done has the result `ECANCELED`. [`Pending::cancel`] of the link that runs ends the chain as an error does; one that has
    /// not begun is not found ([`Cancel::NotCanceled`](super::Cancel::NotCanceled)).
    ///
    /// # Errors
    /// Nothing was started then. `EAGAIN`: there is no room for all links ([module documentation](crate::aio)). `EINVAL`: there is no link, or
    /// there are more than [`LINKS_MAX`]; one moves more than [`BYTES_MAX`] bytes; a [`Link::PwriteRead`] is not behind a read. `EBADF`: a file is
    /// not open, or not for this. `ESPIPE`: a file that may wait for another party, such as a pipe, and one whose position others share, as that of
    /// a standard stream. What a link itself meets is [`Pending::wait`]'s.
    pub fn start_chain<const N: usize>(self, links: [Link<'_>; N]) -> Result<[Pending; N], Errno> {
        self.start_links(&links, false).map(|started| self.as_many(started))
    }

    /// [`Fs::start_chain`] in which each link is done whatever became of those before it.
    ///
    /// # Errors
    /// As [`Fs::start_chain`]; `EINVAL` for a [`Link::PwriteRead`] too, since nobody would know what was read.
    pub fn start_sequence<const N: usize>(self, links: [Link<'_>; N]) -> Result<[Pending; N], Errno> {
        self.start_links(&links, true).map(|started| self.as_many(started))
    }

    fn as_many<const N: usize>(self, mut started: [Option<Pending>; LINKS_MAX]) -> [Pending; N] {
        // There are as many as links: another number of them was refused.
        core::array::from_fn(|place| {
            started.get_mut(place).and_then(Option::take).unwrap_or_else(|| Pending::ended(self))
        })
    }

    /// [`Fs::start_chain`], or with `always` [`Fs::start_sequence`], of as many links as there are. The first so many results are theirs.
    ///
    /// # Errors
    /// As those.
    pub fn start_links(
        self,
        links: &[Link<'_>],
        always: bool,
    ) -> Result<[Option<Pending>; LINKS_MAX], Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::StartChain);
        let plan = self.plan(links, always);
        let count = plan.map_or(1, |_| links.len());
        // In a group the lanes' chains have as many links.
        let started = lanes.grouped(count as u64, |lanes| self.start_planned(lanes, plan, count, always));
        self.told(Call::StartChain, started)
    }

    /// Checks the links of a chain.
    fn plan(self, links: &[Link<'_>], always: bool) -> Result<Plan, Errno> {
        if links.is_empty() || links.len() > LINKS_MAX {
            return Err(Errno::INVAL);
        }
        let mut plan = [Planned::NOTHING; LINKS_MAX];
        // What the link before reads.
        let mut read = None;
        for (planned, link) in plan.iter_mut().zip(links) {
            (*planned, read) = match *link {
                Link::Pread { descriptor, bytes, offset } => {
                    let planned = self.plan_transfer((false, false), descriptor, (0, bytes), offset)?;
                    (planned, Some(bytes))
                }
                Link::Pwrite { descriptor, from, offset } => {
                    let memory = (from.as_ptr() as u64, from.len());
                    (self.plan_transfer((true, false), descriptor, memory, offset)?, None)
                }
                Link::PwriteRead { descriptor, offset } => {
                    let bytes = read.filter(|_| !always).ok_or(Errno::INVAL)?;
                    (self.plan_transfer((true, true), descriptor, (0, bytes), offset)?, None)
                }
                Link::Fsync(descriptor) => (self.plan_sync(descriptor, 0)?, None),
                Link::Fdatasync(descriptor) => (self.plan_sync(descriptor, IORING_FSYNC_DATASYNC)?, None),
            };
        }
        Ok(plan)
    }

    fn plan_transfer(
        self,
        (writing, reads_before): (bool, bool),
        descriptor: Descriptor,
        (from, bytes): (u64, usize),
        offset: u64,
    ) -> Result<Planned, Errno> {
        if bytes > BYTES_MAX {
            return Err(Errno::INVAL);
        }
        let transfer = self.transfer(writing, descriptor, (from, bytes), At::Offset(offset))?;
        // [R-CHAIN-4]
        if transfer.asked.endless {
            return Err(Errno::SPIPE);
        }
        let work = Work::Transfer { writing, reads_before, target: transfer.target, offset: transfer.offset };
        Ok(Planned { work, bytes: transfer.asked.bytes, from })
    }

    fn plan_sync(self, descriptor: Descriptor, flags: u32) -> Result<Planned, Errno> {
        let number = self.session().process_descriptor(descriptor)?;
        Ok(Planned { work: Work::Sync { number, flags }, ..Planned::NOTHING })
    }

    /// Starts the lanes' chains, of `count` links each. Convergent; called by `lanes`. [R-CHAIN-1].
    fn start_planned(
        self,
        lanes: Lanes,
        plan: Result<Plan, Errno>,
        count: usize,
        always: bool,
    ) -> Result<[Option<Pending>; LINKS_MAX], Errno> {
        let session = self.session();
        let ring = ring_of_warp(session);
        let links = count as u32;
        let admitted = admit_chain(session, ring, lanes, plan.is_ok(), links);
        let planned = plan.unwrap_or([Planned::NOTHING; LINKS_MAX]);
        let hint = slot_hint(ring).wrapping_mul(7).wrapping_add(lanes.rank());
        let claimed = if admitted { self.claim_memory(&planned, hint) } else { None };
        let goes = claimed.is_some();
        dismiss_chain(session, ring, lanes, admitted && !goes, links);
        let mut memory = claimed.unwrap_or([None; LINKS_MAX]);
        for (planned, memory) in planned.iter().zip(&memory).take(count) {
            let bytes =
                if planned.from == 0 { 0 } else { memory.map_or(0, |memory| u64::from(memory.bytes)) };
            let to = memory.map_or(0, |memory| memory.address);
            // SAFETY:
            // - one end is the lane's staging memory, the other what its caller gave for the call; the barrier below puts the copies before
            unsafe { copy_lanes(session, lanes, Flow::Out, (to, planned.from, bytes)) };
        }
        lanes.sync();
        // [R-CHAIN-5]
        for place in 1..count {
            if planned[place].reads_before() {
                memory[place] = memory[place - 1].take();
            }
        }
        let mut entries = [Sqe::nop(); LINKS_MAX];
        for (place, entry) in entries.iter_mut().enumerate().take(count) {
            let of =
                if planned.get(place + 1).is_some_and(Planned::reads_before) { place + 1 } else { place };
            let made = self.link_entry(&planned[place], memory[of]);
            *entry = if place + 1 < count { made.with_next(always) } else { made };
        }
        // SAFETY:
        // - the entries refer to staging memory alone, which is released when the last operation that has it is complete
        let started = unsafe { start_chain(session, ring, lanes, goes, &entries[..count]) };
        match started {
            Ok(started) if goes => {
                let mut memory = memory.into_iter();
                Ok(started.map(|started| {
                    let memory = memory.next().flatten();
                    started.map(|started| Pending::new(self, started, memory))
                }))
            }
            Ok(_) => plan.and(Err(Errno::AGAIN)),
            Err(errno) => {
                self.release_memory(&memory);
                plan.and(Err(errno))
            }
        }
    }

    /// Claims the memory of all links of a lane, or none of it. Waits for nothing.
    fn claim_memory(self, planned: &Plan, hint: u32) -> Option<[Option<Staged>; LINKS_MAX]> {
        let pool = self.session().async_buffers;
        let mut memory = [None; LINKS_MAX];
        for (place, planned) in planned.iter().enumerate().filter(|(_, planned)| planned.claims() > 0) {
            let Some(claim) = pool.claim_whole(planned.claims(), hint) else {
                self.release_memory(&memory);
                return None;
            };
            let (address, bytes) = (pool.address(claim.item(0)), planned.bytes as u32);
            memory[place] = Some(Staged { claim, address, bytes });
        }
        Some(memory)
    }

    fn release_memory(self, memory: &[Option<Staged>; LINKS_MAX]) {
        for memory in memory.iter().flatten() {
            self.session().async_buffers.free.release(memory.claim);
        }
    }

    /// The entry of a link, which has this memory.
    fn link_entry(self, planned: &Planned, memory: Option<Staged>) -> Sqe {
        let index = self.session().async_buffers.buffer_index;
        let index = (index != BufferPool::UNREGISTERED).then_some(index);
        match (planned.work, memory) {
            (Work::Transfer { writing, target, offset, .. }, Some(memory)) => {
                Resources::transfer(index, writing, target, (memory.address, memory.bytes), offset)
            }
            // Of no bytes, of a file that was looked at.
            (Work::Transfer { .. }, None) => Sqe::nop(),
            (Work::Sync { number, flags }, _) => Sqe::fsync(number, flags),
        }
    }
}

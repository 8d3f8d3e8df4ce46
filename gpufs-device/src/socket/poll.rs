//! `poll(2)`: what of several descriptors is ready, with a limit on the wait.

use gpufs_core::abi::{self, PollFd, Sqe};
use gpufs_core::failures::counted;
use gpufs_core::session::{FileIndex, SessionTables, Target};
use gpufs_core::{Call, Errno};

use crate::Fs;
use crate::io::{await_until, serve, staged_whole};
use crate::warp::{Lanes, Machine, Warp, nap};

/// The most descriptors of one call.
pub const POLL_MAX: usize = 512;
/// There is something to read, or a connection to accept.
pub const POLLIN: i16 = abi::POLLIN as i16;
/// There is urgent data.
pub const POLLPRI: i16 = 2;
/// There is room to write, or a connection was made.
pub const POLLOUT: i16 = abi::POLLOUT as i16;
/// It has failed. Always looked for.
pub const POLLERR: i16 = 8;
/// The peer has closed both directions. Always looked for.
pub const POLLHUP: i16 = 0x10;
/// The descriptor is not open. Always looked for.
pub const POLLNVAL: i16 = 0x20;
/// The peer sends no more.
pub const POLLRDHUP: i16 = 0x2000;

const ENTRY_BYTES: u32 = size_of::<PollFd>() as u32;
const NANOSECONDS_OF_A_MILLISECOND: u64 = 1_000_000;
/// The longest nap of a wait for nothing but the time.
const NAP_NS_MAX: u64 = 1_000_000;

impl Fs {
    /// Waits until one of several descriptors is ready, as [poll(2)](https://man7.org/linux/man-pages/man2/poll.2.html): how many have something in
    /// `revents`. Each entry names a descriptor by its number ([`Descriptor::0`](crate::file::Descriptor)). `timeout` is in milliseconds of the
    /// device's clock: 0 looks and does not wait, a negative one waits for ever. With no entries it is a sleep.
    ///
    /// # Errors
    /// `EINVAL` for more than [`POLL_MAX`] entries.
    pub fn poll(self, all: &mut [PollFd], timeout: i32) -> Result<usize, Errno> {
        let session = self.session();
        let started = Machine::clock();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Poll);
        let fits = all.len() <= POLL_MAX;
        let looked = look(session, lanes, fits.then_some(&mut *all));
        let ready = if fits { looked } else { Err(Errno::INVAL) };
        let waits = timeout != 0 && ready == Ok(0);
        let waiting = lanes.ballot(waits);
        if !waits {
            return counted(session, Call::Poll, ready);
        }
        let end_ns = u64::try_from(timeout)
            .ok()
            .map(|timeout| started.saturating_add(timeout * NANOSECONDS_OF_A_MILLISECOND));
        let ready = lanes.subset(waiting).grouped(u64::from(lanes.lane()), |alone| {
            // Ends: when something is ready, or the time is over.
            loop {
                let in_time = wait(session, alone, all, end_ns)?;
                let ready = look(session, alone, Some(&mut *all))?;
                if ready > 0 || !in_time {
                    return Ok(ready);
                }
            }
        });
        counted(session, Call::Poll, ready)
    }
}

/// The process's descriptor of an entry; -1 for one that is passed over. `EBADF` for what is not open.
fn number_of(session: &SessionTables, entry: &PollFd) -> Result<i32, Errno> {
    if entry.fd < 0 { Ok(-1) } else { session.process_descriptor(FileIndex(entry.fd.cast_unsigned())) }
}

/// The entry as the system takes it.
fn translated(session: &SessionTables, entry: &PollFd) -> [u8; ENTRY_BYTES as usize] {
    let mut bytes = [0; ENTRY_BYTES as usize];
    bytes[..4].copy_from_slice(&number_of(session, entry).unwrap_or(-1).to_ne_bytes());
    bytes[4..6].copy_from_slice(&entry.events.to_ne_bytes());
    bytes
}

/// Fills in what is ready now: of how many entries. Convergent; called by `lanes`; a lane without entries gets 0.
fn look(session: &SessionTables, lanes: Lanes, all: Option<&mut [PollFd]>) -> Result<usize, Errno> {
    let mut all = all.filter(|all| !all.is_empty());
    let bytes = all.as_ref().map(|all| all.len() as u64 * u64::from(ENTRY_BYTES));
    let mut ready = Ok(0);
    staged_whole(session, lanes, bytes, |area| {
        let mut entry = None;
        if let (Some(area), Some(all)) = (area, &all) {
            for (at, one) in (0..).step_by(ENTRY_BYTES as usize).zip(all.iter()) {
                area.put(at, &translated(session, one));
            }
            entry = Some(Sqe::poll_all(area.address, all.len() as u32));
        }
        let result = Errno::check(serve(session, lanes, entry));
        if let (Some(area), Some(all)) = (area, &mut all) {
            ready = result.map(|_| 0);
            if result.is_err() {
                return;
            }
            let mut count = 0;
            for (at, one) in (0..).step_by(ENTRY_BYTES as usize).zip(all.iter_mut()) {
                let seen: PollFd = area.read(at);
                one.revents = if number_of(session, one).is_ok() { seen.revents } else { POLLNVAL };
                count += usize::from(one.revents != 0);
            }
            ready = Ok(count);
        }
    })?;
    ready
}

/// Waits until one of the entries seems ready: whether that was in time. One lane alone.
fn wait(session: &SessionTables, alone: Lanes, all: &[PollFd], end_ns: Option<u64>) -> Result<bool, Errno> {
    let mut named = all.iter().filter(|entry| entry.fd >= 0);
    match (named.next(), named.next()) {
        (None, _) => Ok(sleep(end_ns)),
        (Some(one), None) => {
            // Closed meanwhile: the next look says so.
            let Ok(fd) = number_of(session, one) else { return Ok(true) };
            let events = u32::from(one.events.cast_unsigned());
            await_until(session, alone, Target { fd, fixed: false }, events, end_ns)
        }
        _ => wait_for_any(session, alone, all, end_ns),
    }
}

/// Naps until the time is over, if it ever is.
fn sleep(end_ns: Option<u64>) -> bool {
    // Ends: with the time.
    loop {
        let left = end_ns.map_or(NAP_NS_MAX, |end| end.saturating_sub(Machine::clock()));
        if left == 0 {
            return false;
        }
        nap(left.min(NAP_NS_MAX) as u32);
    }
}

/// [`wait`] for several: by one descriptor that stands for all, so that the wait holds one slot.
fn wait_for_any(
    session: &SessionTables,
    alone: Lanes,
    all: &[PollFd],
    end_ns: Option<u64>,
) -> Result<bool, Errno> {
    let mut set = Err(Errno::INVAL);
    staged_whole(session, alone, Some(all.len() as u64 * u64::from(ENTRY_BYTES)), |area| {
        let mut entry = None;
        if let Some(area) = area {
            for (at, one) in (0..).step_by(ENTRY_BYTES as usize).zip(all) {
                area.put(at, &translated(session, one));
            }
            entry = Some(Sqe::poll_set(area.address, all.len() as u32));
        }
        let made = Errno::check(serve(session, alone, entry));
        if area.is_some() {
            set = made;
        }
    })?;
    let number = match set {
        Ok(number) => number.cast_signed(),
        // Closed meanwhile: the next look says so.
        Err(Errno::BADF) => return Ok(true),
        Err(errno) => return Err(errno),
    };
    let target = Target { fd: number, fixed: false };
    let waited = await_until(session, alone, target, abi::POLLIN, end_ns);
    let ended = Errno::check(serve(session, alone, Some(Sqe::poll_end(number))));
    waited.and_then(|in_time| ended.map(|_| in_time))
}

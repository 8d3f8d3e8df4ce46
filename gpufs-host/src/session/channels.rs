//! Channels between threads of the host and lanes: opening them, and the host's end ([R-CHANNEL-1] to [R-CHANNEL-8]).
#![expect(unsafe_code, reason = "records in memory that host and device share")]

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpufs_core::Errno;
use gpufs_core::channel::{Bell, CELLS_MAX, ChannelWords, End, Role, Side, sleep_until};
use gpufs_core::gate::{Entry, Gate};
use gpufs_core::kernel::{Portable, Shared};
use gpufs_core::session::FileIndex;
use gpufs_core::word::{DeviceWord, DeviceWord64, SharedWord};
use gpufs_device::channel::{self as lanes, LaneEnd, LaneEndParts, RECORD_ALIGN};

use super::{Body, Owner, RegisterError};

/// Each part of a channel's memory begins at a multiple of this.
const PART_ALIGN: usize = 64;
/// Between two looks at which calls are inside.
const NAP: Duration = Duration::from_micros(50);

/// Channels of this process so far.
static CHANNELS: DeviceWord64 = DeviceWord64::new(0);

/// The host's end of a channel. Its session and the program's handles share it.
pub(super) struct HostEnd {
    owner: Owner,
    /// Open while the session has the memory.
    gate: Gate,
    words: *const ChannelWords,
    turns: *const SharedWord,
    records: *mut u8,
    cells: usize,
    stride: usize,
    role: Role,
    cursor: DeviceWord,
    sleepers: DeviceWord,
    /// Whether it is closed, as its threads see it.
    closed: SharedWord,
    /// What threads of the host sleep on, and what wakes lanes.
    bells: [OwnedFd; 2],
    /// The bells' entries in the file table.
    numbers: [FileIndex; 2],
    /// Where the lanes' end lies, if that is memory of the host's.
    lane_end: Option<usize>,
    /// Held from a claim until the place was passed on, and while the channel is closed.
    sending: Mutex<()>,
}

// SAFETY:
// - the memory is reached inside the gate alone, and by the channel's rules
unsafe impl Send for HostEnd {}
// SAFETY:
// - as above
unsafe impl Sync for HostEnd {}

impl fmt::Debug for HostEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostEnd")
            .field("role", &self.role)
            .field("cells", &self.cells)
            .finish_non_exhaustive()
    }
}

/// A bell, for one thread: until then.
struct HostBell<'a>(&'a HostEnd, Option<Instant>);

impl Bell for HostBell<'_> {
    fn wait(&mut self) -> Result<(), Errno> {
        let mut file = libc::pollfd { fd: self.0.bells[0].as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let left = self.1.map(|until| until.saturating_duration_since(Instant::now()));
        let time = left.map(|left| libc::timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY:
        // - one `pollfd` and, if not null, one `timespec`, both alive; no mask
        match unsafe { libc::ppoll(&raw mut file, 1, time, std::ptr::null()) } {
            0 => Err(Errno::TIMEDOUT),
            // Interrupted: the caller looks again.
            _ => Ok(()),
        }
    }
    fn silence(&mut self) {
        let mut count = 0_u64;
        // SAFETY:
        // - the kernel writes eight bytes, which are alive; it may be silent already: EAGAIN
        unsafe { libc::read(self.0.bells[0].as_raw_fd(), (&raw mut count).cast(), 8) };
    }
    fn ring(&mut self) {
        ring(&self.0.bells[0]);
    }
}

fn ring(bell: &OwnedFd) {
    let one = 1_u64;
    // SAFETY:
    // - the kernel reads eight bytes, which are alive; a bell that rang 2⁶⁴ times rings
    unsafe { libc::write(bell.as_raw_fd(), (&raw const one).cast(), 8) };
}

fn new_bell() -> io::Result<OwnedFd> {
    // SAFETY:
    // - `eventfd` touches no memory of ours
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY:
    // - the kernel has just made this descriptor, and nothing else owns it
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A stay inside the gate.
struct Inside<'a>(&'a HostEnd);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.gate.leave();
    }
}

impl HostEnd {
    /// # Errors
    /// `EPIPE` when the session is closed, or in a forked child.
    fn enter(&self) -> Result<Inside<'_>, Errno> {
        if !self.owner.is_here() {
            return Err(Errno::PIPE);
        }
        match self.gate.enter(0) {
            Entry::Inside => Ok(Inside(self)),
            Entry::Closed | Entry::Excluded | Entry::Elsewhere => Err(Errno::PIPE),
        }
    }

    /// Claims a place and has its record moved; whether there was one. The caller is inside.
    fn exchange(&self, end: &End<'_>, body: impl FnOnce(*mut u8)) -> bool {
        let claimed = end.claim(1);
        let Some(places) = claimed else { return false };
        body(self.records.wrapping_add(end.cell(places.first) * self.stride));
        end.pass_on(places.first);
        if end.must_wake() {
            ring(&self.bells[1]);
        }
        true
    }

    /// Calls `attempt` with the end until it gives something: at once, or within the time. `None` when the channel is closed, and the attempt
    /// still gives nothing.
    fn until<R>(
        &self,
        limit: Option<Duration>,
        mut attempt: impl FnMut(&Self, &End<'_>) -> Option<R>,
    ) -> Result<Option<R>, Errno> {
        let inside = self.enter()?;
        // SAFETY:
        // - as many lie there, as long as a thread is inside
        let turns = unsafe { std::slice::from_raw_parts(self.turns, self.cells) };
        // SAFETY:
        // - as above
        let words = unsafe { &*self.words };
        let end = End::new(words, turns, &self.cursor, self.role, Side::Host(&self.closed));
        let closed = end.is_closed();
        let found = attempt(inside.0, &end);
        if found.is_some() || closed {
            return Ok(found);
        }
        if limit == Some(Duration::ZERO) {
            return Err(Errno::AGAIN);
        }
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        sleep_until(&end, &self.sleepers, &mut HostBell(self, until), || attempt(self, &end))
    }

    /// Closes the channel: nothing is sent any more, what was sent can be received. Does not wait.
    pub(super) fn close(&self) {
        let Ok(_inside) = self.enter() else { return };
        let _alone = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY:
        // - alive, as this thread is inside
        let words = unsafe { &*self.words };
        // SAFETY:
        // - as many lie there, likewise
        let turns = unsafe { std::slice::from_raw_parts(self.turns, self.cells) };
        End::new(words, turns, &self.cursor, self.role, Side::Host(&self.closed)).close(words);
        self.bells.iter().for_each(ring);
    }

    /// Whether a bell of it has this entry of the file table.
    pub(super) fn has_file(&self, index: FileIndex) -> bool {
        self.numbers.contains(&index)
    }

    /// Lets no thread in any more, and waits for those that are inside: the channel is closed, so they do not sleep.
    pub(super) fn shut(&self) {
        self.gate.close();
        // Ends: each that is inside finds the channel closed.
        while !self.gate.is_empty() {
            ring(&self.bells[0]);
            std::thread::sleep(NAP);
        }
        if let Some(address) = self.lane_end {
            // SAFETY:
            // - placed there for this session, and never freed (`placed.rs`); its words are words
            unsafe { &*std::ptr::with_exposed_provenance::<LaneEnd>(address) }.kill();
        }
    }
}

/// One of the program's handles: when the last goes, the channel is closed.
#[derive(Debug)]
struct Handle(Arc<HostEnd>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The host's end of a channel to kernels. May be copied; when the last copy is dropped, the channel is closed.
#[derive(Debug)]
pub struct ChannelSender<T> {
    handle: Arc<Handle>,
    of: PhantomData<fn(T)>,
}

/// The host's end of a channel from kernels. May be copied; when the last copy is dropped, the channel is closed, and lanes that send get `EPIPE`.
#[derive(Debug)]
pub struct ChannelReceiver<T> {
    handle: Arc<Handle>,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for ChannelSender<T> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle), of: PhantomData }
    }
}
impl<T> Clone for ChannelReceiver<T> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle), of: PhantomData }
    }
}

impl<T: Portable + Copy> ChannelSender<T> {
    fn put(&self, record: T, limit: Option<Duration>) -> Result<(), Errno> {
        let sent = self.handle.0.until(limit, |host, end| {
            let _sending = host.sending.lock().unwrap_or_else(PoisonError::into_inner);
            if end.is_closed() {
                return Some(Err(Errno::PIPE));
            }
            // SAFETY:
            // - a place for a `T`, aligned, which this thread alone has until it passes it on
            host.exchange(end, |place| unsafe { place.cast::<T>().write(record) }).then_some(Ok(()))
        })?;
        sent.unwrap_or(Err(Errno::PIPE))
    }
    /// Sends a record. While the channel is full the thread sleeps, and a lane that receives wakes it.
    ///
    /// # Errors
    /// `EPIPE`: the channel or its session is closed.
    pub fn send(&self, record: T) -> Result<(), Errno> {
        self.put(record, None)
    }
    /// [`ChannelSender::send`], for so long at most.
    ///
    /// # Errors
    /// `ETIMEDOUT`, or `EAGAIN` for no time; `EPIPE`.
    pub fn send_for(&self, record: T, limit: Duration) -> Result<(), Errno> {
        self.put(record, Some(limit))
    }
    /// Closes the channel: no copy of this sends any more, and a kernel's `receive` is `None` once it has taken what was sent. It is what tells a
    /// kernel that stays to end.
    pub fn close(&self) {
        self.handle.0.close();
    }
}

impl<T: Portable + Copy> ChannelReceiver<T> {
    fn take(&self, limit: Option<Duration>) -> Result<Option<T>, Errno> {
        let taken = self.handle.0.until(limit, |host, end| {
            let mut record = MaybeUninit::<T>::uninit();
            // SAFETY:
            // - a place that holds a `T`, aligned, which this thread alone has until it passes it on
            let moved = host.exchange(end, |place| _ = record.write(unsafe { place.cast::<T>().read() }));
            // SAFETY:
            // - written where a record was moved
            moved.then(|| unsafe { record.assume_init() })
        });
        match taken {
            Err(Errno::PIPE) => Ok(None),
            taken => taken,
        }
    }
    /// The next record. While there is none the thread sleeps, and a lane that sends wakes it. `None` when the channel is closed and everything was
    /// taken, or its session is closed.
    #[must_use]
    pub fn receive(&self) -> Option<T> {
        self.take(None).ok().flatten()
    }
    /// [`ChannelReceiver::receive`], for so long at most.
    ///
    /// # Errors
    /// `ETIMEDOUT`, or `EAGAIN` for no time.
    pub fn receive_for(&self, limit: Duration) -> Result<Option<T>, Errno> {
        self.take(Some(limit))
    }
    /// Closes the channel: lanes that send get `EPIPE`. What was sent can still be received.
    pub fn close(&self) {
        self.handle.0.close();
    }
}

/// Makes new memory a channel's.
///
/// # Safety
/// The words, and as many turns, lie there, aligned and zeroed, and nobody else has them.
unsafe fn prepare(words: *mut ChannelWords, turns: *const SharedWord, cells: usize) {
    // SAFETY:
    // - this function's contract
    unsafe { words.write(ChannelWords::default()) };
    // SAFETY:
    // - written above
    let one = unsafe { &(*words).one };
    // Of a number of 64 bits, the lower half.
    // ORDERING: relaxed: a launch publishes it.
    one[usize::from(cfg!(target_endian = "big"))].set(1);
    // SAFETY:
    // - this function's contract; zeros are words
    End::prepare(unsafe { std::slice::from_raw_parts(turns, cells) });
}

/// The bells of a channel: what threads of the host sleep on, and what wakes lanes.
fn new_bells() -> io::Result<[OwnedFd; 2]> {
    Ok([new_bell()?, new_bell()?])
}

impl Body {
    /// Gives kernels the bells of a channel: theirs, and that of the host's threads.
    fn register_bells(&mut self, bells: &[OwnedFd; 2]) -> Result<[FileIndex; 2], RegisterError> {
        let copy = |bell: &OwnedFd| {
            bell.try_clone()
                .map_err(|error| RegisterError { what: "copying a channel's bell", source: error.into() })
        };
        let [host_bell, lane_bell] = bells;
        let own = self.register_file(copy(lane_bell)?)?;
        let their = copy(host_bell).and_then(|copy| self.register_file(copy)).inspect_err(|_| {
            // The first error is told.
            let _ = self.unregister_file(own);
        })?;
        Ok([own, their])
    }

    /// A channel of at least so many cells, of which the host has the end of this role.
    fn open_channel<T: Portable + Copy>(
        &mut self,
        role: Role,
        cells: u32,
    ) -> Result<(Arc<Handle>, Shared<LaneEnd>, u64), RegisterError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| RegisterError {
            what: "opening a channel",
            source,
        };
        let fits = (1..=CELLS_MAX).contains(&cells) && align_of::<T>() <= RECORD_ALIGN;
        if !fits {
            let text =
                format!("a channel has 1 to {CELLS_MAX} cells, of records aligned to {RECORD_ALIGN} at most");
            return Err(failed(text.into()));
        }
        let cells = cells.next_power_of_two().max(2);
        let stride = size_of::<T>().next_multiple_of(RECORD_ALIGN).max(RECORD_ALIGN);
        let turns_at = size_of::<ChannelWords>().next_multiple_of(PART_ALIGN);
        let records_at = (turns_at + cells as usize * size_of::<SharedWord>()).next_multiple_of(PART_ALIGN);
        let bells = new_bells().map_err(|error| failed(error.into()))?;
        let buffer = self.register_buffer(records_at + cells as usize * stride)?;
        let numbers = self.register_bells(&bells)?;
        let base = buffer.as_ptr();
        let (words, turns) = (base.cast::<ChannelWords>(), base.wrapping_add(turns_at).cast::<SharedWord>());
        // SAFETY:
        // - the beginning of the buffer and a part of it, page-aligned and large enough, which nobody else has
        unsafe { prepare(words, turns, cells as usize) };
        // ORDERING: relaxed: the number orders nothing.
        let number = CHANNELS.fetch_add_relaxed(1) + 1;
        let parts = LaneEndParts {
            words: words.expose_provenance() as u64,
            turns: turns.expose_provenance() as u64,
            records: base.wrapping_add(records_at).expose_provenance() as u64,
            cells,
            stride: u32::try_from(stride).map_err(|error| failed(error.into()))?,
            role: if role == Role::Sender { Role::Receiver } else { Role::Sender },
            bells: numbers,
            number,
        };
        // SAFETY:
        // - the memory was prepared above, and is the channel's until the session has waited for its kernels
        let placed = self.place(unsafe { LaneEnd::new(parts) }).map_err(|error| failed(error.into()))?;
        let lane_end = placed.on_host();
        let gate = Gate::new();
        gate.open(1, false);
        let end = Arc::new(HostEnd {
            owner: self.lease.owner(),
            gate,
            words,
            turns,
            records: base.wrapping_add(records_at),
            cells: cells as usize,
            stride,
            role,
            cursor: DeviceWord::new(0),
            sleepers: DeviceWord::new(0),
            closed: SharedWord::new(0),
            bells,
            numbers,
            lane_end,
            sending: Mutex::new(()),
        });
        self.channels.push(Arc::clone(&end));
        Ok((Arc::new(Handle(end)), placed.handle(), number))
    }

    /// `Session::channel_to_kernels`.
    pub(super) fn channel_to_kernels<T: Portable + Copy>(
        &mut self,
        cells: u32,
    ) -> Result<(ChannelSender<T>, lanes::Receiver<T>), RegisterError> {
        let (handle, end, number) = self.open_channel::<T>(Role::Sender, cells)?;
        // SAFETY:
        // - a channel of `T` whose lanes receive
        Ok((ChannelSender { handle, of: PhantomData }, unsafe { lanes::Receiver::new(end, number) }))
    }

    /// `Session::channel_from_kernels`.
    pub(super) fn channel_from_kernels<T: Portable + Copy>(
        &mut self,
        cells: u32,
    ) -> Result<(ChannelReceiver<T>, lanes::Sender<T>), RegisterError> {
        let (handle, end, number) = self.open_channel::<T>(Role::Receiver, cells)?;
        // SAFETY:
        // - a channel of `T` to which lanes send
        Ok((ChannelReceiver { handle, of: PhantomData }, unsafe { lanes::Sender::new(end, number) }))
    }

    /// Closes all channels: kernels that wait for one go on.
    pub(super) fn close_channels(&self) {
        self.channels.iter().for_each(|end| end.close());
    }

    /// Lets no thread use a channel any more: their memory goes next.
    pub(super) fn shut_channels(&self) {
        self.channels.iter().for_each(|end| end.shut());
    }
}

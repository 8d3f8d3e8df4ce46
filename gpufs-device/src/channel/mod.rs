//! Channels: bounded queues of records between threads of the host and a running kernel.
//!
//! The host opens one while no kernel runs (`Session::channel_to_kernels`, `Session::channel_from_kernels`), keeps one end, and hands the other to a
//! kernel as an argument. Lanes that call together take one reservation. A lane that has to wait sleeps on an operation of the ring's, which a thread
//! of the host ends; a thread of the host that has to wait sleeps in the system, and a lane wakes it through the ring. On a GPU the lane that waits
//! looks at its ring between naps; on CPU lanes the thread that runs it does, which took a fifth of a core in the mode `enter` (a debug build beside
//! other tests), and a record was answered after 0.15 to 4 ms.
//!
//! ```
//! use gpufs_device::channel::{Receiver, Sender};
//! use gpufs_device::{Errno, kernel};
//! # use gpufs_device::kernel::{Handoff, Shared};
//!
//! kernel! {
//!     /// Answers each number with its square, until the host closes the channel.
//!     pub fn square(fs: Fs, numbers: Receiver<u64>, squares: Sender<u64>) {
//!         // Ends: when the channel is closed and empty, or nobody takes squares any more.
//!         while let Ok(Some(number)) = numbers.receive(fs) {
//!             if squares.send(fs, number * number).is_err() {
//!                 break;
//!             }
//!         }
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! The rules, and why no wake-up is lost, are in [`gpufs_core::protocol::channels`].
//!
//! # Where lanes run in lockstep
//!
//! A lane that has its record returns while others of its warp wait for theirs. On AMD GPUs, and on any GPU for code after which lanes meet, it
//! then waits for them. There one lane of a warp calls, or all have something to come.
#![expect(unsafe_code, reason = "records in memory that host and device share")]

mod bell;

use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::time::Duration;

use gpufs_core::Errno;
use gpufs_core::channel::{ChannelWords, End, Role, Side, sleep_until};
use gpufs_core::kernel::{Portable, Shared};
use gpufs_core::session::FileIndex;
use gpufs_core::word::{DeviceWord, DeviceWord64, SharedWord};

use self::bell::LaneBell;
use crate::Fs;
use crate::warp::{CallSite, LaneMask, Lanes, Machine, Warp};

/// What the lanes' end of a channel is made of.
#[derive(Clone, Copy, Debug)]
pub struct LaneEndParts {
    /// Address of the [`ChannelWords`], as the device sees it.
    pub words: u64,
    /// Likewise of the turns.
    pub turns: u64,
    /// Likewise of the records' places, each [`RECORD_ALIGN`]ed.
    pub records: u64,
    /// Cells.
    pub cells: u32,
    /// Bytes from one record to the next.
    pub stride: u32,
    /// Whether lanes send, or receive.
    pub role: Role,
    /// The bells: that of lanes, and that of the host's threads.
    pub bells: [FileIndex; 2],
    /// A number that no other channel of the process has; not 0.
    pub number: u64,
}

/// A record's place is a multiple of this.
pub const RECORD_ALIGN: usize = 16;

/// The lanes' end of a channel, which the host places in the device's memory.
#[derive(Debug)]
#[repr(C)]
pub struct LaneEnd {
    /// Which channel it is: a handle names it. 0 when its session is closed, whose memory is gone.
    number: DeviceWord64,
    words: u64,
    turns: u64,
    records: u64,
    cells: u32,
    stride: u32,
    sends: u32,
    own_bell: FileIndex,
    their_bell: FileIndex,
    cursor: DeviceWord,
    sleepers: DeviceWord,
}

// SAFETY:
// - `repr(C)` of numbers and words; the addresses are the device's
unsafe impl Portable for LaneEnd {}

impl LaneEnd {
    /// The end of these parts, at its first place.
    ///
    /// # Safety
    /// The memory has these parts, prepared ([`End::prepare`]), and belongs to the channel as long as kernels may use the result.
    #[must_use]
    pub unsafe fn new(parts: LaneEndParts) -> Self {
        Self {
            number: DeviceWord64::new(parts.number),
            words: parts.words,
            turns: parts.turns,
            records: parts.records,
            cells: parts.cells,
            stride: parts.stride,
            sends: u32::from(parts.role == Role::Sender),
            own_bell: parts.bells[0],
            their_bell: parts.bells[1],
            cursor: DeviceWord::new(0),
            sleepers: DeviceWord::new(0),
        }
    }
    /// Refuses every handle from now on. By the host, when no kernel of the session runs any more.
    pub fn kill(&self) {
        // ORDERING: release, partner `together`: a later session's launch comes behind it in any case.
        self.number.publish(0);
    }
    fn words(&self) -> &ChannelWords {
        // SAFETY:
        // - by the contract of `new`
        unsafe { &*(self.words as *const ChannelWords) }
    }
    const fn role(&self) -> Role {
        if self.sends == 1 { Role::Sender } else { Role::Receiver }
    }
    fn end(&self) -> End<'_> {
        // SAFETY:
        // - by the contract of `new`
        let turns =
            unsafe { core::slice::from_raw_parts(self.turns as *const SharedWord, self.cells as usize) };
        End::new(self.words(), turns, &self.cursor, self.role(), Side::Lanes)
    }
    const fn record(&self, cell: usize) -> u64 {
        self.records + cell as u64 * self.stride as u64
    }
}

/// How long a call may wait.
#[derive(Clone, Copy)]
enum Wait {
    Not,
    Ever,
    /// Until the device's clock says so.
    Until(u64),
}

impl Wait {
    fn at_most(limit: Duration) -> Self {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Self::Until(Machine::clock().saturating_add(limit))
    }
    /// When, by the device's clock: 0 at once, the largest number never.
    const fn ends(self) -> u64 {
        match self {
            Self::Not => 0,
            Self::Ever => u64::MAX,
            Self::Until(time) => time,
        }
    }
}

/// The smallest of the lanes' times. Convergent; called by `lanes`; valid in all.
fn earliest(lanes: Lanes, time: u64) -> u64 {
    lanes.mask().iter().map(|lane| lanes.broadcast(time, lane)).min().unwrap_or(u64::MAX)
}

/// What became of a lane's call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moved {
    Record,
    /// The channel is closed, and empty.
    Closed,
}

/// Moves one record for each of the lanes: `body` writes or reads it at an address. Convergent; called by `lanes`, all of this channel.
fn exchange(
    fs: Fs,
    mut lanes: Lanes,
    lane_end: &LaneEnd,
    wait: Wait,
    body: impl FnOnce(u64),
) -> Result<Moved, Errno> {
    let end = lane_end.end();
    // Ends: each round moves a record, and its lane goes; or waits for the other side ([P-CHANNEL-WAKE]); or is the last.
    loop {
        let closed = lanes.from_leader(end.is_closed());
        if closed && lane_end.role() == Role::Sender {
            return Err(Errno::PIPE);
        }
        let (first, count) = claim_together(&end, lanes);
        let mine = lanes.rank() < count;
        if mine {
            let place = first.wrapping_add(lanes.rank());
            body(lane_end.record(end.cell(place)));
            end.pass_on(place);
            wake(fs, lanes, lane_end, &end, count);
            return Ok(Moved::Record);
        }
        if count > 0 {
            let moved = lanes.mask().nth(count);
            lanes = lanes.subset(from(lanes, moved));
            continue;
        }
        if closed {
            return Ok(Moved::Closed);
        }
        // Lanes that call together may wait for different times: one sleeps for all until the first of them must go.
        let earliest = earliest(lanes, wait.ends());
        let slept = if earliest == 0 {
            -Errno::AGAIN.number()
        } else {
            let limit = (earliest != u64::MAX).then_some(earliest);
            lanes.on_leader(|| sleep(fs, lanes, lane_end, &end, limit))
        };
        if slept < 0 {
            let errno = Errno::from_number(-slept);
            let goes = !matches!(errno, Errno::AGAIN | Errno::TIMEDOUT) || wait.ends() <= earliest;
            let gone = lanes.ballot(goes);
            if goes {
                return Err(errno);
            }
            lanes = lanes.subset(lanes.mask().without(gone));
        }
    }
}

/// Those of the lanes from lane `first` on.
fn from(lanes: Lanes, first: u32) -> LaneMask {
    LaneMask(lanes.mask().0 & (u64::MAX << first))
}

/// Claims places for the first of the lanes, as many as are ready: the first place, and how many. Convergent; called by `lanes`; valid in all.
/// [R-CHANNEL-2].
fn claim_together(end: &End<'_>, lanes: Lanes) -> (u32, u32) {
    use gpufs_core::channel::CellState;
    // Ends: each round that fails, another warp has claimed, or the cursor was stale.
    loop {
        let first = lanes.from_leader(end.next());
        let state = end.look(first.wrapping_add(lanes.rank()));
        let stops = lanes.ballot(state != CellState::Ready);
        let count = if stops.is_empty() { lanes.count() } else { lanes.mask().rank(stops.first()) };
        if count > 0 {
            if lanes.on_leader_inline(|| end.claim_from(first, count)) {
                return (first, count);
            }
            continue;
        }
        let goes_on = lanes.from_leader(state == CellState::Past && end.next() != first);
        if !goes_on {
            return (first, 0);
        }
    }
}

/// Wakes the host's side, where one sleeps there. Called by the first `count` of the lanes, whose places were passed on.
fn wake(fs: Fs, lanes: Lanes, lane_end: &LaneEnd, end: &End<'_>, count: u32) {
    let last = if count == lanes.count() { LaneMask::NONE } else { from(lanes, lanes.mask().nth(count)) };
    let lanes = lanes.subset(lanes.mask().without(last));
    lanes.sync();
    let _ = lanes.on_leader(|| {
        if end.must_wake() {
            LaneBell::new(fs, alone(lanes), lane_end.their_bell, lane_end.words(), None).ring_it();
        }
        0_u32
    });
}

/// Sleeps until the next place is ready, or the channel closed: 0, or a negated errno. One lane alone.
fn sleep(fs: Fs, lanes: Lanes, lane_end: &LaneEnd, end: &End<'_>, limit: Option<u64>) -> i32 {
    let mut bell = LaneBell::new(fs, alone(lanes), lane_end.own_bell, lane_end.words(), limit);
    match sleep_until(end, &lane_end.sleepers, &mut bell, || end.is_ready().then_some(())) {
        Ok(_) => 0,
        Err(errno) => -errno.number(),
    }
}

/// The calling lane alone.
fn alone(lanes: Lanes) -> Lanes {
    lanes.subset(LaneMask(1 << lanes.lane()))
}

/// Lanes that call at this place, one by channel.
fn together<R>(
    fs: Fs,
    site: &'static CallSite,
    (end, number): (Shared<LaneEnd>, u64),
    call: impl FnOnce(Lanes, &LaneEnd) -> R,
) -> Result<R, Errno> {
    let _inside = fs.enter()?;
    if end.is_past(fs) {
        return Err(Errno::BADF);
    }
    end.with(fs, |end| {
        // ORDERING: acquire, partner `kill`.
        let is_it = end.number.observe() == number;
        // A lane whose channel is gone goes before the others meet.
        if !is_it {
            return Err(Errno::BADF);
        }
        let channel = core::ptr::from_ref(end).addr() as u64;
        Ok(Lanes::calling_at(site).grouped(channel, |lanes| call(lanes, end)))
    })
}

static SENDING: CallSite = CallSite::new();
static RECEIVING: CallSite = CallSite::new();

macro_rules! lane_end {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[repr(C)]
        pub struct $name<T: 'static> {
            end: Shared<LaneEnd>,
            number: u64,
            of: PhantomData<fn(T) -> T>,
        }

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<T> {}
        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }

        // SAFETY:
        // - `repr(C)` of a handle that is portable
        unsafe impl<T: Portable + Copy> Portable for $name<T> {}

        impl<T: Portable + Copy> $name<T> {
            /// A handle of the lanes' end.
            ///
            /// # Safety
            /// It is of a channel of `T` in this direction, with this number.
            #[doc(hidden)]
            #[must_use]
            pub const unsafe fn new(end: Shared<LaneEnd>, number: u64) -> Self {
                Self { end, number, of: PhantomData }
            }
        }
    };
}

lane_end! {
    /// What a kernel sends through to the host. A kernel's argument.
    Sender
}
lane_end! {
    /// What a kernel receives through from the host. A kernel's argument.
    Receiver
}

impl<T: Portable + Copy> Sender<T> {
    fn put(self, fs: Fs, record: T, wait: Wait) -> Result<(), Errno> {
        together(fs, &SENDING, (self.end, self.number), |lanes, end| {
            // SAFETY:
            // - a place for a `T`, aligned, which this lane alone has until it passes it on
            exchange(fs, lanes, end, wait, |address| unsafe { (address as *mut T).write(record) })
        })?
        .map(|_| ())
    }
    /// Sends a record, and waits while the channel is full.
    ///
    /// # Errors
    /// `EPIPE`: the host has closed the channel. `EBADF`: its session is closed. `ETIMEDOUT` past the session's limit on waits.
    ///
    /// # Panics
    /// If another session opened the channel.
    pub fn send(self, fs: Fs, record: T) -> Result<(), Errno> {
        self.put(fs, record, Wait::Ever)
    }
    /// [`Sender::send`], for so long at most.
    ///
    /// # Errors
    /// `ETIMEDOUT`, and as [`Sender::send`].
    pub fn send_for(self, fs: Fs, record: T, limit: Duration) -> Result<(), Errno> {
        self.put(fs, record, Wait::at_most(limit))
    }
    /// Sends a record if there is room.
    ///
    /// # Errors
    /// `EAGAIN` where there is none; `EPIPE`.
    pub fn try_send(self, fs: Fs, record: T) -> Result<(), Errno> {
        self.put(fs, record, Wait::Not)
    }
}

impl<T: Portable + Copy> Receiver<T> {
    fn take(self, fs: Fs, wait: Wait) -> Result<Option<T>, Errno> {
        let mut record = MaybeUninit::<T>::uninit();
        let moved = together(fs, &RECEIVING, (self.end, self.number), |lanes, end| {
            exchange(fs, lanes, end, wait, |address| {
                // SAFETY:
                // - a place that holds a `T`, aligned, which this lane alone has until it passes it on
                record.write(unsafe { (address as *const T).read() });
            })
        })??;
        // SAFETY:
        // - written where a record was moved
        Ok((moved == Moved::Record).then(|| unsafe { record.assume_init() }))
    }
    /// The next record, for which it waits; `None` when the host has closed the channel and everything was taken.
    ///
    /// # Errors
    /// `EBADF`: the channel's session is closed. `ETIMEDOUT` past the session's limit on waits.
    ///
    /// # Panics
    /// If another session opened the channel.
    pub fn receive(self, fs: Fs) -> Result<Option<T>, Errno> {
        self.take(fs, Wait::Ever)
    }
    /// [`Receiver::receive`], for so long at most.
    ///
    /// # Errors
    /// `ETIMEDOUT`.
    pub fn receive_for(self, fs: Fs, limit: Duration) -> Result<Option<T>, Errno> {
        self.take(fs, Wait::at_most(limit))
    }
    /// The next record if there is one; `None` when the channel is closed and empty.
    ///
    /// # Errors
    /// `EAGAIN` where there is none yet.
    pub fn try_receive(self, fs: Fs) -> Result<Option<T>, Errno> {
        self.take(fs, Wait::Not)
    }
    /// Whether the host has closed the channel: a kernel that stays is to end.
    ///
    /// # Errors
    /// `EBADF` of a closed session.
    pub fn is_closed(self, fs: Fs) -> Result<bool, Errno> {
        let _inside = fs.enter()?;
        if self.end.is_past(fs) {
            return Err(Errno::BADF);
        }
        self.end.with(fs, |end| {
            // ORDERING: acquire, partner `kill`.
            if end.number.observe() == self.number { Ok(end.end().is_closed()) } else { Err(Errno::BADF) }
        })
    }
}

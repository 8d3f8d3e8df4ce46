//! One client: what its lane knows of it, and the operations that are in flight for it.
//!
//! A connection has a receive in flight or bytes to answer, and at most one send. Requests are answered in the device's memory; the kernel reads and
//! writes memory that it shares with the device, the *wire*:
//!
//! ```text
//! socket ─► wire in ─► input ─► answer ─► output ─► wire out ─► socket
//!     (the kernel) (the warp) (the lane)      (the warp)  (the kernel)
//! ```
#![expect(unsafe_code, reason = "memory that the kernel and a warp's lanes use in turns")]

use core::slice;

use gpufs_device::aio::{Finished, Looker, Pending, Watch};
use gpufs_device::file::Descriptor;
use gpufs_device::warp::Lanes;
use gpufs_device::{Errno, Fs};

use super::Job;
use super::answer::{Answers, SPARE_BYTES};
use super::buffer::Buffer;
use super::copy::copy_together;
use super::request::{Parsed, parse};
use super::together::{LANES_MIN, View, answer_together};

/// From so many bytes on there may be several requests.
const SEVERAL_BYTES: usize = 40;
/// Lanes for each client that speaks, at least, where a warp answers requests side by side.
const CLIENTS_DIVISOR: u32 = 4;

/// What came of an operation that was in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// It has moved nothing, and is asked for again.
    Not,
    /// It moved so many bytes.
    Moved(usize),
    /// The kernel does not know such an operation.
    Unknown,
    Failed,
}

/// A stretch of bytes in a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stretch {
    from: usize,
    to: usize,
}

impl Stretch {
    const fn len(self) -> usize {
        self.to - self.from
    }
    fn taken(&mut self, bytes: usize) {
        self.from = (self.from + bytes).min(self.to);
        if self.from == self.to {
            *self = Self::default();
        }
    }
}

/// The memory of one connection: four stretches, which begin at multiples of 16.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// Requests, and behind them replies, each of `buffer_bytes`.
    buffers: u64,
    buffer_bytes: usize,
    /// What comes, and behind it what goes, each of `wire_bytes`.
    wire: u64,
    wire_bytes: usize,
}

impl Memory {
    /// That of the place of this number.
    pub(super) fn new(job: &Job, number: u32) -> Self {
        let half = |bytes: u64| usize::try_from(bytes / 2).unwrap_or(0);
        Self {
            buffers: job.buffers + u64::from(number) * job.buffer_apart,
            buffer_bytes: half(job.buffer_bytes),
            wire: job.wire + u64::from(number) * job.wire_apart,
            wire_bytes: half(job.wire_bytes),
        }
    }
    const fn input(&self) -> u64 {
        self.buffers
    }
    const fn output(&self) -> u64 {
        self.buffers + self.buffer_bytes as u64
    }
    const fn wire_in(&self) -> u64 {
        self.wire
    }
    const fn wire_out(&self) -> u64 {
        self.wire + self.wire_bytes as u64
    }
}

/// What a client waits for: a receive and a send. A lane has those of its places side by side, and looks at them in each round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waits(Watch, Watch);

impl Waits {
    /// For nothing: there is something to do.
    pub(super) const NOT: Self = Self(Watch::ALWAYS, Watch::NEVER);

    /// Whether it may be that something can be done.
    #[inline]
    pub(super) fn is_over(self, looker: &Looker) -> bool {
        looker.may_be_done(self.0) || looker.may_be_done(self.1)
    }
}

/// A lane's place for a client.
#[derive(Debug)]
pub(super) struct Place {
    memory: Memory,
    socket: Option<Descriptor>,
    receiving: Option<Pending>,
    sending: Option<Pending>,
    /// Whether the kernel is told to wait before it tries to receive: clients speak when they were answered.
    waits_first: bool,
    /// Bytes on the wire that came.
    came: usize,
    input: Stretch,
    output: Stretch,
    /// Bytes on the wire that go.
    going: Stretch,
    answers: Answers,
}

impl Place {
    /// A place without a client.
    pub(super) fn new(memory: Memory) -> Self {
        Self {
            memory,
            socket: None,
            receiving: None,
            sending: None,
            waits_first: true,
            came: 0,
            input: Stretch::default(),
            output: Stretch::default(),
            going: Stretch::default(),
            answers: Answers::default(),
        }
    }
    /// Whether there is no client.
    pub(super) const fn is_free(&self) -> bool {
        self.socket.is_none()
    }
    /// What the client waits for, when all is done that could be. Of a free place, for what never comes.
    pub(super) fn waits(&self) -> Waits {
        let watch = |pending: &Option<Pending>| pending.as_ref().map_or(Watch::NEVER, Pending::watch);
        if self.has_work() { Waits::NOT } else { Waits(watch(&self.receiving), watch(&self.sending)) }
    }
    /// Requests that were answered.
    pub(super) const fn requests(&self) -> u64 {
        self.answers.requests
    }
    /// Takes a client.
    pub(super) fn open(&mut self, socket: Descriptor) {
        self.socket = Some(socket);
        (self.came, self.input, self.output, self.going) = Default::default();
        self.answers.begin();
    }
    /// An operation that is in flight.
    pub(super) fn in_flight(&self) -> Option<&Pending> {
        self.receiving.as_ref().or(self.sending.as_ref())
    }

    /// Takes the results of what is complete; whether something was. Any lane, for itself.
    pub(super) fn settle(&mut self, looker: &Looker) -> bool {
        let received = self.receiving.as_mut().and_then(|pending| looker.take(pending));
        let sent = self.sending.as_mut().and_then(|pending| looker.take(pending));
        if received.is_none() && sent.is_none() {
            return false;
        }
        if let Some(received) = received {
            self.receiving = None;
            self.received(outcome(received));
        }
        if let Some(sent) = sent {
            self.sending = None;
            self.sent(outcome(sent));
        }
        true
    }
    fn received(&mut self, received: Settled) {
        match received {
            Settled::Not => {}
            Settled::Moved(0) => self.answers.ended = true,
            Settled::Moved(bytes) => self.came = bytes.min(self.memory.wire_bytes),
            // Before Linux 5.19.
            Settled::Unknown if self.waits_first => self.waits_first = false,
            Settled::Unknown | Settled::Failed => self.vanish(),
        }
    }
    fn sent(&mut self, sent: Settled) {
        match sent {
            Settled::Not => {}
            Settled::Moved(bytes) => self.going.taken(bytes),
            Settled::Unknown | Settled::Failed => self.vanish(),
        }
    }
    /// Whether there is something to do but to wait for what is in flight.
    const fn has_work(&self) -> bool {
        let goes = self.going.len() > 0 || self.output.len() > 0;
        self.socket.is_some()
            && (self.receiving.is_none() || self.answers.ended || goes && self.sending.is_none())
    }
    /// The client is gone: nothing more is said.
    fn vanish(&mut self) {
        (self.came, self.input, self.output, self.going) = Default::default();
        self.answers.end();
    }

    /// Moves what came to each lane's input, all lanes side by side. Convergent; called by `lanes`, each with its place, if it has one.
    pub(super) fn take_in(lanes: Lanes, place: Option<&mut Self>) {
        let place = place.filter(|place| place.came > 0);
        let came = lanes.ballot(place.is_some());
        if came.is_empty() {
            return;
        }
        let mut copy = (0, 0, 0);
        if let Some(place) = place {
            if place.memory.buffer_bytes - place.input.to < place.came {
                place.compact();
            }
            copy = (place.memory.input() + place.input.to as u64, place.memory.wire_in(), place.came as u64);
            place.input.to += place.came;
            place.came = 0;
        }
        // SAFETY:
        // - the wire is the lane's since the receive is complete, and the input has room for what was asked for; no lane uses either before the end
        unsafe { copy_together(lanes, came, copy) };
    }
    /// Moves the input to its start.
    fn compact(&mut self) {
        let Stretch { from, to } = self.input;
        // SAFETY:
        // - the input is this lane's alone, and this its one slice
        let input =
            unsafe { slice::from_raw_parts_mut(self.memory.input() as *mut u8, self.memory.buffer_bytes) };
        input.copy_within(from..to, 0);
        self.input = Stretch { from: 0, to: to - from };
    }

    /// Whether a request may be there.
    pub(super) const fn has_requests(&self) -> bool {
        if self.answers.blocked { self.output.len() == 0 } else { self.input.len() > 0 }
    }
    /// The key of the first request that has come.
    pub(super) fn first_key(&self) -> Option<&[u8]> {
        let Stretch { from, to } = self.input;
        // SAFETY:
        // - the input is this lane's alone, and so much of it was written
        let input = unsafe { slice::from_raw_parts(self.memory.input() as *const u8, to) };
        match parse(input.get(from..)?, self.memory.buffer_bytes - SPARE_BYTES) {
            Parsed::Request(mut arguments, _) => arguments.nth(1),
            Parsed::Incomplete | Parsed::Wrong(_) => None,
        }
    }
    /// What a warp needs to answer requests side by side, where several may have come.
    fn view(&self) -> Option<View> {
        let several = !self.answers.blocked && self.input.len() >= SEVERAL_BYTES;
        several.then(|| View {
            input: self.memory.input(),
            from: self.input.from,
            to: self.input.to,
            output: self.memory.output(),
            end: self.output.to,
            size: self.memory.buffer_bytes,
            most: self.memory.buffer_bytes - SPARE_BYTES,
        })
    }
    /// Answers, one client after the other, what the lanes of a warp can answer side by side; not where many lanes have clients that speak: each then
    /// answers its own. Convergent; called by `lanes`, each with its place, if it has one; `scratch` is the warp's.
    pub(super) fn answer_together(job: &Job, lanes: Lanes, scratch: u64, place: Option<&mut Self>) {
        if lanes.count() < LANES_MIN {
            return;
        }
        let view = place.as_ref().and_then(|place| place.view());
        let speak = lanes.ballot(view.is_some());
        if speak.count() > lanes.count() / CLIENTS_DIVISOR {
            return;
        }
        let mut place = place;
        for lane in speak.iter() {
            let mut view = view.unwrap_or_default().broadcast(lanes, lane);
            let mut requests = 0;
            // Ends: each round answers some, or is the last.
            loop {
                // SAFETY:
                // - the buffers are the lane's, which waits for the others here and uses them through this alone; the scratch is the warp's
                let (count, from, end) = unsafe { answer_together(&job.table, lanes, scratch, view) };
                (requests, view.from, view.end) = (requests + count, from, end);
                if count == 0 || view.to - view.from < SEVERAL_BYTES {
                    break;
                }
            }
            if let Some(place) = place.as_mut().filter(|_| lanes.lane() == lane) {
                place.answers.requests += requests;
                place.input.taken(view.from - place.input.from);
                place.output.to = view.end;
            }
        }
    }
    /// Answers the requests that have come whole, as far as there is room for replies; whether one of them ends the server.
    pub(super) fn answer(&mut self, job: &Job) -> bool {
        let bytes = self.memory.buffer_bytes;
        // SAFETY:
        // - input and output are this lane's alone outside `take_in` and `put_out`, do not overlap, and these are their one slices
        let input = unsafe { slice::from_raw_parts_mut(self.memory.input() as *mut u8, bytes) };
        // SAFETY:
        // - as above
        let output = unsafe { slice::from_raw_parts_mut(self.memory.output() as *mut u8, bytes) };
        let mut input = Buffer::of(input, (self.input.from, self.input.to));
        let mut output = Buffer::of(output, (self.output.from, self.output.to));
        let ends = self.answers.answer(&job.table, &mut input, &mut output);
        (self.input.from, self.input.to) = input.filled_range();
        (self.output.from, self.output.to) = output.filled_range();
        ends
    }

    /// Moves replies to the wire where it is free, all lanes side by side. Convergent; called by `lanes`, each with its place, if it has one.
    pub(super) fn put_out(lanes: Lanes, place: Option<&mut Self>) {
        let goes =
            |place: &&mut Self| place.sending.is_none() && place.going.len() == 0 && place.output.len() > 0;
        let place = place.filter(goes);
        let going = lanes.ballot(place.is_some());
        if going.is_empty() {
            return;
        }
        let mut copy = (0, 0, 0);
        if let Some(place) = place {
            let bytes = place.output.len().min(place.memory.wire_bytes);
            copy = (place.memory.wire_out(), place.memory.output() + place.output.from as u64, bytes as u64);
            place.going = Stretch { from: 0, to: bytes };
            place.output.taken(bytes);
        }
        // SAFETY:
        // - the wire is the lane's since its last send is complete; no lane uses it or the output before the end
        unsafe { copy_together(lanes, going, copy) };
    }

    /// Starts to send what is on the wire; whether it did.
    pub(super) fn start_sending(&mut self, fs: Fs) -> bool {
        let (Some(socket), None, 1..) = (self.socket, &self.sending, self.going.len()) else { return false };
        let from = (self.memory.wire_out() + self.going.from as u64) as *const u8;
        // SAFETY:
        // - registered memory, which is not used until the send was seen to be complete, or the kernel has ended
        let started = unsafe { fs.start_send(socket, from, number(self.going.len()), 0) };
        self.sending = self.begun(started);
        self.sending.is_some()
    }
    /// Starts to receive, if more can be taken; whether it did.
    pub(super) fn start_receiving(&mut self, fs: Fs) -> bool {
        let (Some(socket), None) = (self.socket, &self.receiving) else { return false };
        if self.answers.ended || self.answers.blocked || self.came > 0 {
            return false;
        }
        let room = (self.memory.buffer_bytes - self.input.len()).min(self.memory.wire_bytes);
        let into = self.memory.wire_in() as *mut u8;
        let started = if self.waits_first {
            // SAFETY:
            // - as in `start_sending`
            unsafe { fs.start_recv_when_ready(socket, into, number(room), 0) }
        } else {
            // SAFETY:
            // - as above
            unsafe { fs.start_recv(socket, into, number(room), 0) }
        };
        self.receiving = self.begun(started);
        self.receiving.is_some()
    }
    /// What was started; where there is no room for it now it is tried again.
    fn begun(&mut self, started: Result<Pending, Errno>) -> Option<Pending> {
        if started.as_ref().is_err_and(|errno| *errno != Errno::AGAIN) {
            self.vanish();
        }
        started.ok()
    }

    /// No more is taken from the client than has come.
    pub(super) fn stop(&mut self) {
        self.answers.ended = true;
        if let Some(Settled::Moved(bytes)) = self.receiving.take().map(cancel) {
            self.came = bytes.min(self.memory.wire_bytes);
        }
    }
    /// Nothing more is said, either.
    pub(super) fn give_up(&mut self) {
        self.stop();
        self.sending.take().map(cancel);
        self.vanish();
    }
    /// Closes the socket when all is said; whether it did.
    pub(super) fn close_if_over(&mut self, fs: Fs) -> bool {
        let is_over = self.answers.ended
            && !self.answers.blocked
            && self.output.len() == 0
            && self.going.len() == 0
            && self.sending.is_none();
        if self.socket.is_none() || !is_over {
            return false;
        }
        self.stop();
        if let Some(socket) = self.socket.take() {
            // Nobody is left who could be told of an error.
            let _ = fs.close(socket);
        }
        true
    }
}

/// What an operation came to.
fn outcome(finished: Result<Finished, Errno>) -> Settled {
    match finished {
        Ok(finished) => Settled::Moved(finished.count()),
        // Asked again.
        Err(Errno::INTR | Errno::AGAIN) => Settled::Not,
        Err(Errno::INVAL) => Settled::Unknown,
        Err(_) => Settled::Failed,
    }
}

/// Ends an operation. It may have moved something before.
fn cancel(pending: Pending) -> Settled {
    let _ = pending.cancel();
    outcome(pending.wait())
}

fn number(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

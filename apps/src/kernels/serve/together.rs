//! Requests that came at once, answered side by side: each lane of the warp takes one of a single client's.
//!
//! Where a request may begin shows without reading those before it: a line that begins with `*`. Each lane reads one such place to its end, and those
//! count of which each begins where the one before ended. Of these the warp takes GET, SET and INCR up to the first that must come after another one:
//! it concerns the same key. All that is left, and what is longer than a lane's room, the client's own lane answers one by one
//! ([`super::answer`]).
#![expect(unsafe_code, reason = "memory that a warp's lanes share")]

use core::slice;

use gpufs_device::warp::Lanes;

use super::buffer::Buffer;
use super::commands::{Outcome, execute};
use super::copy::copy_alone;
use super::request::{Arguments, Parsed, parse};
use super::table::{Table, hash_of};

/// Room for a lane's reply: a multiple of 16.
const REPLY_BYTES: usize = 1024;
/// The most lanes of a warp.
const WIDTH_MAX: usize = 64;
/// Memory that a warp takes for this, as the device sees it.
pub const SCRATCH_BYTES: usize = WIDTH_MAX * (REPLY_BYTES + size_of::<u32>());
/// Fewer lanes gain nothing.
pub(super) const LANES_MIN: u32 = 8;
/// Bytes of a word.
const WORD: usize = size_of::<u128>();

/// A client's buffers, the same in all lanes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct View {
    /// Where requests lie, a multiple of 16, and between which bytes they are.
    pub(super) input: u64,
    pub(super) from: usize,
    pub(super) to: usize,
    /// Where replies go, and between which bytes there is room.
    pub(super) output: u64,
    pub(super) end: usize,
    pub(super) size: usize,
    /// The most bytes of a string.
    pub(super) most: usize,
}

impl View {
    /// That of lane `from`. Convergent; called by `lanes`.
    pub(super) fn broadcast(self, lanes: Lanes, from: u32) -> Self {
        let all = |number: usize| lanes.broadcast(number as u64, from) as usize;
        Self {
            input: lanes.broadcast(self.input, from),
            from: all(self.from),
            to: all(self.to),
            output: lanes.broadcast(self.output, from),
            end: all(self.end),
            size: all(self.size),
            most: all(self.most),
        }
    }
    /// What was sent.
    ///
    /// # Safety
    /// Nobody writes it while the slice lives.
    unsafe fn requests<'a>(&self) -> &'a [u8] {
        // SAFETY:
        // - the client's input, of which so many bytes were written
        unsafe { slice::from_raw_parts(self.input as *const u8, self.to) }
    }
}

/// What a request does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Get,
    Set,
    Increment,
}

/// A request that a lane may answer beside others.
#[derive(Clone, Debug)]
struct Simple<'a> {
    kind: Kind,
    key: &'a [u8],
    arguments: Arguments<'a>,
}

impl<'a> Simple<'a> {
    fn of(arguments: Arguments<'a>) -> Option<Self> {
        let mut words = arguments.clone();
        let (name, key) = (words.next()?, words.next()?);
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        let kind = match words.left() {
            0 if is(b"GET") => Kind::Get,
            1 if is(b"SET") => Kind::Set,
            0 if is(b"INCR") => Kind::Increment,
            _ => return None,
        };
        Some(Self { kind, key, arguments })
    }
}

/// Answers as many of the requests as can be side by side: how many, and where what is left begins, and the replies end. Convergent; called by
/// `lanes`, with the same values; `scratch` is the warp's.
///
/// # Safety
/// The view's memory and the scratch are the warp's, and each lane reaches them.
pub(super) unsafe fn answer_together(
    table: &Table,
    lanes: Lanes,
    scratch: u64,
    view: View,
) -> (u64, usize, usize) {
    let rank = lanes.rank();
    let lane_of = |rank: u32| lanes.mask().nth(rank);
    let reply_of = |rank: u32| (scratch + u64::from(rank) * REPLY_BYTES as u64) as *mut u8;
    // The rank of the first lane of which it does not hold.
    let leading = |holds: bool| {
        let not = lanes.ballot(!holds);
        if not.is_empty() { lanes.count() } else { lanes.mask().rank(not.first()) }
    };
    // SAFETY:
    // - this function's contract; the requests are read alone
    let requests = unsafe { view.requests() };
    // SAFETY:
    // - this function's contract
    let at = unsafe { places_to_begin(lanes, scratch, view, requests) };
    let (end, simple) = at.map_or((0, None), |at| request_at(requests, at, view.most));
    let before = lanes.shuffle(end as u64, lane_of(rank.saturating_sub(1))) as usize;
    let begins = at == Some(if rank == 0 { view.from } else { before });
    let room = u32::try_from((view.size - view.end) / REPLY_BYTES).unwrap_or(u32::MAX);
    let mut count = leading(simple.is_some() && begins).min(room);
    let same = same_key(lanes, count, simple.as_ref());
    count = count.min(leading(same.is_some()));
    // SAFETY:
    // - the lane's part of the scratch, this its one slice; zeroed or written before
    let reply = unsafe { slice::from_raw_parts_mut(reply_of(rank), REPLY_BYTES) };
    let mut reply = Buffer::of(reply, (0, 0));
    let mut outcome = Outcome::Done;
    // What changes nothing comes first: where a value is too long, the rest is not done here.
    if let Some(simple) = simple.as_ref().filter(|simple| rank < count && simple.kind == Kind::Get) {
        outcome = execute(table, simple.arguments.clone(), &mut 0, &mut reply);
    }
    count = count.min(leading(outcome == Outcome::Done));
    // Of several values for one key in a row the last one counts, and what becomes of it.
    let later = same.unwrap_or(0) & 1_u64.checked_shl(count).map_or(u64::MAX, |bit| bit - 1);
    let source = if later == 0 { rank } else { 63 - later.leading_zeros() };
    if let Some(simple) = simple.as_ref().filter(|simple| rank < count && simple.kind != Kind::Get)
        && source == rank
    {
        let _ = execute(table, simple.arguments.clone(), &mut 0, &mut reply);
    }
    let written = reply.filled_range().1 as u64;
    // Others read the reply after this.
    lanes.sync();
    let bytes = lanes.shuffle(written, lane_of(source));
    let bytes = if rank < count { bytes } else { 0 };
    let start = lanes.scan(bytes);
    let total = lanes.broadcast(start + bytes, lanes.mask().last());
    if rank < count {
        let target = (view.output + view.end as u64 + start) as *mut u8;
        // SAFETY:
        // - a part of the output that is this lane's by the sum before it, for which there is room, and a reply that nobody writes
        unsafe { copy_alone(target, reply_of(source).cast_const(), bytes as usize) };
    }
    lanes.sync();
    if count == 0 {
        return (0, view.from, view.end);
    }
    let from = lanes.broadcast(end as u64, lane_of(count - 1)) as usize;
    (count.into(), from, view.end + total as usize)
}

/// The request that begins at `at`, where there is one: its end, and what it is if it is simple.
fn request_at(requests: &[u8], at: usize, most: usize) -> (usize, Option<Simple<'_>>) {
    match parse(requests.get(at..).unwrap_or(&[]), most) {
        Parsed::Request(arguments, bytes) => (at + bytes, Simple::of(arguments)),
        Parsed::Incomplete | Parsed::Wrong(_) => (0, None),
    }
}

/// Which of the first `count` ranks after the caller's concern its key as it does, as a set: all of them set it. `None` where the caller must come
/// after one before it. Convergent; called by `lanes`.
fn same_key(lanes: Lanes, count: u32, simple: Option<&Simple<'_>>) -> Option<u64> {
    let rank = lanes.rank();
    let simple = simple.filter(|_| rank < count);
    let hash = simple.map_or(0, |simple| hash_of(simple.key));
    let sets = lanes.ballot(simple.is_some_and(|simple| simple.kind == Kind::Set));
    let gets = lanes.ballot(simple.is_some_and(|simple| simple.kind == Kind::Get));
    let (mut later, mut waits) = (0_u64, false);
    for other in 0..count {
        let lane = lanes.mask().nth(other);
        let its_hash = lanes.broadcast(hash, lane);
        let is_same = simple.is_some() && other != rank && its_hash == hash;
        if !lanes.any(is_same) {
            continue;
        }
        let key = simple.map_or(&[][..], |simple| simple.key);
        let (address, bytes) =
            (lanes.broadcast(key.as_ptr() as u64, lane), lanes.broadcast(key.len() as u64, lane));
        if !is_same || gets.contains(lane) && gets.contains(lanes.lane()) {
            continue;
        }
        // SAFETY:
        // - the key of a request of the same input, which nobody writes
        let its = unsafe { slice::from_raw_parts(address as *const u8, bytes as usize) };
        let both_set = sets.contains(lane) && sets.contains(lanes.lane()) && its == key;
        if both_set && other > rank {
            later |= 1 << other;
        }
        waits |= !both_set && other < rank;
    }
    (!waits).then_some(later)
}

/// Where the request of each lane's rank may begin. Convergent; called by `lanes`.
///
/// # Safety
/// As for [`answer_together`].
unsafe fn places_to_begin(lanes: Lanes, scratch: u64, view: View, requests: &[u8]) -> Option<usize> {
    let places = (scratch + (WIDTH_MAX * REPLY_BYTES) as u64) as *mut u32;
    let (rank, width) = (lanes.rank() as usize, lanes.count() as usize);
    let mut found = 0_usize;
    let mut word = view.from / WORD;
    // Ends: at the requests' end, or when each lane has one.
    while word * WORD < view.to && found < width {
        let start = (word + rank) * WORD;
        let mut bits = 0_u32;
        if start < view.to {
            // SAFETY:
            // - a part of the input, which is a multiple of 16 bytes long and was zeroed or written; aligned as its start is
            let bytes = unsafe { ((view.input + start as u64) as *const u128).read() }.to_ne_bytes();
            let mut last = match start.checked_sub(1) {
                Some(at) => requests.get(at).copied().unwrap_or(0),
                None => b'\n',
            };
            for (at, byte) in (start..).zip(bytes) {
                let begins = byte == b'*' && (last == b'\n' || at == view.from);
                if begins && (view.from..view.to).contains(&at) {
                    bits |= 1 << (at - start);
                }
                last = byte;
            }
        }
        let before = lanes.scan(bits.count_ones().into()) as usize;
        let all = lanes.broadcast((before + bits.count_ones() as usize) as u64, lanes.mask().last()) as usize;
        let mut place = found + before;
        while bits != 0 && place < width {
            // SAFETY:
            // - one of the warp's places, this lane's by the sum before it
            unsafe { places.wrapping_add(place).write((start + bits.trailing_zeros() as usize) as u32) };
            bits &= bits - 1;
            place += 1;
        }
        found += all;
        word += width;
    }
    lanes.sync();
    // SAFETY:
    // - written above, before the barrier
    let mine = (rank < found).then(|| unsafe { places.wrapping_add(rank).read() } as usize);
    // Nobody writes the next ones before all have read these.
    lanes.sync();
    mine
}

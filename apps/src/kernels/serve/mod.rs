//! A key-value server: a kernel that stays, takes connections, and answers requests of Redis's protocol from a table in the device's memory.
//!
//! Each lane has places for some clients. Of each client a receive is in flight, which the system ends when something has come: nobody asks in vain,
//! and where nobody speaks nothing moves. A warp goes round its places. It takes what has come, all lanes side by side, each lane answers the
//! requests of its own client, and all replies to what came at once go out as one send. No lane waits for a client, so one that is silent, slow or
//! gone keeps no other from being served.
//!
//! One warp has the *door*: it waits for the next connection, takes it, and hands the door on.
//!
//! | file | what |
//! |---|---|
//! | `place.rs`, `buffer.rs`, `copy.rs` | one client, and its bytes on their ways |
//! | `door.rs` | the next connection |
//! | `answer.rs` | from requests to replies, one by one |
//! | `together.rs` | requests that came at once, side by side |
//! | `request.rs` | what came, taken apart |
//! | `commands.rs` | what each command does, and its reply |
//! | `table.rs` | the table |

mod answer;
mod buffer;
mod class;
mod commands;
mod copy;
mod door;
mod number;
mod place;
mod request;
mod table;
mod together;

use gpufs_core::word::{DeviceWord, DeviceWord64};
use gpufs_device::file::Descriptor;
use gpufs_device::kernel::{Handoff, Shared};
use gpufs_device::socket::SHUT_RDWR;
use gpufs_device::warp::{Lanes, clock, nap};
use gpufs_device::{Errno, Fs, calling, kernel, portable};

use self::door::Door;
use self::place::{Memory, Place, Waits};
use super::Parts;

pub use self::answer::SPARE_BYTES;
pub use self::table::Table;
pub use self::together::SCRATCH_BYTES;

/// Bytes of a place and of what it waits for, apart from its client's buffers. On the host and on the device.
pub const PLACE_BYTES: usize = 512;
const _: () = assert!(size_of::<Place>() + size_of::<Waits>() <= PLACE_BYTES);
const _: () = assert!(align_of::<Place>() <= align_of::<u128>() && size_of::<Waits>() == size_of::<u128>());

portable! {
    /// What the host places for the kernel.
    pub struct Job {
        /// The socket that listens. It does not wait.
        pub listener: Descriptor,
        /// Keys and values.
        pub table: Table,
        /// Places, [`PLACE_BYTES`] each: a part for each lane that may serve.
        pub places: Parts,
        /// Memory of each place for requests, and as much for replies, as the device sees it: a request and a value fit in a half, less
        /// [`SPARE_BYTES`].
        pub buffers: u64,
        /// Of one place, both halves.
        pub buffer_bytes: u64,
        /// From those of one place to those of the next: a multiple of 16.
        pub buffer_apart: u64,
        /// Memory of each place that the system reads and writes: half for what comes, half for what goes.
        pub wire: u64,
        /// Of one place, both halves.
        pub wire_bytes: u64,
        /// From that of one place to that of the next: a multiple of 16.
        pub wire_apart: u64,
        /// [`SCRATCH_BYTES`] for each warp, as the device sees it.
        pub scratch: u64,
        /// Clients at a time: places that are used.
        pub clients: u32,
        /// Places of a lane.
        pub places_of_a_lane: u32,
        /// How long a warp naps at least to which nothing happens, in nanoseconds.
        pub nap_ns_min: u64,
        /// And at most.
        pub nap_ns_max: u64,
        /// Warps, each of which draws its number.
        pub warps: u32,
        /// The next warp's number.
        pub next_warp: DeviceWord,
        /// The number of the warp that takes the next connection.
        pub door: DeviceWord,
        /// Clients that are connected.
        pub open: DeviceWord,
        /// 1 when the server is to end.
        pub stopping: DeviceWord,
        /// Connections that were taken.
        pub connections: DeviceWord64,
        /// Requests that were answered.
        pub requests: DeviceWord64,
        /// Why no connection can be taken any more, if that is not because the server ends.
        pub failed: Handoff<Errno>,
    }
}

/// A warp to which nothing happens naps for this part of the silence, within the job's limits.
const SILENCE_DIVISOR: u64 = 16;
/// Clients of a lane from whom it takes what has come before it answers the first of them: as in `answer.rs`.
const TURN: usize = if copy::IS_GPU { 1 } else { 16 };
/// How long replies may take to go out when the server ends.
const DRAIN_NS: u64 = 1_000_000_000;

kernel! {
    /// Serves until the listening socket is shut down, or a client says `SHUTDOWN`. Blocks of whole warps.
    pub fn serve_clients(fs: Fs, job: Shared<Job>) {
        job.with(fs, |job| {
            let lanes = calling!();
            // ORDERING: relaxed: the number is the claim.
            let warp = lanes.on_leader(|| job.next_warp.fetch_add_relaxed(1));
            let (waits, places) = places(job, lanes, warp);
            // Of a warp without places nobody's.
            let scratch = job.scratch + u64::from(warp.min(job.warps)) * SCRATCH_BYTES as u64;
            let mut door = Door::new(warp);
            let (mut silent_ns, mut stopped_ns) = (None, None);
            // Places of the lane up to the last that has a client.
            let mut used = 0;
            // Ends: when the server is to end, and all is said or the time is over.
            loop {
                // ORDERING: relaxed: a word that is set once.
                let stopping = lanes.any(job.stopping.peek() != 0);
                if stopping {
                    let now = lanes.from_leader(clock());
                    let since = *stopped_ns.get_or_insert(now);
                    door.shut();
                    for (place, waits) in places[..used].iter_mut().zip(&mut *waits) {
                        place.stop();
                        *waits = Waits::NOT;
                        if now.saturating_sub(since) > DRAIN_NS {
                            place.give_up();
                        }
                    }
                }
                // A look at the ring for all that this warp has in flight there.
                let mut in_flight = places[..used].iter().filter_map(Place::in_flight);
                if let Some(pending) = door.in_flight().or_else(|| in_flight.next()) {
                    let _ = pending.is_done();
                }
                let mut moved = go_round(fs, job, (lanes, scratch), (&mut *waits, &mut places[..used]));
                used = used_of(&places[..used]);
                if stopping && !lanes.any(used > 0) {
                    break;
                }
                if !stopping && door.attend(fs, job, lanes, places) {
                    used = used_of(places);
                    moved = true;
                    places.iter().zip(&mut *waits).for_each(|(place, waits)| *waits = place.waits());
                }
                if lanes.any(moved) {
                    silent_ns = None;
                } else {
                    let now = lanes.from_leader(clock());
                    let silence = now.saturating_sub(*silent_ns.get_or_insert(now));
                    nap((silence / SILENCE_DIVISOR).max(job.nap_ns_min).min(job.nap_ns_max) as u32);
                }
            }
            job.requests.count(places.iter().map(Place::requests).sum());
        });
    }
}

/// One round of the places of each lane for which there is something to do; whether something of the lane's moved. Convergent; called by `lanes`,
/// whose warp's memory is `scratch`.
fn go_round(
    fs: Fs,
    job: &Job,
    (lanes, scratch): (Lanes, u64),
    (waits, places): (&mut [Waits], &mut [Place]),
) -> bool {
    let (mut moved, mut from) = (false, 0);
    // Ends: at the last place of each lane that has something to do.
    loop {
        let mut turn = [None; TURN];
        for next in &mut turn {
            let (settled, found) = next_of(fs, (waits, places), from);
            moved |= settled;
            *next = found;
            if !lanes.any(found.is_some()) {
                break;
            }
            from = found.map_or(places.len(), |level| level + 1);
            Place::take_in(lanes, found.and_then(|level| places.get_mut(level)));
        }
        if turn.get(1).is_some_and(Option::is_some) {
            look_ahead(job, places, &turn);
        }
        for next in turn {
            if !lanes.any(next.is_some()) {
                return moved;
            }
            let mut place = next.and_then(|level| places.get_mut(level));
            moved |= serve(fs, job, (lanes, scratch), place.as_deref_mut());
            if let (Some(place), Some(waits)) = (place, next.and_then(|level| waits.get_mut(level))) {
                *waits = place.waits();
            }
        }
    }
}

/// Fetches what the first requests of several clients concern, all at once.
fn look_ahead(job: &Job, places: &[Place], turn: &[Option<usize>; TURN]) {
    let place_of = |level: usize| places.get(level);
    let hashes = turn.map(|next| next.and_then(place_of)?.first_key().map(|key| job.table.fetch_slot(key)));
    for hash in hashes.into_iter().flatten() {
        job.table.fetch_block(hash);
    }
}

/// Takes what is complete for the places from this one on, up to the first for which there is more to do; whether something was complete, and that
/// place. Any lane, for itself.
fn next_of(fs: Fs, (waits, places): (&mut [Waits], &mut [Place]), from: usize) -> (bool, Option<usize>) {
    let Ok(looker) = fs.looker() else { return (false, None) };
    let mut moved = false;
    for (level, (waits, place)) in waits.iter_mut().zip(places).enumerate().skip(from) {
        if waits.is_over(&looker) {
            moved |= place.settle(&looker);
            *waits = place.waits();
            if *waits == Waits::NOT {
                return (moved, Some(level));
            }
        }
    }
    (moved, None)
}

/// How many places there are up to the last that has a client.
fn used_of(places: &[Place]) -> usize {
    places.iter().rposition(|place| !place.is_free()).map_or(0, |last| last + 1)
}

/// The places of the calling lane, those that clients use, and what they wait for. Convergent; called by `lanes`, of the warp that drew this number.
#[expect(unsafe_code, reason = "places in memory that the host gave")]
#[expect(clippy::mut_from_ref, reason = "a part that this lane alone claims")]
fn places(job: &Job, lanes: Lanes, warp: u32) -> (&mut [Waits], &mut [Place]) {
    let width = lanes.count();
    let Some(part) = job.places.claim().filter(|_| warp < job.warps) else { return (&mut [], &mut []) };
    let waits = part.into_slice().as_mut_ptr().cast::<Waits>();
    let first = waits.wrapping_add(job.places_of_a_lane as usize).cast::<Place>();
    let mut count = 0;
    // Places of the same level are spread over all warps.
    for level in 0..job.places_of_a_lane {
        let number = (level * width + lanes.rank()) * job.warps + warp;
        if number >= job.clients {
            break;
        }
        let memory = Memory::new(job, number);
        // SAFETY:
        // - in the lane's part, which begins with room for so many and is aligned (`Job::places`)
        unsafe { waits.wrapping_add(count).write(Waits::default()) };
        // SAFETY:
        // - behind those, where there is room for as many
        unsafe { first.wrapping_add(count).write(Place::new(memory)) };
        count += 1;
    }
    // SAFETY:
    // - that many were written, and the part is the lane's alone
    let waits = unsafe { core::slice::from_raw_parts_mut(waits, count) };
    // SAFETY:
    // - as above
    (waits, unsafe { core::slice::from_raw_parts_mut(first, count) })
}

/// Answers what has come for each lane's place, if it has one with something to do, and starts what can be; whether something of the lane's moved.
/// Convergent; called by `lanes`, whose warp's memory is `scratch`.
fn serve(fs: Fs, job: &Job, (lanes, scratch): (Lanes, u64), place: Option<&mut Place>) -> bool {
    let (mut place, mut moved) = (place, false);
    Place::answer_together(job, lanes, scratch, place.as_deref_mut());
    if place.as_mut().is_some_and(|place| place.has_requests() && place.answer(job)) {
        // ORDERING: relaxed: the others look again.
        job.stopping.set(1);
        // The warp that has the door sees it.
        let _ = fs.shutdown(job.listener, SHUT_RDWR);
    }
    Place::put_out(lanes, place.as_deref_mut());
    if let Some(place) = place {
        moved |= place.start_sending(fs);
        moved |= place.start_receiving(fs);
        if place.close_if_over(fs) {
            job.open.fetch_sub(1);
            moved = true;
        }
    }
    moved
}

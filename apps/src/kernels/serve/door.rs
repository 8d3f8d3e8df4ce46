//! The next connection. One warp at a time waits for it, takes it, and hands the door on to the next warp: so clients are spread over the warps, and
//! no two warps wake for one.

use gpufs_device::aio::Pending;
use gpufs_device::socket::{POLLIN, SOCK_NONBLOCK};
use gpufs_device::warp::Lanes;
use gpufs_device::{Errno, Fs};

use super::Job;
use super::place::Place;

/// A warp's share in the door: its leader has it.
#[derive(Debug)]
pub(super) struct Door {
    warp: u32,
    /// The wait for a client, in the leader.
    waiting: Option<Pending>,
}

impl Door {
    /// Of the warp of this number.
    pub(super) const fn new(warp: u32) -> Self {
        Self { warp, waiting: None }
    }
    /// The operation that is in flight.
    pub(super) const fn in_flight(&self) -> Option<&Pending> {
        self.waiting.as_ref()
    }
    /// Waits no more.
    pub(super) fn shut(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            let _ = waiting.cancel();
            let _ = waiting.wait();
        }
    }

    /// Looks after the door, if this warp has it; whether a client came. Convergent; called by `lanes`.
    pub(super) fn attend(&mut self, fs: Fs, job: &Job, lanes: Lanes, places: &mut [Place]) -> bool {
        // ORDERING: acquire and release, device, partner the `publish` below, of the warp before: it is through with the listening socket.
        let is_mine = lanes.any(lanes.is_leader() && job.door.observe() == self.warp);
        if !is_mine {
            return false;
        }
        // While it waits there is a free place: they are taken here alone.
        if lanes.any(self.waiting.as_ref().is_some_and(|waiting| !waiting.is_known_done())) {
            return false;
        }
        let free = places.iter().position(Place::is_free);
        // The lane with the lowest free place, so that clients are spread over lanes, too.
        let levels = lanes.ballot(free.is_some());
        if levels.is_empty() {
            // ORDERING: relaxed: where all places are taken the door stays here until one is free.
            if lanes.is_leader() && self.waiting.is_none() && job.open.peek() < job.clients {
                self.hand_on(job);
            }
            return false;
        }
        let mut came = false;
        if lanes.is_leader() {
            came = self.waiting.is_some();
            if !came {
                self.waiting = fs.start_poll(job.listener, POLLIN).ok();
            }
        }
        if !lanes.any(came) {
            return false;
        }
        if lanes.is_leader()
            && let Some(waiting) = self.waiting.take()
        {
            // What is wrong with the socket shows when it is used.
            let _ = waiting.wait();
        }
        let lowest = lowest(lanes, free);
        if lanes.lane() == lowest
            && let Some(place) = free.and_then(|free| places.get_mut(free))
        {
            accept(fs, job, place);
        }
        lanes.sync();
        if lanes.is_leader() {
            self.hand_on(job);
        }
        true
    }

    /// Gives the door to the next warp.
    fn hand_on(&self, job: &Job) {
        // ORDERING: release, device, partner the acquire above, of the next warp.
        job.door.publish((self.warp + 1) % job.warps);
    }
}

/// The lane whose free place has the lowest number. Convergent; called by `lanes`, some of which have one.
fn lowest(lanes: Lanes, free: Option<usize>) -> u32 {
    let level = free.map_or(u64::MAX, |free| free as u64);
    let (mut best, mut lane) = (u64::MAX, lanes.leader());
    for other in lanes.mask().iter() {
        let its = lanes.broadcast(level, other);
        if its < best {
            (best, lane) = (its, other);
        }
    }
    lane
}

/// Takes the next connection, if there is one.
fn accept(fs: Fs, job: &Job, place: &mut Place) {
    match fs.accept4(job.listener, None, SOCK_NONBLOCK) {
        Ok(socket) => {
            place.open(socket);
            job.connections.count(1);
            // ORDERING: relaxed: a number.
            job.open.fetch_add_relaxed(1);
        }
        // Nobody is there, or somebody who went again; or all descriptors are in use until somebody goes.
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED | Errno::MFILE | Errno::NFILE) => {}
        Err(errno) => {
            // It was shut down, or else it has failed.
            if errno != Errno::INVAL {
                job.failed.put(errno);
            }
            // ORDERING: relaxed: the others look again.
            job.stopping.set(1);
        }
    }
}

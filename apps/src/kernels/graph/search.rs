//! Breadth-first search: each vertex gets its distance from the first, and enters the queue once, behind those of its level.

use gpufs_device::kernel::{Handoff, Shared};
use gpufs_device::view::Mapping;
use gpufs_device::warp::Lanes;
use gpufs_device::{Errno, calling, kernel, portable};

use super::rows::{self, COUNTERS, Graph, Rows, Trouble, Vertices, Walk};
use crate::kernels::{Array, Words, Words64};

/// The distance of a vertex that was not reached.
pub const UNSEEN: u32 = u32::MAX;

portable! {
    /// What the host places for the kernel.
    pub struct Search {
        /// The graph.
        pub rows: Rows,
        /// The distance of each vertex: [`UNSEEN`] before it is found.
        pub distances: Words,
        /// Vertices in the order in which they were found: room for all.
        pub queue: Words,
        /// [`COUNTERS`]: how many of the level are drawn; how many vertices the queue has.
        pub counters: Words64,
        /// The first failure.
        pub failure: Handoff<Trouble>,
    }
}

/// One level of a search.
struct Level<'a> {
    search: &'a Search,
    /// The queue's vertices of this level.
    from: u64,
    to: u64,
    /// The distance of those that are found.
    distance: u32,
    step: u64,
    lanes: Lanes,
}

impl Walk for Level<'_> {
    fn walk(&self, graph: &impl Graph) {
        let Self { search, lanes, .. } = *self;
        let vertices = Vertices {
            rows: &search.rows,
            drawn: search.counters.at(0),
            count: self.to - self.from,
            step: self.step,
            are_near: false,
            failure: &search.failure,
        };
        // ORDERING: relaxed: an earlier launch stored it.
        let vertex = |number| u64::from(search.queue.at(self.from + number).peek());
        vertices.walk(lanes, graph, vertex, |_| 0, |_, neighbour| self.enter(neighbour));
    }
}

impl Level<'_> {
    /// Puts the lanes' neighbours into the queue that nobody has found before. Convergent; called by `lanes`.
    #[inline]
    fn enter(&self, neighbour: Option<u64>) {
        let (search, lanes) = (self.search, self.lanes);
        let found = neighbour.filter(|vertex| {
            let distance = search.distances.at(*vertex);
            // ORDERING: relaxed: a look that spares the exchange.
            // ORDERING: acquire, device: of several lanes, one finds it; nothing else is read by that.
            distance.peek() == UNSEEN && distance.try_acquire(UNSEEN, self.distance)
        });
        let finders = lanes.ballot(found.is_some());
        if finders.is_empty() {
            return;
        }
        // ORDERING: relaxed: the places are the claim; the next launch reads what is stored there.
        let place =
            lanes.on_leader_inline(|| search.counters.at(1).fetch_add_relaxed(u64::from(finders.count())));
        if let Some(vertex) = found {
            // ORDERING: relaxed: as above.
            search.queue.at(place + u64::from(finders.rank(lanes.lane()))).set(vertex as u32);
        }
    }
}

const _: () = assert!(COUNTERS == 2);

/// Finds the neighbours of one level's vertices.
fn level(
    search: &Search,
    (from, to, distance, step): (u64, u64, u32, u32),
    walk: impl FnOnce(&Level<'_>) -> Result<(), Errno>,
) {
    let level = Level { search, from, to, distance, step: step.into(), lanes: calling!() };
    if let Err(errno) = walk(&level) {
        search.failure.put(Trouble::of_view(errno));
    }
}

kernel! {
    #[maxnreg(64)]
    /// One level of a search, of a mapped file: vertices `from` to `to`, without the latter, of the queue. Warps draw up to `step` of them at a time,
    /// and what they find gets this `distance`. Any grid.
    pub fn search_cached(
        fs: Fs, search: Shared<Search>, map: Mapping, from: u64, to: u64, distance: u32, step: u32,
    ) {
        search.with(fs, |search| {
            level(search, (from, to, distance, step), |level| rows::cached(fs, &search.rows, map, level));
        });
    }
}

kernel! {
    #[maxnreg(64)]
    /// As [`search_cached()`], of the same bytes in an array.
    pub fn search_plain(
        fs: Fs, search: Shared<Search>, bytes: Array, from: u64, to: u64, distance: u32, step: u32,
    ) {
        search.with(fs, |search| {
            level(search, (from, to, distance, step), |level| rows::plain(&search.rows, bytes, level));
        });
    }
}

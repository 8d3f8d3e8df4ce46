//! PageRank by pushing: each vertex divides its rank among its neighbours; then every vertex gets its new one.
//!
//! Ranks are whole numbers, parts of [`ONE`]. Additions of whole numbers may come in any order, so that every way makes the same ranks.

use gpufs_device::kernel::{Handoff, Shared};
use gpufs_device::view::Mapping;
use gpufs_device::warp::{Lanes, global_thread, grid_threads};
use gpufs_device::{Errno, calling, kernel, portable};

use super::rows::{self, Graph, Rows, Trouble, Vertices, Walk};
use crate::kernels::{Array, Words64};

/// All ranks together.
const ONE: u64 = 1 << 59;
/// The damping factor, 0.85, as a fraction: the part of a rank that goes to neighbours.
const DAMPING: (u64, u64) = (17, 20);

portable! {
    /// What the host places for the kernels.
    pub struct Ranking {
        /// The graph.
        pub rows: Rows,
        /// The rank of each vertex.
        pub ranks: Words64,
        /// What each vertex gets from others; 0 between rounds.
        pub sums: Words64,
        /// As many as a launch has: how many vertices are drawn; the ranks of those that have no neighbour, together.
        pub counters: Words64,
        /// The first failure.
        pub failure: Handoff<Trouble>,
    }
}

/// The rank of a vertex that gets so much from others, in a graph of so many vertices, where those without a neighbour have so much: that is
/// divided among all.
#[inline]
#[must_use]
pub const fn settled(sum: u64, left_over: u64, vertices: u64) -> u64 {
    let (part, whole) = DAMPING;
    // Below 2⁶⁴: a sum is at most `ONE`.
    (ONE / whole) * (whole - part) / vertices + (sum + left_over / vertices) * part / whole
}

/// One round.
struct Round<'a> {
    ranking: &'a Ranking,
    step: u64,
    lanes: Lanes,
}

impl Walk for Round<'_> {
    fn walk(&self, graph: &impl Graph) {
        let Self { ranking, lanes, step } = *self;
        let vertices = Vertices {
            rows: &ranking.rows,
            drawn: ranking.counters.at(0),
            count: ranking.rows.vertices,
            step,
            are_near: true,
            failure: &ranking.failure,
        };
        let begin = |row: Option<(u64, u64)>| {
            // ORDERING: relaxed: an earlier launch stored it.
            let rank = row.map_or(0, |(vertex, _)| ranking.ranks.at(vertex).peek());
            let degree = row.map_or(0, |(_, degree)| degree);
            let left_over = if degree == 0 { rank } else { 0 };
            let before = lanes.scan(left_over);
            let all = lanes.broadcast(before + left_over, lanes.mask().last());
            if lanes.is_leader() && all > 0 {
                // ORDERING: relaxed: the next launch reads it.
                ranking.counters.at(1).count(all);
            }
            rank.checked_div(degree).unwrap_or(0)
        };
        let edge = |share, neighbour| {
            if let Some(vertex) = neighbour {
                // ORDERING: relaxed: the next launch reads it.
                ranking.sums.at(vertex).count(share);
            }
        };
        vertices.walk(lanes, graph, |number| number, begin, edge);
    }
}

/// Divides the rank of each vertex among its neighbours.
fn round(ranking: &Ranking, step: u32, walk: impl FnOnce(&Round<'_>) -> Result<(), Errno>) {
    let round = Round { ranking, step: step.into(), lanes: calling!() };
    if let Err(errno) = walk(&round) {
        ranking.failure.put(Trouble::of_view(errno));
    }
}

kernel! {
    #[maxnreg(64)]
    /// Divides the rank of each vertex among its neighbours, of a mapped file. Warps draw up to `step` vertices at a time. Any grid.
    pub fn rank_cached(fs: Fs, ranking: Shared<Ranking>, map: Mapping, step: u32) {
        ranking.with(fs, |ranking| {
            round(ranking, step, |round| rows::cached(fs, &ranking.rows, map, round));
        });
    }
}

kernel! {
    #[maxnreg(64)]
    /// As [`rank_cached()`], of the same bytes in an array.
    pub fn rank_plain(fs: Fs, ranking: Shared<Ranking>, bytes: Array, step: u32) {
        ranking.with(fs, |ranking| {
            round(ranking, step, |round| rows::plain(&ranking.rows, bytes, round));
        });
    }
}

kernel! {
    /// Gives every vertex its new rank: the first one, before the first round, or what it got. Any grid.
    pub fn settle(fs: Fs, ranking: Shared<Ranking>, is_first: u32) {
        ranking.with(fs, |ranking| {
            let vertices = ranking.rows.vertices;
            // ORDERING: relaxed, here and below: other launches have what comes before and after.
            let left_over = ranking.counters.at(1).peek();
            let mut vertex = global_thread();
            // Ends: `vertex` grows.
            while vertex < vertices {
                let sum = ranking.sums.at(vertex);
                let rank = match is_first {
                    1 => first_rank(vertices),
                    _ => settled(sum.peek(), left_over, vertices),
                };
                ranking.ranks.at(vertex).set(rank);
                sum.set(0);
                vertex += grid_threads();
            }
        });
    }
}

/// A rank as a part of 1.
#[cfg(feature = "host")]
#[must_use]
pub fn part_of_one(rank: u64) -> f64 {
    rank as f64 / ONE as f64
}

/// The rank that every vertex begins with.
#[must_use]
pub const fn first_rank(vertices: u64) -> u64 {
    ONE / vertices
}

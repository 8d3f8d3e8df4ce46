//! A graph in compressed sparse rows, and a warp's walk along the neighbours of vertices.

use gpufs_core::word::DeviceWord64;
use gpufs_device::kernel::Handoff;
use gpufs_device::view::{Mapping, Plain, View};
use gpufs_device::warp::Lanes;
use gpufs_device::{Errno, Fs, portable};

use crate::kernels::Array;
use crate::kernels::span::{Span, element};

/// Words of a launch that all lanes share: where the next vertices are drawn, and what the algorithm counts.
pub const COUNTERS: usize = 2;

portable! {
    /// Where the parts of a graph lie in its file, and in an array that holds the same bytes. The neighbours of vertex `v` are numbers
    /// `offsets[v]` to `offsets[v + 1]`, without the latter, of the neighbours.
    #[derive(Clone, Copy, Debug)]
    pub struct Rows {
        /// How many vertices.
        pub vertices: u64,
        /// How many edges, one way each.
        pub edges: u64,
        /// Where the offsets begin, in bytes: `vertices + 1` numbers of 8 bytes.
        pub offsets_at: u64,
        /// Where the neighbours begin, in bytes: `edges` numbers.
        pub edges_at: u64,
        /// Bytes of a neighbour: 4 or 8.
        pub edge_bytes: u64,
    }
}

portable! {
    /// Why a graph could not be walked.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Trouble {
        /// 1 if it is about a neighbour, 0 about an offset.
        of_edge: u32,
        /// 0 where the number was read, and is wrong.
        errno: i32,
        /// Which offset or neighbour.
        pub index: u64,
    }
}

impl Trouble {
    fn new(of_edge: bool, errno: Option<Errno>, index: u64) -> Self {
        Self { of_edge: u32::from(of_edge), errno: errno.map_or(0, Errno::number), index }
    }
    /// The file could not be looked at.
    pub(super) fn of_view(errno: Errno) -> Self {
        Self::new(false, Some(errno), 0)
    }
    /// Whether it is about a neighbour rather than an offset.
    #[must_use]
    pub const fn is_of_edge(&self) -> bool {
        self.of_edge == 1
    }
    /// The error of reading it; `None`: it was read, and points beyond the graph.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        (self.errno != 0).then(|| Errno::from_number(self.errno))
    }
}

/// A graph that lanes can read.
pub(super) trait Graph {
    /// What is looked at together.
    type Near<'n>
    where
        Self: 'n;
    /// Offset `index`.
    fn offset(&self, index: u64) -> Result<u64, Errno>;
    /// Neighbours `from` to `to`, without the latter, at which lanes that call together will look; `None`: each by itself.
    fn near(&self, range: (u64, u64)) -> Result<Option<Self::Near<'_>>, Errno>;
    /// Neighbour `index`, of those that are near, if there are any.
    fn edge<'n>(&'n self, near: Option<&Self::Near<'n>>, index: u64) -> Result<u64, Errno>;
}

/// What is done with a graph, wherever that lies.
pub(super) trait Walk {
    /// Does it. Convergent with the other lanes of the kernel.
    fn walk(&self, graph: &impl Graph);
}

/// A file, through the cache.
struct Cached<'a, 'v, E> {
    offsets: &'a View<'v, u64>,
    edges: &'a View<'v, E>,
}

impl<E: Plain + Into<u64>> Graph for Cached<'_, '_, E> {
    /// The first, and they, while their pages are kept.
    type Near<'n>
        = (u64, Span<'n, E>)
    where
        Self: 'n;

    #[inline]
    fn offset(&self, index: u64) -> Result<u64, Errno> {
        self.offsets.get(index)
    }
    fn near(&self, (from, to): (u64, u64)) -> Result<Option<Self::Near<'_>>, Errno> {
        Ok(Span::of(self.edges, from, to - from)?.map(|span| (from, span)))
    }
    #[inline]
    fn edge<'n>(&'n self, near: Option<&Self::Near<'n>>, index: u64) -> Result<u64, Errno> {
        let edge = match near {
            Some((first, span)) => element(span.slices(), index - first),
            None => self.edges.get(index),
        };
        edge.map(E::into)
    }
}

/// Arrays.
struct Arrays<E> {
    offsets: Array,
    edges: Array,
    of: core::marker::PhantomData<E>,
}

impl<E: Plain + Into<u64>> Graph for Arrays<E> {
    type Near<'n>
        = ()
    where
        Self: 'n;

    #[inline]
    fn offset(&self, index: u64) -> Result<u64, Errno> {
        self.offsets.get(index)
    }
    #[inline]
    fn near(&self, _: (u64, u64)) -> Result<Option<()>, Errno> {
        Ok(None)
    }
    #[inline]
    fn edge(&self, _: Option<&()>, index: u64) -> Result<u64, Errno> {
        self.edges.get::<E>(index).map(E::into)
    }
}

/// Walks the graph of a mapped file.
///
/// # Errors
/// As [`Fs::view`].
pub(super) fn cached(fs: Fs, rows: &Rows, map: Mapping, walk: &impl Walk) -> Result<(), Errno> {
    let vertices = rows.vertices + 1;
    fs.view::<u64, _>(map, rows.offsets_at, vertices, |offsets| {
        if rows.edge_bytes == 8 {
            fs.view::<u64, _>(map, rows.edges_at, rows.edges, |edges| walk.walk(&Cached { offsets, edges }))
        } else {
            fs.view::<u32, _>(map, rows.edges_at, rows.edges, |edges| walk.walk(&Cached { offsets, edges }))
        }
    })?
}

/// Walks the graph whose file's bytes are in an array.
///
/// # Errors
/// `EINVAL` where the array has no such parts.
pub(super) fn plain(rows: &Rows, bytes: Array, walk: &impl Walk) -> Result<(), Errno> {
    let (offsets, edges) = (bytes.part(rows.offsets_at)?, bytes.part(rows.edges_at)?);
    if rows.edge_bytes == 8 {
        walk.walk(&Arrays::<u64> { offsets, edges, of: core::marker::PhantomData });
    } else {
        walk.walk(&Arrays::<u32> { offsets, edges, of: core::marker::PhantomData });
    }
    Ok(())
}

/// The vertices of one launch.
pub(super) struct Vertices<'a> {
    pub(super) rows: &'a Rows,
    /// The next to draw, or more.
    pub(super) drawn: &'a DeviceWord64,
    /// How many there are.
    pub(super) count: u64,
    /// The most that a warp draws at a time.
    pub(super) step: u64,
    /// Whether vertices that are drawn together follow each other, and so do their neighbours in the graph.
    pub(super) are_near: bool,
    pub(super) failure: &'a Handoff<Trouble>,
}

impl Vertices<'_> {
    /// Draws vertices until none is left. Of each, the lane that drew it calls `vertex` with its number among those of the launch to get the vertex,
    /// and `begin` with vertex and degree, whose word all lanes hand to `edge` with each neighbour. `begin` is also called where a lane has no
    /// vertex, and `edge` where it has no neighbour. Both are convergent, called by `lanes`. So is this.
    pub(super) fn walk(
        &self,
        lanes: Lanes,
        graph: &impl Graph,
        vertex: impl Fn(u64) -> u64,
        begin: impl Fn(Option<(u64, u64)>) -> u64,
        edge: impl Fn(u64, Option<u64>),
    ) {
        let (width, rank) = (u64::from(lanes.count()), u64::from(lanes.rank()));
        let step = self.step.min(width);
        // Ends: each round takes vertices, or notes a failure.
        loop {
            // ORDERING: relaxed: the number is the claim.
            let first = lanes.on_leader_inline(|| self.drawn.fetch_add_relaxed(step));
            if first >= self.count || lanes.any(self.failure.is_full()) {
                return;
            }
            let count = step.min(self.count - first);
            let mine = (rank < count).then(|| vertex(first + rank));
            let row = mine.and_then(|vertex| Some((vertex, self.row(graph, vertex)?)));
            let (from, to) = row.map_or((0, 0), |(_, row)| row);
            let word = begin(row.map(|(vertex, (from, to))| (vertex, to - from)));
            let near = if self.are_near { self.near(graph, lanes, count, (from, to)) } else { None };
            for which in 0..count {
                let lane = lanes.mask().nth(which as u32);
                let (from, to) = (lanes.broadcast(from, lane), lanes.broadcast(to, lane));
                let word = lanes.broadcast(word, lane);
                let mut at = from;
                // Ends: `at` grows.
                while at < to {
                    let mine = at + rank;
                    edge(
                        word,
                        (mine < to)
                            .then_some(mine)
                            .and_then(|index| self.neighbour(graph, near.as_ref(), index)),
                    );
                    at += width;
                }
            }
        }
    }
    /// Where the neighbours of a vertex are; `None`: that is noted as a failure.
    fn row(&self, graph: &impl Graph, vertex: u64) -> Option<(u64, u64)> {
        let from = self.noted(graph.offset(vertex), false, vertex)?;
        let to = self.noted(graph.offset(vertex + 1), false, vertex + 1)?;
        if from > to || to > self.rows.edges {
            self.failure.put(Trouble::new(false, None, vertex));
            return None;
        }
        Some((from, to))
    }
    /// The neighbours of `count` vertices that the first lanes have, one after the other. Convergent; called by `lanes`.
    #[inline]
    fn near<'g, G: Graph>(
        &self,
        graph: &'g G,
        lanes: Lanes,
        count: u64,
        (from, to): (u64, u64),
    ) -> Option<G::Near<'g>> {
        let first = lanes.broadcast(from, lanes.leader());
        let last = lanes.broadcast(to, lanes.mask().nth(count as u32 - 1));
        // Where it could not be read, no lane looks for it.
        if first < last { self.noted(graph.near((first, last)), true, first).flatten() } else { None }
    }
    /// A neighbour; `None`: that is noted as a failure.
    #[inline]
    fn neighbour<'g, G: Graph>(&self, graph: &'g G, near: Option<&G::Near<'g>>, index: u64) -> Option<u64> {
        let vertex = self.noted(graph.edge(near, index), true, index)?;
        if vertex >= self.rows.vertices {
            self.failure.put(Trouble::new(true, None, index));
            return None;
        }
        Some(vertex)
    }
    #[inline]
    fn noted<T>(&self, number: Result<T, Errno>, of_edge: bool, index: u64) -> Option<T> {
        match number {
            Ok(number) => Some(number),
            Err(errno) => {
                self.failure.put(Trouble::new(of_edge, Some(errno), index));
                None
            }
        }
    }
}

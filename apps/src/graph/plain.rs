//! The algorithms as one thread of the host does them, on a graph that it has read.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::Csr;
use crate::kernels::graph::{UNSEEN, first_rank, settled};

/// A graph in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    offsets: Vec<u64>,
    edges: Vec<u64>,
}

impl Loaded {
    /// Reads a graph.
    ///
    /// # Errors
    /// The system's; `InvalidData` where an offset or a neighbour points beyond the graph.
    pub fn of(csr: &Csr) -> io::Result<Self> {
        let rows = &csr.rows;
        let read = |at: u64, count: u64, bytes: u64| {
            let mut raw = vec![0; (count * bytes) as usize];
            csr.file.read_exact_at(&mut raw, at)?;
            let number = |raw: &[u8]| raw.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
            io::Result::Ok(raw.chunks_exact(bytes as usize).map(number).collect::<Vec<_>>())
        };
        let offsets = read(rows.offsets_at, rows.vertices + 1, 8)?;
        let edges = read(rows.edges_at, rows.edges, rows.edge_bytes)?;
        let is_whole = offsets.is_sorted() && offsets.last().is_some_and(|last| *last <= rows.edges);
        if !is_whole || edges.iter().any(|vertex| *vertex >= rows.vertices) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an edge points beyond the graph"));
        }
        Ok(Self { offsets, edges })
    }
    fn vertices(&self) -> usize {
        self.offsets.len() - 1
    }
    fn neighbours(&self, vertex: usize) -> &[u64] {
        &self.edges[self.offsets[vertex] as usize..self.offsets[vertex + 1] as usize]
    }

    /// The distance of each vertex from `start`; [`UNSEEN`] of those that cannot be reached.
    #[must_use]
    pub fn distances(&self, start: u64) -> Vec<u32> {
        let mut distances = vec![UNSEEN; self.vertices()];
        distances[start as usize] = 0;
        let mut queue = VecDeque::from([start as usize]);
        // Ends: a vertex enters once.
        while let Some(vertex) = queue.pop_front() {
            for neighbour in self.neighbours(vertex) {
                let neighbour = *neighbour as usize;
                if distances[neighbour] == UNSEEN {
                    distances[neighbour] = distances[vertex] + 1;
                    queue.push_back(neighbour);
                }
            }
        }
        distances
    }

    /// The rank of each vertex after so many rounds, in the kernel's units.
    #[must_use]
    pub fn ranks(&self, rounds: u32) -> Vec<u64> {
        let count = self.vertices() as u64;
        let mut ranks = vec![first_rank(count); self.vertices()];
        for _ in 0..rounds {
            let (mut sums, mut left_over) = (vec![0; self.vertices()], 0);
            for (vertex, rank) in ranks.iter().enumerate() {
                let neighbours = self.neighbours(vertex);
                match rank.checked_div(neighbours.len() as u64) {
                    None => left_over += rank,
                    Some(share) => {
                        for neighbour in neighbours {
                            sums[*neighbour as usize] += share;
                        }
                    }
                }
            }
            ranks = sums.into_iter().map(|sum| settled(sum, left_over, count)).collect();
        }
        ranks
    }
}

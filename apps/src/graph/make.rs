//! A generator of graphs of any size: it holds no edge in memory, and the same recipe always makes the same bytes.
//!
//! Uniform: the degree of a vertex is any number from 0 to twice the average, and each neighbour any vertex.
//!
//! Kronecker (R-MAT, with the parameters of Graph500: 0.57, 0.19, 0.19, 0.05): each edge chooses one of four quarters of the matrix again and
//! again. The rows come one after the other here: how many edges a half of the rows has is drawn for each half, down to one row, and the columns of
//! its edges bit by bit, given the bits of the row. Numbers of more than [`EXACT_MAX`] edges are divided by the normal distribution in the place of
//! the binomial. The vertices are then mixed, so that those with many neighbours do not lie together.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::{ALIGNMENT, MAGIC, rows_of};
use crate::cli::values::Choice;
use crate::cli::{Failure, about, reason};
use crate::kernels::graph::Rows;
use crate::kernels::mixed;

/// The largest graph: 2 to the power of this many vertices.
pub const SCALE_MAX: u32 = 31;
/// The largest average degree.
pub const DEGREE_MAX: u64 = 1 << 16;

/// Up to so many edges each is drawn by itself.
const EXACT_MAX: u64 = 64;

/// Of 2³²: how likely an edge is in the upper half of the rows; and in the right half of the columns, given its half of the rows.
const UPPER: u64 = (76 << 32) / 100;
const RIGHT_OF: [u64; 2] = [(19 << 32) / 76, (5 << 32) / 24];

/// How edges are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Evenly.
    Uniform,
    /// As in networks of people: few vertices have many neighbours.
    Kronecker,
}

impl Kind {
    /// Its names.
    pub const CHOICE: Choice<Self> = Choice {
        wrong: "unknown kind of graph; use uniform or kronecker",
        names: &[("uniform", Self::Uniform), ("kronecker", Self::Kronecker)],
    };
}

/// What to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// How edges are distributed.
    pub kind: Kind,
    /// 2 to the power of this is the number of vertices: 1 to [`SCALE_MAX`].
    pub scale: u32,
    /// The average number of neighbours, up to [`DEGREE_MAX`].
    pub degree: u64,
    /// Which of the graphs of this kind and size.
    pub seed: u64,
    /// Bytes of a neighbour: 4 or 8.
    pub edge_bytes: u64,
}

/// Numbers from a seed, one after the other (splitmix64).
struct Draw(u64);

impl Draw {
    /// Those of one thing with a number.
    const fn of(seed: u64, what: u64, number: u64) -> Self {
        Self(mixed(mixed(seed ^ what.wrapping_mul(0xd1b5_4a32_d192_ed03)) ^ number))
    }
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }
    /// Whether something happens that is so likely, of 2³².
    const fn happens(&mut self, likely: u64) -> bool {
        self.next() >> 32 < likely
    }
    /// How many of `count` things happen that are so likely each, of 2³².
    fn of_many(&mut self, count: u64, likely: u64) -> u64 {
        if count <= EXACT_MAX {
            return (0..count).map(|_| u64::from(self.happens(likely))).sum();
        }
        // Twelve even draws: a normal one with variance 1 and mean 6. Sums, products and roots are the same on every machine.
        let normal: f64 =
            (0..12).map(|_| (self.next() >> 11) as f64 / (1_u64 << 53) as f64).sum::<f64>() - 6.0;
        let (part, all) = (likely as f64 / (1_u64 << 32) as f64, count as f64);
        let drawn = all * part + normal * (all * part * (1.0 - part)).sqrt();
        (drawn.round().max(0.0) as u64).min(count)
    }
}

/// What is drawn.
mod what {
    pub(super) const DEGREE: u64 = 1;
    pub(super) const NEIGHBOUR: u64 = 2;
    pub(super) const HALF: u64 = 3;
    pub(super) const MIXER: u64 = 4;
}

/// Vertices in another order.
struct Mixer {
    scale: u32,
    factor: u64,
    offset: u64,
}

impl Mixer {
    fn of(seed: u64, scale: u32) -> Self {
        let mut draw = Draw::of(seed, what::MIXER, 0);
        Self { scale, factor: draw.next() | 1, offset: draw.next() }
    }
    const fn mask(&self) -> u64 {
        (1 << self.scale) - 1
    }
    /// Its own inverse.
    const fn folded(&self, vertex: u64) -> u64 {
        vertex ^ vertex >> self.scale.div_ceil(2)
    }
    /// The row of a vertex.
    const fn row(&self, vertex: u64) -> u64 {
        let vertex = vertex.wrapping_mul(self.factor).wrapping_add(self.offset) & self.mask();
        self.folded(vertex).wrapping_mul(self.factor) & self.mask()
    }
    /// The vertex of a row.
    const fn vertex(&self, row: u64) -> u64 {
        // Each step of Newton's doubles the bits that are right, of which there are three.
        let (mut inverse, mut step) = (self.factor, 0);
        while step < 5 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(self.factor.wrapping_mul(inverse)));
            step += 1;
        }
        let vertex = self.folded(row.wrapping_mul(inverse) & self.mask());
        vertex.wrapping_sub(self.offset).wrapping_mul(inverse) & self.mask()
    }
}

impl Recipe {
    const fn vertices(&self) -> u64 {
        1 << self.scale
    }

    /// How many neighbours a vertex has.
    fn degree_of(&self, mixer: &Mixer, vertex: u64) -> u64 {
        match self.kind {
            Kind::Uniform => Draw::of(self.seed, what::DEGREE, vertex).next() % (2 * self.degree + 1),
            Kind::Kronecker => {
                let row = mixer.row(vertex);
                let (mut edges, mut node) = (self.degree << self.scale, 1);
                for bit in (0..self.scale).rev() {
                    let upper = Draw::of(self.seed, what::HALF, node).of_many(edges, UPPER);
                    let is_lower = row >> bit & 1;
                    edges = if is_lower == 1 { edges - upper } else { upper };
                    node = node << 1 | is_lower;
                }
                edges
            }
        }
    }

    /// Hands the neighbours of a vertex that has so many to `take`.
    fn each_neighbour<E>(
        &self,
        mixer: &Mixer,
        (vertex, degree): (u64, u64),
        mut take: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let (row, mut draw) = (mixer.row(vertex), Draw::of(self.seed, what::NEIGHBOUR, vertex));
        for _ in 0..degree {
            take(match self.kind {
                Kind::Uniform => draw.next() & (self.vertices() - 1),
                Kind::Kronecker => {
                    let bits = (0..self.scale).rev();
                    mixer.vertex(bits.fold(0, |column, bit| {
                        column << 1 | u64::from(draw.happens(RIGHT_OF[(row >> bit & 1) as usize]))
                    }))
                }
            })?;
        }
        Ok(())
    }

    /// Makes the graph's file, in place of one that is there.
    ///
    /// # Errors
    /// The system's.
    pub fn make(&self, path: &Path) -> Result<Rows, Failure> {
        self.write(path).map_err(|error| about(path, reason(&error)))
    }

    fn write(&self, path: &Path) -> io::Result<Rows> {
        let mixer = Mixer::of(self.seed, self.scale);
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        // The header comes last: what is not whole has none.
        file.write_all(&[0; ALIGNMENT as usize])?;
        let mut edges = 0;
        for vertex in 0..self.vertices() {
            file.write_all(&u64::to_le_bytes(edges))?;
            edges += self.degree_of(&mixer, vertex);
        }
        file.write_all(&u64::to_le_bytes(edges))?;
        let rows = rows_of(self.vertices(), edges, self.edge_bytes);
        let end = rows.offsets_at + (rows.vertices + 1) * 8;
        file.write_all(&vec![0; (rows.edges_at - end) as usize])?;
        for vertex in 0..self.vertices() {
            let degree = self.degree_of(&mixer, vertex);
            self.each_neighbour(&mixer, (vertex, degree), |neighbour| {
                file.write_all(&neighbour.to_le_bytes()[..self.edge_bytes as usize])
            })?;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        let words = [rows.vertices, rows.edges, rows.edge_bytes];
        let header: Vec<u8> =
            MAGIC.iter().copied().chain(words.into_iter().flat_map(u64::to_le_bytes)).collect();
        file.write_all_at(&header, 0)?;
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::{Draw, Kind, Mixer, Recipe, UPPER};

    #[test]
    fn rows_and_vertices_are_inverse() {
        for (seed, scale) in [(1, 1), (2, 2), (3, 7), (4, 12)] {
            let mixer = Mixer::of(seed, scale);
            let mut rows: Vec<u64> = (0..1 << scale).map(|vertex| mixer.row(vertex)).collect();
            for (vertex, row) in (0..).zip(&rows) {
                assert_eq!(mixer.vertex(*row), vertex, "seed {seed}, scale {scale}");
            }
            rows.sort_unstable();
            assert!(rows.into_iter().eq(0..1 << scale));
        }
    }

    #[test]
    fn halves_are_as_likely_as_they_should_be() {
        for count in [50, 64, 65, 1_000, 1_000_000] {
            let rounds = 2_000;
            let all: u64 = (0..rounds).map(|round| Draw::of(7, 0, round).of_many(count, UPPER)).sum();
            let part = all as f64 / (rounds * count) as f64;
            assert!((part - 0.76).abs() < 0.01, "{count}: {part}");
        }
    }

    #[test]
    fn kronecker_graphs_have_few_vertices_with_many_edges() {
        let recipe = Recipe { kind: Kind::Kronecker, scale: 10, degree: 16, seed: 3, edge_bytes: 4 };
        let mixer = Mixer::of(recipe.seed, recipe.scale);
        let mut degrees: Vec<u64> = (0..1 << 10).map(|vertex| recipe.degree_of(&mixer, vertex)).collect();
        assert_eq!(degrees.iter().sum::<u64>(), 16 << 10);
        degrees.sort_unstable();
        // In a uniform graph the upper eighth has a quarter.
        assert!(degrees[(1 << 10) * 7 / 8..].iter().sum::<u64>() > 10 << 10, "{degrees:?}");
        let in_upper_half: u32 = {
            let mut columns = 0;
            for vertex in 0..1 << 10 {
                let degree = recipe.degree_of(&mixer, vertex);
                let take = |neighbour| -> Result<(), ()> {
                    columns += u32::from(mixer.row(neighbour) < 1 << 9);
                    Ok(())
                };
                recipe.each_neighbour(&mixer, (vertex, degree), take).unwrap();
            }
            columns
        };
        // 0.57 and 0.19 of the edges.
        let part = f64::from(in_upper_half) / f64::from(16 << 10);
        assert!((part - 0.76).abs() < 0.02, "{part}");
    }
}

//! Graphs in files, in compressed sparse rows: their format, a generator, and the algorithms of [`crate::kernels::graph`] as one thread of the
//! host does them, to compare with.
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 7 | `gpufsCSR` |
//! | 8 to 31 | vertices, edges, and bytes of a neighbour (4 or 8): 8 bytes each |
//! | from 4096 on | `vertices + 1` offsets of 8 bytes: the neighbours of vertex `v` are those from `offsets[v]` to `offsets[v + 1]`, without the latter |
//! | from the next multiple of 4096 on | the neighbours |
//!
//! All numbers are little-endian.

mod make;
mod plain;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::cli::{Failure, about, reason};
use crate::kernels::graph::Rows;

pub use make::{DEGREE_MAX, Kind, Recipe, SCALE_MAX};
pub use plain::Loaded;

const MAGIC: &[u8; 8] = b"gpufsCSR";
/// Where parts of the file begin: multiples of this.
const ALIGNMENT: u64 = 4096;
/// Vertices have numbers of 4 bytes in the search's queue, of which one stands for none.
const VERTICES_MAX: u64 = 1 << 31;

/// A graph's file.
#[derive(Debug)]
pub struct Csr {
    /// Open for reading.
    pub file: File,
    /// What it says of itself. Its parts lie in the file.
    pub rows: Rows,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Where the parts of a graph lie.
const fn rows_of(vertices: u64, edges: u64, edge_bytes: u64) -> Rows {
    let end = ALIGNMENT + (vertices + 1) * 8;
    Rows { vertices, edges, offsets_at: ALIGNMENT, edges_at: end.next_multiple_of(ALIGNMENT), edge_bytes }
}

impl Csr {
    /// Opens a graph's file.
    ///
    /// # Errors
    /// The system's; it is no such file, or shorter than it says.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| about(path, reason(&error));
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let mut header = [0; 32];
        let wrong = || about(path, "not a graph; 'graph make' makes one");
        file.read_exact_at(&mut header, 0).map_err(|_| wrong())?;
        let word = |index: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&header[8 * index..8 * index + 8]);
            u64::from_le_bytes(word)
        };
        let (vertices, edges, edge_bytes) = (word(1), word(2), word(3));
        let is_known = header.starts_with(MAGIC) && matches!(edge_bytes, 4 | 8);
        if !is_known || !(1..=VERTICES_MAX).contains(&vertices) || edges > bytes {
            return Err(wrong());
        }
        let rows = rows_of(vertices, edges, edge_bytes);
        let wanted = rows.edges_at + edges * edge_bytes;
        if bytes < wanted {
            return Err(about(path, format!("has {bytes} bytes of {wanted}; it was cut, or is being made")));
        }
        Ok(Self { file, rows, bytes })
    }

    /// The first vertex that has neighbours; 0 where none has.
    ///
    /// # Errors
    /// The system's.
    pub fn first_with_neighbours(&self) -> io::Result<u64> {
        let mut offset = [0; 8];
        // The first offset that is not 0 ends the row of the vertex before it.
        for vertex in 1..=self.rows.vertices {
            self.file.read_exact_at(&mut offset, self.rows.offsets_at + 8 * vertex)?;
            if u64::from_le_bytes(offset) > 0 {
                return Ok(vertex - 1);
            }
        }
        Ok(0)
    }
}

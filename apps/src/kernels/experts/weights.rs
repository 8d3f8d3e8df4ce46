//! Weights times a vector, wherever the weights are. A warp takes some rows of a matrix, its lanes side by side.

use gpufs_device::Errno;
use gpufs_device::view::View;
use gpufs_device::warp::Lanes;

use super::shape::dot;
use crate::kernels::Array;
use crate::kernels::span::{Span, element};

/// Rows that a warp takes at a time. Sizes of matrices are multiples of it.
pub(super) const ROWS: u64 = 4;

/// What the lane's words of each row come to.
pub(super) type Parts = [i64; ROWS as usize];

/// [`ROWS`] rows of a matrix, one behind the other.
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// Where they begin: words of 16 numbers from the first expert.
    pub(super) first: u64,
    /// Words of a row.
    pub(super) words: u64,
}

/// Weights that lanes can read.
pub(super) trait Weights {
    /// The lane's part of the products of rows and a vector, whose words `vector` gives. Called by `lanes` together.
    ///
    /// # Errors
    /// What reading them met, or `EINVAL` beyond the last.
    fn times(&self, lanes: Lanes, block: Block, vector: impl Fn(u64) -> u128) -> Result<Parts, Errno>;
}

/// The same of words that `word` gives, from one on up to another, as a part of the block. Lanes stay together, whatever `word` says.
#[inline]
fn times(
    lanes: Lanes,
    block: Block,
    word: impl Fn(u64) -> Result<u128, Errno>,
    vector: &impl Fn(u64) -> u128,
) -> Result<Parts, Errno> {
    let width = u64::from(lanes.count());
    let (mut at, mut parts, mut failed) = (u64::from(lanes.rank()), Parts::default(), None);
    // Ends: `at` grows.
    while at < block.words {
        let factor = vector(at);
        for (row, part) in (0..).zip(parts.iter_mut()) {
            let loaded = word(row * block.words + at);
            failed = failed.or(loaded.err());
            *part += i64::from(dot(loaded.unwrap_or(0), factor));
        }
        at += width;
    }
    failed.map_or(Ok(parts), Err)
}

impl Weights for Array {
    #[inline]
    fn times(&self, lanes: Lanes, block: Block, vector: impl Fn(u64) -> u128) -> Result<Parts, Errno> {
        times(lanes, block, |at| self.get::<u128>(block.first + at), &vector)
    }
}

/// Weights that lie one behind the other.
impl Weights for &[u128] {
    #[inline]
    fn times(&self, lanes: Lanes, block: Block, vector: impl Fn(u64) -> u128) -> Result<Parts, Errno> {
        let word = |at| self.get((block.first + at) as usize).copied().ok_or(Errno::INVAL);
        times(lanes, block, word, &vector)
    }
}

/// Weights of a file, through the cache.
impl Weights for View<'_, u128> {
    #[inline]
    fn times(&self, lanes: Lanes, block: Block, vector: impl Fn(u64) -> u128) -> Result<Parts, Errno> {
        match Span::of(self, block.first, ROWS * block.words)? {
            // Loaded as from memory, while the pages are kept.
            Some(span) => match span.slices() {
                (all, []) => {
                    let word = |at| all.get(at as usize).copied().ok_or(Errno::INVAL);
                    times(lanes, block, word, &vector)
                }
                slices => times(lanes, block, |at| element(slices, at), &vector),
            },
            None => times(lanes, block, |at| self.get(block.first + at), &vector),
        }
    }
}

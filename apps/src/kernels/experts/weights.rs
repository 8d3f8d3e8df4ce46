//! Weights times a vector, wherever the weights are. A warp takes some rows of a matrix, its lanes side by side.

use gpufs_device::Errno;
use gpufs_device::view::View;
use gpufs_device::warp::Lanes;

use super::shape::dot;
use crate::kernels::Array;

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

/// The same of words that `word` gives, from one on up to another, as a part of the block.
#[inline]
fn times(
    lanes: Lanes,
    block: Block,
    parts: &mut Parts,
    word: impl Fn(u64) -> Result<u128, Errno>,
    vector: &impl Fn(u64) -> u128,
) -> Result<(), Errno> {
    let width = u64::from(lanes.count());
    let mut at = u64::from(lanes.rank());
    // Ends: `at` grows.
    while at < block.words {
        let factor = vector(at);
        for (row, part) in (0..).zip(parts.iter_mut()) {
            *part += i64::from(dot(word(row * block.words + at)?, factor));
        }
        at += width;
    }
    Ok(())
}

impl Weights for Array {
    #[inline]
    fn times(&self, lanes: Lanes, block: Block, vector: impl Fn(u64) -> u128) -> Result<Parts, Errno> {
        let mut parts = Parts::default();
        times(lanes, block, &mut parts, |at| self.get::<u128>(block.first + at), &vector)?;
        Ok(parts)
    }
}

/// Weights of a file, through the cache.
pub(super) struct Cached<'a, 'v> {
    view: &'a View<'v, u128>,
    /// Words before the view in its first page.
    before: u64,
    /// Words of a page.
    page: u64,
}

impl<'a, 'v> Cached<'a, 'v> {
    /// Those that begin at so many bytes of the file, in pages of so many.
    pub(super) const fn new(view: &'a View<'v, u128>, at: u64, page: u64) -> Self {
        Self { view, before: at % page / 16, page: page / 16 }
    }
}

impl Weights for Cached<'_, '_> {
    #[inline]
    fn times(&self, lanes: Lanes, block: Block, vector: impl Fn(u64) -> u128) -> Result<Parts, Errno> {
        let mut parts = Parts::default();
        let count = ROWS * block.words;
        // Rows that lie in one page are loaded as from memory, while it is kept.
        let is_together = (self.before + block.first) % self.page + count <= self.page;
        let pin = if is_together { self.view.pin(block.first, count as usize) } else { Err(Errno::BUSY) };
        match pin {
            Ok(pin) => {
                let word = |at: u64| pin.get(at as usize).copied().ok_or(Errno::INVAL);
                times(lanes, block, &mut parts, word, &vector)?;
            }
            // In two pages, or too many are kept as it is: word by word.
            Err(Errno::BUSY) => {
                times(lanes, block, &mut parts, |at| self.view.get(block.first + at), &vector)?;
            }
            Err(errno) => return Err(errno),
        }
        Ok(parts)
    }
}

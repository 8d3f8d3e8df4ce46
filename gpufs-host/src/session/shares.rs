//! How the frames of the cache are shared out among the files that are mapped ([R-CACHE-9]).
//!
//! A file that has room as a whole gets a frame for each of its pages, one behind the other, in whole sets; what was brought there stays until the
//! file is unmapped. Such ranges lie at the end of the frames. All pages without a frame of their own share the sets before the first range: pages
//! of files that are too large, and those beyond what a file had when it was mapped.

use core::ops::Range;

use gpufs_core::cache::{Layout, WAYS};

use super::{Body, CacheError};

/// Sets of a file's own, and its bytes when it was mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Own {
    first: u32,
    sets: u32,
    bytes: u64,
}

/// The sets that so many pages take.
fn sets_of(pages: u64) -> Option<u32> {
    u32::try_from(pages.div_ceil(WAYS.into())).ok().filter(|sets| *sets > 0)
}

/// The first of `wanted` sets that are nobody's, as far at the end of `sets` as there are, and what the first set of any range is with it.
fn room(sets: u32, taken: &[Own], wanted: u32) -> Option<(u32, u32)> {
    let lowest = taken.iter().map(|own| own.first).min().unwrap_or(sets);
    let mut ends: Vec<u32> = taken.iter().map(|own| own.first).chain([sets]).collect();
    ends.sort_unstable_by(|a, b| b.cmp(a));
    let first = ends.into_iter().filter_map(|end| end.checked_sub(wanted)).find(|first| {
        let is_free = |own: &Own| own.first >= first + wanted || own.first + own.sets <= *first;
        taken.iter().all(is_free)
    })?;
    Some((first, lowest.min(first)))
}

impl Body {
    /// Gives the pages of a file of so many bytes, which is about to be mapped by this entry, their places. Where others lose theirs, those
    /// pages are written and leave the cache.
    ///
    /// # Errors
    /// What writing them met; nothing has changed then.
    pub(super) fn lay_out(&mut self, index: usize, bytes: u64) -> Result<(), CacheError> {
        let (sets, page_bytes) = (self.tables.host.cache.set_count, self.tables.host.cache.page_bytes);
        let pages = bytes.div_ceil(page_bytes.into());
        let mut taken: Vec<(usize, Own)> =
            (0..).zip(&self.mapped).filter_map(|(index, mapped)| Some((index, mapped.own?))).collect();
        let ranges = |taken: &[(usize, Own)]| taken.iter().map(|(_, own)| *own).collect::<Vec<_>>();
        let shares = self.mapped.iter().any(|mapped| mapped.file.is_some() && mapped.own.is_none());
        // What must stay for all to share: a set for what files have more than when they were mapped, and half of all where a file has no room.
        let least = if shares { sets.div_ceil(2) } else { 1 };
        let own = sets_of(pages).and_then(|wanted| {
            let (first, lowest) = room(sets, &ranges(&taken), wanted)?;
            (lowest >= least).then_some((Own { first, sets: wanted, bytes }, lowest))
        });
        let mut lost = Vec::new();
        let (own, shared) = match own {
            Some((own, lowest)) => (Some(own), lowest),
            None => {
                let lowest = |taken: &[(usize, Own)]| taken.iter().map(|(_, own)| own.first).min();
                // Ends: each round takes one away.
                while pages > 0 && lowest(&taken).is_some_and(|lowest| lowest < sets.div_ceil(2)) {
                    let first = (0..taken.len()).min_by_key(|at| taken[*at].1.first).unwrap_or(0);
                    lost.push(taken.swap_remove(first));
                }
                (None, lowest(&taken).unwrap_or(sets))
            }
        };
        let before = self.shared_sets;
        if own.is_some() || !lost.is_empty() || shared != before {
            self.write_cache()?;
        }
        let cache = &self.tables.host.cache;
        let forget = |sets: Range<u32>| cache.forget_frames(sets.start * WAYS..sets.end * WAYS);
        if shared != before {
            // Pages of all who share have other places now.
            forget(0..before.max(shared));
        }
        for (index, own) in &lost {
            forget(own.first..own.first + own.sets);
            self.mapped[*index].own = None;
            let layout = Layout { first: 0, own: 0, shared: shared * WAYS };
            cache.mappings()[*index].lay_out(layout, 0, page_bytes);
        }
        if let Some(own) = own {
            forget(own.first..own.first + own.sets);
        }
        self.shared_sets = shared;
        self.mapped[index].own = own;
        let (first, bytes) = own.map_or((0, 0), |own| (own.first * WAYS, own.bytes));
        let own = u32::try_from(bytes.div_ceil(page_bytes.into())).unwrap_or(0);
        for mapping in cache.mappings() {
            mapping.share(shared * WAYS);
        }
        cache.mappings()[index].lay_out(Layout { first, own, shared: shared * WAYS }, bytes, page_bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Own, room, sets_of};

    fn own(first: u32, sets: u32) -> Own {
        Own { first, sets, bytes: 1 }
    }

    /// Ranges lie at the end, one before the other, and fill gaps.
    #[test]
    fn room_is_looked_for_from_the_end() {
        assert_eq!(room(10, &[], 3), Some((7, 7)));
        assert_eq!(room(10, &[own(7, 3)], 2), Some((5, 5)));
        assert_eq!(room(10, &[own(7, 3), own(2, 1)], 4), Some((3, 2)));
        assert_eq!(room(10, &[own(7, 3), own(2, 1)], 5), None);
        assert_eq!(room(10, &[own(4, 2)], 4), Some((6, 4)));
        assert_eq!(room(10, &[], 11), None);
        assert_eq!(room(10, &[own(0, 10)], 1), None);
    }

    /// Whole sets; a file without a page has none.
    #[test]
    fn pages_take_whole_sets() {
        assert_eq!((sets_of(0), sets_of(1), sets_of(8), sets_of(9)), (None, Some(1), Some(1), Some(2)));
        assert_eq!(sets_of(u64::MAX), None);
    }
}

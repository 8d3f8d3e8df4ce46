//! Where the pages of a mapping have their place, and whether all that have a frame of their own are there ([R-CACHE-9]).

use super::{Begun, Cache, FrameIndex, Key, Mapping};
use crate::word::DeviceWord;

/// Where the pages of a mapping have their place. Written by the host while no kernel runs.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Places {
    /// The frame of page 0, where that has one of its own.
    first: DeviceWord,
    /// Pages that have a frame of their own each, one behind the other: those before this number.
    own: DeviceWord,
    /// Frames, whole sets of them, that the other pages share with those of other mappings: those before this number.
    shared: DeviceWord,
    /// Pages with a frame of their own that are not whole in it.
    absent: DeviceWord,
    /// Bytes of the last page with a frame of its own; 0 for a whole page.
    last: DeviceWord,
}

/// Where the pages of a mapping have their place, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The frame of page 0, if it has one of its own: that of a set's first page.
    pub first: u32,
    /// Pages that have a frame of their own each: those before this number.
    pub own: u32,
    /// Frames that the other pages share: those before this number. A multiple of [`WAYS`](super::WAYS).
    pub shared: u32,
}

impl Layout {
    /// The frame in which a page is looked for first, of its set. Pages with a frame of their own are in no other. Of the rest neighbouring ones
    /// have different sets (Fibonacci hashing).
    #[inline]
    #[must_use]
    pub const fn home(self, key: Key) -> FrameIndex {
        if self.owns(key) {
            return FrameIndex(self.first + key.page() as u32);
        }
        let mixed = key.word().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        FrameIndex(((mixed * self.shared as u64) >> 32) as u32)
    }
    /// Whether a page has a frame of its own.
    #[inline]
    #[must_use]
    pub const fn owns(self, key: Key) -> bool {
        key.page() < self.own as u64
    }
}

/// What of a mapping is in its frames, and stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// The frame of its first byte; the rest follow.
    pub first: FrameIndex,
    /// How many bytes.
    pub bytes: u64,
}

impl Mapping {
    /// Where its pages have their place.
    #[inline]
    #[must_use]
    pub fn layout(&self) -> Layout {
        // ORDERING: relaxed: constant while kernels run.
        Layout {
            first: self.places.first.peek(),
            own: self.places.own.peek(),
            shared: self.places.shared.peek(),
        }
    }
    /// Sets where its pages have their place. `bytes` are those of the pages with a frame of their own, of `page_bytes` but for the last. All of
    /// them are absent. No kernel runs.
    pub fn lay_out(&self, layout: Layout, bytes: u64, page_bytes: u32) {
        debug_assert_eq!(bytes.div_ceil(page_bytes.into()), layout.own.into());
        let last = (bytes % u64::from(page_bytes)) as u32;
        // ORDERING: relaxed: no kernel runs, and the next launch publishes them.
        self.places.first.set(layout.first);
        self.places.own.set(layout.own);
        self.places.shared.set(layout.shared);
        self.places.absent.set(layout.own);
        self.places.last.set(last);
    }
    /// Sets how many frames the pages share that have none of their own. No kernel runs.
    pub fn share(&self, shared: u32) {
        // ORDERING: relaxed: no kernel runs, and the next launch publishes it.
        self.places.shared.set(shared);
    }
    /// Bytes of a page with a frame of its own, where it is whole.
    fn bytes_of(&self, page: u64, page_bytes: u32) -> u32 {
        // ORDERING: relaxed: constant while kernels run.
        let (last, own) = (self.places.last.peek(), self.places.own.peek());
        if last != 0 && page + 1 == u64::from(own) { last } else { page_bytes }
    }
}

impl Cache {
    /// Where the pages of a key's mapping have their place.
    #[inline]
    pub(super) fn layout(&self, key: Key) -> Layout {
        self.mappings()[key.mapping() as usize].layout()
    }
    /// The frame in which a page is looked for first ([`Layout::home`]).
    #[inline]
    #[must_use]
    pub fn home(&self, key: Key) -> FrameIndex {
        self.layout(key).home(key)
    }
    /// [`Cache::begin`], of a page with a frame of its own: nobody has to be asked for it.
    pub(super) fn begin_own(&self, key: Key, home: FrameIndex) -> Begun {
        if self.frame(home).take_own(key) { Begun::Fill(home) } else { Begun::Present }
    }
    /// FILLING → READY, with `lanes` pins, and counted where the page has a frame of its own and is whole ([R-CACHE-9]). The lane that began it, when
    /// `valid` bytes of the page are in the frame.
    pub fn filled(&self, key: Key, index: FrameIndex, valid: u32, lanes: u32) {
        self.frame(index).filled(valid, lanes);
        let mapping = &self.mappings()[key.mapping() as usize];
        if mapping.layout().owns(key) && valid == mapping.bytes_of(key.page(), self.page_bytes) {
            // ORDERING: release, device, partner `whole`: the page's bytes come before.
            mapping.places.absent.take_off(1);
        }
    }
    /// What of a mapping is in its frames, one behind the other, and stays there: `None` before all of its pages that have a frame of their own are
    /// whole in it. Acquires their bytes ([R-CACHE-9]).
    #[inline]
    #[must_use]
    pub fn whole(&self, mapping: u32) -> Option<Whole> {
        let mapping = &self.mappings()[mapping as usize];
        let Layout { first, own, .. } = mapping.layout();
        // ORDERING: acquire, device, partner `filled`: each change of the word is a release, and goes on with the sequence of those before.
        if own == 0 || mapping.places.absent.observe() != 0 {
            return None;
        }
        let before = u64::from(own - 1);
        let last = mapping.bytes_of(before, self.page_bytes);
        Some(Whole { first: FrameIndex(first), bytes: before * u64::from(self.page_bytes) + u64::from(last) })
    }
    /// Whether a page has a frame of its own.
    #[must_use]
    pub fn has_own(&self, key: Key) -> bool {
        self.layout(key).owns(key)
    }
}

//! The head of a trace's piece, and pages that go from one owner to the next ([P-TRACE-HEAD]), explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_pieces --release`
//!
//! Bounded as `loom.rs` is.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | `begin` stores the stream relaxed; it stores the stream first | `a_head_tells_its_piece` |
//! | a page is released before its head is 0 | `a_page_that_is_free_has_no_head` |
#![cfg(loom)]
#![expect(unsafe_code, reason = "pieces over words")]

mod rig;

use gpufs_core::FreeSet;
use gpufs_core::alloc::{BufferPool, BufferPoolParts};
use gpufs_core::pieces::{PAGE_BYTES, PieceWords, Pieces, PiecesParts, Place, stream_word};
use gpufs_core::word::{DeviceWord64, SharedWord64};
use rig::models::{self, spawn};

/// One page, of which the head is touched.
struct World {
    pieces: Pieces,
    _words: Box<PieceWords>,
    _free: Box<DeviceWord64>,
    _head: Box<[SharedWord64; 2]>,
}

// SAFETY:
// - the pointers are to words that are shared by design
unsafe impl Send for World {}
// SAFETY:
// - as above
unsafe impl Sync for World {}

impl World {
    fn new() -> Self {
        let (words, free) = (Box::<PieceWords>::default(), Box::new(DeviceWord64::new(1)));
        let head = Box::new([SharedWord64::new(0), SharedWord64::new(0)]);
        // SAFETY:
        // - one word, which outlives the set
        let set = unsafe { FreeSet::new(&raw const *free, 1) };
        let base = head.as_ptr() as u64;
        let parts =
            BufferPoolParts { base, buffer_bytes: 4096, buffer_index: BufferPool::UNREGISTERED, free: set };
        // SAFETY:
        // - one page, of which nothing but the head is touched; one item of words
        let pieces = unsafe {
            Pieces::new(PiecesParts { pages: BufferPool::new(parts), words: &raw const *words, count: 1 })
        };
        Self { pieces, _words: words, _free: free, _head: head }
    }
    /// Claims the page, as this owner, for a stream of this index, whose descriptor is the same; whether it was free.
    fn begin(&self, number: u32) -> Option<(u32, Place)> {
        let (piece, place) = self.pieces.claim(0, 1)?;
        let of = (stream_word(number, 1), number.cast_signed());
        self.pieces.begin(piece, place, number.into(), of);
        Some((piece, place))
    }
}

/// Who finds a head, as the host does that of a dead device, has the descriptor of the same stream.
#[test]
fn a_head_tells_its_piece() {
    models::explore(3, World::new, |world| {
        let owner = spawn(world, |world| assert!(world.begin(7).is_some()));
        for found in world.pieces.found() {
            assert_eq!((found.stream, found.descriptor, found.limit), (stream_word(7, 1), 7, PAGE_BYTES));
        }
        owner.join().unwrap();
        assert_eq!(world.pieces.found().count(), 1);
    });
}

/// A page goes from one to the other: its head is the last one's.
#[test]
fn a_page_that_is_free_has_no_head() {
    models::explore(3, World::new, |world| {
        let (piece, place) = world.begin(7).unwrap();
        let other = spawn(world, |world| world.begin(8).is_some());
        world.pieces.release(piece, place);
        let has_begun = other.join().unwrap();
        let found: Vec<_> = world.pieces.found().map(|found| found.descriptor).collect();
        assert_eq!(found, if has_begun { vec![8] } else { vec![] });
    });
}

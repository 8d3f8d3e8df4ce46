//! What a stream is, and the buffers that it has.

use super::*;

/// A change, and what then is wrong.
type Named<T> = (&'static str, fn(&T));

/// A token of a ring and a slot, of no operation.
fn token(ring: u32) -> Token {
    Token::new(ring, gpufs_core::Operation { slot: Slot(0), generation: 1 })
}

#[test]
fn a_stream_knows_its_place_and_ring() {
    let tables = Tables::new(USUAL);
    for (index, stream) in (0..STREAMS).zip(&tables.streams) {
        assert_eq!((stream.index_in(&tables.session), stream.ring(&tables.session)), (index, index));
    }
    let tables = Tables::new(Sizes { rings: 1, ..USUAL });
    assert_eq!(tables.streams[1].ring(&tables.session), 0);
}

#[test]
fn what_no_call_leaves_is_not_plausible() {
    let with = |change: &dyn Fn(&Tables)| {
        let tables = writing(USUAL, OpenFile::SEEKABLE, 0);
        tables.put(10);
        change(&tables);
        let stream = tables.stream();
        (stream.is_plausible(&tables.session), stream.has_plausible_blocks(&tables.session))
    };
    assert_eq!(with(&|_| {}), (true, true));
    let sizes: [Named<Stream>; 8] = [
        ("a block larger than a buffer", |stream| stream.block_shift.set(SHIFT + 1)),
        ("a shift beyond the word", |stream| stream.block_shift.set(64)),
        ("no block", |stream| stream.block_count.set(0)),
        ("no power of two", |stream| stream.block_count.set(3)),
        ("more places than there are", |stream| stream.block_count.set(2 * BLOCKS_MAX as u32)),
        ("the file behind the last", |stream| stream.file.set(1)),
        ("no file at all", |stream| stream.file.set(u32::MAX)),
        ("two at once", |stream| {
            stream.block_count.set(3);
            stream.file.set(1);
        }),
    ];
    for (name, change) in sizes {
        assert_eq!(with(&|tables| change(tables.stream())), (false, false), "{name}");
    }
    let blocks: [Named<Block>; 4] = [
        ("more written than is there", |block| block.written.set(11)),
        ("more there than has room", |block| block.committed.set(u64::from(BLOCK) + 1)),
        ("the ring behind the last", |block| block.state.submit(token(2))),
        ("no ring at all", |block| block.state.submit(token(255))),
    ];
    for (name, change) in blocks {
        assert_eq!(with(&|tables| change(tables.block(0))), (true, false), "{name}");
    }
    let fine: [fn(&Block); 3] = [
        |block| block.written.set(10),
        |block| block.committed.set(BLOCK.into()),
        |block| block.state.submit(token(1)),
    ];
    for change in fine {
        assert_eq!(with(&|tables| change(tables.block(0))), (true, true));
    }
}

#[test]
fn a_set_up_stream_is_what_its_file_is() {
    let (placed, free) = (OpenFile::SEEKABLE, OpenFile::POSITIONLESS);
    for (file_flags, serial) in [
        (0, 1),
        (OpenFile::WRITABLE, 1),
        (placed, 0),
        (free, 0),
        (placed | free | OpenFile::READABLE, 0),
        (placed | OpenFile::APPEND, 1),
        (free | OpenFile::APPEND, 1),
        (OpenFile::APPEND, 1),
    ] {
        assert_eq!(opened(USUAL, file_flags).stream().order.peek(), serial, "{file_flags:#x}");
    }
}

/// `base`, the position in the first block, and how many bytes of it count as written.
#[test]
fn writing_begins_at_a_block_of_the_file_or_where_the_system_says() {
    let at = |file_flags, offset| {
        let tables = writing(USUAL, file_flags, offset);
        let (stream, block) = (tables.stream(), tables.block(0));
        (stream.base.peek(), stream.reserved(), block.written.peek(), block.committed())
    };
    assert_eq!(at(OpenFile::SEEKABLE, 0), (0, 0, 0, 0));
    assert_eq!(at(OpenFile::SEEKABLE, 100), (96, 4, 4, 4));
    assert_eq!(at(0, 100), (100, 0, 0, 0));
    for (file_flags, offset) in [(OpenFile::SEEKABLE, 100), (0, CURRENT_POSITION)] {
        let tables = writing(USUAL, file_flags, 100);
        let inside = tables.stream().reserved();
        tables.put(3);
        tables.close();
        assert_eq!(tables.stream().flush_step(&tables.session, 0), Progress::Wait(0));
        assert_eq!(tables.last_write(0, 0), (offset, 3, inside));
    }
}

#[test]
fn a_buffer_that_was_used_up_is_changed_where_another_is_free() {
    let tables = opened(USUAL, OpenFile::SEEKABLE);
    let (stream, free) = (tables.stream(), &tables.session.stream_buffers.free);
    let own = stream.blocks[0].buffer.peek();
    stream.read_end.set(9);
    stream.read_next.set(8);
    assert!(stream.change_read_buffer(&tables.session));
    assert_eq!((stream.blocks[0].buffer.peek(), free.free()), (own, BUFFERS - STREAMS));
    stream.read_next.set(9);
    assert!(stream.change_read_buffer(&tables.session));
    assert_ne!(stream.blocks[0].buffer.peek(), own);
    assert_eq!(free.free(), BUFFERS - STREAMS - 1);
    while free.claim(SLOTS, 0).is_some() {}
    assert!(!stream.change_read_buffer(&tables.session));
}

#[test]
fn a_stream_refuses_what_it_was_opened_without() {
    let (read, write) = (OpenFile::READABLE, OpenFile::WRITABLE);
    let stream = Stream::default();
    for access in [0, read, write, read | write] {
        let others = OpenFile::OPEN | OpenFile::APPEND | OpenFile::SEEKABLE;
        for flags in [0, Stream::FLAG_EOF, Stream::FLAG_ERROR] {
            stream.flags.set(Stream::without(access | others) | flags);
            assert_eq!(stream.refused(), access);
        }
    }
}

#[test]
fn a_stream_knows_what_memory_it_is_on() {
    let tables = opened(USUAL, OpenFile::SEEKABLE);
    let memory = &tables.stream().memory;
    assert_eq!(memory.kind(), MemoryKind::None);
    for kind in [MemoryKind::Fixed, MemoryKind::Growing, MemoryKind::None, MemoryKind::Growing] {
        memory.set_kind(kind);
        assert_eq!(memory.kind(), kind);
    }
    memory.forget();
    assert_eq!(memory.kind(), MemoryKind::None);
    memory.set_kind(MemoryKind::Fixed);
    tables.stream().begin(&tables.session, 0, OpenFile::SEEKABLE, Buffering::Full);
    assert_eq!(memory.kind(), MemoryKind::None, "another stream is on a file");
}

///
#[test]
fn a_stream_grows_to_its_blocks_and_gives_them_back() {
    for (blocks, taken) in [(1, 0), (2, 1), (4, 3), (32, 31)] {
        let tables = opened(Sizes { blocks, ..USUAL }, OpenFile::SEEKABLE);
        let (stream, session, free) = (tables.stream(), &tables.session, &tables.session.stream_buffers.free);
        assert_eq!(stream.may_grow(session), blocks > 1);
        stream.grow(session);
        assert_eq!((stream.block_count.peek(), free.free()), (blocks, BUFFERS - STREAMS - taken));
        let mut buffers: Vec<u32> =
            stream.blocks[..blocks as usize].iter().map(|block| block.buffer.peek()).collect();
        buffers.sort_unstable();
        buffers.dedup();
        assert_eq!(buffers.len(), blocks as usize, "each place has one of its own");
        assert!(!stream.may_grow(session));
        stream.give_back(session);
        assert_eq!((stream.block_count.peek(), free.free()), (1, BUFFERS - STREAMS));
        assert_eq!(stream.may_grow(session), blocks > 1);
        while free.claim(SLOTS, 0).is_some() {}
        assert!(!stream.may_grow(session), "there is nothing to grow by");
        stream.grow(session);
        assert_eq!(stream.block_count.peek(), 1);
    }
}

//! A writing stream of two blocks of two bytes, for each of which a cell stands whose accesses loom checks for races, and a kernel
//! that reads the cells.

use super::{Rig, Shape, models};
use gpufs_core::abi::{Cqe, Sqe};
use gpufs_core::files::OpenFile;
use gpufs_core::resources::{Resources, ResourcesParts};
use gpufs_core::stream::{Buffering, Progress, Reservation, Stream};
use gpufs_core::word::{DeviceWord64, EntryCell};
use loom::thread;

/// B.
pub(crate) const BLOCK: u64 = 2;
/// K.
pub(crate) const BLOCKS: u64 = 2;

/// What a cell holds: 16 bytes, as entry cells do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub(crate) struct Byte(pub(crate) u64, pub(crate) u64);

/// A session of one ring and one stream, open for writing, with nothing in it. What pointers point to is in boxes.
pub(crate) struct World {
    pub(crate) rig: Box<Rig>,
    pub(crate) stream: Box<Stream>,
    pub(crate) file: Box<OpenFile>,
    _free: Box<DeviceWord64>,
    pub(crate) session: Resources,
    pub(crate) bytes: Vec<EntryCell<Byte>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let (rig, stream, file) =
            (Box::new(Rig::new(Shape::square(2))), Box::<Stream>::default(), Box::<OpenFile>::default());
        // One buffer to spare, beside the stream's own.
        let free = Box::new(DeviceWord64::new(0b10));
        let parts = ResourcesParts {
            stream_buffers: models::pool_of(&free, BLOCK as u32),
            blocks_per_stream: BLOCKS as u32,
            ..models::session_of(&rig.queue, &file, &stream)
        };
        // SAFETY:
        // - all of it outlives the session
        let session = unsafe { Resources::new(parts) };
        file.descriptor.set(1);
        stream.set_up(&session, 0, OpenFile::SEEKABLE, Buffering::Full);
        stream.grow(&session);
        stream.begin_writing(&session, 0);
        stream.open_cursor();
        let bytes = (0..BLOCK * BLOCKS).map(|_| EntryCell::new(Byte::default())).collect();
        Self { rig, stream, file, _free: free, session, bytes }
    }

    /// The cell of a position.
    pub(crate) fn byte(&self, position: u64) -> &EntryCell<Byte> {
        &self.bytes[(position % (BLOCK * BLOCKS)) as usize]
    }

    /// Writes a byte by the fast path, looking for room at most `looks` times; its position. Starts the block that it fills.
    pub(crate) fn write(&self, looks: u32) -> Option<u64> {
        self.write_by(1, looks)
    }

    /// [`World::write`] by a handle of this generation, which the byte tells.
    pub(crate) fn write_by(&self, generation: u32, looks: u32) -> Option<u64> {
        let stream = &self.stream;
        for _ in 0..looks {
            match stream.try_reserve(generation, 1) {
                Reservation::At(position) => {
                    // Until it is counted in, the stream stays what it is.
                    assert_eq!(stream.generation.observe(), generation);
                    let byte = Byte(position, generation.into());
                    // SAFETY:
                    // - the position was reserved by this thread alone, and what its place held was read by the kernel: what is tested
                    unsafe { self.byte(position).write(byte) };
                    self.commit(position);
                    return Some(position);
                }
                Reservation::Closed => return None,
                Reservation::Busy => thread::yield_now(),
            }
        }
        None
    }

    /// Counts the byte of a reserved position in.
    pub(crate) fn commit(&self, position: u64) {
        let geometry = self.stream.geometry(&self.session);
        let block_ref = self.stream.block_ref(&geometry, geometry.block_of(position));
        let inside = (position % BLOCK) as u32;
        let committed = self.stream.commit(&self.session, &geometry, block_ref, (inside, 1), 0);
        assert_eq!(committed.unrecorded, None);
        if committed.full {
            let _ = self.stream.start(&self.session, 0, block_ref.block_number);
        }
    }

    /// The kernel: completes each write that it finds. Looks at most `looks` times; how many it served. One thread at a time.
    pub(crate) fn serve(&self, looks: u32) -> u32 {
        let mut head = 0;
        for _ in 0..looks {
            head = self.serve_once(|sqe| sqe.len.cast_signed());
            thread::yield_now();
        }
        head
    }

    /// The kernel: reads the bytes of each write that it has not seen yet, and completes it with the `result` for it; how many there were so
    /// far. The descriptor of a write is the generation of the stream that it is for.
    pub(crate) fn serve_once(&self, result: impl Fn(&Sqe) -> i32) -> u32 {
        // ORDERING: acquire, partner this function in another thread.
        let head = self.rig.cq_tail().observe();
        // ORDERING: acquire, partner the publisher.
        let tail = self.rig.sq_tail().observe();
        for ticket in head..tail {
            // SAFETY:
            // - the tail was acquired beyond the ticket
            let sqe = unsafe { self.rig.sqe(ticket).read() };
            assert_eq!(sqe.fd.cast_unsigned(), self.file.descriptor.peek(), "a write to a closed descriptor");
            for position in sqe.off..sqe.off + u64::from(sqe.len) {
                // SAFETY:
                // - the block is the kernel's: what is tested
                let byte = unsafe { self.byte(position).read() };
                assert_eq!(byte, Byte(position, u64::from(sqe.fd.cast_unsigned())), "no byte of the stream");
            }
            let cqe = Cqe { user_data: sqe.user_data, res: result(&sqe), flags: 0 };
            // SAFETY:
            // - as many entries as slots, each of which is in flight once
            unsafe { self.rig.cqe(ticket).write(cqe) };
            // ORDERING: release, partner the poller.
            self.rig.cq_tail().publish(ticket.wrapping_add(1));
        }
        tail
    }

    /// Looks after the blocks at most `looks` times.
    pub(crate) fn progress(&self, looks: u32) {
        for _ in 0..looks {
            self.rig.queue.drain_alone(2);
            for place in 0..BLOCKS as u32 {
                let _ = self.stream.progress(&self.session, 0, place);
            }
            thread::yield_now();
        }
    }

    /// Closes the fast path and looks at most `looks` times whether all that was reserved is counted in; if so, every byte is there.
    pub(crate) fn close(&self, looks: u32) -> Option<u64> {
        self.stream.close_cursor();
        for _ in 0..looks {
            if self.stream.is_quiet() {
                let end = self.stream.reserved();
                for position in end.saturating_sub(BLOCK * BLOCKS)..end {
                    // SAFETY:
                    // - the stream is quiet: what is tested
                    assert_eq!(unsafe { self.byte(position).read() }, Byte(position, 1));
                }
                return Some(end);
            }
            thread::yield_now();
        }
        None
    }

    /// As the lock's holder, quiet: writes what is there, while the kernel says `result` to each write. Looks at most `looks` times; `None` if
    /// that is too few.
    pub(crate) fn flush(&self, looks: u32, result: impl Fn(&Sqe) -> i32) -> Option<Progress> {
        self.settle(looks, result, |stream| stream.flush_step(&self.session, 0))
    }

    /// As the lock's holder: takes `step`s until they come to an end, while the kernel says `result` to each write.
    pub(crate) fn settle(
        &self,
        looks: u32,
        result: impl Fn(&Sqe) -> i32,
        step: impl Fn(&Stream) -> Progress,
    ) -> Option<Progress> {
        for _ in 0..looks {
            match step(&self.stream) {
                Progress::Wait(_) | Progress::NoSlot => {}
                end => return Some(end),
            }
            self.serve_once(&result);
            // No yield: loom would first run the others to their ends.
            self.rig.queue.drain_alone(2);
        }
        None
    }

    /// As the lock's holder, with no block in use: closes the stream, and its file and its buffers go to somebody else.
    pub(crate) fn give_up(&self) {
        self.stream.give_back(&self.session);
        // ORDERING: acquire and release, partner who looks at the generation.
        self.stream.generation.fetch_add(1);
        self.file.descriptor.set(u32::MAX);
        for cell in &self.bytes {
            // SAFETY:
            // - the buffers are nobody's: what is tested
            unsafe { cell.write(Byte(u64::MAX, 0)) };
        }
    }

    /// Opens another stream in the same entry and the same buffers, for writing; its generation.
    pub(crate) fn reopen(&self) -> u32 {
        let (stream, session) = (&self.stream, &self.session);
        let generation = stream.generation.peek() + 1;
        self.file.descriptor.set(generation);
        stream.set_up(session, 0, OpenFile::SEEKABLE, Buffering::Full);
        stream.grow(session);
        stream.begin_writing(session, 0);
        stream.open_cursor();
        generation
    }
}

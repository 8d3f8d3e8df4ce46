//! One thread of the engine: its chunks, and what it does with a piece.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::bus::{Bus, Mark, Queue, ToGpu};
use super::counts::Way;
use super::engine::Engine;
use super::job::{Job, Piece};
use super::mapped::STRETCH_MAX;
use super::merge::{Merger, Ticket};
use super::request::{Direction, MERGED, SMALL, Tuning};
use super::system::transfer;

/// How long a thread sleeps before it looks at a mark again: less than a chunk takes on the bus with all chunks of a thread before it.
const LOOK_AGAIN: Duration = Duration::from_micros(20);

/// A stretch of the host's memory that stands between file and GPU. It is never given back.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    memory: NonNull<u8>,
    bytes: usize,
    way: Way,
}

/// What a thread has of a GPU: a queue, and a mark for each chunk.
#[derive(Debug)]
struct Lane {
    queue: Queue,
    marks: Vec<Mark>,
    /// The number of the job that the queue waits for the stream of.
    follows: Option<u64>,
    /// Where copies to the GPU are put together with those of other threads.
    merger: Option<Arc<Merger>>,
    /// The number of the job whose place in its stream was reached.
    free: Option<u64>,
}

/// A piece that the copy engine works on.
#[derive(Debug)]
struct InFlight {
    job: Arc<Job>,
    piece: Piece,
    chunk: usize,
    gpu: u32,
    /// Bytes in the chunk.
    bytes: usize,
    /// Of a copy that is put together with others. Else the chunk's mark stands behind it.
    ticket: Option<Ticket>,
}

impl InFlight {
    /// Whether no other thread writes to the piece's file now, or that is no matter.
    fn may_end(&self) -> bool {
        let files = (self.job.direction == Direction::Write).then(|| self.job.files());
        files.is_none_or(|files| {
            let file = &files[self.job.parts[self.piece.part].file];
            file.window.is_some() || file.writing.try_lock().is_ok()
        })
    }
}

/// The state of a thread.
#[derive(Debug)]
struct Worker<'a> {
    engine: &'static Engine,
    tuning: Tuning,
    driver: Option<&'a Arc<dyn Bus>>,
    chunks: Vec<Chunk>,
    lanes: HashMap<u32, Lane>,
    /// Oldest first. The chunks of these are in use.
    in_flight: VecDeque<InFlight>,
}

/// Takes pieces, for ever: the thread of that number.
pub(super) fn run(engine: &'static Engine, number: usize, tuning: Tuning) {
    // SAFETY:
    // - a number for this thread alone
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000_u64) };
    let mut worker = Worker {
        engine,
        tuning,
        driver: None,
        chunks: Vec::new(),
        lanes: HashMap::new(),
        in_flight: VecDeque::new(),
    };
    // Ends: never. The thread ends with the process.
    loop {
        match engine.next((number, tuning.threads), worker.in_flight.is_empty()) {
            None => worker.retire(),
            Some((job, piece)) if job.has_failed() => job.end(piece, None, Ok(0)),
            Some((job, piece)) => {
                if worker.driver.is_none() && job.parts[piece.part].gpu.is_some() {
                    worker.driver = engine.driver().as_ref().ok();
                }
                worker.take(job, piece);
            }
        }
    }
}

impl Worker<'_> {
    fn take(&mut self, job: Arc<Job>, piece: Piece) {
        let part = &job.parts[piece.part];
        let Some(gpu) = part.gpu else {
            let outcome = self.wait_for_stream(&job).and_then(|()| {
                let memory =
                    std::ptr::with_exposed_provenance_mut((part.address as usize).wrapping_add(piece.from));
                // SAFETY:
                // - the memory of the part is the transfer's until it has ended, by the contract of its start
                unsafe { move_piece(&job, piece, memory) }
            });
            return job.end(piece, Some(Way::InPlace), outcome);
        };
        if let Err((way, error)) = self.begin(&job, piece, gpu) {
            job.end(piece, way, Err(error));
        }
    }

    /// Waits until the program's stream has come to where the transfer begins.
    fn wait_for_stream(&self, job: &Job) -> io::Result<()> {
        let Some(after) = &job.after else { return Ok(()) };
        until_reached(&*after.bus, after.gpu, after.mark)
    }

    /// Begins a piece of a GPU's memory: a read fills a chunk and starts its copy, a write starts the copy to a chunk.
    fn begin(&mut self, job: &Arc<Job>, piece: Piece, gpu: u32) -> Result<(), (Option<Way>, io::Error)> {
        let refused = |error| (None, io::Error::other(error));
        let driver = Arc::clone(self.driver.ok_or_else(|| (None, io::Error::other("there is no driver")))?);
        self.lane(&driver, gpu).map_err(refused)?;
        let index = self.free_chunk(&driver, gpu, job.longest).map_err(|error| (None, error))?;
        let chunk = self.chunks[index];
        let part = &job.parts[piece.part];
        let bytes = match job.direction {
            // SAFETY:
            // - the chunk is as long, and nothing uses it: `free_chunk`
            Direction::Read => unsafe { move_piece(job, piece, chunk.memory.as_ptr()) }
                .map_err(|error| (Some(chunk.way), error))?,
            Direction::Write => piece.bytes,
        };
        let lane = self.lanes.get_mut(&gpu).expect("made above");
        let device = part.address + piece.from as u64;
        let in_flight = |ticket| InFlight { job: Arc::clone(job), piece, chunk: index, gpu, bytes, ticket };
        if (job.direction, chunk.way) == (Direction::Read, Way::Staged)
            && lane.is_free(job).map_err(|error| (None, error))?
            && let Some(merger) = &lane.merger
        {
            let copy = ToGpu { device, host: chunk.memory, bytes };
            // SAFETY:
            // - the part's memory is the transfer's until it has ended, by the contract of its start, and this piece of it this thread's
            // - the chunk is this thread's, and is not used again before the copy has ended, or the driver has failed, after which the GPU's context
            //   does nothing more, and the part's bytes are told to be wrong
            let ticket = unsafe { merger.add(&*driver, copy) };
            self.in_flight.push_back(in_flight(Some(ticket)));
            return Ok(());
        }
        if let Some(after) = job.after.as_ref().filter(|_| lane.follows != Some(job.number)) {
            if after.gpu == gpu {
                // SAFETY:
                // - a queue and a mark of this GPU
                unsafe { driver.follow(gpu, lane.queue, after.mark) }.map_err(refused)?;
            } else {
                until_reached(&*after.bus, after.gpu, after.mark).map_err(|error| (None, error))?;
            }
            lane.follows = Some(job.number);
        }
        // SAFETY:
        // - the part's memory is the transfer's until it has ended, by the contract of its start, and this piece of it this thread's
        // - the chunk is this thread's, and is not used again before the mark is reached
        unsafe { driver.copy(gpu, lane.queue, job.direction, device, chunk.memory, bytes) }
            .map_err(refused)?;
        // SAFETY:
        // - a queue and a mark of this GPU
        let put = unsafe { driver.put(gpu, lane.marks[index], lane.queue) };
        if let Err(error) = put {
            // The driver no longer works: whether the copy ends cannot be known, so that the chunk stays in use for ever.
            self.chunks[index] = Chunk { bytes: 0, ..chunk };
            return Err(refused(error));
        }
        self.in_flight.push_back(in_flight(None));
        Ok(())
    }

    /// Ends a piece that is in flight, the oldest that need not wait at its file: waits for its copy, and writes the chunk of a write.
    fn retire(&mut self) {
        let place = self.in_flight.iter().position(InFlight::may_end).unwrap_or(0);
        let (Some(taken), Some(driver)) = (self.in_flight.remove(place), self.driver) else { return };
        let InFlight { job, piece, chunk, gpu, bytes, ticket } = taken;
        let lane = &self.lanes[&gpu];
        let mark = lane.marks[chunk];
        let chunk = self.chunks[chunk];
        let copied = match (ticket, &lane.merger) {
            (Some(ticket), Some(merger)) => until_merged(&**driver, merger, ticket),
            _ => until_reached(&**driver, gpu, mark),
        };
        let outcome = copied.and_then(|()| match job.direction {
            Direction::Read => Ok(bytes),
            // SAFETY:
            // - the chunk is as long, and filled: the mark behind the copy is reached
            Direction::Write => unsafe { move_piece(&job, piece, chunk.memory.as_ptr()) },
        });
        job.end(piece, Some(chunk.way), outcome);
    }

    /// The queue and the marks of a GPU.
    fn lane(&mut self, driver: &Arc<dyn Bus>, gpu: u32) -> Result<(), crate::gpu::GpuError> {
        if let std::collections::hash_map::Entry::Vacant(place) = self.lanes.entry(gpu) {
            let queue = driver.queue(gpu)?;
            let marks = (0..self.tuning.chunks).map(|_| driver.mark(gpu)).collect::<Result<_, _>>()?;
            let merger = self.engine.merger(driver, gpu)?;
            place.insert(Lane { queue, marks, follows: None, merger, free: None });
        }
        Ok(())
    }

    /// A chunk of at least `bytes` bytes that nothing uses.
    fn free_chunk(&mut self, driver: &Arc<dyn Bus>, gpu: u32, bytes: usize) -> io::Result<usize> {
        // Two large chunks keep the bus busy, and pin less.
        let (whole, turns) = if bytes > MERGED {
            (self.tuning.chunk_bytes, self.tuning.chunks.min(2))
        } else {
            (if bytes > SMALL { MERGED } else { SMALL }, self.tuning.chunks)
        };
        let whole = whole.min(self.tuning.chunk_bytes);
        // Ends: a piece is taken off in each round.
        let index = loop {
            let is_used = |index: &usize| self.in_flight.iter().any(|piece| piece.chunk == *index);
            match (0..turns).find(|index| !is_used(index)) {
                Some(index) => break index,
                None => self.retire(),
            }
        };
        if self.chunks.get(index).is_none_or(|chunk| chunk.bytes < bytes) {
            let chunk = chunk(&**driver, gpu, bytes.max(whole))?;
            if index < self.chunks.len() {
                self.chunks[index] = chunk;
            } else {
                self.chunks.push(chunk);
            }
        }
        Ok(index)
    }
}

impl Lane {
    /// Whether a job need not wait for a stream of the program's any more: what does goes to queues of its own, so that others pass it.
    fn is_free(&mut self, job: &Job) -> io::Result<bool> {
        let Some(after) = job.after.as_ref().filter(|_| self.free != Some(job.number)) else {
            return Ok(true);
        };
        // SAFETY:
        // - a mark of this GPU, which was put
        let is_free = unsafe { after.bus.is_reached(after.gpu, after.mark) }.map_err(io::Error::other)?;
        if is_free {
            self.free = Some(job.number);
        }
        Ok(is_free)
    }
}

/// New memory of the host: pinned, or if no more can be pinned, ordinary.
fn chunk(driver: &dyn Bus, gpu: u32, bytes: usize) -> io::Result<Chunk> {
    if let Ok(memory) = driver.pinned(gpu, bytes) {
        return Ok(Chunk { memory, bytes, way: Way::Staged });
    }
    let mut memory = Vec::<u8>::new();
    memory.try_reserve_exact(bytes).map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
    let memory = NonNull::from(memory.leak()).cast();
    Ok(Chunk { memory, bytes, way: Way::ThroughHost })
}

/// Sleeps until all before a mark has ended.
fn until_reached(driver: &dyn Bus, gpu: u32, mark: Mark) -> io::Result<()> {
    // Ends: with the copies before the mark, or with the driver's error.
    loop {
        // SAFETY:
        // - a mark of this GPU, which was put
        if unsafe { driver.is_reached(gpu, mark) }.map_err(io::Error::other)? {
            return Ok(());
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Sleeps until a copy that was put together with others has ended.
fn until_merged(driver: &dyn Bus, merger: &Merger, ticket: Ticket) -> io::Result<()> {
    // Ends: with the copy, or with the driver's error.
    loop {
        if let Some(outcome) = merger.outcome(driver, ticket) {
            return outcome;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Reads or writes a piece's bytes, in `memory`: the bytes that were moved, fewer only where a file that is read ends.
///
/// # Safety
/// The memory is as long as the piece, and this thread's; for a write it is filled.
unsafe fn move_piece(job: &Job, piece: Piece, memory: *mut u8) -> io::Result<usize> {
    let part = &job.parts[piece.part];
    let files = job.files();
    let file = &files[part.file];
    let (mut piece, mut memory, mut through_window) = (piece, memory, 0);
    if let (Direction::Write, Some(window), Some(offset)) =
        (job.direction, &file.window, part.offset.checked_add(piece.from as u64))
    {
        // SAFETY:
        // - this function's contract
        through_window = unsafe { window.write(offset, memory, piece.bytes) };
        if through_window == piece.bytes {
            return Ok(piece.bytes);
        }
        // The rest, as without a window: this tells what is wrong.
        piece = Piece { from: piece.from + through_window, bytes: piece.bytes - through_window, ..piece };
        memory = memory.wrapping_add(through_window);
    }
    let _alone = (job.direction == Direction::Write)
        .then(|| file.writing.lock().unwrap_or_else(PoisonError::into_inner));
    let Some((row, offsets)) = &part.rows else {
        let offset = part.offset.checked_add(piece.from as u64);
        let offset = offset.ok_or_else(|| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        // SAFETY:
        // - this function's contract
        return unsafe { transfer(job.direction, &file.file, offset, memory, piece.bytes) }
            .map(|moved| through_window + moved);
    };
    let mapping = file.mapping.as_ref().filter(|mapping| part.takes_stores && mapping.stands());
    let (mut place, end) = (piece.from, piece.from + piece.bytes);
    // Ends: a byte at least is moved in each round.
    while place < end {
        // The rest of a row, and the rows that follow it in the file as in memory.
        let mut next = place / row + 1;
        let mut bytes = (next * row - place).min(end - place);
        while place + bytes < end && Some(offsets[next]) == offsets[next - 1].checked_add(*row as u64) {
            bytes = (bytes + row).min(end - place);
            next += 1;
        }
        let offset = [offsets[place / row], (place % row) as u64]
            .iter()
            .try_fold(part.offset, |sum, more| sum.checked_add(*more));
        let offset = offset.ok_or_else(|| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        let memory = memory.wrapping_add(place - piece.from);
        let mapping = mapping.filter(|_| bytes <= STRETCH_MAX);
        // SAFETY:
        // - `bytes` from `place` on lie in the piece, and so in the memory, by this function's contract
        // - the lease stood when the piece began: who would write or cut off waits for a second at least (`lease-break-time`), a piece takes less
        if mapping.is_some_and(|mapping| unsafe { mapping.copy(offset, memory, bytes) }) {
            place += bytes;
            continue;
        }
        // SAFETY:
        // - `bytes` from `place` on lie in the piece, and so in the memory, by this function's contract
        let moved = unsafe { transfer(job.direction, &file.file, offset, memory, bytes) }?;
        if moved < bytes {
            let text =
                format!("the row in the file that holds byte {} is not all there", offset + moved as u64);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        if let Some(mapping) = mapping {
            mapping.learn(offset, bytes);
        }
        place += bytes;
    }
    Ok(piece.bytes)
}

//! The engine of a process: a queue of transfers, and threads that take pieces of them. They start with the first transfer, and stay.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use super::bus::{Bus, Queue};
use super::counts::{Counters, TransferStatistics};
use super::job::{After, Job, JobFile, Left, Piece, Placed, Transfer, TransferError, open_windows};
use super::mapped::Mappings;
use super::merge::Merger;
use super::request::{Direction, MERGED, MemoryKind, Part, SMALL, TransferOptions, Tuning};
use super::{system, worker};
use crate::gpu::GpuError;
use crate::process::Process;

/// Sets the sizes of this process's engine. Before its first transfer.
///
/// # Errors
/// [`InvalidInput`](io::ErrorKind::InvalidInput): which number is out of its range. [`ResourceBusy`](io::ErrorKind::ResourceBusy) once the
/// threads have started.
pub fn configure(tuning: Tuning) -> io::Result<()> {
    let chosen = tuning.chosen().map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))?;
    let engine = Process::this()?.part::<Engine>();
    let mut inner = engine.inner();
    if inner.tuning.is_some_and(|now| inner.started && now != chosen) {
        let text = "the threads of transfers have started: their sizes are chosen before the first transfer of the process";
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
    }
    inner.tuning = Some(chosen);
    Ok(())
}

/// What all transfers of this process have done.
///
/// # Errors
/// The system's, where it has no page of memory to give.
pub fn statistics() -> io::Result<TransferStatistics> {
    Ok(Process::this()?.part::<Engine>().counters.statistics())
}

/// What kind of memory lies at an address, as the GPUs' driver says; where there is none, pageable.
///
/// # Errors
/// The driver refuses.
pub fn kind_of(address: u64) -> Result<MemoryKind, TransferError> {
    let Ok(driver) = Engine::this()?.driver() else { return Ok(MemoryKind::Pageable) };
    let found = driver.look_up(address).map_err(io::Error::other)?;
    Ok(found.map_or(MemoryKind::Pageable, |found| found.kind))
}

/// The driver of this machine's GPUs, or why there is none.
type Driver = Result<Arc<dyn Bus>, String>;

#[derive(Debug, Default)]
struct Inner {
    tuning: Option<Tuning>,
    started: bool,
    /// Transfers so far.
    jobs: u64,
    /// Transfers with pieces that no thread has taken.
    waiting: VecDeque<Left>,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    inner: Mutex<Inner>,
    more: Condvar,
    driver: OnceLock<Driver>,
    counters: Arc<Counters>,
    mappings: Mappings,
    /// By GPU.
    mergers: Mutex<HashMap<u32, Arc<Merger>>>,
}

impl Engine {
    /// That of this process.
    ///
    /// # Errors
    /// The system's, where it has no page of memory to give.
    pub(crate) fn this() -> io::Result<&'static Self> {
        Ok(Process::this()?.part::<Self>())
    }
    /// One with a driver of its own.
    #[cfg(test)]
    pub(super) fn with(driver: Arc<dyn Bus>, tuning: Tuning) -> &'static Self {
        let inner = Inner { tuning: Some(tuning.chosen().unwrap()), ..Inner::default() };
        let driver = OnceLock::from(Ok(driver));
        Box::leak(Box::new(Self { inner: Mutex::new(inner), driver, ..Self::default() }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub(super) fn driver(&self) -> &Driver {
        self.driver.get_or_init(|| {
            #[cfg(feature = "cuda")]
            return crate::cuda::bus().map_err(|error| error.to_string());
            #[cfg(not(feature = "cuda"))]
            return Err("gpufs was built without NVIDIA GPUs".to_owned());
        })
    }

    /// Where copies to a GPU are put together; `None`: its driver takes one at a time.
    pub(super) fn merger(&self, driver: &Arc<dyn Bus>, gpu: u32) -> Result<Option<Arc<Merger>>, GpuError> {
        if !driver.takes_many() {
            return Ok(None);
        }
        let mut mergers = self.mergers.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Some(Arc::clone(match mergers.entry(gpu) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Arc::new(Merger::new(&**driver, gpu)?)),
        })))
    }

    /// The next piece for a thread, one of so many. Where there is none: `None`, or if the thread `may_wait`, the one that comes.
    pub(super) fn next(&self, thread: (usize, usize), may_wait: bool) -> Option<(Arc<Job>, Piece)> {
        let mut inner = self.inner();
        let mut has_waited = false;
        // Ends: with a piece; a thread that has nothing to do waits for ever.
        loop {
            if let Some(left) = inner.waiting.front_mut() {
                if let Some(piece) = left.next(thread) {
                    let job = Arc::clone(&left.job);
                    drop(inner);
                    // Who starts a transfer wakes one thread, and each that was woken two more: all are awake sooner, and the program goes on.
                    if has_waited {
                        self.more.notify_one();
                        self.more.notify_one();
                    }
                    return Some((job, piece));
                }
                inner.waiting.pop_front();
                continue;
            }
            if !may_wait {
                return None;
            }
            has_waited = true;
            inner = self.more.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Starts a transfer.
    ///
    /// # Safety
    /// As [`crate::Session::start_transfer`].
    pub(super) unsafe fn start(
        &'static self,
        direction: Direction,
        parts: &[Part<'_>],
        options: &TransferOptions,
        counters: Option<Arc<Counters>>,
    ) -> Result<Transfer, TransferError> {
        let tuning = self.threads()?;
        if direction == Direction::Write
            && let Some(index) = parts.iter().position(|part| system::appends(part.file))
        {
            let text = "the file is open for appending (O_APPEND), and a transfer writes at offsets";
            return Err(TransferError::invalid(Some(index), format!("{text}: open it without")));
        }
        let (mut files, placed) = self.place(parts)?;
        let after = self.after(&placed, options)?;
        if direction == Direction::Write {
            open_windows(&mut files, &placed, tuning.threads);
        } else {
            self.lease_mappings(&mut files, &placed);
        }
        let bytes: usize = placed.iter().map(|part| part.bytes).sum();
        // A transfer that is smaller than all chunks together is cut smaller, so that each thread gets something.
        let fair = (bytes / (2 * tuning.threads)).next_multiple_of(4096);
        let has_rows = placed.iter().any(|part| part.rows.is_some());
        let is_merged = placed.iter().any(|part| part.gpu.is_some())
            && self.driver().as_ref().is_ok_and(|driver| driver.takes_many());
        let most = match direction {
            // Rows fill a chunk more slowly than the bus empties it: the caches keep more of shorter ones.
            Direction::Read if is_merged && !has_rows => MERGED,
            Direction::Read if !has_rows => tuning.chunk_bytes,
            _ => SMALL,
        };
        let most = most.min(tuning.chunk_bytes);
        let piece = fair.clamp((64 << 10).min(tuning.chunk_bytes), most);
        let counters = counters.into_iter().chain([Arc::clone(&self.counters)]).collect();
        let mut inner = self.inner();
        inner.jobs += 1;
        let job = Arc::new(Job::new(
            inner.jobs,
            direction,
            (files, placed),
            (piece, tuning.threads),
            after,
            counters,
        ));
        if !job.pieces.is_empty() {
            inner.waiting.push_back(Left::of(Arc::clone(&job)));
            drop(inner);
            self.more.notify_one();
        }
        Ok(Transfer::new(job))
    }

    /// Starts the threads, once; the sizes.
    fn threads(&'static self) -> io::Result<Tuning> {
        let mut inner = self.inner();
        let tuning = match inner.tuning {
            Some(tuning) => tuning,
            None => Tuning::default().chosen().map_err(io::Error::other)?,
        };
        inner.tuning = Some(tuning);
        if !inner.started {
            for number in 0..tuning.threads {
                let name = format!("gpufs-move-{number}");
                let spawned =
                    std::thread::Builder::new().name(name).spawn(move || worker::run(self, number, tuning));
                // With fewer threads it is slower.
                if let (0, Err(error)) = (number, spawned) {
                    return Err(error);
                }
            }
            inner.started = true;
        }
        Ok(tuning)
    }

    /// Takes the mappings of files of which rows are read, where there are any.
    fn lease_mappings(&'static self, files: &mut [JobFile], parts: &[Placed]) {
        for (number, file) in files.iter_mut().enumerate() {
            let of_file = parts.iter().filter(|part| part.file == number && part.takes_stores);
            let rows: usize =
                of_file.filter_map(|part| part.rows.as_ref()).map(|(_, offsets)| offsets.len()).sum();
            if rows > 0 {
                file.mapping = self.mappings.lease(&file.file, rows);
            }
        }
    }

    /// Duplicates the files of parts, and looks up their memory.
    fn place(&self, parts: &[Part<'_>]) -> Result<(Vec<JobFile>, Vec<Placed>), TransferError> {
        let mut numbers = HashMap::new();
        let (mut files, mut placed) = (Vec::new(), Vec::with_capacity(parts.len()));
        for (index, part) in parts.iter().enumerate() {
            let at = |error| TransferError { part: Some(index), error };
            let rows = match part.rows {
                Some(rows) => {
                    if rows.bytes == 0 || rows.bytes.checked_mul(rows.offsets.len()) != Some(part.bytes) {
                        let (count, row, bytes) = (rows.offsets.len(), rows.bytes, part.bytes);
                        let text = format!("{count} rows of {row} bytes are not {bytes} bytes of memory");
                        return Err(TransferError::invalid(Some(index), text));
                    }
                    Some((rows.bytes, rows.offsets.into()))
                }
                None => None,
            };
            let file = match numbers.entry(part.file.as_raw_fd()) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let file = part.file.try_clone_to_owned().map_err(at)?;
                    files.push(JobFile { file, writing: Mutex::new(()), window: None, mapping: None });
                    *new.insert(files.len() - 1)
                }
            };
            let (kind, gpu) = self.kind(index, part)?;
            let Part { offset, address, bytes, .. } = *part;
            let takes_stores = gpu.is_some() || kind == MemoryKind::Pinned && self.is_pinned(address, bytes);
            placed.push(Placed { file, offset, address, bytes, kind, gpu, takes_stores, rows });
        }
        Ok((files, placed))
    }

    /// Whether memory is pinned where it ends as well as where it begins.
    fn is_pinned(&self, address: u64, bytes: usize) -> bool {
        let last = address.checked_add((bytes as u64).saturating_sub(1));
        let found = self.driver().as_ref().ok().zip(last).map(|(driver, last)| driver.look_up(last));
        matches!(found, Some(Ok(Some(found))) if found.kind == MemoryKind::Pinned)
    }

    /// What kind of memory a part has, and the GPU that copies it.
    fn kind(&self, index: usize, part: &Part<'_>) -> Result<(MemoryKind, Option<u32>), TransferError> {
        let invalid = |text| TransferError::invalid(Some(index), text);
        let Part { address, bytes, kind: named, .. } = *part;
        // Ordinary memory needs no driver.
        if bytes == 0 || named == Some(MemoryKind::Pageable) {
            return Ok((named.unwrap_or(MemoryKind::Pageable), None));
        }
        let driver = match (self.driver(), named) {
            (Ok(driver), _) => driver,
            (Err(_), None) => return Ok((MemoryKind::Pageable, None)),
            (Err(why), Some(kind)) => {
                return Err(invalid(format!(
                    "the memory at {address:#x} was named {kind}, and there is no driver: {why}"
                )));
            }
        };
        let look = |address| {
            let found = driver.look_up(address);
            found.map_err(|error| TransferError { part: Some(index), error: io::Error::other(error) })
        };
        let last = address.checked_add(bytes as u64 - 1);
        let last = last.ok_or_else(|| {
            invalid(format!("{bytes} bytes from {address:#x} on are more than there can be"))
        })?;
        let found = look(address)?;
        let kind = found.map_or(MemoryKind::Pageable, |found| found.kind);
        if named.is_some_and(|named| named != kind) {
            let named = named.unwrap_or(kind);
            return Err(invalid(format!(
                "the memory at {address:#x} is {kind}, and was named {named}: name what it is, or let it be found out"
            )));
        }
        if !kind.is_of_host() && look(last)? != found {
            return Err(invalid(format!(
                "the {bytes} bytes from {address:#x} on do not end in the same memory: it is shorter"
            )));
        }
        Ok((kind, found.filter(|_| !kind.is_of_host()).map(|found| found.gpu)))
    }

    /// The place in the program's stream that the transfer begins behind.
    fn after(&self, parts: &[Placed], options: &TransferOptions) -> Result<Option<After>, TransferError> {
        let (Some(stream), Ok(driver)) = (options.stream, self.driver()) else { return Ok(None) };
        let refused = |error| TransferError { part: None, error: io::Error::other(error) };
        let gpu = parts.iter().find_map(|part| part.gpu).unwrap_or(0);
        let mark = driver.mark(gpu).map_err(refused)?;
        let after = After { bus: Arc::clone(driver), gpu, mark };
        let stream = Queue(usize::try_from(stream).unwrap_or(usize::MAX));
        // SAFETY:
        // - the mark was made for this GPU; the driver refuses a stream of another
        unsafe { driver.put(gpu, mark, stream) }.map_err(refused)?;
        Ok(Some(after))
    }
}

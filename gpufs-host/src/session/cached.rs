//! The cache of pages: how much memory it has, which files kernels may map, and what of them is written when kernels have ended.
//!
//! The protocol is `gpufs_core::cache`'s; what kernels do is in `gpufs_device::view`. The host touches pages only while no kernel runs.
#![expect(unsafe_code, reason = "writes pages to files")]

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use gpufs_core::cache::{Frame, FrameIndex, Key, PAGE_BYTES, WAYS};
use gpufs_core::session::{FileIndex, OpenFile};
use gpufs_core::{Errno, cache};

use super::files::RegisterError;
use super::shares::Own;
use super::{Body, Builder, OpenError};

/// Bytes of a page where the builder does not say.
const PAGE_DEFAULT: u32 = 64 << 10;

/// The cache that a builder asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheSizes {
    pub(super) bytes: usize,
    pub(super) page_bytes: u32,
}

impl Default for CacheSizes {
    fn default() -> Self {
        Self { bytes: 0, page_bytes: PAGE_DEFAULT }
    }
}

impl CacheSizes {
    /// Sets of frames. A cache of many has up to two more than it was asked for, so that a file of just as many bytes has room as a whole.
    pub(super) fn sets(self) -> u32 {
        /// So many sets, and one more is little.
        const MANY: usize = 64;
        let set = WAYS as usize * self.page_bytes.max(1) as usize;
        let sets = if self.bytes / set < MANY { self.bytes / set } else { self.bytes.div_ceil(set) + 1 };
        u32::try_from(sets).unwrap_or(u32::MAX)
    }
    /// Bytes that calls have beyond so many, so that warps have pages on their way side by side: a page moves by way of them.
    pub(super) fn staging_beyond(self, bytes: usize) -> usize {
        /// As many as keep a bus busy, where each waits for a thread of the system.
        const PAGES: usize = 768;
        const MOST: usize = 48 << 20;
        let wanted = (PAGES * self.page_bytes as usize).min(self.bytes / 4).min(MOST);
        wanted.saturating_sub(bytes)
    }
    /// Bytes of all frames.
    pub(super) fn frame_bytes(self) -> usize {
        self.sets() as usize * WAYS as usize * self.page_bytes as usize
    }
    /// Whether they can be had.
    pub(super) fn check(self) -> Result<(), OpenError> {
        let (least, most) = PAGE_BYTES;
        let text = if !self.page_bytes.is_power_of_two() || !(least..=most).contains(&self.page_bytes) {
            format!("cache_page: {} is not a power of two from {least} to {most}", self.page_bytes)
        } else if self.bytes > 0 && self.sets() == 0 {
            format!(
                "cache: {} bytes hold fewer than {WAYS} pages; raise it to {} at least, or lower cache_page",
                self.bytes,
                WAYS * self.page_bytes
            )
        } else if self.bytes / self.page_bytes as usize > (u32::MAX / 2) as usize {
            format!("cache: {} bytes are too many pages of {} bytes", self.bytes, self.page_bytes)
        } else {
            return Ok(());
        };
        Err(OpenError::Size(text))
    }
}

impl Builder {
    /// Bytes of device memory for pages of mapped files ([`Session::map`](super::Session::map)), in whole sets of 8 pages; where those are 64 or
    /// more, one or two are added. Files that have room as a whole are read at the speed of memory ([`gpufs_device::view`]). Default 0: files
    /// cannot be mapped, and nothing is allocated.
    #[must_use]
    pub fn cache(mut self, bytes: usize) -> Self {
        self.cached.bytes = bytes;
        self
    }
    /// Bytes of a page of the cache: a power of two from 4 KiB to 1 MiB. Default 64 KiB. Small pages suit random accesses, large ones scans.
    #[must_use]
    pub fn cache_page(mut self, bytes: u32) -> Self {
        self.cached.page_bytes = bytes;
        self
    }
}

/// An entry of the table of mappings, as the host knows it: kernels write to the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapped {
    /// As [`cache::Mapping`] has it.
    generation: u32,
    /// The file, where the entry is in use, and whether lanes may store to its pages.
    pub(super) file: Option<(FileIndex, bool)>,
    /// What its pages have of frames of their own.
    pub(super) own: Option<Own>,
}

impl Mapped {
    /// The entries of a new session, which has this number. Generations of two sessions have nothing in common until an entry was used 32,768
    /// times, so that a mapping of another session is none of this one's.
    pub(super) fn all(session: u64, mappings: &[cache::Mapping]) -> Vec<Self> {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let generation = (session as u32) << 16;
        vec![Self { generation, file: None, own: None }; mappings.len()]
    }
    /// Whether it is of this entry of the file table.
    pub(super) fn has_file(&self, index: FileIndex) -> bool {
        self.file.is_some_and(|(file, _)| file == index)
    }
}

/// What the cache of a session has done since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Lanes that looked for a page and found it. Accesses to the page that a view remembers are not counted, nor those to files that have room as
    /// a whole.
    pub hits: u64,
    /// Pages that were read from their files, or were to be.
    pub misses: u64,
    /// Pages that went to make room for others.
    pub evictions: u64,
    /// Pages that kernels wrote to their files, or tried to.
    pub write_backs: u64,
    /// Times that a lane found a page on its way, or no room for one, and looked again.
    pub waits: u64,
}

/// A mapped file whose stores could not all be written. They are kept, and tried again at the next synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheError {
    /// What the first write that failed met.
    pub errno: Errno,
    /// Pages that are not in their files.
    pub pages: u64,
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pages of mapped files could not be written: {}", self.pages, self.errno)
    }
}

impl std::error::Error for CacheError {}

impl Body {
    /// `Session::map` and `Session::map_mut`: the entry and its generation.
    pub(super) fn map(&mut self, file: OwnedFd, writable: bool) -> Result<(u32, u32), RegisterError> {
        let failed = |errno: Errno| RegisterError { what: "mapping a file", source: Box::new(errno) };
        let mappings = self.tables.host.cache.mappings();
        if mappings.is_empty() {
            return Err(RegisterError {
                what: "mapping a file",
                source: "the session has no cache; see Builder::cache".into(),
            });
        }
        self.state.check_idle().map_err(|_| failed(Errno::BUSY))?;
        let flags = super::files::flags_of(file.as_raw_fd()).map_err(failed)?;
        if flags & OpenFile::SEEKABLE == 0 {
            return Err(failed(Errno::NODEV));
        }
        let access = if writable { OpenFile::READABLE | OpenFile::WRITABLE } else { OpenFile::READABLE };
        if flags & access != access || (writable && flags & OpenFile::APPEND != 0) {
            return Err(failed(Errno::ACCES));
        }
        let free = self.mapped.iter().position(|mapped| mapped.file.is_none());
        let index = free.ok_or_else(|| failed(Errno::MFILE))?;
        let file = File::from(file);
        let bytes = file
            .metadata()
            .map_err(|error| failed(Errno::from_number(error.raw_os_error().unwrap_or(libc::EIO))))?
            .len();
        let file = self.register_file(OwnedFd::from(file))?;
        if let Err(error) = self.lay_out(index, bytes) {
            self.unregister_file(file)?;
            return Err(RegisterError { what: "mapping a file", source: error.into() });
        }
        let mapped = &mut self.mapped[index];
        mapped.generation = mapped.generation.wrapping_add(1);
        mapped.file = Some((file, writable));
        let (mapping, generation) = (&mappings[index], mapped.generation);
        // ORDERING: relaxed: no kernel runs, and the next launch publishes them.
        mapping.file.set(file.0);
        mapping.writable.set(writable.into());
        mapping.generation.set(generation);
        Ok((u32::try_from(index).unwrap_or(u32::MAX), generation))
    }

    /// `Session::unmap` and `Session::unmap_mut`.
    pub(super) fn unmap(&mut self, (index, generation): (u32, u32)) -> Result<(), RegisterError> {
        let failed = |source| RegisterError { what: "unmapping a file", source };
        self.state.check_idle().map_err(|error| failed(error.into()))?;
        let mapped = self.mapped.get(index as usize).filter(|mapped| mapped.generation == generation);
        let file = mapped.and_then(|mapped| mapped.file);
        let (file, _) = file.ok_or_else(|| failed(Box::new(Errno::BADF)))?;
        self.write_cache().map_err(|error| failed(error.into()))?;
        let cache = &self.tables.host.cache;
        cache.forget(index);
        let generation = generation.wrapping_add(1);
        // ORDERING: relaxed: no kernel runs, and the next launch publishes it.
        cache.mappings()[index as usize].generation.set(generation);
        self.mapped[index as usize] = Mapped { generation, file: None, own: None };
        self.unregister_file(file)
    }

    /// Ends what lanes that are gone had begun, and writes every dirty page to its file. No kernel runs; the host's tables are the newest.
    pub(super) fn write_cache(&self) -> Result<(), CacheError> {
        let cache = &self.tables.host.cache;
        cache.let_go();
        let mut outcome: Option<CacheError> = None;
        let mut bytes = Vec::new();
        for (index, frame) in (0..).zip(cache.frames()) {
            if !frame.seen().is_dirty() {
                continue;
            }
            if let Err(errno) = self.write_frame(FrameIndex(index), frame, &mut bytes) {
                let pages = outcome.map_or(0, |error| error.pages) + 1;
                outcome = Some(CacheError { errno: outcome.map_or(errno, |error| error.errno), pages });
            } else {
                let _ = frame.begin_write();
                frame.end_write(true);
            }
        }
        outcome.map_or(Ok(()), Err)
    }

    /// Writes the page of a frame, as far as its file had bytes for it. Of what lies in the tables it believes nothing but which page of a file
    /// that is mapped for writing it is: another key is `EBADF`.
    fn write_frame(&self, index: FrameIndex, frame: &Frame, bytes: &mut Vec<u8>) -> Result<(), Errno> {
        let cache = &self.tables.host.cache;
        let key = Key::from_word(frame.key()).ok_or(Errno::BADF)?;
        let mapped = self.mapped.get(key.mapping() as usize).and_then(|mapped| mapped.file);
        let (file, _) = mapped.filter(|(_, writable)| *writable).ok_or(Errno::BADF)?;
        let (_, descriptor, _) =
            self.host_files.iter().find(|(entry, ..)| *entry == file.0).ok_or(Errno::BADF)?;
        bytes.resize(frame.valid().min(cache.page_bytes) as usize, 0);
        self.tables.read_frame(index, bytes).map_err(|_| Errno::IO)?;
        write_all_at(descriptor.as_raw_fd(), bytes, key.page() * u64::from(cache.page_bytes))
    }

    /// What the cache has done.
    pub(super) fn cache_statistics(&self) -> CacheStatistics {
        // Kernels write the counters: a sum may be anything, and is no panic.
        // ORDERING: relaxed: statistics.
        self.tables.host.cache.sets().iter().fold(CacheStatistics::default(), |sum, set: &cache::Set| {
            CacheStatistics {
                hits: sum.hits.wrapping_add(set.hits.peek()),
                misses: sum.misses.wrapping_add(set.misses.peek()),
                evictions: sum.evictions.wrapping_add(set.evictions.peek()),
                write_backs: sum.write_backs.wrapping_add(set.write_backs.peek()),
                waits: sum.waits.wrapping_add(set.waits.peek()),
            }
        })
    }
}

/// Writes all of `bytes` at `offset`, as `pwrite(2)`.
fn write_all_at(descriptor: RawFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    // Ends: each round writes something, or is interrupted by a signal, or fails.
    while !bytes.is_empty() {
        let at = libc::off_t::try_from(offset).map_err(|_| Errno::FBIG)?;
        // SAFETY:
        // - `bytes` are valid for reading
        let wrote = unsafe { libc::pwrite(descriptor, bytes.as_ptr().cast(), bytes.len(), at) };
        match usize::try_from(wrote) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(Errno::from_number(error.raw_os_error().unwrap_or(libc::EIO)));
                }
            }
        }
    }
    Ok(())
}

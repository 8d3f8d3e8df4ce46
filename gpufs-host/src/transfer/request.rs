//! What a program asks for: parts of files and memory, and choices.

use std::fmt;
use std::os::fd::BorrowedFd;

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From files into memory.
    Read,
    /// From memory to files.
    Write,
}

/// What kind of memory lies at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Ordinary memory of the host.
    Pageable,
    /// Memory of the host that the GPU's driver has pinned.
    Pinned,
    /// Memory of a GPU.
    Device,
    /// Memory that the driver moves between host and GPU.
    Managed,
}

impl MemoryKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Pageable, Self::Pinned, Self::Device, Self::Managed];

    /// Whether the host reaches it as its own, so that the system can read and write it in place. Managed memory would be moved to the
    /// host by that.
    pub(super) const fn is_of_host(self) -> bool {
        matches!(self, Self::Pageable | Self::Pinned)
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pageable => "pageable memory of the host",
            Self::Pinned => "pinned memory of the host",
            Self::Device => "memory of a GPU",
            Self::Managed => "managed memory",
        })
    }
}

/// Rows of one length that lie scattered in a file, and one after the other in memory.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Bytes of a row.
    pub bytes: usize,
    /// Where each begins in the file, in the order of the memory. The part's own offset is added.
    pub offsets: &'a [u64],
}

/// A stretch of memory, and where its bytes are in a file.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The file, which is duplicated: it may be closed while the transfer goes on. One that is written is not open for appending.
    pub file: BorrowedFd<'a>,
    /// The first byte in the file.
    pub offset: u64,
    /// The address of the memory, on its device.
    pub address: u64,
    /// Its length.
    pub bytes: usize,
    /// What kind of memory it is; `None`: it is found out.
    pub kind: Option<MemoryKind>,
    /// Scattered rows of the file, in place of one range.
    pub rows: Option<Rows<'a>>,
}

/// Choices for one transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransferOptions {
    /// A stream of the GPU's runtime (CUDA: `CUstream`, 0 is the default stream) on the GPU of the first part that is not the host's: the
    /// transfer touches the memory when what was queued there before has ended. `None`: it does not wait.
    pub stream: Option<u64>,
}

/// A small piece. A chunk is as small until a larger piece comes: programs that move little pin little.
pub(super) const SMALL: usize = 1 << 20;
/// The longest piece of a read whose copies are put together: no more is gained by longer ones, and all chunks stay in the caches.
pub(super) const MERGED: usize = 2 << 20;

/// Sizes of the engine, which all transfers of a process share. 0 stands for the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Threads: 1 to 256; default the cores, at most 16.
    pub threads: usize,
    /// Bytes of a chunk at most: a multiple of 4096, 4 KiB to 64 MiB; default 4 MiB. Of a read a thread takes at most 2 MiB at a time where
    /// the driver takes several copies at once (CUDA 12.8 and later). Of a write, and of scattered rows, it takes at most 1 MiB, as these
    /// take long on their way to a chunk or from there: so none has much left when the others have ended.
    pub chunk_bytes: usize,
    /// Chunks of a thread: 1 to 16; default 3, of which pieces of more than 2 MiB take two.
    pub chunks: usize,
}

impl Tuning {
    /// With the defaults in place of zeroes.
    ///
    /// # Errors
    /// Which number is out of its range.
    pub(super) fn chosen(self) -> Result<Self, String> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let or = |given: usize, default: usize| if given == 0 { default } else { given };
        let tuning = Self {
            threads: or(self.threads, cores.min(16)),
            chunk_bytes: or(self.chunk_bytes, 4 << 20),
            chunks: or(self.chunks, 3),
        };
        if tuning.threads > 256 {
            return Err(format!("threads is {}; it is 1 to 256, or 0 for the default", tuning.threads));
        }
        if !tuning.chunk_bytes.is_multiple_of(4096) || tuning.chunk_bytes > 64 << 20 {
            let given = tuning.chunk_bytes;
            return Err(format!(
                "chunk_bytes is {given}; it is a multiple of 4096 up to 64 MiB, or 0 for the default"
            ));
        }
        if tuning.chunks > 16 {
            return Err(format!("chunks is {}; it is 1 to 16, or 0 for the default", tuning.chunks));
        }
        Ok(tuning)
    }
}

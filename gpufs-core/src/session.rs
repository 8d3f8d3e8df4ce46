//! What a session is to the device: tables of fixed size that the host makes before the first launch.
//!
//! ```text
//! SessionTables ─┬─ resources ─┬─ queues[]        one per ring
//!                │             ├─ files[]         descriptors that device code opened or the host registered
//!                │             ├─ staging         pool: bounce buffers of calls in progress, paths, statx results
//!                │             ├─ async_buffers   pool: bounce buffers of asynchronous operations
//!                │             ├─ listings        pool: entries of directories that are read ahead
//!                │             ├─ stream_buffers  pool: the blocks of open streams
//!                │             ├─ regions[]       memory the host registered, used in place
//!                │             ├─ stall           where a wait gave up, in host memory
//!                │             └─ journal         what outlives the device, in host memory
//!                ├─ streams[]     FILEs; 0, 1, 2 are stdin, stdout, stderr
//!                ├─ shared        streams that are opened by path once for all threads
//!                ├─ cache         pages of mapped files in device memory
//!                ├─ pieces        where writers of traces keep their events, in host memory
//!                └─ records       pool: texts that are formatted before room is reserved for them
//! ```
//!
//! Streams and files know the [`Resources`] alone.
#![expect(unsafe_code, reason = "tables behind pointers that the host made")]

use core::ops::Deref;

use crate::alloc::BufferPool;
use crate::cache::Cache;
pub use crate::files::{FileIndex, OpenFile, Target};
use crate::gate::Gate;
pub use crate::lock::TicketLock;
use crate::pieces::Pieces;
pub use crate::regions::Region;
pub use crate::resources::Resources;
use crate::shared::Table;
pub use crate::stall::{PanicNote, PanicRoute, Stall, WaitReason};
use crate::stream::Stream;
use crate::word::{DeviceWord, DeviceWord64};

/// Index of an entry of the session's stream table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct StreamIndex(pub u32);

/// The session as the device sees it. Constant while kernels run, but for what the tables' own rules say. It dereferences to its
/// [`Resources`], which are all that its streams and files know of it.
#[derive(Debug, PartialEq)]
#[repr(C)]
pub struct SessionTables {
    /// Rings, files, pools, the journal.
    pub resources: Resources,
    // What few calls look at comes last, so that the others find what they need together.
    /// Streams that are opened once for all threads that open the same path.
    pub shared: Table,
    /// Memory of the device for records that a lane formats before it reserves room for them, and that its scratch memory does not hold.
    /// A lane that holds some of it may run code of the program; nothing else is taken from it. `base` is 0 where there is none.
    pub records: BufferPool,
    /// How often memory of `records` was given back by a text that had ended. In device memory.
    pub records_ended: *const DeviceWord,
    /// Failed calls, counted by call and error number ([`crate::failures`]). Null where they are not counted.
    pub failures: *const DeviceWord64,
    /// 1 where the session is in a sandbox: what has an address or a plain path goes to the ring for services ([R-SERVE-7]).
    pub confined: u32,
    /// 1 where a ring of I/O opens at once what the kernel has cached ([R-SERVE-6]): a kernel that has `openat2`, no host threads, no sandbox.
    pub opens_at_once: u32,
    /// Who may use the tables on the host. Null where whoever made them vouches for their users: in tests, and on a GPU, which never looks.
    pub gate: *const Gate,
    /// Pages of mapped files. Without sets where the host gave it no memory.
    pub cache: Cache,
    /// Where writers of traces keep their events.
    pub pieces: Pieces,
}

// SAFETY:
// - the tables are shared by design; each entry's rules say which lane touches what
unsafe impl Sync for SessionTables {}
// SAFETY:
// - as for `Sync`: nothing in a session belongs to a thread
unsafe impl Send for SessionTables {}

impl Deref for SessionTables {
    type Target = Resources;

    #[inline]
    fn deref(&self) -> &Resources {
        &self.resources
    }
}

impl SessionTables {
    /// The stream table.
    #[must_use]
    pub fn streams(&self) -> &[Stream] {
        // SAFETY:
        // - `stream_count` streams lie there, by the host's construction
        unsafe {
            core::slice::from_raw_parts(
                self.resources.stream_table.cast(),
                self.resources.stream_count as usize,
            )
        }
    }
    /// Who may use the tables on the host.
    #[must_use]
    pub const fn gate(&self) -> Option<&'static Gate> {
        // SAFETY:
        // - null, or a gate that is never freed, by the host's construction
        unsafe { self.gate.as_ref() }
    }
    /// Whether the session was closed, or belongs to the process that this one was forked from: its tables are zero then. On CPU lanes; a
    /// GPU's tables go with its session.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // ORDERING: relaxed: a constant of open tables.
        self.streams().first().is_none_or(|stream| stream.home.peek() == 0)
    }
    /// Whether the session is in a sandbox.
    #[must_use]
    pub const fn is_confined(&self) -> bool {
        self.confined != 0
    }
    /// How often memory of `records` was given back by a text that had ended: while it changes, a wait for such memory gets somewhere.
    #[must_use]
    pub const fn records_ended(&self) -> &DeviceWord {
        // SAFETY:
        // - valid, by the host's construction
        unsafe { &*self.records_ended }
    }
}

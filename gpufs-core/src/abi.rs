//! io_uring's structures and constants (`io_uring(7)`, `linux/io_uring.h`), and `statx(2)`'s.
//!
//! Names and order are the kernel header's; unions are given by the member that gpufs uses.
//! Every size and offset is compared with the system's header by `tests/abi.rs`.

use static_assertions::{const_assert, const_assert_eq};

/// A submission queue entry, 64 bytes.
///
/// ```text
///  0 opcode flags ioprio(2) fd(4) | 8 off(8) | 16 addr(8) | 24 len(4) op_flags(4)
/// 32 user_data(8) | 40 buf_index(2) personality(2) file_index(4) | 48 addr3(8) pad(8)
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Sqe {
    /// `IORING_OP_*`.
    pub opcode: u8,
    /// `IOSQE_*`.
    pub flags: u8,
    /// Request priority, or flags of the operation.
    pub ioprio: u16,
    /// The file descriptor, or an index of the registered files with [`IOSQE_FIXED_FILE`].
    pub fd: i32,
    /// Offset into the file; [`CURRENT_POSITION`] for the file's own position.
    pub off: u64,
    /// Address of the buffer or path.
    pub addr: u64,
    /// Length of the buffer in bytes, or the mode of an open.
    pub len: u32,
    /// Flags of the operation: `rw_flags`, `open_flags`, `statx_flags`, `fsync_flags`.
    pub op_flags: u32,
    /// Handed back in the CQE.
    pub user_data: u64,
    /// Index of the registered buffer.
    pub buf_index: u16,
    /// Credentials to run with.
    pub personality: u16,
    /// Target slot for a direct descriptor, plus one.
    pub file_index: u32,
    /// Third address.
    pub addr3: u64,
    /// Zero.
    pub pad: u64,
}
const_assert_eq!(size_of::<Sqe>(), 64);

/// A completion queue entry, 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Cqe {
    /// The SQE's `user_data`.
    pub user_data: u64,
    /// What the system call would have returned: a count, or a negated errno.
    pub res: i32,
    /// `IORING_CQE_F_*`.
    pub flags: u32,
}
const_assert_eq!(size_of::<Cqe>(), 16);

/// Where the parts of the submission ring lie (`struct io_sqring_offsets`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct SqringOffsets {
    /// Offset of the head, which the kernel moves.
    pub head: u32,
    /// Offset of the tail, which the producer moves.
    pub tail: u32,
    /// Offset of the index mask.
    pub ring_mask: u32,
    /// Offset of the number of entries.
    pub ring_entries: u32,
    /// Offset of the flags (`IORING_SQ_*`).
    pub flags: u32,
    /// Offset of the count of invalid entries.
    pub dropped: u32,
    /// Offset of the index array; none with [`IORING_SETUP_NO_SQARRAY`].
    pub array: u32,
    /// Zero.
    pub resv1: u32,
    /// Address of the SQEs with [`IORING_SETUP_NO_MMAP`].
    pub user_addr: u64,
}

/// Where the parts of the completion ring lie (`struct io_cqring_offsets`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CqringOffsets {
    /// Offset of the head, which the consumer moves.
    pub head: u32,
    /// Offset of the tail, which the kernel moves.
    pub tail: u32,
    /// Offset of the index mask.
    pub ring_mask: u32,
    /// Offset of the number of entries.
    pub ring_entries: u32,
    /// Offset of the overflow count.
    pub overflow: u32,
    /// Offset of the entries.
    pub cqes: u32,
    /// Offset of the flags.
    pub flags: u32,
    /// Zero.
    pub resv1: u32,
    /// Address of the rings with [`IORING_SETUP_NO_MMAP`].
    pub user_addr: u64,
}

/// What `io_uring_setup(2)` takes and gives back.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Params {
    /// Entries of the submission ring, as the kernel rounded it.
    pub sq_entries: u32,
    /// Entries of the completion ring, as the kernel rounded it.
    pub cq_entries: u32,
    /// `IORING_SETUP_*`.
    pub flags: u32,
    /// CPU for the SQPOLL thread.
    pub sq_thread_cpu: u32,
    /// Milliseconds until an idle SQPOLL thread sleeps.
    pub sq_thread_idle: u32,
    /// `IORING_FEAT_*`.
    pub features: u32,
    /// A ring whose workers are shared.
    pub wq_fd: u32,
    /// Zero.
    pub resv: [u32; 3],
    /// Where the submission ring's parts lie.
    pub sq_off: SqringOffsets,
    /// Where the completion ring's parts lie.
    pub cq_off: CqringOffsets,
}
const_assert_eq!(size_of::<Params>(), 120);

/// A time of `statx(2)`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct StatxTimestamp {
    /// Seconds since the epoch.
    pub tv_sec: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub tv_nsec: u32,
    /// Zero.
    pub reserved: i32,
}

/// What `statx(2)` writes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Statx {
    /// Which members are filled.
    pub stx_mask: u32,
    /// Preferred size of one transfer, in bytes.
    pub stx_blksize: u32,
    /// Further attributes.
    pub stx_attributes: u64,
    /// Hard links.
    pub stx_nlink: u32,
    /// Owner.
    pub stx_uid: u32,
    /// Group.
    pub stx_gid: u32,
    /// Type and permissions.
    pub stx_mode: u16,
    /// Zero.
    pub spare0: u16,
    /// Inode number.
    pub stx_ino: u64,
    /// Size in bytes.
    pub stx_size: u64,
    /// 512-byte blocks allocated.
    pub stx_blocks: u64,
    /// Which attributes are known.
    pub stx_attributes_mask: u64,
    /// Last access.
    pub stx_atime: StatxTimestamp,
    /// Creation.
    pub stx_btime: StatxTimestamp,
    /// Last status change.
    pub stx_ctime: StatxTimestamp,
    /// Last modification.
    pub stx_mtime: StatxTimestamp,
    /// Major number, if this is a device.
    pub stx_rdev_major: u32,
    /// Minor number, if this is a device.
    pub stx_rdev_minor: u32,
    /// Major number of the device that holds the file.
    pub stx_dev_major: u32,
    /// Minor number of the device that holds the file.
    pub stx_dev_minor: u32,
    /// Mount, direct I/O alignments, and what later kernels add.
    pub spare: [u64; 14],
}
const_assert_eq!(size_of::<Statx>(), 256);
const_assert!(align_of::<Statx>() == 8);

/// What `IORING_REGISTER_FILES_UPDATE` takes (`struct io_uring_rsrc_update`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct FilesUpdate {
    /// First slot to change.
    pub offset: u32,
    /// Zero.
    pub resv: u32,
    /// Address of the descriptors, `i32` each; -1 empties a slot.
    pub data: u64,
}
const_assert_eq!(size_of::<FilesUpdate>(), 16);

/// What the kernel says of one opcode (`struct io_uring_probe_op`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ProbeOp {
    /// The opcode.
    pub op: u8,
    /// Zero.
    pub resv: u8,
    /// [`IO_URING_OP_SUPPORTED`].
    pub flags: u16,
    /// Zero.
    pub resv2: u32,
}
const_assert_eq!(size_of::<ProbeOp>(), 8);

/// Opcodes that [`Probe`] has room for.
pub const PROBE_OPS: usize = 128;

/// What `IORING_REGISTER_PROBE` fills (`struct io_uring_probe`, with room for [`PROBE_OPS`] opcodes).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Probe {
    /// The last opcode that the kernel knows.
    pub last_op: u8,
    /// Members of `ops` that the kernel filled.
    pub ops_len: u8,
    /// Zero.
    pub resv: u16,
    /// Zero.
    pub resv2: [u32; 3],
    /// One for each opcode, in order.
    pub ops: [ProbeOp; PROBE_OPS],
}

impl Probe {
    /// An empty probe, as the kernel wants it.
    pub const EMPTY: Self = Self {
        last_op: 0,
        ops_len: 0,
        resv: 0,
        resv2: [0; 3],
        ops: [ProbeOp { op: 0, resv: 0, flags: 0, resv2: 0 }; PROBE_OPS],
    };

    /// Whether the kernel that filled this serves `opcode`.
    #[must_use]
    pub const fn supports(&self, opcode: u8) -> bool {
        let index = opcode as usize;
        index < self.ops_len as usize
            && index < PROBE_OPS
            && self.ops[index].flags as u32 & IO_URING_OP_SUPPORTED != 0
    }
}

/// `off` that stands for the file's own position (`io_uring_prep_read(3)`: -1).
pub const CURRENT_POSITION: u64 = u64::MAX;

macro_rules! constants {
    ($(#[$doc:meta])* $table:ident: $type:ty; $($name:ident = $value:expr, $text:literal;)*) => {
        $(#[doc = $text] pub const $name: $type = $value;)*
        $(#[$doc])*
        pub const $table: &[(&str, u64)] = &[$((stringify!($name), $name as u64)),*];
    };
}

constants! {
    /// The opcodes above by name, for the comparison with the system's header.
    OPCODES: u8;
    IORING_OP_NOP = 0, "Does nothing.";
    IORING_OP_FSYNC = 3, "`fsync(2)`.";
    IORING_OP_READ_FIXED = 4, "`pread(2)` into a registered buffer.";
    IORING_OP_WRITE_FIXED = 5, "`pwrite(2)` from a registered buffer.";
    IORING_OP_POLL_ADD = 6, "Waits until a file is ready (`poll(2)`).";
    IORING_OP_ASYNC_CANCEL = 14, "Cancels another operation.";
    IORING_OP_FALLOCATE = 17, "`fallocate(2)`.";
    IORING_OP_OPENAT = 18, "`openat(2)`.";
    IORING_OP_CLOSE = 19, "`close(2)`.";
    IORING_OP_FILES_UPDATE = 20, "Changes registered files.";
    IORING_OP_STATX = 21, "`statx(2)`.";
    IORING_OP_READ = 22, "`pread(2)`.";
    IORING_OP_WRITE = 23, "`pwrite(2)`.";
    IORING_OP_RENAMEAT = 35, "`renameat2(2)`.";
    IORING_OP_UNLINKAT = 36, "`unlinkat(2)`.";
    IORING_OP_FTRUNCATE = 55, "`ftruncate(2)`, since Linux 6.9.";
}

constants! {
    /// The flags and commands above by name, for the comparison with the system's header.
    FLAGS: u32;
    IORING_SETUP_SQPOLL = 1 << 1, "A kernel thread polls the submission ring.";
    IORING_SETUP_SQ_AFF = 1 << 2, "`sq_thread_cpu` is valid.";
    IORING_SETUP_CQSIZE = 1 << 3, "`cq_entries` is valid.";
    IORING_SETUP_CLAMP = 1 << 4, "Clamp sizes to the kernel's limits.";
    IORING_SETUP_ATTACH_WQ = 1 << 5, "`wq_fd` is valid.";
    IORING_SETUP_R_DISABLED = 1 << 6, "Start disabled.";
    IORING_SETUP_NO_MMAP = 1 << 14, "The caller supplies the rings' memory; since Linux 6.5.";
    IORING_SETUP_NO_SQARRAY = 1 << 16, "No index array; since Linux 6.6.";
    IORING_FEAT_SINGLE_MMAP = 1 << 0, "Both rings lie in one mapping.";
    IORING_FEAT_NODROP = 1 << 1, "An overflowed completion is kept back, not dropped.";
    IORING_FEAT_SQPOLL_NONFIXED = 1 << 7, "SQPOLL serves ordinary descriptors.";
    IORING_SQ_NEED_WAKEUP = 1 << 0, "The SQPOLL thread sleeps.";
    IORING_SQ_CQ_OVERFLOW = 1 << 1, "Completions are kept back.";
    IORING_ENTER_GETEVENTS = 1 << 0, "Wait for completions.";
    IORING_ENTER_SQ_WAKEUP = 1 << 1, "Wake the SQPOLL thread.";
    IORING_REGISTER_BUFFERS = 0, "Registers buffers.";
    IORING_UNREGISTER_BUFFERS = 1, "Lets registered buffers go.";
    IORING_REGISTER_FILES = 2, "Registers files.";
    IORING_UNREGISTER_FILES = 3, "Lets registered files go.";
    IORING_REGISTER_FILES_UPDATE = 6, "Changes registered files.";
    IORING_REGISTER_PROBE = 8, "Asks which opcodes there are.";
    IO_URING_OP_SUPPORTED = 1 << 0, "The kernel serves this opcode.";
    IORING_FSYNC_DATASYNC = 1 << 0, "`fdatasync(2)` rather than `fsync(2)`.";
    IORING_FILE_INDEX_ALLOC = u32::MAX, "The kernel picks a free slot of the registered files.";
    IOSQE_FIXED_FILE = 1 << 0, "`fd` is an index of the registered files.";
    IOSQE_ASYNC = 1 << 4, "Always run in a worker.";
}

/// In `op_flags` of a transfer: fails with `EAGAIN` rather than wait (`preadv2(2)`).
pub const RWF_NOWAIT: u32 = 8;
/// In `op_flags` of [`IORING_OP_POLL_ADD`]: there is something to read (`poll(2)`).
pub const POLLIN: u32 = 1;
/// In `op_flags` of [`IORING_OP_POLL_ADD`]: there is room to write.
pub const POLLOUT: u32 = 4;
/// Offset of the rings in the ring's descriptor, for `mmap(2)`.
pub const IORING_OFF_SQ_RING: u64 = 0;
/// Offset of the SQEs in the ring's descriptor, for `mmap(2)`.
pub const IORING_OFF_SQES: u64 = 0x1000_0000;
/// `dirfd` that stands for the working directory (`openat(2)`).
pub const AT_FDCWD: i32 = -100;

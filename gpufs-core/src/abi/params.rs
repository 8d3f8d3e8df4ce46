//! What the kernel fills: completions, the rings' offsets, and the answers to `io_uring_setup(2)` and `io_uring_register(2)`.

use static_assertions::const_assert_eq;

use super::constants::IO_URING_OP_SUPPORTED;
#[cfg(doc)]
use super::constants::{IORING_SETUP_NO_MMAP, IORING_SETUP_NO_SQARRAY};

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

/// How `openat2(2)` opens a file (`struct open_how`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct OpenHow {
    /// `O_*`.
    pub flags: u64,
    /// Permissions of a file that is made.
    pub mode: u64,
    /// `RESOLVE_*`.
    pub resolve: u64,
}

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

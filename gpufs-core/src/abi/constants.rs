//! Opcodes, flags, commands and offsets, with tables of them by name for the comparison with the system's header.

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
    IORING_OP_READV = 1, "`preadv2(2)`.";
    IORING_OP_WRITEV = 2, "`pwritev2(2)`.";
    IORING_OP_FSYNC = 3, "`fsync(2)`.";
    IORING_OP_READ_FIXED = 4, "`pread(2)` into a registered buffer.";
    IORING_OP_WRITE_FIXED = 5, "`pwrite(2)` from a registered buffer.";
    IORING_OP_POLL_ADD = 6, "Waits until a file is ready (`poll(2)`).";
    IORING_OP_SYNC_FILE_RANGE = 8, "`sync_file_range(2)`.";
    IORING_OP_SENDMSG = 9, "`sendmsg(2)`.";
    IORING_OP_RECVMSG = 10, "`recvmsg(2)`.";
    IORING_OP_ACCEPT = 13, "`accept4(2)`.";
    IORING_OP_ASYNC_CANCEL = 14, "Cancels another operation.";
    IORING_OP_FALLOCATE = 17, "`fallocate(2)`.";
    IORING_OP_OPENAT = 18, "`openat(2)`.";
    IORING_OP_CLOSE = 19, "`close(2)`.";
    IORING_OP_FILES_UPDATE = 20, "Changes registered files.";
    IORING_OP_STATX = 21, "`statx(2)`.";
    IORING_OP_READ = 22, "`pread(2)`.";
    IORING_OP_WRITE = 23, "`pwrite(2)`.";
    IORING_OP_FADVISE = 24, "`posix_fadvise(2)`.";
    IORING_OP_SEND = 26, "`send(2)`.";
    IORING_OP_RECV = 27, "`recv(2)`.";
    IORING_OP_OPENAT2 = 28, "`openat2(2)`.";
    IORING_OP_EPOLL_CTL = 29, "`epoll_ctl(2)`.";
    IORING_OP_SPLICE = 30, "`splice(2)`.";
    IORING_OP_TEE = 33, "`tee(2)`.";
    IORING_OP_RENAMEAT = 35, "`renameat2(2)`.";
    IORING_OP_UNLINKAT = 36, "`unlinkat(2)`.";
    IORING_OP_MKDIRAT = 37, "`mkdirat(2)`, since Linux 5.15.";
    IORING_OP_SYMLINKAT = 38, "`symlinkat(2)`, since Linux 5.15.";
    IORING_OP_LINKAT = 39, "`linkat(2)`, since Linux 5.15.";
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
    IORING_SETUP_COOP_TASKRUN = 1 << 8, "The thread that submitted is not interrupted for what completes; since Linux 5.19.";
    IORING_SETUP_NO_MMAP = 1 << 14, "The caller supplies the rings' memory; since Linux 6.5.";
    IORING_SETUP_NO_SQARRAY = 1 << 16, "No index array; since Linux 6.6.";
    IORING_FEAT_SINGLE_MMAP = 1 << 0, "Both rings lie in one mapping.";
    IORING_FEAT_NODROP = 1 << 1, "An overflowed completion is kept back, not dropped.";
    IORING_FEAT_SQPOLL_NONFIXED = 1 << 7, "SQPOLL serves ordinary descriptors.";
    IORING_FEAT_EXT_ARG = 1 << 8, "A wait for completions may have a limit; since Linux 5.11.";
    IORING_SQ_NEED_WAKEUP = 1 << 0, "The SQPOLL thread sleeps.";
    IORING_SQ_CQ_OVERFLOW = 1 << 1, "Completions are kept back.";
    IORING_ENTER_GETEVENTS = 1 << 0, "Wait for completions.";
    IORING_ENTER_SQ_WAKEUP = 1 << 1, "Wake the SQPOLL thread.";
    IORING_ENTER_EXT_ARG = 1 << 3, "The argument is a `GetEvents`.";
    IORING_REGISTER_BUFFERS = 0, "Registers buffers.";
    IORING_UNREGISTER_BUFFERS = 1, "Lets registered buffers go.";
    IORING_REGISTER_FILES = 2, "Registers files.";
    IORING_UNREGISTER_FILES = 3, "Lets registered files go.";
    IORING_REGISTER_FILES_UPDATE = 6, "Changes registered files.";
    IORING_REGISTER_PROBE = 8, "Asks which opcodes there are.";
    IORING_REGISTER_RESTRICTIONS = 11, "Restricts a ring that is disabled, since Linux 5.10.";
    IORING_REGISTER_ENABLE_RINGS = 12, "Enables a ring, since Linux 5.10.";
    IO_URING_OP_SUPPORTED = 1 << 0, "The kernel serves this opcode.";
    IORING_FSYNC_DATASYNC = 1 << 0, "`fdatasync(2)` rather than `fsync(2)`.";
    IORING_FILE_INDEX_ALLOC = u32::MAX, "The kernel picks a free slot of the registered files.";
    IORING_ACCEPT_DONTWAIT = 1 << 1, "In `ioprio` of an accept: fails with `EAGAIN` rather than wait, since Linux 6.10.";
    IORING_RECVSEND_POLL_FIRST = 1 << 0, "In `ioprio` of a receive: waits until there is something before it tries, since Linux 5.19.";
    IOSQE_FIXED_FILE = 1 << 0, "`fd` is an index of the registered files.";
    IOSQE_IO_LINK = 1 << 2, "The next entry begins when this one has ended well.";
    IOSQE_IO_HARDLINK = 1 << 3, "The next entry begins when this one has ended.";
    IOSQE_ASYNC = 1 << 4, "Always run in a worker.";
}

/// In `op_flags` of a transfer: fails with `EAGAIN` rather than wait (`preadv2(2)`).
pub const RWF_NOWAIT: u32 = 8;
/// In `op_flags` of a write: it goes to the end of the file, wherever it is told to go (`pwritev2(2)`).
pub const RWF_APPEND: u32 = 16;
/// In `op_flags` of [`IORING_OP_POLL_ADD`]: there is something to read (`poll(2)`).
pub const POLLIN: u32 = 1;
/// In `op_flags` of [`IORING_OP_POLL_ADD`]: there is room to write.
pub const POLLOUT: u32 = 4;
/// In [`OpenHow::resolve`](crate::abi::OpenHow): only what the kernel has cached, or `EAGAIN` (`openat2(2)`). Since Linux 5.12.
pub const RESOLVE_CACHED: u64 = 0x20;
/// In `len` of [`IORING_OP_EPOLL_CTL`]: takes a descriptor out of a set (`epoll_ctl(2)`).
pub const EPOLL_CTL_DEL: u32 = 2;
/// Offset of the rings in the ring's descriptor, for `mmap(2)`.
pub const IORING_OFF_SQ_RING: u64 = 0;
/// Offset of the SQEs in the ring's descriptor, for `mmap(2)`.
pub const IORING_OFF_SQES: u64 = 0x1000_0000;
/// `dirfd` that stands for the working directory (`openat(2)`).
pub const AT_FDCWD: i32 = -100;

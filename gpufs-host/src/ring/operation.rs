//! The operation of one submission entry, done with ordinary system calls: the kernel's part where there is no io_uring.
//!
//! Results are those of `io_uring_enter(2)`. Entries that this does not serve (drains, selected buffers, vectors in chains, other opcodes)
//! complete with `EINVAL`, as on a kernel without them. Chains are `chain.rs`'s.

use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpufs_core::Errno;
use gpufs_core::abi::{
    CURRENT_POSITION, IORING_FILE_INDEX_ALLOC, IORING_FSYNC_DATASYNC, IORING_OP_ACCEPT, IORING_OP_CLOSE,
    IORING_OP_FADVISE, IORING_OP_FALLOCATE, IORING_OP_FILES_UPDATE, IORING_OP_FSYNC, IORING_OP_FTRUNCATE,
    IORING_OP_LINKAT, IORING_OP_MKDIRAT, IORING_OP_NOP, IORING_OP_OPENAT, IORING_OP_READ,
    IORING_OP_READ_FIXED, IORING_OP_READV, IORING_OP_RECV, IORING_OP_RECVMSG, IORING_OP_RENAMEAT,
    IORING_OP_SEND, IORING_OP_SENDMSG, IORING_OP_SPLICE, IORING_OP_STATX, IORING_OP_SYMLINKAT,
    IORING_OP_SYNC_FILE_RANGE, IORING_OP_TEE, IORING_OP_UNLINKAT, IORING_OP_WRITE, IORING_OP_WRITE_FIXED,
    IORING_OP_WRITEV, IOSQE_ASYNC, IOSQE_FIXED_FILE, IOSQE_IO_HARDLINK, IOSQE_IO_LINK, RWF_NOWAIT,
    SERVICE_OPCODES, Sqe,
};

use super::chain::has_next;
use super::confined::Confined;
use super::family::Held;
use super::services::{Services, pipes};
use super::sys::{self, signed};
use super::workers::lock;

/// A slot of the registered files is left alone (`IORING_REGISTER_FILES_SKIP`).
const SKIP: RawFd = -2;

/// Slots of the registered files; none where no files are registered.
type Files = Option<Vec<Option<Arc<Held>>>>;

/// Address and length of each registered buffer; none where no buffers are registered.
type Buffers = Option<Vec<(u64, u64)>>;

/// The registered files and buffers of a ring that threads serve.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// What the rings of a session share.
    pub(super) services: Arc<Services>,
    files: Mutex<Files>,
    buffers: Mutex<Buffers>,
    /// What entries may do, where a sandbox says so.
    pub(super) confined: Option<Arc<Confined>>,
}

impl Tables {
    /// None registered yet.
    pub(super) fn sharing(services: Arc<Services>, confined: Option<Arc<Confined>>) -> Self {
        Self { services, confined, ..Self::default() }
    }
    /// Starts a thread that serves, of the confined family where there is one.
    pub(super) fn spawn(
        &self,
        name: &'static str,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<std::thread::JoinHandle<()>> {
        match &self.confined {
            Some(confined) => confined.family.spawn(name, body),
            None => std::thread::Builder::new().name(name.into()).spawn(body),
        }
    }
    /// A reference of our own to an open file of the caller's; none for -1 and for [`SKIP`].
    fn reference(&self, file: RawFd) -> io::Result<Option<Arc<Held>>> {
        let Some(confined) = self.confined.as_ref().filter(|_| file >= 0) else { return reference(file) };
        let fd = confined.family.take_in(file)?;
        Ok(Some(Arc::new(Held { fd, family: Some(Arc::clone(&confined.family)) })))
    }
    /// How many bytes of registered memory there are from an address on.
    pub(super) fn room_at(&self, address: u64) -> Option<u64> {
        let table = lock(&self.buffers);
        let mut all = table.as_ref()?.iter();
        all.find_map(|&(base, bytes)| {
            address.checked_sub(base).filter(|before| *before < bytes).map(|before| bytes - before)
        })
    }
    pub(super) fn register_files(&self, files: &[RawFd]) -> io::Result<()> {
        let mut table = lock(&self.files);
        if table.is_some() {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        *table = Some(files.iter().map(|&file| self.reference(file)).collect::<io::Result<_>>()?);
        Ok(())
    }
    pub(super) fn update_file(&self, index: u32, file: RawFd) -> io::Result<()> {
        let held = self.reference(file)?;
        let mut table = lock(&self.files);
        let slots = table.as_mut().ok_or_else(|| io::Error::from_raw_os_error(libc::ENXIO))?;
        let slot = slots.get_mut(index as usize).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        if file != SKIP {
            *slot = held;
        }
        Ok(())
    }
    pub(super) fn register_buffers(&self, buffers: &[(NonNull<u8>, usize)]) -> io::Result<()> {
        let mut table = lock(&self.buffers);
        if table.is_some() {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        let range =
            |&(base, bytes): &(NonNull<u8>, usize)| (base.as_ptr().expose_provenance() as u64, bytes as u64);
        *table = Some(buffers.iter().map(range).collect());
        Ok(())
    }
    pub(super) fn unregister_buffers(&self) {
        *lock(&self.buffers) = None;
    }
    /// The file that an entry names. Held for as long as the operation runs, as the kernel does.
    fn file(&self, sqe: &Sqe) -> Result<File, Errno> {
        if sqe.flags & flag(IOSQE_FIXED_FILE) == 0 {
            return Ok(File::Plain(sqe.fd));
        }
        let table = lock(&self.files);
        let slot = usize::try_from(sqe.fd).ok().and_then(|index| table.as_ref()?.get(index)?.clone());
        slot.map(File::Registered).ok_or(Errno::BADF)
    }
    /// Whether the registered buffer that an entry names holds the entry's bytes.
    fn check_buffer(&self, sqe: &Sqe) -> Result<(), Errno> {
        let table = lock(&self.buffers);
        let buffer = table.as_ref().and_then(|buffers| buffers.get(usize::from(sqe.buf_index)));
        let &(base, bytes) = buffer.ok_or(Errno::FAULT)?;
        let end = sqe.addr.checked_add(sqe.len.into()).ok_or(Errno::OVERFLOW)?;
        if sqe.addr >= base && end <= base + bytes { Ok(()) } else { Err(Errno::FAULT) }
    }
    /// Puts a fresh descriptor into the slot that an open names; the open's result.
    fn install(&self, file: OwnedFd, file_index: u32) -> Result<i32, Errno> {
        let mut table = lock(&self.files);
        let slots = table.as_mut().ok_or(Errno::NXIO)?;
        let file = Some(Arc::new(Held { fd: file.into_raw_fd(), family: None }));
        if file_index == IORING_FILE_INDEX_ALLOC {
            let free = slots.iter().position(Option::is_none).ok_or(Errno::NFILE)?;
            slots[free] = file;
            return i32::try_from(free).map_err(|_| Errno::NFILE);
        }
        *slots.get_mut(file_index as usize - 1).ok_or(Errno::INVAL)? = file;
        Ok(0)
    }
    fn close_slot(&self, slot: u32) -> Result<i32, Errno> {
        let mut table = lock(&self.files);
        let slots = table.as_mut().ok_or(Errno::NXIO)?;
        let held = slots.get_mut(slot as usize).ok_or(Errno::INVAL)?.take();
        held.map(|_| 0).ok_or(Errno::BADF)
    }
    fn update_files(&self, sqe: &Sqe) -> Result<i32, Errno> {
        let first = u32::try_from(sqe.off).map_err(|_| Errno::INVAL)?;
        let mut done = 0;
        while done < sqe.len {
            let address = sqe.addr.checked_add(u64::from(done) * 4).ok_or(Errno::FAULT)?;
            let index = first.checked_add(done).ok_or(Errno::INVAL)?;
            let result = read_descriptor(address)
                .and_then(|file| self.update_file(index, file).map_err(|error| errno(&error)));
            match result {
                Ok(()) => done += 1,
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(done.cast_signed())
    }
}

/// A file that an operation holds.
#[derive(Clone, Debug)]
pub(super) enum File {
    Plain(RawFd),
    Registered(Arc<Held>),
}

impl File {
    pub(super) fn raw(&self) -> RawFd {
        match self {
            Self::Plain(fd) => *fd,
            Self::Registered(file) => file.fd,
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().filter(|number| (1..=4095).contains(number)).map_or(Errno::IO, Errno::from_number)
}

/// A reference of our own to an open file; none for -1 and for [`SKIP`].
fn reference(file: RawFd) -> io::Result<Option<Arc<Held>>> {
    if file == -1 || file == SKIP {
        return Ok(None);
    }
    if file < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY:
    // - `fcntl` answers EBADF for a descriptor that is not open, and the borrow ends with this call
    let copy = unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Some(Arc::new(Held { fd: copy, family: None })))
}

/// The descriptor at an address that the device gave: read through the kernel, so that a bad one is `EFAULT`.
fn read_descriptor(address: u64) -> Result<RawFd, Errno> {
    let mut value: RawFd = -1;
    let bytes = size_of::<RawFd>() as u64;
    let local = libc::iovec { iov_base: (&raw mut value).cast(), iov_len: size_of::<RawFd>() };
    let remote = [address, bytes];
    let [local, remote] = [(&raw const local).expose_provenance(), (&raw const remote).expose_provenance()];
    let arguments = [u64::from(std::process::id()), local as u64, 1, remote as u64, 1, 0];
    // SAFETY:
    // - the kernel writes `value`, which is alive; what it reads it checks
    // - an `iovec` is an address and a length, 8 bytes each
    let read = unsafe { sys::call(libc::SYS_process_vm_readv, arguments) }?;
    if read == size_of::<RawFd>() as i32 { Ok(value) } else { Err(Errno::FAULT) }
}

const fn flag(flag: u32) -> u8 {
    #[allow(clippy::cast_possible_truncation, reason = "an IOSQE flag is one bit of a byte")]
    {
        flag as u8
    }
}

/// The flags that are served.
const SERVED: u8 = flag(IOSQE_FIXED_FILE | IOSQE_ASYNC | IOSQE_IO_LINK | IOSQE_IO_HARDLINK);

/// How far an entry got.
#[derive(Debug)]
pub(super) enum Step {
    /// To its end: a count, or a negated errno.
    Done(i32),
    /// Not to its end: try again when this file is ready for these events.
    Waits(File, i16),
}

/// Does what `sqe` asks for, but does not wait for a pipe or socket. `ready`: the file that it waited for is ready.
///
/// # Safety
/// The entry was published on the ring: its producer vouches for its addresses until the CQE is posted.
pub(super) unsafe fn perform(sqe: &Sqe, ready: bool, tables: &Tables) -> Step {
    let is_vectored = matches!(sqe.opcode, IORING_OP_READV | IORING_OP_WRITEV);
    // Of vectors it is not known here what is short.
    if sqe.flags & !SERVED != 0 || (is_vectored && has_next(sqe)) {
        return Step::Done(-Errno::INVAL.number());
    }
    if let Some(confined) = &tables.confined {
        // SAFETY:
        // - by this function's contract
        match unsafe { confined.perform(sqe, tables) } {
            Ok(None) => {}
            Ok(Some(result)) => return Step::Done(result),
            Err(errno) => return Step::Done(-errno.number()),
        }
    }
    let result = match sqe.opcode {
        IORING_OP_NOP => Ok(0),
        IORING_OP_READ
        | IORING_OP_READ_FIXED
        | IORING_OP_READV
        | IORING_OP_WRITE
        | IORING_OP_WRITE_FIXED
        | IORING_OP_WRITEV => {
            // SAFETY:
            // - by this function's contract
            match unsafe { transfer(sqe, ready, tables) } {
                Ok(step) => return step,
                Err(errno) => Err(errno),
            }
        }
        IORING_OP_ACCEPT | IORING_OP_SEND | IORING_OP_SENDMSG | IORING_OP_RECV | IORING_OP_RECVMSG => {
            let sockets = &tables.services.sockets;
            // SAFETY:
            // - by this function's contract
            match tables.file(sqe).and_then(|file| unsafe { sockets.operate(sqe, file) }) {
                Ok(step) => return step,
                Err(errno) => Err(errno),
            }
        }
        IORING_OP_FSYNC
        | IORING_OP_FTRUNCATE
        | IORING_OP_FALLOCATE
        | IORING_OP_FADVISE
        | IORING_OP_SYNC_FILE_RANGE => on_file(sqe, tables),
        IORING_OP_SPLICE | IORING_OP_TEE => return pipes::operate(sqe, tables.file(sqe)),
        IORING_OP_CLOSE => close(sqe, tables),
        IORING_OP_FILES_UPDATE => tables.update_files(sqe),
        IORING_OP_OPENAT | IORING_OP_STATX | IORING_OP_UNLINKAT | IORING_OP_RENAMEAT | IORING_OP_MKDIRAT
        | IORING_OP_SYMLINKAT | IORING_OP_LINKAT => {
            // SAFETY:
            // - by this function's contract
            unsafe { on_path(sqe, tables) }
        }
        SERVICE_OPCODES.. => {
            // SAFETY:
            // - by this function's contract
            unsafe { tables.services.perform(sqe) }
        }
        _ => Err(Errno::INVAL),
    };
    Step::Done(result.unwrap_or_else(|errno| -errno.number()))
}

/// Begins an `IORING_OP_POLL_ADD`: done if its file is ready, or does not exist.
pub(super) fn poll(sqe: &Sqe, tables: &Tables) -> Step {
    if sqe.flags & !SERVED != 0 || sqe.len != 0 {
        return Step::Done(-Errno::INVAL.number());
    }
    // Bits above the low half are of epoll; no file of interest here needs them.
    #[allow(clippy::cast_possible_truncation, reason = "the low half is what poll(2) takes")]
    let events = sqe.op_flags as u16 as i16;
    let checked = tables.confined.as_ref().map_or(Ok(()), |confined| confined.check_file(sqe));
    match checked.and_then(|()| tables.file(sqe)) {
        Err(errno) => Step::Done(-errno.number()),
        Ok(file) => {
            let fd = file.raw();
            let look = move || sys::poll_now(fd, events);
            // The ring service's thread, which begins polls, has the host's descriptors, not those of a sandbox's family.
            let state = tables.confined.as_ref().map_or_else(look, |confined| confined.run(look));
            match polled(events, state) {
                Some(result) => Step::Done(result),
                None => Step::Waits(file, events),
            }
        }
    }
}

/// The result of a poll for `events` whose file is in the state `revents`; `None` where it must wait.
pub(super) fn polled(events: i16, revents: i16) -> Option<i32> {
    if revents & libc::POLLNVAL != 0 {
        return Some(-Errno::BADF.number());
    }
    let seen = revents & (events | libc::POLLERR | libc::POLLHUP);
    (seen != 0).then_some(i32::from(seen))
}

/// Operations on an open file that touch no memory.
fn on_file(sqe: &Sqe, tables: &Tables) -> Result<i32, Errno> {
    let file = tables.file(sqe)?;
    let fd = signed(file.raw());
    let (number, arguments) = match sqe.opcode {
        IORING_OP_FSYNC if sqe.op_flags == 0 => (libc::SYS_fsync, [fd, 0, 0, 0, 0, 0]),
        IORING_OP_FSYNC if sqe.op_flags == IORING_FSYNC_DATASYNC => {
            (libc::SYS_fdatasync, [fd, 0, 0, 0, 0, 0])
        }
        IORING_OP_FTRUNCATE => (libc::SYS_ftruncate, [fd, sqe.off, 0, 0, 0, 0]),
        IORING_OP_FALLOCATE => (libc::SYS_fallocate, [fd, sqe.len.into(), sqe.off, sqe.addr, 0, 0]),
        IORING_OP_FADVISE => {
            let length = if sqe.addr == 0 { sqe.len.into() } else { sqe.addr };
            (libc::SYS_fadvise64, [fd, sqe.off, length, sqe.op_flags.into(), 0, 0])
        }
        IORING_OP_SYNC_FILE_RANGE => {
            (libc::SYS_sync_file_range, [fd, sqe.off, sqe.len.into(), sqe.op_flags.into(), 0, 0])
        }
        _ => return Err(Errno::INVAL),
    };
    // SAFETY:
    // - these calls take numbers only
    unsafe { sys::call(number, arguments) }
}

fn close(sqe: &Sqe, tables: &Tables) -> Result<i32, Errno> {
    match sqe.file_index {
        0 if sqe.flags & flag(IOSQE_FIXED_FILE) != 0 => Err(Errno::BADF),
        // SAFETY:
        // - the call takes a number; that the descriptor is the program's to close, its producer vouches for
        0 => unsafe { sys::call(libc::SYS_close, [signed(sqe.fd), 0, 0, 0, 0, 0]) },
        _ if sqe.fd != 0 => Err(Errno::INVAL),
        slot => tables.close_slot(slot - 1),
    }
}

/// Operations on a path. They take no registered file.
///
/// # Safety
/// As for [`perform`].
unsafe fn on_path(sqe: &Sqe, tables: &Tables) -> Result<i32, Errno> {
    if sqe.flags & flag(IOSQE_FIXED_FILE) != 0 {
        return Err(Errno::BADF);
    }
    let (dirfd, path) = (signed(sqe.fd), sqe.addr);
    let (len, op_flags) = (u64::from(sqe.len), u64::from(sqe.op_flags));
    let (number, arguments) = match sqe.opcode {
        IORING_OP_OPENAT if sqe.file_index != 0 => (libc::SYS_openat, {
            if sqe.op_flags & libc::O_CLOEXEC.cast_unsigned() != 0 {
                return Err(Errno::INVAL);
            }
            [dirfd, path, op_flags | u64::from(libc::O_CLOEXEC.cast_unsigned()), len, 0, 0]
        }),
        IORING_OP_OPENAT => (libc::SYS_openat, [dirfd, path, op_flags, len, 0, 0]),
        IORING_OP_STATX => (libc::SYS_statx, [dirfd, path, op_flags, len, sqe.off, 0]),
        IORING_OP_UNLINKAT => (libc::SYS_unlinkat, [dirfd, path, op_flags, 0, 0, 0]),
        IORING_OP_RENAMEAT => {
            (libc::SYS_renameat2, [dirfd, path, signed(sqe.len.cast_signed()), sqe.off, op_flags, 0])
        }
        IORING_OP_MKDIRAT => (libc::SYS_mkdirat, [dirfd, path, len, 0, 0, 0]),
        IORING_OP_SYMLINKAT => (libc::SYS_symlinkat, [path, dirfd, sqe.off, 0, 0, 0]),
        IORING_OP_LINKAT => {
            (libc::SYS_linkat, [dirfd, path, signed(sqe.len.cast_signed()), sqe.off, op_flags, 0])
        }
        _ => return Err(Errno::INVAL),
    };
    // SAFETY:
    // - the kernel checks the addresses it is given, and their producer vouches for what they hold
    let result = unsafe { sys::call(number, arguments) }?;
    if sqe.opcode == IORING_OP_OPENAT && sqe.file_index != 0 {
        // SAFETY:
        // - the kernel has just made this descriptor, and nothing else owns it
        let file = unsafe { OwnedFd::from_raw_fd(result) };
        return tables.install(file, sqe.file_index);
    }
    Ok(result)
}

/// The most bytes of a write that cannot be told not to wait: a pipe that poll(2) calls writable takes as many at once.
const BLOCKING_WRITE_BYTES_MAX: u32 = libc::PIPE_BUF as u32;
/// Before waiting again for a file that was ready while its call would have waited: a datagram larger than the room, for example.
const AGAIN_NAP: Duration = Duration::from_micros(50);

/// A read or a write. As io_uring does, waits for a pipe or socket even where that is non-blocking, unless the entry says `RWF_NOWAIT`.
///
/// # Safety
/// As for [`perform`].
unsafe fn transfer(sqe: &Sqe, ready: bool, tables: &Tables) -> Result<Step, Errno> {
    let (reads, registered) = match sqe.opcode {
        IORING_OP_READ | IORING_OP_READV => (true, false),
        IORING_OP_READ_FIXED => (true, true),
        IORING_OP_WRITE | IORING_OP_WRITEV => (false, false),
        IORING_OP_WRITE_FIXED => (false, true),
        _ => return Err(Errno::INVAL),
    };
    if registered {
        tables.check_buffer(sqe)?;
    }
    let file = tables.file(sqe)?;
    let number = if reads { libc::SYS_preadv2 } else { libc::SYS_pwritev2 };
    let go = |off: u64, more_flags: u32, most: u32| {
        let own = [sqe.addr, u64::from(sqe.len.min(most))];
        // Vectors go as they are: they are of files that take everything at once.
        let (vectors, count) = match sqe.opcode {
            IORING_OP_READV | IORING_OP_WRITEV => (sqe.addr, u64::from(sqe.len)),
            _ => ((&raw const own).expose_provenance() as u64, 1),
        };
        let rw_flags = u64::from(sqe.op_flags | more_flags);
        // SAFETY:
        // - the kernel reads one `iovec` (address and length, 8 bytes each), which is alive, or those at the address that the producer vouches for
        // - the bytes are the producer's until the CQE, by `perform`'s contract; the kernel checks that they are mapped
        unsafe { sys::call(number, [signed(file.raw()), vectors, count, off, 0, rw_flags]) }
    };
    if sqe.off != CURRENT_POSITION {
        match go(sqe.off, 0, u32::MAX) {
            // A pipe or socket has no offset, and io_uring ignores the one that is given.
            Err(Errno::SPIPE) => {}
            done => return done.map(Step::Done),
        }
    }
    if sqe.op_flags & RWF_NOWAIT != 0 || !may_wait(file.raw())? {
        return go(CURRENT_POSITION, 0, u32::MAX).map(Step::Done);
    }
    match go(CURRENT_POSITION, RWF_NOWAIT, u32::MAX) {
        // A terminal or a FIFO takes "do not wait" only from its descriptor. Where that does not say so, the call is made once the file is ready.
        Err(Errno::OPNOTSUPP) if ready || is_nonblocking(file.raw()) => {
            match go(CURRENT_POSITION, 0, if reads { u32::MAX } else { BLOCKING_WRITE_BYTES_MAX }) {
                Err(Errno::AGAIN) => {}
                // `EOPNOTSUPP`, too: then it is of the entry's own flags.
                done => return done.map(Step::Done),
            }
        }
        Err(Errno::AGAIN | Errno::OPNOTSUPP) => {}
        done => return done.map(Step::Done),
    }
    if ready {
        std::thread::sleep(AGAIN_NAP);
    }
    Ok(Step::Waits(file, if reads { libc::POLLIN } else { libc::POLLOUT }))
}

/// Whether a transfer on `fd` may have to wait for another party: pipes, sockets, terminals.
fn may_wait(fd: RawFd) -> Result<bool, Errno> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY:
    // - the kernel writes one `stat`, which is alive; it answers EBADF for a descriptor that is not open
    if unsafe { libc::fstat(fd, status.as_mut_ptr()) } != 0 {
        return Err(errno(&io::Error::last_os_error()));
    }
    // SAFETY:
    // - filled by the kernel, and all-zero is valid besides
    let kind = unsafe { status.assume_init() }.st_mode & libc::S_IFMT;
    Ok(!matches!(kind, libc::S_IFREG | libc::S_IFBLK | libc::S_IFDIR))
}

/// Whether calls on `fd` do not wait.
fn is_nonblocking(fd: RawFd) -> bool {
    // SAFETY:
    // - this `fcntl` takes a number and touches no memory
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK != 0
}

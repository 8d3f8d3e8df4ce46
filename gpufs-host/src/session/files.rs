//! Files and buffers that the host gives to kernels.
#![expect(unsafe_code, reason = "registers memory with the kernel")]

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use gpufs_core::session::{FileIndex, OpenFile, SessionTables};
use gpufs_core::{Claim, Errno};

use super::memory::{allocate_shared, free_shared};
use super::{Body, Forked};
use crate::ring::RingError;

/// Page-aligned memory that kernels and the system both use in place, without a copy. Freed with its session.
#[derive(Clone, Copy, Debug)]
pub struct RegisteredBuffer {
    pub(super) address: NonNull<u8>,
    pub(super) bytes: usize,
}

// SAFETY:
// - the buffer is plain shared memory; the contracts of its two accessors order its uses
unsafe impl Send for RegisteredBuffer {}
// SAFETY:
// - as for `Send`
unsafe impl Sync for RegisteredBuffer {}

impl RegisteredBuffer {
    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes
    }
    /// Whether it has no bytes: never.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }
    /// The first byte. Kernels and host share the address.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.address.as_ptr()
    }
    /// A part of the buffer, for one lane or thread to use.
    ///
    /// # Safety
    /// While the slice lives, no other code and no operation of the kernel touches that part, and the session is open.
    ///
    /// # Panics
    /// If the part does not lie in the buffer.
    #[must_use]
    pub unsafe fn part<'a>(&self, offset: usize, bytes: usize) -> &'a mut [u8] {
        assert!(offset <= self.bytes && bytes <= self.bytes - offset, "a part lies within its buffer");
        // SAFETY:
        // - within the buffer, as checked
        let first = unsafe { self.address.as_ptr().add(offset) };
        // SAFETY:
        // - `bytes` bytes lie within the buffer, as checked; they are initialized, and bytes need no alignment
        // - the memory lives as long as the session
        // - exclusive, by this function's contract
        unsafe { core::slice::from_raw_parts_mut(first, bytes) }
    }
}

/// Why a file or buffer could not be registered.
#[derive(Debug)]
pub struct RegisterError {
    pub(super) what: &'static str,
    pub(super) source: Box<dyn std::error::Error + Send + Sync>,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl std::error::Error for RegisterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// The flags of a descriptor that the host opened, for the table.
pub(super) fn flags_of(descriptor: RawFd) -> Result<u32, Errno> {
    // SAFETY:
    // - no memory is involved
    let status = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
    if status < 0 {
        return Err(last_errno());
    }
    let mut flags = OpenFile::OPEN | OpenFile::HOST_OWNED;
    flags |= match status & libc::O_ACCMODE {
        libc::O_RDONLY => OpenFile::READABLE,
        libc::O_WRONLY => OpenFile::WRITABLE,
        _ => OpenFile::READABLE | OpenFile::WRITABLE,
    };
    if status & libc::O_APPEND != 0 {
        flags |= OpenFile::APPEND;
    }
    if status & libc::O_NONBLOCK != 0 {
        flags |= OpenFile::NONBLOCK;
    }
    // SAFETY:
    // - `stat` is plain numbers, and fstat fills it
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY:
    // - `stat` is valid for writing
    if unsafe { libc::fstat(descriptor, &raw mut stat) } < 0 {
        return Err(last_errno());
    }
    // SAFETY:
    // - no memory is involved
    let terminal = unsafe { libc::isatty(descriptor) } == 1;
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG | libc::S_IFBLK | libc::S_IFDIR => flags |= OpenFile::SEEKABLE,
        libc::S_IFSOCK => flags |= socket_flags(descriptor),
        libc::S_IFCHR if terminal => flags |= OpenFile::TERMINAL,
        // As `entry_flags` of `gpufs-device` has it.
        libc::S_IFCHR
            if libc::major(stat.st_rdev) == 1 && matches!(libc::minor(stat.st_rdev), 3 | 5 | 7 | 8 | 9) =>
        {
            flags |= OpenFile::POSITIONLESS;
        }
        _ => {}
    }
    Ok(flags)
}

/// The flags of a socket.
fn socket_flags(descriptor: RawFd) -> u32 {
    let mut kind: libc::c_int = 0;
    let mut bytes = size_of_val(&kind) as libc::socklen_t;
    // SAFETY:
    // - `kind` is valid for writing as many bytes
    let asked = unsafe {
        libc::getsockopt(descriptor, libc::SOL_SOCKET, libc::SO_TYPE, (&raw mut kind).cast(), &raw mut bytes)
    };
    let is_stream = asked == 0 && kind == libc::SOCK_STREAM;
    if is_stream { OpenFile::SOCKET } else { OpenFile::SOCKET | OpenFile::MESSAGES }
}

fn last_errno() -> Errno {
    let number = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Errno::from_number(number)
}

/// The position of a file that the host opened.
pub(super) fn position_of(descriptor: RawFd) -> u64 {
    // SAFETY:
    // - no memory is involved
    let position = unsafe { libc::lseek(descriptor, 0, libc::SEEK_CUR) };
    u64::try_from(position).unwrap_or(0)
}

/// Enters a descriptor of the host's in the table at `index`, which is claimed.
pub(super) fn enter(tables: &SessionTables, index: u32, descriptor: RawFd, flags: u32) {
    enter_at(tables, index, (descriptor, position_of(descriptor)), flags);
}

/// Enters a descriptor whose position is known in the table at `index`, which is claimed.
fn enter_at(tables: &SessionTables, index: u32, (descriptor, position): (RawFd, u64), flags: u32) {
    let file = &tables.files()[index as usize];
    file.descriptor.set(descriptor.cast_unsigned());
    file.position.set(position);
    // ORDERING: release, device, partner `SessionTables::file`.
    file.flags.publish(flags);
}

impl From<Forked> for RegisterError {
    fn from(forked: Forked) -> Self {
        Self { what: "registering, or taking back", source: Box::new(forked) }
    }
}

impl Body {
    /// `Session::register_file`.
    pub(super) fn register_file(&mut self, file: impl Into<OwnedFd>) -> Result<FileIndex, RegisterError> {
        let file = file.into();
        let failed = |errno: Errno| RegisterError { what: "registering a file", source: Box::new(errno) };
        if self.state.on_gpu() {
            return Err(failed(Errno::BUSY));
        }
        let flags = flags_of(file.as_raw_fd()).map_err(failed)?;
        let claim = self.tables.host.files_free.claim(1, 0).ok_or_else(|| failed(Errno::MFILE))?;
        let index = claim.item(0);
        let fixed = self.fixed_files
            && self.rings.iter().all(|ring| ring.update_file(index, Some(file.as_fd())).is_ok());
        let number = match &self.confined {
            None => Ok(file.as_raw_fd()),
            Some(confined) => confined.give(file.as_raw_fd(), false),
        };
        let number = number.map_err(|error| {
            self.leave_rings(FileIndex(index));
            self.tables.host.files_free.release(Claim::single(index));
            RegisterError { what: "registering a file", source: Box::new(error) }
        })?;
        let flags = flags | if fixed { OpenFile::FIXED } else { 0 };
        enter_at(self.tables.host, index, (number, position_of(file.as_raw_fd())), flags);
        self.host_files.push((index, file, number));
        Ok(FileIndex(index))
    }

    /// Enters a file that kernels close, or else the session's end. It is not registered with the rings.
    pub(super) fn give_file(&self, file: OwnedFd) -> Result<FileIndex, Errno> {
        if self.state.on_gpu() {
            return Err(Errno::BUSY);
        }
        let flags = flags_of(file.as_raw_fd())? & !OpenFile::HOST_OWNED;
        let claim = self.tables.host.files_free.claim(1, 0).ok_or(Errno::MFILE)?;
        let index = claim.item(0);
        if let Some(confined) = &self.confined {
            let given = confined.give(file.as_raw_fd(), true);
            let number = given.map_err(|error| {
                self.tables.host.files_free.release(Claim::single(index));
                error.raw_os_error().map_or(Errno::IO, Errno::from_number)
            })?;
            enter_at(self.tables.host, index, (number, position_of(file.as_raw_fd())), flags);
            return Ok(FileIndex(index));
        }
        let number = file.into_raw_fd();
        self.tables.host.journal.note_open(index, number.cast_unsigned());
        enter(self.tables.host, index, number, flags);
        Ok(FileIndex(index))
    }

    /// `Session::unregister_file`.
    pub(super) fn take_file_back(&mut self, index: FileIndex) -> Result<(), RegisterError> {
        let is_mapped = self.mapped.iter().any(|mapped| mapped.has_file(index));
        if is_mapped || self.channels.iter().any(|channel| channel.has_file(index)) {
            return Err(RegisterError { what: "taking a file back", source: Box::new(Errno::BUSY) });
        }
        self.unregister_file(index)
    }

    /// Takes a file back, whatever it is for.
    pub(super) fn unregister_file(&mut self, index: FileIndex) -> Result<(), RegisterError> {
        if self.state.on_gpu() {
            return Err(RegisterError { what: "taking a file back", source: Box::new(Errno::BUSY) });
        }
        let place = self.host_files.iter().position(|(entry, ..)| *entry == index.0);
        let Some(place) = place else {
            return Err(RegisterError { what: "taking a file back", source: Box::new(Errno::BADF) });
        };
        let (_, _file, number) = self.host_files.swap_remove(place);
        if let Some(confined) = &self.confined {
            confined.take_back(number);
        }
        let entry = &self.tables.host.files()[index.0 as usize];
        let ours = entry.flags.peek() & OpenFile::HOST_OWNED != 0
            && entry.descriptor.peek() == number.cast_unsigned();
        if !ours {
            // A kernel closed it: the entry is free, or holds another file. The rings let it go, too, unless that one is registered with them.
            if entry.flags.peek() & OpenFile::FIXED == 0 {
                self.leave_rings(index);
            }
            return Ok(());
        }
        // ORDERING: release, device: no kernel uses it, by this function's contract.
        entry.flags.publish(0);
        self.leave_rings(index);
        self.tables.host.files_free.release(Claim::single(index.0));
        Ok(())
    }

    /// Takes what is registered at `index` back from the rings.
    fn leave_rings(&self, index: FileIndex) {
        if self.fixed_files {
            for ring in &self.rings {
                // The slot is overwritten by its next user in any case.
                let _ = ring.update_file(index.0, None);
            }
        }
    }

    /// `Session::register_buffer`.
    pub(super) fn register_buffer(&mut self, bytes: usize) -> Result<RegisteredBuffer, RegisterError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| RegisterError {
            what: "registering a buffer",
            source,
        };
        self.state.check_idle().map_err(|error| failed(error.into()))?;
        // The rings' registered buffers are replaced.
        let _alone = self.alone();
        let place = self.buffers.len();
        if place >= self.tables.host.regions().len() {
            return Err(failed(
                "the session's table of registered buffers is full; see Builder::registered_buffers".into(),
            ));
        }
        let bytes = bytes.max(1).next_multiple_of(4096);
        let address = allocate_shared(&*self.source, bytes).map_err(|error| failed(error.into()))?;
        let buffer = RegisteredBuffer { address, bytes };
        self.buffers.push(buffer);
        if self.fixed_buffers
            && let Err(error) = self.register_all_buffers()
        {
            self.buffers.pop();
            // SAFETY:
            // - allocated above, and no ring has it: registering failed
            unsafe { free_shared(&*self.source, address, bytes) };
            self.fixed_buffers = self.register_all_buffers().is_ok();
            return Err(failed(error.into()));
        }
        let region = &self.tables.host.regions()[place];
        region.address.set(address.as_ptr() as u64);
        region.buffer_index.set(u32::try_from(place).unwrap_or(u32::MAX) + 2);
        if self.fixed_buffers {
            // Where rings cannot register memory, its use is still right, with a copy.
            region.bytes.set(bytes as u64);
        }
        Ok(buffer)
    }

    /// `Session::registered`.
    pub(super) fn registered(&self) -> (u64, bool) {
        let each: usize = self.memory.pools().iter().map(|(_, bytes)| bytes).sum();
        let rings = self.rings.iter().filter(|ring| !ring.is_for_services()).count();
        ((each * rings) as u64, self.fixed_buffers)
    }

    /// Registers the pools and all buffers with every ring, in place of the buffers that were registered.
    fn register_all_buffers(&self) -> Result<(), RingError> {
        let mut all = self.memory.pools().to_vec();
        all.extend(self.buffers.iter().map(|buffer| (buffer.address, buffer.bytes)));
        for ring in &self.rings {
            ring.unregister_buffers()?;
            // SAFETY:
            // - the session's own memory, freed only after the rings are closed (`close.rs`)
            unsafe { ring.register_buffers(&all)? };
        }
        Ok(())
    }
}

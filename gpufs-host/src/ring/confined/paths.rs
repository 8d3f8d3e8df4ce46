//! What names a path, or what a path named: properties, entries of directories, permissions, times.

use std::os::fd::RawFd;

use gpufs_core::Errno;
use gpufs_core::abi::{
    AT_FDCWD, IORING_OP_MKDIRAT, IORING_OP_RENAMEAT, IORING_OP_SYMLINKAT, IORING_OP_UNLINKAT, SERVICE_FCHMOD,
    Sqe, Statx,
};

use super::super::addresses::Memory;
use super::super::sandbox::Rights;
use super::super::sys::{self, signed};
use super::{Confined, EMPTY_PATH, NOFOLLOW, SET_ID, first_of, need};

impl Confined {
    pub(super) fn statx(&self, sqe: &Sqe, memory: Memory<'_>) -> Result<i32, Errno> {
        memory.check(sqe.off, size_of::<Statx>() as u64)?;
        let path = memory.string(sqe.addr)?;
        let ask = |fd: RawFd| {
            let flags = u64::from(sqe.op_flags & !NOFOLLOW | EMPTY_PATH);
            let empty = c"".as_ptr().expose_provenance() as u64;
            let arguments = [signed(fd), empty, flags, sqe.len.into(), sqe.off, 0];
            // SAFETY:
            // - the path is constant, and the result lies in the session's memory, as checked
            unsafe { sys::call(libc::SYS_statx, arguments) }
        };
        if path.is_empty() && sqe.op_flags & EMPTY_PATH != 0 && sqe.fd != AT_FDCWD {
            let (_, file) = self.held(sqe.fd)?;
            return ask(file.fd);
        }
        let found = self.places_of(sqe.fd, &path)?;
        first_of(found, |place| ask(place.look(sqe.op_flags & NOFOLLOW == 0)?.fd))
    }

    /// Makes or removes an entry of a directory.
    pub(super) fn entry(&self, sqe: &Sqe, memory: Memory<'_>) -> Result<i32, Errno> {
        let path = if sqe.opcode == IORING_OP_SYMLINKAT { sqe.off } else { sqe.addr };
        let target = if sqe.opcode == IORING_OP_SYMLINKAT { memory.string(sqe.addr)? } else { Vec::new() };
        let target = std::ffi::CString::new(target).map_err(|_| Errno::INVAL)?;
        if sqe.opcode == IORING_OP_MKDIRAT && sqe.len & SET_ID != 0 {
            return Err(Errno::ACCES);
        }
        first_of(self.places(sqe.fd, path, memory)?, |place| {
            need(place, Rights::CREATE)?;
            let (dir, name) = place.parent()?;
            let (dir, name) = (signed(dir.fd), name.as_ptr().expose_provenance() as u64);
            let target = target.as_ptr().expose_provenance() as u64;
            let (number, arguments) = match sqe.opcode {
                IORING_OP_UNLINKAT => (libc::SYS_unlinkat, [dir, name, sqe.op_flags.into(), 0, 0, 0]),
                IORING_OP_MKDIRAT => (libc::SYS_mkdirat, [dir, name, sqe.len.into(), 0, 0, 0]),
                _ => (libc::SYS_symlinkat, [target, dir, name, 0, 0, 0]),
            };
            // SAFETY:
            // - the strings end with a NUL and live during the call
            unsafe { sys::call(number, arguments) }
        })
    }

    pub(super) fn two_entries(&self, sqe: &Sqe, memory: Memory<'_>) -> Result<i32, Errno> {
        let is_rename = sqe.opcode == IORING_OP_RENAMEAT;
        if !is_rename && sqe.op_flags != 0 {
            return Err(Errno::ACCES);
        }
        let new = self.places(sqe.len.cast_signed(), sqe.off, memory)?;
        first_of(self.places(sqe.fd, sqe.addr, memory)?, |old| {
            need(old, if is_rename { Rights::CREATE } else { Rights::READ })?;
            let (old_dir, old_name) = old.parent()?;
            first_of(new.clone(), |new| {
                need(new, Rights::CREATE)?;
                // A second name allows what its tree allows, so it may not be more than the first one's.
                need(old, new.rights)?;
                let (new_dir, new_name) = new.parent()?;
                let [old_at, new_at] =
                    [&old_name, &new_name].map(|name| name.as_ptr().expose_provenance() as u64);
                let call = if is_rename { libc::SYS_renameat2 } else { libc::SYS_linkat };
                let flags = u64::from(sqe.op_flags);
                let arguments = [signed(old_dir.fd), old_at, signed(new_dir.fd), new_at, flags, 0];
                // SAFETY:
                // - the strings end with a NUL and live during the call
                unsafe { sys::call(call, arguments) }
            })
        })
    }

    pub(super) fn readlink(&self, sqe: &Sqe, memory: Memory<'_>) -> Result<i32, Errno> {
        memory.check(sqe.off, sqe.len.into())?;
        first_of(self.places(sqe.fd, sqe.addr, memory)?, |place| {
            let link = place.look(false)?;
            let empty = c"".as_ptr().expose_provenance() as u64;
            let arguments = [signed(link.fd), empty, sqe.off, sqe.len.into(), 0, 0];
            // SAFETY:
            // - the path is constant, and the result lies in the session's memory, as checked
            let read = unsafe { sys::call(libc::SYS_readlinkat, arguments) };
            // Of another file the system says this where the path is empty.
            read.map_err(|errno| if errno == Errno::NOENT { Errno::INVAL } else { errno })
        })
    }

    pub(super) fn access(&self, sqe: &Sqe, memory: Memory<'_>) -> Result<i32, Errno> {
        first_of(self.places(sqe.fd, sqe.addr, memory)?, |place| {
            if sqe.len & libc::W_OK.cast_unsigned() != 0 {
                need(place, Rights::WRITE)?;
            }
            let file = place.look(sqe.op_flags & NOFOLLOW == 0)?;
            let empty = c"".as_ptr().expose_provenance() as u64;
            let flags = u64::from(sqe.op_flags & !NOFOLLOW | EMPTY_PATH);
            // SAFETY:
            // - the path is constant
            unsafe { sys::call(libc::SYS_faccessat2, [signed(file.fd), empty, sqe.len.into(), flags, 0, 0]) }
        })
    }

    pub(super) fn truncate(&self, sqe: &Sqe, memory: Memory<'_>) -> Result<i32, Errno> {
        first_of(self.places(AT_FDCWD, sqe.addr, memory)?, |place| {
            need(place, Rights::WRITE)?;
            let number = place.open(libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOCTTY, 0)?;
            let file = super::super::family::Held { fd: number, family: None };
            // SAFETY:
            // - the call takes numbers
            unsafe { sys::call(libc::SYS_ftruncate, [signed(file.fd), sqe.off, 0, 0, 0, 0]) }
        })
    }

    pub(super) fn chmod(&self, sqe: &Sqe, memory: Memory<'_>) -> Result<i32, Errno> {
        if sqe.len & SET_ID != 0 {
            return Err(Errno::ACCES);
        }
        if sqe.opcode == SERVICE_FCHMOD {
            let (of, file) = self.held(sqe.fd)?;
            if !of.rights.has(Rights::CREATE) {
                return Err(Errno::ACCES);
            }
            // SAFETY:
            // - the call takes numbers
            return unsafe { sys::call(libc::SYS_fchmod, [signed(file.fd), sqe.len.into(), 0, 0, 0, 0]) };
        }
        first_of(self.places(sqe.fd, sqe.addr, memory)?, |place| {
            need(place, Rights::CREATE)?;
            let file = place.look(sqe.op_flags & NOFOLLOW == 0)?;
            let empty = c"".as_ptr().expose_provenance() as u64;
            let arguments = [signed(file.fd), empty, sqe.len.into(), EMPTY_PATH.into(), 0, 0];
            // SAFETY:
            // - the path is constant
            unsafe { sys::call(super::super::services::FCHMODAT2, arguments) }
        })
    }

    pub(super) fn utimens(&self, sqe: &Sqe, memory: Memory<'_>) -> Result<i32, Errno> {
        let times = [sqe.off, sqe.len.into(), sqe.addr3, u64::from(sqe.file_index)];
        let set = |fd: RawFd, path: u64, flags: u32| {
            let times = (&raw const times).expose_provenance() as u64;
            // SAFETY:
            // - the path is constant or none, and `times` are two `timespec`s, which live during the call
            unsafe { sys::call(libc::SYS_utimensat, [signed(fd), path, times, flags.into(), 0, 0]) }
        };
        if sqe.addr == 0 {
            let (of, file) = self.held(sqe.fd)?;
            if !of.rights.has(Rights::WRITE) {
                return Err(Errno::ACCES);
            }
            return set(file.fd, 0, 0);
        }
        first_of(self.places(sqe.fd, sqe.addr, memory)?, |place| {
            need(place, Rights::WRITE)?;
            let file = place.look(sqe.op_flags & NOFOLLOW == 0)?;
            set(file.fd, c"".as_ptr().expose_provenance() as u64, EMPTY_PATH)
        })
    }
}

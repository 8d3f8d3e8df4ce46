//! What host threads do for the entries of a sandbox: an allow-list of operations, each with what it may touch.
//!
//! An address must lie in the memory that the session registered with its rings. A path is copied once, and the copy is what is checked and used.
//! A plain descriptor must be one that an entry opened here, or that the host gave. What remains is Linux's to refuse: the thread is of the confined
//! family ([`family`](super::family)).

mod directories;
mod paths;
mod pipes;
mod sockets;

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

use gpufs_core::Errno;
use gpufs_core::abi::{
    AT_FDCWD, IORING_OP_ASYNC_CANCEL, IORING_OP_CLOSE, IORING_OP_FADVISE, IORING_OP_FALLOCATE,
    IORING_OP_FSYNC, IORING_OP_FTRUNCATE, IORING_OP_LINKAT, IORING_OP_MKDIRAT, IORING_OP_NOP,
    IORING_OP_OPENAT, IORING_OP_POLL_ADD, IORING_OP_READ_FIXED, IORING_OP_RENAMEAT, IORING_OP_SPLICE,
    IORING_OP_STATX, IORING_OP_SYMLINKAT, IORING_OP_SYNC_FILE_RANGE, IORING_OP_TEE, IORING_OP_UNLINKAT,
    IORING_OP_WRITE_FIXED, IOSQE_FIXED_FILE, RecordLock, SERVICE_ACCESS, SERVICE_ADD_STATUS_FLAGS,
    SERVICE_CALL, SERVICE_CHMOD, SERVICE_CLOCK, SERVICE_CLOSEDIR, SERVICE_DUPLICATE, SERVICE_EVENTFD,
    SERVICE_FCHMOD, SERVICE_FLOCK, SERVICE_GETCWD, SERVICE_LOCK, SERVICE_MEMORY_FILE, SERVICE_OPENDIR,
    SERVICE_OTHER_END, SERVICE_PIPE, SERVICE_READDIR, SERVICE_READLINK, SERVICE_RESIZE, SERVICE_TRUNCATE,
    SERVICE_UTIMENS, Sqe,
};
use gpufs_core::service::key_of;

use super::addresses::Memory;
use super::family::{Family, Held, Tree, duplicate};
use super::operation::Tables;
use super::outside::Outside;
use super::paths::{Place, held, places};
use super::sandbox::{Rights, Sandbox};
use super::sockets::Sockets;
use super::sys::{self, signed};
use super::workers::lock;
use sockets::is_of_sockets;

/// Permissions that make a program run with the rights of its owner or group.
const SET_ID: u32 = 0o6000;
/// `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
const NOFOLLOW: u32 = 0x100;
const EMPTY_PATH: u32 = 0x1000;
/// The last of the system's own clocks.
const CLOCK_MAX: u32 = 11;

/// The operations that a ring of the kernel keeps under a sandbox: those whose addresses it checks itself.
pub(super) const RING_OPCODES: [u8; 10] = [
    IORING_OP_NOP,
    IORING_OP_READ_FIXED,
    IORING_OP_WRITE_FIXED,
    IORING_OP_FSYNC,
    IORING_OP_FTRUNCATE,
    IORING_OP_FALLOCATE,
    IORING_OP_FADVISE,
    IORING_OP_SYNC_FILE_RANGE,
    IORING_OP_POLL_ADD,
    IORING_OP_ASYNC_CANCEL,
];

/// What a descriptor is, as far as sockets are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Another file, or a socket of the host's.
    Other,
    Tcp,
    Udp,
    /// An end of a pair.
    Pair,
    /// It stands for several that are polled.
    Set,
}

/// A descriptor of the family that entries may name.
#[derive(Clone, Copy, Debug)]
struct Opened {
    /// What may be done to it by the rights of its tree.
    rights: Rights,
    /// It is of an open file that the host has, too.
    is_hosts: bool,
    /// An entry may close it.
    closes: bool,
    kind: Kind,
}

impl Opened {
    /// Made by an entry, without a path.
    const fn of(kind: Kind) -> Self {
        Self { rights: Rights::NONE, is_hosts: false, closes: true, kind }
    }
}

/// A sandbox in force. Shared by the rings of a session.
#[derive(Debug)]
pub struct Confined {
    pub(super) family: Arc<Family>,
    trees: Vec<Tree>,
    opened: Mutex<HashMap<RawFd, Opened>>,
    /// Keys of the functions that kernels may call.
    services: Vec<u64>,
    sockets: Sockets,
    /// The second of two descriptors, by the first, until it is asked for.
    other_ends: Mutex<HashMap<RawFd, (RawFd, Kind)>>,
    outside: Option<Outside>,
    pub(crate) standard_streams: bool,
    /// What this Linux lacks.
    pub(crate) weaker: Vec<String>,
}

impl Confined {
    /// Puts a sandbox in force for the rings that get the result.
    ///
    /// # Errors
    /// A sentence: what cannot be had.
    pub(crate) fn start(sandbox: &Sandbox) -> Result<Self, String> {
        let (family, trees, weaker) = Family::start(sandbox)?;
        let outside = if sandbox.services.is_empty() { None } else { Some(Outside::start()) };
        let outside = outside.transpose().map_err(|error| format!("a thread for services: {error}"))?;
        let standard = Opened { rights: Rights::NONE, is_hosts: true, closes: false, kind: Kind::Other };
        let opened = if sandbox.standard_streams { 0..3 } else { 0..0 };
        Ok(Self {
            family: Arc::new(family),
            trees,
            opened: Mutex::new(opened.map(|number| (number, standard)).collect()),
            services: sandbox.services.iter().map(|name| key_of(name.as_bytes())).collect(),
            sockets: sandbox.sockets.clone(),
            other_ends: Mutex::default(),
            outside,
            standard_streams: sandbox.standard_streams,
            weaker,
        })
    }

    /// Gives entries a file of the host's: its number. `closes`: an entry closes it.
    pub(crate) fn give(&self, file: RawFd, closes: bool) -> std::io::Result<RawFd> {
        let number = self.family.take_in(file)?;
        let opened = Opened { rights: Rights::NONE, is_hosts: !closes, closes, kind: Kind::Other };
        lock(&self.opened).insert(number, opened);
        Ok(number)
    }
    /// Takes a file back that was given.
    pub(crate) fn take_back(&self, number: RawFd) {
        if lock(&self.opened).remove(&number).is_some() {
            self.family.close(number);
        }
    }
    /// A duplicate of what entries have open as `number`, for the host.
    pub(crate) fn duplicate(&self, number: RawFd) -> Result<OwnedFd, Errno> {
        // Locked to the end, so that no entry closes it, and no other file takes its number, in between.
        let opened = lock(&self.opened);
        opened.get(&number).ok_or(Errno::BADF)?;
        self.family
            .hand_out(number)
            .map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_number))
    }
    /// Runs `job` in the family, and waits for it.
    pub(crate) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.family.run(job)
    }
    /// Starts functions of the program from the calling thread, with its rights.
    pub(super) fn renew_outside(&self) -> std::io::Result<()> {
        self.outside.as_ref().map_or(Ok(()), Outside::renew)
    }
    /// Whether entries may name this descriptor.
    pub(crate) fn knows(&self, number: RawFd) -> bool {
        self.known(number).is_ok()
    }

    fn known(&self, number: RawFd) -> Result<Opened, Errno> {
        lock(&self.opened).get(&number).copied().ok_or(Errno::BADF)
    }
    /// What is known of a descriptor, and another descriptor of the same file, which no entry can close: others may close the first, and have
    /// another file take its number, before it is used.
    fn held(&self, number: RawFd) -> Result<(Opened, Held), Errno> {
        let opened = lock(&self.opened);
        let of = *opened.get(&number).ok_or(Errno::BADF)?;
        Ok((of, held(duplicate(number)?)))
    }
    /// The file that an entry names, where that is a plain descriptor, is one that entries may name.
    pub(super) fn check_file(&self, sqe: &Sqe) -> Result<(), Errno> {
        if u32::from(sqe.flags) & IOSQE_FIXED_FILE != 0 { Ok(()) } else { self.known(sqe.fd).map(drop) }
    }
    fn enter(&self, number: i32, opened: Opened) -> i32 {
        lock(&self.opened).insert(number, opened);
        number
    }

    /// What `sqe` asks for, where it is allowed and not done as without a sandbox; `None` where it is done so.
    ///
    /// # Safety
    /// As for [`perform`](super::operation::perform).
    pub(super) unsafe fn perform(&self, sqe: &Sqe, tables: &Tables) -> Result<Option<i32>, Errno> {
        let memory = Memory::of(tables);
        match sqe.opcode {
            IORING_OP_NOP | IORING_OP_POLL_ADD | IORING_OP_ASYNC_CANCEL => return Ok(None),
            IORING_OP_READ_FIXED
            | IORING_OP_WRITE_FIXED
            | IORING_OP_FSYNC
            | IORING_OP_FTRUNCATE
            | IORING_OP_FALLOCATE
            | IORING_OP_FADVISE
            | IORING_OP_SYNC_FILE_RANGE => return self.check_file(sqe).map(|()| None),
            // SAFETY:
            // - by this function's contract
            opcode if is_of_sockets(opcode) => return unsafe { self.on_sockets(sqe, tables) }.map(Some),
            _ if u32::from(sqe.flags) & IOSQE_FIXED_FILE != 0 => return Err(Errno::BADF),
            SERVICE_RESIZE | SERVICE_FLOCK => return self.check_file(sqe).map(|()| None),
            SERVICE_READDIR => {
                self.check_file(sqe)?;
                memory.check(sqe.addr, sqe.len.into())?;
                return Ok(None);
            }
            SERVICE_LOCK => {
                self.check_file(sqe)?;
                if sqe.addr != 0 {
                    memory.check(sqe.addr, size_of::<RecordLock>() as u64)?;
                }
                return Ok(None);
            }
            SERVICE_CLOCK if sqe.op_flags <= CLOCK_MAX => {
                return memory.check(sqe.addr, 16).map(|()| None);
            }
            SERVICE_ADD_STATUS_FLAGS => {
                let appends = sqe.op_flags & !libc::O_APPEND.cast_unsigned() == 0;
                let allowed = appends && !self.known(sqe.fd)?.is_hosts;
                return if allowed { Ok(None) } else { Err(Errno::ACCES) };
            }
            _ => {}
        }
        let done = match sqe.opcode {
            IORING_OP_OPENAT => self.open(sqe, memory),
            SERVICE_OPENDIR => self.open_directory(sqe, memory),
            IORING_OP_CLOSE => self.close(sqe),
            SERVICE_CLOSEDIR => self.close(&Sqe::close(sqe.fd)),
            IORING_OP_STATX => self.statx(sqe, memory),
            IORING_OP_UNLINKAT | IORING_OP_MKDIRAT | IORING_OP_SYMLINKAT => self.entry(sqe, memory),
            IORING_OP_RENAMEAT | IORING_OP_LINKAT => self.two_entries(sqe, memory),
            SERVICE_READLINK => self.readlink(sqe, memory),
            SERVICE_ACCESS => self.access(sqe, memory),
            SERVICE_TRUNCATE => self.truncate(sqe, memory),
            SERVICE_CHMOD | SERVICE_FCHMOD => self.chmod(sqe, memory),
            SERVICE_UTIMENS => self.utimens(sqe, memory),
            SERVICE_GETCWD => self.getcwd(sqe, memory),
            SERVICE_DUPLICATE => self.copy(sqe),
            SERVICE_MEMORY_FILE => {
                // SAFETY:
                // - by this function's contract; the operation takes numbers
                let number = unsafe { tables.services.perform(sqe) }?;
                Ok(self.enter(number, Opened::of(Kind::Other)))
            }
            IORING_OP_SPLICE | IORING_OP_TEE => self.splice(sqe),
            SERVICE_PIPE => self.pipe(),
            SERVICE_EVENTFD => self.eventfd(sqe),
            SERVICE_OTHER_END => self.other_end(sqe.fd),
            SERVICE_CALL => self.call(sqe, tables),
            _ => Err(Errno::ACCES),
        };
        done.map(Some)
    }

    /// Where the path at `address` may lie, and what it is.
    fn places(&self, dirfd: i32, address: u64, memory: Memory<'_>) -> Result<Vec<Place>, Errno> {
        let path = memory.string(address)?;
        self.places_of(dirfd, &path)
    }
    fn places_of(&self, dirfd: i32, path: &[u8]) -> Result<Vec<Place>, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let found = if path.starts_with(b"/") {
            places(&self.trees, path)
        } else if dirfd == AT_FDCWD {
            let mut whole = working_directory().ok_or(Errno::ACCES)?;
            whole.push(b'/');
            whole.extend_from_slice(path);
            places(&self.trees, &whole)
        } else {
            let (of, directory) = self.held(dirfd)?;
            vec![Place::beneath(directory, path, of.rights)]
        };
        if found.iter().any(|place| place.rights.has(Rights::READ)) { Ok(found) } else { Err(Errno::ACCES) }
    }

    fn open(&self, sqe: &Sqe, memory: Memory<'_>) -> Result<i32, Errno> {
        let (flags, mode) = (sqe.op_flags.cast_signed(), sqe.len & 0o7777);
        let is = |all: i32| flags & all == all;
        if sqe.file_index != 0 {
            return Err(Errno::ACCES);
        }
        first_of(self.places(sqe.fd, sqe.addr, memory)?, |place| {
            let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || is(libc::O_TRUNC);
            let (temporary, creates) = (is(libc::O_TMPFILE), is(libc::O_CREAT));
            if !is(libc::O_PATH) && writes {
                need(place, Rights::WRITE)?;
            }
            let makes = creates || temporary;
            if makes && mode & SET_ID != 0 {
                return Err(Errno::ACCES);
            }
            let number = if makes && !place.rights.has(Rights::CREATE) {
                if temporary || is(libc::O_EXCL) {
                    return Err(Errno::ACCES);
                }
                // A file that exists may be opened.
                let opened = place.open(flags & !libc::O_CREAT, 0);
                opened.map_err(|errno| if errno == Errno::NOENT { Errno::ACCES } else { errno })?
            } else {
                place.open(flags, if makes { mode } else { 0 })?
            };
            Ok(self.enter(number, Opened { rights: place.rights, ..Opened::of(Kind::Other) }))
        })
    }

    fn close(&self, sqe: &Sqe) -> Result<i32, Errno> {
        if sqe.file_index != 0 {
            return Err(Errno::ACCES);
        }
        {
            let mut opened = lock(&self.opened);
            match opened.get(&sqe.fd) {
                None => return Err(Errno::BADF),
                Some(opened) if !opened.closes => return Err(Errno::ACCES),
                Some(_) => opened.remove(&sqe.fd),
            };
        }
        // SAFETY:
        // - the call takes a number; an entry opened it, and nothing else closes it: it was taken out above
        unsafe { sys::call(libc::SYS_close, [signed(sqe.fd), 0, 0, 0, 0, 0]) }
    }

    fn copy(&self, sqe: &Sqe) -> Result<i32, Errno> {
        let (of, copy) = self.held(sqe.fd)?;
        // Entries close it from now on.
        let number = ManuallyDrop::new(copy).fd;
        Ok(self.enter(number, Opened { closes: true, ..of }))
    }

    /// A function of the program, outside of the family.
    fn call(&self, sqe: &Sqe, tables: &Tables) -> Result<i32, Errno> {
        let outside =
            self.outside.as_ref().filter(|_| self.services.contains(&sqe.off)).ok_or(Errno::ACCES)?;
        Memory::of(tables).check(sqe.addr, sqe.len.max(sqe.file_index).into())?;
        let (services, sqe) = (Arc::clone(&tables.services), *sqe);
        outside.run(move || {
            // SAFETY:
            // - request and reply lie in the session's memory, as checked, which stays until the entry's CQE is posted
            unsafe { services.functions.call(&sqe) }
        })
    }
}

fn need(place: &Place, rights: Rights) -> Result<(), Errno> {
    if place.rights.has(rights) { Ok(()) } else { Err(Errno::ACCES) }
}

/// The first result that is not a refusal: a path may lie in several trees.
fn first_of(places: Vec<Place>, mut body: impl FnMut(&Place) -> Result<i32, Errno>) -> Result<i32, Errno> {
    let mut last = Err(Errno::ACCES);
    for place in &places {
        last = body(place);
        if last != Err(Errno::ACCES) {
            break;
        }
    }
    last
}

fn working_directory() -> Option<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    std::env::current_dir().ok().map(|path| path.into_os_string().into_vec())
}

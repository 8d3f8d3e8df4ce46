//! What gpufs has in this process, and how it tells a forked child from its parent.
//!
//! `fork(2)` copies the memory of a process and none of its threads. A copied session has no thread that serves it, and its rings and
//! buffers are its parent's too. So everything that belongs to one process is reached through one page of memory that the system empties in
//! a child (`MADV_WIPEONFORK`, `madvise(2)`). A child finds no [`Process`] there, whichever call forked it, and makes its own when it
//! first opens something. The address of its [`Process`] identifies a process. It is never freed, and a child has all of its parents' memory,
//! so no child's is at the same address. Process numbers play no part: the system reuses them.
//!
//! `vfork(2)` and `posix_spawn(3)` copy nothing, and empty nothing: there the memory is the parent's until the child becomes another program.
//!
//! What a process has is not known here: each module above asks for a value of a type of its own ([`Process::part`]).
#![expect(unsafe_code, reason = "a page that forks empty")]

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use gpufs_core::Errno;
use gpufs_core::word::DeviceWord64;

/// What there is once in a process. No child waits for a lock here: it has its own.
#[derive(Debug, Default)]
pub(crate) struct Process {
    /// One value of each type that was asked for. None is ever freed.
    parts: Mutex<Vec<&'static (dyn Any + Send + Sync)>>,
}

/// The address of the page; 0 before there is one.
static PAGE: DeviceWord64 = DeviceWord64::new(0);

impl Process {
    /// This one.
    ///
    /// # Errors
    /// The system's, where it has no page of memory to give.
    pub(crate) fn this() -> io::Result<&'static Self> {
        let word = word()?;
        if let Some(process) = Self::at(word) {
            return Ok(process);
        }
        let made = Box::into_raw(Box::<Self>::default());
        // ORDERING: acquire and release; partner: `at`. One of several threads is first.
        if word.compare_exchange(0, made.expose_provenance() as u64).is_err() {
            // SAFETY:
            // - made above, and nothing has seen it
            drop(unsafe { Box::from_raw(made) });
        }
        Self::at(word).ok_or_else(|| io::ErrorKind::Other.into())
    }

    /// This one, if it has used anything.
    pub(crate) fn if_any() -> Option<&'static Self> {
        // ORDERING: acquire; partner: `word`.
        let page = PAGE.observe();
        if page == 0 {
            return None;
        }
        // SAFETY:
        // - the page is never unmapped, and holds this word
        Self::at(unsafe { &*ptr::with_exposed_provenance::<DeviceWord64>(address(page)) })
    }

    /// The process's value of type `T`: a default one at first. It is the same for each call, and never freed.
    pub(crate) fn part<T: Any + Default + Send + Sync>(&self) -> &'static T {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let found = parts.iter().find_map(|part| part.downcast_ref::<T>());
        found.unwrap_or_else(|| {
            let made: &'static T = Box::leak(Box::default());
            parts.push(made);
            made
        })
    }

    fn at(word: &DeviceWord64) -> Option<&'static Self> {
        // ORDERING: acquire; partner: `this`, or the fork.
        let process = word.observe();
        // SAFETY:
        // - zero, or the address of a `Process` that was made in this process and is never freed
        (process != 0).then(|| unsafe { &*ptr::with_exposed_provenance::<Self>(address(process)) })
    }
}

/// Sees that a ring or an event of gpufs's gets no number of a standard stream (0, 1, 2) that the process was started without: what is meant for
/// that stream would go there. Such a number becomes a descriptor that can be neither read nor written (`O_PATH`, open(2): `EBADF`, as of a
/// closed one), and stays that as long as the process runs this program: another in its place finds it closed (`O_CLOEXEC`).
fn keep_standard_numbers() {
    for number in 0..3 {
        // SAFETY:
        // - no memory is involved
        if unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0 {
            continue;
        }
        // SAFETY:
        // - a path with its NUL
        let kept = unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
        if kept > 2 {
            // SAFETY:
            // - opened above; another thread has taken the number meanwhile
            unsafe { libc::close(kept) };
        }
    }
}

/// Whether a number stands for a closed descriptor (`O_PATH`).
pub(crate) fn is_kept(number: i32) -> bool {
    // SAFETY:
    // - no memory is involved
    let status = unsafe { libc::fcntl(number, libc::F_GETFL) };
    status >= 0 && status & libc::O_PATH != 0
}

/// Which process something belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Owner(&'static Process);

impl Owner {
    /// This process, which is about to open something.
    pub(crate) fn this() -> io::Result<Self> {
        keep_standard_numbers();
        Process::this().map(Self)
    }
    /// What the process has.
    pub(crate) const fn process(self) -> &'static Process {
        self.0
    }
    /// Whether this process is the owner. Two loads.
    #[must_use]
    pub fn is_here(self) -> bool {
        Process::if_any().is_some_and(|process| ptr::eq(process, self.0))
    }
    /// Whether this process is the owner.
    ///
    /// # Errors
    /// That it is not.
    pub fn check(self) -> Result<(), Forked> {
        if self.is_here() { Ok(()) } else { Err(Forked) }
    }
}

/// The session was opened before a `fork(2)`, and this is the child: what it has is a copy that does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forked;

impl fmt::Display for Forked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "this session belongs to the process that opened it, and a child that was forked since has a copy that does nothing: open a \
             session of the child's own after the fork",
        )
    }
}

impl Error for Forked {}

impl From<Forked> for io::Error {
    fn from(forked: Forked) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, forked)
    }
}
impl From<Forked> for Errno {
    fn from(_: Forked) -> Self {
        Self::PERM
    }
}

/// The word on the page: the address of this process's [`Process`], 0 before there is one.
fn word() -> io::Result<&'static DeviceWord64> {
    // ORDERING: acquire; partner: the exchange below.
    let mut page = PAGE.observe();
    if page == 0 {
        let made = forks_empty()?;
        // ORDERING: acquire and release; partner: the load above. One of several threads is first.
        page = match PAGE.compare_exchange(0, made as u64) {
            Ok(_) => made as u64,
            Err(first) => {
                // SAFETY:
                // - mapped above, and nothing has seen it
                unsafe { libc::munmap(ptr::with_exposed_provenance_mut(made), PAGE_BYTES) };
                first
            }
        };
    }
    // SAFETY:
    // - the page is never unmapped; zero is a word
    Ok(unsafe { &*ptr::with_exposed_provenance::<DeviceWord64>(address(page)) })
}

const PAGE_BYTES: usize = 4096;

/// A zeroed page that a child finds zeroed, too.
fn forks_empty() -> io::Result<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY:
    // - a new mapping at an address of the kernel's choice
    let page = unsafe { libc::mmap(ptr::null_mut(), PAGE_BYTES, protection, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY:
    // - the mapping above: private and anonymous, as the advice wants
    if unsafe { libc::madvise(page, PAGE_BYTES, libc::MADV_WIPEONFORK) } != 0 {
        // Linux before 4.14. The C library calls the handler in children of forks that go through it.
        // SAFETY:
        // - the handler touches one word
        unsafe { pthread_atfork(None, None, Some(forget)) };
    }
    Ok(page.expose_provenance())
}

unsafe extern "C" {
    /// `pthread_atfork(3)`.
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
}

/// Makes a child forget its parent.
extern "C" fn forget() {
    // ORDERING: acquire; partner: `word`.
    let page = PAGE.observe();
    if page != 0 {
        // SAFETY:
        // - the page is never unmapped, and holds this word
        let word = unsafe { &*ptr::with_exposed_provenance::<DeviceWord64>(address(page)) };
        // ORDERING: relaxed: a child begins with one thread.
        word.set(0);
    }
}

fn address(word: u64) -> usize {
    usize::try_from(word).unwrap_or(0)
}

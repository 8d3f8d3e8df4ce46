//! Functions of the program that kernels call by a name.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use gpufs_core::Errno;
use gpufs_core::abi::Sqe;
use gpufs_core::service::{SERVICE_BYTES_MAX, key_of};

use super::super::workers::lock;

/// A function: the request, and room for the reply, which it fills. Both are at a multiple of 16.
type Body = dyn Fn(&[u8], &mut [u8]) -> Result<(), Errno> + Send + Sync;

/// A function that kernels may call.
struct Function {
    name: String,
    request_bytes: usize,
    reply_bytes: usize,
    body: Box<Body>,
}

/// The functions of a session, by the keys of their names.
#[derive(Default)]
pub(crate) struct Functions {
    table: Mutex<HashMap<u64, Arc<Function>>>,
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(lock(&self.table).values().map(|function| &function.name)).finish()
    }
}

/// Why a session refuses a service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceError {
    /// Its request or its reply has more bytes than a call carries.
    TooLong {
        /// The service.
        name: String,
        /// Bytes of the larger of the two.
        bytes: usize,
    },
    /// The session has a service of this name, or one whose name has the same key.
    Taken {
        /// The service that is refused.
        name: String,
        /// The service that is there.
        by: String,
    },
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { name, bytes } => write!(
                f,
                "service \"{name}\": a request or a reply of {bytes} bytes is more than the {SERVICE_BYTES_MAX} that a call carries; \
                 pass large data through a file or a registered buffer"
            ),
            Self::Taken { name, by } if name == by => {
                write!(f, "service \"{name}\": the session has a service of this name; give it another")
            }
            Self::Taken { name, by } => {
                write!(f, "service \"{name}\": its name has the same key as \"{by}\"; give it another")
            }
        }
    }
}

impl Error for ServiceError {}

thread_local! {
    /// Whose function the thread is in: the address of its [`Functions`]; 0 for none.
    static CALLING: Cell<usize> = const { Cell::new(0) };
}

impl Functions {
    /// Lets kernels call `body` by `name`, with requests and replies of these sizes.
    pub(crate) fn add(
        &self,
        name: &str,
        (request_bytes, reply_bytes): (usize, usize),
        body: Box<Body>,
    ) -> Result<(), ServiceError> {
        let bytes = request_bytes.max(reply_bytes);
        if bytes > SERVICE_BYTES_MAX {
            return Err(ServiceError::TooLong { name: name.into(), bytes });
        }
        match lock(&self.table).entry(key_of(name.as_bytes())) {
            Entry::Occupied(there) => {
                Err(ServiceError::Taken { name: name.into(), by: there.get().name.clone() })
            }
            Entry::Vacant(free) => {
                free.insert(Arc::new(Function { name: name.into(), request_bytes, reply_bytes, body }));
                Ok(())
            }
        }
    }

    /// Whether the calling thread is in one of them.
    pub(crate) fn are_calling_here(&self) -> bool {
        CALLING.get() == std::ptr::from_ref(self).addr()
    }

    /// Calls a function: the bytes of its reply. `ENOSYS` for a key that none has, `EINVAL` for other sizes than it has, `EIO` where it panics.
    ///
    /// # Safety
    /// As for [`Services::perform`](super::Services::perform): at `sqe.addr` lies the request, and there is room for the reply.
    pub(in super::super) unsafe fn call(&self, sqe: &Sqe) -> Result<i32, Errno> {
        let function = lock(&self.table).get(&sqe.off).cloned().ok_or(Errno::NOSYS)?;
        let (request_bytes, reply_bytes) = (sqe.len as usize, sqe.file_index as usize);
        if request_bytes != function.request_bytes || reply_bytes != function.reply_bytes {
            return Err(Errno::INVAL);
        }
        // Copies of our own: aligned, and whatever the function does with its time, it does not touch the session's memory.
        let mut request = vec![0_u128; request_bytes.div_ceil(16)];
        let mut reply = vec![0_u128; reply_bytes.div_ceil(16)];
        let (request, reply) = (bytes(&mut request, request_bytes), bytes(&mut reply, reply_bytes));
        // SAFETY:
        // - the producer's request, by this function's contract; the copy is memory of our own, as long
        unsafe { std::ptr::copy_nonoverlapping(sqe.addr as *const u8, request.as_mut_ptr(), request_bytes) };
        let before = CALLING.replace(std::ptr::from_ref(self).addr());
        let done = catch_unwind(AssertUnwindSafe(|| (function.body)(request, reply)));
        CALLING.set(before);
        match done {
            Ok(done) => done?,
            Err(_) => {
                eprintln!("gpufs: the service \"{}\" panicked; its caller gets EIO", function.name);
                return Err(Errno::IO);
            }
        }
        // SAFETY:
        // - the producer's room for the reply, which nothing else uses until the CQE, by this function's contract
        unsafe { std::ptr::copy_nonoverlapping(reply.as_ptr(), sqe.addr as *mut u8, reply_bytes) };
        i32::try_from(reply_bytes).map_err(|_| Errno::OVERFLOW)
    }
}

/// The first `length` bytes of words.
fn bytes(words: &mut [u128], length: usize) -> &mut [u8] {
    assert!(length <= size_of_val(words));
    // SAFETY:
    // - within the words, as asserted; any bytes are numbers
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), length) }
}

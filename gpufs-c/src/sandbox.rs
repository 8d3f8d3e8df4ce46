//! `gpufs_sandbox`: what kernels of a session may do, as C names it.

use std::ffi::{CStr, OsStr, c_char};
use std::mem::{MaybeUninit, offset_of};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;

use gpufs_host::{Sandbox, Sockets};

use crate::error::Failure;

/// `gpufs_tree`: a directory with all below it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Tree {
    /// Its path, NUL-terminated.
    pub path: *const c_char,
    /// `GPUFS_TREE_…`.
    pub access: u32,
    /// 0.
    pub reserved: u32,
}

/// `gpufs_reach`: an address that sockets may have or reach.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Reach {
    /// As text, NUL-terminated.
    pub address: *const c_char,
    /// `GPUFS_SOCKET_…`.
    pub what: u32,
    /// 0.
    pub reserved: u32,
}

/// `gpufs_sandbox`. The header has the contract of each field.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GivenSandbox {
    /// Bytes of the caller's structure.
    pub size: usize,
    /// `tree_count` trees.
    pub trees: *const Tree,
    /// How many.
    pub tree_count: usize,
    /// `service_count` names, NUL-terminated.
    pub services: *const *const c_char,
    /// How many.
    pub service_count: usize,
    /// 1: the standard streams of the process.
    pub standard_streams: u32,
    /// 1: weaker where this Linux lacks a part.
    pub as_far_as_possible: u32,
    /// `socket_count` addresses.
    pub sockets: *const Reach,
    /// How many.
    pub socket_count: usize,
    /// 1: also pairs.
    pub socket_pairs: u32,
    /// 0.
    pub reserved: u32,
}

/// Bytes of the structure before it had sockets.
const WITHOUT_SOCKETS: usize = offset_of!(GivenSandbox, sockets);

fn refused(text: impl std::fmt::Display) -> Failure {
    Failure::new(libc::EINVAL, format!("gpufs_sandbox: {text}"))
}

fn flag(name: &str, value: u32) -> Result<bool, Failure> {
    match value {
        0 | 1 => Ok(value == 1),
        other => Err(refused(format!("{name} is {other}, not 0 or 1"))),
    }
}

/// The elements of an array of C's.
///
/// # Safety
/// `first` is null, or `count` elements lie there, which live as long as the result is used.
unsafe fn elements<'a, T>(name: &str, first: *const T, count: usize) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() || !first.is_aligned() || count > 1 << 16 {
        return Err(refused(format!("{name}: null, or not an array of {count}")));
    }
    // SAFETY:
    // - not null and aligned, as checked, with `count` elements, by this function's contract
    // - that is far below what memory can hold
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// A string of C's.
///
/// # Safety
/// `text` is null, or NUL-terminated, and lives as long as the result is used.
unsafe fn string<'a>(name: &str, text: *const c_char) -> Result<&'a CStr, Failure> {
    if text.is_null() {
        return Err(refused(format!("{name}: a null string")));
    }
    // SAFETY:
    // - not null, so NUL-terminated, by this function's contract
    Ok(unsafe { CStr::from_ptr(text) })
}

/// The sockets that C names.
///
/// # Safety
/// As for [`named`].
unsafe fn sockets(given: &GivenSandbox) -> Result<Sockets, Failure> {
    let mut sockets = Sockets::new();
    if given.reserved != 0 {
        return Err(refused("reserved is not 0"));
    }
    if flag("socket_pairs", given.socket_pairs)? {
        sockets = sockets.pairs();
    }
    // SAFETY:
    // - this function's contract
    for reach in unsafe { elements("sockets", given.sockets, given.socket_count) }? {
        // SAFETY:
        // - this function's contract
        let text = unsafe { string("sockets", reach.address) }?.to_string_lossy();
        let address: SocketAddr = text.parse().map_err(|_| {
            refused(format!("sockets: \"{text}\" is no address; use \"127.0.0.1:80\" or \"[::1]:80\""))
        })?;
        sockets = match reach.what {
            1 => sockets.tcp_to(address),
            2 => sockets.tcp_at(address),
            3 => sockets.udp_to(address),
            4 => sockets.udp_at(address),
            other => return Err(refused(format!("sockets: there is no {other}; use one of GPUFS_SOCKET_…"))),
        };
    }
    Ok(sockets)
}

/// What C names.
///
/// # Errors
/// `EINVAL` for a structure or a number without a meaning.
///
/// # Safety
/// `given` is aligned and begins with the number of its bytes that may be read; its arrays and strings are as the header says.
pub(crate) unsafe fn named(given: *const GivenSandbox) -> Result<Sandbox, Failure> {
    // SAFETY:
    // - aligned, and its first field may be read, by this function's contract
    let size = unsafe { (*given).size };
    if ![WITHOUT_SOCKETS, size_of::<GivenSandbox>()].contains(&size) {
        return Err(refused(format!("size is {size}, not sizeof(gpufs_sandbox)")));
    }
    let mut whole = MaybeUninit::<GivenSandbox>::zeroed();
    // SAFETY:
    // - as long as said, by this function's contract, and no longer than the copy
    unsafe { whole.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(given.cast(), size) };
    // SAFETY:
    // - numbers and raw pointers, which may be anything; what the caller's structure lacks is 0
    let given = unsafe { whole.assume_init() };
    let mut sandbox = Sandbox::new();
    // SAFETY:
    // - this function's contract
    for tree in unsafe { elements("trees", given.trees, given.tree_count) }? {
        // SAFETY:
        // - this function's contract
        let path = OsStr::from_bytes(unsafe { string("trees", tree.path) }?.to_bytes());
        sandbox = match tree.access {
            1 => sandbox.read_only(path),
            2 => sandbox.read_write(path),
            3 => sandbox.read_write_create(path),
            other => {
                return Err(refused(format!("there is no access {other}; use one of GPUFS_TREE_…")));
            }
        };
    }
    // SAFETY:
    // - this function's contract
    for name in unsafe { elements("services", given.services, given.service_count) }? {
        // SAFETY:
        // - this function's contract
        let name = unsafe { string("services", *name) }?.to_string_lossy();
        sandbox = sandbox.service(&name);
    }
    // SAFETY:
    // - this function's contract
    sandbox = sandbox.sockets(unsafe { sockets(&given) }?);
    if flag("standard_streams", given.standard_streams)? {
        sandbox = sandbox.standard_streams();
    }
    if flag("as_far_as_possible", given.as_far_as_possible)? {
        sandbox = sandbox.as_far_as_possible();
    }
    Ok(sandbox)
}

//! `gpufs_sandbox`: what kernels of a session may do, as C names it.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;

use gpufs_host::Sandbox;

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
}

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
    if size != size_of::<GivenSandbox>() {
        return Err(refused(format!("size is {size}, not sizeof(gpufs_sandbox)")));
    }
    // SAFETY:
    // - aligned, and as long as said, by this function's contract
    let given = unsafe { given.read() };
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
    if flag("standard_streams", given.standard_streams)? {
        sandbox = sandbox.standard_streams();
    }
    if flag("as_far_as_possible", given.as_far_as_possible)? {
        sandbox = sandbox.as_far_as_possible();
    }
    Ok(sandbox)
}

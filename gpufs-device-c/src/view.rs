//! Files as arrays from C: loads and stores of numbers, and pages that stay while they are looked at. The calls are those of
//! [`gpufs_device::view`], which describes them. A mapping is a number here.

use core::ffi::{c_int, c_void};

use gpufs_core::session::SessionTables;
use gpufs_device::view::{Mapping, MappingMut, Plain, Sum};
use gpufs_device::{Errno, Fs};

use crate::arguments::{check, done, result, session};

/// In a mapping's number: lanes may store to it.
///
/// ```text
/// 63 … 32       31         30 … 0
/// generation    WRITABLE   entry
/// ```
const WRITABLE: u64 = 1 << 31;

/// The number of a mapping, which is never 0: generations in use are odd.
#[must_use]
pub fn number_of((entry, generation): (u32, u32), writable: bool) -> u64 {
    u64::from(generation) << 32 | u64::from(entry) | if writable { WRITABLE } else { 0 }
}

/// The entry and the generation of a number, and whether lanes may store to the mapping.
#[must_use]
pub fn entry_of(number: u64) -> ((u32, u32), bool) {
    let (low, high) = (number & (WRITABLE - 1), number >> 32);
    #[expect(clippy::cast_possible_truncation, reason = "31 and 32 bits")]
    let entry = (low as u32, high as u32);
    (entry, number & WRITABLE != 0)
}

/// What lanes load from.
enum Given {
    Read(Mapping),
    Write(MappingMut),
}

fn given(number: u64) -> Given {
    match entry_of(number) {
        ((entry, generation), true) => Given::Write(MappingMut::of_entry(entry, generation)),
        ((entry, generation), false) => Given::Read(Mapping::of_entry(entry, generation)),
    }
}

/// The mapping of a number to which lanes may store.
///
/// # Errors
/// `EACCES` for one that is for reading.
fn writable(number: u64) -> Result<MappingMut, Errno> {
    if let Given::Write(mapping) = given(number) { Ok(mapping) } else { Err(Errno::ACCES) }
}

/// Loads a value for [`gpufs_raw_view_get`].
///
/// # Safety
/// `into` has room for a value.
unsafe fn load<T: Plain>(fs: Fs, mapping: Mapping, offset: u64, into: *mut c_void) -> Result<(), Errno> {
    let value = fs.view::<T, _>(mapping, offset, 1, |view| view.get(0)).and_then(|found| found)?;
    // SAFETY:
    // - this function's contract
    unsafe { into.cast::<T>().write_unaligned(value) };
    Ok(())
}

/// The number at `offset`, of `bytes` bytes, a power of two up to 16 (4 or 8 where lanes may store), to `into`: 0, or a negated errno.
///
/// # Safety
/// `tables` is null or a session's on this device; `into` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_view_get(
    tables: *const SessionTables,
    mapping: u64,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { session(tables) }.and_then(|fs| check(into, bytes).map(|()| fs));
    // In each arm `into` is not null, as checked, and has room for as many bytes as the number has.
    done(checked.and_then(|fs| match (given(mapping), bytes) {
        // SAFETY:
        // - room for a byte
        (Given::Read(mapping), 1) => unsafe { load::<u8>(fs, mapping, offset, into) },
        // SAFETY:
        // - room for two bytes
        (Given::Read(mapping), 2) => unsafe { load::<u16>(fs, mapping, offset, into) },
        // SAFETY:
        // - room for four bytes
        (Given::Read(mapping), 4) => unsafe { load::<u32>(fs, mapping, offset, into) },
        // SAFETY:
        // - room for eight bytes
        (Given::Read(mapping), 8) => unsafe { load::<u64>(fs, mapping, offset, into) },
        // SAFETY:
        // - room for sixteen bytes
        (Given::Read(mapping), 16) => unsafe { load::<[u64; 2]>(fs, mapping, offset, into) },
        (Given::Write(mapping), 4) => {
            let found = fs.view_mut::<u32, _>(mapping, offset, 1, |view| view.get(0));
            // SAFETY:
            // - room for four bytes
            found.and_then(|found| found).map(|value| unsafe { into.cast::<u32>().write_unaligned(value) })
        }
        (Given::Write(mapping), 8) => {
            let found = fs.view_mut::<u64, _>(mapping, offset, 1, |view| view.get(0));
            // SAFETY:
            // - room for eight bytes
            found.and_then(|found| found).map(|value| unsafe { into.cast::<u64>().write_unaligned(value) })
        }
        _ => Err(Errno::INVAL),
    }))
}

/// Stores the number at `from`, of `bytes` bytes, 4 or 8, at `offset`: 0, or a negated errno.
///
/// # Safety
/// `tables` is null or a session's on this device; `from` is null or has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_view_set(
    tables: *const SessionTables,
    mapping: u64,
    offset: u64,
    from: *const c_void,
    bytes: usize,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { session(tables) }.and_then(|fs| check(from, bytes).map(|()| fs));
    let stored = checked.and_then(|fs| {
        let mapping = writable(mapping)?;
        match bytes {
            4 => {
                // SAFETY:
                // - not null, as checked, and of that length, by this function's contract
                let value = unsafe { from.cast::<u32>().read_unaligned() };
                fs.view_mut::<u32, _>(mapping, offset, 1, |view| view.set(0, value))
            }
            8 => {
                // SAFETY:
                // - as above
                let value = unsafe { from.cast::<u64>().read_unaligned() };
                fs.view_mut::<u64, _>(mapping, offset, 1, |view| view.set(0, value))
            }
            _ => Err(Errno::INVAL),
        }
    });
    done(stored.and_then(|stored| stored))
}

/// Adds for [`gpufs_raw_view_add`].
///
/// # Safety
/// `before` is null or has room for a value.
unsafe fn add<T: Sum>(
    fs: Fs,
    (mapping, offset): (MappingMut, u64),
    value: T,
    before: *mut c_void,
) -> Result<(), Errno> {
    let was = fs.view_mut::<T, _>(mapping, offset, 1, |view| view.add(0, value)).and_then(|found| found)?;
    if !before.is_null() {
        // SAFETY:
        // - not null, as checked, and with room, by this function's contract
        unsafe { before.cast::<T>().write_unaligned(was) };
    }
    Ok(())
}

/// Adds `value` to the number at `offset`, of `bytes` bytes, 4 or 8, wrapping around; what it was goes to `before`, if that is not null: 0, or a
/// negated errno.
///
/// # Safety
/// `tables` is null or a session's on this device; `before` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_view_add(
    tables: *const SessionTables,
    mapping: u64,
    offset: u64,
    value: u64,
    before: *mut c_void,
    bytes: usize,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { session(tables) };
    done(checked.and_then(|fs| {
        let place = (writable(mapping)?, offset);
        match bytes {
            4 => {
                #[expect(clippy::cast_possible_truncation, reason = "the sum wraps around")]
                let value = value as u32;
                // SAFETY:
                // - this function's contract
                unsafe { add::<u32>(fs, place, value, before) }
            }
            // SAFETY:
            // - this function's contract
            8 => unsafe { add::<u64>(fs, place, value, before) },
            _ => Err(Errno::INVAL),
        }
    }))
}

/// Where `bytes` bytes from `offset` on lie, which are in one page of a mapping for reading; it stays until [`gpufs_raw_view_unpin`]: an
/// address, or a negated errno.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_view_pin(
    tables: *const SessionTables,
    mapping: u64,
    offset: u64,
    bytes: usize,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { session(tables) };
    result(checked.and_then(|fs| {
        let Given::Read(mapping) = given(mapping) else { return Err(Errno::ACCES) };
        let pinned = fs.view::<u8, _>(mapping, offset, bytes as u64, |view| {
            if bytes == 0 { Err(Errno::INVAL) } else { view.pin(0, bytes).map(|pin| pin.into_address()) }
        });
        pinned.and_then(|address| address)
    }))
}

/// Lets go of the page of an address that [`gpufs_raw_view_pin`] gave: 0, or a negated errno.
///
/// # Safety
/// `tables` is null or a session's on this device; nobody uses the page by this pin any more.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_view_unpin(tables: *const SessionTables, at: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { session(tables) };
    // SAFETY:
    // - this function's contract
    done(checked.and_then(|fs| unsafe { fs.unpin(at.addr() as u64) }))
}

/// Where the bytes of a mapping for reading from `offset` on lie, if the file is there as a whole: an address, which is good while the kernel
/// runs, or 0, or a negated errno. `bytes` says how many.
///
/// # Safety
/// `tables` is null or a session's on this device; `bytes` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_view_whole(
    tables: *const SessionTables,
    mapping: u64,
    offset: u64,
    bytes: *mut u64,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { session(tables) };
    result(checked.and_then(|fs| {
        let Given::Read(mapping) = given(mapping) else { return Err(Errno::ACCES) };
        let most = i64::MAX.cast_unsigned().checked_sub(offset).ok_or(Errno::INVAL)?;
        let (count, address) = fs.view::<u8, _>(mapping, offset, most, |view| view.there())?;
        if !bytes.is_null() {
            // SAFETY:
            // - this function's contract
            unsafe { bytes.write(count) };
        }
        Ok(if count == 0 { 0 } else { address })
    }))
}

/// Writes every dirty page of a mapping, and with `sync` other than 0 has its device keep them: 0, or a negated errno.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_view_flush(
    tables: *const SessionTables,
    mapping: u64,
    sync: c_int,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { session(tables) };
    let flushed =
        checked.and_then(|fs| {
            fs.view_mut::<u32, _>(writable(mapping)?, 0, 0, |view| {
                if sync == 0 { view.flush() } else { view.sync() }
            })
        });
    done(flushed.and_then(|flushed| flushed))
}

/// Has the system read `bytes` bytes of a mapping for reading ahead: 0, or a negated errno.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_view_prefetch(
    tables: *const SessionTables,
    mapping: u64,
    offset: u64,
    bytes: u64,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { session(tables) };
    let begun = checked.and_then(|fs| {
        let Given::Read(mapping) = given(mapping) else { return Err(Errno::ACCES) };
        fs.view::<u8, _>(mapping, offset, bytes, |view| view.prefetch(0, bytes))
    });
    done(begun.and_then(|begun| begun))
}

//! Sockets from C. Each call is a method of [`Fs`], which describes it, as the header does. An address is memory and its bytes, as in C.

use core::ffi::{c_int, c_void};

use gpufs_core::session::SessionTables;
use gpufs_device::socket::{PollFd, SocketAddress};
use gpufs_device::{Call, Errno, Fs};

use crate::arguments::{count, counted_with, descriptor, done, readable, result, session, writable};

/// The session, and an argument that was checked. A refusal is counted.
///
/// # Errors
/// `EINVAL` for a null session; the argument's.
///
/// # Safety
/// As [`session`].
pub(crate) unsafe fn with<T>(
    tables: *const SessionTables,
    call: Call,
    argument: Result<T, Errno>,
) -> Result<(Fs, T), Errno> {
    // SAFETY:
    // - this function's contract
    let (fs, argument) = counted_with(call, (unsafe { session(tables) }, argument));
    Ok((fs?, argument?))
}

/// An address family; one that there is not where the number is none.
fn family_of(family: c_int) -> u16 {
    u16::try_from(family).unwrap_or(u16::MAX)
}

/// An address that a call takes.
///
/// # Errors
/// `EFAULT` for null, unless there are no bytes; `EINVAL` for more than an address has.
///
/// # Safety
/// Null, or `bytes` bytes that do not change meanwhile.
pub(crate) unsafe fn name(address: *const c_void, bytes: u32) -> Result<SocketAddress, Errno> {
    // SAFETY:
    // - this function's contract
    SocketAddress::from_bytes(unsafe { readable(address, bytes as usize) }?)
}

/// Where a call puts an address: its memory, which is null where it is not wanted, and the word with its bytes, which becomes the address's length.
struct Place<'a>(&'a mut [u8], Option<&'a mut u32>);

impl Place<'_> {
    fn fill(self, name: &SocketAddress) {
        if let Self(into, Some(length)) = self {
            let kept = into.len().min(name.len());
            into[..kept].copy_from_slice(&name.as_bytes()[..kept]);
            *length = name.len() as u32;
        }
    }
}

/// # Errors
/// `EFAULT` for an address without a length.
///
/// # Safety
/// `length` is null or a word, and `address` null or as many bytes; nothing else uses either while the result is used.
unsafe fn place<'a>(address: *mut c_void, length: *mut u32) -> Result<Place<'a>, Errno> {
    if address.is_null() {
        return Ok(Place(&mut [], None));
    }
    // SAFETY:
    // - this function's contract
    let length = unsafe { length.as_mut() }.ok_or(Errno::FAULT)?;
    // SAFETY:
    // - as many bytes, by this function's contract
    Ok(Place(unsafe { writable(address, *length as usize) }?, Some(length)))
}

/// `socket(2)`: a descriptor.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_socket(
    tables: *const SessionTables,
    family: c_int,
    kind: c_int,
    protocol: c_int,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let fs = unsafe { session(tables) };
    let (kind, protocol) = (kind.cast_unsigned(), protocol.cast_unsigned());
    result(fs.and_then(|fs| fs.socket(family_of(family), kind, protocol).map(|made| made.0)))
}

/// `socketpair(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `into` is null or two numbers that nothing else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_socketpair(
    tables: *const SessionTables,
    family: c_int,
    kind: c_int,
    protocol: c_int,
    into: *mut c_int,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let argument = unsafe { into.cast::<[c_int; 2]>().as_mut().ok_or(Errno::FAULT) };
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Socketpair, argument) };
    done(checked.and_then(|(fs, argument)| {
        fs.socketpair(family_of(family), kind.cast_unsigned(), protocol.cast_unsigned())
            .map(|made| *argument = made.map(|end| end.0.cast_signed()))
    }))
}

/// `bind(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `address` is null or `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_bind(
    tables: *const SessionTables,
    number: c_int,
    address: *const c_void,
    bytes: u32,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let argument = unsafe { name(address, bytes) };
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Bind, argument) };
    done(checked.and_then(|(fs, argument)| fs.bind(descriptor(number), &argument)))
}

/// `connect(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `address` is null or `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_connect(
    tables: *const SessionTables,
    number: c_int,
    address: *const c_void,
    bytes: u32,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let argument = unsafe { name(address, bytes) };
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Connect, argument) };
    done(checked.and_then(|(fs, argument)| fs.connect(descriptor(number), &argument)))
}

/// `listen(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_listen(
    tables: *const SessionTables,
    number: c_int,
    backlog: c_int,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let fs = unsafe { session(tables) };
    done(fs.and_then(|fs| fs.listen(descriptor(number), backlog.cast_unsigned())))
}

/// `shutdown(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_shutdown(
    tables: *const SessionTables,
    number: c_int,
    how: c_int,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let fs = unsafe { session(tables) };
    done(fs.and_then(|fs| fs.shutdown(descriptor(number), how.cast_unsigned())))
}

/// `accept(2)`: a descriptor.
///
/// # Safety
/// `tables` is null or a session's on this device; `length` is null or a word, and `address` null or as many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_accept(
    tables: *const SessionTables,
    number: c_int,
    address: *mut c_void,
    length: *mut u32,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let argument = unsafe { place(address, length) };
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Accept, argument) };
    result(checked.and_then(|(fs, argument)| {
        let mut peer = SocketAddress::NONE;
        let made = fs.accept(descriptor(number), Some(&mut peer))?;
        argument.fill(&peer);
        Ok(made.0)
    }))
}

/// `accept4(2)`: a descriptor.
///
/// # Safety
/// `tables` is null or a session's on this device; `length` is null or a word, and `address` null or as many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_accept4(
    tables: *const SessionTables,
    number: c_int,
    address: *mut c_void,
    length: *mut u32,
    flags: c_int,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let argument = unsafe { place(address, length) };
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Accept4, argument) };
    result(checked.and_then(|(fs, argument)| {
        let mut peer = SocketAddress::NONE;
        let made = fs.accept4(descriptor(number), Some(&mut peer), flags.cast_unsigned())?;
        argument.fill(&peer);
        Ok(made.0)
    }))
}

/// `getsockname(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `length` is null or a word, and `address` null or as many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_getsockname(
    tables: *const SessionTables,
    number: c_int,
    address: *mut c_void,
    length: *mut u32,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let argument = unsafe { place(address, length) };
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Getsockname, argument) };
    done(checked.and_then(|(fs, into)| {
        let name = fs.getsockname(descriptor(number))?;
        into.fill(&name);
        Ok(())
    }))
}

/// `getpeername(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `length` is null or a word, and `address` null or as many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_getpeername(
    tables: *const SessionTables,
    number: c_int,
    address: *mut c_void,
    length: *mut u32,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let argument = unsafe { place(address, length) };
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Getpeername, argument) };
    done(checked.and_then(|(fs, into)| {
        let name = fs.getpeername(descriptor(number))?;
        into.fill(&name);
        Ok(())
    }))
}

/// `send(2)`: bytes sent.
///
/// # Safety
/// `tables` is null or a session's on this device; `from` is null or `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_send(
    tables: *const SessionTables,
    number: c_int,
    from: *const c_void,
    bytes: usize,
    flags: c_int,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let argument = unsafe { readable(from, bytes) };
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Send, argument) };
    count(checked.and_then(|(fs, argument)| fs.send(descriptor(number), argument, flags.cast_unsigned())))
}

/// `recv(2)`: bytes received.
///
/// # Safety
/// `tables` is null or a session's on this device; `into` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_recv(
    tables: *const SessionTables,
    number: c_int,
    into: *mut c_void,
    bytes: usize,
    flags: c_int,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let argument = unsafe { writable(into, bytes) };
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Recv, argument) };
    count(checked.and_then(|(fs, argument)| fs.recv(descriptor(number), argument, flags.cast_unsigned())))
}

/// `sendto(2)`: bytes sent.
///
/// # Safety
/// `tables` is null or a session's on this device; `from` is null or `bytes` bytes, and `address` null or `address_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_sendto(
    tables: *const SessionTables,
    number: c_int,
    from: *const c_void,
    bytes: usize,
    flags: c_int,
    address: *const c_void,
    address_bytes: u32,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let argument = unsafe { readable(from, bytes) };
    // SAFETY:
    // - by this function's contract
    let to = unsafe { name(address, address_bytes) };
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Sendto, argument.and_then(|from| Ok((from, to?)))) };
    let flags = flags.cast_unsigned();
    count(checked.and_then(|(fs, (from, to))| fs.sendto(descriptor(number), from, flags, &to)))
}

/// `recvfrom(2)`: bytes received.
///
/// # Safety
/// `tables` is null or a session's on this device; `into` is null or has room for `bytes` bytes, `length` is null or a word, and `address` null or
/// as many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_recvfrom(
    tables: *const SessionTables,
    number: c_int,
    into: *mut c_void,
    bytes: usize,
    flags: c_int,
    address: *mut c_void,
    length: *mut u32,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let argument = unsafe { writable(into, bytes) };
    // SAFETY:
    // - by this function's contract
    let of = unsafe { place(address, length) };
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Recvfrom, argument.and_then(|into| Ok((into, of?)))) };
    count(checked.and_then(|(fs, (into, of))| {
        let mut name = SocketAddress::NONE;
        let came = fs.recvfrom(descriptor(number), into, flags.cast_unsigned(), &mut name)?;
        of.fill(&name);
        Ok(came)
    }))
}

/// `setsockopt(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `value` is null or `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_setsockopt(
    tables: *const SessionTables,
    number: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    bytes: u32,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let argument = unsafe { readable(value, bytes as usize) };
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Setsockopt, argument) };
    done(checked.and_then(|(fs, argument)| {
        fs.setsockopt(descriptor(number), level.cast_unsigned(), option.cast_unsigned(), argument)
    }))
}

/// `getsockopt(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `length` is null or a word, and `value` null or as many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_getsockopt(
    tables: *const SessionTables,
    number: c_int,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    length: *mut u32,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let length = unsafe { length.as_mut() }.ok_or(Errno::FAULT);
    // SAFETY:
    // - by this function's contract
    let argument = length.and_then(|length| Ok((unsafe { writable(value, *length as usize) }?, length)));
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Getsockopt, argument) };
    done(checked.and_then(|(fs, (value, length))| {
        let bytes =
            fs.getsockopt(descriptor(number), level.cast_unsigned(), option.cast_unsigned(), value)?;
        *length = bytes as u32;
        Ok(())
    }))
}

/// `poll(2)`: how many entries have something to say.
///
/// # Safety
/// `tables` is null or a session's on this device; `all` is null or `entries` entries that nothing else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_poll(
    tables: *const SessionTables,
    all: *mut PollFd,
    entries: u64,
    timeout: c_int,
) -> i64 {
    let fits = usize::try_from(entries).ok().filter(|count| *count <= gpufs_device::socket::POLL_MAX);
    let argument = match fits {
        None => Err(Errno::INVAL),
        Some(0) => Ok(&mut [][..]),
        Some(_) if all.is_null() => Err(Errno::FAULT),
        // SAFETY:
        // - not null, and as many entries, by this function's contract
        Some(count) => Ok(unsafe { core::slice::from_raw_parts_mut(all, count) }),
    };
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Poll, argument) };
    count(checked.and_then(|(fs, all)| fs.poll(all, timeout)))
}

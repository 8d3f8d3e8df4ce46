//! `gpufs_options`, as bytes.
#![expect(unsafe_code, reason = "calls C's functions")]

use std::ffi::CStr;

use gpufs::{Options, gpufs_host_close, gpufs_host_open, gpufs_last_error};

use crate::bytes::Bytes;

/// `GPUFS_CPU`.
const CPU: i32 = 0;

/// Opens a session with the options that the bytes are, and closes it.
///
/// # Panics
/// Where a refusal has no text.
pub fn options(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let choices = bytes.byte();
    let mut words = [0u64; 32];
    let mut raw = [0u8; 256];
    let given = bytes.take(raw.len());
    raw[..given.len()].copy_from_slice(given);
    for (word, bytes) in words.iter_mut().zip(raw.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
    }
    // Any size that is all there: of an older header, of this one, of a later one, or a wrong one.
    words[0] = match choices % 8 {
        0 => words[0] % (size_of_val(&words) as u64 + 1),
        1 => u64::MAX - words[0] % 1000,
        2 => 8 * u64::from(choices / 8),
        _ => size_of::<Options>() as u64,
    };
    if choices.is_multiple_of(8) {
        words[1..].iter_mut().for_each(|word| *word &= 0x0000_0003_0000_0003);
    }
    let options: *mut Options = words.as_mut_ptr().cast();
    if choices % 8 > 2 || choices.is_multiple_of(8) {
        // SAFETY:
        // - the memory is as long as the structure and more, and aligned; every bit pattern is a value of it
        affordable(unsafe { &mut *options }, choices);
    }
    if choices % 8 == 2 && words[1..].iter().any(|word| *word != 0) && choices / 8 > 2 {
        // Fields of a shorter structure are bounded alike.
        words[2..].fill(0);
        words[1] = u64::from(choices % 4);
    }
    // Where C's text for the trace would lie, and what is said of the sandbox: addresses are the caller's to answer for.
    words[core::mem::offset_of!(Options, trace) / 8] = 0;
    words[core::mem::offset_of!(Options, sandbox) / 8] = 0;
    let options: *const Options = words.as_ptr().cast();
    // SAFETY:
    // - as many bytes as the size says can be read, or it is one that no header has
    let host = unsafe { gpufs_host_open(CPU, 0, options) };
    if host.is_null() {
        // SAFETY:
        // - a string of this thread, until its next error
        let said = unsafe { CStr::from_ptr(gpufs_last_error()) };
        assert!(!said.is_empty(), "a refusal without a text");
        return;
    }
    // SAFETY:
    // - just opened, and not used again
    assert_eq!(unsafe { gpufs_host_close(host) }, 0);
}

/// Numbers that would be taken and cost more than a try may: these become small, those that must be refused stay.
fn affordable(options: &mut Options, choices: u8) {
    let small = |number: &mut u32, most: u32| {
        if (most + 1..1 << 24).contains(number) {
            *number %= most + 1;
        }
    };
    small(&mut options.rings, 2);
    small(&mut options.ring_entries, 1024);
    small(&mut options.files, 4096);
    small(&mut options.streams, 256);
    small(&mut options.threads, 4);
    small(&mut options.registered_buffers, 64);
    if options.buffer_bytes < 1 << 40 {
        options.buffer_bytes %= 8 << 20;
    }
    if options.stack_bytes < 1 << 40 {
        options.stack_bytes %= 1 << 20;
    }
    small(&mut options.resident_warps, 64);
    for bytes in [&mut options.assembly_bytes, &mut options.read_ahead_bytes] {
        if *bytes < 1 << 40 {
            *bytes %= 8 << 20;
        }
    }
    // Known numbers, mostly: of two thirds of all a mode that needs no thread of the system's.
    if choices & 0x80 == 0 {
        options.mode = 3;
    }
    options.quiet &= 1;
    if choices & 0x40 == 0 {
        options.quiet = 1;
        options.reserved = 0;
        options.standard_output = 0;
        options.reserved_again = 0;
    }
}

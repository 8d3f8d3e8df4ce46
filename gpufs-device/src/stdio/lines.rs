//! `fputs(3)`, `puts(3)`, `fgets(3)`.
#![allow(unsafe_code, reason = "reads from the stream's buffer")]

use core::ffi::CStr;

use gpufs_core::Errno;
use memchr::memchr;

use super::File;
use super::lock::{Held, with_lock};
use super::output::{Record, write};
use crate::Fs;
use crate::io::copy_alone;
use crate::warp::Lanes;

/// What ends a line.
pub const NEWLINE: u8 = b'\n';

/// A string and the newline that `puts` adds.
struct Line<'a>(&'a [u8]);

impl Record for Line<'_> {
    fn bytes(&self) -> u64 {
        self.0.len() as u64 + 1
    }
    fn emit(&self, skip: u64, into: &mut [u8]) {
        let text = self.0.get(usize::try_from(skip).unwrap_or(usize::MAX)..).unwrap_or(&[]);
        let count = text.len().min(into.len());
        let (head, tail) = into.split_at_mut(count);
        copy_alone(head, &text[..count]);
        tail.fill(NEWLINE);
    }
    fn address(&self) -> Option<u64> {
        // The newline lies elsewhere.
        None
    }
    fn has_newline(&self) -> bool {
        true
    }
}

impl Fs {
    /// Writes a string and a newline to the standard output, as `puts(3)`.
    ///
    /// # Errors
    /// As [`File::fwrite`].
    #[track_caller]
    pub fn puts(self, string: &CStr) -> Result<(), Errno> {
        write(self.stdout(), Lanes::calling(), &Line(string.to_bytes())).result().map(|_| ())
    }
}

impl File {
    /// Writes a string without its NUL, as `fputs(3)`.
    ///
    /// # Errors
    /// As [`File::fwrite`].
    #[track_caller]
    pub fn fputs(self, string: &CStr) -> Result<(), Errno> {
        write(self, Lanes::calling(), &string.to_bytes()).result().map(|_| ())
    }

    /// Reads a line with its newline and adds a NUL, as `fgets(3)`: at most `into.len() − 1` bytes. The line, or `None` at the end
    /// of the file or where `into` has no room. Lanes that call together get one line after the other, in lane order.
    ///
    /// # Errors
    /// As [`File::fread`].
    #[track_caller]
    pub fn fgets(self, into: &mut [u8]) -> Result<Option<&CStr>, Errno> {
        let lanes = Lanes::calling();
        let room = into.len();
        let (memory, outcome) = (
            into.as_mut_ptr(),
            lanes.grouped(self.key(), |group| {
                with_lock(self, group, |held| {
                    let mut mine = Ok(None);
                    // One lane after the other; all walk through the stream together.
                    for lane in group.mask().iter() {
                        let most = group.broadcast(room as u64, lane);
                        let target = if group.lane() == lane { Some(into.as_mut_ptr()) } else { None };
                        let outcome = line(held, target, most);
                        if group.lane() == lane {
                            mine = outcome;
                        }
                    }
                    mine
                })
            }),
        );
        let Some(length) = outcome? else { return Ok(None) };
        // SAFETY:
        // - `memory` is `into`'s, of which `line` has filled `length` bytes and a NUL behind them
        let bytes = unsafe { core::slice::from_raw_parts(memory, length + 1) };
        // A line that holds NUL bytes is cut at the first, as C reads it.
        Ok(CStr::from_bytes_until_nul(bytes).ok())
    }
}

/// One lane's line: `target` in that lane, `None` in the others. Convergent.
fn line(held: &Held, target: Option<*mut u8>, room: u64) -> Result<Option<usize>, Errno> {
    let put = |at: u64, bytes: &[u8]| {
        if let Some(target) = target {
            // SAFETY:
            // - `target` is the calling lane's `&mut [u8]` of `room` bytes, and `at + bytes.len()` is at most `room` below
            // - the stream's buffer is not the caller's memory
            unsafe {
                let at = target.add(usize::try_from(at).unwrap_or(usize::MAX));
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
            }
        }
    };
    let Some(most) = room.checked_sub(1) else { return Ok(None) };
    if most > 0 {
        held.prepare_reading()?;
    }
    let mut done = 0;
    // Ends: each round takes bytes, or meets the line's end, the file's, or an error.
    while done < most {
        if let Some(byte) = held.take_pushed() {
            put(done, &[byte]);
            done += 1;
            if byte == NEWLINE {
                break;
            }
            continue;
        }
        // An unbuffered stream must not read past the line.
        let wanted = 1;
        let Some((address, length)) = held.available(wanted)? else {
            if done == 0 {
                return Ok(None);
            }
            break;
        };
        // SAFETY:
        // - the buffer holds `length` bytes from `address` on, and nobody writes it while the stream is held and no read is in
        //   flight
        let buffer = unsafe {
            core::slice::from_raw_parts(
                address as *const u8,
                usize::try_from(length.min(most - done)).unwrap_or(0),
            )
        };
        let found = memchr(NEWLINE, buffer);
        let piece = found.map_or(buffer, |at| &buffer[..=at]);
        put(done, piece);
        let count = piece.len() as u64;
        held.take(count);
        done += count;
        if found.is_some() {
            break;
        }
    }
    put(done, &[0]);
    Ok(Some(usize::try_from(done).unwrap_or(usize::MAX)))
}

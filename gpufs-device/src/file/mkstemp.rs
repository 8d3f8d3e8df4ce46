//! `mkstemp(3)`.

use core::ffi::CStr;

use gpufs_core::failures::counted;
use gpufs_core::{Call, Errno};

use super::open::open;
use super::{Descriptor, O_CREAT, O_EXCL, O_RDWR};
use crate::Fs;
use crate::warp::{Lanes, Machine, Warp, global_thread};

/// For the owner alone (POSIX).
const MODE: u32 = 0o600;
/// Letters that are replaced.
const LETTERS: usize = 6;
/// Names that are tried: 36⁶ differ.
const TRIES_MAX: u64 = 100;

impl Fs {
    /// Makes a file with a new name and opens it for reading and writing, as `mkstemp(3)`: `template` is a path that ends with `XXXXXX` and a NUL.
    /// The letters are replaced by those of the name. Each lane gets a file of its own.
    ///
    /// # Errors
    /// `EINVAL` for a template that does not end so, `EEXIST` where no free name was found; as [`Fs::open`].
    pub fn mkstemp(self, template: &mut [u8]) -> Result<Descriptor, Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Mkstemp);
        let length = CStr::from_bytes_until_nul(template).map(CStr::count_bytes).unwrap_or(0);
        let ends =
            length >= LETTERS && template[length - LETTERS..length].iter().all(|letter| *letter == b'X');
        let mut outcome = if ends { None } else { Some(Err(Errno::INVAL)) };
        let mut tries = 0;
        // Ends: at `TRIES_MAX`.
        while lanes.any(outcome.is_none()) {
            let request = if outcome.is_none() {
                name(&mut template[length - LETTERS..length], Machine::clock(), global_thread(), tries);
                let path = CStr::from_bytes_until_nul(template).map_err(|_| Errno::INVAL);
                path.map(|path| (path, O_RDWR | O_CREAT | O_EXCL, MODE))
            } else {
                Err(Errno::INVAL)
            };
            let opened = open(self, lanes, request);
            tries += 1;
            if outcome.is_none() && (opened != Err(Errno::EXIST) || tries == TRIES_MAX) {
                outcome = Some(opened);
            }
        }
        counted(session, Call::Mkstemp, outcome.unwrap_or(Err(Errno::INVAL)))
    }
}

/// Puts a name by the time and the caller's place in the grid, another for each of `tries`, into `letters`.
fn name(letters: &mut [u8], now: u64, thread: u64, tries: u64) {
    const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut state = now ^ thread.rotate_left(32) ^ tries.rotate_left(48);
    for letter in letters {
        // The step of splitmix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        *letter = ALPHABET[((mixed ^ (mixed >> 31)) % 36) as usize];
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{LETTERS, TRIES_MAX, name};

    /// A grid that calls at one time, and calls that try again at one time, come to different names.
    #[test]
    fn names_of_one_time_differ() {
        // Of random names, two of 20,000 are the same in one of ten cases.
        const THREADS: u64 = 20_000;
        for now in [0, 1, 70_000_000_000_000, 0x0123_4567_89ab_cdef, u64::MAX / 2, u64::MAX] {
            let named = |thread: u64, tries: u64| {
                let mut letters = [b'X'; LETTERS];
                name(&mut letters, now, thread, tries);
                assert!(letters.iter().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit()));
                letters
            };
            let names: BTreeSet<_> = (0..THREADS).map(|thread| named(thread, 0)).collect();
            assert!(names.len() as u64 > THREADS - 10, "{} names at {now}", names.len());
            let names: BTreeSet<_> = (0..TRIES_MAX).map(|tries| named(7, tries)).collect();
            assert_eq!(names.len() as u64, TRIES_MAX, "at {now}");
            let letters: BTreeSet<u8> = names.into_iter().flatten().collect();
            assert_eq!(letters.len(), 36, "at {now}");
        }
    }
}

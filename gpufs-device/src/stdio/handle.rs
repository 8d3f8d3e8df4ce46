//! A stream as one word, for languages that know streams as pointers.
//!
//! ```text
//!  63   58 57         36 35                       0
//! +-------+-------------+--------------------------+
//! | check |   opening   |    number of the entry   |
//! +-------+-------------+--------------------------+
//! ```
//!
//! The number is the address of the stream's entry in its session's table, as the device sees it, divided by an entry's size: the host places
//! tables at multiples of that. Addresses have 48 bits and entries 4 KiB at least, so it has 36. The opening is 22 bits of the entry's
//! generation, without its lowest, which is set while the stream is open. The check is a hash of the rest with its highest bit set, so that no
//! pointer that a program can hold, null included, passes for a handle, and of other words one in 64.
//!
//! A handle that was closed is told from the stream that has its entry now unless a multiple of 2²² openings of that entry lies between. `fopen`
//! takes one of the free entries at random, so that an entry has its share of the openings only (the table of counters at the top of
//! `gpufs-core` says how long that takes).
#![allow(unsafe_code, reason = "finds a session by the address of a stream's entry")]

use gpufs_core::failures::counted;
use gpufs_core::session::SessionTables;
use gpufs_core::stream::Stream;
use gpufs_core::{Call, Errno};
use static_assertions::const_assert;

use super::File;
use crate::Fs;

/// Bits of an address.
const ADDRESS_BITS: u32 = 48;
/// Bytes of an entry.
const ENTRY: u64 = size_of::<Stream>() as u64;
/// Where the opening begins.
const OPENING_SHIFT: u32 = 36;
/// Where the check begins.
const CHECK_SHIFT: u32 = 58;

const_assert!(ENTRY.ilog2() >= ADDRESS_BITS - OPENING_SHIFT);

/// The openings of an entry that handles tell apart, less one.
const OPENINGS: u64 = (1 << (CHECK_SHIFT - OPENING_SHIFT)) - 1;

/// The check of a handle whose lower bits are `body`.
const fn check_of(body: u64) -> u64 {
    // A multiplier by which each bit of the body reaches the highest ones. It was chosen for the words of the test below.
    0x20 | ((body + 1).wrapping_mul(0x7fd6_3116_e1ea_24c5) >> 59)
}

const fn pack(address: u64, generation: u32) -> u64 {
    debug_assert!(address.is_multiple_of(ENTRY), "tables lie at multiples of an entry");
    let body = (((generation as u64 >> 1) & OPENINGS) << OPENING_SHIFT) | (address / ENTRY);
    check_of(body) << CHECK_SHIFT | body
}

/// The address and the opening of a handle; `None` for any other word.
const fn unpack(handle: u64) -> Option<(u64, u64)> {
    let body = handle & ((1 << CHECK_SHIFT) - 1);
    if check_of(body) != handle >> CHECK_SHIFT {
        return None;
    }
    Some(((body & ((1 << OPENING_SHIFT) - 1)) * ENTRY, body >> OPENING_SHIFT))
}

/// The address and the tables of a handle's session.
///
/// # Errors
/// `EBADF` if the word is no handle.
///
/// # Safety
/// As [`File::from_handle`].
unsafe fn session_of(handle: u64) -> Result<(u64, &'static SessionTables), Errno> {
    let (address, _) = unpack(handle).ok_or(Errno::BADF)?;
    // SAFETY:
    // - the address of an entry of a session's table, by this function's contract
    let stream = unsafe { &*core::ptr::with_exposed_provenance::<Stream>(address as usize) };
    let home = stream.home.peek();
    #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
    if home == 0 {
        // The tables of a closed session, or a forked child's.
        return Err(Errno::BADF);
    }
    let session = address - u64::from(home);
    // SAFETY:
    // - that entry's `home` leads to its session, which has not been closed
    let tables: &'static SessionTables =
        unsafe { &*core::ptr::with_exposed_provenance::<SessionTables>(session as usize) };
    Ok((session, tables))
}

impl File {
    /// The stream as one word. Never an address, and never 0, but for a stream of a session that was closed: then it is no handle.
    #[must_use]
    pub fn to_handle(self) -> u64 {
        self.to_handle_at(core::ptr::from_ref(self.session).addr() as u64)
    }

    /// [`File::to_handle`] for a device that sees the session at `session`.
    #[must_use]
    pub fn to_handle_at(self, session: u64) -> u64 {
        let home = self.stream().home.peek();
        #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
        if home == 0 {
            return 0;
        }
        pack(session + u64::from(home), self.generation)
    }

    /// The stream of a handle.
    ///
    /// # Errors
    /// `EBADF` if the word is no handle, null included, or the stream was closed.
    ///
    /// # Safety
    /// Where the word came from [`File::to_handle`], its session has not been closed since. (A word made up to pass the check would have
    /// an address read that nobody vouches for.)
    pub unsafe fn from_handle(handle: u64) -> Result<Self, Errno> {
        // SAFETY:
        // - this function's contract
        let (session, tables) = unsafe { session_of(handle)? };
        Self::in_tables(handle, session, tables)
    }

    /// [`File::from_handle`] for a call, which counts as failed in the session of a stream that was closed.
    ///
    /// # Errors
    /// As [`File::from_handle`].
    ///
    /// # Safety
    /// As [`File::from_handle`].
    pub unsafe fn from_handle_in(handle: u64, call: Call) -> Result<Self, Errno> {
        // SAFETY:
        // - this function's contract
        let (session, tables) = unsafe { session_of(handle)? };
        counted(tables, call, Self::in_tables(handle, session, tables))
    }

    /// The stream of a handle that a device gave, which sees the session's tables at `session`. Touches nothing but the tables.
    ///
    /// # Errors
    /// `EBADF` if the word is no handle of that session, or the stream was closed.
    #[inline]
    pub fn from_handle_at(handle: u64, session: u64, fs: Fs) -> Result<Self, Errno> {
        Self::in_tables(handle, session, fs.session())
    }

    fn in_tables(handle: u64, session: u64, tables: &'static SessionTables) -> Result<Self, Errno> {
        let (address, opening) = unpack(handle).ok_or(Errno::BADF)?;
        let first = tables.streams().first().ok_or(Errno::BADF)?;
        let offset = address
            .checked_sub(session)
            .and_then(|offset| offset.checked_sub(u64::from(first.home.peek())))
            .ok_or(Errno::BADF)?;
        let entry = size_of::<Stream>() as u64;
        let index = u32::try_from(offset / entry).map_err(|_| Errno::BADF)?;
        if offset % entry != 0 || index >= tables.stream_count {
            return Err(Errno::BADF);
        }
        // ORDERING: acquire, device, partner `set_up`.
        let generation = tables.streams()[index as usize].generation.observe();
        let open = generation % 2 == 1 && u64::from(generation >> 1) & OPENINGS == opening;
        if open { Ok(Self { session: tables, index, generation }) } else { Err(Errno::BADF) }
    }
}

#[cfg(test)]
mod tests {
    use super::{ADDRESS_BITS, ENTRY, OPENINGS, pack, unpack};

    #[test]
    fn a_handle_is_what_was_packed() {
        for address in [0x80, 0x7f12_3456_7880, (1 << ADDRESS_BITS) - 1] {
            let address = address / ENTRY * ENTRY;
            for opening in [0, 1, 127, 128, OPENINGS] {
                let generation = u32::try_from(opening).unwrap() * 2 + 1;
                let handle = pack(address, generation);
                assert_eq!(unpack(handle), Some((address, opening)));
                assert_eq!(handle >> 63, 1, "a pointer's highest bit is not set");
            }
        }
    }

    #[test]
    fn a_handle_comes_again_after_all_openings() {
        let handles = [0, 1, 1 << 15, OPENINGS, OPENINGS + 1].map(|opening: u64| {
            // Generations run on: 32 bits, of which the lowest is set.
            pack(ENTRY, (opening as u32).wrapping_mul(2) | 1)
        });
        assert_eq!(handles[0], handles[4]);
        assert!(handles[1..4].iter().all(|handle| *handle != handles[0]));
    }

    #[test]
    fn what_programs_hold_by_mistake_is_no_handle() {
        // Null, addresses, small numbers, and memory that nobody filled or that somebody freed.
        for word in [0, 1, 0x7f12_3456_7880, u64::MAX, 0xcdcd_cdcd_cdcd_cdcd, 0xdead_beef_dead_beef]
            .into_iter()
            .chain([
                0xdead_c0de_dead_c0de,
                0xbaad_f00d_baad_f00d,
                0xfeee_feee_feee_feee,
                0xffff_ffff_0000_0000,
            ])
            .chain((0..64).map(|bit| 1 << bit))
            .chain((0..=64).map(|below| u64::MAX - below))
            .chain((0..=255).map(|byte| byte * 0x0101_0101_0101_0101))
        {
            assert_eq!(unpack(word), None, "{word:#x}");
        }
        let passing = (0..100_000_u64)
            .map(|word| word.wrapping_mul(0xd134_2543_de82_ef95))
            .filter(|word| unpack(*word).is_some());
        assert!(passing.count() < 100_000 / 60);
    }
}

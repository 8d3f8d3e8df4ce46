//! A stream as one word, for languages that know streams as pointers.
//!
//! ```text
//!  63     56 55     48 47                    7 6       0
//! +---------+---------+-----------------------+---------+
//! |  check  | opening |  address of the entry  | opening |
//! +---------+---------+-----------------------+---------+
//! ```
//!
//! The address is that of the stream's entry in its session's table, as the device sees it: 48 bits, of which an entry's alignment
//! leaves 41. Around it lie 15 bits of the entry's generation, without its lowest, which is set while the stream is open. The check is a
//! hash of the rest with its highest bit set, so that no pointer that a program can hold, null included, passes for a handle, and of
//! other words one in 128. A handle that was closed is told from the stream that has its entry now unless 32,768 openings of that
//! entry lie between.
#![allow(unsafe_code, reason = "finds a session by the address of a stream's entry")]

use gpufs_core::Errno;
use gpufs_core::session::Session;
use gpufs_core::stream::Stream;
use static_assertions::const_assert_eq;

use super::File;

/// Bits of an address.
const ADDRESS_BITS: u32 = 48;
/// Bits below an entry's address that its alignment leaves.
const ALIGN_BITS: u32 = 7;
/// Where the check begins.
const CHECK_SHIFT: u32 = 56;

const_assert_eq!(align_of::<Stream>(), 1 << ALIGN_BITS);
const_assert_eq!(size_of::<Stream>() % (1 << ALIGN_BITS), 0);

const LOW: u64 = (1 << ALIGN_BITS) - 1;
const ADDRESS: u64 = ((1 << ADDRESS_BITS) - 1) & !LOW;
const OPENINGS: u64 = (1 << (ALIGN_BITS + CHECK_SHIFT - ADDRESS_BITS)) - 1;

/// The check byte of a handle whose lower bits are `body`.
const fn check_of(body: u64) -> u64 {
    // xorshift*'s multiplier: each bit of the body reaches the highest ones. It was chosen for the words of the test below.
    0x80 | ((body + 1).wrapping_mul(0x2545_f491_4f6c_dd1d) >> 57)
}

const fn pack(address: u64, generation: u32) -> u64 {
    let openings = (generation as u64 >> 1) & OPENINGS;
    let body = (openings >> ALIGN_BITS) << ADDRESS_BITS | address & ADDRESS | openings & LOW;
    check_of(body) << CHECK_SHIFT | body
}

/// The address and the opening of a handle; `None` for any other word.
const fn unpack(handle: u64) -> Option<(u64, u64)> {
    let body = handle & ((1 << CHECK_SHIFT) - 1);
    if check_of(body) != handle >> CHECK_SHIFT {
        return None;
    }
    Some((body & ADDRESS, (body >> ADDRESS_BITS) << ALIGN_BITS | body & LOW))
}

impl File {
    /// The stream as one word. Never 0, and never an address.
    #[must_use]
    pub fn to_handle(self) -> u64 {
        self.to_handle_at(core::ptr::from_ref(self.session).addr() as u64)
    }

    /// [`File::to_handle`] for a device that sees the session at `session`.
    #[must_use]
    pub fn to_handle_at(self, session: u64) -> u64 {
        pack(session + u64::from(self.stream().home.peek()), self.generation)
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
        let tables: &'static Session =
            unsafe { &*core::ptr::with_exposed_provenance::<Session>(session as usize) };
        Self::from_handle_at(handle, session, tables)
    }

    /// The stream of a handle that a device gave, which sees the session `tables` at `session`. Touches nothing but the tables.
    ///
    /// # Errors
    /// `EBADF` if the word is no handle of that session, or the stream was closed.
    pub fn from_handle_at(handle: u64, session: u64, tables: &'static Session) -> Result<Self, Errno> {
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
    use super::{OPENINGS, pack, unpack};

    #[test]
    fn a_handle_is_what_was_packed() {
        for address in [0x80, 0x7f12_3456_7880, 0xffff_ffff_ff80] {
            for opening in [0, 1, 127, 128, OPENINGS] {
                let generation = u32::try_from(opening).unwrap() * 2 + 1;
                assert_eq!(unpack(pack(address, generation)), Some((address, opening)));
            }
        }
    }

    #[test]
    fn what_programs_hold_by_mistake_is_no_handle() {
        // Null, addresses, small numbers, and memory that nobody filled or that somebody freed.
        for word in [0, 1, 0x7f12_3456_7880, u64::MAX, 0xcdcd_cdcd_cdcd_cdcd, 0xdead_beef_dead_beef]
            .into_iter()
            .chain((0..64).map(|bit| 1 << bit))
            .chain((0..=255).map(|byte| byte * 0x0101_0101_0101_0101))
        {
            assert_eq!(unpack(word), None, "{word:#x}");
        }
        let passing = (0..100_000_u64)
            .map(|word| word.wrapping_mul(0xd134_2543_de82_ef95))
            .filter(|word| unpack(*word).is_some());
        assert!(passing.count() < 100_000 / 128);
    }
}

//! The entries of a session's file table: what device code opened, and what the host registered.

use crate::abi::CURRENT_POSITION;
use crate::listing::Listing;
use crate::lock::TicketLock;
use crate::word::{DeviceWord, DeviceWord64};

/// Index of an entry of the session's file table; what `open` returns as a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct FileIndex(pub u32);

/// How an SQE names a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The process's descriptor, or the index of a registered file.
    pub fd: i32,
    /// Which of the two.
    pub fixed: bool,
}

/// One open file. All words but `position` and `listing` are constant while it is open, and `lock` guards those; what is [`OpenFile::UNASKED`]
/// becomes known once.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct OpenFile {
    /// [`OpenFile::OPEN`] and its companions; 0 when the entry is free.
    pub flags: DeviceWord,
    /// The process's descriptor.
    pub descriptor: DeviceWord,
    /// Guards `position` and `listing`.
    pub lock: TicketLock,
    /// Where `read` and `write` go on, in bytes from the start of the file.
    pub position: DeviceWord64,
    /// [`OpenFile::SHARED`]: the process's descriptor of the socket over which the host moves the position ([`crate::seek`]).
    pub seeker: DeviceWord,
    /// [`OpenFile::DIRECTORY`]: what is read ahead of it.
    pub listing: Listing,
}

impl OpenFile {
    /// The entry is in use.
    pub const OPEN: u32 = 1 << 0;
    /// Reading is allowed.
    pub const READABLE: u32 = 1 << 1;
    /// Writing is allowed.
    pub const WRITABLE: u32 = 1 << 2;
    /// Each write goes to the end (`O_APPEND`).
    pub const APPEND: u32 = 1 << 3;
    /// Has a position: a regular file or block device.
    pub const SEEKABLE: u32 = 1 << 4;
    /// A terminal: streams on it are line buffered.
    pub const TERMINAL: u32 = 1 << 5;
    /// The host opened it, and the host closes it.
    pub const HOST_OWNED: u32 = 1 << 6;
    /// A character device whose position is always 0 (`/dev/null` and its kin): seeking succeeds and does nothing.
    pub const POSITIONLESS: u32 = 1 << 7;

    /// Has a position that others share, and that is therefore not ours: a regular file or block device as a standard stream. Then not
    /// [`OpenFile::SEEKABLE`]: transfers take the kernel's position, and only the host can move it.
    pub const SHARED: u32 = 1 << 9;
    /// The rings have it registered under its index.
    pub const FIXED: u32 = 1 << 8;

    /// Its calls do not wait (`O_NONBLOCK`).
    pub const NONBLOCK: u32 = 1 << 10;
    /// A FIFO that device code opened: its descriptor does not wait, and whether a writer has come is for a poll to say.
    pub const FIFO: u32 = 1 << 11;
    /// A socket.
    pub const SOCKET: u32 = 1 << 12;
    /// A socket whose transfers are messages (`SOCK_DGRAM`, `SOCK_SEQPACKET` …): each goes out, and comes in, whole. With [`OpenFile::SOCKET`].
    pub const MESSAGES: u32 = 1 << 13;

    /// A directory that device code opened. Whoever closes it takes its lock ([R-SERVE-9]).
    pub const DIRECTORY: u32 = 1 << 14;

    /// What it is was not asked when it was opened: it cannot be polled, so it is a regular file, a block device, a directory, or a device such as
    /// `/dev/null`, and all but the last have a position. With [`OpenFile::SEEKABLE`]; asked by the first call that needs to know.
    pub const UNASKED: u32 = 1 << 15;

    /// Whether a transfer may wait for another party, perhaps forever: a pipe, a FIFO, a socket, a terminal.
    #[must_use]
    pub const fn may_wait(flags: u32) -> bool {
        flags & (Self::SEEKABLE | Self::POSITIONLESS) == 0
    }

    /// Takes the entry out of use: its flags until then, to the one lane of several that gets them ([R-SERVE-9]); `None` where it is not in use.
    #[must_use]
    pub fn take_out(&self) -> Option<u32> {
        // ORDERING: acquire, device, partner the lane that opened it.
        let mut flags = self.flags.observe();
        // Ends: others change the flags a few times, or take the entry out.
        while flags & Self::OPEN != 0 {
            // ORDERING: acquire and release, device: one of several that close at once goes on.
            match self.flags.compare_exchange(flags, 0) {
                Ok(_) => return Some(flags),
                Err(other) => flags = other,
            }
        }
        None
    }

    /// Makes known what a file is that was [`OpenFile::UNASKED`]. Where the entry is out of use by now it stays so, and of several lanes that asked
    /// each has the same answer. A lane that asks while another closes the file may answer for one that was opened in its place since: as with
    /// `lseek(2)` and `close(2)`, who closes a file that is in use cannot say which file the other call meets.
    pub fn answer(&self, is_positionless: bool) {
        // ORDERING: relaxed: who asks has seen that the file is open; the other words stay as they are.
        let mut flags = self.flags.peek();
        // Ends: others change the flags a few times, or take the entry out.
        while flags & (Self::OPEN | Self::UNASKED) == Self::OPEN | Self::UNASKED {
            let known = if is_positionless {
                flags & !(Self::UNASKED | Self::SEEKABLE) | Self::POSITIONLESS
            } else {
                flags & !Self::UNASKED
            };
            // ORDERING: acquire and release, device, partners `take_out` and `Resources::file`.
            match self.flags.compare_exchange(flags, known) {
                Ok(_) => return,
                Err(other) => flags = other,
            }
        }
    }

    /// How an SQE names the file.
    #[must_use]
    pub fn target(&self, index: FileIndex) -> Target {
        // ORDERING: relaxed: constant while the file is open, and acquired by `Resources::file` or with the stream.
        self.target_of(self.flags.peek(), index)
    }
    /// [`OpenFile::target`], for a caller that has loaded the flags.
    #[must_use]
    pub fn target_of(&self, flags: u32, index: FileIndex) -> Target {
        if flags & Self::FIXED != 0 {
            Target { fd: index.0.cast_signed(), fixed: true }
        } else {
            // ORDERING: relaxed: as the flags.
            Target { fd: self.descriptor.peek().cast_signed(), fixed: false }
        }
    }

    /// Where a sequential transfer goes, given the position: there, or wherever the kernel's own rules put it.
    #[must_use]
    pub const fn offset(flags: u32, position: u64, writing: bool) -> u64 {
        if flags & Self::SEEKABLE == 0 || (writing && flags & Self::APPEND != 0) {
            CURRENT_POSITION
        } else {
            position
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_for_a_file_that_is_open_and_was_not_asked_about() {
        let (open, unasked) = (OpenFile::OPEN | OpenFile::READABLE, OpenFile::SEEKABLE | OpenFile::UNASKED);
        let cases = [
            (open | unasked, false, open | OpenFile::SEEKABLE),
            (open | unasked, true, open | OpenFile::POSITIONLESS),
            (open | OpenFile::SEEKABLE, true, open | OpenFile::SEEKABLE),
            (open | unasked | OpenFile::POSITIONLESS, true, open | OpenFile::POSITIONLESS),
            (0, true, 0),
            (unasked, false, unasked),
        ];
        for (before, is_positionless, after) in cases {
            let file = OpenFile::default();
            file.flags.set(before);
            file.answer(is_positionless);
            assert_eq!(file.flags.peek(), after, "{before:#x}, {is_positionless}");
        }
    }

    #[test]
    fn a_transfer_begins_at_the_position_of_a_file_that_has_one() {
        let (seekable, append) = (OpenFile::OPEN | OpenFile::SEEKABLE, OpenFile::APPEND);
        // Flags, and where a read and a write of them begin.
        let cases = [
            (OpenFile::OPEN, [CURRENT_POSITION; 2]),
            (OpenFile::OPEN | append, [CURRENT_POSITION; 2]),
            (OpenFile::OPEN | OpenFile::SHARED, [CURRENT_POSITION; 2]),
            (seekable, [77, 77]),
            (seekable | OpenFile::READABLE | OpenFile::WRITABLE, [77, 77]),
            (seekable | append, [77, CURRENT_POSITION]),
        ];
        for (flags, expected) in cases {
            let begins = [false, true].map(|writing| OpenFile::offset(flags, 77, writing));
            assert_eq!(begins, expected, "{flags:#x}");
        }
    }

    #[test]
    fn a_transfer_may_wait_where_there_is_no_position() {
        let waits = [0, OpenFile::OPEN | OpenFile::READABLE, OpenFile::SOCKET, OpenFile::SHARED];
        assert!(waits.into_iter().all(OpenFile::may_wait));
        let (seekable, positionless) = (OpenFile::SEEKABLE, OpenFile::POSITIONLESS);
        for flags in [seekable, positionless, OpenFile::OPEN | seekable | OpenFile::UNASKED] {
            assert!(!OpenFile::may_wait(flags), "{flags:#x}");
        }
    }
}

//! What a kernel that gives up leaves for the host: where a wait gave up, and what a panic said.

use crate::ring::QueueProgress;
use crate::word::{DeviceWord64, SharedWord, SharedWord64, wake_fence};

/// Where a wait gave up; written once, by the first that does. In host memory: giving up ends the kernel, and on a GPU all of the
/// device's memory with it.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), repr(C, align(64)))]
pub struct Stall {
    /// 0, or 1 + [`WaitReason`] of the first wait that gave up. Stored last.
    pub reason: SharedWord,
    /// Ring waited on.
    pub ring: SharedWord,
    /// Operation token, ticket, or block number waited for.
    pub object: SharedWord64,
    /// How far the ring was then: the fields of [`QueueProgress`], in their order.
    pub progress: [SharedWord; 7],
    /// What panicked.
    pub panic: PanicNote,
}

impl Stall {
    /// Notes where a wait gave up. The one lane that claimed the stall, which may end the kernel right after.
    pub fn note(&self, reason: WaitReason, ring: u32, object: u64, progress: QueueProgress) {
        let QueueProgress { tickets, sq_tail, cq_tail, drained, unpublished, orphaned, polled } = progress;
        // ORDERING: relaxed: the reason's release puts them before.
        self.ring.set(ring);
        self.object.set(object);
        let values = [tickets, sq_tail, cq_tail, drained, unpublished, orphaned, polled];
        for (word, value) in self.progress.iter().zip(values) {
            word.set(value);
        }
        // ORDERING: release, system, partner the host.
        self.reason.publish(1 + reason as u32);
        // What is on its way when the kernel ends might not arrive.
        wake_fence();
    }
    /// How far the ring was.
    #[must_use]
    pub fn progress(&self) -> QueueProgress {
        // ORDERING: relaxed: the reason was observed before.
        let [tickets, sq_tail, cq_tail, drained, unpublished, orphaned, polled] =
            core::array::from_fn(|index| self.progress[index].peek());
        QueueProgress { tickets, sq_tail, cq_tail, drained, unpublished, orphaned, polled }
    }
}

/// What the first panic of a device program said, and where it was. In host memory, as [`Stall`] is.
#[derive(Debug)]
#[cfg_attr(not(loom), repr(C))]
pub struct PanicNote {
    /// Bytes of the text; 0 if there was no panic. Stored last.
    pub length: SharedWord,
    /// The text, four bytes a word, the first lowest.
    pub text: [SharedWord; PanicNote::BYTES as usize / 4],
}

impl Default for PanicNote {
    fn default() -> Self {
        Self { length: SharedWord::default(), text: core::array::from_fn(|_| SharedWord::default()) }
    }
}

impl PanicNote {
    /// The longest text.
    pub const BYTES: u32 = 384;

    /// Notes a text, as much of it as there is room for. The one lane that claimed it ([`PanicRoute`]), which may then end the kernel at
    /// once.
    pub fn note(&self, text: impl Iterator<Item = u8>) {
        let (mut length, mut gathered) = (0, 0);
        for byte in text.take(Self::BYTES as usize) {
            gathered |= u32::from(byte) << (length % 4 * 8);
            // ORDERING: relaxed: the length's release puts them before.
            self.text[length as usize / 4].set(gathered);
            length += 1;
            if length % 4 == 0 {
                gathered = 0;
            }
        }
        // ORDERING: release, system, partner `copy`.
        self.length.publish(length);
        // What is on its way when the kernel ends might not arrive.
        wake_fence();
    }
    /// Copies the text to `into`; how many bytes it has.
    pub fn copy(&self, into: &mut [u8; Self::BYTES as usize]) -> u32 {
        // ORDERING: acquire, system, partner `note`.
        let length = self.length.observe().min(Self::BYTES);
        for (word, bytes) in self.text.iter().zip(into.chunks_exact_mut(4)) {
            // ORDERING: relaxed: the length was observed before.
            bytes.copy_from_slice(&word.peek().to_le_bytes());
        }
        length
    }
}

/// Where a device program finds its [`PanicNote`]: its global variable of the name [`PanicRoute::NAME`], which the host fills in.
#[derive(Debug)]
#[repr(C)]
pub struct PanicRoute {
    /// The note's address; 0 if the host wants none.
    pub note: DeviceWord64,
    /// 1 once a panic is being noted: its lane writes the note.
    pub claimed: DeviceWord64,
}

impl PanicRoute {
    /// The variable's name.
    pub const NAME: &core::ffi::CStr = c"gpufs_panic_route";
}

/// What a wait waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WaitReason {
    /// A slot of a ring.
    Slot,
    /// A staging buffer.
    Staging,
    /// An operation's completion.
    Completion,
    /// A block of a stream.
    StreamBlock,
    /// A stream's lock.
    StreamLock,
    /// Other lanes' bytes, on their way into a stream's blocks.
    StreamFill,
    /// A file's lock.
    FileLock,
    /// A shared stream that another lane opens or closes.
    SharedOpen,
    /// A page of a mapped file that another lane brings, or room for one.
    CachedPage,
}

impl WaitReason {
    /// All of them, in order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Slot,
        Self::Staging,
        Self::Completion,
        Self::StreamBlock,
        Self::StreamLock,
        Self::StreamFill,
        Self::FileLock,
        Self::SharedOpen,
        Self::CachedPage,
    ];
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_copied_as_it_was_written() {
        let text: Vec<u8> = (0..=255).cycle().skip(1).take(500).collect();
        for length in [0, 1, 2, 3, 4, 5, 7, 8, 383, 384, 385, 500] {
            let note = PanicNote::default();
            note.note(text[..length].iter().copied());
            let mut copy = [0; PanicNote::BYTES as usize];
            let bytes = note.copy(&mut copy) as usize;
            assert_eq!(bytes, length.min(384));
            assert_eq!(copy[..bytes], text[..bytes], "{length}");
        }
    }
}

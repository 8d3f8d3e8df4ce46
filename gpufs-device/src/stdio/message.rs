//! How results of the core's steps on streams travel between lanes. The core knows no lanes, so their encodings stand here; a type of a
//! single file has its encoding there.

use gpufs_core::Errno;
use gpufs_core::shared::{Left, Seen};
use gpufs_core::stream::{Progress, Reservation};

use crate::warp::Broadcast;

/// Which case, above a number of 32 bits.
impl Broadcast for Progress {
    #[inline]
    fn to_word(self) -> u64 {
        match self {
            Self::Done => 0,
            Self::Wait(ring) => 1 << 32 | ring.to_word(),
            Self::NoSlot => 2 << 32,
            Self::Failed(errno) => 3 << 32 | errno.number().to_word(),
        }
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        match word >> 32 {
            0 => Self::Done,
            1 => Self::Wait(u32::from_word(word)),
            2 => Self::NoSlot,
            _ => Self::Failed(Errno::from_number(i32::from_word(word))),
        }
    }
}

/// Answers that are no position and no line's number: those have 63 bits, since in its cursor each stands below the bit CLOSED.
const CLOSED: u64 = u64::MAX;
const BUSY: u64 = u64::MAX - 1;

/// A position, or a line's number, is itself.
impl Broadcast for Reservation {
    #[inline]
    fn to_word(self) -> u64 {
        match self {
            Self::At(position) => {
                debug_assert!(position >> 63 == 0);
                position
            }
            Self::Closed => CLOSED,
            Self::Busy => BUSY,
        }
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        match word {
            CLOSED => Self::Closed,
            BUSY => Self::Busy,
            position => Self::At(position),
        }
    }
}

/// A count of opens, at least 1, is itself: an entry's state holds it in fewer than 32 bits.
impl Broadcast for Left {
    #[inline]
    fn to_word(self) -> u64 {
        match self {
            Self::NotOpen => 0,
            Self::Last(count) => {
                debug_assert!(count != 0 && count >> 32 == 0);
                count
            }
            Self::Others => u64::MAX,
        }
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        match word {
            0 => Self::NotOpen,
            u64::MAX => Self::Others,
            count => Self::Last(count),
        }
    }
}

/// The entry's state word.
impl Broadcast for Seen {
    #[inline]
    fn to_word(self) -> u64 {
        self.word()
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        Self::from_word(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::message::assert_comes_back;
    use proptest::prelude::*;

    /// The greatest position, and the greatest number of a line.
    const GREATEST: u64 = u64::MAX >> 1;

    #[test]
    fn every_case_and_the_ends_of_its_range_come_back() {
        for number in 1..=4095 {
            assert_comes_back(Progress::Failed(Errno::from_number(number)));
        }
        for ring in [0, 1, u32::MAX] {
            assert_comes_back(Progress::Wait(ring));
        }
        assert_comes_back(Progress::Done);
        assert_comes_back(Progress::NoSlot);
        for at in [0, 1, GREATEST - 1, GREATEST] {
            assert_comes_back(Reservation::At(at));
        }
        for answer in [Reservation::Closed, Reservation::Busy] {
            assert_comes_back(answer);
        }
        for left in [Left::Others, Left::NotOpen, Left::Last(1), Left::Last(u64::from(u32::MAX))] {
            assert_comes_back(left);
        }
    }

    proptest! {
        #[test]
        fn payloads_come_back(ring: u32, at in 0..=GREATEST, count in 1..=u64::from(u32::MAX), word: u64) {
            assert_comes_back(Progress::Wait(ring));
            assert_comes_back(Reservation::At(at));
            assert_comes_back(Left::Last(count));
            let seen = <Seen as Broadcast>::from_word(word);
            assert_comes_back(seen);
        }
    }
}

//! An event as a record of the write path: its words are made while they are stored, so that none lies in a lane's memory.
#![expect(unsafe_code, reason = "stores of whole words")]

use gpufs_core::trace::{Encoded, WORD_BYTES};

use crate::stdio::Record;

impl Record for Encoded<'_> {
    #[inline]
    fn bytes(&self) -> u64 {
        (self.words() * WORD_BYTES) as u64
    }
    #[inline]
    fn emit(&self, skip: u64, into: &mut [u8]) {
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let target = into.as_mut_ptr();
        if (target.addr() | skip | into.len()).is_multiple_of(WORD_BYTES) {
            let (first, end) = (skip / WORD_BYTES, (skip + into.len()) / WORD_BYTES);
            self.each_word(|index, word| {
                if index >= first && index < end {
                    // SAFETY:
                    // - the word lies within the slice, as `first` and `end` say
                    let place = unsafe { target.add((index - first) * WORD_BYTES) };
                    // SAFETY:
                    // - the same, whose start and length were just looked at: aligned, and of a word
                    unsafe { place.cast::<u64>().write(word.to_le()) };
                }
            });
        } else {
            emit_bytes(self, skip, into);
        }
    }
    fn has_newline(&self) -> bool {
        // Asked of streams that are buffered by lines, which terminals are.
        let mut has = false;
        self.each_word(|_, word| has |= word.to_le_bytes().contains(&b'\n'));
        has
    }
    fn address(&self) -> Option<u64> {
        None
    }
    #[inline]
    fn is_stored_in_words(&self) -> bool {
        true
    }
}

/// [`Record::emit`] to where words are not aligned: behind what others than traces have written.
#[cold]
#[inline(never)]
fn emit_bytes(record: &Encoded<'_>, skip: usize, into: &mut [u8]) {
    record.each_word(|index, word| {
        for (at, byte) in (index * WORD_BYTES..).zip(word.to_le_bytes()) {
            if let Some(place) = at.checked_sub(skip).and_then(|at| into.get_mut(at)) {
                *place = byte;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use gpufs_core::trace::{Event, Kind, Value};

    use super::*;

    /// Parts of a record at any alignment are those of the whole, and nothing beside them is written.
    #[test]
    fn parts_make_the_whole() {
        let event = Event {
            kind: Kind::Begin,
            name: 77,
            track: Some(1 << 60),
            value_names: &[5, 6, 7],
            values: &[Value::Unsigned(9), Value::Signed(-9), Value::Real(0.5)],
        };
        let record = Encoded::new(3, 1 << 48, event);
        let bytes = usize::try_from(record.bytes()).unwrap();
        assert_eq!(bytes, (3 + 2 + 2 + 4 + 2) * WORD_BYTES);
        let mut whole = vec![0; bytes];
        emit_bytes(&record, 0, &mut whole);
        for (skip, end) in (0..=bytes).flat_map(|skip| (skip..=bytes).map(move |end| (skip, end))) {
            for misalignment in [0, 1, 4, 7] {
                let mut room = vec![0xee_u8; bytes + 3 * WORD_BYTES];
                let start = room.as_ptr().align_offset(WORD_BYTES) + misalignment;
                record.emit(skip as u64, &mut room[start..start + end - skip]);
                assert_eq!(room[start..start + end - skip], whole[skip..end]);
                let around = room[..start].iter().chain(&room[start + end - skip..]);
                assert!(around.into_iter().all(|byte| *byte == 0xee));
            }
        }
    }
}

//! Sizes of the blocks of a table's room.

/// Blocks begin at multiples of this.
pub(super) const UNIT_BYTES: usize = 16;
/// Size classes: 2ⁿ and 1.5 · 2ⁿ units.
pub(super) const CLASSES: usize = 40;

/// The class of so many bytes, and its size in units.
pub(super) fn class_of(bytes: usize) -> (usize, usize) {
    let units = bytes.div_ceil(UNIT_BYTES).max(1);
    let (mut class, mut size) = (0, 1);
    // Ends: sizes grow.
    while size < units {
        class += 1;
        size = size_of_class(class);
    }
    (class, size)
}

/// 1, 2, 3, 4, 6, 8, 12 … units.
pub(super) const fn size_of_class(class: usize) -> usize {
    match class {
        0 => 1,
        class if class % 2 == 1 => 2 << (class / 2),
        class => 3 << (class / 2 - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_are_for() {
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(size_of_class), [1, 2, 3, 4, 6, 8, 12]);
        for bytes in 0..5000 {
            let (class, units) = class_of(bytes);
            assert!(units * 16 >= bytes && (class == 0 || size_of_class(class - 1) * 16 < bytes));
        }
    }
}

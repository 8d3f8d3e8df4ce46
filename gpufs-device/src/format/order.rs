//! Which argument a conversion takes: the next one, or the one that its number names (POSIX, `fprintf`). One format does either.

use super::What;

/// The next argument's index, where arguments are numbered: there is none.
const NUMBERED: usize = usize::MAX;

/// How far the arguments are taken.
#[derive(Clone, Copy)]
pub(super) struct Order {
    /// The index of the next argument, or [`NUMBERED`].
    next: usize,
    /// The index after the highest that was taken.
    end: usize,
}

impl Order {
    pub(super) const START: Self = Self { next: 0, end: 0 };

    /// The index of the argument that comes now: `number`, counted from 1, names it; 0 stands for the next one.
    ///
    /// # Errors
    /// [`What::Mixed`], if the format took one in the other way.
    pub(super) const fn take(&mut self, number: u32) -> Result<usize, What> {
        let index = match (number, self.next) {
            (0, NUMBERED) | (1.., 1..NUMBERED) => return Err(What::Mixed),
            (0, next) => {
                self.next += 1;
                next
            }
            (1.., _) => {
                self.next = NUMBERED;
                number as usize - 1
            }
        };
        if index >= self.end {
            self.end = index + 1;
        }
        Ok(index)
    }
    /// How many arguments are taken, gaps between numbers included.
    pub(super) const fn count(&self) -> usize {
        self.end
    }
}

//! Neighbouring elements of a view, which may lie in two pages, for loads at the speed of memory.

use gpufs_device::Errno;
use gpufs_device::view::{Pin, Plain, View};

/// Elements whose pages stay as long as this.
pub(super) struct Span<'p, T> {
    head: Pin<'p, T>,
    /// Those that lie in the next page.
    tail: Option<Pin<'p, T>>,
}

impl<'p, T: Plain> Span<'p, T> {
    /// `count` elements from `first` on; `None` where they lie in more than two pages, or too many pages are kept as it is. Lanes that call together
    /// with the same elements share pins.
    ///
    /// # Errors
    /// As [`View::pin`].
    pub(super) fn of(view: &'p View<'_, T>, first: u64, count: u64) -> Result<Option<Self>, Errno> {
        let room = view.rest_of_page(first);
        if count > room && count - room > view.rest_of_page(first + room) {
            return Ok(None);
        }
        let pin = |first, count| match view.pin(first, count as usize) {
            Ok(pin) => Ok(Some(pin)),
            Err(Errno::BUSY) => Ok(None),
            Err(errno) => Err(errno),
        };
        let Some(head) = pin(first, count.min(room))? else { return Ok(None) };
        if count <= room {
            return Ok(Some(Self { head, tail: None }));
        }
        let Some(tail) = pin(first + room, count - room)? else { return Ok(None) };
        Ok(Some(Self { head, tail: Some(tail) }))
    }
    /// The elements of each page.
    #[inline]
    pub(super) fn slices(&self) -> (&[T], &[T]) {
        (&self.head, self.tail.as_deref().unwrap_or(&[]))
    }
}

/// Element `at` of two slices, one behind the other.
///
/// # Errors
/// `EINVAL` beyond them.
#[inline]
pub(super) fn element<T: Copy>((head, tail): (&[T], &[T]), at: u64) -> Result<T, Errno> {
    let at = at as usize;
    let from = if at < head.len() { head.get(at) } else { tail.get(at - head.len()) };
    from.copied().ok_or(Errno::INVAL)
}

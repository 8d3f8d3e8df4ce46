//! What an entry's end brings in a ring that worker threads serve. In a *chain* an entry has the next one begin when it has ended ([R-CHAIN-3];
//! `IOSQE_IO_LINK` in `io_uring_enter(2)`).
//!
//! The entries behind one travel with it, so each is with one thread, or waits in one place, and is answered once. What the kernel refuses before it
//! begins a chain (an opcode that it does not know) ends a chain where it stands here.

use std::collections::VecDeque;

use gpufs_core::Errno;
use gpufs_core::abi::{
    IORING_OP_READ, IORING_OP_READ_FIXED, IORING_OP_SPLICE, IORING_OP_TEE, IORING_OP_WRITE,
    IORING_OP_WRITE_FIXED, IOSQE_IO_HARDLINK, IOSQE_IO_LINK, Sqe,
};

use super::workers::{Queue, Task};

/// Whether the entry has this flag.
const fn has(sqe: &Sqe, flag: u32) -> bool {
    sqe.flags as u32 & flag != 0
}

/// Whether the entry behind this one is of its chain.
pub(super) const fn has_next(sqe: &Sqe) -> bool {
    has(sqe, IOSQE_IO_LINK | IOSQE_IO_HARDLINK)
}

/// How many of these entries are whole chains, where more will follow them.
pub(super) fn whole(entries: &[Sqe]) -> usize {
    entries.iter().rposition(|sqe| !has_next(sqe)).map_or(0, |last| last + 1)
}

/// The entries of a chain that have not begun.
#[derive(Debug, Default)]
pub(super) struct Rest(VecDeque<Sqe>);

/// What follows the end of an entry.
#[derive(Debug)]
pub(super) enum Next {
    /// It was the last.
    Nothing,
    /// This one begins, and those are behind it.
    Begins(Sqe, Rest),
    /// None of these begins.
    Cancelled(Rest),
}

impl Rest {
    /// The chain at the beginning of `entries`, which are not empty: its first entry and the others. It ends where the entries do.
    pub(super) fn split_off(entries: &mut VecDeque<Sqe>) -> Option<(Sqe, Self)> {
        let first = entries.pop_front()?;
        let (mut rest, mut last) = (VecDeque::new(), first);
        while has_next(&last)
            && let Some(next) = entries.pop_front()
        {
            last = next;
            rest.push_back(next);
        }
        Some((first, Self(rest)))
    }

    /// What follows when `sqe`, which was before these, has ended with `result`.
    pub(super) fn after(mut self, sqe: &Sqe, result: i32) -> Next {
        let is_transfer = matches!(
            sqe.opcode,
            IORING_OP_READ
                | IORING_OP_READ_FIXED
                | IORING_OP_WRITE
                | IORING_OP_WRITE_FIXED
                | IORING_OP_SPLICE
                | IORING_OP_TEE
        );
        let is_well = u32::try_from(result).is_ok_and(|count| !is_transfer || count >= sqe.len);
        if !is_well && !has(sqe, IOSQE_IO_HARDLINK) && !self.0.is_empty() {
            return Next::Cancelled(self);
        }
        self.0.pop_front().map_or(Next::Nothing, |next| Next::Begins(next, self))
    }

    /// The answers of entries that do not begin.
    pub(super) fn cancelled(&self) -> impl Iterator<Item = (u64, i32)> + '_ {
        self.0.iter().map(|sqe| (sqe.user_data, -Errno::CANCELED.number()))
    }
}

impl Queue {
    /// Cancels an entry that waits, for a worker or for a file; the result of the cancellation.
    pub(super) fn cancel(&mut self, user_data: u64) -> i32 {
        let place = self.parked.iter().position(|parked| parked.sqe.user_data == user_data);
        let parked =
            place.map(|place| self.parked.swap_remove(place)).map(|parked| (parked.sqe, parked.rest));
        let Some((sqe, rest)) = parked.or_else(|| self.tasks.remove(user_data)) else {
            // A worker that has it ends it where it would wait.
            return if self.tasks.cancel_running(user_data) {
                -libc::EALREADY
            } else {
                -Errno::NOENT.number()
            };
        };
        self.end(&sqe, -Errno::CANCELED.number(), rest);
        0
    }

    /// An entry has ended that no worker has: it is answered, and what comes after it begins, or does not.
    pub(super) fn end(&mut self, sqe: &Sqe, result: i32, rest: Rest) {
        self.tasks.push(Task::Answer { user_data: sqe.user_data, result });
        self.follow(sqe, result, rest);
    }

    /// What comes after an entry that has ended begins, or does not.
    pub(super) fn follow(&mut self, sqe: &Sqe, result: i32, rest: Rest) {
        match rest.after(sqe, result) {
            Next::Nothing => {}
            Next::Begins(sqe, rest) => self.tasks.push(Task::Perform { sqe, ready: false, rest }),
            Next::Cancelled(rest) => {
                for (user_data, result) in rest.cancelled() {
                    self.tasks.push(Task::Answer { user_data, result });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(kinds: &[Option<bool>]) -> VecDeque<Sqe> {
        let entry = |(number, kind): (u64, &Option<bool>)| {
            let sqe = Sqe::nop().with_user_data(number);
            kind.map_or(sqe, |always| sqe.with_next(always))
        };
        (0..).zip(kinds).map(entry).collect()
    }

    fn numbers(rest: &Rest) -> Vec<u64> {
        rest.cancelled().map(|(number, _)| number).collect()
    }

    #[test]
    fn chains_are_split_where_they_end() {
        let mut all = entries(&[None, Some(false), Some(true), None, None, Some(false)]);
        let mut chains = Vec::new();
        while let Some((first, rest)) = Rest::split_off(&mut all) {
            chains.push((first.user_data, numbers(&rest)));
        }
        let expected: [(u64, Vec<u64>); 4] = [(0, vec![]), (1, vec![2, 3]), (4, vec![]), (5, vec![])];
        assert_eq!(chains, expected);
        for (kinds, count) in
            [(&[None, Some(false)][..], 1), (&[Some(false), Some(true)], 0), (&[Some(false), None], 2)]
        {
            assert_eq!(whole(entries(kinds).make_contiguous()), count);
        }
    }

    #[test]
    fn what_ends_badly_ends_its_chain_unless_the_next_begins_always() {
        let chain = |always| {
            let mut all = entries(&[Some(always), Some(always), None]);
            Rest::split_off(&mut all).unwrap()
        };
        let read = Sqe::read(0, 0, 8, 0);
        for (sqe, result, goes_on) in [
            (Sqe::nop(), 0, true),
            (Sqe::nop(), -5, false),
            (read, 8, true),
            (read, 7, false),
            (read, -9, false),
            (Sqe::recv(0, 0, 8, 0), 1, true),
        ] {
            let (_, rest) = chain(false);
            match rest.after(&sqe.with_next(false), result) {
                Next::Begins(next, rest) if goes_on => {
                    assert_eq!((next.user_data, numbers(&rest)), (1, vec![2]));
                }
                Next::Cancelled(rest) if !goes_on => assert_eq!(numbers(&rest), [1, 2]),
                other => panic!("{sqe:?} with {result}: {other:?}"),
            }
            let (_, rest) = chain(true);
            let Next::Begins(next, _) = rest.after(&sqe.with_next(true), result) else { panic!("{result}") };
            assert_eq!(next.user_data, 1);
        }
        assert!(matches!(Rest::default().after(&Sqe::nop(), -5), Next::Nothing));
    }
}

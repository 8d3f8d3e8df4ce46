//! Calls that are refused, each in a lane of its own.

use std::ffi::{CStr, CString};

use gpufs_device::Errno;
use gpufs_host::Grid;
use gpufs_test_kernels::{Attempt, What, attempt};

use super::Harness;

/// A call for [`Harness::attempt`].
#[derive(Clone, Debug)]
pub struct Try {
    what: What,
    descriptor: u32,
    path: Option<CString>,
    other: Option<CString>,
    number: u64,
    choice: u32,
}

impl Try {
    /// A call on a path.
    #[must_use]
    pub fn on(what: What, path: &CStr) -> Self {
        Self { what, descriptor: 0, path: Some(path.to_owned()), other: None, number: 0, choice: 0 }
    }
    /// A call on a descriptor.
    #[must_use]
    pub fn of(what: What, descriptor: u32) -> Self {
        Self { what, descriptor, path: None, other: None, number: 0, choice: 0 }
    }
    /// The new path, the target, the mode.
    #[must_use]
    pub fn with(self, other: &CStr) -> Self {
        Self { other: Some(other.to_owned()), ..self }
    }
    /// A length.
    #[must_use]
    pub fn number(self, number: u64) -> Self {
        Self { number, ..self }
    }
    /// Flags, a mode, an operation.
    #[must_use]
    pub fn choice(self, choice: u32) -> Self {
        Self { choice, ..self }
    }
    fn bytes(&self) -> usize {
        [&self.path, &self.other].into_iter().flatten().map(|text| text.count_bytes() + 64).sum()
    }
}

impl Harness {
    /// Makes each call in a lane of its own, all at once: their results.
    ///
    /// # Panics
    /// If the kernel fails.
    pub fn attempt(&mut self, tries: &[Try]) -> Vec<Result<i64, Errno>> {
        let room: usize = tries.iter().map(Try::bytes).sum();
        let table_bytes = std::mem::size_of::<Attempt>() * tries.len();
        self.reserve(room + table_bytes + 4096);
        let table = self.take(table_bytes);
        let place = |index: usize| table + (index * size_of::<Attempt>()) as u64;
        for (index, one) in tries.iter().enumerate() {
            let mut put =
                |text: &Option<CString>| text.as_ref().map_or(0, |text| self.put(text.to_bytes_with_nul()));
            let (path, other) = (put(&one.path), put(&one.other));
            let &Try { what, descriptor, number, choice, .. } = one;
            let call = Attempt { what, descriptor, path, other, number, choice, errno: -1, value: 0 };
            self.write(place(index), call);
        }
        self.keep_arena();
        let count = tries.len() as u64;
        let threads = u32::try_from(tries.len()).expect("a few").min(64);
        let grid = Grid { blocks: u32::try_from(tries.len()).expect("a few").div_ceil(threads), threads };
        let arguments = attempt::Arguments { attempts: table, count };
        self.session.start::<attempt::Entry>(grid, arguments).expect("a launch");
        self.synchronize().expect("the kernel");
        let answers = (0..tries.len()).map(|index| self.read::<Attempt>(place(index)));
        answers
            .map(
                |answer| {
                    if answer.errno == 0 { Ok(answer.value) } else { Err(Errno::from_number(answer.errno)) }
                },
            )
            .collect()
    }

    /// [`Harness::attempt`], and what must come of each call.
    ///
    /// # Panics
    /// If something else does.
    pub fn expect(&mut self, tries: &[(Try, Result<i64, Errno>)]) {
        let calls: Vec<Try> = tries.iter().map(|(call, _)| call.clone()).collect();
        for ((call, expected), found) in tries.iter().zip(self.attempt(&calls)) {
            assert_eq!(found, *expected, "{call:?}");
        }
    }
}

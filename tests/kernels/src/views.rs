//! Threads that look at mapped files as arrays.

use gpufs_device::kernel::Shared;
use gpufs_device::view::{Mapping, MappingMut, View, ViewMut};
use gpufs_device::warp::{global_thread, grid_threads};
use gpufs_device::{Errno, kernel};

use crate::records::Report;

/// Elements of a thread in [`view_programs()`]: element `n` of thread `t` is number `n * threads + t` of the file.
pub const OWN: usize = 16;

/// One step of a program.
enum Step {
    Get(usize),
    Set(usize, u64),
    Add(usize, u64),
    Flush,
}

/// The next step, and the generator's next state (splitmix64).
fn next(state: &mut u64) -> Step {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    let at = (bits >> 8) as usize % OWN;
    match bits % 64 {
        0..24 => Step::Get(at),
        24..44 => Step::Set(at, bits),
        44..63 => Step::Add(at, bits),
        _ => Step::Flush,
    }
}

fn first_state(thread: u64, seed: u64) -> u64 {
    seed ^ thread.wrapping_mul(0xd134_2543_de82_ef95)
}

/// What a step leaves in a thread's elements.
fn apply(step: &Step, own: &mut [u64; OWN]) {
    match *step {
        Step::Set(at, value) => own[at] = value,
        Step::Add(at, value) => own[at] = own[at].wrapping_add(value),
        Step::Get(_) | Step::Flush => {}
    }
}

/// What a thread's elements hold after its program, if they were 0 before.
#[must_use]
pub fn elements_after(thread: u64, seed: u64, rounds: u32) -> [u64; OWN] {
    let (mut state, mut own) = (first_state(thread, seed), [0; OWN]);
    for _ in 0..rounds {
        apply(&next(&mut state), &mut own);
    }
    own
}

/// A thread's program: how many steps found something else than its own array does.
#[inline(never)]
fn run(view: &ViewMut<'_, u64>, thread: u64, seed: u64, rounds: u32) -> Result<u32, Errno> {
    let (threads, mut wrong) = (grid_threads(), 0);
    let (mut state, mut own) = (first_state(thread, seed), [0; OWN]);
    for _ in 0..rounds {
        let step = next(&mut state);
        let index = |at: usize| at as u64 * threads + thread;
        let right = match step {
            Step::Get(at) => view.get(index(at))? == own[at],
            Step::Set(at, value) => view.set(index(at), value) == Ok(()),
            Step::Add(at, value) => view.add(index(at), value)? == own[at],
            Step::Flush => view.flush() == Ok(()),
        };
        wrong += u32::from(!right);
        apply(&step, &mut own);
    }
    Ok(wrong)
}

kernel! {
    /// Every thread runs a program of its own, from a seed, on its elements of a file of zeros, and adds 1 to the element behind all of them.
    pub fn view_programs(fs: Fs, map: MappingMut, seed: u64, rounds: u32, report: Shared<Report>) {
        report.with(fs, |report| {
            let (thread, count) = (global_thread(), grid_threads() * OWN as u64);
            let outcome = fs.view_mut::<u64, _>(map, 0, count + 1, |view| {
                let wrong = run(view, thread, seed, rounds)?;
                view.add(count, 1).map(|_| wrong)
            });
            match outcome.and_then(|outcome| outcome) {
                Ok(0) => {}
                Ok(wrong) => report.note(1, thread, 0, wrong),
                Err(errno) => report.note(2, thread, 0, errno.number().cast_unsigned()),
            }
        });
    }
}

/// Looks at element `at` of a file in which number `n` is `n`, alone or in a pinned slice, or has the system read it ahead, as `choice` says: how
/// many are wrong.
fn anywhere(view: &View<'_, u64>, at: u64, choice: u64) -> Result<u32, Errno> {
    /// Elements of a slice: it begins at a multiple of them, and so lies in one page.
    const TOGETHER: u64 = 8;
    match choice % 8 {
        0 => view.prefetch(at, TOGETHER.min(view.len() - at)).map(|()| 0),
        1 | 2 => {
            let first = at / TOGETHER * TOGETHER;
            match view.pin(first, TOGETHER.min(view.len() - first) as usize) {
                Ok(pin) => Ok(u32::from((first..).zip(&*pin).any(|(at, found)| at != *found))),
                // Other lanes keep as many pages as may be kept.
                Err(Errno::BUSY) => Ok(0),
                Err(errno) => Err(errno),
            }
        }
        _ => Ok(u32::from(view.get(at)? != at)),
    }
}

kernel! {
    /// Every thread looks at elements of a file in which number `n` is `n`: its share in order, `each` others anywhere, and a pinned page.
    pub fn view_scan(fs: Fs, map: Mapping, count: u64, each: u32, report: Shared<Report>) {
        report.with(fs, |report| {
            let (thread, threads) = (global_thread(), grid_threads());
            let outcome = fs.view::<u64, _>(map, 0, count, |view| {
                let mut wrong = 0;
                let mut at = thread;
                // Ends: `at` grows.
                while at < count {
                    wrong += u32::from(view.get(at)? != at);
                    at += threads;
                }
                let mut state = first_state(thread, count);
                for _ in 0..each {
                    next(&mut state);
                    wrong += anywhere(view, (state >> 16) % count, state >> 8)?;
                }
                match view.pin(0, 64) {
                    Ok(pin) => wrong += u32::from((0..).zip(&*pin).any(|(at, found)| at != *found)),
                    // Views of other lanes keep as many pages as may be kept.
                    Err(Errno::BUSY) => {}
                    Err(errno) => return Err(errno),
                }
                Ok(wrong)
            });
            match outcome.and_then(|outcome| outcome) {
                Ok(0) => {}
                Ok(wrong) => report.note(1, thread, 0, wrong),
                Err(errno) => report.note(2, thread, 0, errno.number().cast_unsigned()),
            }
        });
    }
}

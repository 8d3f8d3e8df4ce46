//! A stack of mixture-of-experts layers, of which each token needs a few experts' weights: a router decides on the device which.
//!
//! In one layer, of a state `x` of `hidden` numbers:
//!
//! | step | what |
//! |---|---|
//! | route | each expert gets a score, its row of the router times `x` |
//! | choose | the `chosen` experts with the highest scores; of equals the first |
//! | up | of each chosen expert, `inner` numbers: its matrix `gate` times `x`, which lets through its matrix `up` times `x` |
//! | down | its matrix `down` times these, of which the highest score counts most |
//! | mix | half of `x`, half of the token, and that are the next state |
//!
//! Weights and states are whole numbers of 8 bits, and so is every step: sums have the same value in any order, and every way gives the same states.
//!
//! | file | what |
//! |---|---|
//! | `shape.rs` | sizes, where weights lie, and the arithmetic of single numbers |
//! | `weights.rs` | weights, wherever they are, times a vector |
//! | `team.rs` | all lanes of a grid: they take work, and wait for each other |
//! | `layers.rs` | the steps |

mod layers;
mod shape;
mod team;
mod weights;

use gpufs_device::kernel::Shared;
use gpufs_device::view::Mapping;
use gpufs_device::warp::{global_thread, grid_threads};
use gpufs_device::{Errno, Fs, calling, kernel, portable};

use self::layers::{Pass, Through};
use self::weights::Weights;
use crate::kernels::{Array, Cells, Words, Words64};

pub use shape::{Shape, activation, dot, token, weight_of_place};
pub use team::Meeting;

portable! {
    /// What the host places for the kernels.
    pub struct Job {
        /// Sizes.
        pub shape: Shape,
        /// Where the experts begin in the file, in bytes.
        pub experts_at: u64,
        /// The routers of all layers.
        pub routers: Array,
        /// Two states: `2 × hidden` numbers. A layer reads one and makes the other.
        pub states: Cells,
        /// `chosen × inner` numbers.
        pub activations: Cells,
        /// The state of each token after the last layer.
        pub results: Cells,
        /// `hidden` sums; 0 between layers.
        pub sums: Words64,
        /// Scores of the experts, and the experts that are chosen.
        pub scores: Words,
        /// See above.
        pub chosen: Words,
        /// Where the weights of each chosen expert are: bytes from the first expert, or from where the host puts those.
        pub places: Words64,
        /// Where the lanes meet.
        pub meeting: Meeting,
    }
}

portable! {
    /// Tokens of one launch.
    #[derive(Clone, Copy, Debug)]
    pub struct Tokens {
        /// The first.
        pub first: u64,
        /// How many.
        pub count: u64,
    }
}

/// Takes tokens through all layers.
fn think<W: Weights>(job: &Job, tokens: Tokens, weights: &W) {
    let mut pass = Pass::new(job, calling!());
    for index in 0..tokens.count {
        for layer in 0..job.shape.layers {
            let at = Through { token: tokens.first + index, index, layer };
            if !pass.route(at) || !pass.apply(at, weights) {
                return;
            }
        }
    }
}

/// Looks at what is in the file before the experts, which nothing else has from the cache: a view begins with plain loads once all of the file is
/// there. Called by all threads of the grid.
fn touch(fs: Fs, map: Mapping, before: u64) -> Result<(), Errno> {
    /// The smallest page, in words.
    const PAGE: u64 = 4096 / 16;
    fs.view::<u128, _>(map, 0, before / 16, |view| {
        let mut word = global_thread() * PAGE;
        // Ends: `word` grows.
        while word < view.len() {
            view.get(word)?;
            word += grid_threads() * PAGE;
        }
        Ok(())
    })?
}

kernel! {
    /// Takes tokens through all layers, with the weights of a mapped file. All threads of the grid run at the same time.
    pub fn think_cached(fs: Fs, job: Shared<Job>, map: Mapping, tokens: Tokens) {
        job.with(fs, |job| {
            let words = job.shape.layers * job.shape.experts * job.shape.expert_bytes() / 16;
            let looked = fs.view::<u128, _>(map, job.experts_at, words, |view| match view.whole() {
                // All of the file is in device memory, and stays there.
                Some(all) => think(job, tokens, &all),
                None => {
                    job.meeting.note(touch(fs, map, job.experts_at));
                    think(job, tokens, view);
                }
            });
            job.meeting.note(looked);
        });
    }
}

kernel! {
    /// As [`think_cached()`], with all weights in an array.
    pub fn think_resident(fs: Fs, job: Shared<Job>, experts: Array, tokens: Tokens) {
        job.with(fs, |job| think(job, tokens, &experts));
    }
}

kernel! {
    /// For a host in the loop: which experts one layer needs. All threads of the grid run at the same time.
    pub fn choose_experts(fs: Fs, job: Shared<Job>, token: u64, layer: u64) {
        job.with(fs, |job| {
            Pass::new(job, calling!()).route(Through { token, index: 0, layer });
        });
    }
}

kernel! {
    /// For a host in the loop: the rest of the layer, when the host has put the experts' weights into the array, and their places into the job.
    /// The state goes to the results as that of token `index`.
    pub fn apply_experts(fs: Fs, job: Shared<Job>, experts: Array, token: u64, layer: u64, index: u64) {
        job.with(fs, |job| {
            Pass::new(job, calling!()).apply(Through { token, index, layer }, &experts);
        });
    }
}

impl Meeting {
    /// Keeps an error of the calling lane for the host, and ends the others' waiting.
    fn note<T>(&self, result: Result<T, Errno>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(errno) => {
                self.failure.put(errno);
                None
            }
        }
    }
}

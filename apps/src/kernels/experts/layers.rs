//! The steps of a layer, which all lanes of a grid do together.
#![expect(unsafe_code, reason = "numbers that one lane writes in one step, and all read in the next")]

use gpufs_device::warp::Lanes;

use super::Job;
use super::shape::{activation, dot, token, weight_of_place};
use super::team::Team;
use super::weights::{Block, Parts, ROWS, Weights};
use crate::kernels::Cells;

/// Numbers of a word.
const WORD: u64 = size_of::<u128>() as u64;

/// Where in its way a token is.
#[derive(Clone, Copy)]
pub(super) struct Through {
    pub(super) token: u64,
    /// Its number among those of the launch.
    pub(super) index: u64,
    pub(super) layer: u64,
}

/// What one warp does of the layers.
pub(super) struct Pass<'a> {
    job: &'a Job,
    team: Team<'a>,
}

/// The sum of all lanes' parts. Convergent; called by `lanes`.
#[inline]
fn sum(lanes: Lanes, part: i64) -> i64 {
    let part = part.cast_unsigned();
    let sum = lanes.scan(part).wrapping_add(part);
    lanes.broadcast(sum, lanes.mask().last()).cast_signed()
}

/// The sum of all lanes' parts, for each row. Convergent; called by `lanes`.
#[inline]
fn summed(lanes: Lanes, parts: Parts) -> Parts {
    parts.map(|part| sum(lanes, part))
}

impl<'a> Pass<'a> {
    /// The pass of the calling lanes. Called by all threads of the grid.
    pub(super) fn new(job: &'a Job, lanes: Lanes) -> Self {
        Self { job, team: Team::new(&job.meeting, lanes) }
    }

    /// Which experts the layer needs. Called by all threads; whether all goes well.
    pub(super) fn route(&mut self, at: Through) -> bool {
        let (job, shape) = (self.job, &self.job.shape);
        if at.layer == 0 {
            self.team.each_lane(shape.hidden, |index| {
                // SAFETY:
                // - each number is one lane's in this step, and nobody reads them
                unsafe { job.states.write(index, token(at.token, index)) };
            });
            if !self.team.meet() {
                return false;
            }
        }
        let (lanes, words) = (self.team.lanes(), shape.hidden / WORD);
        let state = state_of(job, at.layer);
        self.team.each(shape.experts, |expert| {
            let first = (at.layer * shape.experts + expert) * words;
            let (mut part, mut word) = (0, u64::from(lanes.rank()));
            // Ends: `word` grows.
            while word < words {
                let row = job.meeting.note(job.routers.get::<u128>(first + word)).unwrap_or(0);
                part += i64::from(dot(row, vector(&job.states, state / WORD + word)));
                word += u64::from(lanes.count());
            }
            let score = sum(lanes, part);
            // ORDERING: relaxed, here and below: the meetings order steps.
            job.scores.at(expert).set((score as i32).cast_unsigned());
        });
        self.team.meet() && self.choose(at.layer)
    }

    /// Each lane finds the place of an expert among all.
    fn choose(&mut self, layer: u64) -> bool {
        let (job, shape) = (self.job, &self.job.shape);
        self.team.each_lane(shape.experts, |expert| {
            let score = |expert| job.scores.at(expert).peek().cast_signed();
            let mine = score(expert);
            let is_before = |other: &u64| score(*other) > mine || score(*other) == mine && *other < expert;
            let place = (0..shape.experts).filter(is_before).count() as u64;
            if place < shape.chosen {
                job.chosen.at(place).set(expert as u32);
                job.places.at(place).set(shape.place(layer, expert));
            }
        });
        self.team.meet()
    }

    /// The rest of the layer: `weights` are those of the chosen experts. Called by all threads; whether all goes well.
    pub(super) fn apply<W: Weights>(&mut self, at: Through, weights: &W) -> bool {
        self.up(at, weights) && self.down(weights) && self.mix(at)
    }

    fn up<W: Weights>(&mut self, at: Through, weights: &W) -> bool {
        let (job, shape, lanes) = (self.job, &self.job.shape, self.team.lanes());
        let blocks = shape.inner / ROWS;
        let state = state_of(job, at.layer) / WORD;
        self.team.each(shape.chosen * blocks, |piece| {
            let (which, row) = (piece / blocks, piece % blocks * ROWS);
            let words = shape.hidden / WORD;
            let first = job.places.at(which).peek() / WORD + row * words;
            let products = |first| {
                let block = Block { first, words };
                let parts = weights.times(lanes, block, |word| vector(&job.states, state + word));
                summed(lanes, job.meeting.note(parts).unwrap_or_default())
            };
            let (gate, up) = (products(first), products(first + shape.matrix_bytes() / WORD));
            if lanes.is_leader() {
                for (row, (gate, up)) in (row..).zip(gate.into_iter().zip(up)) {
                    let number = activation(gate, up, shape.hidden);
                    // SAFETY:
                    // - these rows are this warp's in this step, and nobody reads them
                    unsafe { job.activations.write(which * shape.inner + row, number) };
                }
            }
        });
        self.team.meet()
    }

    fn down<W: Weights>(&mut self, weights: &W) -> bool {
        let (job, shape, lanes) = (self.job, &self.job.shape, self.team.lanes());
        let blocks = shape.hidden / ROWS;
        self.team.each(shape.chosen * blocks, |piece| {
            let (which, row) = (piece / blocks, piece % blocks * ROWS);
            let words = shape.inner / WORD;
            let first = (job.places.at(which).peek() + 2 * shape.matrix_bytes()) / WORD + row * words;
            let numbers = which * words;
            let parts =
                weights.times(lanes, Block { first, words }, |word| vector(&job.activations, numbers + word));
            let products = summed(lanes, job.meeting.note(parts).unwrap_or_default());
            if lanes.is_leader() {
                for (row, product) in (row..).zip(products) {
                    let weighted = product * weight_of_place(which, shape.chosen);
                    job.sums.at(row).count(weighted.cast_unsigned());
                }
            }
        });
        self.team.meet()
    }

    fn mix(&mut self, at: Through) -> bool {
        let (job, shape) = (self.job, &self.job.shape);
        let (last, next) = (state_of(job, at.layer), state_of(job, at.layer + 1));
        self.team.each_lane(shape.hidden, |index| {
            let sum = job.sums.at(index);
            // SAFETY:
            // - nobody writes the layer's own state in its last step
            let state = unsafe { job.states.read::<i8>(last + index) };
            let number = shape.mixed(state, token(at.token, index), sum.peek().cast_signed());
            sum.set(0);
            // SAFETY:
            // - each number is one lane's in this step, and nobody reads them
            unsafe { job.states.write(next + index, number) };
            if at.layer + 1 == shape.layers {
                // SAFETY:
                // - as above
                unsafe { job.results.write(at.index * shape.hidden + index, number) };
            }
        });
        self.team.meet()
    }
}

/// Where the state begins that a layer reads.
const fn state_of(job: &Job, layer: u64) -> u64 {
    layer % 2 * job.shape.hidden
}

/// Sixteen numbers that an earlier step has made.
#[inline]
fn vector(cells: &Cells, word: u64) -> u128 {
    // SAFETY:
    // - written in an earlier step, which all threads have ended; nobody writes them in this one
    unsafe { cells.read::<u128>(word) }
}

//! The layers as one thread of the host does them, number by number.

use std::io;
use std::os::unix::fs::FileExt as _;

use super::Stack;
use crate::kernels::experts::{activation, token, weight_of_place};

/// A row of a matrix times a vector.
fn product(row: &[u8], vector: &[i8]) -> i64 {
    row.iter().zip(vector).map(|(weight, number)| i64::from(weight.cast_signed()) * i64::from(*number)).sum()
}

/// A matrix times a vector.
fn products(matrix: &[u8], vector: &[i8]) -> Vec<i64> {
    matrix.chunks_exact(vector.len()).map(|row| product(row, vector)).collect()
}

impl Stack {
    fn read(&self, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let mut read = vec![0; bytes as usize];
        self.file.read_exact_at(&mut read, at)?;
        Ok(read)
    }

    /// The experts that a layer needs for a state, the most needed first.
    fn chosen(&self, layer: u64, state: &[i8]) -> io::Result<Vec<u64>> {
        let bytes = self.shape.router_bytes();
        let scores = products(&self.read(self.routers_at + layer * bytes, bytes)?, state);
        let mut experts: Vec<u64> = (0..self.shape.experts).collect();
        experts.sort_by_key(|expert| (-scores[*expert as usize], *expert));
        experts.truncate(self.shape.chosen as usize);
        Ok(experts)
    }

    /// The states after the last layer of so many tokens, one behind the other.
    ///
    /// # Errors
    /// The system's.
    pub fn states(&self, first: u64, count: u64) -> io::Result<Vec<i8>> {
        let shape = &self.shape;
        let mut states = Vec::new();
        for number in first..first + count {
            let word: Vec<i8> = (0..shape.hidden).map(|index| token(number, index)).collect();
            let mut state = word.clone();
            for layer in 0..shape.layers {
                let mut sums = vec![0; state.len()];
                for (place, expert) in (0..).zip(self.chosen(layer, &state)?) {
                    let at = self.experts_at + shape.place(layer, expert);
                    let weights = self.read(at, shape.expert_bytes())?;
                    let (gate, rest) = weights.split_at(shape.matrix_bytes() as usize);
                    let (up, down) = rest.split_at(shape.matrix_bytes() as usize);
                    let pairs = products(gate, &state).into_iter().zip(products(up, &state));
                    let inner: Vec<i8> = pairs.map(|(gate, up)| activation(gate, up, shape.hidden)).collect();
                    for (sum, product) in sums.iter_mut().zip(products(down, &inner)) {
                        *sum += product * weight_of_place(place, shape.chosen);
                    }
                }
                for ((state, word), sum) in state.iter_mut().zip(&word).zip(sums) {
                    *state = shape.mixed(*state, *word, sum);
                }
            }
            states.extend(state);
        }
        Ok(states)
    }
}

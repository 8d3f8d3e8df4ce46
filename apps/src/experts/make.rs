//! Weights that are made up: the same seed always makes the same bytes.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use super::header;
use crate::cli::{Failure, about, reason};
use crate::kernels::experts::Shape;
use crate::kernels::mixed;

/// Makes a stack's file, in place of one that is there: its length in bytes.
///
/// # Errors
/// The system's.
pub fn make(path: &Path, shape: &Shape, seed: u64) -> Result<u64, Failure> {
    write(path, shape, seed).map_err(|error| about(path, reason(&error)))
}

fn write(path: &Path, shape: &Shape, seed: u64) -> io::Result<u64> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (header, seed) = (header(shape), mixed(seed));
    file.write_all(&header)?;
    // Sizes are multiples of 16.
    let bytes = shape.layers * (shape.router_bytes() + shape.experts * shape.expert_bytes());
    for word in 0..bytes / 8 {
        let numbers = mixed(seed ^ mixed(word)).to_le_bytes();
        // As many below 0 as above.
        file.write_all(&numbers.map(|number| number.cast_signed().max(-127).cast_unsigned()))?;
    }
    file.flush()?;
    Ok(header.len() as u64 + bytes)
}

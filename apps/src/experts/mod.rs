//! Stacks of mixture-of-experts layers in safetensors files: their layout, a generator of weights, and the layers of [`crate::kernels::experts`] as
//! one thread of the host does them, to compare with.
//!
//! The tensors are of type `I8`: `layers.L.router` (experts × hidden) of all layers, and then, of all layers and experts,
//! `layers.L.experts.E.gate` and `.up` (inner × hidden) and `.down` (hidden × inner). The metadata have the sizes, and how many experts a token
//! needs. The weights begin at a multiple of 64 KiB.

mod make;
mod plain;

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::cli::{Failure, about, reason};
use crate::kernels::experts::Shape;

pub use make::make;

/// The name of the sizes among the metadata.
const SIZES: &str = "\"gpufs_experts\":\"";
/// Where the weights begin: at a multiple of this.
const ALIGNMENT: u64 = 64 << 10;
/// The longest header that safetensors has.
const HEADER_BYTES_MAX: u64 = 100_000_000;
/// The most numbers of a state, and between an expert's matrices: sums of products have 32 bits.
const NUMBERS_MAX: u64 = 1 << 16;
/// The most layers, and experts of a layer; and experts of all layers, whose names the header holds.
const COUNT_MAX: u64 = 1 << 12;
const EXPERTS_MAX: u64 = 1 << 18;

/// A stack's file.
#[derive(Debug)]
pub struct Stack {
    /// Open for reading.
    pub file: File,
    /// Its sizes.
    pub shape: Shape,
    /// Where the routers begin, in bytes.
    pub routers_at: u64,
    /// Where the experts begin, in bytes.
    pub experts_at: u64,
}

/// Whether there can be such a stack, and why not.
///
/// # Errors
/// A size that is too small, too large, or no multiple of 16.
pub fn check(shape: &Shape) -> Result<(), String> {
    let Shape { layers, experts, chosen, hidden, inner } = *shape;
    let is_size = |size: u64| (16..=NUMBERS_MAX).contains(&size) && size.is_multiple_of(16);
    if !(1..=COUNT_MAX).contains(&layers) || !(1..=COUNT_MAX).contains(&experts) {
        Err(format!("{layers} layers of {experts} experts: from 1 to {COUNT_MAX} of each"))
    } else if layers * experts > EXPERTS_MAX {
        Err(format!("{layers} layers of {experts} experts: at most {EXPERTS_MAX} experts in all"))
    } else if !(1..=experts).contains(&chosen) {
        Err(format!("{chosen} chosen experts: from 1 to {experts}, which there are"))
    } else if !is_size(hidden) || !is_size(inner) {
        Err(format!("states of {hidden} numbers, {inner} inside: multiples of 16 from 16 to {NUMBERS_MAX}"))
    } else {
        Ok(())
    }
}

/// The file's first bytes, up to the weights.
fn header(shape: &Shape) -> Vec<u8> {
    let Shape { layers, experts, chosen, hidden, inner } = *shape;
    let mut text = format!("{{\"__metadata__\":{{{SIZES}{layers} {experts} {chosen} {hidden} {inner}\"}}");
    let mut at = 0;
    let mut tensor = |name: String, rows: u64, columns: u64| {
        let end = at + rows * columns;
        // A string takes whatever is written.
        let _ = write!(
            text,
            ",\"{name}\":{{\"dtype\":\"I8\",\"shape\":[{rows},{columns}],\"data_offsets\":[{at},{end}]}}"
        );
        at = end;
    };
    for layer in 0..layers {
        tensor(format!("layers.{layer}.router"), experts, hidden);
    }
    for (layer, expert) in (0..layers).flat_map(|layer| (0..experts).map(move |expert| (layer, expert))) {
        let name = format!("layers.{layer}.experts.{expert}");
        tensor(format!("{name}.gate"), inner, hidden);
        tensor(format!("{name}.up"), inner, hidden);
        tensor(format!("{name}.down"), hidden, inner);
    }
    text.push('}');
    // Blanks at its end are a part of the header.
    let bytes = (8 + text.len() as u64).next_multiple_of(ALIGNMENT);
    let mut header = (bytes - 8).to_le_bytes().to_vec();
    header.extend(text.into_bytes());
    header.resize(bytes as usize, b' ');
    header
}

impl Stack {
    /// Opens a stack's file.
    ///
    /// # Errors
    /// The system's; it is no such file, or shorter than it says.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| about(path, reason(&error));
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let wrong = || about(path, "not a stack of experts; 'experts make' makes one");
        let mut length = [0; 8];
        file.read_exact_at(&mut length, 0).map_err(|_| wrong())?;
        let length = u64::from_le_bytes(length);
        if length > HEADER_BYTES_MAX.min(bytes) {
            return Err(wrong());
        }
        let mut found = vec![0; 8 + length as usize];
        file.read_exact_at(&mut found, 0).map_err(|_| wrong())?;
        let shape = sizes(&found).filter(|shape| check(shape).is_ok()).ok_or_else(wrong)?;
        if found != header(&shape) {
            return Err(wrong());
        }
        let routers_at = found.len() as u64;
        let experts_at = routers_at + shape.layers * shape.router_bytes();
        let wanted = experts_at + shape.layers * shape.experts * shape.expert_bytes();
        if bytes < wanted {
            return Err(about(path, format!("has {bytes} bytes of {wanted}; it was cut, or is being made")));
        }
        Ok(Self { file, shape, routers_at, experts_at })
    }
    /// Bytes of all experts.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.shape.layers * self.shape.experts * self.shape.expert_bytes()
    }
}

/// The sizes that a header names.
fn sizes(header: &[u8]) -> Option<Shape> {
    let text = std::str::from_utf8(header.get(8..)?).ok()?;
    let (_, rest) = text.split_once(SIZES)?;
    let (sizes, _) = rest.split_once('"')?;
    let mut sizes = sizes.split(' ').map(|size| size.parse().ok());
    let mut next = || sizes.next()?;
    Some(Shape { layers: next()?, experts: next()?, chosen: next()?, hidden: next()?, inner: next()? })
}

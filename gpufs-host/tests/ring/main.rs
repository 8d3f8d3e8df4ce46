//! Rings in every mode and memory, driven by a blocking client with one producer: the same operations must give the same
//! results whoever serves them.
//!
//! What the machine forbids is printed as `SKIP kind: reason`.

mod chains;
mod client;
mod memory;
mod operations;
mod paths;
mod refusals;
mod service;
mod waiting;

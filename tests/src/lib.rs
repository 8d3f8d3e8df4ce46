//! Helpers shared by the whole-stack tests.

pub mod differential;
pub mod random;

//! The cases, by group.

pub mod asynchronous;
pub mod channels;
pub mod differential;
pub mod faults;
pub mod printing;
pub mod sessions;
pub mod sharing;
pub mod sizes;
pub mod views;

use super::Bench;

/// A program of its own, and its name.
pub type Inner = (&'static str, fn(&Bench));

/// What the program `suite` runs for a case that needs a process whose output it sees.
pub const INNER: &[Inner] = &[("standard_output", sessions::print_to_standard_output)];

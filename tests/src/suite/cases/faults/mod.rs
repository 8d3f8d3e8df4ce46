//! What goes wrong: each call gives the errno that the system call gives, what a stream accepted is kept, and the session stays usable.
//!
//! | file | what |
//! |---|---|
//! | `errors.rs` | calls that fail |
//! | `full.rs` | full devices and disks |
//! | `paths.rs` | calls on paths, and on descriptors that are closed or another kind of file's |
//! | `limits.rs` | limits of the process, its user and the session |
//! | `deadlines.rs` | waits past the deadline |

mod deadlines;
mod errors;
mod full;
mod limits;
mod paths;

pub use deadlines::*;
pub use errors::*;
pub use full::*;
pub use limits::*;
pub use paths::*;

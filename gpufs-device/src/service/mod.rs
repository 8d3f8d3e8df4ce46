//! Calls that io_uring has no operation for: the host does them, on the service ring (`gpufs_core::protocol::services`). Each call is made by any
//! lanes at once, each for itself; a warp's calls go to the host as one batch.
//!
//! | file | calls |
//! |---|---|
//! | `path.rs` | `readlink`: calls on paths |

mod path;

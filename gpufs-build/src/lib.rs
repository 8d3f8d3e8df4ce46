//! Builds device programs that use gpufs: finds the toolchain, sets every flag that device code needs, and says what is missing.
//!
//! A package has its kernels in its library, without `std` when it is built for a GPU, and its program beside it. Its `build.rs` is
//!
//! ```no_run
//! gpufs_build::program();
//! ```
//!
//! and its `main.rs` embeds what that builds, for `gpufs_host::Builder::open`:
//!
//! ```ignore
//! // Not compiled here: the variable is one of a package that has such a build.rs.
//! const PROGRAM: &[u8] = include_bytes!(env!("GPUFS_PROGRAM"));
//! ```
//!
//! `cargo gpufs new` makes such a package.
//!
//! | file | what |
//! |---|---|
//! | `gpu.rs` | the GPUs and the flags of the compiler for each |
//! | `toolchain.rs` | where Rust's, LLVM's and CUDA's programs are found |
//! | `compile.rs` | one build of a package's kernels |
//! | `ptx.rs` | what is done to PTX before it is assembled |
//! | `preserve.rs` | which functions leave registers to their callers |
//! | `stack.rs` | how much stack kernels take |
//! | `assemble.rs` | PTX assembled for one GPU |
//! | `script.rs` | what a build script does |

mod assemble;
mod compile;
mod gpu;
mod preserve;
mod ptx;
mod script;
mod stack;
mod toolchain;

pub use assemble::assemble;
pub use compile::{Emit, Kernels};
pub use gpu::{Gpu, GpuError};
pub use preserve::has_light_functions;
pub use ptx::{finish, is_whole};
pub use script::{ARCHITECTURES, program};
pub use toolchain::{Toolchain, cuda_tools, llvm_tool, ptxas};

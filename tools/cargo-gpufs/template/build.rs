//! Builds the kernels of `src/lib.rs` as a program for GPUs.

fn main() {
    gpufs_build::program();
}

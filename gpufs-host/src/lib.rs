//! The host half of gpufs.

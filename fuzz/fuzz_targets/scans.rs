//! The target `scans` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpufs_fuzz::scans(data));

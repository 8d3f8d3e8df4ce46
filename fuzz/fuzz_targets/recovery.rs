//! The target `recovery` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpufs_fuzz::recovery(data));

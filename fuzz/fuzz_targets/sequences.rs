//! The target `sequences` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gpufs_fuzz::sequences(data));

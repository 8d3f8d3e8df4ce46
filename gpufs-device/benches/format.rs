//! How long formatting takes on a CPU, beside the C library's `snprintf`.
#![expect(unsafe_code, reason = "the C library's snprintf")]

use divan::black_box;
use gpufs_device::format::{Argument, snprintf};

fn main() {
    divan::main();
}

/// The line of the printing benchmark.
#[divan::bench]
fn line() -> usize {
    let mut text = [0; 64];
    let arguments =
        [Argument::from(black_box(16_000_u64)), Argument::from(7_u32), Argument::from(black_box(8000.5_f64))];
    snprintf(black_box(&mut text), b"thread %lu iter %u value %f\n", &arguments).expect("a format that fits")
}

/// The same by the C library.
#[divan::bench]
fn line_by_the_c_library() -> i32 {
    let mut text = [0; 64];
    // SAFETY:
    // - a buffer of that length, and the arguments that the format names
    unsafe {
        libc::snprintf(
            black_box(&mut text).as_mut_ptr(),
            64,
            c"thread %lu iter %u value %f\n".as_ptr(),
            black_box(16_000_u64),
            7_u32,
            black_box(8000.5_f64),
        )
    }
}

/// Seventeen digits of a short double, of a large one and of the smallest.
#[divan::bench(args = ["0.1", "1e300", "5e-324"])]
fn exact(value: &str) -> usize {
    let mut text = [0; 64];
    let value: f64 = black_box(value).parse().expect("a number");
    snprintf(black_box(&mut text), b"%.17g", &[Argument::from(value)]).expect("a format that fits")
}

//! Decimal digits as the nearest floating point number. The syntax of C's `strtod` is read in `c/strtod.c`.

/// The number nearest to decimal text, ties to even, such as `12.5e-3`.
fn nearest<T: core::str::FromStr>(text: &[u8]) -> Option<T> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// The bits of the `double`, or of the `float`, nearest to decimal text; all ones if the text is no such number.
///
/// # Safety
/// `text` has `bytes` bytes, which do not change during the call.
#[cfg_attr(any(target_arch = "nvptx64", target_arch = "amdgpu"), unsafe(no_mangle))]
pub unsafe extern "C" fn gpufs_libc_decimal(text: *const u8, bytes: usize, is_float: i32) -> u64 {
    // SAFETY:
    // - readable and unchanged, by this function's contract; bytes have no alignment
    let text = unsafe { core::slice::from_raw_parts(text, bytes) };
    if is_float != 0 {
        nearest(text).map_or(u64::MAX, |value: f32| u64::from(value.to_bits()))
    } else {
        nearest(text).map_or(u64::MAX, f64::to_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::gpufs_libc_decimal;

    fn double(text: &str) -> f64 {
        // SAFETY:
        // - a string's bytes
        f64::from_bits(unsafe { gpufs_libc_decimal(text.as_ptr(), text.len(), 0) })
    }

    #[test]
    fn decimals_are_the_nearest_numbers() {
        for (text, value) in
            [("1", 1.0), (".5", 0.5), ("2.", 2.0), ("1e400", f64::INFINITY), ("5e-324", 5e-324)]
        {
            assert_eq!(double(text), value, "{text}");
        }
        assert_eq!(double("9007199254740993"), 9_007_199_254_740_992.0, "a tie goes to even");
        // SAFETY:
        // - a string's bytes
        assert_eq!(unsafe { gpufs_libc_decimal("0.1".as_ptr(), 3, 1) }, u64::from(0.1_f32.to_bits()));
        // SAFETY:
        // - a string's bytes
        assert_eq!(unsafe { gpufs_libc_decimal("x".as_ptr(), 1, 0) }, u64::MAX);
    }
}

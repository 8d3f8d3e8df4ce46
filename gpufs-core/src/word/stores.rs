//! Stores that one lane of a warp makes in the middle of what all do.
#![expect(unsafe_code, reason = "stores to places that callers promise")]

/// Stores a word, or does not: on NVPTX without a branch, at whose end the lanes of a warp would wait for the one that stores.
///
/// # Safety
/// Where it `does`: `target` is a place for a word, in global memory, that the caller alone uses.
#[inline(always)]
#[expect(clippy::inline_always, reason = "two instructions")]
#[cfg(target_arch = "nvptx64")]
pub unsafe fn store_if(does: bool, target: *mut u64, word: u64) {
    // SAFETY:
    // - this function's contract; where it does not, nothing is stored
    unsafe {
        core::arch::asm!(
            "{{",
            ".reg .pred does;",
            "setp.ne.u32 does, {does}, 0;",
            "@does st.global.u64 [{target}], {word};",
            "}}",
            does = in(reg32) u32::from(does),
            target = in(reg64) target,
            word = in(reg64) word,
            options(nostack)
        );
    }
}

/// Stores two words, one behind the other, or does not. See [`store_if`].
///
/// # Safety
/// Where it `does`: `target` is a place for two words, in global memory, that the caller alone uses.
#[inline(always)]
#[expect(clippy::inline_always, reason = "three instructions")]
#[cfg(target_arch = "nvptx64")]
pub unsafe fn store_two_if(does: bool, target: *mut u64, [first, second]: [u64; 2]) {
    // SAFETY:
    // - this function's contract; where it does not, nothing is stored
    unsafe {
        core::arch::asm!(
            "{{",
            ".reg .pred does;",
            "setp.ne.u32 does, {does}, 0;",
            "@does st.global.u64 [{target}], {first};",
            "@does st.global.u64 [{target} + 8], {second};",
            "}}",
            does = in(reg32) u32::from(does),
            target = in(reg64) target,
            first = in(reg64) first,
            second = in(reg64) second,
            options(nostack)
        );
    }
}

/// Stores a word, or does not.
///
/// # Safety
/// Where it `does`: `target` is a place for a word that the caller alone uses.
#[inline]
#[cfg(not(target_arch = "nvptx64"))]
pub const unsafe fn store_if(does: bool, target: *mut u64, word: u64) {
    if does {
        // SAFETY:
        // - this function's contract
        unsafe { target.write(word) };
    }
}

/// Stores two words, one behind the other, or does not.
///
/// # Safety
/// Where it `does`: `target` is a place for two words that the caller alone uses.
#[inline]
#[cfg(not(target_arch = "nvptx64"))]
pub const unsafe fn store_two_if(does: bool, target: *mut u64, words: [u64; 2]) {
    if does {
        // SAFETY:
        // - this function's contract
        unsafe { target.cast::<[u64; 2]>().write(words) };
    }
}

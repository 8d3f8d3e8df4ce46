//! Memory that will be used soon.

/// Has a CPU bring what lies at an address into its caches meanwhile, for code that knows several addresses before it uses the first of them. A hint,
/// which may name any address. Nothing on a GPU, where other warps go on while one waits.
#[inline]
pub fn fetch_ahead(address: u64) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY:
        // - a hint, which accesses nothing as far as the program can tell, whatever lies there
        #[expect(unsafe_code, reason = "an instruction")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(address as *const i8);
        };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

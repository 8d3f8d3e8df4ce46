//! What a C program needs on a GPU beside files and streams, which are `gpufs-device`'s. `gpufs run` links it to such programs; nothing else
//! does.
//!
//! | where | what |
//! |---|---|
//! | `src/math.rs` | `<math.h>` |
//! | `src/decimal.rs` | decimal digits as a number, for `strtod` |
//! | `src/error.rs` | `strerror` |
//! | `c/string.c` | `<string.h>`, `<strings.h>` |
//! | `c/stdlib.c`, `strtod.c`, `heap.c` | `<stdlib.h>`, `<ctype.h>` |
//! | `c/time.c` | `<time.h>` |
//! | `c/tools.c` | `<getopt.h>`, `<err.h>`, `<libgen.h>` |
//! | `c/start.c` | the kernel that calls `main`; `exit`, `abort`, `assert`, `getenv`, `signal`, `longjmp` |
//! | `include/gpufs/libc` | the headers |
//!
//! C is compiled with each program by clang. The Rust half is compiled once. On the host it has the same functions, for tests, without C's
//! names.
#![no_std]
#![expect(unsafe_code, reason = "exported names")]

pub mod decimal;
pub mod error;
pub mod math;

/// Where a panic of this crate would lead, which has none.
#[cfg(all(feature = "runtime", any(target_arch = "nvptx64", target_arch = "amdgpu")))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Ends: never. Nothing leads here.
    loop {}
}

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
//! | `src/wide.rs`, `c/wide.c` | `<wchar.h>`, `<wctype.h>`, multibyte characters |
//! | `c/environment.c`, `c/process.c` | `setenv` and its kin, `<unistd.h>` beside files, `system`, `<error.h>` |
//! | `c/names.c`, `folders.c`, `search.c`, `strptime.c` | `<fnmatch.h>`, `strsignal`; `<glob.h>`, `scandir`; `<search.h>`; `strptime` |
//! | `c/walk.c`, `users.c` | `<ftw.h>`; `<pwd.h>`, `<grp.h>` |
//! | `c/tools.c` | `<getopt.h>`, `<err.h>`, `<libgen.h>` |
//! | `c/inet.c` | `<arpa/inet.h>` |
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
pub mod wide;

/// Where a panic of this crate would lead, which has none.
#[cfg(all(feature = "runtime", any(target_arch = "nvptx64", target_arch = "amdgpu")))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Ends: never. Nothing leads here.
    loop {}
}

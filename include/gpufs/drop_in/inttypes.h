/* Found in the place of a C library's <inttypes.h>, which it reads: with C23's macros for %b, which an older one lacks. */
#pragma GCC system_header
#include_next <inttypes.h>
#if !defined(PRIb8) && !defined(GPUFS_READING_C_LIBRARY_)
#include <gpufs/standard/binary.h>
#endif

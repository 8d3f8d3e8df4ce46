/* Found in the place of glibc's <stdio_ext.h>, whose functions look into a FILE: those that have a meaning for gpufs's. A source that uses
 * another one does not compile. See <gpufs/drop_in.h>. */
#pragma GCC system_header
#if defined(__CUDACC__) || defined(__HIP__) || defined(GPUFS_READING_C_LIBRARY_)
#include_next <stdio_ext.h>
#elif !defined(GPUFS_STANDARD_STDIO_EXT_H)
#define GPUFS_STANDARD_STDIO_EXT_H
#include <gpufs/standard/stdio.h>
#define FSETLOCKING_QUERY 0
#define FSETLOCKING_INTERNAL 1
#define FSETLOCKING_BYCALLER 2
/* Threads of a grid share streams: each call locks. */
GPUFS_STANDARD_(int, __fsetlocking, (FILE *file, int type), (file, type), (void)file; (void)type;
                return FSETLOCKING_INTERNAL;)
GPUFS_STANDARD_(void, _flushlbf, (void), (), (void)fflush(0);)
GPUFS_MISSING_(size_t, __fbufsize)
GPUFS_MISSING_(size_t, __fpending)
GPUFS_MISSING_(int, __flbf)
GPUFS_MISSING_(int, __freadable)
GPUFS_MISSING_(int, __fwritable)
GPUFS_MISSING_(int, __freading)
GPUFS_MISSING_(int, __fwriting)
GPUFS_MISSING_(void, __fpurge)
#endif

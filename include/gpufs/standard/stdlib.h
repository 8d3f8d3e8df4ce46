/* <stdlib.h> of sources that know nothing of gpufs: the calls that open files. */
#ifndef GPUFS_STANDARD_STDLIB_H
#define GPUFS_STANDARD_STDLIB_H

#include <gpufs/standard/mode.h>

#pragma GCC system_header

#if defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_READING_C_LIBRARY_
#include <gpufs/standard/files_hide.h>
#include <stdlib.h>
#include <gpufs/standard/files_show.h>
#undef GPUFS_READING_C_LIBRARY_
#endif

#if defined(GPUFS_WITH_POSIX_)
GPUFS_STANDARD_(int, mkstemp, (char *path), (path), return gpufs_value_(gpufs_mkstemp(gpufs_used_(), path));)
#endif

#endif

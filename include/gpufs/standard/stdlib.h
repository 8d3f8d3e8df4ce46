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
#if defined(__USE_LARGEFILE64)
GPUFS_STANDARD_(int, mkstemp64, (char *path), (path), return mkstemp(path);)
#endif
#if defined(GPUFS_WITH_GNU_)
/* Flags: 0 or O_CLOEXEC, which all descriptors of a session have; EINVAL for others. */
GPUFS_STANDARD_(int, mkostemp, (char *path, int flags), (path, flags),
                if ((flags & ~02000000) != 0) { gpufs_set_errno_(22); return -1; }
                return gpufs_value_(gpufs_mkstemp(gpufs_used_(), path));)
GPUFS_MISSING_(int, mkstemps)
GPUFS_MISSING_(int, mkostemps)
#if defined(__USE_LARGEFILE64)
GPUFS_STANDARD_(int, mkostemp64, (char *path, int flags), (path, flags), return mkostemp(path, flags);)
GPUFS_MISSING_(int, mkstemps64)
GPUFS_MISSING_(int, mkostemps64)
#endif
#endif
#endif

#endif

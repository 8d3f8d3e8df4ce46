/* <sys/file.h> of sources that know nothing of gpufs: flock(2). */
#ifndef GPUFS_STANDARD_SYS_FILE_H
#define GPUFS_STANDARD_SYS_FILE_H

/* glibc's includes it. */
#include <gpufs/standard/fcntl.h>

#pragma GCC system_header

#if defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_READING_C_LIBRARY_
#include <gpufs/standard/files_hide.h>
#include <sys/file.h>
#include <gpufs/standard/files_show.h>
#undef GPUFS_READING_C_LIBRARY_
#else
#define LOCK_SH 1
#define LOCK_EX 2
#define LOCK_NB 4
#define LOCK_UN 8
#endif

GPUFS_STANDARD_(int, flock, (int descriptor, int operation), (descriptor, operation),
                return gpufs_value_(gpufs_flock(gpufs_used_(), descriptor, operation));)

#endif

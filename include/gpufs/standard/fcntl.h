/* <fcntl.h> of sources that know nothing of gpufs: opening, and ranges of files. */
#ifndef GPUFS_STANDARD_FCNTL_H
#define GPUFS_STANDARD_FCNTL_H

#include <errno.h>

#include <gpufs/standard/mode.h>

#pragma GCC system_header

#if defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_READING_C_LIBRARY_
#include <gpufs/standard/files_hide.h>
#include <fcntl.h>
#include <gpufs/standard/files_show.h>
#undef GPUFS_READING_C_LIBRARY_
#else
#include <gpufs/standard/types.h>
#define O_ACCMODE 03
#define O_RDONLY 0
#define O_WRONLY 01
#define O_RDWR 02
#define O_CREAT 0100
#define O_EXCL 0200
#define O_NOCTTY 0400
#define O_TRUNC 01000
#define O_APPEND 02000
#define O_NONBLOCK 04000
#define O_DSYNC 010000
#define O_DIRECT 040000
#define O_LARGEFILE 0
#define O_DIRECTORY 0200000
#define O_NOFOLLOW 0400000
#define O_NOATIME 01000000
#define O_CLOEXEC 02000000
#define O_SYNC 04010000
#define O_PATH 010000000
#define O_TMPFILE 020200000
#define AT_FDCWD (-100)
#define AT_SYMLINK_NOFOLLOW 0x100
#define AT_REMOVEDIR 0x200
#define AT_SYMLINK_FOLLOW 0x400
#define AT_EMPTY_PATH 0x1000
#define POSIX_FADV_NORMAL 0
#define POSIX_FADV_RANDOM 1
#define POSIX_FADV_SEQUENTIAL 2
#define POSIX_FADV_WILLNEED 3
#define POSIX_FADV_DONTNEED 4
#define POSIX_FADV_NOREUSE 5
#endif

/* The mode follows the flags where a file may be made. */
#define GPUFS_STANDARD_MODE_ARGUMENT_ \
    va_list list; mode_t mode = 0; va_start(list, flags); \
    if ((flags & (O_CREAT | 020000000)) != 0) { mode = va_arg(list, mode_t); } \
    va_end(list);
GPUFS_STANDARD_PLAIN_(int, open, (const char *path, int flags, ...),
                      GPUFS_STANDARD_MODE_ARGUMENT_ return gpufs_value_(gpufs_open(gpufs_used_(), path, flags, mode));)
GPUFS_STANDARD_PLAIN_(int, openat, (int folder, const char *path, int flags, ...),
                      GPUFS_STANDARD_MODE_ARGUMENT_
                      return gpufs_value_(gpufs_openat(gpufs_used_(), folder, path, flags, mode));)
GPUFS_STANDARD_(int, creat, (const char *path, mode_t mode), (path, mode),
                return gpufs_value_(gpufs_creat(gpufs_used_(), path, mode));)
#if defined(GPUFS_WITH_POSIX_)
/* The error is the result. */
#define GPUFS_STANDARD_ERROR_(call) int before = errno, result; result = gpufs_value_(call) == 0 ? 0 : errno; errno = before; return result;
GPUFS_STANDARD_(int, posix_fadvise, (int descriptor, off_t offset, off_t length, int advice), (descriptor, offset, length, advice),
                GPUFS_STANDARD_ERROR_(gpufs_posix_fadvise(gpufs_used_(), descriptor, offset, length, advice)))
GPUFS_STANDARD_(int, posix_fallocate, (int descriptor, off_t offset, off_t length), (descriptor, offset, length),
                GPUFS_STANDARD_ERROR_(gpufs_fallocate(gpufs_used_(), descriptor, 0, offset, length)))
#endif
#if defined(GPUFS_WITH_GNU_)
GPUFS_STANDARD_(int, fallocate, (int descriptor, int mode, off_t offset, off_t length),
                (descriptor, mode, offset, length),
                return gpufs_value_(gpufs_fallocate(gpufs_used_(), descriptor, mode, offset, length));)
GPUFS_STANDARD_(int, sync_file_range, (int descriptor, off_t offset, off_t length, unsigned flags),
                (descriptor, offset, length, flags),
                return gpufs_value_(gpufs_sync_file_range(gpufs_used_(), descriptor, offset, length, flags));)
#endif

#endif

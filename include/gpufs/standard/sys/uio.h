/* <sys/uio.h> of sources that know nothing of gpufs: several pieces of memory at once. */
#ifndef GPUFS_STANDARD_SYS_UIO_H
#define GPUFS_STANDARD_SYS_UIO_H

#include <gpufs/standard/mode.h>

#pragma GCC system_header

#if defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_READING_C_LIBRARY_
#include <gpufs/standard/files_hide.h>
#include <sys/uio.h>
#include <gpufs/standard/files_show.h>
#undef GPUFS_READING_C_LIBRARY_
#else
#include <gpufs/standard/types.h>
struct iovec {
    void *iov_base;
    size_t iov_len;
};
#endif

#define GPUFS_PIECES_ ((const gpufs_iovec *)(const void *)pieces)
GPUFS_STANDARD_(ssize_t, readv, (int descriptor, const struct iovec *pieces, int count),
                (descriptor, pieces, count),
                return (ssize_t)gpufs_value_(gpufs_readv(gpufs_used_(), descriptor, GPUFS_PIECES_, count));)
GPUFS_STANDARD_(ssize_t, writev, (int descriptor, const struct iovec *pieces, int count),
                (descriptor, pieces, count),
                return (ssize_t)gpufs_value_(gpufs_writev(gpufs_used_(), descriptor, GPUFS_PIECES_, count));)
#if defined(GPUFS_WITH_GNU_)
GPUFS_STANDARD_(ssize_t, preadv, (int descriptor, const struct iovec *pieces, int count, off_t offset),
                (descriptor, pieces, count, offset),
                return (ssize_t)gpufs_value_(gpufs_preadv(gpufs_used_(), descriptor, GPUFS_PIECES_, count, offset));)
GPUFS_STANDARD_(ssize_t, pwritev, (int descriptor, const struct iovec *pieces, int count, off_t offset),
                (descriptor, pieces, count, offset),
                return (ssize_t)gpufs_value_(gpufs_pwritev(gpufs_used_(), descriptor, GPUFS_PIECES_, count, offset));)
GPUFS_STANDARD_(ssize_t, preadv2, (int descriptor, const struct iovec *pieces, int count, off_t offset, int flags),
                (descriptor, pieces, count, offset, flags),
                return (ssize_t)gpufs_value_(gpufs_preadv2(gpufs_used_(), descriptor, GPUFS_PIECES_, count, offset, flags));)
GPUFS_STANDARD_(ssize_t, pwritev2, (int descriptor, const struct iovec *pieces, int count, off_t offset, int flags),
                (descriptor, pieces, count, offset, flags),
                return (ssize_t)gpufs_value_(gpufs_pwritev2(gpufs_used_(), descriptor, GPUFS_PIECES_, count, offset, flags));)
#if defined(__USE_LARGEFILE64)
GPUFS_STANDARD_(ssize_t, preadv64, (int descriptor, const struct iovec *pieces, int count, off64_t offset),
                (descriptor, pieces, count, offset), return preadv(descriptor, pieces, count, offset);)
GPUFS_STANDARD_(ssize_t, pwritev64, (int descriptor, const struct iovec *pieces, int count, off64_t offset),
                (descriptor, pieces, count, offset), return pwritev(descriptor, pieces, count, offset);)
GPUFS_MISSING_(ssize_t, preadv64v2)
GPUFS_MISSING_(ssize_t, pwritev64v2)
#endif
#endif

#endif

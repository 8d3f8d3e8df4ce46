/* What the host does for kernels, because io_uring has no operation for it. For CUDA and HIP kernels and for CPU
 * lanes.
 *
 * Each thread calls for itself; the calls of a warp go to a thread of the host as one batch. That thread starts with
 * the first such call of a session. Every call fails with -1 and EINVAL for a null session, EFAULT for null memory or a
 * null path, or an error of the system call. A relative path begins at the process's working directory.
 */
#ifndef GPUFS_SERVICE_H
#define GPUFS_SERVICE_H

#include <gpufs/gpufs.h>

/* Where a symbolic link points to (readlink(2)): at most `bytes` bytes of it, without a NUL. Bytes, or -1: EINVAL where
 * the path is not a symbolic link or `bytes` is 0. */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_readlink(gpufs_session *session, const char *path, char *into, size_t bytes) {
    return gpufs_int64_(gpufs_raw_readlink(session, path, into, bytes));
}

#ifdef __cplusplus

namespace gpufs {

/* The standard names. */
GPUFS_BOTH inline Result<int64_t> readlink(Session session, const char *path, char *into, size_t bytes) {
    return gpufs_readlink(session, path, into, bytes);
}

} /* namespace gpufs */

#endif

#endif

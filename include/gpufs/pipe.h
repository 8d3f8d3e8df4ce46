/* Pipes, and counters that are descriptors; splice(2) and tee(2), which pass bytes on. For CUDA and HIP kernels and for CPU lanes.
 *
 * What is made is a descriptor of the session, valid in every kernel: gpufs_read, gpufs_write, gpufs_poll, gpufs_dup,
 * gpufs_close and gpufs_fdopen take it. Each thread calls for itself; a thread that waits for another waits by itself.
 * Every call fails with -1 and EINVAL for a null session, EFAULT for null memory, or an error of the system call. What
 * differs from the system's calls: the table of gpufs-device/src/pipe/mod.rs.
 */
#ifndef GPUFS_PIPE_H
#define GPUFS_PIPE_H

#include <gpufs/raw.h>
#include <gpufs/file.h>

/* Of gpufs_eventfd: each read takes 1 of the count; calls do not wait; it closes on execve(2), as each does. */
#define GPUFS_EFD_SEMAPHORE 01
#define GPUFS_EFD_NONBLOCK 04000
#define GPUFS_EFD_CLOEXEC 02000000
/* Of gpufs_splice and gpufs_tee: a hint; fails with EAGAIN rather than wait for a pipe; more comes soon. */
#define GPUFS_SPLICE_F_MOVE 1
#define GPUFS_SPLICE_F_NONBLOCK 2
#define GPUFS_SPLICE_F_MORE 4

/* A pipe (pipe(2)): the end that is read to `into[0]`, the end that is written to `into[1]`. 0, or -1: EMFILE ... */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_pipe(gpufs_session *session, int *into) {
    return gpufs_int_(gpufs_raw_pipe(session, into));
}
/* The same with GPUFS_O_NONBLOCK and GPUFS_O_CLOEXEC (pipe2(2)). EINVAL for others. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_pipe2(gpufs_session *session, int *into, int flags) {
    return gpufs_int_(gpufs_raw_pipe2(session, into, flags));
}
/* A counter of 64 bits that begins at `initial` (eventfd(2)): a write of 8 bytes adds, a read of 8 bytes waits until it
 * is not 0, and takes all of it, or 1 with GPUFS_EFD_SEMAPHORE. A descriptor, or -1: EINVAL for another flag, EMFILE. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_eventfd(gpufs_session *session, unsigned initial, int flags) {
    return gpufs_int_(gpufs_raw_eventfd(session, initial, flags));
}
/* Moves up to `bytes` bytes between two descriptors, one of them a pipe's at least (splice(2)). With an offset that is
 * not null a file is read or written there, and the offset moves; else at its position. Bytes, 0 at the end, or -1:
 * EINVAL for another flag, without a pipe, for a socket or a terminal; ESPIPE for an offset of a pipe; EAGAIN ... */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_splice(gpufs_session *session, int from, int64_t *from_offset, int to, int64_t *to_offset, size_t bytes,
             unsigned flags) {
    return gpufs_int64_(gpufs_raw_splice(session, from, from_offset, to, to_offset, bytes, flags));
}
/* Copies up to `bytes` bytes of what is in a pipe into another, and leaves them there (tee(2)). Bytes, 0 at the end, or
 * -1: EINVAL for another flag, without two pipes; EAGAIN ... */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_tee(gpufs_session *session, int from, int to, size_t bytes, unsigned flags) {
    return gpufs_int64_(gpufs_raw_tee(session, from, to, bytes, flags));
}

#ifdef __cplusplus

namespace gpufs {

/* The standard names. */
GPUFS_BOTH inline Result<int> pipe(Session session, int *into) { return gpufs_pipe(session, into); }
GPUFS_BOTH inline Result<int> pipe2(Session session, int *into, int flags) {
    return gpufs_pipe2(session, into, flags);
}
GPUFS_BOTH inline Result<int> eventfd(Session session, unsigned initial, int flags) {
    return gpufs_eventfd(session, initial, flags);
}
GPUFS_BOTH inline Result<int64_t> splice(Session session, int from, int64_t *from_offset, int to, int64_t *to_offset,
                                         size_t bytes, unsigned flags) {
    return gpufs_splice(session, from, from_offset, to, to_offset, bytes, flags);
}
GPUFS_BOTH inline Result<int64_t> tee(Session session, int from, int to, size_t bytes, unsigned flags) {
    return gpufs_tee(session, from, to, bytes, flags);
}

} /* namespace gpufs */

#endif

#endif

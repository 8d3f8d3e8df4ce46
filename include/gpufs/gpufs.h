/* What holds for all of gpufs: errors, handles, wrong use, the version. Every other header includes this one.
 *
 * Include <gpufs/stdio.h> for streams, <gpufs/file.h> for descriptors, <gpufs/stat.h> for metadata and
 * paths, <gpufs/host.h> for sessions. All work in CUDA
 * and HIP programs and, for CPU lanes, in ordinary C (C99; printing macros need C11) and C++ (14 or later).
 *
 * Errors. A call that fails returns what the C function of the same name returns: -1, EOF, null, or a short count.
 *
 *   - On the host the error number is in errno, as in C. The CPU lanes of one OS thread share errno. Lanes switch
 *     only inside calls: read errno before the next call.
 *   - In C++ the result itself carries the error number, on the host and on a GPU. (A GPU has no storage per thread
 *     that a library could use for errno.) The result is an ordinary int, long or pointer that also has .error(), 0
 *     for none:
 *
 *         auto printed = fprintf(out, "%d\n", 1);
 *         if (printed < 0 && printed.error() == ENOSPC) ...
 *
 *     The compiler removes it where nothing reads it. No other thread or call can overwrite it.
 *
 * Streams. A gpufs_file pointer is a handle, not an address. Null, a closed stream, and a pointer that is not a
 * stream give EBADF and touch no memory. A handle is valid in every kernel and thread of its session, on that
 * session's device, until the stream is closed. Do not use a handle after its session was closed, nor a GPU session's
 * handle on the host.
 *
 * Sessions. gpufs_host_session() returns the gpufs_session pointer that a kernel takes as an argument. Null gives
 * EINVAL.
 *
 * Wrong use that gpufs detects is an error of the call. The kernel and the GPU continue:
 *
 *     a null session                EINVAL. Before gpufs_host_begin gpufs_host_session() is null: a kernel that is
 *                                   launched too early gets this error
 *     a null or closed stream, or   EBADF, also before the first gpufs_host_begin. An arbitrary 64-bit value passes the
 *     any pointer                   check with probability 1/64; null and ordinary pointers never do
 *     no open descriptor            EBADF
 *     null memory or string         EFAULT, unless 0 bytes are asked for
 *     a null format                 EINVAL
 *     a format without end          EINVAL: no NUL within GPUFS_FORMAT_BYTES bytes; in an array whose size the compiler
 *                                   knows, within that size
 *     a format that its             EINVAL
 *     arguments do not fit
 *     a path without end            ENAMETOOLONG: no NUL within GPUFS_PATH_BYTES bytes
 *     a mode without end, or not    EINVAL: no NUL within GPUFS_FOPEN_MODE_BYTES bytes, or it does not begin with r, w
 *     one of fopen's                or a
 *
 * Wrong use that gpufs cannot detect is undefined, as in C; on a GPU it is a fault that ends the context:
 *
 *   - a session pointer that is neither null nor a session's;
 *   - memory that is missing or too short. This includes a string for %s, fputs or puts without a NUL (a precision
 *     bounds it), and a format or path in memory that ends before the bound above;
 *   - a stream or session of another GPU, or one of CPU lanes on a GPU.
 *
 * One more is not detected, and waits forever: a stream or session pointer that was kept across
 * gpufs_host_synchronize and is used by a kernel without another gpufs_host_begin.
 */
#ifndef GPUFS_GPUFS_H
#define GPUFS_GPUFS_H

#include <gpufs/types.h>

#include <gpufs/raw.h>

/* The version of these headers. gpufs_version(), in <gpufs/host.h>, is the library's. */
#define GPUFS_VERSION_MAJOR 0
#define GPUFS_VERSION_MINOR 1
#define GPUFS_VERSION_PATCH 0
/* A version as one number: later versions have larger ones. */
#define GPUFS_MAKE_VERSION(major, minor, patch) ((major) * 1000000 + (minor) * 1000 + (patch))
#define GPUFS_VERSION GPUFS_MAKE_VERSION(GPUFS_VERSION_MAJOR, GPUFS_VERSION_MINOR, GPUFS_VERSION_PATCH)
/* Whether these headers have this version or a later one: #if GPUFS_CHECK_VERSION(0, 1, 0). */
#define GPUFS_CHECK_VERSION(major, minor, patch) (GPUFS_VERSION >= GPUFS_MAKE_VERSION(major, minor, patch))

/* A format has its NUL within this many bytes. (A format that comes with its length needs no NUL and may be longer.) */
#define GPUFS_FORMAT_BYTES 4096
/* A path has its NUL within this many bytes: Linux's PATH_MAX. */
#define GPUFS_PATH_BYTES 4096
/* The mode of fopen has its NUL within this many bytes. */
#define GPUFS_FOPEN_MODE_BYTES 64

/* The position of the calling thread in its launch: for CPU lanes, which have no threadIdx, and for code that runs on
 * both. */

/* The calling thread's index in the whole grid, from 0. */
GPUFS_INLINE uint64_t gpufs_thread(void) { return gpufs_raw_thread(); }
/* The number of threads in the whole grid. */
GPUFS_INLINE uint64_t gpufs_threads(void) { return gpufs_raw_threads(); }
/* The index of the calling thread's block. */
GPUFS_INLINE uint32_t gpufs_block(void) { return gpufs_raw_block(); }
/* The calling thread's index in its block. */
GPUFS_INLINE uint32_t gpufs_thread_in_block(void) { return gpufs_raw_thread_in_block(); }
/* Lets other threads run, for at most about this many nanoseconds. Call it in a loop that waits for another thread:
 * on CPU lanes that thread does not run otherwise. */
GPUFS_INLINE void gpufs_nap(uint32_t nanoseconds) { gpufs_raw_nap(nanoseconds); }

#endif

/* The session in use: the one that calls without a session go to, those of <gpufs/drop_in.h>.
 *
 *     gpufs_host_begin(host);              on a GPU
 *     gpufs_host_use(host);
 *     kernel<<<blocks, threads>>>(...);
 *
 * On CPU lanes it is the process's, and gpufs_host_use is a function of libgpufs. On a GPU it is a word in the memory of
 * the device program that calls it, so that a CUDA or HIP file calls gpufs_host_use itself, and this header makes it a
 * launch of one thread on the null stream, which it waits for. Call it after each gpufs_host_begin. Device programs of
 * one process (files that are compiled without relocatable device code; all HIP files) have a word each. A null host
 * means that no session is in use. gpufs_host_close ends the use on CPU lanes.
 *
 * 0, or -1: EINVAL (gpufs_host_begin has not been called), EIO (the GPU refused the launch), EXDEV (a session on a GPU,
 * and the caller is not compiled for one).
 */
#ifndef GPUFS_USE_H
#define GPUFS_USE_H

#if defined(__CUDACC_RTC__) || defined(__HIPCC_RTC__)
#error "<gpufs/use.h> is for the host's code: what is compiled at run time is device code, which includes <gpufs/stdio.h> and others"
#endif

#include <errno.h>

#include <gpufs/host.h>

#if defined(__CUDACC__) || defined(__HIP__)

/* The kernel that sets the word. */
static __attribute__((global)) void gpufs_use_session_(gpufs_session *session) { gpufs_raw_use_session(session); }

static __inline__ int gpufs_host_use_here_(gpufs_host *host) {
    gpufs_session *session = nullptr;
    if ((gpufs_host_use)(host) == 0) {
        if (host != nullptr) {
            return 0; /* on CPU lanes */
        }
    } else if (errno != EXDEV || (session = gpufs_host_session(host)) == nullptr) {
        return -1;
    }
    gpufs_use_session_<<<1, 1>>>(session);
#if defined(__HIP__)
    const bool failed = hipGetLastError() != hipSuccess || hipStreamSynchronize(nullptr) != hipSuccess;
#else
    const bool failed = cudaGetLastError() != cudaSuccess || cudaStreamSynchronize(nullptr) != cudaSuccess;
#endif
    if (failed) {
        errno = EIO;
        return -1;
    }
    return 0;
}
#define gpufs_host_use(host) gpufs_host_use_here_(host)

#endif

#endif

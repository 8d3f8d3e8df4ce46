/* <errno.h>. On CPU lanes it is the C library's own, and each lane keeps its own number while others run. On a GPU it is
 * a number in device memory for each thread of a launch up to 262,144; a thread beyond shares that of the thread as many
 * before it, and launches that run at once share them all. */
#ifndef GPUFS_STANDARD_ERRNO_H
#define GPUFS_STANDARD_ERRNO_H

#pragma GCC system_header

/* <gpufs/types.h> includes <errno.h>, so that nothing of gpufs can be included here. */
#if defined(__CUDACC__) || defined(__HIP__)
#include <cerrno>
extern "C" __attribute__((host)) __attribute__((device)) int *gpufs_raw_errno(void);
static __inline__ __attribute__((host)) __attribute__((device)) int *gpufs_standard_errno(void) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
    return gpufs_raw_errno();
#else
    return &errno;
#endif
}
#undef errno
#define errno (*gpufs_standard_errno())
#elif defined(__NVPTX__) || defined(__AMDGCN__)
#ifdef __cplusplus
extern "C"
#endif
    int *gpufs_raw_errno(void);
#undef errno
#define errno (*gpufs_raw_errno())
#include <gpufs/standard/errors.h>
#endif

#endif

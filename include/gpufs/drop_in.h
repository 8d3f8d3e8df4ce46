/* Sources that know nothing of gpufs: plain C and C++ with the standard names and signatures, whose files are those of
 * the session in use (gpufs_host_use). FILE, stdin, printf("..."), fopen(path, mode), errno, struct stat, open and read
 * are what C11 and POSIX say, in kernels on CPU lanes and on GPUs.
 *
 * How a source is compiled:
 *
 *     CPU lanes   cc -IDIR/include/gpufs/drop_in -IDIR/include -c tool.c
 *     NVIDIA      clang --target=nvptx64-nvidia-cuda -march=sm_90 ... with the same two options
 *     AMD         clang --target=amdgcn-amd-amdhsa ... likewise; or in a HIP file, between
 *                 #pragma clang force_cuda_host_device begin and end
 *     nvcc        -IDIR/include/gpufs/drop_in, and functions that are __device__: nvcc has no way to make others ones
 *
 * The first folder holds headers with the names of the C library's (stdio.h, errno.h, ...). A source's own #include
 * <stdio.h> finds them, and they include the C library's where there is one. No line of the source changes. Without that
 * folder, `-include gpufs/drop_in.h` before the source, or this header as its first, does the same for a C library that
 * is there, with every name of POSIX and GNU, whatever the source asks for.
 *
 * What a name is. On CPU lanes and with clang for a GPU: a function, whose pointer can be taken. All functions of the
 * file call gpufs, and memory allocation, strings and the rest are the C library's. A host's own code that is to use the
 * C library's files goes into another file. In CUDA and HIP files a name is a macro: the C library's function in host
 * code, gpufs's in a kernel; written without std::, and without a pointer to it. There, include C++'s own headers first.
 *
 * With no session in use, calls fail: with EINVAL, on a standard stream with EBADF. The first one says so.
 */
#ifndef GPUFS_DROP_IN_H
#define GPUFS_DROP_IN_H

#if defined(__CUDACC_RTC__) || defined(__HIPCC_RTC__)
#error "<gpufs/drop_in.h> is for sources with a C library: what is compiled at run time is device code, which includes <gpufs/stdio.h> and others"
#endif

#pragma GCC system_header

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#define GPUFS_ASKED_GNU_ 1
#endif

#include <gpufs/standard/errno.h>
#include <gpufs/standard/stdio.h>
#include <gpufs/standard/dirent.h>
#if !defined(GPUFS_DROP_IN_SPLIT_)
#include <gpufs/standard/aio.h>
#include <gpufs/standard/fcntl.h>
#include <gpufs/standard/poll.h>
#include <gpufs/standard/stdlib.h>
#include <gpufs/standard/sys/eventfd.h>
#include <gpufs/standard/sys/file.h>
#include <gpufs/standard/sys/socket.h>
#include <gpufs/standard/sys/stat.h>
#include <gpufs/standard/sys/uio.h>
#include <gpufs/standard/unistd.h>
#include <gpufs/standard/wchar.h>
#endif

/* The source may define it as it likes. */
#if defined(GPUFS_ASKED_GNU_)
#undef _GNU_SOURCE
#undef GPUFS_ASKED_GNU_
#endif

#endif

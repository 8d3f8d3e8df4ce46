/* C11 5.2.4.2.1, from the compiler, and POSIX's, on a GPU. */
#ifndef GPUFS_LIBC_LIMITS_H
#define GPUFS_LIBC_LIMITS_H
#include_next <limits.h>
#define SSIZE_MAX LONG_MAX
#define PATH_MAX 4096
#define NAME_MAX 255
#define IOV_MAX 1024
#define PIPE_BUF 4096
#ifndef MB_LEN_MAX
#define MB_LEN_MAX 4
#endif
#endif

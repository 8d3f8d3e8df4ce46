/* The types of <sys/types.h> that the other headers of this folder use, where no C library gives them: Linux's on x86-64. */
#ifndef GPUFS_STANDARD_TYPES_H
#define GPUFS_STANDARD_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef __PTRDIFF_TYPE__ ssize_t;
typedef __INT64_TYPE__ off_t;
typedef __INT64_TYPE__ off64_t;
typedef __INT64_TYPE__ blkcnt_t;
typedef __INT64_TYPE__ blksize_t;
typedef __INT64_TYPE__ time_t;
typedef __UINT64_TYPE__ dev_t;
typedef __UINT64_TYPE__ ino_t;
typedef __UINT64_TYPE__ nlink_t;
typedef unsigned mode_t;
typedef unsigned uid_t;
typedef unsigned gid_t;
typedef int pid_t;

#endif

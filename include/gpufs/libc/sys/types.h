/* POSIX's types as Linux has them for 64 bits, on a GPU. */
#ifndef GPUFS_LIBC_SYS_TYPES_H
#define GPUFS_LIBC_SYS_TYPES_H
#include <gpufs/standard/types.h>
typedef __INT64_TYPE__ clock_t;
typedef __INT64_TYPE__ suseconds_t;
typedef unsigned useconds_t;
typedef unsigned u_int;
typedef unsigned char u_char;
typedef unsigned short u_short;
typedef unsigned long u_long;
#endif

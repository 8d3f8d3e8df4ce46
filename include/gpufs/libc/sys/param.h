/* BSD's <sys/param.h>, on a GPU. */
#ifndef GPUFS_LIBC_SYS_PARAM_H
#define GPUFS_LIBC_SYS_PARAM_H
#include <limits.h>
#include <sys/types.h>
#define MAXPATHLEN PATH_MAX
#define NBBY 8
#ifndef MIN
#define MIN(left, right) ((left) < (right) ? (left) : (right))
#define MAX(left, right) ((left) > (right) ? (left) : (right))
#endif
#define howmany(items, each) (((items) + (each) - 1) / (each))
#define roundup(value, step) (howmany(value, step) * (step))
#endif

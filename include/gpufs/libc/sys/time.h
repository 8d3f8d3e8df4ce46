/* POSIX's <sys/time.h>, on a GPU. */
#ifndef GPUFS_LIBC_SYS_TIME_H
#define GPUFS_LIBC_SYS_TIME_H
#include <sys/types.h>
struct timeval {
    time_t tv_sec;
    suseconds_t tv_usec;
};
/* The host's clock. `zone` is not looked at. */
int gettimeofday(struct timeval *__restrict into, void *__restrict zone);
#endif

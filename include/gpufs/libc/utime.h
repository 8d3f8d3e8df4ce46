/* utime(2), on a GPU. */
#ifndef GPUFS_LIBC_UTIME_H
#define GPUFS_LIBC_UTIME_H
#include <sys/types.h>
struct utimbuf {
    time_t actime;
    time_t modtime;
};
int utime(const char *path, const struct utimbuf *times);
#endif

/* ioctl(2), on a GPU: no request reaches a device, so that each fails as one that a file does not know. */
#ifndef GPUFS_LIBC_SYS_IOCTL_H
#define GPUFS_LIBC_SYS_IOCTL_H
#include <errno.h>
struct winsize {
    unsigned short ws_row;
    unsigned short ws_col;
    unsigned short ws_xpixel;
    unsigned short ws_ypixel;
};
#define TIOCGWINSZ 0x5413
#define FIONREAD 0x541b
static __inline__ int ioctl(int descriptor, unsigned long request, ...) {
    (void)descriptor, (void)request;
    errno = ENOTTY;
    return -1;
}
#endif

/* error(3) of GNU, on a GPU. */
#ifndef GPUFS_LIBC_ERROR_H
#define GPUFS_LIBC_ERROR_H
extern unsigned error_message_count;
/* Does not return where `status` is not 0. */
void error(int status, int number, const char *format, ...);
#endif

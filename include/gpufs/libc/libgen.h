/* POSIX <libgen.h>, on a GPU. Both may change their argument. */
#ifndef GPUFS_LIBC_LIBGEN_H
#define GPUFS_LIBC_LIBGEN_H
char *basename(char *path);
char *dirname(char *path);
#endif

/* scandir(3) of <dirent.h>, on a GPU, which includes this. */
#ifndef GPUFS_LIBC_SCANDIR_H
#define GPUFS_LIBC_SCANDIR_H
/* The entries that `wants` takes (all, if it is null), in the order of `compare` (the directory's, if it is null): how many,
 * or -1. The list and each entry are to be freed. */
int scandir(const char *path, struct dirent ***list, int (*wants)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **));
int alphasort(const struct dirent **left, const struct dirent **right);
int versionsort(const struct dirent **left, const struct dirent **right);
#endif

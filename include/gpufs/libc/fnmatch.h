/* fnmatch(3), on a GPU: names of bytes. */
#ifndef GPUFS_LIBC_FNMATCH_H
#define GPUFS_LIBC_FNMATCH_H
#define FNM_NOMATCH 1
#define FNM_PATHNAME 1
#define FNM_NOESCAPE 2
#define FNM_PERIOD 4
#define FNM_LEADING_DIR 8
#define FNM_CASEFOLD 16
int fnmatch(const char *pattern, const char *name, int flags);
#endif

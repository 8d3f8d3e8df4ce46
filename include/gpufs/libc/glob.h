/* glob(3), on a GPU: names of bytes, in the order of strcmp(3). */
#ifndef GPUFS_LIBC_GLOB_H
#define GPUFS_LIBC_GLOB_H
#include <stddef.h>
typedef struct {
    size_t gl_pathc;
    char **gl_pathv;
    size_t gl_offs;
} glob_t;
#define GLOB_ERR 1
#define GLOB_MARK 2
#define GLOB_NOSORT 4
#define GLOB_DOOFFS 8
#define GLOB_NOCHECK 16
#define GLOB_APPEND 32
#define GLOB_NOESCAPE 64
#define GLOB_NOSPACE 1
#define GLOB_ABORTED 2
#define GLOB_NOMATCH 3
int glob(const char *__restrict pattern, int flags, int (*told)(const char *path, int error), glob_t *__restrict into);
void globfree(glob_t *found);
#endif

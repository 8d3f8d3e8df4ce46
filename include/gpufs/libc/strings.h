/* POSIX's strings.h, on a GPU. */
#ifndef GPUFS_LIBC_STRINGS_H
#define GPUFS_LIBC_STRINGS_H
#include <stddef.h>
int ffs(int value);
char *index(const char *string, int byte);
char *rindex(const char *string, int byte);
int strcasecmp(const char *left, const char *right);
int strncasecmp(const char *left, const char *right, size_t most);
static __inline__ void bzero(void *memory, size_t bytes) { __builtin_memset(memory, 0, bytes); }
static __inline__ void bcopy(const void *from, void *to, size_t bytes) { __builtin_memmove(to, from, bytes); }
int memcmp(const void *left, const void *right, size_t bytes);
static __inline__ int bcmp(const void *left, const void *right, size_t bytes) { return memcmp(left, right, bytes); }
#endif

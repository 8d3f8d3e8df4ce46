/* Of <search.h> (POSIX) lists and trees, on a GPU; no hash tables. */
#ifndef GPUFS_LIBC_SEARCH_H
#define GPUFS_LIBC_SEARCH_H
#include <stddef.h>
typedef enum { preorder, postorder, endorder, leaf } VISIT;
typedef int gpufs_comparison(const void *left, const void *right);
void *lfind(const void *key, const void *base, size_t *items, size_t bytes, gpufs_comparison *compare);
/* Appends the key where it is not found. */
void *lsearch(const void *key, void *base, size_t *items, size_t bytes, gpufs_comparison *compare);
/* A pointer to where the tree keeps the key's pointer; null where there is no memory for it. The tree is not balanced. */
void *tsearch(const void *key, void **root, gpufs_comparison *compare);
void *tfind(const void *key, void *const *root, gpufs_comparison *compare);
/* What points to the removed entry's parent; null where the key is not found. */
void *tdelete(const void *__restrict key, void **__restrict root, gpufs_comparison *compare);
void twalk(const void *root, void (*visit)(const void *entry, VISIT order, int depth));
#endif

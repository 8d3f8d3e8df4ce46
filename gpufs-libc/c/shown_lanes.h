/* Before each source on CPU lanes. Functions of a program are hidden (-fvisibility=hidden), so that its own read or mmap is not what libgpufs and the
 * C library call; but an allocator of its own is everybody's, as what one allocates another frees.
 */
#pragma GCC visibility push(default)
void *malloc(__SIZE_TYPE__);
void *calloc(__SIZE_TYPE__, __SIZE_TYPE__);
void *realloc(void *, __SIZE_TYPE__);
void free(void *);
#pragma GCC visibility pop

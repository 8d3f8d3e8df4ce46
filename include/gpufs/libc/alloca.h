/* alloca(3), on a GPU: memory of the function's frame, of which a thread has --stack. */
#ifndef GPUFS_LIBC_ALLOCA_H
#define GPUFS_LIBC_ALLOCA_H
#define alloca(bytes) __builtin_alloca(bytes)
#endif

/* Memory that calls allocate for the caller: getline(3), open_memstream(3) and the like.
 *
 * Three macros, which a program may define before it includes any header of gpufs, all three of them:
 *
 *     GPUFS_MALLOC(bytes)                     `bytes` bytes, or null
 *     GPUFS_REALLOC(memory, before, bytes)    `bytes` bytes that begin with the first of the `before` bytes at `memory`,
 *                                             which may be null; or null, and `memory` stays as it was
 *     GPUFS_FREE(memory)                      null is allowed
 *
 * What they are otherwise: malloc, realloc and free, of the C library on CPU lanes and the device's own in a kernel. The
 * device's allocate from the device's heap (cudaLimitMallocHeapSize: 8 MiB unless the host sets it). GPUs have no
 * realloc: it allocates, copies and frees there, for which it needs to know how long the memory was. Memory that a call
 * allocated is freed by GPUFS_FREE, on the same side: what a kernel allocated cannot be freed by the host.
 *
 * On a GPU whose programs have no malloc to link with (plain clang without a C library), define the three.
 */
#ifndef GPUFS_MEMORY_H
#define GPUFS_MEMORY_H

#include <gpufs/types.h>

#if defined(GPUFS_MALLOC) || defined(GPUFS_REALLOC) || defined(GPUFS_FREE)
#if !defined(GPUFS_MALLOC) || !defined(GPUFS_REALLOC) || !defined(GPUFS_FREE)
#error "gpufs/memory.h: define all of GPUFS_MALLOC, GPUFS_REALLOC and GPUFS_FREE, or none"
#endif
#else

#if GPUFS_ON_DEVICE && !defined(__CUDACC__) && !defined(__HIP__)
/* There need be no <stdlib.h> for the device. */
#define GPUFS_MALLOC(bytes) __builtin_malloc(bytes)
#define GPUFS_FREE(memory) __builtin_free(memory)
#else
#if !GPUFS_RTC_
#include <stdlib.h>
#endif
#define GPUFS_MALLOC(bytes) malloc(bytes)
#define GPUFS_FREE(memory) free(memory)
#endif

/* As GPUFS_REALLOC, from malloc and free. */
GPUFS_INLINE void *gpufs_realloc_(void *memory, size_t before, size_t bytes) {
#if GPUFS_ON_DEVICE
    unsigned char *larger = (unsigned char *)GPUFS_MALLOC(bytes);
    const unsigned char *from = (const unsigned char *)memory;
    size_t i, kept = before < bytes ? before : bytes;
    if (larger == 0) {
        return 0;
    }
    if (memory != 0) {
        for (i = 0; i < kept; i++) {
            larger[i] = from[i];
        }
        GPUFS_FREE(memory);
    }
    return larger;
#else
    (void)before;
    return realloc(memory, bytes);
#endif
}

#define GPUFS_REALLOC(memory, before, bytes) gpufs_realloc_((memory), (before), (bytes))

#endif

#endif

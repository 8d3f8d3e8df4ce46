/* <sys/eventfd.h> of sources that know nothing of gpufs. */
#ifndef GPUFS_STANDARD_SYS_EVENTFD_H
#define GPUFS_STANDARD_SYS_EVENTFD_H

#include <gpufs/standard/mode.h>

#pragma GCC system_header

#if defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_READING_C_LIBRARY_
#define eventfd(...) gpufs_hidden_eventfd(__VA_ARGS__)
#define eventfd_read(...) gpufs_hidden_eventfd_read(__VA_ARGS__)
#define eventfd_write(...) gpufs_hidden_eventfd_write(__VA_ARGS__)
#include <sys/eventfd.h>
#undef eventfd
#undef eventfd_read
#undef eventfd_write
#undef GPUFS_READING_C_LIBRARY_
#else
#include <gpufs/standard/types.h>
typedef uint64_t eventfd_t;
#define EFD_SEMAPHORE GPUFS_EFD_SEMAPHORE
#define EFD_NONBLOCK GPUFS_EFD_NONBLOCK
#define EFD_CLOEXEC GPUFS_EFD_CLOEXEC
#endif

GPUFS_STANDARD_(int, eventfd, (unsigned initial, int flags), (initial, flags),
                return gpufs_value_(gpufs_eventfd(gpufs_used_(), initial, flags));)
GPUFS_STANDARD_(int, eventfd_read, (int descriptor, eventfd_t *count), (descriptor, count),
                return gpufs_value_(gpufs_read(gpufs_used_(), descriptor, count, 8)) == 8 ? 0 : -1;)
GPUFS_STANDARD_(int, eventfd_write, (int descriptor, eventfd_t count), (descriptor, count),
                return gpufs_value_(gpufs_write(gpufs_used_(), descriptor, &count, 8)) == 8 ? 0 : -1;)

#endif

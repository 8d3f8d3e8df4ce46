/* <aio.h> of sources that know nothing of gpufs: operations that are started now and waited for later. <gpufs/aio.h> says what
 * differs from POSIX. */
#ifndef GPUFS_STANDARD_AIO_H
#define GPUFS_STANDARD_AIO_H

/* struct timespec. */
#include <gpufs/standard/sys/stat.h>

#pragma GCC system_header

#define GPUFS_IN_MODE_
#include <gpufs/aio.h>
#undef GPUFS_IN_MODE_

#if defined(GPUFS_DROP_IN_HOST_)
#define aio_read(...) gpufs_hidden_aio_read(__VA_ARGS__)
#define aio_write(...) gpufs_hidden_aio_write(__VA_ARGS__)
#define aio_fsync(...) gpufs_hidden_aio_fsync(__VA_ARGS__)
#define aio_error(...) gpufs_hidden_aio_error(__VA_ARGS__)
#define aio_return(...) gpufs_hidden_aio_return(__VA_ARGS__)
#define aio_suspend(...) gpufs_hidden_aio_suspend(__VA_ARGS__)
#define aio_cancel(...) gpufs_hidden_aio_cancel(__VA_ARGS__)
#define lio_listio(...) gpufs_hidden_lio_listio(__VA_ARGS__)
#define aio_read64(...) gpufs_hidden_aio_read64(__VA_ARGS__)
#define aio_write64(...) gpufs_hidden_aio_write64(__VA_ARGS__)
#define aio_fsync64(...) gpufs_hidden_aio_fsync64(__VA_ARGS__)
#define aio_error64(...) gpufs_hidden_aio_error64(__VA_ARGS__)
#define aio_return64(...) gpufs_hidden_aio_return64(__VA_ARGS__)
#define aio_suspend64(...) gpufs_hidden_aio_suspend64(__VA_ARGS__)
#define aio_cancel64(...) gpufs_hidden_aio_cancel64(__VA_ARGS__)
#define lio_listio64(...) gpufs_hidden_lio_listio64(__VA_ARGS__)
#define GPUFS_READING_C_LIBRARY_
#include <gpufs/standard/files_hide.h>
#include <aio.h>
#include <gpufs/standard/files_show.h>
#undef GPUFS_READING_C_LIBRARY_
#undef aio_read
#undef aio_write
#undef aio_fsync
#undef aio_error
#undef aio_return
#undef aio_suspend
#undef aio_cancel
#undef lio_listio
#undef aio_read64
#undef aio_write64
#undef aio_fsync64
#undef aio_error64
#undef aio_return64
#undef aio_suspend64
#undef aio_cancel64
#undef lio_listio64
#else
union sigval {
    int sival_int;
    void *sival_ptr;
};
struct sigevent {
    union sigval sigev_value;
    int sigev_signo;
    int sigev_notify;
    __UINT64_TYPE__ kept_[6];
};
#define SIGEV_SIGNAL 0
#define SIGEV_NONE 1
struct aiocb {
    int aio_fildes;
    int aio_lio_opcode;
    int aio_reqprio;
    volatile void *aio_buf;
    size_t aio_nbytes;
    struct sigevent aio_sigevent;
    __UINT64_TYPE__ kept_[4];
    off_t aio_offset;
    __UINT64_TYPE__ kept_more_[4];
};
#define AIO_CANCELED GPUFS_AIO_CANCELED
#define AIO_NOTCANCELED GPUFS_AIO_NOTCANCELED
#define AIO_ALLDONE GPUFS_AIO_ALLDONE
#define LIO_READ GPUFS_LIO_READ
#define LIO_WRITE GPUFS_LIO_WRITE
#define LIO_NOP GPUFS_LIO_NOP
#define LIO_WAIT GPUFS_LIO_WAIT
#define LIO_NOWAIT GPUFS_LIO_NOWAIT
#endif

GPUFS_STATIC_ASSERT_(sizeof(struct aiocb) == sizeof(gpufs_aiocb), "struct aiocb is Linux's on 64-bit machines");
GPUFS_STATIC_ASSERT_(offsetof(struct aiocb, aio_offset) == offsetof(gpufs_aiocb, aio_offset), "struct aiocb is Linux's");

#define GPUFS_BLOCK_ ((gpufs_aiocb *)(void *)block)
GPUFS_STANDARD_(int, aio_read, (struct aiocb *block), (block),
                return gpufs_value_(gpufs_aio_read(gpufs_used_(), GPUFS_BLOCK_));)
GPUFS_STANDARD_(int, aio_write, (struct aiocb *block), (block),
                return gpufs_value_(gpufs_aio_write(gpufs_used_(), GPUFS_BLOCK_));)
GPUFS_STANDARD_(int, aio_fsync, (int operation, struct aiocb *block), (operation, block),
                return gpufs_value_(gpufs_aio_fsync(gpufs_used_(), operation, GPUFS_BLOCK_));)
GPUFS_STANDARD_(int, aio_error, (const struct aiocb *block), (block),
                return gpufs_value_(gpufs_aio_error(gpufs_used_(), (const gpufs_aiocb *)(const void *)block));)
GPUFS_STANDARD_(ssize_t, aio_return, (struct aiocb *block), (block),
                return (ssize_t)gpufs_value_(gpufs_aio_return(gpufs_used_(), GPUFS_BLOCK_));)
GPUFS_STANDARD_(int, aio_suspend, (const struct aiocb *const blocks[], int count, const struct timespec *timeout),
                (blocks, count, timeout),
                return gpufs_value_(gpufs_aio_suspend(gpufs_used_(), (const gpufs_aiocb *const *)(const void *)blocks, count,
                                                      (const gpufs_timespec *)(const void *)timeout));)
GPUFS_STANDARD_(int, aio_cancel, (int descriptor, struct aiocb *block), (descriptor, block),
                return gpufs_value_(gpufs_aio_cancel(gpufs_used_(), descriptor, GPUFS_BLOCK_));)
GPUFS_STANDARD_(int, lio_listio, (int mode, struct aiocb *const blocks[], int count, struct sigevent *event),
                (mode, blocks, count, event),
                return gpufs_value_(gpufs_lio_listio(gpufs_used_(), mode, (gpufs_aiocb *const *)(const void *)blocks, count,
                                                     (const gpufs_sigevent *)(const void *)event));)

#endif

/* Asynchronous operations: POSIX's, on the files of a session (aio(7)). For CUDA and HIP kernels and for CPU lanes.
 *
 * A thread starts a read, a write or a sync, computes, and takes the result later. The operations that a warp starts
 * together go to the kernel as one batch.
 *
 *     gpufs_aiocb next = {0};
 *     next.aio_fildes = input, next.aio_buf = page, next.aio_nbytes = sizeof page, next.aio_offset = at;
 *     if (gpufs_aio_read(fs, &next) == 0) {
 *         compute();
 *         const gpufs_aiocb *all[] = {&next};
 *         gpufs_aio_suspend(fs, all, 1, NULL);
 *         int64_t bytes = gpufs_aio_error(fs, &next) == 0 ? gpufs_aio_return(fs, &next) : -1;
 *     }
 *
 * gpufs_aio_chain starts several that are carried out in order, such as a write and then a sync.
 *
 * In C++ a gpufs::Pending holds the block, and its destructor cancels and waits.
 *
 * A control block has the layout of Linux's struct aiocb. It is zeroed before it is used first, and from the start until
 * gpufs_aio_return it stays where it is, and so does its memory. One thread at a time uses it. When a call has found the
 * operation complete (gpufs_aio_error, _return, _suspend, _cancel, or gpufs_lio_listio that waits), what was read is in
 * aio_buf; before, the memory does not change. A result that nobody takes comes to an end with gpufs_host_synchronize,
 * which waits for writes, and cancels what may never end.
 *
 * What differs from POSIX:
 *
 *     nothing is signalled   aio_sigevent is SIGEV_NONE, or zero; another is EINVAL
 *     one operation          moves GPUFS_AIO_BYTES bytes at most; the value of gpufs_aio_return says how many
 *     what is written        is copied by the call that starts it: the memory is the caller's again when that returns
 *     gpufs_aio_fsync        is not ordered after writes that are still in flight: wait for those first
 *     gpufs_aio_cancel       takes a block; null, for all of a file, is EINVAL
 *     gpufs_aio_suspend      is never interrupted: no EINTR
 *     aio_reqprio            is checked, and has no effect
 *
 * Every call fails with -1 and EINVAL for a null session, EFAULT for a null block. A block without an operation whose
 * result is to be taken is EINVAL: one that was never started or whose start failed, one whose result was taken, a copy,
 * and one of another session.
 */
#ifndef GPUFS_AIO_H
#define GPUFS_AIO_H

#include <gpufs/raw.h>
#include <gpufs/stat.h>

/* How the end of an operation is told: struct sigevent. Zero, or GPUFS_SIGEV_NONE in sigev_notify. */
typedef struct gpufs_sigevent {
    uint64_t sigev_value;
    int sigev_signo;
    int sigev_notify;
    uint64_t kept_[6];
} gpufs_sigevent;

GPUFS_SIZE_(gpufs_sigevent, 64);
GPUFS_OFFSET_(gpufs_sigevent, sigev_signo, 8);
GPUFS_OFFSET_(gpufs_sigevent, sigev_notify, 12);

/* A control block: struct aiocb. What ends in an underscore is the library's. */
typedef struct gpufs_aiocb {
    int aio_fildes;     /* the descriptor */
    int aio_lio_opcode; /* for gpufs_lio_listio: GPUFS_LIO_READ, _WRITE or _NOP; for gpufs_aio_chain: _READ, _WRITE, _SYNC or _DSYNC */
    int aio_reqprio;    /* 0 */
    volatile void *aio_buf; /* the memory */
    size_t aio_nbytes;      /* its bytes */
    gpufs_sigevent aio_sigevent;
    uint64_t kept_[4];
    int64_t aio_offset; /* where in the file; of no account for one without a position, such as a pipe */
    uint64_t kept_more_[4];
} gpufs_aiocb;

GPUFS_SIZE_(gpufs_aiocb, 168);
GPUFS_OFFSET_(gpufs_aiocb, aio_lio_opcode, 4);
GPUFS_OFFSET_(gpufs_aiocb, aio_reqprio, 8);
GPUFS_OFFSET_(gpufs_aiocb, aio_buf, 16);
GPUFS_OFFSET_(gpufs_aiocb, aio_nbytes, 24);
GPUFS_OFFSET_(gpufs_aiocb, aio_sigevent, 32);
GPUFS_OFFSET_(gpufs_aiocb, aio_offset, 128);

/* The values of Linux, which the device library takes; those of chains are gpufs's. */
#define GPUFS_SIGEV_NONE 1
#define GPUFS_LIO_READ 0
#define GPUFS_LIO_WRITE 1
#define GPUFS_LIO_NOP 2
#define GPUFS_LIO_WAIT 0
#define GPUFS_LIO_NOWAIT 1
#define GPUFS_LIO_SYNC 3
#define GPUFS_LIO_DSYNC 4
#define GPUFS_CHAIN_STOPS 0
#define GPUFS_CHAIN_GOES_ON 1
#define GPUFS_CHAIN_MAX 4
#define GPUFS_AIO_CANCELED 0
#define GPUFS_AIO_NOTCANCELED 1
#define GPUFS_AIO_ALLDONE 2
#define GPUFS_O_SYNC 04010000
#define GPUFS_O_DSYNC 010000

/* The most bytes that one operation moves. */
#define GPUFS_AIO_BYTES 65536

/* Starts to read (aio_read(3)): at aio_offset where the file has positions. 0, or -1: EAGAIN where as many operations
 * are in flight as can be, EBADF, EBUSY for a block whose operation is in flight, EINVAL also for a negative offset, and
 * EFAULT also for null memory. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_aio_read(gpufs_session *session, gpufs_aiocb *block) {
    return gpufs_int_(gpufs_raw_aio_read(session, block));
}
/* Starts to write (aio_write(3)), at the end with GPUFS_O_APPEND. 0, or -1 as gpufs_aio_read. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_aio_write(gpufs_session *session, gpufs_aiocb *block) {
    return gpufs_int_(gpufs_raw_aio_write(session, block));
}
/* Starts to bring a file's data to its device (aio_fsync(3)), as fsync(2) with GPUFS_O_SYNC, as fdatasync(2) with
 * GPUFS_O_DSYNC. 0, or -1: EAGAIN, EBADF, EBUSY, and EINVAL for another `operation`. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_aio_fsync(gpufs_session *session, int operation, gpufs_aiocb *block) {
    return gpufs_int_(gpufs_raw_aio_fsync(session, operation, block));
}
/* What became of an operation (aio_error(3)): EINPROGRESS while it goes on; 0, or the error number of the system call;
 * ECANCELED. Or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_aio_error(gpufs_session *session, const gpufs_aiocb *block) {
    return gpufs_int_(gpufs_raw_aio_error(session, block));
}
/* What the system call would have returned (aio_return(3)), once: the block is then free. Or -1: the operation's error,
 * EINPROGRESS while it goes on, EINVAL when it was taken. */
GPUFS_INLINE GPUFS_RESULT(int64_t) gpufs_aio_return(gpufs_session *session, gpufs_aiocb *block) {
    return gpufs_int64_(gpufs_raw_aio_return(session, block));
}
/* Waits until one of `count` operations is complete (aio_suspend(3)), for as long as `timeout` says, or without end where
 * that is null. Null blocks are passed over. 0, or -1: EAGAIN when the time is over, EINVAL also where there is no block
 * and for a time that is none. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_aio_suspend(gpufs_session *session, const gpufs_aiocb *const *blocks, int count, const gpufs_timespec *timeout) {
    return gpufs_int_(gpufs_raw_aio_suspend(session, blocks, count, timeout));
}
/* Cancels an operation of `descriptor` (aio_cancel(3)). GPUFS_AIO_CANCELED: it has ended, with ECANCELED.
 * GPUFS_AIO_NOTCANCELED: it is too far along, and ends by itself. GPUFS_AIO_ALLDONE: it was complete. Or -1: EINVAL also
 * for a null block, and for a block of another file. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_aio_cancel(gpufs_session *session, int descriptor, gpufs_aiocb *block) {
    return gpufs_int_(gpufs_raw_aio_cancel(session, descriptor, block));
}
/* Starts what each of `count` blocks says (lio_listio(3)), and with GPUFS_LIO_WAIT waits for all. Null blocks and
 * GPUFS_LIO_NOP are passed over. `event` is null, or tells nothing. 0, or -1: EAGAIN where one found no room; EIO where a
 * start failed, or an operation that was waited for; gpufs_aio_error of each block says which, and why. EINVAL for
 * another `mode`. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_lio_listio(gpufs_session *session, int mode, gpufs_aiocb *const *blocks, int count, const gpufs_sigevent *event) {
    return gpufs_int_(gpufs_raw_lio_listio(session, mode, blocks, count, event));
}
/* Starts what each of `count` blocks says, 1 to GPUFS_CHAIN_MAX, as a chain: each begins when the one before has ended
 * (IOSQE_IO_LINK of io_uring_enter(2)). GPUFS_LIO_SYNC is fsync(2), GPUFS_LIO_DSYNC fdatasync(2). Each block has a result
 * of its own. Files have positions; a pipe is ESPIPE.
 *
 *     blocks[0]->aio_lio_opcode = GPUFS_LIO_WRITE, blocks[1]->aio_lio_opcode = GPUFS_LIO_SYNC;
 *     gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, blocks, 2);
 *
 * With GPUFS_CHAIN_STOPS, where one fails or moves fewer bytes than it was to, those behind it are not done: ECANCELED.
 * With GPUFS_CHAIN_GOES_ON each is done whatever became of those before. Other writes are copied by this call, but a write
 * of the very memory that the block before reads into writes what is read; the bytes are in that memory when the write's
 * block is complete. GPUFS_CHAIN_GOES_ON has no such write, and no write of a part of what is read: EINVAL.
 *
 * 0, or -1, and then nothing was started: EAGAIN where there is no room for all of them, EINVAL also for more than
 * GPUFS_AIO_BYTES, for a block that stands there twice and for another `mode`, EFAULT also for a null block or null memory,
 * EBADF, EBUSY for a block whose operation is in flight, ESPIPE. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_aio_chain(gpufs_session *session, int mode, gpufs_aiocb *const *blocks, int count) {
    return gpufs_int_(gpufs_raw_aio_chain(session, mode, blocks, count));
}
/* Starts to receive into the block's memory (recv(2)): complete when there are some bytes, with their count, or at the end,
 * with 0. The kernel writes them where they are to lie: in one piece of memory that host and device share
 * (gpufs_host_register_buffer; on CPU lanes any), which nobody else touches until the operation is complete. It waits
 * whatever was said of the socket, unless `flags` have MSG_DONTWAIT. 0, or -1 as gpufs_aio_read; ENOTSOCK, and EINVAL for 4
 * GiB and more. The operation itself fails with EACCES in a sandbox, where the kernel's rings take none of sockets
 * (gpufs_recv works there). */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_aio_recv(gpufs_session *session, gpufs_aiocb *block, int flags) {
    return gpufs_int_(gpufs_raw_aio_recv(session, block, flags));
}
/* Starts to send the block's memory (send(2)): complete when some bytes are taken, with their count. They are not copied:
 * nobody writes them until the operation is complete. No signal is raised. 0, or -1 as gpufs_aio_recv. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_aio_send(gpufs_session *session, gpufs_aiocb *block, int flags) {
    return gpufs_int_(gpufs_raw_aio_send(session, block, flags));
}
/* Starts to wait until a descriptor is ready for one of `events` (POLLIN ... of poll(2)), has failed or was hung up: its value
 * is what it is ready for. 0, or -1: EAGAIN, EBADF, EBUSY, and EINVAL for `events` of more than 15 bits. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_aio_poll(gpufs_session *session, gpufs_aiocb *block, int events) {
    return gpufs_int_(gpufs_raw_aio_poll(session, block, events));
}

#ifdef __cplusplus

namespace gpufs {

/* The standard names. */
GPUFS_BOTH inline Result<int> aio_read(Session session, gpufs_aiocb *block) { return gpufs_aio_read(session, block); }
GPUFS_BOTH inline Result<int> aio_write(Session session, gpufs_aiocb *block) { return gpufs_aio_write(session, block); }
GPUFS_BOTH inline Result<int> aio_fsync(Session session, int operation, gpufs_aiocb *block) {
    return gpufs_aio_fsync(session, operation, block);
}
GPUFS_BOTH inline Result<int> aio_error(Session session, const gpufs_aiocb *block) {
    return gpufs_aio_error(session, block);
}
GPUFS_BOTH inline Result<int64_t> aio_return(Session session, gpufs_aiocb *block) {
    return gpufs_aio_return(session, block);
}
GPUFS_BOTH inline Result<int> aio_suspend(Session session, const gpufs_aiocb *const *blocks, int count,
                                          const gpufs_timespec *timeout) {
    return gpufs_aio_suspend(session, blocks, count, timeout);
}
GPUFS_BOTH inline Result<int> aio_cancel(Session session, int descriptor, gpufs_aiocb *block) {
    return gpufs_aio_cancel(session, descriptor, block);
}
GPUFS_BOTH inline Result<int> lio_listio(Session session, int mode, gpufs_aiocb *const *blocks, int count,
                                         const gpufs_sigevent *event) {
    return gpufs_lio_listio(session, mode, blocks, count, event);
}

GPUFS_BOTH inline Result<int> aio_chain(Session session, int mode, gpufs_aiocb *const *blocks, int count) {
    return gpufs_aio_chain(session, mode, blocks, count);
}

GPUFS_BOTH inline Result<int> aio_recv(Session session, gpufs_aiocb *block, int flags) {
    return gpufs_aio_recv(session, block, flags);
}
GPUFS_BOTH inline Result<int> aio_send(Session session, gpufs_aiocb *block, int flags) {
    return gpufs_aio_send(session, block, flags);
}
GPUFS_BOTH inline Result<int> aio_poll(Session session, gpufs_aiocb *block, int events) {
    return gpufs_aio_poll(session, block, events);
}

/* An operation, or none yet. It stays where it is made, as its block does. The destructor cancels what is in flight and
 * waits for its end, so the memory may go after it: declare the memory first.
 *
 *     char page[4096];
 *     gpufs::Pending next(fs);
 *     if (next.read(input, page, sizeof page, at) == 0) {
 *         compute();
 *         auto bytes = next.wait();
 *     }
 */
class Pending {
  public:
    GPUFS_BOTH explicit Pending(Session session) : session_(session), block_(), is_started_(false) {}
    Pending(const Pending &) = delete;
    Pending &operator=(const Pending &) = delete;
    GPUFS_BOTH ~Pending() {
        if (is_in_flight()) {
            /* One that cannot be cancelled ends by itself. */
            (void)cancel();
        }
        if (is_started_) {
            (void)wait();
        }
    }

    /* Starts to read up to `bytes` bytes to `into`, from `offset` on (gpufs_aio_read). */
    GPUFS_BOTH Result<int> read(int descriptor, void *into, size_t bytes, int64_t offset) {
        if (is_in_flight()) {
            return busy();
        }
        set(descriptor, into, bytes, offset);
        return begin(gpufs_aio_read(session_, &block_));
    }
    /* Starts to write `bytes` bytes at `offset` (gpufs_aio_write). */
    GPUFS_BOTH Result<int> write(int descriptor, const void *from, size_t bytes, int64_t offset) {
        if (is_in_flight()) {
            return busy();
        }
        set(descriptor, const_cast<void *>(from), bytes, offset);
        return begin(gpufs_aio_write(session_, &block_));
    }
    /* Starts to sync (gpufs_aio_fsync). */
    GPUFS_BOTH Result<int> fsync(int descriptor, int operation = GPUFS_O_SYNC) {
        if (is_in_flight()) {
            return busy();
        }
        set(descriptor, nullptr, 0, 0);
        return begin(gpufs_aio_fsync(session_, operation, &block_));
    }
    /* gpufs_aio_error. */
    GPUFS_BOTH Result<int> error() const { return gpufs_aio_error(session_, &block_); }
    /* Waits for the end, and takes the result: gpufs_aio_suspend, for as long as `timeout` says, then gpufs_aio_return. -1
     * and EAGAIN when the time is over: it goes on. */
    GPUFS_BOTH Result<int64_t> wait(const gpufs_timespec *timeout = nullptr) {
        const gpufs_aiocb *const blocks[] = {&block_};
        const Result<int> waited = gpufs_aio_suspend(session_, blocks, 1, timeout);
        if (waited < 0) {
            return Result<int64_t>(-1, waited.error());
        }
        is_started_ = false;
        return gpufs_aio_return(session_, &block_);
    }
    /* gpufs_aio_cancel. */
    GPUFS_BOTH Result<int> cancel() { return gpufs_aio_cancel(session_, block_.aio_fildes, &block_); }
    /* The block, for gpufs_aio_suspend of several. */
    GPUFS_BOTH const gpufs_aiocb *block() const { return &block_; }

  private:
    GPUFS_BOTH bool is_in_flight() const { return is_started_ && error() == 115 /* EINPROGRESS of Linux */; }
    GPUFS_BOTH static Result<int> busy() { return gpufs_int_(-16 /* EBUSY */); }
    GPUFS_BOTH Result<int> begin(Result<int> begun) {
        is_started_ = begun == 0;
        return begun;
    }
    GPUFS_BOTH void set(int descriptor, void *memory, size_t bytes, int64_t offset) {
        block_.aio_fildes = descriptor;
        block_.aio_buf = memory;
        block_.aio_nbytes = bytes;
        block_.aio_offset = offset;
    }
    Session session_;
    gpufs_aiocb block_;
    bool is_started_; /* and its result was not taken */
};

} /* namespace gpufs */

#endif

#endif

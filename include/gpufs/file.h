/* Descriptors: open(2) and the calls on its result, for CUDA and HIP kernels and for CPU lanes.
 *
 * A descriptor is an index of the session's own table. It is valid in every kernel and thread of the session, and is
 * not a descriptor of the process. The names are as in <gpufs/stdio.h>: gpufs_open(session, ...), and in C++
 * open(session, ...) as well. Each thread calls for itself; the calls of a warp go to the system as one batch. Every
 * call fails with -1 and EBADF for a number that is not an open descriptor, EINVAL for a null session, EFAULT for
 * null memory, or an error of the system call.
 */
#ifndef GPUFS_FILE_H
#define GPUFS_FILE_H

#include <gpufs/gpufs.h>

/* For gpufs_open without <fcntl.h>: the values of Linux on x86-64, which the device library takes. */
#define GPUFS_O_RDONLY 0
#define GPUFS_O_WRONLY 01
#define GPUFS_O_RDWR 02
#define GPUFS_O_CREAT 0100
#define GPUFS_O_EXCL 0200
#define GPUFS_O_TRUNC 01000
#define GPUFS_O_APPEND 02000
#define GPUFS_O_NONBLOCK 04000
#define GPUFS_O_DIRECTORY 0200000
#define GPUFS_O_NOFOLLOW 0400000
#define GPUFS_O_CLOEXEC 02000000

/* The most pieces of one readv or writev: Linux's IOV_MAX. */
#define GPUFS_IOV_MAX 1024
/* For gpufs_preadv2 and gpufs_pwritev2, the values of <linux/fs.h>. */
#define GPUFS_RWF_HIPRI 0x01     /* no effect: the rings are none that the system polls */
#define GPUFS_RWF_DSYNC 0x02     /* as with O_DSYNC */
#define GPUFS_RWF_SYNC 0x04      /* as with O_SYNC */
#define GPUFS_RWF_NOWAIT 0x08    /* EAGAIN rather than wait */
#define GPUFS_RWF_APPEND 0x10    /* as with O_APPEND */
#define GPUFS_RWF_NOAPPEND 0x20  /* as without O_APPEND; Linux 6.9 */
#define GPUFS_RWF_ATOMIC 0x40    /* all or nothing, also if power fails; Linux 6.11, few files */
#define GPUFS_RWF_DONTCACHE 0x80 /* nothing stays in the page cache; Linux 6.14, some file systems */

/* Opens a file (open(2)). `mode` matters with GPUFS_O_CREAT, less the process's umask. A descriptor, or -1: EMFILE
 * also if the session's file table is full. A FIFO, in every GPUFS_MODE_...: opening for writing waits until a reader
 * has it open; opening for reading returns at once, and the first read waits for a writer. With GPUFS_O_NONBLOCK
 * nothing waits: opening for writing without a reader is ENXIO; a read gives 0 without a writer, else EAGAIN. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_open(gpufs_session *session, const char *path, int flags, uint32_t mode) {
    return gpufs_int_(gpufs_raw_open(session, path, flags, mode));
}
/* Makes a file with a new name and opens it for reading and writing (mkstemp(3)): `path` ends with XXXXXX, which the name
 * replaces. A descriptor, or -1: EINVAL also for another end. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_mkstemp(gpufs_session *session, char *path) {
    return gpufs_int_(gpufs_raw_mkstemp(session, path));
}
/* One more descriptor for an open file (dup(2)), or -1. Of a file with a position, the new one has a position of its own,
 * which begins where the other's is; in POSIX they share it. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_dup(gpufs_session *session, int descriptor) {
    return gpufs_int_(gpufs_raw_dup(session, descriptor));
}
/* The same with the number `other`, whose file is closed if it is open (dup2(2)). A stream on it is flushed, and goes on in
 * the new file. `other`, or -1: EBADF also for a number beyond the session's table, EBUSY where it is being opened. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_dup2(gpufs_session *session, int descriptor, int other) {
    return gpufs_int_(gpufs_raw_dup2(session, descriptor, other));
}
/* The same with flags, 0 or GPUFS_O_CLOEXEC (dup3(2)). EINVAL for others, and where the two are the same. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_dup3(gpufs_session *session, int descriptor, int other, int flags) {
    return gpufs_int_(gpufs_raw_dup3(session, descriptor, other, flags));
}
/* A path in /tmp that no file had when it was asked for (tmpnam(3)), in `path`, which has 20 bytes: `path`, or null as for
 * gpufs_mkstemp, EFAULT for null memory. A file that gpufs_mkstemp makes is nobody else's; a path may be taken meanwhile. */
GPUFS_INLINE GPUFS_RESULT(char *) gpufs_tmpnam(gpufs_session *session, char *path) {
    static const char form[] = "/tmp/gpufsXXXXXX";
    int64_t raw = -14; /* EFAULT */
    int error;
    if (path != 0) {
        size_t i;
        for (i = 0; i < sizeof form; i++) {
            path[i] = form[i];
        }
        raw = gpufs_raw_mkstemp(session, path);
        if (raw >= 0) {
            raw = gpufs_raw_close(session, (int)raw);
            if (raw >= 0) {
                raw = gpufs_raw_unlinkat(session, -100, path, 0); /* AT_FDCWD */
            }
        }
    }
    error = gpufs_error_of_(raw);
    GPUFS_RETURN(char *, error != 0 ? (char *)0 : path, error);
}
/* Closes it (close(2)), also when the call fails. What ends with the last descriptor of a file, as a pipe's end, may end a
 * moment later: Linux lets a file go after io_uring has completed the close. 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_close(gpufs_session *session, int descriptor) {
    return gpufs_int_(gpufs_raw_close(session, descriptor));
}
/* Reads at the position and moves it (read(2)): bytes read, 0 at the end of the file, or -1. */
GPUFS_INLINE GPUFS_RESULT(int64_t) gpufs_read(gpufs_session *session, int descriptor, void *into, size_t bytes) {
    return gpufs_int64_(gpufs_raw_read(session, descriptor, into, bytes));
}
/* Writes at the position and moves it (write(2)): bytes written, or -1. */
GPUFS_INLINE GPUFS_RESULT(int64_t) gpufs_write(gpufs_session *session, int descriptor, const void *from, size_t bytes) {
    return gpufs_int64_(gpufs_raw_write(session, descriptor, from, bytes));
}
/* Reads at `offset`, in bytes from the start (pread(2)): bytes read, 0 at the end of the file, or -1. */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_pread(gpufs_session *session, int descriptor, void *into, size_t bytes, int64_t offset) {
    return gpufs_int64_(gpufs_raw_pread(session, descriptor, into, bytes, offset));
}
/* Writes at `offset` (pwrite(2)): bytes written, or -1. */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_pwrite(gpufs_session *session, int descriptor, const void *from, size_t bytes, int64_t offset) {
    return gpufs_int64_(gpufs_raw_pwrite(session, descriptor, from, bytes, offset));
}
/* The same calls on memory in several pieces (readv(2)): `count` of them, at most GPUFS_IOV_MAX, one after the other. A
 * call is one read or one write: no other thread's bytes come between its pieces. -1 also with EINVAL for more pieces,
 * or a negative count. */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_readv(gpufs_session *session, int descriptor, const gpufs_iovec *into, int count) {
    return gpufs_int64_(gpufs_raw_readv(session, descriptor, into, count));
}
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_writev(gpufs_session *session, int descriptor, const gpufs_iovec *from, int count) {
    return gpufs_int64_(gpufs_raw_writev(session, descriptor, from, count));
}
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_preadv(gpufs_session *session, int descriptor, const gpufs_iovec *into, int count, int64_t offset) {
    return gpufs_int64_(gpufs_raw_preadv(session, descriptor, into, count, offset));
}
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_pwritev(gpufs_session *session, int descriptor, const gpufs_iovec *from, int count, int64_t offset) {
    return gpufs_int64_(gpufs_raw_pwritev(session, descriptor, from, count, offset));
}
/* The same with flags, GPUFS_RWF_..., for this transfer (preadv2(2)). With `offset` -1 at the position, which moves. -1
 * also with EAGAIN (GPUFS_RWF_NOWAIT), EOPNOTSUPP (flags that the system or the file does not know). */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_preadv2(gpufs_session *session, int descriptor, const gpufs_iovec *into, int count, int64_t offset, int flags) {
    return gpufs_int64_(gpufs_raw_preadv2(session, descriptor, into, count, offset, flags));
}
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_pwritev2(gpufs_session *session, int descriptor, const gpufs_iovec *from, int count, int64_t offset, int flags) {
    return gpufs_int64_(gpufs_raw_pwritev2(session, descriptor, from, count, offset, flags));
}
/* Moves the position (lseek(2)) from the start (0), the position (1) or the end (2). The new position in bytes, or
 * -1: ESPIPE, EINVAL, EOVERFLOW. */
GPUFS_INLINE GPUFS_RESULT(int64_t) gpufs_lseek(gpufs_session *session, int descriptor, int64_t offset, int whence) {
    return gpufs_int64_(gpufs_raw_lseek(session, descriptor, offset, whence));
}
/* Waits until the file's data is on its device (fsync(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fsync(gpufs_session *session, int descriptor) {
    return gpufs_int_(gpufs_raw_fsync(session, descriptor));
}
/* The same without metadata that reading the data does not need (fdatasync(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fdatasync(gpufs_session *session, int descriptor) {
    return gpufs_int_(gpufs_raw_fdatasync(session, descriptor));
}
/* Cuts or extends the file to `length` bytes (ftruncate(2)). Needs Linux 6.9. 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_ftruncate(gpufs_session *session, int descriptor, int64_t length) {
    return gpufs_int_(gpufs_raw_ftruncate(session, descriptor, length));
}

#ifdef __cplusplus

namespace gpufs {

/* The standard names. */
GPUFS_BOTH inline Result<int> open(Session session, const char *path, int flags, uint32_t mode = 0) {
    return gpufs_open(session, path, flags, mode);
}
GPUFS_BOTH inline Result<int> mkstemp(Session session, char *path) { return gpufs_mkstemp(session, path); }
GPUFS_BOTH inline Result<int> dup(Session session, int descriptor) { return gpufs_dup(session, descriptor); }
GPUFS_BOTH inline Result<int> dup2(Session session, int descriptor, int other) {
    return gpufs_dup2(session, descriptor, other);
}
GPUFS_BOTH inline Result<int> dup3(Session session, int descriptor, int other, int flags) {
    return gpufs_dup3(session, descriptor, other, flags);
}
GPUFS_BOTH inline Result<char *> tmpnam(Session session, char *path) { return gpufs_tmpnam(session, path); }
GPUFS_BOTH inline Result<int> close(Session session, int descriptor) { return gpufs_close(session, descriptor); }
GPUFS_BOTH inline Result<int64_t> read(Session session, int descriptor, void *into, size_t bytes) {
    return gpufs_read(session, descriptor, into, bytes);
}
GPUFS_BOTH inline Result<int64_t> write(Session session, int descriptor, const void *from, size_t bytes) {
    return gpufs_write(session, descriptor, from, bytes);
}
GPUFS_BOTH inline Result<int64_t> pread(Session session, int descriptor, void *into, size_t bytes, int64_t offset) {
    return gpufs_pread(session, descriptor, into, bytes, offset);
}
GPUFS_BOTH inline Result<int64_t> pwrite(Session session, int descriptor, const void *from, size_t bytes,
                                         int64_t offset) {
    return gpufs_pwrite(session, descriptor, from, bytes, offset);
}
GPUFS_BOTH inline Result<int64_t> readv(Session session, int descriptor, const gpufs_iovec *into, int count) {
    return gpufs_readv(session, descriptor, into, count);
}
GPUFS_BOTH inline Result<int64_t> writev(Session session, int descriptor, const gpufs_iovec *from, int count) {
    return gpufs_writev(session, descriptor, from, count);
}
GPUFS_BOTH inline Result<int64_t> preadv(Session session, int descriptor, const gpufs_iovec *into, int count,
                                         int64_t offset) {
    return gpufs_preadv(session, descriptor, into, count, offset);
}
GPUFS_BOTH inline Result<int64_t> pwritev(Session session, int descriptor, const gpufs_iovec *from, int count,
                                          int64_t offset) {
    return gpufs_pwritev(session, descriptor, from, count, offset);
}
GPUFS_BOTH inline Result<int64_t> preadv2(Session session, int descriptor, const gpufs_iovec *into, int count,
                                          int64_t offset, int flags) {
    return gpufs_preadv2(session, descriptor, into, count, offset, flags);
}
GPUFS_BOTH inline Result<int64_t> pwritev2(Session session, int descriptor, const gpufs_iovec *from, int count,
                                           int64_t offset, int flags) {
    return gpufs_pwritev2(session, descriptor, from, count, offset, flags);
}
GPUFS_BOTH inline Result<int64_t> lseek(Session session, int descriptor, int64_t offset, int whence) {
    return gpufs_lseek(session, descriptor, offset, whence);
}
GPUFS_BOTH inline Result<int> fsync(Session session, int descriptor) { return gpufs_fsync(session, descriptor); }
GPUFS_BOTH inline Result<int> fdatasync(Session session, int descriptor) {
    return gpufs_fdatasync(session, descriptor);
}
GPUFS_BOTH inline Result<int> ftruncate(Session session, int descriptor, int64_t length) {
    return gpufs_ftruncate(session, descriptor, length);
}

} /* namespace gpufs */

#endif

#endif

/* <fcntl.h> of sources that know nothing of gpufs: opening, and ranges of files. */
#ifndef GPUFS_STANDARD_FCNTL_H
#define GPUFS_STANDARD_FCNTL_H

#include <errno.h>

#include <gpufs/standard/mode.h>

#pragma GCC system_header

#if defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_READING_C_LIBRARY_
#include <gpufs/standard/files_hide.h>
#include <fcntl.h>
#include <gpufs/standard/files_show.h>
#undef GPUFS_READING_C_LIBRARY_
#else
#include <gpufs/standard/types.h>
#define O_ACCMODE 03
#define O_RDONLY 0
#define O_WRONLY 01
#define O_RDWR 02
#define O_CREAT 0100
#define O_EXCL 0200
#define O_NOCTTY 0400
#define O_TRUNC 01000
#define O_APPEND 02000
#define O_NONBLOCK 04000
#define O_DSYNC 010000
#define O_DIRECT 040000
#define O_LARGEFILE 0
#define O_DIRECTORY 0200000
#define O_NOFOLLOW 0400000
#define O_NOATIME 01000000
#define O_CLOEXEC 02000000
#define O_SYNC 04010000
#define O_PATH 010000000
#define O_TMPFILE 020200000
#define AT_FDCWD (-100)
#define AT_SYMLINK_NOFOLLOW 0x100
#define AT_REMOVEDIR 0x200
#define AT_SYMLINK_FOLLOW 0x400
#define AT_EMPTY_PATH 0x1000
#define POSIX_FADV_NORMAL 0
#define POSIX_FADV_RANDOM 1
#define POSIX_FADV_SEQUENTIAL 2
#define POSIX_FADV_WILLNEED 3
#define POSIX_FADV_DONTNEED 4
#define POSIX_FADV_NOREUSE 5
#define FD_CLOEXEC 1
#define F_DUPFD 0
#define F_GETFD 1
#define F_SETFD 2
#define F_GETFL 3
#define F_SETFL 4
#define F_GETLK 5
#define F_SETLK 6
#define F_SETLKW 7
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#define F_OFD_SETLKW 38
#define F_DUPFD_CLOEXEC 1030
#define F_RDLCK 0
#define F_WRLCK 1
#define F_UNLCK 2
struct flock {
    short l_type;
    short l_whence;
    off_t l_start;
    off_t l_len;
    pid_t l_pid;
};
#endif

#if defined(GPUFS_WITH_GNU_) && !defined(AT_RENAME_NOREPLACE)
#define AT_RENAME_NOREPLACE 1
#define AT_RENAME_EXCHANGE 2
#define AT_RENAME_WHITEOUT 4
#endif

/* The mode follows the flags where a file may be made. */
#define GPUFS_STANDARD_MODE_ARGUMENT_ \
    va_list list; mode_t mode = 0; va_start(list, flags); \
    if ((flags & (O_CREAT | 020000000)) != 0) { mode = va_arg(list, mode_t); } \
    va_end(list);
GPUFS_STANDARD_PLAIN_(int, open, (const char *path, int flags, ...),
                      GPUFS_STANDARD_MODE_ARGUMENT_ return gpufs_value_(gpufs_open(gpufs_used_(), path, flags, mode));)
GPUFS_STANDARD_PLAIN_(int, openat, (int folder, const char *path, int flags, ...),
                      GPUFS_STANDARD_MODE_ARGUMENT_
                      return gpufs_value_(gpufs_openat(gpufs_used_(), folder, path, flags, mode));)
#if defined(__USE_LARGEFILE64)
GPUFS_STANDARD_PLAIN_(int, open64, (const char *path, int flags, ...),
                      GPUFS_STANDARD_MODE_ARGUMENT_ return gpufs_value_(gpufs_open(gpufs_used_(), path, flags, mode));)
GPUFS_STANDARD_PLAIN_(int, openat64, (int folder, const char *path, int flags, ...),
                      GPUFS_STANDARD_MODE_ARGUMENT_
                      return gpufs_value_(gpufs_openat(gpufs_used_(), folder, path, flags, mode));)
#endif
GPUFS_STANDARD_(int, creat, (const char *path, mode_t mode), (path, mode),
                return gpufs_value_(gpufs_creat(gpufs_used_(), path, mode));)
/* Record locks belong to the open file description, as with F_OFD_SETLK. A descriptor is the session's and no program
 * inherits it: FD_CLOEXEC is always set. A copy that is to have a number from `least` on has to find the lowest free one
 * there, else it is EINVAL; so are F_SETFL and what is not named here. */
GPUFS_STANDARD_PLAIN_(int, fcntl, (int descriptor, int command, ...),
    va_list list; va_start(list, command);
    struct flock *lock = (struct flock *)0; int least = 0, copy, result;
    if (command == F_GETLK || command == F_SETLK || command == F_SETLKW || (command >= 36 && command <= 38)) {
        lock = va_arg(list, struct flock *);
    } else if (command == F_DUPFD || command == 1030) { least = va_arg(list, int); }
    va_end(list);
    if (lock != (struct flock *)0) {
        gpufs_record_lock wanted = {(int16_t)lock->l_type, (int16_t)lock->l_whence, lock->l_start, lock->l_len, 0};
        int find = command == F_GETLK || command == 36;
        int what = find ? GPUFS_F_GETLK : command == F_SETLKW || command == 38 ? GPUFS_F_SETLKW : GPUFS_F_SETLK;
        result = gpufs_value_(gpufs_fcntl(gpufs_used_(), descriptor, what, &wanted));
        if (result == 0 && find) {
            lock->l_type = wanted.l_type; lock->l_whence = wanted.l_whence;
            lock->l_start = wanted.l_start; lock->l_len = wanted.l_len; lock->l_pid = wanted.l_pid;
        }
        return result;
    }
    switch (command) {
    case F_DUPFD:
    case 1030:
        copy = gpufs_value_(gpufs_dup(gpufs_used_(), descriptor));
        if (copy < 0 || copy >= least) { return copy; }
        (void)gpufs_close(gpufs_used_(), copy);
        break;
    case F_GETFD:
    case F_SETFD: {
        struct gpufs_stat looked;
        result = gpufs_value_(gpufs_fstat(gpufs_used_(), descriptor, &looked));
        return result != 0 ? result : command == F_GETFD ? FD_CLOEXEC : 0;
    }
    case F_GETFL:
        return gpufs_value_(gpufs_getfl(gpufs_used_(), descriptor));
    default:
        break;
    }
    gpufs_set_errno_(22);
    return -1;)
#if defined(GPUFS_WITH_POSIX_)
/* The error is the result, and errno stays. */
GPUFS_STANDARD_(int, posix_fadvise, (int descriptor, off_t offset, off_t length, int advice), (descriptor, offset, length, advice),
                return gpufs_error_of_(gpufs_raw_posix_fadvise(gpufs_used_(), descriptor, offset, length, advice));)
GPUFS_STANDARD_(int, posix_fallocate, (int descriptor, off_t offset, off_t length), (descriptor, offset, length),
                return gpufs_error_of_(gpufs_raw_fallocate(gpufs_used_(), descriptor, 0, offset, length));)
#endif
#if defined(GPUFS_WITH_GNU_)
GPUFS_STANDARD_(int, fallocate, (int descriptor, int mode, off_t offset, off_t length),
                (descriptor, mode, offset, length),
                return gpufs_value_(gpufs_fallocate(gpufs_used_(), descriptor, mode, offset, length));)
#if !defined(SPLICE_F_MOVE)
#define SPLICE_F_MOVE GPUFS_SPLICE_F_MOVE
#define SPLICE_F_NONBLOCK GPUFS_SPLICE_F_NONBLOCK
#define SPLICE_F_MORE GPUFS_SPLICE_F_MORE
#endif
/* An offset has 64 bits, as POSIX's has here. */
GPUFS_STANDARD_(ssize_t, splice, (int from, off_t *from_offset, int to, off_t *to_offset, size_t bytes, unsigned flags),
                (from, from_offset, to, to_offset, bytes, flags),
                return (ssize_t)gpufs_value_(gpufs_splice(gpufs_used_(), from, (int64_t *)from_offset, to,
                                                          (int64_t *)to_offset, bytes, flags));)
GPUFS_STANDARD_(ssize_t, tee, (int from, int to, size_t bytes, unsigned flags), (from, to, bytes, flags),
                return (ssize_t)gpufs_value_(gpufs_tee(gpufs_used_(), from, to, bytes, flags));)
GPUFS_STANDARD_(int, sync_file_range, (int descriptor, off_t offset, off_t length, unsigned flags),
                (descriptor, offset, length, flags),
                return gpufs_value_(gpufs_sync_file_range(gpufs_used_(), descriptor, offset, length, flags));)
#endif
#if defined(__USE_LARGEFILE64)
GPUFS_STANDARD_(int, creat64, (const char *path, mode_t mode), (path, mode), return creat(path, mode);)
#if defined(GPUFS_WITH_POSIX_)
GPUFS_STANDARD_(int, posix_fadvise64, (int descriptor, off64_t offset, off64_t length, int advice),
                (descriptor, offset, length, advice), return posix_fadvise(descriptor, offset, length, advice);)
GPUFS_STANDARD_(int, posix_fallocate64, (int descriptor, off64_t offset, off64_t length), (descriptor, offset, length),
                return posix_fallocate(descriptor, offset, length);)
#endif
#if defined(GPUFS_WITH_GNU_)
GPUFS_STANDARD_(int, fallocate64, (int descriptor, int mode, off64_t offset, off64_t length),
                (descriptor, mode, offset, length), return fallocate(descriptor, mode, offset, length);)
#endif
GPUFS_MISSING_(int, fcntl64)
#endif

#endif

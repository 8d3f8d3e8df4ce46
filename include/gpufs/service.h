/* What the host does for kernels, because io_uring has no operation for it: links, permissions, times, locks, clocks,
 * processes, functions of the program. For CUDA and HIP kernels and for CPU lanes. Directories are in <gpufs/dirent.h>.
 *
 * Each thread calls for itself; the calls of a warp go to threads of the host as one batch. Those threads start with
 * the first such call of a session. Every call fails with -1 or null and EINVAL for a null session, EFAULT for null
 * memory or a null path, EBADF for a number that is not an open descriptor, or an error of the system call. A relative
 * path begins at the process's working directory.
 */
#ifndef GPUFS_SERVICE_H
#define GPUFS_SERVICE_H

#include <gpufs/stat.h>

/* A record lock: struct flock of Linux on x86-64. */
typedef struct gpufs_record_lock {
    int16_t l_type;   /* GPUFS_F_RDLCK, GPUFS_F_WRLCK or GPUFS_F_UNLCK */
    int16_t l_whence; /* what l_start counts from: 0 the start of the file, 1 the position, 2 the end */
    int64_t l_start;  /* the first byte */
    int64_t l_len;    /* bytes; 0 for all up to the end of the file, wherever that will be */
    int32_t l_pid;    /* 0; of what was found, -1 for an open file description's lock */
} gpufs_record_lock;

GPUFS_SIZE_(gpufs_record_lock, 32);
GPUFS_OFFSET_(gpufs_record_lock, l_start, 8);
GPUFS_OFFSET_(gpufs_record_lock, l_len, 16);
GPUFS_OFFSET_(gpufs_record_lock, l_pid, 24);

/* The values of Linux on x86-64, which the device library takes. */
#define GPUFS_F_RDLCK 0
#define GPUFS_F_WRLCK 1
#define GPUFS_F_UNLCK 2
#define GPUFS_F_GETLK 5
#define GPUFS_F_SETLK 6
#define GPUFS_F_SETLKW 7
#define GPUFS_LOCK_SH 1
#define GPUFS_LOCK_EX 2
#define GPUFS_LOCK_NB 4
#define GPUFS_LOCK_UN 8
#define GPUFS_F_OK 0
#define GPUFS_X_OK 1
#define GPUFS_W_OK 2
#define GPUFS_R_OK 4
#define GPUFS_AT_EACCESS 0x200
#define GPUFS_UTIME_NOW ((1L << 30) - 1L)
#define GPUFS_UTIME_OMIT ((1L << 30) - 2L)
#define GPUFS_CLOCK_REALTIME 0
#define GPUFS_CLOCK_MONOTONIC 1
#define GPUFS_CLOCK_PROCESS_CPUTIME_ID 2
#define GPUFS_CLOCK_BOOTTIME 7

/* The most bytes of a request of gpufs_call, and of a reply. */
#define GPUFS_SERVICE_BYTES 4096

/* Where a symbolic link points to (readlink(2)): at most `bytes` bytes of it, without a NUL. Bytes, or -1: EINVAL
 * where the path is not a symbolic link or `bytes` is 0. */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_readlink(gpufs_session *session, const char *path, char *into, size_t bytes) {
    return gpufs_int64_(gpufs_raw_readlink(session, path, into, bytes));
}
/* The same relative to the directory `dir`, or GPUFS_AT_FDCWD (readlinkat(2)). */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_readlinkat(gpufs_session *session, int dir, const char *path, char *into, size_t bytes) {
    return gpufs_int64_(gpufs_raw_readlinkat(session, dir, path, into, bytes));
}
/* Sets the permissions of the file at `path`, relative to the directory `dir`, or GPUFS_AT_FDCWD (fchmodat(2)). `flags`: 0
 * or AT_SYMLINK_NOFOLLOW. 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_fchmodat(gpufs_session *session, int dir, const char *path, uint32_t mode, int flags) {
    return gpufs_int_(gpufs_raw_fchmodat(session, dir, path, mode, flags));
}
/* How a file is open (F_GETFL of fcntl(2)): GPUFS_O_RDONLY, GPUFS_O_WRONLY or GPUFS_O_RDWR, with GPUFS_O_APPEND and
 * GPUFS_O_NONBLOCK; or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_getfl(gpufs_session *session, int descriptor) {
    return gpufs_int_(gpufs_raw_getfl(session, descriptor));
}
/* Cuts or extends the file at `path` to `length` bytes (truncate(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_truncate(gpufs_session *session, const char *path, int64_t length) {
    return gpufs_int_(gpufs_raw_truncate(session, path, length));
}
/* Sets permissions (chmod(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_chmod(gpufs_session *session, const char *path, uint32_t mode) {
    return gpufs_int_(gpufs_raw_chmod(session, path, mode));
}
/* The same of an open file (fchmod(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_fchmod(gpufs_session *session, int descriptor, uint32_t mode) {
    return gpufs_int_(gpufs_raw_fchmod(session, descriptor, mode));
}
/* Whether the process may do what `mode` names: GPUFS_F_OK, or of GPUFS_R_OK, GPUFS_W_OK and GPUFS_X_OK (access(2)).
 * 0, or -1: EACCES, EROFS, ENOENT ... */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_access(gpufs_session *session, const char *path, int mode) {
    return gpufs_int_(gpufs_raw_access(session, path, mode));
}
/* The same of a path relative to the open directory `dir`, or with AT_FDCWD to the working directory (faccessat(2)).
 * `flags`: 0, or of AT_EACCESS and AT_SYMLINK_NOFOLLOW. 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_faccessat(gpufs_session *session, int dir, const char *path, int mode, int flags) {
    return gpufs_int_(gpufs_raw_faccessat(session, dir, path, mode, flags));
}
/* Sets the times of last access and of last modification (utimensat(2)): two, or null for the present. Nanoseconds
 * may be GPUFS_UTIME_NOW or GPUFS_UTIME_OMIT. `flags`: 0 or AT_SYMLINK_NOFOLLOW. 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_utimensat(gpufs_session *session, int dir, const char *path, const gpufs_timespec *times, int flags) {
    return gpufs_int_(gpufs_raw_utimensat(session, dir, path, times, flags));
}
/* The same of an open file (futimens(3)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_futimens(gpufs_session *session, int descriptor, const gpufs_timespec *times) {
    return gpufs_int_(gpufs_raw_futimens(session, descriptor, times));
}
/* The working directory, with its NUL (getcwd(3)): `into`, or null: EINVAL for 0 bytes, ERANGE for too few, EFAULT
 * for null memory, as nothing is allocated. */
GPUFS_INLINE GPUFS_RESULT(char *)
gpufs_getcwd(gpufs_session *session, char *into, size_t bytes) {
    int error = gpufs_error_of_(gpufs_raw_getcwd(session, into, bytes));
    GPUFS_RETURN(char *, error != 0 ? (char *)0 : into, error);
}
/* Changes the working directory of the process, which is that of all threads and of the program on the host (chdir(2),
 * fchdir(2)). 0 or -1; EACCES in a sandbox. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_chdir(gpufs_session *session, const char *path) {
    return gpufs_int_(gpufs_raw_chdir(session, path));
}
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fchdir(gpufs_session *session, int dir) {
    return gpufs_int_(gpufs_raw_fchdir(session, dir));
}
/* Sets which permissions files are made without, for the whole process (umask(2)): the mask that was, or -1, in a sandbox
 * with EACCES. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_umask(gpufs_session *session, uint32_t mask) {
    return gpufs_int_(gpufs_raw_umask(session, mask));
}
/* Locks a whole file (flock(2)): GPUFS_LOCK_SH, _EX or _UN, and GPUFS_LOCK_NB. The lock belongs to the open file
 * description. 0, or -1: EWOULDBLOCK with GPUFS_LOCK_NB. A thread that waits tries again, after rests of up to 20
 * ms: not first come, first served. On AMD's GPUs, whose lanes run in lockstep, it must not wait for a thread of its
 * own warp. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_flock(gpufs_session *session, int descriptor, int operation) {
    return gpufs_int_(gpufs_raw_flock(session, descriptor, operation));
}
/* A record lock (fcntl(2)): GPUFS_F_SETLK, GPUFS_F_SETLKW, which waits as gpufs_flock does, or GPUFS_F_GETLK. It
 * belongs to the open file description, as with F_OFD_SETLK; `l_pid` is 0. 0, or -1: EAGAIN where another lock
 * excludes it, EINVAL for another command. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_fcntl(gpufs_session *session, int descriptor, int command, gpufs_record_lock *lock) {
    return gpufs_int_(gpufs_raw_fcntl(session, descriptor, command, lock));
}
/* An environment variable of the process (getenv(3)), cut to `bytes` with the NUL. The length of the whole value, as
 * snprintf(3), or -1: ENOENT where there is none. */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_getenv(gpufs_session *session, const char *name, char *into, size_t bytes) {
    return gpufs_int64_(gpufs_raw_getenv(session, name, into, bytes));
}
/* One of the host's clocks (clock_gettime(2)), read between the call and its return: GPUFS_CLOCK_... 0, or -1:
 * EINVAL. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_clock_gettime(gpufs_session *session, int clock, gpufs_timespec *into) {
    return gpufs_int_(gpufs_raw_clock_gettime(session, clock, into));
}
/* Sleeps for at least `duration`, by the device's clock (nanosleep(2)). No signal ends it. 0, or -1: EINVAL. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_nanosleep(gpufs_session *session, const gpufs_timespec *duration) {
    return gpufs_int_(gpufs_raw_nanosleep(session, duration));
}
/* Calls the function that the host added by this name (gpufs_host_add_service), and waits for its reply. The sizes
 * are the service's. 0, or -1: what the function returns; ENOSYS for a name that none has, EINVAL for other sizes. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_call(gpufs_session *session, const char *name, const void *request, size_t request_bytes, void *reply,
           size_t reply_bytes) {
    return gpufs_int_(gpufs_raw_call(session, name, request, request_bytes, reply, reply_bytes));
}
/* The time of day in whole seconds since 1970 (time(2)), or -1. */
GPUFS_INLINE GPUFS_RESULT(int64_t) gpufs_time(gpufs_session *session) { return gpufs_int64_(gpufs_raw_time(session)); }
/* Starts a command in a shell of the host (popen(3)): a stream that reads what it writes ("r"), or that writes what it
 * reads ("w"). Null on error: EINVAL (mode), E2BIG (a command of 4,096 bytes or more), EMFILE ... */
GPUFS_INLINE GPUFS_RESULT(gpufs_file *)
gpufs_popen(gpufs_session *session, const char *command, const char *mode) {
    int64_t raw = gpufs_raw_popen(session, command, mode);
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(gpufs_file *, error != 0 ? (gpufs_file *)0 : (gpufs_file *)(uintptr_t)raw, error);
}
/* Closes a stream of gpufs_popen and waits for its process (pclose(3)): how that ended, as waitpid(2) gives it, or -1:
 * EBADF, ECHILD for another stream. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_pclose(gpufs_file *file) { return gpufs_int_(gpufs_raw_pclose(file)); }

#ifdef __cplusplus

namespace gpufs {

/* The standard names. */
GPUFS_BOTH inline Result<int64_t> readlink(Session session, const char *path, char *into, size_t bytes) {
    return gpufs_readlink(session, path, into, bytes);
}
GPUFS_BOTH inline Result<int64_t> readlinkat(Session session, int dir, const char *path, char *into, size_t bytes) {
    return gpufs_readlinkat(session, dir, path, into, bytes);
}
GPUFS_BOTH inline Result<int> fchmodat(Session session, int dir, const char *path, uint32_t mode, int flags) {
    return gpufs_fchmodat(session, dir, path, mode, flags);
}
GPUFS_BOTH inline Result<int> getfl(Session session, int descriptor) { return gpufs_getfl(session, descriptor); }
GPUFS_BOTH inline Result<int> truncate(Session session, const char *path, int64_t length) {
    return gpufs_truncate(session, path, length);
}
GPUFS_BOTH inline Result<int> chmod(Session session, const char *path, uint32_t mode) {
    return gpufs_chmod(session, path, mode);
}
GPUFS_BOTH inline Result<int> fchmod(Session session, int descriptor, uint32_t mode) {
    return gpufs_fchmod(session, descriptor, mode);
}
GPUFS_BOTH inline Result<int> access(Session session, const char *path, int mode) {
    return gpufs_access(session, path, mode);
}
GPUFS_BOTH inline Result<int> faccessat(Session session, int dir, const char *path, int mode, int flags) {
    return gpufs_faccessat(session, dir, path, mode, flags);
}
GPUFS_BOTH inline Result<int> utimensat(Session session, int dir, const char *path, const gpufs_timespec *times,
                                        int flags) {
    return gpufs_utimensat(session, dir, path, times, flags);
}
GPUFS_BOTH inline Result<int> futimens(Session session, int descriptor, const gpufs_timespec *times) {
    return gpufs_futimens(session, descriptor, times);
}
GPUFS_BOTH inline Result<char *> getcwd(Session session, char *into, size_t bytes) {
    return gpufs_getcwd(session, into, bytes);
}
GPUFS_BOTH inline Result<int> chdir(Session session, const char *path) { return gpufs_chdir(session, path); }
GPUFS_BOTH inline Result<int> fchdir(Session session, int dir) { return gpufs_fchdir(session, dir); }
GPUFS_BOTH inline Result<int> umask(Session session, uint32_t mask) { return gpufs_umask(session, mask); }
GPUFS_BOTH inline Result<int> flock(Session session, int descriptor, int operation) {
    return gpufs_flock(session, descriptor, operation);
}
GPUFS_BOTH inline Result<int> fcntl(Session session, int descriptor, int command, gpufs_record_lock *lock) {
    return gpufs_fcntl(session, descriptor, command, lock);
}
GPUFS_BOTH inline Result<int64_t> getenv(Session session, const char *name, char *into, size_t bytes) {
    return gpufs_getenv(session, name, into, bytes);
}
GPUFS_BOTH inline Result<int> clock_gettime(Session session, int clock, gpufs_timespec *into) {
    return gpufs_clock_gettime(session, clock, into);
}
GPUFS_BOTH inline Result<int> nanosleep(Session session, const gpufs_timespec *duration) {
    return gpufs_nanosleep(session, duration);
}
GPUFS_BOTH inline Result<int> call(Session session, const char *name, const void *request, size_t request_bytes,
                                   void *reply, size_t reply_bytes) {
    return gpufs_call(session, name, request, request_bytes, reply, reply_bytes);
}
GPUFS_BOTH inline Result<int64_t> time(Session session) { return gpufs_time(session); }
GPUFS_BOTH inline Result<File *> popen(Session session, const char *command, const char *mode) {
    return gpufs_popen(session, command, mode);
}
GPUFS_BOTH inline Result<int> pclose(File *file) { return gpufs_pclose(file); }

} /* namespace gpufs */

#endif

#endif

/* <unistd.h> of sources that know nothing of gpufs: descriptors and paths. */
#ifndef GPUFS_STANDARD_UNISTD_H
#define GPUFS_STANDARD_UNISTD_H

#include <gpufs/standard/mode.h>

#pragma GCC system_header

#if defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_READING_C_LIBRARY_
#include <gpufs/standard/files_hide.h>
#include <unistd.h>
#include <gpufs/standard/files_show.h>
#undef GPUFS_READING_C_LIBRARY_
#else
#include <gpufs/standard/types.h>
#if __has_include(<getopt.h>)
#include <getopt.h>
#endif
#define STDIN_FILENO 0
#define STDOUT_FILENO 1
#define STDERR_FILENO 2
#define F_OK 0
#define X_OK 1
#define W_OK 2
#define R_OK 4
#ifndef SEEK_SET
#define SEEK_SET 0
#define SEEK_CUR 1
#define SEEK_END 2
#endif
#endif

GPUFS_STANDARD_(int, close, (int descriptor), (descriptor),
                return gpufs_value_(gpufs_close(gpufs_used_(), descriptor));)
GPUFS_STANDARD_(int, dup, (int descriptor), (descriptor),
                return gpufs_value_(gpufs_dup(gpufs_used_(), descriptor));)
GPUFS_STANDARD_(int, dup2, (int descriptor, int other), (descriptor, other),
                return gpufs_value_(gpufs_dup2(gpufs_used_(), descriptor, other));)
#if defined(GPUFS_WITH_GNU_)
GPUFS_STANDARD_(int, dup3, (int descriptor, int other, int flags), (descriptor, other, flags),
                return gpufs_value_(gpufs_dup3(gpufs_used_(), descriptor, other, flags));)
#endif
GPUFS_STANDARD_(int, pipe, (int ends[2]), (ends), return gpufs_value_(gpufs_pipe(gpufs_used_(), ends));)
#if defined(GPUFS_WITH_GNU_)
GPUFS_STANDARD_(int, pipe2, (int ends[2], int flags), (ends, flags),
                return gpufs_value_(gpufs_pipe2(gpufs_used_(), ends, flags));)
#endif
GPUFS_STANDARD_(ssize_t, read, (int descriptor, void *into, size_t bytes), (descriptor, into, bytes),
                return (ssize_t)gpufs_value_(gpufs_read(gpufs_used_(), descriptor, into, bytes));)
GPUFS_STANDARD_(ssize_t, write, (int descriptor, const void *from, size_t bytes), (descriptor, from, bytes),
                return (ssize_t)gpufs_value_(gpufs_write(gpufs_used_(), descriptor, from, bytes));)
GPUFS_STANDARD_(int64_t, lseek, (int descriptor, int64_t offset, int whence), (descriptor, offset, whence),
                return (int64_t)gpufs_value_(gpufs_lseek(gpufs_used_(), descriptor, offset, whence));)
GPUFS_STANDARD_(int, unlink, (const char *path), (path),
                return gpufs_value_(gpufs_unlink(gpufs_used_(), path));)
GPUFS_STANDARD_(int, rmdir, (const char *path), (path),
                return gpufs_value_(gpufs_rmdir(gpufs_used_(), path));)
#if defined(GPUFS_WITH_POSIX_)
GPUFS_STANDARD_(ssize_t, pread, (int descriptor, void *into, size_t bytes, off_t offset),
                (descriptor, into, bytes, offset),
                return (ssize_t)gpufs_value_(gpufs_pread(gpufs_used_(), descriptor, into, bytes, offset));)
GPUFS_STANDARD_(ssize_t, pwrite, (int descriptor, const void *from, size_t bytes, off_t offset),
                (descriptor, from, bytes, offset),
                return (ssize_t)gpufs_value_(gpufs_pwrite(gpufs_used_(), descriptor, from, bytes, offset));)
GPUFS_STANDARD_(int, fsync, (int descriptor), (descriptor),
                return gpufs_value_(gpufs_fsync(gpufs_used_(), descriptor));)
GPUFS_STANDARD_(int, fdatasync, (int descriptor), (descriptor),
                return gpufs_value_(gpufs_fdatasync(gpufs_used_(), descriptor));)
GPUFS_STANDARD_(int, ftruncate, (int descriptor, off_t length), (descriptor, length),
                return gpufs_value_(gpufs_ftruncate(gpufs_used_(), descriptor, length));)
GPUFS_STANDARD_(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags),
                return gpufs_value_(gpufs_unlinkat(gpufs_used_(), folder, path, flags));)
GPUFS_STANDARD_(int, link, (const char *from, const char *to), (from, to),
                return gpufs_value_(gpufs_link(gpufs_used_(), from, to));)
GPUFS_STANDARD_(int, linkat, (int folder, const char *from, int into, const char *to, int flags),
                (folder, from, into, to, flags),
                return gpufs_value_(gpufs_linkat(gpufs_used_(), folder, from, into, to, flags));)
GPUFS_STANDARD_(int, symlink, (const char *target, const char *path), (target, path),
                return gpufs_value_(gpufs_symlink(gpufs_used_(), target, path));)
GPUFS_STANDARD_(int, symlinkat, (const char *target, int folder, const char *path), (target, folder, path),
                return gpufs_value_(gpufs_symlinkat(gpufs_used_(), target, folder, path));)
GPUFS_STANDARD_(ssize_t, readlink, (const char *path, char *into, size_t bytes), (path, into, bytes),
                return (ssize_t)gpufs_value_(gpufs_readlink(gpufs_used_(), path, into, bytes));)
GPUFS_STANDARD_(ssize_t, readlinkat, (int folder, const char *path, char *into, size_t bytes), (folder, path, into, bytes),
                return (ssize_t)gpufs_value_(gpufs_readlinkat(gpufs_used_(), folder, path, into, bytes));)
#endif
/* Whether a descriptor is a terminal's: /dev/tty, /dev/ttyN, /dev/pts/N. */
GPUFS_STANDARD_(int, isatty, (int descriptor), (descriptor),
                struct gpufs_stat about; uint64_t major;
                if (gpufs_value_(gpufs_fstat(gpufs_used_(), descriptor, &about)) != 0) { return 0; }
                major = (about.st_rdev >> 8 & 0xfff) | (about.st_rdev >> 32 & ~(uint64_t)0xfff);
                if ((about.st_mode & 0170000) == 0020000 && (major == 4 || major == 5 || (major >= 136 && major <= 143))) {
                    return 1;
                }
                gpufs_set_errno_(25); /* ENOTTY */
                return 0;)
GPUFS_STANDARD_(int, access, (const char *path, int mode), (path, mode),
                return gpufs_value_(gpufs_access(gpufs_used_(), path, mode));)
/* Where `into` is null, in memory to be freed, of 4,096 bytes if `bytes` is 0, as with glibc. */
GPUFS_STANDARD_(char *, getcwd, (char *into, size_t bytes), (into, bytes),
                if (into == (char *)0) {
                    char *made = (char *)GPUFS_MALLOC(bytes = bytes != 0 ? bytes : 4096);
                    if (made == (char *)0) { gpufs_set_errno_(12); return made; } /* ENOMEM */
                    if (gpufs_value_(gpufs_getcwd(gpufs_used_(), made, bytes)) == (char *)0) {
                        GPUFS_FREE(made);
                        return (char *)0;
                    }
                    return made;
                }
                return gpufs_value_(gpufs_getcwd(gpufs_used_(), into, bytes));)
GPUFS_STANDARD_(int, chdir, (const char *path), (path), return gpufs_value_(gpufs_chdir(gpufs_used_(), path));)
#if defined(GPUFS_WITH_POSIX_)
GPUFS_STANDARD_(int, fchdir, (int folder), (folder), return gpufs_value_(gpufs_fchdir(gpufs_used_(), folder));)
GPUFS_STANDARD_(int, truncate, (const char *path, off_t length), (path, length),
                return gpufs_value_(gpufs_truncate(gpufs_used_(), path, length));)
GPUFS_STANDARD_(int, faccessat, (int folder, const char *path, int mode, int flags), (folder, path, mode, flags),
                return gpufs_value_(gpufs_faccessat(gpufs_used_(), folder, path, mode, flags));)
#endif
#if defined(GPUFS_WITH_GNU_) || defined(__USE_XOPEN_EXTENDED)
#if !defined(F_ULOCK)
#define F_ULOCK 0
#define F_LOCK 1
#define F_TLOCK 2
#define F_TEST 3
#endif
/* A lock of fcntl's from the descriptor's position on. */
GPUFS_STANDARD_(int, lockf, (int descriptor, int command, off_t length), (descriptor, command, length),
                gpufs_record_lock lock = {GPUFS_F_WRLCK, 1, 0, 0, 0}; int result;
                lock.l_len = length;
                if (command < F_ULOCK || command > F_TEST) { gpufs_set_errno_(22); return -1; } /* EINVAL */
                if (command == F_ULOCK) { lock.l_type = GPUFS_F_UNLCK; }
                result = gpufs_value_(gpufs_fcntl(gpufs_used_(), descriptor,
                                                  command == F_TEST ? GPUFS_F_GETLK : command == F_LOCK ? GPUFS_F_SETLKW
                                                                                                       : GPUFS_F_SETLK, &lock));
                if (result == 0 && command == F_TEST && lock.l_type != GPUFS_F_UNLCK) { gpufs_set_errno_(13); return -1; } /* EACCES */
                return result;)
#endif
#if defined(GPUFS_WITH_POSIX_)
GPUFS_MISSING_(int, fchown)
#endif
#if defined(__USE_LARGEFILE64)
GPUFS_STANDARD_(int, truncate64, (const char *path, off64_t length), (path, length), return truncate(path, length);)
#if defined(GPUFS_WITH_GNU_) || defined(__USE_XOPEN_EXTENDED)
GPUFS_STANDARD_(int, lockf64, (int descriptor, int command, off64_t length), (descriptor, command, length),
                return lockf(descriptor, command, length);)
#endif
GPUFS_STANDARD_(off64_t, lseek64, (int descriptor, off64_t offset, int whence), (descriptor, offset, whence),
                return lseek(descriptor, offset, whence);)
GPUFS_STANDARD_(ssize_t, pread64, (int descriptor, void *into, size_t bytes, off64_t offset),
                (descriptor, into, bytes, offset), return pread(descriptor, into, bytes, offset);)
GPUFS_STANDARD_(ssize_t, pwrite64, (int descriptor, const void *from, size_t bytes, off64_t offset),
                (descriptor, from, bytes, offset), return pwrite(descriptor, from, bytes, offset);)
GPUFS_STANDARD_(int, ftruncate64, (int descriptor, off64_t length), (descriptor, length),
                return ftruncate(descriptor, length);)
#endif

#endif

/* <sys/stat.h> of sources that know nothing of gpufs: metadata. */
#ifndef GPUFS_STANDARD_SYS_STAT_H
#define GPUFS_STANDARD_SYS_STAT_H

#include <gpufs/standard/mode.h>

#pragma GCC system_header

#if defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_READING_C_LIBRARY_
#include <gpufs/standard/files_hide.h>
#include <sys/stat.h>
#include <gpufs/standard/files_show.h>
#undef GPUFS_READING_C_LIBRARY_
/* In a standard of C without POSIX glibc names it otherwise. */
#if defined(__GLIBC__) && !defined(__mode_t_defined)
typedef __mode_t mode_t;
#define __mode_t_defined
#endif
#else
#if __has_include(<gpufs/libc/time.h>)
#include <gpufs/libc/time.h>
#else
struct timespec {
    __INT64_TYPE__ tv_sec;
    long tv_nsec;
};
#endif
#include <gpufs/standard/types.h>
struct stat {
    dev_t st_dev;
    ino_t st_ino;
    nlink_t st_nlink;
    mode_t st_mode;
    uid_t st_uid;
    gid_t st_gid;
    int gpufs_pad;
    dev_t st_rdev;
    off_t st_size;
    blksize_t st_blksize;
    blkcnt_t st_blocks;
    struct timespec st_atim;
    struct timespec st_mtim;
    struct timespec st_ctim;
    long gpufs_reserved[3];
};
#if defined(__USE_LARGEFILE64)
#define stat64 stat
#define lstat64 lstat
#define fstat64 fstat
#define fstatat64 fstatat
#endif
#define st_atime st_atim.tv_sec
#define st_mtime st_mtim.tv_sec
#define st_ctime st_ctim.tv_sec
#define UTIME_NOW 0x3fffffff
#define UTIME_OMIT 0x3ffffffe
#define S_IFMT 0170000
#define S_IFIFO 0010000
#define S_IFCHR 0020000
#define S_IFDIR 0040000
#define S_IFBLK 0060000
#define S_IFREG 0100000
#define S_IFLNK 0120000
#define S_IFSOCK 0140000
#define S_ISUID 04000
#define S_ISGID 02000
#define S_ISVTX 01000
#define S_IRWXU 0700
#define S_IRUSR 0400
#define S_IWUSR 0200
#define S_IXUSR 0100
#define S_IRWXG 070
#define S_IRGRP 040
#define S_IWGRP 020
#define S_IXGRP 010
#define S_IRWXO 07
#define S_IROTH 04
#define S_IWOTH 02
#define S_IXOTH 01
#define S_ISFIFO(mode) (((mode) & S_IFMT) == S_IFIFO)
#define S_ISCHR(mode) (((mode) & S_IFMT) == S_IFCHR)
#define S_ISDIR(mode) (((mode) & S_IFMT) == S_IFDIR)
#define S_ISBLK(mode) (((mode) & S_IFMT) == S_IFBLK)
#define S_ISREG(mode) (((mode) & S_IFMT) == S_IFREG)
#define S_ISLNK(mode) (((mode) & S_IFMT) == S_IFLNK)
#define S_ISSOCK(mode) (((mode) & S_IFMT) == S_IFSOCK)
#endif

/* One structure on every device. */
GPUFS_STATIC_ASSERT_(sizeof(struct stat) == sizeof(struct gpufs_stat), "struct stat is Linux's on x86-64");
#define GPUFS_STAT_INTO_ ((struct gpufs_stat *)(void *)into)

GPUFS_STANDARD_(int, stat, (const char *path, struct stat *into), (path, into),
                return gpufs_value_(gpufs_stat(gpufs_used_(), path, GPUFS_STAT_INTO_));)
GPUFS_STANDARD_(int, lstat, (const char *path, struct stat *into), (path, into),
                return gpufs_value_(gpufs_lstat(gpufs_used_(), path, GPUFS_STAT_INTO_));)
GPUFS_STANDARD_(int, fstat, (int descriptor, struct stat *into), (descriptor, into),
                return gpufs_value_(gpufs_fstat(gpufs_used_(), descriptor, GPUFS_STAT_INTO_));)
GPUFS_STANDARD_(mode_t, umask, (mode_t mask), (mask), return (mode_t)gpufs_value_(gpufs_umask(gpufs_used_(), mask));)
GPUFS_STANDARD_(int, mkdir, (const char *path, mode_t mode), (path, mode),
                return gpufs_value_(gpufs_mkdir(gpufs_used_(), path, mode));)
#if defined(GPUFS_WITH_POSIX_)
GPUFS_STANDARD_(int, fstatat, (int folder, const char *path, struct stat *into, int flags),
                (folder, path, into, flags),
                return gpufs_value_(gpufs_fstatat(gpufs_used_(), folder, path, GPUFS_STAT_INTO_, flags));)
GPUFS_STANDARD_(int, mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode),
                return gpufs_value_(gpufs_mkdirat(gpufs_used_(), folder, path, mode));)
GPUFS_STANDARD_(int, fchmod, (int descriptor, mode_t mode), (descriptor, mode),
                return gpufs_value_(gpufs_fchmod(gpufs_used_(), descriptor, mode));)
GPUFS_STANDARD_(int, fchmodat, (int folder, const char *path, mode_t mode, int flags), (folder, path, mode, flags),
                return gpufs_value_(gpufs_fchmodat(gpufs_used_(), folder, path, mode, flags));)
GPUFS_STANDARD_(int, utimensat, (int folder, const char *path, const struct timespec *times, int flags), (folder, path, times, flags),
                return gpufs_value_(gpufs_utimensat(gpufs_used_(), folder, path,
                                                       (const gpufs_timespec *)(const void *)times, flags));)
GPUFS_STANDARD_(int, futimens, (int descriptor, const struct timespec *times), (descriptor, times),
                return gpufs_value_(gpufs_futimens(gpufs_used_(), descriptor, (const gpufs_timespec *)(const void *)times));)
#endif
GPUFS_STANDARD_(int, chmod, (const char *path, mode_t mode), (path, mode),
                return gpufs_value_(gpufs_chmod(gpufs_used_(), path, mode));)

#if defined(__USE_LARGEFILE64) && !defined(stat64)
GPUFS_STANDARD_(int, stat64, (const char *path, struct stat64 *into), (path, into),
                return gpufs_value_(gpufs_stat(gpufs_used_(), path, GPUFS_STAT_INTO_));)
GPUFS_STANDARD_(int, lstat64, (const char *path, struct stat64 *into), (path, into),
                return gpufs_value_(gpufs_lstat(gpufs_used_(), path, GPUFS_STAT_INTO_));)
GPUFS_STANDARD_(int, fstat64, (int descriptor, struct stat64 *into), (descriptor, into),
                return gpufs_value_(gpufs_fstat(gpufs_used_(), descriptor, GPUFS_STAT_INTO_));)
GPUFS_STANDARD_(int, fstatat64, (int folder, const char *path, struct stat64 *into, int flags), (folder, path, into, flags),
                return gpufs_value_(gpufs_fstatat(gpufs_used_(), folder, path, GPUFS_STAT_INTO_, flags));)
#endif

#endif

/* Paths and metadata: stat(2), unlink(2), rename(2), mkdir(2), link(2), symlink(2) and their kin, openat(2), and calls
 * about ranges of files. For CUDA and HIP kernels and for CPU lanes.
 *
 * The names are as in <gpufs/stdio.h>: gpufs_stat(session, ...), and in C++ stat(session, ...) as well. Each thread
 * calls for itself; the calls of a warp go to the system as one batch and are concurrent, as those of threads are: what
 * one thread makes and another needs, the other asks for after the first call has returned.
 *
 * A relative path is relative to the process's working directory. The ..at calls take a directory that the session has
 * open (gpufs_open with GPUFS_O_DIRECTORY), or GPUFS_AT_FDCWD; an absolute path needs neither. Every call fails with -1
 * and EINVAL for a null session, EFAULT for a null path or null memory, ENAMETOOLONG for a path without end
 * (GPUFS_PATH_BYTES), EBADF for what is not open, or an error of the system call. The constants are Linux's.
 */
#ifndef GPUFS_STAT_H
#define GPUFS_STAT_H

#include <gpufs/gpufs.h>

#if !GPUFS_RTC_ && defined(__cplusplus) && (!GPUFS_ON_DEVICE || defined(__CUDACC__) || defined(__HIP__))
/* <fcntl.h> has the structure stat. Only beside the function of that name does stat(session, ...) find this header's. */
#include <sys/stat.h>
#endif

/* In the place of a directory: the process's working directory. */
#define GPUFS_AT_FDCWD (-100)
#define GPUFS_AT_SYMLINK_NOFOLLOW 0x100
#define GPUFS_AT_REMOVEDIR 0x200
#define GPUFS_AT_SYMLINK_FOLLOW 0x400
#define GPUFS_AT_NO_AUTOMOUNT 0x800
#define GPUFS_AT_EMPTY_PATH 0x1000

#define GPUFS_RENAME_NOREPLACE 1u
#define GPUFS_RENAME_EXCHANGE 2u
#define GPUFS_RENAME_WHITEOUT 4u

/* In st_mode (inode(7)). */
#define GPUFS_S_IFMT 0170000u
#define GPUFS_S_IFIFO 0010000u
#define GPUFS_S_IFCHR 0020000u
#define GPUFS_S_IFDIR 0040000u
#define GPUFS_S_IFBLK 0060000u
#define GPUFS_S_IFREG 0100000u
#define GPUFS_S_IFLNK 0120000u
#define GPUFS_S_IFSOCK 0140000u
#define GPUFS_S_ISREG(mode) (((mode) & GPUFS_S_IFMT) == GPUFS_S_IFREG)
#define GPUFS_S_ISDIR(mode) (((mode) & GPUFS_S_IFMT) == GPUFS_S_IFDIR)
#define GPUFS_S_ISLNK(mode) (((mode) & GPUFS_S_IFMT) == GPUFS_S_IFLNK)

/* In the mask of gpufs_statx and in stx_mask. */
#define GPUFS_STATX_BASIC_STATS 0x7ffu
#define GPUFS_STATX_BTIME 0x800u
#define GPUFS_STATX_MNT_ID 0x1000u
#define GPUFS_STATX_DIOALIGN 0x2000u

#define GPUFS_FALLOC_FL_KEEP_SIZE 0x01
#define GPUFS_FALLOC_FL_PUNCH_HOLE 0x02
#define GPUFS_FALLOC_FL_COLLAPSE_RANGE 0x08
#define GPUFS_FALLOC_FL_ZERO_RANGE 0x10
#define GPUFS_FALLOC_FL_INSERT_RANGE 0x20
#define GPUFS_FALLOC_FL_UNSHARE_RANGE 0x40

#define GPUFS_POSIX_FADV_NORMAL 0
#define GPUFS_POSIX_FADV_RANDOM 1
#define GPUFS_POSIX_FADV_SEQUENTIAL 2
#define GPUFS_POSIX_FADV_WILLNEED 3
#define GPUFS_POSIX_FADV_DONTNEED 4
#define GPUFS_POSIX_FADV_NOREUSE 5

#define GPUFS_SYNC_FILE_RANGE_WAIT_BEFORE 1u
#define GPUFS_SYNC_FILE_RANGE_WRITE 2u
#define GPUFS_SYNC_FILE_RANGE_WAIT_AFTER 4u

/* A time: struct timespec of Linux on x86-64. */
typedef struct gpufs_timespec {
    int64_t tv_sec;
    int64_t tv_nsec;
} gpufs_timespec;

GPUFS_SIZE_(gpufs_timespec, 16);
GPUFS_OFFSET_(gpufs_timespec, tv_sec, 0);
GPUFS_OFFSET_(gpufs_timespec, tv_nsec, 8);

/* struct stat of Linux on x86-64, on every device. (A structure and a function have this name, as stat has both.) */
struct gpufs_stat {
    uint64_t st_dev;
    uint64_t st_ino;
    uint64_t st_nlink;
    uint32_t st_mode;
    uint32_t st_uid;
    uint32_t st_gid;
    uint32_t pad;
    uint64_t st_rdev;
    int64_t st_size;    /* bytes */
    int64_t st_blksize; /* bytes */
    int64_t st_blocks;  /* of 512 bytes */
    gpufs_timespec st_atim;
    gpufs_timespec st_mtim;
    gpufs_timespec st_ctim;
    int64_t reserved[3];
};

GPUFS_SIZE_(struct gpufs_stat, 144);
GPUFS_OFFSET_(struct gpufs_stat, st_dev, 0);
GPUFS_OFFSET_(struct gpufs_stat, st_ino, 8);
GPUFS_OFFSET_(struct gpufs_stat, st_nlink, 16);
GPUFS_OFFSET_(struct gpufs_stat, st_mode, 24);
GPUFS_OFFSET_(struct gpufs_stat, st_uid, 28);
GPUFS_OFFSET_(struct gpufs_stat, st_gid, 32);
GPUFS_OFFSET_(struct gpufs_stat, pad, 36);
GPUFS_OFFSET_(struct gpufs_stat, st_rdev, 40);
GPUFS_OFFSET_(struct gpufs_stat, st_size, 48);
GPUFS_OFFSET_(struct gpufs_stat, st_blksize, 56);
GPUFS_OFFSET_(struct gpufs_stat, st_blocks, 64);
GPUFS_OFFSET_(struct gpufs_stat, st_atim, 72);
GPUFS_OFFSET_(struct gpufs_stat, st_mtim, 88);
GPUFS_OFFSET_(struct gpufs_stat, st_ctim, 104);
GPUFS_OFFSET_(struct gpufs_stat, reserved, 120);

/* A time of statx(2). */
typedef struct gpufs_statx_timestamp {
    int64_t tv_sec;
    uint32_t tv_nsec;
    int32_t reserved;
} gpufs_statx_timestamp;

GPUFS_SIZE_(gpufs_statx_timestamp, 16);
GPUFS_OFFSET_(gpufs_statx_timestamp, tv_sec, 0);
GPUFS_OFFSET_(gpufs_statx_timestamp, tv_nsec, 8);
GPUFS_OFFSET_(gpufs_statx_timestamp, reserved, 12);

/* struct statx of Linux. */
struct gpufs_statx {
    uint32_t stx_mask;
    uint32_t stx_blksize;
    uint64_t stx_attributes;
    uint32_t stx_nlink;
    uint32_t stx_uid;
    uint32_t stx_gid;
    uint16_t stx_mode;
    uint16_t spare0;
    uint64_t stx_ino;
    uint64_t stx_size;
    uint64_t stx_blocks;
    uint64_t stx_attributes_mask;
    gpufs_statx_timestamp stx_atime;
    gpufs_statx_timestamp stx_btime;
    gpufs_statx_timestamp stx_ctime;
    gpufs_statx_timestamp stx_mtime;
    uint32_t stx_rdev_major;
    uint32_t stx_rdev_minor;
    uint32_t stx_dev_major;
    uint32_t stx_dev_minor;
    uint64_t stx_mnt_id;
    uint32_t stx_dio_mem_align;
    uint32_t stx_dio_offset_align;
    uint64_t spare[12];
};

GPUFS_SIZE_(struct gpufs_statx, 256);
GPUFS_OFFSET_(struct gpufs_statx, stx_mask, 0);
GPUFS_OFFSET_(struct gpufs_statx, stx_blksize, 4);
GPUFS_OFFSET_(struct gpufs_statx, stx_attributes, 8);
GPUFS_OFFSET_(struct gpufs_statx, stx_nlink, 16);
GPUFS_OFFSET_(struct gpufs_statx, stx_uid, 20);
GPUFS_OFFSET_(struct gpufs_statx, stx_gid, 24);
GPUFS_OFFSET_(struct gpufs_statx, stx_mode, 28);
GPUFS_OFFSET_(struct gpufs_statx, spare0, 30);
GPUFS_OFFSET_(struct gpufs_statx, stx_ino, 32);
GPUFS_OFFSET_(struct gpufs_statx, stx_size, 40);
GPUFS_OFFSET_(struct gpufs_statx, stx_blocks, 48);
GPUFS_OFFSET_(struct gpufs_statx, stx_attributes_mask, 56);
GPUFS_OFFSET_(struct gpufs_statx, stx_atime, 64);
GPUFS_OFFSET_(struct gpufs_statx, stx_btime, 80);
GPUFS_OFFSET_(struct gpufs_statx, stx_ctime, 96);
GPUFS_OFFSET_(struct gpufs_statx, stx_mtime, 112);
GPUFS_OFFSET_(struct gpufs_statx, stx_rdev_major, 128);
GPUFS_OFFSET_(struct gpufs_statx, stx_rdev_minor, 132);
GPUFS_OFFSET_(struct gpufs_statx, stx_dev_major, 136);
GPUFS_OFFSET_(struct gpufs_statx, stx_dev_minor, 140);
GPUFS_OFFSET_(struct gpufs_statx, stx_mnt_id, 144);
GPUFS_OFFSET_(struct gpufs_statx, stx_dio_mem_align, 152);
GPUFS_OFFSET_(struct gpufs_statx, stx_dio_offset_align, 156);
GPUFS_OFFSET_(struct gpufs_statx, spare, 160);

/* What `path` names (stat(2)); symbolic links are followed. 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_stat(gpufs_session *session, const char *path, struct gpufs_stat *into) {
    return gpufs_int_(gpufs_raw_stat(session, path, into));
}
/* The same, of a symbolic link the link itself (lstat(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_lstat(gpufs_session *session, const char *path, struct gpufs_stat *into) {
    return gpufs_int_(gpufs_raw_lstat(session, path, into));
}
/* What a descriptor names (fstat(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fstat(gpufs_session *session, int descriptor, struct gpufs_stat *into) {
    return gpufs_int_(gpufs_raw_fstat(session, descriptor, into));
}
/* The same relative to a directory (fstatat(2)). `flags`: GPUFS_AT_SYMLINK_NOFOLLOW, GPUFS_AT_EMPTY_PATH,
 * GPUFS_AT_NO_AUTOMOUNT. 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fstatat(gpufs_session *session, int dir, const char *path, struct gpufs_stat *into,
                                             int flags) {
    return gpufs_int_(gpufs_raw_fstatat(session, dir, path, flags, into));
}
/* The members that `mask` asks for (statx(2)); stx_mask says which the file system gave. 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_statx(gpufs_session *session, int dir, const char *path, int flags, unsigned mask,
                                           struct gpufs_statx *into) {
    return gpufs_int_(gpufs_raw_statx(session, dir, path, flags, mask, into));
}
/* Opens a file relative to a directory (openat(2)); otherwise as gpufs_open. A descriptor, or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_openat(gpufs_session *session, int dir, const char *path, int flags,
                                            uint32_t mode) {
    return gpufs_int_(gpufs_raw_openat(session, dir, path, flags, mode));
}
/* gpufs_open with GPUFS_O_CREAT, GPUFS_O_WRONLY and GPUFS_O_TRUNC (creat(2)). A descriptor, or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_creat(gpufs_session *session, const char *path, uint32_t mode) {
    return gpufs_int_(gpufs_raw_creat(session, path, mode));
}
/* Removes a name (unlink(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_unlink(gpufs_session *session, const char *path) {
    return gpufs_int_(gpufs_raw_unlink(session, path));
}
/* Removes a name relative to a directory (unlinkat(2)). `flags`: 0, or GPUFS_AT_REMOVEDIR for an empty directory. 0 or
 * -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_unlinkat(gpufs_session *session, int dir, const char *path, int flags) {
    return gpufs_int_(gpufs_raw_unlinkat(session, dir, path, flags));
}
/* Removes an empty directory (rmdir(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_rmdir(gpufs_session *session, const char *path) {
    return gpufs_int_(gpufs_raw_rmdir(session, path));
}
/* Removes a file or an empty directory (remove(3)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_remove(gpufs_session *session, const char *path) {
    return gpufs_int_(gpufs_raw_remove(session, path));
}
/* Gives a file another name, and replaces what had it (rename(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_rename(gpufs_session *session, const char *old_path, const char *new_path) {
    return gpufs_int_(gpufs_raw_rename(session, old_path, new_path));
}
/* The same, each path relative to its directory (renameat(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_renameat(gpufs_session *session, int old_dir, const char *old_path, int new_dir,
                                              const char *new_path) {
    return gpufs_int_(gpufs_raw_renameat(session, old_dir, old_path, new_dir, new_path));
}
/* The same with GPUFS_RENAME_... (renameat2(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_renameat2(gpufs_session *session, int old_dir, const char *old_path, int new_dir,
                                               const char *new_path, unsigned flags) {
    return gpufs_int_(gpufs_raw_renameat2(session, old_dir, old_path, new_dir, new_path, flags));
}
/* Makes a directory (mkdir(2)) with the permissions `mode`, less the process's umask. 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_mkdir(gpufs_session *session, const char *path, uint32_t mode) {
    return gpufs_int_(gpufs_raw_mkdir(session, path, mode));
}
/* The same relative to a directory (mkdirat(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_mkdirat(gpufs_session *session, int dir, const char *path, uint32_t mode) {
    return gpufs_int_(gpufs_raw_mkdirat(session, dir, path, mode));
}
/* Gives a file one more name (link(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_link(gpufs_session *session, const char *old_path, const char *new_path) {
    return gpufs_int_(gpufs_raw_link(session, old_path, new_path));
}
/* The same, each path relative to its directory (linkat(2)). `flags`: GPUFS_AT_SYMLINK_FOLLOW, GPUFS_AT_EMPTY_PATH. 0
 * or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_linkat(gpufs_session *session, int old_dir, const char *old_path, int new_dir,
                                            const char *new_path, int flags) {
    return gpufs_int_(gpufs_raw_linkat(session, old_dir, old_path, new_dir, new_path, flags));
}
/* Makes a symbolic link at `path` whose content is `target` (symlink(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_symlink(gpufs_session *session, const char *target, const char *path) {
    return gpufs_int_(gpufs_raw_symlink(session, target, path));
}
/* The same, `path` relative to a directory (symlinkat(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_symlinkat(gpufs_session *session, const char *target, int dir, const char *path) {
    return gpufs_int_(gpufs_raw_symlinkat(session, target, dir, path));
}
/* Allocates or frees `length` bytes from `offset` on (fallocate(2)). `mode`: 0, or GPUFS_FALLOC_FL_... 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fallocate(gpufs_session *session, int descriptor, int mode, int64_t offset,
                                               int64_t length) {
    return gpufs_int_(gpufs_raw_fallocate(session, descriptor, mode, offset, length));
}
/* How `length` bytes from `offset` on will be used (posix_fadvise(2)); 0 stands for "to the end". As in POSIX the result
 * is 0 or the error number, and errno stays. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_posix_fadvise(gpufs_session *session, int descriptor, int64_t offset,
                                                   int64_t length, int advice) {
    int error = gpufs_error_of_(gpufs_raw_posix_fadvise(session, descriptor, offset, length, advice));
#ifdef __cplusplus
    return ::gpufs::Result<int>(error, error);
#else
    return error;
#endif
}
/* Writes back the dirty pages of `length` bytes from `offset` on (sync_file_range(2)); 0, and 4 GiB or more, stand for
 * "to the end". 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_sync_file_range(gpufs_session *session, int descriptor, int64_t offset,
                                                     int64_t length, unsigned flags) {
    return gpufs_int_(gpufs_raw_sync_file_range(session, descriptor, offset, length, flags));
}

#ifdef __cplusplus

namespace gpufs {

/* The structures under names of their own. */
typedef struct ::gpufs_stat Stat;
typedef struct ::gpufs_statx Statx;

/* The standard names. */
GPUFS_BOTH inline Result<int> stat(Session session, const char *path, Stat *into) {
    return gpufs_stat(session, path, into);
}
GPUFS_BOTH inline Result<int> lstat(Session session, const char *path, Stat *into) {
    return gpufs_lstat(session, path, into);
}
GPUFS_BOTH inline Result<int> fstat(Session session, int descriptor, Stat *into) {
    return gpufs_fstat(session, descriptor, into);
}
GPUFS_BOTH inline Result<int> fstatat(Session session, int dir, const char *path, Stat *into, int flags) {
    return gpufs_fstatat(session, dir, path, into, flags);
}
GPUFS_BOTH inline Result<int> statx(Session session, int dir, const char *path, int flags, unsigned mask, Statx *into) {
    return gpufs_statx(session, dir, path, flags, mask, into);
}
GPUFS_BOTH inline Result<int> openat(Session session, int dir, const char *path, int flags, uint32_t mode = 0) {
    return gpufs_openat(session, dir, path, flags, mode);
}
GPUFS_BOTH inline Result<int> creat(Session session, const char *path, uint32_t mode) {
    return gpufs_creat(session, path, mode);
}
GPUFS_BOTH inline Result<int> unlink(Session session, const char *path) { return gpufs_unlink(session, path); }
GPUFS_BOTH inline Result<int> unlinkat(Session session, int dir, const char *path, int flags) {
    return gpufs_unlinkat(session, dir, path, flags);
}
GPUFS_BOTH inline Result<int> rmdir(Session session, const char *path) { return gpufs_rmdir(session, path); }
GPUFS_BOTH inline Result<int> remove(Session session, const char *path) { return gpufs_remove(session, path); }
GPUFS_BOTH inline Result<int> rename(Session session, const char *old_path, const char *new_path) {
    return gpufs_rename(session, old_path, new_path);
}
GPUFS_BOTH inline Result<int> renameat(Session session, int old_dir, const char *old_path, int new_dir,
                                       const char *new_path) {
    return gpufs_renameat(session, old_dir, old_path, new_dir, new_path);
}
GPUFS_BOTH inline Result<int> renameat2(Session session, int old_dir, const char *old_path, int new_dir,
                                        const char *new_path, unsigned flags) {
    return gpufs_renameat2(session, old_dir, old_path, new_dir, new_path, flags);
}
GPUFS_BOTH inline Result<int> mkdir(Session session, const char *path, uint32_t mode) {
    return gpufs_mkdir(session, path, mode);
}
GPUFS_BOTH inline Result<int> mkdirat(Session session, int dir, const char *path, uint32_t mode) {
    return gpufs_mkdirat(session, dir, path, mode);
}
GPUFS_BOTH inline Result<int> link(Session session, const char *old_path, const char *new_path) {
    return gpufs_link(session, old_path, new_path);
}
GPUFS_BOTH inline Result<int> linkat(Session session, int old_dir, const char *old_path, int new_dir,
                                     const char *new_path, int flags) {
    return gpufs_linkat(session, old_dir, old_path, new_dir, new_path, flags);
}
GPUFS_BOTH inline Result<int> symlink(Session session, const char *target, const char *path) {
    return gpufs_symlink(session, target, path);
}
GPUFS_BOTH inline Result<int> symlinkat(Session session, const char *target, int dir, const char *path) {
    return gpufs_symlinkat(session, target, dir, path);
}
GPUFS_BOTH inline Result<int> fallocate(Session session, int descriptor, int mode, int64_t offset, int64_t length) {
    return gpufs_fallocate(session, descriptor, mode, offset, length);
}
GPUFS_BOTH inline Result<int> posix_fadvise(Session session, int descriptor, int64_t offset, int64_t length,
                                            int advice) {
    return gpufs_posix_fadvise(session, descriptor, offset, length, advice);
}
GPUFS_BOTH inline Result<int> sync_file_range(Session session, int descriptor, int64_t offset, int64_t length,
                                              unsigned flags) {
    return gpufs_sync_file_range(session, descriptor, offset, length, flags);
}

} /* namespace gpufs */

#endif

#endif

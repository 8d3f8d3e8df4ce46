/* Directories, for CUDA and HIP kernels and for CPU lanes.
 *
 * A directory is read through a descriptor of the session's own table, which is valid in every kernel and thread of the
 * session. Each entry is given to one thread; threads of a warp that call together get the next ones in their order.
 * Calls fail as those of <gpufs/file.h> do.
 */
#ifndef GPUFS_DIRENT_H
#define GPUFS_DIRENT_H

#include <gpufs/gpufs.h>

/* One entry: struct dirent of Linux on x86-64. */
typedef struct gpufs_dirent {
    uint64_t d_ino;    /* inode number */
    int64_t d_off;     /* where the next entry begins, in the file system's own numbering */
    uint16_t d_reclen; /* sizeof(gpufs_dirent) */
    uint8_t d_type;    /* GPUFS_DT_...: what kind of file it is */
    char d_name[256];  /* with a NUL; what follows that means nothing */
} gpufs_dirent;

GPUFS_SIZE_(gpufs_dirent, 280);
GPUFS_OFFSET_(gpufs_dirent, d_off, 8);
GPUFS_OFFSET_(gpufs_dirent, d_reclen, 16);
GPUFS_OFFSET_(gpufs_dirent, d_type, 18);
GPUFS_OFFSET_(gpufs_dirent, d_name, 19);

#define GPUFS_DT_UNKNOWN 0 /* the file system does not say */
#define GPUFS_DT_FIFO 1
#define GPUFS_DT_CHR 2
#define GPUFS_DT_DIR 4
#define GPUFS_DT_BLK 6
#define GPUFS_DT_REG 8
#define GPUFS_DT_LNK 10
#define GPUFS_DT_SOCK 12

/* Opens a directory, to be read from its start (opendir(3)). A descriptor, or -1: ENOENT, ENOTDIR, EACCES, EMFILE. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_opendir(gpufs_session *session, const char *path) {
    return gpufs_int_(gpufs_raw_opendir(session, path));
}
/* The next entry (readdir(3)): 1 with an entry in `into`, 0 at the end, or -1: EBADF, ENOTDIR, EFAULT. Entries come in
 * the file system's order, "." and ".." among them. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_readdir(gpufs_session *session, int dir, gpufs_dirent *into) {
    return gpufs_int_(gpufs_raw_readdir(session, dir, into));
}
/* Goes back to the start (rewinddir(3)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_rewinddir(gpufs_session *session, int dir) {
    return gpufs_int_(gpufs_raw_rewinddir(session, dir));
}
/* Where the next entry begins, in the file system's own numbering (telldir(3)), or -1. */
GPUFS_INLINE GPUFS_RESULT(int64_t) gpufs_telldir(gpufs_session *session, int dir) {
    return gpufs_int64_(gpufs_raw_telldir(session, dir));
}
/* Goes on with the entry that began where gpufs_telldir said so, or a d_off (seekdir(3)). 0 or -1: EBADF, EINVAL. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_seekdir(gpufs_session *session, int dir, int64_t position) {
    return gpufs_int_(gpufs_raw_seekdir(session, dir, position));
}
/* Closes a directory (closedir(3)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_closedir(gpufs_session *session, int dir) {
    return gpufs_int_(gpufs_raw_closedir(session, dir));
}

#ifdef __cplusplus

namespace gpufs {

/* The standard names. */
GPUFS_BOTH inline Result<int> opendir(Session session, const char *path) { return gpufs_opendir(session, path); }
GPUFS_BOTH inline Result<int> readdir(Session session, int dir, gpufs_dirent *into) {
    return gpufs_readdir(session, dir, into);
}
GPUFS_BOTH inline Result<int> rewinddir(Session session, int dir) { return gpufs_rewinddir(session, dir); }
GPUFS_BOTH inline Result<int64_t> telldir(Session session, int dir) { return gpufs_telldir(session, dir); }
GPUFS_BOTH inline Result<int> seekdir(Session session, int dir, int64_t position) {
    return gpufs_seekdir(session, dir, position);
}
GPUFS_BOTH inline Result<int> closedir(Session session, int dir) { return gpufs_closedir(session, dir); }

} /* namespace gpufs */

#endif

#endif

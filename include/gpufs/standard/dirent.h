/* <dirent.h> of sources that know nothing of gpufs: directories. */
#ifndef GPUFS_STANDARD_DIRENT_H
#define GPUFS_STANDARD_DIRENT_H

#include <gpufs/standard/mode.h>

#pragma GCC system_header

#if defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_READING_C_LIBRARY_
#include <gpufs/standard/files_hide.h>
#include <dirent.h>
#include <gpufs/standard/files_show.h>
#undef GPUFS_READING_C_LIBRARY_
#elif defined(GPUFS_DROP_IN_SPLIT_)
#define GPUFS_READING_C_LIBRARY_
#include <dirent.h>
#undef GPUFS_READING_C_LIBRARY_
#else
#include <gpufs/standard/types.h>
struct dirent {
    ino_t d_ino;
    off_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[256];
};
typedef struct gpufs_standard_folder_ DIR;
#define DT_UNKNOWN 0
#define DT_FIFO 1
#define DT_CHR 2
#define DT_DIR 4
#define DT_BLK 6
#define DT_REG 8
#define DT_LNK 10
#define DT_SOCK 12
#endif

GPUFS_STATIC_ASSERT_(sizeof(struct dirent) == sizeof(gpufs_dirent), "struct dirent is Linux's on x86-64");

/* What a DIR points to: the directory, and the entry that readdir returned last. */
typedef struct {
    struct dirent entry;
    int handle;
} gpufs_folder_;
#define GPUFS_FOLDER_(folder) ((gpufs_folder_ *)(void *)(folder))

/* A DIR for an open directory; closes it where there is no memory for one and `closes` says so. */
static __inline__ GPUFS_BOTH DIR *gpufs_folder_of_(int handle, int closes) {
    gpufs_folder_ *folder = (gpufs_folder_ *)GPUFS_MALLOC(sizeof *folder);
    if (folder == 0) {
        if (closes) {
            (void)gpufs_value_(gpufs_closedir(gpufs_used_(), handle));
        }
        gpufs_set_errno_(12); /* ENOMEM */
        return 0;
    }
    folder->handle = handle;
    return (DIR *)(void *)folder;
}

GPUFS_STANDARD_(DIR *, opendir, (const char *path), (path),
                int handle = gpufs_value_(gpufs_opendir(gpufs_used_(), path));
                return handle < 0 ? 0 : gpufs_folder_of_(handle, 1);)
#if defined(GPUFS_WITH_POSIX_)
/* Goes on where the descriptor stands, which belongs to the DIR from here on. */
GPUFS_STANDARD_(DIR *, fdopendir, (int descriptor), (descriptor),
                struct gpufs_stat about;
                if (gpufs_value_(gpufs_fstat(gpufs_used_(), descriptor, &about)) != 0) { return 0; }
                if ((about.st_mode & 0170000) != 0040000) {
                    gpufs_set_errno_(20); /* ENOTDIR */
                    return 0;
                }
                return gpufs_folder_of_(descriptor, 0);)
GPUFS_STANDARD_(int, dirfd, (DIR *folder), (folder), return GPUFS_FOLDER_(folder)->handle;)
#endif
GPUFS_STANDARD_(struct dirent *, readdir, (DIR *folder), (folder),
                return gpufs_value_(gpufs_readdir(gpufs_used_(), GPUFS_FOLDER_(folder)->handle,
                                                  (gpufs_dirent *)(void *)&GPUFS_FOLDER_(folder)->entry)) == 1
                           ? &GPUFS_FOLDER_(folder)->entry
                           : 0;)
#if defined(GPUFS_WITH_POSIX_)
GPUFS_STANDARD_(int, readdir_r, (DIR *folder, struct dirent *into, struct dirent **found), (folder, into, found),
                int64_t raw = gpufs_raw_readdir(gpufs_used_(), GPUFS_FOLDER_(folder)->handle, (gpufs_dirent *)(void *)into);
                *found = raw == 1 ? into : 0;
                return raw < 0 ? (int)-raw : 0;)
#endif
#if defined(GPUFS_DROP_IN_HOST_) && defined(__USE_LARGEFILE64)
GPUFS_STANDARD_(struct dirent64 *, readdir64, (DIR *folder), (folder), return (struct dirent64 *)(void *)readdir(folder);)
GPUFS_MISSING_(int, readdir64_r)
#endif
GPUFS_STANDARD_(void, rewinddir, (DIR *folder), (folder),
                (void)gpufs_value_(gpufs_rewinddir(gpufs_used_(), GPUFS_FOLDER_(folder)->handle));)
#if defined(GPUFS_WITH_GNU_) || defined(__USE_XOPEN) || defined(_XOPEN_SOURCE)
GPUFS_STANDARD_(long, telldir, (DIR *folder), (folder),
                return (long)gpufs_value_(gpufs_telldir(gpufs_used_(), GPUFS_FOLDER_(folder)->handle));)
GPUFS_STANDARD_(void, seekdir, (DIR *folder, long place), (folder, place),
                (void)gpufs_value_(gpufs_seekdir(gpufs_used_(), GPUFS_FOLDER_(folder)->handle, place));)
#endif
GPUFS_STANDARD_(int, closedir, (DIR *folder), (folder),
                int result = gpufs_value_(gpufs_closedir(gpufs_used_(), GPUFS_FOLDER_(folder)->handle));
                GPUFS_FREE(folder);
                return result;)

/* CUDA and HIP: the names themselves. */
#if defined(GPUFS_DROP_IN_SPLIT_)
#define opendir(...) gpufs_standard_opendir(__VA_ARGS__)
#define readdir(...) gpufs_standard_readdir(__VA_ARGS__)
#define rewinddir(...) gpufs_standard_rewinddir(__VA_ARGS__)
#define closedir(...) gpufs_standard_closedir(__VA_ARGS__)
#if defined(GPUFS_WITH_POSIX_)
#define fdopendir(...) gpufs_standard_fdopendir(__VA_ARGS__)
#define dirfd(...) gpufs_standard_dirfd(__VA_ARGS__)
#endif
#if defined(GPUFS_WITH_GNU_) || defined(__USE_XOPEN) || defined(_XOPEN_SOURCE)
#define telldir(...) gpufs_standard_telldir(__VA_ARGS__)
#define seekdir(...) gpufs_standard_seekdir(__VA_ARGS__)
#endif
#elif defined(GPUFS_DROP_IN_GPU_) && __has_include(<gpufs/libc/scandir.h>)
#include <gpufs/libc/scandir.h>
#endif

#endif

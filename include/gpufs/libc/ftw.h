/* <ftw.h> (POSIX), on a GPU: walks of a tree of files. */
#ifndef GPUFS_LIBC_FTW_H
#define GPUFS_LIBC_FTW_H
#include <sys/stat.h>
/* What a file is: a file, a directory, one that cannot be read, one that cannot be looked at, a symbolic link; with nftw
 * also a directory after what is in it, and a link that leads nowhere. */
#define FTW_F 0
#define FTW_D 1
#define FTW_DNR 2
#define FTW_NS 3
#define FTW_SL 4
#define FTW_DP 5
#define FTW_SLN 6
/* Flags of nftw: links are not followed; no other file systems; each call in the file's directory; directories last. */
#define FTW_PHYS 1
#define FTW_MOUNT 2
#define FTW_CHDIR 4
#define FTW_DEPTH 8
#if defined(_GNU_SOURCE)
/* What the function returns says how to go on. */
#define FTW_ACTIONRETVAL 16
#define FTW_CONTINUE 0
#define FTW_STOP 1
#define FTW_SKIP_SUBTREE 2
#define FTW_SKIP_SIBLINGS 3
#endif
struct FTW {
    int base; /* where the name begins in the path */
    int level; /* 0 for the file that the walk began with */
};
/* Calls the function for the file at `path` and for all below it until it returns another value than 0, which is the
 * result; -1 with errno where `path` is not there, or memory is not. A directory is read whole before what is in it is
 * walked, so `descriptors`, 1 at least, is how many the walk may use and never what it waits for. A directory that
 * links lead to is walked once. */
int ftw(const char *path, int (*told)(const char *path, const struct stat *about, int type), int descriptors);
int nftw(const char *path, int (*told)(const char *path, const struct stat *about, int type, struct FTW *place),
         int descriptors, int flags);
#endif

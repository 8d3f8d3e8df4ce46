/* Paths and metadata from C, right and wrong use, on CPU lanes, in each way to serve the rings. Runs in a scratch directory. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpufs/file.h>
#include <gpufs/host.h>
#include <gpufs/stat.h>

/* The constants and the layouts are the system's. */
#define SAME(name) _Static_assert(GPUFS_##name == name, #name)
SAME(AT_FDCWD);
SAME(AT_SYMLINK_NOFOLLOW);
SAME(AT_REMOVEDIR);
SAME(AT_SYMLINK_FOLLOW);
SAME(AT_NO_AUTOMOUNT);
SAME(AT_EMPTY_PATH);
SAME(RENAME_NOREPLACE);
SAME(RENAME_EXCHANGE);
SAME(RENAME_WHITEOUT);
SAME(S_IFMT);
SAME(S_IFIFO);
SAME(S_IFCHR);
SAME(S_IFDIR);
SAME(S_IFBLK);
SAME(S_IFREG);
SAME(S_IFLNK);
SAME(S_IFSOCK);
SAME(STATX_BASIC_STATS);
SAME(STATX_BTIME);
SAME(FALLOC_FL_KEEP_SIZE);
SAME(FALLOC_FL_PUNCH_HOLE);
SAME(FALLOC_FL_COLLAPSE_RANGE);
SAME(FALLOC_FL_ZERO_RANGE);
SAME(FALLOC_FL_INSERT_RANGE);
SAME(FALLOC_FL_UNSHARE_RANGE);
SAME(POSIX_FADV_NORMAL);
SAME(POSIX_FADV_RANDOM);
SAME(POSIX_FADV_SEQUENTIAL);
SAME(POSIX_FADV_WILLNEED);
SAME(POSIX_FADV_DONTNEED);
SAME(POSIX_FADV_NOREUSE);
SAME(SYNC_FILE_RANGE_WAIT_BEFORE);
SAME(SYNC_FILE_RANGE_WRITE);
SAME(SYNC_FILE_RANGE_WAIT_AFTER);
#define PLACED(ours, theirs, member)                                                                          \
    _Static_assert(offsetof(struct ours, member) == offsetof(struct theirs, member) &&                        \
                       sizeof(((struct ours *)0)->member) == sizeof(((struct theirs *)0)->member),            \
                   #member)
#if defined(__x86_64__)
_Static_assert(sizeof(struct gpufs_stat) == sizeof(struct stat), "struct stat");
PLACED(gpufs_stat, stat, st_dev);
PLACED(gpufs_stat, stat, st_ino);
PLACED(gpufs_stat, stat, st_nlink);
PLACED(gpufs_stat, stat, st_mode);
PLACED(gpufs_stat, stat, st_uid);
PLACED(gpufs_stat, stat, st_gid);
PLACED(gpufs_stat, stat, st_rdev);
PLACED(gpufs_stat, stat, st_size);
PLACED(gpufs_stat, stat, st_blksize);
PLACED(gpufs_stat, stat, st_blocks);
PLACED(gpufs_stat, stat, st_atim);
PLACED(gpufs_stat, stat, st_mtim);
PLACED(gpufs_stat, stat, st_ctim);
#endif
_Static_assert(sizeof(struct gpufs_statx) == sizeof(struct statx), "struct statx");
PLACED(gpufs_statx, statx, stx_mask);
PLACED(gpufs_statx, statx, stx_mode);
PLACED(gpufs_statx, statx, stx_ino);
PLACED(gpufs_statx, statx, stx_size);
PLACED(gpufs_statx, statx, stx_btime);
PLACED(gpufs_statx, statx, stx_mtime);
PLACED(gpufs_statx, statx, stx_rdev_major);
PLACED(gpufs_statx, statx, stx_dev_minor);

static int same(const struct gpufs_stat *ours, const struct stat *theirs) {
    return ours->st_dev == theirs->st_dev && ours->st_ino == theirs->st_ino && ours->st_mode == theirs->st_mode &&
           ours->st_nlink == theirs->st_nlink && ours->st_uid == theirs->st_uid && ours->st_gid == theirs->st_gid &&
           ours->st_rdev == theirs->st_rdev && ours->st_size == theirs->st_size && ours->st_blksize == theirs->st_blksize &&
           ours->st_blocks == theirs->st_blocks && ours->st_mtim.tv_sec == theirs->st_mtim.tv_sec &&
           ours->st_mtim.tv_nsec == theirs->st_mtim.tv_nsec && ours->st_ctim.tv_nsec == theirs->st_ctim.tv_nsec;
}

/* Right use, in one lane: each beside what the system says. */
static void right(gpufs_session *fs, void *argument) {
    struct gpufs_stat st;
    struct gpufs_statx stx;
    struct stat system;
    (void)argument;
    CHECK(gpufs_mkdir(fs, "d", 0750) == 0 && stat("d", &system) == 0 && (system.st_mode & 0777) == 0750);
    const int dir = gpufs_open(fs, "d", GPUFS_O_DIRECTORY, 0);
    CHECK(dir >= 0);
    const int file = gpufs_openat(fs, dir, "file", GPUFS_O_CREAT | GPUFS_O_EXCL | GPUFS_O_RDWR, 0640);
    CHECK(file >= 0 && gpufs_write(fs, file, "0123456789", 10) == 10);
    CHECK(stat("d/file", &system) == 0);
    CHECK(gpufs_stat(fs, "d/file", &st) == 0 && same(&st, &system) && GPUFS_S_ISREG(st.st_mode) && st.st_size == 10);
    CHECK(gpufs_fstat(fs, file, &st) == 0 && same(&st, &system));
    CHECK(gpufs_fstatat(fs, dir, "file", &st, 0) == 0 && same(&st, &system));
    CHECK(gpufs_fstatat(fs, file, "", &st, GPUFS_AT_EMPTY_PATH) == 0 && same(&st, &system));
    CHECK(gpufs_statx(fs, dir, "file", 0, GPUFS_STATX_BASIC_STATS | GPUFS_STATX_BTIME, &stx) == 0);
    CHECK(stx.stx_size == 10 && stx.stx_ino == system.st_ino && stx.stx_mtime.tv_sec == system.st_mtim.tv_sec);
    CHECK(stat("/dev/null", &system) == 0 && gpufs_stat(fs, "/dev/null", &st) == 0);
    CHECK(same(&st, &system) && st.st_rdev == system.st_rdev);

    CHECK(gpufs_symlink(fs, "file", "d/soft") == 0 && gpufs_symlinkat(fs, "nowhere", dir, "broken") == 0);
    CHECK(lstat("d/soft", &system) == 0 && gpufs_lstat(fs, "d/soft", &st) == 0);
    CHECK(same(&st, &system) && GPUFS_S_ISLNK(st.st_mode) && st.st_size == 4);
    CHECK(gpufs_fstatat(fs, dir, "soft", &st, GPUFS_AT_SYMLINK_NOFOLLOW) == 0 && same(&st, &system));
    CHECK(gpufs_stat(fs, "d/soft", &st) == 0 && st.st_size == 10);
    CHECK_FAILS(gpufs_stat(fs, "d/broken", &st), -1, ENOENT);
    CHECK(gpufs_link(fs, "d/file", "d/hard") == 0 && gpufs_linkat(fs, dir, "soft", dir, "hard2", GPUFS_AT_SYMLINK_FOLLOW) == 0);
    CHECK(gpufs_fstat(fs, file, &st) == 0 && st.st_nlink == 3);

    CHECK(gpufs_rename(fs, "d/hard", "d/renamed") == 0 && access("d/hard", F_OK) != 0 && access("d/renamed", F_OK) == 0);
    CHECK(gpufs_renameat(fs, dir, "renamed", GPUFS_AT_FDCWD, "out") == 0 && access("out", F_OK) == 0);
    CHECK(gpufs_renameat2(fs, GPUFS_AT_FDCWD, "out", dir, "back", GPUFS_RENAME_NOREPLACE) == 0);
    CHECK_FAILS(gpufs_renameat2(fs, dir, "back", dir, "file", GPUFS_RENAME_NOREPLACE), -1, EEXIST);
    CHECK(gpufs_mkdirat(fs, dir, "inner", 0700) == 0 && access("d/inner", F_OK) == 0);

    CHECK(gpufs_fallocate(fs, file, 0, 0, 8192) == 0 && gpufs_fstat(fs, file, &st) == 0 && st.st_size == 8192);
    CHECK(gpufs_fallocate(fs, file, GPUFS_FALLOC_FL_KEEP_SIZE, 0, 1 << 20) == 0 && gpufs_fstat(fs, file, &st) == 0);
    CHECK(st.st_size == 8192 && st.st_blocks * 512 >= 1 << 20);
    errno = 0;
    CHECK(gpufs_posix_fadvise(fs, file, 0, 0, GPUFS_POSIX_FADV_SEQUENTIAL) == 0);
    CHECK(gpufs_posix_fadvise(fs, file, 0, 4096, 99) == EINVAL && errno == 0);
    CHECK(gpufs_sync_file_range(fs, file, 0, 0, GPUFS_SYNC_FILE_RANGE_WRITE | GPUFS_SYNC_FILE_RANGE_WAIT_AFTER) == 0);
    CHECK(gpufs_sync_file_range(fs, file, 0, INT64_C(1) << 40, GPUFS_SYNC_FILE_RANGE_WRITE) == 0);

    CHECK(gpufs_unlink(fs, "d/back") == 0 && gpufs_unlinkat(fs, dir, "hard2", 0) == 0 && gpufs_remove(fs, "d/soft") == 0);
    CHECK(gpufs_remove(fs, "d/broken") == 0 && gpufs_unlinkat(fs, dir, "inner", GPUFS_AT_REMOVEDIR) == 0);
    CHECK_FAILS(gpufs_rmdir(fs, "d"), -1, ENOTEMPTY);
    CHECK_FAILS(gpufs_remove(fs, "d"), -1, ENOTEMPTY);
    CHECK(gpufs_close(fs, file) == 0 && gpufs_unlink(fs, "d/file") == 0 && gpufs_close(fs, dir) == 0);
    CHECK(gpufs_rmdir(fs, "d") == 0 && gpufs_mkdir(fs, "d", 0700) == 0 && gpufs_remove(fs, "d") == 0 && access("d", F_OK) != 0);
    const int made = gpufs_creat(fs, "made", 0600);
    CHECK(made >= 0 && gpufs_write(fs, made, "x", 1) == 1 && gpufs_close(fs, made) == 0 && gpufs_creat(fs, "made", 0) >= 0);
    CHECK(stat("made", &system) == 0 && system.st_size == 0 && gpufs_remove(fs, "made") == 0);
}

/* A path without end, one of the longest, and pairs of these. */
static void long_paths(gpufs_session *fs, void *argument) {
    static char endless[GPUFS_PATH_BYTES + 1], longest[GPUFS_PATH_BYTES];
    struct gpufs_stat st;
    (void)argument;
    memset(endless, 'x', sizeof endless);
    for (size_t at = 0; at + 2 < sizeof longest; at += 2) {
        memcpy(longest + at, "./", 2);
    }
    longest[sizeof longest - 2] = '.';
    CHECK(gpufs_stat(fs, longest, &st) == 0 && GPUFS_S_ISDIR(st.st_mode));
    longest[sizeof longest - 2] = 'y';
    CHECK(gpufs_symlink(fs, "target", longest) == 0 && gpufs_lstat(fs, "y", &st) == 0);
    CHECK(gpufs_rename(fs, longest, longest) == 0);
    char other[GPUFS_PATH_BYTES];
    memcpy(other, longest, sizeof other);
    other[sizeof other - 2] = 'z';
    CHECK(gpufs_rename(fs, longest, other) == 0 && gpufs_lstat(fs, "z", &st) == 0 && gpufs_unlink(fs, other) == 0);
    CHECK_FAILS(gpufs_stat(fs, endless, &st), -1, ENAMETOOLONG);
    CHECK_FAILS(gpufs_unlink(fs, endless), -1, ENAMETOOLONG);
    CHECK_FAILS(gpufs_mkdir(fs, endless, 0), -1, ENAMETOOLONG);
    CHECK_FAILS(gpufs_rename(fs, "a", endless), -1, ENAMETOOLONG);
    CHECK_FAILS(gpufs_rename(fs, endless, "a"), -1, ENAMETOOLONG);
    CHECK_FAILS(gpufs_symlink(fs, endless, "a"), -1, ENAMETOOLONG);
    CHECK_FAILS(gpufs_openat(fs, GPUFS_AT_FDCWD, endless, 0, 0), -1, ENAMETOOLONG);
    endless[256] = '\0';
    CHECK_FAILS(gpufs_stat(fs, endless, &st), -1, ENAMETOOLONG); /* a name longer than a file system's may be */
}

/* The same as functions of a session and of one path. */
#define ON_PATH(CALL)                                                                                             \
    CALL(gpufs_stat(fs, path, &st))                                                                               \
    CALL(gpufs_lstat(fs, path, &st))                                                                              \
    CALL(gpufs_fstatat(fs, GPUFS_AT_FDCWD, path, &st, 0))                                                         \
    CALL(gpufs_statx(fs, GPUFS_AT_FDCWD, path, 0, 0, &stx))                                                       \
    CALL(gpufs_openat(fs, GPUFS_AT_FDCWD, path, 0, 0))                                                            \
    CALL(gpufs_unlink(fs, path))                                                                                  \
    CALL(gpufs_unlinkat(fs, GPUFS_AT_FDCWD, path, 0))                                                             \
    CALL(gpufs_rmdir(fs, path))                                                                                   \
    CALL(gpufs_remove(fs, path))                                                                                  \
    CALL(gpufs_rename(fs, path, "new"))                                                                           \
    CALL(gpufs_renameat(fs, GPUFS_AT_FDCWD, path, GPUFS_AT_FDCWD, "new"))                                         \
    CALL(gpufs_renameat2(fs, GPUFS_AT_FDCWD, path, GPUFS_AT_FDCWD, "new", 0))                                     \
    CALL(gpufs_link(fs, path, "new"))                                                                             \
    CALL(gpufs_linkat(fs, GPUFS_AT_FDCWD, path, GPUFS_AT_FDCWD, "new", 0))

static void wrong(gpufs_session *session, void *argument) {
    struct gpufs_stat st;
    struct gpufs_statx stx;
    (void)argument;
    gpufs_session *fs = session;
    const char *path = NULL;
#define NO_PATH(call) CHECK_FAILS(call, -1, EFAULT);
    ON_PATH(NO_PATH)
    NO_PATH(gpufs_creat(fs, path, 0))
    NO_PATH(gpufs_mkdir(fs, path, 0))
    NO_PATH(gpufs_mkdirat(fs, GPUFS_AT_FDCWD, path, 0))
    NO_PATH(gpufs_symlink(fs, path, "new"))
    NO_PATH(gpufs_symlink(fs, "x", path))
    NO_PATH(gpufs_symlinkat(fs, "x", GPUFS_AT_FDCWD, path))
    NO_PATH(gpufs_rename(fs, "x", path))
    NO_PATH(gpufs_renameat2(fs, GPUFS_AT_FDCWD, "x", GPUFS_AT_FDCWD, path, 0))
    NO_PATH(gpufs_linkat(fs, GPUFS_AT_FDCWD, "x", GPUFS_AT_FDCWD, path, 0))
    path = "";
#define EMPTY(call) CHECK_FAILS(call, -1, ENOENT);
    ON_PATH(EMPTY)
    path = "missing";
    ON_PATH(EMPTY)
    EMPTY(gpufs_mkdir(fs, "missing/x", 0))
    EMPTY(gpufs_symlink(fs, "", "new"))
    CHECK_FAILS(gpufs_stat(fs, ".", NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_lstat(fs, ".", NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_fstat(fs, 0, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_fstatat(fs, GPUFS_AT_FDCWD, ".", NULL, 0), -1, EFAULT);
    CHECK_FAILS(gpufs_statx(fs, GPUFS_AT_FDCWD, ".", 0, 0, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_statx(fs, GPUFS_AT_FDCWD, ".", 0, 0x80000000u, &stx), -1, EINVAL);
    CHECK_FAILS(gpufs_fstatat(fs, GPUFS_AT_FDCWD, ".", &st, 1), -1, EINVAL);
    CHECK_FAILS(gpufs_unlinkat(fs, GPUFS_AT_FDCWD, "missing", 1), -1, EINVAL);
    CHECK_FAILS(gpufs_unlink(fs, "."), -1, EISDIR);
    CHECK_FAILS(gpufs_rmdir(fs, "."), -1, EINVAL);

    const int file = gpufs_open(fs, "wrong", GPUFS_O_CREAT | GPUFS_O_RDWR, 0600);
    CHECK(file >= 0);
    CHECK_FAILS(gpufs_rmdir(fs, "wrong"), -1, ENOTDIR);
    CHECK_FAILS(gpufs_mkdir(fs, "wrong", 0700), -1, EEXIST);
    CHECK_FAILS(gpufs_link(fs, "wrong", "wrong"), -1, EEXIST);
    CHECK_FAILS(gpufs_mkdirat(fs, file, "x", 0700), -1, ENOTDIR);
    CHECK_FAILS(gpufs_openat(fs, file, "x", 0, 0), -1, ENOTDIR);
    CHECK_FAILS(gpufs_renameat2(fs, GPUFS_AT_FDCWD, "wrong", GPUFS_AT_FDCWD, "new", 64), -1, EINVAL);
    CHECK_FAILS(gpufs_fallocate(fs, file, 0, 0, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_fallocate(fs, file, 0, -1, 1), -1, EINVAL);
    CHECK_FAILS(gpufs_fallocate(fs, file, 1 << 20, 0, 1), -1, EOPNOTSUPP);
    CHECK_FAILS(gpufs_sync_file_range(fs, file, -1, 1, 2), -1, EINVAL);
    CHECK_FAILS(gpufs_sync_file_range(fs, file, 1, INT64_MAX, 2), -1, EINVAL);
    CHECK_FAILS(gpufs_sync_file_range(fs, file, 0, 0, 64), -1, EINVAL);
    CHECK(gpufs_posix_fadvise(fs, file, 0, -1, 0) == EINVAL);
    CHECK(gpufs_close(fs, file) == 0 && gpufs_unlink(fs, "wrong") == 0);

    int stale[] = {file, -1, 1 << 20, INT32_MAX, INT32_MIN};
    for (size_t index = 0; index < sizeof stale / sizeof *stale; ++index) {
        const int number = stale[index];
#define STALE(call) CHECK_FAILS(call, -1, EBADF);
        STALE(gpufs_fstat(fs, number, &st))
        STALE(gpufs_fstatat(fs, number, "x", &st, 0))
        STALE(gpufs_fstatat(fs, number, "", &st, GPUFS_AT_EMPTY_PATH))
        STALE(gpufs_statx(fs, number, "x", 0, 0, &stx))
        STALE(gpufs_openat(fs, number, "x", 0, 0))
        STALE(gpufs_unlinkat(fs, number, "x", 0))
        STALE(gpufs_renameat(fs, number, "x", GPUFS_AT_FDCWD, "new"))
        STALE(gpufs_mkdirat(fs, number, "x", 0))
        STALE(gpufs_linkat(fs, number, "x", GPUFS_AT_FDCWD, "new", 0))
        STALE(gpufs_symlinkat(fs, "x", number, "x"))
        STALE(gpufs_fallocate(fs, number, 0, 0, 1))
        STALE(gpufs_sync_file_range(fs, number, 0, 0, 0))
        STALE(gpufs_sync_file_range(fs, number, -1, 0, 0))
        CHECK(gpufs_posix_fadvise(fs, number, 0, 0, 0) == EBADF);
        /* An absolute path needs no directory. */
        CHECK(gpufs_fstatat(fs, number, "/", &st, 0) == 0);
    }

    fs = NULL;
    path = "missing";
#define NO_SESSION(call) CHECK_FAILS(call, -1, EINVAL);
    ON_PATH(NO_SESSION)
    NO_SESSION(gpufs_creat(fs, path, 0))
    NO_SESSION(gpufs_mkdir(fs, path, 0))
    NO_SESSION(gpufs_mkdirat(fs, GPUFS_AT_FDCWD, path, 0))
    NO_SESSION(gpufs_symlink(fs, path, "new"))
    NO_SESSION(gpufs_symlinkat(fs, path, GPUFS_AT_FDCWD, "new"))
    NO_SESSION(gpufs_fstat(fs, 0, &st))
    NO_SESSION(gpufs_stat(fs, NULL, NULL))
    NO_SESSION(gpufs_fallocate(fs, 0, 0, 0, 1))
    NO_SESSION(gpufs_sync_file_range(fs, 0, 0, 0, 0))
    CHECK(gpufs_posix_fadvise(fs, 0, 0, 0, 0) == EINVAL);
}

/* Many lanes at once, each with names of its own; a file of the host's, which the rings have registered. */
static void grid(gpufs_session *fs, void *argument) {
    char path[32], other[32];
    struct gpufs_stat st;
    const int thread = (int)gpufs_thread();
    CHECK(snprintf(path, sizeof path, "grid%d", thread) > 0 && snprintf(other, sizeof other, "moved%d", thread) > 0);
    CHECK(gpufs_fstat(fs, *(const int *)argument, &st) == 0 && st.st_size == 26);
    CHECK(gpufs_fstatat(fs, *(const int *)argument, "", &st, GPUFS_AT_EMPTY_PATH) == 0 && st.st_size == 26);
    if (thread % 3 == 0) {
        CHECK(gpufs_mkdir(fs, path, 0700) == 0);
    } else {
        CHECK(gpufs_close(fs, gpufs_creat(fs, path, 0600)) == 0);
    }
    CHECK(gpufs_rename(fs, path, other) == 0);
    CHECK(gpufs_stat(fs, other, &st) == 0 && GPUFS_S_ISDIR(st.st_mode) == (thread % 3 == 0));
    CHECK_FAILS(gpufs_stat(fs, path, &st), -1, ENOENT);
    CHECK(gpufs_remove(fs, other) == 0);
    CHECK_FAILS(gpufs_remove(fs, other), -1, ENOENT);
}

int main(void) {
    for (uint32_t mode = GPUFS_MODE_SQPOLL; mode <= GPUFS_MODE_THREADS; ++mode) {
        gpufs_options options;
        memset(&options, 0, sizeof options);
        options.size = sizeof options;
        options.rings = 1;
        options.mode = mode;
        options.deadline_ms = 20000;
        gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, &options);
        if (host == NULL) {
            printf("SKIP mode %u: %s\n", (unsigned)mode, gpufs_last_error());
            continue;
        }
        FILE *alphabet = fopen("alphabet", "w+");
        CHECK(fputs("abcdefghijklmnopqrstuvwxyz", alphabet) >= 0 && fflush(alphabet) == 0);
        int number = gpufs_host_register_file(host, fileno(alphabet));
        CHECK(number >= 0);
        void (*const kernels[])(gpufs_session *, void *) = {right, long_paths, wrong};
        for (size_t index = 0; index < sizeof kernels / sizeof *kernels; ++index) {
            CHECK(gpufs_host_launch(host, 1, 1, kernels[index], NULL) == 0 && gpufs_host_synchronize(host) == 0);
        }
        CHECK(gpufs_host_launch(host, 3, 50, grid, &number) == 0 && gpufs_host_synchronize(host) == 0);
        CHECK(gpufs_host_unregister_file(host, number) == 0 && fclose(alphabet) == 0 && gpufs_host_close(host) == 0);
    }
    return 0;
}

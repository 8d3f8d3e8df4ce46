/* What the host does for kernels, from C on CPU lanes: right use, then each wrong one. Runs in a scratch directory. */
#include "check.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#include <gpufs/dirent.h>
#include <gpufs/file.h>
#include <gpufs/host.h>
#include <gpufs/service.h>
#include <gpufs/stdio.h>

static int product(void *context, const void *request, void *reply) {
    const int32_t *factors = request;
    const int64_t limit = *(const int64_t *)context;
    const int64_t result = (int64_t)factors[0] * factors[1];
    if (result > limit) return ERANGE;
    memcpy(reply, &result, sizeof result);
    return 0;
}

static void right(gpufs_session *fs, void *argument) {
    char text[64], path[4096], wanted[4096];
    gpufs_dirent entry;
    gpufs_timespec moment = {0, 1000}, times[2] = {{5, 6}, {7, 8}};
    (void)argument;
    CHECK(gpufs_readlink(fs, "link", text, sizeof text) == 4 && memcmp(text, "file", 4) == 0);
    CHECK(gpufs_truncate(fs, "file", 3) == 0 && gpufs_chmod(fs, "file", 0640) == 0);
    CHECK(gpufs_access(fs, "file", GPUFS_R_OK | GPUFS_W_OK) == 0);
    int here = gpufs_opendir(fs, ".");
    CHECK(gpufs_readlinkat(fs, here, "link", text, sizeof text) == 4 && memcmp(text, "file", 4) == 0);
    CHECK(gpufs_fchmodat(fs, here, "file", 0644, 0) == 0 && gpufs_closedir(fs, here) == 0);
    here = gpufs_open(fs, "file", GPUFS_O_WRONLY | GPUFS_O_APPEND, 0);
    CHECK(gpufs_getfl(fs, here) == (GPUFS_O_WRONLY | GPUFS_O_APPEND) && gpufs_close(fs, here) == 0);
    CHECK(gpufs_faccessat(fs, GPUFS_AT_FDCWD, "file", GPUFS_F_OK, 0) == 0);
    CHECK(gpufs_utimensat(fs, GPUFS_AT_FDCWD, "file", times, 0) == 0);
    here = gpufs_opendir(fs, ".");
    CHECK(gpufs_chdir(fs, ".") == 0 && gpufs_fchdir(fs, here) == 0 && gpufs_closedir(fs, here) == 0);
    CHECK(gpufs_umask(fs, 022) >= 0 && gpufs_umask(fs, 022) == 022);
    CHECK(gpufs_getcwd(fs, path, sizeof path) == path && getcwd(wanted, sizeof wanted) && strcmp(path, wanted) == 0);
    int file = gpufs_open(fs, "file", GPUFS_O_RDWR, 0);
    CHECK(file >= 0 && gpufs_fchmod(fs, file, 0600) == 0 && gpufs_futimens(fs, file, NULL) == 0);
    CHECK(gpufs_flock(fs, file, GPUFS_LOCK_SH) == 0 && gpufs_flock(fs, file, GPUFS_LOCK_UN) == 0);
    gpufs_record_lock lock = {GPUFS_F_RDLCK, 0, 0, 2, 0};
    CHECK(gpufs_fcntl(fs, file, GPUFS_F_SETLKW, &lock) == 0);
    CHECK(gpufs_fcntl(fs, file, GPUFS_F_GETLK, &lock) == 0 && lock.l_type == GPUFS_F_UNLCK);
    CHECK(gpufs_close(fs, file) == 0);
    int dir = gpufs_opendir(fs, "."), entries = 0;
    CHECK(dir >= 0);
    while (gpufs_readdir(fs, dir, &entry) == 1) entries += strcmp(entry.d_name, "file") == 0 && entry.d_type == GPUFS_DT_REG;
    CHECK(entries == 1 && gpufs_readdir(fs, dir, &entry) == 0);
    CHECK(gpufs_rewinddir(fs, dir) == 0 && gpufs_readdir(fs, dir, &entry) == 1 && gpufs_closedir(fs, dir) == 0);
    int64_t places[64];
    char names[64][256];
    int count = 0, other = gpufs_opendir(fs, ".");
    while (count < 64 && (places[count] = gpufs_telldir(fs, other)) >= 0 && gpufs_readdir(fs, other, &entry) == 1) {
        strcpy(names[count++], entry.d_name);
    }
    CHECK(count >= 3 && places[0] == 0 && gpufs_readdir(fs, other, &entry) == 0);
    while (count-- > 0) { /* backwards */
        CHECK(gpufs_seekdir(fs, other, places[count]) == 0 && gpufs_telldir(fs, other) == places[count]);
        CHECK(gpufs_readdir(fs, other, &entry) == 1 && strcmp(entry.d_name, names[count]) == 0);
    }
    CHECK(gpufs_closedir(fs, other) == 0);
    CHECK(gpufs_getenv(fs, "GPUFS_C_TEST", text, 4) == 5 && strcmp(text, "val") == 0);
    CHECK(gpufs_nanosleep(fs, &moment) == 0 && gpufs_time(fs) > 1000000000);
    CHECK(gpufs_clock_gettime(fs, GPUFS_CLOCK_MONOTONIC, &moment) == 0 && moment.tv_nsec < 1000000000);
    gpufs_file *child = gpufs_popen(fs, "echo said; exit 3", "r");
    CHECK(child != NULL && gpufs_fgets(text, sizeof text, child) == text && strcmp(text, "said\n") == 0);
    CHECK(gpufs_pclose(child) == 3 << 8);
    int32_t factors[2] = {6, 7};
    int64_t result = 0;
    CHECK(gpufs_call(fs, "product", factors, sizeof factors, &result, sizeof result) == 0 && result == 42);
    factors[0] = 1000;
    CHECK_FAILS(gpufs_call(fs, "product", factors, sizeof factors, &result, sizeof result), -1, ERANGE);
}

static void wrong(gpufs_session *fs, void *argument) {
    char text[8];
    gpufs_dirent entry;
    gpufs_timespec moment = {0, -1};
    gpufs_record_lock lock = {GPUFS_F_RDLCK, 0, 0, 2, 0};
    (void)argument;
    CHECK_FAILS(gpufs_readlink(NULL, "link", text, 8), -1, EINVAL);
    CHECK_FAILS(gpufs_readlink(fs, NULL, text, 8), -1, EFAULT);
    CHECK_FAILS(gpufs_readlink(fs, "link", NULL, 8), -1, EFAULT);
    CHECK_FAILS(gpufs_readlinkat(fs, 50, "link", text, 8), -1, EBADF);
    CHECK_FAILS(gpufs_readlinkat(fs, GPUFS_AT_FDCWD, "link", NULL, 8), -1, EFAULT);
    CHECK_FAILS(gpufs_fchmodat(fs, 50, "file", 0600, 0), -1, EBADF);
    CHECK_FAILS(gpufs_fchmodat(fs, GPUFS_AT_FDCWD, "missing", 0600, 0), -1, ENOENT);
    CHECK_FAILS(gpufs_getfl(fs, 50), -1, EBADF);
    CHECK_FAILS(gpufs_truncate(fs, "file", -1), -1, EINVAL);
    CHECK_FAILS(gpufs_chmod(fs, "missing", 0), -1, ENOENT);
    CHECK_FAILS(gpufs_fchmod(fs, -1, 0), -1, EBADF);
    CHECK_FAILS(gpufs_access(fs, "file", 99), -1, EINVAL);
    CHECK_FAILS(gpufs_faccessat(fs, 50, "file", 0, 0), -1, EBADF);
    CHECK_FAILS(gpufs_utimensat(fs, GPUFS_AT_FDCWD, "missing", NULL, 0), -1, ENOENT);
    CHECK_FAILS(gpufs_futimens(fs, 50, NULL), -1, EBADF);
    CHECK_FAILS(gpufs_getcwd(fs, NULL, 8), NULL, EFAULT);
    CHECK_FAILS(gpufs_getcwd(fs, text, 0), NULL, EINVAL);
    CHECK_FAILS(gpufs_chdir(NULL, "."), -1, EINVAL);
    CHECK_FAILS(gpufs_chdir(fs, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_chdir(fs, "missing"), -1, ENOENT);
    CHECK_FAILS(gpufs_fchdir(fs, 50), -1, EBADF);
    CHECK_FAILS(gpufs_umask(NULL, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_opendir(fs, "file"), -1, ENOTDIR);
    CHECK_FAILS(gpufs_readdir(fs, 50, &entry), -1, EBADF);
    CHECK_FAILS(gpufs_readdir(fs, 0, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_rewinddir(fs, -1), -1, EBADF);
    CHECK_FAILS(gpufs_telldir(fs, 50), -1, EBADF);
    CHECK_FAILS(gpufs_seekdir(fs, 50, 0), -1, EBADF);
    CHECK_FAILS(gpufs_seekdir(fs, 0, -1), -1, EINVAL);
    CHECK_FAILS(gpufs_closedir(fs, 50), -1, EBADF);
    CHECK_FAILS(gpufs_flock(fs, 50, GPUFS_LOCK_EX), -1, EBADF);
    CHECK_FAILS(gpufs_fcntl(fs, 50, GPUFS_F_SETLK, &lock), -1, EBADF);
    CHECK_FAILS(gpufs_fcntl(fs, 0, 99, &lock), -1, EINVAL);
    CHECK_FAILS(gpufs_getenv(fs, NULL, text, 8), -1, EFAULT);
    CHECK_FAILS(gpufs_clock_gettime(fs, 99, &moment), -1, EINVAL);
    CHECK_FAILS(gpufs_clock_gettime(fs, 0, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_time(NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_nanosleep(fs, NULL), -1, EFAULT);
    moment.tv_nsec = -1;
    CHECK_FAILS(gpufs_nanosleep(fs, &moment), -1, EINVAL);
    CHECK_FAILS(gpufs_popen(fs, "true", "x"), NULL, EINVAL);
    CHECK_FAILS(gpufs_popen(fs, NULL, "r"), NULL, EFAULT);
    CHECK_FAILS(gpufs_pclose(NULL), -1, EBADF);
    CHECK_FAILS(gpufs_call(fs, "product", text, 1, text, 8), -1, EINVAL);
    CHECK_FAILS(gpufs_call(fs, "product", NULL, 8, text, 8), -1, EFAULT);
    CHECK_FAILS(gpufs_call(fs, "nothing", text, 8, text, 8), -1, ENOSYS);
}

int main(void) {
    static int64_t limit = 1000;
    FILE *file = fopen("file", "w");
    CHECK(file != NULL && fputs("0123456789", file) >= 0 && fclose(file) == 0);
    CHECK(symlink("file", "link") == 0 && setenv("GPUFS_C_TEST", "value", 1) == 0);
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, NULL);
    CHECK(host != NULL);
    CHECK(gpufs_host_add_service(host, "product", 8, 8, product, &limit) == 0);
    CHECK_FAILS(gpufs_host_add_service(host, "product", 8, 8, product, &limit), -1, EEXIST);
    CHECK_FAILS(gpufs_host_add_service(host, "other", GPUFS_SERVICE_BYTES + 1, 8, product, NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_host_add_service(host, "other", 8, 8, NULL, NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_host_add_service(NULL, "other", 8, 8, product, NULL), -1, EINVAL);
    CHECK(gpufs_host_launch(host, 1, 1, right, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, wrong, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_close(host) == 0);
    return 0;
}

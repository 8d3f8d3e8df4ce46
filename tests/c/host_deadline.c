/* Calls that the host makes itself, past the deadline, before any launch: ETIMEDOUT, and the session goes on. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpufs/gpufs.h>
#include <gpufs/host.h>
#include <gpufs/stdio.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
            exit(1); \
        } \
    } while (0)

static void one_mode(unsigned mode) {
    gpufs_options options = {.size = sizeof options, .deadline_ms = 200, .mode = mode, .rings = 1};
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, &options);
    char byte = 0;
    int keeper;
    if (!host) {
        printf("SKIP mode %u: %s\n", mode, gpufs_last_error());
        return;
    }
    unlink("fifo");
    CHECK(mkfifo("fifo", 0600) == 0);
    keeper = open("fifo", O_RDWR);
    CHECK(keeper >= 0);
    gpufs_file *file = gpufs_host_fopen(host, "fifo", "r");
    CHECK(file);
    for (int round = 0; round < 2; ++round) {
        errno = 0;
        CHECK(gpufs_fread(&byte, 1, 1, file) == 0 && errno == ETIMEDOUT);
        CHECK(gpufs_ferror(file));
        gpufs_clearerr(file);
    }
    CHECK(gpufs_fgetc(file) == EOF && errno == ETIMEDOUT);
    gpufs_clearerr(file);
    CHECK(write(keeper, "x", 1) == 1);
    CHECK(gpufs_fread(&byte, 1, 1, file) == 1 && byte == 'x');
    CHECK(gpufs_host_fclose(host, file) == 0);
    file = gpufs_host_fopen(host, "fine", "w");
    CHECK(file && gpufs_fputs("fine\n", file) >= 0 && gpufs_host_fclose(host, file) == 0);
    CHECK(gpufs_host_close(host) == 0);
    close(keeper);
}

int main(void) {
    one_mode(GPUFS_MODE_SQPOLL);
    one_mode(GPUFS_MODE_ENTER);
    one_mode(GPUFS_MODE_THREADS);
    return 0;
}

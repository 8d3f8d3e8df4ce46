/* Every thread of a grid opens the same file by the shared open, prints a line and closes it. */
#include "check.h"

#include <errno.h>

#include <gpufs/host.h>
#include <gpufs/stdio.h>

enum { BLOCKS = 132, THREADS = 256 };

static void report(gpufs_session *fs, void *argument) {
    (void)argument;
    gpufs_file *out = gpufs_fopen_shared(fs, "report.txt", "a");
    CHECK(out != NULL);
    CHECK(gpufs_fprintf(out, "thread %llu\n", (unsigned long long)gpufs_thread()) > 0);
    CHECK(gpufs_fclose(out) == 0);
    CHECK_FAILS(gpufs_fopen_shared(fs, "missing/report.txt", "w"), NULL, ENOENT);
    CHECK_FAILS(gpufs_fopen_shared(fs, NULL, "w"), NULL, EFAULT);
    CHECK_FAILS(gpufs_fopen_shared(fs, "report.txt", "q"), NULL, EINVAL);
    CHECK_FAILS(gpufs_fopen_shared(NULL, "report.txt", "a"), NULL, EINVAL);
}

int main(void) {
    static char seen[BLOCKS * THREADS];
    gpufs_options options = {.size = sizeof options, .mode = GPUFS_MODE_ENTER, .deadline_ms = 50000};
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, &options);
    CHECK(host != NULL);
    CHECK(gpufs_host_launch(host, BLOCKS, THREADS, report, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_close(host) == 0);
    FILE *file = fopen("report.txt", "r");
    CHECK(file != NULL);
    unsigned long long thread;
    int lines = 0;
    for (; fscanf(file, "thread %llu\n", &thread) == 1; ++lines) {
        CHECK(thread < BLOCKS * THREADS && !seen[thread]++);
    }
    CHECK(lines == BLOCKS * THREADS && feof(file));
    CHECK(fclose(file) == 0);
    return 0;
}

/* Each thread of a grid opens a file of its own and writes it once all have opened: as many as the session has by default. */
#include "check.h"

#include <errno.h>
#include <stdatomic.h>

#include <gpufs/host.h>
#include <gpufs/stdio.h>

enum { STREAMS = 253, THREADS = STREAMS + 5, LINES = 9000 };

static _Atomic int opened, refused, done;

static void wait_for_all(_Atomic int *count) {
    atomic_fetch_add(count, 1);
    while (atomic_load(count) < THREADS) {
        gpufs_nap(1000);
    }
}

static void kernel(gpufs_session *fs, void *argument) {
    static const char *const modes[] = {"w", "a", "r+", "w+"};
    char name[32];
    (void)argument;
    unsigned long long thread = gpufs_thread();
    CHECK(gpufs_snprintf(name, sizeof name, "file%llu", thread) > 0);
    errno = 0;
    gpufs_file *file = gpufs_fopen(fs, name, modes[thread % 4]);
    if (file == NULL) {
        CHECK(errno == EMFILE);
        atomic_fetch_add(&refused, 1);
    }
    wait_for_all(&opened);
    for (int line = 0; file != NULL && line < LINES; ++line) {
        CHECK(gpufs_fprintf(file, "thread %5llu line %5d\n", thread, line) == 24);
    }
    wait_for_all(&done);
    CHECK(file == NULL || gpufs_fclose(file) == 0);
}

int main(void) {
    gpufs_options options = {.size = sizeof options, .mode = GPUFS_MODE_ENTER, .deadline_ms = 50000};
    for (int thread = 0; thread < THREADS; ++thread) {
        char name[32];
        snprintf(name, sizeof name, "file%d", thread);
        FILE *file = fopen(name, "w");
        CHECK(file != NULL && fclose(file) == 0);
    }
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, &options);
    CHECK(host != NULL);
    CHECK(gpufs_host_launch(host, 1, THREADS, kernel, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_close(host) == 0);
    CHECK(refused == THREADS - STREAMS);
    int written = 0;
    for (int thread = 0; thread < THREADS; ++thread) {
        char name[32], text[64], wanted[64];
        snprintf(name, sizeof name, "file%d", thread);
        FILE *file = fopen(name, "r");
        CHECK(file != NULL);
        int line = 0;
        for (; fgets(text, sizeof text, file) != NULL; ++line) {
            snprintf(wanted, sizeof wanted, "thread %5d line %5d\n", thread, line);
            CHECK(strcmp(text, wanted) == 0);
        }
        CHECK(line == 0 || line == LINES);
        written += line == LINES;
        CHECK(fclose(file) == 0);
    }
    CHECK(written == STREAMS);
    return 0;
}

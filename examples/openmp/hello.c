/* hello FILE: every thread of an OpenMP target region prints a line to one file, and a few to the standard output. The host then checks the file.
 *
 * For NVIDIA GPUs, with LLVM's OpenMP: build.sh builds it. gpufs needs to know nothing of OpenMP: both use the GPU's primary context. A region runs
 * between gpufs_host_begin and gpufs_host_synchronize; session and streams are pointers of the device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <err.h>
#include <omp.h>

#include <gpufs/host.h>
#include <gpufs/stdio.h>

enum { teams = 132, threads = 256, lines = teams * threads * 10 };

/* Every line whole, and each once. */
static int check(const char *path) {
    char *seen = calloc(lines, 1);
    FILE *file = fopen(path, "r");
    if (seen == NULL || file == NULL) {
        return 0;
    }
    char text[128];
    long count = 0;
    int good = 1;
    while (good && fgets(text, sizeof text, file) != NULL) {
        int line = -1, end = 0;
        sscanf(text, "line %d of %*d says hello%n", &line, &end);
        good = end > 0 && strcmp(text + end, "\n") == 0 && line >= 0 && line < lines && seen[line]++ == 0;
        ++count;
    }
    fclose(file);
    free(seen);
    printf("%ld lines, %s\n", count, good ? "all whole" : "one of them broken");
    return good && count == lines;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: hello FILE\n");
        return 2;
    }
    gpufs_host *host = gpufs_host_open(GPUFS_CUDA, 0, NULL);
    if (host == NULL) {
        errx(EXIT_FAILURE, "opening a session: %s", gpufs_last_error());
    }
    if (omp_get_num_devices() == 0) {
        errx(EXIT_FAILURE, "OpenMP finds no GPU");
    }
    gpufs_file *log = gpufs_host_fopen(host, argv[1], "w");
    if (log == NULL || gpufs_host_begin(host) != 0) {
        errx(EXIT_FAILURE, "%s: %s", argv[1], gpufs_last_error());
    }
    gpufs_session *fs = gpufs_host_session(host);
    int failed = 0, elsewhere = 0;
#pragma omp target teams distribute parallel for num_teams(teams) thread_limit(threads) is_device_ptr(log, fs) \
    map(tofrom : failed, elsewhere)
    for (int line = 0; line < lines; ++line) {
        if (omp_is_initial_device()) {
            elsewhere = 1; /* a GPU's stream is for the GPU */
        } else {
            if (gpufs_fprintf(log, "line %d of %d says %s\n", line, (int)lines, "hello") < 0) {
                failed = 1;
            }
            if (line < 4) {
                gpufs_printf(fs, "line %d is done\n", line);
            }
        }
    }
    if (gpufs_host_synchronize(host) != 0 || gpufs_host_fclose(host, log) != 0 || gpufs_host_close(host) != 0) {
        errx(EXIT_FAILURE, "finishing: %s", gpufs_last_error());
    }
    if (elsewhere || failed) {
        errx(EXIT_FAILURE, "the target region: %s", elsewhere ? "it ran on the host" : "a thread could not print");
    }
    return check(argv[1]) ? EXIT_SUCCESS : EXIT_FAILURE;
}

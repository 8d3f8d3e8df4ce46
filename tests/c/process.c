/* A host session and its process: what a forked child finds, and what becomes of buffered output when a process ends without
 * gpufs_host_close. On CPU lanes, in each mode. Runs in a scratch directory; runs itself once more for each way to end. */
#include "check.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpufs/file.h>
#include <gpufs/host.h>
#include <gpufs/stdio.h>

static const char *const NAMES[] = {"sqpoll", "enter", "threads"};

static gpufs_host *open_host(uint32_t mode) {
    gpufs_options options = {.size = sizeof options};
    options.mode = mode;
    options.rings = 1;
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, &options);
    if (host == NULL) printf("SKIP process.c in %s: %s\n", NAMES[mode - 1], gpufs_last_error());
    return host;
}

static void print(gpufs_session *fs, void *stream) {
    (void)fs;
    for (int line = 0; line < 32; ++line) CHECK(gpufs_fprintf((gpufs_file *)stream, "line %d\n", line) > 0);
}

static void check_lines(const char *name, int times) {
    FILE *file = fopen(name, "r");
    CHECK(file != NULL);
    for (int line = 0; line < 32 * times; ++line) {
        int number = -1;
        CHECK(fscanf(file, "line %d\n", &number) == 1 && number == line % 32);
    }
    CHECK(fgetc(file) == EOF);
    fclose(file);
}

static gpufs_host *later_closed;
static void close_later(void) { CHECK(gpufs_host_close(later_closed) == 0); }

/* Prints, and leaves it to the end of the process. */
static int end(const char *how, uint32_t mode) {
    /* Runs behind the library's own handler, as the destructor of a global object does. */
    if (strcmp(how, "global") == 0) CHECK(atexit(close_later) == 0);
    gpufs_host *host = open_host(mode);
    CHECK(host != NULL);
    gpufs_file *file = gpufs_host_fopen(host, "log", "w");
    CHECK(file != NULL);
    if (strcmp(how, "launch") == 0) {
        CHECK(gpufs_host_launch(host, 1, 1, print, file) == 0);
        return 0;
    }
    /* The host may make device calls on CPU lanes. */
    print(gpufs_host_session(host), file);
    if (strcmp(how, "return") == 0) return 0;
    later_closed = host;
    /* Runs before the library's own handler. */
    if (strcmp(how, "handler") == 0) CHECK(atexit(close_later) == 0);
    exit(0);
}

static void runs_itself(const char *program, const char *how, uint32_t mode) {
    char number[2] = {(char)('0' + mode), 0};
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl(program, program, how, number, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    check_lines("log", 1);
}

/* A child that finds its parent's session: each call says so, and the parent does not notice. */
static void inherited(gpufs_host *host, gpufs_file *file) {
    gpufs_statistics statistics = {.size = sizeof statistics};
    char text[16];
    CHECK_FAILS(gpufs_host_synchronize(host), -1, EPERM);
    CHECK(strstr(gpufs_last_error(), "forked") != NULL);
    CHECK_FAILS(gpufs_host_launch(host, 1, 1, print, file), -1, EPERM);
    CHECK_FAILS(gpufs_host_begin(host), -1, EPERM);
    CHECK_FAILS(gpufs_host_session(host), NULL, EPERM);
    CHECK_FAILS(gpufs_host_fopen(host, "child", "w"), NULL, EPERM);
    CHECK_FAILS(gpufs_host_fclose(host, file), -1, EPERM);
    CHECK_FAILS(gpufs_host_register_file(host, 0), -1, EPERM);
    CHECK_FAILS(gpufs_host_unregister_file(host, 3), -1, EPERM);
    CHECK_FAILS(gpufs_host_buffer(host, 1), NULL, EPERM);
    CHECK_FAILS(gpufs_host_statistics(host, &statistics), -1, EPERM);
    CHECK_FAILS(gpufs_host_describe(host, text, sizeof text), -1, EPERM);
    /* Device calls on the copied tables. */
    CHECK_FAILS(gpufs_fputs("the child's\n", file), EOF, EBADF);
    CHECK_FAILS(gpufs_fclose(file), EOF, EBADF);
    CHECK_FAILS(gpufs_host_close(host), -1, EPERM);
    CHECK(access("child", F_OK) != 0);
}

static void forks(uint32_t mode) {
    gpufs_host *host = open_host(mode);
    if (host == NULL) return;
    gpufs_file *file = gpufs_host_fopen(host, "log", "w");
    CHECK(file != NULL);
    gpufs_session *fs = gpufs_host_session(host);
    for (int round = 0; round < 4; ++round) {
        print(fs, file);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            if (round % 2 == 0) inherited(host, file);
            if (round < 2) _exit(0);
            exit(0);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    CHECK(gpufs_host_close(host) == 0);
    check_lines("log", 4);
}

int main(int count, char **arguments) {
    if (count == 3) return end(arguments[1], (uint32_t)(arguments[2][0] - '0'));
    for (uint32_t mode = GPUFS_MODE_SQPOLL; mode <= GPUFS_MODE_THREADS; ++mode) {
        forks(mode);
        gpufs_host *host = open_host(mode);
        if (host == NULL) continue;
        CHECK(gpufs_host_close(host) == 0);
        const char *const ways[] = {"return", "exit", "launch", "handler", "global"};
        for (size_t way = 0; way < sizeof ways / sizeof *ways; ++way) runs_itself(arguments[0], ways[way], mode);
    }
    return 0;
}

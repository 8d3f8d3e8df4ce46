/* Runs a test program of another C library as a kernel of one CPU lane. Its main has the name conformance_main, its exit
 * conformance_exit. The exit status is the program's; 125 for trouble of this driver's own. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <gpufs/host.h>

int conformance_main(int argc, char **argv, char **environment);
_Noreturn void conformance_exit(int status);

extern char **environ;

struct run {
    int argc;
    char **argv;
    int status;
    jmp_buf end;
};

static struct run run;

void conformance_exit(int status) {
    run.status = status;
    longjmp(run.end, 1);
}

static void kernel(gpufs_session *session, void *argument) {
    (void)session;
    (void)argument;
    if (setjmp(run.end) == 0) {
        run.status = conformance_main(run.argc, run.argv, environ);
    }
}

static int trouble(const char *what) {
    fprintf(stderr, "driver: %s: %s\n", what, gpufs_last_error());
    return 125;
}

int main(int argc, char **argv) {
    gpufs_options options = {.size = sizeof options, .rings = 1, .mode = GPUFS_MODE_ENTER, .stack_bytes = 32u << 20, .quiet = 1};
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, &options);
    run.argc = argc;
    run.argv = argv;
    if (host == NULL || gpufs_host_use(host) != 0) {
        return trouble("session");
    }
    if (gpufs_host_launch(host, 1, 1, kernel, NULL) != 0 || gpufs_host_synchronize(host) != 0) {
        return trouble("kernel");
    }
    /* Closed by exit, after the functions that the program gave to atexit. */
    return run.status & 255;
}

/* Pipes and counters from C on CPU lanes: two lanes of a warp talk through each, then each wrong use. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>

#include <gpufs/gpufs.h>
#include <gpufs/host.h>
#include <gpufs/pipe.h>
#include <gpufs/socket.h>
#include <gpufs/stdio.h>

GPUFS_STATIC_ASSERT_(GPUFS_EFD_SEMAPHORE == EFD_SEMAPHORE, "EFD_SEMAPHORE is Linux's");
GPUFS_STATIC_ASSERT_(GPUFS_EFD_NONBLOCK == EFD_NONBLOCK, "EFD_NONBLOCK is Linux's");
GPUFS_STATIC_ASSERT_(GPUFS_EFD_CLOEXEC == EFD_CLOEXEC, "EFD_CLOEXEC is Linux's");

GPUFS_STATIC_ASSERT_(GPUFS_SPLICE_F_MOVE == SPLICE_F_MOVE, "SPLICE_F_MOVE is Linux's");
GPUFS_STATIC_ASSERT_(GPUFS_SPLICE_F_NONBLOCK == SPLICE_F_NONBLOCK, "SPLICE_F_NONBLOCK is Linux's");
GPUFS_STATIC_ASSERT_(GPUFS_SPLICE_F_MORE == SPLICE_F_MORE, "SPLICE_F_MORE is Linux's");

struct shared {
    int ends[2];
    int counter;
};

static void makes(gpufs_session *fs, void *argument) {
    struct shared *shared = argument;
    CHECK(gpufs_pipe(fs, shared->ends) == 0 && shared->ends[0] != shared->ends[1]);
    CHECK((shared->counter = gpufs_eventfd(fs, 0, GPUFS_EFD_SEMAPHORE)) >= 0);
}

static void talk(gpufs_session *fs, void *argument) {
    const struct shared *shared = argument;
    char text[32];
    uint64_t count = 2;
    if (gpufs_thread() == 0) {
        gpufs_file *out = gpufs_fdopen(fs, shared->ends[1], "w");
        CHECK(out != NULL && gpufs_fprintf(out, "%d of %s\n", 7, "them") == 10 && gpufs_fclose(out) == 0);
        CHECK(gpufs_read(fs, shared->counter, &count, sizeof count) == 8 && count == 1);
        CHECK(gpufs_read(fs, shared->counter, &count, sizeof count) == 8 && count == 1);
        CHECK(gpufs_close(fs, shared->counter) == 0);
    } else {
        CHECK(gpufs_read(fs, shared->ends[0], text, sizeof text) == 10 && memcmp(text, "7 of them\n", 10) == 0);
        CHECK(gpufs_read(fs, shared->ends[0], text, sizeof text) == 0);
        CHECK(gpufs_close(fs, shared->ends[0]) == 0);
        CHECK(gpufs_write(fs, shared->counter, &count, sizeof count) == 8);
    }
}

static void not_waiting(gpufs_session *fs, void *argument) {
    int ends[2], counter;
    uint64_t count = 5;
    gpufs_pollfd all[3];
    (void)argument;
    CHECK(gpufs_pipe2(fs, ends, GPUFS_O_NONBLOCK | GPUFS_O_CLOEXEC) == 0);
    CHECK((counter = gpufs_eventfd(fs, 1, GPUFS_EFD_NONBLOCK | GPUFS_EFD_CLOEXEC)) >= 0);
    CHECK_FAILS(gpufs_read(fs, ends[0], &count, 1), -1, EAGAIN);
    all[0].fd = ends[0], all[1].fd = ends[1], all[2].fd = counter;
    all[0].events = all[2].events = POLLIN, all[1].events = POLLOUT;
    CHECK(gpufs_poll(fs, all, 3, 0) == 2 && all[0].revents == 0 && all[1].revents == POLLOUT && all[2].revents == POLLIN);
    CHECK(gpufs_write(fs, counter, &count, sizeof count) == 8);
    CHECK(gpufs_read(fs, counter, &count, sizeof count) == 8 && count == 6);
    CHECK_FAILS(gpufs_read(fs, counter, &count, sizeof count), -1, EAGAIN);
    CHECK(gpufs_close(fs, ends[0]) == 0);
    CHECK_FAILS(gpufs_write(fs, ends[1], "x", 1), -1, EPIPE);
    CHECK(gpufs_close(fs, ends[1]) == 0 && gpufs_close(fs, counter) == 0);
}

/* A file's bytes through two pipes into another. */
static void passing(gpufs_session *fs, void *argument) {
    int one[2], two[2];
    int64_t offset = 2, behind = 100;
    char text[8] = "";
    int from = gpufs_open(fs, "passed", GPUFS_O_RDWR | GPUFS_O_CREAT | GPUFS_O_TRUNC, 0600), to = gpufs_dup(fs, from);
    (void)argument;
    CHECK(gpufs_pipe(fs, one) == 0 && gpufs_pipe(fs, two) == 0 && gpufs_pwrite(fs, from, "01234567", 8, 0) == 8);
    CHECK(gpufs_splice(fs, from, &offset, one[1], NULL, 3, 0) == 3 && offset == 5);
    CHECK(gpufs_splice(fs, from, NULL, one[1], NULL, 2, GPUFS_SPLICE_F_MOVE) == 2 && gpufs_lseek(fs, from, 0, SEEK_CUR) == 2);
    CHECK(gpufs_tee(fs, one[0], two[1], 64, 0) == 5);
    CHECK(gpufs_read(fs, one[0], text, 8) == 5 && memcmp(text, "23401", 5) == 0);
    CHECK(gpufs_splice(fs, two[0], NULL, to, &behind, 64, 0) == 5 && behind == 105);
    CHECK(gpufs_pread(fs, from, text, 8, 100) == 5 && memcmp(text, "23401", 5) == 0);
    CHECK_FAILS(gpufs_splice(fs, two[0], NULL, to, NULL, 1, GPUFS_SPLICE_F_NONBLOCK), -1, EAGAIN);
    CHECK_FAILS(gpufs_tee(fs, two[0], one[1], 1, GPUFS_SPLICE_F_NONBLOCK), -1, EAGAIN);
    CHECK_FAILS(gpufs_splice(fs, from, NULL, to, NULL, 1, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_splice(fs, from, &offset, one[1], &behind, 1, 0), -1, ESPIPE);
    CHECK_FAILS(gpufs_splice(fs, from, NULL, one[1], NULL, 1, 16), -1, EINVAL);
    CHECK_FAILS(gpufs_splice(NULL, from, NULL, one[1], NULL, 1, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_splice(fs, 50, NULL, one[1], NULL, 1, 0), -1, EBADF);
    CHECK_FAILS(gpufs_splice(fs, from, NULL, one[0], NULL, 1, 0), -1, EBADF);
    CHECK_FAILS(gpufs_tee(NULL, one[0], two[1], 1, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_tee(fs, one[0], from, 1, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_tee(fs, one[0], one[0], 1, 0), -1, EBADF);
    for (int i = 0; i < 2; ++i) {
        CHECK(gpufs_close(fs, one[i]) == 0 && gpufs_close(fs, two[i]) == 0);
    }
    CHECK(gpufs_close(fs, from) == 0 && gpufs_close(fs, to) == 0);
}

static void wrong(gpufs_session *fs, void *argument) {
    int ends[2];
    uint64_t count = UINT64_MAX;
    (void)argument;
    CHECK_FAILS(gpufs_pipe(NULL, ends), -1, EINVAL);
    CHECK_FAILS(gpufs_pipe(fs, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_pipe2(NULL, ends, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_pipe2(fs, NULL, 0), -1, EFAULT);
    CHECK_FAILS(gpufs_pipe2(fs, ends, O_APPEND), -1, EINVAL);
    CHECK_FAILS(gpufs_eventfd(NULL, 0, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_eventfd(fs, 0, 2), -1, EINVAL);
    CHECK(gpufs_pipe(fs, ends) == 0);
    CHECK_FAILS(gpufs_write(fs, ends[0], "x", 1), -1, EBADF);
    CHECK_FAILS(gpufs_read(fs, ends[1], &count, 1), -1, EBADF);
    CHECK_FAILS(gpufs_lseek(fs, ends[0], 0, SEEK_SET), -1, ESPIPE);
    CHECK(gpufs_close(fs, ends[0]) == 0 && gpufs_close(fs, ends[1]) == 0);
    CHECK_FAILS(gpufs_close(fs, ends[1]), -1, EBADF);
    int counter = gpufs_eventfd(fs, 0, 0);
    CHECK_FAILS(gpufs_write(fs, counter, &count, 8), -1, EINVAL);
    CHECK_FAILS(gpufs_write(fs, counter, &count, 7), -1, EINVAL);
    CHECK_FAILS(gpufs_read(fs, counter, &count, 7), -1, EINVAL);
    CHECK(gpufs_close(fs, counter) == 0);
}

int main(void) {
    struct shared shared;
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, NULL);
    CHECK(host != NULL);
    CHECK(gpufs_host_launch(host, 1, 1, makes, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 2, talk, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, not_waiting, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, passing, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, wrong, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_close(host) == 0);
    return 0;
}

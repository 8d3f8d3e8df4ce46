/* The host of drop_in/plain.c: sessions that are in use, are not, and are closed. */
#include <stdio.h>
#include <string.h>

#include <gpufs/use.h>

int plain(int number);

static int failed[8];

static void kernel(gpufs_session *session, void *argument) {
    int number = (int)gpufs_thread();
    (void)session;
    (void)argument;
    failed[number] = plain(number);
}

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);            \
            return 1;                                                          \
        }                                                                      \
    } while (0)

int main(void) {
    gpufs_options options = {.size = sizeof options, .rings = 1, .mode = GPUFS_MODE_ENTER, .quiet = 1};
    gpufs_host *host, *other;
    CHECK(gpufs_raw_used_session() == NULL);
    /* None in use: the first call fails. */
    CHECK(plain(0) == EINVAL);
    CHECK((host = gpufs_host_open(GPUFS_CPU, 0, &options)) != NULL);
    CHECK((other = gpufs_host_open(GPUFS_CPU, 0, &options)) != NULL);
    CHECK(gpufs_host_use(host) == 0);
    CHECK(gpufs_raw_used_session() == gpufs_host_session(host));
    CHECK(gpufs_host_launch(host, 2, 4, kernel, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    for (int number = 0; number < 8; ++number) {
        if (failed[number] != 0) {
            fprintf(stderr, "thread %d: %d\n", number, failed[number]);
            return 1;
        }
    }
    /* Another one, by the host itself. */
    CHECK(gpufs_host_use(other) == 0 && plain(8) == 0);
    /* A session that is closed is in use no more; closing one that is not changes nothing. */
    CHECK(gpufs_host_close(host) == 0 && gpufs_raw_used_session() != NULL);
    CHECK(gpufs_host_close(other) == 0 && gpufs_raw_used_session() == NULL);
    CHECK(plain(9) == EINVAL);
    CHECK(gpufs_host_use(NULL) == 0);
    return 0;
}

/* Files as arrays from C on CPU lanes: what each call does, then each wrong use. Runs in a scratch directory. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include <gpufs/gpufs.h>
#include <gpufs/host.h>
#include <gpufs/view.h>

#define PAGE 4096u
#define COUNT (40u * 512u) /* of numbers of 8 bytes, in 40 pages */

struct shared {
    gpufs_mapping read, write;
};

/* Every thread looks at numbers anywhere, of every size, and pins a page; and adds to a word that all add to. */
static void looks(gpufs_session *fs, void *argument) {
    const struct shared *shared = argument;
    for (uint64_t round = 0; round < 50; round++) {
        uint64_t at = (gpufs_thread() * 977 + round * 4099) % COUNT, found[2];
        uint32_t half;
        uint8_t byte;
        CHECK(gpufs_view_get(fs, shared->read, at * 8, found, 8) == 0 && found[0] == at * 3);
        CHECK(gpufs_view_get(fs, shared->read, at * 8, &half, 4) == 0 && half == at * 3);
        CHECK(gpufs_view_get(fs, shared->read, at * 8 + 1, &byte, 1) == 0 && byte == (at * 3 >> 8 & 255));
        at &= ~UINT64_C(1);
        CHECK(gpufs_view_get(fs, shared->read, at * 8, found, 16) == 0 && found[0] == at * 3 && found[1] == at * 3 + 3);
    }
    const uint64_t *pinned = gpufs_view_pin(fs, shared->read, PAGE, PAGE);
    CHECK(pinned != NULL);
    for (uint64_t at = 0; at < 512; at++) {
        CHECK(pinned[at] == (512 + at) * 3);
    }
    CHECK(gpufs_view_unpin(fs, pinned + 3) == 0);
    uint64_t before = 1, mine = gpufs_thread() + 1, found;
    CHECK(gpufs_view_add(fs, shared->write, 0, 2, NULL, 8) == 0);
    CHECK(gpufs_view_set(fs, shared->write, 8 * mine, &mine, 8) == 0);
    CHECK(gpufs_view_add(fs, shared->write, 8 * mine, 5, &before, 8) == 0 && before == mine);
    CHECK(gpufs_view_get(fs, shared->write, 8 * mine, &found, 8) == 0 && found == mine + 5);
    CHECK(gpufs_view_flush(fs, shared->write) == 0);
    CHECK(gpufs_view_prefetch(fs, shared->read, PAGE, 8 * PAGE) == 0);
}

/* Every thread touches pages of a file that has room as a whole. */
static void touches(gpufs_session *fs, void *argument) {
    const struct shared *shared = argument;
    uint64_t found, bytes = 1;
    for (uint64_t page = gpufs_thread(); page < 40; page += gpufs_threads()) {
        CHECK(gpufs_view_whole(fs, shared->read, 0, &bytes) == NULL && bytes == 0);
        CHECK(gpufs_view_get(fs, shared->read, page * PAGE, &found, 8) == 0 && found == page * 512 * 3);
    }
}

/* All of it is there. */
static void whole(gpufs_session *fs, void *argument) {
    const struct shared *shared = argument;
    uint64_t bytes = 0, found, at = gpufs_thread() * 97 % COUNT;
    const uint64_t *numbers = gpufs_view_whole(fs, shared->read, 8 * at, &bytes);
    CHECK(numbers != NULL && bytes == 8 * (COUNT - at));
    for (uint64_t next = 0; next < bytes / 8; next += 31) {
        CHECK(numbers[next] == (at + next) * 3);
    }
    CHECK(gpufs_view_get(fs, shared->read, 8 * at, &found, 8) == 0 && found == at * 3);
    CHECK(gpufs_view_whole(fs, shared->read, 8 * COUNT, &bytes) == NULL && bytes == 0);
    CHECK(gpufs_view_whole(fs, shared->read, 0, NULL) != NULL);
    CHECK_FAILS(gpufs_view_whole(fs, shared->write, 0, &bytes), NULL, EACCES);
    CHECK_FAILS(gpufs_view_whole(NULL, shared->read, 0, &bytes), NULL, EINVAL);
    CHECK_FAILS(gpufs_view_whole(fs, shared->read, UINT64_MAX, &bytes), NULL, EINVAL);
    /* Over the end of a page, and as often as one likes. */
    const void *pinned = gpufs_view_pin(fs, shared->read, PAGE - 8, 3 * PAGE);
    CHECK(pinned != NULL && gpufs_view_unpin(fs, pinned) == 0 && gpufs_view_unpin(fs, pinned) == 0);
}

/* One thread: each wrong use. */
static void wrong(gpufs_session *fs, void *argument) {
    const struct shared *shared = argument;
    gpufs_mapping none = {77};
    uint64_t number = 0;
    const void *pins[8];
    CHECK_FAILS(gpufs_view_get(NULL, shared->read, 0, &number, 8), -1, EINVAL);
    CHECK_FAILS(gpufs_view_get(fs, none, 0, &number, 8), -1, EBADF);
    CHECK_FAILS(gpufs_view_get(fs, shared->read, 0, NULL, 8), -1, EFAULT);
    CHECK_FAILS(gpufs_view_get(fs, shared->read, 0, &number, 3), -1, EINVAL);
    CHECK_FAILS(gpufs_view_get(fs, shared->read, 4, &number, 8), -1, EINVAL);
    CHECK_FAILS(gpufs_view_get(fs, shared->read, COUNT * 8, &number, 8), -1, ENXIO);
    CHECK_FAILS(gpufs_view_get(fs, shared->read, UINT64_MAX - 7, &number, 8), -1, EINVAL);
    CHECK_FAILS(gpufs_view_get(fs, shared->write, 0, &number, 1), -1, EINVAL);
    CHECK_FAILS(gpufs_view_set(fs, shared->read, 0, &number, 8), -1, EACCES);
    CHECK_FAILS(gpufs_view_set(fs, shared->write, 0, &number, 2), -1, EINVAL);
    CHECK_FAILS(gpufs_view_set(fs, shared->write, 0, NULL, 8), -1, EFAULT);
    CHECK_FAILS(gpufs_view_add(fs, shared->read, 0, 1, NULL, 8), -1, EACCES);
    CHECK_FAILS(gpufs_view_add(fs, shared->write, 0, 1, NULL, 16), -1, EINVAL);
    CHECK_FAILS(gpufs_view_flush(fs, shared->read), -1, EACCES);
    CHECK_FAILS(gpufs_view_sync(NULL, shared->write), -1, EINVAL);
    CHECK_FAILS(gpufs_view_pin(fs, shared->write, 0, 8), NULL, EACCES);
    CHECK_FAILS(gpufs_view_pin(fs, shared->read, 0, 0), NULL, EINVAL);
    CHECK_FAILS(gpufs_view_pin(fs, shared->read, PAGE - 8, 16), NULL, EINVAL);
    CHECK_FAILS(gpufs_view_prefetch(fs, shared->write, 0, 8), -1, EACCES);
    CHECK_FAILS(gpufs_view_unpin(fs, NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_view_unpin(fs, &number), -1, EINVAL);
    /* The cache has eight frames, of which one is never kept. */
    for (uint64_t page = 0; page < 7; page++) {
        pins[page] = gpufs_view_pin(fs, shared->read, page * PAGE, 8);
        CHECK(pins[page] != NULL);
    }
    CHECK_FAILS(gpufs_view_pin(fs, shared->read, 9 * PAGE, 8), NULL, EBUSY);
    CHECK(gpufs_view_get(fs, shared->read, 9 * PAGE, &number, 8) == 0 && number == 9 * 512 * 3);
    for (uint64_t page = 0; page < 7; page++) {
        CHECK(gpufs_view_unpin(fs, pins[page]) == 0);
    }
    CHECK_FAILS(gpufs_view_unpin(fs, pins[0]), -1, EINVAL);
}

int main(void) {
    struct shared shared;
    gpufs_options options;
    uint64_t number, threads = 3 * 40;
    int made = open("numbers", O_RDWR | O_CREAT | O_TRUNC, 0600), sums = open("sums", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (number = 0; number < COUNT * 3; number += 3) {
        CHECK(write(made, &number, 8) == 8);
    }
    CHECK(ftruncate(sums, 8 * (threads + 1)) == 0);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.cache_page_bytes = PAGE;
    gpufs_host *without = gpufs_host_open(GPUFS_CPU, 0, &options);
    CHECK(without != NULL);
    CHECK_FAILS(gpufs_host_map(without, made, GPUFS_MAP_READ, &shared.read), -1, EBUSY);
    CHECK(strstr(gpufs_last_error(), "no cache") != NULL && gpufs_host_close(without) == 0);
    options.cache_bytes = 5 * PAGE;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, EINVAL);
    options.cache_bytes = 8 * PAGE;
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, &options);
    CHECK(host != NULL);
    CHECK(gpufs_host_map(host, made, GPUFS_MAP_READ, &shared.read) == 0);
    CHECK(gpufs_host_map(host, sums, GPUFS_MAP_WRITE, &shared.write) == 0);
    CHECK_FAILS(gpufs_host_map(host, -1, GPUFS_MAP_READ, &shared.read), -1, EBADF);
    CHECK_FAILS(gpufs_host_map(host, made, 7, &shared.read), -1, EINVAL);
    CHECK_FAILS(gpufs_host_map(host, made, GPUFS_MAP_READ, NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_view_get(gpufs_host_session(host), shared.read, 0, &number, 8), -1, EOPNOTSUPP);
    CHECK(gpufs_host_launch(host, 3, 40, looks, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, wrong, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(pread(sums, &number, 8, 0) == 8 && number == 2 * threads);
    for (uint64_t thread = 1; thread <= threads; thread++) {
        CHECK(pread(sums, &number, 8, (off_t)(8 * thread)) == 8 && number == thread + 5);
    }
    gpufs_statistics statistics;
    memset(&statistics, 0, sizeof statistics);
    statistics.size = sizeof statistics;
    CHECK(gpufs_host_statistics(host, &statistics) == 0);
    CHECK(statistics.cache_misses >= 40 && statistics.cache_evictions >= 32 && statistics.cache_write_backs > 0);
    CHECK(gpufs_host_unmap(host, shared.read) == 0 && gpufs_host_unmap(host, shared.write) == 0);
    CHECK_FAILS(gpufs_host_unmap(host, shared.read), -1, EBADF);
    CHECK(gpufs_host_close(host) == 0);
    options.cache_bytes = 56 * PAGE;
    host = gpufs_host_open(GPUFS_CPU, 0, &options);
    CHECK(host != NULL && gpufs_host_map(host, made, GPUFS_MAP_READ, &shared.read) == 0);
    CHECK(gpufs_host_map(host, sums, GPUFS_MAP_WRITE, &shared.write) == 0);
    CHECK(gpufs_host_launch(host, 1, 40, touches, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 3, 40, whole, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_close(host) == 0);
    return 0;
}

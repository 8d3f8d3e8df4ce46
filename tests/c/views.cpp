/* Files as arrays from C++ on CPU lanes: gpufs::view and gpufs::pin. Runs in a scratch directory. */
#include "check.h"

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <unistd.h>

#include <gpufs/gpufs.h>
#include <gpufs/host.h>
#include <gpufs/view.h>

namespace {

constexpr uint64_t COUNT = 20 * 1024;

struct Pair {
    float first, second;
};

struct Shared {
    gpufs_mapping read, write;
};

void looks(gpufs_session *fs, void *argument) {
    const Shared &shared = *static_cast<const Shared *>(argument);
    gpufs::view<float> v(fs, shared.read);
    float sum = 0;
    for (uint64_t at = gpufs_thread(); at < COUNT; at += gpufs_threads()) {
        CHECK(v[at] == static_cast<float>(at));
        sum += v[at];
    }
    CHECK(sum > 0);
    /* From the second number on, two at a time. */
    gpufs::view<Pair> pairs(fs, shared.read, 8);
    const auto pair = pairs[4];
    CHECK(pair.error() == 0 && pair.value().first == 10 && pair.value().second == 11);
    CHECK(v[COUNT].error() == ENXIO);
    {
        const auto page = v.pin(1024, 1024);
        CHECK(page && page.size() == 1024 && page[5] == 1029 && *(page.end() - 1) == 2047);
        float next = 1024;
        for (float found : page) {
            CHECK(found == next++);
        }
        const auto none = v.pin(1000, 100);
        CHECK(!none && none.error() == EINVAL && none.begin() == none.end());
    }
    CHECK(v.prefetch(0, 100) == 0);
    gpufs::view<int64_t> sums(fs, shared.write);
    CHECK(sums.add(0, -3).error() == 0);
    CHECK(sums.set(gpufs_thread() + 1, -7) == 0 && sums[gpufs_thread() + 1] == -7);
    CHECK(sums.add(gpufs_thread() + 1, 2) == -7 && sums.flush() == 0 && sums.sync() == 0);
}

/* A file that has room as a whole: before and after all of it was touched. */
void whole(gpufs_session *fs, void *argument) {
    const Shared &shared = *static_cast<const Shared *>(argument);
    for (int round = 0; round < 2; round++) {
        gpufs::view<float> v(fs, shared.read);
        for (uint64_t at = gpufs_thread(); at < COUNT; at += gpufs_threads()) {
            CHECK(v[at] == static_cast<float>(at));
        }
        CHECK(v[COUNT].error() == ENXIO && v[UINT64_MAX].error() == EINVAL);
        gpufs::view<Pair> pairs(fs, shared.read, 8);
        CHECK(pairs[4].value().first == 10 && pairs[4].value().second == 11 && pairs[COUNT / 2 - 1].error() == ENXIO);
        CHECK(gpufs::view<Pair>(fs, shared.read, 4)[0].error() == EINVAL);
    }
}

} // namespace

int main() {
    const int numbers = open("numbers", O_RDWR | O_CREAT | O_TRUNC, 0600);
    const int sums = open("sums", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (uint64_t at = 0; at < COUNT; at++) {
        const float number = static_cast<float>(at);
        CHECK(write(numbers, &number, sizeof number) == sizeof number);
    }
    CHECK(ftruncate(sums, 8 * 101) == 0);
    gpufs_options options = {};
    options.size = sizeof options;
    options.cache_bytes = 16 * 4096;
    options.cache_page_bytes = 4096;
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, &options);
    CHECK(host != nullptr);
    Shared shared = {};
    CHECK(gpufs_host_map(host, numbers, GPUFS_MAP_READ, &shared.read) == 0);
    CHECK(gpufs_host_map(host, sums, GPUFS_MAP_WRITE, &shared.write) == 0);
    CHECK(gpufs_host_launch(host, 2, 50, looks, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    int64_t found[101];
    CHECK(pread(sums, found, sizeof found, 0) == sizeof found && found[0] == -300 && found[1] == -5 && found[100] == -5);
    CHECK(gpufs_host_close(host) == 0);
    options.cache_bytes = 40 * 4096;
    host = gpufs_host_open(GPUFS_CPU, 0, &options);
    CHECK(host != nullptr && gpufs_host_map(host, numbers, GPUFS_MAP_READ, &shared.read) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, whole, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 2, 50, whole, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_close(host) == 0);
    return 0;
}

// Asynchronous operations from C++ on CPU lanes: gpufs::Pending, and the standard names.
#include "check.h"

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <unistd.h>

#include <gpufs/aio.h>
#include <gpufs/gpufs.h>
#include <gpufs/host.h>

struct Shared {
    int file;
    int empty;
};

// Sums up one page while the next is read.
static std::int64_t sum_pages(gpufs::Session fs, int input, int pages) {
    unsigned char memory[2][512];
    gpufs::Pending even(fs), odd(fs);
    gpufs::Pending *const reads[2] = {&even, &odd};
    std::int64_t sum = 0;
    CHECK(reads[0]->read(input, memory[0], sizeof memory[0], 0) == 0);
    for (int page = 0; page < pages; page++) {
        CHECK(reads[(page + 1) % 2]->read(input, memory[(page + 1) % 2], sizeof memory[0], (page + 1) * 512) == 0);
        const auto bytes = reads[page % 2]->wait();
        CHECK(bytes >= 0 && bytes.error() == 0);
        for (int i = 0; i < bytes; i++) {
            sum += memory[page % 2][i];
        }
    }
    return sum;
}

static void work(gpufs_session *tables, void *argument) {
    const gpufs::Session fs = tables;
    const Shared *shared = static_cast<const Shared *>(argument);
    unsigned char bytes[2048];
    std::int64_t expected = 0;
    for (int i = 0; i < 2048; i++) {
        bytes[i] = static_cast<unsigned char>(i * 7 % 251);
        expected += bytes[i];
    }
    {
        gpufs::Pending write(fs);
        CHECK(write.write(shared->file, bytes, sizeof bytes, 0) == 0);
        CHECK(write.wait() == 2048);
        CHECK(write.fsync(shared->file, GPUFS_O_DSYNC) == 0 && write.wait() == 0);
        CHECK(write.error() == -1 && write.error().error() == EINVAL);
        // Of nothing: the destructor has nothing to do.
        gpufs::Pending none(fs);
        CHECK(none.wait() == -1);
    }
    CHECK(sum_pages(fs, shared->file, 4) == expected);
    char text[8] = "before";
    for (int round = 0; round < 20; round++) {
        // Left in flight: the destructor ends it, and the memory may go.
        gpufs::Pending endless(fs);
        const gpufs_timespec soon = {0, 100000};
        CHECK(endless.read(shared->empty, text, sizeof text, 0) == 0);
        CHECK(endless.read(shared->empty, text, sizeof text, 0).error() == EBUSY);
        const auto waited = endless.wait(&soon);
        CHECK(waited == -1 && waited.error() == EAGAIN && endless.error() == EINPROGRESS);
        if (round % 2 == 0) {
            CHECK(endless.cancel() == GPUFS_AIO_CANCELED);
            CHECK(endless.wait().error() == ECANCELED);
        }
    }
    gpufs_aiocb block = {};
    block.aio_fildes = shared->file, block.aio_buf = text, block.aio_nbytes = 3;
    gpufs_aiocb *const list[] = {&block};
    const gpufs_aiocb *const waits[] = {&block};
    using namespace gpufs;
    CHECK(aio_read(fs, &block) == 0 && aio_suspend(fs, waits, 1, nullptr) == 0 && aio_error(fs, &block) == 0);
    CHECK(aio_return(fs, &block) == 3 && aio_return(fs, &block).error() == EINVAL);
    CHECK(aio_write(fs, &block) == 0 && aio_suspend(fs, waits, 1, nullptr) == 0);
    CHECK(aio_cancel(fs, shared->file, &block) == GPUFS_AIO_ALLDONE && aio_return(fs, &block) == 3);
    CHECK(aio_fsync(fs, GPUFS_O_SYNC, &block) == 0 && aio_suspend(fs, waits, 1, nullptr) == 0);
    CHECK(aio_return(fs, &block) == 0);
    CHECK(lio_listio(fs, GPUFS_LIO_WAIT, list, 1, nullptr) == 0 && aio_return(fs, &block) == 3);
    CHECK(aio_chain(fs, GPUFS_CHAIN_STOPS, list, 1) == 0 && aio_suspend(fs, waits, 1, nullptr) == 0);
    CHECK(aio_return(fs, &block) == 3 && aio_chain(fs, 9, list, 1).error() == EINVAL);
    CHECK(aio_poll(fs, &block, 1) == 0 && aio_suspend(fs, waits, 1, nullptr) == 0 && aio_return(fs, &block) == 1);
    CHECK(aio_recv(fs, &block, 0).error() == ENOTSOCK && aio_send(fs, &block, 0).error() == ENOTSOCK);
}

int main() {
    int ends[2];
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, nullptr);
    CHECK(host != nullptr && pipe(ends) == 0);
    const int file = open("pages", O_RDWR | O_CREAT | O_TRUNC, 0600);
    Shared shared = {gpufs_host_register_file(host, file), gpufs_host_register_file(host, ends[0])};
    CHECK(shared.file >= 0 && shared.empty >= 0);
    CHECK(gpufs_host_launch(host, 1, 1, work, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_close(host) == 0);
    return 0;
}

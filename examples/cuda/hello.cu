// hello FILE: every thread of a grid prints lines to one file, and a few to the standard output. The host then checks the file.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <err.h>

#include <gpufs/host.h>
#include <gpufs/stdio.h>

#include "../common/records.h"

namespace {

constexpr int blocks = 132, threads = 256, lines = 10;

__global__ void hello(gpufs::Session fs, gpufs::File *file, int *failed) {
    const int thread = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    for (int line = 0; line < lines; ++line) {
        auto printed = fprintf(file, "thread %d line %d says %s\n", thread, line, "hello");
        if (printed < 0) {
            *failed = printed.error();
        }
    }
    if (thread < 4) {
        printf(fs, "thread %d of block %d is done\n", static_cast<int>(threadIdx.x), static_cast<int>(blockIdx.x));
    }
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: hello FILE\n");
        return 2;
    }
    int *failed = nullptr;
    if (cudaMallocManaged(&failed, sizeof *failed) != cudaSuccess) {
        errx(EXIT_FAILURE, "no memory on the GPU");
    }
    *failed = 0;
    gpufs_host *host = gpufs_host_open(GPUFS_CUDA, 0, nullptr);
    if (host == nullptr) {
        errx(EXIT_FAILURE, "opening a session: %s", gpufs_last_error());
    }
    gpufs_file *file = gpufs_host_fopen(host, argv[1], "w");
    if (file == nullptr || gpufs_host_begin(host) != 0) {
        errx(EXIT_FAILURE, "%s: %s", argv[1], gpufs_last_error());
    }
    hello<<<blocks, threads>>>(gpufs_host_session(host), file, failed);
    const cudaError_t launched = cudaGetLastError();
    if (launched != cudaSuccess) {
        errx(EXIT_FAILURE, "launching: %s", cudaGetErrorString(launched));
    }
    if (gpufs_host_synchronize(host) != 0 || gpufs_host_fclose(host, file) != 0 || gpufs_host_close(host) != 0) {
        errx(EXIT_FAILURE, "finishing: %s", gpufs_last_error());
    }
    if (*failed != 0) {
        errx(EXIT_FAILURE, "a thread could not print: %s", std::strerror(*failed));
    }
    FILE *printed = std::fopen(argv[1], "r");
    if (printed == nullptr) {
        err(EXIT_FAILURE, "%s", argv[1]);
    }
    Records records("thread %d line %d says hello%n", blocks * threads, lines);
    records.read(printed);
    std::fclose(printed);
    std::printf("%ld lines, %s\n", records.seen(), records.verdict());
    return records.complete() ? EXIT_SUCCESS : EXIT_FAILURE;
}

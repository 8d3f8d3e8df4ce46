// follow FILE: a kernel logs while it runs, and the host reads the log as it grows.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <err.h>

#include <gpufs/host.h>
#include <gpufs/stdio.h>

#include "../common/records.h"

namespace {

constexpr int blocks = 8, threads = 64, lines = 50;
constexpr unsigned long long pause_ns = 20'000'000;

__device__ unsigned long long now_ns() {
    unsigned long long time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}

// The stream becomes line buffered. Its handle is the device's, so a kernel makes the call.
__global__ void by_lines(gpufs::File *log, int *failed) {
    auto set = setvbuf(log, nullptr, GPUFS_IOLBF, 0);
    if (set != 0) {
        *failed = set.error();
    }
}

__global__ void work(gpufs::File *log, int *failed) {
    const int thread = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    for (int line = 0; line < lines; ++line) {
        const unsigned long long start = now_ns();
        while (now_ns() - start < pause_ns) {
            __nanosleep(100'000);
        }
        auto printed = fprintf(log, "thread %d line %d at %.3f s\n", thread, line, static_cast<double>(start % 1'000'000'000'000ull) / 1e9);
        if (printed < 0) {
            *failed = printed.error();
        }
    }
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: follow FILE\n");
        return 2;
    }
    std::remove(argv[1]);
    int *failed = nullptr;
    if (cudaMallocManaged(&failed, sizeof *failed) != cudaSuccess) {
        errx(EXIT_FAILURE, "no memory on the GPU");
    }
    *failed = 0;
    gpufs_host *host = gpufs_host_open(GPUFS_CUDA, 0, nullptr);
    if (host == nullptr) {
        errx(EXIT_FAILURE, "opening a session: %s", gpufs_last_error());
    }
    // Appending writes go out one after the other: a reader of the growing file never sees a gap.
    gpufs_file *log = gpufs_host_fopen(host, argv[1], "a");
    if (log == nullptr || gpufs_host_begin(host) != 0) {
        errx(EXIT_FAILURE, "%s: %s", argv[1], gpufs_last_error());
    }
    FILE *growing = std::fopen(argv[1], "r");
    if (growing == nullptr) {
        err(EXIT_FAILURE, "%s", argv[1]);
    }
    Records records("thread %d line %d at %*f s%n", blocks * threads, lines);
    by_lines<<<1, 1>>>(log, failed);
    work<<<blocks, threads>>>(log, failed);
    cudaError_t state;
    while ((state = cudaStreamQuery(nullptr)) == cudaErrorNotReady) {
        records.read(growing);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (state != cudaSuccess) {
        errx(EXIT_FAILURE, "the kernel: %s", cudaGetErrorString(state));
    }
    const long early = records.seen();
    if (gpufs_host_synchronize(host) != 0 || gpufs_host_fclose(host, log) != 0 || gpufs_host_close(host) != 0) {
        errx(EXIT_FAILURE, "finishing: %s", gpufs_last_error());
    }
    records.read(growing);
    std::fclose(growing);
    std::printf("%ld lines, %ld of them read while the kernel ran, %s\n", records.seen(), early, records.verdict());
    if (*failed != 0) {
        errx(EXIT_FAILURE, "a thread could not print: %s", std::strerror(*failed));
    }
    return records.complete() && early > records.seen() / 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}

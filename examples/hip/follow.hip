// follow FILE: a kernel logs while it runs, and the host reads the log as it grows.
//
// As examples/cuda/follow.cu, in HIP; see hello.hip.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <err.h>

#include <hip/hip_runtime.h>

#include <gpufs/host.h>
#include <gpufs/stdio.h>

#include "../common/records.h"

namespace {

constexpr int blocks = 8, threads = 64, lines = 50;
constexpr int naps = 2000; // between two lines, of 10 µs or what the GPU can do

// The stream becomes line buffered. Its handle is the device's, so a kernel makes the call.
__global__ void by_lines(gpufs::File *log, int *failed) {
    auto set = setvbuf(log, nullptr, GPUFS_IOLBF, 0);
    if (set != 0) {
        *failed = set.error();
    }
}

__global__ void work(gpufs::File *log, int *failed) {
    const int thread = static_cast<int>(gpufs_thread());
    for (int line = 0; line < lines; ++line) {
        for (int nap = 0; nap < naps; ++nap) {
            gpufs_nap(10'000);
        }
        auto printed = fprintf(log, "thread %d line %d\n", thread, line);
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
    gpufs_host *host = gpufs_host_open(GPUFS_GPU, 0, nullptr);
    if (host == nullptr) {
        errx(EXIT_FAILURE, "opening a session: %s", gpufs_last_error());
    }
    int *failed = nullptr, error = 0;
    if (hipMalloc(reinterpret_cast<void **>(&failed), sizeof *failed) != hipSuccess ||
        hipMemcpy(failed, &error, sizeof error, hipMemcpyHostToDevice) != hipSuccess) {
        errx(EXIT_FAILURE, "no memory on the GPU");
    }
    // Appending writes go out one after the other: a reader of the growing file never sees a gap.
    std::remove(argv[1]);
    gpufs_file *log = gpufs_host_fopen(host, argv[1], "a");
    if (log == nullptr || gpufs_host_begin(host) != 0) {
        errx(EXIT_FAILURE, "%s: %s", argv[1], gpufs_last_error());
    }
    FILE *growing = std::fopen(argv[1], "r");
    if (growing == nullptr) {
        err(EXIT_FAILURE, "%s", argv[1]);
    }
    Records records("thread %d line %d%n", blocks * threads, lines);
    by_lines<<<1, 1>>>(log, failed);
    work<<<blocks, threads>>>(log, failed);
    hipError_t state;
    while ((state = hipStreamQuery(nullptr)) == hipErrorNotReady) {
        records.read(growing);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (state != hipSuccess) {
        errx(EXIT_FAILURE, "the kernel: %s", hipGetErrorString(state));
    }
    const long early = records.seen();
    if (gpufs_host_synchronize(host) != 0 || gpufs_host_fclose(host, log) != 0) {
        errx(EXIT_FAILURE, "finishing: %s", gpufs_last_error());
    }
    if (hipMemcpy(&error, failed, sizeof error, hipMemcpyDeviceToHost) != hipSuccess || hipFree(failed) != hipSuccess) {
        errx(EXIT_FAILURE, "the error of a thread cannot be read from the GPU");
    }
    if (gpufs_host_close(host) != 0) {
        errx(EXIT_FAILURE, "closing: %s", gpufs_last_error());
    }
    records.read(growing);
    std::fclose(growing);
    std::printf("%ld lines, %ld of them read while the kernel ran, %s\n", records.seen(), early, records.verdict());
    if (error != 0) {
        errx(EXIT_FAILURE, "a thread could not print: %s", std::strerror(error));
    }
    return records.complete() && early > records.seen() / 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}

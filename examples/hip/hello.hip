// hello FILE: every thread of a grid prints lines to one file, and a few to the standard output. The host then checks the file.
//
// As examples/cuda/hello.cu, in HIP. gpufs_thread() stands for blockIdx and threadIdx, so that nothing of ROCm's device library is needed.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <hip/hip_runtime.h>

#include <gpufs/host.h>
#include <gpufs/stdio.h>

namespace {

constexpr int blocks = 132, threads = 256, lines = 10;

__global__ void hello(gpufs_session *session, gpufs::File *file, int *failed) {
    const int thread = static_cast<int>(gpufs_thread());
    for (int line = 0; line < lines; ++line) {
        auto printed = fprintf(file, "thread %d line %d says %s\n", thread, line, "hello");
        if (printed < 0) {
            *failed = printed.error();
        }
    }
    if (thread < 4) {
        printf(session, "thread %d of block %d is done\n", static_cast<int>(gpufs_thread_in_block()), static_cast<int>(gpufs_block()));
    }
}

int fail(const char *what, const char *why) {
    std::fprintf(stderr, "hello: %s: %s\n", what, why);
    return EXIT_FAILURE;
}

// Every line whole, none missing, each thread's in order.
bool check(const char *path) {
    std::vector<int> next(blocks * threads, 0);
    FILE *file = std::fopen(path, "r");
    if (file == nullptr) {
        return false;
    }
    char line[128];
    long count = 0;
    bool good = true;
    while (good && std::fgets(line, sizeof line, file) != nullptr) {
        int thread = -1, number = -1, end = 0;
        std::sscanf(line, "thread %d line %d says hello%n", &thread, &number, &end);
        good = end > 0 && std::string(line + end) == "\n" && thread >= 0 && thread < blocks * threads && number == next[thread]++;
        ++count;
    }
    std::fclose(file);
    std::printf("%ld lines, %s\n", count, good ? "all whole and in order" : "one of them broken");
    return good && count == static_cast<long>(blocks) * threads * lines;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: hello FILE\n");
        return 2;
    }
    gpufs_host *host = gpufs_host_open(GPUFS_GPU, 0, nullptr);
    if (host == nullptr) {
        return fail("opening a session", gpufs_last_error());
    }
    int *failed = nullptr, error = 0;
    if (hipMalloc(reinterpret_cast<void **>(&failed), sizeof *failed) != hipSuccess ||
        hipMemcpy(failed, &error, sizeof error, hipMemcpyHostToDevice) != hipSuccess) {
        return fail("the flag", "no memory on the GPU");
    }
    gpufs_file *file = gpufs_host_fopen(host, argv[1], "w");
    if (file == nullptr || gpufs_host_begin(host) != 0) {
        return fail(argv[1], gpufs_last_error());
    }
    hello<<<blocks, threads>>>(gpufs_host_session(host), file, failed);
    const hipError_t launched = hipGetLastError();
    if (launched != hipSuccess) {
        return fail("launching", hipGetErrorString(launched));
    }
    if (gpufs_host_synchronize(host) != 0 || gpufs_host_fclose(host, file) != 0) {
        return fail("finishing", gpufs_last_error());
    }
    if (hipMemcpy(&error, failed, sizeof error, hipMemcpyDeviceToHost) != hipSuccess || hipFree(failed) != hipSuccess) {
        return fail("the flag", "it cannot be read");
    }
    if (gpufs_host_close(host) != 0) {
        return fail("closing", gpufs_last_error());
    }
    if (error != 0) {
        std::fprintf(stderr, "hello: a thread met error %d\n", error);
        return EXIT_FAILURE;
    }
    return check(argv[1]) ? EXIT_SUCCESS : EXIT_FAILURE;
}

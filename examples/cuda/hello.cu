// hello FILE: every thread of a grid prints lines to one file, and a few to the standard output. The host then checks the file.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <gpufs/host.h>
#include <gpufs/stdio.h>

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

int fail(const char *what) {
    std::fprintf(stderr, "hello: %s: %s\n", what, gpufs_last_error());
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
    int *failed = nullptr;
    if (cudaMallocManaged(&failed, sizeof *failed) != cudaSuccess) {
        std::fprintf(stderr, "hello: no memory on the GPU\n");
        return EXIT_FAILURE;
    }
    *failed = 0;
    gpufs_host *host = gpufs_host_open(GPUFS_CUDA, 0, nullptr);
    if (host == nullptr) {
        return fail("opening a session");
    }
    gpufs_file *file = gpufs_host_fopen(host, argv[1], "w");
    if (file == nullptr) {
        return fail("opening the file");
    }
    if (gpufs_host_begin(host) != 0) {
        return fail("beginning");
    }
    hello<<<blocks, threads>>>(gpufs_host_session(host), file, failed);
    const cudaError_t launched = cudaGetLastError();
    if (launched != cudaSuccess) {
        std::fprintf(stderr, "hello: launching: %s\n", cudaGetErrorString(launched));
        return EXIT_FAILURE;
    }
    if (gpufs_host_synchronize(host) != 0 || gpufs_host_fclose(host, file) != 0 || gpufs_host_close(host) != 0) {
        return fail("finishing");
    }
    if (*failed != 0) {
        std::fprintf(stderr, "hello: a thread met error %d\n", *failed);
        return EXIT_FAILURE;
    }
    return check(argv[1]) ? EXIT_SUCCESS : EXIT_FAILURE;
}

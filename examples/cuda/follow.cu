// follow FILE: a kernel logs while it runs, and the host reads the log as it grows.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <gpufs/host.h>
#include <gpufs/stdio.h>

namespace {

constexpr int blocks = 8, threads = 64, lines = 50;
constexpr unsigned long long pause_ns = 20'000'000;

__device__ unsigned long long now_ns() {
    unsigned long long time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}

// Each line goes out as soon as it is whole. The handle is the device's, so a kernel says it.
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

int fail(const char *what, const char *why) {
    std::fprintf(stderr, "follow: %s: %s\n", what, why);
    return EXIT_FAILURE;
}

// Reads what is new of a growing log, whole lines only, and checks them.
struct Reader {
    FILE *file;
    std::string rest;
    std::vector<int> next = std::vector<int>(blocks * threads, 0);
    long seen = 0;
    bool good = true;

    void look() {
        char bytes[1 << 16];
        std::clearerr(file);
        while (const size_t count = std::fread(bytes, 1, sizeof bytes, file)) {
            rest.append(bytes, count);
        }
        size_t start = 0;
        for (size_t end; good && (end = rest.find('\n', start)) != std::string::npos; start = end + 1) {
            int thread = -1, line = -1;
            double at = 0;
            good = std::sscanf(rest.substr(start, end + 1 - start).c_str(), "thread %d line %d at %lf s\n", &thread, &line, &at) == 3 && thread >= 0 &&
                   thread < blocks * threads && line == next[thread]++;
            ++seen;
        }
        rest.erase(0, start);
    }
};

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: follow FILE\n");
        return 2;
    }
    std::remove(argv[1]);
    int *failed = nullptr;
    if (cudaMallocManaged(&failed, sizeof *failed) != cudaSuccess) {
        return fail("the flag", "no memory on the GPU");
    }
    *failed = 0;
    gpufs_host *host = gpufs_host_open(GPUFS_CUDA, 0, nullptr);
    if (host == nullptr) {
        return fail("opening a session", gpufs_last_error());
    }
    // Appending writes go out one after the other, so that who reads along never sees a gap.
    gpufs_file *log = gpufs_host_fopen(host, argv[1], "a");
    if (log == nullptr || gpufs_host_begin(host) != 0) {
        return fail(argv[1], gpufs_last_error());
    }
    Reader reader;
    reader.file = std::fopen(argv[1], "r");
    if (reader.file == nullptr) {
        return fail(argv[1], "it cannot be read");
    }
    by_lines<<<1, 1>>>(log, failed);
    work<<<blocks, threads>>>(log, failed);
    cudaError_t state;
    while ((state = cudaStreamQuery(nullptr)) == cudaErrorNotReady) {
        reader.look();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (state != cudaSuccess) {
        return fail("the kernel", cudaGetErrorString(state));
    }
    const long early = reader.seen;
    if (gpufs_host_synchronize(host) != 0 || gpufs_host_fclose(host, log) != 0 || gpufs_host_close(host) != 0) {
        return fail("finishing", gpufs_last_error());
    }
    reader.look();
    std::fclose(reader.file);
    std::printf("%ld lines, %ld of them read while the kernel ran, %s\n", reader.seen, early,
                reader.good ? "all whole and in order" : "one of them broken");
    if (*failed != 0) {
        std::fprintf(stderr, "follow: a thread met error %d\n", *failed);
    }
    const long all = static_cast<long>(blocks) * threads * lines;
    return reader.good && *failed == 0 && reader.seen == all && early > all / 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}

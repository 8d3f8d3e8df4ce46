// follow FILE: a kernel logs while it runs, and the host reads the log as it grows.
//
// As examples/cuda/follow.cu, in HIP; see hello.hip.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <hip/hip_runtime.h>

#include <gpufs/host.h>
#include <gpufs/stdio.h>

namespace {

constexpr int blocks = 8, threads = 64, lines = 50;
constexpr int naps = 2000; // between two lines, of 10 µs or what the GPU can do

// Each line goes out as soon as it is whole. The handle is the device's, so a kernel says it.
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
            good = std::sscanf(rest.substr(start, end + 1 - start).c_str(), "thread %d line %d\n", &thread, &line) == 2 && thread >= 0 && thread < blocks * threads &&
                   line == next[thread]++;
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
    gpufs_host *host = gpufs_host_open(GPUFS_GPU, 0, nullptr);
    if (host == nullptr) {
        return fail("opening a session", gpufs_last_error());
    }
    int *failed = nullptr, error = 0;
    if (hipMalloc(reinterpret_cast<void **>(&failed), sizeof *failed) != hipSuccess ||
        hipMemcpy(failed, &error, sizeof error, hipMemcpyHostToDevice) != hipSuccess) {
        return fail("the flag", "no memory on the GPU");
    }
    // Appending writes go out one after the other, so that who reads along never sees a gap.
    std::remove(argv[1]);
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
    hipError_t state;
    while ((state = hipStreamQuery(nullptr)) == hipErrorNotReady) {
        reader.look();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (state != hipSuccess) {
        return fail("the kernel", hipGetErrorString(state));
    }
    const long early = reader.seen;
    if (gpufs_host_synchronize(host) != 0 || gpufs_host_fclose(host, log) != 0) {
        return fail("finishing", gpufs_last_error());
    }
    if (hipMemcpy(&error, failed, sizeof error, hipMemcpyDeviceToHost) != hipSuccess || hipFree(failed) != hipSuccess) {
        return fail("the flag", "it cannot be read");
    }
    if (gpufs_host_close(host) != 0) {
        return fail("closing", gpufs_last_error());
    }
    reader.look();
    std::fclose(reader.file);
    std::printf("%ld lines, %ld of them read while the kernel ran, %s\n", reader.seen, early,
                reader.good ? "all whole and in order" : "one of them broken");
    if (error != 0) {
        std::fprintf(stderr, "follow: a thread met error %d\n", error);
    }
    const long all = static_cast<long>(blocks) * threads * lines;
    return reader.good && error == 0 && reader.seen == all && early > all / 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}

// grep STRING FILE...: each thread draws a file, reads it line by line, and prints the lines that hold the string, as grep -F -n does.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <gpufs/host.h>
#include <gpufs/stdio.h>

namespace {

constexpr unsigned workers = 32 * 64;
constexpr int longest = 1 << 16; // a longer line counts as several

struct Job {
    const char *needle;
    const char *names;          // one after the other, each with its NUL
    const unsigned *starts;     // where each begins
    unsigned files;
    unsigned next;              // the next file to draw
    char *lines;                // `longest` bytes for each worker
    unsigned long long matches; // lines that were printed
    unsigned troubles;          // files that could not be read
};

__device__ bool holds(const char *line, const char *needle) {
    for (; *line != '\0'; ++line) {
        int at = 0;
        while (needle[at] != '\0' && line[at] == needle[at]) {
            ++at;
        }
        if (needle[at] == '\0') {
            return true;
        }
    }
    return *needle == '\0';
}

__device__ void search(gpufs::Session fs, Job *job, const char *name, char *line) {
    auto file = fopen(fs, name, "r");
    if (!file) {
        fprintf(gpufs_stderr(fs), "grep: %s: error %d\n", name, file.error());
        atomicAdd(&job->troubles, 1u);
        return;
    }
    for (unsigned number = 1;;) {
        auto read = fgets(line, longest, file);
        if (!read) {
            if (read.error() != 0) {
                fprintf(gpufs_stderr(fs), "grep: %s: error %d\n", name, read.error());
                atomicAdd(&job->troubles, 1u);
            }
            break;
        }
        int end = 0;
        while (line[end] != '\0') {
            ++end;
        }
        const bool whole = end > 0 && line[end - 1] == '\n';
        if (holds(line, job->needle)) {
            // One call, so that the line is whole whoever else prints.
            printf(fs, "%s:%u:%s%s", name, number, line, whole ? "" : "\n");
            atomicAdd(&job->matches, 1ull);
        }
        number += whole;
    }
    fclose(file);
}

__global__ void grep(gpufs::Session fs, Job *job) {
    const unsigned worker = blockIdx.x * blockDim.x + threadIdx.x;
    for (;;) {
        const unsigned file = atomicAdd(&job->next, 1u);
        if (file >= job->files) {
            return;
        }
        search(fs, job, job->names + job->starts[file], job->lines + static_cast<size_t>(worker) * longest);
    }
}

// Memory that host and GPU share; it stays until the program ends.
template <class T>
T *shared(size_t count) {
    void *memory = nullptr;
    if (cudaMallocManaged(&memory, count * sizeof(T) + 1) != cudaSuccess) {
        std::fprintf(stderr, "grep: no memory on the GPU\n");
        std::exit(2);
    }
    return static_cast<T *>(memory);
}

int fail(const char *what) {
    std::fprintf(stderr, "grep: %s: %s\n", what, gpufs_last_error());
    return 2;
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: grep STRING FILE...\n");
        return 2;
    }
    std::string names;
    std::vector<unsigned> starts;
    for (int index = 2; index < argc; ++index) {
        starts.push_back(static_cast<unsigned>(names.size()));
        names.append(argv[index]).push_back('\0');
    }
    gpufs_options options = {};
    options.size = sizeof options;
    // Each worker has a stream open, and a stream a buffer.
    options.streams = workers + 3;
    options.files = workers + 3;
    options.stream_buffer_bytes = 16 << 10;
    options.buffer_bytes = 2ull * (workers + 64) * options.stream_buffer_bytes;
    options.ring_entries = 4096;
    gpufs_host *host = gpufs_host_open(GPUFS_CUDA, 0, &options);
    if (host == nullptr) {
        return fail("opening a session");
    }
    Job *job = shared<Job>(1);
    char *needle = shared<char>(std::strlen(argv[1]) + 1), *name_bytes = shared<char>(names.size());
    unsigned *start_numbers = shared<unsigned>(starts.size());
    std::strcpy(needle, argv[1]);
    std::memcpy(name_bytes, names.data(), names.size());
    std::memcpy(start_numbers, starts.data(), starts.size() * sizeof starts[0]);
    char *lines = nullptr;
    if (cudaMalloc(&lines, static_cast<size_t>(workers) * longest) != cudaSuccess) {
        std::fprintf(stderr, "grep: no memory on the GPU for lines\n");
        return 2;
    }
    *job = Job{needle, name_bytes, start_numbers, static_cast<unsigned>(starts.size()), 0, lines, 0, 0};
    if (gpufs_host_begin(host) != 0) {
        return fail("beginning");
    }
    grep<<<workers / 32, 32>>>(gpufs_host_session(host), job);
    const cudaError_t launched = cudaGetLastError();
    if (launched != cudaSuccess) {
        std::fprintf(stderr, "grep: launching: %s\n", cudaGetErrorString(launched));
        return 2;
    }
    if (gpufs_host_synchronize(host) != 0) {
        return fail("searching");
    }
    const int result = job->troubles != 0 ? 2 : job->matches == 0 ? 1 : 0;
    return gpufs_host_close(host) == 0 ? result : fail("closing");
}

// grep STRING FILE...: blocks of threads search pieces of the files, and print the lines that hold the string, in order, as grep -F -n -H does.
// How they do is in ../common/grep.h; here is what is CUDA's.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <err.h>

#include "../common/grep.h"

namespace {

constexpr unsigned most_blocks = 132 * 4;

__global__ void search(gpufs::Session fs, grep::Job *job) { grep::search_all(fs, job); }

// Memory of the GPU, with what the host gives for it, or zeros; it stays until the program ends.
template <class T>
T *on_gpu(const T *from, size_t count) {
    void *memory = nullptr;
    const size_t bytes = (count + (count == 0)) * sizeof(T);
    if (cudaMalloc(&memory, bytes) != cudaSuccess ||
        (from == nullptr ? cudaMemset(memory, 0, bytes) : cudaMemcpy(memory, from, count * sizeof(T), cudaMemcpyHostToDevice)) != cudaSuccess) {
        errx(2, "the GPU has no %zu bytes of memory left", bytes);
    }
    return static_cast<T *>(memory);
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: grep STRING FILE...\n");
        return 2;
    }
    const size_t length = std::strlen(argv[1]);
    if (length > grep::longest || std::strchr(argv[1], '\n') != nullptr) {
        errx(2, "STRING: it must have at most %u bytes and no newline", grep::longest);
    }
    grep::Plan plan = grep::divide(argc - 2, argv + 2, most_blocks);
    const gpufs_options options = grep::options();
    gpufs_host *host = gpufs_host_open(GPUFS_CUDA, 0, &options);
    if (host == nullptr) {
        errx(2, "opening a session: %s", gpufs_last_error());
    }
    size_t available = 0, total = 0;
    const cudaError_t asked = cudaMemGetInfo(&available, &total);
    if (asked != cudaSuccess) {
        errx(2, "asking for free memory: %s", cudaGetErrorString(asked));
    }
    grep::Job job = {};
    grep::fit(plan, job, available);
    job.needle = on_gpu(argv[1], length + 1);
    job.length = static_cast<unsigned>(length);
    job.names = on_gpu(plan.names.data(), plan.names.size());
    job.starts = on_gpu(plan.starts.data(), plan.starts.size());
    job.units = on_gpu(plan.units.data(), plan.units.size());
    job.records = on_gpu<grep::Record>(nullptr, plan.units.size());
    job.memory = on_gpu<char>(nullptr, plan.blocks * job.block_bytes());
    grep::Job *placed = on_gpu(&job, 1);
    if (gpufs_host_begin(host) != 0) {
        errx(2, "beginning: %s", gpufs_last_error());
    }
    search<<<plan.blocks, grep::team>>>(gpufs_host_session(host), placed);
    const cudaError_t launched = cudaGetLastError();
    if (launched != cudaSuccess) {
        errx(2, "launching: %s", cudaGetErrorString(launched));
    }
    if (gpufs_host_synchronize(host) != 0) {
        errx(2, "searching: %s", gpufs_last_error());
    }
    if (cudaMemcpy(&job, placed, sizeof job, cudaMemcpyDeviceToHost) != cudaSuccess) {
        errx(2, "the result cannot be read from the GPU");
    }
    const int result = job.troubles != 0 ? 2 : job.matches == 0 ? 1 : 0;
    if (gpufs_host_close(host) != 0) {
        errx(2, "closing: %s", gpufs_last_error());
    }
    return result;
}

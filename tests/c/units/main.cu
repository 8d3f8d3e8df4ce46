// units FILE: kernels and device functions of several files share one stream.
#include <cstdio>
#include <string>

#include "log.cuh"

__global__ void work(gpufs::File *log, int *refused) {
    const int thread = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    for (int round = 0; round < 3; ++round) {
        if (!log_record(log, thread, round)) atomicAdd(refused, 1);
    }
    if (thread == 0 && fputs("the other file's kernel prints, too\n", log) < 0) atomicAdd(refused, 1);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    int *counts = nullptr;
    if (cudaMallocManaged(&counts, 2 * sizeof *counts) != cudaSuccess) return 1;
    counts[0] = counts[1] = 0;
    gpufs_host *host = gpufs_host_open(GPUFS_CUDA, 0, nullptr);
    gpufs_file *log = host != nullptr ? gpufs_host_fopen(host, argv[1], "w") : nullptr;
    if (log == nullptr || gpufs_host_begin(host) != 0) {
        std::fprintf(stderr, "%s\n", gpufs_last_error());
        return 1;
    }
    work<<<8, 128>>>(log, &counts[0]);
    idle_kernel(&counts[1]);
    if (gpufs_host_synchronize(host) != 0 || gpufs_host_fclose(host, log) != 0 || gpufs_host_close(host) != 0) {
        std::fprintf(stderr, "%s\n", gpufs_last_error());
        return 1;
    }
    std::FILE *file = std::fopen(argv[1], "r");
    char line[128];
    int lines = 0;
    while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) ++lines;
    std::printf("%d lines, %d refused, %d idle threads\n", lines, counts[0], counts[1]);
    return lines == 8 * 128 * 3 + 1 && counts[0] == 0 && counts[1] == 64 ? 0 : 1;
}

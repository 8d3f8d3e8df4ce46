// table.c on 64 threads of an AMD GPU: clang compiles it as a part of this file.
#include <hip/hip_runtime.h>

#include <cstdio>

#include <gpufs/use.h>

#pragma clang force_cuda_host_device begin
#include "table.c"
#pragma clang force_cuda_host_device end

__global__ void tables(int *failed) {
    int error = table(static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) + 1);
    if (error != 0) {
        *failed = error;
    }
}

int main() {
    int *failed = nullptr;
    gpufs_host *host = gpufs_host_open(GPUFS_HIP, 0, nullptr);
    if (host == nullptr || gpufs_host_begin(host) != 0 || gpufs_host_use(host) != 0) {
        fprintf(stderr, "%s\n", gpufs_last_error());
        return 1;
    }
    if (hipHostMalloc(reinterpret_cast<void **>(&failed), sizeof *failed, 0) != hipSuccess) {
        return 1;
    }
    *failed = 0;
    tables<<<2, 32>>>(failed);
    if (hipGetLastError() != hipSuccess || gpufs_host_close(host) != 0) {
        fprintf(stderr, "%s\n", gpufs_last_error());
        return 1;
    }
    if (*failed != 0) {
        fprintf(stderr, "a table is missing: error %d\n", *failed);
    }
    return *failed != 0;
}

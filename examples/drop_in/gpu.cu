// table.c on 64 threads of an NVIDIA GPU. clang compiles table.c for it; CMakeLists.txt says how.
#include <cstdio>

#include <gpufs/use.h>

extern "C" __device__ int table(int number);

__device__ int failed;

__global__ void tables() {
    int error = table(static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) + 1);
    if (error != 0) {
        failed = error;
    }
}

int main() {
    gpufs_host *host = gpufs_host_open(GPUFS_CUDA, 0, nullptr);
    if (host == nullptr || gpufs_host_begin(host) != 0 || gpufs_host_use(host) != 0) {
        fprintf(stderr, "%s\n", gpufs_last_error());
        return 1;
    }
    tables<<<2, 32>>>();
    int error = cudaGetLastError();
    if (gpufs_host_close(host) != 0) {
        fprintf(stderr, "%s\n", gpufs_last_error());
        return 1;
    }
    if (error == cudaSuccess && cudaMemcpyFromSymbol(&error, failed, sizeof error) == cudaSuccess && error != 0) {
        fprintf(stderr, "a table is missing: error %d\n", error);
    }
    return error != 0;
}

#include "log.cuh"

__global__ void idle(int *sum) {
    atomicAdd(sum, 1);
}

void idle_kernel(int *sum) {
    idle<<<2, 32>>>(sum);
}

#include "log.cuh"

__device__ bool log_record(gpufs::File *log, int thread, int round) {
    return fprintf(log, "thread %d round %d\n", thread, round) > 0;
}

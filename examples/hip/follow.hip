// The kernel of examples/cuda/follow.cu for HIP; see hello.hip.
#include <gpufs/stdio.h>

#ifndef __global__
#define __global__ __attribute__((global)) // as <hip/hip_runtime.h> has it
#endif

// The log was opened for appending, and is line buffered: a reader sees each line soon.
extern "C" __global__ void follow(gpufs::File *log, int lines, unsigned pause_ns, int *failed) {
    const auto thread = gpufs_thread();
    for (int line = 0; line < lines; ++line) {
        auto printed = fprintf(log, "thread %llu line %d\n", static_cast<unsigned long long>(thread), line);
        if (printed < 0) {
            *failed = printed.error();
            return;
        }
        gpufs_nap(pause_ns);
    }
}

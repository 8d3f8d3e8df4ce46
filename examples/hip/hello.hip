// The kernel of examples/cuda/hello.cu for HIP. Sessions on AMD GPUs are not there yet, so there is no program around it: it compiles and links,
// and that is what is checked.
#include <gpufs/stdio.h>

#ifndef __global__
#define __global__ __attribute__((global)) // as <hip/hip_runtime.h> has it
#endif

extern "C" __global__ void hello(gpufs_session *session, gpufs::File *file, int lines) {
    gpufs::Session fs = session;
    const auto thread = gpufs_thread();
    for (int line = 0; line < lines; ++line) {
        auto printed = fprintf(file, "thread %llu line %d says %s\n", static_cast<unsigned long long>(thread), line, "hello");
        if (printed < 0) {
            fprintf(gpufs_stderr(fs), "thread %llu met error %d\n", static_cast<unsigned long long>(thread), printed.error());
            return;
        }
    }
}

// The kernel of examples/cuda/copy.cu for HIP; see hello.hip.
#include <gpufs/file.h>

#ifndef __global__
#define __global__ __attribute__((global)) // as <hip/hip_runtime.h> has it
#endif

struct Job {
    int from, to;
    unsigned long long bytes;
    char *buffer;             // `piece` bytes for each thread
    unsigned long long next;  // where the next piece begins
    int error;                // of the first call that failed
};

extern "C" __global__ void copy(gpufs_session *session, Job *job, unsigned long long piece) {
    gpufs::Session fs = session;
    char *buffer = job->buffer + gpufs_thread() * piece;
    for (;;) {
        const unsigned long long at = __atomic_fetch_add(&job->next, piece, __ATOMIC_RELAXED);
        if (at >= job->bytes) {
            return;
        }
        const size_t bytes = job->bytes - at < piece ? job->bytes - at : piece;
        for (size_t done = 0; done < bytes;) {
            auto count = pread(fs, job->from, buffer + done, bytes - done, static_cast<int64_t>(at + done));
            if (count <= 0) {
                job->error = count.error();
                return;
            }
            done += static_cast<size_t>(count);
        }
        for (size_t done = 0; done < bytes;) {
            auto count = pwrite(fs, job->to, buffer + done, bytes - done, static_cast<int64_t>(at + done));
            if (count <= 0) {
                job->error = count.error();
                return;
            }
            done += static_cast<size_t>(count);
        }
    }
}

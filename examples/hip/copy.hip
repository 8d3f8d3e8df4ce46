// copy FROM TO: the warps of a GPU copy a file. Each draws the next piece, reads it into its own part of a registered buffer, and writes it out.
//
// As examples/cuda/copy.cu, in HIP; see hello.hip.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <err.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hip/hip_runtime.h>

#include <gpufs/file.h>
#include <gpufs/host.h>

namespace {

constexpr unsigned workers = 256;
constexpr size_t piece = 64 << 10;

// In device memory: a GPU has no atomics on the host's.
struct Job {
    int from, to;
    unsigned long long bytes;
    char *buffer;             // `piece` bytes for each worker
    unsigned long long next;  // where the next piece begins
    int error;                // of the first call that failed
};

// One piece, whatever the system takes at a time: 0, or an error number.
__device__ int copy_piece(gpufs::Session fs, const Job &job, char *buffer, unsigned long long at, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        auto count = pread(fs, job.from, buffer + done, bytes - done, static_cast<int64_t>(at + done));
        if (count <= 0) {
            return count < 0 ? count.error() : EIO; // the file has become shorter
        }
        done += static_cast<size_t>(count);
    }
    for (size_t done = 0; done < bytes;) {
        auto count = pwrite(fs, job.to, buffer + done, bytes - done, static_cast<int64_t>(at + done));
        if (count <= 0) {
            return count < 0 ? count.error() : EIO;
        }
        done += static_cast<size_t>(count);
    }
    return 0;
}

__global__ void copy(gpufs_session *session, Job *job) {
    char *buffer = job->buffer + gpufs_thread() * piece;
    for (;;) {
        const unsigned long long at = atomicAdd(&job->next, static_cast<unsigned long long>(piece));
        if (at >= job->bytes) {
            return;
        }
        const size_t bytes = job->bytes - at < piece ? static_cast<size_t>(job->bytes - at) : piece;
        if (const int error = copy_piece(session, *job, buffer, at, bytes)) {
            atomicCAS(&job->error, 0, error);
            return;
        }
    }
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: copy FROM TO\n");
        return 2;
    }
    gpufs_host *host = gpufs_host_open(GPUFS_GPU, 0, nullptr);
    if (host == nullptr) {
        errx(EXIT_FAILURE, "opening a session: %s", gpufs_last_error());
    }
    const int from = open(argv[1], O_RDONLY);
    struct stat status;
    if (from < 0 || fstat(from, &status) != 0) {
        err(EXIT_FAILURE, "%s", argv[1]);
    }
    const int to = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (to < 0) {
        err(EXIT_FAILURE, "%s", argv[2]);
    }
    Job job = {gpufs_host_register_file(host, from), gpufs_host_register_file(host, to), static_cast<unsigned long long>(status.st_size),
               static_cast<char *>(gpufs_host_buffer(host, workers * piece)), 0, 0};
    if (job.from < 0 || job.to < 0 || job.buffer == nullptr) {
        errx(EXIT_FAILURE, "preparing: %s", gpufs_last_error());
    }
    Job *shared = nullptr;
    if (hipMalloc(reinterpret_cast<void **>(&shared), sizeof job) != hipSuccess ||
        hipMemcpy(shared, &job, sizeof job, hipMemcpyHostToDevice) != hipSuccess) {
        errx(EXIT_FAILURE, "no memory on the GPU");
    }
    if (gpufs_host_begin(host) != 0) {
        errx(EXIT_FAILURE, "beginning: %s", gpufs_last_error());
    }
    copy<<<workers / 32, 32>>>(gpufs_host_session(host), shared);
    const hipError_t launched = hipGetLastError();
    if (launched != hipSuccess) {
        errx(EXIT_FAILURE, "launching: %s", hipGetErrorString(launched));
    }
    if (gpufs_host_synchronize(host) != 0) {
        errx(EXIT_FAILURE, "copying: %s", gpufs_last_error());
    }
    if (hipMemcpy(&job, shared, sizeof job, hipMemcpyDeviceToHost) != hipSuccess || hipFree(shared) != hipSuccess) {
        errx(EXIT_FAILURE, "the result cannot be read from the GPU");
    }
    if (gpufs_host_close(host) != 0) {
        errx(EXIT_FAILURE, "closing: %s", gpufs_last_error());
    }
    if (job.error != 0) {
        errx(EXIT_FAILURE, "copying: %s", std::strerror(job.error));
    }
    if (close(to) != 0) {
        err(EXIT_FAILURE, "%s", argv[2]);
    }
    return EXIT_SUCCESS;
}

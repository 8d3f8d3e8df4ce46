// The kernel of examples/cuda/grep.cu for HIP; see hello.hip.
#include <gpufs/stdio.h>

#ifndef __global__
#define __global__ __attribute__((global)) // as <hip/hip_runtime.h> has it
#define __device__ __attribute__((device))
#endif

constexpr int longest = 4096; // a longer line counts as several

struct Job {
    const char *needle;
    const char *names;          // one after the other, each with its NUL
    const unsigned *starts;     // where each begins
    unsigned files;
    unsigned next;              // the next file to draw
    char *lines;                // `longest` bytes for each thread
    unsigned long long matches; // lines that were printed
    unsigned troubles;          // files that could not be read
};

static __device__ bool holds(const char *line, const char *needle) {
    for (; *line != '\0'; ++line) {
        int at = 0;
        while (needle[at] != '\0' && line[at] == needle[at]) {
            ++at;
        }
        if (needle[at] == '\0') {
            return true;
        }
    }
    return *needle == '\0';
}

static __device__ void search(gpufs::Session fs, Job *job, const char *name, char *line) {
    auto file = fopen(fs, name, "r");
    if (!file) {
        fprintf(gpufs_stderr(fs), "grep: %s: error %d\n", name, file.error());
        __atomic_fetch_add(&job->troubles, 1u, __ATOMIC_RELAXED);
        return;
    }
    for (unsigned number = 1;;) {
        auto read = fgets(line, longest, file);
        if (!read) {
            if (read.error() != 0) {
                fprintf(gpufs_stderr(fs), "grep: %s: error %d\n", name, read.error());
                __atomic_fetch_add(&job->troubles, 1u, __ATOMIC_RELAXED);
            }
            break;
        }
        int end = 0;
        while (line[end] != '\0') {
            ++end;
        }
        const bool whole = end > 0 && line[end - 1] == '\n';
        if (holds(line, job->needle)) {
            // One call, so that the line is whole whoever else prints.
            printf(fs, "%s:%u:%s%s", name, number, line, whole ? "" : "\n");
            __atomic_fetch_add(&job->matches, 1ull, __ATOMIC_RELAXED);
        }
        number += whole;
    }
    fclose(file);
}

extern "C" __global__ void grep(gpufs_session *session, Job *job) {
    gpufs::Session fs = session;
    for (;;) {
        const unsigned file = __atomic_fetch_add(&job->next, 1u, __ATOMIC_RELAXED);
        if (file >= job->files) {
            return;
        }
        search(fs, job, job->names + job->starts[file], job->lines + gpufs_thread() * longest);
    }
}

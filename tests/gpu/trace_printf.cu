// trace_printf BLOCKS THREADS ROUNDS >FILE: every lane prints its thread and round by CUDA's own printf, to be put beside a trace's events. Says on
// stderr, as trace_check does, what was printed and how long the kernel and its output took. The driver keeps what fits in its buffer, which is
// as large as all lines need; where it grants less, the lines of FILE say so.
#include <cstdio>
#include <cstdlib>
#include <chrono>

__global__ void lines(unsigned rounds) {
    const unsigned long long thread = blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x;
    for (unsigned round = 0; round < rounds; ++round) {
        printf("thread %llu round %u\n", thread, round);
    }
}

static void check(cudaError_t error, const char *what) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "trace_printf: %s: %s\n", what, cudaGetErrorString(error));
        std::exit(1);
    }
}

int main(int count, char **arguments) {
    if (count != 4) {
        std::fprintf(stderr, "trace_printf: which blocks, threads and rounds? See the head of its source\n");
        return 2;
    }
    const unsigned blocks = std::strtoul(arguments[1], nullptr, 10), threads = std::strtoul(arguments[2], nullptr, 10);
    const unsigned rounds = std::strtoul(arguments[3], nullptr, 10);
    // A line takes its arguments and a head in the buffer: 64 bytes are more.
    const size_t wanted = (static_cast<size_t>(blocks) * threads * rounds + 1) * 64;
    check(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, wanted), "the size of printf's buffer");
    lines<<<1, 1>>>(0);
    check(cudaDeviceSynchronize(), "a first launch");
    const auto started = std::chrono::steady_clock::now();
    lines<<<blocks, threads>>>(rounds);
    check(cudaGetLastError(), "a launch");
    check(cudaDeviceSynchronize(), "the kernel");
    std::fflush(stdout);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - started;
    std::fprintf(stderr, "took %.0f\n", took.count());
    return 0;
}

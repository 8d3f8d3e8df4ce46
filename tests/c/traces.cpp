/* As traces.c, by the classes of C++: what begins ends with its scope. */
#include "check.h"

#include <gpufs/host.h>
#include <gpufs/trace.h>

enum { BLOCKS = 10, THREADS = 100 };

static void work(gpufs_session *fs, void *) {
    gpufs::Trace trace(fs, "run.pftrace");
    CHECK(trace.error() == 0);
    auto moment = trace.event("moment", "thread", "minus", "half");
    auto work = trace.event("work");
    auto threads = trace.counter("threads");
    CHECK(moment.error() == 0 && work.error() == 0 && threads.error() == 0);
    const unsigned long long thread = gpufs_thread();
    {
        auto span = work.begin();
        CHECK(span.error() == 0);
        CHECK(moment.instant(thread, -static_cast<long long>(thread), static_cast<double>(thread) / 2) == 0);
    }
    auto second = work.begin();
    CHECK(threads.set(thread) == 0 && trace.flush() == 0);
    CHECK(second.end() == 0);
}

enum { STEPS = 100 };

static void record(gpufs_session *fs, void *) {
    gpufs::Trace trace(fs, "recorded.pftrace");
    auto step = trace.event("step");
    auto moment = trace.event("moment", "thread");
    auto threads = trace.counter("threads");
    step.begin();
    {
        auto recorder = trace.recorder();
        CHECK(recorder.error() == 0);
        auto moved = static_cast<gpufs::TraceRecorder &&>(recorder);
        for (int round = 0; round < STEPS; round++) {
            CHECK(moved.begin(step) == 0 && moved.instant(moment, gpufs_thread()) == 0);
            CHECK(moved.set(threads, gpufs_thread()) == 0 && moved.end() == 0);
        }
    }
    step.begin();
    auto second = trace.recorder();
    CHECK(second.finish() == 0 && second.end() == 0 && trace.close() == 0);
}

static void misuse(gpufs_session *fs, void *) {
    gpufs::Trace trace(fs, "missing/run.pftrace");
    CHECK(trace.error() == 2 /* ENOENT */);
    auto event = trace.event("x", "y");
    CHECK(event.error() == 9 /* EBADF */ && event.instant(1).error() == 9 && event.begin(1).error() == 9);
    auto recorder = trace.recorder();
    CHECK(recorder.error() == 9 && recorder.end().error() == 9 && recorder.finish().error() == 9);
    CHECK(trace.close().error() == 9);
}

int main() {
    gpufs_options options = {};
    options.size = sizeof options;
    options.deadline_ms = 50000;
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, &options);
    CHECK(host != nullptr);
    CHECK(gpufs_host_launch(host, BLOCKS, THREADS, work, nullptr) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, misuse, nullptr) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, BLOCKS, THREADS, record, nullptr) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_close(host) == 0);
    return 0;
}

/* A grid writes a trace: a span, a moment and a counter's value of each thread. Then each wrong use. The session writes one of its own. */
#include "check.h"

#include <errno.h>

#include <gpufs/host.h>
#include <gpufs/trace.h>

enum { BLOCKS = 10, THREADS = 100 };

static void work(gpufs_session *fs, void *argument) {
    gpufs_trace trace;
    gpufs_trace_event span_event, moment;
    gpufs_trace_span span;
    gpufs_trace_counter counter;
    const char *names[] = {"thread", "minus", "half"};
    uint64_t thread = gpufs_thread();
    const gpufs_trace_value values[] = {gpufs_trace_unsigned(thread), gpufs_trace_signed(-(int64_t)thread),
                                        gpufs_trace_real((double)thread / 2)};
    (void)argument;
    CHECK(gpufs_trace_open(fs, "run.pftrace", &trace) == 0);
    CHECK(gpufs_trace_event_of(&trace, "work", NULL, 0, &span_event) == 0);
    CHECK(gpufs_trace_event_of(&trace, "moment", names, 3, &moment) == 0);
    CHECK(gpufs_trace_counter_of(&trace, "threads", &counter) == 0);
    CHECK(gpufs_trace_begin(&span_event, NULL, &span) == 0);
    CHECK(gpufs_trace_instant(&moment, values) == 0);
    CHECK(gpufs_trace_set(&counter, values[0]) == 0);
    CHECK(gpufs_trace_end(&span) == 0 && gpufs_trace_end(&span) == 0);
    CHECK(gpufs_trace_flush(&trace) == 0 && gpufs_trace_close(&trace) == 0);
}

static void misuse(gpufs_session *fs, void *argument) {
    gpufs_trace trace, none = {0, 0, 0, 0, 0};
    gpufs_trace_event event;
    gpufs_trace_counter counter;
    gpufs_trace_span span;
    const char *too_long = "a name of forty-nine bytes, which is one too many";
    const char *names[] = {"a", "b", "c", "d", "e"};
    gpufs_trace_value strange = {7, 0, 0};
    (void)argument;
    CHECK_FAILS(gpufs_trace_open(NULL, "other.pftrace", &trace), -1, EINVAL);
    CHECK_FAILS(gpufs_trace_open(fs, NULL, &trace), -1, EFAULT);
    CHECK_FAILS(gpufs_trace_open(fs, "other.pftrace", NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_trace_open(fs, "missing/other.pftrace", &trace), -1, ENOENT);
    CHECK(gpufs_trace_open(fs, "other.pftrace", &trace) == 0);
    CHECK_FAILS(gpufs_trace_event_of(NULL, "x", NULL, 0, &event), -1, EFAULT);
    CHECK_FAILS(gpufs_trace_event_of(&none, "x", NULL, 0, &event), -1, EBADF);
    CHECK_FAILS(gpufs_trace_event_of(&trace, NULL, NULL, 0, &event), -1, EFAULT);
    CHECK_FAILS(gpufs_trace_event_of(&trace, too_long, NULL, 0, &event), -1, EINVAL);
    CHECK_FAILS(gpufs_trace_event_of(&trace, "x", NULL, 1, &event), -1, EFAULT);
    CHECK_FAILS(gpufs_trace_event_of(&trace, "x", names, 5, &event), -1, EINVAL);
    CHECK_FAILS(gpufs_trace_event_of(&trace, "x", names, -1, &event), -1, EINVAL);
    CHECK_FAILS(gpufs_trace_event_of(&trace, "x", names, 1, NULL), -1, EFAULT);
    CHECK(gpufs_trace_event_of(&trace, "x", names, 1, &event) == 0);
    CHECK_FAILS(gpufs_trace_counter_of(&trace, too_long, &counter), -1, EINVAL);
    CHECK_FAILS(gpufs_trace_counter_of(&trace, "c", NULL), -1, EFAULT);
    CHECK(gpufs_trace_counter_of(&trace, "c", &counter) == 0);
    CHECK_FAILS(gpufs_trace_begin(NULL, NULL, &span), -1, EFAULT);
    CHECK_FAILS(gpufs_trace_begin(&event, NULL, &span), -1, EFAULT);
    CHECK_FAILS(gpufs_trace_begin(&event, &strange, &span), -1, EINVAL);
    CHECK_FAILS(gpufs_trace_instant(NULL, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_trace_set(NULL, strange), -1, EFAULT);
    CHECK_FAILS(gpufs_trace_set(&counter, strange), -1, EINVAL);
    CHECK_FAILS(gpufs_trace_end(NULL), -1, EFAULT);
    CHECK(gpufs_trace_join_clocks(&trace) == 0);
    CHECK_FAILS(gpufs_trace_join_clocks(&none), -1, EBADF);
    CHECK_FAILS(gpufs_trace_flush(NULL), -1, EFAULT);
    CHECK(gpufs_trace_close(&trace) == 0);
    CHECK_FAILS(gpufs_trace_close(&trace), -1, EBADF);
    CHECK_FAILS(gpufs_trace_set(&counter, gpufs_trace_signed(1)), -1, EBADF);
}

int main(void) {
    gpufs_options options = {.size = sizeof options, .deadline_ms = 50000, .trace = "missing/session.pftrace"};
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, &options);
    CHECK(host == NULL && errno == ENOENT);
    options.trace = "session.pftrace";
    host = gpufs_host_open(GPUFS_CPU, 0, &options);
    CHECK(host != NULL);
    CHECK(gpufs_host_launch(host, BLOCKS, THREADS, work, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, misuse, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_close(host) == 0);
    return 0;
}

/* A grid writes a trace: a span, a moment and a counter's value of each thread. Then each wrong use. The session writes one of its own. */
#include "check.h"

#include <errno.h>
#include <stdio.h>

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

enum { STEPS = 100 };

/* The lowest thread of each warp records; a span of the trace comes before and after. */
static void record(gpufs_session *fs, void *argument) {
    gpufs_trace trace;
    gpufs_trace_event step, moment;
    gpufs_trace_span span;
    gpufs_trace_counter counter;
    gpufs_trace_recorder recorder;
    const char *names[] = {"thread"};
    const gpufs_trace_value thread = gpufs_trace_unsigned(gpufs_thread());
    (void)argument;
    CHECK(gpufs_trace_open(fs, "recorded.pftrace", &trace) == 0);
    CHECK(gpufs_trace_event_of(&trace, "step", NULL, 0, &step) == 0);
    CHECK(gpufs_trace_event_of(&trace, "moment", names, 1, &moment) == 0);
    CHECK(gpufs_trace_counter_of(&trace, "threads", &counter) == 0);
    CHECK(gpufs_trace_begin(&step, NULL, &span) == 0 && gpufs_trace_end(&span) == 0);
    CHECK(gpufs_trace_recorder_of(&trace, &recorder) == 0);
    for (int round = 0; round < STEPS; round++) {
        CHECK(gpufs_trace_record_begin(&recorder, &step, NULL) == 0);
        CHECK(gpufs_trace_record_instant(&recorder, &moment, &thread) == 0);
        CHECK(gpufs_trace_record_set(&recorder, &counter, thread) == 0);
        CHECK(gpufs_trace_record_end(&recorder) == 0);
    }
    CHECK(gpufs_trace_recorder_finish(&recorder) == 0 && gpufs_trace_recorder_finish(&recorder) == 0);
    CHECK(gpufs_trace_begin(&step, NULL, &span) == 0 && gpufs_trace_end(&span) == 0);
    CHECK(gpufs_trace_close(&trace) == 0);
}

static void record_wrongly(gpufs_session *fs, void *argument) {
    gpufs_trace trace, other, none = {0, 0, 0, 0, 0};
    gpufs_trace_event event, of_other;
    gpufs_trace_counter counter;
    gpufs_trace_recorder recorder;
    const char *names[] = {"a"};
    gpufs_trace_value strange = {7, 0, 0};
    (void)argument;
    CHECK(gpufs_trace_open(fs, "wrong.pftrace", &trace) == 0 && gpufs_trace_open(fs, "other.pftrace", &other) == 0);
    CHECK(gpufs_trace_event_of(&trace, "x", names, 1, &event) == 0);
    CHECK(gpufs_trace_event_of(&other, "x", NULL, 0, &of_other) == 0);
    CHECK(gpufs_trace_counter_of(&other, "c", &counter) == 0);
    CHECK_FAILS(gpufs_trace_recorder_of(NULL, &recorder), -1, EFAULT);
    CHECK_FAILS(gpufs_trace_recorder_of(&none, &recorder), -1, EBADF);
    CHECK_FAILS(gpufs_trace_recorder_of(&trace, NULL), -1, EFAULT);
    CHECK(gpufs_trace_recorder_of(&trace, &recorder) == 0);
    CHECK_FAILS(gpufs_trace_record_begin(NULL, &event, &strange), -1, EFAULT);
    CHECK_FAILS(gpufs_trace_record_begin(&recorder, NULL, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_trace_record_begin(&recorder, &event, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_trace_record_begin(&recorder, &event, &strange), -1, EINVAL);
    CHECK_FAILS(gpufs_trace_record_instant(&recorder, &of_other, NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_trace_record_end(NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_trace_record_set(&recorder, NULL, strange), -1, EFAULT);
    CHECK_FAILS(gpufs_trace_record_set(&recorder, &counter, strange), -1, EINVAL);
    CHECK_FAILS(gpufs_trace_record_set(&recorder, &counter, gpufs_trace_signed(1)), -1, EINVAL);
    CHECK_FAILS(gpufs_trace_recorder_finish(NULL), -1, EFAULT);
    CHECK(gpufs_trace_recorder_finish(&recorder) == 0);
    CHECK(gpufs_trace_close(&trace) == 0 && gpufs_trace_close(&other) == 0);
}

/* What a recorder of that sequence has at that time. */
static gpufs_trace_recorder recorder_at(uint64_t time, uint32_t sequence) {
    gpufs_trace_recorder recorder;
    memset(&recorder, 0, sizeof recorder);
    recorder.upper_ = (uint32_t)(time >> 28);
    recorder.top_ = (uint32_t)(time >> 28 & 0x7f) << 24 | UINT32_C(0x80000000);
    recorder.second_ = (time >> 35 & 0x7f) | 0x80 | (time >> 42 & 0x7f) << 8 | UINT64_C(0x5a00000000500000);
    for (int group = 0; group < 4; group++) {
        const uint64_t bits = (sequence >> 7 * group & 0x7f) | (group < 3 ? 0x80 : 0);
        recorder.second_ |= bits << (24 + 8 * group);
    }
    return recorder;
}

/* The header's packets, which the test compares with those of the library. */
static void packets(void) {
    FILE *file = fopen("packets", "wb");
    uint64_t drawn = 1;
    CHECK(file != NULL);
    for (int count = 0; count < 3000; count++) {
        uint64_t of[3];
        for (int each = 0; each < 3; each++) {
            drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            of[each] = drawn >> (drawn >> 58);
        }
        const uint32_t kind = 1 + (uint32_t)count % 3;
        const uint32_t sequence = (uint32_t)of[1] & 0xfffffff;
        const uint32_t name = kind == 2 ? 0 : (uint32_t)of[2] & 0xfffffff;
        const uint64_t time = of[0] & UINT64_C(0x1ffffffffffff);
        const gpufs_trace_recorder recorder = recorder_at(time, sequence);
        const uint64_t words[3] = {gpufs_trace_first_(&recorder, time), recorder.second_, gpufs_trace_third_(kind, name)};
        CHECK(fwrite(words, sizeof words, 1, file) == 1);
    }
    CHECK(fclose(file) == 0);
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
    CHECK(gpufs_host_launch(host, BLOCKS, THREADS, record, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, record_wrongly, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    packets();
    CHECK(gpufs_host_close(host) == 0);
    return 0;
}

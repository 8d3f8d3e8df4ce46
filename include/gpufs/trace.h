/* Traces: events from inside a kernel, in a file that Perfetto opens (https://ui.perfetto.dev). For CUDA and HIP kernels
 * and for CPU lanes.
 *
 *     gpufs_trace trace;                                        every thread does so, by the same path
 *     gpufs_trace_event load;
 *     gpufs_trace_span span;
 *     const char *names[] = {"rows"};
 *     const gpufs_trace_value values[] = {gpufs_trace_unsigned(rows)};
 *     if (gpufs_trace_open(fs, "run.pftrace", &trace) == 0 && gpufs_trace_event_of(&trace, "load", names, 1, &load) == 0) {
 *         gpufs_trace_begin(&load, values, &span);
 *         load_rows(rows);
 *         gpufs_trace_end(&span);
 *         gpufs_trace_close(&trace);
 *     }
 *
 * In C++:
 *
 *     gpufs::Trace trace(fs, "run.pftrace");                     trace.error() says why it is not open
 *     auto load = trace.event("load", "rows");
 *     {
 *         auto span = load.begin(rows);                          ends where it goes
 *         load_rows(rows);
 *     }
 *     load.instant(rows);
 *     trace.counter("queue").set(length);
 *
 * What is timed by the nanosecond takes a recorder, which is a warp's own way into its memory, without a question to the other
 * threads: an event without values takes some 30 instructions, in place of 230.
 *
 *     auto recorder = trace.recorder();
 *     for (int step = 0; step < steps; step++) {
 *         recorder.begin(load);
 *         load_rows(step);
 *         recorder.end();
 *     }
 *
 * Of the threads that opened the trace together the lowest one's events are written, what the others record is nothing. While a
 * warp has a recorder, its other events wait for the file's stream, as those of grids with too many warps. It is finished
 * before the trace is closed, and belongs to the thread that opened it.
 *
 * A span is one event for all threads of a warp that begin it together, with the lowest one's values, and its end; they
 * go on together from both, so that the next one is one event as well. A
 * moment and a counter's value are one for each thread that calls. A name has GPUFS_TRACE_NAME_BYTES bytes at most, an
 * event GPUFS_TRACE_VALUES_MAX values. A thread uses what it filled in itself. The file is a stream that all threads
 * share, as gpufs_fopen_shared's, and is closed as often as it was opened; what a kernel leaves open, the host writes.
 * Events of a warp wait in memory of its own, until that is full, or its threads flush or close the trace, or the kernel has
 * ended: each thread closes what it opened, as where others close it for all, the host finds the rest without a file, which
 * gpufs_synchronize says. That memory is 256 KiB by default, of which each warp takes 1 KiB at least: warps of a grid that
 * has more of them write into the file's stream one after the other. `trace_memory_bytes` of gpufs_options gives more;
 * 16 MiB are enough for a full GPU of 8,448 warps.
 *
 * Each call is 0, or -1: EFAULT for a null pointer, EBADF for what is not open, EINVAL for a null session, a name that is
 * too long or too many values, and what writing meets.
 */
#ifndef GPUFS_TRACE_H
#define GPUFS_TRACE_H

#include <gpufs/raw.h>
#include <gpufs/stdio.h>

#define GPUFS_TRACE_NAME_BYTES 48
#define GPUFS_TRACE_VALUES_MAX 4

/* A trace that is open. What ends in an underscore is the library's. */
typedef struct gpufs_trace {
    uint64_t file_;
    uint32_t sequence_;
    uint32_t rest_;
    uint32_t piece_;
    uint32_t kept_;
} gpufs_trace;
/* An event by its name. */
typedef struct gpufs_trace_event {
    gpufs_trace trace_;
    uint32_t name_;
    uint32_t count_;
    uint32_t value_names_[GPUFS_TRACE_VALUES_MAX];
} gpufs_trace_event;
/* A span that has begun. */
typedef struct gpufs_trace_span {
    gpufs_trace trace_;
    uint64_t began_;
} gpufs_trace_span;
/* A counter. */
typedef struct gpufs_trace_counter {
    gpufs_trace trace_;
    uint64_t track_;
} gpufs_trace_counter;
/* A way into a trace without questions. */
typedef struct gpufs_trace_recorder {
    gpufs_trace trace_;
    uint64_t next_;
    uint32_t room_;
    uint32_t owner_;
    uint32_t writes_;
    uint32_t kept_;
    /* What packets have in common while the upper bits of the clock stay the same. */
    uint64_t second_;
    uint32_t upper_;
    uint32_t top_;
} gpufs_trace_recorder;
/* A value: gpufs_trace_signed, gpufs_trace_unsigned and gpufs_trace_real make one. */
typedef struct gpufs_trace_value {
    uint32_t kind_;
    uint32_t kept_;
    uint64_t bits_;
} gpufs_trace_value;

GPUFS_SIZE_(gpufs_trace, 24);
GPUFS_SIZE_(gpufs_trace_event, 48);
GPUFS_SIZE_(gpufs_trace_span, 32);
GPUFS_SIZE_(gpufs_trace_counter, 32);
GPUFS_SIZE_(gpufs_trace_recorder, 64);
GPUFS_SIZE_(gpufs_trace_value, 16);

/* A value of an event or a counter, of each kind that a trace has. None fails. */
GPUFS_INLINE gpufs_trace_value gpufs_trace_signed(int64_t value) {
    gpufs_trace_value made = {0, 0, (uint64_t)value};
    return made;
}
GPUFS_INLINE gpufs_trace_value gpufs_trace_unsigned(uint64_t value) {
    gpufs_trace_value made = {1, 0, value};
    return made;
}
GPUFS_INLINE gpufs_trace_value gpufs_trace_real(double value) {
    union {
        double value;
        uint64_t bits;
    } as;
    gpufs_trace_value made = {2, 0, 0};
    as.value = value;
    made.bits_ = as.bits;
    return made;
}

/* Opens a trace, or joins it. Also -1: as gpufs_fopen. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_open(gpufs_session *session, const char *path, gpufs_trace *trace) {
    return gpufs_int_(gpufs_raw_trace_open(session, path, trace));
}
/* An event by its name, and those of its `count` values. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_event_of(const gpufs_trace *trace, const char *name,
                                                    const char *const *value_names, int count,
                                                    gpufs_trace_event *event) {
    return gpufs_int_(gpufs_raw_trace_event(trace, name, value_names, count, event));
}
/* A counter by its name: one for each name in the file. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_counter_of(const gpufs_trace *trace, const char *name,
                                                      gpufs_trace_counter *counter) {
    return gpufs_int_(gpufs_raw_trace_counter(trace, name, counter));
}
/* Begins a span, with as many values as the event has; null for none. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_begin(const gpufs_trace_event *event, const gpufs_trace_value *values,
                                                 gpufs_trace_span *span) {
    return gpufs_int_(gpufs_raw_trace_begin(event, values, span));
}
/* Ends it, once: a second time it does nothing. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_end(gpufs_trace_span *span) { return gpufs_int_(gpufs_raw_trace_end(span)); }
/* A moment. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_instant(const gpufs_trace_event *event, const gpufs_trace_value *values) {
    return gpufs_int_(gpufs_raw_trace_instant(event, values));
}
/* A counter's value from now on. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_set(const gpufs_trace_counter *counter, gpufs_trace_value value) {
    return gpufs_int_(gpufs_raw_trace_set(counter, &value));
}
/* A recorder of the calling threads' trace, which they opened together. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_recorder_of(const gpufs_trace *trace, gpufs_trace_recorder *recorder) {
    return gpufs_int_(gpufs_raw_trace_recorder(trace, recorder));
}

/* The low 28 bits in groups of seven, each with the mark that another follows. */
GPUFS_INLINE uint32_t gpufs_trace_groups_(uint32_t value) {
    value = (value & UINT32_C(0x3fff)) | ((value & UINT32_C(0x0fffc000)) << 2);
    value = (value & UINT32_C(0x007f007f)) | ((value & UINT32_C(0x3f803f80)) << 1);
    return value | UINT32_C(0x80808080);
}
/* The first word of an event without values, whose other words are the recorder's second and the third. `clock` has the upper bits
 * that the recorder has. */
GPUFS_INLINE uint64_t gpufs_trace_first_(const gpufs_trace_recorder *recorder, uint64_t clock) {
    const uint32_t below = gpufs_trace_groups_((uint32_t)clock);
    return (UINT32_C(0x40160a) | below << 24) | (uint64_t)(below >> 8 | recorder->top_) << 32;
}
/* The third: of a span's begin (1), its end (2; the name is 0), a moment (3). */
GPUFS_INLINE uint64_t gpufs_trace_third_(uint32_t kind, uint32_t name) {
    return kind == 2 ? UINT64_C(0x0080808080824807)
                     : UINT64_C(0x50004807) | (uint64_t)kind << 16 |
                           (uint64_t)(gpufs_trace_groups_(name) & UINT32_C(0x7fffffff)) << 32;
}
/* An event by a recorder; whoever has room stores it without a call. What calls has copies, so that the caller's own stay in
 * registers. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_record_(gpufs_trace_recorder *recorder, uint32_t kind,
                                                   const gpufs_trace_event *event, const gpufs_trace_value *values) {
    if (recorder == NULL || (event == NULL && kind != 2)) {
        return gpufs_int_(gpufs_raw_trace_record(recorder, kind, event, values));
    }
#if defined(__CUDA_ARCH__)
    const int is_own = kind == 2 || (event->count_ == 0 && event->trace_.sequence_ == recorder->trace_.sequence_ &&
                                     event->trace_.file_ == recorder->trace_.file_);
    const int has_room = is_own && recorder->room_ >= 24;
    uint64_t clock;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(clock));
    /* Without a branch before the end: each takes as long as what is done here. While the clock is on its way, the words are stored
     * that it has no part in; where its upper bits are others, they are stored again: a packet is none before its first word is there. */
    asm volatile("{\n\t.reg .pred does;\n\tsetp.ne.u32 does, %0, 0;\n\t@does st.global.u64 [%1 + 8], %2;\n\t"
                 "@does st.global.u64 [%1 + 16], %3;\n\t}"
                 :
                 : "r"(has_room ? recorder->writes_ : 0), "l"(recorder->next_), "l"(recorder->second_),
                   "l"(gpufs_trace_third_(kind, kind == 2 ? 0 : event->name_))
                 : "memory");
    const int is_whole = has_room && (uint32_t)(clock >> 28) == recorder->upper_;
    asm volatile("{\n\t.reg .pred does;\n\tsetp.ne.u32 does, %0, 0;\n\t@does st.global.u64 [%1], %2;\n\t}"
                 :
                 : "r"(is_whole ? recorder->writes_ : 0), "l"(recorder->next_), "l"(gpufs_trace_first_(recorder, clock))
                 : "memory");
    recorder->next_ += is_whole ? 24 : 0;
    recorder->room_ -= is_whole ? 24 : 0;
    if (is_whole) {
        return gpufs_int_(0);
    }
#endif
    gpufs_trace_recorder its = *recorder;
    gpufs_trace_event of;
    if (event != NULL) {
        of = *event;
    }
    const int64_t put = gpufs_raw_trace_record(&its, kind, event != NULL ? &of : NULL, values);
    *recorder = its;
    return gpufs_int_(put);
}

/* Begins a span of the warp, with as many values as the event has; null for none. Also -1: EINVAL for an event of another
 * trace. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_record_begin(gpufs_trace_recorder *recorder, const gpufs_trace_event *event,
                                                        const gpufs_trace_value *values) {
    return gpufs_trace_record_(recorder, 1, event, values);
}
/* Ends the span that was begun last, of those that have not ended. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_record_end(gpufs_trace_recorder *recorder) {
    return gpufs_trace_record_(recorder, 2, NULL, NULL);
}
/* A moment of the warp. Also -1: as gpufs_trace_record_begin. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_record_instant(gpufs_trace_recorder *recorder, const gpufs_trace_event *event,
                                                          const gpufs_trace_value *values) {
    return gpufs_trace_record_(recorder, 3, event, values);
}
/* A counter's value from now on. Also -1: as gpufs_trace_record_begin. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_record_set(gpufs_trace_recorder *recorder, const gpufs_trace_counter *counter,
                                                      gpufs_trace_value value) {
    return gpufs_int_(gpufs_raw_trace_record_counter(recorder, counter, &value));
}
/* Gives the warp's other events their way back, once: a second time it does nothing. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_recorder_finish(gpufs_trace_recorder *recorder) {
    return gpufs_int_(gpufs_raw_trace_recorder_finish(recorder));
}
/* Reads the device's clock and the host's again: clocks drift, and a kernel may run for long. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_join_clocks(const gpufs_trace *trace) {
    return gpufs_int_(gpufs_raw_trace_join_clocks(trace));
}
/* Writes what is buffered (fflush(3)): then it is in the file, the events of the threads that call it among it. Those of
 * other warps may wait in these, which call it, too. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_flush(const gpufs_trace *trace) {
    return gpufs_int_(gpufs_raw_trace_flush(trace));
}
/* Closes it, as gpufs_fclose a shared stream. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_trace_close(const gpufs_trace *trace) {
    return gpufs_int_(gpufs_raw_trace_close(trace));
}

#ifdef __cplusplus

namespace gpufs {

/* A value of any arithmetic type. */
GPUFS_BOTH inline gpufs_trace_value trace_value(double value) { return gpufs_trace_real(value); }
GPUFS_BOTH inline gpufs_trace_value trace_value(float value) { return gpufs_trace_real(value); }
GPUFS_BOTH inline gpufs_trace_value trace_value(int value) { return gpufs_trace_signed(value); }
GPUFS_BOTH inline gpufs_trace_value trace_value(long value) { return gpufs_trace_signed(value); }
GPUFS_BOTH inline gpufs_trace_value trace_value(long long value) { return gpufs_trace_signed(value); }
GPUFS_BOTH inline gpufs_trace_value trace_value(unsigned value) { return gpufs_trace_unsigned(value); }
GPUFS_BOTH inline gpufs_trace_value trace_value(unsigned long value) { return gpufs_trace_unsigned(value); }
GPUFS_BOTH inline gpufs_trace_value trace_value(unsigned long long value) { return gpufs_trace_unsigned(value); }

/* A span. It ends with its scope, or before, by end(). */
class TraceSpan {
  public:
    GPUFS_BOTH explicit TraceSpan(gpufs_trace_span span, int error) : span_(span), error_(error), open_(error == 0) {}
    GPUFS_BOTH TraceSpan(TraceSpan &&from) : span_(from.span_), error_(from.error_), open_(from.open_) {
        from.open_ = false;
    }
    TraceSpan(const TraceSpan &) = delete;
    TraceSpan &operator=(const TraceSpan &) = delete;
    GPUFS_BOTH ~TraceSpan() {
        if (open_) {
            (void)gpufs_trace_end(&span_);
        }
    }
    GPUFS_BOTH Result<int> end() {
        open_ = false;
        return gpufs_trace_end(&span_);
    }
    /* Why it did not begin, or 0. */
    GPUFS_BOTH int error() const { return error_; }

  private:
    gpufs_trace_span span_;
    int error_;
    /* It is to be ended, also by a thread for which another one writes. */
    bool open_;
};

/* An event with `count` values. */
template <int count>
class TraceEvent {
  public:
    GPUFS_BOTH TraceEvent(gpufs_trace_event event, int error) : event_(event), error_(error) {}
    template <class... Values>
    GPUFS_BOTH TraceSpan begin(Values... values) const {
        static_assert(sizeof...(Values) == count, "as many values as names");
        const gpufs_trace_value all[count + 1] = {trace_value(values)..., gpufs_trace_value()};
        gpufs_trace_span span = gpufs_trace_span();
        const Result<int> begun = gpufs_trace_begin(&event_, all, &span);
        return TraceSpan(span, begun.error());
    }
    template <class... Values>
    GPUFS_BOTH Result<int> instant(Values... values) const {
        static_assert(sizeof...(Values) == count, "as many values as names");
        const gpufs_trace_value all[count + 1] = {trace_value(values)..., gpufs_trace_value()};
        return gpufs_trace_instant(&event_, all);
    }
    /* Why it was not named, or 0. */
    GPUFS_BOTH int error() const { return error_; }

  private:
    friend class TraceRecorder;
    gpufs_trace_event event_;
    int error_;
};

/* A counter. */
class TraceCounter {
  public:
    GPUFS_BOTH TraceCounter(gpufs_trace_counter counter, int error) : counter_(counter), error_(error) {}
    template <class Value>
    GPUFS_BOTH Result<int> set(Value value) const {
        return gpufs_trace_set(&counter_, trace_value(value));
    }
    GPUFS_BOTH int error() const { return error_; }

  private:
    friend class TraceRecorder;
    gpufs_trace_counter counter_;
    int error_;
};

/* A recorder. It is finished with its scope, or before, by finish(): before the trace is closed. */
class TraceRecorder {
  public:
    GPUFS_BOTH explicit TraceRecorder(gpufs_trace_recorder recorder, int error)
        : recorder_(recorder), error_(error), open_(error == 0) {}
    GPUFS_BOTH TraceRecorder(TraceRecorder &&from) : recorder_(from.recorder_), error_(from.error_), open_(from.open_) {
        from.open_ = false;
    }
    TraceRecorder(const TraceRecorder &) = delete;
    TraceRecorder &operator=(const TraceRecorder &) = delete;
    GPUFS_BOTH ~TraceRecorder() {
        if (open_) {
            (void)finish();
        }
    }
    template <int count, class... Values>
    GPUFS_BOTH Result<int> begin(const TraceEvent<count> &event, Values... values) {
        return record(1, event, values...);
    }
    GPUFS_BOTH Result<int> end() { return gpufs_trace_record_(&recorder_, 2, nullptr, nullptr); }
    template <int count, class... Values>
    GPUFS_BOTH Result<int> instant(const TraceEvent<count> &event, Values... values) {
        return record(3, event, values...);
    }
    template <class Value>
    GPUFS_BOTH Result<int> set(const TraceCounter &counter, Value value) {
        gpufs_trace_recorder its = recorder_;
        const Result<int> put = gpufs_trace_record_set(&its, &counter.counter_, trace_value(value));
        recorder_ = its;
        return put;
    }
    GPUFS_BOTH Result<int> finish() {
        open_ = false;
        gpufs_trace_recorder its = recorder_;
        recorder_.next_ = 0;
        recorder_.room_ = 0;
        return gpufs_trace_recorder_finish(&its);
    }
    /* Why there is none, or 0. */
    GPUFS_BOTH int error() const { return error_; }

  private:
    template <int count, class... Values>
    GPUFS_BOTH Result<int> record(uint32_t kind, const TraceEvent<count> &event, Values... values) {
        static_assert(sizeof...(Values) == count, "as many values as names");
        const gpufs_trace_value all[count + 1] = {trace_value(values)..., gpufs_trace_value()};
        return gpufs_trace_record_(&recorder_, kind, &event.event_, count == 0 ? nullptr : all);
    }

    gpufs_trace_recorder recorder_;
    int error_;
    bool open_;
};

/* A trace as one thread has it. It closes with its scope, or before, by close(). */
class Trace {
  public:
    GPUFS_BOTH Trace(Session session, const char *path) : trace_(), error_(0) {
        error_ = gpufs_trace_open(session, path, &trace_).error();
    }
    Trace(const Trace &) = delete;
    Trace &operator=(const Trace &) = delete;
    GPUFS_BOTH ~Trace() {
        if (trace_.file_ != 0) {
            (void)close();
        }
    }
    template <class... Names>
    GPUFS_BOTH TraceEvent<static_cast<int>(sizeof...(Names))> event(const char *name, Names... value_names) const {
        static_assert(sizeof...(Names) <= GPUFS_TRACE_VALUES_MAX, "an event has at most four values");
        const char *const names[sizeof...(Names) + 1] = {value_names..., nullptr};
        gpufs_trace_event event = gpufs_trace_event();
        const int count = static_cast<int>(sizeof...(Names));
        const Result<int> named = gpufs_trace_event_of(&trace_, name, names, count, &event);
        return TraceEvent<static_cast<int>(sizeof...(Names))>(event, named.error());
    }
    GPUFS_BOTH TraceCounter counter(const char *name) const {
        gpufs_trace_counter counter = gpufs_trace_counter();
        const Result<int> named = gpufs_trace_counter_of(&trace_, name, &counter);
        return TraceCounter(counter, named.error());
    }
    GPUFS_BOTH TraceRecorder recorder() const {
        gpufs_trace_recorder recorder = gpufs_trace_recorder();
        const Result<int> made = gpufs_trace_recorder_of(&trace_, &recorder);
        return TraceRecorder(recorder, made.error());
    }
    GPUFS_BOTH Result<int> flush() const { return gpufs_trace_flush(&trace_); }
    GPUFS_BOTH Result<int> join_clocks() const { return gpufs_trace_join_clocks(&trace_); }
    GPUFS_BOTH Result<int> close() {
        const Result<int> closed = gpufs_trace_close(&trace_);
        trace_.file_ = 0;
        return closed;
    }
    /* Why it is not open, or 0. */
    GPUFS_BOTH int error() const { return error_; }

  private:
    gpufs_trace trace_;
    int error_;
};

} /* namespace gpufs */

#endif

#endif

/* The scanf family: C11 7.21.6.2, from streams and strings. <gpufs/stdio.h> includes this file.
 *
 *     int id; double value; char name[32];
 *     if (gpufs_fscanf(in, "%d %lf %31s", &id, &value, name) == 3) ...
 *
 * Conversions: d i u o x X b p f F e E g G a A c s [ n %, C and S, with widths, `*`, hh h l ll j z t L and C23's wN and
 * wfN, numbered targets (%1$d), and m, for which GPUFS_REALLOC of <gpufs/memory.h> gives the memory and GPUFS_FREE takes
 * it back. Wide characters are decoded from UTF-8. Numbers are rounded to nearest. L is rounded as a double.
 *
 * When a format is checked:
 *
 *   always       at run time, before anything is read. A format or a target that does not fit is EINVAL. So is a format
 *                without a NUL within GPUFS_FORMAT_BYTES
 *   C11, C++     by the compiler, with the macros: gpufs_sscanf(text, "%d", &a_double) is a warning (-Wformat); not
 *                with nvcc
 *   clang, C++   also with the plain names
 *
 * The functions behind the macros, (gpufs_sscanf)(...), and the forms with a va_list know their targets' types by the
 * format alone, as C's do. They take up to GPUFS_SCAN_TARGETS targets. nvcc has them on the host only.
 *
 * %m under plain clang for a GPU, where there need be no malloc: define GPUFS_SCAN_ALLOCATES as 1; else %m is ENOMEM.
 */
#ifndef GPUFS_SCAN_H
#define GPUFS_SCAN_H

#include <gpufs/format.h>
#include <gpufs/memory.h>
#if !GPUFS_RTC_
#include <float.h>
#include <stdarg.h>
#endif

/* Targets of a function with `...` or a va_list. */
#define GPUFS_SCAN_TARGETS 32

#ifndef GPUFS_SCAN_ALLOCATES
#if GPUFS_ON_DEVICE && !defined(__CUDACC__) && !defined(__HIP__)
#define GPUFS_SCAN_ALLOCATES 0
#else
#define GPUFS_SCAN_ALLOCATES 1
#endif
#endif

#if GPUFS_SCAN_ALLOCATES
/* The allocator of %m. */
GPUFS_INLINE void *gpufs_scan_memory_(void *memory, size_t before, size_t bytes) {
    (void)before;
    if (bytes == 0) {
        GPUFS_FREE(memory);
        return 0;
    }
    return GPUFS_REALLOC(memory, before, bytes);
}
#define GPUFS_SCAN_MEMORY_ gpufs_scan_memory_
#else
#define GPUFS_SCAN_MEMORY_ 0
#endif

GPUFS_INLINE gpufs_scan_target gpufs_target_(uint32_t kind, const volatile void *address) {
    gpufs_scan_target target = {kind, UINT32_MAX, (uint64_t)(uintptr_t)address};
    return target;
}
/* A count, or EOF; either with ERANGE. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_scanned_(int64_t raw) {
    int error = gpufs_error_of_(raw);
    int none = error != 0 || (raw >> 40 & 1) != 0;
    GPUFS_RETURN(int, none ? -1 : (int)(raw & 0x7fffffff), error == 0 && (raw >> 41) != 0 ? 34 /* ERANGE */ : error);
}
/* The number of bytes before the NUL; SIZE_MAX, which is EINVAL, without one in GPUFS_FORMAT_BYTES bytes. */
GPUFS_INLINE size_t gpufs_scan_length_(const char *format) {
    size_t length = 0;
    while (format != 0 && format[length] != '\0') {
        if (++length == GPUFS_FORMAT_BYTES) {
            return SIZE_MAX;
        }
    }
    return length;
}

/* With packed targets: for code that makes formats or targets itself. `format` has `format_bytes` bytes and needs no NUL.
 * The number of targets that got a value, or EOF: with error 0 where the input ended before the first got one, and on
 * error: EINVAL (a format or target that does not fit, a null format: nothing is read then), EFAULT (a null target or
 * text), EILSEQ, ENOMEM (%m), and those of fread. With error ERANGE beside the count, a number did not fit, as with
 * strtol and strtod: the nearest 64-bit integer was taken and cut to its target, or an infinity, 0 or a subnormal. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fscanf_targets(gpufs_file *file, const char *format, size_t format_bytes,
                                                    const gpufs_scan_target *targets, size_t count) {
    return gpufs_scanned_(gpufs_raw_fscanf(file, format, format_bytes, targets, count, GPUFS_SCAN_MEMORY_));
}
GPUFS_INLINE GPUFS_RESULT(int) gpufs_sscanf_targets(const char *text, const char *format, size_t format_bytes,
                                                    const gpufs_scan_target *targets, size_t count) {
    return gpufs_scanned_(gpufs_raw_sscanf(text, format, format_bytes, targets, count, GPUFS_SCAN_MEMORY_));
}

/* The standard input of a session. */
GPUFS_INLINE gpufs_file *gpufs_input_(gpufs_session *session) {
    return (gpufs_file *)(uintptr_t)gpufs_raw_standard_stream(session, 0);
}

/* gpufs_fscanf(file, format, ...)      from a stream (fscanf(3)): one call is one unit; threads that call together read in
 *                                      lane order, each from where the one before stopped. A whole grid is fast
 *                                      with formats of numbers alone ("%d %d", "%lf"): up to 16, all decimal integers or
 *                                      all floating-point, no widths; others are read one thread after the other
 * gpufs_scanf(session, format, ...)    from the standard input (scanf(3))
 * gpufs_sscanf(text, format, ...)      from a string (sscanf(3))
 * gpufs_vfscanf, gpufs_vscanf, gpufs_vsscanf   with a va_list
 *
 * The result is that of gpufs_fscanf_targets. Memory for %m is allocated while the stream is held: an allocator of the
 * program's own makes no call on it. */

#if defined(__CUDACC__) && !defined(__clang__)
#define GPUFS_SCAN_VARIADIC_ static __inline__
#else
#define GPUFS_SCAN_VARIADIC_ GPUFS_INLINE
#endif

#if !GPUFS_RTC_ && (!GPUFS_ON_DEVICE || defined(__CUDACC__) || defined(__clang__))

GPUFS_SCAN_VARIADIC_ GPUFS_RESULT(int) gpufs_vfscanf(gpufs_file *file, const char *format, va_list list) {
    gpufs_scan_target targets[GPUFS_SCAN_TARGETS];
    size_t bytes = gpufs_scan_length_(format);
    int64_t i, count = gpufs_raw_scan_targets(format, bytes);
    if (count > GPUFS_SCAN_TARGETS) {
        count = -22; /* EINVAL */
    }
    if (count < 0) {
        return gpufs_scanned_(count);
    }
    for (i = 0; i < count; i++) {
        targets[i] = gpufs_target_(GPUFS_TARGET_ANY, va_arg(list, void *));
    }
    return gpufs_fscanf_targets(file, format, bytes, targets, (size_t)count);
}
GPUFS_SCAN_VARIADIC_ GPUFS_RESULT(int) gpufs_vscanf(gpufs_session *session, const char *format, va_list list) {
    return gpufs_vfscanf(gpufs_input_(session), format, list);
}
GPUFS_SCAN_VARIADIC_ GPUFS_RESULT(int) gpufs_vsscanf(const char *text, const char *format, va_list list) {
    gpufs_scan_target targets[GPUFS_SCAN_TARGETS];
    size_t bytes = gpufs_scan_length_(format);
    int64_t i, count = gpufs_raw_scan_targets(format, bytes);
    if (count > GPUFS_SCAN_TARGETS) {
        count = -22; /* EINVAL */
    }
    if (count < 0) {
        return gpufs_scanned_(count);
    }
    for (i = 0; i < count; i++) {
        targets[i] = gpufs_target_(GPUFS_TARGET_ANY, va_arg(list, void *));
    }
    return gpufs_sscanf_targets(text, format, bytes, targets, (size_t)count);
}
GPUFS_SCAN_VARIADIC_ GPUFS_RESULT(int) gpufs_fscanf(gpufs_file *file, const char *format, ...) {
    va_list list;
    va_start(list, format);
    GPUFS_RESULT(int) result = gpufs_vfscanf(file, format, list);
    va_end(list);
    return result;
}
GPUFS_SCAN_VARIADIC_ GPUFS_RESULT(int) gpufs_scanf(gpufs_session *session, const char *format, ...) {
    va_list list;
    va_start(list, format);
    GPUFS_RESULT(int) result = gpufs_vfscanf(gpufs_input_(session), format, list);
    va_end(list);
    return result;
}
GPUFS_SCAN_VARIADIC_ GPUFS_RESULT(int) gpufs_sscanf(const char *text, const char *format, ...) {
    va_list list;
    va_start(list, format);
    GPUFS_RESULT(int) result = gpufs_vsscanf(text, format, list);
    va_end(list);
    return result;
}

#endif

#if LDBL_MANT_DIG == 64 && !GPUFS_ON_DEVICE
#define GPUFS_TARGET_LONG_DOUBLE_ GPUFS_TARGET_EXTENDED
#else
#define GPUFS_TARGET_LONG_DOUBLE_ GPUFS_TARGET_DOUBLE
#endif

/* Never called: its attribute has the compiler check a literal format. */
#if defined(__CUDACC__) && !defined(__clang__)
#define GPUFS_SCAN_CHECK_(...) ((void)0)
#else
__attribute__((format(scanf, 1, 2))) GPUFS_INLINE int gpufs_check_scan_(const char *format, ...) {
    (void)format;
    return 0;
}
#define GPUFS_SCAN_CHECK_(...) ((void)(0 ? gpufs_check_scan_(__VA_ARGS__) : 0))
#endif

#ifdef __cplusplus

namespace gpufs {
namespace detail {

/* One overload for each type that can be scanned. */
#define GPUFS_SCANNABLE_(type, kind) \
    GPUFS_BOTH inline gpufs_scan_target target(type *value) { return gpufs_target_((kind), value); }
GPUFS_SCANNABLE_(char, GPUFS_TARGET_BYTES)
GPUFS_SCANNABLE_(signed char, GPUFS_TARGET_BYTES)
GPUFS_SCANNABLE_(unsigned char, GPUFS_TARGET_BYTES)
GPUFS_SCANNABLE_(short, GPUFS_TARGET_INT16)
GPUFS_SCANNABLE_(unsigned short, GPUFS_TARGET_INT16)
GPUFS_SCANNABLE_(int, GPUFS_TARGET_WORDS)
GPUFS_SCANNABLE_(unsigned, GPUFS_TARGET_WORDS)
GPUFS_SCANNABLE_(wchar_t, GPUFS_TARGET_WORDS)
GPUFS_SCANNABLE_(long, GPUFS_TARGET_INT64)
GPUFS_SCANNABLE_(unsigned long, GPUFS_TARGET_INT64)
GPUFS_SCANNABLE_(long long, GPUFS_TARGET_INT64)
GPUFS_SCANNABLE_(unsigned long long, GPUFS_TARGET_INT64)
GPUFS_SCANNABLE_(float, GPUFS_TARGET_FLOAT)
GPUFS_SCANNABLE_(double, GPUFS_TARGET_DOUBLE)
#if !GPUFS_ON_DEVICE
GPUFS_SCANNABLE_(long double, GPUFS_TARGET_LONG_DOUBLE_)
#endif
#undef GPUFS_SCANNABLE_
template <class T>
GPUFS_BOTH inline gpufs_scan_target target(T **value) {
    return gpufs_target_(GPUFS_TARGET_POINTER, value);
}

/* The targets in a row. It has one item more than there are targets: an array cannot be empty. */
template <size_t N>
struct TargetRow {
    gpufs_scan_target items[N + 1];
};
template <class... A>
GPUFS_BOTH inline TargetRow<sizeof...(A)> targets(A... values) {
    return TargetRow<sizeof...(A)>{{target(values)...}};
}

#if defined(__clang__) && __clang_major__ >= 16
#define GPUFS_SCAN_ATTRIBUTE_(place, first) __attribute__((format(scanf, place, first)))
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wgcc-compat"
#else
#define GPUFS_SCAN_ATTRIBUTE_(place, first)
#endif

} /* namespace detail */

template <class... A>
GPUFS_SCAN_ATTRIBUTE_(2, 3)
GPUFS_BOTH inline Result<int> fscanf(File *file, const char *format, A... values) {
    return gpufs_fscanf_targets(file, format, gpufs_scan_length_(format), detail::targets(values...).items,
                                sizeof...(A));
}
template <class... A>
GPUFS_SCAN_ATTRIBUTE_(2, 3)
GPUFS_BOTH inline Result<int> scanf(Session session, const char *format, A... values) {
    return gpufs_fscanf_targets(gpufs_input_(session), format, gpufs_scan_length_(format),
                                detail::targets(values...).items, sizeof...(A));
}
template <class... A>
GPUFS_SCAN_ATTRIBUTE_(2, 3)
GPUFS_BOTH inline Result<int> sscanf(const char *text, const char *format, A... values) {
    return gpufs_sscanf_targets(text, format, gpufs_scan_length_(format), detail::targets(values...).items,
                                sizeof...(A));
}

#if defined(__clang__) && __clang_major__ >= 16
#pragma clang diagnostic pop
#endif

} /* namespace gpufs */

#define gpufs_fscanf(file, ...) (GPUFS_SCAN_CHECK_(__VA_ARGS__), ::gpufs::fscanf((file), __VA_ARGS__))
#define gpufs_scanf(session, ...) (GPUFS_SCAN_CHECK_(__VA_ARGS__), ::gpufs::scanf((session), __VA_ARGS__))
#define gpufs_sscanf(text, ...) (GPUFS_SCAN_CHECK_(__VA_ARGS__), ::gpufs::sscanf((text), __VA_ARGS__))

#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L

static __inline__ gpufs_scan_target gpufs_target_bytes_(void *value) { return gpufs_target_(GPUFS_TARGET_BYTES, value); }
static __inline__ gpufs_scan_target gpufs_target_int16_(void *value) { return gpufs_target_(GPUFS_TARGET_INT16, value); }
static __inline__ gpufs_scan_target gpufs_target_words_(void *value) { return gpufs_target_(GPUFS_TARGET_WORDS, value); }
static __inline__ gpufs_scan_target gpufs_target_int64_(void *value) { return gpufs_target_(GPUFS_TARGET_INT64, value); }
static __inline__ gpufs_scan_target gpufs_target_float_(void *value) { return gpufs_target_(GPUFS_TARGET_FLOAT, value); }
static __inline__ gpufs_scan_target gpufs_target_double_(void *value) { return gpufs_target_(GPUFS_TARGET_DOUBLE, value); }
static __inline__ gpufs_scan_target gpufs_target_long_double_(void *value) {
    return gpufs_target_(GPUFS_TARGET_LONG_DOUBLE_, value);
}
static __inline__ gpufs_scan_target gpufs_target_pointer_(void *value) {
    return gpufs_target_(GPUFS_TARGET_POINTER, value);
}
/* A format: no target's kind. */
static __inline__ gpufs_scan_target gpufs_target_format_(const void *value) { return gpufs_target_(UINT32_MAX, value); }

/* One target, or the format. Anything else goes to a parameter of pointer type, which the compiler checks. */
#define GPUFS_TARGET_(value)                        \
    _Generic((value),                               \
        char *: gpufs_target_bytes_,                \
        const char *: gpufs_target_format_,         \
        signed char *: gpufs_target_bytes_,         \
        unsigned char *: gpufs_target_bytes_,       \
        short *: gpufs_target_int16_,               \
        unsigned short *: gpufs_target_int16_,      \
        int *: gpufs_target_words_,                 \
        unsigned *: gpufs_target_words_,            \
        long *: gpufs_target_int64_,                \
        unsigned long *: gpufs_target_int64_,       \
        long long *: gpufs_target_int64_,           \
        unsigned long long *: gpufs_target_int64_,  \
        float *: gpufs_target_float_,               \
        double *: gpufs_target_double_,             \
        long double *: gpufs_target_long_double_,   \
        default: gpufs_target_pointer_)(value)

/* The format and up to 16 targets, each through GPUFS_TARGET_. */
#define GPUFS_TARGETS_1_(a) GPUFS_TARGET_(a)
#define GPUFS_TARGETS_2_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_1_(__VA_ARGS__)
#define GPUFS_TARGETS_3_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_2_(__VA_ARGS__)
#define GPUFS_TARGETS_4_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_3_(__VA_ARGS__)
#define GPUFS_TARGETS_5_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_4_(__VA_ARGS__)
#define GPUFS_TARGETS_6_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_5_(__VA_ARGS__)
#define GPUFS_TARGETS_7_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_6_(__VA_ARGS__)
#define GPUFS_TARGETS_8_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_7_(__VA_ARGS__)
#define GPUFS_TARGETS_9_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_8_(__VA_ARGS__)
#define GPUFS_TARGETS_10_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_9_(__VA_ARGS__)
#define GPUFS_TARGETS_11_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_10_(__VA_ARGS__)
#define GPUFS_TARGETS_12_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_11_(__VA_ARGS__)
#define GPUFS_TARGETS_13_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_12_(__VA_ARGS__)
#define GPUFS_TARGETS_14_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_13_(__VA_ARGS__)
#define GPUFS_TARGETS_15_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_14_(__VA_ARGS__)
#define GPUFS_TARGETS_16_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_15_(__VA_ARGS__)
#define GPUFS_TARGETS_17_(a, ...) GPUFS_TARGET_(a), GPUFS_TARGETS_16_(__VA_ARGS__)
#define GPUFS_TARGETS_(...) \
    GPUFS_PICK_(__VA_ARGS__, GPUFS_TARGETS_17_, GPUFS_TARGETS_16_, GPUFS_TARGETS_15_, GPUFS_TARGETS_14_, \
                GPUFS_TARGETS_13_, GPUFS_TARGETS_12_, GPUFS_TARGETS_11_, GPUFS_TARGETS_10_, GPUFS_TARGETS_9_, \
                GPUFS_TARGETS_8_, GPUFS_TARGETS_7_, GPUFS_TARGETS_6_, GPUFS_TARGETS_5_, GPUFS_TARGETS_4_, \
                GPUFS_TARGETS_3_, GPUFS_TARGETS_2_, GPUFS_TARGETS_1_, 0) \
    (__VA_ARGS__)

/* The format and its targets: an array whose first item is the format, and its length. */
#define GPUFS_TARGET_ROW_(...)                                                                                  \
    (const gpufs_scan_target[]){GPUFS_TARGETS_(__VA_ARGS__)},                                                   \
        sizeof((const gpufs_scan_target[]){GPUFS_TARGETS_(__VA_ARGS__)}) / sizeof(gpufs_scan_target)

static __inline__ int gpufs_fscanf_row_(gpufs_file *file, const gpufs_scan_target *row, size_t count) {
    const char *format = (const char *)(uintptr_t)row->address;
    return gpufs_fscanf_targets(file, format, gpufs_scan_length_(format), row + 1, count - 1);
}
static __inline__ int gpufs_sscanf_row_(const char *text, const gpufs_scan_target *row, size_t count) {
    const char *format = (const char *)(uintptr_t)row->address;
    return gpufs_sscanf_targets(text, format, gpufs_scan_length_(format), row + 1, count - 1);
}

#define gpufs_fscanf(file, ...) \
    (GPUFS_SCAN_CHECK_(__VA_ARGS__), gpufs_fscanf_row_((file), GPUFS_TARGET_ROW_(__VA_ARGS__)))
#define gpufs_scanf(session, ...) \
    (GPUFS_SCAN_CHECK_(__VA_ARGS__), gpufs_fscanf_row_(gpufs_input_(session), GPUFS_TARGET_ROW_(__VA_ARGS__)))
#define gpufs_sscanf(text, ...) \
    (GPUFS_SCAN_CHECK_(__VA_ARGS__), gpufs_sscanf_row_((text), GPUFS_TARGET_ROW_(__VA_ARGS__)))

#endif

#endif

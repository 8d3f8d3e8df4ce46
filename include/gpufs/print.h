/* The printf family: C11 7.21.6, to streams, strings and descriptors. <gpufs/stdio.h> includes this file.
 *
 * The macros and templates pack their arguments with their types (<gpufs/format.h>), which works for every compiler:
 * nvcc has no variadic functions in device code.
 */
#ifndef GPUFS_PRINT_H
#define GPUFS_PRINT_H

#include <gpufs/format.h>

/* The standard output of a session, for printf. */
GPUFS_INLINE gpufs_file *gpufs_output_(gpufs_session *session) {
    return (gpufs_file *)(uintptr_t)gpufs_raw_standard_stream(session, 1);
}

/* As fprintf, with packed arguments: for code that makes formats or arguments itself. `format` has `format_bytes`
 * bytes and needs no NUL. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fprintf_arguments(gpufs_file *file, const char *format, size_t format_bytes,
                                                       const gpufs_argument *arguments, size_t count) {
    return gpufs_int_(gpufs_raw_fprintf(file, format, format_bytes, arguments, count));
}
/* As snprintf, with packed arguments. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_snprintf_arguments(char *into, size_t bytes, const char *format,
                                                        size_t format_bytes, const gpufs_argument *arguments,
                                                        size_t count) {
    return gpufs_int_(gpufs_raw_snprintf(into, bytes, format, format_bytes, arguments, count));
}

/* gpufs_fprintf(file, format, ...)           to a stream (fprintf(3)): bytes printed gpufs_printf(session, format,
 * ...)         to the standard output (printf(3)) gpufs_snprintf(into, bytes, format, ...)   to memory, cut to
 * `bytes` with the NUL (snprintf(3)): bytes of the whole
 *                                            output; with `bytes` 0 nothing is written
 *
 * Negative on error. EINVAL (a format or argument that does not fit, a null format) and EOVERFLOW (more than an int
 * can count): nothing is printed. Other errors are fwrite's. <gpufs/format.h> says when a format is checked. */

#ifdef __cplusplus

namespace gpufs {

#if defined(__cpp_consteval)

template <class... A>
GPUFS_BOTH inline Result<int> fprintf(File *file, detail::FormatFor<A...> format, A... arguments) {
    return gpufs_fprintf_arguments(file, format.text, format.length, detail::row(arguments...).items, sizeof...(A));
}
template <class... A>
GPUFS_BOTH inline Result<int> printf(Session session, detail::FormatFor<A...> format, A... arguments) {
    return gpufs_fprintf_arguments(gpufs_output_(session), format.text, format.length, detail::row(arguments...).items,
                                   sizeof...(A));
}
template <class... A>
GPUFS_BOTH inline Result<int> snprintf(char *into, size_t bytes, detail::FormatFor<A...> format, A... arguments) {
    return gpufs_snprintf_arguments(into, bytes, format.text, format.length, detail::row(arguments...).items,
                                    sizeof...(A));
}

#else

#if defined(__clang__)
#pragma clang diagnostic push
/* clang checks the arguments of a template's format, too; GCC does not. */
#pragma clang diagnostic ignored "-Wgcc-compat"
#endif
template <class... A>
GPUFS_FORMAT_ATTRIBUTE_(2, 3)
GPUFS_BOTH inline Result<int> fprintf(File *file, const char *format, A... arguments) {
    return gpufs_fprintf_arguments(file, format, detail::length_of(format), detail::row(arguments...).items,
                                   sizeof...(A));
}
template <class... A>
GPUFS_FORMAT_ATTRIBUTE_(2, 3)
GPUFS_BOTH inline Result<int> printf(Session session, const char *format, A... arguments) {
    return gpufs_fprintf_arguments(gpufs_output_(session), format, detail::length_of(format),
                                   detail::row(arguments...).items, sizeof...(A));
}
template <class... A>
GPUFS_FORMAT_ATTRIBUTE_(3, 4)
GPUFS_BOTH inline Result<int> snprintf(char *into, size_t bytes, const char *format, A... arguments) {
    return gpufs_snprintf_arguments(into, bytes, format, detail::length_of(format), detail::row(arguments...).items,
                                    sizeof...(A));
}

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

#endif

} /* namespace gpufs */

#define gpufs_fprintf(file, ...) (GPUFS_CHECK_(__VA_ARGS__), ::gpufs::fprintf((file), __VA_ARGS__))
#define gpufs_printf(session, ...) (GPUFS_CHECK_(__VA_ARGS__), ::gpufs::printf((session), __VA_ARGS__))
#define gpufs_snprintf(into, bytes, ...) (GPUFS_CHECK_(__VA_ARGS__), ::gpufs::snprintf((into), (bytes), __VA_ARGS__))

#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L

/* `row` holds the format, then the arguments. */
static inline int gpufs_fprintf_row_(gpufs_file *file, const gpufs_argument *row, size_t count) {
    const char *format = gpufs_format_(row);
    return gpufs_fprintf_arguments(file, format, gpufs_length_(format), row + 1, count - 1);
}
static inline int gpufs_snprintf_row_(char *into, size_t bytes, const gpufs_argument *row, size_t count) {
    const char *format = gpufs_format_(row);
    return gpufs_snprintf_arguments(into, bytes, format, gpufs_length_(format), row + 1, count - 1);
}

#define gpufs_fprintf(file, ...) (GPUFS_CHECK_(__VA_ARGS__), gpufs_fprintf_row_((file), GPUFS_PACKED_(__VA_ARGS__)))
#define gpufs_printf(session, ...) \
    (GPUFS_CHECK_(__VA_ARGS__), gpufs_fprintf_row_(gpufs_output_(session), GPUFS_PACKED_(__VA_ARGS__)))
#define gpufs_snprintf(into, bytes, ...) \
    (GPUFS_CHECK_(__VA_ARGS__), gpufs_snprintf_row_((into), (bytes), GPUFS_PACKED_(__VA_ARGS__)))

#endif

#endif

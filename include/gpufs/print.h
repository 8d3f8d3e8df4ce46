/* The printf family: C11 7.21.6, POSIX's dprintf, glibc's asprintf, to streams, memory and descriptors; strerror, perror.
 * <gpufs/stdio.h> includes this file.
 *
 * Three forms of each call:
 *
 *   gpufs_fprintf(out, "%d\n", 1)      in C11 and C++ a macro, which packs the arguments with their types and has the
 *   fprintf(out, "%d\n", 1)            compiler check a literal format (<gpufs/format.h>). In C++ also a template
 *   (gpufs_fprintf)(out, "%d\n", 1)    a function with `...`, whose pointer can be taken; in C99 the only one
 *   gpufs_vfprintf(out, "%d\n", list)  the same with a va_list
 *
 * Functions with `...` and va_list exist on the host and in device code that clang compiles for NVPTX or AMDGCN as C or
 * C++. CUDA and HIP have none in device code: there they are functions of the host. <gpufs/print_list.h> has them.
 */
#ifndef GPUFS_PRINT_H
#define GPUFS_PRINT_H

#include <gpufs/types.h>

#if !GPUFS_RTC_
#include <gpufs/print_list.h>
#endif
#include <gpufs/print_packed.h>

/* gpufs_fprintf(file, format, ...)           to a stream (fprintf(3)): bytes printed
 * gpufs_printf(session, format, ...)         to the standard output (printf(3))
 * gpufs_snprintf(into, bytes, format, ...)   to memory, cut to `bytes` with the NUL (snprintf(3)): bytes of the whole
 *                                            output; with `bytes` 0 nothing is written
 * gpufs_sprintf(into, format, ...)           to memory that is long enough (sprintf(3))
 * gpufs_asprintf(&into, format, ...)         to memory of GPUFS_MALLOC, which GPUFS_FREE frees (asprintf(3)): bytes
 *                                            without the NUL. On error `into` is null
 * gpufs_dprintf(session, descriptor, format, ...)   to a descriptor (dprintf(3)): one write(2), unless that is short.
 *                                            Above 255 bytes it takes memory of GPUFS_MALLOC for the while
 *
 * Negative on error. EINVAL (a format or argument that does not fit, a null format), EOVERFLOW (more than an int can
 * count), EILSEQ (a wide character that is none), EFAULT (null memory; a null %n), ENOMEM (asprintf, dprintf): nothing
 * is printed. Other errors are fwrite's and write's. %n stores when the format and its arguments have been found right:
 * its integer has changed even where a later write fails. <gpufs/format.h> says when a format is checked. */

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

template <class... A>
GPUFS_BOTH inline Result<int> sprintf(char *into, detail::FormatFor<A...> format, A... arguments) {
    return gpufs_sprintf_arguments(into, format.text, format.length, detail::row(arguments...).items, sizeof...(A));
}
template <class... A>
GPUFS_BOTH inline Result<int> asprintf(char **into, detail::FormatFor<A...> format, A... arguments) {
    return gpufs_asprintf_arguments(into, format.text, format.length, detail::row(arguments...).items, sizeof...(A));
}
template <class... A>
GPUFS_BOTH inline Result<int> dprintf(Session session, int descriptor, detail::FormatFor<A...> format,
                                      A... arguments) {
    return gpufs_dprintf_arguments(session, descriptor, format.text, format.length, detail::row(arguments...).items,
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

template <class... A>
GPUFS_FORMAT_ATTRIBUTE_(2, 3)
GPUFS_BOTH inline Result<int> sprintf(char *into, const char *format, A... arguments) {
    return gpufs_sprintf_arguments(into, format, detail::length_of(format), detail::row(arguments...).items,
                                   sizeof...(A));
}
template <class... A>
GPUFS_FORMAT_ATTRIBUTE_(2, 3)
GPUFS_BOTH inline Result<int> asprintf(char **into, const char *format, A... arguments) {
    return gpufs_asprintf_arguments(into, format, detail::length_of(format), detail::row(arguments...).items,
                                    sizeof...(A));
}
template <class... A>
GPUFS_FORMAT_ATTRIBUTE_(3, 4)
GPUFS_BOTH inline Result<int> dprintf(Session session, int descriptor, const char *format, A... arguments) {
    return gpufs_dprintf_arguments(session, descriptor, format, detail::length_of(format),
                                   detail::row(arguments...).items, sizeof...(A));
}

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

#endif

GPUFS_BOTH inline void perror(Session session, const char *text) { gpufs_perror(session, text); }

} /* namespace gpufs */

#define gpufs_fprintf(file, ...) (GPUFS_CHECK_(__VA_ARGS__), ::gpufs::fprintf((file), __VA_ARGS__))
#define gpufs_printf(session, ...) (GPUFS_CHECK_(__VA_ARGS__), ::gpufs::printf((session), __VA_ARGS__))
#define gpufs_snprintf(into, bytes, ...) (GPUFS_CHECK_(__VA_ARGS__), ::gpufs::snprintf((into), (bytes), __VA_ARGS__))
#define gpufs_sprintf(into, ...) (GPUFS_CHECK_(__VA_ARGS__), ::gpufs::sprintf((into), __VA_ARGS__))
#define gpufs_asprintf(into, ...) (GPUFS_CHECK_(__VA_ARGS__), ::gpufs::asprintf((into), __VA_ARGS__))
#define gpufs_dprintf(session, descriptor, ...) \
    (GPUFS_CHECK_(__VA_ARGS__), ::gpufs::dprintf((session), (descriptor), __VA_ARGS__))

#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L

/* `row` holds the format, then the arguments. */
static __inline__ int gpufs_fprintf_row_(gpufs_file *file, const gpufs_argument *row, size_t count) {
    const char *format = gpufs_format_(row);
    return gpufs_fprintf_arguments(file, format, gpufs_length_(format), row + 1, count - 1);
}
static __inline__ int gpufs_snprintf_row_(char *into, size_t bytes, const gpufs_argument *row, size_t count) {
    const char *format = gpufs_format_(row);
    return gpufs_snprintf_arguments(into, bytes, format, gpufs_length_(format), row + 1, count - 1);
}
static __inline__ int gpufs_sprintf_row_(char *into, const gpufs_argument *row, size_t count) {
    const char *format = gpufs_format_(row);
    return gpufs_sprintf_arguments(into, format, gpufs_length_(format), row + 1, count - 1);
}
static __inline__ int gpufs_asprintf_row_(char **into, const gpufs_argument *row, size_t count) {
    const char *format = gpufs_format_(row);
    return gpufs_asprintf_arguments(into, format, gpufs_length_(format), row + 1, count - 1);
}
static __inline__ int gpufs_dprintf_row_(gpufs_session *session, int descriptor, const gpufs_argument *row,
                                     size_t count) {
    const char *format = gpufs_format_(row);
    return gpufs_dprintf_arguments(session, descriptor, format, gpufs_length_(format), row + 1, count - 1);
}

#define gpufs_fprintf(file, ...) (GPUFS_CHECK_(__VA_ARGS__), gpufs_fprintf_row_((file), GPUFS_PACKED_(__VA_ARGS__)))
#define gpufs_printf(session, ...) \
    (GPUFS_CHECK_(__VA_ARGS__), gpufs_fprintf_row_(gpufs_output_(session), GPUFS_PACKED_(__VA_ARGS__)))
#define gpufs_snprintf(into, bytes, ...) \
    (GPUFS_CHECK_(__VA_ARGS__), gpufs_snprintf_row_((into), (bytes), GPUFS_PACKED_(__VA_ARGS__)))
#define gpufs_sprintf(into, ...) (GPUFS_CHECK_(__VA_ARGS__), gpufs_sprintf_row_((into), GPUFS_PACKED_(__VA_ARGS__)))
#define gpufs_asprintf(into, ...) (GPUFS_CHECK_(__VA_ARGS__), gpufs_asprintf_row_((into), GPUFS_PACKED_(__VA_ARGS__)))
#define gpufs_dprintf(session, descriptor, ...) \
    (GPUFS_CHECK_(__VA_ARGS__), gpufs_dprintf_row_((session), (descriptor), GPUFS_PACKED_(__VA_ARGS__)))

#endif

#endif

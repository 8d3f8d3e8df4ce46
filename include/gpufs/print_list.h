/* The printf family with va_list and `...`: functions whose pointers can be taken. <gpufs/print.h> includes this file, and
 * says what each call does.
 *
 * A format says the types of its arguments (gpufs_raw_argument_types); they are taken from the list in order, gaps between
 * numbers as int (as glibc does), and packed. EINVAL for more than GPUFS_VARIADIC_ARGUMENTS, and for a number with two
 * types (%1$d %1$ld). A va_list is left as a function of C's leaves it: indeterminate.
 */
#ifndef GPUFS_PRINT_LIST_H
#define GPUFS_PRINT_LIST_H

#include <stdarg.h>

#include <gpufs/print_packed.h>

/* Arguments of one format. */
#ifndef GPUFS_VARIADIC_ARGUMENTS
#define GPUFS_VARIADIC_ARGUMENTS 64
#endif

/* The types of arguments, as gpufs_raw_argument_types numbers them. */
#define GPUFS_PASSED_GAP 0
#define GPUFS_PASSED_INT 1
#define GPUFS_PASSED_LONG 2
#define GPUFS_PASSED_DOUBLE 3
#define GPUFS_PASSED_LONG_DOUBLE 4
#define GPUFS_PASSED_POINTER 5
#define GPUFS_PASSED_TEXT 6
#define GPUFS_PASSED_WIDE 7
#define GPUFS_PASSED_PLACE_8 8
#define GPUFS_PASSED_PLACE_16 9
#define GPUFS_PASSED_PLACE_32 10
#define GPUFS_PASSED_PLACE_64 11
#define GPUFS_PASSED_UNSIGNED_INT 12
#define GPUFS_PASSED_UNSIGNED_LONG 13

/* CUDA and HIP have no variadic functions in device code: these are the host's there, which is what no attribute says. */
#ifdef __cplusplus
#define GPUFS_VARIADIC_ inline
#else
#define GPUFS_VARIADIC_ static __inline__
#endif
/* The compiler checks a literal format. */
#define GPUFS_PRINTS_(place, first) __attribute__((format(printf, place, first)))

/* The bytes before the NUL, or SIZE_MAX if GPUFS_FORMAT_BYTES have none. */
GPUFS_VARIADIC_ size_t gpufs_format_bytes_(const char *format) {
    size_t bytes = 0;
    while (format != NULL && format[bytes] != '\0') {
        if (++bytes == GPUFS_FORMAT_BYTES) {
            return SIZE_MAX;
        }
    }
    return bytes;
}

/* Packs the arguments of a list: their number. 0 for a format that is wrong: the call that prints says so. */
GPUFS_VARIADIC_ size_t gpufs_take_list_(gpufs_argument *arguments, const char *format, size_t format_bytes,
                                        va_list list) {
    unsigned char types[GPUFS_VARIADIC_ARGUMENTS];
    int64_t index, count = format == NULL || format_bytes == SIZE_MAX
                        ? 0
                        : gpufs_raw_argument_types(format, format_bytes, types, sizeof types);
    for (index = 0; index < count; ++index) {
        gpufs_argument argument = {GPUFS_ARGUMENT_SIGNED, 0, 0};
        double value;
        switch (types[index]) {
        case GPUFS_PASSED_LONG:
            argument.bits = (uint64_t)va_arg(list, long long);
            break;
        case GPUFS_PASSED_UNSIGNED_INT:
            argument.kind = GPUFS_ARGUMENT_UNSIGNED;
            argument.bits = va_arg(list, unsigned);
            break;
        case GPUFS_PASSED_UNSIGNED_LONG:
            argument.kind = GPUFS_ARGUMENT_UNSIGNED;
            argument.bits = va_arg(list, unsigned long long);
            break;
        case GPUFS_PASSED_DOUBLE:
        case GPUFS_PASSED_LONG_DOUBLE:
            value = types[index] == GPUFS_PASSED_DOUBLE ? va_arg(list, double) : (double)va_arg(list, long double);
            argument.kind = GPUFS_ARGUMENT_DOUBLE;
            __builtin_memcpy(&argument.bits, &value, sizeof value);
            break;
        case GPUFS_PASSED_POINTER:
        case GPUFS_PASSED_TEXT:
        case GPUFS_PASSED_WIDE:
        case GPUFS_PASSED_PLACE_8:
        case GPUFS_PASSED_PLACE_16:
        case GPUFS_PASSED_PLACE_32:
        case GPUFS_PASSED_PLACE_64:
            argument.bits = (uint64_t)(uintptr_t)va_arg(list, void *);
            if (types[index] == GPUFS_PASSED_POINTER) {
                argument.kind = GPUFS_ARGUMENT_POINTER;
            } else if (types[index] == GPUFS_PASSED_TEXT) {
                argument.kind = GPUFS_ARGUMENT_C_STRING;
            } else if (types[index] == GPUFS_PASSED_WIDE) {
                argument.kind = GPUFS_ARGUMENT_WIDE;
                argument.length = UINT32_MAX;
            } else {
                argument.kind = GPUFS_ARGUMENT_PLACE;
                argument.length = 1u << (types[index] - GPUFS_PASSED_PLACE_8);
            }
            break;
        default:
            argument.bits = (uint64_t)(long long)va_arg(list, int);
            break;
        }
        arguments[index] = argument;
    }
    return count < 0 ? 0 : (size_t)count;
}

/* The packed arguments of a format and the list `list`, as locals of the function. */
#define GPUFS_LIST_(format)                                       \
    gpufs_argument packed[GPUFS_VARIADIC_ARGUMENTS];              \
    const size_t format_bytes = gpufs_format_bytes_(format);      \
    const size_t count = gpufs_take_list_(packed, format, format_bytes, list)

/* With a va_list. */

GPUFS_PRINTS_(2, 0)
GPUFS_VARIADIC_ GPUFS_RESULT(int) gpufs_vfprintf(gpufs_file *file, const char *format, va_list list) {
    GPUFS_LIST_(format);
    return gpufs_fprintf_arguments(file, format, format_bytes, packed, count);
}
GPUFS_PRINTS_(2, 0)
GPUFS_VARIADIC_ GPUFS_RESULT(int) gpufs_vprintf(gpufs_session *session, const char *format, va_list list) {
    return gpufs_vfprintf(gpufs_output_(session), format, list);
}
GPUFS_PRINTS_(3, 0)
GPUFS_VARIADIC_ GPUFS_RESULT(int) gpufs_vsnprintf(char *into, size_t bytes, const char *format, va_list list) {
    GPUFS_LIST_(format);
    return gpufs_snprintf_arguments(into, bytes, format, format_bytes, packed, count);
}
GPUFS_PRINTS_(2, 0)
GPUFS_VARIADIC_ GPUFS_RESULT(int) gpufs_vsprintf(char *into, const char *format, va_list list) {
    GPUFS_LIST_(format);
    return gpufs_sprintf_arguments(into, format, format_bytes, packed, count);
}
GPUFS_PRINTS_(2, 0)
GPUFS_VARIADIC_ GPUFS_RESULT(int) gpufs_vasprintf(char **into, const char *format, va_list list) {
    GPUFS_LIST_(format);
    return gpufs_asprintf_arguments(into, format, format_bytes, packed, count);
}
GPUFS_PRINTS_(3, 0)
GPUFS_VARIADIC_ GPUFS_RESULT(int)
    gpufs_vdprintf(gpufs_session *session, int descriptor, const char *format, va_list list) {
    GPUFS_LIST_(format);
    return gpufs_dprintf_arguments(session, descriptor, format, format_bytes, packed, count);
}

/* With `...`. <gpufs/print.h> defines macros of these names: in parentheses, or without a call, a name is the function. */

#define GPUFS_LISTED_(name, parameters, place, call)                                                  \
    GPUFS_PRINTS_(place, place + 1) GPUFS_VARIADIC_ GPUFS_RESULT(int) name parameters {               \
        va_list list;                                                                                 \
        va_start(list, format);                                                                       \
        GPUFS_RESULT(int) result = call;                                                              \
        va_end(list);                                                                                 \
        return result;                                                                                \
    }
GPUFS_LISTED_(gpufs_fprintf, (gpufs_file *file, const char *format, ...), 2, gpufs_vfprintf(file, format, list))
GPUFS_LISTED_(gpufs_printf, (gpufs_session *session, const char *format, ...), 2, gpufs_vprintf(session, format, list))
GPUFS_LISTED_(gpufs_snprintf, (char *into, size_t bytes, const char *format, ...), 3,
              gpufs_vsnprintf(into, bytes, format, list))
GPUFS_LISTED_(gpufs_sprintf, (char *into, const char *format, ...), 2, gpufs_vsprintf(into, format, list))
GPUFS_LISTED_(gpufs_asprintf, (char **into, const char *format, ...), 2, gpufs_vasprintf(into, format, list))
GPUFS_LISTED_(gpufs_dprintf, (gpufs_session *session, int descriptor, const char *format, ...), 3,
              gpufs_vdprintf(session, descriptor, format, list))
#undef GPUFS_LISTED_
#undef GPUFS_LIST_

#ifdef __cplusplus

namespace gpufs {

inline Result<int> vfprintf(File *file, const char *format, va_list list) {
    return gpufs_vfprintf(file, format, list);
}
inline Result<int> vprintf(Session session, const char *format, va_list list) {
    return gpufs_vprintf(session, format, list);
}
inline Result<int> vsnprintf(char *into, size_t bytes, const char *format, va_list list) {
    return gpufs_vsnprintf(into, bytes, format, list);
}
inline Result<int> vsprintf(char *into, const char *format, va_list list) {
    return gpufs_vsprintf(into, format, list);
}
inline Result<int> vasprintf(char **into, const char *format, va_list list) {
    return gpufs_vasprintf(into, format, list);
}
inline Result<int> vdprintf(Session session, int descriptor, const char *format, va_list list) {
    return gpufs_vdprintf(session, descriptor, format, list);
}

} /* namespace gpufs */

#endif

#endif

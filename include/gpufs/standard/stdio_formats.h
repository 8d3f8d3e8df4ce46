/* The printf and scanf families of <stdio.h>, for sources that know nothing of gpufs. */
#pragma GCC system_header

#if !defined(GPUFS_DROP_IN_SPLIT_)

#include <errno.h>

/* Arguments of one format. */
#define GPUFS_STANDARD_ARGUMENTS_MAX_ 64

/* A list of arguments as a type that a pointer can lead to, whatever va_list is. */
typedef struct {
    va_list list;
} gpufs_standard_list_;

/* One argument, converted as the length modifier and the conversion say. 0 for what no argument fits. */
GPUFS_INLINE int gpufs_standard_argument_(gpufs_argument *into, gpufs_standard_list_ *from, int longs, int wider,
                                          char conversion) {
    into->length = 0;
    switch (conversion) {
    case 'c':
        longs = 0; /* fallthrough */
    case 'd':
    case 'i':
        into->kind = GPUFS_ARGUMENT_SIGNED;
        into->bits = (uint64_t)(longs == 0 ? (long long)va_arg(from->list, int) : va_arg(from->list, long long));
        return 1;
    case 'u':
    case 'o':
    case 'x':
    case 'X':
    case 'b':
    case 'B':
        into->kind = GPUFS_ARGUMENT_UNSIGNED;
        into->bits = longs == 0 ? va_arg(from->list, unsigned) : va_arg(from->list, unsigned long long);
        return 1;
    case 's':
        into->kind = GPUFS_ARGUMENT_C_STRING;
        into->bits = (uint64_t)(uintptr_t)va_arg(from->list, const void *);
        return 1;
    case 'p':
        into->kind = GPUFS_ARGUMENT_POINTER;
        into->bits = (uint64_t)(uintptr_t)va_arg(from->list, const void *);
        return 1;
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A': {
        double value = wider ? (double)va_arg(from->list, long double) : va_arg(from->list, double);
        into->kind = GPUFS_ARGUMENT_DOUBLE;
        __builtin_memcpy(&into->bits, &value, sizeof value);
        return 1;
    }
    default:
        return 0;
    }
}

/* Takes the arguments that a format names. Their number; the call itself refuses a format that is wrong. */
GPUFS_INLINE size_t gpufs_standard_arguments_(gpufs_argument *into, const char *format, gpufs_standard_list_ *from) {
    size_t count = 0;
    if (format == 0) {
        return 0;
    }
    for (; *format != '\0'; ++format) {
        int longs = 0, wider = 0;
        if (*format != '%') {
            continue;
        }
        /* Flags, width, precision. */
        for (++format; *format == '*' || *format == '.' || *format == '-' || *format == '+' || *format == ' ' ||
                       *format == '#' || *format == '\'' || (*format >= '0' && *format <= '9');
             ++format) {
            if (*format == '*' && count < GPUFS_STANDARD_ARGUMENTS_MAX_) {
                count += (size_t)gpufs_standard_argument_(&into[count], from, 0, 0, 'd');
            }
        }
        for (; *format == 'h' || *format == 'l' || *format == 'j' || *format == 'z' || *format == 't' || *format == 'L';
             ++format) {
            longs |= *format != 'h' && *format != 'L';
            wider |= *format == 'L';
        }
        if (*format == '\0') {
            break;
        }
        if (*format != '%' && count < GPUFS_STANDARD_ARGUMENTS_MAX_) {
            count += (size_t)gpufs_standard_argument_(&into[count], from, longs, wider, *format);
        }
    }
    return count;
}

GPUFS_INLINE size_t gpufs_standard_length_(const char *format) { return format == 0 ? 0 : __builtin_strlen(format); }

GPUFS_STANDARD_PLAIN_(int, vfprintf, (FILE *file, const char *format, va_list list),
                      gpufs_argument arguments[GPUFS_STANDARD_ARGUMENTS_MAX_]; gpufs_standard_list_ from; size_t count;
                      va_copy(from.list, list); count = gpufs_standard_arguments_(arguments, format, &from);
                      va_end(from.list);
                      return gpufs_value_(gpufs_fprintf_arguments(GPUFS_HANDLE_(file), format,
                                                                  gpufs_standard_length_(format), arguments, count));)
GPUFS_STANDARD_PLAIN_(int, vsnprintf, (char *into, size_t bytes, const char *format, va_list list),
                      gpufs_argument arguments[GPUFS_STANDARD_ARGUMENTS_MAX_]; gpufs_standard_list_ from; size_t count;
                      va_copy(from.list, list); count = gpufs_standard_arguments_(arguments, format, &from);
                      va_end(from.list);
                      return gpufs_value_(gpufs_snprintf_arguments(into, bytes, format, gpufs_standard_length_(format),
                                                                   arguments, count));)
GPUFS_STANDARD_PLAIN_(int, vprintf, (const char *format, va_list list), return vfprintf(stdout, format, list);)
GPUFS_STANDARD_PLAIN_(int, vsprintf, (char *into, const char *format, va_list list),
                      return vsnprintf(into, 0x7fffffff, format, list);)

/* A function with `...`, from the one with a list. */
#define GPUFS_STANDARD_VARIADIC_(name, parameters, call)                   \
    GPUFS_STANDARD_PLAIN_(int, name, parameters, va_list list; int result; \
                          va_start(list, format); result = call; va_end(list); return result;)
GPUFS_STANDARD_VARIADIC_(printf, (const char *format, ...), vfprintf(stdout, format, list))
GPUFS_STANDARD_VARIADIC_(fprintf, (FILE *file, const char *format, ...), vfprintf(file, format, list))
GPUFS_STANDARD_VARIADIC_(sprintf, (char *into, const char *format, ...), vsprintf(into, format, list))
GPUFS_STANDARD_VARIADIC_(snprintf, (char *into, size_t bytes, const char *format, ...),
                         vsnprintf(into, bytes, format, list))

/* The text of an error number is that of the C library, on a GPU of the one that the program links. */
GPUFS_STANDARD_PLAIN_(void, perror, (const char *text), extern char *strerror(int); int number = errno;
                      fprintf(stderr, "%s%s%s\n", text == 0 ? "" : text, text == 0 || *text == 0 ? "" : ": ",
                              strerror(number));)

/* The scanf family. */
GPUFS_STANDARD_PLAIN_(int, vfscanf, (FILE *file, const char *format, va_list list),
                      return gpufs_value_(gpufs_vfscanf(GPUFS_HANDLE_(file), format, list));)
GPUFS_STANDARD_PLAIN_(int, vscanf, (const char *format, va_list list),
                      return gpufs_value_(gpufs_vscanf(gpufs_used_(), format, list));)
GPUFS_STANDARD_PLAIN_(int, vsscanf, (const char *text, const char *format, va_list list),
                      return gpufs_value_(gpufs_vsscanf(text, format, list));)
GPUFS_STANDARD_VARIADIC_(scanf, (const char *format, ...), vscanf(format, list))
GPUFS_STANDARD_VARIADIC_(fscanf, (FILE *file, const char *format, ...), vfscanf(file, format, list))
GPUFS_STANDARD_VARIADIC_(sscanf, (const char *text, const char *format, ...), vsscanf(text, format, list))

#endif

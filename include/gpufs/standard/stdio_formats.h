/* The printf and scanf families of <stdio.h>, for sources that know nothing of gpufs. */
#pragma GCC system_header

#if !defined(GPUFS_DROP_IN_SPLIT_)

/* A format as long as it is: C has no limit, as the calls of <gpufs/print.h> and <gpufs/scan.h> do. */
GPUFS_INLINE size_t gpufs_standard_length_(const char *format) { return format == 0 ? 0 : __builtin_strlen(format); }

/* The packed arguments of `format` and `list`, as locals of the function. */
#define GPUFS_STANDARD_LIST_                                           \
    gpufs_argument packed[GPUFS_VARIADIC_ARGUMENTS];                   \
    const size_t length = gpufs_standard_length_(format);              \
    const size_t count = gpufs_take_list_(packed, format, length, list)

GPUFS_STANDARD_PLAIN_(int, vfprintf, (FILE *file, const char *format, va_list list), GPUFS_STANDARD_LIST_;
                      return gpufs_value_(gpufs_fprintf_arguments(GPUFS_HANDLE_(file), format, length, packed, count));)
GPUFS_STANDARD_PLAIN_(int, vprintf, (const char *format, va_list list), return vfprintf(stdout, format, list);)
GPUFS_STANDARD_PLAIN_(int, vsnprintf, (char *into, size_t bytes, const char *format, va_list list),
                      GPUFS_STANDARD_LIST_;
                      return gpufs_value_(gpufs_snprintf_arguments(into, bytes, format, length, packed, count));)
GPUFS_STANDARD_PLAIN_(int, vsprintf, (char *into, const char *format, va_list list), GPUFS_STANDARD_LIST_;
                      return gpufs_value_(gpufs_sprintf_arguments(into, format, length, packed, count));)

/* A function with `...`, from the one with a list. */
#define GPUFS_STANDARD_VARIADIC_(name, parameters, call)                   \
    GPUFS_STANDARD_PLAIN_(int, name, parameters, va_list list; int result; \
                          va_start(list, format); result = call; va_end(list); return result;)
GPUFS_STANDARD_VARIADIC_(printf, (const char *format, ...), vfprintf(stdout, format, list))
GPUFS_STANDARD_VARIADIC_(fprintf, (FILE *file, const char *format, ...), vfprintf(file, format, list))
GPUFS_STANDARD_VARIADIC_(sprintf, (char *into, const char *format, ...), vsprintf(into, format, list))
GPUFS_STANDARD_VARIADIC_(snprintf, (char *into, size_t bytes, const char *format, ...),
                         vsnprintf(into, bytes, format, list))

#if defined(GPUFS_WITH_POSIX_)
GPUFS_STANDARD_PLAIN_(int, vdprintf, (int descriptor, const char *format, va_list list),
                      GPUFS_STANDARD_LIST_;
                      return gpufs_value_(gpufs_dprintf_arguments(gpufs_used_(), descriptor, format, length, packed,
                                                                  count));)
GPUFS_STANDARD_VARIADIC_(dprintf, (int descriptor, const char *format, ...), vdprintf(descriptor, format, list))
#endif
#if defined(GPUFS_WITH_GNU_)
GPUFS_STANDARD_PLAIN_(int, vasprintf, (char **into, const char *format, va_list list),
                      GPUFS_STANDARD_LIST_;
                      return gpufs_value_(gpufs_asprintf_arguments(into, format, length, packed, count));)
GPUFS_STANDARD_VARIADIC_(asprintf, (char **into, const char *format, ...), vasprintf(into, format, list))
#endif

GPUFS_STANDARD_PLAIN_(void, perror, (const char *text), gpufs_perror(gpufs_used_(), text);)

/* The scanf family. The targets of `format`, from `list`, as locals of the function. */
#define GPUFS_STANDARD_TARGETS_                                                                     \
    gpufs_scan_target targets[GPUFS_SCAN_TARGETS];                                                  \
    const size_t length = gpufs_standard_length_(format);                                           \
    int64_t index, count = gpufs_raw_scan_targets(format, length);                                  \
    if (count < 0 || count > GPUFS_SCAN_TARGETS) {                                                  \
        return gpufs_value_(gpufs_scanned_(count < 0 ? count : -22)); /* EINVAL */                  \
    }                                                                                               \
    for (index = 0; index < count; ++index) {                                                       \
        targets[index] = gpufs_target_(GPUFS_TARGET_ANY, va_arg(list, void *));                     \
    }

GPUFS_STANDARD_PLAIN_(int, vfscanf, (FILE *file, const char *format, va_list list), GPUFS_STANDARD_TARGETS_
                      return gpufs_value_(gpufs_fscanf_targets(GPUFS_HANDLE_(file), format, length, targets,
                                                               (size_t)count));)
GPUFS_STANDARD_PLAIN_(int, vscanf, (const char *format, va_list list), return vfscanf(stdin, format, list);)
GPUFS_STANDARD_PLAIN_(int, vsscanf, (const char *text, const char *format, va_list list), GPUFS_STANDARD_TARGETS_
                      return gpufs_value_(gpufs_sscanf_targets(text, format, length, targets, (size_t)count));)
GPUFS_STANDARD_VARIADIC_(scanf, (const char *format, ...), vscanf(format, list))
GPUFS_STANDARD_VARIADIC_(fscanf, (FILE *file, const char *format, ...), vfscanf(file, format, list))
GPUFS_STANDARD_VARIADIC_(sscanf, (const char *text, const char *format, ...), vsscanf(text, format, list))

#endif

/* The printf family with packed arguments, for code that makes formats or arguments itself; strerror and perror.
 * <gpufs/print.h> includes this file, and says what each call does.
 */
#ifndef GPUFS_PRINT_PACKED_H
#define GPUFS_PRINT_PACKED_H

#include <gpufs/format.h>
#include <gpufs/memory.h>

/* The standard output of a session, for printf. */
GPUFS_INLINE gpufs_file *gpufs_output_(gpufs_session *session) {
    return (gpufs_file *)(uintptr_t)gpufs_raw_standard_stream(session, 1);
}

/* As fprintf. `format` has `format_bytes` bytes and needs no NUL. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fprintf_arguments(gpufs_file *file, const char *format, size_t format_bytes,
                                                       const gpufs_argument *arguments, size_t count) {
    return gpufs_int_(gpufs_raw_fprintf(file, format, format_bytes, arguments, count));
}
/* As snprintf. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_snprintf_arguments(char *into, size_t bytes, const char *format,
                                                        size_t format_bytes, const gpufs_argument *arguments,
                                                        size_t count) {
    return gpufs_int_(gpufs_raw_snprintf(into, bytes, format, format_bytes, arguments, count));
}
/* As sprintf. They are formatted twice: first to know how much memory is written. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_sprintf_arguments(char *into, const char *format, size_t format_bytes,
                                                       const gpufs_argument *arguments, size_t count) {
    int64_t bytes = gpufs_raw_snprintf((char *)0, 0, format, format_bytes, arguments, count);
    return gpufs_int_(
        bytes < 0 ? bytes : gpufs_raw_snprintf(into, (size_t)bytes + 1, format, format_bytes, arguments, count));
}
/* As asprintf. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_asprintf_arguments(char **into, const char *format, size_t format_bytes,
                                                        const gpufs_argument *arguments, size_t count) {
    int64_t bytes;
    if (into == 0) {
        return gpufs_int_(-14); /* EFAULT */
    }
    *into = (char *)0;
    bytes = gpufs_raw_snprintf((char *)0, 0, format, format_bytes, arguments, count);
    if (bytes >= 0) {
        char *memory = (char *)GPUFS_MALLOC((size_t)bytes + 1);
        if (memory == 0) {
            return gpufs_int_(-12); /* ENOMEM */
        }
        bytes = gpufs_raw_snprintf(memory, (size_t)bytes + 1, format, format_bytes, arguments, count);
        if (bytes < 0) {
            GPUFS_FREE(memory);
        } else {
            *into = memory;
        }
    }
    return gpufs_int_(bytes);
}
/* As dprintf. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_dprintf_arguments(gpufs_session *session, int descriptor, const char *format,
                                                       size_t format_bytes, const gpufs_argument *arguments,
                                                       size_t count) {
    char local[256];
    char *text = local;
    int64_t written = 0;
    int64_t bytes = gpufs_raw_snprintf(local, sizeof local, format, format_bytes, arguments, count);
    if (bytes >= (int64_t)sizeof local) {
        text = (char *)GPUFS_MALLOC((size_t)bytes + 1);
        if (text == 0) {
            return gpufs_int_(-12); /* ENOMEM */
        }
        bytes = gpufs_raw_snprintf(text, (size_t)bytes + 1, format, format_bytes, arguments, count);
    }
    /* Ends: each turn writes a byte at least. */
    while (bytes >= 0 && written < bytes) {
        int64_t some = gpufs_raw_write(session, descriptor, text + written, (size_t)(bytes - written));
        if (some <= 0) {
            bytes = some < 0 ? some : -5; /* EIO */
        } else {
            written += some;
        }
    }
    if (text != local) {
        GPUFS_FREE(text);
    }
    return gpufs_int_(bytes);
}

/* What an error number says (strerror(3)), in glibc's words: a string that is not to be changed. "Unknown error" for a
 * number that has no name; glibc's has the number, too, as %m here has. */
GPUFS_INLINE const char *gpufs_strerror(int number) { return gpufs_raw_strerror(number); }
/* Prints `text`, a colon and what errno says to the standard error (perror(3)); without the text and the colon if it is
 * null or empty. errno stays. In C++ on a GPU errno is set under <gpufs/drop_in.h> alone: print gpufs_strerror of a
 * result's error(). */
GPUFS_INLINE void gpufs_perror(gpufs_session *session, const char *text) {
    const int number = *gpufs_raw_errno();
    gpufs_argument arguments[2] = {{GPUFS_ARGUMENT_C_STRING, 0, 0}, {GPUFS_ARGUMENT_ERROR, 0, 0}};
    gpufs_file *file = (gpufs_file *)(uintptr_t)gpufs_raw_standard_stream(session, 2);
    const int named = text != 0 && text[0] != '\0';
    arguments[0].bits = (uint64_t)(uintptr_t)text;
    arguments[1].bits = (uint64_t)(int64_t)number;
    if (named) {
        (void)gpufs_raw_fprintf(file, "%s: %m\n", 7, arguments, 2);
    } else {
        (void)gpufs_raw_fprintf(file, "%m\n", 3, arguments + 1, 1);
    }
    *gpufs_raw_errno() = number;
}

#endif

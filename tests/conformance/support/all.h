/* What test programs of glibc use of its own test support, for programs that run under gpufs: written after how they
 * call it. Everything is in this file; the others of this folder have the names that programs include. */
#ifndef CONFORMANCE_SUPPORT_H
#define CONFORMANCE_SUPPORT_H

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>
/* A GPU's C library has none of these. */
#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif
#if __has_include(<sys/wait.h>)
#include <sys/wait.h>
#endif

#define EXIT_UNSUPPORTED 77

#define SUPPORT __attribute__((unused)) static

SUPPORT int test_verbose;
#define verbose_printf(...)      \
    do {                         \
        if (test_verbose > 0) {  \
            printf(__VA_ARGS__); \
        }                        \
    } while (0)

static int support_failures;

SUPPORT void support_record_failure(void) { support_failures++; }
SUPPORT int support_report_failure(int status) { return support_failures != 0 && status == 0 ? 1 : status; }
SUPPORT int support_record_failure_is_failed(void) { return support_failures != 0; }

#define SUPPORT_TELL(...)                          \
    do {                                           \
        printf("%s:%d: ", __FILE__, __LINE__);     \
        printf(__VA_ARGS__);                       \
        printf("\n");                              \
    } while (0)
#define FAIL(...)                 \
    ({                            \
        SUPPORT_TELL(__VA_ARGS__); \
        support_record_failure(); \
    })
#define FAIL_RET(...) return ({ SUPPORT_TELL(__VA_ARGS__); 1; })
#define FAIL_EXIT(status, ...) ({ SUPPORT_TELL(__VA_ARGS__); exit(status); })
#define FAIL_EXIT1(...) FAIL_EXIT(1, __VA_ARGS__)
#define FAIL_UNSUPPORTED(...) FAIL_EXIT(EXIT_UNSUPPORTED, __VA_ARGS__)
#define TEST_VERIFY(condition) ({ if (!(condition)) { FAIL("not true: %s", #condition); } })
#define TEST_VERIFY_EXIT(condition) ({ if (!(condition)) { FAIL_EXIT1("not true: %s", #condition); } })
#define TEST_COMPARE(left, right)                                                                         \
    ({                                                                                                    \
        __typeof__((left) + 0) support_left = (left);                                                     \
        __typeof__((right) + 0) support_right = (right);                                                  \
        if (support_left != support_right || (support_left < 0) != (support_right < 0)) {                 \
            FAIL("%s is %lld, %s is %lld", #left, (long long)support_left, #right, (long long)support_right); \
        }                                                                                                 \
    })

SUPPORT void support_compare_blob(const void *left, size_t left_bytes, const void *right, size_t right_bytes,
                                  const char *file, int line) {
    if (left_bytes != right_bytes || (left_bytes != 0 && memcmp(left, right, left_bytes) != 0)) {
        printf("%s:%d: %zu bytes differ from %zu\n", file, line, left_bytes, right_bytes);
        support_record_failure();
    }
}
#define TEST_COMPARE_BLOB(left, left_bytes, right, right_bytes) \
    support_compare_blob((left), (left_bytes), (right), (right_bytes), __FILE__, __LINE__)

SUPPORT void support_compare_string(const char *left, const char *right, const char *file, int line) {
    if (left == NULL || right == NULL ? left != right : strcmp(left, right) != 0) {
        printf("%s:%d: \"%s\" differs from \"%s\"\n", file, line, left == NULL ? "NULL" : left,
               right == NULL ? "NULL" : right);
        support_record_failure();
    }
}
#define TEST_COMPARE_STRING(left, right) support_compare_string((left), (right), __FILE__, __LINE__)
#define TEST_COMPARE_STRING_WIDE(left, right) TEST_VERIFY(wcscmp((left), (right)) == 0)

/* Calls that end the program if they fail: macros, so that a program needs only what it calls. */
#define SUPPORT_X(call, wrong, name)                     \
    ({                                                   \
        __typeof__(call) support_result = (call);        \
        if (support_result wrong) {                      \
            FAIL_EXIT1("%s: %s", name, strerror(errno)); \
        }                                                \
        support_result;                                  \
    })
#define xmalloc(...) SUPPORT_X(malloc(__VA_ARGS__), == NULL, "malloc")
#define xcalloc(...) SUPPORT_X(calloc(__VA_ARGS__), == NULL, "calloc")
#define xrealloc(...) SUPPORT_X(realloc(__VA_ARGS__), == NULL, "realloc")
#define xstrdup(...) SUPPORT_X(strdup(__VA_ARGS__), == NULL, "strdup")
#define xfopen(...) SUPPORT_X(fopen(__VA_ARGS__), == NULL, "fopen")
#define xfreopen(...) SUPPORT_X(freopen(__VA_ARGS__), == NULL, "freopen")
#define xfmemopen(...) SUPPORT_X(fmemopen(__VA_ARGS__), == NULL, "fmemopen")
#define xopen(...) SUPPORT_X(open(__VA_ARGS__), < 0, "open")
#define xdup(...) SUPPORT_X(dup(__VA_ARGS__), < 0, "dup")
#define xdup2(...) SUPPORT_X(dup2(__VA_ARGS__), < 0, "dup2")
#define xfstat64(...) SUPPORT_X(fstat64(__VA_ARGS__), != 0, "fstat64")
#define xunlink(...) SUPPORT_X(unlink(__VA_ARGS__), != 0, "unlink")
#define xmkdir(...) SUPPORT_X(mkdir(__VA_ARGS__), != 0, "mkdir")
#define xpipe(...) SUPPORT_X(pipe(__VA_ARGS__), != 0, "pipe")
#define xlseek(...) SUPPORT_X(lseek(__VA_ARGS__), < 0, "lseek")
#define xftruncate(...) SUPPORT_X(ftruncate(__VA_ARGS__), != 0, "ftruncate")
#define xmkfifo(...) SUPPORT_X(mkfifo(__VA_ARGS__), != 0, "mkfifo")
#define xmmap(...) SUPPORT_X(mmap(__VA_ARGS__, 0), == MAP_FAILED, "mmap")
#define xmunmap(...) SUPPORT_X(munmap(__VA_ARGS__), != 0, "munmap")
#define xfork(...) SUPPORT_X(fork(__VA_ARGS__), < 0, "fork")
#define xsetlocale(...) SUPPORT_X(setlocale(__VA_ARGS__), == NULL, "setlocale")
#define xwaitpid(...) SUPPORT_X(waitpid(__VA_ARGS__), < 0, "waitpid")
#define xsignal(...) SUPPORT_X(signal(__VA_ARGS__), == SIG_ERR, "signal")
#define xsystem(...) SUPPORT_X(system(__VA_ARGS__), < 0, "system")

SUPPORT void xclose(int descriptor) { TEST_VERIFY_EXIT(close(descriptor) == 0); }
SUPPORT void xfclose(FILE *file) {
    int failed = ferror(file) || fflush(file) != 0;
    TEST_VERIFY_EXIT(!failed && fclose(file) == 0);
}
SUPPORT void xfread(void *into, size_t bytes, size_t items, FILE *file) {
    TEST_VERIFY_EXIT(fread(into, bytes, items, file) == items);
}
SUPPORT char *xfgets(char *into, int bytes, FILE *file) {
    char *line = fgets(into, bytes, file);
    TEST_VERIFY_EXIT(!ferror(file));
    return line;
}
SUPPORT void xwrite(int descriptor, const void *from, size_t bytes) {
    TEST_VERIFY_EXIT(write(descriptor, from, bytes) == (ssize_t)bytes);
}
#define xasprintf(...)                                           \
    ({                                                           \
        char *support_text = NULL;                               \
        TEST_VERIFY_EXIT(asprintf(&support_text, __VA_ARGS__) >= 0); \
        support_text;                                            \
    })
SUPPORT char *support_name(const char *first, const char *between, const char *second) {
    char *name = xmalloc(strlen(first) + strlen(between) + strlen(second) + 1);
    strcpy(name, first);
    strcat(name, between);
    return strcat(name, second);
}

/* Temporary files: in the folder that the program runs in, which is its own. */
#define test_dir "."
SUPPORT void add_temp_file(const char *path) { (void)path; }
SUPPORT int create_temp_file(const char *base, char **path) {
    static int number;
    char digits[16];
    char *name = (snprintf(digits, sizeof digits, "%d", number++), support_name(base, ".", digits));
    int descriptor = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (descriptor < 0 || path == NULL) {
        free(name);
    } else {
        *path = name;
    }
    return descriptor;
}
SUPPORT int create_temp_file_in_dir(const char *base, const char *folder, char **path) {
    char *name = support_name(folder, "/", base);
    int descriptor = create_temp_file(name, path);
    free(name);
    return descriptor;
}
SUPPORT char *support_create_temp_directory(const char *base) {
    char *path = support_name(base, ".", "folder");
    xmkdir(path, 0700);
    return path;
}
SUPPORT void support_write_file_string(const char *path, const char *text) {
    FILE *file = xfopen(path, "w");
    TEST_VERIFY_EXIT(fputs(text, file) >= 0);
    xfclose(file);
}
SUPPORT int support_file_has(FILE *file, const char *text) {
    size_t bytes = strlen(text), got;
    char *found = xmalloc(bytes + 2);
    got = fread(found, 1, bytes + 1, file);
    got = got == bytes && memcmp(found, text, bytes) == 0;
    free(found);
    return (int)got;
}
#define support_compare_file_string(file, text) (!support_file_has((file), (text)))
#define TEST_COMPARE_FILE_STRING(file, text) TEST_VERIFY(support_file_has((file), (text)))
#define TEST_OPEN_AND_COMPARE_FILE_STRING(path, text)   \
    ({                                                  \
        FILE *support_file = xfopen((path), "r");       \
        TEST_COMPARE_FILE_STRING(support_file, (text)); \
        xfclose(support_file);                          \
    })

#endif

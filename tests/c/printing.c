/* The printf family beside the system's: as functions, with lists of arguments, and as macros where C has them. C99 and C11, on CPU lanes, in a
 * scratch directory. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdarg.h>
#include <stdint.h>
#include <unistd.h>
#include <wchar.h>

#include <gpufs/file.h>
#include <gpufs/host.h>
#include <gpufs/stdio.h>

#pragma GCC diagnostic ignored "-Wformat"
#pragma GCC diagnostic ignored "-Wformat-overflow"
#pragma GCC diagnostic ignored "-Wformat-truncation"
#pragma GCC diagnostic ignored "-Woverlength-strings"
#if defined(__clang__)
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#endif
#pragma GCC diagnostic ignored "-Wformat-extra-args"

#define ROOM 4096

/* A list goes through vsnprintf, vasprintf and vsprintf, and gives the same each time. */
static int through_lists(char *into, const char *format, ...) {
    va_list list, again, third;
    char *memory = NULL, other[ROOM];
    va_start(list, format);
    va_copy(again, list);
    va_copy(third, list);
    const int bytes = gpufs_vsnprintf(into, ROOM, format, list);
    const int kept = errno;
    const int allocated = gpufs_vasprintf(&memory, format, again);
    CHECK(allocated == bytes && (memory != NULL) == (bytes >= 0));
    CHECK(gpufs_vsprintf(other, format, third) == bytes);
    CHECK(bytes < 0 || (memcmp(memory, into, (size_t)bytes + 1) == 0 && memcmp(other, into, (size_t)bytes + 1) == 0));
    GPUFS_FREE(memory);
    va_end(third);
    va_end(again);
    va_end(list);
    errno = kept;
    return bytes;
}

static int (*const by_pointer)(char *, size_t, const char *, ...) = gpufs_snprintf;

/* The same output as the system's, whichever way it is made. */
#define SAME(...)                                                                                                      \
    do {                                                                                                               \
        char theirs[ROOM], ours[ROOM];                                                                                 \
        const int number = errno, length = snprintf(theirs, ROOM, __VA_ARGS__);                                        \
        int made[4];                                                                                                   \
        for (int way = 0; way < 4; ++way) {                                                                            \
            memset(ours, '#', sizeof ours);                                                                            \
            errno = number;                                                                                            \
            made[way] = way == 0   ? through_lists(ours, __VA_ARGS__)                                                  \
                        : way == 1 ? by_pointer(ours, ROOM, __VA_ARGS__)                                               \
                        : way == 2 ? (gpufs_sprintf)(ours, __VA_ARGS__)                                                \
                                   : gpufs_snprintf(ours, ROOM, __VA_ARGS__);                                          \
            if (made[way] != length || (length >= 0 && memcmp(ours, theirs, (size_t)length + 1) != 0)) {               \
                fprintf(stderr, "%s:%d: way %d: %d \"%s\", the system's %d \"%s\"\n", __FILE__, __LINE__, way,         \
                        made[way], made[way] < 0 ? "" : ours, length, length < 0 ? "" : theirs);                       \
                abort();                                                                                               \
            }                                                                                                          \
        }                                                                                                              \
        errno = number;                                                                                                \
    } while (0)

static void formats(void) {
    const wchar_t wide[] = {L'w', 0xef, L'd', L'e', 0x1f600, 0};
    SAME("plain");
    SAME("%d %i %u %x %X %o %c %s %p %%", -1, 2, 3u, 255u, 255u, 8u, 'c', "text", (void *)"");
    SAME("%hhd %hd %ld %lld %jd %zd %td", 300, 70000, -1L, -2LL, (intmax_t)-3, (ssize_t)-4, (ptrdiff_t)-5);
    SAME("%f %e %g %a %.3f %10.2e %F %G", 1.5, 2.5, 1e300, 0.1, 2.0 / 3, -0.0, 1e10, 1e-10);
    SAME("%*d|%-*d|%.*f|%*.*s", 7, 1, -7, 2, 3, 1.0, 8, 2, "text");
    SAME("%2$d %1$s %2$x", "first", 17);
    SAME("%3$*1$.*2$f|%1$d|%%", 9, 2, 3.14159);
    SAME("%1$s%1$s%2$c", "twice", 'x');
    SAME("%3$d", 1, 2, 3);
    SAME("%ls|%S|%.3ls|%10ls|%-10.4S|", wide, wide, wide, wide, wide);
    SAME("%lc%C|%4lc|%-4lc|", (wint_t)L'x', (wint_t)0xe9, (wint_t)0x20ac, (wint_t)0x1f600);
    SAME("%ls|%.3ls|%s", (wchar_t *)NULL, (wchar_t *)NULL, (char *)NULL);
    SAME("%2$ls %1$lc", (wint_t)0xe9, wide);
    for (int number = -1; number < 140; ++number) {
        errno = number;
        SAME("%s: %m|%30m|%-40m|%.4m", "said");
        CHECK(number < 0 || number == 41 || number == 58 || number > 133 || strcmp(gpufs_strerror(number), strerror(number)) == 0);
    }
    CHECK(strcmp(gpufs_strerror(4000), "Unknown error") == 0 && strcmp(gpufs_strerror(-1), "Unknown error") == 0);
    errno = 0;
    SAME("%Lf %Lg", 1.5L, 2.5L);
    SAME("%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
}

/* What the system's of today may lack. */
static void more(void) {
    char text[ROOM];
    CHECK(through_lists(text, "%w8d %w16d %w32d %w64d", 0x181, 0x18001, -1, INT64_C(1) << 40) == 28);
    CHECK(strcmp(text, "-127 -32767 -1 1099511627776") == 0);
    CHECK(through_lists(text, "%wf8x %wf16d %wf32u %wf64d", (int_fast8_t)-1, (int_fast16_t)-2, (uint_fast32_t)3, (int_fast64_t)4) == 9);
    CHECK(strcmp(text, "ff -2 3 4") == 0);
    CHECK(through_lists(text, "%b %#B %lb", 5u, 5u, 1UL << 40) == 51);
    /* More than a macro takes. */
    CHECK((gpufs_snprintf)(text, ROOM, "%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d", 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2) == 20);
    CHECK(strcmp(text, "12345678912345678912") == 0);
}

static void places(void) {
    char text[ROOM];
    for (int way = 0; way < 2; ++way) {
        signed char a = -1;
        short b = -1;
        int c = -1;
        long d = -1;
        long long e = -1;
        intmax_t f = -1;
        const int bytes = way == 0 ? gpufs_snprintf(text, 3, "%hhn1%hn2%n3%ln4%lln5%jn", &a, &b, &c, &d, &e, &f)
                                   : by_pointer(text, 3, "%hhn1%hn2%n3%ln4%lln5%jn", &a, &b, &c, &d, &e, &f);
        CHECK(bytes == 5 && strcmp(text, "12") == 0);
        CHECK(a == 0 && b == 1 && c == 2 && d == 3 && e == 4 && f == 5);
    }
}

static void wrong(gpufs_session *fs) {
    char text[64];
    const wchar_t surrogate[] = {L'a', 0xd800, 0};
    const wchar_t *const wide = surrogate;
    int *nowhere = NULL;
    CHECK_FAILS(through_lists(text, "%ls", wide), -1, EILSEQ);
    CHECK_FAILS(gpufs_snprintf(text, 64, "%ls", wide), -1, EILSEQ);
    CHECK(through_lists(text, "%.1ls", wide) == 1);
    CHECK_FAILS(through_lists(text, "%lc", (wint_t)0xdfff), -1, EILSEQ);
    CHECK_FAILS(gpufs_snprintf(text, 64, "%lc", (wint_t)-1), -1, EILSEQ);
    CHECK_FAILS(through_lists(text, "%n", nowhere), -1, EFAULT);
    CHECK_FAILS(through_lists(text, "%1$d %d", 1, 2), -1, EINVAL);
    CHECK_FAILS(through_lists(text, "%d %1$d", 1, 2), -1, EINVAL);
    CHECK_FAILS(through_lists(text, "%1$d %1$ld", 1L), -1, EINVAL);
    CHECK_FAILS(through_lists(text, "%1$d %1$s", 1), -1, EINVAL);
    CHECK_FAILS(through_lists(text, "%65$d", 1), -1, EINVAL);
    CHECK_FAILS(through_lists(text, "%y", 1), -1, EINVAL);
    CHECK_FAILS(through_lists(text, "%w7d", 1), -1, EINVAL);
    CHECK_FAILS(through_lists(text, "%d%", 1), -1, EINVAL);
    CHECK_FAILS(through_lists(text, "%2147483647d%d", 1, 2), -1, EOVERFLOW);
    const char *none = NULL;
    CHECK_FAILS(through_lists(text, none), -1, EINVAL);
    CHECK_FAILS((gpufs_snprintf)(NULL, 5, "%d", 1), -1, EFAULT);
    CHECK_FAILS((gpufs_sprintf)(NULL, "%d", 1), -1, EFAULT);
    CHECK_FAILS((gpufs_asprintf)(NULL, "%d", 1), -1, EFAULT);
    CHECK_FAILS((gpufs_fprintf)(NULL, "%d", 1), -1, EBADF);
    CHECK_FAILS((gpufs_printf)(NULL, "%d", 1), -1, EBADF);
    CHECK_FAILS((gpufs_dprintf)(fs, -1, "%d", 1), -1, EBADF);
    CHECK_FAILS((gpufs_dprintf)(NULL, 1, "%d", 1), -1, EINVAL);
    /* The length modifier is not the integer's. */
    gpufs_argument place = {GPUFS_ARGUMENT_PLACE, 4, (uint64_t)(uintptr_t)&text};
    CHECK_FAILS(gpufs_snprintf_arguments(text, 64, "%hn", 3, &place, 1), -1, EINVAL);
}

/* fprintf, printf and dprintf in two ways each, by each lane, and perror. */
static void prints(gpufs_session *fs, void *argument) {
    char path[32], long_text[700];
    (void)argument;
    CHECK((gpufs_sprintf)(path, "lane%d", (int)gpufs_thread()) > 0);
    gpufs_file *file = gpufs_fopen(fs, path, "w");
    CHECK(file != NULL);
    CHECK((gpufs_fprintf)(file, "%2$s %1$d\n", 7, "seven") == 8);
    CHECK(gpufs_fprintf(file, "%d\n", 8) == 2);
    CHECK((gpufs_fprintf)(file, "%300ls|\n", L"far") == 302);
    CHECK(gpufs_fclose(file) == 0);
    CHECK((gpufs_printf)(fs, "%s\n", "printed") == 8);
    const int descriptor = gpufs_open(fs, path, GPUFS_O_WRONLY | GPUFS_O_APPEND, 0);
    CHECK(descriptor >= 0);
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    CHECK((gpufs_dprintf)(fs, descriptor, "%s-%d", "short", 1) == 7);
    CHECK(gpufs_dprintf(fs, descriptor, "%s%.1f\n", long_text, 1.5) == 703);
    CHECK(gpufs_close(fs, descriptor) == 0);
    errno = ENOENT;
    gpufs_perror(fs, "perror");
    CHECK(errno == ENOENT);
    gpufs_perror(fs, NULL);
    gpufs_perror(fs, "");
}

static void lanes(gpufs_session *fs, void *argument) {
    (void)argument;
    if (gpufs_thread() == 0) {
        formats();
        more();
        places();
        wrong(fs);
    }
    prints(fs, NULL);
}

int main(void) {
    char text[ROOM];
    CHECK(setlocale(LC_ALL, "C.UTF-8") != NULL);
    const int said = dup(2), errors = open("errors", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(said >= 0 && errors >= 0 && dup2(errors, 2) == 2);
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, NULL);
    CHECK(host != NULL);
    CHECK(gpufs_host_launch(host, 2, 32, lanes, NULL) == 0);
    const int ended = gpufs_host_synchronize(host);
    CHECK(dup2(said, 2) == 2);
    if (ended != 0) {
        slurp("errors", text, sizeof text);
        fprintf(stderr, "%s%s\n", text, gpufs_last_error());
        return 1;
    }
    CHECK(gpufs_host_close(host) == 0);
    for (int lane = 0; lane < 64; ++lane) {
        char path[32], expected[ROOM];
        sprintf(path, "lane%d", lane);
        CHECK(slurp(path, text, sizeof text) == 8 + 2 + 302 + 7 + 703);
        sprintf(expected, "seven 7\n8\n%300s|\nshort-1", "far");
        CHECK(memcmp(text, expected, strlen(expected)) == 0 && strcmp(text + strlen(text) - 5, "x1.5\n") == 0);
    }
    slurp("errors", text, sizeof text);
    CHECK(strstr(text, "perror: No such file or directory\n") != NULL && strncmp(text, "perror: ", 8) == 0);
    return 0;
}

/* Every call of the C interface once with right and once with wrong use, on CPU lanes. Runs in a scratch directory. */
#include "check.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <gpufs/file.h>
#include <gpufs/host.h>
#include <gpufs/socket.h>
#include <gpufs/stdio.h>

_Static_assert(GPUFS_IOFBF == _IOFBF && GPUFS_IOLBF == _IOLBF && GPUFS_IONBF == _IONBF, "setvbuf");
_Static_assert(GPUFS_SEEK_SET == SEEK_SET && GPUFS_SEEK_CUR == SEEK_CUR && GPUFS_SEEK_END == SEEK_END, "fseek");
_Static_assert(GPUFS_O_CREAT == O_CREAT && GPUFS_O_EXCL == O_EXCL && GPUFS_O_TRUNC == O_TRUNC, "open");
_Static_assert(GPUFS_O_APPEND == O_APPEND && GPUFS_O_NONBLOCK == O_NONBLOCK && GPUFS_O_CLOEXEC == O_CLOEXEC, "open");
_Static_assert(GPUFS_EOF == EOF, "EOF");

#if !GPUFS_CHECK_VERSION(GPUFS_VERSION_MAJOR, GPUFS_VERSION_MINOR, GPUFS_VERSION_PATCH) || !GPUFS_CHECK_VERSION(0, 0, 0)
#error "GPUFS_CHECK_VERSION denies this version or an earlier one"
#endif
#if GPUFS_CHECK_VERSION(GPUFS_VERSION_MAJOR, GPUFS_VERSION_MINOR, GPUFS_VERSION_PATCH + 1) || \
    GPUFS_CHECK_VERSION(GPUFS_VERSION_MAJOR, GPUFS_VERSION_MINOR + 1, 0) || \
    GPUFS_CHECK_VERSION(GPUFS_VERSION_MAJOR + 1, 0, 0)
#error "GPUFS_CHECK_VERSION finds a later version"
#endif

/* So many bytes 'x', behind which memory ends. */
static char *at_the_end_of_memory(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    char *memory = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + whole, page, PROT_NONE) == 0);
    return memset(memory + whole - bytes, 'x', bytes);
}

/* What is made of other calls. */
static void more_streams(gpufs_session *fs) {
    char text[16], buffer[64];
    gpufs_fpos_t position = {0};
    gpufs_file *file = gpufs_fopen(fs, "more", "w+");
    CHECK(file != NULL && gpufs_fwide(file, 1) == -1);
    gpufs_setlinebuf(file);
    CHECK(gpufs_putc('a', file) == 'a' && gpufs_putc_unlocked('b', file) == 'b' && gpufs_fputc_unlocked('c', file) == 'c');
    CHECK(gpufs_fputs_unlocked("de", file) == 0 && gpufs_fwrite_unlocked("fg", 1, 2, file) == 2);
    CHECK(gpufs_fgetpos(file, &position) == 0 && position.position == 7);
    gpufs_setbuf(file, NULL);
    CHECK(gpufs_fputs("\nline\n", file) == 0 && gpufs_fflush_unlocked(file) == 0);
    gpufs_setbuffer(file, buffer, sizeof buffer);
    gpufs_rewind(file);
    CHECK(gpufs_getc(file) == 'a' && gpufs_getc_unlocked(file) == 'b' && gpufs_fgetc_unlocked(file) == 'c');
    CHECK(gpufs_fread_unlocked(text, 1, 2, file) == 2 && memcmp(text, "de", 2) == 0);
    CHECK(gpufs_fsetpos(file, &position) == 0 && gpufs_getc(file) == '\n');
    CHECK(gpufs_fgets_unlocked(text, sizeof text, file) == text && strcmp(text, "line\n") == 0);
    CHECK(gpufs_getc(file) == EOF && gpufs_feof_unlocked(file) == 1 && gpufs_ferror_unlocked(file) == 0);
    gpufs_clearerr_unlocked(file);
    CHECK(gpufs_feof(file) == 0);
    gpufs_setbuf(file, buffer);
    CHECK(gpufs_putchar(fs, '!') == '!' && gpufs_putchar_unlocked(fs, '\n') == '\n');

    gpufs_flockfile(file);
    gpufs_flockfile(file);
    CHECK(gpufs_ftrylockfile(file) == 0 && gpufs_fputs("kept\n", file) == 0);
    for (int times = 0; times < 3; ++times) {
        errno = 0;
        gpufs_funlockfile(file);
        CHECK(errno == 0);
    }
    gpufs_funlockfile(file);
    CHECK(errno == EPERM);
    gpufs_rewind(file);
    char *line = NULL;
    size_t bytes = 0;
    CHECK(gpufs_getdelim(&line, &bytes, 'c', file) == 3 && strcmp(line, "abc") == 0 && bytes >= 4);
    line = realloc(line, 3);
    bytes = 3;
    CHECK(gpufs_getline(&line, &bytes, file) == 5 && strcmp(line, "defg\n") == 0 && bytes >= 6);
    CHECK(gpufs_getline(&line, &bytes, file) == 5 && gpufs_getline(&line, &bytes, file) == 5);
    CHECK(strcmp(line, "kept\n") == 0);
    errno = 0;
    CHECK(gpufs_getline(&line, &bytes, file) == -1 && errno == 0 && gpufs_feof(file));
    CHECK_FAILS(gpufs_getline(NULL, &bytes, file), -1, EINVAL);
    CHECK_FAILS(gpufs_getline(&line, NULL, file), -1, EINVAL);
    CHECK_FAILS(gpufs_getline(&line, &bytes, NULL), -1, EBADF);
    free(line);

    CHECK_FAILS(gpufs_fgetpos(file, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_fsetpos(file, NULL), -1, EFAULT);
    position.position = -5;
    CHECK_FAILS(gpufs_fsetpos(file, &position), -1, EINVAL);
    CHECK(gpufs_fclose(file) == 0);
    CHECK_FAILS(gpufs_getc(file), EOF, EBADF);
    CHECK_FAILS(gpufs_putc('x', file), EOF, EBADF);
    CHECK_FAILS(gpufs_fgetpos(file, &position), -1, EBADF);
    CHECK_FAILS(gpufs_fsetpos(file, &position), -1, EBADF);
    CHECK_FAILS(gpufs_ftrylockfile(file), -1, EBADF);
    CHECK_FAILS(gpufs_getchar(NULL), EOF, EBADF);
    CHECK_FAILS(gpufs_putchar(NULL, 'x'), EOF, EBADF);
}

/* The functions behind the macros, and those with a va_list. */
static int by_list(gpufs_file *file, gpufs_session *fs, const char *text, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int stored = file != NULL ? gpufs_vfscanf(file, format, list)
                 : fs != NULL ? gpufs_vscanf(fs, format, list)
                              : gpufs_vsscanf(text, format, list);
    va_end(list);
    return stored;
}

/* Text that is read by formats. */
static void scans(gpufs_session *fs) {
    int number = 0, position = 0;
    long wide = 0;
    short narrow = 0;
    unsigned char byte = 0;
    float real = 0;
    double longer = 0;
    long double longest = 0;
    char text[32], *allocated = NULL;
    void *pointer = &number;
    CHECK(gpufs_sscanf("17 -5 0x10 300", "%d %ld %hi %hhu", &number, &wide, &narrow, &byte) == 4);
    CHECK(number == 17 && wide == -5 && narrow == 16 && byte == 44);
    CHECK(gpufs_sscanf("2.5 1e3 0.5 word", "%f %lf %Lf %31s", &real, &longer, &longest, text) == 4);
    CHECK(real == 2.5f && longer == 1000 && longest == 0.5L);
    CHECK(strcmp(text, "word") == 0);
    CHECK(gpufs_sscanf("(nil) x=abc;7", "%p x=%[a-c];%n%d", &pointer, text, &position, &number) == 3);
    CHECK(pointer == NULL && position == 12 && number == 7);
    /* POSIX's, of which compilers that check ISO C warn. */
    const char *numbered = "%2$d %1$ld", *allocating = "%m[^;]; %mc";
    CHECK(gpufs_sscanf("1 2", numbered, &wide, &number) == 2 && number == 1 && wide == 2);
    CHECK(gpufs_sscanf("a text that is longer than the first memory; b", allocating, &allocated, &pointer) == 2);
    CHECK(strcmp(allocated, "a text that is longer than the first memory") == 0 && *(char *)pointer == 'b');
    GPUFS_FREE(allocated);
    GPUFS_FREE(pointer);
    CHECK(gpufs_sscanf("x", "%d", &number) == 0 && gpufs_sscanf("", "%d", &number) == EOF && gpufs_sscanf("5", "%*d") == 0);
    /* Too large for 64 bits, as strtol says it; too large for its target alone is none of its business. */
    errno = 0;
    CHECK(gpufs_sscanf("99999999999999999999 -5", "%ld %d", &wide, &number) == 2 && errno == ERANGE && wide == 0x7fffffffffffffff);
    errno = 0;
    CHECK(gpufs_sscanf("99999999999999999999", "%*d%d", &number) == EOF && errno == ERANGE);
    errno = 0;
    CHECK(gpufs_sscanf("4294967297 1e400", "%d %f", &number, &real) == 2 && number == 1 && errno == ERANGE);
    errno = 0;
    CHECK(gpufs_sscanf("4294967297 -18446744073709551615 1e30", "%d %lu %f", &number, (unsigned long *)&wide, &real) == 3 && errno == 0);
    int (*function)(const char *, const char *, ...) = gpufs_sscanf;
    CHECK(function("8 1.5", "%d %Lf", &number, &longest) == 2 && number == 8 && longest == 1.5L);
    CHECK(by_list(NULL, NULL, "9 word", "%d %5s", &number, text) == 2 && number == 9 && strcmp(text, "word") == 0);

    gpufs_file *file = gpufs_fopen(fs, "scans", "w+");
    CHECK(file != NULL && gpufs_fputs("1 2.5 three\n0x1p3,x 44 \n", file) == 0);
    gpufs_rewind(file);
    CHECK(gpufs_fscanf(file, "%d%lf%5s", &number, &longer, text) == 3 && number == 1 && longer == 2.5 && strcmp(text, "three") == 0);
    CHECK(gpufs_fgetc(file) == '\n' && gpufs_ungetc('1', file) == '1');
    CHECK(gpufs_fscanf(file, "%da%n", &number, &position) == 1 && number == 10 && gpufs_fgetc(file) == 'x');
    CHECK((gpufs_fscanf)(file, "%*[^,],%d", &number) == 0 && by_list(file, NULL, NULL, "x%d", &number) == 1 && number == 44);
    CHECK(gpufs_feof(file) == 0 && gpufs_fscanf(file, "%d", &number) == EOF && gpufs_feof(file) == 1 && gpufs_ferror(file) == 0);

    const char *wrong[] = {"%y", "%d %d", "%", "%hf", "%[a", "%2$d%d", "%ld", "%99999999999d"};
    for (size_t index = 0; index < sizeof wrong / sizeof *wrong; ++index) {
        const char *format = wrong[index];
        CHECK_FAILS(gpufs_sscanf("1 2", format, &number), EOF, index == 7 ? EOVERFLOW : EINVAL);
        CHECK_FAILS(gpufs_fscanf(file, format, &number), EOF, index == 7 ? EOVERFLOW : EINVAL);
    }
    const char *null = NULL;
    int *nowhere = NULL;
    CHECK_FAILS(gpufs_sscanf(null, "%d", &number), EOF, EFAULT);
    CHECK_FAILS(gpufs_sscanf("1", null, &number), EOF, EINVAL);
    CHECK_FAILS(gpufs_sscanf("1", "%d", nowhere), EOF, EFAULT);
    CHECK_FAILS(by_list(NULL, NULL, "1", null, &number), EOF, EINVAL);
    CHECK(gpufs_fclose(file) == 0);
    CHECK_FAILS(gpufs_fscanf(file, "%d", &number), EOF, EBADF);
    CHECK_FAILS(gpufs_scanf(NULL, "%d", &number), EOF, EBADF);
    file = gpufs_fopen(fs, "scans", "w");
    CHECK_FAILS(gpufs_fscanf(file, "%d", &number), EOF, EBADF);
    CHECK(gpufs_ferror(file) == 1 && gpufs_fclose(file) == 0);
}

/* Streams, in one lane. */
static void streams(gpufs_session *fs, void *argument) {
    char text[64];
    (void)argument;
    gpufs_file *file = gpufs_fopen(fs, "streams", "w+");
    CHECK(file != NULL);
    CHECK(gpufs_fprintf(file, "%s %d %5.2f %c %llx\n", "one", -1, 2.5, 'c', 0xfeedfacecafeULL) == 28);
    CHECK(gpufs_fputs("two\n", file) == 0);
    CHECK(gpufs_fputc('3', file) == '3');
    CHECK(gpufs_fwrite("45678", 2, 2, file) == 2);
    CHECK(gpufs_ftell(file) == 37 && gpufs_ftello(file) == 37);
    CHECK(gpufs_fflush(file) == 0);
    gpufs_rewind(file);
    CHECK(gpufs_fgets(text, sizeof text, file) == text);
    CHECK(strcmp(text, "one -1  2.50 c feedfacecafe\n") == 0);
    CHECK(gpufs_fgetc(file) == 't');
    CHECK(gpufs_ungetc('T', file) == 'T');
    CHECK(gpufs_fread(text, 2, 4, file) == 4);
    CHECK(memcmp(text, "Two\n3456", 8) == 0);
    CHECK(gpufs_fgets(text, sizeof text, file) == text && strcmp(text, "7") == 0);
    CHECK(gpufs_feof(file) == 1 && gpufs_ferror(file) == 0);
    errno = 0;
    CHECK(gpufs_fgetc(file) == EOF && errno == 0);
    gpufs_clearerr(file);
    CHECK(gpufs_feof(file) == 0);
    CHECK(gpufs_fseek(file, -1, SEEK_END) == 0 && gpufs_fseeko(file, INT64_C(0), SEEK_CUR) == 0);
    CHECK(gpufs_setvbuf(file, NULL, _IOLBF, 256) == 0);
    CHECK(gpufs_fclose(file) == 0);

    more_streams(fs);
    scans(fs);

    /* snprintf, packed and not. */
    CHECK(gpufs_snprintf(text, 4, "%d", 123456) == 6 && strcmp(text, "123") == 0);
    CHECK(gpufs_snprintf(NULL, 0, "%d", 123456) == 6);
    CHECK(gpufs_snprintf(text, sizeof text, "nothing") == 7);
    CHECK(gpufs_snprintf(text, sizeof text, "%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d", 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6) == 16);
    CHECK(strcmp(text, "1234567890123456") == 0);
    gpufs_argument arguments[2] = {{GPUFS_ARGUMENT_SIGNED, 0, (uint64_t)-5}, {GPUFS_ARGUMENT_BYTES, 3, (uint64_t)(uintptr_t) "abcdef"}};
    CHECK(gpufs_snprintf_arguments(text, sizeof text, "%d %s!", 5, arguments, 2) == 6 && strcmp(text, "-5 abc") == 0);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-extra-args"
    /* What a format does not take is evaluated and ignored. */
    int evaluated = 0;
    CHECK(gpufs_snprintf(text, sizeof text, "%d%%", 5, ++evaluated, "x") == 2 && strcmp(text, "5%") == 0 && evaluated == 1);
#pragma GCC diagnostic pop
    CHECK(gpufs_snprintf_arguments(text, sizeof text, "%d", 2, arguments, 2) == 2 && strcmp(text, "-5") == 0);

    /* Letters of a mode that mean nothing. */
    const char *modes[] = {"wt", "w+t", "we", "wm", "wc", "w,ccs=ISO-8859-1"};
    for (size_t index = 0; index < sizeof modes / sizeof *modes; ++index) {
        gpufs_file *plain = gpufs_fopen(fs, "modes", modes[index]);
        CHECK(plain != NULL && gpufs_fputc('x', plain) == 'x' && gpufs_fclose(plain) == 0);
    }

    /* Wrong use: an error each, and nothing written. */
    CHECK_FAILS(gpufs_fopen(fs, "missing", "r"), NULL, ENOENT);
    CHECK_FAILS(gpufs_fopen(fs, "streams", "q"), NULL, EINVAL);
    CHECK_FAILS(gpufs_fopen(fs, NULL, "r"), NULL, EFAULT);
    CHECK_FAILS(gpufs_fopen(fs, "streams", NULL), NULL, EFAULT);
    const char *formats[] = {"%", "%d %", "%y", "%n", "%ls", "%2$d", "%1$d%d", "%m%y", "%w9d", "%s", "%d %d", "%hf", "%.*d"};
    gpufs_argument one = {GPUFS_ARGUMENT_SIGNED, 0, 7};
    file = gpufs_fopen(fs, "untouched", "w");
    for (size_t index = 0; index < sizeof formats / sizeof *formats; ++index) {
        CHECK_FAILS(gpufs_fprintf_arguments(file, formats[index], strlen(formats[index]), &one, 1), -1, EINVAL);
    }
    const char *no_format = NULL;
    CHECK_FAILS(gpufs_fprintf(file, no_format, 1), -1, EINVAL);
    CHECK_FAILS(gpufs_printf(fs, no_format, 1), -1, EINVAL);
    CHECK_FAILS(gpufs_snprintf(text, sizeof text, no_format, 1), -1, EINVAL);
    CHECK_FAILS(gpufs_fprintf_arguments(file, NULL, 0, NULL, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_fprintf_arguments(file, "%d", 2, NULL, 1), -1, EINVAL);
    CHECK_FAILS(gpufs_fprintf_arguments(file, "%d", 2, &one, SIZE_MAX), -1, EINVAL);
    one.kind = 11;
    CHECK_FAILS(gpufs_fprintf_arguments(file, "%d", 2, &one, 1), -1, EINVAL);
    CHECK_FAILS(gpufs_fwrite(NULL, 1, 5, file), 0, EFAULT);
    CHECK_FAILS(gpufs_fwrite("", SIZE_MAX, 2, file), 0, EINVAL);
    CHECK_FAILS(gpufs_fread(NULL, 1, 5, file), 0, EFAULT);
    CHECK_FAILS(gpufs_fgets(NULL, 5, file), NULL, EFAULT);
    CHECK_FAILS(gpufs_puts(fs, NULL), EOF, EFAULT);
    CHECK_FAILS(gpufs_snprintf(NULL, 5, "%d", 1), -1, EFAULT);
    CHECK(gpufs_fwrite(NULL, 1, 0, file) == 0 && gpufs_fread(NULL, 0, 5, file) == 0);
    CHECK_FAILS(gpufs_fputs(NULL, file), -1, EFAULT);
    CHECK_FAILS(gpufs_fread(text, 1, 1, file), 0, EBADF);
    CHECK_FAILS(gpufs_fseek(file, -1, SEEK_SET), -1, EINVAL);
    CHECK_FAILS(gpufs_fseek(file, 0, 9), -1, EINVAL);
    CHECK_FAILS(gpufs_setvbuf(file, NULL, 9, 0), -1, EINVAL);
    CHECK(gpufs_fwrite(text, 0, 5, file) == 0);
    CHECK(gpufs_fclose(file) == 0);

    /* What is no stream, among it one that is closed, and whose entry is another's now. */
    gpufs_file *again = gpufs_fopen(fs, "untouched", "r");
    CHECK(again != NULL && again != file);
    int local = 0;
    gpufs_file *wrong[] = {NULL, file, (gpufs_file *)stdout, (gpufs_file *)&local, (gpufs_file *)fs, (gpufs_file *)(uintptr_t)-1,
                           (gpufs_file *)(uintptr_t)1};
    for (size_t index = 0; index < sizeof wrong / sizeof *wrong; ++index) {
        gpufs_file *bad = wrong[index];
        CHECK_FAILS(gpufs_fprintf(bad, "%d", 1), -1, EBADF);
        CHECK_FAILS(gpufs_fwrite("x", 1, 1, bad), 0, EBADF);
        CHECK_FAILS(gpufs_fread(text, 1, 1, bad), 0, EBADF);
        CHECK_FAILS(gpufs_fgets(text, 4, bad), NULL, EBADF);
        CHECK_FAILS(gpufs_fputs("x", bad), EOF, EBADF);
        CHECK_FAILS(gpufs_fgetc(bad), EOF, EBADF);
        CHECK_FAILS(gpufs_fputc('x', bad), EOF, EBADF);
        CHECK_FAILS(gpufs_ungetc('x', bad), EOF, EBADF);
        CHECK_FAILS(gpufs_fseek(bad, 0, SEEK_SET), -1, EBADF);
        CHECK_FAILS(gpufs_ftell(bad), -1, EBADF);
        CHECK_FAILS(gpufs_fflush(bad), EOF, EBADF);
        CHECK_FAILS(gpufs_setvbuf(bad, NULL, _IOFBF, 0), -1, EBADF);
        CHECK_FAILS(gpufs_feof(bad), 1, EBADF);
        CHECK_FAILS(gpufs_ferror(bad), 1, EBADF);
        CHECK_FAILS(gpufs_fclose(bad), EOF, EBADF);
        gpufs_rewind(bad);
        gpufs_clearerr(bad);
    }
    CHECK(gpufs_fclose(again) == 0);

    /* The standard streams. */
    CHECK(gpufs_puts(fs, "said by puts") == 0);
    CHECK(gpufs_printf(fs, "said by %s\n", "printf") == 15);
    CHECK(gpufs_fprintf(gpufs_stderr(fs), "%s", "") == 0);
    CHECK(gpufs_stdin(fs) != NULL);
    CHECK(gpufs_fflush_all(fs) == 0);
}

/* Strings that do not end within their bounds: memory that ends just behind the bound is not touched. */
static void endless(gpufs_session *fs, void *argument) {
    (void)argument;
    char *format = at_the_end_of_memory(GPUFS_FORMAT_BYTES);
    gpufs_file *file = gpufs_fopen(fs, "endless", "w");
    char text[8];
    CHECK(file != NULL);
    CHECK_FAILS(gpufs_fprintf(file, format, 1), -1, EINVAL);
    CHECK_FAILS(gpufs_fprintf(file, format), -1, EINVAL);
    CHECK_FAILS(gpufs_printf(fs, format), -1, EINVAL);
    CHECK_FAILS(gpufs_snprintf(text, sizeof text, format), -1, EINVAL);
    format[GPUFS_FORMAT_BYTES - 1] = '\0';
    CHECK(gpufs_fprintf(file, format) == GPUFS_FORMAT_BYTES - 1);
    format[GPUFS_FORMAT_BYTES - 1] = 'x';
    /* With its length, it needs no end. */
    CHECK(gpufs_fprintf_arguments(file, format, GPUFS_FORMAT_BYTES, NULL, 0) == GPUFS_FORMAT_BYTES);
    CHECK(gpufs_fprintf(file, "%.3s\n", format + GPUFS_FORMAT_BYTES - 3) == 4);
    CHECK(gpufs_fclose(file) == 0);

    char *path = at_the_end_of_memory(GPUFS_PATH_BYTES);
    CHECK_FAILS(gpufs_fopen(fs, path, "r"), NULL, ENAMETOOLONG);
    CHECK_FAILS(gpufs_open(fs, path, O_RDONLY, 0), -1, ENAMETOOLONG);
    path[GPUFS_PATH_BYTES - 1] = '\0';
    CHECK_FAILS(gpufs_open(fs, path, O_RDONLY, 0), -1, ENAMETOOLONG); /* a name in it is longer than a file system's may be */
    char *mode = at_the_end_of_memory(GPUFS_FOPEN_MODE_BYTES);
    mode[0] = 'r';
    CHECK_FAILS(gpufs_fopen(fs, "endless", mode), NULL, EINVAL);
}

/* Each call without a session. */
static void no_session(gpufs_session *fs, void *argument) {
    char byte;
    (void)fs;
    (void)argument;
    CHECK(gpufs_stdin(NULL) == NULL && gpufs_stdout(NULL) == NULL && gpufs_stderr(NULL) == NULL);
    CHECK_FAILS(gpufs_fopen(NULL, "missing", "r"), NULL, EINVAL);
    CHECK_FAILS(gpufs_puts(NULL, "x"), EOF, EINVAL);
    CHECK_FAILS(gpufs_printf(NULL, "%d", 1), -1, EBADF);
    CHECK_FAILS(gpufs_fflush_all(NULL), EOF, EINVAL);
    CHECK_FAILS(gpufs_open(NULL, "missing", O_RDONLY, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_close(NULL, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_read(NULL, 0, &byte, 1), -1, EINVAL);
    CHECK_FAILS(gpufs_write(NULL, 1, "x", 1), -1, EINVAL);
    CHECK_FAILS(gpufs_pread(NULL, 0, &byte, 1, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_pwrite(NULL, 1, "x", 1, 0), -1, EINVAL);
    gpufs_iovec one = {&byte, 1};
    CHECK_FAILS(gpufs_readv(NULL, 0, &one, 1), -1, EINVAL);
    CHECK_FAILS(gpufs_writev(NULL, 1, &one, 1), -1, EINVAL);
    CHECK_FAILS(gpufs_preadv(NULL, 0, &one, 1, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_pwritev(NULL, 1, &one, 1, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_preadv2(NULL, 0, &one, 1, 0, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_pwritev2(NULL, 1, &one, 1, 0, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_lseek(NULL, 0, 0, SEEK_SET), -1, EINVAL);
    CHECK_FAILS(gpufs_fsync(NULL, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_fdatasync(NULL, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_ftruncate(NULL, 0, 0), -1, EINVAL);
}

/* The layout, as programs with <sys/uio.h> have it. */
_Static_assert(sizeof(gpufs_iovec) == sizeof(struct iovec), "iovec");
_Static_assert(offsetof(gpufs_iovec, iov_base) == offsetof(struct iovec, iov_base), "iovec");
_Static_assert(offsetof(gpufs_iovec, iov_len) == offsetof(struct iovec, iov_len), "iovec");

/* Memory in several pieces, in one lane. */
static void vectors(gpufs_session *fs, void *argument) {
    char first[8] = "012", second[8] = "34567", back[16];
    (void)argument;
    int file = gpufs_open(fs, "vectors", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(file >= 0);
    const gpufs_iovec out[] = {{first, 3}, {NULL, 0}, {second, 5}};
    CHECK(gpufs_writev(fs, file, out, 3) == 8 && gpufs_lseek(fs, file, 0, SEEK_CUR) == 8);
    CHECK(gpufs_pwritev(fs, file, out + 2, 1, 1) == 5 && gpufs_lseek(fs, file, 0, SEEK_CUR) == 8);
    gpufs_iovec in[] = {{back, 2}, {back + 8, 8}};
    CHECK(gpufs_preadv(fs, file, in, 2, 1) == 7 && memcmp(back, "34", 2) == 0 && memcmp(back + 8, "56767", 5) == 0);
    CHECK(gpufs_readv(fs, file, in, 2) == 0);
    CHECK(gpufs_pwritev2(fs, file, out, 1, 0, GPUFS_RWF_APPEND) == 3 && gpufs_lseek(fs, file, 0, SEEK_CUR) == 8);
    CHECK(gpufs_preadv2(fs, file, in, 2, -1, 0) == 3 && memcmp(back, "01", 2) == 0 && back[8] == '2');
    CHECK(gpufs_pwritev2(fs, file, out, 3, -1, GPUFS_RWF_DSYNC | GPUFS_RWF_HIPRI) == 8);
    CHECK(gpufs_lseek(fs, file, 0, SEEK_END) == 19);

    CHECK(gpufs_writev(fs, file, out, 0) == 0 && gpufs_readv(fs, file, NULL, 0) == 0);
    static gpufs_iovec many[GPUFS_IOV_MAX + 1];
    CHECK(gpufs_writev(fs, file, many, GPUFS_IOV_MAX) == 0);
    CHECK_FAILS(gpufs_writev(fs, file, many, GPUFS_IOV_MAX + 1), -1, EINVAL);
    CHECK_FAILS(gpufs_readv(fs, file, in, -1), -1, EINVAL);
    CHECK_FAILS(gpufs_readv(fs, file, NULL, 1), -1, EFAULT);
    CHECK_FAILS(gpufs_writev(fs, file, NULL, 1), -1, EFAULT);
    gpufs_iovec wrong_memory[] = {{first, 1}, {NULL, 1}}, too_long[] = {{first, SIZE_MAX}};
    CHECK_FAILS(gpufs_pwritev(fs, file, wrong_memory, 2, 0), -1, EFAULT);
    CHECK_FAILS(gpufs_preadv(fs, file, too_long, 1, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_preadv(fs, file, in, 1, -1), -1, EINVAL);
    CHECK_FAILS(gpufs_pwritev2(fs, file, out, 1, -2, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_preadv2(fs, file, in, 1, 0, 1 << 20), -1, EOPNOTSUPP);
    CHECK(gpufs_close(fs, file) == 0);
    int wrong[] = {file, -1, 1 << 20, INT32_MAX, INT32_MIN};
    for (size_t index = 0; index < sizeof wrong / sizeof *wrong; ++index) {
        CHECK_FAILS(gpufs_readv(fs, wrong[index], in, 1), -1, EBADF);
        CHECK_FAILS(gpufs_writev(fs, wrong[index], out, 1), -1, EBADF);
        CHECK_FAILS(gpufs_preadv(fs, wrong[index], in, 1, 0), -1, EBADF);
        CHECK_FAILS(gpufs_pwritev(fs, wrong[index], out, 1, 0), -1, EBADF);
        CHECK_FAILS(gpufs_preadv2(fs, wrong[index], in, 1, -1, 0), -1, EBADF);
        CHECK_FAILS(gpufs_pwritev2(fs, wrong[index], out, 1, -1, 0), -1, EBADF);
    }
}

/* Streams on descriptors and back, in one lane. */
static void between(gpufs_session *fs, void *argument) {
    char text[64], path[] = "made-XXXXXX";
    (void)argument;
    int made = gpufs_mkstemp(fs, path);
    CHECK(made >= 0 && strcmp(path, "made-XXXXXX") != 0 && strlen(path) == 11 && access(path, F_OK) == 0);
    CHECK_FAILS(gpufs_mkstemp(fs, text + sprintf(text, "x") - 1), -1, EINVAL);
    CHECK_FAILS(gpufs_mkstemp(fs, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_mkstemp(NULL, path), -1, EINVAL);
    gpufs_file *file = gpufs_fdopen(fs, made, "w+");
    CHECK(file != NULL && gpufs_fileno(file) == made && gpufs_fputs("a stream", file) == 0);
    CHECK(gpufs_freopen(NULL, "r", file) == file && gpufs_fgets(text, sizeof text, file) == text && strcmp(text, "a stream") == 0);
    CHECK(gpufs_freopen("reopened", "w", file) == file && gpufs_fileno(file) == made && gpufs_fputs("another", file) == 0);
    CHECK_FAILS(gpufs_freopen("no/such", "r", file), NULL, ENOENT);
    CHECK_FAILS(gpufs_fileno(file), -1, EBADF);
    CHECK_FAILS(gpufs_close(fs, made), -1, EBADF);
    CHECK(slurp("reopened", text, sizeof text) == 7);
    CHECK_FAILS(gpufs_freopen("reopened", "r", file), NULL, EBADF);
    CHECK_FAILS(gpufs_freopen("reopened", NULL, gpufs_stdout(fs)), NULL, EFAULT);
    CHECK_FAILS(gpufs_freopen("reopened", "r", NULL), NULL, EBADF);
    CHECK_FAILS(gpufs_fdopen(fs, made, "r"), NULL, EBADF);
    CHECK_FAILS(gpufs_fdopen(fs, -1, "r"), NULL, EBADF);
    CHECK_FAILS(gpufs_fdopen(NULL, 0, "r"), NULL, EINVAL);
    made = gpufs_open(fs, "reopened", O_RDONLY, 0);
    CHECK_FAILS(gpufs_fdopen(fs, made, "w"), NULL, EINVAL);
    CHECK_FAILS(gpufs_fdopen(fs, made, "q"), NULL, EINVAL);
    CHECK_FAILS(gpufs_fdopen(fs, made, NULL), NULL, EFAULT);
    CHECK(gpufs_close(fs, made) == 0);
    file = gpufs_tmpfile(fs);
    CHECK(file != NULL && gpufs_fputs("gone", file) == 0 && gpufs_fseek(file, 1, SEEK_SET) == 0 && gpufs_fgetc(file) == 'o');
    CHECK(gpufs_fclose(file) == 0);
    CHECK_FAILS(gpufs_tmpfile(NULL), NULL, EINVAL);
    CHECK_FAILS(gpufs_fileno(NULL), -1, EBADF);
}

/* Descriptors twice, in one lane. */
static void twice(gpufs_session *fs, void *argument) {
    char text[64], path[20];
    (void)argument;
    int one = gpufs_open(fs, "twice", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(one > 2 && gpufs_write(fs, one, "0123456789", 10) == 10 && gpufs_lseek(fs, one, 4, SEEK_SET) == 4);
    int two = gpufs_dup(fs, one);
    /* A position of its own. */
    CHECK(two > 2 && two != one && gpufs_read(fs, two, text, 2) == 2 && memcmp(text, "45", 2) == 0);
    CHECK(gpufs_lseek(fs, one, 0, SEEK_CUR) == 4 && gpufs_close(fs, one) == 0 && gpufs_lseek(fs, two, 0, SEEK_CUR) == 6);
    /* Onto a number that nobody has, and onto one that has a file. */
    CHECK(gpufs_dup2(fs, two, one) == one && gpufs_dup2(fs, two, two) == two && gpufs_lseek(fs, one, 0, SEEK_CUR) == 6);
    int other = gpufs_open(fs, "other", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(gpufs_dup3(fs, other, one, O_CLOEXEC) == one && gpufs_write(fs, one, "abc", 3) == 3);
    CHECK(gpufs_pread(fs, other, text, sizeof text, 0) == 3 && memcmp(text, "abc", 3) == 0);
    /* Onto a stream's: it goes on in the new file, and what it held is in the old one. */
    gpufs_file *file = gpufs_fopen(fs, "before", "w");
    int its = gpufs_fileno(file);
    CHECK(gpufs_fputs("old", file) == 0 && gpufs_dup2(fs, two, its) == its && gpufs_fputs("new", file) == 0);
    CHECK(gpufs_ftell(file) == 9 && gpufs_fflush(file) == 0 && slurp("before", text, sizeof text) == 3 && strcmp(text, "old") == 0);
    CHECK(slurp("twice", text, sizeof text) == 10 && strcmp(text, "012345new9") == 0);
    CHECK(gpufs_fseek(file, 0, SEEK_SET) == 0 && gpufs_fgetc(file) == '0' && gpufs_fclose(file) == 0);
    CHECK_FAILS(gpufs_close(fs, its), -1, EBADF);
    /* Of the standard output, as shells and tests redirect it. */
    int saved = gpufs_dup(fs, 1);
    CHECK(saved > 2 && gpufs_dup2(fs, other, 1) == 1 && gpufs_puts(fs, "redirected") == 0 && gpufs_fflush(gpufs_stdout(fs)) == 0);
    CHECK(gpufs_dup2(fs, saved, 1) == 1 && gpufs_close(fs, saved) == 0);
    CHECK(slurp("other", text, sizeof text) == 11 && strcmp(text, "redirected\n") == 0);
    CHECK(gpufs_close(fs, one) == 0 && gpufs_close(fs, two) == 0 && gpufs_close(fs, other) == 0);
    const int wrong[] = {one, -1, 1 << 30};
    for (int i = 0; i < 3; i++) {
        CHECK_FAILS(gpufs_dup(fs, wrong[i]), -1, EBADF);
        CHECK_FAILS(gpufs_dup2(fs, wrong[i], 1), -1, EBADF);
        CHECK_FAILS(gpufs_dup3(fs, wrong[i], 1, 0), -1, EBADF);
    }
    CHECK_FAILS(gpufs_dup2(fs, one, one), -1, EBADF);
    CHECK_FAILS(gpufs_dup2(fs, 1, -1), -1, EBADF);
    CHECK_FAILS(gpufs_dup2(fs, 1, 1 << 30), -1, EBADF);
    CHECK_FAILS(gpufs_dup3(fs, 1, 1, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_dup3(fs, 1, one, O_APPEND), -1, EINVAL);
    CHECK_FAILS(gpufs_dup(NULL, 1), -1, EINVAL);
    CHECK_FAILS(gpufs_dup2(NULL, 1, 2), -1, EINVAL);
    CHECK_FAILS(gpufs_dup3(NULL, 1, 2, 0), -1, EINVAL);
    CHECK(gpufs_tmpnam(fs, path) == path && strncmp(path, "/tmp/", 5) == 0 && strlen(path) < 20 && access(path, F_OK) != 0);
    CHECK_FAILS(gpufs_tmpnam(fs, NULL), NULL, EFAULT);
    CHECK_FAILS(gpufs_tmpnam(NULL, path), NULL, EINVAL);
}

/* Descriptors, in one lane. */
static void descriptors(gpufs_session *fs, void *argument) {
    char bytes[16] = "0123456789";
    (void)argument;
    int file = gpufs_open(fs, "descriptors", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(file >= 0);
    CHECK(gpufs_write(fs, file, bytes, 10) == 10);
    CHECK(gpufs_pwrite(fs, file, "ab", 2, 4) == 2);
    CHECK(gpufs_lseek(fs, file, 2, SEEK_SET) == 2);
    CHECK(gpufs_read(fs, file, bytes, 5) == 5 && memcmp(bytes, "23ab6", 5) == 0);
    CHECK(gpufs_pread(fs, file, bytes, 16, 8) == 2 && gpufs_pread(fs, file, bytes, 16, 10) == 0);
    CHECK(gpufs_fsync(fs, file) == 0 && gpufs_fdatasync(fs, file) == 0);
    CHECK(gpufs_ftruncate(fs, file, 3) == 0 && gpufs_lseek(fs, file, 0, SEEK_END) == 3);
    CHECK_FAILS(gpufs_lseek(fs, file, -4, SEEK_END), -1, EINVAL);
    CHECK_FAILS(gpufs_pread(fs, file, bytes, 1, -1), -1, EINVAL);
    CHECK_FAILS(gpufs_pread(fs, file, NULL, 1, 0), -1, EFAULT);
    CHECK_FAILS(gpufs_pwrite(fs, file, NULL, 1, 0), -1, EFAULT);
    CHECK_FAILS(gpufs_read(fs, file, NULL, 1), -1, EFAULT);
    CHECK_FAILS(gpufs_write(fs, file, NULL, 1), -1, EFAULT);
    CHECK_FAILS(gpufs_write(fs, file, bytes, SIZE_MAX), -1, EINVAL);
    CHECK_FAILS(gpufs_ftruncate(fs, file, -1), -1, EINVAL);
    CHECK(gpufs_close(fs, file) == 0);
    int wrong[] = {file, -1, 1 << 20, INT32_MAX, INT32_MIN};
    for (size_t index = 0; index < sizeof wrong / sizeof *wrong; ++index) {
        CHECK_FAILS(gpufs_read(fs, wrong[index], bytes, 1), -1, EBADF);
        CHECK_FAILS(gpufs_write(fs, wrong[index], bytes, 1), -1, EBADF);
        CHECK_FAILS(gpufs_pread(fs, wrong[index], bytes, 1, 0), -1, EBADF);
        CHECK_FAILS(gpufs_pwrite(fs, wrong[index], bytes, 1, 0), -1, EBADF);
        CHECK_FAILS(gpufs_lseek(fs, wrong[index], 0, SEEK_SET), -1, EBADF);
        CHECK_FAILS(gpufs_fsync(fs, wrong[index]), -1, EBADF);
        CHECK_FAILS(gpufs_fdatasync(fs, wrong[index]), -1, EBADF);
        CHECK_FAILS(gpufs_ftruncate(fs, wrong[index], 0), -1, EBADF);
        CHECK_FAILS(gpufs_close(fs, wrong[index]), -1, EBADF);
    }
    CHECK_FAILS(gpufs_open(fs, "missing", O_RDONLY, 0), -1, ENOENT);
    CHECK_FAILS(gpufs_open(fs, NULL, O_RDONLY, 0), -1, EFAULT);
}

/* A grid that shares one stream: lanes that succeed beside lanes that fail, each with its own errno. */
struct shared {
    gpufs_file *file;
    int input;
    char *buffer;
};
static void grid(gpufs_session *fs, void *argument) {
    struct shared *shared = argument;
    unsigned long long thread = gpufs_thread();
    CHECK(gpufs_threads() == 3 * 50 && thread == gpufs_block() * 50 + gpufs_thread_in_block());
    for (int round = 0; round < 10; ++round) {
        if (thread % 3 == 0) {
            CHECK_FAILS(gpufs_fprintf(NULL, "%d", 1), -1, EBADF);
        } else if (thread % 3 == 1) {
            CHECK_FAILS(gpufs_fopen(fs, "missing", "r"), NULL, ENOENT);
        }
        CHECK(gpufs_fprintf(shared->file, "thread %3llu round %d\n", thread, round) == 19);
    }
    CHECK(gpufs_pread(fs, shared->input, shared->buffer + thread, 1, (int64_t)(thread % 26)) == 1);
    gpufs_nap(100);
}

static void nothing(gpufs_session *fs, void *argument) {
    (void)fs;
    ++*(int *)argument;
}

/* Waits for what never comes: the session's deadline ends it, by unwinding the lane through this function. */
static void waits(gpufs_session *fs, void *argument) {
    char byte;
    CHECK(gpufs_read(fs, *(int *)argument, &byte, 1) == 1);
    CHECK(!"reached");
}

static void *elsewhere(void *host) {
    /* Another thread's errors are its own. */
    CHECK(gpufs_last_error()[0] == '\0');
    CHECK(gpufs_host_launch(host, 0, 0, nothing, NULL) == -1);
    return NULL;
}

static void say(gpufs_session *fs, void *argument) {
    (void)fs;
    CHECK(gpufs_fputs("said\n", (gpufs_file *)argument) == 0);
}

/* Descriptors of the process become streams, and streams descriptors. */
static void between_host_and_session(gpufs_host *host) {
    char text[64];
    int ends[2];
    CHECK(pipe(ends) == 0);
    gpufs_file *file = gpufs_host_fdopen(host, ends[1], "w");
    CHECK(file != NULL && close(ends[1]) == 0);
    CHECK(gpufs_host_launch(host, 1, 3, say, file) == 0 && gpufs_host_synchronize(host) == 0);
    int other = gpufs_host_fileno(host, file);
    CHECK(other > 2 && write(other, "too\n", 4) == 4 && gpufs_host_fclose(host, file) == 0 && close(other) == 0);
    size_t bytes = 0;
    for (ssize_t got; (got = read(ends[0], text + bytes, sizeof text - bytes)) > 0;) bytes += (size_t)got;
    CHECK(bytes == 19 && memcmp(text, "said\nsaid\nsaid\ntoo\n", 19) == 0);
    CHECK_FAILS(gpufs_host_fileno(host, file), -1, EBADF);
    CHECK_FAILS(gpufs_host_fileno(host, NULL), -1, EBADF);
    /* A file: the stream begins where the descriptor stands, and the descriptor of the stream where that does. */
    int made = open("both", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(made > 2 && write(made, "0123456789", 10) == 10 && lseek(made, 4, SEEK_SET) == 4);
    file = gpufs_host_fdopen(host, made, "r+");
    CHECK(file != NULL && gpufs_host_launch(host, 1, 1, say, file) == 0 && gpufs_host_synchronize(host) == 0);
    other = gpufs_host_fileno(host, file);
    CHECK(other > 2 && other != made && lseek(other, 0, SEEK_CUR) == 9 && read(other, text, sizeof text) == 1 && *text == '9');
    CHECK(gpufs_host_launch(host, 1, 1, say, file) == 0 && gpufs_host_synchronize(host) == 0 && gpufs_host_fclose(host, file) == 0);
    CHECK(pread(other, text, sizeof text, 0) == 14 && memcmp(text, "0123said\nsaid\n", 14) == 0 && close(other) == 0);
    CHECK_FAILS(gpufs_host_fdopen(host, -1, "r"), NULL, EBADF);
    CHECK_FAILS(gpufs_host_fdopen(host, 1000000, "r"), NULL, EBADF);
    CHECK_FAILS(gpufs_host_fdopen(host, made, NULL), NULL, EFAULT);
    CHECK_FAILS(gpufs_host_fdopen(host, made, "q"), NULL, EINVAL);
    /* The pipe's end is for reading. A descriptor that was refused is the program's as before. */
    CHECK_FAILS(gpufs_host_fdopen(host, ends[0], "w"), NULL, EINVAL);
    CHECK(close(ends[0]) == 0 && close(made) == 0);
}

/* In a sandbox of the folder "confined". */
static void confined(gpufs_session *session, void *argument) {
    (void)argument;
    CHECK_FAILS(gpufs_open(session, "/etc/passwd", O_RDONLY, 0), -1, EACCES);
    CHECK_FAILS(gpufs_open(session, "confined/../alphabet", O_RDONLY, 0), -1, EACCES);
    int made = gpufs_open(session, "confined/made", O_WRONLY | O_CREAT, 0644);
    CHECK(made >= 0 && gpufs_close(session, made) == 0);
    int ends[2];
    char text[2] = "";
    CHECK(gpufs_socketpair(session, AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(gpufs_send(session, ends[0], "x", 1, 0) == 1 && gpufs_recv(session, ends[1], text, 2, 0) == 1 && *text == 'x');
    CHECK(gpufs_close(session, ends[0]) == 0 && gpufs_close(session, ends[1]) == 0);
    CHECK_FAILS(gpufs_socket(session, AF_UNIX, SOCK_STREAM, 0), -1, EACCES);
    int socket = gpufs_socket(session, AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_FAILS(gpufs_connect(session, socket, (struct sockaddr *)&peer, sizeof peer), -1, EACCES);
    peer.sin_addr.s_addr = htonl(INADDR_ANY);
    CHECK_FAILS(gpufs_bind(session, socket, (struct sockaddr *)&peer, sizeof peer), -1, EACCES);
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    peer.sin_port = 0;
    CHECK(gpufs_bind(session, socket, (struct sockaddr *)&peer, sizeof peer) == 0 && gpufs_close(session, socket) == 0);
}

/* A sandbox: wrong ones have a reason, and a right one holds. */
static void sandboxes(gpufs_options options) {
    gpufs_tree tree = {"no/such/folder", GPUFS_TREE_CREATE, 0};
    gpufs_reach reach = {"127.0.0.1", GPUFS_SOCKET_TCP_AT, 0};
    gpufs_sandbox sandbox = {.size = sizeof sandbox, .trees = &tree, .tree_count = 1, .socket_pairs = 1};
    options.sandbox = &sandbox;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, ENOTSUP);
    CHECK(strstr(gpufs_last_error(), "no/such/folder") != NULL || strstr(gpufs_last_error(), "sandbox") != NULL);
    tree.access = 4;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, EINVAL);
    tree.access = GPUFS_TREE_CREATE;
    sandbox.standard_streams = 2;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, EINVAL);
    sandbox.standard_streams = 0;
    sandbox.service_count = 1;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, EINVAL);
    sandbox.service_count = 0;
    sandbox.sockets = &reach;
    sandbox.socket_count = 1;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, EINVAL);
    CHECK(strstr(gpufs_last_error(), "\"127.0.0.1\" is no address") != NULL);
    reach.address = "127.0.0.1:0";
    reach.what = 5;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, EINVAL);
    reach.what = GPUFS_SOCKET_TCP_AT;
    sandbox.size = 8;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, EINVAL);
    sandbox.size = sizeof sandbox;
    tree.path = "confined";
    CHECK(mkdir("confined", 0755) == 0);
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, &options);
    if (host == NULL) {
        printf("SKIP sandboxes: %s\n", gpufs_last_error());
    } else {
        CHECK(gpufs_host_launch(host, 1, 1, confined, NULL) == 0 && gpufs_host_synchronize(host) == 0);
        CHECK(gpufs_host_close(host) == 0 && unlink("confined/made") == 0);
        /* A structure of before there were sockets. */
        sandbox.size = offsetof(gpufs_sandbox, sockets);
        CHECK((host = gpufs_host_open(GPUFS_CPU, 0, &options)) != NULL && gpufs_host_close(host) == 0);
    }
    CHECK(rmdir("confined") == 0);
}

int main(void) {
    /* Opening: what cannot be has a reason. */
    CHECK(gpufs_last_error()[0] == '\0');
    CHECK_FAILS(gpufs_host_open(7, 0, NULL), NULL, EINVAL);
    CHECK_FAILS(gpufs_host_open(GPUFS_HIP, 4096, NULL), NULL, ENODEV);
    CHECK(strstr(gpufs_last_error(), "AMD") != NULL);
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 3, NULL), NULL, EINVAL);
    CHECK_FAILS(gpufs_host_open(GPUFS_CUDA, 4096, NULL), NULL, ENODEV);
    gpufs_options options;
    memset(&options, 0, sizeof options);
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, EINVAL);
    CHECK(strstr(gpufs_last_error(), "sizeof") != NULL);
    options.size = sizeof options;
    options.rings = 65;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, EINVAL);
    CHECK(strstr(gpufs_last_error(), "rings: 65") != NULL);
    options.rings = 1;
    options.mode = 9;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, EINVAL);
    options.mode = GPUFS_MODE_BEST;
    options.ring_memory = 4;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, EINVAL);
    CHECK(strstr(gpufs_last_error(), "ring_memory 4") != NULL);
    options.ring_memory = GPUFS_RING_MEMORY_DEFAULT;
    options.quiet = 4;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, EINVAL);
    CHECK(strstr(gpufs_last_error(), "GPUFS_QUIET_") != NULL);
    options.quiet = GPUFS_QUIET_FALLBACK;
    options.survives = 3;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, EINVAL);
    options.survives = GPUFS_SURVIVES_YES;
    options.standard_output = 999;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, EBADF);
    options.standard_output = 0;
    options.gpu_registers = 7;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &options), NULL, EINVAL);
    CHECK(strstr(gpufs_last_error(), "gpu_registers: 7") != NULL);
    options.gpu_registers = 0;
    options.wait_limit_ms = 60000;
    options.assembly_bytes = GPUFS_NO_BYTES;
    options.read_ahead_bytes = 1 << 20;
    options.resident_warps = 2;
    options.seed = 7;
    gpufs_host *chosen = gpufs_host_open(GPUFS_CPU, 0, &options);
    CHECK(chosen != NULL && gpufs_host_close(chosen) == 0);
    options.survives = GPUFS_SURVIVES_NO;
    options.seed = 0;
    options.threads = 2;
    struct {
        gpufs_options options;
        uint32_t later[4];
    } newer = {options, {0, 0, 1, 0}};
    newer.options.size = sizeof newer;
    CHECK_FAILS(gpufs_host_open(GPUFS_CPU, 0, &newer.options), NULL, EINVAL);
    newer.later[2] = 0;
    gpufs_host *first = gpufs_host_open(GPUFS_CPU, 0, &newer.options);
    CHECK(first != NULL && gpufs_host_close(first) == 0);

    sandboxes(options);
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, &options);
    CHECK(host != NULL);
    CHECK(gpufs_host_session(host) != NULL && gpufs_host_begin(host) == 0);
    char text[256];
    CHECK(gpufs_host_describe(host, text, sizeof text) > 0 && strstr(text, "CPU lanes") == text);
    CHECK(gpufs_host_describe(host, NULL, 0) > 0);
    CHECK_FAILS(gpufs_host_adopt_credentials(NULL), -1, EINVAL);
    int ran = 0;
    CHECK(gpufs_host_launch(host, 1, 1, nothing, &ran) == 0);
    CHECK_FAILS(gpufs_host_adopt_credentials(host), -1, EBUSY);
    CHECK(gpufs_host_synchronize(host) == 0 && ran == 1);
    if (gpufs_host_adopt_credentials(host) != 0) {
        printf("SKIP gpufs_host_adopt_credentials: %s\n", gpufs_last_error());
    }

    CHECK(gpufs_host_launch(host, 1, 1, streams, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(slurp("untouched", text, sizeof text) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, descriptors, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, vectors, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, between, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, twice, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, endless, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, no_session, NULL) == 0 && gpufs_host_synchronize(host) == 0);

    /* The host opens, the grid writes, the host closes; a file and a buffer of the host's. */
    FILE *alphabet = fopen("alphabet", "w+");
    CHECK(fputs("abcdefghijklmnopqrstuvwxyz", alphabet) >= 0 && fflush(alphabet) == 0);
    struct shared shared;
    shared.file = gpufs_host_fopen(host, "grid", "w");
    shared.input = gpufs_host_register_file(host, fileno(alphabet));
    shared.buffer = gpufs_host_buffer(host, 150);
    CHECK(shared.file != NULL && shared.input > 2 && shared.buffer != NULL);
    CHECK(gpufs_host_launch(host, 3, 50, grid, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_fclose(host, shared.file) == 0);
    CHECK_FAILS(gpufs_host_fclose(host, shared.file), -1, EBADF);
    CHECK_FAILS(gpufs_host_fclose(host, NULL), -1, EBADF);
    CHECK(gpufs_host_unregister_file(host, shared.input) == 0);
    CHECK_FAILS(gpufs_host_unregister_file(host, shared.input), -1, EBADF);
    CHECK_FAILS(gpufs_host_unregister_file(host, -1), -1, EBADF);
    CHECK_FAILS(gpufs_host_register_file(host, -1), -1, EBADF);
    CHECK_FAILS(gpufs_host_register_file(host, 1000000), -1, EBADF);
    CHECK_FAILS(gpufs_host_buffer(host, SIZE_MAX), NULL, ENOMEM);
    CHECK(fclose(alphabet) == 0);
    for (int thread = 0; thread < 150; ++thread) {
        CHECK(shared.buffer[thread] == 'a' + thread % 26);
    }
    static char lines[40000];
    CHECK(slurp("grid", lines, sizeof lines) == 150 * 10 * 19);
    int seen[150] = {0};
    for (size_t at = 0; at < 150 * 10 * 19; at += 19) {
        int thread = -1, round = -1;
        CHECK(sscanf(lines + at, "thread %3d round %d\n", &thread, &round) == 2);
        CHECK(thread >= 0 && thread < 150 && round == seen[thread]++);
    }
    between_host_and_session(host);
    CHECK_FAILS(gpufs_host_fopen(host, "missing", "r"), NULL, ENOENT);
    CHECK(strstr(gpufs_last_error(), "missing") == gpufs_last_error());
    CHECK_FAILS(gpufs_host_fopen(host, NULL, "r"), NULL, EFAULT);

    CHECK(gpufs_version() == GPUFS_VERSION);

    gpufs_statistics statistics;
    memset(&statistics, 0, sizeof statistics);
    CHECK_FAILS(gpufs_host_statistics(host, &statistics), -1, EINVAL);
    statistics.size = sizeof statistics;
    CHECK(gpufs_host_statistics(host, &statistics) == 0);
    CHECK(statistics.rings == 1 && statistics.mode >= 1 && statistics.mode <= 3);
    CHECK(statistics.operations > 0 && statistics.operations == statistics.completions && statistics.stale == 0);
    CHECK(statistics.bytes_written >= 150 * 10 * 19);
    CHECK_FAILS(gpufs_host_statistics(host, NULL), -1, EINVAL);

    /* What failed above, by call and number. */
    gpufs_failure failures[256];
    const int kinds = gpufs_host_failures(host, failures, 256);
    CHECK(kinds > 3 && kinds <= 256 && gpufs_host_failures(host, NULL, 256) == kinds && gpufs_host_failures(host, failures, 1) == kinds);
    uint64_t failed = 0, missing = 0, refused = 0;
    for (int index = 0; index < kinds; ++index) {
        CHECK(failures[index].count > 0 && failures[index].error > 0);
        failed += failures[index].count;
        refused += strcmp(failures[index].call, "fopen") == 0 && failures[index].error == EFAULT ? failures[index].count : 0;
        missing += strcmp(failures[index].call, "fopen") == 0 && failures[index].error == ENOENT ? failures[index].count : 0;
    }
    CHECK(failed == statistics.failed_calls && missing >= 1 && refused >= 2);
    CHECK_FAILS(gpufs_host_failures(NULL, failures, 256), -1, EINVAL);

    /* Errors of the kernel's output come with the synchronization, and what was wrong stays theirs. */
    gpufs_file *full = gpufs_host_fopen(host, "/dev/full", "w");
    CHECK(full != NULL && gpufs_fprintf(full, "%d\n", 1) == 2);
    CHECK_FAILS(gpufs_host_synchronize(host), -1, ENOSPC);
    CHECK(strstr(gpufs_last_error(), "/dev/full") != NULL);
    CHECK_FAILS(gpufs_host_fclose(host, full), -1, ENOSPC);

    /* Launching. */
    int count = 0;
    CHECK_FAILS(gpufs_host_launch(host, 0, 1, nothing, &count), -1, EINVAL);
    CHECK_FAILS(gpufs_host_launch(host, 1, 1, NULL, &count), -1, EINVAL);
    CHECK(gpufs_host_launch(host, 1, 1, nothing, &count) == 0 && gpufs_host_synchronize(host) == 0 && count == 1);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, elsewhere, host) == 0 && pthread_join(thread, NULL) == 0);

    /* No host at all. */
    CHECK_FAILS(gpufs_host_session(NULL), NULL, EINVAL);
    CHECK_FAILS(gpufs_host_launch(NULL, 1, 1, nothing, &count), -1, EINVAL);
    CHECK_FAILS(gpufs_host_begin(NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_host_synchronize(NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_host_fopen(NULL, "x", "r"), NULL, EINVAL);
    CHECK_FAILS(gpufs_host_fclose(NULL, NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_host_fdopen(NULL, 0, "r"), NULL, EINVAL);
    CHECK_FAILS(gpufs_host_fileno(NULL, NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_host_register_file(NULL, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_host_unregister_file(NULL, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_host_buffer(NULL, 1), NULL, EINVAL);
    CHECK_FAILS(gpufs_host_describe(NULL, text, 1), -1, EINVAL);

    const char *looked_at[] = {"left", NULL};
    int status = -1;
    CHECK(gpufs_doctor(NULL, 0, &status, text, sizeof text) > (int)sizeof text && status >= 0 && status <= 2);
    CHECK(strlen(text) == sizeof text - 1 && strstr(text, "kernel") == text);
    CHECK(gpufs_doctor(looked_at, 1, NULL, NULL, 0) > 0);
    CHECK_FAILS(gpufs_doctor(looked_at, 2, NULL, text, sizeof text), -1, EINVAL);
    CHECK_FAILS(gpufs_doctor(NULL, 1, NULL, text, sizeof text), -1, EINVAL);
    CHECK_FAILS(gpufs_host_close(NULL), -1, EINVAL);

    /* A stream that the kernels left open is written when the session closes. */
    gpufs_file *left = gpufs_host_fopen(host, "left", "w");
    CHECK(left != NULL && gpufs_fprintf(left, "%s\n", "still here") == 11);
    CHECK(gpufs_host_close(host) == 0);
    CHECK(slurp("left", text, sizeof text) == 11 && strcmp(text, "still here\n") == 0);

    /* A kernel that does not end well is an error, and the program goes on. */
    int ends[2];
    CHECK(pipe(ends) == 0);
    options.deadline_ms = 200;
    host = gpufs_host_open(GPUFS_CPU, 0, &options);
    CHECK(host != NULL);
    int source = gpufs_host_register_file(host, ends[0]);
    CHECK(source >= 0 && gpufs_host_launch(host, 1, 3, waits, &source) == 0);
    CHECK_FAILS(gpufs_host_synchronize(host), -1, EIO);
    CHECK(strstr(gpufs_last_error(), "panicked") != NULL);
    CHECK(write(ends[1], "xyz", 3) == 3);
    CHECK(gpufs_host_close(host) == 0);
    puts("all calls are as they should be");
    return 0;
}

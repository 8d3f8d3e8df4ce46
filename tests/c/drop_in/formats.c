/* Formats under <gpufs/drop_in.h>, in a program that knows nothing of gpufs: what C23, POSIX and GNU have beside C99. Exits with the line of
 * the first check that fails, modulo 256. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#define CHECK(condition)                                           \
    do {                                                           \
        if (!(condition)) {                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            exit(1);                                               \
        }                                                          \
    } while (0)

static void prints(void) {
    char into[256], *made = NULL;
    int at = -1;
    CHECK(snprintf(into, sizeof into, "%2$s-%1$0*3$d", 7, "seven", 4) == 10 && strcmp(into, "seven-0007") == 0);
    errno = ENOENT;
    CHECK(sprintf(into, "%m|%ls|%lc%n|", L"wide", (wint_t)L'w', &at) == 33 && at == 32);
    CHECK(strcmp(into, "No such file or directory|wide|w|") == 0);
    CHECK(snprintf(into, sizeof into, "%#" PRIb8 " %" PRIbMAX, (unsigned char)5, (uintmax_t)9) == 10 &&
          strcmp(into, "0b101 1001") == 0);
    CHECK(asprintf(&made, "%*d", 3000, 1) == 3000 && strlen(made) == 3000 && made[2999] == '1');
    free(made);
    /* A full pointer in a list of more than registers take. */
    CHECK(sprintf(into, "%d%d%d%d%d%d%d%s%d", 1, 2, 3, 4, 5, 6, 7, "x", 8) == 9 && strcmp(into, "1234567x8") == 0);
    CHECK(printf("%-3s|%5.1f\n", "a", 2.25) == 10);
}

/* C has no limit for the length of a format. */
static void long_formats(void) {
    size_t times = 2000, i;
    char *format = malloc(4 * times + 1), *into = malloc(times + 1), *text = malloc(2 * times + 1);
    int value = 0;
    CHECK(format != NULL && into != NULL && text != NULL);
    for (i = 0; i < times; ++i) {
        memcpy(format + 4 * i, "%1$d", 5);
    }
    CHECK(snprintf(into, times + 1, format, 3) == (int)times && into[0] == '3' && into[times - 1] == '3');
    for (i = 0; i < times; ++i) {
        memcpy(format + 3 * i, "%*d", 4);
        memcpy(text + 2 * i, "5 ", 3);
    }
    memcpy(format + 3 * (times - 1), "%d", 3);
    CHECK(sscanf(text, format, &value) == 1 && value == 5);
    free(format);
    free(into);
    free(text);
}

static void scans(void) {
    char *word = NULL, rest = 0;
    int value = 77, second = 0;
    double real = 0;
    CHECK(sscanf("some words", "%ms %n", &word, &value) == 1 && strcmp(word, "some") == 0 && value == 5);
    free(word);
    CHECK(sscanf("0b101", "%i", &value) == 1 && value == 5);
    CHECK(sscanf("0b101 0x1F", "%" SCNb32 "%x", (uint32_t *)&value, (unsigned *)&second) == 2 && value == 5 && second == 31);
    /* A prefix is no number, and is read all the same. */
    value = 77;
    CHECK(sscanf("0xz", "%i", &value) == 0 && value == 77);
    CHECK(sscanf("0xz", "%*x%c", &rest) == 0);
    CHECK(sscanf("2 1", "%2$d%1$d", &value, &second) == 2 && value == 1 && second == 2);
    CHECK(sscanf("nan(123)5", "%lf%d", &real, &value) == 2 && real != real && value == 5);
    CHECK(sscanf("nan(12.5)", "%lf", &real) == 0);
}

/* The names of glibc for files of 64 bits, and descriptors. */
static void files(void) {
    struct stat64 status;
    char into[8] = "";
    int file = open64("formats.txt", O_RDWR | O_CREAT | O_TRUNC, 0600);
    FILE *stream;
    fpos64_t place;
    char *line = NULL;
    size_t room = 0;
    CHECK(file >= 0 && dprintf(file, "%s-%d", "abc", 12) == 6);
    CHECK(fstat64(file, &status) == 0 && status.st_size == 6);
    CHECK(pwrite64(file, "x", 1, 1) == 1 && pread64(file, into, 7, 0) == 6 && strcmp(into, "axc-12") == 0);
    CHECK(ftruncate64(file, 3) == 0 && close(file) == 0);
    CHECK(stat64("formats.txt", &status) == 0 && status.st_size == 3 && lstat64("not-there", &status) == -1);
    CHECK((stream = fopen64("formats.txt", "r")) != NULL && fgetc(stream) == 'a' && fgetpos64(stream, &place) == 0);
    CHECK((stream = freopen64("formats.txt", "r", stream)) != NULL && fsetpos64(stream, &place) == 0);
    CHECK(fgetc(stream) == 'x' && fwide(stream, -1) < 0 && __fsetlocking(stream, FSETLOCKING_BYCALLER) == 1);
    /* At the end of a file, too, what getline allocates is a string. */
    CHECK(fgetc(stream) == 'c' && getline(&line, &room, stream) == -1 && feof(stream) && room != 0 && line[0] == 0);
    free(line);
    CHECK(fclose(stream) == 0);
}

/* Streams on memory, descriptors twice. */
static void memory(void) {
    char fixed[16] = "", name[L_tmpnam], *text = NULL;
    size_t bytes = 0;
    FILE *stream = fmemopen(fixed, sizeof fixed, "w");
    int twice = dup(1);
    CHECK(stream != NULL && fprintf(stream, "%d", 17) == 2 && fclose(stream) == 0 && strcmp(fixed, "17") == 0);
    CHECK((stream = fmemopen(fixed, 0, "q")) == NULL && errno == EINVAL);
    CHECK((stream = open_memstream(&text, &bytes)) != NULL && fputs("text", stream) >= 0 && fflush(stream) == 0 && bytes == 4);
    CHECK(fputc('s', stream) == 's' && fclose(stream) == 0 && bytes == 5 && strcmp(text, "texts") == 0);
    free(text);
    CHECK(twice > 2 && dup2(twice, 1) == 1 && dup3(1, twice, 0) == twice && close(twice) == 0 && dup(twice) == -1 && errno == EBADF);
    CHECK(tmpnam(name) == name && access(name, F_OK) == -1 && tmpnam(NULL) != NULL);
}

int main(void) {
    memory();
    prints();
    long_formats();
    scans();
    files();
    return 0;
}

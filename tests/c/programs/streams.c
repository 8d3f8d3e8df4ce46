/* What the tests of stdio of LLVM's libc cover, function by function, written anew: each line names what it is about and what
 * the calls said. No line depends on how much a stream has of buffer. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *name_of(int error) { return error == 0 ? "" : strerror(error); }

/* A call, its result, and the error where there is one. */
#define SAY(call)                                                                  \
    do {                                                                           \
        long result_;                                                              \
        errno = 0;                                                                 \
        result_ = (long)(call);                                                    \
        printf("%s: %ld %s\n", #call, result_, result_ < 0 ? name_of(errno) : ""); \
    } while (0)

static FILE *file(const char *path, const char *mode, const char *text) {
    FILE *made = fopen(path, "w");
    fputs(text, made);
    fclose(made);
    return fopen(path, mode);
}

static void opening(void) {
    static const char *const modes[] = {"r", "w", "a", "r+", "w+", "a+", "rb", "wbx", "wx", "r+b", "", "z", "rw"};
    for (size_t at = 0; at < sizeof modes / sizeof *modes; ++at) {
        FILE *made = file("open.txt", "r", "four"), *opened;
        fclose(made);
        errno = 0;
        opened = fopen("open.txt", modes[at]);
        printf("fopen %s: %d %s", modes[at], opened != NULL, opened == NULL ? name_of(errno) : "");
        if (opened != NULL) {
            char byte = 0;
            size_t read = fread(&byte, 1, 1, opened);
            printf(" read %zu, error %d, end %d", read, ferror(opened) != 0, feof(opened) != 0);
            clearerr(opened);
            fseek(opened, 0, SEEK_CUR);
            printf(" put %d at %ld", fputc('x', opened), ftell(opened));
            printf(" close %d", fclose(opened));
        }
        printf("\n");
    }
    errno = 0;
    printf("fopen none: %d %s\n", fopen("none.txt", "r") == NULL, name_of(errno));
    errno = 0;
    printf("fopen folder: %d %s\n", fopen(".", "w") == NULL, name_of(errno));
    int descriptor = open("open.txt", O_RDWR | O_CREAT | O_TRUNC, 0600);
    FILE *stream = fdopen(descriptor, "w");
    printf("fdopen: %d, %d, %d\n", stream != NULL, fileno(stream) == descriptor, fputs("by descriptor", stream) >= 0);
    SAY(fclose(stream));
    SAY(close(descriptor));
    errno = 0;
    printf("fdopen closed: %d %s\n", fdopen(descriptor, "r") == NULL, name_of(errno));
    stream = file("open.txt", "r", "first");
    stream = freopen("other.txt", "w+", stream);
    SAY(fputs("second", stream) >= 0);
    rewind(stream);
    char line[16] = "";
    printf("freopen: %s\n", fgets(line, sizeof line, stream));
    SAY(fclose(stream));
    SAY(remove("other.txt"));
    SAY(remove("other.txt"));
    SAY(rename("open.txt", "moved.txt"));
    SAY(rename("open.txt", "moved.txt"));
    SAY(mkdir("folder", 0700));
    SAY(rename("moved.txt", "folder"));
    int folder = open("folder", O_RDONLY | O_DIRECTORY);
    SAY(renameat(AT_FDCWD, "moved.txt", folder, "in.txt"));
    SAY(renameat(folder, "none", folder, "in.txt"));
    SAY(remove("folder"));
    SAY(remove("folder/in.txt"));
    SAY(close(folder));
    SAY(remove("folder"));
}

static void bytes(void) {
    char line[8], text[32] = "";
    FILE *stream = file("bytes.txt", "r+", "ab\ncdefghijkl\n\nend");
    SAY(fgetc(stream));
    SAY(getc(stream));
    SAY(ungetc('Z', stream));
    SAY(ungetc(EOF, stream));
    SAY(ftell(stream));
    SAY(fgetc(stream));
    while (fgets(line, sizeof line, stream) != NULL) {
        printf("fgets %zu:%.*s|\n", strlen(line), (int)strcspn(line, "\n"), line);
    }
    printf("end %d, error %d, again %d\n", feof(stream) != 0, ferror(stream) != 0, fgetc(stream));
    SAY(fseek(stream, -3, SEEK_END));
    SAY(feof(stream));
    SAY(fread(text, 2, 5, stream));
    printf("%s\n", text);
    SAY(fseek(stream, -1, SEEK_SET));
    SAY(fseek(stream, 0, 7));
    rewind(stream);
    fpos_t place;
    SAY(fgetpos(stream, &place));
    SAY(fputc('X', stream));
    SAY(putc('Y', stream));
    SAY(fputs("Z-", stream) >= 0);
    SAY(fwrite("0123", 2, 2, stream));
    SAY(fflush(stream));
    SAY(fsetpos(stream, &place));
    SAY(fgetc_unlocked(stream));
    SAY(getc_unlocked(stream));
    SAY(fread_unlocked(text, 1, 4, stream));
    SAY(fseek(stream, 0, SEEK_CUR));
    SAY(fwrite_unlocked("!", 1, 1, stream));
    SAY(ftello(stream));
    flockfile(stream);
    SAY(putc_unlocked('?', stream));
    funlockfile(stream);
    SAY(fclose(stream));
    stream = fopen("bytes.txt", "r");
    SAY(fputc('x', stream));
    printf("error %d\n", ferror(stream) != 0);
    SAY(fwrite("x", 1, 1, stream));
    SAY(fread(text, 0, 5, stream));
    SAY(fread(text, 1, sizeof text - 1, stream));
    SAY(fclose(stream));
    stream = fopen("bytes.txt", "w");
    SAY(fgetc(stream));
    SAY(setvbuf(stream, NULL, _IOFBF, 4096));
    SAY(fputs("kept", stream) >= 0);
    SAY(access("bytes.txt", F_OK));
    SAY(fclose(stream));
    stream = fopen("bytes.txt", "w");
    setbuf(stream, NULL);
    SAY(fputs("at once", stream) >= 0);
    struct stat about;
    SAY(stat("bytes.txt", &about));
    printf("%ld bytes\n", (long)about.st_size);
    printf("setvbuf: %d\n", setvbuf(stream, NULL, 99, 10) != 0);
    SAY(fclose(stream));
    SAY(remove("bytes.txt"));
}

static void memory(void) {
    char text[12] = "memory";
    FILE *stream = fmemopen(text, sizeof text, "r+");
    SAY(fgetc(stream));
    SAY(fseek(stream, 0, SEEK_END));
    SAY(ftell(stream));
    SAY(fputs("!!", stream) >= 0);
    SAY(fflush(stream));
    printf("%s\n", text);
    SAY(fclose(stream));
    stream = tmpfile();
    SAY(fprintf(stream, "%d", 12345));
    rewind(stream);
    int number = 0;
    SAY(fscanf(stream, "%d", &number));
    printf("%d\n", number);
    SAY(fclose(stream));
    char path[L_tmpnam];
    printf("tmpnam: %d %d\n", tmpnam(path) == path, access(path, F_OK));
}

static int by_list(char **into, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int result = vasprintf(into, format, list);
    va_end(list);
    return result;
}

static int list_into(char *into, size_t room, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int result = vsnprintf(into, room, format, list);
    va_end(list);
    return result;
}

static int list_from(const char *text, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int result = vsscanf(text, format, list);
    va_end(list);
    return result;
}

static void printing(void) {
    char text[96], *made = NULL;
    SAY(asprintf(&made, "%s-%d", "made", 7));
    printf("%s\n", made);
    free(made);
    SAY(by_list(&made, "%0500d", 1));
    free(made);
    SAY(list_into(text, 5, "%s", "longer than five"));
    printf("%s\n", text);
    SAY(snprintf(NULL, 0, "%d", 1234567));
    SAY(snprintf(text, 1, "%d", 1234567));
    for (int at = -2; at < 3; ++at) {
        printf("%d|%5d|%-5d|%05d|%+d|% d|%.3d|%x|%#X|%o|%#o|%u\n", at, at, at, at, at, at, at, at, at, at, at, at);
        printf("%hhd|%hd|%ld|%lld|%jd|%zd|%td|%*d|%-*d|%.*d\n", (signed char)at, (short)at, (long)at, (long long)at, (intmax_t)at,
               (ssize_t)at, (ptrdiff_t)at, 6, at, 6, at, at, at);
    }
    printf("%b|%#b|%08b|%c|%3c|%-3c|%s|%.2s|%6.2s|%-6s|%%\n", 5, 5, 5, 'c', 'c', 'c', "text", "text", "text", "text");
    static const double numbers[] = {0.0, -0.0, 1.0, -1.5, 0.1, 1e10, 1.2345678901234e100, 5e-324, 123456.789, INFINITY, -INFINITY};
    for (size_t at = 0; at < sizeof numbers / sizeof *numbers; ++at) {
        double x = numbers[at];
        printf("%f|%.0f|%#.0f|%e|%.3E|%g|%G|%a|%10.2f|%-10.1e|%+g|% g|%010.3f\n", x, x, x, x, x, x, x, x, x, x, x, x, x);
    }
    printf("%2$s %1$s\n", "second", "first");
    printf("%p %s\n", (void *)0x1234, "after");
    int count = 0;
    printf("counted%n", &count);
    printf(" %d\n", count);
    fprintf(stdout, "to %s\n", "stdout");
    puts("puts");
    putchar('p');
    putc('\n', stdout);
    errno = ENOENT;
    perror("perror");
}

static void scanning(void) {
    int one = 0, two = 0, places = 0;
    unsigned hex = 0;
    long wide = 0;
    double real = 0;
    float half = 0;
    char word[16] = "", set[16] = "", byte = 0, *made = NULL;
    SAY(sscanf("12 -7", "%d%d", &one, &two));
    SAY(sscanf("0x1f 077", "%i %i", &one, &two));
    printf("%d %d\n", one, two);
    SAY(sscanf("ff 17", "%x %lo", &hex, &wide));
    printf("%x %ld\n", hex, wide);
    SAY(sscanf("3.25 -1e3", "%lf %f", &real, &half));
    printf("%g %g\n", real, (double)half);
    SAY(sscanf("0x1.8p3 inf nan", "%lf %f", &real, &half));
    printf("%g %g\n", real, (double)half);
    SAY(sscanf("word rest", "%s%n", word, &places));
    printf("%s %d\n", word, places);
    SAY(sscanf("abcxyz123", "%[a-c]%*[x-z]%d", set, &one));
    printf("%s %d\n", set, one);
    SAY(sscanf("]x", "%[]x]", set));
    printf("%s\n", set);
    SAY(sscanf("q", "%[^q]", set));
    SAY(sscanf("12345", "%2d%3d", &one, &two));
    printf("%d %d\n", one, two);
    SAY(sscanf("  c", "%c", &byte));
    printf("%d\n", byte);
    SAY(sscanf("  c", " %c", &byte));
    printf("%d\n", byte);
    SAY(sscanf("50%", "%d%%%n", &one, &places));
    printf("%d\n", places);
    SAY(sscanf("", "%d", &one));
    SAY(sscanf("x", "%d", &one));
    SAY(sscanf("1,2", "%d,%d", &one, &two));
    SAY(sscanf("1;2", "%d,%d", &one, &two));
    SAY(sscanf("allocated", "%ms", &made));
    printf("%s\n", made);
    free(made);
    SAY(list_from("7 8 9", "%d %*d %d", &one, &two));
    printf("%d %d\n", one, two);
    FILE *stream = file("scan.txt", "r", "10 20\nword 0x1g\n");
    SAY(fscanf(stream, "%d", &one));
    SAY(fscanf(stream, "%d", &two));
    SAY(fscanf(stream, "%d", &two));
    SAY(fscanf(stream, "%15s", word));
    SAY(fscanf(stream, "%x", &hex));
    SAY(fscanf(stream, "%d", &two));
    printf("%d %s %d\n", one, word, feof(stream) != 0);
    SAY(fclose(stream));
    SAY(remove("scan.txt"));
}

int main(void) {
    opening();
    bytes();
    memory();
    printing();
    scanning();
    return 0;
}

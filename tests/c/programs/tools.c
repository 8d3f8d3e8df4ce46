/* Programs in the manner of Unix's join, paste, cut, nl and cmp, on files that the program makes, and uncommon ways to use
 * streams. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

static void make(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(text, file) == EOF || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static FILE *opened(const char *path) {
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

/* join: lines of two sorted files with the same first field. Groups of equal keys are joined each with each. */
struct rows {
    FILE *file;
    char *line, *ahead;
    size_t room;
    char *rows[16];
    size_t count;
};

static char *next_line(struct rows *rows) {
    ssize_t length;
    if (rows->ahead != NULL) {
        char *line = rows->ahead;
        rows->ahead = NULL;
        return line;
    }
    length = getline(&rows->line, &rows->room, rows->file);
    if (length < 0) {
        return NULL;
    }
    rows->line[strcspn(rows->line, "\n")] = 0;
    return strdup(rows->line);
}

static int key_order(const char *left, const char *right) {
    size_t one = strcspn(left, " "), other = strcspn(right, " ");
    int order = strncmp(left, right, one < other ? one : other);
    return order != 0 ? order : (one > other) - (one < other);
}

static int next_group(struct rows *rows) {
    char *line;
    while (rows->count != 0) {
        free(rows->rows[--rows->count]);
    }
    while ((line = next_line(rows)) != NULL) {
        if (rows->count != 0 && (rows->count == 16 || key_order(rows->rows[0], line) != 0)) {
            rows->ahead = line;
            break;
        }
        rows->rows[rows->count++] = line;
    }
    return rows->count != 0;
}

static void join(const char *left_path, const char *right_path) {
    struct rows left = {.file = opened(left_path)}, right = {.file = opened(right_path)};
    int has_left = next_group(&left), has_right = next_group(&right);
    while (has_left && has_right) {
        int order = key_order(left.rows[0], right.rows[0]);
        if (order == 0) {
            for (size_t one = 0; one < left.count; ++one) {
                for (size_t other = 0; other < right.count; ++other) {
                    printf("%s%s\n", left.rows[one], strchr(right.rows[other], ' '));
                }
            }
        }
        has_left = order <= 0 ? next_group(&left) : has_left;
        has_right = order >= 0 ? next_group(&right) : has_right;
    }
    printf("join: ends %d %d\n", feof(left.file) != 0, feof(right.file) != 0);
    fclose(left.file);
    fclose(right.file);
    free(left.line);
    free(right.line);
}

/* paste: lines of several files beside each other, or one after the other. */
static void paste(const char *const *paths, int count, const char *between, int serial) {
    FILE *files[4];
    int open = count;
    for (int at = 0; at < count; ++at) {
        files[at] = opened(paths[at]);
    }
    for (int at = 0; serial && at < count; ++at) {
        int byte;
        while ((byte = getc(files[at])) != EOF) {
            if (byte != '\n') {
                putchar(byte);
            } else if ((byte = getc(files[at])) != EOF) {
                putchar(between[0]);
                ungetc(byte, files[at]);
            }
        }
        putchar('\n');
    }
    while (!serial && open > 0) {
        char row[256] = "";
        for (int at = 0; at < count; ++at) {
            char field[64] = "";
            if (files[at] != NULL && fscanf(files[at], "%63[^\n]", field) == EOF) {
                fclose(files[at]);
                files[at] = NULL;
                --open;
            } else if (files[at] != NULL) {
                (void)fgetc(files[at]);
            }
            snprintf(row + strlen(row), sizeof row - strlen(row), "%s%.*s", field, at + 1 < count, &between[at % (int)strlen(between)]);
        }
        if (open > 0) {
            puts(row);
        }
    }
    for (int at = 0; at < count; ++at) {
        if (files[at] != NULL) {
            fclose(files[at]);
        }
    }
}

/* cut: bytes or fields of each line, by a list such as -2,4,6-. */
static int in_list(const char *list, long place) {
    while (*list != 0) {
        long first = *list == '-' ? 1 : strtol(list, (char **)&list, 10), last = first;
        if (*list == '-') {
            last = isdigit((unsigned char)*++list) ? strtol(list, (char **)&list, 10) : LONG_MAX;
        }
        if (place >= first && place <= last) {
            return 1;
        }
        list += *list == ',';
    }
    return 0;
}

static void cut(const char *path, const char *list, int separator) {
    FILE *file = opened(path);
    char *part = NULL;
    size_t room = 0;
    ssize_t length;
    long place = 0;
    int written = 0;
    setvbuf(file, NULL, _IOFBF, 7);
    while ((length = getdelim(&part, &room, separator, file)) > 0) {
        char *end = memchr(part, '\n', (size_t)length);
        /* A separator that is none of this line's. */
        if (end != NULL && end[1] != 0) {
            fseek(file, (long)(end + 1 - part) - length, SEEK_CUR);
        }
        length = end != NULL ? end - part : length - (part[length - 1] == separator);
        if (in_list(list, ++place)) {
            printf("%s%.*s", written++ ? "|" : "", (int)length, part);
        }
        if (end != NULL) {
            putchar('\n');
            place = written = 0;
        }
    }
    free(part);
    fclose(file);
}

/* nl: numbers of the lines that are not empty. */
static void number(const char *path, const char *format, int width) {
    FILE *file = opened(path);
    int count = 0, byte;
    while ((byte = getc_unlocked(file)) != EOF) {
        if (byte == '\n') {
            printf("%*s\n", width + 1, "");
            continue;
        }
        printf(format, width, ++count);
        do {
            putc_unlocked(byte, stdout);
        } while (byte != '\n' && (byte = getc_unlocked(file)) != EOF);
    }
    rewind(file);
    printf("nl: %d lines, %ld\n", count, ftell(file));
    fclose(file);
}

/* cmp: where files differ. */
static int compare(const char *left_path, const char *right_path, int all) {
    FILE *left = opened(left_path), *right = opened(right_path);
    char buffer[BUFSIZ];
    long place = 1, line = 1;
    int one, other, differ = 0;
    setbuf(left, buffer);
    setbuf(right, NULL);
    do {
        one = fgetc(left);
        other = fgetc(right);
        if (one != other) {
            differ = 1;
            if (one == EOF || other == EOF) {
                printf("cmp: EOF on %s after byte %ld\n", one == EOF ? left_path : right_path, place - 1);
            } else if (all) {
                printf("%4ld %3o %3o\n", place, (unsigned)one, (unsigned)other);
            } else {
                printf("%s %s differ: byte %ld, line %ld\n", left_path, right_path, place, line);
            }
        }
        ++place;
        line += one == '\n';
    } while (one != EOF && other != EOF && (all || !differ));
    fclose(left);
    fclose(right);
    return differ;
}

static void say(const char *format, ...) {
    va_list list, again;
    char *text = NULL;
    va_start(list, format);
    va_copy(again, list);
    vprintf(format, list);
    printf(" [%d]\n", vasprintf(&text, format, again));
    va_end(again);
    va_end(list);
    free(text);
}

static void numbers(void) {
    static const char *const texts[] = {"9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551615",
                                        "18446744073709551616", "-18446744073709551615", "0x1ffffffffffffffff", "99999999999", "1e999",
                                        "1e-999", "4e-320", "0x1p-1074", "0x1.8p-1074", "-1e39", "12"};
    for (size_t at = 0; at < sizeof texts / sizeof *texts; ++at) {
        int plain = 0, taken = 0;
        long wide = 0;
        unsigned long bare = 0;
        intmax_t based = 0;
        double real = 0;
        float narrow = 0;
        printf("%s:", texts[at]);
        errno = 0;
        printf(" %d", sscanf(texts[at], "%d%n", &plain, &taken));
        printf(" %d %d %s;", plain, taken, errno == ERANGE ? "range" : "-");
        errno = 0;
        printf(" %d", sscanf(texts[at], "%ld", &wide));
        printf(" %ld %s;", wide, errno == ERANGE ? "range" : "-");
        errno = 0;
        printf(" %d", sscanf(texts[at], "%lu", &bare));
        printf(" %lu %s;", bare, errno == ERANGE ? "range" : "-");
        errno = 0;
        printf(" %d", sscanf(texts[at], "%ji", &based));
        printf(" %jd %s;", based, errno == ERANGE ? "range" : "-");
        errno = 0;
        printf(" %d", sscanf(texts[at], "%lf", &real));
        printf(" %a %s;", real, errno == ERANGE ? "range" : "-");
        errno = 0;
        printf(" %d", sscanf(texts[at], "%f", &narrow));
        printf(" %a %s\n", (double)narrow, errno == ERANGE ? "range" : "-");
    }
}

static void memory(void) {
    char *text = NULL, fixed[16] = "0123456789abcde";
    wchar_t *wide = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    fprintf(file, "%s-%04d", "text", 17);
    fflush(file);
    printf("%zu %s, ", size, text);
    fseeko(file, 12, SEEK_SET);
    fputs("far", file);
    fflush(file);
    printf("%zu %d %s, ", size, text[10], text + 12);
    fseek(file, 4, SEEK_SET);
    fputc('+', file);
    fclose(file);
    printf("%zu %.*s\n", size, (int)size, text);
    free(text);
    file = open_wmemstream(&wide, &size);
    fwprintf(file, L"%ls %d", L"wide", 5);
    fputwc(L'!', file);
    fflush(file);
    printf("%zu %ls, ", size, wide);
    fputws(L" more", file);
    fclose(file);
    printf("%zu %ls\n", size, wide);
    free(wide);
    file = fmemopen(fixed, sizeof fixed, "r+");
    fseek(file, -4, SEEK_END);
    printf("%c", fgetc(file));
    printf("%ld ", ftell(file));
    fseek(file, 2, SEEK_SET);
    fputs("xy", file);
    fclose(file);
    puts(fixed);
}

static void streams(void) {
    char line[64], again[64];
    fpos_t place;
    FILE *file = fopen("made", "wx"), *other;
    int count, saved, number, first = 0;
    fputs("alpha 1\nbeta 2\ngamma 3\n", file);
    printf("%ld ", ftell(file));
    printf("%d\n", fclose(file));
    file = fopen("made", "wx");
    printf("%d %s\n", file == NULL, strerror(errno));
    file = fopen("made", "r+");
    fgets(line, sizeof line, file);
    fgetpos(file, &place);
    count = fscanf(file, "%s %d", again, &number);
    printf("%d %s %d %ld\n", count, again, number, ftell(file));
    fsetpos(file, &place);
    fputs("BETA", file);
    fseek(file, 0, SEEK_CUR);
    printf("%c", fgetc(file));
    printf("%c\n", fgetc(file));
    for (int at = 'z'; at > 'v'; --at) {
        first += ungetc(at, file) == at;
    }
    printf("%d ", first > 0);
    fseek(file, -8, SEEK_END);
    printf("%zu", fread(line, 3, 10, file));
    printf(" %d %d %.8s\n", feof(file) != 0, ferror(file), line);
    clearerr(file);
    fseek(file, 0, SEEK_END);
    printf("%d ", feof(file));
    printf("%d ", fputc('x', file));
    printf("%d ", fflush(file));
    printf("%d ", ftruncate(fileno(file), 5));
    errno = ENOENT;
    printf("%d %d ", posix_fadvise(fileno(file), 0, 0, POSIX_FADV_RANDOM), posix_fadvise(fileno(file), 0, 0, 99) == EINVAL);
    printf("%d %d ", posix_fadvise(777, 0, 0, 0) == EBADF, posix_fallocate(777, 0, 1) == EBADF);
    printf("%d ", errno == ENOENT);
    fseek(file, 0, SEEK_END);
    printf("%ld\n", ftell(file));
    fclose(file);
    file = fopen("made", "a+");
    printf("%d ", fgetc(file));
    fseek(file, 0, SEEK_SET);
    fputs("+end", file);
    printf("%ld ", ftell(file));
    rewind(file);
    printf("%s\n", fgets(line, sizeof line, file));
    other = freopen("other", "w", file);
    printf("%d %d\n", other == file, fprintf(other, "%1$s %3$d %2$s", "one", "two", 3));
    fclose(other);
    file = fopen("other", "r");
    count = fscanf(file, "%*s %2$d %1$s", line, &number);
    printf("%d %s %d ", count, line, number);
    printf("%d\n", fscanf(file, "%d", &number));
    printf("%d ", fputc('x', file));
    printf("%d\n", ferror(file) != 0);
    fclose(file);
    /* The standard output into a file, and back. */
    fflush(stdout);
    saved = dup(STDOUT_FILENO);
    number = open("caught", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(number, STDOUT_FILENO);
    close(number);
    printf("caught\n");
    dprintf(STDOUT_FILENO, "%s", "");
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    printf("back: %s", fgets(line, sizeof line, other = fopen("caught", "r")));
    printf("%d\n", fclose(other));
    file = tmpfile();
    count = fprintf(file, "%5.2f|%-6s|%+d|%#o|%%|%c|%08.3e", 3.14159, "ab", 5, 8u, 'c', 1234.5);
    rewind(file);
    printf("%d %s ", count, fgets(line, sizeof line, file));
    rewind(file);
    printf("%d", fscanf(file, "%f|%7[^|]|%i|%o|%%|%c|%*e%n", &(float){0}, again, &number, (unsigned *)&count, line, &first));
    printf(" '%s' %d %d %c %d\n", again, number, count, *line, first);
    fclose(file);
    say("%s %.3s %*d %-*d|%zu %hhd %jd %p %a", "all", "kinds", 5, 42, 4, 7, sizeof(int), (signed char)300, (intmax_t)-1, (void *)0, 0.5);
    say("%e %G %g %.0f %#.0f %.10g % d %'d %x %X %c%c", 1e100, 1e-10, 1e5, 2.5, 1.0, 0.1, 5, 1000, 255u, 255u, 'a', 0);
    say("%f %F %e %5s|%-5s|%.1s|%05d|%+.2e", INFINITY, -INFINITY, NAN, "a", "b", "cd", -42, 12345.678);
}

/* Calls that few programs make. */
static void uncommon(void) {
    char path[] = "tempXXXXXX", *here = getcwd(NULL, 0), *again = getcwd(NULL, 4000);
    struct dirent entry, *found = NULL;
    int file = mkostemp(path, 0), count = 0;
    DIR *folder = opendir(".");
    FILE *words = tmpfile();
    printf("%d %d\n", here != NULL && again != NULL && strcmp(here, again) == 0, getcwd(NULL, 1) == NULL && errno == ERANGE);
    free(here);
    free(again);
    while (readdir_r(folder, &entry, &found) == 0 && found == &entry) {
        count += strcmp(entry.d_name, path) == 0;
    }
    printf("%d %d ", count, closedir(folder));
    printf("%d ", (int)write(file, "0123456789", 10));
    lseek(file, 4, SEEK_SET);
    printf("%d %d %d %d ", lockf(file, F_TEST, 0), lockf(file, F_TLOCK, 4), lockf(file, F_LOCK, 0), lockf(file, F_ULOCK, 0));
    printf("%d\n", lockf(file, 9, 0) == -1 && errno == EINVAL);
    close(file);
    remove(path);
    putw(0x41424344, words);
    putw(-1, words);
    rewind(words);
    printf("%x", (unsigned)getw(words));
    printf(" %d", getw(words));
    printf(" %d", getw(words));
    printf(" %d\n", feof(words) != 0);
    fclose(words);
}

int main(void) {
    static const char *const both[] = {"left", "lines", "right"};
    make("left", "a 1\nb 2\nb 3\nd 4\nlong key\n");
    make("right", "a x\nb y\nb z\nc w\nlong tail of it\n");
    make("lines", "one:two:three\n\nfour::five:six\nno separator\n:last");
    join("left", "right");
    paste(both, 3, ",;", 0);
    paste(both, 3, "+", 1);
    cut("lines", "1,3-", ':');
    cut("lines", "-2", 'o');
    number("lines", "%*d  ", 4);
    number("left", "%0*d:", 3);
    printf("%d\n", compare("left", "left", 0));
    printf("%d\n", compare("left", "right", 0));
    printf("%d\n", compare("left", "right", 1));
    numbers();
    memory();
    streams();
    uncommon();
    for (int at = 0; at < 6; ++at) {
        static const char *const made[] = {"left", "right", "lines", "made", "other", "caught"};
        printf("%d", remove(made[at]));
    }
    printf(" %d\n", remove("made"));
    return 3;
}

/* A program that knows nothing of gpufs, and what it asks of the C library. Its output on a GPU and on CPU lanes is that of
 * the machine's own compiler. Run with arguments, GPUFS_TOUR=word in the environment, and text on the standard input. */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void last(void) { printf("last\n"); }
static void before_last(void) { printf("before last\n"); }

struct pair {
    int key, place;
};

static int by_key(const void *left, const void *right) {
    return ((const struct pair *)left)->key - ((const struct pair *)right)->key;
}

static void numbers(void) {
    char *end;
    printf("%ld %lu %lld %d\n", strtol(" -0x1fz", &end, 0), strtoul("777", NULL, 8), strtoll("9223372036854775808", NULL, 10),
           atoi("42 cats"));
    printf("rest %s\n", end);
    errno = 0;
    printf("%ld %d\n", strtol("-99999999999999999999", NULL, 10), errno == ERANGE);
    printf("%a %a %a %g\n", strtod("0x1.8p-3", NULL), strtod("1e-310", NULL), strtod("123456789012345678e-5", NULL),
           strtod("  -inf", NULL));
    printf("%d %" PRId64 " %zu\n", abs(-3), INT64_C(-5), sizeof(long));
    div_t divided = div(17, -5);
    printf("%d %d\n", divided.quot, divided.rem);
    srand(7);
    for (int draw = 0; draw < 3; ++draw) {
        printf("%d ", rand());
    }
    printf("\n%.12g %.12g %.12g %.12g %.3f\n", sin(1.0), pow(2.0, 0.5), exp(1.0), atan2(1.0, -1.0), fmod(7.5, 2.0));
    printf("%d %d %d\n", (int)floor(-1.5), (int)lround(2.5), isnan(sqrt(-1.0)) != 0);
}

static void strings(void) {
    char text[64] = "one,two;;three";
    for (char *word = strtok(text, ",;"); word != NULL; word = strtok(NULL, ",;")) {
        printf("[%s]", word);
    }
    char copy[16];
    memset(copy, 'x', sizeof copy);
    strncpy(copy, "abcdef", 4);
    copy[4] = 0;
    printf(" %s %d %s %s %zu\n", copy, strcmp("a", "b") < 0, strstr("haystack", "st"), strrchr("a/b/c", '/'),
           strspn("aabbc", "ab"));
    memmove(copy + 1, copy, 4);
    printf("%.5s %c%c %d\n", copy, toupper('q'), tolower('Q'), !!isspace('\t') + !!ispunct('!') + !!isxdigit('g'));
}

static void memory(void) {
    char *grown = NULL;
    size_t bytes = 1;
    for (int round = 0; round < 12; ++round, bytes *= 2) {
        grown = realloc(grown, bytes);
        assert(grown != NULL);
        memset(grown + bytes / 2, 'a' + round, bytes - bytes / 2);
    }
    printf("%c%c%c\n", grown[0], grown[100], grown[2047]);
    free(grown);
    int *zeros = calloc(100, sizeof *zeros), sum = 0;
    for (int at = 0; at < 100; ++at) {
        sum += zeros[at];
    }
    free(zeros);
    errno = 0;
    volatile size_t too_much = SIZE_MAX / 4;
    void *none = malloc(too_much);
    printf("%d %d %d\n", sum, none == NULL, errno == ENOMEM);
    struct pair pairs[] = {{3, 0}, {1, 1}, {3, 2}, {2, 3}, {1, 4}};
    qsort(pairs, 5, sizeof pairs[0], by_key);
    for (int at = 0; at < 5; ++at) {
        printf("%d:%d ", pairs[at].key, pairs[at].place);
    }
    struct pair wanted = {2, 0};
    struct pair *found = bsearch(&wanted, pairs, 5, sizeof pairs[0], by_key);
    printf("found %d\n", found->place);
    char *word = NULL;
    int end = 0;
    printf("%d", sscanf("  allocated, here", "%m[a-z], %n", &word, &end));
    printf(" %s %d\n", word != NULL ? word : "(none)", end);
    free(word);
}

static void calendar(void) {
    time_t day = 951782400;
    char text[64];
    strftime(text, sizeof text, "%Y-%m-%d %A %j", gmtime(&day));
    printf("%s %d\n", text, time(NULL) > 1700000000);
    /* The clock that files have their times of. */
    FILE *made = fopen("made.time", "w");
    struct stat about;
    if (made == NULL || fputc('x', made) == EOF || fflush(made) != 0 || stat("made.time", &about) != 0) {
        perror("made.time");
        return;
    }
    sleep(2);
    printf("%d seconds\n", time(NULL) - about.st_mtime >= 1);
    fclose(made);
    remove("made.time");
}

int main(int argc, char **argv) {
    atexit(last);
    atexit(before_last);
    for (int at = 1; at < argc; ++at) {
        printf("argument %d: %s\n", at, argv[at]);
    }
    const char *word = getenv("GPUFS_TOUR");
    printf("%s, %s\n", word != NULL ? word : "no word", getenv("GPUFS_NOT_THERE") == NULL ? "null" : "there");
    numbers();
    strings();
    memory();
    calendar();
    int lines = 0;
    for (int byte; (byte = getchar()) != EOF;) {
        lines += byte == '\n';
    }
    printf("%d lines\n", lines);
    FILE *file = fopen("made.txt", "w");
    assert(file != NULL);
    fprintf(file, "%s\n", argv[0] != NULL ? "kept" : "lost");
    if (argc > 1 && strcmp(argv[1], "early") == 0) {
        exit(3); /* the stream is written, too */
    }
    fclose(file);
    return 258 + argc;
}

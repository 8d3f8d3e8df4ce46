/* Functions of gpufs-libc, whose names begin with ours_ here, beside the machine's C library: the same arguments from a seed,
 * and the same results. tests/tests/c_library.rs builds it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <glob.h>
#include <locale.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "../../../gpufs-libc/c/program.h"

struct gpufs_program *ours_gpufs_program_;
extern char **ours_environ;
extern char *ours_optarg;
extern int ours_optind, ours_opterr, ours_optopt;
char *ours_getenv(const char *);
int ours_setenv(const char *, const char *, int), ours_unsetenv(const char *), ours_putenv(char *);
int ours_fnmatch(const char *, const char *, int), ours_strverscmp(const char *, const char *);
char *ours_strsignal(int);
char *ours_strptime(const char *, const char *, struct tm *);
size_t ours_strftime(char *, size_t, const char *, const struct tm *);
int ours_getopt(int, char *const[], const char *);
int ours_getopt_long(int, char *const[], const char *, const struct option *, int *);
void *ours_malloc(size_t), *ours_realloc(void *, size_t), ours_free(void *);
int ours_posix_memalign(void **, size_t, size_t);
double ours_drand48(void), ours_strtod(const char *, char **);
long ours_lrand48(void), ours_mrand48(void), ours_strtol(const char *, char **, int);
void ours_srand48(long);
/* A structure of gpufs-libc's own. */
struct state {
    unsigned value;
    unsigned char missing, bytes;
};
size_t ours_mbrtowc(wchar_t *, const char *, size_t, struct state *);
size_t ours_mbstowcs(wchar_t *, const char *, size_t), ours_wcstombs(char *, const wchar_t *, size_t);
wchar_t *ours_wcsstr(const wchar_t *, const wchar_t *), *ours_wcstok(wchar_t *, const wchar_t *, wchar_t **);
int ours_wcsncmp(const wchar_t *, const wchar_t *, size_t), ours_wcscasecmp(const wchar_t *, const wchar_t *);
long ours_wcstol(const wchar_t *, wchar_t **, int);
double ours_wcstod(const wchar_t *, wchar_t **);
size_t ours_wcsspn(const wchar_t *, const wchar_t *);
wchar_t *ours_wcsrchr(const wchar_t *, wchar_t), *ours_wcsncpy(wchar_t *, const wchar_t *, size_t);

struct found {
    size_t count;
    char **paths;
    size_t offset;
};
int ours_glob(const char *, int, int (*)(const char *, int), struct found *);
void ours_globfree(struct found *);
int ours_scandir(const char *, struct dirent ***, int (*)(const struct dirent *), int (*)(const struct dirent **, const struct dirent **));

int ours_inet_pton(int, const char *, void *), ours_inet_aton(const char *, struct in_addr *);
const char *ours_inet_ntop(int, const void *, char *, socklen_t);
in_addr_t ours_inet_addr(const char *);
char *ours_inet_ntoa(struct in_addr);

typedef int comparison(const void *, const void *);
void *ours_lsearch(const void *, void *, size_t *, size_t, comparison *), *ours_lfind(const void *, const void *, size_t *, size_t, comparison *);
void *ours_tsearch(const void *, void **, comparison *), *ours_tfind(const void *, void *const *, comparison *);
void *ours_tdelete(const void *, void **, comparison *);
void ours_twalk(const void *, void (*)(const void *, VISIT, int));

/* What the C half asks of the other parts. */
void gpufs_libc_errno_(int error) { errno = error; }
_Noreturn void gpufs_die_(const char *text) {
    fputs(text, stderr);
    abort();
}
uint64_t gpufs_libc_decimal(const unsigned char *text, size_t bytes, int is_float) {
    char copy[512];
    union {
        double number;
        uint64_t bits;
    } whole;
    union {
        float number;
        uint32_t bits;
    } half;
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    whole.number = strtod(copy, NULL);
    half.number = strtof(copy, NULL);
    return is_float ? half.bits : whole.bits;
}

static uint64_t seed = 1;
static unsigned drawn(unsigned below) {
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (unsigned)(seed >> 33) % below;
}
static void text_of(char *into, unsigned most, const char *letters) {
    unsigned length = drawn(most);
    for (unsigned at = 0; at < length; ++at) {
        into[at] = letters[drawn((unsigned)strlen(letters))];
    }
    into[length] = 0;
}

static int failures;
#define CHECK(condition, ...)                              \
    do {                                                   \
        if (!(condition) && ++failures <= 20) {            \
            printf("%d: %s: ", __LINE__, #condition);      \
            printf(__VA_ARGS__);                           \
            putchar('\n');                                 \
        }                                                  \
    } while (0)

static int sign(int value) { return (value > 0) - (value < 0); }

static void environments(void) {
    for (int round = 0; round < 20000; ++round) {
        char name[8], value[8];
        text_of(name, 4, "ABC=");
        text_of(value, 6, "xy=");
        int overwrite = (int)drawn(2), one, other;
        switch (drawn(4)) {
        case 0: one = setenv(name, value, overwrite), other = ours_setenv(name, value, overwrite); break;
        case 1: one = unsetenv(name), other = ours_unsetenv(name); break;
        case 2: {
            char *line = malloc(32);
            snprintf(line, 32, "%s=%s", name, value);
            /* glibc takes a name of no letters, and does not find it again. */
            one = other = 0;
            if (line[0] != '=') { one = putenv(line), other = ours_putenv(strdup(line)); }
            break;
        }
        default: one = other = 0;
        }
        CHECK(one == other, "%s %s", name, value);
        const char *left = getenv(name), *right = ours_getenv(name);
        CHECK((left == NULL) == (right == NULL) && (left == NULL || strcmp(left, right) == 0), "%s", name);
    }
}

static void names(void) {
    for (int round = 0; round < 300000; ++round) {
        char pattern[12], name[8];
        text_of(pattern, 7, "ab*?./\\");
        text_of(name, 7, "ab./");
        if (drawn(3) == 0) {
            static const char *const brackets[] = {"[ab]", "[!a]", "[a-c]", "[^b]", "[]a]", "[!]a]", "[a-]", "[[:alpha:]]", "[\\]]"};
            strcat(pattern, "*");
            strcpy(strchr(pattern, '*'), brackets[drawn(9)]);
        }
        size_t end = strlen(pattern);
        /* A backslash at the end escapes nothing: undefined. glibc has a slash behind one match no slash. */
        if ((end != 0 && pattern[end - 1] == '\\') || strstr(pattern, "\\/") != NULL) {
            continue;
        }
        int flags = (int)drawn(32);
        int one = fnmatch(pattern, name, flags), other = ours_fnmatch(pattern, name, flags);
        CHECK(one == other, "fnmatch(%s, %s, %d): %d %d", pattern, name, flags, one, other);
        text_of(pattern, 9, "019a");
        text_of(name, 8, "019a");
        one = sign(strverscmp(pattern, name)), other = sign(ours_strverscmp(pattern, name));
        CHECK(one == other, "strverscmp(%s, %s): %d %d", pattern, name, one, other);
    }
    for (int number = 1; number < 32; ++number) {
        CHECK(strcmp(strsignal(number), ours_strsignal(number)) == 0, "%d: %s %s", number, strsignal(number), ours_strsignal(number));
    }
}

static int by_value(const void *left, const void *right) {
    return (*(const int *)left > *(const int *)right) - (*(const int *)left < *(const int *)right);
}
/* The keys that a walk meets in order. */
static int met[64], meetings;
static void meet(const void *entry, VISIT order, int depth) {
    (void)depth;
    if ((order == postorder || order == leaf) && meetings < 64) {
        met[meetings++] = **(const int *const *)entry;
    }
}

static void searches(void) {
    static int keys[40];
    int list[40], ours[40];
    size_t count = 0, our_count = 0;
    void *root = NULL, *our_root = NULL;
    for (int at = 0; at < 40; ++at) {
        keys[at] = at;
    }
    for (int round = 0; round < 20000; ++round) {
        const int *key = &keys[drawn(40)];
        int *left = lsearch(key, list, &count, sizeof *list, by_value), *right = ours_lsearch(key, ours, &our_count, sizeof *ours, by_value);
        CHECK(left - list == right - ours && count == our_count, "lsearch");
        CHECK(ours_lfind(key, ours, &our_count, sizeof *ours, by_value) == right, "lfind");
        if (drawn(2) == 0) {
            const int **one = tsearch(key, &root, by_value), **other = ours_tsearch(key, &our_root, by_value);
            CHECK(one != NULL && other != NULL && *one == *other, "tsearch");
        } else {
            void *one = tdelete(key, &root, by_value), *other = ours_tdelete(key, &our_root, by_value);
            CHECK((one == NULL) == (other == NULL), "tdelete");
        }
        key = &keys[drawn(40)];
        const int **one = tfind(key, &root, by_value), **other = ours_tfind(key, &our_root, by_value);
        CHECK((one == NULL) == (other == NULL) && (one == NULL || *one == *other), "tfind");
        if (round % 100 == 0) {
            int first[64];
            meetings = 0;
            twalk(root, meet);
            int before = meetings;
            memcpy(first, met, sizeof met);
            meetings = 0;
            ours_twalk(our_root, meet);
            CHECK(before == meetings && memcmp(first, met, sizeof met[0] * (size_t)before) == 0, "twalk: %d %d", before, meetings);
        }
    }
}

/* tests/c/libc/beside_files.c: how many differ. */
int walks(void), users(void);

static int is_long(const struct dirent *entry) { return strlen(entry->d_name) > 2; }

static void folders(void) {
    static const char *const parts[] = {"*", "a*", "?", "[a-c]*", ".*", "b", "none", "*b*", "\\a", "[!a]?"};
    char path[32];
    for (int at = 0; at < 27; ++at) {
        snprintf(path, sizeof path, "tree");
        mkdir(path, 0755);
        snprintf(path, sizeof path, "tree/%c%s", "abc"[at % 3], at / 3 % 3 == 0 ? "" : at / 3 % 3 == 1 ? "b" : ".x");
        mkdir(path, 0755);
        snprintf(path + strlen(path), 8, "/%c%s", ".ab"[at / 9], at % 2 ? "a" : "zz");
        fclose(fopen(path, "w"));
    }
    for (int round = 0; round < 3000; ++round) {
        char pattern[64];
        snprintf(pattern, sizeof pattern, "tree/%s", parts[drawn(10)]);
        if (drawn(2) == 0) {
            snprintf(pattern + strlen(pattern), 16, "%s%s", drawn(2) ? "/" : "//", parts[drawn(10)]);
        } else if (drawn(3) == 0) {
            strcat(pattern, "/");
        }
        /* With GLOB_NOCHECK glibc takes a slash from the end of a pattern. */
        int is_name = pattern[strlen(pattern) - 1] != '/';
        int flags = (drawn(2) ? GLOB_MARK : 0) | (drawn(2) && is_name ? GLOB_NOCHECK : 0) | (drawn(4) ? 0 : GLOB_NOESCAPE);
        glob_t left;
        struct found right;
        int one = glob(pattern, flags, NULL, &left), other = ours_glob(pattern, flags, NULL, &right);
        CHECK(one == other && (one != 0 || left.gl_pathc == right.count), "glob(%s, %d): %d %d", pattern, flags, one, other);
        for (size_t at = 0; one == 0 && other == 0 && at < left.gl_pathc && left.gl_pathc == right.count; ++at) {
            CHECK(strcmp(left.gl_pathv[at], right.paths[at]) == 0, "glob(%s): %s %s", pattern, left.gl_pathv[at], right.paths[at]);
        }
        if (one == 0) {
            globfree(&left);
        }
        ours_globfree(&right);
    }
    struct dirent **left, **right;
    int one = scandir("tree", &left, is_long, alphasort), other = ours_scandir("tree", &right, is_long, alphasort);
    CHECK(one == other && one > 0, "scandir: %d %d", one, other);
    for (int at = 0; at < one && one == other; ++at) {
        CHECK(strcmp(left[at]->d_name, right[at]->d_name) == 0, "scandir: %s %s", left[at]->d_name, right[at]->d_name);
        ours_free(right[at]);
    }
    CHECK(ours_scandir("none", &right, NULL, NULL) == -1 && errno == ENOENT, "scandir: %d", errno);
}

static void times(void) {
    static const char *const formats[] = {"%Y-%m-%d %H:%M:%S", "%c", "%D %T", "%F %R", "%d %b %Y %I:%M %p", "%A, %B %e, %Y",
                                          "%j %Y", "%s", "%C %y-%m-%d", "%y%m%d", "%r", "%a%n%d%t%h %u %w", "%%%H", "%H %z"};
    for (int round = 0; round < 20000; ++round) {
        time_t seconds = (time_t)drawn(4000000000u);
        struct tm parts, one, other;
        char text[64], again[64];
        const char *format = formats[drawn(14)];
        gmtime_r(&seconds, &parts);
        CHECK(strftime(text, 64, format, &parts) == ours_strftime(again, 64, format, &parts), "%s", format);
        CHECK(strcmp(text, again) == 0, "%s: %s %s", format, text, again);
        if (drawn(4) == 0) {
            text[drawn(8)] = "x 9-"[drawn(4)];
        }
        memset(&one, 0, sizeof one);
        memset(&other, 0, sizeof other);
        char *left = strptime(text, format, &one), *right = ours_strptime(text, format, &other);
        CHECK(left == right, "%s: %s: %td %td", format, text, left ? left - text : -1, right ? right - text : -1);
        if (left != NULL && right != NULL) {
            CHECK(one.tm_sec == other.tm_sec && one.tm_min == other.tm_min && one.tm_hour == other.tm_hour &&
                  one.tm_gmtoff == other.tm_gmtoff &&
                  one.tm_mday == other.tm_mday && one.tm_mon == other.tm_mon && one.tm_year == other.tm_year, "%s: %s", format, text);
        }
    }
}

static void options(void) {
    static const struct option known[] = {{"all", no_argument, NULL, 'A'}, {"size", required_argument, NULL, 'S'},
                                          {"maybe", optional_argument, NULL, 'M'}, {NULL, 0, NULL, 0}};
    static char *const words[] = {"-a", "-b", "x", "file", "-abx", "-bvalue", "-", "--", "--all", "--size", "--size=3", "--maybe=1",
                                  "--ma", "-c", "-cx", "--none", "-z"};
    static const char *const letters[] = {"ab:c::", "+ab:c::", "-ab:c::", ":ab:c::"};
    opterr = ours_opterr = 0;
    for (int round = 0; round < 100000; ++round) {
        char *left[9], *right[9];
        int count = 1 + (int)drawn(8), is_long = (int)drawn(2);
        const char *wanted = letters[drawn(4)];
        for (int at = 0; at < count; ++at) {
            left[at] = right[at] = at == 0 ? "p" : words[drawn(17)];
        }
        left[count] = right[count] = NULL;
        optind = ours_optind = 0;
        for (int one = 0, steps = 0; one != -1 && steps < 40; ++steps) {
            int index = -1, other_index = -1, other;
            one = is_long ? getopt_long(count, left, wanted, known, &index) : getopt(count, left, wanted);
            other = is_long ? ours_getopt_long(count, right, wanted, known, &other_index) : ours_getopt(count, right, wanted);
            CHECK(one == other && index == other_index && (one == -1 || optarg == ours_optarg), "%s %s: %d %d, %d %d", wanted, left[1], one,
                  other, index, other_index);
            CHECK((one != '?' && one != ':') || optopt == ours_optopt, "%d %d", optopt, ours_optopt);
            if (one != other) {
                break;
            }
        }
        CHECK(optind == ours_optind && memcmp(left, right, sizeof left[0] * (size_t)count) == 0, "%s %s %s %s: %d %d", wanted,
              count > 1 ? right[1] : "", count > 2 ? right[2] : "", count > 3 ? right[3] : "", optind, ours_optind);
    }
}

static void memory(void) {
    unsigned char *blocks[64] = {NULL};
    size_t sizes[64] = {0};
    for (int round = 0; round < 100000; ++round) {
        unsigned at = drawn(64), bytes = drawn(2000);
        for (size_t byte = 0; blocks[at] != NULL && byte < sizes[at]; ++byte) {
            CHECK(blocks[at][byte] == (unsigned char)(at + byte), "block %u", at);
        }
        if (blocks[at] != NULL && drawn(2) == 0) {
            unsigned char *moved = ours_realloc(blocks[at], bytes);
            CHECK(moved != NULL, "%u", bytes);
            for (size_t byte = 0; byte < (bytes < sizes[at] ? bytes : sizes[at]); ++byte) {
                CHECK(moved[byte] == (unsigned char)(at + byte), "moved %u", at);
            }
            blocks[at] = moved;
        } else {
            unsigned alignment = 8u << drawn(8);
            void *block = NULL;
            ours_free(blocks[at]);
            CHECK(ours_posix_memalign(&block, alignment, bytes) == 0 && (uintptr_t)block % alignment == 0, "%u %u", alignment, bytes);
            blocks[at] = block;
        }
        for (size_t byte = 0; byte < bytes; ++byte) {
            blocks[at][byte] = (unsigned char)(at + byte);
        }
        sizes[at] = bytes;
    }
    void *block = &sizes;
    CHECK(ours_posix_memalign(&block, 24, 8) == EINVAL && ours_posix_memalign(&block, 4, 8) == EINVAL && block == &sizes, "alignments");
    CHECK(ours_posix_memalign(&block, 64, SIZE_MAX / 8) == ENOMEM, "too much");
}

static void wide(void) {
    static const unsigned char starts[] = {0, 'a', 0x7f, 0x80, 0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0xe2, 0xed, 0xef, 0xf0, 0xf1, 0xf4, 0xff};
    for (int round = 0; round < 300000; ++round) {
        char bytes[8];
        for (int at = 0; at < 8; ++at) {
            bytes[at] = (char)(drawn(2) ? starts[drawn(16)] : 0x80 + drawn(0x40));
        }
        mbstate_t state;
        struct state own = {0, 0, 0};
        memset(&state, 0, sizeof state);
        for (size_t from = 0, length = drawn(7); from < length;) {
            wchar_t one = 1, other = 1;
            size_t step = 1 + drawn((unsigned)(length - from)), left, right;
            left = mbrtowc(&one, bytes + from, step, &state);
            right = ours_mbrtowc(&other, bytes + from, step, &own);
            /* What is above U+10FFFF or a surrogate is none for Unicode, whatever the C library has of it. */
            if (left == (size_t)-1 || right == (size_t)-1) {
                CHECK(right == (size_t)-1, "bytes %02x %02x: %zd %zd", (unsigned char)bytes[from], (unsigned char)bytes[from + 1],
                      (ssize_t)left, (ssize_t)right);
                break;
            }
            CHECK(left == right && (left == (size_t)-2 || one == other), "%zd %zd, %x %x", (ssize_t)left, (ssize_t)right, one, other);
            from += left == (size_t)-2 ? step : left == 0 ? 1 : left;
        }
    }
    for (int round = 0; round < 100000; ++round) {
        wchar_t string[12], needle[4], *end, *other, copy[12], again[12], *rest, *our_rest;
        unsigned length = drawn(11), part = drawn(3);
        for (unsigned at = 0; at < length; ++at) {
            string[at] = L"ab\u00e4\u00c4 1-.\u20ac\U0001f600"[drawn(10)];
        }
        string[length] = 0;
        for (unsigned at = 0; at < part; ++at) {
            needle[at] = L"ab\u00e4"[drawn(3)];
        }
        needle[part] = 0;
        CHECK(wcsstr(string, needle) == ours_wcsstr(string, needle), "wcsstr");
        CHECK(wcsspn(string, L"ab ") == ours_wcsspn(string, L"ab "), "wcsspn");
        CHECK(wcsrchr(string, L'a') == ours_wcsrchr(string, L'a'), "wcsrchr");
        CHECK(sign(wcsncmp(string, needle, part)) == sign(ours_wcsncmp(string, needle, part)), "wcsncmp");
        CHECK(sign(wcscasecmp(string, needle)) == sign(ours_wcscasecmp(string, needle)), "wcscasecmp");
        CHECK(wcstol(string, &end, 10) == ours_wcstol(string, &other, 10) && end == other, "wcstol");
        CHECK(wcstod(string, &end) == ours_wcstod(string, &other) && end == other, "wcstod");
        wcsncpy(copy, string, 12);
        ours_wcsncpy(again, string, 12);
        CHECK(memcmp(copy, again, sizeof copy) == 0, "wcsncpy");
        end = wcstok(copy, L" -", &rest);
        other = ours_wcstok(again, L" -", &our_rest);
        CHECK((end == NULL) == (other == NULL) && (end == NULL || (end - copy == other - again && wcscmp(end, other) == 0)), "wcstok");
        char text[64] = "", ours[64] = "";
        size_t most = drawn(50), left = wcstombs(text, string, most), right = ours_wcstombs(ours, string, most);
        CHECK(left == right && memcmp(text, ours, left) == 0, "wcstombs %zu %zu of %zu", left, right, most);
        left = wcstombs(text, string, 64);
        most = drawn(12);
        wmemset(copy, 7, 12);
        wmemset(again, 7, 12);
        left = mbstowcs(copy, text, most), right = ours_mbstowcs(again, text, most);
        CHECK(left == right && memcmp(copy, again, sizeof copy) == 0, "mbstowcs %zu %zu of %zu", left, right, most);
    }
}

/* Addresses as text, and back: half of them drawn letter by letter, half with words of which many are zero. */
static void addresses(void) {
    unsigned good = 0;
    for (int round = 0; round < 300000; ++round) {
        static const char *const parts[] = {"0", "1", "127", "255", "256", "08", "017", "0x1f", ".",
                                            ".", ":", ":", "::", "ffff", "DB8", " ", "12345"};
        char text[64] = "", one[64], other[64];
        unsigned char words[16], left[16] = {0}, right[16] = {0};
        for (unsigned at = drawn(2) == 0 ? drawn(9) : 7; at > 0; --at) {
            strcat(text, parts[drawn(17)]);
        }
        for (int at = 0; at < 16; at += 2) {
            words[at] = drawn(4) == 0 ? (unsigned char)drawn(256) : 0;
            words[at + 1] = drawn(2) == 0 ? (unsigned char)drawn(256) : 0;
        }
        if (drawn(4) == 0) {
            memset(words, 0, 10);
            memset(words + 10, drawn(2) == 0 ? 0xff : 0, 2);
        }
        socklen_t room = drawn(8) == 0 ? drawn(46) : sizeof one;
        for (int family = AF_INET; family <= AF_INET6; family += AF_INET6 - AF_INET) {
            errno = 0;
            const char *made = inet_ntop(family, words, one, room);
            int error = errno;
            errno = 0;
            const char *ours = ours_inet_ntop(family, words, other, room);
            CHECK((made == NULL) == (ours == NULL) && error == errno, "%u bytes", room);
            CHECK(made == NULL || strcmp(one, other) == 0, "%s, not %s", other, one);
            int taken = inet_pton(family, text, left);
            CHECK(taken == ours_inet_pton(family, text, right) && memcmp(left, right, 16) == 0, "%s", text);
            if (made != NULL) {
                taken += inet_pton(family, one, left);
                CHECK(ours_inet_pton(family, one, right) == 1 && memcmp(left, right, 16) == 0, "%s", one);
            }
            good += (unsigned)taken;
        }
        struct in_addr here = {1}, there = {1};
        CHECK(inet_aton(text, &here) == ours_inet_aton(text, &there) && here.s_addr == there.s_addr, "%s", text);
        CHECK(inet_addr(text) == ours_inet_addr(text), "%s", text);
        CHECK(strcmp(inet_ntoa(here), ours_inet_ntoa(here)) == 0, "%#x", here.s_addr);
    }
    CHECK(good > 100000, "%u", good);
    CHECK(ours_inet_pton(99, "1.2.3.4", &good) == -1 && errno == EAFNOSUPPORT, "%d", errno);
    CHECK(ours_inet_ntop(99, &good, NULL, 0) == NULL && errno == EAFNOSUPPORT, "%d", errno);
}

int main(void) {
    static struct gpufs_program program;
    program.heap_bytes = 64 << 20;
    program.heap = aligned_alloc(4096, program.heap_bytes);
    ours_gpufs_program_ = &program;
    setenv("TZ", "UTC", 1);
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) {
        puts("there is no locale C.UTF-8");
        return 77;
    }
    clearenv();
    CHECK(lrand48() == ours_lrand48() && lrand48() == ours_lrand48(), "before a seed");
    srand48(17);
    ours_srand48(17);
    for (int round = 0; round < 1000; ++round) {
        CHECK(drand48() == ours_drand48() && lrand48() == ours_lrand48() && mrand48() == ours_mrand48(), "round %d", round);
    }
    environments();
    names();
    folders();
    failures += walks();
    failures += users();
    searches();
    times();
    options();
    memory();
    wide();
    addresses();
    printf("%d failures\n", failures);
    return failures != 0;
}

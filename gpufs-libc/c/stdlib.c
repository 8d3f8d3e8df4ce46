/* Numbers, sorting, searching and random numbers of <stdlib.h> and <inttypes.h>, and <ctype.h>: C11 7.22, 7.8, 7.4. */
#include "program.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

int isdigit(int byte) { return (unsigned)byte - '0' < 10; }
int islower(int byte) { return (unsigned)byte - 'a' < 26; }
int isupper(int byte) { return (unsigned)byte - 'A' < 26; }
int isalpha(int byte) { return ((unsigned)byte | 32) - 'a' < 26; }
int isalnum(int byte) { return isalpha(byte) || isdigit(byte); }
int isblank(int byte) { return byte == ' ' || byte == '\t'; }
int isspace(int byte) { return byte == ' ' || (unsigned)byte - '\t' < 5; }
int iscntrl(int byte) { return (unsigned)byte < 32 || byte == 127; }
int isprint(int byte) { return (unsigned)byte - 32 < 95; }
int isgraph(int byte) { return (unsigned)byte - 33 < 94; }
int ispunct(int byte) { return isgraph(byte) && !isalnum(byte); }
int isxdigit(int byte) { return isdigit(byte) || ((unsigned)byte | 32) - 'a' < 6; }
int isascii(int byte) { return (unsigned)byte < 128; }
int toascii(int byte) { return byte & 127; }
int tolower(int byte) { return isupper(byte) ? byte | 32 : byte; }
int toupper(int byte) { return islower(byte) ? byte & ~32 : byte; }

static int digit_of(char letter) {
    int byte = (unsigned char)letter;
    return isdigit(byte) ? byte - '0' : isalpha(byte) ? (byte | 32) - 'a' + 10 : 36;
}

/* Reads an integer whose magnitude may be `most`, or `most_negative` after a minus. */
static uint64_t integer(const char *text, char **end, int base, uint64_t most, uint64_t most_negative) {
    const char *at = text;
    while (isspace((unsigned char)*at)) {
        ++at;
    }
    int negative = *at == '-';
    if (*at == '-' || *at == '+') {
        ++at;
    }
    if (base < 0 || base == 1 || base > 36) {
        gpufs_libc_errno_(EINVAL);
        if (end != NULL) {
            *end = (char *)text;
        }
        return 0;
    }
    if ((base == 0 || base == 16) && at[0] == '0' && (at[1] | 32) == 'x' && digit_of(at[2]) < 16) {
        at += 2;
        base = 16;
    } else if (base == 0) {
        base = at[0] == '0' ? 8 : 10;
    }
    const char *first = at;
    uint64_t limit = negative ? most_negative : most;
    uint64_t value = 0;
    int overflow = 0;
    for (int digit; (digit = digit_of(*at)) < base; ++at) {
        if (value > (limit - (uint64_t)digit) / (uint64_t)base || (uint64_t)digit > limit) {
            overflow = 1;
        } else {
            value = value * (uint64_t)base + (uint64_t)digit;
        }
    }
    if (end != NULL) {
        *end = (char *)(at == first ? text : at);
    }
    if (overflow) {
        gpufs_libc_errno_(ERANGE);
        /* An unsigned conversion gives its largest value whatever the sign. */
        return negative && most_negative != most ? 0 - limit : limit;
    }
    return negative ? 0 - value : value;
}

#define LEAST_MAGNITUDE ((uint64_t)INT64_MAX + 1)

long strtol(const char *restrict text, char **restrict end, int base) {
    return (long)integer(text, end, base, INT64_MAX, LEAST_MAGNITUDE);
}
long long strtoll(const char *restrict text, char **restrict end, int base) {
    return (long long)integer(text, end, base, INT64_MAX, LEAST_MAGNITUDE);
}
intmax_t strtoimax(const char *restrict text, char **restrict end, int base) { return strtoll(text, end, base); }
unsigned long strtoul(const char *restrict text, char **restrict end, int base) {
    return integer(text, end, base, UINT64_MAX, UINT64_MAX);
}
unsigned long long strtoull(const char *restrict text, char **restrict end, int base) {
    return integer(text, end, base, UINT64_MAX, UINT64_MAX);
}
uintmax_t strtoumax(const char *restrict text, char **restrict end, int base) { return strtoull(text, end, base); }
int atoi(const char *text) { return (int)strtol(text, NULL, 10); }
long atol(const char *text) { return strtol(text, NULL, 10); }
long long atoll(const char *text) { return strtoll(text, NULL, 10); }

int abs(int value) { return value < 0 ? -value : value; }
long labs(long value) { return value < 0 ? -value : value; }
long long llabs(long long value) { return value < 0 ? -value : value; }
div_t div(int numerator, int denominator) {
    return (div_t){numerator / denominator, numerator % denominator};
}
ldiv_t ldiv(long numerator, long denominator) {
    return (ldiv_t){numerator / denominator, numerator % denominator};
}
lldiv_t lldiv(long long numerator, long long denominator) {
    return (lldiv_t){numerator / denominator, numerator % denominator};
}

void *bsearch(const void *key, const void *base, size_t items, size_t bytes,
              int (*compare)(const void *, const void *)) {
    const char *low = base;
    while (items != 0) {
        const char *middle = low + items / 2 * bytes;
        int order = compare(key, middle);
        if (order == 0) {
            return (void *)middle;
        }
        if (order > 0) {
            low = middle + bytes;
            items -= items / 2 + 1;
        } else {
            items /= 2;
        }
    }
    return NULL;
}

static void swap(char *left, char *right, size_t bytes) {
    for (; bytes != 0; --bytes, ++left, ++right) {
        char byte = *left;
        *left = *right;
        *right = byte;
    }
}

/* Sorts in place, for want of memory: a heap sort. */
static void sort_in_place(char *base, size_t items, size_t bytes,
                          int (*compare)(const void *, const void *, void *), void *context) {
    for (size_t start = items / 2, end = items; end > 1;) {
        if (start != 0) {
            --start;
        } else {
            --end;
            swap(base, base + end * bytes, bytes);
        }
        for (size_t parent = start, child; (child = 2 * parent + 1) < end; parent = child) {
            if (child + 1 < end && compare(base + child * bytes, base + (child + 1) * bytes, context) < 0) {
                ++child;
            }
            if (compare(base + parent * bytes, base + child * bytes, context) >= 0) {
                break;
            }
            swap(base + parent * bytes, base + child * bytes, bytes);
        }
    }
}

/* A merge sort: stable, as glibc's is. */
void qsort_r(void *base, size_t items, size_t bytes, int (*compare)(const void *, const void *, void *),
             void *context) {
    if (items < 2 || bytes == 0) {
        return;
    }
    int error = errno;
    char *room = malloc(items * bytes);
    gpufs_libc_errno_(error);
    if (room == NULL) {
        sort_in_place(base, items, bytes, compare, context);
        return;
    }
    char *from = base, *to = room;
    for (size_t width = 1; width < items; width *= 2) {
        for (size_t start = 0; start < items; start += 2 * width) {
            size_t middle = start + width < items ? start + width : items;
            size_t end = middle + width < items ? middle + width : items;
            size_t left = start, right = middle;
            for (size_t out = start; out < end; ++out) {
                int takes_left = left < middle &&
                                 (right == end || compare(from + left * bytes, from + right * bytes, context) <= 0);
                size_t taken = takes_left ? left++ : right++;
                memcpy(to + out * bytes, from + taken * bytes, bytes);
            }
        }
        char *other = from;
        from = to;
        to = other;
    }
    if (from != base) {
        memcpy(base, from, items * bytes);
    }
    free(room);
}

/* The caller's function is the context. A pointer to an object that holds it, as C converts no function to void *. */
struct order {
    int (*compare)(const void *, const void *);
};

static int ordered(const void *left, const void *right, void *context) {
    return ((const struct order *)context)->compare(left, right);
}

void qsort(void *base, size_t items, size_t bytes, int (*compare)(const void *, const void *)) {
    struct order order = {compare};
    qsort_r(base, items, bytes, ordered, &order);
}

/* The additive generator x(n) = x(n-3) + x(n-31) (Knuth, The Art of Computer Programming 3.2.2), seeded as glibc seeds
 * it, so that a program draws the numbers that it draws on a CPU. */
static uint32_t drawn[34];
static unsigned draws = UINT_MAX;

static uint32_t draw(void) {
    unsigned at = draws % 31;
    drawn[at] += drawn[(at + 28) % 31];
    draws = (draws + 1) % 31;
    return drawn[at] >> 1;
}

void srandom(unsigned seed) {
    int64_t value = seed == 0 ? 1 : (int32_t)seed;
    drawn[0] = (uint32_t)value;
    for (int at = 1; at < 31; ++at) {
        value = 16807 * value % 2147483647;
        value += value < 0 ? 2147483647 : 0;
        drawn[at] = (uint32_t)value;
    }
    /* x(31) to x(33) repeat x(0) to x(2). */
    draws = 3;
    for (int skipped = 0; skipped < 310; ++skipped) {
        draw();
    }
}

long random(void) {
    if (draws == UINT_MAX) {
        srandom(1);
    }
    return (long)draw();
}

void srand(unsigned seed) { srandom(seed); }
int rand(void) { return (int)random(); }

int rand_r(unsigned *seed) {
    unsigned next = *seed, result = 0;
    static const unsigned masks[3] = {2048, 1024, 1024};
    for (int part = 0; part < 3; ++part) {
        next = next * 1103515245 + 12345;
        result = part == 0 ? (next / 65536) % masks[0] : (result << 10) ^ ((next / 65536) % masks[part]);
    }
    *seed = next;
    return (int)result;
}

/* POSIX's generator of 48 bits: x = 0x5deece66d x + 11, which begins with 0, as glibc's does. */
static unsigned short own48[3];

static uint64_t draw48(unsigned short state[3]) {
    uint64_t x = (uint64_t)state[2] << 32 | (uint64_t)state[1] << 16 | state[0];
    x = (x * UINT64_C(0x5deece66d) + 11) & ((UINT64_C(1) << 48) - 1);
    state[0] = (unsigned short)x;
    state[1] = (unsigned short)(x >> 16);
    state[2] = (unsigned short)(x >> 32);
    return x;
}

double erand48(unsigned short state[3]) { return (double)draw48(state) / 281474976710656.0; }
long nrand48(unsigned short state[3]) { return (long)(draw48(state) >> 17); }
long jrand48(unsigned short state[3]) { return (long)(int32_t)(draw48(state) >> 16); }
double drand48(void) { return erand48(own48); }
long lrand48(void) { return nrand48(own48); }
long mrand48(void) { return jrand48(own48); }

void srand48(long seed) {
    own48[0] = 0x330e;
    own48[1] = (unsigned short)seed;
    own48[2] = (unsigned short)(seed >> 16);
}

unsigned short *seed48(unsigned short state[3]) {
    static unsigned short before[3];
    memcpy(before, own48, sizeof before);
    memcpy(own48, state, sizeof own48);
    return before;
}

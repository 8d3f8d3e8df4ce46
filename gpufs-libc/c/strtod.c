/* strtod and its family (C11 7.22.1.3). The syntax is read here; decimal digits are converted by the library's Rust half
 * (core's conversion, correctly rounded), hexadecimal ones here. */
#include "program.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

/* The bits of the double, or of the float, that is nearest to decimal text; all ones if it is no number. */
uint64_t gpufs_libc_decimal(const char *text, size_t bytes, int is_float);

static double double_of(uint64_t bits) {
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static double float_of(uint64_t bits) {
    float value;
    uint32_t word = (uint32_t)bits;
    __builtin_memcpy(&value, &word, sizeof value);
    return value;
}

/* What lies after digits, in which a point may stand: sets what was found. */
static const char *digits(const char *at, int (*is_digit)(int), int *any) {
    int point = 0;
    for (;; ++at) {
        if (is_digit((unsigned char)*at)) {
            *any = 1;
        } else if (*at == '.' && !point) {
            point = 1;
        } else {
            return at;
        }
    }
}

/* An exponent after its letter, or `at` if there is none. */
static const char *exponent(const char *at, long *value) {
    const char *sign = at + 1;
    const char *first = sign + (*sign == '-' || *sign == '+');
    if (!isdigit((unsigned char)*first)) {
        return at;
    }
    long sum = 0;
    for (at = first; isdigit((unsigned char)*at); ++at) {
        sum = sum < 100000000 ? sum * 10 + (*at - '0') : sum;
    }
    *value = *sign == '-' ? -sum : sum;
    return at;
}

/* mantissa × 2^power with a sticky last bit, rounded to even to `bits` bits; `least` is the exponent of the smallest
 * number. */
static double rounded(uint64_t mantissa, long power, int bits, long least) {
    if (mantissa == 0) {
        return 0;
    }
    int zeros = __builtin_clzll(mantissa);
    mantissa <<= zeros;
    power -= zeros;
    long dropped = 64 - bits;
    if (power + dropped < least) {
        dropped = least - power;
    }
    if (dropped > 64) {
        return 0;
    }
    uint64_t kept = dropped == 64 ? 0 : mantissa >> dropped;
    uint64_t half = UINT64_C(1) << (dropped - 1);
    uint64_t rest = dropped == 64 ? mantissa : mantissa & ((half << 1) - 1);
    kept += rest > half || (rest == half && (kept & 1) != 0);
    power += dropped;
    return power > 2000 ? INFINITY : ldexp((double)kept, (int)power);
}

/* The value of text from its first digit on, and its end; null if it is no number. */
static const char *unsigned_value(const char *at, int is_float, double *value) {
    if (strncasecmp(at, "inf", 3) == 0) {
        *value = INFINITY;
        return at + (strncasecmp(at, "infinity", 8) == 0 ? 8 : 3);
    }
    if (strncasecmp(at, "nan", 3) == 0) {
        *value = NAN;
        const char *end = at + 3;
        if (*end == '(') {
            do {
                ++end;
            } while (isalnum((unsigned char)*end) || *end == '_');
            return *end == ')' ? end + 1 : at + 3;
        }
        return end;
    }
    int any = 0;
    long power = 0;
    if (at[0] == '0' && (at[1] | 32) == 'x') {
        const char *end = digits(at + 2, isxdigit, &any);
        if (any) {
            uint64_t mantissa = 0;
            int point = 0;
            long scale = 0;
            for (const char *digit = at + 2; digit < end; ++digit) {
                if (*digit == '.') {
                    point = 1;
                    continue;
                }
                int byte = *digit | 32;
                uint64_t number = (uint64_t)(byte <= '9' ? byte - '0' : byte - 'a' + 10);
                if (mantissa >> 59 == 0) {
                    mantissa = mantissa * 16 + number;
                    scale -= point ? 4 : 0;
                } else {
                    mantissa |= number != 0;
                    scale += point ? 0 : 4;
                }
            }
            if ((*end | 32) == 'p') {
                end = exponent(end, &power);
            }
            *value = is_float ? rounded(mantissa, power + scale, 24, -149) : rounded(mantissa, power + scale, 53, -1074);
            if (mantissa != 0 && (*value == 0 || isinf(*value) || (is_float && *value > 0x1.fffffep127))) {
                gpufs_libc_errno_(ERANGE);
            }
            return end;
        }
        *value = 0;
        return at + 1;
    }
    const char *end = digits(at, isdigit, &any);
    if (!any) {
        return NULL;
    }
    int nonzero = 0;
    for (const char *digit = at; digit < end; ++digit) {
        nonzero |= *digit != '0' && *digit != '.';
    }
    if ((*end | 32) == 'e') {
        end = exponent(end, &power);
    }
    uint64_t bits = gpufs_libc_decimal(at, (size_t)(end - at), is_float);
    *value = is_float ? float_of(bits) : double_of(bits);
    double smallest = is_float ? 0x1p-126 : 0x1p-1022;
    if (nonzero && (isinf(*value) || *value < smallest)) {
        gpufs_libc_errno_(ERANGE);
    }
    return end;
}

static double value_of(const char *text, char **end, int is_float) {
    const char *at = text;
    while (isspace((unsigned char)*at)) {
        ++at;
    }
    int negative = *at == '-';
    at += *at == '-' || *at == '+';
    double value = 0;
    const char *after = unsigned_value(at, is_float, &value);
    if (end != NULL) {
        *end = (char *)(after == NULL ? text : after);
    }
    return negative ? -value : value;
}

double strtod(const char *restrict text, char **restrict end) { return value_of(text, end, 0); }
float strtof(const char *restrict text, char **restrict end) { return (float)value_of(text, end, 1); }
long double strtold(const char *restrict text, char **restrict end) { return strtod(text, end); }
double atof(const char *text) { return strtod(text, NULL); }

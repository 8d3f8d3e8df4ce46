/* Addresses as text: inet(3), inet_pton(3), inet_ntop(3). */
#include "program.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Bytes of an IPv6 address, and its words of 16 bits. */
enum { BYTES6 = 16, WORDS6 = 8 };

/* A number in C's notation, below 2^32, of which the first letter is a digit: what lies after it, or null. */
static const char *number(const char *at, uint64_t *value) {
    unsigned base = 10;
    *value = 0;
    if (*at == '0') {
        base = 8;
        if ((at[1] == 'x' || at[1] == 'X') && isxdigit((unsigned char)at[2])) {
            base = 16;
            at += 2;
        }
    }
    for (;; ++at) {
        int letter = (unsigned char)*at;
        unsigned digit = isdigit(letter)    ? (unsigned)(letter - '0')
                         : isxdigit(letter) ? (unsigned)(tolower(letter) - 'a') + 10
                                            : base;
        if (digit >= base) {
            return at;
        }
        *value = *value * base + digit;
        if (*value > 0xffffffff) {
            return NULL;
        }
    }
}

int inet_aton(const char *text, struct in_addr *into) {
    unsigned char bytes[4] = {0, 0, 0, 0};
    uint64_t value;
    int parts = 0;
    /* Ends: three points at most. */
    for (;; ++text) {
        if (!isdigit((unsigned char)*text) || (text = number(text, &value)) == NULL) {
            return 0;
        }
        if (*text != '.') {
            break;
        }
        if (parts == 3 || value > 0xff) {
            return 0;
        }
        bytes[parts++] = (unsigned char)value;
    }
    if ((*text != 0 && !isspace((unsigned char)*text)) || value >> (32 - 8 * parts) != 0) {
        return 0;
    }
    for (int at = 3; at >= parts; --at, value >>= 8) {
        bytes[at] = (unsigned char)value;
    }
    if (into != NULL) {
        memcpy(&into->s_addr, bytes, sizeof bytes);
    }
    return 1;
}

in_addr_t inet_addr(const char *text) {
    struct in_addr made;
    return inet_aton(text, &made) ? made.s_addr : INADDR_NONE;
}

char *inet_ntoa(struct in_addr from) {
    static char text[INET_ADDRSTRLEN];
    return (char *)inet_ntop(AF_INET, &from, text, sizeof text);
}

/* Four decimal numbers without zeros in front: whether the whole text is that. */
static int four(const char *text, unsigned char *into) {
    unsigned char bytes[4];
    for (int part = 0; part < 4; ++part) {
        unsigned value = 0;
        const char *first = text;
        for (; isdigit((unsigned char)*text) && text - first < 4; ++text) {
            value = value * 10 + (unsigned)(*text - '0');
        }
        if (text == first || value > 255 || (text - first > 1 && *first == '0') || *text != (part == 3 ? 0 : '.')) {
            return 0;
        }
        bytes[part] = (unsigned char)value;
        ++text;
    }
    memcpy(into, bytes, sizeof bytes);
    return 1;
}

static int sixteen(const char *text, unsigned char *into) {
    unsigned char bytes[BYTES6];
    int used = 0, gap = -1;
    if (text[0] == ':' && *++text != ':') {
        return 0;
    }
    /* Ends: each round takes a part of the text. */
    while (*text != 0) {
        if (*text == ':') {
            if (gap >= 0) {
                return 0;
            }
            gap = used;
            ++text;
            continue;
        }
        const char *first = text;
        unsigned value = 0;
        for (; isxdigit((unsigned char)*text) && text - first < 4; ++text) {
            int letter = (unsigned char)*text;
            value = value * 16 + (unsigned)(isdigit(letter) ? letter - '0' : tolower(letter) - 'a' + 10);
        }
        if (*text == '.' && used <= BYTES6 - 4 && four(first, bytes + used)) {
            used += 4;
            break;
        }
        if (text == first || used == BYTES6) {
            return 0;
        }
        bytes[used++] = (unsigned char)(value >> 8);
        bytes[used++] = (unsigned char)value;
        if (*text != 0 && (*text != ':' || *++text == 0)) {
            return 0;
        }
    }
    if (gap < 0 ? used != BYTES6 : used == BYTES6) {
        return 0;
    }
    memset(into, 0, BYTES6);
    if (gap < 0) {
        gap = used;
    }
    memcpy(into, bytes, (size_t)gap);
    memcpy(into + BYTES6 - (used - gap), bytes + gap, (size_t)(used - gap));
    return 1;
}

int inet_pton(int family, const char *text, void *into) {
    switch (family) {
    case AF_INET: return four(text, into);
    case AF_INET6: return sixteen(text, into);
    default: errno = EAFNOSUPPORT; return -1;
    }
}

/* The longest run of at least two zero words, the first of equal ones: where it begins, and its words. */
static int zeros(const unsigned *words, int *length) {
    int best = -1;
    *length = 1;
    for (int at = 0, run; at < WORDS6; at += run + 1) {
        for (run = 0; at + run < WORDS6 && words[at + run] == 0; ++run) {}
        if (run > *length) {
            best = at;
            *length = run;
        }
    }
    return best;
}

static void text_of_sixteen(const unsigned char *bytes, char *into, size_t room) {
    unsigned words[WORDS6];
    for (int at = 0; at < WORDS6; ++at) {
        words[at] = (unsigned)bytes[2 * at] << 8 | bytes[2 * at + 1];
    }
    int length, gap = zeros(words, &length);
    char *end = into;
    for (int at = 0; at < WORDS6; ++at) {
        if (at == gap) {
            at += length;
            end += snprintf(end, room - (size_t)(end - into), at == WORDS6 ? "::" : ":");
            if (at == WORDS6) {
                return;
            }
        }
        const char *between = at == 0 ? "" : ":";
        size_t left = room - (size_t)(end - into);
        /* An IPv4 address within: compatible, or mapped. */
        if (at == 6 && gap == 0 && (length == 6 || (length == 5 && words[5] == 0xffff))) {
            snprintf(end, left, "%s%u.%u.%u.%u", between, bytes[12], bytes[13], bytes[14], bytes[15]);
            return;
        }
        end += snprintf(end, left, "%s%x", between, words[at]);
    }
}

const char *inet_ntop(int family, const void *from, char *into, socklen_t room) {
    const unsigned char *bytes = from;
    char text[INET6_ADDRSTRLEN];
    if (family == AF_INET) {
        snprintf(text, sizeof text, "%u.%u.%u.%u", bytes[0], bytes[1], bytes[2], bytes[3]);
    } else if (family == AF_INET6) {
        text_of_sixteen(bytes, text, sizeof text);
    } else {
        errno = EAFNOSUPPORT;
        return NULL;
    }
    size_t length = strlen(text) + 1;
    if (length > room) {
        errno = ENOSPC;
        return NULL;
    }
    return memcpy(into, text, length);
}

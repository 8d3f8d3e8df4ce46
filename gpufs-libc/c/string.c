/* <string.h> and <strings.h>, byte by byte: C11 7.24, POSIX, and what BSD and GNU added that programs use. */
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    char *out = to;
    const char *in = from;
    if ((((uintptr_t)to | (uintptr_t)from) & 7) == 0) {
        for (; bytes >= 8; bytes -= 8, out += 8, in += 8) {
            *(uint64_t *)out = *(const uint64_t *)in;
        }
    }
    while (bytes-- != 0) {
        *out++ = *in++;
    }
    return to;
}

void *memmove(void *to, const void *from, size_t bytes) {
    if ((uintptr_t)to - (uintptr_t)from >= bytes) {
        return memcpy(to, from, bytes);
    }
    while (bytes-- != 0) {
        ((char *)to)[bytes] = ((const char *)from)[bytes];
    }
    return to;
}

void *mempcpy(void *restrict to, const void *restrict from, size_t bytes) {
    return (char *)memcpy(to, from, bytes) + bytes;
}

void *memccpy(void *restrict to, const void *restrict from, int byte, size_t bytes) {
    for (size_t at = 0; at < bytes; ++at) {
        unsigned char copied = ((const unsigned char *)from)[at];
        ((unsigned char *)to)[at] = copied;
        if (copied == (unsigned char)byte) {
            return (char *)to + at + 1;
        }
    }
    return NULL;
}

void *memset(void *to, int byte, size_t bytes) {
    unsigned char *out = to;
    for (; bytes != 0 && ((uintptr_t)out & 7) != 0; --bytes) {
        *out++ = (unsigned char)byte;
    }
    uint64_t word = UINT64_C(0x0101010101010101) * (unsigned char)byte;
    for (; bytes >= 8; bytes -= 8, out += 8) {
        *(uint64_t *)out = word;
    }
    while (bytes-- != 0) {
        *out++ = (unsigned char)byte;
    }
    return to;
}

int memcmp(const void *left, const void *right, size_t bytes) {
    const unsigned char *a = left, *b = right;
    for (; bytes != 0; --bytes, ++a, ++b) {
        if (*a != *b) {
            return *a - *b;
        }
    }
    return 0;
}

void *memchr(const void *memory, int byte, size_t bytes) {
    const unsigned char *at = memory;
    for (; bytes != 0; --bytes, ++at) {
        if (*at == (unsigned char)byte) {
            return (void *)at;
        }
    }
    return NULL;
}

void *memrchr(const void *memory, int byte, size_t bytes) {
    const unsigned char *from = memory;
    while (bytes-- != 0) {
        if (from[bytes] == (unsigned char)byte) {
            return (void *)(from + bytes);
        }
    }
    return NULL;
}

void *memmem(const void *memory, size_t bytes, const void *needle, size_t length) {
    for (const char *at = memory; bytes >= length; ++at, --bytes) {
        if (memcmp(at, needle, length) == 0) {
            return (void *)at;
        }
    }
    return NULL;
}

size_t strlen(const char *string) {
    const char *end = string;
    while (*end != 0) {
        ++end;
    }
    return (size_t)(end - string);
}

size_t strnlen(const char *string, size_t most) {
    size_t length = 0;
    while (length < most && string[length] != 0) {
        ++length;
    }
    return length;
}

char *stpcpy(char *restrict to, const char *restrict from) {
    while ((*to = *from++) != 0) {
        ++to;
    }
    return to;
}

char *strcpy(char *restrict to, const char *restrict from) {
    stpcpy(to, from);
    return to;
}

char *stpncpy(char *restrict to, const char *restrict from, size_t bytes) {
    size_t length = strnlen(from, bytes);
    memcpy(to, from, length);
    memset(to + length, 0, bytes - length);
    return to + length;
}

char *strncpy(char *restrict to, const char *restrict from, size_t bytes) {
    stpncpy(to, from, bytes);
    return to;
}

char *strcat(char *restrict to, const char *restrict from) {
    strcpy(to + strlen(to), from);
    return to;
}

char *strncat(char *restrict to, const char *restrict from, size_t most) {
    char *end = to + strlen(to);
    size_t length = strnlen(from, most);
    memcpy(end, from, length);
    end[length] = 0;
    return to;
}

size_t strlcpy(char *restrict to, const char *restrict from, size_t bytes) {
    size_t length = strlen(from);
    if (bytes != 0) {
        size_t copied = length < bytes ? length : bytes - 1;
        memcpy(to, from, copied);
        to[copied] = 0;
    }
    return length;
}

size_t strlcat(char *restrict to, const char *restrict from, size_t bytes) {
    size_t length = strnlen(to, bytes);
    return length + strlcpy(to + length, from, bytes - length);
}

int strncmp(const char *left, const char *right, size_t most) {
    for (; most != 0; --most, ++left, ++right) {
        if (*left != *right || *left == 0) {
            return (unsigned char)*left - (unsigned char)*right;
        }
    }
    return 0;
}

int strcmp(const char *left, const char *right) { return strncmp(left, right, SIZE_MAX); }
/* In the locale "C". */
int strcoll(const char *left, const char *right) { return strcmp(left, right); }
size_t strxfrm(char *restrict to, const char *restrict from, size_t bytes) { return strlcpy(to, from, bytes); }

int strncasecmp(const char *left, const char *right, size_t most) {
    for (; most != 0; --most, ++left, ++right) {
        int a = tolower((unsigned char)*left), b = tolower((unsigned char)*right);
        if (a != b || a == 0) {
            return a - b;
        }
    }
    return 0;
}

int strcasecmp(const char *left, const char *right) { return strncasecmp(left, right, SIZE_MAX); }

char *strchrnul(const char *string, int byte) {
    while (*string != 0 && *string != (char)byte) {
        ++string;
    }
    return (char *)string;
}

char *strchr(const char *string, int byte) {
    char *at = strchrnul(string, byte);
    return *at == (char)byte ? at : NULL;
}

char *strrchr(const char *string, int byte) { return memrchr(string, byte, strlen(string) + 1); }
char *index(const char *string, int byte) { return strchr(string, byte); }
char *rindex(const char *string, int byte) { return strrchr(string, byte); }

/* The bytes of a set, as bits. */
struct set {
    uint64_t words[4];
};

static struct set set_of(const char *bytes) {
    struct set set = {{0, 0, 0, 0}};
    for (; *bytes != 0; ++bytes) {
        unsigned char byte = (unsigned char)*bytes;
        set.words[byte >> 6] |= UINT64_C(1) << (byte & 63);
    }
    return set;
}

static int contains(const struct set *set, char signed_byte) {
    unsigned char byte = (unsigned char)signed_byte;
    return (set->words[byte >> 6] >> (byte & 63)) & 1;
}

size_t strspn(const char *string, const char *accepted) {
    struct set set = set_of(accepted);
    size_t length = 0;
    while (contains(&set, string[length])) {
        ++length;
    }
    return length;
}

size_t strcspn(const char *string, const char *refused) {
    struct set set = set_of(refused);
    size_t length = 0;
    while (string[length] != 0 && !contains(&set, string[length])) {
        ++length;
    }
    return length;
}

char *strpbrk(const char *string, const char *wanted) {
    string += strcspn(string, wanted);
    return *string != 0 ? (char *)string : NULL;
}

char *strstr(const char *string, const char *needle) {
    size_t length = strlen(needle);
    for (;; ++string) {
        if (strncmp(string, needle, length) == 0) {
            return (char *)string;
        }
        if (*string == 0) {
            return NULL;
        }
    }
}

char *strcasestr(const char *string, const char *needle) {
    size_t length = strlen(needle);
    for (;; ++string) {
        if (strncasecmp(string, needle, length) == 0) {
            return (char *)string;
        }
        if (*string == 0) {
            return NULL;
        }
    }
}

char *strtok_r(char *restrict string, const char *restrict separators, char **restrict rest) {
    char *token = string != NULL ? string : *rest;
    if (token == NULL) {
        return NULL;
    }
    token += strspn(token, separators);
    if (*token == 0) {
        *rest = NULL;
        return NULL;
    }
    char *end = token + strcspn(token, separators);
    *rest = *end != 0 ? end + 1 : NULL;
    *end = 0;
    return token;
}

char *strtok(char *restrict string, const char *restrict separators) {
    static char *rest;
    return strtok_r(string, separators, &rest);
}

char *strsep(char **string, const char *separators) {
    char *token = *string;
    if (token == NULL) {
        return NULL;
    }
    char *end = token + strcspn(token, separators);
    *string = *end != 0 ? end + 1 : NULL;
    *end = 0;
    return token;
}

char *strndup(const char *string, size_t most) {
    size_t length = strnlen(string, most);
    char *copy = malloc(length + 1);
    if (copy != NULL) {
        memcpy(copy, string, length);
        copy[length] = 0;
    }
    return copy;
}

char *strdup(const char *string) { return strndup(string, SIZE_MAX); }

int ffs(int value) { return __builtin_ffs(value); }

int strerror_r(int error, char *into, size_t bytes) {
    const char *text = strerror(error);
    size_t length = strlen(text);
    if (bytes != 0) {
        strlcpy(into, text, bytes);
    }
    return length < bytes ? 0 : ERANGE;
}

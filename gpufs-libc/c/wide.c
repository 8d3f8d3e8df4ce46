/* Wide characters: <wchar.h> and the multibyte half of <stdlib.h> (C11 7.29.4, 7.29.6, 7.22.7, 7.22.8). Multibyte
 * characters are UTF-8 as Unicode has it: no surrogates, nothing above U+10FFFF, and of each character the shortest form.
 */
#include "program.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#define ILLEGAL ((size_t)-1)
#define INCOMPLETE ((size_t)-2)

wint_t btowc(int byte) { return byte >= 0 && byte < 128 ? (wint_t)byte : WEOF; }
int wctob(wint_t character) { return (uint32_t)character < 128 ? (int)character : -1; }
int mbsinit(const mbstate_t *state) { return state == NULL || state->missing == 0; }

/* Whether a character of so many bytes may begin with `value` when `missing` bytes of 6 bits are still to come. */
static int is_possible(uint32_t value, int bytes, int missing) {
    uint32_t least = value << 6 * missing, most = least | ((UINT32_C(1) << 6 * missing) - 1);
    uint32_t smallest = bytes == 2 ? 0x80 : bytes == 3 ? 0x800 : 0x10000;
    return most >= smallest && least <= 0x10ffff && !(least >= 0xd800 && most < 0xe000);
}

size_t mbrtowc(wchar_t *restrict into, const char *restrict from, size_t bytes, mbstate_t *restrict state) {
    static mbstate_t own;
    mbstate_t now;
    if (state == NULL) {
        state = &own;
    }
    if (from == NULL) {
        into = NULL;
        from = "";
        bytes = 1;
    }
    now = *state;
    for (size_t at = 0; at < bytes; ++at) {
        unsigned char byte = (unsigned char)from[at];
        if (now.missing == 0) {
            now.bytes = byte < 0x80 ? 1 : byte < 0xc2 ? 0 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : byte < 0xf5 ? 4 : 0;
            now.value = now.bytes == 1 ? byte : byte & (0x7fu >> now.bytes);
            now.missing = (unsigned char)(now.bytes - 1);
        } else if ((byte & 0xc0) == 0x80) {
            now.value = now.value << 6 | (byte & 0x3f);
            --now.missing;
        } else {
            now.bytes = 0;
        }
        if (now.bytes == 0 || (now.bytes > 1 && !is_possible(now.value, now.bytes, now.missing))) {
            memset(state, 0, sizeof *state);
            gpufs_libc_errno_(EILSEQ);
            return ILLEGAL;
        }
        if (now.missing == 0) {
            memset(state, 0, sizeof *state);
            if (into != NULL) {
                *into = (wchar_t)now.value;
            }
            return now.value == 0 ? 0 : at + 1;
        }
    }
    *state = now;
    return INCOMPLETE;
}

size_t mbrlen(const char *restrict from, size_t bytes, mbstate_t *restrict state) {
    static mbstate_t own;
    return mbrtowc(NULL, from, bytes, state != NULL ? state : &own);
}

size_t wcrtomb(char *restrict into, wchar_t wide, mbstate_t *restrict state) {
    uint32_t character = (uint32_t)wide;
    int bytes = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    if (state != NULL) {
        memset(state, 0, sizeof *state);
    }
    if (into == NULL) {
        return 1;
    }
    if (character > 0x10ffff || (character >= 0xd800 && character < 0xe000)) {
        gpufs_libc_errno_(EILSEQ);
        return ILLEGAL;
    }
    for (int at = bytes - 1; at > 0; --at, character >>= 6) {
        into[at] = (char)(0x80 | (character & 0x3f));
    }
    into[0] = (char)(character | (bytes == 1 ? 0 : (0xf00u >> bytes & 0xff)));
    return (size_t)bytes;
}

size_t mbsnrtowcs(wchar_t *restrict into, const char **restrict from, size_t bytes, size_t most,
                  mbstate_t *restrict state) {
    static mbstate_t own;
    const char *at = *from;
    size_t count = 0;
    mbstate_t here;
    state = state != NULL ? state : &own;
    here = *state;
    while (into == NULL || count < most) {
        wchar_t character;
        size_t length = mbrtowc(&character, at, bytes, &here);
        if (length == ILLEGAL) {
            count = ILLEGAL;
            break;
        }
        if (length == INCOMPLETE) {
            at += bytes;
            break;
        }
        if (into != NULL) {
            into[count] = character;
        }
        if (length == 0) {
            at = NULL;
            break;
        }
        ++count;
        at += length;
        bytes -= length;
    }
    if (into != NULL) {
        *from = at;
        *state = here;
    }
    return count;
}

size_t mbsrtowcs(wchar_t *restrict into, const char **restrict from, size_t most, mbstate_t *restrict state) {
    return mbsnrtowcs(into, from, SIZE_MAX, most, state);
}

size_t wcsnrtombs(char *restrict into, const wchar_t **restrict from, size_t characters, size_t most,
                  mbstate_t *restrict state) {
    const wchar_t *at = *from;
    size_t count = 0;
    char one[4];
    (void)state;
    for (; characters != 0; --characters, ++at) {
        size_t length = wcrtomb(one, *at, NULL);
        if (length == ILLEGAL) {
            count = ILLEGAL;
            break;
        }
        if (into != NULL && length > most - count) {
            break;
        }
        if (into != NULL) {
            memcpy(into + count, one, length);
        }
        if (*at == 0) {
            at = NULL;
            break;
        }
        count += length;
    }
    if (into != NULL) {
        *from = at;
    }
    return count;
}

size_t wcsrtombs(char *restrict into, const wchar_t **restrict from, size_t most, mbstate_t *restrict state) {
    return wcsnrtombs(into, from, SIZE_MAX, most, state);
}

/* <stdlib.h>'s: there are no shift states. */
int mbtowc(wchar_t *restrict into, const char *restrict from, size_t bytes) {
    mbstate_t state = {0, 0, 0};
    size_t length;
    if (from == NULL) {
        return 0;
    }
    length = mbrtowc(into, from, bytes, &state);
    if (length == INCOMPLETE) {
        gpufs_libc_errno_(EILSEQ);
    }
    return length >= INCOMPLETE ? -1 : (int)length;
}

int mblen(const char *from, size_t bytes) { return mbtowc(NULL, from, bytes); }
int wctomb(char *into, wchar_t character) { return into == NULL ? 0 : (int)wcrtomb(into, character, NULL); }

size_t mbstowcs(wchar_t *restrict into, const char *restrict from, size_t most) {
    mbstate_t state = {0, 0, 0};
    const char *at = from;
    return mbsrtowcs(into, &at, most, &state);
}

size_t wcstombs(char *restrict into, const wchar_t *restrict from, size_t most) {
    const wchar_t *at = from;
    return wcsrtombs(into, &at, most, NULL);
}

/* Strings of wide characters. */
size_t wcsnlen(const wchar_t *string, size_t most) {
    size_t length = 0;
    while (length < most && string[length] != 0) {
        ++length;
    }
    return length;
}
size_t wcslen(const wchar_t *string) { return wcsnlen(string, SIZE_MAX); }

wchar_t *wmemcpy(wchar_t *restrict to, const wchar_t *restrict from, size_t count) {
    return memcpy(to, from, count * sizeof *to);
}
wchar_t *wmemmove(wchar_t *to, const wchar_t *from, size_t count) { return memmove(to, from, count * sizeof *to); }
wchar_t *wmemset(wchar_t *to, wchar_t character, size_t count) {
    for (size_t at = 0; at < count; ++at) {
        to[at] = character;
    }
    return to;
}
wchar_t *wmemchr(const wchar_t *memory, wchar_t character, size_t count) {
    for (; count != 0; --count, ++memory) {
        if (*memory == character) {
            return (wchar_t *)memory;
        }
    }
    return NULL;
}
static int order(wchar_t left, wchar_t right) { return left < right ? -1 : left > right; }
int wmemcmp(const wchar_t *left, const wchar_t *right, size_t count) {
    int found = 0;
    for (; count != 0 && found == 0; --count) {
        found = order(*left++, *right++);
    }
    return found;
}

wchar_t *wcpcpy(wchar_t *restrict to, const wchar_t *restrict from) {
    size_t length = wcslen(from);
    wmemcpy(to, from, length + 1);
    return to + length;
}
wchar_t *wcscpy(wchar_t *restrict to, const wchar_t *restrict from) {
    wcpcpy(to, from);
    return to;
}
wchar_t *wcsncpy(wchar_t *restrict to, const wchar_t *restrict from, size_t count) {
    size_t length = wcsnlen(from, count);
    wmemcpy(to, from, length);
    wmemset(to + length, 0, count - length);
    return to;
}
wchar_t *wcsncat(wchar_t *restrict to, const wchar_t *restrict from, size_t most) {
    wchar_t *end = to + wcslen(to);
    size_t length = wcsnlen(from, most);
    wmemcpy(end, from, length);
    end[length] = 0;
    return to;
}
wchar_t *wcscat(wchar_t *restrict to, const wchar_t *restrict from) { return wcsncat(to, from, SIZE_MAX); }

int wcsncmp(const wchar_t *left, const wchar_t *right, size_t most) {
    for (; most != 0; --most, ++left, ++right) {
        if (*left != *right || *left == 0) {
            return order(*left, *right);
        }
    }
    return 0;
}
int wcscmp(const wchar_t *left, const wchar_t *right) { return wcsncmp(left, right, SIZE_MAX); }
int wcscoll(const wchar_t *left, const wchar_t *right) { return wcscmp(left, right); }
int wcsncasecmp(const wchar_t *left, const wchar_t *right, size_t most) {
    for (; most != 0; --most, ++left, ++right) {
        wchar_t one = (wchar_t)towlower((wint_t)*left), other = (wchar_t)towlower((wint_t)*right);
        if (one != other || one == 0) {
            return order(one, other);
        }
    }
    return 0;
}
int wcscasecmp(const wchar_t *left, const wchar_t *right) { return wcsncasecmp(left, right, SIZE_MAX); }
size_t wcsxfrm(wchar_t *restrict to, const wchar_t *restrict from, size_t count) {
    size_t length = wcslen(from);
    if (count > length) {
        wmemcpy(to, from, length + 1);
    }
    return length;
}

wchar_t *wcschr(const wchar_t *string, wchar_t character) { return wmemchr(string, character, wcslen(string) + 1); }
wchar_t *wcsrchr(const wchar_t *string, wchar_t character) {
    for (size_t left = wcslen(string) + 1; left != 0; --left) {
        if (string[left - 1] == character) {
            return (wchar_t *)string + left - 1;
        }
    }
    return NULL;
}
size_t wcsspn(const wchar_t *string, const wchar_t *accepted) {
    size_t length = 0;
    while (string[length] != 0 && wcschr(accepted, string[length]) != NULL) {
        ++length;
    }
    return length;
}
size_t wcscspn(const wchar_t *string, const wchar_t *refused) {
    size_t length = 0;
    while (string[length] != 0 && wcschr(refused, string[length]) == NULL) {
        ++length;
    }
    return length;
}
wchar_t *wcspbrk(const wchar_t *string, const wchar_t *wanted) {
    string += wcscspn(string, wanted);
    return *string != 0 ? (wchar_t *)string : NULL;
}
wchar_t *wcsstr(const wchar_t *string, const wchar_t *needle) {
    size_t length = wcslen(needle);
    for (;; ++string) {
        if (wcsncmp(string, needle, length) == 0) {
            return (wchar_t *)string;
        }
        if (*string == 0) {
            return NULL;
        }
    }
}
wchar_t *wcstok(wchar_t *restrict string, const wchar_t *restrict separators, wchar_t **restrict rest) {
    wchar_t *token = string != NULL ? string : *rest, *end;
    if (token == NULL || *(token += wcsspn(token, separators)) == 0) {
        *rest = NULL;
        return NULL;
    }
    end = token + wcscspn(token, separators);
    *rest = *end != 0 ? end + 1 : NULL;
    *end = 0;
    return token;
}
wchar_t *wcsdup(const wchar_t *string) {
    size_t count = wcslen(string) + 1;
    wchar_t *copy = malloc(count * sizeof *copy);
    return copy == NULL ? NULL : wmemcpy(copy, string, count);
}

/* Numbers are ASCII: a copy without the white space before it is read by the functions for bytes. As long as numbers may
 * be, the copy may be; where there is no memory for it, none is read. */
#define NUMBER(type, name, parameters, call)                                                     \
    type name parameters {                                                                       \
        size_t before = 0, length = 0;                                                           \
        type value = 0;                                                                          \
        char *copy, *stop;                                                                       \
        while (iswspace((wint_t)text[before])) {                                                 \
            ++before;                                                                            \
        }                                                                                        \
        while (text[before + length] > ' ' && text[before + length] < 127) {                     \
            ++length;                                                                            \
        }                                                                                        \
        copy = stop = malloc(length + 1);                                                        \
        if (copy != NULL) {                                                                      \
            for (size_t at = 0; at < length; ++at) {                                             \
                copy[at] = (char)text[before + at];                                              \
            }                                                                                    \
            copy[length] = 0;                                                                    \
            value = call;                                                                        \
        }                                                                                        \
        if (end != NULL) {                                                                       \
            *end = (wchar_t *)text + (stop == copy ? 0 : before + (size_t)(stop - copy));        \
        }                                                                                        \
        free(copy);                                                                              \
        return value;                                                                            \
    }
#define TEXT const wchar_t *restrict text, wchar_t **restrict end
NUMBER(long, wcstol, (TEXT, int base), strtol(copy, &stop, base))
NUMBER(long long, wcstoll, (TEXT, int base), strtoll(copy, &stop, base))
NUMBER(unsigned long, wcstoul, (TEXT, int base), strtoul(copy, &stop, base))
NUMBER(unsigned long long, wcstoull, (TEXT, int base), strtoull(copy, &stop, base))
NUMBER(double, wcstod, (TEXT), strtod(copy, &stop))
NUMBER(float, wcstof, (TEXT), strtof(copy, &stop))
NUMBER(long double, wcstold, (TEXT), strtold(copy, &stop))

/* Classes that follow from those of Unicode, which src/wide.rs has. */
int iswdigit(wint_t character) { return (uint32_t)character - '0' < 10; }
int iswxdigit(wint_t character) { return iswdigit(character) || ((uint32_t)character | 32) - 'a' < 6; }
int iswblank(wint_t character) { return character == '\t' || (iswspace(character) && iswprint(character)); }
int iswgraph(wint_t character) { return iswprint(character) && !iswspace(character); }
int iswpunct(wint_t character) { return iswgraph(character) && !iswalnum(character); }

static const struct {
    const char *name;
    int (*is)(wint_t);
} classes[] = {{"alnum", iswalnum}, {"alpha", iswalpha}, {"blank", iswblank}, {"cntrl", iswcntrl},
               {"digit", iswdigit}, {"graph", iswgraph}, {"lower", iswlower}, {"print", iswprint},
               {"punct", iswpunct}, {"space", iswspace}, {"upper", iswupper}, {"xdigit", iswxdigit}};
#define CLASSES (int)(sizeof classes / sizeof classes[0])

wctype_t wctype(const char *name) {
    for (int at = 0; at < CLASSES; ++at) {
        if (strcmp(classes[at].name, name) == 0) {
            return at + 1;
        }
    }
    return 0;
}
int iswctype(wint_t character, wctype_t which) {
    return which >= 1 && which <= CLASSES && classes[which - 1].is(character);
}
wctrans_t wctrans(const char *name) { return strcmp(name, "tolower") == 0 ? 1 : strcmp(name, "toupper") == 0 ? 2 : 0; }
wint_t towctrans(wint_t character, wctrans_t which) {
    return which == 1 ? towlower(character) : which == 2 ? towupper(character) : character;
}

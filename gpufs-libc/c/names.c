/* fnmatch(3), and what signals and versions are called: strsignal(3), strverscmp(3). */
#include <ctype.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static int folded(char letter, int flags) {
    int byte = (unsigned char)letter;
    return flags & FNM_CASEFOLD ? tolower(byte) : byte;
}

/* A class such as [:alpha:], `name` behind its colon. */
static int is_of_class(const char *name, size_t length, int byte) {
    static const struct {
        const char *name;
        int (*is)(int);
    } classes[] = {{"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
                   {"digit", isdigit}, {"graph", isgraph}, {"lower", islower}, {"print", isprint},
                   {"punct", ispunct}, {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit}};
    for (size_t at = 0; at < sizeof classes / sizeof classes[0]; ++at) {
        if (strlen(classes[at].name) == length && strncmp(classes[at].name, name, length) == 0) {
            return classes[at].is(byte) != 0;
        }
    }
    return 0;
}

/* Whether a bracket expression, `*pattern` behind its [, has a byte: 1 or 0, and `*pattern` behind its ]; -1 where it has no
 * end, so that the [ stands for itself. */
static int bracket(const char **pattern, char letter, int flags) {
    const char *at = *pattern;
    int inverted = *at == '!' || *at == '^', found = 0, byte = folded(letter, flags);
    at += inverted;
    for (int is_first = 1; *at != ']' || is_first; is_first = 0) {
        if (*at == 0 || (*at == '/' && flags & FNM_PATHNAME)) {
            return -1;
        }
        if (at[0] == '[' && at[1] == ':') {
            const char *end = strstr(at + 2, ":]");
            if (end != NULL) {
                found |= is_of_class(at + 2, (size_t)(end - at - 2), byte);
                at = end + 2;
                continue;
            }
        }
        at += *at == '\\' && at[1] != 0 && !(flags & FNM_NOESCAPE);
        int low = folded(*at++, flags), high = low;
        if (at[0] == '-' && at[1] != ']' && at[1] != 0) {
            ++at;
            at += *at == '\\' && at[1] != 0 && !(flags & FNM_NOESCAPE);
            high = folded(*at++, flags);
        }
        found |= low <= byte && byte <= high;
    }
    *pattern = at + 1;
    return found != inverted;
}

int fnmatch(const char *pattern, const char *name, int flags) {
    const char *start = name, *star = NULL, *from = NULL;
    /* Ends: each round takes a part of the pattern, or gives the last star one byte more. */
    for (;;) {
        int is_leading = *name == '.' && flags & FNM_PERIOD &&
                         (name == start || (name[-1] == '/' && flags & FNM_PATHNAME));
        if (*pattern == '*' && !is_leading) {
            star = ++pattern;
            from = name;
            continue;
        }
        if (*pattern == 0 && (*name == 0 || (*name == '/' && flags & FNM_LEADING_DIR))) {
            return 0;
        }
        const char *next = pattern;
        int matches = 0, is_slash = *name == '/' && flags & FNM_PATHNAME;
        if (*name != 0 && *pattern != 0) {
            if (*pattern == '?') {
                matches = !is_slash && !is_leading;
                ++next;
            } else if (*pattern == '[' && !is_leading && !is_slash) {
                ++next;
                matches = bracket(&next, *name, flags);
                if (matches < 0) {
                    next = pattern + 1;
                    matches = *name == '[';
                }
            } else {
                next += *next == '\\' && next[1] != 0 && !(flags & FNM_NOESCAPE);
                matches = folded(*next, flags) == folded(*name, flags);
                ++next;
            }
        }
        if (matches) {
            pattern = next;
            ++name;
        } else if (star != NULL && *from != 0 && !(*from == '/' && flags & FNM_PATHNAME)) {
            name = ++from;
            pattern = star;
        } else {
            return FNM_NOMATCH;
        }
    }
}

char *strsignal(int number) {
    static const char *const names[] = {
        NULL, "Hangup", "Interrupt", "Quit", "Illegal instruction", "Trace/breakpoint trap", "Aborted", "Bus error",
        "Floating point exception", "Killed", "User defined signal 1", "Segmentation fault", "User defined signal 2",
        "Broken pipe", "Alarm clock", "Terminated", "Stack fault", "Child exited", "Continued", "Stopped (signal)",
        "Stopped", "Stopped (tty input)", "Stopped (tty output)", "Urgent I/O condition", "CPU time limit exceeded",
        "File size limit exceeded", "Virtual timer expired", "Profiling timer expired", "Window changed", "I/O possible",
        "Power failure", "Bad system call"};
    static char text[32];
    if (number > 0 && number < 32) {
        return (char *)names[number];
    }
    snprintf(text, sizeof text, "Unknown signal %d", number);
    return text;
}

/* Digits that are no fraction compare as a number; a fraction, with zeros in front, comes before it. */
int strverscmp(const char *left, const char *right) {
    size_t at = 0, digits = 0;
    int zeros = 1;
    for (; left[at] == right[at]; ++at) {
        int byte = (unsigned char)left[at];
        if (byte == 0) {
            return 0;
        }
        if (!isdigit(byte)) {
            digits = at + 1;
            zeros = 1;
        } else if (byte != '0') {
            zeros = 0;
        }
    }
    int one = (unsigned char)left[at], other = (unsigned char)right[at];
    if ((unsigned)left[digits] - '1' < 9 && (unsigned)right[digits] - '1' < 9) {
        size_t end = at;
        for (; isdigit((unsigned char)left[end]); ++end) {
            if (!isdigit((unsigned char)right[end])) {
                return 1;
            }
        }
        if (isdigit((unsigned char)right[end])) {
            return -1;
        }
    } else if (zeros && digits < at && (isdigit(one) || isdigit(other))) {
        return (int)(unsigned char)(one - '0') - (int)(unsigned char)(other - '0');
    }
    return one - other;
}

/* What programs of a shell use: getopt(3), getopt_long(3), err(3), basename(3), dirname(3). */
#include "program.h"
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *optarg;
int optind = 1, opterr = 1, optopt;
/* Inside an argument of several letters. */
static const char *within;

static const char *program(void) { return gpufs_program_->argc != 0 ? gpufs_program_->argv[0] : ""; }

/* An option of one letter, `within` at it. */
static int letter(int argc, char *const argv[], const char *options) {
    int silent = options[0] == ':' || opterr == 0;
    optopt = (unsigned char)*within++;
    const char *known = optopt == ':' ? NULL : strchr(options, optopt);
    int last = *within == '\0';
    if (known == NULL) {
        if (!silent) {
            fprintf(stderr, "%s: invalid option -- '%c'\n", program(), optopt);
        }
        optind += last;
        within = last ? NULL : within;
        return '?';
    }
    if (known[1] != ':') {
        optind += last;
        within = last ? NULL : within;
        return optopt;
    }
    optarg = last ? NULL : (char *)within;
    within = NULL;
    ++optind;
    if (optarg == NULL && known[2] != ':') {
        if (optind >= argc) {
            if (!silent) {
                fprintf(stderr, "%s: option requires an argument -- '%c'\n", program(), optopt);
            }
            return options[0] == ':' ? ':' : '?';
        }
        optarg = argv[optind++];
    }
    return optopt;
}

static int option(int argc, char *const argv[], const char *options, const struct option *names, int *index) {
    if (optind == 0) {
        optind = 1;
        within = NULL;
    }
    optarg = NULL;
    if (options[0] == '+' || options[0] == '-') {
        ++options;
    }
    if (within != NULL) {
        return letter(argc, argv, options);
    }
    const char *argument = optind < argc ? argv[optind] : NULL;
    if (argument == NULL || argument[0] != '-' || argument[1] == '\0') {
        return -1;
    }
    if (strcmp(argument, "--") == 0) {
        ++optind;
        return -1;
    }
    if (names == NULL || argument[1] != '-') {
        within = argument + 1;
        return letter(argc, argv, options);
    }
    const char *name = argument + 2;
    size_t length = strcspn(name, "=");
    int found = -1, several = 0;
    for (int at = 0; names[at].name != NULL; ++at) {
        if (strncmp(names[at].name, name, length) == 0) {
            if (strlen(names[at].name) == length) {
                found = at;
                several = 0;
                break;
            }
            several |= found >= 0;
            found = found >= 0 ? found : at;
        }
    }
    int silent = options[0] == ':' || opterr == 0;
    ++optind;
    optopt = 0;
    if (found < 0 || several) {
        if (!silent) {
            fprintf(stderr, several ? "%s: option '%s' is ambiguous\n" : "%s: unrecognized option '%s'\n", program(),
                    argument);
        }
        return '?';
    }
    const struct option *chosen = &names[found];
    if (name[length] == '=') {
        if (chosen->has_arg == no_argument) {
            if (!silent) {
                fprintf(stderr, "%s: option '--%s' doesn't allow an argument\n", program(), chosen->name);
            }
            optopt = chosen->val;
            return '?';
        }
        optarg = (char *)name + length + 1;
    } else if (chosen->has_arg == required_argument) {
        if (optind >= argc) {
            if (!silent) {
                fprintf(stderr, "%s: option '--%s' requires an argument\n", program(), chosen->name);
            }
            optopt = chosen->val;
            return options[0] == ':' ? ':' : '?';
        }
        optarg = argv[optind++];
    }
    if (index != NULL) {
        *index = found;
    }
    if (chosen->flag != NULL) {
        *chosen->flag = chosen->val;
        return 0;
    }
    return chosen->val;
}

/* Moves the argument at `from` to `to`, before those that stand between. */
static void move(char **argv, int to, int from) {
    char *moved = argv[from];
    for (; from > to; --from) {
        argv[from] = argv[from - 1];
    }
    argv[to] = moved;
}

/* As glibc: options are found behind operands, too, which come to stand behind them; not with a '+' in front of the letters
 * or POSIXLY_CORRECT. With a '-' an operand is the argument of an option 1. */
static int permuted(int argc, char *const argv[], const char *options, const struct option *names, int *index) {
    if (optind == 0) {
        optind = 1;
        within = NULL;
    }
    int first = optind, at = optind;
    if (options[0] == '-') {
        if (within == NULL && at < argc && (argv[at][0] != '-' || argv[at][1] == '\0')) {
            optarg = argv[optind++];
            return 1;
        }
        return option(argc, argv, options, names, index);
    }
    if (options[0] == '+' || getenv("POSIXLY_CORRECT") != NULL) {
        return option(argc, argv, options, names, index);
    }
    while (at < argc && (argv[at][0] != '-' || argv[at][1] == '\0')) {
        ++at;
    }
    if (at >= argc) {
        optarg = NULL;
        return -1;
    }
    optind = at;
    int result = option(argc, argv, options, names, index);
    /* What the option took goes before the operands, the last first. */
    int count = optind - at;
    for (int moved = 0; moved < count; ++moved) {
        move((char **)argv, first, optind - 1);
    }
    optind = first + count;
    return result;
}

int getopt(int argc, char *const argv[], const char *options) { return permuted(argc, argv, options, NULL, NULL); }

int getopt_long(int argc, char *const argv[], const char *options, const struct option *names, int *index) {
    return permuted(argc, argv, options, names, index);
}

/* "program: text: error\n"; the error only where `number` is one. */
static void tell(const char *format, va_list list, int number) {
    const char *slash = strrchr(program(), '/');
    fprintf(stderr, "%s: ", slash != NULL ? slash + 1 : program());
    if (format != NULL) {
        vfprintf(stderr, format, list);
        fputs(number >= 0 ? ": " : "", stderr);
    }
    fprintf(stderr, "%s\n", number >= 0 ? strerror(number) : "");
}

void vwarn(const char *format, va_list list) { tell(format, list, errno); }
void vwarnx(const char *format, va_list list) { tell(format, list, -1); }
_Noreturn void verr(int status, const char *format, va_list list) {
    tell(format, list, errno);
    exit(status);
}
_Noreturn void verrx(int status, const char *format, va_list list) {
    tell(format, list, -1);
    exit(status);
}
void warn(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vwarn(format, list);
    va_end(list);
}
void warnx(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vwarnx(format, list);
    va_end(list);
}
_Noreturn void err(int status, const char *format, ...) {
    va_list list;
    va_start(list, format);
    verr(status, format, list);
}
_Noreturn void errx(int status, const char *format, ...) {
    va_list list;
    va_start(list, format);
    verrx(status, format, list);
}

char *basename(char *path) {
    if (path == NULL || *path == '\0') {
        return (char *)".";
    }
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        path[--length] = '\0';
    }
    char *slash = strrchr(path, '/');
    return slash == NULL || length == 1 ? path : slash + 1;
}

char *dirname(char *path) {
    char *slash = path == NULL ? NULL : strrchr(path, '/');
    if (slash != NULL && slash[1] == '\0') {
        while (slash > path && slash[-1] == '/') {
            --slash;
        }
        if (slash == path) {
            return (char *)"/";
        }
        *slash = '\0';
        slash = strrchr(path, '/');
    }
    if (slash == NULL) {
        return (char *)".";
    }
    while (slash > path && slash[-1] == '/') {
        --slash;
    }
    slash[slash == path] = '\0';
    return path;
}

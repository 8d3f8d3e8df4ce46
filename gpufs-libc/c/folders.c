/* What programs ask of directories beside reading them: scandir(3), glob(3), utime(2). */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utime.h>

int alphasort(const struct dirent **left, const struct dirent **right) {
    return strcoll((*left)->d_name, (*right)->d_name);
}
int versionsort(const struct dirent **left, const struct dirent **right) {
    return strverscmp((*left)->d_name, (*right)->d_name);
}

typedef int comparison(const struct dirent **, const struct dirent **);
struct order {
    comparison *compare;
};

static int ordered(const void *left, const void *right, void *context) {
    return ((struct order *)context)->compare((const struct dirent **)left, (const struct dirent **)right);
}

int scandir(const char *path, struct dirent ***list, int (*wants)(const struct dirent *), comparison *compare) {
    struct dirent **all = NULL, *entry;
    size_t count = 0, room = 0;
    int error = 0;
    struct order order = {compare};
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return -1;
    }
    errno = 0;
    while ((entry = readdir(folder)) != NULL) {
        if (wants != NULL && !wants(entry)) {
            continue;
        }
        struct dirent *copy = malloc(sizeof *copy);
        if (count == room) {
            struct dirent **more = reallocarray(all, room = 2 * room + 8, sizeof *all);
            all = more != NULL ? more : all;
            error = more == NULL;
        }
        if (copy == NULL || error) {
            free(copy);
            errno = ENOMEM;
            break;
        }
        *copy = *entry;
        all[count++] = copy;
    }
    error = errno;
    (void)closedir(folder);
    if (error != 0) {
        while (count != 0) {
            free(all[--count]);
        }
        free(all);
        errno = error;
        return -1;
    }
    if (compare != NULL) {
        qsort_r(all, count, sizeof *all, ordered, &order);
    }
    *list = all;
    return (int)count;
}

int utime(const char *path, const struct utimbuf *times) {
    struct timespec both[2] = {{0, 0}, {0, 0}};
    if (times != NULL) {
        both[0].tv_sec = times->actime;
        both[1].tv_sec = times->modtime;
    }
    return utimensat(-100, path, times != NULL ? both : NULL, 0); /* AT_FDCWD */
}

/* Appends a path, with a slash where it is a directory and that is asked for. 0 or GLOB_NOSPACE. */
static int found(glob_t *into, const char *path, int flags) {
    struct stat about;
    size_t length = strlen(path), offset = flags & GLOB_DOOFFS ? into->gl_offs : 0;
    char **more = reallocarray(into->gl_pathv, offset + into->gl_pathc + 2, sizeof *more);
    char *copy = malloc(length + 2);
    if (more != NULL) {
        into->gl_pathv = more;
    }
    if (more == NULL || copy == NULL) {
        free(copy);
        return GLOB_NOSPACE;
    }
    memcpy(copy, path, length + 1);
    if (flags & GLOB_MARK && length != 0 && path[length - 1] != '/' && stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        strcpy(copy + length, "/");
    }
    for (size_t at = 0; into->gl_pathc == 0 && at < offset; ++at) {
        more[at] = NULL;
    }
    more[offset + into->gl_pathc++] = copy;
    more[offset + into->gl_pathc] = NULL;
    return 0;
}

/* What `rest` of the pattern names below `before`, whose slash is part of it. */
static int below(const char *before, const char *rest, int flags, int (*told)(const char *, int), glob_t *into) {
    size_t slashes = strspn(rest, "/"), length, start = strlen(before);
    char *path = malloc(start + slashes + 256 + 2), *part;
    int result = 0;
    if (path == NULL) {
        return GLOB_NOSPACE;
    }
    memcpy(path, before, start);
    memset(path + start, '/', slashes);
    path[start += slashes] = 0;
    rest += slashes;
    length = strcspn(rest, "/");
    part = strndup(rest, length);
    if (part == NULL) {
        free(path);
        return GLOB_NOSPACE;
    }
    if (length == 0) {
        struct stat about;
        result = stat(path, &about) == 0 ? found(into, path, flags) : 0;
    } else if (length < 256 && strpbrk(part, "*?[\\") == NULL) {
        struct stat about;
        memcpy(path + start, part, length + 1);
        if (rest[length] != 0) {
            result = below(path, rest + length, flags, told, into);
        } else if (lstat(path, &about) == 0) {
            result = found(into, path, flags);
        }
    } else {
        int matching = FNM_PERIOD | (flags & GLOB_NOESCAPE ? FNM_NOESCAPE : 0);
        struct dirent *entry;
        DIR *folder = opendir(start == 0 ? "." : path);
        if (folder == NULL && errno != ENOTDIR && errno != ENOENT) {
            int is_end = told != NULL && told(path, errno) != 0;
            result = is_end || flags & GLOB_ERR ? GLOB_ABORTED : 0;
        }
        while (result == 0 && folder != NULL && (entry = readdir(folder)) != NULL) {
            struct stat about;
            if (fnmatch(part, entry->d_name, matching) != 0) {
                continue;
            }
            strcpy(path + start, entry->d_name);
            if (rest[length] == 0) {
                result = found(into, path, flags);
            } else if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
                result = below(path, rest + length, flags, told, into);
            }
        }
        if (folder != NULL) {
            (void)closedir(folder);
        }
    }
    free(part);
    free(path);
    return result;
}

static int by_text(const void *left, const void *right) { return strcmp(*(char *const *)left, *(char *const *)right); }

int glob(const char *restrict pattern, int flags, int (*told)(const char *path, int error), glob_t *restrict into) {
    int result, error = errno;
    size_t before, offset = flags & GLOB_DOOFFS ? into->gl_offs : 0;
    if ((flags & GLOB_APPEND) == 0) {
        into->gl_pathc = 0;
        into->gl_pathv = NULL;
        into->gl_offs = offset;
    }
    before = into->gl_pathc;
    result = *pattern == 0 ? 0 : below("", pattern, flags, told, into);
    if (result == 0 && into->gl_pathc == before) {
        result = flags & GLOB_NOCHECK ? found(into, pattern, flags & ~GLOB_MARK) : GLOB_NOMATCH;
    } else if (result == 0 && (flags & GLOB_NOSORT) == 0) {
        qsort(into->gl_pathv + offset + before, into->gl_pathc - before, sizeof(char *), by_text);
    }
    errno = error;
    return result;
}

void globfree(glob_t *found) {
    for (size_t at = 0; found->gl_pathv != NULL && at < found->gl_pathc; ++at) {
        free(found->gl_pathv[found->gl_offs + at]);
    }
    free(found->gl_pathv);
    found->gl_pathv = NULL;
    found->gl_pathc = 0;
}

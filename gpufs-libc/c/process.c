/* What programs ask of the process that they are: <unistd.h> beside files, system(3), error(3), and the paths of files of
 * their own (mkdtemp, realpath). */
#include "program.h"
#include <errno.h>
#include <error.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

pid_t getpid(void) { return gpufs_program_->process[0]; }
pid_t getppid(void) { return gpufs_program_->process[1]; }
uid_t getuid(void) { return (uid_t)gpufs_program_->process[2]; }
uid_t geteuid(void) { return (uid_t)gpufs_program_->process[3]; }
gid_t getgid(void) { return (gid_t)gpufs_program_->process[4]; }
gid_t getegid(void) { return (gid_t)gpufs_program_->process[5]; }

unsigned sleep(unsigned seconds) {
    const struct timespec duration = {(time_t)seconds, 0};
    (void)nanosleep(&duration, NULL);
    return 0;
}

int usleep(useconds_t microseconds) {
    const struct timespec duration = {(time_t)(microseconds / 1000000), (long)(microseconds % 1000000) * 1000};
    return nanosleep(&duration, NULL);
}

int gettimeofday(struct timeval *restrict into, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return -1;
    }
    into->tv_sec = now.tv_sec;
    into->tv_usec = now.tv_nsec / 1000;
    return 0;
}

long sysconf(int name) {
    switch (name) {
    case _SC_ARG_MAX: return 2097152;
    case _SC_CLK_TCK: return 100;
    case _SC_OPEN_MAX: return 256;
    case _SC_PAGESIZE: return 4096;
    case _SC_NPROCESSORS_CONF:
    case _SC_NPROCESSORS_ONLN: return 1;
    default: gpufs_libc_errno_(EINVAL); return -1;
    }
}

int getpagesize(void) { return 4096; }

/* The command runs on the host. What it prints is read through a pipe and written to the program's standard output, in
 * the order of the program's own; its standard input and error are those of the process. */
int system(const char *command) {
    char text[512];
    size_t bytes;
    FILE *output;
    if (command == NULL) {
        return 1;
    }
    (void)fflush(NULL);
    output = popen(command, "r");
    if (output == NULL) {
        return -1;
    }
    while ((bytes = fread(text, 1, sizeof text, output)) != 0) {
        (void)fwrite(text, 1, bytes, stdout);
    }
    return pclose(output);
}

unsigned error_message_count;

void error(int status, int number, const char *format, ...) {
    va_list list;
    (void)fflush(stdout);
    fprintf(stderr, "%s: ", gpufs_program_->argc != 0 ? gpufs_program_->argv[0] : "");
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    if (number != 0) {
        fprintf(stderr, ": %s", strerror(number));
    }
    fputs("\n", stderr);
    ++error_message_count;
    if (status != 0) {
        exit(status);
    }
}

/* Tries names until one is free; as many as glibc does. */
char *mkdtemp(char *path) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    static uint64_t drawn;
    size_t length = strlen(path);
    if (length < 6 || strcmp(path + length - 6, "XXXXXX") != 0) {
        gpufs_libc_errno_(EINVAL);
        return NULL;
    }
    for (int tries = 0; tries < 238328; ++tries) {
        struct timespec now = {0, 0};
        (void)clock_gettime(CLOCK_REALTIME, &now);
        drawn = (drawn ^ (uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 32) * UINT64_C(6364136223846793005) + 1;
        uint64_t rest = drawn >> 16;
        for (size_t at = length - 6; at < length; ++at, rest /= 62) {
            path[at] = letters[rest % 62];
        }
        if (mkdir(path, 0700) == 0) {
            return path;
        }
        if (errno != EEXIST) {
            break;
        }
    }
    memcpy(path + length - 6, "XXXXXX", 6);
    return NULL;
}

/* realpath(3): each part is looked at, and a link is replaced by what it leads to. */
char *realpath(const char *restrict path, char *restrict into) {
    static char rest[4096], target[4096];
    char *made = into != NULL ? into : malloc(4096);
    size_t length, links = 0;
    if (path == NULL || *path == 0 || strlen(path) >= sizeof rest) {
        gpufs_libc_errno_(path == NULL ? EINVAL : *path == 0 ? ENOENT : ENAMETOOLONG);
        goto failed;
    }
    if (made == NULL) {
        return NULL;
    }
    strcpy(rest, path);
    made[0] = 0;
    if (rest[0] != '/' && getcwd(made, 4096) == NULL) {
        goto failed;
    }
    length = strcmp(made, "/") == 0 ? 0 : strlen(made);
    for (char *at = rest; *(at += strspn(at, "/")) != 0;) {
        size_t part = strcspn(at, "/");
        struct stat about;
        ssize_t bytes;
        if (part == 1 && at[0] == '.') {
            at += part;
            continue;
        }
        if (part == 2 && at[0] == '.' && at[1] == '.') {
            while (length != 0 && made[--length] != '/') {
            }
            at += part;
            continue;
        }
        if (length + 1 + part >= 4096) {
            gpufs_libc_errno_(ENAMETOOLONG);
            goto failed;
        }
        size_t before = length;
        made[length] = '/';
        memcpy(made + length + 1, at, part);
        made[length += 1 + part] = 0;
        if (lstat(made, &about) != 0) {
            goto failed;
        }
        if (S_ISLNK(about.st_mode)) {
            bytes = readlink(made, target, sizeof target - 1);
            if (bytes < 0) {
                goto failed;
            }
            if (++links > 40 || (size_t)bytes + strlen(at + part) >= sizeof rest) {
                gpufs_libc_errno_(links > 40 ? ELOOP : ENAMETOOLONG);
                goto failed;
            }
            /* What follows the link, behind where it leads. */
            memmove(rest + bytes, at + part, strlen(at + part) + 1);
            memcpy(rest, target, (size_t)bytes);
            length = rest[0] == '/' ? 0 : before;
            at = rest;
        } else if (at[part] == '/' && !S_ISDIR(about.st_mode)) {
            gpufs_libc_errno_(ENOTDIR);
            goto failed;
        } else {
            at += part;
        }
    }
    made[length] = 0;
    return length == 0 ? strcpy(made, "/") : made;
failed:
    if (into == NULL) {
        free(made);
    }
    return NULL;
}

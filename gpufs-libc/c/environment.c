/* The environment (POSIX setenv, unsetenv, putenv; getenv of C11 7.22.4.6). It begins as the host's; what the program
 * changes is its own, and reaches the commands of popen and system in no way. */
#include "program.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char **environ;

/* The list that this file has allocated, and how many pointers it has room for, with the null at the end. */
static char **allocated;
static size_t room;

/* Where the variable of this name stands in the list; where it ends, if there is none. */
static size_t place_of(const char *name, size_t length) {
    size_t at = 0;
    while (environ != NULL && environ[at] != NULL &&
           (strncmp(environ[at], name, length) != 0 || environ[at][length] != '=')) {
        ++at;
    }
    return at;
}

char *getenv(const char *name) {
    size_t length = strlen(name), at = place_of(name, length);
    return length == 0 || environ == NULL || environ[at] == NULL ? NULL : environ[at] + length + 1;
}

char *secure_getenv(const char *name) { return getenv(name); }

/* Puts "name=value" into the list. */
static int put(char *variable, size_t length) {
    size_t at = place_of(variable, length);
    if (environ != NULL && environ[at] != NULL) {
        environ[at] = variable;
        return 0;
    }
    if (environ != allocated || allocated == NULL || at + 2 > room) {
        size_t wanted = 2 * (at + 8);
        char **list = malloc(wanted * sizeof *list);
        if (list == NULL) {
            return -1;
        }
        if (at != 0) {
            memcpy(list, environ, at * sizeof *list);
        }
        free(allocated);
        environ = allocated = list;
        room = wanted;
    }
    environ[at] = variable;
    environ[at + 1] = NULL;
    return 0;
}

/* A value that is replaced stays allocated: getenv may have returned it. */
int setenv(const char *name, const char *value, int overwrite) {
    size_t length = name == NULL ? 0 : strlen(name), bytes;
    if (length == 0 || memchr(name, '=', length) != NULL) {
        gpufs_libc_errno_(EINVAL);
        return -1;
    }
    if (!overwrite && getenv(name) != NULL) {
        return 0;
    }
    bytes = strlen(value) + 1;
    char *variable = malloc(length + 1 + bytes);
    if (variable == NULL) {
        return -1;
    }
    memcpy(variable, name, length);
    variable[length] = '=';
    memcpy(variable + length + 1, value, bytes);
    return put(variable, length);
}

int unsetenv(const char *name) {
    size_t length = name == NULL ? 0 : strlen(name);
    if (length == 0 || memchr(name, '=', length) != NULL) {
        gpufs_libc_errno_(EINVAL);
        return -1;
    }
    for (size_t at = place_of(name, length); environ != NULL && environ[at] != NULL; at = place_of(name, length)) {
        for (size_t next = at; environ[next] != NULL; ++next) {
            environ[next] = environ[next + 1];
        }
    }
    return 0;
}

/* The string itself becomes a part of the environment; one without a '=' removes the variable, as with glibc. */
int putenv(char *variable) {
    size_t length = strcspn(variable, "=");
    return variable[length] == '=' ? put(variable, length) : unsetenv(variable);
}

int clearenv(void) {
    environ = NULL;
    return 0;
}

/* What the C and C++ test programs share: checks that say where they failed, in lanes too. */
#ifndef GPUFS_TESTS_CHECK_H
#define GPUFS_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);       \
            abort();                                                                      \
        }                                                                                 \
    } while (0)

/* The call fails with -1, EOF or null, `result` being which, and this errno. */
#define CHECK_FAILS(call, result, number) \
    do {                                  \
        errno = 0;                        \
        CHECK((call) == (result));        \
        CHECK(errno == (number));         \
    } while (0)

/* The whole of a small file. */
static inline size_t slurp(const char *path, char *into, size_t room) {
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    size_t bytes = fread(into, 1, room - 1, file);
    into[bytes] = '\0';
    CHECK(fclose(file) == 0);
    return bytes;
}

#endif

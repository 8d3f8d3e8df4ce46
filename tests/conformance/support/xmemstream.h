/* A stream in memory, and where it is. */
#ifndef CONFORMANCE_XMEMSTREAM_H
#define CONFORMANCE_XMEMSTREAM_H

#include "all.h"

struct xmemstream {
    FILE *out;
    char *buffer;
    size_t length;
};

#define xopen_memstream(stream)                                                                      \
    TEST_VERIFY_EXIT(((stream)->out = open_memstream(&(stream)->buffer, &(stream)->length)) != NULL)
#define xfclose_memstream(stream) TEST_VERIFY_EXIT(fclose((stream)->out) == 0)

#endif

/* UTF-8 as wide characters, for <gpufs/memory_stream.h> and the wide streams of the drop-in headers. */
#ifndef GPUFS_UTF8_H
#define GPUFS_UTF8_H

#include <gpufs/types.h>

/* A character of UTF-8 text that ends with a NUL, and how many bytes it takes: 0 where it is none. */
GPUFS_INLINE int gpufs_wide_decoded_(const char *text, uint32_t *character) {
    const unsigned char *byte = (const unsigned char *)text;
    int bytes = byte[0] < 0x80 ? 1 : byte[0] < 0xc2 ? 0 : byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : byte[0] < 0xf5 ? 4 : 0, at;
    uint32_t value = bytes <= 1 ? byte[0] : byte[0] & (0x7fu >> bytes);
    for (at = 1; at < bytes; ++at) {
        if ((byte[at] & 0xc0) != 0x80) {
            return 0;
        }
        value = value << 6 | (byte[at] & 0x3f);
    }
    *character = value;
    return (bytes == 3 && (value < 0x800 || (value >= 0xd800 && value < 0xe000))) ||
                   (bytes == 4 && (value < 0x10000 || value > 0x10ffff)) ? 0 : bytes;
}

#endif

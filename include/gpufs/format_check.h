/* The compiler's check of a literal format, for C++. <gpufs/format.h> includes this file.
 */
#ifndef GPUFS_FORMAT_CHECK_H
#define GPUFS_FORMAT_CHECK_H

#include <gpufs/gpufs.h>

#ifdef __cplusplus

namespace gpufs {
namespace detail {

GPUFS_BOTH constexpr bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }
GPUFS_BOTH constexpr bool is_flag(char byte) {
    return byte == '-' || byte == '+' || byte == ' ' || byte == '#' || byte == '0' || byte == '\'' || byte == 'I';
}
GPUFS_BOTH constexpr bool is_integer(uint32_t kind) {
    return kind == GPUFS_ARGUMENT_SIGNED || kind == GPUFS_ARGUMENT_UNSIGNED;
}

/* Checks a format as the device library does (gpufs-device/src/format/parse.rs and check.rs), in the compiler. */
struct Check {
    const char *format;
    const uint32_t *kinds;
    size_t count;
    size_t at;
    size_t next; /* the next argument, or SIZE_MAX where arguments are numbered */
    size_t end;  /* after the last argument that was taken */

    /* n$, or 0. */
    GPUFS_BOTH constexpr uint64_t number() {
        uint64_t value = 0;
        size_t after = at;
        for (; is_digit(format[after]); ++after) {
            value = value > 2147483647u ? value : value * 10 + static_cast<uint64_t>(format[after] - '0');
        }
        if (value == 0 || format[after] != '$') {
            return 0;
        }
        at = after + 1;
        return value;
    }
    /* Takes the next argument, or the one with this number: its kind, or UINT32_MAX if there is none. */
    GPUFS_BOTH constexpr uint32_t take(uint64_t numbered) {
        if (numbered == 0 ? next == SIZE_MAX : next != 0 && next != SIZE_MAX) {
            return UINT32_MAX;
        }
        const size_t index = numbered == 0 ? next : static_cast<size_t>(numbered - 1);
        next = numbered == 0 ? next + 1 : SIZE_MAX;
        end = index < end ? end : index + 1;
        return index < count ? kinds[index] : UINT32_MAX;
    }
    /* A number up to INT_MAX, `*` with its integer, or nothing. */
    GPUFS_BOTH constexpr bool amount() {
        if (format[at] == '*') {
            ++at;
            return is_integer(take(number()));
        }
        uint64_t value = 0;
        for (; is_digit(format[at]); ++at) {
            value = value > 2147483647u ? value : value * 10 + static_cast<uint64_t>(format[at] - '0');
        }
        return value <= 2147483647u;
    }
    /* The conversion whose % stands before `at`. */
    GPUFS_BOTH constexpr bool conversion() {
        const uint64_t numbered = number();
        while (is_flag(format[at])) {
            ++at;
        }
        if (!amount()) {
            return false;
        }
        if (format[at] == '.') {
            ++at;
            if (!amount()) {
                return false;
            }
        }
        /* Of integers alone; l; L. */
        bool narrow = false, wide = false, wider = false;
        uint32_t bytes = 4;
        if (format[at] == 'h') {
            narrow = true;
            bytes = format[at + 1] == 'h' ? 1 : 2;
            at += format[at + 1] == 'h' ? 2 : 1;
        } else if (format[at] == 'l') {
            wide = format[at + 1] != 'l';
            narrow = !wide;
            bytes = 8;
            at += wide ? 1 : 2;
        } else if (format[at] == 'j' || format[at] == 'z' || format[at] == 't' || format[at] == 'q') {
            narrow = true;
            bytes = 8;
            ++at;
        } else if (format[at] == 'L') {
            wider = true;
            ++at;
        } else if (format[at] == 'w') {
            narrow = true;
            const bool fast = format[at + 1] == 'f';
            at += fast ? 2 : 1;
            const char first = format[at];
            if (first == '\0') {
                return false;
            }
            const char second = format[at + 1];
            bytes = fast ? 8 : first == '1' ? 2 : first == '3' ? 4 : 8;
            if (first == '8') {
                bytes = 1;
                ++at;
            } else if ((first == '1' && second == '6') || (first == '3' && second == '2') ||
                       (first == '6' && second == '4')) {
                at += 2;
            } else {
                return false;
            }
        }
        const bool any = narrow || wide || wider;
        const char letter = format[at];
        if (letter == '%' || letter == 'm') {
            ++at;
            return !any;
        }
        const uint32_t full = take(numbered), kind = full == UINT32_MAX ? full : full & 0xff;
        bool fits = false;
        switch (letter) {
        case 'd': case 'i': case 'u': case 'o': case 'x': case 'X': case 'b': case 'B':
            fits = !wider && is_integer(kind);
            break;
        case 'c':
            fits = !narrow && !wider && is_integer(kind);
            break;
        case 'C':
            fits = !any && is_integer(kind);
            break;
        case 's':
            fits = !narrow && !wider && kind == (wide ? GPUFS_ARGUMENT_WIDE : GPUFS_ARGUMENT_C_STRING);
            break;
        case 'S':
            fits = !any && kind == GPUFS_ARGUMENT_WIDE;
            break;
        case 'p':
            fits = !any && (kind == GPUFS_ARGUMENT_POINTER || kind == GPUFS_ARGUMENT_C_STRING ||
                            kind == GPUFS_ARGUMENT_WIDE || kind == GPUFS_ARGUMENT_PLACE);
            break;
        case 'n':
            fits = !wider && (full == (GPUFS_ARGUMENT_PLACE | bytes << 8) ||
                              (bytes == 1 && full == (GPUFS_ARGUMENT_C_STRING | 1u << 8)));
            break;
        case 'f': case 'F': case 'e': case 'E': case 'g': case 'G': case 'a': case 'A':
            fits = !narrow && kind == GPUFS_ARGUMENT_DOUBLE;
            break;
        default:
            return false;
        }
        ++at;
        return fits;
    }
    GPUFS_BOTH constexpr bool run() {
        while (format[at] != '\0') {
            if (format[at++] == '%' && !conversion()) {
                return false;
            }
        }
        return true;
    }
};

} /* namespace detail */
} /* namespace gpufs */

#endif

#endif

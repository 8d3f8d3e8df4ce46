/* The wide streams of <wchar.h> (C11 7.29.2, 7.29.3), for sources that know nothing of gpufs.
 *
 * A stream is one of bytes. Wide characters are written and read as UTF-8, whatever the locale, so that a stream takes
 * bytes and wide characters in any order, and fwide keeps no orientation. Formats and texts are those of the printf and
 * scanf families in UTF-8: results count wide characters; a width or a precision, %n and what %[ lists count bytes, which
 * differ where a text is not ASCII; so do positions, those of open_wmemstream among them.
 * A call is one unit, but for fgetws and ungetwc, which hold the stream (flockfile).
 */
#ifndef GPUFS_STANDARD_WIDE_STREAMS_H
#define GPUFS_STANDARD_WIDE_STREAMS_H

#include <gpufs/standard/errno.h>
#include <gpufs/standard/stdio.h>

#pragma GCC system_header

#define GPUFS_WIDE_ROOM_ 512 /* bytes of text that need no allocation */

/* The UTF-8 of a character, and how many bytes that is: 1 to 4; 0 and EILSEQ for what is none. */
GPUFS_INLINE int gpufs_wide_encoded_(char *into, uint32_t character) {
    int bytes = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4, at;
    if (character > 0x10ffff || (character >= 0xd800 && character < 0xe000)) {
        gpufs_set_errno_(84); /* EILSEQ */
        return 0;
    }
    for (at = bytes - 1; at > 0; --at, character >>= 6) {
        into[at] = (char)(0x80 | (character & 0x3f));
    }
    into[0] = (char)(character | (bytes == 1 ? 0 : 0xf00u >> bytes & 0xff));
    return bytes;
}

/* The UTF-8 of a string: `room`, where it fits, or memory to be freed; null with EILSEQ or ENOMEM. */
GPUFS_INLINE char *gpufs_wide_narrowed_(const wchar_t *wide, char *room) {
    size_t bytes = 1, at;
    char one[4], *text;
    for (at = 0; wide[at] != 0; ++at) {
        int more = gpufs_wide_encoded_(one, (uint32_t)wide[at]);
        if (more == 0) {
            return (char *)0;
        }
        bytes += (size_t)more;
    }
    text = bytes <= GPUFS_WIDE_ROOM_ ? room : (char *)GPUFS_MALLOC(bytes);
    if (text == (char *)0) {
        gpufs_set_errno_(12); /* ENOMEM */
        return text;
    }
    for (bytes = at = 0; wide[at] != 0; ++at) {
        bytes += (size_t)gpufs_wide_encoded_(text + bytes, (uint32_t)wide[at]);
    }
    text[bytes] = 0;
    return text;
}

/* How many characters a text has, as far as it is UTF-8; other bytes count as one each. */
GPUFS_INLINE int gpufs_wide_count_(const char *text, size_t bytes) {
    size_t at; int count = 0;
    for (at = 0; at < bytes; ++at) { count += (text[at] & 0xc0) != 0x80; }
    return count;
}

#if defined(GPUFS_WITH_POSIX_)
GPUFS_STANDARD_(FILE *, open_wmemstream, (wchar_t **text, size_t *size), (text, size),
                return GPUFS_FILE_(gpufs_open_wmemstream(gpufs_used_(), text, size));)
#endif
GPUFS_STANDARD_PLAIN_(int, fwide, (FILE *file, int mode), (void)file; return mode > 0 ? 1 : -1;)
GPUFS_STANDARD_PLAIN_(wint_t, fputwc, (wchar_t character, FILE *file), char text[4];
    int bytes = gpufs_wide_encoded_(text, (uint32_t)character);
    return bytes != 0 && fwrite(text, 1, (size_t)bytes, file) == (size_t)bytes ? (wint_t)character : WEOF;)
GPUFS_STANDARD_PLAIN_(wint_t, putwc, (wchar_t character, FILE *file), return fputwc(character, file);)
GPUFS_STANDARD_PLAIN_(wint_t, putwchar, (wchar_t character), return fputwc(character, stdout);)
GPUFS_STANDARD_PLAIN_(int, fputws, (const wchar_t *wide, FILE *file), char room[GPUFS_WIDE_ROOM_];
    char *text = gpufs_wide_narrowed_(wide, room); int result;
    if (text == (char *)0) { return -1; }
    result = fputs(text, file) < 0 ? -1 : 1;
    if (text != room) { GPUFS_FREE(text); }
    return result;)
GPUFS_STANDARD_PLAIN_(wint_t, fgetwc, (FILE *file), wchar_t character;
    return fscanf(file, "%lc", &character) == 1 ? (wint_t)character : WEOF;)
GPUFS_STANDARD_PLAIN_(wint_t, getwc, (FILE *file), return fgetwc(file);)
GPUFS_STANDARD_PLAIN_(wint_t, getwchar, (void), return fgetwc(stdin);)
GPUFS_STANDARD_PLAIN_(wchar_t *, fgetws, (wchar_t *into, int count, FILE *file),
    int at = 0; wint_t character = 0;
    if (count <= 0) { return (wchar_t *)0; }
    gpufs_flockfile(GPUFS_HANDLE_(file));
    while (at < count - 1 && character != (wint_t)'\n' && (character = fgetwc(file)) != WEOF) {
        into[at++] = (wchar_t)character;
    }
    gpufs_funlockfile(GPUFS_HANDLE_(file));
    into[at] = 0;
    /* C11 7.29.3.2: a read error gives null, the end of the file where nothing was read. */
    return character == WEOF && (at == 0 || !feof(file)) ? (wchar_t *)0 : into;)
GPUFS_STANDARD_PLAIN_(wint_t, ungetwc, (wint_t character, FILE *file), char text[4]; int bytes, at;
    if (character == WEOF || (bytes = gpufs_wide_encoded_(text, (uint32_t)character)) == 0) { return WEOF; }
    gpufs_flockfile(GPUFS_HANDLE_(file));
    for (at = bytes; at > 0 && ungetc((unsigned char)text[at - 1], file) >= 0; --at) {}
    gpufs_funlockfile(GPUFS_HANDLE_(file));
    return at == 0 ? character : WEOF;)

/* The text of a format and its arguments as UTF-8, in `room` or in memory to be freed; its length, or -1. */
GPUFS_STANDARD_PLAIN_(int, gpufs_wide_text_, (char *room, char **text, const wchar_t *wide, va_list list),
    char format_room[GPUFS_WIDE_ROOM_]; char *format = gpufs_wide_narrowed_(wide, format_room); int bytes;
    va_list again;
    *text = room;
    if (format == (char *)0) { return -1; }
    va_copy(again, list);
    bytes = vsnprintf(room, GPUFS_WIDE_ROOM_, format, list);
    if (bytes >= GPUFS_WIDE_ROOM_) {
        *text = (char *)GPUFS_MALLOC((size_t)bytes + 1);
        if (*text == (char *)0) {
            gpufs_set_errno_(12); /* ENOMEM */
            *text = room;
            bytes = -1;
        } else {
            bytes = vsnprintf(*text, (size_t)bytes + 1, format, again);
        }
    }
    va_end(again);
    if (format != format_room) { GPUFS_FREE(format); }
    return bytes;)

GPUFS_STANDARD_PLAIN_(int, vfwprintf, (FILE *file, const wchar_t *format, va_list list),
    char room[GPUFS_WIDE_ROOM_]; char *text; int bytes = gpufs_wide_text_(room, &text, format, list), result = -1;
    if (bytes >= 0 && fwrite(text, 1, (size_t)bytes, file) == (size_t)bytes) {
        result = gpufs_wide_count_(text, (size_t)bytes);
    }
    if (text != room) { GPUFS_FREE(text); }
    return result;)
GPUFS_STANDARD_PLAIN_(int, vwprintf, (const wchar_t *format, va_list list), return vfwprintf(stdout, format, list);)
/* -1 with EOVERFLOW where the text does not fit (C11 7.29.2.3): as much as fits is there, as with glibc. */
GPUFS_STANDARD_PLAIN_(int, vswprintf, (wchar_t *into, size_t count, const wchar_t *format, va_list list),
    char room[GPUFS_WIDE_ROOM_]; char *text; int bytes = gpufs_wide_text_(room, &text, format, list), result = -1;
    size_t at = 0; int from = 0, step = 1; uint32_t character = 0;
    if (count == 0 && bytes >= 0) { gpufs_set_errno_(75); bytes = -1; } /* EOVERFLOW */
    while (bytes > from && at + 1 < count && (step = gpufs_wide_decoded_(text + from, &character)) != 0) {
        into[at++] = (wchar_t)character;
        from += step;
    }
    if (count != 0) { into[at] = 0; }
    if (bytes == from) {
        result = (int)at;
    } else if (bytes > from) {
        gpufs_set_errno_(step == 0 ? 84 : 75); /* EILSEQ, EOVERFLOW */
    }
    if (text != room) { GPUFS_FREE(text); }
    return result;)

/* The scanf family: the format and, for swscanf, the text as UTF-8. */
GPUFS_STANDARD_PLAIN_(int, vfwscanf, (FILE *file, const wchar_t *wide, va_list list), char room[GPUFS_WIDE_ROOM_];
    char *format = gpufs_wide_narrowed_(wide, room); int result;
    if (format == (char *)0) { return -1; }
    result = vfscanf(file, format, list);
    if (format != room) { GPUFS_FREE(format); }
    return result;)
GPUFS_STANDARD_PLAIN_(int, vwscanf, (const wchar_t *format, va_list list), return vfwscanf(stdin, format, list);)
GPUFS_STANDARD_PLAIN_(int, vswscanf, (const wchar_t *from, const wchar_t *wide, va_list list),
    char room[GPUFS_WIDE_ROOM_], text_room[GPUFS_WIDE_ROOM_]; int result = -1;
    char *format = gpufs_wide_narrowed_(wide, room);
    char *text = format == (char *)0 ? (char *)0 : gpufs_wide_narrowed_(from, text_room);
    if (text != (char *)0) { result = vsscanf(text, format, list); }
    if (text != text_room) { GPUFS_FREE(text); }
    if (format != room) { GPUFS_FREE(format); }
    return result;)

GPUFS_STANDARD_VARIADIC_(wprintf, (const wchar_t *format, ...), vfwprintf(stdout, format, list))
GPUFS_STANDARD_VARIADIC_(fwprintf, (FILE *file, const wchar_t *format, ...), vfwprintf(file, format, list))
GPUFS_STANDARD_VARIADIC_(swprintf, (wchar_t *into, size_t count, const wchar_t *format, ...),
                         vswprintf(into, count, format, list))
GPUFS_STANDARD_VARIADIC_(wscanf, (const wchar_t *format, ...), vfwscanf(stdin, format, list))
GPUFS_STANDARD_VARIADIC_(fwscanf, (FILE *file, const wchar_t *format, ...), vfwscanf(file, format, list))
GPUFS_STANDARD_VARIADIC_(swscanf, (const wchar_t *from, const wchar_t *format, ...), vswscanf(from, format, list))

#if defined(GPUFS_WITH_GNU_)
GPUFS_STANDARD_PLAIN_(wint_t, fgetwc_unlocked, (FILE *file), return fgetwc(file);)
GPUFS_STANDARD_PLAIN_(wint_t, getwc_unlocked, (FILE *file), return fgetwc(file);)
GPUFS_STANDARD_PLAIN_(wint_t, getwchar_unlocked, (void), return getwchar();)
GPUFS_STANDARD_PLAIN_(wchar_t *, fgetws_unlocked, (wchar_t *into, int count, FILE *file), return fgetws(into, count, file);)
GPUFS_STANDARD_PLAIN_(wint_t, fputwc_unlocked, (wchar_t character, FILE *file), return fputwc(character, file);)
GPUFS_STANDARD_PLAIN_(wint_t, putwc_unlocked, (wchar_t character, FILE *file), return fputwc(character, file);)
GPUFS_STANDARD_PLAIN_(wint_t, putwchar_unlocked, (wchar_t character), return putwchar(character);)
GPUFS_STANDARD_PLAIN_(int, fputws_unlocked, (const wchar_t *wide, FILE *file), return fputws(wide, file);)
#endif

#endif

/* Streams on memory: fmemopen(3), open_memstream(3), open_wmemstream(3). Included by <gpufs/stdio.h>.
 *
 * What such a stream holds lies in a file of the host's without a name. It comes to the program's memory when the stream
 * is flushed or closed, not before: also what an unbuffered stream writes.
 */
#ifndef GPUFS_MEMORY_STREAM_H
#define GPUFS_MEMORY_STREAM_H

#include <gpufs/memory.h>
#include <gpufs/raw.h>
#include <gpufs/utf8.h>

/* A stream on `bytes` bytes at `memory`, or on as many of its own where that is null (fmemopen(3)). With "r" the content
 * is the whole memory, with "w" empty, with "a" all before the first NUL, where the stream stands. The memory has what
 * was written after gpufs_fflush and gpufs_fclose, and after a gpufs_fseek of the thread that opened the stream, with a
 * NUL behind it where the content became longer. It must stay until the stream is closed; the stream does not see what
 * the program writes there meanwhile. Null on error: EINVAL (mode, or more bytes than memory has), EFAULT (null mode),
 * EMFILE, ENOMEM. Later: gpufs_fflush and gpufs_fclose fail with ENOSPC where more was written than fits, and drop that;
 * with EFAULT in another thread than the opener's where the memory is on its stack on a GPU. */
GPUFS_INLINE GPUFS_RESULT(gpufs_file *) gpufs_fmemopen(gpufs_session *session, void *memory, size_t bytes,
                                                       const char *mode) {
    int64_t raw = gpufs_raw_fmemopen(session, memory, bytes, mode);
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(gpufs_file *, error != 0 ? (gpufs_file *)0 : (gpufs_file *)(uintptr_t)raw, error);
}

/* What a stream of gpufs_open_memstream or gpufs_open_wmemstream knows of its text. */
struct gpufs_memory_stream_ {
    char **text;         /* null of wide characters */
    wchar_t **wide_text; /* null of bytes */
    size_t *size;
    char *memory;
    size_t bytes;
    wchar_t *wide;
    size_t wide_bytes;
};

/* A stream on memory that grows, for one of the two texts: its handle, or a negated errno. */
GPUFS_INLINE int64_t gpufs_memory_open_(gpufs_session *session, char **text, wchar_t **wide_text, size_t *size) {
    struct gpufs_memory_stream_ *own;
    int64_t raw;
    if ((text == 0 && wide_text == 0) || size == 0) {
        return -22; /* EINVAL */
    }
    own = (struct gpufs_memory_stream_ *)GPUFS_MALLOC(sizeof *own);
    if (own == 0) {
        return -12; /* ENOMEM */
    }
    own->text = text;
    own->wide_text = wide_text;
    own->size = size;
    own->memory = 0;
    own->bytes = 0;
    own->wide = 0;
    own->wide_bytes = 0;
    raw = gpufs_raw_open_memstream(session, own);
    if (gpufs_error_of_(raw) != 0) {
        GPUFS_FREE(own);
    }
    return raw;
}

/* A stream for writing on memory that grows (open_memstream(3)). After gpufs_fflush and gpufs_fclose, `*text` is what was
 * written, with a NUL behind it, and `*size` is its length, or where the stream stands if that is less. Both change with
 * the next flush; the program frees the text with GPUFS_FREE after gpufs_fclose (see <gpufs/memory.h>). gpufs_fflush_all,
 * and the end of a kernel, leave both as they are. Null on error: EINVAL (null session, `text` or `size`), EMFILE, ENOMEM;
 * gpufs_fflush and gpufs_fclose also fail with ENOMEM. */
GPUFS_INLINE GPUFS_RESULT(gpufs_file *) gpufs_open_memstream(gpufs_session *session, char **text, size_t *size) {
    int64_t raw = gpufs_memory_open_(session, text, (wchar_t **)0, size);
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(gpufs_file *, error != 0 ? (gpufs_file *)0 : (gpufs_file *)(uintptr_t)raw, error);
}

/* The same with a text of wide characters (open_wmemstream(3)): what is written to the stream is UTF-8, and is decoded
 * when it is flushed or closed. `*size` counts wide characters; positions count bytes of the UTF-8. Also EILSEQ of
 * gpufs_fflush and gpufs_fclose, for what is none. */
GPUFS_INLINE GPUFS_RESULT(gpufs_file *) gpufs_open_wmemstream(gpufs_session *session, wchar_t **text, size_t *size) {
    int64_t raw = gpufs_memory_open_(session, (char **)0, text, size);
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(gpufs_file *, error != 0 ? (gpufs_file *)0 : (gpufs_file *)(uintptr_t)raw, error);
}

/* The `length` bytes of a stream's memory as wide characters, with as many counted as begin before `position`: 0, or a
 * negated errno. */
GPUFS_INLINE int64_t gpufs_memory_wide_(struct gpufs_memory_stream_ *own, size_t length, size_t position) {
    size_t at = 0, count = 0, before = 0, bytes = (length + 1) * sizeof(wchar_t);
    if (bytes > own->wide_bytes) {
        wchar_t *longer = (wchar_t *)GPUFS_REALLOC(own->wide, 0, bytes + bytes / 2);
        if (longer == 0) {
            return -12; /* ENOMEM */
        }
        own->wide = longer;
        own->wide_bytes = bytes + bytes / 2;
        *own->wide_text = longer;
    }
    while (at < length) {
        uint32_t character = 0;
        int step = gpufs_wide_decoded_(own->memory + at, &character);
        if (step == 0) {
            return -84; /* EILSEQ */
        }
        before += at < position;
        own->wide[count++] = (wchar_t)character;
        at += (size_t)step;
    }
    own->wide[count] = 0;
    *own->wide_text = own->wide;
    *own->size = before;
    return 0;
}

/* The text of a stream whose word is `word`: 0, or a negated errno. */
GPUFS_INLINE int64_t gpufs_memory_text_(gpufs_file *file, int64_t word) {
    struct gpufs_memory_stream_ *own = (struct gpufs_memory_stream_ *)(uintptr_t)word;
    for (;;) {
        size_t length = 0, room;
        char *longer;
        int64_t raw = gpufs_raw_memory_text(own->memory, own->bytes, &length, file);
        if (raw < 0) {
            return raw;
        }
        if (length < own->bytes) {
            if (own->wide_text != 0) {
                return gpufs_memory_wide_(own, length, (size_t)raw);
            }
            *own->text = own->memory;
            *own->size = (size_t)raw;
            return 0;
        }
        room = length + length / 2 + 64;
        /* What it held is copied again. */
        longer = (char *)GPUFS_REALLOC(own->memory, 0, room);
        if (longer == 0) {
            return -12; /* ENOMEM */
        }
        own->memory = longer;
        own->bytes = room;
        if (own->text != 0) {
            *own->text = longer;
        }
    }
}

/* fflush(3) and fclose(3), of streams on memory as well. */
GPUFS_INLINE int64_t gpufs_flush_(gpufs_file *file) {
    int64_t raw = gpufs_raw_fflush(file);
    return raw > 0 ? gpufs_memory_text_(file, raw) : raw;
}
GPUFS_INLINE int64_t gpufs_close_(gpufs_file *file) {
    int64_t raw = gpufs_raw_fclose(file);
    if (raw > 0) {
        struct gpufs_memory_stream_ *own = (struct gpufs_memory_stream_ *)(uintptr_t)raw;
        int64_t text = gpufs_memory_text_(file, raw);
        if (own->wide_text != 0) {
            GPUFS_FREE(own->memory);
        }
        GPUFS_FREE(own);
        raw = gpufs_raw_fclose(file);
        return text < 0 ? text : raw;
    }
    return raw;
}

#ifdef __cplusplus

namespace gpufs {

GPUFS_BOTH inline Result<File *> fmemopen(Session session, void *memory, size_t bytes, const char *mode) {
    return gpufs_fmemopen(session, memory, bytes, mode);
}
GPUFS_BOTH inline Result<File *> open_memstream(Session session, char **text, size_t *size) {
    return gpufs_open_memstream(session, text, size);
}
GPUFS_BOTH inline Result<File *> open_wmemstream(Session session, wchar_t **text, size_t *size) {
    return gpufs_open_wmemstream(session, text, size);
}

} /* namespace gpufs */

#endif

#endif

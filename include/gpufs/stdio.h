/* Streams: C11 7.21 on a FILE that the whole grid shares, for CUDA and HIP kernels and for CPU lanes.
 *
 *     #include <gpufs/stdio.h>
 *     __global__ void k(gpufs::File *out) { fprintf(out, "thread %d\n", threadIdx.x); }
 *
 * Names. Each function has its C name with the prefix gpufs_, in C and C++. In C++ each also has its plain name, in
 * the namespace gpufs. The compiler finds it by the type of its stream or session: `fprintf(out, ...)` is gpufs's if
 * `out` is a gpufs::File pointer, and the C library's if it is a FILE pointer. std::fprintf does not change. A
 * function without a stream takes the session first: fopen(fs, path, mode), printf(fs, format, ...). gpufs::snprintf
 * has neither and is written in full.
 *
 * Order. Any thread may call any function at any time; all threads of a warp may call, or some. The bytes of one call
 * stay together. The calls of a thread appear in the order that it made them. A call that begins after another
 * returned, in any thread, comes after it. Threads that call together are served in lane order.
 *
 * Differences from stdio on a CPU. Full buffers are written in the background. If such a write fails, the next call
 * on the stream that meets the error reports it; the bytes are kept and tried again. setvbuf never uses the caller's
 * memory. ungetc takes 8 bytes. Calls on a null or closed stream fail with EBADF. A call also has the errors of its
 * system call (write(2), read(2) ...), which are not listed below.
 */
#ifndef GPUFS_STDIO_H
#define GPUFS_STDIO_H

#include <gpufs/memory.h>
#include <gpufs/memory_stream.h>
#include <gpufs/print.h>
#include <gpufs/scan.h>

/* For setvbuf and fseek without <stdio.h>: the values of Linux's C libraries. */
#define GPUFS_IOFBF 0
#define GPUFS_IOLBF 1
#define GPUFS_IONBF 2
#define GPUFS_SEEK_SET 0
#define GPUFS_SEEK_CUR 1
#define GPUFS_SEEK_END 2
#define GPUFS_EOF (-1)

/* The standard streams of the process (stdin(3)); null if `session` is null. */
GPUFS_INLINE gpufs_file *gpufs_stdin(gpufs_session *session) {
    return (gpufs_file *)(uintptr_t)gpufs_raw_standard_stream(session, 0);
}
/* Line buffered if it is a terminal. */
GPUFS_INLINE gpufs_file *gpufs_stdout(gpufs_session *session) {
    return (gpufs_file *)(uintptr_t)gpufs_raw_standard_stream(session, 1);
}
/* Not buffered. */
GPUFS_INLINE gpufs_file *gpufs_stderr(gpufs_session *session) {
    return (gpufs_file *)(uintptr_t)gpufs_raw_standard_stream(session, 2);
}

/* Opens a stream (fopen(3)). `mode`: "r", "w" or "a", then any of + x e. Other letters have no effect, nor does
 * anything after a comma (as in glibc, except that ",ccs=" converts nothing). A relative path begins at the process's
 * directory. Null on error: EINVAL (mode, null session), EFAULT (null string), EMFILE (the session's streams or files
 * are all open; see gpufs_options), ENOENT, EACCES ... */
GPUFS_INLINE GPUFS_RESULT(gpufs_file *) gpufs_fopen(gpufs_session *session, const char *path, const char *mode) {
    int64_t raw = gpufs_raw_fopen(session, path, mode);
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(gpufs_file *, error != 0 ? (gpufs_file *)0 : (gpufs_file *)(uintptr_t)raw, error);
}

/* A shared open: the way to open a file inside a kernel of many threads. All threads that open the same path in the
 * same mode with this call, in any warp and kernel of the session, get one stream. The first call opens it.
 * gpufs_fclose closes it when it has been called as many times as this.
 *
 *     gpufs_file *out = gpufs_fopen_shared(fs, "report.txt", "w");    in every thread
 *     gpufs_fprintf(out, "thread %llu\n", (unsigned long long)gpufs_thread());
 *     gpufs_fclose(out);
 *
 * Paths are compared as strings, modes by their effect: "r" and "rb" are the same, "w" and "w+" are not. "w"
 * truncates at the first open only. A thread that finds the stream open does not truncate it. A thread that opens it
 * again after its last close continues at its end, until the host synchronizes (or a kernel has opened more files in
 * this way than the session has streams). A stream that a kernel leaves open is open for the next kernel. gpufs_fopen
 * of the same path is another stream. Null on error, as gpufs_fopen. All threads that waited for an open that failed
 * get its error; the next call tries again. */
GPUFS_INLINE GPUFS_RESULT(gpufs_file *) gpufs_fopen_shared(gpufs_session *session, const char *path, const char *mode) {
    int64_t raw = gpufs_raw_fopen_shared(session, path, mode);
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(gpufs_file *, error != 0 ? (gpufs_file *)0 : (gpufs_file *)(uintptr_t)raw, error);
}
/* Streams and descriptors of the session. */

/* A stream on an open descriptor (fdopen(3)), which belongs to it from then on: gpufs_fclose closes it. It stands where
 * the descriptor does, with "a" at the end. Null on error: EINVAL (mode, or more than the descriptor was opened for),
 * EBADF, EMFILE. */
GPUFS_INLINE GPUFS_RESULT(gpufs_file *) gpufs_fdopen(gpufs_session *session, int descriptor, const char *mode) {
    int64_t raw = gpufs_raw_fdopen(session, descriptor, mode);
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(gpufs_file *, error != 0 ? (gpufs_file *)0 : (gpufs_file *)(uintptr_t)raw, error);
}
/* The stream's descriptor (fileno(3)), or -1: EBADF. gpufs_fflush first puts it where the stream stands. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fileno(gpufs_file *file) { return gpufs_int_(gpufs_raw_fileno(file)); }
/* Opens another file on the same stream (freopen(3)), called by one thread; with a null path the same file in another
 * mode. `file`, or null, as gpufs_fopen: then it is closed. EBUSY for a stream of gpufs_fopen_shared, which stays. */
GPUFS_INLINE GPUFS_RESULT(gpufs_file *) gpufs_freopen(const char *path, const char *mode, gpufs_file *file) {
    int64_t raw = gpufs_raw_freopen(path, mode, file);
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(gpufs_file *, error != 0 ? (gpufs_file *)0 : (gpufs_file *)(uintptr_t)raw, error);
}
/* A stream on a new file in /tmp without a name, which goes with its last close (tmpfile(3)). Each thread gets one of
 * its own. Null on error, as gpufs_fopen; EOPNOTSUPP where the file system of /tmp has no such files. */
GPUFS_INLINE GPUFS_RESULT(gpufs_file *) gpufs_tmpfile(gpufs_session *session) {
    int64_t raw = gpufs_raw_tmpfile(session);
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(gpufs_file *, error != 0 ? (gpufs_file *)0 : (gpufs_file *)(uintptr_t)raw, error);
}

/* Flushes and closes (fclose(3)): called by one thread, once. 0, or EOF with an error of the flush or the close,
 * EBADF if it is closed already. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fclose(gpufs_file *file) { return gpufs_int_(gpufs_close_(file)); }
/* Writes the buffered bytes (fflush(3)). Of a stream that is reading, discards the bytes read ahead. 0 or EOF. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fflush(gpufs_file *file) { return gpufs_int_(gpufs_flush_(file)); }
/* fflush(NULL): every open stream of the session. 0, or EOF with the first error, after trying all of them. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fflush_all(gpufs_session *session) {
    return gpufs_int_(gpufs_raw_fflush_all(session));
}

/* Reads up to `items` items of `item_bytes` bytes (fread(3)). The number of whole items: fewer at the end of the
 * file, and with an error: EBADF (also: not open for reading), EFAULT (null memory), EINVAL (more bytes than memory
 * has). */
GPUFS_INLINE GPUFS_RESULT(size_t) gpufs_fread(void *into, size_t item_bytes, size_t items, gpufs_file *file) {
    return gpufs_items_(gpufs_raw_fread(into, item_bytes, items, file));
}
/* Writes `items` items of `item_bytes` bytes (fwrite(3)). The number of whole items: fewer only with an error: as
 * fread's, and ENOSPC, EPIPE, EFBIG. */
GPUFS_INLINE GPUFS_RESULT(size_t) gpufs_fwrite(const void *from, size_t item_bytes, size_t items, gpufs_file *file) {
    return gpufs_items_(gpufs_raw_fwrite(from, item_bytes, items, file));
}

/* Reads a line with its newline, at most `bytes` - 1 bytes, and ends it with a NUL (fgets(3)). `into`, or null at the
 * end of the file and on error. Threads that call together get one line after the other, in lane order. */
GPUFS_INLINE GPUFS_RESULT(char *) gpufs_fgets(char *into, int bytes, gpufs_file *file) {
    int64_t raw = gpufs_raw_fgets(into, bytes, file);
    GPUFS_RETURN(char *, raw == 1 ? into : (char *)0, gpufs_error_of_(raw));
}
/* Writes a string without its NUL (fputs(3)). 0 or EOF. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fputs(const char *string, gpufs_file *file) {
    return gpufs_int_(gpufs_raw_fputs(string, file));
}
/* Writes a string and a newline to the standard output (puts(3)). 0 or EOF. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_puts(gpufs_session *session, const char *string) {
    return gpufs_int_(gpufs_raw_puts(session, string));
}
/* Reads a byte (fgetc(3)), as an unsigned char; EOF at the end of the file, with error 0, and on error. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fgetc(gpufs_file *file) { return gpufs_byte_(gpufs_raw_fgetc(file)); }
/* Writes a byte (fputc(3)). The byte as an unsigned char, or EOF. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fputc(int byte, gpufs_file *file) {
    return gpufs_byte_(gpufs_raw_fputc(byte, file));
}
/* Pushes a byte back (ungetc(3)). The byte, or EOF: if `byte` is EOF or 8 are pushed back already (error 0), and on
 * error. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_ungetc(int byte, gpufs_file *file) {
    return gpufs_byte_(gpufs_raw_ungetc(byte, file));
}

/* Moves the position by bytes (fseeko(3)) from GPUFS_SEEK_SET, _CUR or _END, which equal SEEK_SET, SEEK_CUR,
 * SEEK_END. 0, or -1: ESPIPE, EINVAL (before the start, or no such `whence`), EOVERFLOW (beyond 63 bits). */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fseeko(gpufs_file *file, int64_t offset, int whence) {
    return gpufs_int_(gpufs_raw_fseek(file, offset, whence));
}
/* The same (fseek(3)). */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fseek(gpufs_file *file, long offset, int whence) {
    return gpufs_int_(gpufs_raw_fseek(file, offset, whence));
}
/* The position in bytes from the start (ftello(3)), or -1: ESPIPE. */
GPUFS_INLINE GPUFS_RESULT(int64_t) gpufs_ftello(gpufs_file *file) { return gpufs_int64_(gpufs_raw_ftell(file)); }
/* The same (ftell(3)). */
GPUFS_INLINE GPUFS_RESULT(long) gpufs_ftell(gpufs_file *file) { return gpufs_long_(gpufs_raw_ftell(file)); }
/* Moves to the start and clears the error flag (rewind(3)). */
GPUFS_INLINE void gpufs_rewind(gpufs_file *file) { (void)gpufs_int_(gpufs_raw_rewind(file)); }

/* Sets when the stream flushes, GPUFS_IOFBF, _IOLBF or _IONBF (which equal _IOFBF, _IOLBF, _IONBF), and the size of
 * its buffers in bytes, 0 to keep it (setvbuf(3)). The memory is always the session's; `buffer` is ignored. Allowed
 * at any time. 0, or -1: EINVAL. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_setvbuf(gpufs_file *file, char *buffer, int mode, size_t bytes) {
    (void)buffer;
    return gpufs_int_(gpufs_raw_setvbuf(file, mode, bytes));
}

/* Whether a read met the end of the file (feof(3)): 1 or 0. Without an open stream 1 with EBADF, so that a loop until
 * feof ends. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_feof(gpufs_file *file) {
    int64_t raw = gpufs_raw_feof(file);
    GPUFS_RETURN(int, raw != 0, gpufs_error_of_(raw));
}
/* Whether a transfer failed (ferror(3)): 1 or 0. Without an open stream 1 with EBADF. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_ferror(gpufs_file *file) {
    int64_t raw = gpufs_raw_ferror(file);
    GPUFS_RETURN(int, raw != 0, gpufs_error_of_(raw));
}
/* Clears the flags of feof and ferror (clearerr(3)). */
GPUFS_INLINE void gpufs_clearerr(gpufs_file *file) { (void)gpufs_int_(gpufs_raw_clearerr(file)); }

/* As fgetc and fputc (getc(3), putc(3)): functions, which take their arguments once. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_getc(gpufs_file *file) { return gpufs_fgetc(file); }
GPUFS_INLINE GPUFS_RESULT(int) gpufs_putc(int byte, gpufs_file *file) { return gpufs_fputc(byte, file); }
/* The same of the standard input (getchar(3)) and output (putchar(3)). */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_getchar(gpufs_session *session) { return gpufs_fgetc(gpufs_stdin(session)); }
GPUFS_INLINE GPUFS_RESULT(int) gpufs_putchar(gpufs_session *session, int byte) {
    return gpufs_fputc(byte, gpufs_stdout(session));
}

/* A position of a stream: any, of more than 2 GiB, too. */
typedef struct gpufs_fpos_t {
    int64_t position; /* bytes from the start */
} gpufs_fpos_t;

/* Stores the position (fgetpos(3)). 0, or -1: ESPIPE, EFAULT (null `position`). */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fgetpos(gpufs_file *file, gpufs_fpos_t *position) {
    int64_t raw = gpufs_raw_ftell(file);
    if (raw >= 0 && position == 0) {
        raw = -14; /* EFAULT */
    }
    if (raw >= 0) {
        position->position = raw;
        raw = 0;
    }
    return gpufs_int_(raw);
}
/* Moves to a position that fgetpos stored, of this stream (fsetpos(3)). 0, or -1 as fseeko, and EFAULT (null
 * `position`). */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fsetpos(gpufs_file *file, const gpufs_fpos_t *position) {
    return gpufs_int_(position == 0 ? -14 : gpufs_raw_fseek(file, position->position, GPUFS_SEEK_SET));
}

/* setbuf(3), setbuffer(3) and setlinebuf(3), by setvbuf: without a buffer if `buffer` is null, otherwise with one of
 * the session's of GPUFS_BUFSIZ or `bytes` bytes; the caller's memory is not used. */
#define GPUFS_BUFSIZ 8192
GPUFS_INLINE void gpufs_setbuffer(gpufs_file *file, char *buffer, size_t bytes) {
    (void)gpufs_setvbuf(file, buffer, buffer != 0 ? GPUFS_IOFBF : GPUFS_IONBF, bytes);
}
GPUFS_INLINE void gpufs_setbuf(gpufs_file *file, char *buffer) { gpufs_setbuffer(file, buffer, GPUFS_BUFSIZ); }
GPUFS_INLINE void gpufs_setlinebuf(gpufs_file *file) { (void)gpufs_setvbuf(file, (char *)0, GPUFS_IOLBF, 0); }

/* Keeps the stream for the calling thread (flockfile(3)): the calls of other threads on it wait until funlockfile. It
 * may be called again, and then needs as many funlockfile. Threads that call together get the stream in lane order.
 * fclose ends it, and so does the end of the kernels; a thread that ends without funlockfile keeps the others waiting.
 *
 * On AMD's GPUs, where the threads of a wavefront run in lockstep, a thread that waited for another of its wavefront
 * would wait forever: there the wavefront keeps the stream, and its threads use it call by call. */
GPUFS_INLINE void gpufs_flockfile(gpufs_file *file) { (void)gpufs_int_(gpufs_raw_flockfile(file)); }
/* The same if no other thread has the stream now (ftrylockfile(3)): 0. Otherwise 1, or -1 with EBADF. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_ftrylockfile(gpufs_file *file) {
    return gpufs_int_(gpufs_raw_ftrylockfile(file));
}
/* Lets the stream go (funlockfile(3)). EPERM if the calling thread does not keep it: then nothing changes. */
GPUFS_INLINE void gpufs_funlockfile(gpufs_file *file) { (void)gpufs_int_(gpufs_raw_funlockfile(file)); }

/* Reads up to and with the byte `delimiter`, or up to the end of the file (getdelim(3)), into the memory at `*line` of
 * `*bytes` bytes, which is made longer by GPUFS_REALLOC (<gpufs/memory.h>) if that is needed; null is allocated. Ends it
 * with a NUL. The length without that, or -1: at the end of the file (error 0), and on error: EINVAL (null `line` or
 * `bytes`), ENOMEM (what was read so far is in `*line`, and the next call reads on behind it). A line of any length is
 * one unit; threads that call together get one line after the other, in lane order. */
GPUFS_INLINE GPUFS_RESULT(int64_t) gpufs_getdelim(char **line, size_t *bytes, int delimiter, gpufs_file *file) {
    size_t done = 0;
    if (line == 0 || bytes == 0) {
        return gpufs_int64_(-22); /* EINVAL */
    }
    if (*line == 0) {
        *bytes = 0;
    }
    for (;;) {
        int64_t raw;
        if (*bytes < done + 2) {
            size_t room = *bytes < 60 ? 120 : *bytes * 2;
            char *longer = (char *)GPUFS_REALLOC(*line, *bytes, room);
            if (longer == 0) {
                if (done != 0) {
                    (void)gpufs_raw_getdelim((char *)0, 0, 0, delimiter, file);
                }
                return gpufs_int64_(-12); /* ENOMEM */
            }
            if (*bytes == 0) {
                longer[0] = '\0';
            }
            *line = longer;
            *bytes = room;
        }
        raw = gpufs_raw_getdelim(*line, *bytes, done, delimiter, file);
        if (raw < 0) {
            return gpufs_int64_(raw);
        }
        if (raw >> 48 == 0) {
            return gpufs_int64_(raw);
        }
        if (raw >> 48 == 3) {
            GPUFS_RETURN(int64_t, -1, 0);
        }
        if (raw >> 48 == 1) {
            done = (size_t)(raw & ((INT64_C(1) << 48) - 1));
        }
    }
}
/* The same up to a newline (getline(3)). */
GPUFS_INLINE GPUFS_RESULT(int64_t) gpufs_getline(char **line, size_t *bytes, gpufs_file *file) {
    return gpufs_getdelim(line, bytes, '\n', file);
}

/* unlocked_stdio(3): the same as the calls without _unlocked, as threads of a grid share streams. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_getc_unlocked(gpufs_file *file) { return gpufs_fgetc(file); }
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fgetc_unlocked(gpufs_file *file) { return gpufs_fgetc(file); }
GPUFS_INLINE GPUFS_RESULT(int) gpufs_putc_unlocked(int byte, gpufs_file *file) { return gpufs_fputc(byte, file); }
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fputc_unlocked(int byte, gpufs_file *file) { return gpufs_fputc(byte, file); }
GPUFS_INLINE GPUFS_RESULT(int) gpufs_getchar_unlocked(gpufs_session *session) { return gpufs_getchar(session); }
GPUFS_INLINE GPUFS_RESULT(int) gpufs_putchar_unlocked(gpufs_session *session, int byte) {
    return gpufs_putchar(session, byte);
}
GPUFS_INLINE GPUFS_RESULT(size_t) gpufs_fread_unlocked(void *into, size_t item_bytes, size_t items, gpufs_file *file) {
    return gpufs_fread(into, item_bytes, items, file);
}
GPUFS_INLINE GPUFS_RESULT(size_t) gpufs_fwrite_unlocked(const void *from, size_t item_bytes, size_t items,
                                                        gpufs_file *file) {
    return gpufs_fwrite(from, item_bytes, items, file);
}
GPUFS_INLINE GPUFS_RESULT(char *) gpufs_fgets_unlocked(char *into, int bytes, gpufs_file *file) {
    return gpufs_fgets(into, bytes, file);
}
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fputs_unlocked(const char *string, gpufs_file *file) {
    return gpufs_fputs(string, file);
}
GPUFS_INLINE GPUFS_RESULT(int) gpufs_fflush_unlocked(gpufs_file *file) { return gpufs_fflush(file); }
GPUFS_INLINE GPUFS_RESULT(int) gpufs_feof_unlocked(gpufs_file *file) { return gpufs_feof(file); }
GPUFS_INLINE GPUFS_RESULT(int) gpufs_ferror_unlocked(gpufs_file *file) { return gpufs_ferror(file); }
GPUFS_INLINE void gpufs_clearerr_unlocked(gpufs_file *file) { gpufs_clearerr(file); }

/* The orientation (fwide(3)): -1, as every stream is one of bytes. There are no wide streams here: %ls and
 * %lc convert to UTF-8, and so do the functions of <gpufs/standard/wide_streams.h>. */
GPUFS_INLINE int gpufs_fwide(gpufs_file *file, int mode) {
    (void)file;
    (void)mode;
    return -1;
}

#ifdef __cplusplus

namespace gpufs {

/* The standard names. */
GPUFS_BOTH inline Result<File *> fopen(Session session, const char *path, const char *mode) {
    return gpufs_fopen(session, path, mode);
}
GPUFS_BOTH inline Result<File *> fopen_shared(Session session, const char *path, const char *mode) {
    return gpufs_fopen_shared(session, path, mode);
}
GPUFS_BOTH inline Result<File *> fdopen(Session session, int descriptor, const char *mode) {
    return gpufs_fdopen(session, descriptor, mode);
}
#ifndef fileno /* a macro in some C libraries */
GPUFS_BOTH inline Result<int> fileno(File *file) { return gpufs_fileno(file); }
#endif
GPUFS_BOTH inline Result<File *> freopen(const char *path, const char *mode, File *file) {
    return gpufs_freopen(path, mode, file);
}
GPUFS_BOTH inline Result<File *> tmpfile(Session session) { return gpufs_tmpfile(session); }
GPUFS_BOTH inline Result<int> fclose(File *file) { return gpufs_fclose(file); }
GPUFS_BOTH inline Result<int> fflush(File *file) { return gpufs_fflush(file); }
/* fflush(NULL), of a session. */
GPUFS_BOTH inline Result<int> fflush(Session session) { return gpufs_fflush_all(session); }
GPUFS_BOTH inline Result<size_t> fread(void *into, size_t item_bytes, size_t items, File *file) {
    return gpufs_fread(into, item_bytes, items, file);
}
GPUFS_BOTH inline Result<size_t> fwrite(const void *from, size_t item_bytes, size_t items, File *file) {
    return gpufs_fwrite(from, item_bytes, items, file);
}
GPUFS_BOTH inline Result<char *> fgets(char *into, int bytes, File *file) { return gpufs_fgets(into, bytes, file); }
GPUFS_BOTH inline Result<int> fputs(const char *string, File *file) { return gpufs_fputs(string, file); }
GPUFS_BOTH inline Result<int> puts(Session session, const char *string) { return gpufs_puts(session, string); }
GPUFS_BOTH inline Result<int> fgetc(File *file) { return gpufs_fgetc(file); }
GPUFS_BOTH inline Result<int> fputc(int byte, File *file) { return gpufs_fputc(byte, file); }
GPUFS_BOTH inline Result<int> ungetc(int byte, File *file) { return gpufs_ungetc(byte, file); }
GPUFS_BOTH inline Result<int> fseek(File *file, long offset, int whence) { return gpufs_fseek(file, offset, whence); }
GPUFS_BOTH inline Result<int> fseeko(File *file, int64_t offset, int whence) {
    return gpufs_fseeko(file, offset, whence);
}
GPUFS_BOTH inline Result<long> ftell(File *file) { return gpufs_ftell(file); }
GPUFS_BOTH inline Result<int64_t> ftello(File *file) { return gpufs_ftello(file); }
GPUFS_BOTH inline void rewind(File *file) { gpufs_rewind(file); }
GPUFS_BOTH inline Result<int> setvbuf(File *file, char *buffer, int mode, size_t bytes) {
    return gpufs_setvbuf(file, buffer, mode, bytes);
}
GPUFS_BOTH inline Result<int> feof(File *file) { return gpufs_feof(file); }
GPUFS_BOTH inline Result<int> ferror(File *file) { return gpufs_ferror(file); }
GPUFS_BOTH inline void clearerr(File *file) { gpufs_clearerr(file); }
GPUFS_BOTH inline Result<int> getc(File *file) { return gpufs_fgetc(file); }
GPUFS_BOTH inline Result<int> putc(int byte, File *file) { return gpufs_fputc(byte, file); }
GPUFS_BOTH inline Result<int> getchar(Session session) { return gpufs_getchar(session); }
GPUFS_BOTH inline Result<int> putchar(Session session, int byte) { return gpufs_putchar(session, byte); }
GPUFS_BOTH inline Result<int> fgetpos(File *file, gpufs_fpos_t *position) { return gpufs_fgetpos(file, position); }
GPUFS_BOTH inline Result<int> fsetpos(File *file, const gpufs_fpos_t *position) {
    return gpufs_fsetpos(file, position);
}
GPUFS_BOTH inline void setbuf(File *file, char *buffer) { gpufs_setbuf(file, buffer); }
GPUFS_BOTH inline void setbuffer(File *file, char *buffer, size_t bytes) { gpufs_setbuffer(file, buffer, bytes); }
GPUFS_BOTH inline void setlinebuf(File *file) { gpufs_setlinebuf(file); }
GPUFS_BOTH inline void flockfile(File *file) { gpufs_flockfile(file); }
GPUFS_BOTH inline Result<int> ftrylockfile(File *file) { return gpufs_ftrylockfile(file); }
GPUFS_BOTH inline void funlockfile(File *file) { gpufs_funlockfile(file); }
GPUFS_BOTH inline Result<int64_t> getdelim(char **line, size_t *bytes, int delimiter, File *file) {
    return gpufs_getdelim(line, bytes, delimiter, file);
}
GPUFS_BOTH inline Result<int64_t> getline(char **line, size_t *bytes, File *file) {
    return gpufs_getline(line, bytes, file);
}
GPUFS_BOTH inline Result<int> getc_unlocked(File *file) { return gpufs_fgetc(file); }
GPUFS_BOTH inline Result<int> fgetc_unlocked(File *file) { return gpufs_fgetc(file); }
GPUFS_BOTH inline Result<int> putc_unlocked(int byte, File *file) { return gpufs_fputc(byte, file); }
GPUFS_BOTH inline Result<int> fputc_unlocked(int byte, File *file) { return gpufs_fputc(byte, file); }
GPUFS_BOTH inline Result<int> getchar_unlocked(Session session) { return gpufs_getchar(session); }
GPUFS_BOTH inline Result<int> putchar_unlocked(Session session, int byte) { return gpufs_putchar(session, byte); }
GPUFS_BOTH inline Result<size_t> fread_unlocked(void *into, size_t item_bytes, size_t items, File *file) {
    return gpufs_fread(into, item_bytes, items, file);
}
GPUFS_BOTH inline Result<size_t> fwrite_unlocked(const void *from, size_t item_bytes, size_t items, File *file) {
    return gpufs_fwrite(from, item_bytes, items, file);
}
GPUFS_BOTH inline Result<char *> fgets_unlocked(char *into, int bytes, File *file) {
    return gpufs_fgets(into, bytes, file);
}
GPUFS_BOTH inline Result<int> fputs_unlocked(const char *string, File *file) { return gpufs_fputs(string, file); }
GPUFS_BOTH inline Result<int> fflush_unlocked(File *file) { return gpufs_fflush(file); }
GPUFS_BOTH inline Result<int> feof_unlocked(File *file) { return gpufs_feof(file); }
GPUFS_BOTH inline Result<int> ferror_unlocked(File *file) { return gpufs_ferror(file); }
GPUFS_BOTH inline void clearerr_unlocked(File *file) { gpufs_clearerr(file); }
GPUFS_BOTH inline int fwide(File *file, int mode) { return gpufs_fwide(file, mode); }

} /* namespace gpufs */

#endif

#endif

/* <stdio.h> of sources that know nothing of gpufs: C11 7.21 and POSIX, through the session in use.
 *
 * A source that uses fopencookie, fcloseall, obstack_printf, tempnam or tmpnam_r does not compile. <wchar.h> has wide streams.
 */
#ifndef GPUFS_STANDARD_STDIO_H
#define GPUFS_STANDARD_STDIO_H

#include <gpufs/standard/mode.h>

#pragma GCC system_header

#if defined(GPUFS_DROP_IN_SPLIT_)
#include <cstdio>
#elif defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_READING_C_LIBRARY_
#include <gpufs/standard/stdio_hide.h>
#include <stdio.h>
#include <gpufs/standard/stdio_show.h>
#undef GPUFS_READING_C_LIBRARY_
#undef stdin
#undef stdout
#undef stderr
#else
#include <gpufs/standard/types.h>
typedef struct gpufs_standard_file_ FILE;
typedef struct {
    int64_t offset;
} fpos_t;
#define EOF (-1)
#define BUFSIZ 8192
#define FILENAME_MAX 4096
#define FOPEN_MAX 16
#define L_tmpnam 20
#define TMP_MAX 238328
#define P_tmpdir "/tmp"
#define L_ctermid 9
#define SEEK_SET 0
#define SEEK_CUR 1
#define SEEK_END 2
#define _IOFBF 0
#define _IOLBF 1
#define _IONBF 2
#endif

/* A handle behind a FILE. */
#define GPUFS_HANDLE_(file) ((gpufs_file *)(file))
#define GPUFS_FILE_(result) ((FILE *)(void *)gpufs_value_(result))

/* The standard streams. */
#if defined(GPUFS_DROP_IN_SPLIT_) && !GPUFS_ON_DEVICE
#define GPUFS_STANDARD_STREAM_(name) \
    static __inline__ GPUFS_BOTH FILE *gpufs_standard_##name(void) { return ::name; }
#else
#define GPUFS_STANDARD_STREAM_(name) \
    GPUFS_INLINE FILE *gpufs_standard_##name(void) { return (FILE *)(void *)gpufs_##name(gpufs_used_()); }
#endif
GPUFS_STANDARD_STREAM_(stdin)
GPUFS_STANDARD_STREAM_(stdout)
GPUFS_STANDARD_STREAM_(stderr)
#undef stdin
#undef stdout
#undef stderr
#define stdin gpufs_standard_stdin()
#define stdout gpufs_standard_stdout()
#define stderr gpufs_standard_stderr()

GPUFS_STANDARD_(FILE *, fopen, (const char *path, const char *mode), (path, mode),
                return GPUFS_FILE_(gpufs_fopen(gpufs_used_(), path, mode));)
GPUFS_STANDARD_(int, fclose, (FILE *file), (file), return gpufs_value_(gpufs_fclose(GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(int, fflush, (FILE *file), (file),
                return file == 0 ? gpufs_value_(gpufs_fflush_all(gpufs_used_()))
                                 : gpufs_value_(gpufs_fflush(GPUFS_HANDLE_(file)));)

GPUFS_STANDARD_(size_t, fread, (void *into, size_t item_bytes, size_t items, FILE *file),
                (into, item_bytes, items, file),
                return gpufs_value_(gpufs_fread(into, item_bytes, items, GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(size_t, fwrite, (const void *from, size_t item_bytes, size_t items, FILE *file),
                (from, item_bytes, items, file),
                return gpufs_value_(gpufs_fwrite(from, item_bytes, items, GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(char *, fgets, (char *into, int bytes, FILE *file), (into, bytes, file),
                return gpufs_value_(gpufs_fgets(into, bytes, GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(int, fputs, (const char *string, FILE *file), (string, file),
                return gpufs_value_(gpufs_fputs(string, GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(int, puts, (const char *string), (string),
                return gpufs_value_(gpufs_puts(gpufs_used_(), string));)
GPUFS_STANDARD_(int, fgetc, (FILE *file), (file), return gpufs_value_(gpufs_fgetc(GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(int, getc, (FILE *file), (file), return gpufs_value_(gpufs_fgetc(GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(int, getchar, (void), (),
                return gpufs_value_(gpufs_fgetc(GPUFS_HANDLE_(gpufs_standard_stdin())));)
GPUFS_STANDARD_(int, fputc, (int byte, FILE *file), (byte, file),
                return gpufs_value_(gpufs_fputc(byte, GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(int, putc, (int byte, FILE *file), (byte, file),
                return gpufs_value_(gpufs_fputc(byte, GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(int, putchar, (int byte), (byte),
                return gpufs_value_(gpufs_fputc(byte, GPUFS_HANDLE_(gpufs_standard_stdout())));)
GPUFS_STANDARD_(int, ungetc, (int byte, FILE *file), (byte, file),
                return gpufs_value_(gpufs_ungetc(byte, GPUFS_HANDLE_(file)));)

GPUFS_STANDARD_(int, fseek, (FILE *file, long offset, int whence), (file, offset, whence),
                return gpufs_value_(gpufs_fseek(GPUFS_HANDLE_(file), offset, whence));)
GPUFS_STANDARD_(long, ftell, (FILE *file), (file), return gpufs_value_(gpufs_ftell(GPUFS_HANDLE_(file)));)
/* errno says whether it could (POSIX). */
GPUFS_STANDARD_(void, rewind, (FILE *file), (file), (void)gpufs_value_(gpufs_fseek(GPUFS_HANDLE_(file), 0, SEEK_SET));
                gpufs_clearerr(GPUFS_HANDLE_(file));)
GPUFS_STANDARD_(int, fgetpos, (FILE *file, fpos_t *position), (file, position),
                int64_t offset = gpufs_value_(gpufs_ftello(GPUFS_HANDLE_(file))); if (offset < 0) { return -1; }
                __builtin_memcpy(position, &offset, sizeof offset); return 0;)
GPUFS_STANDARD_(int, fsetpos, (FILE *file, const fpos_t *position), (file, position), int64_t offset;
                __builtin_memcpy(&offset, position, sizeof offset);
                return gpufs_value_(gpufs_fseeko(GPUFS_HANDLE_(file), offset, SEEK_SET));)

GPUFS_STANDARD_(int, setvbuf, (FILE *file, char *buffer, int mode, size_t bytes), (file, buffer, mode, bytes),
                return gpufs_value_(gpufs_setvbuf(GPUFS_HANDLE_(file), buffer, mode, bytes));)
GPUFS_STANDARD_(void, setbuf, (FILE *file, char *buffer), (file, buffer),
                (void)gpufs_value_(gpufs_setvbuf(GPUFS_HANDLE_(file), buffer, buffer == 0 ? _IONBF : _IOFBF, BUFSIZ));)
GPUFS_STANDARD_(int, feof, (FILE *file), (file), return gpufs_value_(gpufs_feof(GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(int, ferror, (FILE *file), (file), return gpufs_value_(gpufs_ferror(GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(void, clearerr, (FILE *file), (file), gpufs_clearerr(GPUFS_HANDLE_(file));)


#if !defined(GPUFS_DROP_IN_SPLIT_) /* containers have members of these names */
GPUFS_STANDARD_(int, remove, (const char *path), (path),
                return gpufs_value_(gpufs_remove(gpufs_used_(), path));)
GPUFS_STANDARD_(int, rename, (const char *from, const char *to), (from, to),
                return gpufs_value_(gpufs_rename(gpufs_used_(), from, to));)
#endif

GPUFS_STANDARD_(FILE *, freopen, (const char *path, const char *mode, FILE *file), (path, mode, file),
                return GPUFS_FILE_(gpufs_freopen(path, mode, GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(char *, tmpnam, (char *path), (path), static char own[L_tmpnam];
                return gpufs_value_(gpufs_tmpnam(gpufs_used_(), path != 0 ? path : own));)
GPUFS_STANDARD_(FILE *, tmpfile, (void), (), return GPUFS_FILE_(gpufs_tmpfile(gpufs_used_()));)

#include <gpufs/standard/stdio_formats.h>

/* POSIX, where the source asks for it or no standard is asked for. */
#if defined(GPUFS_WITH_POSIX_)
GPUFS_STANDARD_(char *, ctermid, (char *into), (into), static char own[L_ctermid]; into = into != 0 ? into : own;
                __builtin_memcpy(into, "/dev/tty", sizeof "/dev/tty"); return into;)
GPUFS_STANDARD_(int, fseeko, (FILE *file, off_t offset, int whence), (file, offset, whence),
                return gpufs_value_(gpufs_fseeko(GPUFS_HANDLE_(file), offset, whence));)
GPUFS_STANDARD_(off_t, ftello, (FILE *file), (file), return gpufs_value_(gpufs_ftello(GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(int, getc_unlocked, (FILE *file), (file), return getc(file);)
GPUFS_STANDARD_(int, getchar_unlocked, (void), (), return getchar();)
GPUFS_STANDARD_(int, putc_unlocked, (int byte, FILE *file), (byte, file), return putc(byte, file);)
GPUFS_STANDARD_(int, putchar_unlocked, (int byte), (byte), return putchar(byte);)
GPUFS_STANDARD_(void, flockfile, (FILE *file), (file), gpufs_flockfile(GPUFS_HANDLE_(file));)
GPUFS_STANDARD_(int, ftrylockfile, (FILE *file), (file),
                return gpufs_value_(gpufs_ftrylockfile(GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(void, funlockfile, (FILE *file), (file), gpufs_funlockfile(GPUFS_HANDLE_(file));)
GPUFS_STANDARD_(ssize_t, getdelim, (char **line, size_t *bytes, int delimiter, FILE *file), (line, bytes, delimiter, file),
                return (ssize_t)gpufs_value_(gpufs_getdelim(line, bytes, delimiter, GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(ssize_t, getline, (char **line, size_t *bytes, FILE *file), (line, bytes, file),
                return (ssize_t)gpufs_value_(gpufs_getline(line, bytes, GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(int, renameat, (int folder, const char *from, int into, const char *to), (folder, from, into, to),
                return gpufs_value_(gpufs_renameat(gpufs_used_(), folder, from, into, to));)
GPUFS_STANDARD_(FILE *, fdopen, (int descriptor, const char *mode), (descriptor, mode),
                return GPUFS_FILE_(gpufs_fdopen(gpufs_used_(), descriptor, mode));)
GPUFS_STANDARD_(int, fileno, (FILE *file), (file),
                return gpufs_value_(gpufs_fileno(GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(FILE *, fmemopen, (void *memory, size_t bytes, const char *mode), (memory, bytes, mode),
                return GPUFS_FILE_(gpufs_fmemopen(gpufs_used_(), memory, bytes, mode));)
GPUFS_STANDARD_(FILE *, open_memstream, (char **text, size_t *size), (text, size),
                return GPUFS_FILE_(gpufs_open_memstream(gpufs_used_(), text, size));)
GPUFS_STANDARD_(FILE *, popen, (const char *command, const char *mode), (command, mode),
                return GPUFS_FILE_(gpufs_popen(gpufs_used_(), command, mode));)
GPUFS_STANDARD_(int, pclose, (FILE *file), (file),
                return gpufs_value_(gpufs_pclose(GPUFS_HANDLE_(file)));)
#endif

/* BSD and GNU. */
#if defined(GPUFS_WITH_GNU_)
GPUFS_STANDARD_(int, fileno_unlocked, (FILE *file), (file), return fileno(file);)
GPUFS_STANDARD_(int, renameat2, (int folder, const char *from, int into, const char *to, unsigned flags), (folder, from, into, to, flags),
                return gpufs_value_(gpufs_renameat2(gpufs_used_(), folder, from, into, to, flags));)
GPUFS_STANDARD_(int, fgetc_unlocked, (FILE *file), (file),
                return gpufs_value_(gpufs_fgetc_unlocked(GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(int, fputc_unlocked, (int byte, FILE *file), (byte, file),
                return gpufs_value_(gpufs_fputc_unlocked(byte, GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(size_t, fread_unlocked, (void *into, size_t item_bytes, size_t items, FILE *file),
                (into, item_bytes, items, file),
                return gpufs_value_(gpufs_fread_unlocked(into, item_bytes, items, GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(size_t, fwrite_unlocked, (const void *from, size_t item_bytes, size_t items, FILE *file),
                (from, item_bytes, items, file),
                return gpufs_value_(gpufs_fwrite_unlocked(from, item_bytes, items, GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(int, fflush_unlocked, (FILE *file), (file), return fflush(file);)
GPUFS_STANDARD_(int, feof_unlocked, (FILE *file), (file), return feof(file);)
GPUFS_STANDARD_(int, ferror_unlocked, (FILE *file), (file), return ferror(file);)
GPUFS_STANDARD_(void, clearerr_unlocked, (FILE *file), (file), clearerr(file);)
GPUFS_STANDARD_(void, setbuffer, (FILE *file, char *buffer, size_t bytes), (file, buffer, bytes),
                gpufs_setbuffer(GPUFS_HANDLE_(file), buffer, bytes);)
GPUFS_STANDARD_(void, setlinebuf, (FILE *file), (file), gpufs_setlinebuf(GPUFS_HANDLE_(file));)
GPUFS_STANDARD_(char *, fgets_unlocked, (char *into, int bytes, FILE *file), (into, bytes, file),
                return gpufs_value_(gpufs_fgets_unlocked(into, bytes, GPUFS_HANDLE_(file)));)
GPUFS_STANDARD_(int, fputs_unlocked, (const char *string, FILE *file), (string, file),
                return gpufs_value_(gpufs_fputs_unlocked(string, GPUFS_HANDLE_(file)));)
#endif

#if defined(__USE_LARGEFILE64)
GPUFS_STANDARD_(FILE *, fopen64, (const char *path, const char *mode), (path, mode),
                return fopen(path, mode);)
GPUFS_STANDARD_(FILE *, freopen64, (const char *path, const char *mode, FILE *file), (path, mode, file),
                return freopen(path, mode, file);)
GPUFS_STANDARD_(FILE *, tmpfile64, (void), (), return tmpfile();)
GPUFS_STANDARD_(int, fseeko64, (FILE *file, off64_t offset, int whence), (file, offset, whence),
                return fseeko(file, offset, whence);)
GPUFS_STANDARD_(off64_t, ftello64, (FILE *file), (file), return ftello(file);)
#if defined(GPUFS_DROP_IN_HOST_)
GPUFS_STANDARD_(int, fgetpos64, (FILE *file, fpos64_t *position), (file, position),
                int64_t offset = gpufs_value_(gpufs_ftello(GPUFS_HANDLE_(file))); if (offset < 0) { return -1; }
                __builtin_memcpy(position, &offset, sizeof offset); return 0;)
GPUFS_STANDARD_(int, fsetpos64, (FILE *file, const fpos64_t *position), (file, position), int64_t offset;
                __builtin_memcpy(&offset, position, sizeof offset);
                return gpufs_value_(gpufs_fseeko(GPUFS_HANDLE_(file), offset, SEEK_SET));)
#endif
#endif

/* CUDA and HIP: the names themselves. */
#if !defined(GPUFS_DROP_IN_SPLIT_)
#if defined(GPUFS_WITH_GNU_) || defined(__USE_XOPEN)
GPUFS_STANDARD_PLAIN_(int, getw, (FILE *file), int word; return fread(&word, sizeof word, 1, file) == 1 ? word : EOF;)
GPUFS_STANDARD_PLAIN_(int, putw, (int word, FILE *file), return fwrite(&word, sizeof word, 1, file) == 1 ? 0 : EOF;)
#endif
#if defined(__GLIBC_USE)
#if __GLIBC_USE(DEPRECATED_GETS)
/* C99's, for sources of its time: the line has to fit. */
GPUFS_STANDARD_PLAIN_(char *, gets, (char *into), size_t at = 0; int byte;
                      gpufs_flockfile(GPUFS_HANDLE_(stdin));
                      while ((byte = getchar()) != EOF && byte != '\n') { into[at++] = (char)byte; }
                      gpufs_funlockfile(GPUFS_HANDLE_(stdin));
                      if (byte == EOF && (at == 0 || ferror(stdin))) { return (char *)0; }
                      into[at] = 0;
                      return into;)
#endif
#endif
#if defined(GPUFS_WITH_GNU_)
GPUFS_MISSING_(FILE *, fopencookie)
GPUFS_MISSING_(int, fcloseall)
GPUFS_MISSING_(int, obstack_printf)
GPUFS_MISSING_(int, obstack_vprintf)
GPUFS_MISSING_(char *, tempnam)
GPUFS_MISSING_(char *, tmpnam_r)
#endif
#endif

#if defined(GPUFS_DROP_IN_SPLIT_)
#include <gpufs/standard/stdio_split.h>
#endif

#endif

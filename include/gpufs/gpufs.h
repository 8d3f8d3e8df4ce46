/* What every gpufs header needs: the types, what a call returns, and the functions that the device library exports.
 *
 * Include <gpufs/stdio.h> for streams, <gpufs/file.h> for descriptors, <gpufs/host.h> for sessions. All work in CUDA and HIP kernels and,
 * for CPU lanes, in ordinary C (C99; printing wants C11) and C++ (14 or later).
 *
 * Errors. A call that fails returns what its C namesake returns: -1, EOF, null, or a short count. The error number:
 *
 *   - On the host it is in errno, as in C. (CPU lanes of one OS thread share it, but switch only inside calls: look at it before the next.)
 *   - A GPU has no place of its own for each thread that a library could use, so there, and in host C++ as well, the result carries it.
 *     It is an ordinary int, long or pointer that also has .error(), 0 for none:
 *
 *         auto printed = fprintf(out, "%d\n", 1);
 *         if (printed < 0 && printed.error() == ENOSPC) ...
 *
 *     It costs nothing where nobody asks, and no other thread or call can overwrite it.
 *
 * Which stream. A gpufs_file pointer is a handle, not an address: null, a closed stream and any pointer that is not a stream give EBADF and
 * touch no memory. Handles are good in every kernel and thread of their session, on the device, until they are closed. A handle must not be
 * used after its session was closed, nor one of a GPU's session on the host.
 *
 * Which session. A gpufs_session pointer comes from gpufs_host_session() and is a kernel's argument. Null gives EINVAL.
 *
 * Wrong use is an error in the result, and the kernel and its GPU go on:
 *
 *     a null session                               EINVAL; from gpufs_host_session before gpufs_host_begin, so that leaving that out is this
 *     a null or closed stream, or any pointer      EBADF, also before the first gpufs_host_begin; of words that nobody made by mistake, one in 128
 *                                                  passes for a stream
 *     no open descriptor                           EBADF
 *     null memory or a null string                 EFAULT, unless no byte of it is wanted
 *     a null format                                EINVAL
 *     a format that does not end                   EINVAL: none of GPUFS_FORMAT_BYTES bytes is a NUL (an array's own size counts where it is known)
 *     a format that its arguments do not fit       EINVAL
 *     a path that does not end                     ENAMETOOLONG: none of GPUFS_PATH_BYTES bytes is a NUL
 *     a mode that does not end or is not fopen's   EINVAL: it does not begin with r, w or a, or none of GPUFS_FOPEN_MODE_BYTES bytes is a NUL
 *
 * What cannot be told, and is what it is in C, on a GPU a fault that ends its context: a session pointer that is not null and not a session's;
 * memory that is not there or too short, among it a string for %s, fputs or puts that does not end (a precision ends it) and a format or path in
 * memory that ends before the bound; a stream or session of another GPU, or of CPU lanes on a GPU. Not told either, and waits without end: a
 * stream or session pointer kept from before gpufs_host_synchronize, used without another gpufs_host_begin.
 */
#ifndef GPUFS_GPUFS_H
#define GPUFS_GPUFS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__CUDACC__) || defined(__HIP__)
/* A function for kernels and for the host. */
#define GPUFS_BOTH __attribute__((host)) __attribute__((device))
#else
#define GPUFS_BOTH
#endif

#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__) || defined(__AMDGCN__) || defined(__NVPTX__)
#define GPUFS_ON_DEVICE 1
#else
#define GPUFS_ON_DEVICE 0
#include <errno.h>
#endif

#ifdef __cplusplus
#define GPUFS_INLINE GPUFS_BOTH inline
#else
#define GPUFS_INLINE static inline
#endif

#ifdef __cplusplus
namespace gpufs {
/* A stream: an opaque handle. */
struct File;
/* A session as kernels see it. */
struct Tables;
} /* namespace gpufs */
typedef gpufs::File gpufs_file;
typedef gpufs::Tables gpufs_session;
extern "C" {
#else
/* A stream: an opaque handle. */
typedef struct gpufs_file gpufs_file;
/* A session as kernels see it. */
typedef struct gpufs_session gpufs_session;
#endif

/* A format ends with a NUL within so many bytes. (One that comes with its length needs no NUL and may be longer.) */
#define GPUFS_FORMAT_BYTES 4096
/* A path ends with a NUL within so many bytes: Linux's PATH_MAX. */
#define GPUFS_PATH_BYTES 4096
/* The mode of fopen ends with a NUL within so many bytes. */
#define GPUFS_FOPEN_MODE_BYTES 64

/* One argument of a format, with the type that it came with. The macros and templates of <gpufs/format.h> make them. */
typedef struct gpufs_argument {
    uint32_t kind;   /* GPUFS_ARGUMENT_... */
    uint32_t length; /* GPUFS_ARGUMENT_BYTES: how many; otherwise 0 */
    uint64_t bits;   /* an integer extended to 64 bits, the bits of a double, or an address */
} gpufs_argument;

#define GPUFS_ARGUMENT_SIGNED 0u
#define GPUFS_ARGUMENT_UNSIGNED 1u
#define GPUFS_ARGUMENT_DOUBLE 2u
#define GPUFS_ARGUMENT_POINTER 3u  /* for %p only */
#define GPUFS_ARGUMENT_C_STRING 4u /* ends with a NUL; null prints as (null) */
#define GPUFS_ARGUMENT_BYTES 5u    /* `length` bytes */
#define GPUFS_ARGUMENT_CHAR 6u     /* a Unicode scalar value, for %c, which writes UTF-8 */

/* The device library. A result is a value or a negated error number from -4095 to -1; what is not said here is said at the function
 * without "raw" in its name, which is what programs call. */

GPUFS_BOTH uint64_t gpufs_raw_standard_stream(gpufs_session *session, int number);
GPUFS_BOTH int64_t gpufs_raw_fopen(gpufs_session *session, const char *path, const char *mode);
GPUFS_BOTH int64_t gpufs_raw_fopen_shared(gpufs_session *session, const char *path, const char *mode);
GPUFS_BOTH int64_t gpufs_raw_fclose(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_fflush(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_fflush_all(gpufs_session *session);
/* fread and fwrite: whole items in the low 48 bits, the error number above them, 0 if there is none. */
GPUFS_BOTH uint64_t gpufs_raw_fread(void *into, size_t item_bytes, size_t items, gpufs_file *file);
GPUFS_BOTH uint64_t gpufs_raw_fwrite(const void *from, size_t item_bytes, size_t items, gpufs_file *file);
/* 1, or 0 for no line. */
GPUFS_BOTH int64_t gpufs_raw_fgets(char *into, int bytes, gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_fputs(const char *string, gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_puts(gpufs_session *session, const char *string);
/* A byte, or 256 where C has EOF without an error. */
GPUFS_BOTH int64_t gpufs_raw_fgetc(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_fputc(int byte, gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_ungetc(int byte, gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_fseek(gpufs_file *file, int64_t offset, int whence);
GPUFS_BOTH int64_t gpufs_raw_ftell(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_rewind(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_setvbuf(gpufs_file *file, int mode, size_t bytes);
GPUFS_BOTH int64_t gpufs_raw_feof(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_ferror(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_clearerr(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_fprintf(gpufs_file *file, const char *format, size_t format_bytes, const gpufs_argument *arguments,
                                     size_t count);
GPUFS_BOTH int64_t gpufs_raw_snprintf(char *into, size_t bytes, const char *format, size_t format_bytes,
                                      const gpufs_argument *arguments, size_t count);

GPUFS_BOTH int64_t gpufs_raw_open(gpufs_session *session, const char *path, int flags, uint32_t mode);
GPUFS_BOTH int64_t gpufs_raw_close(gpufs_session *session, int descriptor);
GPUFS_BOTH int64_t gpufs_raw_read(gpufs_session *session, int descriptor, void *into, size_t bytes);
GPUFS_BOTH int64_t gpufs_raw_write(gpufs_session *session, int descriptor, const void *from, size_t bytes);
GPUFS_BOTH int64_t gpufs_raw_pread(gpufs_session *session, int descriptor, void *into, size_t bytes, int64_t offset);
GPUFS_BOTH int64_t gpufs_raw_pwrite(gpufs_session *session, int descriptor, const void *from, size_t bytes, int64_t offset);
GPUFS_BOTH int64_t gpufs_raw_lseek(gpufs_session *session, int descriptor, int64_t offset, int whence);
GPUFS_BOTH int64_t gpufs_raw_fsync(gpufs_session *session, int descriptor);
GPUFS_BOTH int64_t gpufs_raw_fdatasync(gpufs_session *session, int descriptor);
GPUFS_BOTH int64_t gpufs_raw_ftruncate(gpufs_session *session, int descriptor, int64_t length);

GPUFS_BOTH uint64_t gpufs_raw_thread(void);
GPUFS_BOTH uint64_t gpufs_raw_threads(void);
GPUFS_BOTH uint32_t gpufs_raw_block(void);
GPUFS_BOTH uint32_t gpufs_raw_thread_in_block(void);
GPUFS_BOTH void gpufs_raw_nap(uint32_t nanoseconds);

#ifdef __cplusplus
} /* extern "C" */
#endif

/* Where a thread stands in its launch, on CPU lanes too, where there is no threadIdx. */

/* The calling thread's index in the whole grid, from 0. */
GPUFS_INLINE uint64_t gpufs_thread(void) { return gpufs_raw_thread(); }
/* Threads in the whole grid. */
GPUFS_INLINE uint64_t gpufs_threads(void) { return gpufs_raw_threads(); }
/* The index of the calling thread's block. */
GPUFS_INLINE uint32_t gpufs_block(void) { return gpufs_raw_block(); }
/* The calling thread's index in its block. */
GPUFS_INLINE uint32_t gpufs_thread_in_block(void) { return gpufs_raw_thread_in_block(); }
/* Lets other threads run for about so many nanoseconds or less. A loop that waits for another thread calls this: on CPU lanes the other
 * would never run otherwise. */
GPUFS_INLINE void gpufs_nap(uint32_t nanoseconds) { gpufs_raw_nap(nanoseconds); }

/* What a call returns. */

#ifdef __cplusplus

namespace gpufs {

/* A call's result: what C has, and the error number with it. See the head of this file. */
template <class T>
class Result {
  public:
    GPUFS_BOTH constexpr Result(T value, int error) : value_(value), error_(error) {}
    GPUFS_BOTH constexpr operator T() const { return value_; }
    /* What C's namesake returns. */
    GPUFS_BOTH constexpr T value() const { return value_; }
    /* The error number (errno(3)), 0 if the call succeeded. */
    GPUFS_BOTH constexpr int error() const { return error_; }

  private:
    T value_;
    int error_;
};

/* A session as a kernel holds it: what the standard names that have no stream take first. A gpufs_session pointer becomes one by itself. */
class Session {
  public:
    GPUFS_BOTH constexpr Session(gpufs_session *tables) : tables_(tables) {}
    GPUFS_BOTH constexpr operator gpufs_session *() const { return tables_; }

  private:
    gpufs_session *tables_;
};

} /* namespace gpufs */

#define GPUFS_RESULT(type) ::gpufs::Result<type>
#define GPUFS_RETURN(type, value, error) \
    return ::gpufs::Result<type>((value), gpufs_note_error_(error))

#else

#define GPUFS_RESULT(type) type
#define GPUFS_RETURN(type, value, error) \
    do {                                 \
        (void)gpufs_note_error_(error);  \
        return (type)(value);            \
    } while (0)

#endif

/* Puts an error number where C looks for it, if there is such a place here. */
GPUFS_INLINE int gpufs_note_error_(int error) {
#if !GPUFS_ON_DEVICE
    if (error != 0) {
        errno = error;
    }
#endif
    return error;
}
/* The error number of a raw result. */
GPUFS_INLINE int gpufs_error_of_(int64_t raw) { return raw < 0 && raw >= -4095 ? (int)-raw : 0; }

/* A number, or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_int_(int64_t raw) {
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(int, error != 0 ? -1 : (int)raw, error);
}
GPUFS_INLINE GPUFS_RESULT(long) gpufs_long_(int64_t raw) {
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(long, error != 0 ? -1L : (long)raw, error);
}
GPUFS_INLINE GPUFS_RESULT(int64_t) gpufs_int64_(int64_t raw) {
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(int64_t, error != 0 ? -1 : raw, error);
}
/* A byte, or EOF. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_byte_(int64_t raw) {
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(int, error != 0 || raw == 256 ? -1 : (int)raw, error);
}
/* A count of items. */
GPUFS_INLINE GPUFS_RESULT(size_t) gpufs_items_(uint64_t raw) {
    GPUFS_RETURN(size_t, (size_t)(raw & ((UINT64_C(1) << 48) - 1)), (int)(raw >> 48));
}

#endif

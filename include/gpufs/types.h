/* The types of gpufs: handles, results, the arguments of a format. <gpufs/gpufs.h> includes this file.
 *
 * Names that end in an underscore are the headers' own.
 */
#ifndef GPUFS_TYPES_H
#define GPUFS_TYPES_H

#if defined(__cplusplus) && __cplusplus < 201402L
#error "gpufs: these headers take C++14 or later: compile with -std=c++14, -std=c++17 or -std=c++20"
/* There is no such file: the compiler stops here, and does not go on to what it would not understand. */
#include <gpufs/compile_with_std_cxx14_or_later>
#endif

#if defined(__CUDACC_RTC__) || defined(__HIPCC_RTC__)
/* NVRTC and HIPRTC compile for the device alone, and have no headers of a C library. */
#define GPUFS_RTC_ 1
#include <gpufs/runtime_compiled.h>
#else
#define GPUFS_RTC_ 0
#include <stddef.h>
#include <stdint.h>
#endif

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
#define GPUFS_STATIC_ASSERT_(condition, text) static_assert(condition, text)
#else
/* So that it is a keyword in C89, too. */
#define GPUFS_INLINE static __inline__
/* An extension in C99, for which some C libraries define it as a macro. */
#define GPUFS_STATIC_ASSERT_(condition, text) __extension__ _Static_assert(condition, text)
#endif
/* The layouts that the headers share with the library. The library's tests compare these numbers with its own. */
#define GPUFS_SIZE_(type, bytes) GPUFS_STATIC_ASSERT_(sizeof(type) == (bytes), "size of " #type)
#if GPUFS_RTC_ /* without offsetof */
#define GPUFS_OFFSET_(type, field, bytes) GPUFS_STATIC_ASSERT_(bytes >= 0, "offset of " #type "." #field)
#else
#define GPUFS_OFFSET_(type, field, bytes) \
    GPUFS_STATIC_ASSERT_(offsetof(type, field) == (bytes), "offset of " #type "." #field)
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
#else
/* A stream: an opaque handle. */
typedef struct gpufs_file gpufs_file;
/* A session as kernels see it. */
typedef struct gpufs_session gpufs_session;
#endif

/* One argument of a format, with its type. The macros and templates of <gpufs/format.h> make them. */
typedef struct gpufs_argument {
    uint32_t kind;   /* GPUFS_ARGUMENT_... */
    uint32_t length; /* of GPUFS_ARGUMENT_BYTES, _WIDE, _PLACE and _WIDE_PLACE: see there. Of a _C_STRING 1 if %hhn may
                        store there. Otherwise 0 */
    uint64_t bits;   /* an integer extended to 64 bits, the bits of a double, or an address */
} gpufs_argument;

GPUFS_SIZE_(gpufs_argument, 16);
GPUFS_OFFSET_(gpufs_argument, kind, 0);
GPUFS_OFFSET_(gpufs_argument, length, 4);
GPUFS_OFFSET_(gpufs_argument, bits, 8);

/* A piece of memory of readv and its kin: the layout of struct iovec. */
typedef struct gpufs_iovec {
    void *iov_base; /* the first byte */
    size_t iov_len; /* how many */
} gpufs_iovec;

GPUFS_SIZE_(gpufs_iovec, 16);
GPUFS_OFFSET_(gpufs_iovec, iov_base, 0);
GPUFS_OFFSET_(gpufs_iovec, iov_len, 8);

#define GPUFS_ARGUMENT_SIGNED 0u
#define GPUFS_ARGUMENT_UNSIGNED 1u
#define GPUFS_ARGUMENT_DOUBLE 2u
#define GPUFS_ARGUMENT_POINTER 3u  /* for %p only */
#define GPUFS_ARGUMENT_C_STRING 4u /* ends with a NUL; null prints as (null) */
#define GPUFS_ARGUMENT_BYTES 5u    /* `length` bytes */
#define GPUFS_ARGUMENT_CHAR 6u     /* a Unicode scalar value, for %c and %lc, which write UTF-8 */
#define GPUFS_ARGUMENT_ERROR 7u    /* an error number, for %m */
#define GPUFS_ARGUMENT_WIDE 8u     /* wchar_t *: ends with a NUL or after `length` characters; for %ls */
#define GPUFS_ARGUMENT_PLACE 9u    /* where %n stores: an integer of `length` bytes */
#define GPUFS_ARGUMENT_WIDE_PLACE 10u /* C's int *, which is wchar_t * too: for %n and %ls */

/* One target of a format that reads, with its type. The macros and templates of <gpufs/scan.h> make them. */
typedef struct gpufs_scan_target {
    uint32_t kind;    /* GPUFS_TARGET_... */
    uint32_t length;  /* of text: its elements, UINT32_MAX if nobody knows; otherwise not used */
    uint64_t address; /* of the value */
} gpufs_scan_target;

GPUFS_SIZE_(gpufs_scan_target, 16);
GPUFS_OFFSET_(gpufs_scan_target, kind, 0);
GPUFS_OFFSET_(gpufs_scan_target, length, 4);
GPUFS_OFFSET_(gpufs_scan_target, address, 8);

/* A file that the host mapped (gpufs_host_map), for <gpufs/view.h>. */
typedef struct gpufs_mapping {
    uint64_t number_;
} gpufs_mapping;

GPUFS_SIZE_(gpufs_mapping, 8);

#define GPUFS_TARGET_INT16 1u
#define GPUFS_TARGET_INT64 3u
#define GPUFS_TARGET_FLOAT 4u
#define GPUFS_TARGET_DOUBLE 5u
#define GPUFS_TARGET_EXTENDED 6u /* long double of 80 bits */
#define GPUFS_TARGET_POINTER 7u  /* for %p, and for the memory of %m */
#define GPUFS_TARGET_BYTES 10u   /* one character, or text */
#define GPUFS_TARGET_WORDS 11u   /* an int, or wide characters */
#define GPUFS_TARGET_ANY 12u     /* what the conversion stores */

#ifdef __cplusplus

namespace gpufs {

/* The result of a call: C's return value, and the error number with it. See "Errors" in <gpufs/gpufs.h>. */
template <class T>
class Result {
  public:
    GPUFS_BOTH constexpr Result(T value, int error) : value_(value), error_(error) {}
    GPUFS_BOTH constexpr operator T() const { return value_; }
    /* What the C function of the same name returns. */
    GPUFS_BOTH constexpr T value() const { return value_; }
    /* The error number (errno(3)), 0 if the call succeeded. */
    GPUFS_BOTH constexpr int error() const { return error_; }

  private:
    T value_;
    int error_;
};

/* A session as a kernel holds it: the first argument of the standard names that have no stream. A gpufs_session
 * pointer converts to it. */
class Session {
  public:
    GPUFS_BOTH constexpr Session(gpufs_session *tables) : tables_(tables) {}
    GPUFS_BOTH constexpr operator gpufs_session *() const { return tables_; }

  private:
    gpufs_session *tables_;
};

} /* namespace gpufs */

/* The return type of a call: in C the type itself. */
#define GPUFS_RESULT(type) ::gpufs::Result<type>
#else
#define GPUFS_RESULT(type) type
#endif

#endif

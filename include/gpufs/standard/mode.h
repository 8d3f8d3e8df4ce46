/* What the headers of this folder share. Sources do not include it.
 *
 * Three ways to compile a source, and what a standard name is in each:
 *
 *   for CPU lanes     a C library's header is read with its functions under other names (stdio_hide.h); then a static
 *                     function of the standard name calls gpufs. Types and constants are the C library's: a FILE is
 *                     never looked into, and holds a handle's address.
 *   for a GPU alone   (clang, --target=nvptx64-nvidia-cuda or amdgcn-amd-amdhsa) the same functions; types and
 *                     constants are Linux's for x86-64, from <gpufs/standard/types.h>.
 *   CUDA and HIP      one file is compiled for both sides. A name is a macro, called as a function. On the host it is the
 *                     C library's function, in a kernel it calls gpufs.
 */
#ifndef GPUFS_STANDARD_MODE_H
#define GPUFS_STANDARD_MODE_H

#pragma GCC system_header

#include <stdarg.h>

/* The C library's headers that those of gpufs include are read here, and not again while these are. */
#if !defined(__CUDACC__) && !defined(__HIP__) && !defined(__NVPTX__) && !defined(__AMDGCN__)
#define GPUFS_READING_C_LIBRARY_
#include <gpufs/standard/files_hide.h>
#include <stdlib.h>
#ifdef __cplusplus
#include <sys/stat.h>
#endif
#include <gpufs/standard/files_show.h>
#undef GPUFS_READING_C_LIBRARY_
#endif
#define GPUFS_IN_MODE_
#include <gpufs/dirent.h>
#include <gpufs/file.h>
#include <gpufs/memory.h>
#include <gpufs/pipe.h>
#include <gpufs/service.h>
#include <gpufs/stdio.h>
#include <gpufs/stat.h>
#undef GPUFS_IN_MODE_

#if defined(__CUDACC__) || defined(__HIP__)
#define GPUFS_DROP_IN_SPLIT_ 1
#elif GPUFS_ON_DEVICE
#define GPUFS_DROP_IN_GPU_ 1
#else
#define GPUFS_DROP_IN_HOST_ 1
#endif

/* What the source asks for, by the macros of feature_test_macros(7): GPUFS_WITH_POSIX_ for POSIX.1-2008, GPUFS_WITH_GNU_ for
 * the extensions of BSD and GNU. */
#if defined(__GLIBC__)
#if defined(__USE_XOPEN2K8)
#define GPUFS_WITH_POSIX_ 1
#endif
#if defined(__USE_MISC) || defined(__USE_GNU)
#define GPUFS_WITH_GNU_ 1
#endif
#else
#if !defined(__STRICT_ANSI__) || defined(_POSIX_C_SOURCE) || defined(_XOPEN_SOURCE) || defined(_DEFAULT_SOURCE) || \
    defined(_BSD_SOURCE) || defined(_GNU_SOURCE) || defined(__cplusplus)
#define GPUFS_WITH_POSIX_ 1
#endif
#if !defined(__STRICT_ANSI__) || defined(_DEFAULT_SOURCE) || defined(_BSD_SOURCE) || defined(_GNU_SOURCE) || \
    defined(__cplusplus)
#define GPUFS_WITH_GNU_ 1
#endif
#endif

/* On a GPU the names with 64 are there where a source asks for GNU's: offsets have 64 bits with each name. */
#if !defined(__GLIBC__) && !defined(__USE_LARGEFILE64) && (defined(_GNU_SOURCE) || defined(_LARGEFILE64_SOURCE))
#define __USE_LARGEFILE64 1
#endif

/* LLVM takes a function of a C library's name for that one, also a static one, and makes a call of puts of one of printf. By
 * then it may have made the static puts one for the arguments of the calls that it had seen: it printed another text. So
 * what the functions are called in its code is another name. */
#if defined(__clang__) && defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_OWN_NAME_(name) __asm__("gpufs_standard_" #name)
#else
#define GPUFS_OWN_NAME_(name)
#endif

/* GPUFS_STANDARD_(type, name, (parameters), (arguments), body): a standard function. */
#if defined(GPUFS_DROP_IN_SPLIT_) && GPUFS_ON_DEVICE
#define GPUFS_STANDARD_(type, name, parameters, arguments, ...) \
    static __inline__ GPUFS_BOTH type gpufs_standard_##name parameters { __VA_ARGS__ }
#elif defined(GPUFS_DROP_IN_SPLIT_)
#define GPUFS_STANDARD_(type, name, parameters, arguments, ...) \
    static __inline__ GPUFS_BOTH type gpufs_standard_##name parameters { return ::name arguments; }
#elif defined(__cplusplus)
#define GPUFS_STANDARD_(type, name, parameters, arguments, ...) \
    extern "C" {                                                \
    static __inline__ type name parameters GPUFS_OWN_NAME_(name); \
    static __inline__ type name parameters { __VA_ARGS__ }          \
    }
#else
#define GPUFS_STANDARD_(type, name, parameters, arguments, ...) \
    static __inline__ type name parameters GPUFS_OWN_NAME_(name); \
    static __inline__ type name parameters { __VA_ARGS__ }
#endif

/* A function of the C library's that gpufs has not. A source that calls it does not compile, nor where the compiler would
 * declare the function by itself: the C library's would take what is the session's for its own. */
#if defined(GPUFS_DROP_IN_HOST_) && !defined(__cplusplus)
#define GPUFS_MISSING_(type, name) type name() __attribute__((error("gpufs has no " #name)));
#else
#define GPUFS_MISSING_(type, name)
#endif

/* A standard function that no GPU's kernel needs in CUDA and HIP files: variadic ones, which have templates there. */
#if defined(GPUFS_DROP_IN_SPLIT_)
#define GPUFS_STANDARD_PLAIN_(type, name, parameters, ...)
#else
#define GPUFS_STANDARD_PLAIN_(type, name, parameters, ...) GPUFS_STANDARD_(type, name, parameters, (), __VA_ARGS__)
#endif

/* The value of a call, whose error goes to errno. */
#if defined(__cplusplus) && GPUFS_ON_DEVICE
template <class T>
static __inline__ GPUFS_BOTH T gpufs_value_(gpufs::Result<T> result) {
    if (result.error() != 0) {
        *gpufs_raw_errno() = result.error();
    }
    return result.value();
}
#elif defined(__cplusplus)
template <class T>
static __inline__ GPUFS_BOTH T gpufs_value_(gpufs::Result<T> result) {
    return result.value();
}
#else
#define gpufs_value_(result) (result)
#endif

/* Stores an error of a call that gpufs has no part in. */
GPUFS_INLINE void gpufs_set_errno_(int error) {
#if GPUFS_ON_DEVICE
    *gpufs_raw_errno() = error;
#else
    errno = error;
#endif
}

/* The session in use. Without one, calls fail with EINVAL, those on standard streams with EBADF, and the first such call
 * says so: on CPU lanes on the standard error, on an NVIDIA GPU by CUDA's own printing. */
GPUFS_INLINE gpufs_session *gpufs_used_(void) { return gpufs_raw_used_session(); }

#endif

/* <wchar.h> of sources that know nothing of gpufs: wide characters, without wide streams, which gpufs does not have. */
#ifndef GPUFS_STANDARD_WCHAR_H
#define GPUFS_STANDARD_WCHAR_H

#include <gpufs/standard/mode.h>

#pragma GCC system_header

/* <cwchar> names them all. */
#if defined(GPUFS_DROP_IN_HOST_) && !defined(__cplusplus)
#define GPUFS_READING_C_LIBRARY_
#include <gpufs/standard/wide_hide.h>
#include <wchar.h>
#include <gpufs/standard/wide_show.h>
#undef GPUFS_READING_C_LIBRARY_
#elif defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_READING_C_LIBRARY_
#include <wchar.h>
#undef GPUFS_READING_C_LIBRARY_
#endif

/* A stream is one of bytes, whatever is asked for. */
#if defined(GPUFS_DROP_IN_HOST_) && defined(__GLIBC__) && !defined(__cplusplus)
GPUFS_STANDARD_(int, fwide, (__FILE *file, int mode), (file, mode),
                return gpufs_fwide((gpufs_file *)(void *)file, mode);)
#endif

#endif
